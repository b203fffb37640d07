"""Objects whose own methods lie or fail: equal ones that differ, keys of dicts, proxies that claim another class."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import jit


def agree(program: Callable[[Any, Any], Any], *arguments: Any) -> None:
    """The calls of a function on 1 and each of the arguments are what eager mode says, twice each."""
    traced = jit.trace(program)
    for argument in arguments:
        for _ in range(2):
            assert traced(jit.ones(1), argument).item() == pytest.approx(program(jit.ones(1), argument).item())


# -- keys of dicts among the arguments ---------------------------------------------------------------------------


class Node:
    """A node of a graph, known by its number."""

    def __init__(self, number: int, weight: float) -> None:
        self.number, self.weight = number, weight

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


@dataclasses.dataclass(frozen=True)
class Named:
    name: str
    weight: float = dataclasses.field(compare=False)


def total(x: Any, features: dict[Any, Any]) -> Any:
    return x * sum(node.weight for node in features)


@pytest.mark.parametrize("kind", [Node, Named])
def test_keys_that_are_equal_are_looked_at(kind: Any) -> None:
    agree(total, *({kind(1, weight): 2.0} for weight in (1.0, 2.0, 1.0)))
    agree(total, *({kind(1, weight): jit.ones(1)} for weight in (1.0, 2.0)))


def test_a_key_that_changes_is_seen() -> None:
    node = Node(1, 1.0)
    f = jit.trace(total)
    for weight in (1.0, 2.0, 2.0, 3.0):
        node.weight = weight
        assert f(jit.ones(1), {node: jit.ones(1)}).item() == weight
    assert f.hits == 1


def test_results_may_have_keys_of_ones_own() -> None:
    node = Node(1, 1.0)
    f = jit.trace(lambda x: {node: x * 2})
    assert f(jit.ones(1))[node].item() == f(jit.ones(1))[node].item() == 2.0
    assert f.hits == 1
