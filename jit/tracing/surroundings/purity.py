"""Functions that are written in C: which of them read nothing but what they are given.

Python code reads places that can be watched, but it cannot be seen what a function in C reads. Functions of the modules
listed here, and methods of objects whose contents are known, read nothing but their arguments; a recording with a call
of any other is not kept (Note [Seeing calls]).
"""

from __future__ import annotations

import functools
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .kinds import known
from .peeking import is_a

_MODULES = frozenset({
    "_abc", "_ast", "_asyncio", "_bisect", "_bz2", "_codecs", "_collections", "_contextvars", "_csv",
    "_datetime", "_decimal", "_functools", "_hashlib", "_heapq", "_imp", "_io", "_json", "_lsprof", "_lzma",
    "_md5", "_opcode", "_operator", "_pickle", "_sha1", "_sha2", "_sha256", "_sha3", "_sha512", "_blake2",
    "_sre", "_stat", "_statistics", "_string", "_struct", "_typing", "_warnings", "_weakref", "atexit",
    "binascii", "builtins", "cmath", "collections", "copyreg", "errno", "functools", "itertools", "math",
    "ml_dtypes", "numpy", "operator", "re", "struct", "types", "unicodedata", "weakref", "zlib",
})  # fmt: skip
"""Modules whose functions in C read nothing but their arguments, except those in `_ODD`."""
_ODD: dict[str, frozenset[str]] = {
    "builtins": frozenset({"__import__", "input", "open", "breakpoint"}),
    "_io": frozenset({"open", "open_code"}),
    "_csv": frozenset({"field_size_limit", "get_dialect", "list_dialects", "register_dialect", "unregister_dialect"}),
    "_codecs": frozenset({"lookup", "lookup_error", "register", "register_error", "unregister"}),
    "atexit": frozenset({"_ncallbacks"}),
    "numpy": frozenset({"fromfile", "load", "get_printoptions", "_get_extobj_dict", "geterrobj"}),
    "_weakref": frozenset({"getweakrefcount"}),
}
_OF_SYS = frozenset({
    "audit", "displayhook", "exc_info", "exception", "getdefaultencoding", "getfilesystemencoding",
    "getprofile", "getsizeof", "gettrace", "_getframe", "intern", "is_finalizing", "setprofile", "settrace",
})  # fmt: skip
_OF_POSIX = frozenset({"fspath", "strerror", "fsencode", "fsdecode", "_path_normpath", "_path_splitroot"})
_OF_THREAD = frozenset({"allocate_lock", "allocate", "RLock", "lock", "_local"})
_ENDLESS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, Iterator)


def is_pure(function: Any, owner: Any) -> bool:
    """Whether a function in C, bound to `owner`, reads nothing but its arguments and what it is bound to."""
    if owner is None or is_a(owner, types.ModuleType):
        return _is_pure_of_module(_module_of(function, owner), getattr(function, "__name__", ""))
    if is_a(owner, type):
        return not is_opaque_class(owner)
    return is_a(owner, _ENDLESS) or not known.is_opaque(owner)


def draws_for_all(function: Any, owner: Any) -> bool:
    """Whether a function belongs to the global random generator of Python or numpy, which others draw from, too."""
    return owner is _shared_by_numpy() or (owner is getattr(random, "_inst", None) and _name(function) != "__init__")


def words_for(function: Any, owner: Any) -> str:
    """The deed of calling a function in C, in words that fit behind "the call"."""
    module = _module_of(function, owner) if owner is None or is_a(owner, types.ModuleType) else ""
    if module in ("posix", "nt"):
        return f"asks the operating system (os.{_name(function)})"
    name = f"{module}.{_name(function)}" if module else f"{_class_name(owner)}.{_name(function)}"
    return f"calls {name}, and it cannot be seen what that reads"


@functools.lru_cache(4096)
def is_opaque_class(kind: type) -> bool:
    """Whether it cannot be known what class methods of `kind` read."""
    return kind.__module__ != "builtins" and known.is_opaque_class(kind)


def _is_pure_of_module(module: str, name: str) -> bool:
    root = module.partition(".")[0]
    if root == "sys":
        return name in _OF_SYS
    if root in ("posix", "nt"):
        return name in _OF_POSIX
    if root == "gc":
        return name in ("collect", "enable", "disable", "freeze")
    if root == "_thread":
        return name in _OF_THREAD
    return root in _MODULES and name not in _ODD.get(root, ())


def _module_of(function: Any, owner: Any) -> str:
    found = getattr(function, "__module__", None) or getattr(owner, "__name__", None)
    return found if isinstance(found, str) else ""


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def _class_name(owner: Any) -> str:
    return owner.__name__ if is_a(owner, type) else type(owner).__name__


@functools.cache
def _shared_by_numpy() -> Any:
    return getattr(np.random.rand, "__self__", None)


__all__ = ["draws_for_all", "is_pure", "words_for"]
