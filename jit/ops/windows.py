"""Windows: weights that fade a stretch of a signal in and out. Hann's and Hamming's stand with the new tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jit.ir import dtypes
from jit.ir.op import absent, composite
from jit.ir.samples import Sample, sample

from .creation import NEW, require_floating_window

if TYPE_CHECKING:
    from jit.ir.dtypes import DType

    from .protocols import Ops, Tensor


def _places(F: Ops, length: int, periodic: bool, dtype: DType | None, device: str | None) -> Tensor | None:
    """Places t from 0 to 1 over the window, in float64; None where the window is a single 1 or empty."""
    require_floating_window(dtype)
    if length <= 1:
        return None
    steps = F.arange(0, length, 1, dtype=dtypes.float64, device=device)
    return steps / (length if periodic else length - 1)


def _window(F: Ops, length: int, dtype: DType | None, device: str | None, values: Tensor | None) -> Tensor:
    result = dtype or dtypes.DEFAULT
    return F.ones((length,), dtype=result, device=device) if values is None else F._to_copy(values, dtype=result)


@composite(f"aten::bartlett_window(int window_length, bool periodic=True, {NEW}", namespaces=("jit",))
def bartlett_window(F: Ops, window_length: int, periodic: bool, dtype: DType | None, device: str | None) -> Tensor:
    """Bartlett's window, a triangle that is 0 at its ends."""
    at = _places(F, window_length, periodic, dtype, device)
    return _window(F, window_length, dtype, device, None if at is None else 1 - F.abs(at * 2 - 1))


@composite(f"aten::blackman_window(int window_length, bool periodic=True, {NEW}", namespaces=("jit",))
def blackman_window(F: Ops, window_length: int, periodic: bool, dtype: DType | None, device: str | None) -> Tensor:
    """Blackman's window, 0.42 - 0.5 * cos(2 pi t) + 0.08 * cos(4 pi t) for t from 0 to 1."""
    at = _places(F, window_length, periodic, dtype, device)
    if at is not None:
        at = 0.42 - 0.5 * F.cos(at * (2 * math.pi)) + 0.08 * F.cos(at * (4 * math.pi))
    return _window(F, window_length, dtype, device, at)


@composite(f"aten::kaiser_window(int window_length, bool periodic=True, float beta=12.0, {NEW}", namespaces=("jit",),
           onnx=absent("ONNX has no Bessel functions"))  # fmt: skip
def kaiser_window(
    F: Ops, window_length: int, periodic: bool, beta: float, dtype: DType | None, device: str | None
) -> Tensor:
    """Kaiser's window, i0(beta * sqrt(1 - (2 t - 1) ** 2)) / i0(beta) for t from 0 to 1."""
    at = _places(F, window_length, periodic, dtype, device)
    if at is not None:
        inside = F.clamp_min(1 - F.square(at * 2 - 1), 0)
        at = F.i0(beta * F.sqrt(inside)) / F.i0(F.full([], beta, dtype=dtypes.float64))
    return _window(F, window_length, dtype, device, at)


@bartlett_window.samples
@blackman_window.samples
def _() -> Iterator[Sample]:
    yield sample(5)
    yield sample(6, False)
    yield sample(1, note="one")
    yield sample(0, note="empty")
    yield sample(4, dtype=dtypes.float64)


@kaiser_window.samples
def _() -> Iterator[Sample]:
    yield sample(5, onnx=False)
    yield sample(6, False, 8.0, dtype=dtypes.float64, onnx=False)
