"""Whether entries work in this process."""

from __future__ import annotations

import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .making import make_entry
from .tables import EntryInput, Tables


@cache
def available() -> bool:
    """Whether entries work in this process; tried out, not assumed. `JIT_NATIVE_CALLS=0` says no."""
    if (
        os.environ.get("JIT_NATIVE_CALLS", "") == "0"
        or platform.python_implementation() != "CPython"
        or struct.calcsize("P") != 8
        or sysconfig.get_config_var("Py_GIL_DISABLED")
        or hasattr(sys, "getobjects")  # a debug build: objects begin with other words
    ):
        return False
    return _works()


def _works() -> bool:
    """Whether an array goes in, one comes out, and an array of another shape is refused."""
    given, other = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    refuse: Callable[[int], Any] = lambda status: None  # noqa: E731
    layout = EntryInput(given.dtype, given.shape, given.strides, argument=0)
    tables = Tables([layout], [((4,), np.dtype(np.int64))], np.zeros(1, np.int64), 0, 0, (), refuse)
    entry = make_entry(tables)
    result = entry(given)
    fine = isinstance(result, tuple) and result[0].shape == (4,) and result[0].dtype == np.int64
    return fine and entry(other) is None and entry(None) is None and entry() is None
