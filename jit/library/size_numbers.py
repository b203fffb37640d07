"""`sym_int`, `sym_float` and `sym_sqrt`: functions of numbers that stay traced where Python's own take plain numbers.

`int(n)`, `float(n)` and `math.sqrt(n)` are done by code in C, which asks a traced size for the number that it is, so
that the recording holds for that size alone. These give traced numbers for traced ones, and plain ones for plain ones.
`math.floor`, `math.ceil`, `math.trunc`, `round`, `/` and `**` keep sizes traced by themselves.
"""

from __future__ import annotations

from typing import Any

from jit.ir.scalars import square_root

__all__ = ["sym_float", "sym_int", "sym_sqrt"]


def sym_int(a: Any) -> Any:
    """The whole number that `int(a)` gives; in a traced function a size or what was made of sizes stays traced.

    >>> sym_int(2.5)
    2
    """
    traced = getattr(type(a), "as_int", None)
    return int(a) if traced is None else traced(a)


def sym_float(a: Any) -> Any:
    """The float that `float(a)` gives; in a traced function a size or what was made of sizes stays traced.

    >>> sym_float(2)
    2.0
    """
    traced = getattr(type(a), "as_float", None)
    return float(a) if traced is None else traced(a)


def sym_sqrt(a: Any) -> Any:
    """The square root that `math.sqrt(a)` gives; in a traced function that of a size stays traced.

    >>> sym_sqrt(9)
    3.0
    """
    return square_root(a)
