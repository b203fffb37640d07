"""The iteration space of a fusion group: which axis each dim of each value runs along, and which axes are reduced.

The pass `fuse` asks it which nodes may join a group; the runtime asks it again how the group's body becomes a nest.
Both admit nodes from the last to the first, so both get the same answers.

Note [Axes from the end]
    A group's last node spans the space: the dims of its result are the axes 0, 1, ... From there on every consumer
    says along which axes it reads an operand, and a producer joins only if all of its consumers agree. For

        %1 : Float(8, 1) = aten::mean[dim=[1], keepdim=True](%x)       # x: Float(8, 32)
        %2 : Float(8, 32) = aten::sub(%x, %1)

    `sub` spans the axes (0, 1) and reads %1 along (0, -); `mean` reduces a dim of 32 that it is asked to read at the
    place of axis 1: axis 1 is the row, and %x is read along (0, 1) by both. For %2 = neg(%1) with %1 = sum(%x) over
    dim 1 of (8, 32), `neg` spans axis 0, and `sum` adds axis 1. All reductions of a group reduce the same axes, and
    none is computed more than once: what it leaves must run along all other axes.

Note [Axes that consist of others]
    A reshape takes dims apart or puts them together. Its operand is then read along the same axes, several of them for
    one dim or parts of one for several dims. For

        %1 : Float(8, 2, 3) = aten::view[size=[8, 2, 3]](%x)           # x: Float(8, 6), computed by the group
        %2 : Float(8, 2, 3) = aten::neg(%1)

    `neg` spans the axes (0, 1, 2), and x is read along (0, 3), where axis 3 consists of 1 and 2: `inside[3] == (1, 2)`.
    The other way round axis 1 of size 6 comes to consist of two new ones. Loops run along the axes that consist of no
    others. A group norm takes its channels apart in the same way: the outer part tells groups, the inner one is
    part of the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jit.ir import Node, Op, TensorType, Value, find, kernel_of
from jit.ir.errors import Error
from jit.ir.geometry import Geometry, wrap_dims
from jit.ir.kernel import GROUP, ROWS
from jit.ir.sizes import are_decided, estimating
from jit.ir.types import UNDEFINED

Axes = tuple[int | None, ...]
"""Per dim of a value the axis that it runs along; None for dims of size 1 and for what is repeated along a dim."""

FEW_ROWS, LONG_ROW = 4, 1 << 16
"""A reduction of fewer than `FEW_ROWS` rows, each of at least `LONG_ROW` elements, is not fused with what follows."""


class SpaceDeclined(Exception):
    """The reason why a node does not join a group."""


def arguments(node: Node) -> tuple[Op, list[Any]]:
    """The op of a node and its schema-ordered arguments, with Values for tensors."""
    op = find(node.kind)
    assert op is not None
    return op, op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()})


def argument(node: Node, name: str, default: Any = None) -> Any:
    """One argument of a node by name."""
    op, values = arguments(node)
    return values[op.schema.argument_names.index(name)] if name in op.schema.argument_names else default


def sizes_of(value: Value) -> tuple[int, ...]:
    """The sizes of a value whose type is known."""
    assert isinstance(value.type, TensorType) and value.type.sizes is not None
    return value.type.sizes


def told(node: Node, function: Callable[..., Any]) -> Any:
    """The answer of a function of an operator's kernel to the arguments of a node; tensors are their types."""
    op, values = arguments(node)
    return op.ask(function, [value.type if isinstance(value, Value) else value for value in values])


def form_of(node: Node) -> str:
    """The form that loops give to a node: one of `jit.ir.kernel.FORMS`, or ""."""
    form = kernel_of(node.kind).form
    return form if isinstance(form, str) else told(node, form)


def is_cast(node: Node) -> bool:
    """True for a copy in another dtype that changes nothing else."""
    return form_of(node) == "cast" and len(node.inputs) == 1


def is_join(node: Node) -> bool:
    """True for what puts its operands one after the other."""
    return kernel_of(node.kind).form == "join"


def is_gather(node: Node) -> bool:
    """True for what picks rows by their numbers."""
    return kernel_of(node.kind).form == "gather"


def is_made_up(node: Node) -> bool:
    """True for what follows from the positions of elements alone: a range, an identity, one number everywhere."""
    return kernel_of(node.kind).form == "positions" and not node.inputs


def is_view(node: Node) -> bool:
    """True for views whose elements are those of one input, in its dtype."""
    op = find(node.kind)
    return op is not None and op.kind == "view" and op.result is None and len(node.inputs) == 1


def main_output(node: Node) -> Value:
    """The result that says how a node is read: the first one that there is."""
    mask = argument(node, "output_mask")
    return node.outputs[0] if mask is None else next(v for v, there in zip(node.outputs, mask) if there)


def has_rows(node: Node) -> bool:
    """Whether what a reduction, a norm or an embedding reads has dims and elements; a number or nothing has no rows."""
    return bool(sizes_of(node.inputs[0])) and not any(0 in sizes_of(v) for v in node.inputs)


def reduced_dims(node: Node) -> tuple[int, ...]:
    """The dims of its first operand that a reduction or norm reduces, or that a scan runs along.

    Those of a group norm hold a part of dim 1 besides; see `row_length`.
    """
    reduces = kernel_of(node.kind).reduces
    if reduces is not None:
        return tuple(told(node, reduces))
    return tuple(sorted(wrap_dims(argument(node, "dim"), len(sizes_of(node.inputs[0])))))


def row_length(node: Node) -> int:
    """The number of elements that are reduced to one."""
    sizes, groups = sizes_of(node.inputs[0]), kernel_of(node.kind).groups
    count = math.prod(sizes[d] for d in reduced_dims(node))
    return count if groups is None or form_of(node) == "reduction" else count * (sizes[1] // int(told(node, groups)))


def dims_along(node: Node) -> dict[Value, tuple[int | str, ...]]:
    """Along which dims of the first operand those of operands run that are not broadcast."""
    along = kernel_of(node.kind).along
    if not along:
        return {}
    op, values = arguments(node)
    named = zip(op.schema.argument_names, values, strict=True)
    return {value: along[name] for name, value in named if name in along and isinstance(value, Value)}


class IterationSpace:
    """The axes of the group that `last` ends."""

    def __init__(self, last: Node) -> None:
        self.last = last
        frame = sizes_of(last.inputs[0] if is_join(last) else main_output(last))
        self.frame = frame
        """The sizes that the last node spans."""
        self.extents = list(frame)
        self.inside: dict[int, tuple[int, ...]] = {}
        """The parts of axes that consist of others, outermost first."""
        self.reduced: tuple[int, ...] | None = None
        """The axes of a row, those of size 1 left out; None if nothing is reduced."""
        self.scans = False
        """Whether something runs along the row, which then is one axis."""
        self.axes: dict[Value, Axes] = {}
        """The axes of values that members make."""
        self.demands: dict[tuple[Node, Value], Axes] = {}
        """Along which axes a member reads an operand."""
        self.members: set[Node] = set()
        self.in_memory: set[Value] = set()
        """Operands that must be in memory when the group runs."""

    @property
    def parallel(self) -> list[int]:
        """The axes that are not reduced."""
        return [a for a in range(len(self.extents)) if a not in (self.reduced or ()) and a not in self.inside]

    @property
    def wide(self) -> set[int]:
        """The axes of loops of more than one turn."""
        return {a for a, extent in enumerate(self.extents) if extent != 1 and a not in self.inside}

    def leaves(self, axes: Iterable[int | None]) -> list[int]:
        """The axes of loops that `axes` consist of, in order; those of one turn are left out."""
        found = []
        for axis in axes:
            if axis in self.inside:
                found += self.leaves(self.inside[axis])
            elif axis is not None and self.extents[axis] != 1:
                found.append(axis)
        return found

    def fit(self, leaves: Sequence[int], sizes: Sequence[int]) -> list[int | None]:
        """Dims of `sizes` along `leaves`, one after the other; an axis may come to consist of two new ones."""
        found: list[int | None] = []
        left = list(leaves)
        for size in sizes:
            taken, product = [], 1
            while 0 < product < size and left:
                leaf, wanted = left.pop(0), size // product
                if self.extents[leaf] > wanted and self.extents[leaf] % wanted == 0 and wanted > 1:
                    leaf, rest = self._cut(leaf, wanted)
                    left.insert(0, rest)
                taken.append(leaf)
                product *= self.extents[leaf]
            if product != size:
                raise SpaceDeclined("it reshapes dims in a way that loops cannot follow")
            found.append(self._together(taken))
        if left:
            raise SpaceDeclined("it reshapes dims in a way that loops cannot follow")
        return found

    def _cut(self, axis: int, outer: int) -> tuple[int, int]:
        """Let an axis consist of two new ones, the first of extent `outer`."""
        parts = len(self.extents), len(self.extents) + 1
        self.extents += [outer, self.extents[axis] // outer]
        self.inside[axis] = parts
        if self.reduced is not None and axis in self.reduced:
            self.reduced = tuple(self.leaves(self.reduced))
            self._check_scans()
        return parts

    def _check_scans(self) -> None:
        if self.scans and len(self.reduced or ()) > 1:
            raise SpaceDeclined("what runs along a row would run along several dims")

    def _together(self, leaves: Sequence[int]) -> int | None:
        """The axis that consists of these."""
        if len(leaves) < 2:
            return leaves[0] if leaves else None
        known = next((axis for axis, parts in self.inside.items() if parts == tuple(leaves)), None)
        if known is not None:
            return known
        self.extents.append(math.prod(self.extents[leaf] for leaf in leaves))
        self.inside[len(self.extents) - 1] = tuple(leaves)
        return len(self.extents) - 1

    # -- admission -----------------------------------------------------------------------------------------------

    def admit(self, node: Node, leaving: Sequence[Value] = ()) -> None:
        """Let `node` be a member, of whose results `leaving` are stored; SpaceDeclined says why it cannot be."""
        if are_decided():
            self._decline_by_estimate(node, leaving)
        state = self._state()
        try:
            demands = self._admitted(node, leaving)
        except SpaceDeclined:
            self._return_to(state)
            raise
        self.members.add(node)
        self.demands.update(((node, value), axes) for value, axes in demands.items())

    @estimating()
    def _decline_by_estimate(self, node: Node, leaving: Sequence[Value]) -> None:
        """Refuse a node without a condition on sizes: whatever they are, it may run by itself."""
        state = self._state()
        try:
            self._admitted(node, leaving)
        finally:
            self._return_to(state)

    def _admitted(self, node: Node, leaving: Sequence[Value]) -> dict[Value, Axes]:
        """Along which axes a node that is admitted reads its operands."""
        asked = self._asked(node)
        demands = self._demands(node, asked)
        self._check(demands)
        if not is_join(node) and not all(value in self.axes and self.covers(value) for value in leaving):
            raise SpaceDeclined("its result is needed elsewhere, and the group does not run over all of it alike")
        return demands

    def _state(self) -> tuple[Any, ...]:
        return list(self.extents), self.reduced, set(self.in_memory), dict(self.inside), self.scans, dict(self.axes)

    def _return_to(self, state: tuple[Any, ...]) -> None:
        self.extents, self.reduced, self.in_memory, self.inside, self.scans, self.axes = state

    def covers(self, value: Value) -> bool:
        """Whether a value can be stored: it runs along all axes, or along all that are not reduced."""
        axes, wide = set(self.leaves(self.axes[value])), self.wide
        return sizes_match(self, value) and (axes == wide or axes == wide - set(self.reduced or ()))

    def _asked(self, node: Node) -> Axes:
        """Along which axes the result of `node` is wanted; its other results follow."""
        if any(value in self.in_memory for value in node.outputs):
            raise SpaceDeclined("its result is read through indices")
        if node is self.last:
            asked: Axes = tuple(a if size != 1 else None for a, size in enumerate(self.frame))
            if not is_join(node):
                self.axes[main_output(node)] = asked
            return asked
        wanted = [
            {self.demands[use.node, value] for use in value.uses if use.node in self.members}
            for value in node.outputs
        ]  # fmt: skip
        if not any(wanted):
            return self._beside(node)
        if any(len({tuple(tuple(self.leaves([a])) for a in axes) for axes in each}) > 1 for each in wanted):
            raise SpaceDeclined("it is read along different axes")
        first = next(i for i, value in enumerate(node.outputs) if value is main_output(node))
        if not wanted[first] and form_of(node) not in ("reduction", "scan"):
            raise SpaceDeclined("its first result is not read here")
        asked = next(iter(next(axes for axes in wanted if axes)))
        for value, axes in zip(node.outputs, wanted, strict=True):
            if axes:
                self.axes[value] = next(iter(axes))
        return asked

    def _beside(self, node: Node) -> Axes:
        """The axes of a node that nobody in the group reads: those of the last one, whose result is as large."""
        if len(node.outputs) != 1 or sizes_of(node.output) != self.frame or form_of(node) in ROWS:
            raise SpaceDeclined("its first result is not read here")
        asked: Axes = tuple(a if size != 1 else None for a, size in enumerate(self.frame))
        self.axes[node.output] = asked
        return asked

    def _check(self, demands: dict[Value, Axes]) -> None:
        for value, axes in demands.items():
            for size, axis in zip(sizes_of(value), axes, strict=True):
                if axis is not None and self.extents[axis] != size:
                    raise SpaceDeclined("its operands do not have the sizes of the axes that it reads them along")

    def _demands(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        """Along which axes `node` reads its operands."""
        form = form_of(node)
        if form in ROWS:
            return self._of_rows(node, form, asked)
        if form == "gather":
            return self._of_gather(node, asked)
        if form == "join":
            return self._of_join(node, asked)
        if is_view(node):
            return {node.inputs[0]: self._of_view(node, asked)}
        if any(value.uses for value in node.outputs[1:]):
            raise SpaceDeclined("its further results, which are read, are empty")
        return self._reads(node, asked, None)

    # -- kinds of nodes ------------------------------------------------------------------------------------------

    def _of_view(self, node: Node, asked: Axes) -> Axes:
        """The axes of a reshaped operand: the same ones, see Note [Axes that consist of others]."""
        if not _reshapes(node):
            return _through_view(node, asked)
        before, after = sizes_of(node.inputs[0]), sizes_of(node.outputs[0])
        if any(a is None and size != 1 for a, size in zip(asked, after, strict=True)):
            raise SpaceDeclined("its result is repeated along a dim, which a reshape cannot follow")
        return tuple(self.fit(self.leaves(asked), before))

    def _reads(self, node: Node, axes: Axes, group: int | None) -> dict[Value, Axes]:
        """The axes of all operands if the first is read along `axes`: they broadcast to it, or run along dims of it."""
        along = dims_along(node)
        return {
            value: tuple(group if d == GROUP else axes[d] for d in along[value])  # type: ignore[index]
            if value in along else _broadcast(sizes_of(value), axes)
            for value in node.inputs
        }  # fmt: skip

    def _of_rows(self, node: Node, form: str, asked: Axes) -> dict[Value, Axes]:
        dims, groups = reduced_dims(node), kernel_of(node.kind).groups
        if main_output(node) is not node.outputs[0] and form != "reduction":
            raise SpaceDeclined("its first result is not asked for")
        group = within = None
        if groups is not None:
            channels = asked[0 if form == "reduction" else 1]
            size, count = sizes_of(node.inputs[0])[1], int(told(node, groups))
            group, within = self.fit(self.leaves([channels]), [count, size // count])
        if form == "reduction":
            return self._reads(node, self._of_reduction(node, dims, asked), group)
        self._span(asked)
        self._set_row(tuple(self.leaves([within, *(asked[d] for d in dims)])))
        if form == "scan":
            self.scans = True
            self._check_scans()
            self._also(node.outputs, asked)
        else:
            self._also_further(node, dims, asked, group)
        return self._reads(node, asked, group)

    def _also_further(self, node: Node, dims: Sequence[int], asked: Axes, group: int | None) -> None:
        """Note the axes of the second and later results of a norm."""
        further = kernel_of(node.kind).further_along
        if further is None:
            axes: Axes = tuple(None if d in dims else a for d, a in enumerate(asked))
        else:
            axes = tuple(group if d == GROUP else asked[d] for d in further)  # type: ignore[index]
        self._also([value for value in node.outputs[1:] if value.type is not UNDEFINED], axes)

    def _of_reduction(self, node: Node, dims: Sequence[int], asked: Axes) -> Axes:
        sizes = sizes_of(node.inputs[0])
        kept = list(asked)
        if argument(node, "keepdim", False) and len(asked) == len(sizes):
            kept = [a for d, a in enumerate(asked) if d not in dims]
        row = self._row(sizes, dims, kept)
        axes = [row.pop(0) if d in dims else kept.pop(0) for d in range(len(sizes))]
        self._also([out for out in node.outputs if out is main_output(node) or out.uses], asked)
        return tuple(axes)

    def _row(self, sizes: tuple[int, ...], dims: Sequence[int], kept: Sequence[int | None]) -> list[int | None]:
        """The axes that the reduced dims run along."""
        wide = [d for d in dims if sizes[d] != 1]
        if self.reduced is None:
            self._cover(kept, wide, sizes)
        assert self.reduced is not None
        try:
            along = self.fit(self.reduced, [sizes[d] for d in dims])
        except SpaceDeclined as reason:
            raise SpaceDeclined("it reduces other dims than the rest of the group") from reason
        if set(self.leaves(kept)) != self.wide - set(self.reduced):
            raise SpaceDeclined("it would be computed again for every element that reads it")
        return along

    def _cover(self, kept: Sequence[int | None], wide: Sequence[int], sizes: tuple[int, ...]) -> None:
        """Choose the row: the axes of the last node that the result does not run along, else new ones."""
        taken = set(self.leaves(kept))
        rest = [a for a in self.leaves(range(len(self.frame))) if a not in taken]
        if rest:
            try:
                self.fit(rest, [sizes[d] for d in wide])
            except SpaceDeclined as reason:
                raise SpaceDeclined("it would be computed again for every element that reads it") from reason
            row = self.leaves(rest)
            with estimating():
                rows = math.prod(self.extents[a] for a in self.wide - set(row))
                is_better_shared = rows < FEW_ROWS and math.prod(sizes[d] for d in wide) >= LONG_ROW
            if is_better_shared:
                raise SpaceDeclined("it has few long rows, and what follows is better shared out among threads")
            self._set_row(tuple(row))
        else:
            self.reduced = tuple(range(len(self.extents), len(self.extents) + len(wide)))
            self.extents += [sizes[d] for d in wide]

    def _set_row(self, row: tuple[int, ...]) -> None:
        if self.reduced is not None and self.reduced != row:
            raise SpaceDeclined("it reduces other dims than the rest of the group")
        self.reduced = row

    def _span(self, asked: Axes) -> None:
        """Refuse a norm whose operand does not run along all axes, each once."""
        leaves = self.leaves(asked)
        if len(set(leaves)) != len(leaves):
            raise SpaceDeclined("it is read along a diagonal")
        if set(leaves) != self.wide:
            raise SpaceDeclined("it would be computed again for every element that reads it")

    def _also(self, outputs: Sequence[Value], axes: Axes) -> None:
        for value in outputs:
            if self.axes.setdefault(value, axes) != axes:
                raise SpaceDeclined("its results are read along different axes")

    def _of_gather(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        weight, indices = node.inputs
        self.in_memory.update((weight, indices))
        return {indices: asked[:-1], weight: (None, asked[-1])}

    def _of_join(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        if node is not self.last:
            raise SpaceDeclined("what is joined is read again")
        if len({(sizes_of(v), v.type.dtype) for v in (*node.inputs,)}) != 1:
            raise SpaceDeclined("its parts differ in sizes or dtypes")
        if any(kernel_of(v.node.kind).fills is not None for v in node.inputs):
            raise SpaceDeclined("a part of it is filled with a number, which nothing computes")
        return dict.fromkeys(node.inputs, asked)


def sizes_match(space: IterationSpace, value: Value) -> bool:
    """Whether no dim of a value is a repetition: each is an axis or has one element."""
    return all(axis is not None or size == 1 for axis, size in zip(space.axes[value], sizes_of(value), strict=True))


def _broadcast(sizes: tuple[int, ...], asked: Axes) -> Axes:
    """The axes along which an operand of a broadcast result is read."""
    if len(sizes) > len(asked):
        raise SpaceDeclined("it has more dims than its result")
    return tuple(None if size == 1 else a for size, a in zip(sizes, asked[len(asked) - len(sizes) :]))


def _reshapes(node: Node) -> bool:
    """Whether a view changes nothing but how elements are counted off, and has other dims than what it shows."""
    before = sizes_of(node.inputs[0])
    if len(node.outputs) != 1 or 0 in before:
        return False
    after = sizes_of(node.outputs[0])
    if [n for n in before if n != 1] == [n for n in after if n != 1]:
        return False
    op, values = arguments(node)
    try:
        viewed = op.body(Geometry.contiguous(before), *values[1:])
    except Error:
        return False
    same = isinstance(viewed, Geometry) and viewed.offset == 0 and viewed.numel == math.prod(before)
    return same and viewed.is_contiguous


def _through_view(node: Node, asked: Axes) -> Axes:
    """The axes of a view's input if its result is read along `asked`; each dim is recognized by its stride."""
    sizes = sizes_of(node.inputs[0])
    labels = tuple(1 << (40 * (d + 1)) for d in range(len(sizes)))
    op, values = arguments(node)
    try:
        viewed = op.body(Geometry(sizes, labels), *values[1:])
    except Error as error:
        raise SpaceDeclined("it copies what it reads") from error
    if isinstance(viewed, list) or viewed.offset:
        raise SpaceDeclined("it shows a part of what is computed")
    axes: list[int | None] = [None] * len(sizes)
    seen = set()
    for size, stride, axis in zip(viewed.sizes, viewed.strides, asked, strict=True):
        if size == 1 or stride == 0:
            continue
        if stride not in labels or stride in seen:
            raise SpaceDeclined("it reshapes dims in a way that loops cannot follow")
        if sizes[labels.index(stride)] != size:
            raise SpaceDeclined("it shows a part of what is computed")
        seen.add(stride)
        axes[labels.index(stride)] = axis
    if len(seen) != sum(size != 1 for size in sizes):
        raise SpaceDeclined("it shows a part of what is computed")
    return tuple(axes)
