"""What Fourier transforms should compute: sums over all elements by definition, and SciPy's functions."""

from typing import Any

import numpy as np
import scipy.fft
import scipy.signal


def sums(x: Any, dims: Any, scaling: int, sign: int) -> Any:
    """One matrix of e^(+-2 pi i j k / n) for each dim."""
    for dim in dims:
        n = x.shape[dim]
        number = np.arange(n)
        matrix = np.exp(sign * 2j * np.pi * np.outer(number, number) / n) * n ** -[0.0, 0.5, 1.0][scaling]
        x = np.moveaxis(np.moveaxis(x, dim, -1) @ matrix, -1, dim)
    return x


def real_to_complex(x: Any, dims: Any, scaling: int, onesided: bool) -> Any:
    out = sums(x.astype(complex), dims, scaling, -1)
    return np.take(out, range(x.shape[dims[-1]] // 2 + 1), dims[-1]) if onesided else out


def complex_to_real(x: Any, dims: Any, scaling: int, size: int) -> Any:
    """Inner bins count twice, by their real parts."""
    *others, last = dims
    half = np.moveaxis(sums(x, others, scaling, 1), last, -1)
    bins = np.arange(half.shape[-1])
    counts = np.where((bins == 0) | (2 * bins == size), 1, 2)
    waves = np.exp(2j * np.pi * np.outer(bins, np.arange(size)) / size)
    out = ((half * counts) @ waves).real * size ** -[0.0, 0.5, 1.0][scaling]
    return np.moveaxis(out, -1, last)


def by_scipy(name: str) -> Any:
    function = getattr(scipy.fft, name)
    if not name.endswith(("2", "n")):
        return function

    def over_several(x: Any, s: Any, dim: Any, norm: Any) -> Any:
        if s and s[-1] == -1 and name.startswith(("irfft", "hfft")):  # SciPy takes the size of the half
            s = (*s[:-1], 2 * (x.shape[dim[-1]] - 1))
        return function(x, tuple(s) if s else None, tuple(dim) if dim else None, norm)

    return over_several


def shifted(function: Any) -> Any:
    return lambda x, dim: function(x, dim) if x.ndim else x


def frequencies(function: Any) -> Any:
    return lambda n, d, dtype, device: function(n, d)


KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

REFERENCES: dict[str, Any] = {
    "aten::_fft_c2c": lambda x, dims, scaling, forward: sums(x, dims, scaling, -1 if forward else 1),
    "aten::_fft_r2c": real_to_complex,
    "aten::_fft_c2r": complex_to_real,
    **{f"aten::fft_{kind}{dims}": by_scipy(kind + dims) for kind in KINDS for dims in ("", "2", "n")},
    "aten::fft_fftfreq": frequencies(scipy.fft.fftfreq),
    "aten::fft_rfftfreq": frequencies(scipy.fft.rfftfreq),
    "aten::fft_fftshift": shifted(scipy.fft.fftshift),
    "aten::fft_ifftshift": shifted(scipy.fft.ifftshift),
}
