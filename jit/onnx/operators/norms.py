"""Normalisations and softmaxes."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.ir.dtypes import float32
from jit.nn import functional as NN

from ..table import Numbers, Tensor, operator

# -- softmax -------------------------------------------------------------------------------------------------------


def _as_rows(x: Tensor, axis: int) -> Tensor:
    axis %= max(x.ndim, 1)
    return F.reshape(x, (math.prod(x.shape[:axis]) if axis else 1, -1))


def _softmax(name: str, aten: str) -> None:
    @operator(name, since=1)
    def of_rows(x: Tensor, *, axis: int = 1) -> Tensor:
        return F.reshape(getattr(NN, aten)(_as_rows(x, axis), 1), x.shape)

    @operator(name, since=13)
    def along(x: Tensor, *, axis: int = -1) -> Tensor:
        return getattr(NN, aten)(x, axis)


_softmax("Softmax", "softmax")
_softmax("LogSoftmax", "log_softmax")


def _hardmax(x: Tensor, axis: int) -> Tensor:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    places = F.reshape(F.arange(0, x.shape[axis], 1), shape)
    return F.eq(F.argmax(x, axis, True), places).to(x.dtype)


@operator("Hardmax", since=1)
def hardmax_of_rows(x: Tensor, *, axis: int = 1) -> Tensor:
    return F.reshape(_hardmax(_as_rows(x, axis), 1), x.shape)


@operator("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return _hardmax(x, axis)


# -- over batches and channels -------------------------------------------------------------------------------------


@operator("BatchNormalization")
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, spatial: int = 1, is_test: int = 0, outputs: int, version: int,
) -> Any:  # fmt: skip
    if not training_mode or version < 14:
        return F.batch_norm(x, scale, bias, mean, var, False, 0.0, epsilon, False)
    dims = [d for d in range(x.ndim) if d != 1]
    own_mean, own_var = F.mean(x, dims), F.var(x, dims, correction=0)
    y = F.batch_norm(x, scale, bias, None, None, True, 0.0, epsilon, False)
    running = (mean * momentum + own_mean * (1 - momentum), var * momentum + own_var * (1 - momentum))
    return (y, *running)[:outputs]


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return F.instance_norm(x, scale, bias, None, None, True, 0.0, epsilon, False)


@operator("GroupNormalization", since=18)
def group_norm_of_groups(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int) -> Tensor:
    each = x.shape[1] // num_groups
    return F.group_norm(x, num_groups, F.repeat_interleave(scale, each), F.repeat_interleave(bias, each), epsilon)


@operator("GroupNormalization", since=21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    outputs: int,
) -> Any:  # fmt: skip
    axis %= x.ndim
    shape = list(x.shape[axis:])
    plain = list(scale.shape) == shape and (bias is None or list(bias.shape) == shape)
    if plain:
        y = F.layer_norm(x, shape, scale, bias, epsilon)
    else:
        y = F.layer_norm(x, shape, None, None, epsilon) * scale
        y = y if bias is None else y + bias
    if outputs == 1:
        return y
    dims = list(range(axis, x.ndim))
    wide = x.to(float32) if x.dtype.is_half else x
    mean = F.mean(wide, dims, True)
    deviation = F.rsqrt(F.var(wide, dims, correction=0, keepdim=True) + epsilon)
    return (y, mean, deviation)[:outputs]


@operator("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    shape = list(x.shape[axis % x.ndim :])
    if list(scale.shape) == shape:
        return F.rms_norm(x, shape, scale, epsilon)
    return F.rms_norm(x, shape, None, epsilon) * scale


@operator("LRN")
def lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    before, after = (size - 1) // 2, size // 2
    flat = [0, 0] * (x.ndim - 2) + [before, after]
    squares = F.constant_pad_nd(x * x, flat, 0)
    total = F.sum(F.unfold(squares, 1, size, 1), [-1])
    return x / F.pow(bias + alpha / size * total, beta)


@operator("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = F.sum(F.abs(x), [axis], True) if p == 1 else F.sqrt(F.sum(x * x, [axis], True))
    return x / F.where(F.eq(norm, 0), F.ones_like(norm), norm)


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, axes: Numbers | None) -> Tensor:
    dims = [0, 2, 3] if axes is None else axes
    centred = x - F.mean(x, dims, True)
    return centred / (F.sqrt(F.mean(centred * centred, dims, True)) + 1e-9)
