"""unroll: recurrences of known length become their steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from expecttest import assert_expected_inline

import jit
from jit import nn
from jit.ir import Graph, Op, TensorType, dtypes
from jit.ir.op import REGISTRY
from jit.passes import find_pass, run
from jit.passes.unroll import FEW, MOST, SHORT
from jit.runtime.arrays.interpreter import Interpreter
from tests.passes.common import transformed, unchanged
from tests.registry_cases import all_cases
from tests.tolerances import assert_close

RNN = """graph(%s : %s, %%h : %s(%s, 2), %%w : %s(2, 2)) {
  %%0 : %s, %%1 : %s(%s, 2) = aten::_rnn_layer[relu=False, backwards=False](%s, %%h, %%w)
  return (%%0)
}"""


def layer(shares: str, dtype: str = "Float") -> str:
    batch = shares.split(", ")[1]
    return RNN % ("%x", shares, dtype, batch, dtype, shares, dtype, batch, "%x")


def test_a_layer_becomes_its_steps() -> None:
    assert_expected_inline(
        transformed("unroll", layer("Float(2, 1, 2)")),
        """\
graph(%x : Float(2, 1, 2), %h : Float(1, 2), %w : Float(2, 2)) {
  %2 : Float(1, 2), %3 : Float(1, 2) = aten::unbind.int(%x)
  %4 : Float(2, 2, strides=[1, 2]) = aten::t(%w)
  %5 : Float(1, 2) = aten::mm(%h, %4)
  %6 : Float(1, 2) = aten::add(%2, %5)
  %7 : Float(1, 2) = aten::tanh(%6)
  %8 : Float(2, 2, strides=[1, 2]) = aten::t(%w)
  %9 : Float(1, 2) = aten::mm(%7, %8)
  %10 : Float(1, 2) = aten::add(%3, %9)
  %11 : Float(1, 2) = aten::tanh(%10)
  %12 : Float(1, 1, 2) = aten::unsqueeze[dim=0](%7)
  %13 : Float(1, 1, 2) = aten::unsqueeze[dim=0](%11)
  %14 : Float(2, 1, 2) = aten::cat([%12, %13])
  return (%14)
}""",
    )


def test_what_has_to_stay() -> None:
    assert unchanged("unroll", layer("Half(2, 1, 2)", "Half"))  # each step would be rounded
    assert unchanged("unroll", layer("Float(n, 1, 2)"))
    assert unchanged("unroll", layer(f"Float({MOST + 1}, 1, 2)"))
    assert not unchanged("unroll", layer(f"Float({MOST}, 1, 2)"))
    assert unchanged("unroll", layer(f"Float({FEW + 1}, {SHORT // FEW}, 2)"))
    assert not unchanged("unroll", layer(f"Float({FEW}, {SHORT // FEW}, 2)"))
    chosen = """graph(%x : Float(4, 1, 2), %i : Long(4), %h : Float(1, 2), %w : Float(2, 2)) {
      %0 : Long(3, 1) = aten::nonzero(%i)
      %1 : Long(3) = aten::squeeze.dim[dim=1](%0)
      %2 : Float(3, 1, 2) = aten::index_select[dim=0](%x, %1)
      %3 : Float(3, 1, 2), %4 : Float(1, 2) = aten::_rnn_layer[relu=False, backwards=False](%2, %h, %w)
      return (%4)
    }"""
    assert unchanged("unroll", chosen)  # another call may have another number of steps


RECURRENCES = [op for op in REGISTRY.values() if op.recurrence is not None]


@pytest.mark.parametrize("op", RECURRENCES, ids=lambda op: op.schema.name)
def test_steps_compute_what_the_operator_computes(op) -> None:
    for case in all_cases(op):
        values = case.sample.args
        arrays = [a for a in values if isinstance(a, np.ndarray)]
        if arrays[0].dtype != np.float16:
            graph = graph_of(op, values)
            wanted = Interpreter(graph.clone()).run(0, arrays)[0]
            assert find_pass("unroll")(graph)
            assert op.name not in {node.kind for node in graph.nodes}
            for a, b in zip(Interpreter(graph).run(0, arrays)[0], wanted, strict=True):
                assert_close(a, b)


def graph_of(op: Op, values: Sequence[Any]) -> Graph:
    """A graph of one node, which is given the arrays among its arguments."""
    graph = Graph()
    known = [TensorType(dtypes.from_numpy(v.dtype), v.shape) if isinstance(v, np.ndarray) else v for v in values]
    operands, attributes = op.split([graph.add_input(k) if isinstance(k, TensorType) else k for k in known])
    graph.set_return(list(graph.add(op.name, operands, attributes, op.infer(known)).outputs))
    return graph


def test_a_traced_network_of_one_length_has_no_recurrence_left() -> None:
    network = nn.LSTM(3, 4, 2, bidirectional=True)
    traced = jit.trace(lambda x: network(x)[0])
    x = jit.zeros(6, 2, 3)
    with jit.no_grad():
        traced(x)
        graph = traced.graph_for(x).clone()
    run(graph, ["inline_composites", "constant_fold", "unroll"])
    assert not any("_layer" in node.kind for node in graph.nodes)
