"""Short-time Fourier transforms: a signal's spectrum, window after window, and the signal of such spectra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.op import array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .fft import BY_ROOT, BY_SIZE, UNSCALED

if TYPE_CHECKING:
    from jit.ir.dtypes import DType

    from .protocols import Array, KnownType, Numpy, OnnxWriter, Ops, Tensor, Value

# -- windows -----------------------------------------------------------------------------------------------------


def _lengths(name: str, n_fft: int, hop_length: int | None, win_length: int | None, window: Any) -> tuple[Any, Any]:
    """(hop, length of the window); the defaults are n_fft // 4 and n_fft."""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if hop < 1:
        raise UsageError(f"{name}: hop_length should be at least 1, got {hop}")
    if not 0 < length <= n_fft:
        raise UsageError(f"{name}: win_length should lie between 1 and n_fft = {n_fft}, got {length}")
    if window is not None and tuple(window.shape) != (length,):
        raise ShapeError(f"{name}: the window should have the sizes [{length}], got {list(window.shape)}")
    return hop, length


def _centred(F: Ops, window: Tensor | None, n_fft: int, length: Any, like: DType) -> Tensor | None:
    """The window in the middle of n_fft entries; None for a window of ones that fills them."""
    if length == n_fft:
        return window
    if window is None:
        window = F.ones([length], dtype=like)
    left = (n_fft - length) // 2
    return F.constant_pad_nd(window, [left, n_fft - length - left], 0)


def _ends(n_fft: int, length: int, center: bool, align_to_window: bool | None) -> list[int]:
    """The numbers of entries by which a signal is padded at its front and its end."""
    if center and align_to_window is not None:
        raise UsageError("stft: align_to_window is for center=False alone; leave it out, or pass center=False")
    missing = n_fft - length if align_to_window else 0
    return [n_fft // 2] * 2 if center else [missing // 2, missing - missing // 2]


# -- there -------------------------------------------------------------------------------------------------------


def _check_signal(self: Tensor, window: Tensor | None, onesided: bool | None, return_complex: bool | None) -> bool:
    """Whether the numbers are complex; an error if the arguments do not fit each other."""
    if self.dtype.is_integral:
        raise DTypeError(f"stft: expects floating or complex numbers, got {self.dtype.name}; cast with x.float()")
    if self.ndim not in (1, 2):
        raise ShapeError(f"stft: expects a tensor of 1 or 2 dims, got the sizes {list(self.shape)}")
    complex = self.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not complex:
        raise UsageError("stft: pass return_complex=True, or False for real and imaginary parts in a last dim")
    if onesided and complex:
        raise UsageError("stft: complex numbers have no one-sided spectrum; pass onesided=False")
    return complex


_WINDOW = "int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None"


@Precision(cpu="float32")
@composite(f'aten::stft.center(Tensor self, {_WINDOW}, bool center=True, str pad_mode="reflect", '
           "bool normalized=False, bool? onesided=None, bool? return_complex=None, "
           "bool? align_to_window=None) -> Tensor")  # fmt: skip
def stft(
    F: Ops, self: Tensor, n_fft: int, hop_length: int | None, win_length: int | None, window: Tensor | None,
    center: bool, pad_mode: str, normalized: bool, onesided: bool | None, return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:  # fmt: skip
    """The spectra of windows of a signal, as columns: [bins, frames], or [batch, bins, frames] for a batch of signals.

    Windows of `win_length` entries, by default `n_fft`, begin every `hop_length` entries, by default a quarter of
    n_fft. With `center`, the signal is padded on both sides so that window t lies around entry t * hop_length. Without
    it, window 0 takes the first n_fft entries; with `align_to_window`, it needs only its own win_length entries.
    """
    complex = _check_signal(self, window, onesided, return_complex)
    hop, length = _lengths("stft", n_fft, hop_length, win_length, window)
    ends = _ends(n_fft, length, center, align_to_window)
    x = F.unsqueeze(self, 0) if self.ndim == 1 else self
    if any(ends):
        x = F.squeeze(F.pad(F.unsqueeze(x, 0), ends, pad_mode if center else "constant"), 0)
    if not 0 < n_fft <= x.shape[1]:
        raise UsageError(f"stft: n_fft should lie between 1 and the {x.shape[1]} entries of the signal, got {n_fft}")
    frames = F.unfold(x, 1, n_fft, hop)
    weights = _centred(F, window, n_fft, length, x.dtype)
    frames = frames if weights is None else frames * weights
    scaling = BY_ROOT if normalized else UNSCALED
    if complex:
        out = F._fft_c2c(frames, [2], scaling, True)
    else:
        out = F._fft_r2c(frames, [2], scaling, onesided is None or bool(onesided))
    out = F.transpose(out, 1, 2)
    out = F.squeeze(out, 0) if self.ndim == 1 else out
    return out if return_complex or return_complex is None else F.view_as_real(out)


_PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@stft.onnx
def _(
    g: OnnxWriter, self: Value, n_fft: int, hop_length: int | None, win_length: int | None, window: Value | None,
    center: bool, pad_mode: str, normalized: bool, onesided: bool | None, return_complex: bool | None,
    align_to_window: bool | None,
) -> Value:  # fmt: skip
    """The operator of its own takes signals of any length; complex ones go by the parts."""
    if self.dtype.is_complex or (window is not None and window.dtype.is_complex):
        raise g.unsupported("STFT is for real signals and windows")
    hop, length = _lengths("stft", n_fft, hop_length, win_length, window)
    x, left = self, (n_fft - length) // 2
    before, after = _ends(n_fft, length, center, align_to_window)
    x = g.op("Unsqueeze", x, g.ints([0])) if self.ndim == 1 else x
    if before or after:
        x = g.op("Pad", x, g.ints([0, before, 0, after]), mode=_PADS[pad_mode if center else "constant"])
    if window is None:
        window = g.constant([1.0] * length, like=self)
    window = window if length == n_fft else g.op("Pad", window, g.ints([left, n_fft - length - left]))
    step, whole = (g.constant(number, dtype=dtypes.int64) for number in (hop, n_fft))
    spectra = g.op("STFT", g.op("Unsqueeze", x, g.ints([-1])), step, window, whole, onesided=int(onesided is not False))
    out = g.op("Transpose", spectra, perm=[0, 2, 1, 3])
    out = g.op("Mul", out, g.constant(n_fft**-0.5, like=self)) if normalized else out
    out = g.op("Squeeze", out, g.ints([0])) if self.ndim == 1 else out
    return g.from_pairs(out) if return_complex else out


def _tall(length: int, dtype: str = "float32") -> Any:
    """A window without elements near zero."""
    return make(length, low=0.5, high=1.5, seed=9).astype(dtype)


@stft.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 12), 4, window=_tall(4), return_complex=False)
    yield sample(make(11), 6, 3, 4, _tall(4), pad_mode="constant", normalized=True, return_complex=False)
    yield sample(make(2, 9), 4, 2, center=False, onesided=False, return_complex=False)
    yield sample(strided(make(2, 9)), 5, 2, 3, return_complex=False, note="strided")
    yield sample(
        make(2, 9), 5, 2, 3, _tall(3), False, return_complex=False, align_to_window=True, note="from the window's edge"
    )
    yield sample(make(2, 12), 4, window=_tall(4), return_complex=True, note="to complex")
    yield sample(make(2, 12, dtype="complex64"), 4, window=_tall(4), note="complex", grad=False, onnx=False)
    yield sample(make(10, dtype="float64"), 4, window=_tall(4, "float64"), return_complex=False, note="double")


# -- and back ----------------------------------------------------------------------------------------------------


@array("aten::_checked_envelope(Tensor self) -> Tensor", raises=True, namespaces=(), onnx="Identity",
       grad=dict(self=lambda F, g: g))  # fmt: skip
def _checked_envelope(m: Numpy, self: Array) -> Array:
    """The sum of overlapping windows itself; UsageError where it is zero, as the signal cannot be recovered there."""
    if self.size and m.abs(self).min() < 1e-11:
        raise UsageError("istft: somewhere the windows add up to zero; take a larger window or a smaller hop_length")
    return m.array(self)


@_checked_envelope.type
def _(self: KnownType) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


@_checked_envelope.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 5, low=0.5))
    yield sample(strided(make(2, 3, low=0.5)), note="strided")


def _check_spectra(
    self: Tensor, n_fft: int, onesided: bool | None, window: Tensor | None, return_complex: bool
) -> bool:
    """Whether the spectra are halves; an error if the arguments do not fit each other."""
    if not self.dtype.is_complex:
        raise DTypeError("istft: expects a complex tensor, as stft gives it with return_complex=True")
    if self.ndim not in (2, 3) or not self.numel():
        raise ShapeError(f"istft: expects spectra in 2 or 3 dims, got the sizes {list(self.shape)}")
    half = self.shape[-2] != n_fft if onesided is None else bool(onesided)
    bins = n_fft // 2 + 1 if half else n_fft
    if self.shape[-2] != bins:
        raise ShapeError(f"istft: spectra of n_fft = {n_fft} have {bins} bins, got the sizes {list(self.shape)}")
    if return_complex and half:
        raise UsageError("istft: one half of a spectrum gives a real signal; leave return_complex out")
    if window is not None and window.dtype.is_complex and not return_complex:
        raise UsageError("istft: a complex window gives a complex signal; pass return_complex=True")
    return half


@composite(f"aten::istft(Tensor self, {_WINDOW}, bool center=True, bool normalized=False, bool? onesided=None, "
           "int? length=None, bool return_complex=False) -> Tensor")  # fmt: skip
def istft(
    F: Ops, self: Tensor, n_fft: int, hop_length: int | None, win_length: int | None, window: Tensor | None,
    center: bool, normalized: bool, onesided: bool | None, length: int | None, return_complex: bool,
) -> Tensor:  # fmt: skip
    """The signal whose `stft` is nearest to `self`, [bins, frames] or [batch, bins, frames]."""
    half = _check_spectra(self, n_fft, onesided, window, return_complex)
    hop, wide = _lengths("istft", n_fft, hop_length, win_length, window)
    if hop > wide:
        raise UsageError(f"istft: hop_length should be at most win_length = {wide}, got {hop}")
    spectra = F.transpose(F.unsqueeze(self, 0) if self.ndim == 2 else self, 1, 2)
    parts = F.ones([n_fft], dtype=F.view_as_real(self).dtype) if window is None and wide == n_fft else None
    weights = _centred(F, window, n_fft, wide, F.view_as_real(self).dtype) if parts is None else parts
    scaling = BY_ROOT if normalized else BY_SIZE
    if return_complex:
        frames = F._fft_c2c(spectra, [2], scaling, False)
    else:
        spectra = spectra if half else F.slice(spectra, 2, 0, n_fft // 2 + 1)
        frames = F._fft_c2r(spectra, [2], scaling, n_fft)
    out = _overlapped(F, frames, weights, n_fft, hop, n_fft // 2 if center else 0, length, center)
    return F.squeeze(out, 0) if self.ndim == 2 else out


def _overlapped(
    F: Ops, frames: Tensor, weights: Any, n_fft: int, hop: Any, start: int, length: int | None, center: bool
) -> Tensor:
    """Frames [batch, number, n_fft] summed at their places and divided by the sum of the squared windows."""
    batch, number, _ = frames.shape
    whole = n_fft + hop * (number - 1)
    end = whole - start if length is None else start + length
    summed = F.unfold_backward(frames * weights, [batch, whole], 1, n_fft, hop)
    squares = F.expand(weights * weights, [1, number, n_fft])
    envelope = F.unfold_backward(F.contiguous(squares), [1, whole], 1, n_fft, hop)
    summed, envelope = (F.slice(t, 1, start, end) for t in (summed, envelope))
    out = summed / F._checked_envelope(envelope)
    return F.constant_pad_nd(out, [0, end - whole], 0) if end > whole else out


@istft.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 5, dtype="complex64"), 4, window=_tall(4), grad=False)
    yield sample(make(2, 3, 4, dtype="complex64"), 4, 2, None, _tall(4), center=False, grad=False)
    yield sample(make(2, 3, 4, dtype="complex64"), 4, 2, 3, _tall(3), grad=False)
    yield sample(make(2, 6, 5, dtype="complex64"), 6, 2, normalized=True, onesided=False, grad=False)
    yield sample(make(2, 4, 5, dtype="complex64"), 6, 2, length=7, grad=False)
    yield sample(make(4, 5, dtype="complex64"), 4, 1, None, _tall(4), onesided=False, return_complex=True, grad=False,
                 note="to complex")  # fmt: skip
