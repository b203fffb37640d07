"""The sizes and types of what is exported."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from jit.ir.dtypes import DType

Dim: TypeAlias = "int | None"
"""A size: a number, an expression of the dynamic axes (a SizeExpr, which passes for an int), or None if not known."""


class ExportedType(NamedTuple):
    """The element type and the sizes of a tensor as far as they are known."""

    dtype: DType | None = None
    shape: tuple[Dim, ...] | None = None
