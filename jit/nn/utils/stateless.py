"""`functional_call` under its first path; see `jit.func.functional_call`."""

from __future__ import annotations

from ..substitution import functional_call

__all__ = ["functional_call"]
