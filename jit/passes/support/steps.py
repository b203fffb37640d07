"""The steps of a recurrence as a graph: what its node stands for, if it is known how many steps there are."""

from __future__ import annotations

from jit.ir import Graph, Node, TensorType, find
from jit.ir.graph import map_template
from jit.ir.recurrence import unrolled
from jit.ir.sizes import SizeExpr

from .builder import GraphBuilder


def length_of(node: Node) -> int | None:
    """The number of steps of a recurrence, as its type says; None if it is not known, or the node is something else."""
    op = find(node.kind)
    if op is None or op.recurrence is None:
        return None
    type = node.inputs[0].type
    if not isinstance(type, TensorType) or type.dtype is None or type.sizes is None:
        return None
    length = type.sizes[0]
    return None if isinstance(length, SizeExpr) else length


def steps_of(node: Node) -> Graph:
    """The steps of a recurrence of known length, as a body with an input for each of the node's."""
    op = find(node.kind)
    assert op is not None and op.recurrence is not None
    body = Graph()
    inside = {
        value: body.add_input(value.type, None if value.name.isdecimal() else value.name) for value in node.inputs
    }
    F = GraphBuilder(body)
    values = op.join(node.operands, {name: node.resolve(item) for name, item in node.attributes.items()})
    given = [map_template(lambda leaf: F.wrap(inside.get(leaf, leaf)), value) for value in values]
    body.set_return([result.value for result in unrolled(F, op.recurrence(*given))])
    return body
