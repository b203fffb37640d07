"""Arithmetic on the Python numbers that a trace keeps an eye on: what `prim::add` and its like give, of which type."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .types import BOOL, COMPLEX_SCALAR, FLOAT, INT, ScalarType

bits = struct.Struct("<d").pack
"""The bytes of a float: they tell 0.0 from -0.0, and know a NaN again."""


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


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One function of Python numbers."""

    python: Callable[..., Any]
    """The function of plain numbers."""
    lowest: ScalarType | None
    """The result has this type, or the widest type among the operands if that is wider; None: not known."""
    widens: bool = True
    """False where the result always has the type `lowest`."""
    raises: bool = False
    """Whether some numbers make it raise."""

    def may_raise(self, operands: Sequence[Any]) -> bool:
        """Whether it may raise for operands of which some are numbers: a division by another number than 0 does not."""
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


def square_root(number: Any) -> Any:
    """The result of `math.sqrt`, traced if the number is: Python's own function takes plain numbers alone."""
    traced = getattr(type(number), "square_root", None)
    return math.sqrt(number) if traced is None else traced(number)


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
