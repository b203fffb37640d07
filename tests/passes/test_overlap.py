"""The pass `overlap`, which lets what is computed stand between the halves of an exchange."""

import pytest

from jit.ir import parse
from jit.passes.overlap import BEGIN, WAIT, WHOLE, overlap

REDUCE = f"{WHOLE}[reduce_op='sum', group_name='self']"


def kinds(text):
    """The kinds of nodes after the pass, and whether it has changed something."""
    graph = parse(text)
    changed = overlap(graph)
    graph.verify()
    return [node.kind for node in graph.nodes], changed


def test_what_stands_between_is_computed_meanwhile():
    text = f"""graph(%x : Float(3), %y : Float(3)) {{
      %0 : Float(3) = {REDUCE}(%x)
      %1 : Float(3) = {REDUCE}(%y)
      %2 : Float(3) = aten::cos(%y)
      %3 : Float(3) = aten::sin(%0)
      %4 : Float(3) = aten::mul(%1, %3)
      return (%2, %4)
    }}"""
    expected = [BEGIN, BEGIN, "aten::cos", WAIT, "aten::sin", WAIT, "aten::mul"]
    assert kinds(text) == (expected, True)


@pytest.mark.parametrize(
    ("kind", "rest", "outputs"),
    [
        ("Float(3)", "%1 : Float(3) = aten::sin(%0)", "%1"),  # used at once
        ("Float(3)", "%1 : Float(3) = aten::sin(%x)", "%0, %1"),  # a result, which the caller may use at once
        ("Half(3)", "%1 : Half(3) = aten::sin(%x) %2 : Half(3) = aten::sin(%0)", "%1, %2"),  # travels as float32
        ("Long(3)", "%1 : Long(3) = aten::neg(%x) %2 : Long(3) = aten::neg(%0)", "%1, %2"),
    ],
)
def test_others_are_left_whole(kind, rest, outputs):
    text = f"graph(%x : {kind}) {{ %0 : {kind} = {REDUCE}(%x) {rest} return ({outputs}) }}"
    found, changed = kinds(text)
    assert found[0] == WHOLE and WAIT not in found and not changed


def test_the_halves_stay_in_order_in_a_backward():
    text = f"""graph(%x : Float(3)) {{
      %0 : Float(3) = aten::sin(%x)
      return (%0)
    ---- stage 1 (%g : Float(3)) ----
      %1 : Float(3) = {REDUCE}(%g)
      %2 : Float(3) = aten::cos(%x)
      %3 : Float(3) = aten::mul(%1, %2)
      return (%3)
    }}"""
    assert kinds(text) == (["aten::sin", BEGIN, "aten::cos", WAIT, "aten::mul"], True)
