"""Names for the types of arguments, as annotations of programs use them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias, Union

from .eager.storages import TypedStorage as Storage
from .eager.tensors import Size, Tensor
from .ir.devices import device as _device
from .ir.dtypes import DType
from .ir.layouts import TensorLayout

Number: TypeAlias = Union[builtins.int, builtins.float, builtins.bool]  # noqa: UP007  (isinstance of old programs)
_dtype, _layout = DType, TensorLayout
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_Number = (builtins.int, builtins.float, builtins.bool)
"""The classes of numbers, for `isinstance`."""
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
_dispatchkey: TypeAlias = str
Device: TypeAlias = _device | str | builtins.int | None
SymInt: TypeAlias = builtins.int
IntLikeType: TypeAlias = builtins.int
FloatLikeType: TypeAlias = builtins.float
BoolLikeType: TypeAlias = builtins.bool
FileLike: TypeAlias = Any

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "SymInt", "Tensor"]
