"""Code that asks numbers for their exact type, which a traced number cannot answer: see Note [Exact types].

Note [Exact types]
    `isinstance(n, int)`, `n.__class__`, `range(n)` and the like take a traced number for the int that it stands for;
    `type(n) is int` does not, and nobody can make it. So where a function in reach of a traced one loads `type` beside
    `int`, `float`, `bool` or `complex`, compares two types, or looks a type up, sizes and elements are handed out as
    plain numbers, each of them guarded. Such a function is right for every size, and recorded for every size anew.
"""

from __future__ import annotations

import dis
import functools
import itertools
import types
from collections.abc import Iterable
from typing import Any

from .surroundings import loads_in_code

_NUMBERS = frozenset({"int", "float", "bool", "complex"})
_CONTAINS, _CALL, _CACHE = (dis.opmap.get(name, -1) for name in ("CONTAINS_OP", "CALL", "CACHE"))
_SUBSCRIPT = dis.opmap.get("BINARY_SUBSCR", dis.opmap["BINARY_OP"])


def asks_exact_types(objects: Iterable[Any]) -> bool:
    """Whether one of the functions among `objects` does."""
    return any(_asks(found.__code__) for found in map(_function_of, objects) if found is not None)


def _function_of(value: Any) -> types.FunctionType | None:
    function = getattr(value, "__func__", value) if isinstance(value, _WRAPPERS) else value
    return function if type(function) is types.FunctionType else None


_WRAPPERS = (types.MethodType, staticmethod, classmethod)


@functools.cache
def _asks(code: types.CodeType) -> bool:
    loads = loads_in_code(code)
    count = loads.count("type")
    if count and (count > 1 or not _NUMBERS.isdisjoint(loads) or _looks_up(code)):
        return True
    return any(_asks(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _looks_up(code: types.CodeType) -> bool:
    """Whether code asks if something is in a container, or looks up in one what a call gives."""
    steps = [opcode for opcode in code.co_code[::2] if opcode != _CACHE]
    return _CONTAINS in steps or any(a == _CALL and b == _SUBSCRIPT for a, b in itertools.pairwise(steps))
