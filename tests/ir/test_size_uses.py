"""Which symbols nodes speak of."""

from __future__ import annotations

import pytest

from jit.ir import parse
from jit.ir.size_uses import symbols_in
from jit.ir.sizes import SizeSymbol


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("%0 : Float(9) = aten::neg(%x)", ""),
        ("%0 : Float(n) = aten::slice.Tensor[dim=0, start=None, end=n, step=1](%x)", "n"),
        ("%0 : Float(3) = aten::slice.Tensor[dim=0, start=n, end=n+3, step=1](%x)", "n"),
        ("%0 : Float(9) = aten::mul(%x, 2*m)", "m"),
        ("%0 : Float(4, strides=[k]) = aten::as_strided[size=[4], stride=[k], storage_offset=n](%x)", "kn"),
    ],
)
def test_symbols_in_types_and_arguments(line: str, names: str) -> None:
    graph = parse(f"graph(%x : Float(9)) {{\n  {line}\n  return (%0)\n}}")
    assert symbols_in(graph.nodes) == {SizeSymbol(name) for name in names}


def test_symbols_in_bodies() -> None:
    graph = parse("graph(%x : Float(9)) {\n  %0 : Float(9) = aten::mul(%x, n)\n  return (%0)\n}")
    outer = parse("graph(%x : Float(9)) {\n  %0 : Float(9) = aten::neg(%x)\n  return (%0)\n}")
    (node,) = outer.nodes
    node.attributes["body"] = graph
    assert symbols_in(outer.nodes) == {SizeSymbol("n")}
