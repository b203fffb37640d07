"""Gives the values of a graph their canonical names, so that equal computations print as equal text."""

from __future__ import annotations

from jit.ir import Graph

from .support.analysis import with_subgraphs


def canonicalize(graph: Graph) -> bool:
    """Number the automatic names 0, 1, 2, ... in the order of their definition, in sub-graphs too.

    Names that mean something (`%x`, `%fc.weight`), the order of nodes, stages, sources and scopes stay.

    Given `graph(%x : int) { %7 : int = prim::neg(%x) return (%7) }`, %7 becomes %0.
    """
    renumbered = [inner.renumber() for inner in with_subgraphs(graph)]
    return any(renumbered)
