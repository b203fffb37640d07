"""Fractions of sizes that are rounded: where few bits are needed, they are sizes, and give what Python gives."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from jit.ir import parse
from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import SizeExpr, SizeSymbol
from jit.ir.types import TensorType
from jit.passes.support.symbolic_sizes import name_sizes

N = SizeSymbol("n", 1)
ROUNDING: dict[str, Callable[[float], int]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}


def named(fraction: str, rounding: str):
    """What a graph returns that rounds a fraction of a size, with a name for the size; and the graph."""
    graph = parse(
        f"""graph(%x : Float(12, 2)) {{
          %0 : int = prim::size[dim=0](%x)
          %1 : float = {fraction}
          %2 : int = prim::{rounding}(%1)
          return (%2)
        }}"""
    )
    x: Any = graph.inputs[0]
    name_sizes(graph, {x: TensorType(x.type.dtype, (N.size, 2))}, SizeConditions({N: 12}))
    return graph.outputs[0], graph


@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("factor", [0.5, 1.5, 2.0, 0.125, 0.75, 3.25, 1023.5])
def test_a_short_factor(rounding, factor):
    size, graph = named(f"prim::mul(%0, {factor})", rounding)
    assert not list(graph.nodes)
    for n in [*range(1, 200), 2**20 + 1, 2**32 - 1]:
        found = size.evaluate({N: n}) if type(size) is SizeExpr else size
        assert found == ROUNDING[rounding](n * factor)


@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("divisor", [2, 3, 7, 2.5, 0.5, 1000])
def test_a_divisor(rounding, divisor):
    size, graph = named(f"prim::truediv(%0, {divisor})", rounding)
    assert not list(graph.nodes)
    for n in [*range(1, 200), 2**20 + 1, 2**32 - 1]:
        found = size.evaluate({N: n}) if type(size) is SizeExpr else size
        assert found == ROUNDING[rounding](n / divisor)


@pytest.mark.parametrize(
    "fraction",
    [
        "prim::mul(%0, 0.3)",
        "prim::mul(%0, 1.7)",
        "prim::mul(%0, -0.5)",
        "prim::mul(%0, 0.0)",
        "prim::mul(%0, 1e300)",
        "prim::truediv(%0, 0.1)",
        "prim::truediv(%0, -2)",
        "prim::truediv(2.0, %0)",
        "prim::truediv(%0, 5000000)",
    ],
)
def test_other_fractions_stay(fraction):
    size, graph = named(fraction, "floor")
    assert type(size) is not SizeExpr
    assert [node.kind for node in graph.nodes][-1] == "prim::floor"


def test_a_fraction_that_others_use_stays_for_them():
    graph = parse(
        """graph(%x : Float(12, 2)) {
          %0 : int = prim::size[dim=0](%x)
          %1 : float = prim::mul(%0, 0.5)
          %2 : int = prim::floor(%1)
          %3 : Float(12, 2) = aten::mul(%x, %1)
          return (%2, %3)
        }"""
    )
    x: Any = graph.inputs[0]
    name_sizes(graph, {x: TensorType(x.type.dtype, (N.size, 2))}, SizeConditions({N: 12}))
    assert str(graph.outputs[0]) == "n//2"
    assert [node.kind for node in graph.nodes] == ["prim::mul", "aten::mul"]
