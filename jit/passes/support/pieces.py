"""Parts of tensors along one dim: which part a view shows, and the same part of what is broadcast to a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.errors import Error
from jit.ir.geometry import Geometry
from jit.ir.inference import inferred_types
from jit.ir.sizes import only_if

from .builder import GraphBuilder
from .spaces import arguments, is_view, sizes_of


class Cut(NamedTuple):
    """`length` entries of `dim` from `start`, `step` apart; without `keeps` a single entry, whose dim is dropped."""

    dim: int
    start: int
    length: int
    step: int = 1
    keeps: bool = True

    def of(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the part of a tensor."""
        middle = (self.length,) if self.keeps else ()
        return (*sizes[: self.dim], *middle, *sizes[self.dim + 1 :])


def cuts_of(node: Node) -> list[Cut] | None:
    """The parts that the outputs of a view show of its input; None if it is no view, or shows anything else."""
    if not is_view(node):
        return None
    sizes = sizes_of(node.inputs[0])
    labels = tuple(1 << (40 * (d + 1)) for d in range(len(sizes)))
    op, values = arguments(node)
    try:
        shown = op.body(Geometry(sizes, labels), *values[1:])
    except Error:  # it would copy
        return None
    cuts = [_found_cut(sizes, labels, geometry) for geometry in (shown if isinstance(shown, list) else [shown])]
    return None if None in cuts else [cut for cut in cuts if cut is not None]


def _found_cut(sizes: tuple[int, ...], labels: tuple[int, ...], shown: Geometry) -> Cut | None:
    """The cut, if it is one: that it is none holds for all sizes."""
    return _cut(sizes, labels, shown) if only_if(lambda: _cut(sizes, labels, shown)) else None


def _cut(sizes: tuple[int, ...], labels: tuple[int, ...], shown: Geometry) -> Cut | None:
    """The part of a tensor that a geometry shows, None for anything else; each dim is recognized by its stride."""
    for dim, label in enumerate(labels):
        start, rest = divmod(shown.offset, label)
        if rest:
            continue
        whole = Geometry(sizes, labels)
        if shown == whole.window(dim, start, 1).drop((dim,)):
            return Cut(dim, start, 1, keeps=False)
        if shown.ndim == len(sizes) and shown.strides[dim] > 0:
            length, step = shown.sizes[dim], shown.strides[dim] // label
            if shown.sizes != sizes and shown == whole.window(dim, start, length, step):
                return Cut(dim, start, length, step)
    return None


class PieceCutter:
    """Adds views to a graph, each once for all that ask for the same part at the same place."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[tuple[Node, Value, Cut], Value] = {}

    def part(self, value: Value, cut: Cut, ndim: int, before: Node) -> Value:
        """The part of `value` that a tensor of `ndim` dims, to which it is broadcast, has in its part `cut`."""
        sizes = sizes_of(value)
        dim = cut.dim - (ndim - len(sizes))
        if dim < 0 or (sizes[dim] == 1 and cut.keeps):
            return value
        own = cut._replace(dim=dim) if sizes[dim] != 1 else Cut(dim, 0, 1, keeps=False)
        key = before, value, own
        if key not in self._known:
            self._known[key] = self._view(value, own, before)
        return self._known[key]

    def _view(self, value: Value, cut: Cut, before: Node) -> Value:
        if cut == Cut(cut.dim, 0, sizes_of(value)[cut.dim]):
            return value
        with self.graph.inserting_before(before):
            F = GraphBuilder(self.graph, before.stage)
            x = F.wrap(value)
            if not cut.keeps:
                shown = F.select(x, cut.dim, cut.start)
            elif cut.step == 1:
                shown = F.narrow(x, cut.dim, cut.start, cut.length)
            else:
                end = cut.start + (cut.length - 1) * cut.step + 1
                shown = F.slice(x, cut.dim, cut.start, end, cut.step)
        return marked(shown.value, before)


def marked(value: Value, like: Node) -> Value:
    """The value, whose node now stands for the user's line of another node."""
    value.node.source, value.node.scope = like.source, like.scope
    return value


def copy_of_part(
    cutter: PieceCutter, node: Node, operands: dict[Value, Any], sizes: tuple[int, ...], before: Node
) -> Value:
    """The result of a copy of a pointwise node on other operands."""
    graph, mapping = cutter.graph, dict(operands)
    with graph.inserting_before(before):
        copy = graph.copy_node(node, mapping)
    copy.stage = node.stage
    old = node.outputs[0].type
    assert isinstance(old, TensorType)
    copy.outputs[0].type = TensorType(old.dtype, sizes, None, old.device)
    return copy.outputs[0]


def leaves_stage(value: Value) -> bool:
    """Whether a value or a view of it is returned, written back, used in a later stage, or looked at as memory."""
    work = [value]
    while work:
        value = work.pop()
        for use in value.uses:
            if use.node.kind == "prim::Return" or use.node.stage != value.node.stage or _sees_memory(use.node):
                return True
            if is_view(use.node):
                work += use.node.outputs
    return False


def _sees_memory(node: Node) -> bool:
    op = find(node.kind)
    return op is not None and op.is_absolute


def take_over(value: Value, other: Value) -> None:
    """Let `other`, of the same sizes, be read instead of `value`; views of it get the types that follow."""
    value.replace_all_uses_with(other)
    work = [use.node for use in other.uses]
    while work:
        view = work.pop()
        if is_view(view):
            for shown, type in zip(view.outputs, inferred_types(view) or (), strict=True):
                shown.type = type
                work += [use.node for use in shown.uses]


def readers(values: Iterable[Value]) -> list[Node]:
    """The nodes that compute with values, or with views of them."""
    found: dict[Node, None] = {}
    work = list(values)
    while work:
        for use in work.pop().uses:
            if is_view(use.node):
                work += use.node.outputs
            else:
                found[use.node] = None
    return list(found)
