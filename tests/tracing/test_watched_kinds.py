"""What an object is, set anew: its class, the bases and metaclass of that, the names, docs and code of functions.

Mocks, objects of `typing`, records of numpy and endless iterators are here, too.
"""

import datetime
import decimal
import functools
import itertools
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import jit
from tests.tracing.test_watched_state import Recipe, Thing, _put, _set, in_attribute, in_closure, in_global, outcomes


def _class(name: str = "Made", *bases: type, **entries: Any) -> Any:
    return type(name, bases or (Thing,), entries)


def _rebased(before: dict[str, Any], after: dict[str, Any]) -> Any:
    """A class, and what it inherits from before and after."""
    return Thing(kind=_class("Sub", _class("Before", **before)), after=_class("After", **after))


def _rebase(thing: Any) -> None:
    thing.kind.__bases__ = (thing.after,)


def _deep() -> Any:
    top = _class("Top", k=2.0)
    return Thing(kind=_class("Leaf", _class("Middle", top)), after=_class("Other", k=3.0))


def _metaclass(**entries: Any) -> Any:
    return type("Meta", (type,), entries)


def _function() -> Any:
    def helper(scale: float = 2.0) -> float:
        """ab"""
        return scale

    return helper


def _wrapping() -> Any:
    def inner() -> float:
        return 2.0

    @functools.wraps(inner)
    def outer() -> float:
        return 1.0

    return outer


def _module(kind: type = types.ModuleType, **entries: Any) -> Any:
    made = kind("jit_test_kinds")
    vars(made).update(entries)
    return made


class _Answering(types.ModuleType):
    def __getattr__(self, name: str) -> float:
        if name.startswith("__"):
            raise AttributeError(name)
        return 3.0


def _record() -> Any:
    return np.ma.array([(2.0, 1)], mask=[(False, False)], dtype=[("a", float), ("b", int)])[0]


def _plain_record() -> Any:
    return np.array([(2.0, 1)], dtype=[("a", float), ("b", int)])[0]


def _mock(value: float) -> Any:
    return mock.Mock(return_value=value)


def _endless() -> Iterator[float]:
    value = 1.0
    while True:
        value += 1.0
        yield value


class _Own:
    """An iterator whose state is an attribute."""

    def __init__(self) -> None:
        self.at = 1.0

    def __iter__(self) -> Iterator[float]:
        return self

    def __next__(self) -> float:
        self.at += 1.0
        return self.at


def _named(value: float, kind: Any = Thing) -> Any:
    return kind(k=value)


class _Reaching(dict[str, Any]):
    """A dict whose entries are its attributes, too."""

    def __init__(self, **entries: Any) -> None:
        super().__init__(entries)
        self.__dict__ = self


class _Answers(dict[str, Any]):
    """A dict that gives what nobody has put in."""

    def get(self, key: Any, default: Any = None) -> Any:
        return 9.0


class _Money(decimal.Decimal):
    """An amount, with attributes."""


class _Day(datetime.date):
    """A date, with attributes."""


def _attributes_in(space: Any) -> Any:
    made = Thing()
    made.__dict__ = space
    return made


RECIPES: dict[str, Recipe] = {
    # -- numbers of classes of the user's
    "decimal context of a class of decimal numbers": Recipe(
        lambda: _Money("1.5"), lambda v: float(v / 7),
        lambda v: setattr(decimal.getcontext(), "prec", 1),
    ),
    "decimal number of the same class": Recipe(
        lambda: [_Money("1.5")], lambda v: float(v[0]), lambda v: v.__setitem__(0, _Money("2.5"))
    ),
    "date": Recipe(
        lambda: [_Day(2000, 1, 1)], lambda v: float(v[0].year), lambda v: v.__setitem__(0, _Day(2001, 1, 1))
    ),
    "attribute of a decimal number": Recipe(
        lambda: _attached(_Money("1.5")), lambda v: v.k, _set("k", 3.0)
    ),
    # -- elements of sets
    "a number that lies where another one lay": Recipe(
        lambda: {float("2.5")}, lambda v: sum(v), lambda v: (v.clear(), v.add(float("3.5")))
    ),
    # -- keys of dicts
    "class of a key": Recipe(
        lambda: {1: 2.0}, lambda v: v.get(1, 3.0), lambda v: (v.clear(), v.update({"1": 2.0}))
    ),
    "None and its name as keys": Recipe(
        lambda: {None: 2.0, "a": 1}, lambda v: v.get(None, 3.0), lambda v: (v.clear(), v.update({"None": 2.0, "a": 1}))
    ),
    # -- dicts with methods of their own
    "entry of a dict that is called get": Recipe(
        lambda: _Reaching(k=2.0, get=1, items=2), lambda v: v["k"] + v["items"], lambda v: dict.update(v, k=3.0)
    ),
    "get that one dict has": Recipe(
        lambda: _attached(_Reaching(k=2.0), get=lambda key: 9.0), lambda v: v["k"], lambda v: dict.update(v, k=3.0)
    ),
    "attributes in a dict with a get of its own": Recipe(
        lambda: _attributes_in(_Answers(k=2.0)), lambda v: v.k, _set("k", 3.0)
    ),
    # -- classes
    "bases": Recipe(lambda: _rebased({"k": 2.0}, {"k": 3.0}), lambda v: v.kind.k, _rebase),
    "bases of the class of an object": Recipe(
        lambda: _rebased({"k": 2.0}, {"k": 3.0}), lambda v: v.kind().k, _rebase
    ),
    "bases, by a method": Recipe(
        lambda: _rebased({"go": lambda self: 2.0}, {"go": lambda self: 3.0}), lambda v: v.kind().go(), _rebase
    ),
    "bases, by super()": Recipe(
        lambda: _rebased({"go": lambda self: 2.0}, {"go": lambda self: 3.0}),
        lambda v: super(v.kind, v.kind()).go(), _rebase,
    ),
    "bases, by isinstance": Recipe(
        lambda: _rebased({}, {}), lambda v: 2.0 + isinstance(v.kind(), v.after), _rebase
    ),
    "bases, by __mro__": Recipe(lambda: _rebased({}, {}), lambda v: 2.0 + (v.after in v.kind.__mro__), _rebase),
    "bases of a base": Recipe(
        _deep, lambda v: v.kind.k, lambda v: setattr(v.kind.__bases__[0], "__bases__", (v.after,))
    ),
    "order of the bases": Recipe(
        lambda: _class("Both", _class("A", k=2.0), _class("B", k=3.0)), lambda v: v.k,
        lambda v: setattr(v, "__bases__", v.__bases__[::-1]),
    ),
    "class of an instance": Recipe(
        lambda: Thing(held=_class("A", k=2.0)(), other=_class("B", k=3.0)), lambda v: v.held.k,
        lambda v: setattr(v.held, "__class__", v.other),
    ),
    "metaclass": Recipe(
        lambda: _metaclass(k=2.0)("Made", (), {}), lambda v: v.k, _set("__class__", _metaclass(k=3.0))
    ),
    "base of a metaclass": Recipe(
        lambda: Thing(kind=type("Meta", (_metaclass(k=2.0),), {}), after=_metaclass(k=3.0)),
        lambda v: v.kind("Made", (), {}).k, _rebase,
    ),
    "__instancecheck__": Recipe(
        lambda: _metaclass(__instancecheck__=lambda cls, thing: False)("Made", (), {}),
        lambda v: 2.0 + isinstance(1, v),
        lambda v: setattr(type(v), "__instancecheck__", lambda cls, thing: True),
    ),
    "__class_getitem__": Recipe(
        lambda: _class(__class_getitem__=lambda cls, key: 2.0), lambda v: v[0],
        _set("__class_getitem__", classmethod(lambda cls, key: 3.0)),
    ),
    "name of a class": Recipe(lambda: _class("ab"), lambda v: float(len(v.__name__)), _set("__name__", "abc")),
    "qualified name of a class": Recipe(
        lambda: _class("ab"), lambda v: float(len(v.__qualname__)), _set("__qualname__", "abc")
    ),
    "module of a class": Recipe(lambda: _class("ab", __module__="ab"), lambda v: float(len(v.__module__)),
                                _set("__module__", "abc")),
    "doc of a class": Recipe(lambda: _class(__doc__="ab"), lambda v: float(len(v.__doc__)), _set("__doc__", "abc")),
    "annotations of a class": Recipe(
        lambda: _class(__annotations__={"a": 2.0}), lambda v: v.__annotations__["a"],
        lambda v: v.__annotations__.update(a=3.0),
    ),
    "annotations of a class are replaced": Recipe(
        lambda: _class(__annotations__={"a": 2.0}), lambda v: v.__annotations__["a"],
        _set("__annotations__", {"a": 3.0}),
    ),
    "text of a class": Recipe(lambda: _class("ab"), lambda v: float(len(str(v))), _set("__qualname__", "abc")),
    "name of the class of an object": Recipe(
        lambda: _class("ab")(), lambda v: float(len(type(v).__name__)), lambda v: _set("__name__", "abc")(type(v))
    ),
    "__match_args__": Recipe(lambda: _class(__match_args__=("k",)), lambda v: float(len(v.__match_args__)),
                             _set("__match_args__", ("k", "l"))),
    "dict of an object is replaced": Recipe(lambda: Thing(k=2.0), lambda v: v.k, _set("__dict__", {"k": 3.0})),
    "__set_name__": Recipe(
        lambda: _class(a=Thing(k=2.0)), lambda v: v.a.k, lambda v: setattr(v, "a", Thing(k=3.0))
    ),
    "__init_subclass__": Recipe(
        lambda: _class(__init_subclass__=classmethod(lambda cls: setattr(cls, "k", 2.0))),
        lambda v: type("Sub", (v,), {}).k,  # type: ignore[attr-defined]
        _set("__init_subclass__", classmethod(lambda cls: setattr(cls, "k", 3.0))),
    ),
    "__subclasses__": Recipe(
        lambda: _class(), lambda v: 2.0 + len(v.__subclasses__()), lambda v: setattr(v, "kept", type("S", (v,), {}))
    ),
    # -- functions
    "name of a function": Recipe(_function, lambda v: float(len(v.__name__)), _set("__name__", "abc")),
    "qualified name of a function": Recipe(_function, lambda v: float(len(v.__qualname__)), _set("__qualname__", "c")),
    "doc of a function": Recipe(_function, lambda v: float(len(v.__doc__)), _set("__doc__", "abc")),
    "module of a function": Recipe(_function, lambda v: float(len(v.__module__)), _set("__module__", "abc")),
    "annotations of a function": Recipe(
        _function, lambda v: float(len(v.__annotations__)), lambda v: v.__annotations__.update(other=float)
    ),
    "annotations of a function are replaced": Recipe(
        _function, lambda v: float(len(v.__annotations__)), _set("__annotations__", {})
    ),
    "defaults of a function that is not called": Recipe(
        _function, lambda v: v.__defaults__[0], _set("__defaults__", (3.0,))
    ),
    "code of a function that is not called": Recipe(
        _function, lambda v: float(v.__code__.co_argcount), _set("__code__", (lambda a, b: 1.0).__code__)
    ),
    "__wrapped__": Recipe(_wrapping, lambda v: v.__wrapped__(), _set("__wrapped__", lambda: 3.0)),
    "dict of a function": Recipe(_function, lambda v: float(len(v.__dict__)), _set("k")),
    "name of a bound method": Recipe(
        lambda: types.MethodType(_function(), 2.0), lambda v: float(len(v.__name__)),
        lambda v: _set("__name__", "abc")(v.__func__),
    ),
    "doc of a property": Recipe(
        lambda: property(lambda self: 2.0, doc="ab"), lambda v: float(len(v.__doc__)), _set("__doc__", "abc")
    ),
    "parts of a partial": Recipe(
        lambda: functools.partial(float, 2.0), lambda v: v(), lambda v: v.__setstate__((float, (3.0,), {}, {}))
    ),
    "attribute of a partial": Recipe(lambda: _attached(functools.partial(float)), lambda v: v.k, _set("k")),
    "name of a generator": Recipe(_endless, lambda v: float(len(v.__name__)), _set("__name__", "abc")),
    # -- modules
    "class of a module": Recipe(lambda: _module(), lambda v: getattr(v, "k", 2.0), _set("__class__", _Answering)),
    "__getattr__ of a module": Recipe(
        lambda: _module(__getattr__=lambda name: 2.0), lambda v: v.k, _set("__getattr__", lambda name: 3.0)
    ),
    "__getattr__ of a module appears": Recipe(
        lambda: _module(), lambda v: getattr(v, "k", 2.0), _set("__getattr__", lambda name: 3.0)
    ),
    "name of a module": Recipe(_module, lambda v: float(len(v.__name__)), _set("__name__", "abc")),
    "doc of a module": Recipe(lambda: _module(__doc__="ab"), lambda v: float(len(v.__doc__)), _set("__doc__", "abc")),
    "file of a module": Recipe(
        lambda: _module(__file__="ab"), lambda v: float(len(v.__file__)), _set("__file__", "abc")
    ),
    # -- errors
    "cause of an error": Recipe(
        lambda: _attached(ValueError("a"), __cause__=KeyError(2.0)), lambda v: v.__cause__.args[0],
        _set("__cause__", KeyError(3.0)),
    ),
    "context of an error": Recipe(
        lambda: _attached(ValueError("a"), __context__=KeyError(2.0)), lambda v: v.__context__.args[0],
        _set("__context__", KeyError(3.0)),
    ),
    "arguments of an error are replaced": Recipe(lambda: ValueError(2.0), lambda v: v.args[0], _set("args", (3.0,))),
    "notes of an error": Recipe(
        lambda: _attached(ValueError("a"), k=1), lambda v: 2.0 + len(getattr(v, "__notes__", [])),
        lambda v: v.add_note("x"),
    ),
    "value of StopIteration": Recipe(lambda: StopIteration(2.0), lambda v: v.value, _set("value")),
    "number of an OSError": Recipe(lambda: OSError(2, "a"), lambda v: float(v.errno), _set("errno", 3)),
    "name of a NameError": Recipe(
        lambda: NameError("a", name="ab"), lambda v: float(len(v.name)), _set("name", "abc")
    ),
    # -- arrays
    "flags of an array": Recipe(
        lambda: np.ones(2), lambda v: 2.0 + v.flags.writeable, lambda v: v.setflags(write=False)
    ),
    "strides of an array": Recipe(
        lambda: np.arange(4.0), lambda v: float(v[1]), lambda v: setattr(v, "strides", (0,))
    ),
    "shape of an array": Recipe(lambda: np.ones((2, 3)), lambda v: float(len(v)), _set("shape", (3, 2))),
    "dtype of an array": Recipe(lambda: np.ones(1), lambda v: float(v[0] > 2), _set("dtype", np.int64)),
    "record": Recipe(_plain_record, lambda v: float(v["a"]), _put("a")),
    "masked record": Recipe(_record, lambda v: float(v["a"]), _put("a")),
    "mask of a record": Recipe(
        _record, lambda v: 2.0 + (v["a"] is np.ma.masked), lambda v: v.__setitem__("a", np.ma.masked)
    ),
    "mask of an array": Recipe(
        lambda: np.ma.array([2.0, 1.0]), lambda v: float(v.sum()), lambda v: v.__setitem__(0, np.ma.masked)
    ),
    "fill value of a masked array": Recipe(
        lambda: np.ma.array([2.0, 1.0], mask=[True, False], fill_value=2.0), lambda v: float(v.filled()[0]),
        _set("fill_value"),
    ),
    # -- mocks
    "mock returns": Recipe(lambda: _mock(2.0), lambda v: v(), _set("return_value")),
    "mock has an attribute": Recipe(lambda: mock.Mock(k=2.0), lambda v: v.k, _set("k")),
    "mock has a side effect": Recipe(lambda: mock.Mock(side_effect=lambda: 2.0), lambda v: v(),
                                     _set("side_effect", lambda: 3.0)),
    "mock gives one after another": Recipe(
        lambda: mock.Mock(side_effect=[2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), lambda v: v(), lambda v: v()
    ),
    "mock counts": Recipe(lambda: _mock(1.0), lambda v: v() + v.call_count, lambda v: v.reset_mock()),
    "magic mock": Recipe(lambda: _attached(mock.MagicMock(), k=1), lambda v: float(len(v)),
                         lambda v: setattr(v.__len__, "return_value", 3)),
    "method of a mock": Recipe(
        lambda: mock.Mock(**{"go.return_value": 2.0}), lambda v: v.go(), lambda v: _set("return_value")(v.go)
    ),
    "non-callable mock": Recipe(lambda: mock.NonCallableMock(k=2.0), lambda v: v.k, _set("k")),
    "property mock": Recipe(
        lambda: _class(k=mock.PropertyMock(return_value=2.0)), lambda v: v().k,
        lambda v: _set("return_value")(vars(v)["k"]),
    ),
    "patched function": Recipe(
        lambda: Thing(go=lambda: 2.0), lambda v: v.go(),
        lambda v: mock.patch.object(v, "go", return_value=3.0).start(),
    ),
    # -- typing
    "type variable": Recipe(lambda: _attached(typing.TypeVar("T"), k=2.0), lambda v: v.k, _set("k")),
    "new type": Recipe(lambda: _attached(typing.NewType("N", int), k=2.0), lambda v: v.k, _set("k")),
    "generic class": Recipe(
        lambda: typing.ClassVar[_class(k=2.0)], lambda v: v.__args__[0].k, lambda v: _set("k")(v.__args__[0])
    ),
    "origin of a generic class": Recipe(
        lambda: _generic(k=2.0)[int], lambda v: v.k, lambda v: _set("k")(v.__origin__)
    ),
    "called generic class": Recipe(
        lambda: _generic(k=2.0)[int], lambda v: v().k, lambda v: _set("k")(v.__origin__)
    ),
    "union": Recipe(
        lambda: typing.Union[_class("A", k=2.0), int],  # noqa: UP007
        lambda v: v.__args__[0].k, lambda v: _set("k")(v.__args__[0]),
    ),
    "union by a bar": Recipe(
        lambda: _class("A", k=2.0) | int, lambda v: v.__args__[0].k, lambda v: _set("k")(v.__args__[0])
    ),
    "annotated": Recipe(
        lambda: typing.Annotated[int, Thing(k=2.0)], lambda v: v.__metadata__[0].k,
        lambda v: _set("k")(v.__metadata__[0]),
    ),
    "alias of a builtin": Recipe(
        lambda: list[_class(k=2.0)], lambda v: v.__args__[0].k, lambda v: _set("k")(v.__args__[0])  # type: ignore[misc]
    ),
    "protocol": Recipe(
        lambda: typing.runtime_checkable(_class("P", typing.Protocol, go=lambda self: None)),
        lambda v: 2.0 + isinstance(_WITHOUT, v), lambda v: setattr(type(_WITHOUT), "go", lambda self: None),
    ),
    # -- iterators
    "count": Recipe(itertools.count, lambda v: float(next(v)), lambda v: next(v)),
    "repeat": Recipe(lambda: itertools.repeat(2.0, 9), lambda v: v.__length_hint__(), lambda v: next(v)),
    "chain": Recipe(lambda: itertools.chain([1.0, 2.0], [3.0] * 9), lambda v: next(v), lambda v: next(v)),
    "cycle": Recipe(lambda: itertools.cycle([1.0, 2.0, 3.0]), lambda v: next(v), lambda v: next(v)),
    "endless generator": Recipe(_endless, lambda v: next(v), lambda v: next(v)),
    "iterator by sum of a slice": Recipe(
        itertools.count, lambda v: float(sum(itertools.islice(v, 3))), lambda v: next(v)
    ),
    "iterator of the user's": Recipe(_Own, lambda v: next(v), lambda v: next(v)),
    "tee": Recipe(lambda: itertools.tee(itertools.count())[0], lambda v: float(next(v)), lambda v: next(v)),
    "iterator with a sentinel": Recipe(
        lambda: iter(iter([*map(float, range(9))]).__next__, 100.0), lambda v: next(v), lambda v: next(v)
    ),
    "map": Recipe(lambda: map(float, itertools.count()), lambda v: next(v), lambda v: next(v)),
    "enumerate": Recipe(lambda: enumerate("abcdefghi"), lambda v: float(next(v)[0]), lambda v: next(v)),
    "reversed": Recipe(lambda: reversed([*map(float, range(9))]), lambda v: next(v), lambda v: next(v)),
    "iterator of a dict": Recipe(
        lambda: iter(dict.fromkeys(map(float, range(9)))), lambda v: next(v), lambda v: next(v)
    ),
    "unpacked iterator": Recipe(lambda: iter([1.0] * 9), lambda v: float(len([*v])), lambda v: None),
    "length hint": Recipe(lambda: iter([1.0] * 9), lambda v: float(v.__length_hint__()), lambda v: next(v)),
}  # fmt: skip


class _Without:
    pass


_WITHOUT: Any = _Without()


def _forget_method() -> None:
    if "go" in vars(_Without):
        delattr(_Without, "go")


def _attached(thing: Any, **attributes: Any) -> Any:
    for name, value in (attributes or {"k": 2.0}).items():
        setattr(thing, name, value)
    return thing


def _generic(**entries: Any) -> Any:
    generic: Any = typing.Generic
    return types.new_class("G", (generic[typing.TypeVar("T")],), {}, lambda space: space.update(entries))


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    mock.patch.stopall()
    _forget_method()
    sys.modules.pop("jit_test_kinds", None)


def _outcomes(recipe: Recipe, holder: Any, wrap: Any) -> Any:
    _forget_method()
    try:
        return outcomes(recipe, holder, wrap)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", RECIPES)
def test_a_change_is_noticed_whoever_holds_it(name: str) -> None:
    recipe = RECIPES[name]
    for holder in (in_global, in_closure, in_attribute):
        expected = _outcomes(recipe, holder, lambda f: f)
        assert isinstance(expected, list)
        for optimize in (False, True) if holder is in_closure else (False,):
            assert _outcomes(recipe, holder, jit.trace(optimize=optimize)) == expected, holder.__name__


def test_classes_that_are_derived_are_named_in_words():
    class Base:
        rate = 1.0

    def function(x):
        return x * (1 + len(Base.__subclasses__()))

    f = jit.trace(function)
    x = jit.ones(1)
    assert [f(x).item(), f(x).item()] == [1, 1]
    kept = type("Derived", (Base,), {})
    assert f(x).item() == 2 and kept.__mro__[1] is Base
    assert "the subclasses of Base has 1 items, not 0" in f.explain()
