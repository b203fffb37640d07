"""Eager histories for calls in which a function leaves a leaf behind; recordings of such calls are not kept.

The history of a traced call ends at its inputs (Note [Where a trace ends]). A leaf that the function has made and keeps
somewhere, as `self.weight = nn.Parameter(...)` in a forward does, would never be reached by a backward from outside; so
the results of such a call have the history that they have in eager mode. And the histories of tensors that the function
keeps lead to the arguments themselves, so that their gradients can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.autograd.nodes import AccumulateGrad, Edge, Node, accumulator, edge_of, node_of
from jit.eager.tensors import Tensor

if TYPE_CHECKING:
    from ..recorder.tracer import Trace


class EagerHistory(Node):
    """The history of everything that a traced call returned, handed on to the operators that ran."""

    kept = None
    """None, since no stage ever runs again."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        edges = [edge_of(t) if isinstance(t, Tensor) else None for t in outputs]
        super().__init__("TracedStage0Backward", edges, len(edges))

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        return gradients

    def whole(self, index: int) -> Edge:
        """The end of the history of output `index`: what other outputs were made of it leads there, too."""
        return self.edges[index] or Edge(self, index)


class Through(Node):
    """A node that ended the history of a stand-in for a leaf, and leads to the end of the leaf's own history now."""

    name = "AccumulateGrad"

    def apply(self, gradients: list[Tensor | None], needs: Sequence[bool]) -> Sequence[Tensor | None]:
        return gradients


def connect(edges: Sequence[Any]) -> None:
    """Let histories that end at stand-ins, at `edges`, go on to what they stand for."""
    for edge in edges:
        if edge is not None and type(edge.node) is AccumulateGrad:
            lead(edge, Edge(accumulator(edge.node.variable), 0))


def lead(inner: Edge, outer: Edge) -> None:
    """Let a history that ends at a stand-in for a leaf, at `inner`, go on at `outer`."""
    if type(inner.node) is AccumulateGrad and inner.node is not outer.node:
        inner.node.edges = (outer,)
        inner.node.__class__ = Through  # type: ignore[assignment]


def enter(node: Node, number: int, view: Node) -> Edge | None:
    """The edge at which the whole gradient of a view arrives, to which its own node leads from now on.

    Args:
        node: The history of what a traced call returned.
        number: The number of the view among the results.
        view: The node of the view outside of the call.

    Returns:
        None where no other result was made of the view.
    """
    edge = node.whole(number)
    if edge.node is node:
        return None
    view.edges, view.entrance = (edge,), None
    view.__class__ = Through
    return edge


def keeps_leaves(trace: Trace, outputs: Sequence[Any], reach: Callable[[], Sequence[Any]]) -> bool:
    """Whether gradients of `outputs` end at a leaf that was made inside, and is among the tensors in `reach()` now."""
    known = ((leaf, trace.memory.binding(leaf)) for leaf in _leaves(outputs))
    inside = {id(leaf) for leaf, binding in known if binding is not None and binding.cell.source is None}
    return bool(inside) and any(id(tensor) in inside for tensor in reach())


def _leaves(outputs: Sequence[Any]) -> Iterator[Tensor]:
    """The leaves at which the histories of tensors end."""
    nodes = [node for t in outputs if isinstance(t, Tensor) and (node := node_of(t)) is not None]
    seen: set[Node] = set(nodes)
    while nodes:
        node = nodes.pop()
        if isinstance(node, AccumulateGrad):
            yield node.variable
        following = {edge.node for edge in node.edges if edge is not None} - seen
        seen |= following
        nodes += following


__all__ = ["EagerHistory", "connect", "enter", "keeps_leaves", "lead"]
