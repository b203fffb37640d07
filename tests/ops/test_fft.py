"""Fourier transforms as users call them: gradients of complex numbers, round trips, wrong calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.fft
from jit.eager.namespace import F
from tests.ops.test_complex_gradients import differences, loss

Z = np.random.default_rng(0).standard_normal((2, 5)) + 1j * np.random.default_rng(1).standard_normal((2, 5))
HALF = np.random.default_rng(2).standard_normal((2, 4, 3)) + 1j * np.random.default_rng(3).standard_normal((2, 4, 3))

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "fft": (lambda z: jit.fft.fft(z) ** 2, Z),
    "ifft, ortho": (lambda z: jit.fft.ifft(z, norm="ortho") ** 2, Z),
    "fft2, filled up and cut": (lambda z: jit.fft.fft2(z, s=(3, 4)) ** 2, Z),
    "irfft of an even size": (lambda z: jit.fft.irfft(z) ** 2, Z),
    "irfft of an odd size": (lambda z: jit.fft.irfft(z, n=9, norm="forward") ** 2, Z),
    "irfftn": (lambda z: jit.fft.irfftn(z, dim=(2, 0, 1)) ** 2, HALF),
    "hfft": (lambda z: jit.fft.hfft(z, n=7) ** 2, Z),
    "hfft2": (lambda z: jit.fft.hfft2(z) ** 2, HALF),
    "rfft of the real part": (lambda z: jit.fft.rfft(z.real) ** 2, Z),
    "rfft of the real part, odd": (lambda z: jit.fft.rfft(z.real, dim=0, n=3) ** 2, Z),
    "rfftn of the real part": (lambda z: jit.fft.rfftn(z.real, norm="ortho") ** 2, HALF),
    "ihfft2 of the real part": (lambda z: jit.fft.ihfft2(z.real) ** 2, HALF),
    "all bins of the real part": (lambda z: jit.fft.ifft(z.real) ** 2, Z),
    "shifted": (lambda z: jit.fft.fftshift(z) * z, Z),
    "stft": (lambda z: jit.stft(z, 4, 1, center=False, onesided=False) ** 2, Z),
    "istft": (lambda z: jit.istft(z, 4, 1, 4, jit.ones(4, dtype=jit.float64)) ** 2, HALF.reshape(2, 3, 4)),
}


@pytest.mark.parametrize(("function", "point"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradient(function: Callable[[Any], Any], point: np.ndarray) -> None:
    z = jit.from_numpy(point.copy()).requires_grad_()
    (found,) = jit.grad(loss(function, z), [z])
    np.testing.assert_allclose(found.numpy(), differences(function, point), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("function", "point"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradient_of_the_gradient(function: Callable[[Any], Any], point: np.ndarray) -> None:
    def slope(z: Any) -> Any:
        (found,) = jit.grad(loss(function, z), [z], create_graph=True)
        return found * (z + 1)

    z = jit.from_numpy(point.copy()).requires_grad_()
    (found,) = jit.grad(loss(slope, z), [z])
    expected = differences(lambda x: slope(x.requires_grad_()).detach(), point)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_there_and_back(norm: str | None, size: int) -> None:
    x = jit.from_numpy(np.random.default_rng(size).standard_normal((3, size)))
    for back in (
        jit.fft.ifft(jit.fft.fft(x, norm=norm), norm=norm).real,
        jit.fft.irfft(jit.fft.rfft(x, norm=norm), n=size, norm=norm),
        jit.fft.hfft(jit.fft.ihfft(x, norm=norm), n=size, norm=norm),
        jit.fft.ifftshift(jit.fft.fftshift(x)),
    ):
        np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_spectrograms_there_and_back() -> None:
    x = jit.from_numpy(np.random.default_rng(0).standard_normal((2, 64)))
    window = jit.hann_window(16, dtype=jit.float64)
    back = jit.istft(jit.stft(x, 16, 4, window=window, return_complex=True), 16, 4, window=window, length=64)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


X, C = jit.ones(3, 4), jit.ones(3, 4, dtype=jit.complex64)
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no points": (lambda: jit.fft.fft(X, n=0), jit.ShapeError, "at least one point"),
    "an empty dim": (lambda: jit.fft.fft(jit.ones(2, 0)), jit.ShapeError, "at least one point"),
    "half of nothing": (lambda: jit.fft.irfft(jit.ones(3, 1)), jit.ShapeError, "at least one point"),
    "a scalar": (lambda: jit.fft.fft(jit.ones(())), jit.DimError, "has no dim to transform"),
    "a dim too far": (lambda: jit.fft.rfft(X, dim=2), jit.DimError, "out of range"),
    "a dim twice": (lambda: jit.fft.fftn(X, dim=(0, 0)), jit.ShapeError, "names a dim twice"),
    "lengths that differ": (lambda: jit.fft.fftn(X, s=(2,), dim=(0, 1)), jit.ShapeError, "should be equally long"),
    "too many sizes": (lambda: jit.fft.fftn(X, s=(2, 2, 2)), jit.ShapeError, "only 2 dims"),
    "no dims": (lambda: jit.fft.rfftn(X, dim=()), jit.DimError, "at least one dim"),
    "a norm": (lambda: jit.fft.fft(X, norm="none"), jit.UsageError, "'backward', 'ortho' or 'forward'"),
    "reals wanted": (lambda: jit.fft.rfft(C), jit.DTypeError, "expects a real tensor"),
    "halves": (lambda: jit.fft.fft(X.half()), jit.DTypeError, "too coarse"),
    "frequencies of nothing": (lambda: jit.fft.fftfreq(0), jit.UsageError, "have no frequencies"),
    "whole frequencies": (lambda: jit.fft.fftfreq(4, dtype=jit.int64), jit.DTypeError, "floating numbers"),
    "stft of what": (lambda: jit.stft(X, 2), jit.UsageError, "pass return_complex=True"),
    "a longer window": (
        lambda: jit.stft(X, 4, win_length=5, return_complex=True), jit.UsageError, "win_length should lie between",
    ),
    "a longer transform": (
        lambda: jit.stft(X, 6, center=False, return_complex=True), jit.UsageError, "n_fft should lie between",
    ),
    "windows that add up to zero": (
        lambda: jit.istft(C, 4, window=jit.zeros(4)), jit.UsageError, "the windows add up to zero",
    ),
    "spectra of another size": (lambda: jit.istft(C, 8), jit.ShapeError, "have 5 bins"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG.values(), ids=WRONG)
def test_wrong_calls(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_traced_filter_follows_other_sizes() -> None:
    @jit.trace
    def smooth(x: Any) -> Any:
        return jit.fft.irfft(jit.fft.rfft(x) * 0.5, n=x.shape[-1])

    for size in (6, 6, 7):
        x = jit.from_numpy(np.random.default_rng(size).standard_normal((2, size)))
        np.testing.assert_allclose(smooth(x).numpy(), x.numpy() / 2, atol=1e-12)
    assert smooth.hits == 1


def test_the_primitives_take_what_they_name() -> None:
    with pytest.raises(jit.DTypeError, match="expects a complex tensor"):
        F._fft_c2c(X, [0], 0, True)
    with pytest.raises(jit.ShapeError, match="half a spectrum of 4 bins"):
        F._fft_c2r(C, [1], 0, 4)
