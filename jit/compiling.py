"""From a recorded graph to the one that runs: which passes, in which order, and what they made."""

from __future__ import annotations

from typing import Any

from jit.ir import Graph


def unoptimised(graph: Graph) -> Graph:
    """The graph as it was recorded: runs bit for bit as eager mode does."""
    return graph


def optimise(graph: Graph) -> Graph:
    """A copy of the graph, improved by the passes."""
    return graph


def titled_graphs(graph: Graph) -> list[Any]:
    """One titled graph per pass."""
    return [("recorded", graph)]
