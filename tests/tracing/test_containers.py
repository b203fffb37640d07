"""Containers as arguments and results of traced functions: subclasses, records and deques, attributes and all."""

import collections
import dataclasses
import time
import types
from typing import Any, NamedTuple

import pytest

import jit

Pair = collections.namedtuple("Pair", "a b")


class Typed(NamedTuple):
    a: Any
    b: Any = 3


class Noted(Pair):
    """A named tuple that takes attributes, and whose class takes other arguments."""

    def __new__(cls, *, a: Any, b: Any) -> "Noted":
        return super().__new__(cls, a, b)


class Items(list[Any]):
    def __init__(self, name: str, items: Any) -> None:
        super().__init__(items)
        self.name = name


class Slotted(list[Any]):
    __slots__ = ("__hidden", "name")


class Fixed(tuple[Any, ...]):
    __slots__ = ()

    def __new__(cls, a: Any, b: Any) -> "Fixed":
        return super().__new__(cls, (a, b))


class Table(dict[str, Any]):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    a: Any
    b: Any


def noted(a: Any, b: Any) -> Any:
    made: Any = Noted(a=a, b=b)
    made.note = a * 0 + 1
    return made


def slotted(a: Any, b: Any) -> Any:
    made: Any = Slotted([a, b])
    made.name, made._Slotted__hidden = a * 0 + 1, 4
    return made


CONTAINERS = {
    "namedtuple": Pair,
    "NamedTuple": Typed,
    "subclass of a named tuple": noted,
    "list subclass": lambda a, b: Items("items", [a, b]),
    "list subclass with slots": slotted,
    "tuple subclass": Fixed,
    "dict subclass": lambda a, b: Table(a=a, b=b),
    "OrderedDict": lambda a, b: collections.OrderedDict(b=b, a=a),
    "defaultdict": lambda a, b: collections.defaultdict(list, a=a, b=b),
    "deque": lambda a, b: collections.deque([a, b], maxlen=3),
    "SimpleNamespace": lambda a, b: types.SimpleNamespace(a=a, b=b),
    "dataclass": Record,
}
every_container = pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)


def both(container: Any) -> tuple[Any, Any]:
    if isinstance(container, dict):
        return container["a"], container["b"]
    return (container.a, container.b) if hasattr(container, "a") else (container[0], container[1])


HELD = ("name", "note", "maxlen", "default_factory", "_Slotted__hidden")


def described(container: Any) -> Any:
    """What it is, what is in it and what it has."""
    attributes = {name: str(getattr(container, name)) for name in HELD if hasattr(container, name)}
    return type(container), str(container), attributes


@every_container
def test_arguments(make):
    def weighted(container):
        a, b = both(container)
        return a * 2 + b

    f = jit.trace(weighted)
    for number in (1.0, 2.0, 3.0):
        x = jit.full((2,), number, requires_grad=True)
        found = f(make(x, jit.ones(2)))
        assert found.tolist() == [2 * number + 1] * 2
        found.sum().backward()
        assert x.grad.tolist() == [2, 2]
    assert (f.hits, f.misses) == (2, 1)


@every_container
def test_results(make):
    f = jit.trace(lambda x, y: make(x + y, x * y))
    for number in (1.0, 2.0, 3.0):
        x, y = jit.full((2,), number), jit.ones(2)
        found = f(x, y)
        assert described(found) == described(make(x + y, x * y))
        assert found is not f(x, y)
    assert (f.hits, f.misses) == (5, 1)


@every_container
def test_arguments_that_are_results(make):
    f = jit.trace(lambda container: container)
    for _ in range(2):
        given = make(jit.rand(2), jit.rand(2))
        assert described(f(given)) == described(given)
    assert f.misses == 1


def test_attributes_of_containers_are_part_of_the_key():
    f = jit.trace(lambda items: items[0] * len(items.name))
    assert [f(Items(name, [jit.ones(1)])).item() for name in ("a", "bcd", "a")] == [1, 3, 1]
    assert f.misses == 2


def test_names_of_inputs():
    f = jit.trace(lambda pair, items: pair.a + pair.note + items[0] + items.name)
    items: Any = Items("", [jit.ones(1)])
    items.name = jit.ones(1)
    f(noted(jit.ones(1), 2), items)
    assert [value.name for value in f.graph.inputs] == ["pair.a", "pair.note", "items.0", "items.name"]


@pytest.mark.parametrize(
    "change",
    [lambda v: v.append(v[0]), lambda v: setattr(v, "name", "another"), lambda v: v.reverse()],
    ids=["append", "attribute", "reverse"],
)
def test_changed_arguments_are_refused(change):
    items = Items("items", [jit.ones(1), jit.zeros(1)])
    with pytest.raises(
        jit.TraceError, match=r"(changes its argument 'v' itself|replaces a tensor in an argument), .*return"
    ):
        jit.trace(lambda v: change(v) or v[0] * 2)(items)


def test_records_of_c_are_whole_values():
    f = jit.trace(lambda x, when: x * when.tm_year)
    assert [f(jit.ones(1), time.gmtime(0)).item() for _ in range(2)] == [1970, 1970]
    assert (f.hits, f.misses) == (1, 1)


@pytest.mark.parametrize(
    "container",
    [types.MappingProxyType({}), collections.UserDict(), collections.ChainMap()],
    ids=lambda c: type(c).__name__,
)
def test_other_containers_are_refused_with_the_way_out(container):
    with pytest.raises(
        jit.UsageError, match=f"type {type(container).__name__} .*subclass of list, tuple or dict, or a data"
    ):
        jit.trace(lambda x, c: x)(jit.ones(1), container)


Place = collections.namedtuple("Place", "row column")
KEYS = {
    "size": lambda n, x: {n: x},
    "tuple": lambda n, x: {("rows", (n, 2)): x},
    "named tuple": lambda n, x: {Place(n, n + 1): x},
    "shape": lambda n, x: {x.shape: n},
    "computed": lambda n, x: [{n * 2 - 1: {n // 2: n}}],
    "element": lambda n, x: {x.sum().item(): n},
    "counter": lambda n, x: collections.Counter([n, 3, n]),
    "frozen set": lambda n, x: (frozenset([(n, frozenset([n]))]), x),
}


def exact_kinds(value: Any) -> Any:
    """The value with the class of everything in it, keys included."""
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, (list, tuple, frozenset)):
        return type(value), [exact_kinds(item) for item in value]
    return type(value), value.tolist() if isinstance(value, jit.Tensor) else value


@pytest.mark.parametrize("make", KEYS.values(), ids=KEYS)
def test_keys_and_frozen_sets_in_results_hold_plain_numbers(make):
    f = jit.trace(lambda x: make(x.shape[0], x))
    for n in (3, 4, 5, 3, 4, 6):
        x = jit.arange(n).float()
        assert exact_kinds(f(x)) == exact_kinds(make(n, x))


def test_keys_in_attributes_of_results_hold_plain_numbers():
    def f(x):
        y = x * 2
        y.parts = {x.shape[0]: x.shape[0] + 1}
        return y

    f = jit.trace(f)
    for n in (3, 4, 5, 3):
        assert exact_kinds(f(jit.ones(n)).parts) == exact_kinds({n: n + 1})
