"""Arithmetic on the Python numbers that a trace follows: the functions of `prim::add` and its like, and their types."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .types import BOOL, COMPLEX_SCALAR, FLOAT, INT, ScalarType

bits = struct.Struct("<d").pack
"""The bytes of a float: they tell 0.0 from -0.0, and are equal for the same NaN."""


def exactly(number: Any) -> tuple[type, Any]:
    """The identity of a number: its type, and of a float all bits.

    >>> exactly(0.0) == exactly(-0.0), exactly(1) == exactly(True), exactly(math.nan) == exactly(math.nan)
    (False, False, True)
    """
    if isinstance(number, float):
        return (float, bits(number))
    if isinstance(number, complex):
        return (complex, bits(number.real) + bits(number.imag))
    return (type(number), number)


def plain_value(value: Any) -> Any:
    """The number or the text in an object of a class that is derived from one of Python's; others are left as they are.

    What such a class makes of comparisons, hashes and texts is not asked.

    >>> class Close(float):
    ...     def __eq__(self, other): return abs(float(self) - float(other)) < 1
    >>> Close(1.0) == Close(1.5), plain_value(Close(1.0)) == plain_value(Close(1.5))
    (True, False)
    """
    if type(value) in _PLAIN:
        return value
    return next((take(value) for kind, take in _TAKING.items() if issubclass(type(value), kind)), value)


_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})
_TAKING: dict[type, Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, complex: complex.__pos__, str: str.__str__,
    bytes: lambda text: bytes.__getitem__(text, slice(None)),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One function of Python numbers."""

    python: Callable[..., Any]
    """The function of plain numbers."""
    lowest: ScalarType | None
    """The narrowest type of the result, which is that of the widest operand if that is wider; None: not known."""
    widens: bool = True
    """False where the result always has the type `lowest`."""
    raises: bool = False
    """Whether some numbers make it raise."""

    def may_raise(self, operands: Sequence[Any]) -> bool:
        """Whether it may raise for these operands, some of them known: a division by a number but 0 does not."""
        divides = self.python in (operator.truediv, operator.floordiv, operator.mod)
        return self.raises and not (divides and type(operands[1]) in (int, float) and operands[1] != 0)


def _same(function: Callable[..., Any], lowest: ScalarType | None, raises: bool = False) -> ScalarFunction:
    return ScalarFunction(function, lowest, raises=raises)


def _fixed(function: Callable[..., Any], result: ScalarType, raises: bool = False) -> ScalarFunction:
    return ScalarFunction(function, result, widens=False, raises=raises)


SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "add": _same(operator.add, INT),
    "sub": _same(operator.sub, INT),
    "mul": _same(operator.mul, INT),
    "floordiv": _same(operator.floordiv, INT, raises=True),
    "mod": _same(operator.mod, INT, raises=True),
    "truediv": _same(operator.truediv, FLOAT, raises=True),
    "pow": _same(operator.pow, None, raises=True),
    "neg": _same(operator.neg, INT),
    "abs": _same(abs, None),
    "min": _same(min, None),
    "max": _same(max, None),
    "lshift": _same(operator.lshift, INT, raises=True),
    "rshift": _same(operator.rshift, INT, raises=True),
    "and": _same(operator.and_, BOOL),
    "or": _same(operator.or_, BOOL),
    "xor": _same(operator.xor, BOOL),
    "eq": _fixed(operator.eq, BOOL),
    "ne": _fixed(operator.ne, BOOL),
    "lt": _fixed(operator.lt, BOOL),
    "le": _fixed(operator.le, BOOL),
    "gt": _fixed(operator.gt, BOOL),
    "ge": _fixed(operator.ge, BOOL),
    "not": _fixed(operator.not_, BOOL),
    "bool": _fixed(bool, BOOL),
    "int": _fixed(int, INT, raises=True),
    "floor": _fixed(math.floor, INT, raises=True),
    "ceil": _fixed(math.ceil, INT, raises=True),
    "round": _fixed(round, INT, raises=True),
    "trunc": _fixed(math.trunc, INT, raises=True),
    "float": _fixed(float, FLOAT),
    "sqrt": _fixed(math.sqrt, FLOAT, raises=True),
}
"""The functions by the name after `prim::`."""

_RANK = (BOOL, INT, FLOAT, COMPLEX_SCALAR)
_OF_PYTHON: dict[type, ScalarType] = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX_SCALAR}


def scalar_function(kind: str) -> ScalarFunction | None:
    """The function of a node kind such as "prim::add", or None."""
    namespace, _, name = kind.partition("::")
    return SCALAR_FUNCTIONS.get(name) if namespace == "prim" else None


def type_of_number(number: Any) -> ScalarType | None:
    """`int`, `float`, `bool` or `complex` as an IR type; None for anything else."""
    return _OF_PYTHON.get(type(number))


def type_of_category(category: int) -> ScalarType:
    """The type of a number read from a tensor whose dtype has this category."""
    return _RANK[category]


def result_type(function: ScalarFunction, operands: Sequence[ScalarType | None]) -> ScalarType | None:
    """The type of the result for operands of these types; None where it depends on the numbers.

    >>> str(result_type(SCALAR_FUNCTIONS["truediv"], [INT, INT]))
    'float'
    """
    if function.lowest is None or not function.widens:
        return function.lowest
    if not operands or None in operands:
        return None
    return max((function.lowest, *(kind for kind in operands if kind)), key=_RANK.index)
