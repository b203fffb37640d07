"""Random numbers, drawn from an explicit counter-based state.

Element i of a draw depends on the seed, the offset and i alone (see Note [Where a random number lies] in
jit/runtime/arrays/philox.py), so a body says which numbers it wants and how many blocks of the sequence they cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.op import absent, composite, random
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

from .draws import placed_exponential, placed_integers, placed_normal, placed_uniform

if TYPE_CHECKING:
    from jit.ir.dtypes import DType
    from jit.ir.random_state import RandomState

    from .protocols import Array, Draw, Generator, Ints, KnownType, Number, Numpy, OnnxWriter, Ops, Tensor, Value

_NOTHING = absent("creates a tensor from nothing")
_FLAT = absent("the draw does not depend on the input's values")
_NEW = "ScalarType? dtype=None, Device? device=None, Generator? generator=None) -> Tensor"


def _new(size: Ints, dtype: DType | None, device: str | None) -> TensorType:
    return TensorType(dtype or dtypes.DEFAULT, tuple(size), None, device or "cpu")


def _like(self: KnownType, dtype: DType | None, device: str | None, generator: Generator | None) -> TensorType:
    return TensorType(dtype or self.dtype, self.shape, None, device or self.device)


def _drawn(m: Numpy, kind: str, state: RandomState, shape: Ints, element: Any) -> tuple[Any, int]:
    """(numbers of this `kind`, blocks of the sequence that they take).

    Both parts of complex numbers are drawn; those of normal ones have a variance of 1/2 each.
    """
    if m.dtype(element).kind == "c":
        part = dtypes.real_of(dtypes.from_numpy(m.dtype(element))).numpy
        pairs, blocks = _drawn(m, kind, state, (*shape, 2), part)
        pairs = pairs * part.type(math.sqrt(0.5)) if kind == "normal" else pairs
        return pairs.view(element)[..., 0], blocks
    numbers = getattr(m.philox, kind)(state, tuple(shape), element)
    return numbers, m.philox.blocks_used(kind, math.prod(shape), element)


def _element(dtype: DType | None) -> Any:
    return (dtype or dtypes.DEFAULT).numpy


def _check_sizes(size: Ints) -> None:
    if any(n < 0 for n in size):
        raise ShapeError(f"a tensor cannot have a negative size, got {list(size)}")


def _onnx_draw(g: OnnxWriter, name: str, size: Ints, **parameters: Any) -> Value:
    """RandomUniform or RandomNormal; where a size is traced, the Like form over a tensor of that size."""
    if all(type(s) is int for s in size):
        return g.op(name, dtype=g.out.dtype, shape=list(size), **parameters)
    like = g.op("Expand", g.constant(0.0, dtype=g.out.dtype), g.ints(list(size)))
    return g.op(f"{name}Like", like, dtype=g.out.dtype, **parameters)


# -- new tensors -------------------------------------------------------------------------------------------------


@random(f"aten::rand(int[] size, *, {_NEW}", namespaces=("jit",), grad=_NOTHING)
def rand(m: Numpy, state: RandomState, size: Ints, dtype: DType | None, device: str | None) -> tuple[Array, int]:
    """Numbers drawn evenly from [0, 1), in these sizes."""
    _check_sizes(size)
    return _drawn(m, "uniform", state, size, _element(dtype))


@rand.onnx
def _(g: OnnxWriter, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None) -> Value:
    return _onnx_draw(g, "RandomUniform", size)


@rand.samples
def _() -> Iterator[Sample]:
    yield sample([2, 3])
    yield sample([], note="0-d")
    yield sample([0], note="empty")
    yield sample([4], dtype=dtypes.float64, note="float64")


@random(f"aten::randn(int[] size, *, {_NEW}", namespaces=("jit",), grad=_NOTHING)
def randn(m: Numpy, state: RandomState, size: Ints, dtype: DType | None, device: str | None) -> tuple[Array, int]:
    """Numbers drawn from the standard normal distribution, in these sizes."""
    _check_sizes(size)
    return _drawn(m, "normal", state, size, _element(dtype))


@rand.parts
def _(F: Ops, size: Ints, dtype: DType | None, generator: Draw) -> Tensor | None:
    return _placed_floats(F, generator, size, dtype or dtypes.DEFAULT)


def _placed_floats(F: Ops, draw: Draw, sizes: Ints, dtype: DType) -> Tensor | None:
    return placed_uniform(F, draw, sizes, dtype) if dtype.is_floating_point else None


@randn.parts
def _(F: Ops, size: Ints, dtype: DType | None, generator: Draw) -> Tensor | None:
    return placed_normal(F, generator, size, dtype or dtypes.DEFAULT)


@rand.type
@randn.type
def _(size: Ints, dtype: DType | None, device: str | None, generator: Generator | None) -> TensorType:
    return _new(size, dtype, device)


@randn.onnx
def _(g: OnnxWriter, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None) -> Value:
    return _onnx_draw(g, "RandomNormal", size)


@randn.samples
def _() -> Iterator[Sample]:
    yield sample([2, 3])
    yield sample([0], note="empty")
    yield sample([3], dtype=dtypes.float16, note="half")


def _integers(m: Numpy, state: RandomState, low: int, high: int, size: Ints, dtype: DType | None) -> tuple[Any, int]:
    if low >= high:
        raise UsageError(f"randint: low {low} must be less than high {high}")
    if dtype is not None:
        _check_bounds(m, "randint", low, high, dtype.numpy)
    numbers = m.philox.randint(state, low, high, tuple(size))
    return numbers.astype((dtype or dtypes.int64).numpy), m.philox.blocks_used("randint", math.prod(size))


def _check_bounds(m: Numpy, name: str, low: int, high: int, dtype: Any) -> None:
    """Refuse numbers from low up to high that a dtype cannot hold: they would wrap around."""
    kind = dtypes.from_numpy(dtype)
    if kind is dtypes.bool_:
        least, most = 0, 1
    elif kind is dtypes.float16:
        least, most = -65504, 65504
    elif not kind.is_integral:
        return
    else:
        least, most = int(m.iinfo(dtype).min), int(m.iinfo(dtype).max)
    if low < least or high - 1 > most:
        raise UsageError(
            f"{name}: {kind.name} holds numbers from {least} to {most}, but {low} to {high - 1} are asked for"
        )


def _onnx_integers(g: OnnxWriter, low: int, high: int, size: Ints) -> Value:
    if not all(type(s) is int for s in size):
        raise g.unsupported("a size is traced, and RandomUniform takes numbers")
    numbers = g.op("RandomUniform", dtype=dtypes.float32, shape=list(size), low=float(low), high=float(high))
    return g.cast(g.op("Floor", numbers), g.out.dtype)


@random(f"aten::randint.low(int low, int high, int[] size, *, {_NEW}", namespaces=("jit",), grad=_NOTHING)
def randint_low(
    m: Numpy, state: RandomState, low: int, high: int, size: Ints, dtype: DType | None, device: str | None
) -> tuple[Array, int]:
    """Whole numbers drawn evenly from low (or 0) up to, but not including, high, in these sizes."""
    return _integers(m, state, low, high, size, dtype)


@randint_low.type
def _(
    low: int, high: int, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None
) -> TensorType:
    return _new(size, dtype or dtypes.int64, device)


@randint_low.parts
def _(F: Ops, low: int, high: int, size: Ints, dtype: DType | None, generator: Draw) -> Tensor | None:
    return _placed_integers(F, generator, low, high, size, dtype)


def _placed_integers(F: Ops, draw: Draw, low: int, high: int, sizes: Ints, dtype: DType | None) -> Tensor | None:
    """Numbers of int64; other dtypes may not hold them, which the interpreter says."""
    return placed_integers(F, draw, low, high, sizes) if dtype in (None, dtypes.int64) else None


@randint_low.onnx
def _(
    g: OnnxWriter, low: int, high: int, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None
) -> Value:
    return _onnx_integers(g, low, high, size)


@randint_low.samples
def _() -> Iterator[Sample]:
    yield sample(-3, 4, [2, 3])
    yield sample(0, 2, [3], dtype=dtypes.float32, note="float")


@random(f"aten::randint(int high, int[] size, *, {_NEW}", namespaces=("jit",), grad=_NOTHING)
def randint(
    m: Numpy, state: RandomState, high: int, size: Ints, dtype: DType | None, device: str | None
) -> tuple[Array, int]:
    """Whole numbers drawn evenly from 0 up to, but not including, high, in these sizes."""
    return _integers(m, state, 0, high, size, dtype)


@randint.type
def _(high: int, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None) -> TensorType:
    return _new(size, dtype or dtypes.int64, device)


@randint.parts
def _(F: Ops, high: int, size: Ints, dtype: DType | None, generator: Draw) -> Tensor | None:
    return _placed_integers(F, generator, 0, high, size, dtype)


@randint.onnx
def _(
    g: OnnxWriter, high: int, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None
) -> Value:
    return _onnx_integers(g, 0, high, size)


@randint.samples
def _() -> Iterator[Sample]:
    yield sample(10, [2, 3])
    yield sample(1, [0], note="empty")


@random(f"aten::randperm(int n, *, {_NEW}", namespaces=("jit",), grad=_NOTHING)
def randperm(m: Numpy, state: RandomState, n: int, dtype: DType | None, device: str | None) -> tuple[Array, int]:
    """The numbers below n in random order."""
    if n < 0:
        raise UsageError(f"randperm: n must not be negative, got {n}")
    order = m.philox.permutation(state, n).astype((dtype or dtypes.int64).numpy)
    return order, m.philox.blocks_used("permutation", n)


@randperm.type
def _(n: int, dtype: DType | None, device: str | None, generator: Generator | None) -> TensorType:
    return _new((n,), dtype or dtypes.int64, device)


@randperm.onnx
def _(g: OnnxWriter, n: int, dtype: DType | None, device: str | None, generator: Generator | None) -> Value:
    if type(n) is not int:
        raise g.unsupported("n is traced, and RandomUniform takes numbers")
    keys = g.op("RandomUniform", dtype=dtypes.float32, shape=[n])
    return g.cast(g.op("TopK", keys, g.ints([n]), axis=0, outputs=2)[1], g.out.dtype)


@randperm.samples
def _() -> Iterator[Sample]:
    yield sample(5)
    yield sample(0, note="empty", onnx=False)


# -- like a given tensor -----------------------------------------------------------------------------------------


@random(f"aten::rand_like(Tensor self, *, {_NEW}", namespaces=("jit",), type=_like, grad=_FLAT, sizes_alone=True)
def rand_like(m: Numpy, state: RandomState, self: Array, dtype: DType | None, device: str | None) -> tuple[Array, int]:
    """Numbers drawn evenly from [0, 1), in self's sizes and dtype."""
    return _drawn(m, "uniform", state, self.shape, dtype.numpy if dtype else self.dtype)


@rand_like.parts
def _(F: Ops, self: Tensor, dtype: DType | None, generator: Draw) -> Tensor | None:
    return _placed_floats(F, generator, self.shape, dtype or self.dtype)


@rand_like.onnx
def _(g: OnnxWriter, self: Value, dtype: DType | None, device: str | None, generator: Generator | None) -> Value:
    return g.op("RandomUniformLike", self, dtype=g.out.dtype)


@rand_like.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(3, low=-3, high=3, dtype="int64"), dtype=dtypes.float32, note="integer")
    yield sample(strided(make(2, 3)), note="strided")


@random(f"aten::randn_like(Tensor self, *, {_NEW}", namespaces=("jit",), type=_like, grad=_FLAT, sizes_alone=True)
def randn_like(m: Numpy, state: RandomState, self: Array, dtype: DType | None, device: str | None) -> tuple[Array, int]:
    """Numbers drawn from the standard normal distribution, in self's sizes and dtype."""
    return _drawn(m, "normal", state, self.shape, dtype.numpy if dtype else self.dtype)


@randn_like.parts
def _(F: Ops, self: Tensor, dtype: DType | None, generator: Draw) -> Tensor | None:
    return placed_normal(F, generator, self.shape, dtype or self.dtype)


@randn_like.onnx
def _(g: OnnxWriter, self: Value, dtype: DType | None, device: str | None, generator: Generator | None) -> Value:
    return g.op("RandomNormalLike", self, dtype=g.out.dtype)


@randn_like.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3))
    yield sample(make(0, 3), note="empty")


@random(f"aten::randint_like(Tensor self, int high, *, {_NEW}", namespaces=("jit",), grad=_FLAT, sizes_alone=True)
def randint_like(
    m: Numpy, state: RandomState, self: Array, high: int, dtype: DType | None, device: str | None
) -> tuple[Array, int]:
    """Whole numbers drawn evenly from low (or 0) up to, but not including, high, in self's sizes and dtype."""
    numbers, blocks = _integers(m, state, 0, high, self.shape, None)
    return numbers.astype(dtype.numpy if dtype else self.dtype), blocks


@randint_like.type
def _(self: KnownType, high: int, dtype: DType | None, device: str | None, generator: Generator | None) -> TensorType:
    return _like(self, dtype, device, generator)


@randint_like.parts
def _(F: Ops, self: Tensor, high: int, dtype: DType | None, generator: Draw) -> Tensor | None:
    return _placed_integers(F, generator, 0, high, self.shape, dtype or self.dtype)


@randint_like.onnx
def _(
    g: OnnxWriter, self: Value, high: int, dtype: DType | None, device: str | None, generator: Generator | None
) -> Value:
    numbers = g.op("RandomUniformLike", self, dtype=dtypes.float32, high=float(high))
    return g.cast(g.op("Floor", numbers), g.out.dtype)


@randint_like.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 5)


@random(f"aten::randint_like.low_dtype(Tensor self, int low, int high, *, {_NEW}", namespaces=("jit",), grad=_FLAT,
        sizes_alone=True)  # fmt: skip
def randint_like_from(
    m: Numpy, state: RandomState, self: Array, low: int, high: int, dtype: DType | None, device: str | None
) -> tuple[Array, int]:
    """Whole numbers drawn evenly from low up to, but not including, high, in self's sizes and dtype."""
    numbers, blocks = _integers(m, state, low, high, self.shape, None)
    return numbers.astype(dtype.numpy if dtype else self.dtype), blocks


@randint_like_from.type
def _(
    self: KnownType, low: int, high: int, dtype: DType | None, device: str | None, generator: Generator | None
) -> TensorType:
    return _like(self, dtype, device, generator)


@randint_like_from.parts
def _(F: Ops, self: Tensor, low: int, high: int, dtype: DType | None, generator: Draw) -> Tensor | None:
    return _placed_integers(F, generator, low, high, self.shape, dtype or self.dtype)


@randint_like_from.onnx
def _(
    g: OnnxWriter, self: Value, low: int, high: int, dtype: DType | None, device: str | None,
    generator: Generator | None,
) -> Value:  # fmt: skip
    numbers = g.op("RandomUniformLike", self, dtype=dtypes.float32, low=float(low), high=float(high))
    return g.cast(g.op("Floor", numbers), g.out.dtype)


@randint_like_from.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), -2, 5)
    yield sample(make(2, 3), 1, 9, dtype=dtypes.int64)


# -- by given probabilities --------------------------------------------------------------------------------------


def _coins(m: Numpy, state: RandomState, self: Array, p: Array | Number) -> tuple[Any, int]:
    """(1 with probability `p`, else 0, in the sizes and dtype of `self`; blocks of the sequence that they take)."""
    element = m.float64 if self.dtype == m.float64 else m.float32
    uniform, blocks = _drawn(m, "uniform", state, self.shape, element)
    return (uniform < p).astype(self.dtype), blocks


def _check_probabilities(m: Numpy, name: str, p: Array) -> None:
    if p.size and not bool(((p >= 0) & (p <= 1)).all()):
        raise UsageError(f"{name}: probabilities must lie between 0 and 1")


def _same(self: KnownType, *_: Any) -> TensorType:
    return TensorType(self.dtype, self.shape, None, self.device)


def _no_gradient(F: Ops, g: Tensor) -> Any:
    return F.zeros_like(g)


@random("aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", raises=True, type=_same,
        grad=dict(self=_no_gradient))  # fmt: skip
def bernoulli(m: Numpy, state: RandomState, self: Array) -> tuple[Array, int]:
    """Zeros and ones in self's sizes and dtype: 1 with the probability that self holds, or with p."""
    if self.dtype.kind in "biu":
        raise DTypeError(
            f"bernoulli: probabilities should be floating, got {self.dtype}; cast with x.float(), or pass p"
        )
    wide = self.astype(m.float32) if self.dtype.itemsize == 2 else self
    _check_probabilities(m, "bernoulli", wide)
    return _coins(m, state, self, wide)


@bernoulli.onnx
def _(g: OnnxWriter, self: Value, generator: Generator | None) -> Value:
    if g.opset < 15:
        return g.cast(g.op("Less", g.op("RandomUniformLike", self), self), self.dtype)
    return g.op("Bernoulli", self)


@bernoulli.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0, high=1))
    yield sample(make(0, 3), note="empty")
    yield sample(strided(make(2, 3, low=0, high=1)), note="strided")


@random("aten::bernoulli.p(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, grad=dict(self=_no_gradient))  # fmt: skip
def bernoulli_p(m: Numpy, state: RandomState, self: Array, p: float) -> tuple[Array, int]:
    if not 0 <= p <= 1:
        raise UsageError(f"bernoulli: p must lie between 0 and 1, got {p}")
    return _coins(m, state, self, p)


@bernoulli_p.parts
def _(F: Ops, self: Tensor, p: float, generator: Draw) -> Tensor | None:
    if self.dtype.is_complex or not 0 <= p <= 1:
        return None
    element = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
    return F._to_copy(F.lt(placed_uniform(F, generator, self.shape, element), p), dtype=self.dtype)


@bernoulli_p.onnx
def _(g: OnnxWriter, self: Value, p: float, generator: Generator | None) -> Value:
    element = self.dtype if self.dtype.is_floating_point else dtypes.float32
    uniform = g.op("RandomUniformLike", self, dtype=element)
    return g.cast(g.op("Less", uniform, g.constant(p, dtype=element)), self.dtype)


@bernoulli_p.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 0.3)
    yield sample(make(4, low=-9, high=9, dtype="int64"), 0.5, note="integer")


@random("aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor", raises=True,
        type=_same,
        inplace=True, grad=dict(self=_no_gradient, p=lambda F, g, p: F.zeros_like(p)))  # fmt: skip
def bernoulli_tensor(m: Numpy, state: RandomState, self: Array, p: Array) -> tuple[Array, int]:
    _check_probabilities(m, "bernoulli", p)
    return _coins(m, state, self, p)


@bernoulli_tensor.onnx
def _(g: OnnxWriter, self: Value, p: Value, generator: Generator | None) -> Value:
    uniform = g.op("RandomUniformLike", self, dtype=p.dtype)
    return g.cast(g.op("Less", uniform, p), self.dtype)


@bernoulli_tensor.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(3, low=0, high=1), note="broadcast")


@random("aten::multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None)"
        " -> Tensor", raises=True, grad=absent("its result is made of integers"))  # fmt: skip
def multinomial(m: Numpy, state: RandomState, self: Array, num_samples: int, replacement: bool) -> tuple[Array, int]:
    """The indices of num_samples entries of each row, drawn with probabilities proportional to the entries.

    With replacement: the place of a uniform number among the cumulated weights. Without: the largest of the weights,
    each divided by an exponential number; their order is that of draws without replacement.
    """
    if self.ndim not in (1, 2) or not dtypes.from_numpy(self.dtype).is_floating_point:
        raise UsageError(
            f"multinomial: expects floating weights of 1 or 2 dims, got {self.dtype} of {list(self.shape)}"
        )
    weights = self.astype(m.float64).reshape(-1, self.shape[-1])
    _check_weights(m, weights, num_samples, replacement)
    rows = weights.shape[0]
    if replacement:
        uniform, blocks = _drawn(m, "uniform", state, (rows, num_samples), m.float64)
        ends = m.cumsum(weights, axis=1)
        found = (uniform[:, :, None] * ends[:, -1:, None] >= ends[:, None, :]).sum(axis=2)
    else:
        waits, blocks = _drawn(m, "exponential", state, weights.shape, m.float64)
        found = m.argsort(-(weights / waits), axis=1, kind="stable")[:, :num_samples]
    return m.array(found.reshape(*self.shape[:-1], num_samples), dtype=m.int64, order="C"), blocks


def _check_weights(m: Numpy, weights: Array, num_samples: int, replacement: bool) -> None:
    if num_samples <= 0:
        raise UsageError(f"multinomial: num_samples must be positive, got {num_samples}")
    if not replacement and num_samples > weights.shape[1]:
        raise UsageError(
            f"multinomial: cannot draw {num_samples} of {weights.shape[1]} categories without replacement; "
            "draw fewer, or pass replacement=True"
        )
    if not bool((weights >= 0).all() & m.isfinite(weights).all() & (weights.sum(axis=1) > 0).all()):
        raise UsageError("multinomial: weights must be finite, not negative, and not all zero")
    if not replacement and bool(((weights > 0).sum(axis=1) < num_samples).any()):
        raise UsageError(
            f"multinomial: fewer than {num_samples} categories have a positive weight; pass replacement=True"
        )


@multinomial.type
def _(self: KnownType, num_samples: int, replacement: bool, generator: Generator | None) -> TensorType:
    return TensorType(dtypes.int64, (*(self.shape or ())[:-1], num_samples), None, self.device)


@multinomial.onnx
def _(g: OnnxWriter, self: Value, num_samples: int, replacement: bool, generator: Generator | None) -> Value:
    rows = self if self.ndim == 2 else g.op("Unsqueeze", self, g.ints([0]))
    if replacement or num_samples == 1:
        found = g.op("Multinomial", g.op("Log", rows), sample_size=num_samples, dtype=dtypes.int64)
    else:  # the k largest of log p plus Gumbel noise are k draws without replacement
        noise = g.op("Neg", g.op("Log", g.op("Neg", g.op("Log", g.op("RandomUniformLike", rows, low=1e-30, high=1.0)))))
        found = g.op("TopK", g.op("Add", g.op("Log", rows), noise), g.ints([num_samples]), outputs=2)[1]
    return found if self.ndim == 2 else g.op("Squeeze", found, g.ints([0]))


@multinomial.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4, low=0.1, high=1), 3)
    yield sample(make(4, low=0.1, high=1), 6, True)


# -- in place ----------------------------------------------------------------------------------------------------


@random("aten::uniform(Tensor self, float from_=0, float to=1, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def uniform(m: Numpy, state: RandomState, self: Array, from_: float, to: float) -> tuple[Array, int]:
    """Numbers drawn evenly from [from_, to), in self's sizes and dtype: what `uniform_` writes."""
    if from_ > to:
        raise UsageError(f"uniform_: from must not exceed to, got {from_} and {to}")
    if self.dtype.kind not in "biu" and to - from_ > float(ml_dtypes.finfo(self.dtype).max):  # type: ignore[no-untyped-call]
        raise UsageError(f"uniform_: the range from {from_} to {to} is wider than {self.dtype} can hold")
    numbers, blocks = _drawn(m, "uniform", state, self.shape, self.dtype)
    return (numbers * (to - from_) + _in_both_parts(self, from_)).astype(self.dtype), blocks


def _in_both_parts(self: Array, number: float) -> Any:
    return number * (1 + 1j) if self.dtype.kind == "c" else number


@uniform.parts
def _(F: Ops, self: Tensor, from_: float, to: float, generator: Draw) -> Tensor | None:
    if self.dtype not in (dtypes.float32, dtypes.float64) or not 0 <= to - from_ < 2.0**127:
        return None
    return placed_uniform(F, generator, self.shape, self.dtype) * (to - from_) + from_


@uniform.onnx
def _(g: OnnxWriter, self: Value, from_: float, to: float, generator: Generator | None) -> Value:
    return g.op("RandomUniformLike", self, low=float(from_), high=float(to))


@uniform.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), -1.0, 2.0)
    yield sample(make(0, 3), note="empty")


@random("aten::exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def exponential(m: Numpy, state: RandomState, self: Array, lambd: float) -> tuple[Array, int]:
    """Numbers drawn from the exponential distribution of rate lambd, in self's sizes and dtype."""
    if lambd <= 0:
        raise UsageError(f"exponential_: lambd must be positive, got {lambd}")
    numbers, blocks = _drawn(m, "exponential", state, self.shape, self.dtype)
    return (numbers / lambd).astype(self.dtype), blocks


@exponential.parts
def _(F: Ops, self: Tensor, lambd: float, generator: Draw) -> Tensor | None:
    if self.dtype is not dtypes.float32 or not lambd > 0:
        return None
    return placed_exponential(F, generator, self.shape) / lambd


@exponential.onnx
def _(g: OnnxWriter, self: Value, lambd: float, generator: Generator | None) -> Value:
    positive = g.op("Sub", g.constant(1, like=self), g.op("RandomUniformLike", self))
    return g.op("Mul", g.op("Log", positive), g.constant(-1 / lambd, like=self))


@exponential.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 2.0)


@random("aten::cauchy(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def cauchy(m: Numpy, state: RandomState, self: Array, median: float, sigma: float) -> tuple[Array, int]:
    """Numbers drawn from the Cauchy distribution, in self's sizes and dtype."""
    if sigma <= 0:
        raise UsageError(f"cauchy_: sigma must be positive, got {sigma}")
    numbers, blocks = _drawn(m, "uniform", state, self.shape, _wide_float(m, "cauchy_", self))
    return (median + sigma * m.tan(math.pi * (numbers - 0.5))).astype(self.dtype), blocks


def _wide_float(m: Numpy, name: str, self: Array) -> Any:
    if not dtypes.from_numpy(self.dtype).is_floating_point:
        raise DTypeError(f"{name} writes floating numbers, which {self.dtype} cannot hold; cast with x.float() first")
    return m.float64 if self.dtype == m.float64 else m.float32


@cauchy.onnx
def _(g: OnnxWriter, self: Value, median: float, sigma: float, generator: Generator | None) -> Value:
    uniform = g.op("RandomUniformLike", self, low=-math.pi / 2, high=math.pi / 2)
    spread = g.op("Mul", g.op("Tan", uniform), g.constant(sigma, like=self))
    return g.op("Add", spread, g.constant(median, like=self))


@random("aten::log_normal(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def log_normal(m: Numpy, state: RandomState, self: Array, mean: float, std: float) -> tuple[Array, int]:
    """Numbers drawn as exp of normal numbers of this mean and std, in self's sizes and dtype."""
    if std <= 0:
        raise UsageError(f"log_normal_: std must be positive, got {std}")
    numbers, blocks = _drawn(m, "normal", state, self.shape, _wide_float(m, "log_normal_", self))
    return m.exp(numbers * std + mean).astype(self.dtype), blocks


@log_normal.onnx
def _(g: OnnxWriter, self: Value, mean: float, std: float, generator: Generator | None) -> Value:
    return g.op("Exp", g.op("RandomNormalLike", self, mean=float(mean), scale=float(std)))


@random("aten::geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def geometric(m: Numpy, state: RandomState, self: Array, p: float) -> tuple[Array, int]:
    """Numbers of trials, each of success with probability p, up to the first success, in self's sizes and dtype."""
    if not 0 < p < 1:
        raise UsageError(f"geometric_: p must lie between 0 and 1, got {p}")
    numbers, blocks = _drawn(m, "exponential", state, self.shape, m.float64)
    return m.maximum(m.ceil(numbers / -math.log1p(-p)), 1).astype(self.dtype), blocks


@geometric.onnx
def _(g: OnnxWriter, self: Value, p: float, generator: Generator | None) -> Value:
    one, uniform = (g.constant(1, dtype=dtypes.float32), g.op("RandomUniformLike", self, dtype=dtypes.float32))
    trials = g.op("Div", g.op("Log", g.op("Sub", one, uniform)), g.constant(math.log1p(-p), dtype=dtypes.float32))
    return g.cast(g.op("Max", g.op("Ceil", trials), one), self.dtype)


@cauchy.samples
@log_normal.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 0.5, 0.25)
    yield sample(make(3, dtype="float16"), note="half", onnx=False)


@geometric.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 0.5)
    yield sample(make(3, low=-3, high=3, dtype="int64"), 0.25, note="integer")


@random("aten::random.from(Tensor self, int from_, int? to, *, Generator? generator=None) -> Tensor", type=_same,
        inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def random_from(m: Numpy, state: RandomState, self: Array, from_: int, to: int | None) -> tuple[Array, int]:
    """Whole numbers drawn evenly from from_ up to, but not including, to, in self's sizes and dtype."""
    end = _end_of(m, self.dtype) if to is None else to
    if to is not None and from_ < to:
        _check_bounds(m, "random_", from_, to, self.dtype)
    numbers, blocks = _integers(m, state, from_, end, self.shape, None)
    return numbers.astype(self.dtype), blocks


def _end_of(m: Numpy, dtype: Any) -> int:
    """One more than the largest whole number up to which a dtype holds them all."""
    kind = dtypes.from_numpy(dtype)
    if kind is dtypes.bool_:
        return 2
    if kind.is_floating_point:
        return 2 ** {2: 11, 4: 24, 8: 53}[dtype.itemsize] + 1 if kind is not dtypes.bfloat16 else 2**8 + 1
    return int(m.iinfo(dtype).max) if dtype.itemsize == 8 else int(m.iinfo(dtype).max) + 1


@random_from.onnx
def _(g: OnnxWriter, self: Value, from_: int, to: int | None, generator: Generator | None) -> Value:
    if to is None:
        raise g.unsupported("RandomUniform is not exact over the whole range of a dtype")
    span = dict(low=float(from_), high=float(to))
    return g.cast(g.op("Floor", g.op("RandomUniformLike", self, dtype=dtypes.float32, **span)), self.dtype)


@composite("aten::random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor", inplace=True,
           namespaces=())  # fmt: skip
def random_to(F: Ops, self: Tensor, to: int, generator: Generator | None) -> Tensor:
    """Whole numbers from 0 up to, but not including, to."""
    return F.random(self, 0, to, generator=generator)


@composite("aten::random(Tensor self, *, Generator? generator=None) -> Tensor", inplace=True, namespaces=())
def random_any(F: Ops, self: Tensor, generator: Generator | None) -> Tensor:
    """Whole numbers from 0 to the largest up to which the dtype holds every whole number."""
    return F.random(self, 0, None, generator=generator)


@random_from.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), -2, 5)
    yield sample(make(3, low=-3, high=3, dtype="int64"), 1, 9, note="integer")


@random_to.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 5, grad=False)


@random_any.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, dtype="bool"), grad=False, onnx=False)


def _check_std(std: float) -> None:
    if std < 0:
        raise UsageError(f"normal: the standard deviation must not be negative, got {std}")


def _checked(F: Ops, std: Tensor) -> Tensor:
    """A tensor of standard deviations; an error if one of them is negative."""
    return F.within(std, 0, math.inf, "normal: standard deviations must not be negative")


@composite("aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
           namespaces=("jit",))  # fmt: skip
def normal_tensors(F: Ops, mean: Tensor, std: Tensor, generator: Generator | None) -> Tensor:
    """Numbers drawn from normal distributions of these means and standard deviations, which broadcast."""
    std = _checked(F, std)
    with F.no_grad():
        return F.randn_like(mean + std, generator=generator) * std + mean


@normal_tensors.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), make(3, low=0.1, seed=1), grad=False)


@composite("aten::normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
           namespaces=("jit",))  # fmt: skip
def normal_mean(F: Ops, mean: Tensor, std: float, generator: Generator | None) -> Tensor:
    _check_std(std)
    with F.no_grad():
        return F.randn_like(mean, generator=generator) * std + mean


@normal_mean.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 0.5, grad=False)


@composite("aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
           namespaces=("jit",))  # fmt: skip
def normal_std(F: Ops, mean: float, std: Tensor, generator: Generator | None) -> Tensor:
    std = _checked(F, std)
    with F.no_grad():
        return F.randn_like(std, generator=generator) * std + mean


@normal_std.samples
def _() -> Iterator[Sample]:
    yield sample(0.5, make(2, 3, low=0.1), grad=False)


@composite(f"aten::normal.float_float(float mean, float std, int[] size, *, {_NEW}", namespaces=("jit",))
def normal_new(
    F: Ops, mean: float, std: float, size: Ints, dtype: DType | None, device: str | None, generator: Generator | None
) -> Tensor:
    _check_std(std)
    return F.randn(size, dtype=dtype, device=device, generator=generator) * std + mean


@normal_new.samples
def _() -> Iterator[Sample]:
    yield sample(1.0, 0.5, [2, 3])


@random("aten::normal.functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor",
        type=_same, inplace=True, namespaces=(), grad=dict(self=_no_gradient))  # fmt: skip
def normal(m: Numpy, state: RandomState, self: Array, mean: float, std: float) -> tuple[Array, int]:
    """Numbers drawn from the normal distribution of this mean and std, in self's sizes and dtype."""
    _check_std(std)
    numbers, blocks = _drawn(m, "normal", state, self.shape, self.dtype)
    return (numbers * std + _in_both_parts(self, mean)).astype(self.dtype), blocks


@normal.parts
def _(F: Ops, self: Tensor, mean: float, std: float, generator: Draw) -> Tensor | None:
    numbers = placed_normal(F, generator, self.shape, self.dtype) if self.dtype is dtypes.float32 and std >= 0 else None
    return None if numbers is None else numbers * std + mean


@normal.onnx
def _(g: OnnxWriter, self: Value, mean: float, std: float, generator: Generator | None) -> Value:
    return g.op("RandomNormalLike", self, mean=float(mean), scale=float(std))


@normal.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3), 1.0, 0.5)


# -- dropout -----------------------------------------------------------------------------------------------------


def _noise(F: Ops, like: Tensor, p: float) -> Tensor:
    """0 with probability `p`, else 1 / (1 - p)."""
    if not 0 <= p <= 1:
        raise UsageError(f"dropout: p must lie between 0 and 1, got {p}")
    with F.no_grad():
        kept = F.bernoulli(like, 1 - p)
        return kept if p == 1 else kept / (1 - p)


@composite("aten::dropout(Tensor input, float p, bool train) -> Tensor", namespaces=("jit",), inplace=True)
def dropout(F: Ops, input: Tensor, p: float, train: bool) -> Tensor:
    """input with elements zeroed with probability p and the others divided by 1 - p; input itself unless `train`."""
    if not train or p == 0:
        return input
    return input * _noise(F, input, p)


@dropout.onnx
def _(g: OnnxWriter, input: Value, p: float, train: bool) -> Value:
    if not train:
        return g.op("Identity", input)
    return g.op("Dropout", input, g.constant(p, dtype=dtypes.float32), g.constant(True, dtype=dtypes.bool_))


@dropout.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3), 0.5, False)
    yield sample(make(4, 3), 0.5, True, onnx=False)
    yield sample(make(4, 3), 1.0, True, onnx=False)


@composite("aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", namespaces=("jit",))
def native_dropout(F: Ops, input: Tensor, p: float, train: bool | None) -> Sequence[Tensor]:
    """(the result of `dropout`, a mask that is true where elements are kept)."""
    if train is False:
        return F.clone(input), F.ones_like(input, dtype=dtypes.bool_)
    noise = _noise(F, input, p)
    return input * noise, noise != 0


@native_dropout.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3), 0.5, True, onnx=False)
    yield sample(make(4, 3), 0.5, False)


@composite("aten::feature_dropout(Tensor input, float p, bool train) -> Tensor", namespaces=("jit",), inplace=True)
def feature_dropout(F: Ops, input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` of whole channels, the entries of dim 1."""
    if not train or p == 0:
        return input
    if input.ndim < 2:
        raise ShapeError(f"feature_dropout: expects at least 2 dims, got the sizes {list(input.shape)}")
    one = F.narrow(F.flatten(input, 2), 2, 0, 1) if input.ndim > 2 else F.unsqueeze(input, 2)
    return input * F.view(_noise(F, one, p), [*input.shape[:2], *[1] * (input.ndim - 2)])


@feature_dropout.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3, 2), 0.5, True, onnx=False)
    yield sample(make(4, 3, 2), 0.5, False)


@composite("aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor", namespaces=("jit",), inplace=True)
def alpha_dropout(F: Ops, input: Tensor, p: float, train: bool) -> Tensor:
    """`dropout` that sets elements to selu's lower bound, then scales and shifts to mean 0 and variance 1."""
    if not train or p == 0:
        return input
    if not 0 <= p <= 1:
        raise UsageError(f"dropout: p must lie between 0 and 1, got {p}")
    if p == 1:
        return input * 0
    bound = -1.7580993408473766
    with F.no_grad():
        kept = F.bernoulli(input, 1 - p)
    scale = 1 / math.sqrt((bound * bound * p + 1) * (1 - p))
    return input * kept * scale + ((1 - kept) * (bound * scale) - scale * bound * p)


@alpha_dropout.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3), 0.5, True, onnx=False)
    yield sample(make(4, 3), 0.5, False)


@composite("aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
           "Generator? generator=None) -> Tensor", namespaces=("jit", "nn.functional"), inplace=True)  # fmt: skip
def rrelu(F: Ops, self: Tensor, lower: Number, upper: Number, training: bool, generator: Generator | None) -> Tensor:
    """self, times a slope below 0 that is drawn evenly from [lower, upper); their mean unless `training`."""
    if lower > upper:
        raise UsageError(f"rrelu: lower {lower} must not exceed upper {upper}")
    if not training:
        return F.leaky_relu(self, (lower + upper) / 2)
    with F.no_grad():
        slopes = F.rand_like(self, generator=generator) * (upper - lower) + lower
    return F.where(self > 0, self, self * slopes)


@rrelu.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3))
    yield sample(make(4, 3), training=True, onnx=False)
