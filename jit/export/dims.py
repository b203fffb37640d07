"""The sizes and types of what is exported."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from jit.ir.dtypes import DType

Dim: TypeAlias = "int | str | None"
"""A size as ONNX writes it: a number, the name of a dynamic axis, or unknown."""


class ExportedType(NamedTuple):
    """The element type and the sizes of a tensor as far as they are known."""

    dtype: DType | None = None
    shape: tuple[Dim, ...] | None = None
