"""Attention: the composite that users call, and the operator that GPUs compute without the matrix of scores.

Note [Attention without scores in memory]
    On a GPU `scaled_dot_product_attention` is `_attend` where that has a kernel: for tensors of one batch without
    dropout. It keeps nothing for its derivative but its operands, so the backward computes the weights again - as a
    matrix, in operators that have derivatives themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite
from jit.ir.precision import LOWER
from jit.ir.samples import Sample, make, sample
from jit.ir.scalars import square_root
from jit.ir.types import TensorType

from .views import sum_to

if TYPE_CHECKING:
    from .protocols import Array, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value


def _flops(out: KnownType, query: KnownType, key: KnownType) -> int:
    """The operations of both products."""
    assert query.sizes is not None and key.sizes is not None
    return 2 * query.numel * key.sizes[-2] + 2 * out.numel * key.sizes[-2]


@array("aten::_attend(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float scale) "
       "-> Tensor",
       kernel=Kernel(step="attention", product="matrices", flops=_flops), namespaces=())  # fmt: skip
def _attend(
    m: Numpy, query: Array, key: Array, value: Array, attn_mask: Array | None, is_causal: bool, scale: float
) -> Array:
    """softmax(scale * query @ key.T + mask) @ value, of one batch; zeros for a query that sees no key."""
    scores = m.matmul(query, m.swapaxes(key, -1, -2)) * scale
    if is_causal:
        seen = m.arange(scores.shape[-2])[:, None] >= m.arange(scores.shape[-1])
        scores = m.where(seen, scores, -math.inf)
    if attn_mask is not None:
        is_bool = attn_mask.dtype.kind == "b"
        scores = m.where(attn_mask, scores, -math.inf) if is_bool else scores + attn_mask
    top = m.max(scores, axis=-1, keepdims=True)
    powers = m.exp(scores - m.where(top == -math.inf, 0, top))
    total = m.sum(powers, axis=-1, keepdims=True)
    return m.matmul(powers / m.where(total == 0, 1, total), value).astype(query.dtype, copy=False)


@_attend.type
def _(
    query: KnownType, key: KnownType, value: KnownType, attn_mask: KnownType | None, is_causal: bool, scale: float
) -> TensorType:
    if query.shape[:-2] != key.shape[:-2] or key.shape[:-1] != value.shape[:-1] or query.shape[-1] != key.shape[-1]:
        sizes = ", ".join(str(list(t.shape)) for t in (query, key, value))
        raise ShapeError(f"_attend: query, key and value should be of one batch, got the sizes {sizes}")
    return TensorType(query.dtype, (*query.shape[:-1], value.shape[-1]), None, query.device)


@_attend.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None,
    is_causal: bool, scale: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    weights = _weights(F, query, key, attn_mask, is_causal, scale)
    by_value = F.matmul(F.transpose(weights, -2, -1), g) if needs[2] else None
    if not (needs[0] or needs[1] or (attn_mask is not None and needs[3])):
        return None, None, by_value, None
    by_scores = F._softmax_backward_data(F.matmul(g, F.transpose(value, -2, -1)), weights, -1, weights.dtype)
    by_query = F.matmul(by_scores, key) * scale if needs[0] else None
    by_key = F.matmul(F.transpose(by_scores, -2, -1), query) * scale if needs[1] else None
    by_mask = sum_to(F, by_scores, attn_mask.shape) if attn_mask is not None and needs[3] else None
    return by_query, by_key, by_value, by_mask


def _weights(F: Ops, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    """The share of each key in each query's result."""
    scores = F.matmul(query * scale, F.transpose(key, -2, -1))
    if is_causal:
        mask = F.tril(F.ones([query.shape[-2], key.shape[-2]], dtype="bool", device=query.device))
    if mask is not None:
        bias = F.where(mask, 0.0, -math.inf) if mask.dtype.name == "bool" else mask
        scores = scores + (bias if bias.dtype is scores.dtype else F._to_copy(bias, dtype=scores.dtype))
    return F._safe_softmax(scores, -1)


@_attend.onnx
def _(
    g: OnnxWriter, query: Value, key: Value, value: Value, attn_mask: Value | None, is_causal: bool, scale: float
) -> Value:
    order = [*range(key.ndim - 2), key.ndim - 1, key.ndim - 2]
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=order))
    scores, least = g.op("Mul", scores, g.constant(scale, like=query)), g.constant(-math.inf, like=query)
    if is_causal:
        is_nan = g.op("IsNaN", scores)
        seen = g.op("Trilu", g.op("Or", is_nan, g.op("Not", is_nan)), g.constant(0, dtype="int64"), upper=0)
        scores = g.op("Where", seen, scores, least)
    if attn_mask is not None and attn_mask.dtype.name == "bool":
        scores = g.op("Where", attn_mask, scores, least)
    elif attn_mask is not None:
        scores = g.op("Add", scores, g.cast(attn_mask, query.dtype))
    unseen = g.op("Equal", g.reduce("ReduceMax", scores, -1, True), least)
    weights = g.op("Where", unseen, g.constant(0, like=query), g.op("Softmax", scores, axis=-1))
    return g.op("MatMul", weights, value)


@_attend.samples
def _() -> Iterator[Sample]:
    operands = make(2, 2, 3), make(2, 3, 3, seed=1), make(2, 3, 2, seed=2)
    yield sample(*operands, None, False, 0.5)
    yield sample(*operands, None, True, 0.5)
    yield sample(*operands, make(2, 3, seed=3), False, 1.0)
    yield sample(*operands, np.array([[True, False, True], [False, False, False]]), False, 1.0, note="a row unseen")
    half = [
        make(2, 2, 3, dtype="float16"),
        make(2, 3, 3, seed=1, dtype="float16"),
        make(2, 3, 2, seed=2, dtype="float16"),
    ]
    yield sample(*half, None, False, 0.5, note="half", grad=False)


def _is_attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> bool:
    """Whether `_attend` computes it: on a GPU, for one batch of not empty tensors of one dtype without dropout."""
    if str(query.device) == "cpu" or dropout_p > 0 or not query.ndim == key.ndim == value.ndim > 2:
        return False
    if not query.dtype is key.dtype is value.dtype or query.dtype.name not in ("float16", "bfloat16", "float32"):
        return False
    if query.shape[:-2] != key.shape[:-2] or key.shape[:-1] != value.shape[:-1] or 0 in (*query.shape, *value.shape):
        return False
    return mask is None or mask.ndim <= query.ndim


@LOWER
@composite("aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
           "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
           namespaces=("nn.functional",))  # fmt: skip
def scaled_dot_product_attention(
    F: Ops, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout_p: float, is_causal: bool,
    scale: float | None, enable_gqa: bool,
) -> Tensor:  # fmt: skip
    """softmax(scale * query @ key.T + mask) @ value: [..., L, E], [..., S, E] and [..., S, V] give [..., L, V]."""
    if enable_gqa:
        key = F.repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = F.repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    factor = 1 / square_root(query.shape[-1]) if scale is None else scale
    if is_causal and attn_mask is not None:
        raise UsageError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    if attn_mask is not None and attn_mask.dtype.name != "bool" and not attn_mask.dtype.is_floating_point:
        raise DTypeError(
            f"scaled_dot_product_attention: attn_mask should be bool or floating, got {attn_mask.dtype.name}"
        )
    if _is_attended(query, key, value, attn_mask, dropout_p):
        return F._attend(query, key, value, attn_mask, is_causal, factor)
    weights = _weights(F, query, key, attn_mask, is_causal, factor)
    return F.matmul(F.dropout(weights, dropout_p, True) if dropout_p > 0 else weights, value)


@scaled_dot_product_attention.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 3), make(2, 3, 3, seed=1), make(2, 3, 2, seed=2))
    yield sample(make(1, 3, 2), make(1, 3, 2, seed=1), make(1, 3, 2, seed=2), is_causal=True)
    yield sample(make(1, 2, 3), make(1, 3, 3, seed=1), make(1, 3, 2, seed=2), make(2, 3, seed=3), scale=0.5)
    unseen = np.array([[True, False, True], [False, False, False]])
    yield sample(make(1, 2, 3), make(1, 3, 3, seed=1), make(1, 3, 2, seed=2), unseen, note="a row that sees nothing")
    far = np.where(unseen, 0, -np.inf).astype(np.float32)
    yield sample(make(1, 2, 3), make(1, 3, 3, seed=1), make(1, 3, 2, seed=2), far, note="by -inf", grad=False)
