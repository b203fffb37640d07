"""Helpers for tests of passes: a graph comes in and goes out as text, and the pass says truly whether it changed."""

from typing import Any

from jit.ir import Graph, TensorType, Value, dtypes, parse, verify
from jit.passes import find_pass

FLOAT23 = TensorType(dtypes.float32, (2, 3))


def transformed(name: str, text: str, **options: Any) -> str:
    """`text` after the pass. The pass must say whether it changed the graph, and have nothing to do a second time."""
    graph = parse(text)
    verify(graph)
    before = str(graph)
    changed = find_pass(name)(graph, **options)
    verify(graph)
    after = str(graph)
    assert changed == (after != before), f"{name} says changed={changed}:\n{before}\n{after}"
    assert not find_pass(name)(graph, **options), f"{name} finds something to do a second time:\n{after}\n{graph}"
    assert str(graph) == after
    return after


def unchanged(name: str, text: str, **options: Any) -> bool:
    """Whether the pass leaves `text` alone."""
    return transformed(name, text, **options) == str(parse(text))


def chain(length: int, kind: str = "aten::mul", second: Any = None) -> Graph:
    """x * x * x * ..., `length` nodes deep."""
    graph = Graph()
    x = graph.add_input(FLOAT23, "x")
    current: Value = x
    for _ in range(length):
        operands = (current,) if kind == "aten::neg" else (current, x if second is None else second)
        current = graph.add(kind, operands, types=[FLOAT23]).output
    graph.set_return([current])
    return graph
