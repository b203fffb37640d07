"""Lets pointwise operators run on the parts of what is joined or cut, so that neither stands between two kernels.

Note [What is joined]
    A kernel computes one box of points, and the parts of a `cat` are several. So the operators that read a `cat` run
    on its parts, and what they give is joined at the end, where each part is written into its slice of the result:

        %0 : Float(8, 3) = aten::tanh(%x)                     %0 : Float(8, 3) = aten::tanh(%x)
        %1 : Float(8, 8) = aten::cat[dim=1]([%0, %y])         %1 : Float(8, 3) = aten::narrow[dim=1, ...](%z)
        %2 : Float(8, 8) = aten::mul(%1, %z)                  %2 : Float(8, 5) = aten::narrow[dim=1, ...](%z)
                                                              %3 : Float(8, 3) = aten::mul(%0, %1)
                                                              %4 : Float(8, 5) = aten::mul(%y, %2)
                                                              %5 : Float(8, 8) = aten::cat[dim=1]([%3, %4])

    The gradient of a slice is a `cat`, too: of zeros, the gradient, and zeros. A sum of such gradients joins what they
    have at each place; `g + 0` stays there, because it makes 0.0 of -0.0.

Note [What is cut]
    The other way round a view that shows a part of what is computed is moved up: the part is computed from the same
    parts of the operands, which are views of memory in the end, and cost nothing.

        %0 : Float(8, 6) = aten::tanh(%x)                     %1, %2 = aten::chunk[chunks=2, dim=1](%x)
        %1, %2 = aten::chunk[chunks=2, dim=1](%0)             %3 : Float(8, 3) = aten::tanh(%1)
        %3 : Float(8, 3) = aten::mul(%1, %2)                  %4 : Float(8, 3) = aten::tanh(%2)
                                                              %5 : Float(8, 3) = aten::mul(%3, %4)

    That is done if nobody needs the whole, if kernels compute with all parts, and if no element is computed twice, or
    what is computed twice takes less than the pass over memory that it saves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jit.ir import Graph, Node, TensorType, Value, find, kernel_of
from jit.ir.attempts import may_raise
from jit.ops.joining import cat as joining

from .support.builder import GraphBuilder
from .support.fusable import Supported, is_fusable, is_known, is_row_major, is_special
from .support.pieces import Cut, PieceCutter, copy_of_part, cuts_of, leaves_stage, marked, readers, take_over
from .support.spaces import argument, arguments, dims_along, form_of, is_cast, is_gather, is_join, is_view, sizes_of

JOIN = joining.name
MOST_PARTS = 16
"""The largest number of parts that an operator runs on: every part of another size is a kernel of its own."""
RECOMPUTE_BUDGET = 8
"""The most instructions for each element that computing it again may take: about what a pass over memory takes."""


def distribute(graph: Graph, supported: Supported = lambda node: True) -> bool:
    """Move joins behind and cuts in front of pointwise operators; says whether there was anything to do.

    Args:
        graph: Any graph.
        supported: As for `fuse`.
    """
    joins = _Joins(graph, supported)
    joined = joins.run()
    return _Cuts(graph, supported).run() or joined


def obstacles(graph: Graph, supported: Supported) -> dict[tuple[Node, Node], str]:
    """Why joins and cuts that are left stand between operators, by (what is joined or cut, who reads it)."""
    joins, cuts = _Joins(graph, supported), _Cuts(graph, supported)
    found: dict[tuple[Node, Node], str] = {}
    for node in graph.nodes:
        if is_join(node):
            reason = joins.refusal(node)
            read = [use.node for use in node.output.uses if reason and joins.runs.on_joined(use.node)]
            found.update(((node, reader), reason) for reader in read if reason)
        elif cuts.parts_of(node):
            reason = cuts.refusal(node)
            read = readers(value for value, _ in cuts.parts_of(node))
            found.update(((node, reader), reason) for reader in read if reason)
    return found


class _Runs:
    """Whether an operator can run on parts of its operands: it is pointwise, and there is a kernel for it."""

    def __init__(self, supported: Supported) -> None:
        self.supported = supported
        self._known: dict[Node, bool] = {}

    def __call__(self, node: Node) -> bool:
        if node not in self._known:
            op = find(node.kind)
            pointwise = op is not None and op.kind == "pointwise" and len(node.outputs) == 1
            self._known[node] = (pointwise or is_cast(node)) and is_fusable(node, self.supported)
        return self._known[node]

    def on_joined(self, node: Node) -> bool:
        """Whether it can run on parts of what is joined: so can a batch norm by fixed statistics, too."""
        return self(node) or (_is_fixed_norm(node) and is_fusable(node, self.supported))


def _is_fixed_norm(node: Node) -> bool:
    fixed = form_of(node) == "point" and kernel_of(node.kind).terms is not None
    return fixed and not any(value.uses for value in node.outputs[1:])


# -- joins -------------------------------------------------------------------------------------------------------


@dataclass
class _Joined:
    """A value that is known by its parts, which lie one after the other along a dim."""

    dim: int
    parts: list[tuple[Value | None, int]]
    """The parts, each with its length; None for a part of zeros."""

    @property
    def starts(self) -> list[int]:
        """The beginning of each part, and the end of the last one."""
        return [0, *itertools.accumulate(length for _, length in self.parts)]

    def find(self, start: int) -> tuple[Value | None, int, int]:
        """The part at a place: (itself, where it begins, its length)."""
        for (part, length), first in zip(self.parts, self.starts):
            if start < first + length:
                return part, first, length
        raise IndexError(start)


class _Joins:
    """See Note [What is joined]."""

    def __init__(self, graph: Graph, supported: Supported) -> None:
        self.graph, self.runs = graph, _Runs(supported)
        self.cutter = PieceCutter(graph)
        self.joined: dict[Value, _Joined] = {}
        self.moved: list[Node] = []
        """Nodes whose results are known by parts."""
        self._without_minus_zero: set[Value] = set()

    def run(self) -> bool:
        """Whether there was anything to do."""
        for node in list(self.graph.nodes):
            joined = self._joined(node)
            if joined is not None:
                self.joined[node.outputs[0]] = joined
            if joined is not None and not is_join(node):
                self.moved.append(node)
        for node in reversed(self.moved):
            self._replace(node)
        for value in list(self.joined):
            if is_join(value.node) and value.node.graph is not None and not value.uses:
                value.node.erase()
        return bool(self.moved)

    def _joined(self, node: Node) -> _Joined | None:
        if is_join(node):
            return None if self.refusal(node) else _parts(node)
        if kernel_of(node.kind).placed is not None:
            return self._scattered(node)
        read = node.inputs[:1] if _is_fixed_norm(node) else node.inputs
        given = [value for value in dict.fromkeys(read) if value in self.joined]
        given = [value for value in given if value.node.stage == node.stage]  # parts may change before the next one
        if not given or not self.runs.on_joined(node):
            return None
        scattered = any(part is None for value in given for part, _ in self.joined[value].parts)
        if scattered and not _adds(node) or not scattered and node not in self.wanted:
            return None
        return self._pushed(node, given)

    # -- what is worth it ----------------------------------------------------------------------------------------

    @cached_property
    def wanted(self) -> set[Node]:
        """Pointwise nodes whose results are stored, or go where they are stored: not into a reduction alone."""
        found: set[Node] = set()
        for node in self.graph.reversed_nodes:
            if self.runs.on_joined(node) and (leaves_stage(node.outputs[0]) or self._is_stored(node, found)):
                found.add(node)
        return found

    def _is_stored(self, node: Node, wanted: set[Node]) -> bool:
        read = readers(node.outputs[:1])
        return any(r in wanted or not (is_special(r) or self.runs.on_joined(r)) for r in read)

    def refusal(self, cat: Node) -> str | None:
        """Why what reads a `cat` does not run on its parts."""
        joined = _parts(cat)
        if joined is None:
            return "its parts have other dtypes than the result, or at most one of them has elements"
        if len(joined.parts) > MOST_PARTS:
            return (
                f"it joins {len(joined.parts)} parts, and each could be a kernel of its own: {MOST_PARTS} are the limit"
            )
        users = [use.node in self.wanted and use.node.stage == cat.stage for use in cat.output.uses]
        if not any(users):
            return "what is joined is reduced, or read by no pointwise operator whose result is stored"
        makers = [_shown(part).node for part, _ in joined.parts if part is not None]
        in_one_piece = math.prod(sizes_of(cat.output)[: joined.dim]) == 1
        if in_one_piece and all(kernel_of(maker.kind).product for maker in makers):
            return "its parts are products, which are computed into their slices of it"
        if not all(users) and not all(self.runs(m) for m in makers):
            return "what is joined is needed in memory, too, and so are its parts"
        return None

    # -- by parts ------------------------------------------------------------------------------------------------

    def _scattered(self, node: Node) -> _Joined | None:
        """The gradient of a slice: zeros, what it is given, zeros."""
        cut = _slice_of(node)
        if cut is None:
            return None
        gradient, size = node.inputs[0], sizes_of(node.output)[cut.dim]
        if not cut.keeps:
            with self.graph.inserting_before(node):
                F = GraphBuilder(self.graph, node.stage)
                gradient = marked(F.unsqueeze(F.wrap(gradient), cut.dim).value, node)
        parts = [(None, cut.start), (gradient, cut.length), (None, size - cut.start - cut.length)]
        return _Joined(cut.dim, [part for part in parts if part[1]])

    def _pushed(self, node: Node, given: Sequence[Value]) -> _Joined | None:
        """The result of a pointwise node, run on the parts of all operands that are joined along the same dim."""
        sizes = sizes_of(node.outputs[0])
        along = {value: self.joined[value].dim + len(sizes) - len(sizes_of(value)) for value in given}
        dim = along[given[0]]
        given = [value for value in given if along[value] == dim]
        bounds = sorted({start for value in given for start in self.joined[value].starts})
        most = MOST_PARTS if not _adds(node) else 16 * MOST_PARTS
        if len(bounds) > most + 1 or bounds[-1] != sizes[dim]:
            return None
        cuts = [Cut(dim, start, stop - start) for start, stop in itertools.pairwise(bounds)]
        return _Joined(dim, [(self._part(node, cut, given), cut.length) for cut in cuts])

    def _part(self, node: Node, cut: Cut, given: Sequence[Value]) -> Value | None:
        """The result of a node at one part; None for zeros."""
        operands: dict[Value, Value | int] = {}
        for value in dict.fromkeys(node.inputs):
            part = self._operand(value, cut, node) if value in given else self._cut(value, cut, node)
            operands[value] = 0 if part is None else part
        there = [part for part in operands.values() if isinstance(part, Value)]
        if not there:
            return None
        if len(there) < len(operands) and there[0] in self._without_minus_zero and _is_plain_sum(node):
            return there[0]
        result = copy_of_part(self.cutter, node, operands, cut.of(sizes_of(node.outputs[0])), node)
        if len(there) < len(operands):
            self._without_minus_zero.add(result)
        return result

    def _operand(self, value: Value, cut: Cut, node: Node) -> Value | None:
        """A part of what is joined."""
        joined = self.joined[value]
        part, first, length = joined.find(cut.start)
        if part is None or length == cut.length:
            return part
        inner = Cut(joined.dim, cut.start - first, cut.length)
        return self.cutter.part(part, inner, len(sizes_of(part)), node)

    def _cut(self, value: Value, cut: Cut, node: Node) -> Value:
        """The part of another operand that belongs to a part of the result."""
        along = dims_along(node).get(value)
        if along is not None:  # such as one number for each channel
            at = [number for number, dim in enumerate(along) if dim == cut.dim]
            return self.cutter.part(value, cut._replace(dim=at[0]), len(along), node) if at else value
        return self.cutter.part(value, cut, len(sizes_of(node.outputs[0])), node)

    def _replace(self, node: Node) -> None:
        """Join the parts of what somebody reads as a whole."""
        if node.outputs[0].uses:
            joined = self.joined[node.outputs[0]]
            parts = [self._zeros(node, joined.dim, n) if part is None else part for part, n in joined.parts]
            with self.graph.inserting_before(node):
                cat = self.graph.add(JOIN, (tuple(parts),), {"dim": joined.dim}, [node.outputs[0].type])
            cat.stage = node.stage
            node.outputs[0].replace_all_uses_with(marked(cat.output, node))
        node.erase()

    def _zeros(self, node: Node, dim: int, length: int) -> Value:
        sizes = Cut(dim, 0, length).of(sizes_of(node.outputs[0]))
        type = node.outputs[0].type
        assert isinstance(type, TensorType)
        with self.graph.inserting_before(node):
            F = GraphBuilder(self.graph, node.stage)
            zeros: Value = F.zeros(sizes, dtype=type.dtype, device=type.device).value
        return marked(zeros, node)


def _parts(cat: Node) -> _Joined | None:
    """The parts of a `cat` of one dtype that have elements."""
    if not all(is_known(value.type) for value in (*cat.inputs, cat.output)) or not is_row_major(cat.output.type):
        return None
    parts, dim = arguments(cat)[1]
    type, sizes = cat.output.type, sizes_of(cat.output)
    if not sizes or any(part.type.dtype is not type.dtype for part in parts):  # type: ignore[attr-defined]
        return None
    there = [(part, sizes_of(part)[dim]) for part in parts if 0 not in sizes_of(part)]
    return _Joined(dim % len(sizes), there) if len(there) > 1 else None


def _slice_of(node: Node) -> Cut | None:
    """The slice that a gradient of a slice fills, if its sizes are known and it is not the whole result."""
    placed = kernel_of(node.kind).placed
    op, values = arguments(node)
    attributes = [number for value in values[1:] for number in (value if isinstance(value, tuple) else [value])]
    if not all(type(number) in (int, type(None)) for number in attributes) or not all(map(is_known, _types(node))):
        return None
    gradient, whole = _types(node)
    assert placed is not None and whole.sizes is not None
    cut = Cut(*op.ask(placed, values))
    length, size = cut.length, whole.sizes[cut.dim]
    same = gradient.dtype is whole.dtype and gradient.sizes == cut.of(whole.sizes) and is_row_major(whole)
    return cut if same and cut.step == 1 and length < size and 0 not in (*whole.sizes, length) else None


def _types(node: Node) -> tuple[TensorType, TensorType]:
    """The types of the first operand and of the result."""
    first, result = node.inputs[0].type, node.output.type
    assert isinstance(first, TensorType) and isinstance(result, TensorType)
    return first, result


def _shown(value: Value) -> Value:
    """The value below all views: what `value` shows, or is."""
    while is_view(value.node):
        value = value.node.inputs[0]
    return value


def _adds(node: Node) -> bool:
    """Whether a node is a sum of two tensors of one dtype, from which zeros may be left out."""
    dtypes = {getattr(value.type, "dtype", None) for value in (*node.inputs, *node.outputs)}
    return node.kind == "aten::add" and len(node.inputs) == 2 and len(dtypes) == 1


def _is_plain_sum(node: Node) -> bool:
    return _adds(node) and argument(node, "alpha") == 1


# -- cuts --------------------------------------------------------------------------------------------------------


class _Cuts:
    """See Note [What is cut]."""

    def __init__(self, graph: Graph, supported: Supported) -> None:
        self.graph, self.supported, self.runs = graph, supported, _Runs(supported)
        self.cutter = PieceCutter(graph)
        self.recomputed: dict[Value, float] = {}
        """The instructions for each element of a value that the cuts so far have spent more than once."""

    def run(self) -> bool:
        """Whether there was anything to do."""
        changed = False
        work = list(self.graph.nodes)
        while work:
            node = work.pop()
            if node.graph is not None and self.parts_of(node) and self.refusal(node) is None:
                work += [value.node for value in self._cut(node)]
                changed = True
        return changed

    def parts_of(self, node: Node) -> list[tuple[Value, Cut]]:
        """The views that show parts of what a pointwise node computes, if nobody else of its stage reads it."""
        if len(node.outputs) != 1 or not any(is_view(use.node) for use in node.output.uses) or not self.runs(node):
            return []
        found = []
        for view in dict.fromkeys(use.node for use in node.output.uses if _is_within(use.node, node)):
            cuts = cuts_of(view)
            if cuts is None:
                return []
            found += [(value, cut) for value, cut in zip(view.outputs, cuts, strict=True) if value.uses]
        return found

    def refusal(self, node: Node) -> str | None:
        """Why a node does not compute parts of its result instead of the whole."""
        parts = self.parts_of(node)
        if may_raise(node):
            return "it may raise because of elements that no part shows"
        if leaves_stage(node.output) and not self._covers(node, parts):
            return "its result, or a part of it, is returned or needed in a backward"
        if not all(self._is_loop(reader) for reader in readers(v for v, _ in parts) if _is_within(reader, node)):
            return "a part of its result is read by what is no kernel of loops, so it has to be in memory"
        cuts = {cut for _, cut in parts}
        if len(cuts) > MOST_PARTS:
            return f"{len(cuts)} parts of its result are read: {MOST_PARTS} are the limit"
        if any(0 in cut.of(sizes_of(node.output)) for cut in cuts):
            return "a part of its result has no elements"
        if _demotes(node, cuts):
            return "a single number of an operand would count less in promotion than the operand does"
        if self._spent(node, cuts) > RECOMPUTE_BUDGET:
            return "parts of its result overlap, and computing them twice takes longer than reading them"
        if self._gathers(node, cuts):
            return "parts of its result take every n-th element, which is slow to read from several operands"
        return None

    def _is_loop(self, node: Node) -> bool:
        """Whether a kernel computes a node, whatever it reads."""
        return is_fusable(node, self.supported) and not is_gather(node)

    def _spent(self, node: Node, cuts: set[Cut]) -> float:
        """Instructions for each element that are spent more than once."""
        sizes = sizes_of(node.output)
        elements = sum(math.prod(cut.of(sizes)) for cut in cuts)
        more = max(elements / math.prod(sizes) - 1, 0)
        return self.recomputed.get(node.output, 0) + more * kernel_of(node.kind).cost

    def _gathers(self, node: Node, cuts: set[Cut]) -> bool:
        """Whether elements that do not lie side by side would be read from more than two arrays."""
        last = len(sizes_of(node.output)) - 1
        apart = any(cut.dim == last and (cut.step != 1 or not cut.keeps) for cut in cuts)
        large = [value for value in dict.fromkeys(node.inputs) if sizes_of(value)[-1:] == sizes_of(node.output)[-1:]]
        return apart and len(large) > 2

    def _covers(self, node: Node, parts: Sequence[tuple[Value, Cut]]) -> bool:
        """Whether parts are the whole, one after the other, and each is read at all of its points: see `_rejoin`."""
        if any(is_view(use.node) for value, _ in parts for use in value.uses if _is_within(use.node, node)):
            return False
        cuts, sizes = sorted({cut for _, cut in parts}), sizes_of(node.output)
        starts = [0, *itertools.accumulate(cut.length for cut in cuts)]
        follow = all((cut.dim, cut.start) == (cuts[0].dim, start) for cut, start in zip(cuts, starts))
        if not follow or starts[-1] != sizes[cuts[0].dim] or any(cut.step != 1 or not cut.keeps for cut in cuts):
            return False
        return all(any(self._reads_all(use.node, value) for use in value.uses) for value, _ in parts)

    def _reads_all(self, reader: Node, value: Value) -> bool:
        near = reader.stage == value.node.stage and self.runs(reader)
        return near and sizes_of(reader.output) == sizes_of(value)

    def _cut(self, node: Node) -> list[Value]:
        """Compute the parts."""
        parts, sizes = self.parts_of(node), sizes_of(node.output)
        spent = self._spent(node, {cut for _, cut in parts})
        for value in node.inputs:
            self.recomputed[value] = max(self.recomputed.get(value, 0), spent)
        made: dict[Cut, Value] = {}
        for _, cut in parts:
            if cut not in made:
                operands = {v: self.cutter.part(v, cut, len(sizes), node) for v in dict.fromkeys(node.inputs)}
                made[cut] = copy_of_part(self.cutter, node, dict(operands), cut.of(sizes), node)
                self.recomputed[made[cut]] = spent
        if leaves_stage(node.output):
            self._rejoin(node, made)
        else:
            for value, cut in parts:
                take_over(value, made[cut])
            for view in {use.node for use in node.output.uses}:
                view.erase()
        node.erase()
        return list(made.values())

    def _rejoin(self, node: Node, made: dict[Cut, Value]) -> None:
        """Join parts at the end of the stage for those who need the whole later, or views of it.

        %1 = aten::tanh(%x)                              %4 = aten::tanh(%x0)
        %2, %3 = aten::chunk[chunks=2, dim=1](%1)        %5 = aten::tanh(%x1)
        %6 = aten::mul(%2, %3)                           %6 = aten::mul(%4, %5)
        return (%6, %1)                                  %1 = aten::cat[dim=1]([%4, %5])
                                                         return (%6, %1)
        """
        end = next((other for other in self.graph.nodes if other.stage > node.stage), None)
        with self.graph.inserting_before(end):
            values = tuple(made[cut] for cut in sorted(made))
            cat = self.graph.add(JOIN, (values,), {"dim": next(iter(made)).dim}, [node.output.type])
        cat.stage = node.stage
        marked(cat.output, node)
        for value, cut in self.parts_of(node):
            for use in list(value.uses):
                if _is_within(use.node, node):
                    use.node.inputs[use.index] = made[cut]
        for view in dict.fromkeys(use.node for use in node.output.uses if _is_within(use.node, node)):
            if any(value.uses for value in view.outputs):
                view.move_before(end)
            else:
                view.erase()
        node.output.replace_all_uses_with(cat.output)


def _demotes(node: Node, cuts: set[Cut]) -> bool:
    """Whether a cut could change the dtype: an operand of one dim becomes one of none, beside those of other dtypes."""
    mixed = len({getattr(value.type, "dtype", None) for value in node.inputs}) > 1
    return mixed and any(not cut.keeps for cut in cuts) and any(len(sizes_of(v)) == 1 for v in node.inputs)


def _is_within(reader: Node, node: Node) -> bool:
    """Whether a node reads another one in its own stage."""
    return reader.stage == node.stage and reader.kind != "prim::Return"
