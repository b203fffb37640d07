"""Code that asks numbers for their exact type, which a traced number cannot answer: see Note [Exact types].

Note [Exact types]
    `isinstance(n, int)`, `n.__class__`, `range(n)` and the like take a traced number for the int that it stands for;
    `type(n) is int` does not, and cannot be made to; nor do functions in C that look at the type itself, as those of
    `json` and `struct`. So where code that runs loads `type`, other than for `type(self)`, names one of these
    libraries, or catches a TypeError, sizes and elements are handed out as plain numbers, each of them guarded: right
    for every size, and recorded for every size anew. If a number was handed out before such code began, the function is
    run anew (Note [Run anew] in jit.tracing.recorder.anew), as it is for code in C that is not listed here.
    Functions that a function names are looked at beforehand, so that is rare. An `lru_cache` knows a number by its
    exact type, too: it would keep what it has for a traced 3 beside what it has for a 3, a table of random numbers
    twice. So numbers are plain as well where it lets its function run for a traced one.

    `flag is True` asks which object it is. Where code that runs compares anything with `True` or `False` in this way,
    what was read from tensors of bools is handed out plain; ints and floats are not, as they are no such object anyway.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from jit.eager.proxies import TracedScalar

from ..surroundings.origins import is_foreign, is_harmless
from ..surroundings.peeking import is_a

if TYPE_CHECKING:
    from .tracer import Trace


def asks_exact_types(objects: Iterable[Any]) -> bool:
    """Whether one of the functions among `objects`, or one that such a function names, asks for exact types."""
    return any(map(_asks, _codes_behind(objects)))


def tells_bools(objects: Iterable[Any]) -> bool:
    """Whether one of the functions among `objects`, or one that such a function names, asks what `is True`."""
    return any(map(_compares_bools, _codes_behind(objects)))


def _codes_behind(objects: Iterable[Any]) -> Iterator[types.CodeType]:
    """The code of the user's functions among `objects`, and of those that they name."""
    stack, seen = list(objects), set()
    while stack:
        value = stack.pop()
        if is_a(value, type):
            stack += [each for each in vars(value).values() if _function_of(each) is not None]
        function = _function_of(value)
        if function is None or function.__code__ in seen or is_foreign(function.__code__.co_filename):
            continue
        seen.add(function.__code__)
        yield function.__code__
        stack += _named_by(function)


def _named_by(function: types.FunctionType) -> Iterator[Any]:
    """The functions and classes in the globals and closure cells that code names."""
    for code in _codes(function.__code__):
        yield from (function.__globals__.get(name) for name in _globals_of(code))
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty one
            yield cell.cell_contents
    yield vars(function).get("__wrapped__")


@functools.cache
def _globals_of(code: types.CodeType) -> frozenset[str]:
    """The global names that code loads; `co_names` has those of attributes as well."""
    return frozenset(i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL)


def _names_of(code: types.CodeType) -> Iterator[str]:
    """The global names that code loads, and those of attributes behind them, as in `collections.deque`."""
    is_behind = False
    for step in dis.get_instructions(code):
        if step.opname in _FILLERS:
            continue
        is_behind = step.opname in _GLOBAL or (is_behind and step.opname in ("LOAD_ATTR", "LOAD_METHOD"))
        if is_behind:
            yield step.argval


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def note_exact_types(trace: Trace, code: types.CodeType, space: dict[str, Any]) -> Any:
    """Hand out plain numbers from now on if code that starts to run asks for exact types, unseen until then.

    Args:
        trace: The trace of the function that runs it.
        code: The code.
        space: Its globals.

    Returns:
        The cached function that lets the code run, if it has got a traced number, which it should not keep; or None.
    """
    keeper = None if trace.scalars.plain else _keeper(code, space)
    if keeper is not None and _is_given_traced(code):
        trace.scalars.become_plain()
        return keeper
    if not trace.scalars.plain and _asks(code):
        trace.scalars.become_plain()
    elif not trace.scalars.plain_bools and _compares_bools(code):
        trace.scalars.become_plain(bools_alone=True)
    return None


def _keeper(code: types.CodeType, space: dict[str, Any]) -> Any:
    """The `lru_cache` that keeps what code returns: it stands where the name of the code says, or is not found."""
    first, *others = code.co_qualname.split(".")
    found: Any = space.get(first)
    for name in others:
        found = vars(found).get(name) if is_a(found, type) else None
    is_cached = is_a(found, functools._lru_cache_wrapper)
    return found if is_cached and getattr(found.__wrapped__, "__code__", None) is code else None


def _is_given_traced(code: types.CodeType) -> bool:
    """Whether an argument of the code that has just started is a traced number, or a tuple with one."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None and any(map(_is_traced, frame.f_locals.values()))


def _is_traced(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return any(map(_is_traced, value))
    return type(value) is TracedScalar


def _function_of(value: Any) -> types.FunctionType | None:
    function = getattr(value, "__func__", value) if is_a(value, _WRAPPERS) else value
    return function if type(function) is types.FunctionType else None


_WRAPPERS = (types.MethodType, staticmethod, classmethod)


@functools.cache
def _asks(code: types.CodeType) -> bool:
    """Whether code asks for exact types; code of Python's library, of numpy and of this package is taken not to."""
    if is_foreign(code.co_filename) or is_harmless(code.co_filename):
        return False
    if not _TAKERS.isdisjoint(code.co_names) and not _TAKERS.isdisjoint(_names_of(code)):
        return True
    if "type" in code.co_names and _asks_type(code):
        return True
    if "TypeError" in code.co_names and _catches(code):
        return True
    return any(_asks(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


@functools.cache
def _compares_bools(code: types.CodeType) -> bool:
    """Whether the user's code compares something with `True` or `False` by `is`."""
    if is_foreign(code.co_filename) or is_harmless(code.co_filename):
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in _FILLERS]
    befores = zip([None, None, *steps], [None, *steps], steps)
    if any(step.opname == "IS_OP" and any(map(_is_bool, before)) for *before, step in befores):
        return True
    return any(_compares_bools(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _is_bool(step: dis.Instruction | None) -> bool:
    return step is not None and step.opname.startswith("LOAD_") and type(step.argval) is bool


def _asks_type(code: types.CodeType) -> bool:
    """Whether code loads `type` for anything but `type(self)` and `type(cls)`."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _FILLERS]
    after = zip(steps, [*steps[1:], None])
    return any(
        step.argval == "type" and "GLOBAL" in step.opname and (then is None or then.argval not in ("self", "cls"))
        for step, then in after
    )


def _catches(code: types.CodeType) -> bool:
    """Whether code that names TypeError catches errors, so that it may be the one that a traced number causes in C."""
    return "suppress" in code.co_names or any(i.opname == "CHECK_EXC_MATCH" for i in dis.get_instructions(code))


_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME", "IMPORT_FROM"})
_FILLERS = frozenset({"CACHE", "PUSH_NULL", "PRECALL", "RESUME", "COPY_FREE_VARS", "MAKE_CELL"})
_TAKERS = frozenset(
    {"json", "dumps", "dump", "Decimal", "timedelta", "datetime", "deque", "statistics", "struct", "pack", "pack_into",
     "sqlite3", "executemany", "marshal", "ctypes", "IntEnum"}
)  # fmt: skip
"""Names by which code hands numbers to functions written in C which look at their exact type."""
