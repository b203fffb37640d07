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
from collections.abc import Iterable, Sequence
from typing import Any

from jit.ir import Node, Op, TensorType, Value, find
from jit.ir.errors import Error
from jit.ir.geometry import Geometry, wrap_dims

Axes = tuple[int | None, ...]
"""Per dim of a value the axis that it runs along; None for dims of size 1 and for what is repeated along a dim."""

REDUCTIONS = frozenset(
    f"aten::{name}" for name in (
        "sum", "mean", "prod", "prod.dim_int", "amax", "amin", "max", "min", "max.dim", "min.dim", "argmax", "argmin",
        "var.correction", "std.correction", "logsumexp", "any", "all", "linalg_vector_norm",
    )
)  # fmt: skip
"""Operators that reduce dims of their first operand."""
NORMS = frozenset(
    f"aten::{name}" for name in (
        "softmax", "_safe_softmax", "log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
        "native_layer_norm", "native_batch_norm", "native_batch_norm_backward", "native_layer_norm_backward",
        "native_group_norm", "native_group_norm_backward",
    )
)  # fmt: skip
"""Operators whose result has the shape of their first operand, and that reduce dims of it on the way."""
SCANS = frozenset(f"aten::{name}" for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"))
"""Operators whose results run along one dim of their operand, and have its shape."""
BATCH_NORMS = ("aten::native_batch_norm", "aten::native_batch_norm_backward")
LAYER_NORMS = ("aten::native_layer_norm", "aten::native_layer_norm_backward")
GROUP_NORMS = ("aten::native_group_norm", "aten::native_group_norm_backward")
MASKED = ("aten::native_layer_norm_backward", "aten::native_group_norm_backward")
"""Backwards that reduce rows for the input, and what lies across them for the weight and bias."""

FEW_ROWS, LONG_ROW = 4, 1 << 16


class Declined(Exception):
    """Why a node does not join."""


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


def is_cast(node: Node) -> bool:
    """True for a copy in another dtype that changes nothing else."""
    plain = node.kind == "aten::_to_copy" and len(node.inputs) == 1
    return plain and argument(node, "device") is None and argument(node, "memory_format") is None


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


def sums_gradients(node: Node) -> bool:
    """True for a layer or group norm's backward that gives gradients of the weight and bias alone."""
    return node.kind in MASKED and not argument(node, "output_mask")[0]


def reduced_dims(node: Node) -> tuple[int, ...]:
    """The dims of its first operand that a reduction or norm reduces, or that a scan runs along.

    Those of a group norm hold a part of dim 1 besides; see `row_length`.
    """
    ndim = len(sizes_of(node.inputs[0]))
    if node.kind in GROUP_NORMS and not sums_gradients(node):
        return tuple(range(2, ndim))
    if node.kind in BATCH_NORMS + GROUP_NORMS:
        return tuple(d for d in range(ndim) if d != 1)
    if node.kind in LAYER_NORMS:
        lead = ndim - len(argument(node, "normalized_shape"))
        return tuple(range(lead)) if sums_gradients(node) else tuple(range(lead, ndim))
    dim = argument(node, "dim")
    return tuple(sorted(wrap_dims(dim, ndim)))


def row_length(node: Node) -> int:
    """How many elements are reduced to one."""
    sizes = sizes_of(node.inputs[0])
    count = math.prod(sizes[d] for d in reduced_dims(node))
    grouped = node.kind in GROUP_NORMS and not sums_gradients(node)
    return count * (sizes[1] // int(argument(node, "group"))) if grouped else count


class Space:
    """The axes of a group that `last` ends."""

    def __init__(self, last: Node) -> None:
        self.last = last
        frame = sizes_of(last.inputs[0] if last.kind == "aten::cat" else main_output(last))
        self.frame = frame
        """The sizes that the last node spans."""
        self.extents = list(frame)
        self.inside: dict[int, tuple[int, ...]] = {}
        """Of axes that consist of others, outermost first."""
        self.reduced: tuple[int, ...] | None = None
        """The axes of a row, those of size 1 left out; None if nothing is reduced."""
        self.scans = False
        """Whether something runs along the row, which then is one axis."""
        self.axes: dict[Value, Axes] = {}
        """Of values that members make."""
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
            while product < size and left:
                leaf, wanted = left.pop(0), size // product
                if self.extents[leaf] > wanted and self.extents[leaf] % wanted == 0 and wanted > 1:
                    leaf, rest = self._cut(leaf, wanted)
                    left.insert(0, rest)
                taken.append(leaf)
                product *= self.extents[leaf]
            if product != size:
                raise Declined("it takes dims apart")
            found.append(self._together(taken))
        if left:
            raise Declined("it takes dims apart")
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
            raise Declined("what runs along a row would run along several dims")

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
        """Let `node` be a member, of whose results `leaving` are stored; Declined says why it cannot be."""
        state = list(self.extents), self.reduced, set(self.in_memory), dict(self.inside), self.scans
        try:
            asked = self._asked(node)
            demands = self._demands(node, asked)
            self._check(demands)
            joined = node.kind == "aten::cat"
            if not joined and not all(value in self.axes and self.covers(value) for value in leaving):
                raise Declined("its result is needed elsewhere, and the group does not run over all of it alike")
        except Declined:
            self.extents, self.reduced, self.in_memory, self.inside, self.scans = state
            raise
        self.members.add(node)
        self.demands.update(((node, value), axes) for value, axes in demands.items())

    def covers(self, value: Value) -> bool:
        """Whether a value can be stored: it runs along all axes, or along all that are not reduced."""
        axes, wide = set(self.leaves(self.axes[value])), self.wide
        return sizes_match(self, value) and (axes == wide or axes == wide - set(self.reduced or ()))

    def _asked(self, node: Node) -> Axes:
        """Along which axes the result of `node` is wanted; its other results follow."""
        if any(value in self.in_memory for value in node.outputs):
            raise Declined("its result is read through indices")
        if node is self.last:
            asked: Axes = tuple(a if size != 1 else None for a, size in enumerate(self.frame))
            if node.kind != "aten::cat":
                self.axes[main_output(node)] = asked
            return asked
        wanted = [
            {self.demands[use.node, value] for use in value.uses if use.node in self.members}
            for value in node.outputs
        ]  # fmt: skip
        if not any(wanted):
            return self._beside(node)
        if any(len({tuple(tuple(self.leaves([a])) for a in axes) for axes in each}) > 1 for each in wanted):
            raise Declined("it is read along different axes")
        first = next(i for i, value in enumerate(node.outputs) if value is main_output(node))
        if not wanted[first] and node.kind not in REDUCTIONS | SCANS:
            raise Declined("its first result is not read here")
        asked = next(iter(next(axes for axes in wanted if axes)))
        for value, axes in zip(node.outputs, wanted, strict=True):
            if axes:
                self.axes[value] = next(iter(axes))
        return asked

    def _beside(self, node: Node) -> Axes:
        """The axes of a node that nobody in the group reads: those of the last one, whose result is as large."""
        if len(node.outputs) != 1 or sizes_of(node.output) != self.frame or node.kind in REDUCTIONS | NORMS | SCANS:
            raise Declined("its first result is not read here")
        asked: Axes = tuple(a if size != 1 else None for a, size in enumerate(self.frame))
        self.axes[node.output] = asked
        return asked

    def _check(self, demands: dict[Value, Axes]) -> None:
        for value, axes in demands.items():
            for size, axis in zip(sizes_of(value), axes, strict=True):
                if axis is not None and self.extents[axis] != size:
                    raise Declined("sizes do not fit")

    def _demands(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        """Along which axes `node` reads its operands."""
        if node.kind in GROUP_NORMS:
            return self._of_group_norm(node, asked)
        if node.kind in REDUCTIONS or sums_gradients(node):
            return self._of_reduction(node, asked)
        if node.kind in BATCH_NORMS:
            return self._of_batch_norm(node, asked)
        if node.kind in NORMS or node.kind in SCANS:
            return self._of_norm(node, asked)
        if node.kind == "aten::embedding":
            return self._of_embedding(node, asked)
        if node.kind == "aten::cat":
            return self._of_cat(node, asked)
        if is_view(node):
            return {node.inputs[0]: self._of_view(node, asked)}
        return {value: _broadcast(sizes_of(value), asked) for value in node.inputs}

    # -- kinds of nodes ------------------------------------------------------------------------------------------

    def _of_view(self, node: Node, asked: Axes) -> Axes:
        """How what a view shows is read: along the same axes, see Note [Axes that consist of others]."""
        if not _reshapes(node):
            return _through_view(node, asked)
        before, after = sizes_of(node.inputs[0]), sizes_of(node.outputs[0])
        if any(a is None and size != 1 for a, size in zip(asked, after, strict=True)):
            raise Declined("it is repeated")
        return tuple(self.fit(self.leaves(asked), before))

    def _of_reduction(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        value, dims = node.inputs[0], reduced_dims(node)
        sizes = sizes_of(value)
        kept = list(asked)
        if argument(node, "keepdim", False) and len(asked) == len(sizes):
            kept = [a for d, a in enumerate(asked) if d not in dims]
        row = self._row(sizes, dims, kept)
        axes = [row.pop(0) if d in dims else kept.pop(0) for d in range(len(sizes))]
        self._also([out for out in node.outputs if out is main_output(node) or out.uses], asked)
        return {value: _broadcast(sizes_of(value), tuple(axes)) for value in node.inputs}

    def _row(self, sizes: tuple[int, ...], dims: Sequence[int], kept: Sequence[int | None]) -> list[int | None]:
        """The axes that the reduced dims run along."""
        wide = [d for d in dims if sizes[d] != 1]
        if self.reduced is None:
            self._cover(kept, wide, sizes)
        assert self.reduced is not None
        try:
            along = self.fit(self.reduced, [sizes[d] for d in dims])
        except Declined as reason:
            raise Declined("it reduces other dims than the rest of the group") from reason
        if set(self.leaves(kept)) != self.wide - set(self.reduced):
            raise Declined("it would be computed again for every element that reads it")
        return along

    def _cover(self, kept: Sequence[int | None], wide: Sequence[int], sizes: tuple[int, ...]) -> None:
        """Choose the row: the axes of the last node that the result does not run along, or new ones."""
        taken = set(self.leaves(kept))
        rest = [a for a in self.leaves(range(len(self.frame))) if a not in taken]
        if rest:
            try:
                self.fit(rest, [sizes[d] for d in wide])
            except Declined as reason:
                raise Declined("it would be computed again for every element that reads it") from reason
            row = self.leaves(rest)
            rows = math.prod(self.extents[a] for a in self.wide - set(row))
            if rows < FEW_ROWS and math.prod(sizes[d] for d in wide) >= LONG_ROW:
                raise Declined("few long rows: what follows is better shared out among threads")
            self._set_row(tuple(row))
        else:
            self.reduced = tuple(range(len(self.extents), len(self.extents) + len(wide)))
            self.extents += [sizes[d] for d in wide]

    def _set_row(self, row: tuple[int, ...]) -> None:
        if self.reduced is not None and self.reduced != row:
            raise Declined("it reduces other dims than the rest of the group")
        self.reduced = row

    def _of_norm(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        dims = reduced_dims(node)
        self._span(asked)
        self._set_row(tuple(self.leaves(asked[d] for d in dims)))
        if node.kind in SCANS:
            self.scans = True
            self._check_scans()
            self._also(node.outputs, asked)
        elif node.kind not in BATCH_NORMS:
            self._also(node.outputs[1:], tuple(None if d in dims else a for d, a in enumerate(asked)))
        return {value: _broadcast(sizes_of(value), asked) for value in node.inputs}

    def _span(self, asked: Axes) -> None:
        """Refuse a norm of what does not run along all axes."""
        leaves = self.leaves(asked)
        if len(set(leaves)) != len(leaves):
            raise Declined("it is read along a diagonal")
        if set(leaves) != self.wide:
            raise Declined("it would be computed again for every element that reads it")

    def _of_group_norm(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        sizes, groups = sizes_of(node.inputs[0]), int(argument(node, "group"))
        channels = asked[0 if sums_gradients(node) else 1]
        group, within = self.fit(self.leaves([channels]), [groups, sizes[1] // groups])
        if sums_gradients(node):
            dims = reduced_dims(node)
            row = self._row(sizes, dims, [channels])
            self._also([out for out in node.outputs if out.uses], asked)
            asked = row[0], channels, *row[1:]
        else:
            self._span(asked)
            self._set_row(tuple(self.leaves([within, *asked[2:]])))
            self._also([v for v in node.outputs[1:] if v.uses], (asked[0], group))
        op, values = arguments(node)
        along = {"mean": (asked[0], group), "rstd": (asked[0], group), "weight": (asked[1],), "bias": (asked[1],)}
        named = zip(op.schema.argument_names, values, strict=True)
        return {value: along.get(name, asked) for name, value in named if isinstance(value, Value)}

    def _also(self, outputs: Sequence[Value], axes: Axes) -> None:
        for value in outputs:
            if self.axes.setdefault(value, axes) != axes:
                raise Declined("its results are read along different axes")

    def _of_embedding(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        weight, indices = node.inputs
        self.in_memory.update((weight, indices))
        return {indices: asked[:-1], weight: (None, asked[-1])}

    def _of_batch_norm(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        if main_output(node) is not node.outputs[0]:
            raise Declined("sums of a batch norm's gradients alone")
        demands = {v: asked if sizes_of(v) == sizes_of(node.inputs[0]) else (asked[1],) for v in node.inputs}
        if argument(node, "training") or node.kind.endswith("backward"):
            self._of_norm(node, asked)
            for value in node.outputs[1:]:
                self.axes[value] = (asked[1],)
        elif any(value.uses for value in node.outputs[1:]):
            raise Declined("its statistics are empty")
        return demands

    def _of_cat(self, node: Node, asked: Axes) -> dict[Value, Axes]:
        if node is not self.last:
            raise Declined("what is joined is read again")
        if len({(sizes_of(v), v.type.dtype) for v in (*node.inputs,)}) != 1:
            raise Declined("parts of different sizes or dtypes")
        if any(v.node.kind == "aten::zeros" for v in node.inputs):
            raise Declined("a part of it is zeros, which nothing computes")
        return dict.fromkeys(node.inputs, asked)


def sizes_match(space: Space, value: Value) -> bool:
    """Whether no dim of a value is a repetition: each is an axis or has one element."""
    return all(axis is not None or size == 1 for axis, size in zip(space.axes[value], sizes_of(value), strict=True))


def _broadcast(sizes: tuple[int, ...], asked: Axes) -> Axes:
    """How an operand of a broadcast result is read."""
    if len(sizes) > len(asked):
        raise Declined("it has more dims than its result")
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
    """How the input of a view is read if its result is read along `asked`; dims are told apart by their strides."""
    sizes = sizes_of(node.inputs[0])
    labels = tuple(1 << (40 * (d + 1)) for d in range(len(sizes)))
    op, values = arguments(node)
    try:
        viewed = op.body(Geometry(sizes, labels), *values[1:])
    except Error as error:
        raise Declined("it copies") from error
    if isinstance(viewed, list) or viewed.offset:
        raise Declined("it is a part of what was computed")
    axes: list[int | None] = [None] * len(sizes)
    seen = set()
    for size, stride, axis in zip(viewed.sizes, viewed.strides, asked, strict=True):
        if size == 1 or stride == 0:
            continue
        if stride not in labels or stride in seen:
            raise Declined("it takes dims apart")
        if sizes[labels.index(stride)] != size:
            raise Declined("it is a part of what was computed")
        seen.add(stride)
        axes[labels.index(stride)] = axis
    if len(seen) != sum(size != 1 for size in sizes):
        raise Declined("it is a part of what was computed")
    return tuple(axes)
