"""Families of processors, one file of facts each. A new target is one more file, listed here."""

from __future__ import annotations

from functools import cache

from . import amdgpu, arm, nvidia, x86
from .family import GENERIC, Dialect, ProcessorFamily

FAMILIES = (x86.FAMILY, arm.FAMILY, nvidia.FAMILY, amdgpu.FAMILY)


@cache
def family_of(triple: str) -> ProcessorFamily:
    """The family that LLVM's name of a target belongs to; `GENERIC` where no file here speaks of it.

    >>> family_of("x86_64-unknown-linux-gnu").name, family_of("riscv64-unknown-linux-gnu").name
    ('x86', 'generic')
    """
    return next((family for family in FAMILIES if triple.startswith(family.triples)), GENERIC)


__all__ = ["FAMILIES", "GENERIC", "Dialect", "ProcessorFamily", "family_of"]
