"""Outputs in the shape in which they are wanted, where nobody wants more than a reshaped view of them.

    %0 : Float(6, 8) = aten::mm(%x, %w)
    %1 : Float(2, 3, 8) = aten::view[size=[2, 3, 8]](%0)        return (%1)

The product is written to an array of sizes (2, 3, 8). So the stretch is all that there is to a call, and no view is
made after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from jit.ir import Node, TensorType, Value

from .homes import is_reshape


def reshaped_outputs(
    views: Sequence[Node], is_made: Callable[[Node], bool], is_wanted: Callable[[Value, Node], bool]
) -> dict[Value, list[Node]]:
    """The views, each of the one before it, in whose shape values are handed out; by these values.

    Args:
        views: The views that others than native nodes read, in order.
        is_made: Whether a node is native.
        is_wanted: Whether a value itself is wanted, or seen in another way than through a view.
    """
    found: dict[Value, list[Node]] = {}
    homes: dict[Value, Value] = {}
    for node in views:
        shown = node.inputs[0] if len(node.inputs) == 1 else None
        whole = homes.get(shown, shown) if shown is not None else None
        if shown is None or whole is None or not is_made(whole.node) or is_wanted(shown, node):
            continue
        if is_reshape(node) and all(map(_is_row_major, (shown, node.output))):
            found.setdefault(whole, []).append(node)
            homes[node.output] = whole
    return found


def _is_row_major(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.strides is None


def whole_of(value: Value, views: Collection[Node]) -> Value:
    """The value of which this one is a view, looked at through these views."""
    while value.node in views:
        value = value.node.inputs[0]
    return value
