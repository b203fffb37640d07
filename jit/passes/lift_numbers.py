"""Makes 0-d tensors of numbers that are known only at run time, where pointwise operators compute with them."""

from __future__ import annotations

from typing import Any

from jit.ir import Graph, Node, Op, Value, find
from jit.ir.dtypes import DType, float32, float64
from jit.ir.types import FLOAT, INT

from .support.analysis import with_subgraphs
from .support.builder import GraphBuilder
from .support.size_fractions import fraction_of_sizes, has_sizes
from .support.spaces import arguments

_SUMS = ("aten::add", "aten::sub")


def lift_numbers(graph: Graph) -> bool:
    """Let kernels read numbers that change from run to run, such as a promoted learning rate; says if there were any.

        graph(%p : Float(3), %g : Float(3), %lr : float) {
          %0 : Float(3) = aten::mul(%p, %lr)
          %1 : Float(3) = aten::sub[alpha=%lr](%0, %g)
          return (%1)
        }

    becomes

        graph(%p : Float(3), %g : Float(3), %lr : float) {
          %2 : Float() = aten::scalar_tensor[s=%lr, dtype=jit.float32]()
          %0 : Float(3) = aten::mul(%p, %2)
          %3 : Float() = aten::scalar_tensor[s=%lr, dtype=jit.float32]()
          %4 : Float(3) = aten::mul(%g, %3)
          %1 : Float(3) = aten::sub(%0, %4)
          return (%1)
        }

    The tensor has the dtype in which the operator computes, to which the number would be rounded anyway, so the bits
    are the same. What follows from sizes, such as `n / (n - 1)`, is computed in tensors of float64 (`size_fractions`).
    Operators that compute with integers or 16-bit floats keep their numbers: there the dtype of the result would be
    another one, or a product would be rounded once more.
    """
    return any([_lift(node) for inner in with_subgraphs(graph) for node in inner.nodes])


def _lift(node: Node) -> bool:
    op = find(node.kind)
    if op is None or op.kind != "pointwise" or not any(_is_number(value) for value in node.inputs):
        return False
    dtype = op.compute_dtype([v.type if isinstance(v, Value) else v for v in arguments(node)[1]])
    if dtype not in (float32, float64) or node.graph is None:
        return False
    with node.graph.inserting_before(node):
        return _rewritten(node, op, dtype, GraphBuilder(node.graph, node.stage))


def _rewritten(node: Node, op: Op, dtype: DType, F: GraphBuilder) -> bool:
    _, given = arguments(node)
    values = [F.wrap(value) for value in given]
    for index in op.tensors:
        if _is_number(given[index]):
            values[index] = _as_tensor(given[index], dtype, F)
    if node.kind in _SUMS and _is_number(given[2]) and getattr(given[1].type, "dtype", None) is dtype:
        values[1:] = [F.mul(values[1], _as_tensor(given[2], dtype, F)), 1]
    made: Value = F.call(op, values).value
    if _is_same(made.node, node) or made.type != node.output.type:
        made.node.erase()
        return False
    made.node.source, made.node.scope = node.source, node.scope
    node.replace_with([made])
    for value in given:
        if _is_number(value):
            _erase_unused(value)
    return True


def _as_tensor(number: Value, dtype: DType, F: GraphBuilder) -> Any:
    fraction = fraction_of_sizes(number, F)
    if fraction is None:
        return F.scalar_tensor(number, dtype=dtype)
    return fraction if dtype is float64 else F._to_copy(fraction, dtype=dtype)


def _erase_unused(number: Value) -> None:
    """Erase the arithmetic behind a fraction of sizes, which goes well, if nobody wants the number any more."""
    operands = number.node.operands
    if number.node.graph is not None and not number.uses and has_sizes(number):
        number.node.erase()
        for operand in operands:
            if isinstance(operand, Value):
                _erase_unused(operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, Value) and value.type in (INT, FLOAT)


def _is_same(made: Node, node: Node) -> bool:
    return list(made.inputs) == list(node.inputs)
