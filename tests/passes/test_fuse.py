"""What joins a FusionGroup, and what the group computes."""

from typing import Any

import numpy as np
import pytest
from expecttest import TestCase

import jit
from jit.ir import Graph, parse
from jit.passes.fuse import fuse
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.kernels.fusion import supports


def cell(gates, c):
    i, f, g, o = gates.chunk(4, 1)
    c2 = jit.sigmoid(f) * c + jit.sigmoid(i) * jit.tanh(g)
    return jit.sigmoid(o) * jit.tanh(c2), c2


def recorded(function, *args):
    traced = jit.trace(function, optimize=False)
    traced(*args)
    return traced.graph.clone()


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def run(graph, *arrays):
    return Interpreter(graph).run(0, arrays)[0]


class Expected(TestCase):
    def test_a_chain_becomes_one_group(self):
        graph = parse(
            """graph(%x : Float(4), %y : Float(4)) {
  %0 : Float(4) = aten::mul(%x, %y)
  %1 : Float(4) = aten::tanh(%0)
  return (%1)
}"""
        )
        assert fuse(graph)
        self.assertExpectedInline(
            str(graph),
            """\
graph(%x : Float(4), %y : Float(4)) {
  %2 : Float(4) = prim::FusionGroup[body=@0](%x, %y)
  return (%2)
}
where @0 = graph(%0 : Float(4), %1 : Float(4)) {
  %2 : Float(4) = aten::mul(%0, %1)
  %3 : Float(4) = aten::tanh(%2)
  return (%3)
}""",
        )

    def test_a_value_that_is_used_outside_becomes_an_output(self):
        graph = parse(
            """graph(%x : Float(4)) {
  %0 : Float(4) = aten::tanh(%x)
  %1 : Float(4) = aten::neg(%0)
  return (%0, %1)
}"""
        )
        assert fuse(graph)
        assert kinds(graph) == ["prim::FusionGroup"]
        assert len(next(graph.nodes).outputs) == 2

    def test_a_use_in_between_keeps_a_producer_out(self):
        graph = parse(
            """graph(%x : Float(2, 2), %y : Float(2, 2)) {
  %0 : Float(2, 2) = aten::tanh(%x)
  %1 : Float(2, 2) = aten::mm(%0, %y)
  %2 : Float(2, 2) = aten::add(%0, %1)
  %3 : Float(2, 2) = aten::neg(%2)
  return (%3)
}"""
        )
        assert fuse(graph)
        assert kinds(graph) == ["aten::tanh", "aten::mm", "prim::FusionGroup"]

    def test_siblings_that_can_wait_come_along(self):
        graph = parse(
            """graph(%g : Float(2, 2), %o : Float(2, 2), %f : Float(2, 2)) {
  %0 : Float(2, 2) = aten::mul(%g, %o)
  %1 : Float(2, 2) = aten::mul(%0, %f)
  %2 : Float(2, 2) = aten::mul(%0, %g)
  %3 : Float(2, 4) = aten::cat[dim=1]([%0, %2])
  return (%1, %3)
}"""
        )
        assert fuse(graph)
        self.assertExpectedInline(
            str(graph),
            """\
graph(%g : Float(2, 2), %o : Float(2, 2), %f : Float(2, 2)) {
  %4 : Float(2, 2), %5 : Float(2, 4) = prim::FusionGroup[body=@0](%g, %o, %f)
  return (%4, %5)
}
where @0 = graph(%0 : Float(2, 2), %1 : Float(2, 2), %3 : Float(2, 2)) {
  %2 : Float(2, 2) = aten::mul(%0, %1)
  %4 : Float(2, 2) = aten::mul(%2, %3)
  %5 : Float(2, 2) = aten::mul(%2, %0)
  %6 : Float(2, 4) = aten::cat[dim=1]([%2, %5])
  return (%4, %6)
}""",
        )

    def test_a_sibling_that_somebody_waits_for_stays_behind(self):
        graph = parse(
            """graph(%g : Float(2, 2), %o : Float(2, 2), %f : Float(2, 2)) {
  %0 : Float(2, 2) = aten::mul(%g, %o)
  %1 : Float(2, 2) = aten::mul(%0, %f)
  %2 : Float(2, 2) = aten::mm(%1, %f)
  %3 : Float(2, 2) = aten::mul(%0, %g)
  %4 : Float(2, 4) = aten::cat[dim=1]([%2, %3])
  return (%4)
}"""
        )
        assert fuse(graph)
        assert kinds(graph) == ["prim::FusionGroup", "aten::mm", "prim::FusionGroup"]

    def test_stages_are_not_mixed(self):
        graph = parse(
            """graph(%x : Float(4)) {
  %0 : Float(4) = aten::tanh(%x)
  return (%0)
---- stage 1 (%g : Float(4)) ----
  %1 : Float(4) = aten::mul(%0, %0)
  %2 : Float(4) = aten::rsub(%1, 1)
  %3 : Float(4) = aten::mul(%g, %2)
  return (%3)
}"""
        )
        assert fuse(graph)
        assert kinds(graph) == ["aten::tanh", "prim::FusionGroup"]


def test_an_lstm_cell_is_one_group_that_reads_the_chunks_in_place():
    gates, c = jit.rand(3, 20), jit.rand(3, 5)
    graph = recorded(cell, gates, c)
    assert fuse(graph, supports)
    group = next(node for node in graph.nodes if node.kind == "prim::FusionGroup")
    assert group.inputs[0].name == "gates"
    h, c2 = run(graph, gates._array, c._array)
    expected = cell(gates, c)
    np.testing.assert_allclose(h, expected[0]._array, rtol=1e-6)
    np.testing.assert_allclose(c2, expected[1]._array, rtol=1e-6)


ARITHMETIC: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "broadcast": (lambda x, y: (x + y) * x - 1, [(4, 1, 3), (5, 1)]),
    "scalar": (lambda x, y: (x * 2 + y) / 3, [(4, 5), ()]),
    "compare": (lambda x, y: jit.where(x > y, x * y, y - x), [(7,), (7,)]),
    "extrema": (lambda x, y: jit.maximum(x, y) - jit.minimum(x, -y), [(3, 3), (3, 3)]),
    "empty": (lambda x, y: (x + y) * 2, [(0, 3), (1, 3)]),
    "0-d": (lambda x, y: (x + y) * y, [(), ()]),
}


@pytest.mark.llvm
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_kernels_equal_the_interpreter_bit_for_bit_in_arithmetic(name, dtype):
    function, shapes = ARITHMETIC[name]
    rng = np.random.default_rng(0)
    arrays = [
        np.asarray(rng.integers(-9, 9, s) + (rng.random(s) if dtype.startswith("f") else 0)).astype(dtype)
        for s in shapes
    ]
    graph = recorded(function, *map(jit.from_numpy, arrays))
    (expected,) = run(graph.clone(), *arrays)
    assert fuse(graph, supports)
    for layout in (lambda a: a, lambda a: a.copy(order="F"), lambda a: np.repeat(a, 2, -1)[..., ::2] if a.ndim else a):
        (found,) = run(graph, *map(layout, arrays))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.llvm
def test_half_precision_rounds_after_every_op():
    x = jit.rand(64).half()
    y = jit.rand(64).half()

    def function(x, y):
        return (x * y + x) * y

    graph = recorded(function, x, y)
    (expected,) = run(graph.clone(), x._array, y._array)
    assert fuse(graph, supports)
    np.testing.assert_array_equal(run(graph, x._array, y._array)[0], expected)


def test_long_chains_fuse_in_linear_time():
    graph = Graph()
    value = graph.add_input(jit.ir.TensorType(jit.float32, (4,)), "x")
    for _ in range(5000):
        value = graph.add("aten::neg", (value,), types=[value.type]).output
    graph.set_return([value])
    assert fuse(graph)
    assert kinds(graph) == ["prim::FusionGroup"] * 5  # functions of bounded size


def test_a_space_without_elements_takes_no_reduction_of_others() -> None:
    f = jit.trace(lambda x: jit.zeros(0, 6) + x.sum())
    for _ in range(3):
        assert f(jit.ones(4, 6)).shape == (0, 6)


def test_what_no_kernel_makes_up_is_made_up_once() -> None:
    graph = parse("""graph(%x : Float(3), %z : ComplexFloat(3)) {
      %0 : Long(3) = aten::arange.start_step[start=0, end=3]()
      %1 : Long(3) = aten::arange.start_step[start=0, end=3]()
      %2 : Long(3) = aten::arange.start_step[start=0, end=3]()
      %3 : ComplexFloat(3) = aten::mul(%z, %0)
      %4 : ComplexFloat(3) = aten::add(%z, %1)
      %5 : Float(3) = aten::add(%x, %2)
      return (%3, %4, %5)
    }""")
    assert fuse(graph, supports)
    assert kinds(graph) == ["aten::arange.start_step", "aten::mul", "aten::add", "prim::FusionGroup"]
