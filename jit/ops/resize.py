"""Resizing images: every method is a linear map, separately along each spatial dim.

Note [Resizing as linear maps]
    Along one dim, resizing says: out[i] = sum_j W[i, j] * in[j], where W depends on sizes and settings alone. So the
    derivative is the transposed map along each dim, and the derivative of that is the op again. Of the nearest entry, W
    is an index, and its transpose adds the runs of entries that came from the same one; of the others it is a few taps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.op import Op, absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .resize_taps import dense, taps, weighted, weighted_back, weighted_bytes

if TYPE_CHECKING:
    from jit.ir.dtypes import DType

    from .protocols import Array, Ints, KnownType, Meta, Numpy, OnnxWriter, Ops, Tensor, Value

# -- weights along one dim ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def nearest(mode: str, size: int, out: int, scale: float | None) -> Any:
    """The index in `size` entries that each of `out` entries copies; places are found in single precision."""
    if size < 1 or out < 1:
        raise ShapeError(f"resizing needs sizes of at least 1, got {size} to {out}")
    step = np.float32(1 / scale if scale else np.float32(size) / np.float32(out))
    if mode == "nearest":
        places = np.arange(out, dtype=np.float32) * step
    else:
        places = ((np.arange(out) + 0.5) * np.float64(step)).astype(np.float32)
    return np.minimum(np.floor(places).astype(np.int64), size - 1)


def _along_dims(m: Numpy, x: Array, steps: Sequence[Any], apply: Callable[[Any, Any, Any, int], Any]) -> Any:
    """`apply` one step to each of the trailing dims of `x`, as many as there are steps, the last dim first."""
    y = x
    for dim in range(x.ndim - 1, x.ndim - len(steps) - 1, -1):
        y = apply(m, y, steps[dim - x.ndim], dim)
    return x.copy() if y is x else m.ascontiguousarray(y)


def _copies(places: Array, size: int) -> int | None:
    """The number of times that each of `size` entries is taken, one after the other, if it is the same for all."""
    times, rest = divmod(len(places), max(size, 1))
    return times if not rest and (places == np.arange(size).repeat(times)).all() else None


def _taken(m: Numpy, x: Array, index: tuple[Array, int], dim: int) -> Array:
    places, size = index
    times = _copies(places, size)
    if times == 1:
        return x
    if times is None:
        return m.take(x, m.asarray(places), axis=dim)
    sizes = (*x.shape[: dim + 1], times, *x.shape[dim + 1 :])
    return m.broadcast_to(m.expand_dims(x, dim + 1), sizes).reshape(*x.shape[:dim], len(places), *x.shape[dim + 1 :])


def _given_back(m: Numpy, x: Array, index: tuple[Array, int], dim: int) -> Array:
    """The transpose of `_taken`: `index` never falls, so what came from one entry is a run."""
    places, size = index
    before: tuple[Any, ...] = (slice(None),) * dim
    times = _copies(places, size)
    if times == 1:
        return x
    if times:
        runs = x.reshape(*x.shape[:dim], size, times, *x.shape[dim + 1 :])
        return sum((runs[(*before, slice(None), number)] for number in range(1, times)),
                   start=runs[(*before, slice(None), 0)])  # fmt: skip
    met, starts, counts = np.unique(places, return_index=True, return_counts=True)
    sums = m.take(x, m.asarray(starts), axis=dim)
    for number in range(1, counts.max(initial=0)):
        going = np.flatnonzero(counts > number)
        sums[(*before, m.asarray(going))] += m.take(x, m.asarray(starts[going] + number), axis=dim)
    if len(met) == size:
        return sums
    out = m.zeros((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype)
    out[(*before, m.asarray(met))] = sums
    return out


# -- declarations ------------------------------------------------------------------------------------------------

_ABSENT_BACKWARD = absent("the gradient of resizing has no ONNX operator")
_DIMS = {1: "w", 2: "hw", 3: "dhw"}
_SIZES = {1: "[N, C, L]", 2: "[N, C, H, W]", 3: "[N, C, D, H, W]"}
_HOW = {
    "nearest": "by copies of the entry at or before each place",
    "nearest-exact": "by copies of the entry nearest to each place",
    "linear": "by linear interpolation", "cubic": "by cubic interpolation",
    "linear_aa": "by antialiased linear interpolation", "cubic_aa": "by antialiased cubic interpolation",
}  # fmt: skip
"""The words for each method in the documentation of its operators."""


def _check(self: Any, rank: int, output_size: Sequence[int]) -> None:
    if len(self.shape) != rank + 2 or len(output_size) != rank:
        raise ShapeError(
            f"resizing over {rank} dims expects a tensor of {rank + 2} dims and {rank} output sizes, "
            f"got {list(self.shape)} and {list(output_size)}"
        )


def _declare(name: str, mode: str, rank: int, samples: Callable[[], Any]) -> tuple[Op, Op]:
    """One resizing op and its backward: `upsample_<name>`, over `rank` spatial dims."""
    scales = [f"scales_{d}" if rank > 1 else "scales" for d in _DIMS[rank]]
    settings = ["output_size", *([] if mode.startswith("nearest") else ["align_corners"]), *scales]
    index = mode.startswith("nearest")
    typed = {"output_size": f"int[{rank}] output_size", "align_corners": "bool align_corners"}
    text = [typed.get(s, f"float? {s}=None") for s in settings]
    public = name if name.startswith("_") else f"upsample_{name}"

    def steps(shape: Sequence[int], options: dict[str, Any]) -> list[Any]:
        align = bool(options.get("align_corners", False))
        each = zip(shape[-rank:], options["output_size"], [options[s] for s in scales])
        if index:
            return [(nearest(mode, n, o, factor), n) for n, o, factor in each]
        return [taps(mode, n, o, align, factor) for n, o, factor in each]

    def forward(m: Numpy, self: Array, *given: Any) -> Array:
        options = dict(zip(settings, given))
        _check(self, rank, options["output_size"])
        if not index:
            _check_dtype(self.dtype, rank)
        way = _taken if index else weighted_bytes if self.dtype == np.uint8 else weighted
        return _along_dims(m, self, steps(self.shape, options), way)

    def backward(m: Numpy, grad_output: Array, output_size: Ints, input_size: Ints, *given: Any) -> Array:
        options = dict(zip(settings, (output_size, *given)))
        return _along_dims(m, grad_output, steps(input_size, options), _given_back if index else weighted_back)

    def forward_grad(F: Ops, g: Tensor, self_meta: Meta, *given: Any) -> Any:
        return getattr(F, f"{public}_backward")(g, given[0], list(self_meta.shape), *given[1:])

    def backward_grad(F: Ops, g: Tensor, *given: Any) -> Any:
        return getattr(F, public)(g, *given)

    forward.__doc__ = f"self, {_SIZES[rank]}, resized to the spatial sizes `output_size` {_HOW[mode]}."
    backward.__doc__ = f"The gradient of the input of `{public}`, of sizes `input_size`."
    op: Op = array(f"aten::{public}(Tensor self, {', '.join(text)}) -> Tensor",
                   grad=dict(self=_named(forward_grad, "F g self_meta", settings)), samples=samples,
                   namespaces=("jit", "nn.functional"))(_named(forward, "m self", settings))  # fmt: skip
    Precision(cuda="float32")(op)
    op.type(_local(lambda self, *given: _result_type(rank, mode, self, *given)))
    op.onnx(_local(lambda g, self, *given: _onnx(g, self, mode, dict(zip(settings, given)))))
    sizes = f"int[{rank}] output_size, int[{rank + 2}] input_size, {', '.join(text[1:])}"
    back: Op = array(f"aten::{public}_backward(Tensor grad_output, {sizes}) -> Tensor",
                     grad=dict(grad_output=_named(backward_grad, "F g", settings)), namespaces=("jit",),
                     onnx=_ABSENT_BACKWARD, samples=_backward_samples(samples, rank))(
        _named(backward, "m grad_output output_size input_size", settings[1:]))  # fmt: skip
    back.type(_local(lambda g, output_size, input_size, *_: TensorType(g.dtype, tuple(input_size), None, g.device)))
    if index:
        parts = (partial(given, mode, rank) for given in (_copied, _summed))
        op.parts(_named(next(parts), "F self", settings))
        back.parts(_named(next(parts), "F grad_output output_size input_size", settings[1:]))
    _declare_vec(public, rank, index, samples)
    return op, back


def _copied(mode: str, rank: int, F: Ops, self: Tensor, output_size: Ints, *scales: float | None) -> Tensor | None:
    """Each entry repeated, where sizes grow by whole factors: copies and views, which kernels look through."""
    sizes, factors = self.shape[-rank:], _factors(mode, self.shape[-rank:], output_size, scales)
    if factors is None or self.device != "cpu":
        return None
    apart = [n for size in sizes for n in (size, 1)]
    wide = [n for size, factor in zip(sizes, factors, strict=True) for n in (size, factor)]
    repeated = F.expand(F.reshape(self, [*self.shape[:2], *apart]), [*self.shape[:2], *wide])
    return F.reshape(repeated, [*self.shape[:2], *output_size])


def _summed(
    mode: str, rank: int, F: Ops, grad_output: Tensor, output_size: Ints, input_size: Ints, *scales: float | None
) -> Tensor | None:
    """The sums of what was repeated."""
    sizes, factors = input_size[-rank:], _factors(mode, input_size[-rank:], output_size, scales)
    if factors is None or grad_output.device != "cpu":
        return None
    apart = [n for size, factor in zip(sizes, factors, strict=True) for n in (size, factor)]
    return F.sum(F.reshape(grad_output, [*input_size[:2], *apart]), list(range(3, 3 + 2 * rank, 2)))


def _factors(
    mode: str, sizes: Sequence[int], output: Sequence[int], scales: Sequence[float | None]
) -> list[int] | None:
    """The whole numbers by which sizes grow, if entries are repeated just so; None if not, or if nobody knows."""
    found = []
    for size, out, scale in zip(sizes, output, scales, strict=True):
        known = type(size) is int and type(out) is int
        factor = out // max(size, 1) if known else int(scale or 0)
        if factor < 1 or str(size * factor) != str(out):
            return None
        if known:
            exact = bool((nearest(mode, size, out, scale) == np.arange(out) // factor).all()) if out else False
        else:  # then places are exact in single precision, whatever the sizes
            exact = factor & (factor - 1) == 0 and scale == factor
        if not exact:
            return None
        found.append(factor)
    return found


def _declare_vec(public: str, rank: int, index: bool, samples: Callable[[], Any]) -> None:
    """The overload that takes either the sizes or the factors, in lists."""

    def body(F: Ops, input: Tensor, output_size: Ints | None, *rest: Any) -> Tensor:
        *settings, factors = rest
        if (output_size is None) == (factors is None):
            raise UsageError(f"{public}: pass either output_size or scale_factors, and not both")
        given = _checked_count(public, rank, output_size if factors is None else factors)
        if factors is None:
            return getattr(F, public)(input, given, *settings, *[None] * rank)
        return getattr(F, public)(input, _scaled(input.shape[-rank:], given), *settings, *given)

    names = ["output_size", *([] if index else ["align_corners"]), "scale_factors"]
    text = ", ".join(("int[]? output_size", *([] if index else ["bool align_corners"]), "float[]? scale_factors"))
    composite(f"aten::{public}.vec(Tensor input, {text}) -> Tensor", namespaces=("jit", "nn.functional"),
              samples=_vec_samples(samples, rank))(_named(body, "F input", names))  # fmt: skip


def _checked_count(name: str, rank: int, values: Any) -> Any:
    if len(values) != rank:
        raise UsageError(f"{name}: expects one number for each of the {rank} spatial dims, got {list(values)}")
    return values


def _vec_samples(samples: Callable[[], Any], rank: int) -> Callable[[], Any]:
    def made() -> Iterator[Sample]:
        for item in samples():
            x, sizes, *settings = item.args
            if item.note == "factor":
                yield sample(x, None, *settings, [1.6] * rank, note="factors", onnx=False)
            elif item.note in ("", "smaller"):
                yield sample(x, sizes, *settings, None, note=item.note)

    return made


def _local(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__module__ = __name__
    return function


def _named(function: Callable[..., Any], leading: str, settings: Sequence[str]) -> Callable[..., Any]:
    """`function` with its parameters spelled out, as declarations are checked by name."""
    import inspect

    names = [*leading.split(), *settings]
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined,unused-ignore]
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    )
    return _local(function)


def _result_type(rank: int, mode: str, self: KnownType, output_size: Sequence[int], *_: Any) -> TensorType:
    _check(self, rank, output_size)
    if not mode.startswith("nearest"):
        _check_dtype(self.dtype, rank)
    return _resized(self, output_size)


def _check_dtype(dtype: DType, rank: int) -> None:
    """DTypeError for whole numbers, which have nothing between neighbours; bytes of images are rounded."""
    known = None if dtype is None else dtypes.as_dtype(dtype)
    if known is None or known.is_floating_point or known.is_complex or (rank == 2 and known is dtypes.uint8):
        return
    raise DTypeError(
        f"interpolation between neighbours expects a floating tensor{' or uint8' if rank == 2 else ''}, got "
        f"{known.name}; cast with x.float(), or use the mode 'nearest'"
    )


def _resized(self: TensorType, sizes: Sequence[int]) -> TensorType:
    assert self.shape is not None
    return TensorType(self.dtype, (*self.shape[:2], *sizes), None, self.device)


def _onnx(g: OnnxWriter, self: Value, mode: str, options: dict[str, Any]) -> Value:
    align = options.get("align_corners", False)
    factors = [options[s] for s in sorted(options) if s.startswith("scales")]  # scales_d, scales_h, scales_w
    by_factor = not align and not all(map(_is_ratio, factors, self.shape[2:], options["output_size"]))
    if by_factor and (mode.endswith("_aa") or not all(map(_is_short, factors))):
        raise g.unsupported("an explicit scale factor that differs from the ratio of the sizes")
    if mode.endswith("_aa"):
        return _onnx_matrices(g, self, mode, options["output_size"], align)
    attributes: dict[str, Any] = {"mode": mode}
    attributes["coordinate_transformation_mode"] = "align_corners" if align else "half_pixel"
    if mode == "nearest":
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if mode == "nearest-exact":
        attributes |= {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
    if mode == "cubic":
        attributes["cubic_coeff_a"] = -0.75
    if by_factor:
        return g.op("Resize", self, None, g.constant(np.array([1, 1, *factors], np.float32)), **attributes)
    if g.opset >= 18:
        axes = list(range(2, self.ndim))
        return g.op("Resize", self, None, None, g.ints(options["output_size"]), axes=axes, **attributes)
    sizes = g.ints([*self.shape[:2], *options["output_size"]])
    return g.op("Resize", self, None, None, sizes, **attributes)


def _is_ratio(factor: float | None, size: Any, out: Any) -> bool:
    """Whether a factor is the ratio of the sizes; where a size varies, whole factors are, as nothing is rounded."""
    if not factor:
        return True
    if type(size) is int and type(out) is int:
        return bool(out == size * factor)
    return float(factor).is_integer()


def _is_short(factor: float | None) -> bool:
    """Whether a factor is exact in ONNX's float32, with bits to spare, so that the sizes that it gives are ours."""
    return factor is not None and (factor * 256).is_integer() and factor < 256


def _onnx_matrices(g: OnnxWriter, self: Value, mode: str, output_size: Sequence[int], align: bool) -> Value:
    """Products with the matrices of weights.

    ONNX's antialiased Resize is another function: onnxruntime 1.31 treats the edges differently, and its cubic differs
    everywhere.
    """
    sizes = (*self.shape[2:], *output_size)
    if not all(type(size) is int for size in sizes):
        raise g.unsupported("antialiased resizing of or to sizes that vary")
    height, width = (dense(taps(mode, size, out, align, None)) for size, out in zip(self.shape[2:], output_size))
    rows = g.op("MatMul", g.constant(height, like=self), self)
    return g.op("MatMul", rows, g.constant(width.T, like=self))


def _samples(rank: int, aligned: bool) -> Callable[[], Any]:
    small, large = [3, 4, 5][-rank:], [5, 7, 9][-rank:]

    def samples() -> Iterator[Sample]:
        for align in (False, True) if aligned else (None,):
            extra = () if align is None else (align,)
            yield sample(make(2, 3, *small), large, *extra)
            yield sample(make(1, 2, *large), small, *extra, note="smaller")
            yield sample(make(2, 1, *small), [1] * rank, *extra, note="to one", onnx=False)
            yield sample(
                make(2, 1, *small, dtype="float64"), [2 * n for n in small], *extra, note="float64", onnx=False
            )
            yield sample(strided(make(2, 3, *small)), large, *extra, note="strided", grad=False)
            factors: dict[str, Any] = {("scales" if rank == 1 else f"scales_{d}"): 1.6 for d in _DIMS[rank]}
            yield sample(
                make(1, 1, *small), [int(n * 1.6) for n in small], *extra, note="factor", onnx=False, **factors
            )

    return samples


def _backward_samples(samples: Callable[[], Any], rank: int) -> Callable[[], Any]:
    def made() -> Iterator[Sample]:
        for item in samples():
            shape, sizes, rest = item.args[0].shape, item.args[1], item.args[2:]
            g = make(*shape[:2], *sizes, dtype=item.args[0].dtype, seed=3)
            yield sample(g, sizes, list(shape), *rest, note=item.note, grad=item.grad, onnx=False, **item.kwargs)

    return made


upsample_nearest1d, upsample_nearest1d_backward = _declare("nearest1d", "nearest", 1, _samples(1, False))
upsample_nearest2d, upsample_nearest2d_backward = _declare("nearest2d", "nearest", 2, _samples(2, False))
upsample_nearest3d, upsample_nearest3d_backward = _declare("nearest3d", "nearest", 3, _samples(3, False))
_upsample_nearest_exact1d, _upsample_nearest_exact1d_backward = _declare(
    "_upsample_nearest_exact1d", "nearest-exact", 1, _samples(1, False)
)
_upsample_nearest_exact2d, _upsample_nearest_exact2d_backward = _declare(
    "_upsample_nearest_exact2d", "nearest-exact", 2, _samples(2, False)
)
_upsample_nearest_exact3d, _upsample_nearest_exact3d_backward = _declare(
    "_upsample_nearest_exact3d", "nearest-exact", 3, _samples(3, False)
)
upsample_linear1d, upsample_linear1d_backward = _declare("linear1d", "linear", 1, _samples(1, True))
upsample_bilinear2d, upsample_bilinear2d_backward = _declare("bilinear2d", "linear", 2, _samples(2, True))
upsample_trilinear3d, upsample_trilinear3d_backward = _declare("trilinear3d", "linear", 3, _samples(3, True))
upsample_bicubic2d, upsample_bicubic2d_backward = _declare("bicubic2d", "cubic", 2, _samples(2, True))
_upsample_bilinear2d_aa, _upsample_bilinear2d_aa_backward = _declare(
    "_upsample_bilinear2d_aa", "linear_aa", 2, _samples(2, True)
)
_upsample_bicubic2d_aa, _upsample_bicubic2d_aa_backward = _declare(
    "_upsample_bicubic2d_aa", "cubic_aa", 2, _samples(2, True)
)

# -- what users call ---------------------------------------------------------------------------------------------

_METHODS = {
    ("nearest", 1): "upsample_nearest1d", ("nearest", 2): "upsample_nearest2d", ("nearest", 3): "upsample_nearest3d",
    ("nearest-exact", 1): "_upsample_nearest_exact1d", ("nearest-exact", 2): "_upsample_nearest_exact2d",
    ("nearest-exact", 3): "_upsample_nearest_exact3d", ("linear", 1): "upsample_linear1d",
    ("bilinear", 2): "upsample_bilinear2d", ("trilinear", 3): "upsample_trilinear3d",
    ("bicubic", 2): "upsample_bicubic2d", ("area", 1): "adaptive_avg_pool1d", ("area", 2): "adaptive_avg_pool2d",
    ("area", 3): "adaptive_avg_pool3d",
}  # fmt: skip
_WITHOUT_CORNERS = ("nearest", "nearest-exact", "area")
_FUNCTIONAL = ("nn.functional",)


@composite("aten::interpolate(Tensor input, int[1]? size=None, float[1]? scale_factor=None, str mode='nearest', "
           "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
           namespaces=_FUNCTIONAL)  # fmt: skip
def interpolate(
    F: Ops, input: Tensor, size: Ints | None, scale_factor: Sequence[float] | None, mode: str,
    align_corners: bool | None, recompute_scale_factor: bool | None, antialias: bool,
) -> Tensor:  # fmt: skip
    """input, [N, C, ...], with its spatial dims resized to `size`, or by `scale_factor`, in this mode."""
    rank = input.ndim - 2
    name = _METHODS.get((mode, rank))
    if name is None:
        modes = ", ".join(mode for mode, dims in _METHODS if dims == rank)
        way_out = f"use one of {modes}" if modes else "pass a tensor of 3 to 5 dims"
        raise UsageError(f"interpolate has no mode {mode!r} for tensors of {input.ndim} dims; {way_out}")
    _check_options(size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    sizes, factors = _wanted(input.shape[2:], size, scale_factor, bool(recompute_scale_factor) or mode == "area")
    if mode == "area":
        return getattr(F, name)(input, sizes)
    if mode in _WITHOUT_CORNERS:
        return getattr(F, name)(input, sizes, *factors)
    return getattr(F, f"_{name}_aa" if antialias else name)(input, sizes, bool(align_corners), *factors)


def _check_options(
    size: Ints | None, factor: Sequence[float] | None, mode: str, align: bool | None, recompute: bool | None,
    antialias: bool,
) -> None:  # fmt: skip
    if (size is None) == (factor is None):
        raise UsageError("interpolate: pass either size or scale_factor, and not both")
    if mode in _WITHOUT_CORNERS and align is not None:
        raise UsageError(f"align_corners belongs to linear and cubic modes; leave it out with mode {mode!r}")
    if recompute and size is not None:
        raise UsageError("recompute_scale_factor goes with scale_factor; leave it out where size is given")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise UsageError(f"antialias goes with the modes 'bilinear' and 'bicubic', not with {mode!r}")


def _wanted(shape: Ints, size: Ints | None, factor: Sequence[float] | None, recompute: bool) -> tuple[Any, Any]:
    """The sizes of the result, and the factors by which places are found; None for the ratio of the sizes."""
    given = _spread(factor if size is None else size, len(shape))
    if size is not None:
        return given, (None,) * len(shape)
    return _scaled(shape, given), (None,) * len(shape) if recompute else given


def _spread(value: Any, rank: int) -> tuple[Any, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * rank if len(values) == 1 else tuple(_checked_count("interpolate", rank, values))


def _scaled(shape: Ints, factors: Sequence[float]) -> tuple[int, ...]:
    return tuple(math.floor(n * f) for n, f in zip(shape, factors))


@interpolate.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 3, 4), [6, 8])
    yield sample(make(1, 2, 3, 4), None, [2.0, 2.0], "bilinear", onnx=False)
    yield sample(make(1, 2, 5), [3], None, "linear")
    yield sample(make(1, 2, 5), [8], None, "nearest-exact")
    yield sample(make(1, 2, 4, 6), None, [0.5, 0.5], "area", note="area")
    yield sample(make(1, 2, 5), None, [1.7], "linear", recompute_scale_factor=True, note="recomputed")


@composite("aten::upsample(Tensor input, int[1]? size=None, float[1]? scale_factor=None, str mode='nearest', "
           "bool? align_corners=None) -> Tensor", namespaces=_FUNCTIONAL)  # fmt: skip
def upsample(
    F: Ops, input: Tensor, size: Ints | None, scale_factor: Sequence[float] | None, mode: str,
    align_corners: bool | None,
) -> Tensor:  # fmt: skip
    """`interpolate` under its older name."""
    return F.interpolate(input, size, scale_factor, mode, align_corners)


@upsample.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 3, 4), [6, 8])


@composite("aten::upsample_nearest(Tensor input, int[1]? size=None, float[1]? scale_factor=None) -> Tensor",
           namespaces=_FUNCTIONAL)  # fmt: skip
def upsample_nearest(F: Ops, input: Tensor, size: Ints | None, scale_factor: Sequence[float] | None) -> Tensor:
    """`interpolate` to the nearest entry."""
    return F.interpolate(input, size, scale_factor, "nearest")


@upsample_nearest.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 3, 4), [6, 8])


@composite("aten::upsample_bilinear(Tensor input, int[1]? size=None, float[1]? scale_factor=None) -> Tensor",
           namespaces=_FUNCTIONAL)  # fmt: skip
def upsample_bilinear(F: Ops, input: Tensor, size: Ints | None, scale_factor: Sequence[float] | None) -> Tensor:
    """`interpolate` linearly, with the outermost entries at the outermost ones."""
    return F.interpolate(input, size, scale_factor, "bilinear", True)


@upsample_bilinear.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 3, 4), [6, 8])
