"""batch_mm: sums of short products become one product, and nothing else changes."""

import numpy as np
import pytest
from expecttest import assert_expected_inline

import jit
from jit.runtime.arrays.interpreter import Interpreter
from jit.tracing.recordings.compiling import optimise
from tests.passes.common import transformed, unchanged


def test_a_sum_of_products_is_one_product() -> None:
    after = transformed(
        "batch_mm",
        """graph(%a : Float(64, 8), %b : Float(8, 32), %c : Float(64, 4), %d : Float(4, 32), %x : Float(64, 32)) {
          %1 : Float(64, 32) = aten::mm(%a, %b)
          %2 : Float(64, 32) = aten::mm(%c, %d)
          %3 : Float(64, 32) = aten::add(%1, %x)
          %4 : Float(64, 32) = aten::add(%2, %3)  # m.py:1 in f
          return (%4)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%a : Float(64, 8), %b : Float(8, 32), %c : Float(64, 4), %d : Float(4, 32), %x : Float(64, 32)) {
  %0 : Float(64, 12) = aten::cat[dim=1]([%a, %c])  # m.py:1 in f
  %5 : Float(12, 32) = aten::cat[dim=0]([%b, %d])  # m.py:1 in f
  %6 : Float(64, 32) = aten::mm(%0, %5)  # m.py:1 in f
  %7 : Float(64, 32) = aten::add(%6, %x)  # m.py:1 in f
  return (%7)
}""",
    )


LONG = """graph(%a : Float(4, 80), %b : Float(80, 4)) {
  %0 : Float(4, 4) = aten::mm(%a, %b)
  %1 : Float(4, 4) = aten::mm(%a, %b)
  %2 : Float(4, 4) = aten::add(%0, %1)
  return (%2)
}"""
SHARED = """graph(%a : Float(40, 8), %b : Float(8, 40)) {
  %0 : Float(40, 40) = aten::mm(%a, %b)
  %1 : Float(40, 40) = aten::mm(%a, %b)
  %2 : Float(40, 40) = aten::add(%0, %1)
  return (%2, %0)
}"""
SCALED = """graph(%a : Float(40, 8), %b : Float(8, 40)) {
  %0 : Float(40, 40) = aten::mm(%a, %b)
  %1 : Float(40, 40) = aten::mm(%a, %b)
  %2 : Float(40, 40) = aten::add[alpha=2](%0, %1)
  return (%2)
}"""
BROADCAST = """graph(%a : Float(40, 8), %b : Float(8, 40), %c : Float(1, 8)) {
  %0 : Float(40, 40) = aten::mm(%a, %b)
  %1 : Float(1, 40) = aten::mm(%c, %b)
  %2 : Float(40, 40) = aten::add(%0, %1)
  return (%2)
}"""


@pytest.mark.parametrize("text", [LONG, SHARED, SCALED, BROADCAST])
def test_what_stays(text: str) -> None:
    assert unchanged("batch_mm", text)


def test_each_stage_by_itself() -> None:
    assert unchanged(
        "batch_mm",
        """graph(%a : Float(40, 8), %b : Float(8, 40)) {
          %0 : Float(40, 40) = aten::mm(%a, %b)
          return (%0)
        ---- stage 1 (%g : Float(40, 40)) ----
          %1 : Float(40, 40) = aten::mm(%a, %b)
          %2 : Float(40, 40) = aten::add(%0, %1)
          return (%2)
        }""",
    )


def test_the_gradient_of_a_weight_used_often() -> None:
    def f(x: jit.Tensor, w: jit.Tensor) -> jit.Tensor:
        h = x
        for _ in range(6):
            h = jit.tanh(h @ w)
        (found,) = jit.grad(h.sum(), [w])
        return found

    x, w = jit.randn(4, 32), (jit.randn(32, 32) / 6).requires_grad_()
    traced = jit.trace(f)
    traced(x, w)
    graph = optimise(traced.graph)
    products = [node for node in graph.nodes if node.kind == "aten::mm"]
    assert len(products) == 6 + 5 + 1, str(graph)  # forward, the gradients of h, and one for w
    arrays = [x.numpy(), w.detach().numpy()]
    expected, found = (Interpreter(g).run(0, arrays)[0][0] for g in (traced.graph, graph))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_ten_thousand_terms() -> None:
    from jit.ir import Graph, TensorType, dtypes
    from jit.passes.batch_mm import batch_mm

    graph = Graph()
    a, b = (graph.add_input(TensorType(dtypes.float32, s)) for s in ((16, 2), (2, 16)))
    type = TensorType(dtypes.float32, (16, 16))
    total = graph.add("aten::mm", (a, b), types=[type]).output
    for _ in range(10_000):
        term = graph.add("aten::mm", (a, b), types=[type]).output
        total = graph.add("aten::add", (total, term), types=[type]).output
    graph.set_return([total])
    assert batch_mm(graph)
    assert [node.kind for node in graph.nodes][-3:] == ["aten::cat", "aten::cat", "aten::mm"]
