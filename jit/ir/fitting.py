"""Python numbers that become elements: refused where the dtype has no value for them, instead of wrapped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import DTypeError, UsageError


def fitted(value: Any, dtype: Any) -> Any:
    """A Python number as an element of this numpy dtype; UsageError if it is beyond the range of an integer dtype.

    Fractions are cut off. A negative number counts down from the end of unsigned integers, as in C. Numbers in arrays
    are not looked at.

    >>> fitted(-1, np.dtype("uint8")), fitted(2.5, np.dtype("int8"))
    (255, 2.5)
    """
    if type(value) is complex and value.imag and dtype.kind != "c":
        raise DTypeError(f"a complex number does not fit into {dtype.name}")
    if dtype.kind not in "iu" or type(value) not in (int, float):
        return value
    limits = np.iinfo(dtype)
    whole = int(value) if math.isfinite(value) else None
    if whole is not None and limits.min <= whole <= limits.max:
        return value
    if type(value) is int and dtype.kind == "u" and -limits.max <= value < 0:
        return value % (limits.max + 1)
    held = f"whole numbers from {limits.min} to {limits.max}"
    raise UsageError(f"{value} does not fit into {dtype.name}, which holds {held}")
