"""Replaces operators that no kernel computes by parts that kernels compute."""

from __future__ import annotations

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.graph import map_template

from .support.analysis import with_subgraphs
from .support.builder import GraphBuilder
from .support.spaces import arguments


def spell_out(graph: Graph) -> bool:
    """Let the parts of operators stand where these stood, as their declarations say; says whether there were any.

    The interpreter has bodies for such operators that are faster than their parts; in a plan they would cut a stretch:

    Given                                                Result (for a gradient of 4 classes)
        %1 : Float(3, 4) = aten::nll_loss_backward           %1 : Long(4, 1) = aten::arange[end=4]()
            (%g, %x, %classes, None, %total)                 %2 : Bool(3, 4) = aten::eq(%1, %classes)
                                                             %3 : Float(3, 4) = aten::where(%2, %share, 0.0)
    """
    return any([_spelled(node) for inner in with_subgraphs(graph) for node in list(inner.nodes)])


def _spelled(node: Node) -> bool:
    op = find(node.kind)
    if op is None or op.spelling is None or node.graph is None or not all(map(_is_known, node.inputs)):
        return False
    if op.raises and not any(value.uses for value in node.outputs):  # it runs for its errors, and parts would go in dce
        return False
    with node.graph.inserting_before(node):
        F = GraphBuilder(node.graph, node.stage, origin=node)
        made = op.ask(op.spelling, map_template(F.wrap, arguments(node)[1]), F)
    if made is None:
        return False
    parts = made if isinstance(made, (list, tuple)) else [made]
    node.replace_with([old if part is None else part.value for old, part in zip(node.outputs, parts, strict=True)])
    return True


def _is_known(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.sizes is not None and value.type.dtype is not None
