"""Objects whose own methods lie or fail: equal ones that differ, keys of dicts, proxies that claim another class."""

import collections
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
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
    assert (f.hits, f.misses) == (2, 2)


def test_results_may_have_keys_of_ones_own() -> None:
    node = Node(1, 1.0)
    f = jit.trace(lambda x: {node: x * 2})
    assert f(jit.ones(1))[node].item() == f(jit.ones(1))[node].item() == 2.0
    assert f.hits == 1


# -- numbers and texts of a class of their own -------------------------------------------------------------------


class Caseless(str):
    """A text that is equal to others in capitals."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())

    def __repr__(self) -> str:
        return "caseless"

    __str__ = __repr__


class Close(float):
    """A number that is equal to those nearby."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(float(self) - float(other)) < 1

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "close"


class Whole(int):
    """A number that is equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Silent(int):
    """A number that can be used, and not compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = __repr__ = __eq__  # type: ignore[assignment]


USES: dict[Any, tuple[Callable[[Any], float], list[Any]]] = {
    Caseless: (lambda v: 2.0 if v.isupper() else 3.0, ["Add", "ADD", "Add"]),
    Close: (lambda v: float.__float__(v), [1.0, 1.2, 1.4]),
    Whole: (lambda v: int.__int__(v), [1, 2, 1]),
    Silent: (lambda v: int.__int__(v), [1, 2, 1]),
}
HOLDING: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "itself": (lambda v: v, lambda held: held),
    "list": (lambda v: [v], lambda held: held[0]),
    "value of a dict": (lambda v: {"a": v}, lambda held: held["a"]),
    "key of a dict": (lambda v: {v: 1.0}, lambda held: next(iter(held))),
    "set": (lambda v: {v}, lambda held: next(iter(held))),
}


UNHASHABLE = {(Silent, "key of a dict"), (Silent, "set")}
PAIRS = [pair for pair in itertools.product(USES, HOLDING) if pair not in UNHASHABLE]


@pytest.mark.parametrize(("kind", "holding"), PAIRS, ids=lambda each: getattr(each, "__name__", each))
def test_numbers_and_texts_are_told_by_what_they_are(kind: Any, holding: str) -> None:
    (read, values), (hold, take) = USES[kind], HOLDING[holding]
    agree(lambda x, held: x * read(take(held)), *(hold(kind(value)) for value in values))
    around = [None]
    inside, outside = (wrap(lambda x: x * read(take(around[0]))) for wrap in (jit.trace, lambda f: f))
    for value in values:
        around[0] = hold(kind(value))
        assert inside(jit.ones(1)).item() == inside(jit.ones(1)).item() == pytest.approx(outside(jit.ones(1)).item())


# -- objects that claim to be of another class -------------------------------------------------------------------


def proxy(slotted: bool) -> Any:
    """A class whose objects stand for others, and say that they are of the same class."""

    class Proxy:
        if slotted:
            __slots__ = ("target",)

        def __init__(self, target: Any) -> None:
            object.__setattr__(self, "target", target)

        __class__ = property(lambda self: type(object.__getattribute__(self, "target")))

        def __getattr__(self, name: str) -> Any:
            return getattr(object.__getattribute__(self, "target"), name)

    return Proxy


TARGETS: dict[str, list[Any]] = {
    "float": [2.0, 3.0], "int": [2, 3], "text": ["ab", "abc"], "None": [None, 3], "list": [[2.0], [3.0]],
    "tuple": [(2.0,), (3.0,)], "dict": [{"a": 2.0}, {"a": 3.0}], "set": [{2.0}, {3.0}], "slice": [slice(2), slice(3)],
    "array": [np.array([2.0]), np.array([3.0])], "deque": [collections.deque([2.0]), collections.deque([3.0])],
    "class": [int, float], "function": [proxy, agree],
    "module": [np, jit], "buffer": [bytearray(b"a"), bytearray(b"b")],
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("slotted", [False, True])
def test_what_a_proxy_stands_for_is_watched(slotted: bool, target: str) -> None:
    first, second = TARGETS[target]
    thing = proxy(slotted)(first)
    holder = [thing]

    def number(held: Any) -> float:
        return 1.0 if object.__getattribute__(held, "target") is first else 2.0

    functions = [
        jit.trace(lambda x: x * number(thing)), jit.trace(lambda x: x * number(holder[0])),
        (lambda f: lambda x: f(x, thing))(jit.trace(lambda x, held: x * number(held))),
        (lambda f: lambda x: f(x, [thing]))(jit.trace(lambda x, held: x * number(held[0]))),
        (lambda f: lambda x: f(x, {"a": thing}))(jit.trace(lambda x, held: x * number(held["a"]))),
    ]  # fmt: skip
    for now, expected in ((first, 1.0), (first, 1.0), (second, 2.0), (first, 1.0)):
        object.__setattr__(thing, "target", now)
        assert [f(jit.ones(1)).item() for f in functions] == [expected] * len(functions)
    jit.verify(lambda x: x * number(thing), (jit.ones(1),))


@pytest.mark.parametrize("slotted", [False, True])
def test_a_proxy_of_a_tensor_is_no_tensor(slotted: bool) -> None:
    things = [proxy(slotted)(jit.full((1,), number)) for number in (2.0, 3.0)]
    agree(lambda x, held: x * object.__getattribute__(held, "target"), *things)
    agree(lambda x, held: x * object.__getattribute__(held[0], "target"), *([thing] for thing in things))


def test_nobody_asks_a_lazy_object_what_it_is() -> None:
    asked = []

    def claim(self: Any) -> Any:
        asked.append(1)
        raise RuntimeError("not made yet")

    class Lazy:
        __class__ = property(claim)

    thing, holder = Lazy(), [Lazy()]
    box: list[Any] = []

    def f(x: Any, held: Any) -> Any:
        def late(x: Any) -> Any:
            return x * (2.0 if thing is not None and holder[0] is not held else 3.0)

        return late(x)

    traced = jit.trace(f)
    for held in (thing, holder[0], thing):
        assert traced(jit.ones(1), held).item() == f(jit.ones(1), held).item()

    def keep(x: Any) -> Any:
        box.append((x, Lazy()))
        return x * 2

    assert jit.trace(keep)(jit.ones(1)).item() == 2.0
    jit.verify(lambda x: (thing, x * 2)[1], (jit.ones(1),))
    assert not asked


# -- functions of the user's -------------------------------------------------------------------------------------


class Unit:
    """An argument whose text is that of the place of a tensor."""

    def __repr__(self) -> str:
        return "tensor"


class Half(jit.autograd.Function):
    @staticmethod
    def forward(ctx: Any, unit: Any, x: Any) -> Any:
        return x * (0.5 if type(unit) is Unit else 2.0)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, gradient * 0.5


def test_an_argument_is_no_tensor_because_of_its_text() -> None:
    unit = Unit()
    f = jit.trace(lambda x: Half.apply(unit, x))
    assert [f(jit.full((1,), number)).item() for number in (1.0, 2.0, 4.0)] == [0.5, 1.0, 2.0]
    assert f.hits == 2


# -- numbers that drift in containers with methods of their own --------------------------------------------------


class Doubling(dict[Any, float]):
    """A dict that holds twice what is put in."""

    def __setitem__(self, key: Any, value: float) -> None:
        super().__setitem__(key, value * 2)


class Counting(list[float]):
    """A list that adds 1 to what is put in."""

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, value + 1)


class Register(type):
    """A class whose classes add 1 to what is set there."""

    def __setattr__(cls, name: str, value: float) -> None:
        super().__setattr__(name, value + 1)


class Settings(metaclass=Register):
    rate = 0.0


@pytest.mark.parametrize(
    ("held", "read", "put"),
    [
        (Doubling(rate=0.0), lambda held: held["rate"], lambda held, v: held.__setitem__("rate", v)),
        (Counting([0.0]), lambda held: held[0], lambda held, v: held.__setitem__(0, v)),
        (Settings, lambda held: held.rate, lambda held, v: setattr(held, "rate", v)),
    ],
    ids=["dict", "list", "class"],
)
def test_stand_ins_of_numbers_do_not_go_through_methods_of_the_users(held: Any, read: Any, put: Any) -> None:
    f = jit.trace(lambda x: x * read(held))
    for number in range(8):
        put(held, 1.0 + number)
        expected = read(held)
        assert f(jit.ones(1)).item() == expected
        assert type(read(held)) is float and read(held) == expected
    assert f.misses < 8
