"""lift_numbers: numbers of the run become 0-d tensors, which kernels read."""

import numpy as np
import pytest
from expecttest import assert_expected_inline

import jit
from jit.ir import parse
from jit.passes import run
from jit.runtime.arrays.interpreter import Interpreter
from tests.passes.common import transformed, unchanged


def test_operands_and_factors() -> None:
    after = transformed(
        "lift_numbers",
        """graph(%p : Float(3), %g : Float(3), %m : Long(3), %lr : float, %n : int) {
          %0 : Float(3) = aten::mul(%p, %lr)  # m.py:1 in f
          %1 : Float(3) = aten::sub[alpha=%lr](%0, %g)
          %2 : Float(3) = aten::div(%m, %n)
          %3 : Float(3) = aten::rsub(%1, %lr)
          return (%2, %3)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%p : Float(3), %g : Float(3), %m : Long(3), %lr : float, %n : int) {
  %4 : Float() = aten::scalar_tensor[s=%lr, dtype=jit.float32]()
  %5 : Float(3) = aten::mul(%p, %4)  # m.py:1 in f
  %6 : Float() = aten::scalar_tensor[s=%lr, dtype=jit.float32]()
  %7 : Float(3) = aten::mul(%g, %6)
  %8 : Float(3) = aten::sub(%5, %7)
  %9 : Float() = aten::scalar_tensor[s=%n, dtype=jit.float32]()
  %10 : Float(3) = aten::div(%m, %9)
  %11 : Float() = aten::scalar_tensor[s=%lr, dtype=jit.float32]()
  %12 : Float(3) = aten::rsub(%8, %11)
  return (%10, %12)
}""",
    )


def test_what_stays() -> None:
    assert unchanged(
        "lift_numbers",
        """graph(%m : Long(3), %h : Half(3), %x : Float(3), %c : Float(3), %n : int, %a : float, %y : Double(3)) {
          %0 : Long(3) = aten::mul(%m, %n)
          %1 : Half(3) = aten::mul(%h, %a)
          %3 : Double(3) = aten::add[alpha=%a](%y, %x)
          %4 : Long(3) = aten::add[alpha=%n](%m, %m)
          return (%0, %1, %3, %4)
        }""",
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("number", [0.1, -3, 1e300, float("nan"), 2**70, 0])
def test_same_bits(dtype: str, number: float) -> None:
    text = """graph(%x : Float(5), %y : Float(5), %n : KIND) {
      %0 : Float(5) = aten::mul(%x, %n)
      %1 : Float(5) = aten::add[alpha=%n](%x, %y)
      %2 : Float(5) = aten::sub(%n, %x)
      %3 : Bool(5) = aten::gt(%x, %n)
      return (%0, %1, %2, %3)
    }""".replace("KIND", type(number).__name__)
    text = text.replace("Float", {"float32": "Float", "float64": "Double", "int64": "Float", "float16": "Half"}[dtype])
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 5)).astype("float32" if dtype == "int64" else dtype)
    graph = parse(text)
    expected = Interpreter(graph.clone()).run(0, [x, y, number])[0]
    run(graph, ["lift_numbers", "cse", "dce"])
    for a, b in zip(expected, Interpreter(graph).run(0, [x, y, number])[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_promoted_rate_is_read_by_the_kernel() -> None:
    rate = 0.5
    step = jit.trace(lambda p, g: p.sub(jit.abs(g), alpha=rate))
    step.promote("rate")
    p, g = jit.randn(4), jit.randn(4)
    for rate in (0.5, 0.25, 0.125):
        assert step(p, g).tolist() == (p - jit.abs(g) * rate).tolist()
    assert step.misses == 1
    assert [kernel.name for kernel in step.kernels] == ["abs_mul_sub"]
