"""Code that asks whether something is one certain number or container: no other may stand in for it unasked.

A key compares numbers by value, and containers by what they hold. So `options is DEFAULTS` is known as long as the
numbers in both are part of the key, and would not be if these were inputs.
"""

from __future__ import annotations

import dis
import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator

_COMPARED = frozenset({int, float, list, tuple, dict, deque})


def tests_identity(functions: Iterable[types.FunctionType]) -> bool:
    """Whether one of some functions compares something with the identity of a number or container that it names."""
    return any(type(value) in _COMPARED for function in functions for value in _compared_by(function))


def _compared_by(function: types.FunctionType) -> Iterator[object]:
    """The values of globals and closure cells that a function names next to `is`."""
    for name in _named_at_tests(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]
        elif name in function.__code__.co_freevars and function.__closure__ is not None:
            cell = function.__closure__[function.__code__.co_freevars.index(name)]
            yield cell.cell_contents if cell != types.CellType() else None


@functools.cache
def _named_at_tests(code: types.CodeType) -> tuple[str, ...]:
    found: list[str] = []
    before: list[dis.Instruction] = []
    for step in dis.get_instructions(code):
        if step.opname == "IS_OP":
            loads = [each for each in before[-2:] if each.opname in ("LOAD_GLOBAL", "LOAD_DEREF")]
            found += [each.argval for each in loads]
        before.append(step)
    return tuple(found)


__all__ = ["tests_identity"]
