"""Homes: the slices of a `cat` into which its parts are computed at once, so that joining takes no pass over memory.

Note [Written where it belongs]
    A kernel writes wherever it is told to, so each part of a `cat` is computed into its slice of the result:

        %0 : Float(8, 3) = prim::FusionGroup(%x)         elements 0, 1, 2 of each row of %2
        %1 : Float(8, 5) = prim::FusionGroup(%y)         elements 3 to 7
        %2 : Float(8, 8) = aten::cat[dim=1]([%0, %1])    nothing

    Whatever else reads a part reads the slice. Products and convolutions write row-major memory, so they have homes
    where a slice is one piece of memory; so has what a view shows that no slice can be seen through, such as rows put
    together. A part that the stretch does not make, that it returns, or that an earlier `cat` has taken in is copied.
    A `stack` is a `cat` of reshaped parts: what they show has the home.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from jit.ir import Node, TensorType, Value
from jit.ir.errors import Error
from jit.ir.geometry import Geometry
from jit.passes.support.spaces import arguments, is_join, is_view, sizes_of


class Home(NamedTuple):
    """The slice of a `cat` that a value will be."""

    whole: Value
    geometry: Geometry
    """The geometry in the memory of the whole, which is row-major."""


Question = Callable[[Node], bool]


def homes(
    nodes: Sequence[Node], leaving: Collection[Value], is_free: Question, is_flexible: Question
) -> dict[Value, Home]:
    """The homes of values.

    Args:
        nodes: The nodes of a stretch, in order.
        leaving: Values whose memory is for the caller to keep.
        is_free: Whether a node is a view or a constant.
        is_flexible: Whether a node can write its results with any strides.
    """
    makers = [node for node in nodes if not is_free(node) and not is_join(node)]
    made = {value: is_flexible(node) for node in makers for value in node.outputs if value not in leaving}
    found: dict[Value, Home] = {}
    for node in nodes:
        if is_join(node) and 0 not in sizes_of(node.output):
            for part, geometry in _slices(node):
                shown = _shown(node.output, part, geometry, is_free)
                if shown is None or shown[0] in found:
                    continue
                base, slice_ = shown
                anywhere = made.get(base) and _can_be_seen(base, slice_)
                if anywhere or (base is part and base in made and slice_.is_contiguous):
                    found[base] = Home(node.output, slice_)
    return found


def _slices(node: Node) -> list[tuple[Value, Geometry]]:
    """The parts of a `cat`, and where each lies in the result."""
    parts, dim = arguments(node)[1]
    whole = Geometry.contiguous(sizes_of(node.output))
    found, start = [], 0
    for part in parts:
        sizes = sizes_of(part)
        if len(sizes) == whole.ndim:  # an empty one of one dim counts as nothing
            found.append((part, whole.window(dim % whole.ndim, start, sizes[dim])))
            start += sizes[dim]
    return found


def _shown(whole: Value, part: Value, geometry: Geometry, is_free: Question) -> tuple[Value, Geometry] | None:
    """Look through reshapes: the value that `part` shows in full, and that value's geometry in the slice."""
    while is_free(part.node) and is_reshape(part.node):
        part = part.node.inputs[0]
    assert isinstance(whole.type, TensorType)
    slice_ = geometry.reshape(sizes_of(part))
    if slice_ is None or part.type != TensorType(whole.type.dtype, sizes_of(part)):
        return None
    return part, slice_


def is_reshape(node: Node) -> bool:
    """Whether a view has all elements of its source, in their order."""
    if len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    before = Geometry.contiguous(sizes_of(node.inputs[0]))
    op, values = arguments(node)
    after = op.body(before, *values[1:])
    return isinstance(after, Geometry) and after.offset == 0 and after.numel == before.numel and after.is_contiguous


def _can_be_seen(value: Value, geometry: Geometry) -> bool:
    """Whether views of a value, also those in kernels that read it, are views still if it lies in a slice."""
    for node, index in value.uses:
        if node.kind == "prim::FusionGroup":
            shown = [(node.attributes["body"].inputs[index], geometry)]
        elif is_view(node):
            op, values = arguments(node)
            try:
                seen = op.body(geometry, *values[1:])
            except Error:  # such as rows put together, between which there is something else now
                return False
            shown = list(zip(node.outputs, seen if isinstance(seen, list) else [seen], strict=True))
        else:
            shown = []
        if not all(_can_be_seen(*pair) for pair in shown):
            return False
    return True


def is_same(a: Geometry, b: Geometry) -> bool:
    """Whether two geometries show the same elements in the same order, whatever strides dims of one element have."""
    same = a.sizes == b.sizes and a.offset == b.offset
    return same and all(s == t or n == 1 for n, s, t in zip(a.sizes, a.strides, b.strides))
