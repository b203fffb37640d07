"""What group normalisation, batch normalisation with statistics of its own, and normed weights should compute."""

from typing import Any

import numpy as np

from tests.ops.references.arrays import batch_norm, group_norm


def native_group_norm(x: Any, weight: Any, bias: Any, n: int, c: int, hw: int, groups: int, eps: float) -> Any:
    if x.size == 0:
        return x, np.zeros((n, groups)), np.zeros((n, groups))
    rows = x.reshape(n, groups, -1)
    return group_norm(x, groups, weight, bias, eps, True), rows.mean(2), 1 / np.sqrt(rows.var(2) + eps)


def native_group_norm_backward(
    g: Any, x: Any, mean: Any, r: Any, weight: Any, n: int, c: int, hw: int, groups: int, mask: Any
) -> Any:
    """One sample and group after the other: the formula holds whatever the statistics are."""
    by_x, by_w, by_b = np.zeros(x.shape), np.zeros(c), np.zeros(c)
    w = np.ones(c) if weight is None else weight
    for sample in range(n):
        for group, channels in enumerate(np.split(np.arange(c), groups)):
            x_hat = (x[sample, channels] - mean[sample, group]) * r[sample, group]
            grad = g[sample, channels]
            h = np.stack([grad[i] * w[channel] for i, channel in enumerate(channels)])
            by_x[sample, channels] = r[sample, group] * (h - np.mean(h) - x_hat * np.mean(h * x_hat))
            by_w[channels] += (grad * x_hat).reshape(len(channels), -1).sum(1)
            by_b[channels] += grad.reshape(len(channels), -1).sum(1)
    return [part if wanted else None for part, wanted in zip((by_x, by_w, by_b), mask, strict=True)]


def rows_of(v: Any, dim: int) -> Any:
    return v.reshape(1, -1) if dim == -1 else np.moveaxis(v, dim, 0).reshape(v.shape[dim], -1)


def norm_except_dim(v: Any, power: int, dim: int) -> Any:
    norms = (np.abs(rows_of(v, dim)) ** power).sum(1) ** (1 / power)
    return norms[0] if dim == -1 else norms.reshape([-1 if d == dim % v.ndim else 1 for d in range(v.ndim)])


REFERENCES: dict[str, Any] = {
    "aten::native_group_norm": native_group_norm,
    "aten::native_group_norm_backward": native_group_norm_backward,
    "aten::_native_batch_norm_legit": batch_norm,
    "aten::_native_batch_norm_legit.no_stats": lambda x, weight, bias, training, momentum, eps: batch_norm(
        x, weight, bias, None, None, True, momentum, eps
    ),
    "aten::_native_batch_norm_legit_no_training": lambda x, weight, bias, mean, var, momentum, eps: batch_norm(
        x, weight, bias, mean, var, False, momentum, eps
    ),
    "aten::norm_except_dim": norm_except_dim,
    "aten::_weight_norm": lambda v, g, dim: v * (g / norm_except_dim(v, 2, dim)),
}
