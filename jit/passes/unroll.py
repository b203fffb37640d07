"""Writes recurrences of known length step by step."""

from __future__ import annotations

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.sizes import estimating

from .inline_composites import inline_composites
from .support.analysis import fixed_shapes, with_subgraphs
from .support.steps import length_of, steps_of

FEW, MOST = 16, 128
"""The numbers of steps that are always written one by one, and only if they are short. A step takes milliseconds to
plan, and saves some microseconds at most, see Note [Blocks of steps] in `jit.runtime.plans.loops`."""
SHORT = 1 << 17
"""The most elements of a sequence whose steps are short: around a loop there are native calls of their own."""


def unroll(graph: Graph) -> bool:
    """Replace short recurrences whose number of steps is known by their steps; says whether there were any.

    Then all steps are one native call, and each is made for what the next one wants. Where the number follows from
    sizes that vary, or is large, the operator stays; so does one of 16-bit floats, whose steps would each be rounded.

    Given                                                Result
        %1 : Float(2, 1, 4), %2 : Float(1, 4) =              %1 : Float(1, 4), %2 : Float(1, 4) =
          aten::_rnn_layer[...](%shares, %h, %w)               aten::unbind.int(%shares)
        return (%2)                                          %3 : Float(4, 4, strides=[1, 4]) = aten::t(%w)
                                                             %4 : Float(1, 4) = aten::mm(%h, %3)
                                                             %5 : Float(1, 4) = aten::add(%1, %4)
                                                             %6 : Float(1, 4) = aten::tanh(%5)
                                                             ...
    """
    found = [node for inner in with_subgraphs(graph) for node in _with_known_length(inner)]
    for node in found:
        node.attributes["body"] = steps_of(node)
    chosen = set(found)
    return inline_composites(graph, select=chosen.__contains__)


def _with_known_length(graph: Graph) -> list[Node]:
    """The recurrences that have the same few steps in every run, which may be computed one by one."""
    candidates = [node for node in graph.nodes if _is_short(node) and not _is_half(node.inputs[0])]
    fixed = fixed_shapes(graph) if candidates else set()
    return [node for node in candidates if node.inputs[0] in fixed]


def _is_short(node: Node) -> bool:
    """Whether the steps of a recurrence are few, or not many and short."""
    length = length_of(node)
    if length is None or length <= FEW:
        return length is not None
    type = node.inputs[0].type
    assert isinstance(type, TensorType)
    return length <= MOST and _at_most(type.numel, SHORT)


@estimating()
def _at_most(size: int | None, most: int) -> bool:
    return size is not None and size <= most


def _is_half(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype is not None and value.type.dtype.is_half
