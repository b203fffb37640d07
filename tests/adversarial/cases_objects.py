"""Programs full of Python: generators, coroutines, recursion, dataclasses, slots, weak references, exceptions, text."""

import asyncio
import contextlib
import copy
import functools
import itertools
import operator
import re
import sys
import types
import typing
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

import jit
from tests.adversarial.trial import Trial, case


def vector(*numbers: float, grad: bool = True) -> jit.Tensor:
    """A float32 leaf."""
    return jit.tensor(list(numbers), dtype=jit.float32, requires_grad=grad)


@dataclass
class Options:
    """Passed by value."""

    scale: float
    x: jit.Tensor
    more: list[Any] = field(default_factory=list)


class Point(NamedTuple):
    x: jit.Tensor
    y: Any


# -- ways to run code --------------------------------------------------------------------------------------------


@case()
def generator_function_yields_tensors(t: Trial) -> None:
    def parts(x, n):
        for i in range(n):
            received = yield x * i
            if received is not None:
                x = x + received

    def f(x, n):
        found = parts(x, n)
        total = next(found)
        with contextlib.suppress(StopIteration):
            while True:
                total = total + found.send(total.sin())
        return total

    f = t.trace(f)
    for a, n in ((1.0, 2), (2.0, 2), (1.0, 4), (3.0, 4), (1.0, 1)):
        t.twice(f, vector(a, 0.5), n)


@case()
def coroutine_computes(t: Trial) -> None:
    async def square(x):
        await asyncio.sleep(0)
        return x * x

    def f(x):
        async def both():
            return await square(x) + await square(x + 1)

        coroutine = both()
        while True:
            try:
                coroutine.send(None)
            except StopIteration as stop:
                return stop.value

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, vector(a, 0.5))


@case(jit.TraceError, must_hit=False)
def event_loop_runs_inside(t: Trial) -> None:
    async def square(x):
        await asyncio.sleep(0)
        return x * x

    f = t.trace(lambda x: asyncio.run(square(x)))
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


@case()
def recursion_by_value(t: Trial) -> None:
    def f(x, depth=0):
        return x if depth > 6 or x.sum() > 20 else f_inner(x * 2, depth + 1)

    def f_inner(x, depth):
        return f(x, depth) + 1

    g = t.trace(f)
    for a in (1.0, 3.0, 9.0, 1.0, 30.0, 3.0):
        t.twice(g, vector(a, 0.5))


@case()
def traced_function_calls_itself(t: Trial) -> None:
    def power(x, n):
        return x if n == 0 else traced(x * x.cos(), n - 1)

    traced = t.trace(power)
    for a, n in ((1.0, 2), (2.0, 2), (1.0, 0), (0.5, 2), (1.5, 3)):
        t.twice(traced, vector(a, 0.5), n)


@case()
def functools_and_operator(t: Trial) -> None:
    def f(x):
        pieces = sorted(enumerate(x), key=operator.itemgetter(0), reverse=True)
        total = functools.reduce(operator.add, (p * (i + 1) for i, p in pieces))
        return total * functools.partial(jit.sum, x)(), list(itertools.accumulate(x, operator.mul))

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, vector(a, 0.5, 2.0))


@case()
def sorting_by_values(t: Trial) -> None:
    f = t.trace(lambda x: jit.stack(sorted(x, key=lambda e: e.item())) * vector(1.0, 2.0, 3.0, grad=False))
    for numbers in ((1, 2, 3), (3, 2, 1), (2, 1, 3), (1, 2, 3), (3, 2, 1)):
        t.twice(f, vector(*numbers))


@case()
def minimum_and_maximum_of_python(t: Trial) -> None:
    f = t.trace(lambda x, y: max(x.sum(), y.sum()) * min(x[0], y[1], key=abs) + any(x > 2) + all(y > 0))
    for a, b in ((1, 2), (2, 1), (3, 3), (-1, 2), (1, -5), (2, 1)):
        t.twice(f, vector(a, 0.5), vector(0.25, b))


@case()
def context_manager_of_the_users(t: Trial) -> None:
    @contextlib.contextmanager
    def scaled(factors, n):
        factors.append(n)
        try:
            yield functools.reduce(operator.mul, factors)
        finally:
            factors.pop()

    def f(x, n):
        factors: list[Any] = []
        with scaled(factors, x.max()) as a, scaled(factors, n) as b:
            return x * a + b

    f = t.trace(f)
    for a, n in ((1.0, 2), (2.0, 2), (2.0, 3), (1.0, 3)):
        t.twice(f, vector(a, 0.5), n)


@case()
def exceptions_carry_tensors(t: Trial) -> None:
    class Found(Exception):
        pass

    def search(x):
        for row in x:
            if row.sum() > 2:
                raise Found(row * 3)
        return x.sum()

    def f(x):
        try:
            return search(x)
        except Found as found:
            return found.args[0]

    f = t.trace(f)
    for rows in ([[1, 1], [2, 2]], [[3, 1], [2, 2]], [[0, 0], [0, 1]], [[3, 3], [2, 2]], [[1, 1], [5, 2]]):
        t.twice(f, jit.tensor(rows, dtype=jit.float32, requires_grad=True))


@case()
def exception_from_the_second_call_on(t: Trial) -> None:
    def f(x):
        if x.min() < 0:
            raise ValueError(f"negative: {x.argmin().item()}")
        return x.sqrt()

    f = t.trace(f)
    for a in (1.0, 4.0, -1.0, 9.0, -4.0, 16.0):
        t.call(f, vector(2.0, a))


@case()
def finally_and_else(t: Trial) -> None:
    def f(x, n):
        steps = []
        for i in range(3):
            try:
                if i == n:
                    raise KeyError(i)
                x = x * (i + 1)
            except KeyError:
                x = -x
                continue
            else:
                steps.append(x.sum())
            finally:
                x = x + 1
        return x, steps

    f = t.trace(f)
    for a, n in ((1.0, 0), (2.0, 0), (1.0, 2), (1.0, 7), (3.0, 2)):
        t.twice(f, vector(a, 0.5), n)


# -- objects as arguments and results ----------------------------------------------------------------------------


@case()
def dataclass_arguments_change(t: Trial) -> None:
    f = t.trace(lambda o: o.x * o.scale + sum(o.more))
    x = vector(1.0, 2.0)
    base = Options(2.0, x)
    for options in (base, base, replace(base, scale=3.0), replace(base, more=[1.0, x]), base, replace(base, more=[x])):
        t.twice(f, options, wrt=x)


@case()
def dataclass_is_changed_between_calls(t: Trial) -> None:
    f = t.trace(lambda o: o.x * o.scale + len(o.more))
    options = Options(2.0, vector(1.0, 2.0))
    for scale in (2.0, 2.0, 4.0, 4.0, 2.0):
        options.scale = scale
        options.more[:] = ["one more"] * (scale == 4.0)
        options.x = vector(scale, 1.0)
        t.call(f, options)


@case(jit.TraceError)
def dataclass_argument_is_changed_inside(t: Trial) -> None:
    def f(o):
        o.scale = o.scale + 1
        return o.x * o.scale

    f = t.trace(f)
    options = Options(2.0, vector(1.0, 2.0))
    for _ in range(3):
        t.call(f, options)
        t.see("scale", options.scale)


@case()
def results_of_every_shape(t: Trial) -> None:
    def f(x):
        y = x * 2
        table: Any = OrderedDict(b=y, a=x)
        return Point(y, [x, (y, None, "text", 1.5)]), table, Options(x.shape[0], y.sum()), {1: y, "1": x, None: 3}

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, vector(a, 0.5))


@case()
def dictionaries_in_another_order(t: Trial) -> None:
    def f(table):
        total = 0
        for position, (key, value) in enumerate(table.items()):
            total = total * 2 + value * (position + len(str(key)))
        return total

    f = t.trace(f)
    a, b = vector(1.0, 2.0), vector(3.0, 5.0)
    for table in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": b, "b": a}, {"a": a, "b": b}, {1: a, "1": b}):
        t.twice(f, table, wrt=[a, b])


@case()
def keys_that_are_equal_but_not_the_same(t: Trial) -> None:
    def f(x, table):
        return x * sum(v * len(repr(k)) for k, v in table.items())

    f = t.trace(f)
    for table in ({1: 2}, {True: 2}, {1.0: 2}, {1: 2}, {"1": 2}, {1: 2.0}, {1: True}):
        t.call(f, vector(1.0, 2.0), table)


@case()
def nan_and_signed_zeros_as_arguments(t: Trial) -> None:
    nan, other = float("nan"), np.float64("nan")
    f = t.trace(lambda x, s: x * 0 + np.copysign(1.0, s) + (s != s) * 2)
    for s in (nan, other, nan, 0.0, -0.0, 0.0, -nan, nan, float("inf"), -float("inf")):
        t.call(f, vector(1.0, 2.0), s)


@case()
def numbers_of_numpy_as_arguments(t: Trial) -> None:
    f = t.trace(lambda x, s: (x * s).to(jit.float64) + (jit.arange(3) * s).sum())
    for s in (2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.bool_(True), True, 2, np.float32(3)):
        t.call(f, vector(1.0, 2.0), s)


@case()
def strings_bytes_ellipsis_and_types(t: Trial) -> None:
    def f(x, how):
        if how is ...:
            return x * 2
        if isinstance(how, type):
            return x.to(jit.float64) if how is float else x.to(jit.int64)
        return x * len(how) + (how == b"ab")

    f = t.trace(f)
    for how in ("ab", b"ab", ..., float, int, "ab", b"abc", ..., float):
        t.call(f, vector(1.0, 2.0), how)


@case()
def slices_ranges_and_sets_as_arguments(t: Trial) -> None:
    f = t.trace(lambda x, s: x[s].sum() if isinstance(s, slice) else x * sum(s))
    for s in (
        slice(1),
        slice(0, 2),
        slice(None, None, 2),
        range(3),
        range(4),
        {1, 2},
        frozenset({3}),
        slice(1),
        {2, 1},
    ):
        t.call(f, vector(1.0, 2.0, 3.0), s)


@case()
def callables_as_arguments(t: Trial) -> None:
    def twice(g, x):
        return g(g(x))

    f = t.trace(twice)
    scale = 2.0

    def scaled(x):
        return x * scale

    for g in (jit.sin, jit.cos, jit.sin, scaled, lambda x: x + 1, scaled, jit.cos):
        t.call(f, g, vector(1.0, 2.0))
    scale = 5.0
    t.call(f, scaled, vector(1.0, 2.0))


@case()
def mutable_object_with_slots(t: Trial) -> None:
    class Slotted:
        __slots__ = ("factor", "weight")

        def __init__(self):
            self.factor, self.weight = 2.0, vector(3.0)

    holder = Slotted()
    f = t.trace(lambda x: x * holder.factor + holder.weight)
    for factor in (2.0, 2.0, 3.0, 2.0):
        holder.factor = factor
        t.call(f, vector(factor))
    holder.weight = vector(7.0)
    t.call(f, vector(1.0))


@case()
def class_attribute_through_inheritance(t: Trial) -> None:
    class Base:
        factor = 2.0

    class Child(Base):
        pass

    one = Child()
    f = t.trace(lambda x: x * one.factor)
    t.call(f, vector(1.0))
    t.call(f, vector(1.0))
    Base.factor = 3.0
    t.call(f, vector(1.0))
    Child.factor = 4.0
    t.call(f, vector(1.0))
    one.factor = 5.0
    t.call(f, vector(1.0))
    del one.factor, Child.factor
    t.call(f, vector(1.0))


@case()
def method_is_replaced(t: Trial) -> None:
    class Model:
        def scale(self, x):
            return x * 2

        def forward(self, x):
            return self.scale(x) + 1

    model = Model()
    f = t.trace(model.forward)
    t.call(f, vector(1.0))
    t.call(f, vector(2.0))
    Model.scale = lambda self, x: x * 3  # type: ignore[method-assign]
    t.call(f, vector(1.0))
    model.scale = lambda x: x * 4  # type: ignore[method-assign]
    t.call(f, vector(1.0))
    t.call(f, vector(2.0))


@case(must_hit=False)
def object_of_an_argument_is_replaced_and_comes_back(t: Trial) -> None:
    class Config:
        def __init__(self, n):
            self.n = n

    f = t.trace(lambda x, c: x * c.n)
    for n in (1, 2, 3, 1, 2):  # each may have the address of the one before
        t.call(f, vector(1.0, 2.0), Config(n))


@case()
def simple_namespace_and_default_dict(t: Trial) -> None:
    space = types.SimpleNamespace(scale=2.0, nested=types.SimpleNamespace(power=2))
    table: Any = defaultdict(lambda: 3.0)
    f = t.trace(lambda x: x**space.nested.power * space.scale + table.get("bias", 1.0) + len(table))
    t.call(f, vector(1.0, 2.0))
    t.call(f, vector(2.0, 2.0))
    space.nested.power = 3
    t.call(f, vector(1.0, 2.0))
    table["bias"] = 9.0
    t.call(f, vector(1.0, 2.0))
    space.nested = types.SimpleNamespace(power=1)
    t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def default_dict_grows_when_read(t: Trial) -> None:
    table: Any = defaultdict(int)
    f = t.trace(lambda x, key: x * (table[key] + 1) + len(table))
    for key in ("a", "a", "b", "a", "c", "b"):
        t.call(f, vector(1.0, 2.0), key)
        t.see("table", dict(table))


@case()
def deque_and_counter_change_outside(t: Trial) -> None:
    last, counted = deque([1.0, 2.0], maxlen=2), Counter("aab")
    f = t.trace(lambda x: x * sum(last) + counted["a"])
    for n in (2.0, 3.0, 3.0, 3.0, 5.0):
        t.call(f, vector(1.0, 2.0))
        last.append(n)
        counted["a"] += n == 5.0
    t.call(f, vector(1.0, 2.0))


@case(must_hit=False)
def weak_references_to_results(t: Trial) -> None:
    alive: list[Any] = []

    def f(x):
        y = x * 2
        alive.append(weakref.ref(y))
        return y + 1

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a))
        t.see("alive", [r() is not None for r in alive])


@case((AttributeError, jit.TraceError))
def copies_of_tensors(t: Trial) -> None:
    f = t.trace(lambda x: copy.copy(x.detach() * 1) * 2 + copy.deepcopy(x.detach()) * x)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


# -- text --------------------------------------------------------------------------------------------------------


@case()
def text_that_only_names_shapes(t: Trial) -> None:
    def f(x):
        table = {f"{x.shape}-{x.dtype}-{x.ndim}": 2, "tensor": 3}
        return x * table.get(f"{tuple(x.shape)}-{x.dtype}-{x.ndim}", 5) * len(f"{x.size(0):03d}")

    f = t.trace(f)
    for n in (2, 2, 3, 12, 3, 1200):
        t.call(f, jit.ones(n, requires_grad=True))


@case(must_hit=False)
def text_of_a_value_steers(t: Trial) -> None:
    f = t.trace(lambda x: x * len(f"{x.sum().item():.3g}"))
    for a in (1.0, 100.0, 2.5, 0.001):
        t.call(f, vector(a))


@case(must_hit=False)
def pattern_matches_a_value(t: Trial) -> None:
    f = t.trace(lambda x: x * 2 if re.match(r"tensor\(\[1", repr(x)) else x * 3)
    for a in (1.0, 2.0, 1.5, 3.0):
        t.call(f, vector(a))


@case()
def formatting_with_percent_and_join(t: Trial) -> None:
    def f(x):
        words = " ".join(str(n) for n in x.shape)
        return x * len("%d by %s" % (x.shape[0], words))  # noqa: UP031  (that way, too)

    f = t.trace(f)
    for shape in ((2, 3), (2, 3), (10, 3), (2, 100), (10, 3)):
        t.call(f, jit.ones(shape, requires_grad=True))


# -- looking at oneself ------------------------------------------------------------------------------------------


@case()
def frames_and_locals(t: Trial) -> None:
    def f(x):
        y = x * 2
        return locals()["y"] + len(sys._getframe().f_code.co_varnames)

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.twice(f, vector(a))


@case()
def annotations_and_casts(t: Trial) -> None:
    def f(x: jit.Tensor, n: "int" = 2) -> jit.Tensor:
        y: jit.Tensor = typing.cast(Any, x * n)
        assert isinstance(y, jit.Tensor) and isinstance(n, int)
        return y

    f = t.trace(f)
    for a, n in ((1.0, 2), (2.0, 2), (1.0, 3)):
        t.twice(f, vector(a), n)


@case()
def type_checks_on_traced_numbers(t: Trial) -> None:
    def f(x):
        n, s = x.shape[0], x.sum().item()
        kinds = [isinstance(n, int), isinstance(s, float), isinstance(n, bool), isinstance(s, int), n.__class__ is int]
        return x * (1 + sum(k * 2**i for i, k in enumerate(kinds))) + operator.index(n)

    f = t.trace(f)
    for n in (2, 2, 3, 4, 5):
        t.call(f, jit.arange(n).float().requires_grad_())


@case()
def identity_of_results(t: Trial) -> None:
    def f(x):
        y = x.contiguous()
        return (y is x, x.float() is x, x.to(jit.float32) is x, x.view(-1) is x, x.detach() is x), y * 2

    f = t.trace(f)
    for a in (1.0, 2.0, 3.0):
        t.call(f, vector(a, 0.5))


@case()
def builtin_is_hidden_by_a_global(t: Trial) -> None:
    space: Any = types.ModuleType("settings_of_a_user")
    exec(compile("def f(x):\n    return x * len([1, 2])\n", "settings_of_a_user.py", "exec"), vars(space))
    f = t.trace(space.f)
    t.call(f, vector(1.0))
    t.call(f, vector(2.0))
    space.len = lambda items: 7
    t.call(f, vector(1.0))
    t.call(f, vector(1.0))
    del space.len
    t.call(f, vector(1.0))


@case()
def arrays_of_objects_and_of_half_floats(t: Trial) -> None:
    table: Any = np.empty(3, dtype=object)
    table[0], table[1], table[2] = 2.0, vector(3.0), [1, 2]
    half = np.array([1.0, 2.0], dtype=jit.bfloat16.numpy)
    when = np.array(["2020-01-01"], dtype="M8[D]")
    f = t.trace(lambda x: x * table[0] + table[1] + len(table[2]) + float(half[0]) + (when[0].astype(int) % 7))
    t.call(f, vector(1.0))
    t.call(f, vector(2.0))
    table[0] = 5.0
    t.call(f, vector(1.0))
    table[2].append(3)
    t.call(f, vector(1.0))
    half[0] = 7
    t.call(f, vector(1.0))
    when += 1
    t.call(f, vector(1.0))


class Length(int):
    """A number with something beside its value."""

    unit = 1.0


class Table(dict):
    """A dict with something beside its items."""

    factor = 1


@dataclass
class Derived:
    """A dataclass with something beside its fields."""

    x: jit.Tensor

    def __post_init__(self) -> None:
        self.factor: Any = 3


@case()
def containers_with_attributes(t: Trial) -> None:
    f = t.trace(lambda c: (c["x"] if isinstance(c, dict) else c.x) * c.factor)
    table, derived = Table(x=vector(1.0, 2.0)), Derived(vector(3.0, 4.0))
    for factor in (1, 2, 2, 5.0, vector(7.0), vector(8.0), 1):
        table.factor = derived.factor = factor  # type: ignore[assignment]
        t.call(f, table)
        t.call(f, derived)


@case()
def default_dict_is_an_argument(t: Trial) -> None:
    f = t.trace(lambda table, x: x * (table["missing"] if x.sum() > 100 else len(table)) * table.default_factory())
    for factory in (int, lambda: 3, int, lambda: 5):
        for a in (1.0, 2.0):
            t.call(f, defaultdict(factory, a=1), vector(a))


LENGTH = Length(3)


@case()
def global_number_with_attributes(t: Trial) -> None:
    f = t.trace(lambda x: x * int(LENGTH) * LENGTH.unit)
    for unit in (1.0, 2.0, 2.0, 1.0):
        LENGTH.unit = unit
        t.call(f, vector(1.0, 2.0))
    del LENGTH.unit
    t.call(f, vector(1.0, 2.0))


@case()
def numbers_with_attributes(t: Trial) -> None:
    f = t.trace(lambda x, n: x * int(n) * n.unit)
    for unit in (1.0, 2.0, 2.0, 1.0):
        length = Length(3)
        length.unit = unit
        t.call(f, vector(1.0, 2.0), length)
