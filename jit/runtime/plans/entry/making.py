"""Makes entries: Python functions without Python, each around the tables of a plan."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from .code import code_of
from .cpython import FASTCALL, function_address
from .layout import header_of
from .records import RecordMemory
from .tables import Tables, header_words


def make_entry(tables: Tables) -> Callable[..., Any]:
    """The callable for `tables`: returns outputs, or None if the call is another than they describe."""
    kind: type = type(tables)
    memory, method = RecordMemory(), _method(kind)
    header = header_words(tables, memory)
    held = (header, _Spare(header, header_of(kind).places["spare"]), memory, method)
    return _new_function()(ctypes.byref(method), held, None)


def hits_of(entry: Any) -> int:
    """The number of calls of an entry that found what it describes."""
    return int(entry.__self__[0][header_of(Tables).places["hits"]])


def uncount(entry: Any) -> None:
    """Take back that a call has found what an entry describes: it goes another way after all."""
    entry.__self__[0][header_of(Tables).places["hits"]] -= 1


class _Spare:
    """Frees what an entry keeps for its next call."""

    def __init__(self, header: Any, place: int) -> None:
        self._header = header
        self._place = place
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_int64)(function_address("PyMem_RawFree"))

    def free(self) -> None:
        """Free it now; no call may be under way."""
        held, self._header[self._place] = int(self._header[self._place]), 0
        if held:
            self._free(held)

    def __del__(self) -> None:
        self.free()


class _Method(ctypes.Structure):
    """CPython's description of a native function."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)
    )  # fmt: skip


@cache  # threads that ask for the first one at once get one each, so every function keeps its own alive
def _method(kind: type) -> _Method:
    from ...kernels.codegen import compile_routine  # when a first call is compiled, not when jit is imported

    name = "entry" if kind is Tables else f"entry {code_of(kind)}"  # others may stand outside of `jit.runtime`
    return _Method(b"entry", compile_routine(name, lambda: code_of(kind)), FASTCALL, None)


@cache
def _new_function() -> Any:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(("PyCFunction_NewEx", ctypes.pythonapi))
