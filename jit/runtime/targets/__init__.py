"""Families of processors: every module of this folder that defines a `FAMILY` is one. A new target is one more file."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from .family import GENERIC, Dialect, ProcessorFamily


@cache
def families() -> tuple[ProcessorFamily, ...]:
    """The families that the modules of this folder describe, in the order of the modules' names.

    >>> {"arm", "x86"} <= {family.name for family in families()}
    True
    """
    modules = (import_module(f".{found.name}", __name__) for found in pkgutil.iter_modules(__path__))
    return tuple(module.FAMILY for module in modules if hasattr(module, "FAMILY"))


@cache
def family_of(triple: str) -> ProcessorFamily:
    """The family that answers for an LLVM triple; `GENERIC` if none does.

    >>> family_of("x86_64-unknown-linux-gnu").name, family_of("riscv64-unknown-linux-gnu").name
    ('x86', 'generic')
    """
    return next((family for family in families() if triple.startswith(family.triples)), GENERIC)


__all__ = ["GENERIC", "Dialect", "ProcessorFamily", "families", "family_of"]
