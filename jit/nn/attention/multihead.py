"""Attention of several heads as a layer."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import ExpectationError

from .. import functional, init
from ..linear import NonDynamicallyQuantizableLinear
from ..modules import Module
from ..parameter import Parameter


class MultiheadAttention(Module):
    """Looks values up by how well their keys match queries, with several heads at once (Vaswani et al., 2017).

    Args:
        embed_dim: Size of the queries and of the result, E.
        num_heads: The number of heads into which E is divided.
        dropout: The share of the weights that is dropped while training.
        bias: Whether the projections have biases.
        add_bias_kv: Whether to learn one more key and its value.
        add_zero_attn: Whether to add a key and a value of zeros.
        kdim: Size of the keys; E if left out.
        vdim: Size of the values; E if left out.
        batch_first: Whether sequences are `[N, L, E]` instead of `[L, N, E]`.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    >>> import jit
    >>> attention = jit.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = jit.randn(3, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (jit.Size([3, 5, 8]), jit.Size([3, 5, 5]))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise ExpectationError(
                f"vectors of size {embed_dim} cannot be cut into {num_heads} heads; pass a number that divides the size"
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim, self.batch_first, self.add_zero_attn = embed_dim // num_heads, batch_first, add_zero_attn
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        one = self._is_one_weight
        self._declare("in_proj_weight", (3 * embed_dim, embed_dim), one, device, dtype)
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self._declare(f"{name}_proj_weight", (embed_dim, size), not one, device, dtype)
        self._declare("in_proj_bias", (3 * embed_dim,), bias, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self._declare(name, (1, 1, embed_dim), add_bias_kv, device, dtype)
        self._reset_parameters()

    @property
    def _is_one_weight(self) -> bool:
        """Whether queries, keys and values have one size, and so one matrix."""
        return self.kdim == self.vdim == self.embed_dim

    def _declare(self, name: str, sizes: tuple[int, ...], exists: bool, device: Any, dtype: Any) -> None:
        self.register_parameter(name, Parameter(F.empty(sizes, device=device, dtype=dtype)) if exists else None)

    def _reset_parameters(self) -> None:
        for name, parameter in self.named_parameters(recurse=False):
            if name.endswith("proj_weight"):
                init.xavier_uniform_(parameter)
            elif name.startswith("bias_"):
                init.xavier_normal_(parameter)
            else:
                init.zeros_(parameter)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool = True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Look up the values for each query.

        Args:
            query: `[L, N, E]`, `[N, L, E]` if `batch_first`, or `[L, E]`.
            key: `[S, N, kdim]`, `[N, S, kdim]` if `batch_first`, or `[S, kdim]`.
            value: The same with `vdim` instead of `kdim`.
            key_padding_mask: `[N, S]` or `[S]`: True for keys that are left out, or numbers added to their scores.
            need_weights: Whether to return the weights.
            attn_mask: `[L, S]` or `[N * num_heads, L, S]`, likewise.
            average_attn_weights: Whether the weights are averaged over the heads.
            is_causal: Whether `attn_mask` is the causal one.

        Returns:
            The result in the form of `query`, and the weights `[N, L, S]` or `[N, num_heads, L, S]`, or None.
        """
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = _turned(query, key, value)
        out, weights = functional.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._is_one_weight, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return F.transpose(out, 0, 1) if turned else out, weights


def _turned(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """The three with time first; where they are one tensor they stay one, so that it is projected at once."""
    turned_key = F.transpose(key, 0, 1)
    turned_query = turned_key if query is key else F.transpose(query, 0, 1)
    return turned_query, turned_key, turned_key if value is key else F.transpose(value, 0, 1)


__all__ = ["MultiheadAttention"]
