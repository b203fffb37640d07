"""Attention: the composite that users call, and the operators that GPUs compute without the matrix of scores.

Note [Attention without scores in memory]
    On a GPU `scaled_dot_product_attention` is `_attend` where that has a kernel: for tensors of one batch without
    dropout. It keeps the logsumexp of each query's scores, from which `_attend_backward` computes weights again, tile
    by tile. The bodies here do the same for some queries at a time. A mask's own gradient is computed as a matrix.

Note [Attention, three times]
    With s the scale, S = s * q @ k.T + mask, L the logsumexp, g the gradient of the result, D its `rowsum`:

        P = exp(S - L),  Z = P * (g @ v.T - D)                      the weights, the gradient of the scores
        by_q, by_k, by_v = s * Z @ k,  s * Z.T @ q,  P.T @ g

    L and D are operands like any other, though they are made of q, k, v and g: what follows from that is the business
    of those who made them. The gradients a, b, c of the three results then come to, as matrices, by plain operators:

        Y = s * (a @ k.T + q @ b.T),  U = P * Y                     of Z, and of g @ v.T
        R = Y * Z + P * (g @ c.T)                                   of S
        g: U @ v + P @ c     q: s * (R @ k + Z @ b)     k: s * (R.T @ q + Z.T @ a)     v: U.T @ g
        L: -rowsum(R)        D: -rowsum(U)              mask: R
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jit.ir.dtypes import DType, float16, float32, float64, from_numpy
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite
from jit.ir.precision import LOWER
from jit.ir.samples import Sample, make, sample
from jit.ir.scalars import square_root
from jit.ir.types import UNDEFINED, TensorType, Type

from .common import accumulation, surely_same
from .views import sum_to

if TYPE_CHECKING:
    from .protocols import Array, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value


# -- numbers -----------------------------------------------------------------------------------------------------

ROWS = 128
"""The queries whose scores the bodies hold at a time."""


def _blocks(queries: int) -> Iterator[slice]:
    return (slice(start, min(start + ROWS, queries)) for start in range(0, queries, ROWS))


def _scores_of(
    m: Numpy, rows: slice, query: Array, key: Array, attn_mask: Array | None, is_causal: bool, scale: float
) -> Array:
    """The scores of some queries; -inf where they see no key."""
    scores = m.matmul(query[..., rows, :], m.swapaxes(key, -1, -2)) * scale
    if is_causal:
        seen = m.arange(rows.start, rows.stop)[:, None] >= m.arange(scores.shape[-1])
        scores = m.where(seen, scores, -math.inf)
    if attn_mask is None:
        return scores
    mask = attn_mask[..., rows, :] if attn_mask.ndim > 1 and attn_mask.shape[-2] > 1 else attn_mask
    return m.where(mask, scores, -math.inf) if mask.dtype.kind == "b" else scores + mask


# -- the operators -----------------------------------------------------------------------------------------------


def _flops(out: KnownType, query: KnownType, key: KnownType) -> int:
    """The operations of both products."""
    assert query.sizes is not None and key.sizes is not None
    return 2 * query.numel * key.sizes[-2] + 2 * out.numel * key.sizes[-2]


@array("aten::_attend(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float scale, "
       "ScalarType dtype) -> (Tensor, Tensor)",
       kernel=Kernel(step="attention", product="matrices", flops=_flops), differentiable=(0, 1),
       namespaces=())  # fmt: skip
def _attend(
    m: Numpy, query: Array, key: Array, value: Array, attn_mask: Array | None, is_causal: bool, scale: float,
    dtype: DType,
) -> Sequence[Array]:  # fmt: skip
    """(softmax(scale * query @ key.T + mask) @ value, the logsumexp of each query's scores), of one batch.

    A query that sees no key gets zeros and inf, with which its weights exp(score - logsumexp) are zeros, too. `dtype`
    is that of the result, as of the operands; the logsumexp of 16-bit floats is float32.
    """
    rows = query.shape[:-1]
    out, logsumexp = m.empty((*rows, value.shape[-1]), dtype.numpy), m.empty(rows, query.dtype)
    for rows in _blocks(query.shape[-2]):
        scores = _scores_of(m, rows, query, key, attn_mask, is_causal, scale)
        top = m.max(scores, axis=-1, keepdims=True)
        top = m.where(top == -math.inf, 0, top)
        powers = m.exp(scores - top)
        total = m.sum(powers, axis=-1, keepdims=True)
        divisor = m.where(total == 0, 1, total)
        out[..., rows, :] = m.matmul(powers / divisor, value)
        logsumexp[..., rows] = m.where(total == 0, math.inf, top + m.log(divisor))[..., 0]
    return out, logsumexp


@_attend.type
def _(
    query: KnownType, key: KnownType, value: KnownType, attn_mask: KnownType | None, is_causal: bool, scale: float,
    dtype: DType,
) -> Sequence[Type]:  # fmt: skip
    if query.shape[:-2] != key.shape[:-2] or key.shape[:-1] != value.shape[:-1] or query.shape[-1] != key.shape[-1]:
        sizes = ", ".join(str(list(t.shape)) for t in (query, key, value))
        raise ShapeError(f"_attend: query, key and value should be of one batch, got the sizes {sizes}")
    out = TensorType(dtype, (*query.shape[:-1], value.shape[-1]), None, query.device)
    return out, TensorType(from_numpy(accumulation(query.dtype)), query.shape[:-1], None, query.device)


@_attend.grad
def _(
    F: Ops, g: Sequence[Tensor | None], needs: Sequence[bool], out: Sequence[Tensor], query: Tensor, key: Tensor,
    value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    """The gradient of logsumexp counts as if it had been subtracted from the sums of rows."""
    by_out = F.zeros_like(out[0]) if g[0] is None else g[0]
    rowsum = F.sum(_wide(F, by_out) * _wide(F, out[0]), [-1])
    rowsum = rowsum if g[1] is None else rowsum - g[1]
    wanted = [bool(n) for n in needs[:3]]
    found = F._attend_backward(by_out, query, key, value, out[1], rowsum, attn_mask, is_causal, scale, wanted)
    if attn_mask is None or not needs[3]:
        return *found, None
    _, by_scores = _matrices(F, by_out, query, key, value, out[1], rowsum, attn_mask, is_causal, scale)
    return *found, _in_dtype_of(F, sum_to(F, by_scores, attn_mask.shape), attn_mask)


@_attend.onnx
def _(
    g: OnnxWriter, query: Value, key: Value, value: Value, attn_mask: Value | None, is_causal: bool, scale: float,
    dtype: DType,
) -> Sequence[Value]:  # fmt: skip
    wide = from_numpy(accumulation(query.dtype))
    scores = _onnx_scores(g, g.cast(query, wide), g.cast(key, wide), attn_mask, is_causal, scale)
    unseen = g.op("Equal", g.reduce("ReduceMax", scores, -1, True), g.constant(-math.inf, like=scores))
    weights = g.op("Where", unseen, g.constant(0, like=scores), g.op("Softmax", scores, axis=-1))
    logsumexp = g.reduce("ReduceLogSumExp", scores, -1, True)
    logsumexp = g.op("Squeeze", g.op("Where", unseen, g.constant(math.inf, like=scores), logsumexp), g.ints([-1]))
    return g.op("MatMul", g.cast(weights, value.dtype), value), logsumexp


def _onnx_turned(g: OnnxWriter, x: Value) -> Value:
    return g.op("Transpose", x, perm=[*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _onnx_scores(
    g: OnnxWriter, query: Value, key: Value, attn_mask: Value | None, is_causal: bool, scale: float
) -> Value:
    scores = g.op("MatMul", query, _onnx_turned(g, key))
    scores, least = g.op("Mul", scores, g.constant(scale, like=query)), g.constant(-math.inf, like=query)
    if is_causal:
        is_nan = g.op("IsNaN", scores)
        seen = g.op("Trilu", g.op("Or", is_nan, g.op("Not", is_nan)), g.constant(0, dtype="int64"), upper=0)
        scores = g.op("Where", seen, scores, least)
    if attn_mask is not None and attn_mask.dtype.name == "bool":
        return g.op("Where", attn_mask, scores, least)
    return scores if attn_mask is None else g.op("Add", scores, g.cast(attn_mask, query.dtype))


@_attend.samples
def _() -> Iterator[Sample]:
    operands = make(2, 2, 3), make(2, 3, 3, seed=1), make(2, 3, 2, seed=2)
    doubles = [array.astype(np.float64) for array in operands]
    yield sample(*doubles, None, False, 0.5, float64)
    yield sample(*doubles, None, True, 0.5, float64)
    yield sample(*doubles, make(2, 3, seed=3, dtype="float64"), False, 1.0, float64)
    unseen = np.array([[True, False, True], [False, False, False]])
    yield sample(*operands, unseen, False, 1.0, float32, note="a row unseen", grad=False)
    yield sample(*_halves(*operands), None, False, 0.5, float16, note="half", grad=False)


def _halves(*arrays: Array) -> list[Array]:
    return [array.astype(np.float16) for array in arrays]


def _flops_of_gradients(
    out: KnownType, query: KnownType, key: KnownType, value: KnownType, output_mask: Sequence[bool]
) -> int:
    """The operations of the scores, of the weights' gradient, and of what is asked for, each a product."""
    by_query, by_key, by_value = output_mask
    columns = query.sizes[-1] * (1 + by_query + by_key) + value.sizes[-1] * (1 + by_value)
    return int(2 * math.prod(query.sizes[:-1]) * key.sizes[-2] * columns)


@array("aten::_attend_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor logsumexp, Tensor rowsum, "
       "Tensor? attn_mask, bool is_causal, float scale, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
       kernel=Kernel(step="attention gradients", product="matrices", flops=_flops_of_gradients),
       differentiable=(0, 1, 2), namespaces=())  # fmt: skip
def _attend_backward(
    m: Numpy, grad: Array, query: Array, key: Array, value: Array, logsumexp: Array, rowsum: Array,
    attn_mask: Array | None, is_causal: bool, scale: float, output_mask: Sequence[bool],
) -> Sequence[Array | None]:  # fmt: skip
    """The gradients of `_attend` by query, key and value; `rowsum` is sum(grad * out) of each query."""
    found = [m.zeros_like(x) if wanted else None for x, wanted in zip((query, key, value), output_mask)]
    by_query, by_key, by_value = found
    for rows in _blocks(query.shape[-2]):
        scores, g = _scores_of(m, rows, query, key, attn_mask, is_causal, scale), grad[..., rows, :]
        weights = m.exp(scores - logsumexp[..., rows, None])
        if by_value is not None:
            by_value += m.matmul(m.swapaxes(weights, -1, -2), g)
        if by_query is by_key is None:
            continue
        by_scores = weights * (m.matmul(g, m.swapaxes(value, -1, -2)) - rowsum[..., rows, None]) * scale
        if by_query is not None:
            by_query[..., rows, :] = m.matmul(by_scores, key)
        if by_key is not None:
            by_key += m.matmul(m.swapaxes(by_scores, -1, -2), query[..., rows, :])
    return found


@_attend_backward.type
def _(
    grad: KnownType, query: KnownType, key: KnownType, value: KnownType, logsumexp: KnownType, rowsum: KnownType,
    attn_mask: KnownType | None, is_causal: bool, scale: float, output_mask: Sequence[bool],
) -> Sequence[Type]:  # fmt: skip
    types = [TensorType(x.dtype, x.shape, None, x.device) for x in (query, key, value)]
    return [t if wanted else UNDEFINED for t, wanted in zip(types, output_mask)]


@_attend_backward.grad
def _(
    F: Ops, g: Sequence[Tensor | None], needs: Sequence[bool], grad: Tensor, query: Tensor, key: Tensor, value: Tensor,
    logsumexp: Tensor, rowsum: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    """See Note [Attention, three times]."""
    p, z = _matrices(F, grad, query, key, value, logsumexp, rowsum, attn_mask, is_causal, scale)
    o, q, k, v = (_wide(F, x) for x in (grad, query, key, value))
    a, b, c = (None if x is None else _wide(F, x) for x in g)
    y = _times(_total(_product(F, a, _turned(F, k)), _product(F, q, _turned(F, b))), scale)
    u, r = _times(p, y), _total(_times(z, y), _times(p, _product(F, o, _turned(F, c))))
    found = [
        _total(_product(F, u, v), _product(F, p, c)),
        _times(_total(_product(F, r, k), _product(F, z, b)), scale),
        _times(_total(_product(F, _turned(F, r), q), _product(F, _turned(F, z), a)), scale),
        _product(F, _turned(F, u), o),
        None if r is None else -F.sum(r, [-1]),
        None if u is None else -F.sum(u, [-1]),
        None if r is None or attn_mask is None else sum_to(F, r, attn_mask.shape),
    ]
    likes = [grad, query, key, value, logsumexp, rowsum, attn_mask]
    return [
        None if x is None or like is None or not needed else _in_dtype_of(F, x, like)
        for x, needed, like in zip(found, needs, likes, strict=True)
    ]


@_attend_backward.onnx
def _(
    g: OnnxWriter, grad: Value, query: Value, key: Value, value: Value, logsumexp: Value, rowsum: Value,
    attn_mask: Value | None, is_causal: bool, scale: float, output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    scores = _onnx_scores(g, query, key, attn_mask, is_causal, scale)
    logsumexp, rowsum = (g.op("Unsqueeze", g.cast(x, query.dtype), g.ints([-1])) for x in (logsumexp, rowsum))
    weights = g.op("Exp", g.op("Sub", scores, logsumexp))
    by_weights = g.op("Sub", g.op("MatMul", grad, _onnx_turned(g, value)), rowsum)
    by_scores = g.op("Mul", g.op("Mul", weights, by_weights), g.constant(scale, like=query))
    by_query, by_key, by_value = output_mask
    return (
        g.op("MatMul", by_scores, key) if by_query else None,
        g.op("MatMul", _onnx_turned(g, by_scores), query) if by_key else None,
        g.op("MatMul", _onnx_turned(g, weights), grad) if by_value else None,
    )


@_attend_backward.samples
def _() -> Iterator[Sample]:
    operands = make(2, 2, 2, seed=5), make(2, 2, 3), make(2, 3, 3, seed=1), make(2, 3, 2, seed=2)
    rows = make(2, 2, seed=6), make(2, 2, seed=7)
    yield sample(*operands, *rows, None, False, 0.5, [True, True, True])
    yield sample(*operands, *rows, None, True, 0.5, [True, False, True])
    yield sample(*operands, *rows, make(2, 3, seed=3), False, 1.0, [False, True, False])
    unseen = np.array([[True, False, True], [False, False, False]])
    yield sample(*operands, *rows, unseen, False, 1.0, [True, True, True], note="a row unseen")
    yield sample(*_halves(*operands), *rows, None, False, 0.5, [True, True, True], note="half", grad=False)


# -- matrices of weights -----------------------------------------------------------------------------------------


def _matrices(
    F: Ops, grad: Tensor, query: Tensor, key: Tensor, value: Tensor, logsumexp: Tensor, rowsum: Tensor,
    attn_mask: Tensor | None, is_causal: bool, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(the weights, the gradient of the scores), in operators that have derivatives themselves."""
    grad, query, key, value = (_wide(F, x) for x in (grad, query, key, value))
    scores = _scores(F, query, key, attn_mask, is_causal, scale)
    weights = F.exp(scores - F.unsqueeze(logsumexp, -1))
    by_weights = F.matmul(grad, F.transpose(value, -2, -1))
    return weights, weights * (by_weights - F.unsqueeze(rowsum, -1))


def _wide(F: Ops, x: Tensor) -> Tensor:
    return F._to_copy(x, dtype=float32) if x.dtype.is_half else x


def _in_dtype_of(F: Ops, x: Tensor, like: Tensor) -> Tensor:
    return x if x.dtype is like.dtype else F._to_copy(x, dtype=like.dtype)


def _turned(F: Ops, x: Tensor | None) -> Tensor | None:
    return None if x is None else F.transpose(x, -2, -1)


def _product(F: Ops, x: Tensor | None, y: Tensor | None) -> Tensor | None:
    return None if x is None or y is None else F.matmul(x, y)


def _times(x: Tensor | None, y: Tensor | float | None) -> Tensor | None:
    return None if x is None or y is None else x * y


def _total(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    return y if x is None else x if y is None else x + y


# -- the composite -----------------------------------------------------------------------------------------------


def _weights(F: Ops, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    """The share of each key in each query's result."""
    return F._safe_softmax(_scores(F, query, key, mask, is_causal, scale), -1)


def _scores(F: Ops, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: float) -> Tensor:
    """The scores; -inf where a query does not see a key."""
    scores = F.matmul(query * scale, F.transpose(key, -2, -1))
    if is_causal:
        mask = F.tril(F.ones([query.shape[-2], key.shape[-2]], dtype="bool", device=query.device))
    if mask is None:
        return scores
    bias = F.where(mask, 0.0, -math.inf) if mask.dtype.name == "bool" else mask
    return scores + _in_dtype_of(F, bias, scores)


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
        return F._attend(query, key, value, attn_mask, is_causal, factor, query.dtype)[0]
    weights = _weights(F, query, key, attn_mask, is_causal, factor)
    return F.matmul(F.dropout(weights, dropout_p, True) if dropout_p > 0 else weights, value)


@scaled_dot_product_attention.numpy
def _(
    m: Numpy, query: Array, key: Array, value: Array, attn_mask: Array | None, dropout_p: float, is_causal: bool,
    scale: float | None, enable_gqa: bool,
) -> Array | None:  # fmt: skip
    """Batches of the same sizes, without a mask and dropout."""
    if attn_mask is not None or is_causal or dropout_p > 0 or enable_gqa or 0 in (*query.shape, *key.shape):
        return None
    if query.ndim < 3 or query.shape[:-2] != key.shape[:-2] or query.shape[-1] != key.shape[-1]:
        return None
    if key.shape[:-1] != value.shape[:-1] or not value.size:
        return None
    weights = _weights_of(m, query * _factor(query, scale), key)
    return _batches(m, weights, value).reshape(*query.shape[:-1], value.shape[-1])


@scaled_dot_product_attention.whole_grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], query: Tensor, key: Tensor, value: Tensor, scale: float | None
) -> Sequence[Tensor | None]:
    """The weights are computed again."""
    factor = _factor(query, scale)
    scaled = query * factor
    weights = F._safe_softmax(F.matmul(scaled, F.transpose(key, -2, -1)), -1)
    by_weights = F.matmul(g, F.transpose(value, -2, -1))
    by_scores = F._softmax_backward_data(by_weights, weights, -1, weights.dtype)
    by_query = F.matmul(by_scores, key) * factor if needs[0] else None
    by_key = F.matmul(F.transpose(by_scores, -2, -1), scaled) if needs[1] else None
    return by_query, by_key, F.matmul(F.transpose(weights, -2, -1), g) if needs[2] else None, None


def _factor(query: Array | Tensor, scale: float | None) -> float:
    return 1 / square_root(query.shape[-1]) if scale is None else scale


def _batches(m: Numpy, left: Array, right: Array) -> Array:
    """The products of two batches of matrices, whatever the dims in front."""
    return m.matmul(left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:]))


def _weights_of(m: Numpy, scaled: Array, key: Array) -> Array:
    """`_weights` without a mask, as one batch of matrices."""
    scores = _batches(m, scaled, m.swapaxes(key, -1, -2))
    top = m.max(scores, axis=-1, keepdims=True)
    scores -= m.where(top == -math.inf, 0, top)
    powers = m.exp(scores)
    total = m.sum(powers, axis=-1, keepdims=True)
    powers /= m.where(total == 0, 1, total)
    return powers


@scaled_dot_product_attention.onnx
def _(
    g: OnnxWriter, query: Value, key: Value, value: Value, attn_mask: Value | None, dropout_p: float, is_causal: bool,
    scale: float | None, enable_gqa: bool,
) -> Value:  # fmt: skip
    """One node where there is a kernel for it and every query sees a key: it gives NaN, or a mean, to one that sees
    none, which is to have zeros."""
    same = query.dtype is key.dtype is value.dtype and query.ndim == key.ndim == value.ndim == 4
    same = same and surely_same(key.shape[:2], value.shape[:2]) and surely_same(key.shape[:1], query.shape[:1])
    same = same and (enable_gqa or surely_same(key.shape[:2], query.shape[:2]))
    if attn_mask is not None or dropout_p > 0 or not same or not g.runs("Attention", query.dtype):
        raise g.unsupported("it is written as its parts")
    return g.op("Attention", query, key, value, scale=scale, is_causal=int(is_causal))


@scaled_dot_product_attention.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 3), make(2, 3, 3, seed=1), make(2, 3, 2, seed=2))
    yield sample(make(1, 3, 2), make(1, 3, 2, seed=1), make(1, 3, 2, seed=2), is_causal=True)
    yield sample(make(1, 2, 3), make(1, 3, 3, seed=1), make(1, 3, 2, seed=2), make(2, 3, seed=3), scale=0.5)
    unseen = np.array([[True, False, True], [False, False, False]])
    yield sample(make(1, 2, 3), make(1, 3, 3, seed=1), make(1, 3, 2, seed=2), unseen, note="a row that sees nothing")
    far = np.where(unseen, 0, -np.inf).astype(np.float32)
    yield sample(make(1, 2, 3), make(1, 3, 3, seed=1), make(1, 3, 2, seed=2), far, note="by -inf", grad=False)
