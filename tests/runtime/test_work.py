"""How much work nodes are: what a profile says of them."""

import pytest

from jit.ir import parse
from jit.runtime.plans.views import flops_of

SQUARE = "Float(4, 4)"


def flops(call: str, result: str = SQUARE) -> int:
    """Of a call on %x and %y, two squares, and %v, a row of 4."""
    graph = parse(f"graph(%x : {SQUARE}, %y : {SQUARE}, %v : Float(4)) {{ %0 : {result} = {call} return (%0) }}")
    (node,) = graph.nodes
    return flops_of(node)


@pytest.mark.parametrize("call", [
    "aten::zeros[size=[4, 4]]()", "aten::full[size=[4, 4], fill_value=2]()", "aten::zeros_like(%x)",
    "aten::ones_like(%x)", "aten::full_like[fill_value=2](%x)", "aten::clone(%x)",
    "aten::_to_copy(%x)", "aten::copy(%x, %y)", "aten::t(%x)",
])  # fmt: skip
def test_what_is_only_moved_or_made_up_is_no_work(call):
    assert flops(call) == 0


def test_joins_and_slices_are_no_work():
    assert flops("aten::cat([%x, %y])", "Float(8, 4)") == flops("aten::stack([%x, %y])", "Float(2, 4, 4)") == 0
    assert flops("aten::slice_backward[input_sizes=[8, 4], dim=0, start=0, end=4, step=1](%x)", "Float(8, 4)") == 0


@pytest.mark.parametrize(("call", "result", "expected"), [
    ("aten::mm(%x, %y)", SQUARE, 128), ("aten::mv(%x, %v)", "Float(4)", 32), ("aten::dot(%v, %v)", "Float()", 8),
    ("aten::addmm(%x, %x, %y)", SQUARE, 128), ("aten::linear(%x, %y)", SQUARE, 128),
])  # fmt: skip
def test_a_product_is_two_for_each_term(call, result, expected):
    assert flops(call, result) == expected


def test_everything_else_is_one_for_each_element():
    assert (flops("aten::tanh(%x)"), flops("aten::sum(%x)", "Float()")) == (16, 16)


def test_a_product_of_unknown_sizes_is_nothing_known():
    (node,) = parse("graph(%x : Tensor, %y : Tensor) { %0 : Tensor = aten::mm(%x, %y) return (%0) }").nodes
    assert flops_of(node) == 0
