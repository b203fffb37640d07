"""Ways to spread integers over numbers, and the ranges of integers."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import UsageError


class QScheme(enum.Enum):
    """One scale for a tensor or one for each channel; around a zero point, or around 0."""

    PER_TENSOR_AFFINE = "per_tensor_affine"
    PER_TENSOR_SYMMETRIC = "per_tensor_symmetric"
    PER_CHANNEL_AFFINE = "per_channel_affine"
    PER_CHANNEL_SYMMETRIC = "per_channel_symmetric"

    @property
    def is_symmetric(self) -> bool:
        """Whether 0 stands in the middle of the integers."""
        return self.value.endswith("symmetric")

    @property
    def is_per_channel(self) -> bool:
        """Whether there is a scale for each channel."""
        return self.value.startswith("per_channel")

    def __repr__(self) -> str:
        return f"{dtypes.package}.{self.value}"

    __str__ = __repr__


per_tensor_affine = QScheme.PER_TENSOR_AFFINE
per_tensor_symmetric = QScheme.PER_TENSOR_SYMMETRIC
per_channel_affine = QScheme.PER_CHANNEL_AFFINE
per_channel_symmetric = QScheme.PER_CHANNEL_SYMMETRIC


class IntegerRange(NamedTuple):
    """The integers that stand for numbers, and the dtype of the tensors that hold them."""

    low: int
    high: int
    dtype: DType

    @property
    def middle(self) -> int:
        """The integer that stands for 0 if as many are below as above it."""
        return (self.low + self.high + 1) // 2


_RANGES = {
    "int8": IntegerRange(-128, 127, dtypes.int8), "uint8": IntegerRange(0, 255, dtypes.uint8),
    "int4": IntegerRange(-8, 7, dtypes.int8), "uint4": IntegerRange(0, 15, dtypes.uint8),
    "int16": IntegerRange(-32768, 32767, dtypes.int16),
    "int32": IntegerRange(-(2**31), 2**31 - 1, dtypes.int32),
}  # fmt: skip


def integer_range(dtype: Any, low: int | None = None, high: int | None = None) -> IntegerRange:
    """The integers of a type, perhaps fewer of them.

    Args:
        dtype: A dtype or its name; "int4" and "uint4" are held by tensors of int8 and uint8.
        low: The least; that of the type if left out.
        high: The greatest.

    Raises:
        UsageError: The type holds no integers, or not these.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    whole = _RANGES.get(str(name))
    if whole is None:
        raise UsageError(f"numbers are quantised to one of {', '.join(_RANGES)}, not to {dtype!r}")
    found = whole._replace(low=whole.low if low is None else low, high=whole.high if high is None else high)
    if not whole.low <= found.low < found.high <= whole.high:
        raise UsageError(f"integers from {found.low} to {found.high} are no range within {name}; give another one")
    return found
