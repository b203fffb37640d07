"""State around a traced function: whatever kind of object holds it, a call after a change gives what eager mode gives.

Every recipe makes an object, reads a number from it and changes it; it is run with the object held by globals,
closures, attributes, defaults and containers. A second test looks for kinds of objects that nobody has thought of: it
makes what it can of the classes of Python's library, and changes them by methods whose names say that they do.
"""

import array
import collections
import contextvars
import csv
import ctypes
import decimal
import enum
import functools
import gc
import importlib
import inspect
import io
import itertools
import mmap
import operator
import os
import queue
import random
import sqlite3
import subprocess
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest

import jit

Read = Callable[[Any], float]
T = TypeVar("T")


class Recipe(NamedTuple):
    """A kind of state."""

    make: Callable[[], Any]
    read: Read
    change: Callable[[Any], Any]


class Thing:
    """An object of the user's."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...


class Slotted:
    __slots__ = ("__private", "k")

    def __init__(self) -> None:
        self.k = self.__private = 2.0

    def private(self) -> float:
        return self.__private

    def set_private(self, value: float) -> None:
        self.__private = value


class Missing(dict[str, float]):
    k: float

    def __missing__(self, key: str) -> float:
        return self.k


class Answering:
    def __init__(self) -> None:
        self._k = 2.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._k


class Descriptor:
    def __init__(self) -> None:
        self.k = 2.0

    def __get__(self, instance: Any, owner: Any) -> float:
        return self.k


class Point(NamedTuple):
    items: list[float]


def _class_with(**entries: Any) -> Any:
    return type("Made", (), entries)


def _sub(base: type, *args: Any) -> Any:
    made = type("Sub", (base,), {})(*args)
    made.k = 2.0
    return made


_BUFFERS: list[memoryview] = []


def _for_good(buffer: memoryview) -> memoryview:
    """Kept alive: Python 3.12.1 crashes when it collects the buffer of a BytesIO in a reference cycle."""
    _BUFFERS.append(buffer)
    return buffer


def _with_meta() -> Any:
    meta = type("Meta", (type,), {"k": 2.0, "scale": property(lambda cls: cls.k)})
    return meta("Made", (), {})


def _with_enum() -> Any:
    class Kind(enum.Enum):
        A = 1.0
        B = 2.0

    member: Any = Kind.A
    member.k = 2.0
    return Kind


def _function(k: float = 2.0) -> Any:
    def helper(scale: float = k, *, shift: float = 0.0) -> float:
        return scale + shift

    helper.k = k  # type: ignore[attr-defined]
    return helper


def _module() -> types.ModuleType:
    module = types.ModuleType("jit_test_module")
    module.K = 2.0  # type: ignore[attr-defined]
    sys.modules["jit_test_module"] = module
    return module


def _as_module(**entries: Any) -> Any:
    return types.SimpleNamespace(**entries)


def _generic() -> Any:
    class Box(Generic[T]):
        k = 2.0

    return Box


def _dispatching() -> Any:
    @functools.singledispatch
    def chosen(value: Any) -> float:
        return 2.0

    return chosen


def _dispatching_method() -> Any:
    class Chooser:
        @functools.singledispatchmethod
        def go(self, value: Any) -> float:
            return 2.0

    return Chooser


def _partial_method() -> Any:
    class Chooser:
        def _go(self, k: float) -> float:
            return k

        go = functools.partialmethod(_go, k=2.0)

    return Chooser


def _cached() -> Any:
    cell = [2.0]

    @functools.lru_cache(None)
    def helper() -> float:
        return cell[0]

    helper.cell = cell  # type: ignore[attr-defined]
    return helper


def _recall(helper: Any) -> None:
    helper.cell[0] = 5.0
    helper.cache_clear()


def _structure() -> Any:
    kind = type("Pair", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int), ("b", ctypes.c_double)]})
    return kind(1, 2.0)


def _pointer() -> Any:
    number = ctypes.c_int(2)
    return ctypes.pointer(number)


def _inner(kind: Callable[[Any], Any]) -> Any:
    """What a view shows and hides: `kind` of a dict, with the dict."""
    inside = {"a": 2.0}
    return (kind(inside), inside)


def _mapped() -> Any:
    made = mmap.mmap(-1, 8)
    made[0] = 2
    return made


def _proxied() -> Any:
    thing = Thing(k=2.0)
    return Thing(thing=thing, proxy=weakref.proxy(thing))


def _weak_values() -> Any:
    made: Any = weakref.WeakValueDictionary()
    thing = made["a"] = Thing(k=2.0)
    return Thing(made=made, thing=thing)


def _pile() -> Any:
    made: Any = queue.Queue()
    made.put(1)
    return made


def _text() -> Any:
    return io.StringIO("2.0")


def _retext(file: Any) -> None:
    file.seek(0)
    file.write("3.5")


def _parts(kind: Any) -> Any:
    """Three objects in one another."""
    return Thing(outer=kind(Thing(k=2.0)))


def _database() -> Any:
    made = sqlite3.connect(":memory:")
    made.execute("create table t (a real)")
    made.execute("insert into t values (2.0)")
    return made


def _set(name: str, value: Any = 3.0) -> Callable[[Any], None]:
    return lambda thing: setattr(thing, name, value)


def _put(key: Any, value: Any = 3.0) -> Callable[[Any], None]:
    return lambda thing: thing.__setitem__(key, value)


RECIPES: dict[str, Recipe] = {
    "list": Recipe(lambda: [2.0], lambda v: v[0], _put(0)),
    "list grows": Recipe(lambda: [2.0], lambda v: sum(v), lambda v: v.append(1.0)),
    "nested list": Recipe(lambda: [[2.0]], lambda v: v[0][0], lambda v: v[0].__setitem__(0, 3.0)),
    "dict": Recipe(lambda: {"a": 2.0}, lambda v: v["a"], _put("a")),
    "dict key that is an object": Recipe(
        lambda: {Thing(k=2.0): 1}, lambda v: sum(t.k for t in v), lambda v: setattr(next(iter(v)), "k", 3.0)
    ),
    "set": Recipe(lambda: {2.0}, lambda v: sum(v), lambda v: v.add(1.0)),
    "set of objects": Recipe(
        lambda: {Thing(k=2.0)}, lambda v: sum(t.k for t in v), lambda v: setattr(next(iter(v)), "k", 3.0)
    ),
    "frozenset of objects": Recipe(
        lambda: frozenset([Thing(k=2.0)]), lambda v: sum(t.k for t in v), lambda v: setattr(next(iter(v)), "k", 3.0)
    ),
    "tuple of lists": Recipe(lambda: ([2.0],), lambda v: v[0][0], lambda v: v[0].__setitem__(0, 3.0)),
    "named tuple": Recipe(lambda: Point([2.0]), lambda v: v.items[0], lambda v: v.items.__setitem__(0, 3.0)),
    "deque": Recipe(lambda: collections.deque([2.0]), lambda v: v[0], _put(0)),
    "OrderedDict": Recipe(
        lambda: collections.OrderedDict(a=1.0, b=2.0), lambda v: next(iter(v.values())), lambda v: v.move_to_end("a")
    ),
    "defaultdict": Recipe(lambda: collections.defaultdict(float, a=2.0), lambda v: v["a"], _put("a")),
    "default_factory": Recipe(
        lambda: collections.defaultdict(lambda: 2.0), lambda v: v.default_factory(), _set("default_factory", float)
    ),
    "Counter": Recipe(lambda: collections.Counter("aab"), lambda v: v["a"], lambda v: v.update("a")),
    "ChainMap": Recipe(lambda: collections.ChainMap({}, {"a": 2.0}), lambda v: v["a"], _put("a")),
    "UserDict": Recipe(lambda: collections.UserDict(a=2.0), lambda v: v["a"], _put("a")),
    "UserList": Recipe(lambda: collections.UserList([2.0]), lambda v: v[0], _put(0)),
    "UserString": Recipe(lambda: collections.UserString("ab"), lambda v: len(v), _set("data", "abc")),
    "dict with __missing__": Recipe(lambda: Thing(m=_sub(Missing)), lambda v: v.m["q"], lambda v: v.m.update(q=1.0)),
    "__missing__": Recipe(
        lambda: _sub(type("M", (dict,), {"__missing__": lambda self, key: self.k})), lambda v: v["q"], _set("k")
    ),
    "attribute of a list": Recipe(lambda: _sub(list), lambda v: v.k, _set("k")),
    "attribute of a tuple": Recipe(lambda: _sub(tuple), lambda v: v.k, _set("k")),
    "attribute of a set": Recipe(lambda: _sub(set), lambda v: v.k, _set("k")),
    "attribute of a number": Recipe(lambda: _sub(float, 1.0), lambda v: v.k, _set("k")),
    "attribute of a text": Recipe(lambda: _sub(str, "a"), lambda v: v.k, _set("k")),
    "attribute of an exception": Recipe(lambda: _sub(ValueError, "a"), lambda v: v.k, _set("k")),
    "arguments of an exception": Recipe(lambda: ValueError([2.0]), lambda v: v.args[0][0],
                                        lambda v: v.args[0].__setitem__(0, 3.0)),
    "bytearray": Recipe(lambda: bytearray(b"\x02"), lambda v: v[0], _put(0, 3)),
    "array": Recipe(lambda: array.array("d", [2.0]), lambda v: v[0], _put(0)),
    "memoryview": Recipe(lambda: memoryview(bytearray(b"\x02")), lambda v: v[0], _put(0, 3)),
    "mmap": Recipe(_mapped, lambda v: v[0], _put(0, 3)),
    "ctypes number": Recipe(lambda: ctypes.c_int(2), lambda v: v.value, _set("value", 3)),
    "ctypes array": Recipe(lambda: (ctypes.c_double * 2)(1.0, 2.0), lambda v: v[1], _put(1)),
    "ctypes structure": Recipe(_structure, lambda v: v.b, _set("b")),
    "ctypes pointer": Recipe(_pointer, lambda v: v.contents.value, lambda v: setattr(v.contents, "value", 3)),
    "ndarray": Recipe(lambda: np.array([2.0]), lambda v: float(v[0]), _put(0)),
    "ndarray in place": Recipe(lambda: np.array([2.0]), lambda v: float(v.sum()), lambda v: v.fill(3.0)),
    "array of objects": Recipe(lambda: np.array([Thing(k=2.0)], dtype=object), lambda v: v[0].k,
                               lambda v: setattr(v[0], "k", 3.0)),
    "structured array": Recipe(lambda: np.array([(2.0,)], dtype=[("a", float)]), lambda v: float(v["a"][0]),
                               lambda v: v["a"].__setitem__(0, 3.0)),
    "masked array": Recipe(lambda: np.ma.masked_array([1.0, 2.0], mask=[True, False]), lambda v: float(v.sum()),
                           _put(0)),
    "dict keys": Recipe(lambda: _inner(dict.keys), lambda v: len(v[0]), lambda v: v[1].update(b=1.0)),
    "dict values": Recipe(lambda: _inner(dict.values), lambda v: sum(v[0]), lambda v: v[1].update(a=3.0)),
    "dict items": Recipe(lambda: _inner(dict.items), lambda v: dict(v[0])["a"], lambda v: v[1].update(a=3.0)),
    "mapping proxy": Recipe(lambda: _inner(types.MappingProxyType), lambda v: v[0]["a"], lambda v: v[1].update(a=3.0)),
    "bound get": Recipe(lambda: {"a": 2.0}.get, lambda v: v("a"), lambda v: v.__self__.update(a=3.0)),
    "bound __getitem__": Recipe(lambda: [2.0].__getitem__, lambda v: v(0), lambda v: v.__self__.insert(0, 3.0)),
    "bound __len__": Recipe(lambda: [2.0].__len__, lambda v: v(), lambda v: v.__self__.append(3.0)),
    "bound method of an object": Recipe(
        lambda: types.MethodType(lambda self: self.k, Thing(k=2.0)), lambda v: v(), lambda v: _set("k")(v.__self__)
    ),
    "attribute": Recipe(lambda: Thing(k=2.0), lambda v: v.k, _set("k")),
    "attribute by a name made at run time": Recipe(lambda: Thing(k=2.0), lambda v: getattr(v, "".join("k")), _set("k")),
    "attribute through vars": Recipe(lambda: Thing(k=2.0), lambda v: vars(v)["k"], _set("k")),
    "attribute through __dict__": Recipe(lambda: Thing(k=2.0), lambda v: sum(v.__dict__.values()), _set("k")),
    "attribute that appears": Recipe(lambda: Thing(), lambda v: v.k if hasattr(v, "k") else 2.0, _set("k")),
    "attribute with a default": Recipe(lambda: Thing(), lambda v: getattr(v, "k", 2.0), _set("k")),
    "attribute in a format": Recipe(lambda: Thing(k=2.0), lambda v: float("{0.k}".format(v)), _set("k")),  # noqa: UP030, UP032
    "attribute in a match": Recipe(lambda: Slotted(), lambda v: _matched(v), _set("k")),
    "attribute of an attribute": Recipe(lambda: Thing(a=Thing(k=2.0)), lambda v: v.a.k, lambda v: _set("k")(v.a)),
    "attrgetter": Recipe(lambda: Thing(a=Thing(k=2.0), get=operator.attrgetter("a.k")), lambda v: v.get(v),
                         lambda v: _set("k")(v.a)),
    "methodcaller": Recipe(lambda: (operator.methodcaller("get", "a"), {"a": 2.0}), lambda v: v[0](v[1]),
                           lambda v: v[1].update(a=3.0)),
    "itemgetter": Recipe(lambda: (operator.itemgetter("a"), {"a": 2.0}), lambda v: v[0](v[1]),
                         lambda v: v[1].update(a=3.0)),
    "slot": Recipe(Slotted, lambda v: v.k, _set("k")),
    "private slot": Recipe(Slotted, lambda v: v.private(), lambda v: v.set_private(3.0)),
    "SimpleNamespace": Recipe(lambda: types.SimpleNamespace(k=2.0), lambda v: v.k, _set("k")),
    "__getattr__": Recipe(Answering, lambda v: v.scale, _set("_k")),
    "descriptor": Recipe(lambda: _class_with(a=Descriptor()), lambda v: v().a, lambda v: _set("k")(vars(v)["a"])),
    "property": Recipe(lambda: _class_with(k=2.0, a=property(lambda self: self.k)), lambda v: v().a, _set("k")),
    "property is replaced": Recipe(lambda: _class_with(a=property(lambda self: 2.0)), lambda v: v().a,
                                   _set("a", property(lambda self: 3.0))),
    "cached property": Recipe(lambda: Thing(v=_class_with(a=functools.cached_property(_function()))()),
                              lambda v: 2.0 + bool(vars(v.v)), lambda v: vars(v.v).update(a=3.0)),
    "class attribute": Recipe(lambda: _class_with(k=2.0), lambda v: v.k, _set("k")),
    "class attribute of an instance": Recipe(lambda: _class_with(k=2.0)(), lambda v: v.k, lambda v: _set("k")(type(v))),
    "inherited attribute": Recipe(lambda: type("Sub", (_class_with(k=2.0),), {}), lambda v: v.k,
                                  lambda v: _set("k")(v.__bases__[0])),
    "inherited attribute is hidden": Recipe(lambda: type("Sub", (_class_with(k=2.0),), {}), lambda v: v.k, _set("k")),
    "class attribute is hidden": Recipe(lambda: _class_with(k=2.0)(), lambda v: v.k, _set("k")),
    "method is replaced": Recipe(lambda: _class_with(go=lambda self: 2.0), lambda v: v().go(),
                                 _set("go", lambda self: 3.0)),
    "__len__ is replaced": Recipe(lambda: _class_with(__len__=lambda self: 2), lambda v: len(v()),
                                  _set("__len__", lambda self: 3)),
    "__float__ appears": Recipe(lambda: type("N", (float,), {}), lambda v: v(2.0) + 0.0,
                                _set("__add__", lambda self, other: 3.0)),
    "class of an object": Recipe(lambda: _class_with(k=2.0)(), lambda v: v.k,
                                 _set("__class__", _class_with(k=3.0))),
    "attribute of a metaclass": Recipe(_with_meta, lambda v: v.scale, lambda v: _set("k")(type(v))),
    "state of an enum member": Recipe(_with_enum, lambda v: v.A.k, lambda v: _set("k")(v.A)),
    "attribute of a function": Recipe(_function, lambda v: v.k, _set("k")),
    "defaults of a function": Recipe(_function, lambda v: v(), _set("__defaults__", (3.0,))),
    "keyword defaults of a function": Recipe(_function, lambda v: v(), lambda v: v.__kwdefaults__.update(shift=1.0)),
    "keyword defaults are replaced": Recipe(_function, lambda v: v(), _set("__kwdefaults__", {"shift": 1.0})),
    "code of a function": Recipe(_function, lambda v: v(), _set("__code__", (lambda scale, *, shift: 3.0).__code__)),
    "closure of a function": Recipe(lambda: _closed_over([2.0]), lambda v: v()[0],
                                    lambda v: v.__closure__[0].cell_contents.__setitem__(0, 3.0)),
    "cell of a closure": Recipe(lambda: _closed_over([2.0]), lambda v: v()[0],
                                lambda v: setattr(v.__closure__[0], "cell_contents", [3.0])),
    "partial": Recipe(lambda: functools.partial(max, 1.0, [2.0]), lambda v: v.args[1][0],
                      lambda v: v.args[1].__setitem__(0, 3.0)),
    "keywords of a partial": Recipe(lambda: functools.partial(_function(), scale=2.0), lambda v: v(),
                                    lambda v: v.keywords.update(scale=3.0)),
    "partial method": Recipe(_partial_method, lambda v: v().go(), lambda v: vars(v)["go"].keywords.update(k=3.0)),
    "singledispatch": Recipe(_dispatching, lambda v: v(1), lambda v: v.register(int, lambda value: 3.0)),
    "alias of a class": Recipe(lambda: _generic()[int], lambda v: v().k, lambda v: _set("k")(v.__origin__)),
    "builtin alias": Recipe(lambda: _class_with(k=2.0, __class_getitem__=classmethod(types.GenericAlias))[int],
                            lambda v: v().k, lambda v: _set("k")(v.__origin__)),
    "union": Recipe(lambda: _class_with(k=2.0) | int, lambda v: v.__args__[0]().k, lambda v: _set("k")(v.__args__[0])),
    "class of no module": Recipe(lambda: _class_with(k=2.0, __module__="nowhere"), lambda v: v.k, _set("k")),
    "singledispatchmethod": Recipe(_dispatching_method, lambda v: v().go(1),
                                   lambda v: v.go.register(int, lambda self, value: 3.0)),
    "lru_cache": Recipe(_cached, lambda v: v(), _recall),
    "ContextVar": Recipe(lambda: contextvars.ContextVar("k", default=2.0), lambda v: v.get(), lambda v: v.set(3.0)),
    "thread local": Recipe(lambda: _local(), lambda v: v.k, _set("k")),
    "weakref": Recipe(lambda: _parts(weakref.ref), lambda v: 2.0 if v.outer() is None else v.outer().k, _set("a")),
    "weak proxy": Recipe(_proxied, lambda v: v.proxy.k, lambda v: _set("k")(v.thing)),
    "WeakValueDictionary": Recipe(_weak_values, lambda v: v.made["a"].k, lambda v: _set("k")(v.thing)),
    "StringIO": Recipe(_text, lambda v: float(v.getvalue()), _retext),
    "BytesIO": Recipe(lambda: io.BytesIO(b"2.0"), lambda v: float(v.getvalue()), lambda v: v.write(b"3")),
    "buffer of BytesIO": Recipe(lambda: _for_good(io.BytesIO(b"\x02").getbuffer()), lambda v: v[0], _put(0, 3)),
    "Event": Recipe(threading.Event, lambda v: 3.0 if v.is_set() else 2.0, lambda v: v.set()),
    "Semaphore": Recipe(lambda: threading.Semaphore(2), lambda v: v._value, lambda v: v.acquire()),
    "Queue": Recipe(_pile, lambda v: v.qsize(), lambda v: v.put(1)),
    "SimpleQueue": Recipe(queue.SimpleQueue, lambda v: v.qsize(), lambda v: v.put(1)),
    "module": Recipe(_module, lambda v: v.K, _set("K")),
    "module by import_module": Recipe(_module, lambda v: importlib.import_module("jit_test_module").K, _set("K")),
    "module by a name made at run time": Recipe(
        _module, lambda v: importlib.import_module("_".join(["jit", "test", "module"])).K, _set("K")
    ),
    "module in sys.modules": Recipe(_module, lambda v: sys.modules["jit_test_module"].K, _set("K")),
    "module replaced in sys.modules": Recipe(
        _module, lambda v: sys.modules["jit_test_module"].K,
        lambda v: sys.modules.__setitem__("jit_test_module", _as_module(K=3.0)),
    ),
    "database": Recipe(_database, lambda v: v.execute("select a from t").fetchone()[0],
                       lambda v: v.execute("update t set a = 3.0")),
    "decimal context": Recipe(
        lambda: decimal.Context(prec=4), lambda v: float(v.divide(decimal.Decimal(1), 3)), _set("prec", 2)
    ),
    "default of the decimal context": Recipe(
        lambda: decimal.getcontext().copy(), lambda v: float(decimal.Decimal(1) / 3),
        lambda v: setattr(decimal.getcontext(), "prec", 3 + decimal.getcontext().prec % 7),
    ),
    "environ": Recipe(lambda: _environment("2"), lambda v: float(os.environ["JIT_TEST_K"]),
                      lambda v: os.environ.update(JIT_TEST_K="3")),
    "environb": Recipe(lambda: _environment("2"), lambda v: float(os.environb[b"JIT_TEST_K"]),
                       lambda v: os.environ.update(JIT_TEST_K="3")),
    "getenv": Recipe(lambda: _environment("2"), lambda v: float(os.getenv("JIT_TEST_K", "7")),
                     lambda v: os.environ.pop("JIT_TEST_K")),
    "recursion limit": Recipe(lambda: sys.getrecursionlimit(), lambda v: sys.getrecursionlimit() - v,
                              lambda v: sys.setrecursionlimit(v + 1)),
    "numpy's generator": Recipe(lambda: np.random.default_rng(1), lambda v: float(v.random()), lambda v: v.random()),
    "numpy's older generator": Recipe(lambda: np.random.RandomState(1), lambda v: float(v.rand()), lambda v: v.rand()),
    "Python's generator": Recipe(lambda: random.Random(1), lambda v: v.random(), lambda v: v.random()),
    "count": Recipe(itertools.count, lambda v: float(next(v)), lambda v: next(v)),
    "iterator of a list": Recipe(lambda: iter([*map(float, range(9))]), lambda v: next(v), lambda v: next(v)),
    "generator": Recipe(lambda: (float(i) for i in range(9)), lambda v: next(v), lambda v: next(v)),
    "zip": Recipe(lambda: zip(range(9), range(9)), lambda v: float(next(v)[0]), lambda v: next(v)),
    "cycle": Recipe(lambda: itertools.cycle([1.0, 2.0, 3.0]), lambda v: next(v), lambda v: next(v)),
    "csv": Recipe(lambda: csv.reader(map(str, range(9))), lambda v: float(next(v)[0]), lambda v: next(v)),
}  # fmt: skip


def _matched(value: Any) -> float:
    match value:
        case Slotted(k=k):
            return float(k)
    return 0.0


def _closed_over(items: list[float]) -> Any:
    return lambda: items


def _local() -> Any:
    made = threading.local()
    made.k = 2.0
    return made


def _environment(text: str) -> None:
    os.environ["JIT_TEST_K"] = text


# -- who holds the object ----------------------------------------------------------------------------------------


def in_global(value: Any, read: Read) -> Any:
    space = {"value": value, "read": read}
    exec("def f(x):\n    return x * read(value)\n", space)
    return space["f"]


def in_closure(value: Any, read: Read) -> Any:
    return lambda x: x * read(value)


def in_attribute(value: Any, read: Read) -> Any:
    thing = Thing(held=value)
    return lambda x: x * read(thing.held)


def in_class(value: Any, read: Read) -> Any:
    kind = type("Holder", (), {"held": (value,)})
    return lambda x: x * read(kind().held[0])


def in_default(value: Any, read: Read) -> Any:
    def f(x: Any, held: Any = (value,)) -> Any:
        return x * read(held[0])

    return lambda x: f(x)


def in_function(value: Any, read: Read) -> Any:
    def f(x: Any) -> Any:
        return x * read(f.held)  # type: ignore[attr-defined]

    f.held = value  # type: ignore[attr-defined]
    return f


def in_module(value: Any, read: Read) -> Any:
    module = types.ModuleType("jit_test_holder")
    module.held = value  # type: ignore[attr-defined]
    return in_global(module, lambda module: read(module.held))


def in_list(value: Any, read: Read) -> Any:
    items = [None, value]
    return lambda x: x * read(items[1])


def in_dict(value: Any, read: Read) -> Any:
    items = {"held": value}
    return lambda x: x * read(items["held"])


HOLDERS = (in_global, in_closure, in_attribute, in_class, in_default, in_function, in_module, in_list, in_dict)


def outcomes(recipe: Recipe, holder: Any, wrap: Callable[[Any], Any]) -> list[Any]:
    """What two calls before a change and two after it give."""
    decimal.setcontext(decimal.Context())
    value = recipe.make()
    function = wrap(holder(value, recipe.read))
    x, found = jit.ones(2, dtype=jit.float64), []
    for number in range(4):
        if number == 2:
            recipe.change(value)
        found.append(function(x).tolist())
    return found


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    limit, state = sys.getrecursionlimit(), random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    sys.setrecursionlimit(limit)
    random.setstate(state)
    os.environ.pop("JIT_TEST_K", None)
    sys.modules.pop("jit_test_module", None)
    decimal.setcontext(decimal.Context())


@pytest.mark.parametrize("name", RECIPES)
def test_a_change_is_noticed_whoever_holds_it(name: str) -> None:
    recipe = RECIPES[name]
    for holder in HOLDERS:
        expected = outcomes(recipe, holder, lambda f: f)
        for optimize in (False, True) if holder is in_closure else (False,):
            assert outcomes(recipe, holder, jit.trace(optimize=optimize)) == expected, holder.__name__


KEPT = [name for name in RECIPES if name not in (
    "ctypes pointer", "Queue", "SimpleQueue", "module by a name made at run time", "database", "recursion limit",
    "numpy's generator", "numpy's older generator", "Python's generator", "count", "iterator of a list", "generator",
    "zip", "cycle", "csv", "decimal context", "default_factory", "lru_cache",
    "default of the decimal context",
)]  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_can_be_watched_is_kept(name: str) -> None:
    recipe = RECIPES[name]
    value = recipe.make()
    f = jit.trace(in_closure(value, recipe.read))
    for _ in range(3):
        f(jit.ones(2))
    assert (f.misses, f.hits) == (1, 2), f.explain()


# -- kinds of objects that nobody has thought of -----------------------------------------------------------------

MODULES = (
    "array", "ast", "bz2", "calendar", "codecs", "collections", "configparser", "contextlib",
    "contextvars", "copy", "csv", "ctypes", "datetime", "decimal", "difflib", "email.message", "email.header",
    "enum", "fractions", "functools", "gettext", "graphlib", "hashlib", "html.parser",
    "http.cookies", "inspect", "ipaddress", "itertools", "json", "lzma", "numbers",
    "operator", "optparse", "pickle", "pprint", "queue", "random", "reprlib", "sched",
    "statistics", "string", "struct", "symtable", "textwrap", "threading", "tokenize",
    "types", "urllib.parse", "uuid", "weakref", "wsgiref.headers",
    "xml.dom.minidom", "xml.etree.ElementTree", "zlib", "zoneinfo", "builtins", "numpy", "numpy.ma",
    "numpy.polynomial", "argparse", "dis", "typing", "unittest.mock",
)  # fmt: skip
ARGUMENTS: list[tuple[Any, ...]] = [
    (), ([1, 2],), ("ab",), (b"ab",), (1,), ("d", [1.0, 2.0]), ({"a": 1},), ("a", 1), (bytearray(b"ab"),), (2, 3),
    (["a=1"],), (lambda *args: 1,),
]  # fmt: skip
CHANGES: dict[str, list[tuple[Any, ...]]] = {
    "append": [(1,), (b"x",), ("x",)], "add": [(1,), ("x", 1), ("x",)], "update": [({"a": 9},), ([7],), (b"x",)],
    "put": [(1,)], "push": [(1,), ("x",)], "appendleft": [(1,)], "extend": [([5],)], "insert": [(0, 1), (0, "x")],
    "setdefault": [("q", 5)], "set": [(), (1,), ("a", "b")], "write": [("x",), (b"x",)], "clear": [()],
    "__setitem__": [(0, 7), ("a", 7), (0, "z")], "add_section": [("q",)], "add_header": [("q", "5")],
    "add_flag": [("q",)], "feed": [("<a>",)], "pop": [(), ("a",)], "popitem": [()], "acquire": [()], "reverse": [()],
    "rotate": [()], "seed": [(3,)], "remove": [(1,)], "fill": [(3,)], "seek": [(1,)], "read": [(1,)], "sort": [()],
    "add_argument": [("q",)], "addpattern": [("a",)], "add_option": [("-q",)], "set_debuglevel": [(1,)],
}  # fmt: skip
READS: dict[str, Read] = {
    "len": lambda v: len(v), "bool": lambda v: bool(v), "list": lambda v: len([*itertools.islice(v, 99)]),
    "sum": lambda v: sum(itertools.islice(v, 99)),
    "text": lambda v: _sum(str(v)), "repr": lambda v: _sum(repr(v)), "float": lambda v: float(v),
    "values": lambda v: sum(v.values()), "first": lambda v: float(v[0]), "getvalue": lambda v: len(v.getvalue()),
    "tell": lambda v: v.tell(), "qsize": lambda v: v.qsize(), "digest": lambda v: v.digest()[0],
    "next": lambda v: float(next(v)),
}  # fmt: skip
UNFIT = ("Popen", "Pool", "Server", "Timer", "Thread", "Process", "Barrier", "exit", "quit", "help", "copyright",
         "credits", "license", "FileIO", "SMTP", "LMTP", "input", "Pdb", "FTP", "Cmd", "Interactive",
         "memmap", "File", "Mapped")  # fmt: skip


def _classes() -> list[type]:
    found: dict[int, type] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for kind in vars(module).values():
            if isinstance(kind, type) and not any(word in kind.__name__ for word in UNFIT):
                found[id(kind)] = kind
    return list(found.values())


def _made(kind: Any, arguments: tuple[Any, ...]) -> Any:
    """An object of a class, or nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return kind(*arguments)
        except BaseException:  # whatever else it wants
            return None


def _sum(text: str) -> float:
    """A number for a text that says more than where an object lies."""
    return 0.0 if " at 0x" in text or " id='" in text else sum(map(ord, text))


def _value(read: Read, thing: Any) -> Any:
    try:
        return float(read(thing))
    except Exception:
        return None


def _changes(thing: Any) -> Iterator[Callable[[Any], Any]]:
    """What might change an object, by methods and by attributes."""
    for name, variants in CHANGES.items():
        if callable(getattr(type(thing), name, None)):
            for arguments in variants:
                yield functools.partial(lambda v, n, a: getattr(v, n)(*a), n=name, a=arguments)
    for name, value in list(getattr(thing, "__dict__", {}).items()):
        if type(value) in (int, float, str):
            yield functools.partial(lambda v, n, x: setattr(v, n, x), n=name, x=value * 2 + type(value)(1))


def _steps(kind: type) -> Iterator[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Pairs of a maker and a change that does not fail."""
    for arguments in ARGUMENTS:
        thing = _made(kind, arguments)
        if thing is None or isinstance(thing, jit.Tensor):
            continue
        for change in _changes(thing):
            fresh = _made(kind, arguments)
            try:
                change(fresh)
            except BaseException:
                continue
            yield functools.partial(_made, kind, arguments), change


def _after(wrap: Callable[[Any], Any], make: Any, change: Any, read: Read) -> list[Any]:
    thing, found = make(), []
    f = wrap(lambda x: x * float(read(thing)))
    for number in range(4):
        if number == 2:
            change(thing)
        try:
            found.append(f(jit.ones(1, dtype=jit.float64)).item())
        except Exception as error:
            found.append(type(error))
    return found


def walk(report: str) -> None:
    """Try them all, and write how many classes there were, and what was wrong."""
    warnings.simplefilter("ignore")
    tried, wrong = set(), []
    for kind in _classes():
        for make, change in itertools.islice(_steps(kind), 6):
            before, after = make(), make()
            try:
                change(after)
            except Exception:  # it works once
                continue
            for name, read in READS.items():
                if _value(read, before) == _value(read, after):
                    continue
                expected = _after(lambda f: f, make, change, read)
                if expected != _after(lambda f: f, make, change, read):
                    continue  # it is another one each time
                tried.add(kind)
                if _after(jit.trace(optimize=False), make, change, read) != expected:
                    wrong.append(f"{kind.__name__} {name}")
    Path(report).write_text("\n".join([str(len(tried)), *wrong]))


def test_objects_of_whatever_class_of_pythons_library(tmp_path: Path) -> None:
    """In a process and a folder of its own: who knows what such objects do to files."""
    report = tmp_path / "report"
    code = f"from tests.tracing.test_watched_state import walk; walk({str(report)!r})"
    root = Path(__file__).resolve().parents[2]
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    tried, *wrong = report.read_text().splitlines()
    assert not wrong
    assert int(tried) > 60


def test_what_a_function_in_c_reads_is_known_or_not_kept() -> None:
    """Functions in C of Python's modules that answer without arguments: none is frozen but those known to be pure."""
    answers = {}
    for name in ("sys", "time", "os", "gc", "threading", "locale", "signal", "faulthandler", "tracemalloc", "resource"):
        for function in vars(importlib.import_module(name)).values():
            if inspect.isbuiltin(function) and function.__name__.startswith(("get", "is", "_get", "time", "perf", "c")):
                try:
                    answers[function] = float(function())
                except Exception:
                    continue
    pure = {sys.is_finalizing, gc.collect}
    assert len(answers) > 20
    for function in answers.keys() - pure:
        f = jit.trace(lambda x, function=function: x * float(function()))
        g = jit.trace(in_global(function, lambda function: float(function())))
        for traced in (g, f):
            traced(jit.ones(1)), traced(jit.ones(1))
            assert traced.hits == 0, function


# -- what is beside ----------------------------------------------------------------------------------------------


def _crowd() -> Any:
    """An object with much to it that `scale` does not read."""
    parts = {f"part_{i}": Thing(number=i, items=[i] * 10) for i in range(50)}
    methods = {f"method_{i}": lambda self: next(itertools.count()) + time.time() for i in range(50)}
    kind = type("Crowd", (Thing,), {**methods, "scale": lambda self, x: x * self.factor})
    return kind(factor=2.0, opened=io.BytesIO(b"a"), numbers=itertools.count(), **parts)


def test_a_hit_checks_what_the_code_that_ran_can_read() -> None:
    crowd = _crowd()
    f = jit.trace(lambda x: crowd.scale(x))
    f(jit.ones(2)), f(jit.ones(2))
    assert f.hits == 1, f.explain()
    assert len(list(f._surroundings.look().places())) < 12
    next(crowd.numbers), crowd.part_3.items.append(1)
    f(jit.ones(2))
    assert f.hits == 2
    crowd.factor = 3.0
    assert f(jit.ones(2)).tolist() == [3.0, 3.0]


def test_places_of_a_network_do_not_grow_with_the_classes_of_its_layers() -> None:
    nn = jit.nn
    small, large = (nn.Sequential(*(nn.Linear(2, 2) for _ in range(n))) for n in (2, 12))
    counts = []
    for net in (small, large):
        f = jit.trace(net)
        f(jit.ones(1, 2))
        counts.append(len(list(f._surroundings.look().places())))
    assert (counts[1] - counts[0]) / 10 < 24


def test_recordings_of_before_are_found_when_more_has_run() -> None:
    thing = Thing(scale=2.0)

    def more(x: Any) -> Any:
        return x * thing.scale

    f = jit.trace(lambda x, deep: more(x) if deep else x + 1)
    for deep in (False, True, False, True):
        f(jit.ones(2), deep)
    assert (f.misses, f.hits) == (2, 2)
    thing.scale = 5.0
    assert f(jit.ones(2), True).tolist() == [5.0, 5.0]


def _restoring() -> float:
    state = np.random.get_state()
    number = float(np.random.rand())
    np.random.set_state(state)
    return number


def test_a_state_that_is_put_back_is_read_all_the_same() -> None:
    f = jit.trace(lambda x: x * _restoring())
    for seed in (1, 1, 2, 1):
        np.random.seed(seed)
        assert f(jit.ones(1, dtype=jit.float64)).item() == _restoring()


def test_a_generator_that_is_seeded_inside_is_kept() -> None:
    f = jit.trace(lambda x: x * float(np.random.default_rng(3).normal()))
    found = {f(jit.ones(1)).item() for _ in range(3)}
    assert len(found) == 1 and f.hits == 2, f.explain()


def test_threads_that_find_more_at_once_agree() -> None:
    things = [Thing(scale=float(n)) for n in range(6)]
    helpers = [(lambda x, n=n: x * things[n].scale) for n in range(6)]
    f = jit.trace(lambda x, n: helpers[n](x))
    found: list[Any] = []

    def work(first: int) -> None:
        for n in (*range(first, 6), *range(first)):
            found.append((n, f(jit.ones(1), n).item()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 36 and all(n == value for n, value in found)
