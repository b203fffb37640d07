"""Dead code elimination: removes the nodes whose results nobody uses."""

from __future__ import annotations

from jit.ir import Graph, Node, TensorType, find
from jit.ir.attempts import may_raise

from .support.analysis import has_effects, with_subgraphs


def dce(graph: Graph, by_sizes: bool = False) -> bool:
    """Erase the nodes whose outputs nobody uses, and then those that only they used.

    The roots are the returns and updates of all stages, and every node with effects: guards, prints, PythonOps and
    CppOps that are not marked pure, and operators that raise for some elements (`Op.raises`), because the function may
    catch the error. A node whose sub-graph has effects has them too. The outputs of a body stay, used or not, because
    they stand for the outputs of its node.

    Args:
        graph: Any graph.
        by_sizes: Whether sizes vary from run to run; then operators that may refuse some sizes are roots, too.

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
            if inner is graph and any(value.uses for value in node.outputs):
                continue  # it stays, and nobody asks whether the whole graph must run
            inside = any(id(part) in effectful for part in node.subgraphs)
            if inside or has_effects(node) or may_raise(node) or (by_sizes and _looks_at_sizes(node)):
                effectful.add(id(inner))
            elif not any(value.uses for value in node.outputs):
                node.erase()
                changed = True
    return changed


def _looks_at_sizes(node: Node) -> bool:
    """Whether an operator may refuse the sizes of its operands: all but pointwise ones of a single tensor."""
    op = find(node.kind)
    if op is None or op.kind == "composite":
        return False
    tensors = sum(isinstance(value.type, TensorType) for value in node.inputs)
    return tensors > 1 or (tensors == 1 and op.kind != "pointwise")
