"""`flex_attention`: attention with scores that a function changes, and a mask that is one.

Both functions are written for one score, and mapped over all of them. The scores are a tensor here, whatever the mask
leaves: blocks without any cost as much as the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.errors import ShapeError, UsageError
from jit.ir.scalars import square_root

from .block_masks import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    mapped_over_places,
    noop_mask,
    or_masks,
    places,
)  # fmt: skip

FlexKernelOptions = dict[str, Any]
"""The options of kernels on a GPU, which make no difference."""


class AuxRequest(NamedTuple):
    """The results that `flex_attention` returns besides."""

    lse: bool = False
    """The logarithm of the sum of the exponentials of each row of scores."""
    max_scores: bool = False
    """The greatest score of each row."""


class AuxOutput(NamedTuple):
    """The results that were asked for by an `AuxRequest`; None for the others."""

    lse: Any = None
    """The logarithm of the sum of the exponentials of each row of scores."""
    max_scores: Any = None
    """The greatest score of each row."""


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Callable[..., Any] | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """``softmax(score_mod(q kᵀ * scale)) v`` over what a mask leaves; 0 where it leaves nothing.

    Args:
        query: `[B, heads, L, E]`.
        key: `[B, heads, S, E]`.
        value: `[B, heads, S, E_v]`.
        score_mod: A function of a score and the numbers of its batch, head, query and key that returns another score.
        block_mask: The mask; none if left out.
        scale: The factor of the scores; 1 over the root of E if left out.
        enable_gqa: Whether several heads of queries may share one of keys and values.
        return_lse: Whether to return the logarithms of the sums of exponentials, too.
        kernel_options: Accepted; makes no difference.
        return_aux: The results to return besides.

    Raises:
        ShapeError: The sizes do not fit.

    >>> import jit
    >>> from jit.nn.attention.flex_attention import flex_attention
    >>> x = jit.ones(1, 1, 2, 4)
    >>> flex_attention(x, x, x, lambda score, b, h, q, k: score - (q - k).abs()).shape
    jit.Size([1, 1, 2, 4])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise UsageError("return_lse=True is return_aux=AuxRequest(lse=True); give one of them")
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = (F.repeat_interleave(each, shared, 1) for each in (key, value))
    scores = _scores(query, key, score_mod, block_mask, scale)
    out = F.matmul(F._safe_softmax(scores, -1).to(query.dtype), value.to(query.dtype))
    if return_lse:
        return out, _log_of_sum(scores)
    return out if return_aux is None else (out, _asked_for(scores, return_aux))


def _check(query: Any, key: Any, value: Any, block_mask: Any, enable_gqa: bool) -> None:
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ShapeError(f"flex_attention takes tensors of 4 dims, not of {query.ndim}, {key.ndim} and {value.ndim}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"flex_attention: queries {list(query.shape)}, keys {list(key.shape)} and values {list(value.shape)} do "
            "not fit: queries and keys have one size of vectors, and there are as many values as keys"
        )
    if query.shape[1] != key.shape[1] and not (enable_gqa and query.shape[1] % key.shape[1] == 0):
        raise ShapeError(
            f"flex_attention: {query.shape[1]} heads of queries and {key.shape[1]} of keys; make them equal, or pass "
            "enable_gqa=True for a multiple"
        )
    lengths = (query.shape[-2], key.shape[-2])
    if block_mask is not None and tuple(block_mask.seq_lengths) != lengths:
        raise ShapeError(
            f"block_mask was created for block_mask.shape={tuple(block_mask.shape)} but got q_len={lengths[0]} and "
            f"kv_len={lengths[1]}; make a mask of these lengths"
        )


def _scores(query: Any, key: Any, score_mod: Any, block_mask: BlockMask | None, scale: float | None) -> Any:
    wide = dtypes.float64 if query.dtype is dtypes.float64 else dtypes.float32
    factor = 1 / square_root(query.shape[-1]) if scale is None else scale
    scores = F.matmul(query.to(wide), F.transpose(key.to(wide), -2, -1)) * factor
    if score_mod is not None:
        scores = mapped_over_places(score_mod, 1)(scores, *places(scores.shape, query.device)).to(wide)
    if block_mask is not None:
        scores = F.masked_fill(scores, ~block_mask.visible(*scores.shape[:2]), -float("inf"))
    return scores


def _log_of_sum(scores: Any) -> Any:
    """The logarithms of the sums of exponentials; a row without any score has no gradient, and NaN for none."""
    nothing = F.all(F.isneginf(scores), -1)
    return F.masked_fill(F.logsumexp(F.masked_fill(scores, F.unsqueeze(nothing, -1), 0), [-1]), nothing, -float("inf"))


def _asked_for(scores: Any, request: AuxRequest) -> AuxOutput:
    return AuxOutput(_log_of_sum(scores) if request.lse else None, F.amax(scores, [-1]) if request.max_scores else None)


__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip
