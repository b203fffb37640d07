"""Origins of code: this package, Python's library, or any other, which is watched.

Note [Harmless modules]
    Code of Python's library is watched as the user's is, unless its module is one of `HARMLESS`: what such a module
    keeps for itself - caches, registries of types, handlers of a log - says nothing about results. The attributes that
    its code looks up in the user's objects count all the same. Of other packages `HARMLESS_PACKAGES` are such: einops
    keeps what it has found out about patterns and shapes, and its caches grow with each new size.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from typing import Any

from jit.eager.context import PACKAGE

HARMLESS = frozenset({
    "__future__", "_collections_abc", "_colorize", "_py_warnings", "_weakrefset", "abc", "annotationlib", "argparse",
    "ast", "base64", "bisect", "calendar", "codecs", "collections", "colorsys", "contextlib", "copy", "copyreg",
    "dataclasses", "datetime", "decimal",
    "difflib", "dis", "encodings", "enum", "fractions", "functools", "genericpath", "heapq", "importlib",
    "inspect", "io", "json", "keyword", "linecache", "locale", "logging", "ntpath", "numbers", "operator",
    "opcode", "os", "pathlib", "pickle", "posixpath", "pprint", "queue", "random", "re", "reprlib", "shlex",
    "socket", "sre_compile", "sre_constants", "sre_parse", "stat", "statistics", "string", "stringprep",
    "struct", "subprocess", "tempfile", "textwrap", "threading", "token", "tokenize", "traceback", "types",
    "typing", "unicodedata", "uuid", "warnings", "weakref", "zipimport",
})  # fmt: skip
"""Modules of Python's library whose globals are not watched."""
HARMLESS_PACKAGES = ("numpy", "ml_dtypes", "einops")
"""Other packages of which the same holds, besides this one."""
DULL = ("logging", "re", "types", "warnings")
"""Packages whose objects have state of their own that says nothing about a function's results."""
WITH_STATE = ("nn", "optim", "amp", "sparse", "masked", "nested", "func", "onnx", "ao")
"""Rooms of this package whose objects hold what functions compute with: networks, optimizers, tensors, models."""
_MODULES_WITH_STATE = tuple(f"jit.{room}." for room in WITH_STATE)

_LIBRARY = tuple(
    os.path.realpath(path) + os.sep
    for name, path in sysconfig.get_paths().items()
    if name in ("stdlib", "platstdlib") and path
)
_PACKAGES = ("site-packages", "dist-packages")


@functools.cache
def is_foreign(path: str) -> bool:
    """Whether a file belongs to Python or to this package, not to the user or to another library."""
    if path.startswith(("<frozen", PACKAGE, "<jit")):
        return True
    found = os.path.realpath(path)
    return found.startswith(_LIBRARY) and not any(f"{os.sep}{name}{os.sep}" in found for name in _PACKAGES)


@functools.cache
def is_ours(path: str) -> bool:
    """Whether a file is of this package."""
    return path.startswith((PACKAGE, "<jit"))


@functools.cache
def is_harmless(path: str) -> bool:
    """Whether the globals of the module in a file say nothing about results; see Note [Harmless modules]."""
    if is_ours(path) or path.startswith("<frozen") or _is_of_harmless_package(path):
        return True
    if not is_foreign(path):
        return False
    found = os.path.realpath(path)
    root = next(folder for folder in _LIBRARY if found.startswith(folder))
    return found[len(root) :].partition(os.sep)[0].removesuffix(".py") in HARMLESS


@functools.cache
def is_users(path: str) -> bool:
    """Whether a file is the user's own, as far as one can tell."""
    return not is_foreign(path) and not any(f"{os.sep}{name}{os.sep}" in path for name in _PACKAGES)


def _is_of_harmless_package(path: str) -> bool:
    is_inside = any(f"{os.sep}{name}{os.sep}" in path for name in HARMLESS_PACKAGES)
    return is_inside and any(name in path for name in _PACKAGES)


_MAKERS = ("types", "abc", "typing", "functools", "contextlib")
"""Modules of Python whose functions make classes for others; these classes bear the module's name."""


def file_of(module: Any) -> str | None:
    """The file of a module, without running code of the user's."""
    found = vars(module).get("__file__") if hasattr(module, "__dict__") else None
    return found if isinstance(found, str) else None


def is_known_module(module: Any) -> bool:
    """Whether a module is of Python, of numpy or of this package, so that its entries hardly ever change."""
    path = file_of(module)
    root = str(getattr(module, "__name__", "")).partition(".")[0]
    if path is None:
        return root in sys.stdlib_module_names
    return root in ("numpy", "ml_dtypes") or is_foreign(path)


def is_foreign_class(kind: type) -> bool:
    """Whether a class is built in, or of Python's library or numpy."""
    name = kind.__module__
    module = sys.modules.get(name) if isinstance(name, str) else None
    if (
        module is None or name == "builtins"
    ):  # a module that is not registered, or a class that a statement made elsewhere
        root = name.partition(".")[0] if isinstance(name, str) else ""
        return _is_fixed(kind) or (root != "builtins" and root in sys.stdlib_module_names)
    if name in _MAKERS and kind.__qualname__.partition(".")[0] not in vars(module):
        return False
    return is_known_module(module) and not is_stateful(name)


def is_stateful(module: str) -> bool:
    """Whether objects whose classes a module of this package defines hold what functions compute with."""
    return module.startswith(_MODULES_WITH_STATE)


def _is_fixed(kind: type) -> bool:
    """Whether nothing can be set in a class: most of those written in C."""
    return not kind.__flags__ & 1 << 9 or bool(kind.__flags__ & 1 << 8)


__all__ = [
    "DULL", "HARMLESS", "WITH_STATE", "file_of", "is_foreign", "is_foreign_class", "is_harmless", "is_known_module",
    "is_ours", "is_stateful", "is_users",
]  # fmt: skip
