"""Fourier transforms: three primitives as in ATen, and the functions of `jit.fft` over them.

Note [Derivatives of transforms]
    y = W x with a symmetric W, so a gradient g goes back as conj(W) g: the transform of the other direction, scaled
    alike. A real transform gives, and takes, one half of a spectrum whose other half is its mirror image:

        real to half:   x gets the real part of the sum over the given half. `_fft_c2r` counts the inner bins twice,
                        so they are halved before.
        half to real:   every inner bin stands for two of the whole spectrum; `_fft_r2c` of g, these doubled.

    The bins 0 and, of even sizes, n / 2 are their own mirror image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.errors import DimError, DTypeError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.op import Op, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from .protocols import Array, Ints, KnownType, Meta, Numpy, OnnxWriter, Ops, Tensor, Value

UNSCALED, BY_ROOT, BY_SIZE = range(3)
"""Scalings of a transform by ATen's numbers: none, 1 / sqrt(n), 1 / n."""
_FORWARD = {UNSCALED: "backward", BY_ROOT: "ortho", BY_SIZE: "forward"}
_INVERSE = {UNSCALED: "forward", BY_ROOT: "ortho", BY_SIZE: "backward"}
"""numpy's words for these scalings of forward and of inverse transforms: they name the direction that is scaled."""

# -- what the primitives share -----------------------------------------------------------------------------------


def _wrapped(name: str, shape: Sequence[Any], dim: Sequence[int]) -> tuple[int, ...]:
    """The dims counted from the front; ShapeError if one is named twice or has no elements to transform."""
    dims = tuple(wrap_dim(d, len(shape)) for d in dim)
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{name}: dim {list(dim)} names a dim twice")
    for d in dims:
        if not shape or shape[d] < 1:
            raise ShapeError(f"{name}: dim {d} of {list(shape)} has no elements to transform")
    return dims


def _expect(name: str, tensor: Any, complex: bool, dim: Sequence[int]) -> tuple[int, ...]:
    """The dims counted from the front; DTypeError unless the tensor is complex, or real, as `complex` says."""
    dtype = tensor.dtype if isinstance(tensor.dtype, DType) else dtypes.from_numpy(tensor.dtype)
    if dtype.is_complex is not complex or dtype.is_integral:
        wanted = "a complex" if complex else "a real"
        raise DTypeError(f"{name}: expects {wanted} tensor, got {dtype.name}")
    return _wrapped(name, tensor.shape, dim)


def _resized(self: TensorType, dtype: DType, dim: int | None = None, size: int = 0) -> TensorType:
    assert self.shape is not None
    sizes = tuple(size if d == dim else n for d, n in enumerate(self.shape))
    return TensorType(dtype, sizes, None, self.device)


def _with_inner_bins(F: Ops, half: Tensor, dim: int, size: int, factor: float) -> Tensor:
    """Half a spectrum of `size` bins, in which the bins that stand for their mirror images too are times `factor`."""
    number = F.arange(half.shape[dim], device=half.device)
    alone = F.logical_or(F.eq(number, 0), F.eq(number * 2, size))
    weight = F._to_copy(F.where(alone, 1.0, factor), dtype=dtypes.real_of(half.dtype))
    return half * F.reshape(weight, [-1 if d == dim % half.ndim else 1 for d in range(half.ndim)])


# -- the primitives ----------------------------------------------------------------------------------------------


@array("aten::_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor", namespaces=("jit",),
       holomorphic=False,
       grad=dict(self=lambda F, g, dim, normalization, forward:
                 F._fft_c2c(g, dim, normalization, not forward)))  # fmt: skip
def _fft_c2c(m: Numpy, self: Array, dim: Ints, normalization: int, forward: bool) -> Array:
    """The Fourier transform of complex numbers over `dim`, forward or inverse."""
    axes = _expect("_fft_c2c", self, True, dim)
    if not axes:
        return m.array(self)
    if forward:
        return m.fft.fftn(self, axes=axes, norm=_FORWARD[normalization])
    return m.fft.ifftn(self, axes=axes, norm=_INVERSE[normalization])


@_fft_c2c.type
def _(self: KnownType, dim: Ints, normalization: int, forward: bool) -> TensorType:
    _expect("_fft_c2c", self, True, dim)
    return _resized(self, self.dtype)


@array("aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", namespaces=("jit",),
       holomorphic=False,
       grad=dict(self=lambda F, g, self_meta, dim, normalization, onesided:
                 _real_gradient(F, g, self_meta, dim, normalization, onesided)))  # fmt: skip
def _fft_r2c(m: Numpy, self: Array, dim: Ints, normalization: int, onesided: bool) -> Array:
    """The Fourier transform of real numbers over `dim`; if `onesided`, one half of the last dim."""
    axes = _expect("_fft_r2c", self, False, dim)
    if not axes:
        raise DimError("_fft_r2c: there should be at least one dim to transform")
    return (m.fft.rfftn if onesided else m.fft.fftn)(self, axes=axes, norm=_FORWARD[normalization])


def _real_gradient(F: Ops, g: Tensor, self_meta: Meta, dim: Ints, normalization: int, onesided: bool) -> Tensor:
    """See Note [Derivatives of transforms]."""
    if not onesided:
        return F.clone(F.real(F._fft_c2c(g, dim, normalization, False)))
    size = self_meta.shape[dim[-1]]
    return F._fft_c2r(_with_inner_bins(F, g, dim[-1], size, 0.5), dim, normalization, size)


@_fft_r2c.type
def _(self: KnownType, dim: Ints, normalization: int, onesided: bool) -> TensorType:
    dims = _expect("_fft_r2c", self, False, dim)
    if not dims:
        raise DimError("_fft_r2c: there should be at least one dim to transform")
    last, size = dims[-1], self.shape[dims[-1]]
    computed = dtypes.float32 if self.dtype.is_half else self.dtype
    return _resized(self, dtypes.complex_of(computed), last, size // 2 + 1 if onesided else size)


@array("aten::_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor", namespaces=("jit",),
       holomorphic=False,
       grad=dict(self=lambda F, g, dim, normalization, last_dim_size: _with_inner_bins(
           F, F._fft_r2c(g, dim, normalization, True), dim[-1], last_dim_size, 2.0)))  # fmt: skip
def _fft_c2r(m: Numpy, self: Array, dim: Ints, normalization: int, last_dim_size: int) -> Array:
    """The inverse Fourier transform to real numbers, of one half of a spectrum whose other half mirrors it."""
    axes = _check_half(self, dim, last_dim_size)
    sizes = [*(self.shape[d] for d in axes[:-1]), last_dim_size]
    return m.fft.irfftn(self, s=sizes, axes=axes, norm=_INVERSE[normalization])


def _check_half(self: Any, dim: Ints, last_dim_size: int) -> tuple[int, ...]:
    dims = _expect("_fft_c2r", self, True, dim)
    if not dims:
        raise DimError("_fft_c2r: there should be at least one dim to transform")
    if last_dim_size < 1 or self.shape[dims[-1]] != last_dim_size // 2 + 1:
        raise ShapeError(
            f"_fft_c2r: half a spectrum of {last_dim_size} bins does not have the {self.shape[dims[-1]]} of dim "
            f"{dims[-1]} in {list(self.shape)}"
        )
    return dims


@_fft_c2r.type
def _(self: KnownType, dim: Ints, normalization: int, last_dim_size: int) -> TensorType:
    dims = _check_half(self, dim, last_dim_size)
    return _resized(self, dtypes.real_of(self.dtype), dims[-1], last_dim_size)


def _complex(*shape: int, **options: Any) -> Any:
    return make(*shape, dtype="complex64", **options)


@_fft_c2c.samples
def _() -> Iterator[Sample]:
    for number, (dim, forward) in enumerate((([1], True), ([0, 2], False), ([-1, 0, 1], True), ([2], False))):
        yield sample(_complex(2, 3, 4), dim, number % 3, forward, grad=False)
    yield sample(strided(_complex(3, 5)), [1], UNSCALED, True, note="strided", grad=False)
    yield sample(_complex(0, 3), [1], UNSCALED, False, note="empty", grad=False, onnx=False)
    yield sample(_complex(2, 3), [], UNSCALED, True, note="no dims", grad=False)
    yield sample(make(4, dtype="complex128"), [0], BY_SIZE, True, note="double", grad=False)


@_fft_r2c.samples
def _() -> Iterator[Sample]:
    for number, (dim, onesided) in enumerate((([1], True), ([0, 2], True), ([-1, 0, 1], False), ([2], False))):
        yield sample(make(2, 3, 4), dim, number % 3, onesided)
    yield sample(strided(make(3, 5)), [1], UNSCALED, True, note="strided")
    yield sample(make(0, 3), [1], UNSCALED, True, note="empty", onnx=False)
    yield sample(make(1), [0], BY_ROOT, True, note="one element")
    yield sample(make(4, dtype="float64"), [0], BY_SIZE, True, note="double")


@_fft_c2r.samples
def _() -> Iterator[Sample]:
    for number, (dim, size) in enumerate((([1], 4), ([0, 2], 7), ([-1, 0, 1], 5), ([2], 6))):
        yield sample(_complex(2, 3, 4), dim, number % 3, size, grad=False)
    yield sample(strided(_complex(3, 5)), [1], UNSCALED, 9, note="strided", grad=False)
    yield sample(_complex(0, 3), [1], UNSCALED, 4, note="empty", grad=False, onnx=False)
    yield sample(_complex(1), [0], BY_ROOT, 1, note="one element", grad=False)
    yield sample(make(4, dtype="complex128"), [0], BY_SIZE, 6, note="double", grad=False)


# -- ONNX --------------------------------------------------------------------------------------------------------


def _dft(g: OnnxWriter, pairs: Value, dims: Sequence[int], normalization: int, forward: bool) -> Value:
    """The transform of numbers in pairs, or of real numbers in a last dim of size 1, over `dims`."""
    count = math.prod(pairs.shape[d] for d in dims)
    x = g.op("Unsqueeze", pairs, g.ints([0]))  # ONNX's first dim is never transformed
    for d in dims:
        if g.opset < 20:
            x = g.op("DFT", x, axis=d + 1, inverse=int(not forward))
        else:
            x = g.op("DFT", x, None, g.constant(d + 1, dtype=dtypes.int64), inverse=int(not forward))
    return _onnx_scaled(g, g.op("Squeeze", x, g.ints([0])), count, normalization, forward)


def _onnx_scaled(g: OnnxWriter, x: Value, count: Any, normalization: int, forward: bool) -> Value:
    """A transform scaled as asked; ONNX scales inverse ones by 1 / number of bins, and forward ones not at all."""
    power = {UNSCALED: 0.0, BY_ROOT: -0.5, BY_SIZE: -1.0}[normalization] + (0.0 if forward else 1.0)
    if power == 0:
        return x
    if type(count) is int:
        return g.op("Mul", x, g.constant(count**power, like=x))
    return g.op("Mul", x, g.op("Pow", g.constant(count, like=x), g.constant(power, like=x)))


@_fft_c2c.onnx
def _(g: OnnxWriter, self: Value, dim: Ints, normalization: int, forward: bool) -> Value:
    dims = [d % self.ndim for d in dim]
    return g.from_pairs(_dft(g, g.pairs(self), dims, normalization, forward)) if dims else g.op("Identity", self)


@_fft_r2c.onnx
def _(g: OnnxWriter, self: Value, dim: Ints, normalization: int, onesided: bool) -> Value:
    dims = [d % self.ndim for d in dim]
    whole = _dft(g, g.op("Unsqueeze", self, g.ints([-1])), dims, normalization, True)
    if onesided:
        half = self.shape[dims[-1]] // 2 + 1
        whole = g.op("Slice", whole, g.ints([0]), g.ints([half]), g.ints([dims[-1]]))
    return g.from_pairs(whole)


@_fft_c2r.onnx
def _(g: OnnxWriter, self: Value, dim: Ints, normalization: int, last_dim_size: int) -> Value:
    """The mirror image of the half is put behind it once the other dims are transformed."""
    if type(last_dim_size) is not int:
        raise g.unsupported("half a spectrum is completed by its mirror image, and its size is dynamic")
    *others, last = [d % self.ndim for d in dim]
    half = _dft(g, g.pairs(self), others, normalization, False) if others else g.pairs(self)
    mirrored = [last_dim_size - k for k in range(last_dim_size // 2 + 1, last_dim_size)]
    if mirrored:
        image = g.op("Gather", half, g.ints(mirrored), axis=last)
        half = g.op("Concat", half, g.op("Mul", image, g.constant([1, -1], like=image)), axis=last)
    whole = _dft(g, half, [last], normalization, False)
    return g.op("Gather", whole, g.constant(0, dtype=dtypes.int64), axis=-1)


# -- what users call: arguments ----------------------------------------------------------------------------------


def _scaling(norm: str | None, forward: bool) -> int:
    """The scaling of one direction's transform under "backward", "ortho" or "forward"."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise UsageError(f"norm should be 'backward', 'ortho' or 'forward', got {norm!r}")
    if norm == "ortho":
        return BY_ROOT
    return BY_SIZE if (norm == "forward") is forward else UNSCALED


def _promoted(F: Ops, name: str, x: Tensor, complex: bool) -> Any:
    """Integers as the default float dtype; if `complex`, real numbers as complex ones."""
    if x.dtype.is_half:
        raise DTypeError(f"{name}: {x.dtype.name} is too coarse to be transformed; cast with x.float()")
    wanted = dtypes.DEFAULT if x.dtype.is_integral else x.dtype
    if complex and not wanted.is_complex:
        wanted = dtypes.complex_of(wanted)
    return x if x.dtype is wanted else F._to_copy(x, dtype=wanted)


def _reals(F: Ops, name: str, x: Tensor) -> Any:
    if x.dtype.is_complex:
        raise DTypeError(f"{name}: expects a real tensor, got {x.dtype.name}; use fft_fft, or take x.real")
    return _promoted(F, name, x, False)


def _fitted(F: Ops, x: Tensor, dims: Sequence[int], sizes: Sequence[Any]) -> Any:
    """`x` with its dims cut, or filled up with zeros at the end, to these sizes."""
    for dim, size in zip(dims, sizes):
        if x.shape[dim] > size:
            x = F.slice(x, dim, 0, size)
        elif x.shape[dim] < size:
            x = F.constant_pad_nd(x, [0, 0] * (x.ndim - 1 - dim) + [0, size - x.shape[dim]], 0)
    return x


def _one(name: str, x: Tensor, n: int | None, dim: int) -> tuple[int, Any]:
    """(dim, number of points) of a transform of one dim."""
    if x.ndim == 0:
        raise DimError(f"{name}: a 0-d tensor has no dim to transform")
    dim = wrap_dim(dim, x.ndim)
    return dim, _points(name, x.shape[dim] if n is None else n)


def _points(name: str, count: Any) -> Any:
    if count < 1:
        raise ShapeError(f"{name}: expects at least one point to transform, got {count}")
    return count


def _several(name: str, x: Tensor, s: Ints | None, dim: Ints | None) -> tuple[list[int], list[Any]]:
    """(dims, numbers of points) of a transform of several dims: of those named, of the last len(s), or of all."""
    if dim is not None:
        dims = [wrap_dim(d, x.ndim) for d in dim]
        if len(set(dims)) != len(dims):
            raise ShapeError(f"{name}: dim {list(dim)} names a dim twice")
        if s is not None and len(s) != len(dims):
            raise ShapeError(f"{name}: s {list(s)} and dim {list(dim)} should be equally long")
    else:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"{name}: s has {count} sizes, but the tensor only {x.ndim} dims")
        dims = list(range(x.ndim - count, x.ndim))
    asked = [-1] * len(dims) if s is None else s
    return dims, [_points(name, x.shape[d] if n == -1 else n) for d, n in zip(dims, asked)]


def _real_several(
    name: str, x: Tensor, s: Ints | None, dim: Ints | None, from_half: bool = False
) -> tuple[list[int], list[Any]]:
    """`_several` for a transform from or to real numbers; if `from_half`, the last dim holds half a spectrum."""
    dims, sizes = _several(name, x, s, dim)
    if not dims:
        raise DimError(f"{name}: at least one dim must be transformed")
    if from_half and (s is None or s[-1] == -1):
        sizes[-1] = _points(name, 2 * (x.shape[dims[-1]] - 1))
    return dims, sizes


# -- what users call: transforms ---------------------------------------------------------------------------------


def _transform(F: Ops, name: str, x: Tensor, dims: list[int], sizes: list[Any], norm: Any, forward: bool) -> Tensor:
    """The transform of complex or real numbers, with all bins."""
    scaling = _scaling(norm, forward)
    x = _fitted(F, _promoted(F, name, x, not dims), dims, sizes)
    if x.dtype.is_complex:
        return F._fft_c2c(x, dims, scaling, forward)
    out = F._fft_r2c(x, dims, scaling, False)
    return out if forward else F.conj(out)


def _to_half(F: Ops, name: str, x: Tensor, dims: list[int], sizes: list[Any], norm: Any, forward: bool) -> Tensor:
    """The transform of real numbers to one half of the bins; inverse ones take the other dims as complex."""
    x, scaling = _fitted(F, _reals(F, name, x), dims, sizes), _scaling(norm, forward)
    if forward:
        return F._fft_r2c(x, dims, scaling, True)
    half = F.conj(F._fft_r2c(x, dims[-1:], scaling, True))
    return F._fft_c2c(half, dims[:-1], scaling, False) if dims[1:] else half


def _from_half(F: Ops, name: str, x: Tensor, dims: list[int], sizes: list[Any], norm: Any, forward: bool) -> Tensor:
    """The transform of one half of the bins to real numbers."""
    scaling = _scaling(norm, forward)
    x = _fitted(F, _promoted(F, name, x, True), dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    if not forward:
        return F._fft_c2r(x, dims, scaling, sizes[-1])
    x = F._fft_c2c(x, dims[:-1], scaling, True) if dims[1:] else x
    return F._fft_c2r(F.conj(x), dims[-1:], scaling, sizes[-1])


_KINDS: dict[str, tuple[Callable[..., Any], bool]] = {
    "fft": (_transform, True), "ifft": (_transform, False), "rfft": (_to_half, True), "irfft": (_from_half, False),
    "hfft": (_from_half, True), "ihfft": (_to_half, False),
}  # fmt: skip
"""The transforms by name, with their directions."""

_SAID = {
    "fft": "The Fourier transform over {}.", "ifft": "The inverse Fourier transform over {}.",
    "rfft": "One half of the Fourier transform of real numbers over {}; the other half is its mirror image.",
    "irfft": "The inverse of `rfft` over {}: real numbers.", "ihfft": "The inverse of `hfft` over {}.",
    "hfft": "The Fourier transform over {}, to real numbers, of one half of a signal that its mirror image completes.",
}  # fmt: skip
"""The documentation of each kind, with a place for the dims."""


def _declare(kind: str) -> tuple[Op, Op, Op]:
    """The transforms of one kind: over one dim, over the last two, over any."""
    function, forward = _KINDS[kind]
    from_half = function is _from_half

    def one(F: Ops, self: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
        name = f"fft_{kind}"
        if n is None and from_half and self.ndim:
            n = 2 * (self.shape[wrap_dim(dim, self.ndim)] - 1)
        dim, size = _one(name, self, n, dim)
        return function(F, name, self, [dim], [size], norm, forward)

    def several(F: Ops, self: Tensor, s: Ints | None, dim: Ints | None, norm: str | None) -> Tensor:
        name = f"fft_{kind}n"
        if function is _transform:
            dims, sizes = _several(name, self, s, dim)
        else:
            dims, sizes = _real_several(name, self, s, dim, from_half)
        return function(F, name, self, dims, sizes, norm, forward)

    one.__doc__, several.__doc__ = _SAID[kind].format("one dim"), _SAID[kind].format("several dims")
    given = _samples(from_half, function is _to_half)
    facets: dict[str, Any] = {"namespaces": ("fft",), "precision": Precision(cpu="float32")}
    return (
        composite(f"aten::fft_{kind}(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
                  samples=lambda: given(1), **facets)(one),
        composite(f"aten::fft_{kind}2(Tensor self, int[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
                  samples=lambda: given(2), **facets)(several),
        composite(f"aten::fft_{kind}n(Tensor self, int[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor",
                  samples=lambda: given(3), **facets)(several),
    )  # fmt: skip


def _samples(complex: bool, real: bool) -> Callable[[int], Any]:
    """Samples of a transform of one dim, of two, or of any; of what is complex, and of what must be real."""

    def samples(dims: int) -> Iterator[Sample]:
        numbers = _complex if complex else make
        settings: tuple[Any, ...] = ((), (4,), (7, 1), (None, 0, "ortho"), (None, -1, "forward"))
        if dims > 1:
            settings = (), ([3, 6],), ([4, -1], [2, 0], "ortho"), (None, [1, 2], "forward"), (None, 0)
        for setting in settings:
            yield sample(numbers(3, 4, 5), *setting, grad=not complex)
        yield sample(strided(numbers(4, 5)), note="strided", grad=not complex)
        yield sample(make(3, 4, low=-5, high=5, dtype="int64"), note="integer", grad=False)
        if not real:
            other = make(3, 4) if complex else _complex(3, 4)
            yield sample(other, note="reals" if complex else "complex", grad=complex)
        yield sample(make(3, 4, dtype="complex128" if complex else "float64"), note="double", grad=not complex)

    return samples


fft, fft2, fftn = _declare("fft")
ifft, ifft2, ifftn = _declare("ifft")
rfft, rfft2, rfftn = _declare("rfft")
irfft, irfft2, irfftn = _declare("irfft")
hfft, hfft2, hfftn = _declare("hfft")
ihfft, ihfft2, ihfftn = _declare("ihfft")

# -- what users call: frequencies and the order of bins ----------------------------------------------------------


def _spacing(name: str, n: int, d: float, dtype: DType | None) -> DType:
    if dtype is not None and dtype.is_integral:
        raise DTypeError(f"{name}: frequencies are floating numbers, not {dtype.name}")
    if n == 0 or d == 0:
        raise UsageError(f"{name}: {n} points at a distance of {d} have no frequencies")
    return dtype or dtypes.DEFAULT


_NEW = "*, ScalarType? dtype=None, Device? device=None"


@composite(f"aten::fft_fftfreq(int n, float d=1.0, {_NEW}) -> Tensor", namespaces=("fft",))
def fftfreq(F: Ops, n: int, d: float, dtype: DType | None, device: str | None) -> Tensor:
    """The frequencies of `fft`'s bins for n points at a distance d: 0, 1, ..., -2, -1, divided by n * d."""
    wanted = _spacing("fft_fftfreq", n, d, dtype)
    number = F.remainder(F.arange(n, device=device) + n // 2, n) - n // 2
    return F._to_copy(number, dtype=wanted) * (1.0 / (n * d))


@composite(f"aten::fft_rfftfreq(int n, float d=1.0, {_NEW}) -> Tensor", namespaces=("fft",))
def rfftfreq(F: Ops, n: int, d: float, dtype: DType | None, device: str | None) -> Tensor:
    """The frequencies of `rfft`'s bins for n points at a distance d: 0, 1, ..., n // 2, divided by n * d."""
    wanted = _spacing("fft_rfftfreq", n, d, dtype)
    return F._to_copy(F.arange(n // 2 + 1, device=device), dtype=wanted) * (1.0 / (n * d))


@rfftfreq.samples
@fftfreq.samples
def _() -> Iterator[Sample]:
    yield sample(5)
    yield sample(4, 0.5)
    yield sample(1, dtype=dtypes.float64, note="one")


def _shifted(F: Ops, self: Tensor, dim: Ints | None, rounding: int) -> Tensor:
    dims = range(self.ndim) if dim is None else [wrap_dim(d, self.ndim) for d in dim]
    shifts = [(self.shape[d] + rounding) // 2 for d in dims]
    return F.roll(self, shifts, list(dims)) if shifts else F.clone(self)


@composite("aten::fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor", namespaces=("fft",))
def fftshift(F: Ops, self: Tensor, dim: Ints | None) -> Tensor:
    """self with the bins in the order of their frequencies along dim: frequency 0 moves to the middle."""
    return _shifted(F, self, dim, 0)


@composite("aten::fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor", namespaces=("fft",))
def ifftshift(F: Ops, self: Tensor, dim: Ints | None) -> Tensor:
    """The inverse of `fftshift`: frequency 0 moves back to the front."""
    return _shifted(F, self, dim, 1)


@ifftshift.samples
@fftshift.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 5))
    yield sample(make(3, 5), 1)
    yield sample(make(3, 4, 5), [-1, 0])
    yield sample(strided(_complex(3, 4)), note="strided", grad=False)
    yield sample(make(), note="0-d", onnx=False)
