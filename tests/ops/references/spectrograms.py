"""What short-time transforms should compute: one window after the other."""

from typing import Any

import numpy as np


def centred(window: Any, n_fft: int, length: Any) -> Any:
    length = n_fft if length is None else length
    out = np.zeros(n_fft, complex if np.iscomplexobj(window) else float)
    left = (n_fft - length) // 2
    out[left : left + length] = 1 if window is None else window
    return out


def spectra(x: Any, n_fft: int, hop: Any, length: Any, window: Any, normalized: bool, onesided: Any, to: Any) -> Any:
    hop, weights = hop or n_fft // 4, centred(window, n_fft, length)
    starts = range(0, x.shape[-1] - n_fft + 1, hop)
    columns = [np.fft.fft(x[..., s : s + n_fft] * weights, norm="ortho" if normalized else None) for s in starts]
    out = np.stack(columns, -1)
    if onesided is not False and not np.iscomplexobj(x) and not np.iscomplexobj(weights):
        out = out[..., : n_fft // 2 + 1, :]
    return np.stack([out.real, out.imag], -1) if to is False else out


def stft(
    x: Any, n_fft: int, hop: Any, length: Any, window: Any, center: bool, pad_mode: Any, normalized: bool,
    onesided: Any, to: Any, align: Any,
) -> Any:  # fmt: skip
    still: list[tuple[int, int]] = [(0, 0)] * (x.ndim - 1)
    if center:
        x = np.pad(x, [*still, (n_fft // 2, n_fft // 2)], mode=pad_mode)
    if align:
        before = (n_fft - length) // 2
        x = np.pad(x, [*still, (before, n_fft - length - before)])
    return spectra(x, n_fft, hop, length, window, normalized, onesided, to)


def istft(
    z: Any, n_fft: int, hop: Any, wide: Any, window: Any, center: bool, normalized: bool, onesided: Any, length: Any,
    to_complex: bool,
) -> Any:  # fmt: skip
    hop, weights = hop or n_fft // 4, centred(window, n_fft, wide)
    parts: list[Any] = [
        np.fft.ifft(f) if to_complex else np.fft.irfft(f[..., : n_fft // 2 + 1], n_fft) for f in np.moveaxis(z, -1, 0)
    ]
    if normalized:
        parts = [part * n_fft**0.5 for part in parts]
    whole = n_fft + hop * (len(parts) - 1)
    summed, envelope = np.zeros((*z.shape[:-2], whole), parts[0].dtype), np.zeros(whole)
    for number, part in enumerate(parts):
        place = slice(number * hop, number * hop + n_fft)
        summed[..., place] += part * weights
        envelope[place] += weights**2
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length
    out = summed[..., start:end] / envelope[start:end]
    return np.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, max(0, end - whole))])


REFERENCES: dict[str, Any] = {
    "aten::stft.center": stft,
    "aten::istft": istft,
    "aten::_checked_envelope": lambda x: x,
}
