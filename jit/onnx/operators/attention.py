"""Attention and what surrounds it in language models: rotations by position, caches, linear forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.eager.namespace import F
from jit.export.opsets import DTYPES
from jit.ir.dtypes import DType, bool_, float32, float64
from jit.ir.errors import ModelError
from jit.ir.scalars import square_root

from ..table import Tensor, operator

# -- Attention -----------------------------------------------------------------------------------------------------


@operator("Attention", since=23)
def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, past_key: Tensor | None, past_value: Tensor | None,
    nonpad_kv_seqlen: Tensor | None, *, is_causal: int = 0, kv_num_heads: int | None = None, left_window_size: int = -1,
    q_num_heads: int | None = None, qk_matmul_output_mode: int = 0, right_window_size: int = -1,
    scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None, outputs: int, version: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    flat = q.ndim == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    offset: Any = 0
    if past_key is not None and past_value is not None:
        offset, k, v = past_key.shape[2], F.cat([past_key, k], 2), F.cat([past_value, v], 2)
    elif nonpad_kv_seqlen is not None:
        offset = F.reshape(nonpad_kv_seqlen, (-1, 1, 1, 1)) - q.shape[2]
    if attn_mask is not None and version >= 24:
        attn_mask = _padded(attn_mask, k.shape[2])
    windowed = max(left_window_size, right_window_size) >= 0
    alone = attn_mask is None and nonpad_kv_seqlen is None and past_key is None and not windowed
    seen = None
    if not alone:
        seen = _seen(q, k, offset, left_window_size, 0 if is_causal else right_window_size, nonpad_kv_seqlen)
    mask, causal = _both(seen, attn_mask), bool(is_causal) and alone
    probabilities = None
    if outputs < 4 and not softcap and _inside(softmax_precision, q.dtype):
        grouped, v_alike = _grouped(q, k), v.to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v_alike, mask, 0.0, causal, scale=scale, enable_gqa=grouped)
    else:
        mask = _seen(q, k, 0, -1, 0, None) if causal else mask
        y, probabilities = _by_parts(q, k, v, mask, scale, softcap, softmax_precision, qk_matmul_output_mode)
    y = F.flatten(F.transpose(y, 1, 2), 2) if flat else y
    return (y, k, v) if probabilities is None else (y, k, v, probabilities)


def _heads(x: Tensor, count: int | None) -> Tensor:
    """[batch, heads, steps, size] of [batch, steps, heads * size]."""
    if x.ndim == 4:
        return x
    if not count:
        raise ModelError("attention of tensors with 3 dims needs q_num_heads and kv_num_heads")
    return F.transpose(F.reshape(x, (x.shape[0], x.shape[1], count, -1)), 1, 2)


def _grouped(q: Tensor, k: Tensor) -> bool:
    """Whether several heads of queries share one of keys."""
    return bool(q.shape[1] != k.shape[1])


def _inside(precision: int | None, dtype: DType) -> bool:
    """Whether `scaled_dot_product_attention` computes its softmax so precisely."""
    wanted = dtype if precision is None else DTYPES[precision]
    return wanted is dtype or wanted is float32 and dtype.itemsize < 4 or wanted.itemsize < dtype.itemsize


def _padded(mask: Tensor, keys: Any) -> Tensor:
    """The mask for all keys: those after its end are not seen."""
    if mask.shape[-1] >= keys:
        return mask
    return F.constant_pad_nd(mask, [0, keys - mask.shape[-1]], False if mask.dtype is bool_ else -math.inf)


def _seen(q: Tensor, k: Tensor, offset: Any, left: int, right: int, lengths: Tensor | None) -> Tensor | None:
    """The keys that queries see, where their place or the number of keys tells; -1 is no bound."""
    places, keys = F.unsqueeze(F.arange(q.shape[2]), 1) + offset, F.arange(k.shape[2])
    parts = [] if right < 0 else [keys <= places + right]
    if left >= 0:
        parts.append(keys >= places - left)
    if lengths is not None:
        parts.append(keys < F.reshape(lengths, (-1, 1, 1, 1)))
    seen = None
    for part in parts:
        seen = part if seen is None else seen & part
    return seen


def _both(seen: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """One mask of two, either of which may be left out."""
    if seen is None or mask is None:
        return mask if seen is None else seen
    return mask & seen if mask.dtype is bool_ else F.where(seen, mask, -math.inf)


def _by_parts(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None, softcap: float, precision: int | None,
    mode: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention with what its product of queries and keys is at the stage `mode`."""
    k, v = _repeated(k, q), _repeated(v, q)
    stages = [_products(q, k, scale)]
    stages.append(softcap * F.tanh(stages[0] / softcap) if softcap else stages[0])
    stages.append(stages[1] if mask is None else stages[1] + _bias(mask, q.dtype))
    wide = stages[2] if precision is None else stages[2].to(DTYPES[precision])
    stages.append(F._safe_softmax(wide, -1).to(q.dtype))
    return F.matmul(stages[3], v.to(q.dtype)), stages[mode]


def _products(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    factor = 1 / square_root(q.shape[-1]) if scale is None else scale
    return F.matmul(q * factor, F.transpose(k, -2, -1))


def _bias(mask: Tensor, dtype: DType) -> Tensor:
    return (F.where(mask, 0.0, -math.inf) if mask.dtype is bool_ else mask).to(dtype)


def _repeated(x: Tensor, q: Tensor) -> Tensor:
    """Heads of keys or values, as often as queries share them."""
    return F.repeat_interleave(x, q.shape[1] // x.shape[1], 1) if _grouped(q, x) else x


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, *, prob_mod: Callable[..., list[Tensor]] | None = None,
    score_mod: Callable[..., list[Tensor]] | None = None, scale: float | None = None,
    softmax_precision: int | None = None,
) -> Tensor:  # fmt: skip
    given = float64 if q.dtype is float64 else float32
    precise = DTYPES[softmax_precision] if softmax_precision else given
    if score_mod is None and prob_mod is None and _inside(softmax_precision, q.dtype):
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=_grouped(q, k))
    scores = _products(q, _repeated(k, q), scale).to(precise)
    scores = scores if score_mod is None else score_mod(scores)[0]
    weights = F.softmax(scores, -1)
    weights = weights if prob_mod is None else prob_mod(weights)[0]
    return F.matmul(weights, _repeated(v, q).to(precise)).to(v.dtype)


# -- positions and caches ------------------------------------------------------------------------------------------


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Tensor, cos_cache: Tensor, sin_cache: Tensor, position_ids: Tensor | None, *, interleaved: int = 0,
    num_heads: int | None = None, rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    heads = F.transpose(x, 1, 2) if x.ndim == 4 else F.reshape(x, (x.shape[0], x.shape[1], num_heads, -1))
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = F.unsqueeze(cos_cache, 2), F.unsqueeze(sin_cache, 2)
    size = rotary_embedding_dim or heads.shape[-1]
    turned = _turned(heads[..., :size], cos, sin, bool(interleaved))
    if rotary_embedding_dim:
        turned = F.cat([turned, heads[..., size:]], -1)
    return F.transpose(turned, 1, 2) if x.ndim == 4 else F.reshape(turned, x.shape)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Pairs of elements, neighbours or those of both halves, turned by their angles."""
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else F.chunk(x, 2, -1)
    parts = [cos * a - sin * b, sin * a + cos * b]
    return F.flatten(F.stack(parts, -1), -2) if interleaved else F.cat(parts, -1)


@operator("TensorScatter", since=24)
def tensor_scatter(
    past_cache: Tensor, update: Tensor, write_indices: Tensor | None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    cache, new = F.movedim(past_cache, axis, 1), F.movedim(update, axis, 1)
    places = F.unsqueeze(F.arange(new.shape[1]), 0)
    if write_indices is not None:
        places = places + F.unsqueeze(write_indices, 1)
    if mode == "circular":
        places = places % cache.shape[1]
    batch = F.unsqueeze(F.arange(cache.shape[0]), 1)
    return F.movedim(F.index_put(cache, [batch, places], new), 1, axis)


@operator("CausalConvWithState", since=27)
def causal_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, past_state: Tensor | None, *, activation: str = "none"
) -> tuple[Tensor, Tensor]:
    channels, _, size = weight.shape
    if past_state is None:
        past_state = F.zeros((x.shape[0], channels, size - 1), dtype=x.dtype)
    whole = F.cat([past_state, x], 2)
    y = F.conv1d(whole, weight, bias, groups=channels)
    if activation not in ("none", "silu", "swish"):
        raise ModelError(f"CausalConvWithState has no activation {activation!r}")
    return y if activation == "none" else F.silu(y), whole[:, :, whole.shape[2] - (size - 1) :]


# -- linear attention ----------------------------------------------------------------------------------------------


@operator("LinearAttention", since=27)
def linear_attention(
    query: Tensor, key: Tensor, value: Tensor, past_state: Tensor | None, decay: Tensor | None, beta: Tensor | None, *,
    chunk_size: int = 64, kv_num_heads: int, q_num_heads: int, scale: float = 0.0, update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    q, k, v = _heads(query, q_num_heads), _heads(key, kv_num_heads), _heads(value, kv_num_heads)
    if past_state is None:
        past_state = F.zeros((*k.shape[:2], k.shape[3], v.shape[3]), dtype=q.dtype)
    gates = F.exp(_heads(decay, kv_num_heads).float()) if decay is not None and "gated" in update_rule else None
    rates = None
    if beta is not None and "delta" in update_rule:
        rates = F.unsqueeze(F.transpose(beta, 1, 2), 3).float()
    factor = scale or 1 / square_root(q.shape[3])
    found, state = _recurrence(q.float() * factor, k.float(), v.float(), past_state.float(), gates, rates)
    return F.flatten(F.transpose(found, 1, 2), 2).to(query.dtype), state.to(past_state.dtype)


def _recurrence(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor, gates: Tensor | None, rates: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The results of all steps and the last state, [batch, heads, size of keys, size of values]."""
    found = []
    for t in range(k.shape[2]):
        key, new = F.unsqueeze(k[:, :, t], 3), F.unsqueeze(v[:, :, t], 2)
        if gates is not None:
            state = state * F.unsqueeze(gates[:, :, t], 3)
        if rates is not None:
            new = rates[:, :, t : t + 1] * (new - F.matmul(F.transpose(key, 2, 3), state))
        state = state + key * new
        found.append(F.matmul(q[:, :, t : t + 1], _repeated(state, q)))
    return F.cat(found, 2), state
