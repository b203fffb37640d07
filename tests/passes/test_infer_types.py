"""infer_types: what follows from the inputs' types, and nothing against a declaration."""

import pytest
from expecttest import assert_expected_inline

from jit.ir import TENSOR, parse
from jit.ir.errors import GraphError
from jit.passes.infer_types import infer_types
from tests.passes.common import chain, transformed, unchanged


def test_types_flow_through_nodes_bodies_and_constants() -> None:
    after = transformed(
        "infer_types",
        """graph(%x : Float(2, 3), %rng : Generator) {
          %c : Tensor = prim::Constant[value=Double(3){1.0, 2.0, 3.0}]()
          %y : Tensor = aten::t(%x)
          %z : Tensor = aten::mul(%x, %c)
          %r : Tensor, %rng.1 : Generator = aten::rand[size=[4]](%rng)
          %g : Tensor, %h : Tensor = prim::Group[body=@0](%z)
          %w : Tensor = aten::neg(%g)
          return (%y, %w, %r, %h)
        }
        where @0 = graph(%a : Tensor) {
          %b : Tensor = aten::gt(%a, 0)
          return (%b, %a)
        }""".replace("aten::neg(%g)", "aten::mul(%g, 2)"),
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3), %rng : Generator) {
  %c : Double(3) = prim::Constant[value=Double(3){1.0, 2.0, 3.0}]()
  %y : Float(3, 2, strides=[1, 3]) = aten::t(%x)
  %z : Double(2, 3) = aten::mul(%x, %c)
  %r : Float(4), %rng.1 : Generator = aten::rand[size=[4]](%rng)
  %g : Bool(2, 3), %h : Double(2, 3) = prim::Group[body=@0](%z)
  %w : Long(2, 3) = aten::mul(%g, 2)
  return (%y, %w, %r, %h)
}
where @0 = graph(%a : Double(2, 3)) {
  %b : Bool(2, 3) = aten::gt(%a, 0)
  return (%b, %a)
}""",
    )


def test_declarations_are_completed_not_replaced() -> None:
    after = transformed(
        "infer_types",
        """graph(%x : Float(2, 3)) {
          %a : Float = aten::neg(%x)
          %b : Float(?, 3) = aten::neg(%x)
          %c : Float(batch, 3) = aten::neg(%x)
          %d : Float(2, 3, strides=[1, 2]) = aten::neg(%x)
          %e : Tensor = ^Unknown(%x)
          %f : Tensor = aten::neg(%e)
          return (%a, %b, %c, %d, %f)
        }""",
    )
    assert_expected_inline(
        after,
        """\
graph(%x : Float(2, 3)) {
  %a : Float(2, 3) = aten::neg(%x)
  %b : Float(2, 3) = aten::neg(%x)
  %c : Float(batch, 3) = aten::neg(%x)
  %d : Float(2, 3, strides=[1, 2]) = aten::neg(%x)
  %e : Tensor = ^Unknown(%x)
  %f : Tensor = aten::neg(%e)
  return (%a, %b, %c, %d, %f)
}""",
    )


def test_named_dims_are_left_alone() -> None:
    assert unchanged("infer_types", "graph(%x : Float(batch, 3)) { %y : Tensor = aten::neg(%x) return (%y) }")


def test_operands_that_do_not_fit_are_an_error_at_the_users_line() -> None:
    graph = parse(
        "graph(%x : Float(2, 3), %w : Float(4)) {\n"
        "  %y : Tensor = aten::mul(%x, %w)  # model.py:7 in forward\n  return (%y)\n}"
    )
    with pytest.raises(GraphError) as caught:
        infer_types(graph)
    message = str(caught.value)
    assert message.startswith("the operands of aten::mul do not fit: ") and "do not broadcast" in message
    assert "(asked for at model.py:7 in forward)\n  > %y : Tensor = aten::mul(%x, %w)" in message


def test_a_hundred_thousand_nodes() -> None:
    graph = chain(100_000)
    for value in graph.values:
        if not value.is_input:
            value.type = TENSOR
    assert infer_types(graph)
    assert str(graph.outputs[0].type) == "Float(2, 3)"
