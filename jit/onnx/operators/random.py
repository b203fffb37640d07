"""Random numbers, by this package's generators: the default one, or one that begins with the node's `seed`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.eager.generators import Generator
from jit.eager.namespace import F
from jit.export.opsets import DTYPES
from jit.ir.dtypes import DType, float32

from ..table import Tensor, operator
from ..values import Known, tensor_dtype


def _generator(seed: float | None) -> Generator | None:
    """A generator that draws the same at each call of the model."""
    return None if seed is None else Generator().manual_seed(int(np.float32(seed).view(np.uint32)))


def _like(x: Any, dtype: int | None) -> tuple[Any, DType]:
    """The sizes and the dtype of what is drawn."""
    sizes, own = (x.array.shape, tensor_dtype(x.dtype)) if isinstance(x, Known) else (x.shape, x.dtype)
    return sizes, DTYPES[dtype] if dtype else own


def _normal(shape: Any, dtype: DType, mean: float, scale: float, seed: float | None) -> Tensor:
    return F.randn(shape, dtype=dtype, generator=_generator(seed)) * scale + mean


def _uniform(shape: Any, dtype: DType, low: float, high: float, seed: float | None) -> Tensor:
    return F.rand(shape, dtype=dtype, generator=_generator(seed)) * (high - low) + low


@operator("RandomNormal")
def random_normal(
    *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return _normal(shape, DTYPES[dtype], mean, scale, seed)


@operator("RandomNormalLike")
def random_normal_like(
    x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return _normal(*_like(x, dtype), mean, scale, seed)


@operator("RandomUniform")
def random_uniform(
    *, shape: Any, dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    return _uniform(shape, DTYPES[dtype], low, high, seed)


@operator("RandomUniformLike")
def random_uniform_like(
    x: Any, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Tensor:
    return _uniform(*_like(x, dtype), low, high, seed)


@operator("Multinomial", since=7)
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    shares = F.softmax(x.to(float32) if x.dtype.itemsize < 4 else x, -1)
    return F.multinomial(shares, sample_size, True, generator=_generator(seed)).to(DTYPES[dtype])


@operator("Bernoulli", since=15)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    drawn = F.bernoulli(x, generator=_generator(seed))
    return drawn.to(DTYPES[dtype]) if dtype else drawn
