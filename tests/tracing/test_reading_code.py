"""What is read off code is the same on every version of Python, whatever its instructions are called there."""

# ruff: noqa: B009, F821
# mypy: ignore-errors

import collections
import dis
import sys

import pytest

import jit
from jit.tracing.recorder import exact_types
from jit.tracing.surroundings import footprints
from jit.tracing.surroundings.footprints import scan

NAMED = {
    "a name": lambda x: getattr(x, "k"),
    "a default": lambda x: getattr(x, "k", None),
    "of an item": lambda x: getattr(x.y[0], "k"),
    "calls among the arguments": lambda x: getattr(f(x, 1), "k", g(2)),
    "keywords among the arguments": lambda x: getattr(f(x, a=1), "k", g(b=2)),
    "methods among the arguments": lambda x: getattr(x.f(1), "k", x.g()),
    "two": lambda x: hasattr(x, "k") and getattr(x, "k"),
    "nested": lambda x: getattr(getattr(x, "k"), "l"),
    "called": lambda x: getattr(x, "k")(getattr(x, "l"), x),
    "in a comprehension": lambda x: [getattr(i, "k") for i in x],
    "in a generator": lambda x: sum(getattr(i, "k") for i in x),
    "in a function": lambda x: lambda: getattr(x, "k"),
    "set": lambda x: setattr(x, "k", x + 1),
    "deleted": lambda x: delattr(x, "k"),
}
COMPUTED = {
    "an argument": lambda x, y: getattr(x, y),
    "two arguments": lambda x, y: setattr(x, y, y),
    "a sum": lambda x: getattr(x, "k" + y),
    "a format": lambda x, n: getattr(x, f"k{n}"),
    "a choice": lambda x: getattr(x, "k" if x else "l"),
    "stars": lambda x: getattr(*x),
    "stars behind": lambda x: getattr(x, "k", *y),
    "handed on": lambda x: map(getattr, x),
    "kept": lambda x: (y := getattr) and y(x, "k"),
    "in a comprehension": lambda x: [getattr(x, n) for n in x],
    "in a function": lambda x: lambda y: getattr(x, y),
    "all of them": lambda x: vars(x),
    "the dict": lambda x: x.__dict__,
}


@pytest.mark.parametrize("code", [f.__code__ for f in NAMED.values()], ids=NAMED)
def test_attributes_by_names_that_stand_in_the_code(code):
    assert not scan(code).dynamic and "k" in scan(code).names


@pytest.mark.parametrize("code", [f.__code__ for f in COMPUTED.values()], ids=COMPUTED)
def test_attributes_by_names_made_at_run_time(code):
    assert scan(code).dynamic


def class_pattern(x):
    match x:
        case complex(real=1):
            return 1


def other_patterns(x):
    match x:
        case {"a": 1} | [1, *_] | None:
            return 1


def test_class_patterns_look_names_up():
    assert scan(class_pattern.__code__).dynamic and not scan(other_patterns.__code__).dynamic


def imported_frame():
    from sys import _getframe

    return _getframe()


FRAMES = {
    "own": (lambda: sys._getframe(), False),
    "own, in parts": (lambda: sys._getframe().f_globals["x"], False),
    "the caller's": (lambda: sys._getframe(1), True),
    "zero": (lambda: sys._getframe(0), True),
    "computed": (lambda n: sys._getframe(n), True),
    "back": (lambda: sys._getframe().f_back, True),
    "one of two": (lambda: (sys._getframe(), sys._getframe(1)), True),
    "kept": (lambda: (look := sys._getframe) and look(1), True),
    "imported": (imported_frame, True),
}


@pytest.mark.parametrize("name", FRAMES)
def test_looking_at_callers(name):
    function, looks = FRAMES[name]
    assert scan(function.__code__).sees_callers == looks


TYPES = {
    "of an argument": (lambda x: type(x) is int, True),
    "of self": (lambda self: type(self), False),
    "of self, called": (lambda self, x: type(self)(x), False),
    "of self, in a function": (lambda self: lambda: type(self), False),
    "of self, in a comprehension": (lambda self, x: [type(self)(i) for i in x], False),
    "of cls": (lambda cls: type(cls).k, False),
    "of items": (lambda x: [type(i) for i in x], True),
    "of both": (lambda self, x: type(self) is type(x), True),
    "handed on": (lambda x: map(type, x), True),
    "an attribute": (lambda x: x.type, False),
    "packed": (lambda x: struct.pack("i", x), True),
}


@pytest.mark.parametrize("name", TYPES)
def test_asking_for_exact_types(name):
    function, asks = TYPES[name]
    assert exact_types._asks(function.__code__) == asks


def shape_of(x):
    return type(x)


def test_attributes_are_no_global_functions():
    """`x.shape_of` has nothing to do with the function above, nor `self.pack` with the one of `struct`."""
    assert not exact_types.asks_exact_types([lambda x: x.shape_of, lambda self: self.pack(1) + self.net.statistics])
    assert exact_types.asks_exact_types([lambda x: [shape_of(x)]])
    assert exact_types.asks_exact_types([lambda n: collections.deque([n])])


def everything():
    import os.path
    from sys import path

    global COUNT
    COUNT = len(path)
    os.path.k = COUNT.bit_length()
    del COUNT, os.path.k


@pytest.mark.parametrize("names", [footprints._names, lambda code, opcodes: iter([]), lambda code, opcodes: [].pop()])
def test_unknown_instructions_are_left_to_dis(names, monkeypatch):
    """A version of Python that holds names in another way is noticed."""
    monkeypatch.setattr(footprints, "_names", names)
    footprints._is_as_expected.cache_clear()
    try:
        kinds = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "STORE_ATTR", "DELETE_ATTR")
        found = [[*footprints.names_in_code(everything.__code__, {dis.opmap[kind]})] for kind in kinds]
    finally:
        monkeypatch.undo()
        footprints._is_as_expected.cache_clear()
    assert found == [["len", "COUNT"], ["COUNT"], ["COUNT"], ["os.path", "sys"], ["k"], ["k"]]
    assert footprints._is_as_expected()


GENERIC = """
import jit
scale = 2.0
class Box[T]:
    k: T = 3.0
    def get(self) -> T:
        return self.k
def inner[T](box: Box[T], x):
    return x * box.get() * scale
type Alias = Box[float]
def f(x):
    return inner(Alias.__value__(), x) + sum([scale for _ in range(2)])
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_functions_with_type_parameters_are_kept_and_watched():
    space = {"__name__": "generic"}
    exec(compile(GENERIC, "generic.py", "exec"), space)
    traced = jit.trace(space["f"])
    for change, value in (("scale", 2.0), ("scale", 5.0), ("k", 7.0)):
        if change == "k":
            space["Box"].k = value
        space["scale"] = 5.0 if change == "k" else value
        for _ in range(2):
            assert traced(jit.ones(1)).tolist() == space["f"](jit.ones(1)).tolist()
    assert (traced.misses, traced.hits) == (3, 3), traced.explain()
