"""Known types: those whose objects never change, hold nothing to look at, or have no say in a function's results."""

from __future__ import annotations

import _thread
import collections
import ctypes
import datetime
import decimal
import functools
import io
import operator
import os
import re
import struct
import sys
import threading
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from jit.eager.generators import Generator
from jit.eager.proxies import TracedScalar
from jit.ir.devices import device
from jit.ir.dtypes import DType

from .origins import DULL, is_known_module, is_stateful
from .peeking import is_a, space_of

PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Watched:
    """Base of objects of this package that say themselves what a function that calls them reads."""

    def watched(self) -> Iterable[tuple[str, Any]]:
        """(name, object) pairs to look at in place of the attributes."""
        raise NotImplementedError


_FIELD_OF_TUPLES = type(vars(collections.namedtuple("Named", "a"))["a"])
_FIELD_OF_C = type(vars(type("Named", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int)]}))["a"])
SETTLED: set[type] = {
    *PLAIN, type(...), type(NotImplemented), range, types.CodeType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, type(type.__dict__["__doc__"]), re.Pattern, re.Match,
    struct.Struct, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal,
    np.dtype, np.ufunc, np.generic, type(np.sum), operator.itemgetter, type(_thread.allocate_lock()),
    type(threading.RLock()), os.stat_result, Generator, DType, device, TracedScalar, os.PathLike, np.iinfo, np.finfo,
    type(sys.flags), type(sys.version_info), _FIELD_OF_TUPLES, _FIELD_OF_C,
    type(datetime.datetime_CAPI),
}  # fmt: skip
"""Types whose objects never change, or hold nothing that a function can read."""
if hasattr(functools, "Placeholder"):  # from Python 3.14 on
    SETTLED.add(type(functools.Placeholder))
FAMILIES = (BaseException, io.IOBase, datetime.date, datetime.tzinfo, np.generic, np.dtype)
"""Classes whose subclasses in C are not opaque either; files that can be read from count as iterators."""
_SETTLED_MODULES = ("pathlib", "typing", "fractions", "ml_dtypes")


@functools.lru_cache(4096)
def is_dull(kind: Any) -> bool:
    """Whether objects of a class need no look: they are this package's, or their state decides on no result."""
    module = kind.__module__ if isinstance(kind.__module__, str) else ""
    if module.startswith("jit."):
        return not is_stateful(module)
    root = module.partition(".")[0]
    return root in _SETTLED_MODULES or (root in DULL and kind is not types.SimpleNamespace and _is_librarys(kind))


def _is_librarys(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is not None and is_known_module(module)


_STATELESS = (type, types.FunctionType, types.ModuleType, functools.partial, Watched, DType)


def has_state(value: Any) -> bool:
    """Whether an object's attributes have to be looked at."""
    kind: Any = type(value)
    return not issubclass(kind, _STATELESS) and not is_dull(kind)


def is_bare(value: Any) -> bool:
    """Whether a value is a number or a string, and nothing but that: no attributes come with it."""
    return is_a(value, PLAIN) and (type(value) in PLAIN or space_of(value) is None)


__all__ = ["FAMILIES", "PLAIN", "SETTLED", "Watched", "has_state", "is_bare", "is_dull"]
