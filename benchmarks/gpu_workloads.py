"""Workloads for GPUs alone: products with what follows them, convolutions of ResNet, attention; in 16-bit floats, too.

The CPU's benchmarks leave them out: they are too large there, and torch has slow kernels of 16-bit floats for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads import Arrays, Workload

GPU_WORKLOADS: dict[str, Workload] = {}
DTYPES = {"f16": np.float16, "f32": np.float32}


def _add(name: str, function: Callable[..., Any], shapes: list[tuple[int, ...]], flops: int, **facts: Any) -> None:
    """A workload in each dtype."""
    for suffix, dtype in DTYPES.items():

        def inputs(rng: np.random.Generator, dtype: Any = dtype) -> Arrays:
            return [(rng.standard_normal(shape) * 0.1).astype(dtype) for shape in shapes]

        full = f"gpu_{name}_{suffix}"
        GPU_WORKLOADS[full] = Workload(full, function, inputs, flops=flops, **facts)


def _layer(t: Any, x: Any, w: Any, b: Any) -> Any:
    return t.relu(t.matmul(x, w) + b)


def _residual(t: Any, x: Any, w: Any, r: Any) -> Any:
    return t.tanh(t.matmul(x, w)) + r


for rows, inner, columns in ((4096, 1024, 4096), (8192, 64, 1024), (128, 4096, 4096)):
    sizes = [(rows, inner), (inner, columns)]
    _add(f"layer_{rows}x{inner}x{columns}", _layer, [*sizes, (columns,)], 2 * rows * inner * columns)
    _add(f"residual_{rows}x{inner}x{columns}", _residual, [*sizes, (rows, columns)], 2 * rows * inner * columns)

RESNET = {
    "stem": ((32, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "layer1": ((32, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    "layer2_first": ((32, 128, 56, 56), (128, 128, 3, 3), 2, 1),
    "layer3": ((32, 256, 14, 14), (256, 256, 3, 3), 1, 1),
    "layer4_wide": ((32, 512, 7, 7), (2048, 512, 1, 1), 1, 0),
}
"""(image, kernel, stride, padding) of layers of ResNet-50."""


def _convolutions(name: str) -> None:
    image, kernel, stride, padding = RESNET[name]
    places = ((image[2] + 2 * padding - kernel[2]) // stride + 1) ** 2
    flops = 2 * image[0] * places * int(np.prod(kernel))

    def forward(t: Any, x: Any, w: Any) -> Any:
        return t.relu(t.conv2d(x, w, stride=stride, padding=padding))

    def loss(t: Any, x: Any, w: Any) -> Any:
        y = t.conv2d(x, w, stride=stride, padding=padding)
        return t.sum(y * y)

    _add(f"conv_{name}", forward, [image, kernel], flops)
    _add(f"conv_{name}_gradients", loss, [image, kernel], 3 * flops, gradients=(0, 1))


for layer in RESNET:
    _convolutions(layer)


def _attention(t: Any, q: Any, k: Any, v: Any) -> Any:
    return t.attention(q, k, v)


def _attention_loss(t: Any, q: Any, k: Any, v: Any) -> Any:
    y = t.attention(q, k, v, is_causal=True)
    return t.sum(y * y)


for length in (512, 2048):
    work, operands = 4 * 128 * length * length * 64, [(16, 8, length, 64)] * 3
    _add(f"attention_{length}", _attention, operands, work)
    _add(f"attention_{length}_gradients", _attention_loss, operands, 3 * work, gradients=(0, 1, 2))
