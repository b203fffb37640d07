"""Removes what nobody uses."""

from __future__ import annotations

from jit.ir import Graph

from .analysis import has_effects, with_subgraphs


def dce(graph: Graph) -> bool:
    """Erase the nodes whose outputs nobody uses, and then those that only they used.

    The roots are the returns and updates of all stages, and every node with effects: guards, prints, PythonOps and
    CppOps that are not marked pure. A node whose sub-graph has effects has them too. The outputs of a body stay, used
    or not, because they stand for the outputs of its node.

    Given                                            Result
        %1 = aten::exp(%x)                               %3 = aten::log(%x)
        %2 = aten::neg(%1)                               return (%3)
        %3 = aten::log(%x)
        return (%3)
    """
    changed = False
    effectful: set[int] = set()  # ids of the graphs that must run
    for inner in reversed(with_subgraphs(graph)):  # inner ones first: their effects decide about the node around them
        for node in inner.reversed_nodes:
            if has_effects(node) or any(id(part) in effectful for part in node.subgraphs):
                effectful.add(id(inner))
            elif not any(value.uses for value in node.outputs):
                node.erase()
                changed = True
    return changed
