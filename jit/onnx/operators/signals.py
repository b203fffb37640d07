"""Fourier transforms, and what goes with them: windows and mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.eager.namespace import F
from jit.export.opsets import DTYPES
from jit.ir.dtypes import DType, float32, float64
from jit.ir.errors import ModelError

from ..table import Number, Tensor, operator
from ..values import Known
from .casts import numpy_dtype

# -- transforms ----------------------------------------------------------------------------------------------------


def _signal(x: Tensor) -> Tensor:
    """The numbers of a signal; ONNX has complex ones as pairs along the last dim."""
    wide = x if x.dtype.itemsize >= 4 else x.float()
    if wide.shape[-1] == 1:
        return F.select(wide, -1, 0)
    if wide.shape[-1] != 2:
        raise ModelError(f"the last dim of a signal has one element or two, not {wide.shape[-1]}")
    return F.complex(F.select(wide, -1, 0), F.select(wide, -1, 1))


@operator("DFT", since=17)
def dft(x: Tensor, dft_length: Number | None, axis: Number | None, *, inverse: int = 0, onesided: int = 0) -> Tensor:
    dim = int(-2 if axis is None else axis) % x.ndim
    if dim == x.ndim - 1:
        raise ModelError("DFT runs along a dim before the last, which has the parts of complex numbers")
    signal = _signal(x)
    if inverse and onesided:
        return F.unsqueeze(F.fft_irfft(signal, dft_length, dim), -1).to(x.dtype)
    found = F.fft_ifft(signal, dft_length, dim) if inverse else _spectrum(signal, dft_length, dim, bool(onesided))
    return F.view_as_real(found).to(x.dtype)


def _spectrum(signal: Tensor, length: Any, dim: int, onesided: bool) -> Tensor:
    """Complex frequencies; those up to half the rate if `onesided`."""
    if onesided and not signal.dtype.is_complex:
        return F.fft_rfft(signal, length, dim)
    found = F.fft_fft(signal, length, dim)
    return F.narrow(found, dim, 0, found.shape[dim] // 2 + 1) if onesided else found


@operator("STFT", since=17)
def stft(
    x: Tensor, frame_step: Number, window: Tensor | None, frame_length: Number | None, *, onesided: int = 1
) -> Tensor:
    signal = _signal(x)
    whole = signal.shape[1] if window is None else window.shape[0]
    length = whole if frame_length is None else frame_length
    places: Any = (1, length, frame_step)
    frames = signal.unfold(*places)
    if window is not None:
        frames = frames * window.to(signal.dtype if not signal.dtype.is_complex else window.dtype)
    return F.view_as_real(_spectrum(frames, length, 2, bool(onesided))).to(x.dtype)


# -- windows -------------------------------------------------------------------------------------------------------


def _as_declared(window: Tensor, element: int) -> Tensor:
    return window.to(DTYPES[element])


def _precise(element: int) -> DType:
    """The dtype in which a window is computed."""
    return float64 if DTYPES[element] is float64 else float32


@operator("HannWindow", since=17)
def hann_window(size: Number, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _as_declared(F.hann_window(size, bool(periodic), dtype=_precise(output_datatype)), output_datatype)


@operator("HammingWindow", since=17)
def hamming_window(size: Number, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    window = F.hamming_window(size, bool(periodic), 25 / 46, 21 / 46, dtype=_precise(output_datatype))
    return _as_declared(window, output_datatype)


@operator("BlackmanWindow", since=17)
def blackman_window(size: Number, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
    return _as_declared(F.blackman_window(size, bool(periodic), dtype=_precise(output_datatype)), output_datatype)


# -- mel filters ---------------------------------------------------------------------------------------------------


@operator("MelWeightMatrix", since=17)
def mel_weight_matrix(
    num_mel_bins: Number, dft_length: Number, sample_rate: Number, lower_edge_hertz: Number,
    upper_edge_hertz: Number, *, output_datatype: int = 1,
) -> Tensor:  # fmt: skip
    bins, length = int(num_mel_bins), int(dft_length)
    edges = _edges(bins, length, int(sample_rate), float(lower_edge_hertz), float(upper_edge_hertz))
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rows = np.arange(length // 2 + 1)[:, None]
    rising = (rows - left) / np.maximum(centre - left, 1)
    falling = (right - rows) / np.maximum(right - centre, 1)
    inside = (rows >= left) & (rows < np.maximum(right, centre + 1))
    weights = np.where(rows < centre, rising, np.where(rows == centre, 1, falling)) * inside
    return Known(weights.astype(numpy_dtype(output_datatype))).tensor()


def _edges(bins: int, length: int, rate: int, low: float, high: float) -> np.ndarray:
    """The places in a spectrum where filters begin, peak and end; they are evenly spaced in mel."""
    low_mel, high_mel = (2595 * np.log10(1 + hertz / 700) for hertz in (low, high))
    mels = np.arange(bins + 2) * ((high_mel - low_mel) / (bins + 2)) + low_mel
    hertz = 700 * (10 ** (mels / 2595) - 1)
    return ((length + 1) * hertz // rate).astype(np.int64)
