"""Attention: the layer of several heads, and what PyTorch has under this path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jit.late import elsewhere, late

if TYPE_CHECKING:
    from jit._stubs.names_nn_attention import *  # noqa: F403
else:
    __getattr__, __dir__ = late(
        __name__, {"backends": "SDPBackend sdpa_kernel", "multihead": "MultiheadAttention"}, ("bias",)
    )

flex_attention = elsewhere(f"{__name__}.flex_attention", "jit.func.flexible_attention")
"""Attention by functions of one score, which are mapped over all: so it is written among the functions of functions."""

__all__ = ["MultiheadAttention", "SDPBackend", "bias", "flex_attention", "sdpa_kernel"]
