"""Programs that compute with complex numbers, exported: pairs of real numbers in the model, run by onnxruntime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.fft
from jit.eager.namespace import F
from jit.ir.errors import ExportError

Z = np.random.default_rng(0).standard_normal((2, 3, 4)) + 1j * np.random.default_rng(1).standard_normal((2, 3, 4))
X = np.random.default_rng(2).standard_normal((2, 3, 8)).astype(np.float32)
SIGNAL = np.random.default_rng(3).standard_normal((2, 40)).astype(np.float32)

OF_COMPLEX: dict[str, Callable[[Any], Any]] = {
    "sum and difference": lambda z: (z + 1 - z * 2j) - 3,
    "product": lambda z: z * z[..., :1],
    "quotient": lambda z: (z + 1) / (z + 3j),
    "negative": lambda z: -z,
    "size": lambda z: z.abs(),
    "conjugate": lambda z: z.conj() * z,
    "parts": lambda z: z.real * z.imag,
    "pairs": lambda z: F.view_as_complex(F.view_as_real(z) * 2),
    "reshape": lambda z: z.reshape(6, 4),
    "transpose": lambda z: z.transpose(0, 2),
    "permute": lambda z: z.permute(2, 0, 1),
    "squeeze": lambda z: z.unsqueeze(-1).unsqueeze(0).squeeze(-1),
    "slices": lambda z: z[1:, :, 1:3],
    "one of a dim": lambda z: z[:, 1],
    "chosen by index": lambda z: z.index_select(-1, jit.tensor([2, 0])),
    "concatenation": lambda z: jit.cat([z, z * 1j], -1),
    "stack": lambda z: jit.stack([z, z.conj()], 1),
    "expansion": lambda z: z[:, :, None].expand(2, 3, 5, 4),
    "sums": lambda z: z.sum(-1) + z.mean((0, 2)),
    "choice": lambda z: jit.where(z.real > 0, z, z.conj()),
    "padding": lambda z: F.constant_pad_nd(z, [1, 2], 0),
    "of reals": lambda z: z.real.to(jit.complex64) * 1j,
    "to wider": lambda z: z.to(jit.complex128),
    "made": lambda z: F.complex(z.imag, z.real[..., :1]) * F.polar(z.abs(), z.real),
    "transform": lambda z: jit.fft.ifft2(jit.fft.fftshift(jit.fft.fft2(z, norm="ortho"))),
}
OF_REALS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda x: jit.fft.irfft(jit.fft.rfft(x) * jit.fft.rfftfreq(8), n=8),
    "spectrum": lambda x: jit.fft.rfft(x).abs() ** 2,
    "power of several dims": lambda x: jit.fft.rfft2(x).real,
    "odd sizes": lambda x: jit.fft.irfftn(jit.fft.rfftn(x, s=[5, 7]), s=[5, 7]),
    "hermitian": lambda x: jit.fft.hfft(jit.fft.ihfft(x), n=8),
    "cut and filled up": lambda x: jit.fft.fft(x, n=12, dim=1).imag + jit.fft.ifft(x, n=12, dim=1).real,
}


def exported(function: Callable[[Any], Any], array: np.ndarray, tmp_path: Any, **options: Any) -> Any:
    """`export_onnx` runs the model by onnxruntime beside the program, and raises where they differ."""
    return jit.export_onnx(function, (jit.from_numpy(array),), str(tmp_path / "model.onnx"), **options)


@pytest.mark.parametrize("function", OF_COMPLEX.values(), ids=OF_COMPLEX)
def test_of_complex_numbers(function: Callable[[Any], Any], tmp_path: Any) -> None:
    report = exported(function, Z.astype(np.complex64), tmp_path)
    assert list(report.inputs.values()) == ["float32 (2, 3, 4, 2)"]


@pytest.mark.parametrize("function", OF_REALS.values(), ids=OF_REALS)
@pytest.mark.parametrize("opset", [17, 20])
def test_of_real_numbers(function: Callable[[Any], Any], opset: int, tmp_path: Any) -> None:
    exported(function, X, tmp_path, opset_version=opset)


def test_a_batch_of_any_size(tmp_path: Any) -> None:
    def smooth(x: Any) -> Any:
        return jit.fft.irfft(jit.fft.rfft(x) * 0.5, n=8) + jit.fft.fft(x).abs()

    report = exported(smooth, X, tmp_path, dynamic_axes={"x": {0: "batch"}})
    assert list(report.inputs.values()) == ["float32 (batch, 3, 8)"]


def test_spectrograms_there_and_back(tmp_path: Any) -> None:
    window = jit.hann_window(8)

    def halved(x: Any) -> Any:
        spectra = jit.stft(x, 8, 2, window=window, return_complex=True)
        return jit.istft(spectra * 0.5, 8, 2, window=window)

    exported(halved, SIGNAL, tmp_path)
    exported(lambda x: jit.stft(x, 8, window=window, return_complex=True).abs(), SIGNAL[0], tmp_path)


def test_a_spectrogram_of_any_length(tmp_path: Any) -> None:
    window = jit.hann_window(6)

    def spectrogram(x: Any) -> Any:
        return jit.stft(x, 8, 2, 6, window, normalized=True, return_complex=True).abs()

    report = exported(spectrogram, SIGNAL, tmp_path, dynamic_axes={"x": {0: "batch", 1: "length"}})
    assert list(report.inputs.values()) == ["float32 (batch, length)"]


def test_what_has_no_form_is_refused_with_its_name(tmp_path: Any) -> None:
    with pytest.raises(ExportError, match="Exp of complex numbers is nothing that ONNX computes"):
        exported(lambda z: jit.exp(z), Z.astype(np.complex64), tmp_path)
