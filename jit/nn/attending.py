"""Attention of several heads as a function: projections, masks, softmax, and the projection of the result."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.scalars import square_root

__all__ = ["AttentionShapeError", "multi_head_attention_forward"]


class AttentionShapeError(ShapeError, AssertionError):
    """The error for sizes that do not fit each other; PyTorch asserts that they do."""


def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any, in_proj_bias: Any,
    bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """``softmax(q kᵀ / sqrt(E / heads)) v`` for several heads, between linear projections (Vaswani et al., 2017).

    Args:
        query: `[L, N, E]` or `[L, E]`.
        key: `[S, N, E_k]` or `[S, E_k]`.
        value: `[S, N, E_v]` or `[S, E_v]`.
        embed_dim_to_check: E.
        num_heads: The number of heads into which E is divided.
        in_proj_weight: `[3 * E, E]`, the projections of query, key and value, or None with three separate ones.
        in_proj_bias: `[3 * E]` or None.
        bias_k: `[1, 1, E]`, one more key, or None.
        bias_v: `[1, 1, E]`, the value of that key, or None.
        add_zero_attn: Whether to add a key and a value of zeros.
        dropout_p: The share of the weights that is dropped while training.
        out_proj_weight: `[E, E]`, the projection of the result.
        out_proj_bias: `[E]` or None.
        training: Whether to drop at all.
        key_padding_mask: `[N, S]` or `[S]`: True for keys that are left out, or numbers added to their scores.
        need_weights: Whether to return the weights.
        attn_mask: `[L, S]` or `[N * num_heads, L, S]`, likewise.
        use_separate_proj_weight: Whether the three following project, instead of `in_proj_weight`.
        q_proj_weight: `[E, E]`.
        k_proj_weight: `[E, E_k]`.
        v_proj_weight: `[E, E_v]`.
        static_k: `[N * num_heads, S, E / num_heads]`, keys that are used as they are, or None.
        static_v: Values of the same sizes, or None.
        average_attn_weights: Whether the weights are averaged over the heads.
        is_causal: Whether `attn_mask` is the causal one.

    Returns:
        `[L, N, E]` or `[L, E]`, and the weights `[N, L, S]` (`[N, num_heads, L, S]` if not averaged) or None.

    Raises:
        ShapeError: The sizes do not fit each other.
    """
    is_batched = _check(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise UsageError("is_causal says that attn_mask is the causal one; give that mask too")
    if not is_batched:
        query, key, value = (F.unsqueeze(x, 1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else F.unsqueeze(key_padding_mask, 0)
    keys = key.shape[0] if static_k is None else static_k.shape[1]
    _check_masks(attn_mask, key_padding_mask, (query.shape[0], query.shape[1], keys), num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, separate)
    if bias_k is not None and bias_v is not None:
        k, v = _lengthened(k, bias_k), _lengthened(v, bias_v)
    heads = _Heads(query.shape[0], query.shape[1], num_heads, embed_dim_to_check // num_heads)
    q, k, v = heads.split(q), heads.given(static_k, k), heads.given(static_v, v)
    if add_zero_attn:
        k, v = (F.constant_pad_nd(x, [0, 0, 0, 1]) for x in (k, v))
    causal = is_causal and key_padding_mask is None and not need_weights
    mask = None if causal else heads.mask(attn_mask, key_padding_mask, k.shape[2], q.dtype)
    out, weights = _attended(q, k, v, mask, dropout_p if training else 0.0, causal, need_weights)
    out = F.linear(heads.join(out), out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = F.mean(weights, [1])
    return (out, weights) if is_batched else _without_batch(out, weights)


class _Heads(NamedTuple):
    """The division of sequences `[L, N, E]` into heads `[N, heads, L, size]`, and its inverse."""

    length: Any
    batch: Any
    heads: int
    size: int

    def split(self, x: Any) -> Any:
        return F.permute(F.reshape(x, [x.shape[0], self.batch, self.heads, self.size]), [1, 2, 0, 3])

    def join(self, x: Any) -> Any:
        return F.reshape(F.permute(x, [2, 0, 1, 3]), [self.length, self.batch, self.heads * self.size])

    def given(self, static: Any, x: Any) -> Any:
        """The heads of x, or those in `static`, which is divided already, if it is not None."""
        if static is None:
            return self.split(x)
        return F.reshape(static, [self.batch, self.heads, static.shape[1], self.size])

    def mask(self, attn_mask: Any, key_padding_mask: Any, keys: Any, dtype: Any) -> Any:
        """Both masks as numbers to add to scores [N, heads, L, keys]; keys that were appended are never masked."""
        masks = []
        if attn_mask is not None:
            wide = _added(attn_mask, keys, dtype)
            if attn_mask.ndim == 3:
                wide = F.reshape(wide, [self.batch, self.heads, self.length, keys])
            masks.append(wide)
        if key_padding_mask is not None:
            wide = _added(key_padding_mask, keys, dtype)
            masks.append(F.reshape(wide, [self.batch, 1, 1, keys]))
        return None if not masks else masks[0] if len(masks) == 1 else masks[0] + masks[1]


def _added(mask: Any, keys: Any, dtype: Any) -> Any:
    """A mask as numbers to add to scores, with zeros for keys that were appended."""
    if mask.dtype is dtypes.bool_:
        mask = F.masked_fill(F.zeros(mask.shape, dtype=dtype, device=mask.device), mask, -math.inf)
    elif not mask.dtype.is_floating_point:
        raise DTypeError(f"a mask of attention is bool or floating point, not {mask.dtype.name}; call .bool() on it")
    missing = keys - mask.shape[-1]
    return F.constant_pad_nd(mask, [0, missing]) if missing else mask


def _check(query: Any, key: Any, value: Any, size: int, heads: int) -> bool:
    """Whether there is a batch dim; ShapeError if the sizes do not fit."""
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        raise AttentionShapeError(
            f"attention takes query, key and value of 2 or of 3 dims each, got the sizes {_sizes(query, key, value)}"
        )
    if query.shape[-1] != size:
        raise AttentionShapeError(
            f"attention was made for vectors of size {size}, got the sizes {_sizes(query, key, value)}"
        )
    if size % heads:
        raise ShapeError(
            f"vectors of size {size} cannot be cut into {heads} heads; pass a number that divides the size"
        )
    if key.shape[:-1] != value.shape[:-1]:
        raise AttentionShapeError(f"attention needs as many keys as values, got the sizes {_sizes(query, key, value)}")
    return bool(query.ndim == 3)


def _check_masks(attn_mask: Any, key_padding_mask: Any, sizes: tuple[Any, Any, Any], heads: int) -> None:
    """AttentionShapeError if a mask does not have an entry for each query and key, or for each key of each sequence."""
    length, batch, keys = sizes
    if attn_mask is not None:
        wanted = (batch * heads, length, keys) if attn_mask.ndim == 3 else (length, keys)
        if tuple(attn_mask.shape) != wanted:
            raise AttentionShapeError(
                f"attn_mask has sizes {list(attn_mask.shape)}; for {length} queries, {keys} keys, {batch} sequences "
                f"and {heads} heads pass one of {[length, keys]} or {[batch * heads, length, keys]}"
            )
    if key_padding_mask is not None and tuple(key_padding_mask.shape) != (batch, keys):
        raise AttentionShapeError(
            f"key_padding_mask has an entry for each of {keys} keys of {batch} sequences, {[batch, keys]} (without the "
            f"first dim if queries have 2 dims), and not the sizes {_sizes(key_padding_mask)}"
        )


def _sizes(*tensors: Any) -> str:
    return ", ".join(str(list(x.shape)) for x in tensors)


def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any, separate: Any) -> list[Any]:
    if separate is None and query is key and key is value:
        return F.chunk(F.linear(query, weight, bias), 3, -1)
    weights = F.chunk(weight, 3, 0) if separate is None else separate
    biases = (None, None, None) if bias is None else F.chunk(bias, 3, 0)
    return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]


def _lengthened(x: Any, last: Any) -> Any:
    """Keys or values `[S, N, E]` and one more, the same for the whole batch."""
    return F.cat([x, F.expand(last, [1, x.shape[1], x.shape[2]])], 0)


def _attended(q: Any, k: Any, v: Any, mask: Any, dropout_p: float, causal: bool, need_weights: bool) -> tuple[Any, Any]:
    """The result, and the weights of the values in it, or None if they are not needed."""
    if not need_weights:
        return F.scaled_dot_product_attention(q, k, v, mask, dropout_p, causal), None
    scores = F.matmul(q / square_root(q.shape[-1]), F.transpose(k, -2, -1))
    weights = F.softmax(scores if mask is None else scores + mask, -1)
    weights = F.dropout(weights, dropout_p, True) if dropout_p > 0 else weights
    return F.matmul(weights, v), weights


def _without_batch(out: Any, weights: Any) -> tuple[Any, Any]:
    return F.squeeze(out, 1), None if weights is None else F.squeeze(weights, 0)
