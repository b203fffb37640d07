"""Optimisations of the architecture of networks, by PyTorch's names: `quantization`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import late

if TYPE_CHECKING:
    from jit._stubs.names_ao import *  # noqa: F403
else:
    __getattr__, __dir__ = late(__name__, {}, ("quantization",))

__all__ = ["quantization"]
