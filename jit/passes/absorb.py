"""Lets convolutions take in the biases and the zeros that stand beside them."""

from __future__ import annotations

from typing import Any

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.dtypes import float32, float64
from jit.ir.sizes import only_if

from .support.analysis import with_subgraphs
from .support.builder import GraphBuilder
from .support.spaces import argument, arguments

FORWARD, BACKWARD, PAD = "aten::convolution", "aten::convolution_backward", "aten::constant_pad_nd"


def absorb(graph: Graph) -> bool:
    """Make what convolutions have arguments for their arguments; says whether there was any.

    1.  What is added to each channel of a convolution's result, which nobody else reads, is its bias:

            %1 : Float(2, 8, 5, 5) = aten::convolution(%x, %w)         %3 : Float(8) = aten::reshape[shape=[8]](%2)
            %2 : Float(1, 8, 1, 1) = aten::view(%b)                    %4 = aten::convolution(%x, %w, %3)
            %3 : Float(2, 8, 5, 5) = aten::add(%1, %2)

    2.  Zeros around an image, as many on either side, are its padding. So they are in a gradient, whose gradient of the
        image is then that of the image without zeros, which others cut out.

            %1 = aten::constant_pad_nd[pad=[1, 1, 1, 1]](%x)           %2 = aten::convolution[padding=[1, 1]](%x, %w)
            %2 = aten::convolution[padding=[0, 0]](%1, %w)
    """
    changes = [_absorbed(node) for inner in with_subgraphs(graph) for node in list(inner.nodes)]
    return any(changes)


def _absorbed(node: Node) -> bool:
    if node.kind == "aten::add":
        return any(_take_bias(node, *pair) for pair in (node.operands, node.operands[::-1]) if len(pair) == 2)
    return node.kind in (FORWARD, BACKWARD) and _take_zeros(node)


# -- case 1 ------------------------------------------------------------------------------------------------------


def _take_bias(node: Node, result: Any, bias: Any) -> bool:
    """Let the convolution that makes `result` add `bias`, in the place of the addition."""
    if not isinstance(result, Value) or not isinstance(bias, Value) or "alpha" in node.attributes:
        return False
    convolution = result.node
    is_private = convolution.kind == FORWARD and len(result.uses) == 1 and convolution.stage == node.stage
    if not is_private or argument(convolution, "bias") is not None or not only_if(lambda: _is_by_channel(bias, result)):
        return False
    assert node.graph is not None
    with node.graph.inserting_before(node):
        F = GraphBuilder(node.graph, node.stage, origin=convolution)
        op, values = arguments(convolution)
        values[2] = F.reshape(F.wrap(bias), [result.type.sizes[1]])  # type: ignore[attr-defined]
        made = F.call(op, [F.wrap(value) for value in values])
    node.replace_with([made.value])
    convolution.erase()
    return True


def _is_by_channel(bias: Value, result: Value) -> bool:
    """Whether a value has an element for each channel of an image, and no other dim."""
    types = bias.type, result.type
    if not all(isinstance(t, TensorType) and t.sizes is not None and t.dtype in (float32, float64) for t in types):
        return False
    added, image = types
    assert isinstance(added, TensorType) and isinstance(image, TensorType) and added.sizes and image.sizes
    by_channel = (image.sizes[1], *(1 for _ in image.sizes[2:]))
    return added.dtype is image.dtype and added.sizes in (by_channel, (1, *by_channel))


# -- case 2 ------------------------------------------------------------------------------------------------------


def _take_zeros(node: Node) -> bool:
    """Read the image without the zeros around it, which become padding."""
    op, values = arguments(node)
    names = op.schema.argument_names
    at, padding = names.index("input"), names.index("padding")
    pad = values[at].node
    widths = None if values[names.index("transposed")] is not False else _zeros_around(pad, len(values[padding]))
    if widths is None or not (node.kind == FORWARD or _uncut(node, pad)):
        return False
    values[at], values[padding] = pad.inputs[0], [n + width for n, width in zip(values[padding], widths, strict=True)]
    node.rewrite(*op.split(values))
    return True


def _zeros_around(pad: Node, rank: int) -> list[int] | None:
    """The numbers of zeros on either side of an image, by spatial dim; None if something else stands there."""
    if pad.kind != PAD or str(argument(pad, "value")) not in ("0", "0.0"):
        return None
    widths = argument(pad, "pad")
    if len(widths) > 2 * rank or not all(type(n) is int and n >= 0 for n in widths) or widths[::2] != widths[1::2]:
        return None
    return [0] * (rank - len(widths) // 2) + list(widths[::2])[::-1]


def _uncut(node: Node, pad: Node) -> bool:
    """Let those who cut the zeros out of the gradient of an image read the whole of it; False if others read it."""
    gradient, image = node.outputs[0], pad.inputs[0]
    cuts = [use.node for use in gradient.uses]
    cut = [-n for n in argument(pad, "pad")]
    if not all(user.kind == PAD and list(argument(user, "pad")) == cut for user in cuts):
        return False
    if cuts:
        gradient.type = cuts[0].output.type
    for user in cuts:
        user.replace_with([gradient])
    return isinstance(image.type, TensorType)
