"""`jit.finfo` and `jit.iinfo`: the range and the precision of dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError


class finfo:  # noqa: N801
    """The range and the precision of a floating dtype; of a complex one, those of its parts.

    Args:
        dtype: A floating or complex dtype; float32 if left out.

    Raises:
        DTypeError: The dtype is an integer one; its range is in `jit.iinfo`.

    >>> import jit
    >>> jit.finfo(jit.float16).max, jit.finfo(jit.float32).bits
    (65504.0, 32)
    """

    def __init__(self, dtype: Any = dtypes.DEFAULT) -> None:
        real = dtypes.real_of(dtypes.as_dtype(dtype))
        if not real.is_floating_point:
            raise DTypeError(f"finfo is for floating dtypes, and {real} is none; use jit.iinfo")
        found: Any = ml_dtypes.finfo(real.numpy)  # type: ignore[no-untyped-call]
        self.dtype, self.bits = real.name, real.itemsize * 8
        self.min, self.max = float(found.min), float(found.max)
        self.eps, self.resolution = float(found.eps), float(found.resolution)
        self.tiny = self.smallest_normal = float(found.smallest_normal)

    def __repr__(self) -> str:
        said = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in said)}, dtype={self.dtype})"


class iinfo:  # noqa: N801
    """The range of an integer dtype.

    Args:
        dtype: An integer dtype.

    Raises:
        DTypeError: The dtype is a floating one; its range is in `jit.finfo`.

    >>> import jit
    >>> jit.iinfo(jit.int8).min, jit.iinfo(jit.uint8).max
    (-128, 255)
    """

    def __init__(self, dtype: Any) -> None:
        wanted = dtypes.as_dtype(dtype)
        if wanted.category != dtypes.INTEGRAL:
            raise DTypeError(f"iinfo is for integer dtypes, and {wanted} is none; use jit.finfo for floating ones")
        found = np.iinfo(wanted.numpy)
        self.dtype, self.bits = wanted.name, wanted.itemsize * 8
        self.min, self.max = int(found.min), int(found.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
