"""Inputs to try an operator on, the awkward ones included: every op's `samples` facet yields `Sample`s.

Tensors are numpy arrays here; the tests turn them into whatever an engine wants. Families share the generators below.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np


@dataclass
class Sample:
    """One call: positional and keyword arguments, arrays for tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    """The awkward thing about it: "0-d", "empty", "strided", "nan", ..."""
    grad: bool = True
    """Whether derivatives may be checked here (False at kinks and for special values)."""
    onnx: bool = True
    """Whether ONNX defines the same result (False e.g. for empty reductions)."""


def sample(*args: Any, note: str = "", grad: bool = True, onnx: bool = True, **kwargs: Any) -> Sample:
    """A `Sample` of the call with these arguments."""
    return Sample(args, kwargs, note, grad, onnx)


def make(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float32, seed: int = 0) -> Any:
    """A seeded array of uniform numbers in [low, high); integers and bools as the dtype says."""
    rng = np.random.default_rng(zlib.crc32(repr((shape, low, high, str(dtype), seed)).encode()))
    if np.dtype(dtype) == np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if np.issubdtype(dtype, np.integer):
        return np.asarray(rng.integers(int(low), int(high) + 1, shape)).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        return np.asarray(rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)


def whole(*shape: int, low: int = -9, high: int = 9, dtype: Any = np.int64, seed: int = 0) -> Any:
    """`make` of whole numbers, `high` among them."""
    return make(*shape, low=low, high=high, dtype=dtype, seed=seed)


def strided(array: Any) -> Any:
    """The same numbers with a gap between the elements of each row and dims in reversed memory order."""
    spread = np.zeros((*array.shape[::-1], 2), array.dtype)
    spread[..., 0] = array.T
    return spread[..., 0].T


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38], np.float32)


def unary(
    low: float = -2.0, high: float = 2.0, special: bool = True, integers: bool = True, double: bool = True
) -> Callable[[], Iterable[Sample]]:
    """Samples of a pointwise function of one tensor, values in [low, high).

    `double=False` for functions whose ONNX operator has no float64 kernel in onnxruntime.
    """

    def samples() -> Iterator[Sample]:
        yield sample(make(3, 4, low=low, high=high))
        yield sample(make(low=low, high=high), note="0-d")
        yield sample(make(0, 3, low=low, high=high), note="empty")
        yield sample(strided(make(3, 5, low=low, high=high)), note="strided")
        yield sample(make(7, low=low, high=high, dtype=np.float64), note="float64", onnx=double)
        yield sample(make(7, low=low, high=high, dtype=np.float16), note="half", grad=False)
        yield sample(make(7, low=low, high=high).astype(ml_dtypes.bfloat16), note="bfloat16", grad=False, onnx=False)
        if integers:
            yield sample(make(5, low=np.ceil(low), high=np.floor(high), dtype=np.int64), note="integer", grad=False)
        if special:
            yield sample(SPECIAL.copy(), note="special", grad=False)

    return samples


def binary(
    low: float = -2.0, high: float = 2.0, other_low: float | None = None, other_high: float | None = None,
    special: bool = True, integers: bool = True,
) -> Callable[[], Iterable[Sample]]:  # fmt: skip
    """Samples of a pointwise function of two tensors, broadcast, mixed in dtype, and with a number."""
    low2, high2 = low if other_low is None else other_low, high if other_high is None else other_high

    def second(*shape: int, dtype: Any = np.float32) -> Any:
        return make(*shape, low=low2, high=high2, dtype=dtype, seed=1)

    def samples() -> Iterator[Sample]:
        yield sample(make(3, 4, low=low, high=high), second(3, 4))
        yield sample(make(3, 1, low=low, high=high), second(4), note="broadcast")
        yield sample(make(low=low, high=high), second(2, 3), note="0-d")
        yield sample(make(0, 3, low=low, high=high), second(1, 3), note="empty")
        yield sample(strided(make(3, 5, low=low, high=high)), second(3, 5), note="strided")
        yield sample(make(4, low=low, high=high), (low2 + high2) / 2 + 0.25, note="number")
        yield sample(make(4, low=low, high=high), second(4, dtype=np.float64), note="mixed dtypes")
        half = make(4, low=low, high=high, dtype=np.float16)
        yield sample(half, second(4, dtype=np.float16), note="half", grad=False)
        if integers:
            first = make(5, low=np.ceil(low), high=np.floor(high), dtype=np.int64)
            other = make(5, low=np.ceil(low2), high=np.floor(high2), dtype=np.int64, seed=1)
            yield sample(first, other, note="integer", grad=False)
        if special:
            yield sample(SPECIAL.copy(), SPECIAL[::-1].copy(), note="special", grad=False)

    return samples
