"""Names for the sizes of a recorded graph: expressions in operands, conditions instead of guards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.ir import Graph, TensorType, parse
from jit.ir.errors import GraphError
from jit.ir.size_conditions import SizeCondition, SizeConditions
from jit.ir.sizes import SizeSymbol
from jit.passes.support.symbolic_sizes import SizesMisfit, name_sizes
from jit.runtime.arrays.interpreter import Interpreter

N, M = SizeSymbol("n"), SizeSymbol("m")


def named(text: str, **dims: dict[int, SizeSymbol]) -> tuple[Graph, SizeConditions]:
    """The graph with names for some sizes of its inputs: x={0: N}."""
    graph = parse(text)
    values: dict[SizeSymbol, int] = {}
    shapes = {}
    for value in graph.inputs:
        type: Any = value.type
        chosen = dims.get(value.name, {})
        values |= {symbol: type.shape[dim] for dim, symbol in chosen.items()}
        shape = tuple(chosen[d].size if d in chosen else size for d, size in enumerate(type.shape))
        shapes[value] = TensorType(type.dtype, shape)
    conditions = SizeConditions(values)
    name_sizes(graph, shapes, conditions)
    graph.verify()
    return graph, conditions


def text_of(graph: Graph) -> str:
    return "\n".join(line.strip() for line in str(graph).splitlines())


def test_sizes_become_expressions_and_guards_become_conditions() -> None:
    graph, conditions = named(
        """graph(%x : Float(3, 32)) {
             %0 : int = prim::size[dim=0](%x)
             %1 : int = prim::mod(%0, 3)
             %2 : bool = prim::eq(%1, 0)
             prim::Guard[expected=True](%2)
             %3 : int = prim::mul(%0, 2)
             %4 : Float(3, 4, 8) = aten::view[size=[%0, 4, 8]](%x)
             %5 : Float(6, 16) = aten::view[size=[%3, 16]](%4)
             return (%5, %3)
           }""",
        x={0: N},
    )
    assert text_of(graph) == text_of(
        parse(
            """graph(%x : Float(n, 32)) {
                 %4 : Float(n, 4, 8) = aten::view[size=[n, 4, 8]](%x)
                 %5 : Float(2*n, 16) = aten::view[size=[2*n, 16]](%4)
                 return (%5, 2*n)
               }"""
        )
    )
    assert [str(c) for c in conditions.found] == ["n % 3 == 0"]
    (flat, twice), _, _ = Interpreter(graph).run(0, [np.arange(6 * 32, dtype=np.float32).reshape(6, 32)])
    assert flat.shape == (12, 16) and twice == 12 and flat[11, 15] == 191


def test_sizes_that_were_equal_by_chance_are_not_bound() -> None:
    text = "graph(%x : Float(3), %y : Float(3, 3)) {{ %0 : Float(3, 3) = aten::{op}(%x, %y) return (%0) }}"
    graph, conditions = named(text.format(op="add"), x={0: N}, y={0: M})
    assert [str(c) for c in conditions.found] == ["n == 3"]  # broadcast against the last dim, which has no name
    assert "Float(m, 3)" in str(graph)
    graph, conditions = named(
        "graph(%x : Float(3), %y : Float(3)) { %0 : Float(6) = aten::cat([%x, %y]) return (%0) }", x={0: N}, y={0: M}
    )
    assert not conditions.found and "Float(m+n)" in str(graph)


def test_a_size_that_only_matters_at_37() -> None:
    text = """graph(%x : Float(5)) {
                %0 : int = prim::size[dim=0](%x)
                %1 : bool = prim::eq(%0, 37)
                prim::Guard[expected=False](%1)
                %2 : Float(5) = aten::neg(%x)
                return (%2)
              }"""
    _, conditions = named(text, x={0: N})
    assert conditions.holds({N: 36}) and not conditions.holds({N: 37})


def test_what_is_baked_in_pins_the_size() -> None:
    _, conditions = named(
        "graph(%x : Float(3, 4)) { %0 : Float(12) = aten::view[size=[12]](%x) return (%0) }", x={0: N}
    )
    assert [str(c) for c in conditions.found] == ["n == 3"]


def test_a_composite_and_its_parts() -> None:
    graph, _ = named(
        """graph(%x : Float(3, 4)) {
             %0 : int = prim::size[dim=0](%x)
             %1 : Float(3, 2, 2) = aten::reshape[shape=[%0, 2, 2], body=@0](%x)
             return (%1)
           }
           where @0 = graph(%x : Float(3, 4), %n : int) {
             %0 : Float(3, 2, 2) = aten::view[size=[%n, 2, 2]](%x)
             return (%0)
           }""",
        x={0: N},
    )
    assert str(graph).count("size=[n, 2, 2]") == 1 and "%n" not in str(graph)
    assert Interpreter(graph).run(0, [np.ones((7, 4), np.float32)])[0][0].shape == (7, 2, 2)


def test_composites_in_composites_and_a_foreign_function() -> None:
    graph, _ = named(
        """graph(%x : Float(3, 4)) {
             %0 : int = prim::size[dim=0](%x)
             %1 : Float(3, 2, 2) = aten::reshape[shape=[%0, 2, 2], body=@0](%x)
             return (%1)
           }
           where @0 = graph(%x : Float(3, 4), %n : int) {
             %0 : Float(3, 2, 2) = aten::reshape[shape=[%n, 2, 2], body=@1](%x)
             %1 : bool = prim::raises[op='prim::floordiv', error='DivisionError'](1, %n)
             prim::Guard[expected=False](%1)
             return (%0)
           }
           where @1 = graph(%x : Float(3, 4), %m : int) {
             %0 : Float(3, 2, 2) = aten::view[size=[%m, 2, 2]](%x)
             return (%0)
           }""",
        x={0: N},
    )
    text = str(graph)
    assert "where @1 = graph(%x : Float(n, 4)) {" in text and "aten::view[size=[n, 2, 2]](%x)" in text
    assert "where @0 = graph(%x : Float(n, 4), %n : int) {" in text and "prim::size[dim=0](%x)" in text
    assert Interpreter(graph).run(0, [np.ones((7, 4), np.float32)])[0][0].shape == (7, 2, 2)


def test_what_no_rule_derives_stays() -> None:
    graph, conditions = named(
        """graph(%x : Float(3)) {
             %0 : Long(2, 1) = aten::nonzero(%x)
             %1 : int = prim::size[dim=0](%0)
             %2 : bool = prim::gt(%1, 1)
             prim::Guard[expected=True](%2)
             return (%0, %1)
           }""",
        x={0: N},
    )
    assert "prim::size" in str(graph) and "prim::Guard" in str(graph) and not conditions.found


def test_a_recording_that_disagrees_with_its_rules_is_refused() -> None:
    with pytest.raises(SizesMisfit, match="was recorded as"):
        named("graph(%x : Float(3, 4)) { %0 : Float(5, 4) = aten::neg(%x) return (%0) }", x={0: N})


def test_a_symbol_that_no_input_has() -> None:
    with pytest.raises(GraphError, match="no input says"):
        Interpreter(parse("graph(%x : Float(2*n)) { %0 : Float(n) = aten::mul(%x, n) return (%0) }"))


def test_another_number_of_results_is_a_misfit() -> None:
    with pytest.raises(SizesMisfit, match=r"aten::chunk at .* gives another number of results"):
        named(
            """graph(%x : Float(4, 2)) {
                 %0 : Float(2, 2), %1 : Float(2, 2), %2 : Float(0, 2) = aten::chunk[chunks=2](%x)
                 return (%0)
               }""",
            x={0: N},
        )


def test_fractions_of_fixed_sizes_are_known() -> None:
    graph, conditions = named(
        """graph(%x : Float(4, 6)) {
             %0 : int = prim::size[dim=1](%x)
             %1 : float = prim::truediv(%0, 4)
             %2 : bool = prim::gt(%1, 1.0)
             prim::Guard[expected=True](%2)
             %3 : Float(4, 6) = aten::mul(%x, %1)
             return (%3)
           }""",
        x={0: N},
    )
    assert [node.kind for node in graph.nodes] == ["aten::mul"] and not conditions.found
    assert next(graph.nodes).operands[1] == 1.5


def test_what_would_be_said_becomes_no_condition() -> None:
    conditions = SizeConditions({N: 4})
    assert conditions.would_say(">=", N.size - 2) is True
    assert conditions.would_say("==", N.size - 4) is None
    assert not conditions.found
    conditions.assume(SizeCondition(">=", N.size - 5))
    assert conditions.would_say("==", N.size - 4) is False
