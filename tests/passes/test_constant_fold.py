"""constant_fold: numbers, sizes, guards and constant arrays."""

import numpy as np
import pytest
from expecttest import assert_expected_inline

from jit.ir import Graph, TensorType, dtypes, parse, verify
from jit.ir.errors import GraphError
from jit.passes import run
from jit.passes.constant_fold import constant_fold
from jit.runtime.arrays.execute import execute
from tests.passes.common import FLOAT23, transformed, unchanged


def folded(text: str) -> str:
    """After folding with an evaluator, and dce."""
    graph = parse(text)
    run(graph, ["constant_fold", "dce"], options={"constant_fold": {"evaluate": execute}})
    return str(graph)


def test_sizes_and_arithmetic_on_them() -> None:
    after = transformed(
        "constant_fold",
        """graph(%x : Float(2, 3)) {
          %n : int = prim::size[dim=0](%x)  # m.py:3 in f
          %m : int = prim::mul(%n, 3)
          %k : int = prim::add(%m, prim)
          %y : Float(6) = aten::view[size=[%m]](%x)
          %z : Float(6) = aten::mul(%y, %n)
          return (%z, %m)
        }""".replace("%k : int = prim::add(%m, prim)", "%k : int = prim::floordiv(%m, -4)"),
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3)) {
  %0 : int = prim::Constant[value=2]()  # m.py:3 in f
  %1 : int = prim::Constant[value=6]()
  %2 : int = prim::Constant[value=-2]()
  %y : Float(6) = aten::view[size=[6]](%x)
  %z : Float(6) = aten::mul(%y, 2)
  return (%z, %1)
}""",
    )


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("prim::floordiv(-7, 2)", "-4"),
        ("prim::mod(-7, 2)", "1"),
        ("prim::truediv(6, 3)", "2.0"),
        ("prim::neg(-0.0)", "0.0"),
        ("prim::pow(2, -1)", "0.5"),
        ("prim::and(True, False)", "False"),
        ("prim::lt(2, 3)", "True"),
        ("prim::sqrt(4)", "2.0"),
    ],
)
def test_arithmetic_is_pythons(expression: str, result: str) -> None:
    type = {"float": "float", "bool": "bool"}.get(type_name(result), "int")
    text = f"graph() {{ %a : {type} = {expression} return (%a) }}"
    assert f"prim::Constant[value={result}]()" in transformed("constant_fold", text)


def type_name(text: str) -> str:
    return "bool" if text in ("True", "False") else "float" if "." in text else "int"


def test_what_fails_is_left_to_fail_at_run_time() -> None:
    assert unchanged("constant_fold", "graph() { %a : int = prim::floordiv(1, 0) return (%a) }")
    assert unchanged("constant_fold", "graph() { %a : int = prim::lshift(1, -1) return (%a) }")


def test_sizes_that_may_differ_stay() -> None:
    assert unchanged(
        "constant_fold",
        """graph(%x : Float(batch, 3), %u : Tensor) {
          %a : int = prim::size[dim=0](%x)
          %b : int = prim::size[dim=0](%u)
          %c : Float(5) = ^Select(%x)
          %d : int = prim::size[dim=0](%c)
          %e : Float(5) = aten::neg(%c)
          %f : int = prim::size[dim=0](%e)
          %g : Float(2) = prim::Group[body=@0](%x)
          %h : int = prim::size[dim=7](%x)
          return (%a, %b, %d, %f, %g, %h)
        }
        where @0 = graph(%y : Float(2)) {
          %n : int = prim::size[dim=0](%y)
          %z : Float(2) = aten::mul(%y, %n)
          return (%z)
        }""",
    )


def test_sizes_follow_the_type_rules() -> None:
    after = folded(
        """graph(%x : Float(2, 3)) {
          %y : Float(3, 2, strides=[1, 3]) = aten::t(%x)
          %z : Float(3, 2) = aten::mul(%y, 2)
          %n : int = prim::size[dim=-2](%z)
          return (%n)
        }"""
    )
    assert after == "graph(%x : Float(2, 3)) {\n  %0 : int = prim::Constant[value=3]()\n  return (%0)\n}"


def test_numbers_that_were_just_found_count_as_sizes() -> None:
    after = folded(
        """graph(%x : Float(2, 3)) {
          %n : int = prim::size[dim=1](%x)
          %y : Float(3, 2) = aten::view[size=[%n, -1]](%x)
          %m : int = prim::size[dim=0](%y)
          %z : Float(2, 3) = aten::mul(%x, %m)
          return (%z)
        }"""
    )
    assert "%z : Float(2, 3) = aten::mul(%x, 3)" in after


def test_guards_that_hold_go_and_the_others_keep_their_number() -> None:
    after = transformed(
        "constant_fold",
        """graph(%x : Float(2), %k : int) {
          prim::Guard[expected=1](%k)
          %n : int = prim::size[dim=0](%x)
          prim::Guard[expected=2](%n)
          %g : Float(2) = prim::Group[body=@0](%x)
          %c : bool = prim::gt(%n, 1)
          prim::Guard[expected=True](%c)
          prim::Guard[expected=4](%k)
          return (%g)
        }
        where @0 = graph(%y : Float(2)) {
          %i : float = prim::item(%y)
          prim::Guard[expected=0.5](%i)
          return (%y)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2), %k : int) {
  prim::Guard[expected=1, index=0](%k)
  %0 : int = prim::Constant[value=2]()
  %g : Float(2) = prim::Group[body=@0](%x)
  %1 : bool = prim::Constant[value=True]()
  prim::Guard[expected=4, index=4](%k)
  return (%g)
}
where @0 = graph(%y : Float(2)) {
  %i : float = prim::item(%y)
  prim::Guard[expected=0.5, index=2](%i)
  return (%y)
}""",
    )


def test_a_contradicted_guard_is_an_error() -> None:
    graph = parse("graph(%x : Float(2)) { %n : int = prim::size[dim=0](%x) prim::Guard[expected=3](%n) return () }")
    with pytest.raises(GraphError, match=r"the guard expects 3, but its operand is always 2\n(.*\n)+  > prim::Guard"):
        constant_fold(graph)


def test_nan_meets_a_guard_on_nan() -> None:
    text = "graph() { %c : float = prim::Constant[value=nan]() prim::Guard[expected=nan](%c) return () }"
    assert "Guard" not in transformed("constant_fold", text)


def test_foreign_code_and_subgraphs_keep_their_values() -> None:
    after = transformed(
        "constant_fold",
        """graph(%x : Float(2)) {
          %n : int = prim::size[dim=0](%x)
          %a : Float(2) = ^Scale(%x, %n)
          %b : Float(2) = prim::Group[body=@0](%x, %n)
          return (%a, %b)
        }
        where @0 = graph(%y : Float(2), %m : int) { return (%y) }""",
    )
    assert "^Scale(%x, %0)" in after and "(%x, %0)\n  return" in after


def test_operators_on_constant_arrays() -> None:
    after = folded(
        """graph(%x : Float(2, 2)) {
          %a : Float(2, 2) = prim::Constant[value=Float(2, 2){1.0, 2.0, 3.0, 4.0}]()
          %b : Float(2, 2) = aten::mul(%a, 0.5)
          %c : Float(2, 2, strides=[1, 2]) = aten::t(%b)
          %d : Float(2, 2) = aten::add[alpha=2](%b, %c)
          %e : Float(2, 2) = aten::mul(%d, %x)
          %f : Float(2, 2, strides=[1, 2]) = aten::t(%a)
          return (%e, %f)
        }"""
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 2)) {
  %a : Float(2, 2) = prim::Constant[value=Float(2, 2){1.0, 2.0, 3.0, 4.0}]()
  %1 : Float(2, 2) = prim::Constant[value=Float(2, 2){1.5, 4.0, 3.5, 6.0}]()
  %e : Float(2, 2) = aten::mul(%1, %x)
  %f : Float(2, 2, strides=[1, 2]) = aten::t(%a)
  return (%e, %f)
}""",
    )


def test_items_of_constants_are_numbers() -> None:
    after = folded(
        """graph(%x : Float(2)) {
          %a : BFloat16() = prim::Constant[value=BFloat16(){0.5}]()
          %b : float = prim::item(%a)
          %c : Float(2) = aten::mul(%x, %b)
          return (%c)
        }"""
    )
    assert "aten::mul(%x, 0.5)" in after


def test_arrays_do_not_grow() -> None:
    text = """graph() {
      %a : Float(1) = prim::Constant[value=Float(1){1.0}]()
      %s : Float(100) = aten::expand[size=[100]](%a)
      %b : Float(100) = aten::mul(%s, 2)
      return (%b)
    }""".replace("%s : Float(100)", "%s : Float(100, strides=[0])")
    assert "aten::mul" in folded(text)


def test_without_an_evaluator_arrays_stay() -> None:
    text = """graph() {
      %a : Float(1) = prim::Constant[value=Float(1){1.0}]()
      %b : Float(1) = aten::mul(%a, 2)
      return (%b)
    }"""
    assert unchanged("constant_fold", text)


def test_what_the_evaluator_refuses_stays() -> None:
    def refuse(*_: object) -> list[np.ndarray]:
        raise ZeroDivisionError

    text = """graph() {
      %a : Float(1) = prim::Constant[value=Float(1){1.0}]()
      %b : Float(1) = aten::mul(%a, 2)
      return (%b)
    }"""
    assert unchanged("constant_fold", text, evaluate=refuse)


def test_a_hundred_thousand_nodes() -> None:
    graph = Graph()
    x = graph.add_input(FLOAT23, "x")
    number = graph.add("prim::size", (x,), {"dim": 0}, [TensorType(dtypes.int64, ())]).output
    number.type = parse("graph(%n : int) { return () }").inputs[0].type
    for _ in range(50_000):
        number = graph.add("prim::add", (number, 1), types=[number.type]).output
        graph.add("prim::Guard", (number,), {"expected": number}, [])
    for expected, guard in enumerate([node for node in graph.nodes if node.kind == "prim::Guard"], 3):
        guard.rewrite(guard.operands, {"expected": expected})
    graph.set_return([number])
    assert constant_fold(graph)
    verify(graph)
    assert str(graph.outputs[0].node).endswith("prim::Constant[value=50002]()")


def test_ranges_of_numbers() -> None:
    after = folded(
        """graph(%x : Long(3), %n : int) {
          %0 : Long(3) = aten::arange.start_step[start=0, end=3]()
          %1 : Long(3) = aten::mul(%0, %0)
          %2 : Long(70000) = aten::arange.start_step[start=0, end=70000]()
          %3 : Long(n) = aten::arange.start_step[start=0, end=%n]()
          %4 : Float(3) = aten::ones[size=[3]]()
          return (%1, %2, %3, %4)
        }"""
    )
    assert "prim::Constant[value=Long(3){0, 1, 4}]" in after and "aten::mul" not in after
    assert "end=70000]" in after and "end=%n]" in after and "aten::ones" in after
