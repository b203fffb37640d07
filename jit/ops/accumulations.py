"""Running results along a dim: products, extrema, differences and integrals by trapezoids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.geometry import wrap_dim
from jit.ir.kernel import Kernel
from jit.ir.op import absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided, whole
from jit.ir.types import TensorType

from .common import is_complex, is_fixed, ordered_only, running, running_dtype, wide_sum_dtype
from .reductions import dtype_of

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.types import Type

    from .protocols import Array, KnownType, Number, Numpy, OnnxWriter, Ops, Tensor, Term, Terms, Value

NO_SCAN = absent("ONNX runs along a dim with sums alone")

# -- products ----------------------------------------------------------------------------------------------------


@Precision(cuda="float32")
@array(
    "aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    kernel=Kernel("scan"),
    inplace=True,
)
def cumprod(m: Numpy, self: Array, dim: int, dtype: DType | None) -> Array:
    """The running product along dim; integers give int64."""
    result = dtype or wide_sum_dtype(dtype_of(self))
    at = wrap_dim(dim, self.ndim)
    if not self.ndim:
        return m.array(self, result.numpy)
    values, wide = self.astype(result.numpy, copy=False), running_dtype(result).numpy
    return m.cumprod(values, axis=at, dtype=wide).astype(result.numpy, copy=False)


@cumprod.terms
def _(t: Terms, self: Term) -> Term:
    return running(t, "prod", self)


@cumprod.type
def _(self: KnownType, dim: int, dtype: DType | None) -> TensorType:
    assert self.dtype is not None and self.sizes is not None
    wrap_dim(dim, len(self.sizes))
    return TensorType(dtype or wide_sum_dtype(self.dtype), self.sizes, None, self.device)


@cumprod.grad
def _(F: Ops, g: Tensor, needs: Sequence[bool], self: Tensor, dim: int, dtype: DType | None) -> Sequence[Tensor | None]:
    """The product of what came before, times what follows.

    Note [Running products without division]
        dL/dx[k] = before[k] * follows[k], where before[k] = x[0] ... x[k-1], and follows[k] = g[k] + x[k+1] *
        follows[k+1]. That recurrence is solved by doubling: after s steps, b[k] sums the next 2**s terms and a[k] is
        the product of the next 2**s factors. Nothing is divided by, so zeros need no care, in any order.
    """
    if not self.ndim:
        return (g,)
    x = self if dtype is None else F._to_copy(self, dtype=dtype)
    at, size = wrap_dim(dim, x.ndim), x.shape[dim]
    if size == 0:
        return (g,)
    before = F.cat([F.ones_like(F.narrow(x, at, 0, 1)), F.narrow(F.cumprod(x, at), at, 0, size - 1)], at)
    follows = _from_the_end(F, _ahead(F, x, at, 1), g, at, size)
    gradient = before * follows
    return (gradient if dtype is None else F._to_copy(gradient, dtype=self.dtype),)


def _from_the_end(F: Ops, a: Tensor, b: Tensor, dim: int, size: int) -> Tensor:
    step = 1
    while step < size:
        b = b + a * _ahead(F, b, dim, step)
        a = a * _ahead(F, a, dim, step)
        step *= 2
    return b


def _ahead(F: Ops, x: Tensor, dim: int, step: int) -> Tensor:
    """x[k + step] at k, 0 beyond the end."""
    size = x.shape[dim]
    rest = F.narrow(x, dim, step, size - step)
    return F.constant_pad_nd(rest, [0, 0] * (x.ndim - 1 - dim) + [0, step])


def _running_samples() -> Iterator[Sample]:
    yield sample(make(3, 4), 1)
    yield sample(make(3, 4), -2)
    yield sample(make(), 0, note="0-d")
    yield sample(make(0, 3), 0, note="empty")
    yield sample(strided(make(3, 5)), 1, note="strided")
    yield sample(whole(5, low=-3, high=3, dtype="int32"), 0, note="integer", grad=False)
    yield sample(make(5, dtype="bool"), 0, note="bool", grad=False)


@cumprod.onnx
def _(g: OnnxWriter, self: Value, dim: int, dtype: DType | None) -> Value:
    values = g.cast(self, g.out.dtype)
    if self.ndim == 0:
        return g.op("Identity", values)
    wide, at = g.cast(values, running_dtype(values.dtype)), wrap_dim(dim, self.ndim)
    if g.runs("CumProd", wide.dtype):
        return g.cast(g.op("CumProd", wide, g.constant(at, dtype="int64")), values.dtype)
    size = self.shape[at]
    if not is_fixed(size):
        raise g.unsupported("ONNX has products along a dim of any size from opset 26 on", since=26)
    return g.cast(_onnx_products(g, wide, at, size), values.dtype)


def _onnx_products(g: OnnxWriter, x: Value, at: int, size: int) -> Value:
    """Running products in log2(size) steps: those of 2, 4, 8, ... entries, each of two of half as many."""
    count = 1
    while count < size:
        before = g.op("Slice", x, g.ints([0]), g.ints([size - count]), g.ints([at]))
        pads = [count if dim == at else 0 for dim in range(2 * x.ndim)]
        x = g.op("Mul", x, g.op("Pad", before, g.ints(pads), g.constant(1, like=x)))
        count *= 2
    return x


@cumprod.samples
def _() -> Iterator[Sample]:
    yield from _running_samples()
    yield sample(np.array([2.0, 0.0, 3.0, 0.0, 1.5], np.float32), 0, note="zeros")
    yield sample(make(5), 0, dtype=dtypes.float64, note="another dtype")
    yield sample(make(9, dtype="float16"), 0, note="half", grad=False)


# -- extrema -----------------------------------------------------------------------------------------------------


def _running(m: Numpy, ufunc: str, self: Array, dim: int) -> Any:
    """(running extrema, the index where each was last attained); from a NaN on, all are NaN."""
    at = wrap_dim(dim, self.ndim)
    if not self.ndim or not self.size:
        return self.copy(), m.zeros(self.shape, m.int64)
    values = m.running(ufunc, self, at)
    attained = (self == values) | (self != self)
    counts = m.arange(self.shape[at]).reshape([-1 if d == at else 1 for d in range(self.ndim)])
    return values, m.running("maximum", m.where(attained, counts, 0), at)


def _running_type(self: KnownType, dim: int) -> Sequence[Type]:
    wrap_dim(dim, len(self.sizes or ()))
    if self.dtype is not None and is_complex(self.dtype):
        raise DTypeError(
            "cummax and cummin do not take complex tensors, which have no order; compare abs() or the real parts"
        )
    return [TensorType(d, self.sizes, None, self.device) for d in (self.dtype, dtypes.int64)]


def _to_attained(F: Ops, g: Tensor, out: Sequence[Tensor], dim: int) -> Tensor:
    return F.scatter_add(F.zeros_like(g), dim, out[1], g) if g.ndim else g


@ordered_only
@array("aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", type=_running_type, onnx=NO_SCAN,
       kernel=Kernel("scan"),
       promote=("self",), grad=dict(self=lambda F, g, out, dim: _to_attained(F, g, out, dim)))  # fmt: skip
def cummax(m: Numpy, self: Array, dim: int) -> Sequence[Array | None]:
    """(the running maximum along dim, the index where it was last attained)."""
    return _running(m, "maximum", self, dim)


@ordered_only
@array("aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", type=_running_type, onnx=NO_SCAN,
       kernel=Kernel("scan"),
       promote=("self",), grad=dict(self=lambda F, g, out, dim: _to_attained(F, g, out, dim)))  # fmt: skip
def cummin(m: Numpy, self: Array, dim: int) -> Sequence[Array | None]:
    """(the running minimum along dim, the index where it was last attained)."""
    return _running(m, "minimum", self, dim)


def _running_extremum(t: Terms, self: Term, monoid: str) -> Any:
    """(the extremum so far, the index where it was last attained)."""
    extremum = t.running(monoid, self)
    if not t.row:
        return extremum, t.apply(lambda m, a: m.constant(0, dtypes.int64), self, dtype=dtypes.int64)
    attained = t.apply(_attained, self, extremum, t.position(), dtype=dtypes.int64, cost=4)
    return extremum, t.running("max", attained)


def _attained(m: Any, x: Any, extremum: Any, position: Any) -> Any:
    return m.where((x == extremum) | m.isnan(x), position, 0)


@cummax.terms
def _(t: Terms, self: Term) -> Sequence[Term | None]:
    return _running_extremum(t, self, "max")


@cummin.terms
def _(t: Terms, self: Term) -> Sequence[Term | None]:
    return _running_extremum(t, self, "min")


@cummax.samples
@cummin.samples
def _() -> Iterator[Sample]:
    yield from _running_samples()
    yield sample(np.array([1.0, 1.0, np.nan, 3.0, np.nan], np.float32), 0, note="nan and ties", grad=False)


# -- differences -------------------------------------------------------------------------------------------------


@composite("aten::diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor")
def diff(F: Ops, self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    """The differences of neighbours along dim, taken n times; of bools, whether they differ."""
    if self.ndim == 0:
        raise ShapeError("diff: expects at least 1 dim, got a 0-d tensor")
    if n < 0:
        raise UsageError(f"diff: n must not be negative, got {n}")
    if n == 0:
        return F.clone(self)
    at = wrap_dim(dim, self.ndim)
    ends = [t for t in (prepend, self, append) if t is not None]
    x = F.cat(ends, at) if len(ends) > 1 else self
    for _ in range(n):
        size = x.shape[at]
        if size == 0:
            return x
        low, high = F.narrow(x, at, 0, size - 1), F.narrow(x, at, 1, size - 1)
        x = F.ne(high, low) if x.dtype is dtypes.bool_ else high - low
    return x


@diff.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(4, 3), 2, 0)
    yield sample(make(2, 3), 1, 1, make(2, 1, seed=1), make(2, 2, seed=2))
    yield sample(make(5, dtype="bool"), note="bool", grad=False)


def _steps(F: Ops, name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The distances between the places x along dim, shaped to be multiplied with the pairs of y."""
    at = wrap_dim(dim, y.ndim)
    if x.ndim == 1:
        if x.shape[0] != y.shape[at]:
            raise ShapeError(
                f"{name}: x should have {y.shape[at]} places, one for each entry of dim {dim}, got {x.shape[0]}"
            )
        return F.reshape(F.diff(x), [-1 if d == at else 1 for d in range(y.ndim)])
    return F.diff(x, 1, at - y.ndim)


def _pairs(F: Ops, y: Tensor, dim: int) -> Tensor:
    size = y.shape[dim]
    return F.narrow(y, dim, 1, size - 1) + F.narrow(y, dim, 0, size - 1)


def _half(x: Tensor) -> Tensor:
    return x / 2


def _nothing(F: Ops, y: Tensor, dim: int) -> Tensor:
    shape = [s for d, s in enumerate(y.shape) if d != wrap_dim(dim, y.ndim)]
    return F.zeros(shape, dtype=y.dtype, device=y.device)


@composite("aten::trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", aliases=("trapz",), namespaces=("jit",))
def trapezoid_at(F: Ops, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The integral of y along dim by trapezoids; its values lie at the places x, or dx apart."""
    if y.shape[dim] == 0:
        return _nothing(F, y, dim)
    return _half(F.sum(_steps(F, "trapezoid", y, x, dim) * _pairs(F, y, dim), dim))


@composite("aten::trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", aliases=("trapz",),
           namespaces=("jit",))  # fmt: skip
def trapezoid(F: Ops, y: Tensor, dx: Number, dim: int) -> Tensor:
    """The integral of y along dim by trapezoids; its values lie dx apart."""
    if y.shape[dim] == 0:
        return _nothing(F, y, dim)
    return F.sum(_pairs(F, y, dim), dim) * (dx / 2)


@composite("aten::cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", namespaces=("jit",))
def cumulative_trapezoid_at(F: Ops, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The running integral of y along dim by trapezoids; its values lie at the places x, or dx apart."""
    return _half(F.cumsum(_steps(F, "cumulative_trapezoid", y, x, dim) * _pairs(F, y, dim), dim))


@composite("aten::cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", namespaces=("jit",))
def cumulative_trapezoid(F: Ops, y: Tensor, dx: Number, dim: int) -> Tensor:
    """The running integral of y along dim by trapezoids; its values lie dx apart."""
    return F.cumsum(_pairs(F, y, dim), dim) * (dx / 2)


@trapezoid_at.samples
@cumulative_trapezoid_at.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4), make(4, seed=1))
    yield sample(make(3, 4), make(3, 4, seed=1), dim=0)


@trapezoid.samples
@cumulative_trapezoid.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 4))
    yield sample(make(3, 4), dx=0.5, dim=0)
