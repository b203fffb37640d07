"""cse: equal expressions once, and nothing merged that somebody could tell apart."""

import numpy as np
import pytest
from expecttest import assert_expected_inline

from jit.ir import Graph, TensorType, dtypes, verify
from jit.passes.cse import cse
from tests.passes.common import FLOAT23, transformed, unchanged


def test_equal_nodes_merge_and_so_do_their_users() -> None:
    after = transformed(
        "cse",
        """graph(%x : Float(2), %y : Float(2)) {
          %1 : Float(2) = aten::mul(%x, %y)  # m.py:1 in f
          %2 : Float(2) = aten::mul(%x, %y)  # m.py:2 in f
          %3 : Float(2) = aten::add[alpha=2](%1, 1)
          %4 : Float(2) = aten::add[alpha=2](%2, 1)
          %5 : Float(2) = aten::mul(%y, %x)
          %6 : Float(2) = aten::add(%3, %4)
          %7 : Float(2) = aten::add(%6, %5)
          return (%7)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2), %y : Float(2)) {
  %1 : Float(2) = aten::mul(%x, %y)  # m.py:1 in f
  %3 : Float(2) = aten::add[alpha=2](%1, 1)
  %5 : Float(2) = aten::mul(%y, %x)
  %6 : Float(2) = aten::add(%3, %3)
  %7 : Float(2) = aten::add(%6, %5)
  return (%7)
}""",
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [("2", "2.0"), ("1", "True"), ("0.0", "-0.0"), ("2", "3"), ("%x", "%y")],
)
def test_different_constants_stay_apart(first: str, second: str) -> None:
    assert unchanged(
        "cse",
        f"""graph(%x : Float(2), %y : Float(2)) {{
          %1 : Float(2) = aten::mul(%x, {first})
          %2 : Float(2) = aten::mul(%x, {second})
          %3 : Float(2) = aten::add(%1, %2)
          return (%3)
        }}""",
    )


def test_not_a_number_equals_itself_here() -> None:
    after = transformed(
        "cse",
        """graph(%x : Float(2)) {
          %1 : Float(2) = aten::mul(%x, nan)
          %2 : Float(2) = aten::mul(%x, nan)
          %3 : Float(2) = aten::add(%1, %2)
          return (%3)
        }""",
    )
    assert "aten::add(%1, %1)" in after


def test_arrays_are_compared_by_content() -> None:
    graph = Graph()
    type = TensorType(dtypes.float32, (50,))
    arrays = [np.zeros(50, np.float32), np.zeros(50, np.float32), -np.zeros(50, np.float32)]
    values = [graph.add("prim::Constant", (), {"value": array}, [type]).output for array in arrays]
    graph.set_return([graph.add("aten::cat", (values,), types=[TensorType(dtypes.float32, (150,))]).output])
    assert cse(graph)
    verify(graph)
    assert str(graph).split("\n")[-3] == "  %3 : Float(150) = aten::cat([%0, %0, %2])"


def test_random_operators_differ_by_their_state() -> None:
    assert unchanged(
        "cse",
        """graph(%rng : Generator) {
          %a : Float(2), %rng.1 : Generator = aten::rand[size=[2]](%rng)
          %b : Float(2), %rng.2 : Generator = aten::rand[size=[2]](%rng.1)
          %c : Float(2) = aten::add(%a, %b)
          return (%c)
          update (%rng = %rng.2)
        }""",
    )


def test_foreign_code_stages_and_subgraphs_stay_apart() -> None:
    assert unchanged(
        "cse",
        """graph(%x : Float(2)) {
          %a : Float(2), %h : Handle = ^Clip[pure=True](%x)
          %b : Float(2), %i : Handle = ^Clip[pure=True](%x)
          %c : Float(2) = cpp::mine(%x)
          %d : Float(2) = cpp::mine(%x)
          prim::Guard[expected=1](%x)
          prim::Guard[expected=1](%x)
          %e : Float(2) = prim::Group[body=@0](%x)
          %f : Float(2) = prim::Group[body=@1](%x)
          %y : Float(2) = aten::neg(%x)
          %k : Float(2) = aten::cat([%a, %b, %c, %d, %e, %f, %y])
          return (%k)
        ---- stage 1 (%g : Float(2)) ----
          %z : Float(2) = aten::neg(%x)
          %l : Float(2) = prim::Eval(%g, %h)
          %m : Float(2) = prim::Eval(%g, %h)
          %n : Float(2) = aten::cat([%z, %l, %m])
          return (%n)
        }
        where @0 = graph(%x : Float(2)) { return (%x) }
        where @1 = graph(%x : Float(2)) { return (%x) }""".replace("Float(2) = aten::cat", "Tensor = aten::cat"),
    )


def test_two_results_that_leave_the_graph_keep_their_own_memory() -> None:
    after = transformed(
        "cse",
        """graph(%x : Float(2, 3)) {
          %1 : Float(2, 3) = aten::neg(%x)
          %2 : Float(2, 3) = aten::neg(%x)
          %3 : Float(2, 3) = aten::neg(%x)
          %4 : Float(3, 2, strides=[1, 3]) = aten::t(%3)
          %5 : Float(2, 3) = aten::neg(%x)
          %6 : Float(2, 3) = aten::mul(%5, 2)
          return (%1, %2, %4, %6)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3)) {
  %1 : Float(2, 3) = aten::neg(%x)
  %2 : Float(2, 3) = aten::neg(%x)
  %3 : Float(2, 3) = aten::neg(%x)
  %4 : Float(3, 2, strides=[1, 3]) = aten::t(%3)
  %6 : Float(2, 3) = aten::mul(%1, 2)
  return (%1, %2, %4, %6)
}""",
    )


def test_a_merged_value_inherits_that_it_leaves_the_graph() -> None:
    after = transformed(
        "cse",
        """graph(%x : Float(2)) {
          %1 : Float(2) = aten::neg(%x)
          %2 : Float(2) = aten::neg(%x)
          %3 : Float(2) = aten::neg(%x)
          %4 : Float(2) = aten::mul(%1, 2)
          return (%2, %3, %4)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2)) {
  %1 : Float(2) = aten::neg(%x)
  %3 : Float(2) = aten::neg(%x)
  %4 : Float(2) = aten::mul(%1, 2)
  return (%1, %3, %4)
}""",
    )


def test_a_hundred_thousand_nodes() -> None:
    graph = Graph()
    left = right = graph.add_input(FLOAT23, "x")
    for _ in range(50_000):
        left = graph.add("aten::neg", (left,), types=[FLOAT23]).output
        right = graph.add("aten::neg", (right,), types=[FLOAT23]).output
    graph.set_return([graph.add("aten::mul", (left, right), types=[FLOAT23]).output])
    assert cse(graph)
    assert len(graph) == 50_001
