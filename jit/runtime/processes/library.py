"""MPI, imported when processes are first asked to work together."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from jit.ir.errors import UsageError


def is_installed() -> bool:
    """Whether mpi4py can be imported."""
    return find_spec("mpi4py") is not None


def mpi() -> Any:
    """The module `mpi4py.MPI`, whose import starts MPI.

    Raises:
        UsageError: It is not installed, or finds no MPI library.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f'jit.distributed needs MPI, which cannot be loaded ({error}); pip install "jit-tracer[dist]" brings it'
        ) from error
    return MPI
