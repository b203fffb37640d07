"""Arithmetic on the Python numbers that a trace follows: the functions of `prim::add` and its like, and their types."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .sizes import greatest, least, power
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
    is_one_to_one: bool = False
    """Whether an operand follows from the result and the other operand, but for special numbers."""
    of_sizes: Callable[..., Any] | None = None
    """The same function of sizes that may be expressions, if it gives an int or a bool."""

    def may_raise(self, operands: Sequence[Any]) -> bool:
        """Whether it may raise for these operands, some of them known: a division by a number but 0 does not."""
        divides = self.python in (operator.truediv, operator.floordiv, operator.mod)
        return self.raises and not (divides and type(operands[1]) in (int, float) and operands[1] != 0)


def _same(function: Callable[..., Any], lowest: ScalarType | None, **more: Any) -> ScalarFunction:
    return ScalarFunction(function, lowest, **more)


def _fixed(function: Callable[..., Any], result: ScalarType, **more: Any) -> ScalarFunction:
    return ScalarFunction(function, result, widens=False, **more)


def _whole(function: Callable[..., Any], lowest: ScalarType | None, **more: Any) -> ScalarFunction:
    """A function that gives whole numbers for whole numbers, of sizes too."""
    return ScalarFunction(function, lowest, of_sizes=function, **more)


def _said(function: Callable[..., Any]) -> ScalarFunction:
    """A function that gives a bool, of sizes too."""
    return ScalarFunction(function, BOOL, widens=False, of_sizes=function)


SCALAR_FUNCTIONS: dict[str, ScalarFunction] = {
    "add": _whole(operator.add, INT, is_one_to_one=True),
    "sub": _whole(operator.sub, INT, is_one_to_one=True),
    "mul": _whole(operator.mul, INT, is_one_to_one=True),
    "floordiv": _whole(operator.floordiv, INT, raises=True),
    "mod": _whole(operator.mod, INT, raises=True),
    "truediv": _same(operator.truediv, FLOAT, raises=True, is_one_to_one=True),
    "pow": _same(operator.pow, None, raises=True, is_one_to_one=True, of_sizes=power),
    "neg": _whole(operator.neg, INT, is_one_to_one=True),
    "abs": _whole(abs, None),
    "min": _same(min, None, of_sizes=least),
    "max": _same(max, None, of_sizes=greatest),
    "lshift": _same(operator.lshift, INT, raises=True),
    "rshift": _same(operator.rshift, INT, raises=True),
    "and": _whole(operator.and_, BOOL),
    "or": _whole(operator.or_, BOOL),
    "xor": _whole(operator.xor, BOOL),
    "eq": _said(operator.eq),
    "ne": _said(operator.ne),
    "lt": _said(operator.lt),
    "le": _said(operator.le),
    "gt": _said(operator.gt),
    "ge": _said(operator.ge),
    "not": _said(operator.not_),
    "bool": _said(bool),
    "int": _fixed(int, INT, raises=True),
    "floor": _fixed(math.floor, INT, raises=True, of_sizes=math.floor),
    "ceil": _fixed(math.ceil, INT, raises=True, of_sizes=math.ceil),
    "round": _fixed(round, INT, raises=True, of_sizes=round),
    "trunc": _fixed(math.trunc, INT, raises=True, of_sizes=math.trunc),
    "float": _fixed(float, FLOAT, is_one_to_one=True),
    "sqrt": _fixed(math.sqrt, FLOAT, raises=True, is_one_to_one=True),
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
