"""Eager histories for calls whose recordings are not kept: what a function leaves behind is as in eager mode.

The history of a traced call ends at its inputs (Note [Where a trace ends]). A leaf that the function has made and keeps
somewhere, as `self.weight = nn.Parameter(...)` in a forward does, would never be reached by a backward from outside.
Nor would a tensor between arguments and results that a hook has kept. So the results of such a call have the history
that they have in eager mode. And the histories of tensors that the function keeps lead to the arguments themselves, so
that their gradients can be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.autograd.nodes import AccumulateGrad, Edge, Node, accumulator, edge_of
from jit.eager.tensors import Tensor


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


__all__ = ["EagerHistory", "connect", "enter", "lead"]
