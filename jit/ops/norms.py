"""Normalisation: batch, layer, group, instance, RMS.

Note [Normalising, three times]
    Over a set D of n elements, x_hat = (x - mean) * r with r = 1 / sqrt(variance + eps), and y = x_hat * w + b. Let
    `g` be the gradient of y and h = g * w that of x_hat. Everything is said with one projection,

        project(h) = r * (h - mean(h) - x_hat * mean(h * x_hat))

    1. backward:  gx = project(h),  gw = sum(g * x_hat),  gb = sum(g).
    2. its own derivative, along the gradients (v, u, t) of (gx, gw, gb), which is the double backward:
           g:  w * project(v) + u * x_hat + t
           w:  sum(g * project(v))
           x:  project(c) - a * r * r * x_hat / n      c = u * g - r * (v * mean(h * x_hat) + h * mean(v * x_hat))
                                                       a = sum of v * (h - mean(h) - x_hat * mean(h * x_hat)) over D
    3. The double backward is written in differentiable operators that start from x itself, so higher orders follow.

    With fixed statistics (evaluation) x_hat is linear in x, and the same formulas hold with project(h) = r * h, the
    means gone and a = 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError
from jit.ir.geometry import wrap_dim
from jit.ir.kernel import GROUP, Kernel
from jit.ir.op import absent, array, composite
from jit.ir.precision import Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import UNDEFINED, TensorType

from .views import sum_to

if TYPE_CHECKING:
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Meta, Numpy, OnnxWriter, Ops, Tensor, Term, Terms, Value

_STATISTICS = absent("running statistics are not differentiated")
_SAVED = absent("a function of the input, and differentiated as such")

# -- what the normalisations share -------------------------------------------------------------------------------


def _refuse_integers(x: Array) -> None:
    if x.dtype.kind not in "fc":
        raise DTypeError(f"only floating tensors can be normalised, and this one is {x.dtype}; cast with x.float()")


def _moments(m: Numpy, x: Array, dims: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """(x less its mean, the mean, 1 / standard deviation), dims kept."""
    _refuse_integers(x)
    if x.size == 0:
        unknown = m.full([1 if d in dims or d - x.ndim in dims else n for d, n in enumerate(x.shape)], m.nan, x.dtype)
        return m.zeros_like(x), unknown, unknown
    mean = _mean(m, x, dims)
    centered = m.subtract(x, mean, order="C")
    variance = _mean(m, centered * centered, dims)
    return centered, mean, (1 / m.sqrt(variance + eps)).astype(x.dtype, copy=False)


def _mean(m: Numpy, x: Array, dims: Ints) -> Any:
    """`m.mean`, which takes longer to look at its arguments than for a row; dims kept."""
    total = m.sum(x, axis=dims, keepdims=True)
    total /= math.prod([x.shape[d] for d in dims])
    return total


def _affine(y: Any, weight: Array | None, bias: Array | None) -> Any:
    """`y * weight + bias` in y's memory."""
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y


def _project(m: Numpy, h: Array, x_hat: Array, r: Array, dims: Ints) -> Any:
    if h.size == 0:
        return m.zeros_like(h)
    along = _mean(m, h * x_hat, dims)
    by_x = m.subtract(h, _mean(m, h, dims), order="C")
    by_x -= x_hat * along
    by_x *= r
    return by_x


def _normalised_terms(t: Terms, x: Term, weight: Term, bias: Term, eps: float) -> Any:
    """(result, mean, 1 / standard deviation) over the row."""
    mean = t.over(t.reduce("sum", x), t.count)
    centred = t.apply(lambda m, a, b: a - b, x, mean)
    variance = t.over(t.reduce("sum", t.apply(lambda m, c: c * c, centred)), t.count)
    r = _inverse_deviation(t, variance, eps)
    return _affine_terms(t, t.apply(lambda m, c, s: c * s, centred, r), weight, bias), mean, r


def _inverse_deviation(t: Terms, variance: Term, eps: float) -> Term:
    return t.apply(lambda m, v: 1 / m.sqrt(v + eps), variance)


def _affine_terms(t: Terms, y: Term, weight: Term, bias: Term) -> Term:
    if weight is not None:
        y = t.apply(lambda m, a, w: a * w, y, weight)
    return y if bias is None else t.apply(lambda m, a, b: a + b, y, bias)


def _project_terms(t: Terms, h: Any, x_hat: Term, r: Any) -> Term:
    along = t.over(t.reduce("sum", t.apply(lambda m, a, b: a * b, h, x_hat)), t.count)
    mean = t.over(t.reduce("sum", h), t.count)
    return t.apply(lambda m, s, a, b, c, d: s * (a - b - c * d), r, h, mean, x_hat, along, cost=4)


def _gradient_terms(
    t: Terms, g: Any, x: Term, mean: Term, r: Any, weight: Term, output_mask: Sequence[bool], projects: bool = True
) -> Any:
    """Gradients of the input, the weight and the bias that are wanted; see Note [Normalising, three times]."""
    x_hat = t.apply(lambda m, a, b, s: (a - b) * s, x, mean, r, cost=2)
    h = g if weight is None else t.apply(lambda m, a, w: a * w, g, weight)
    by_x = by_w = by_b = None
    if output_mask[0]:
        by_x = _project_terms(t, h, x_hat, r) if projects else t.apply(lambda m, a, s: a * s, h, r)
    if output_mask[1]:
        by_w = t.reduce("sum", t.apply(lambda m, a, b: a * b, g, x_hat))
    if output_mask[2]:
        by_b = t.reduce("sum", g)
    return by_x, by_w, by_b


def _project_again(F: Ops, h: Any, x_hat: Tensor, r: Tensor, dims: Sequence[int]) -> tuple[Any, Any]:
    """(h - mean(h) - x_hat * mean(h * x_hat), mean(h * x_hat)) in differentiable operators."""
    along = F.mean(h * x_hat, dims, True)
    return h - F.mean(h, dims, True) - x_hat * along, along


def _double_backward(
    F: Ops, gradients: Sequence[Tensor], g: Tensor, x: Tensor, weight: Tensor | None, dims: Sequence[int], eps: float
) -> tuple[Any, ...]:
    """The derivatives of a backward by g, x and weight; weight and `gradients` broadcast to x. See the Note."""
    v, u, t = gradients
    n = math.prod(x.shape[d] for d in dims)
    centered = x - F.mean(x, dims, True)
    r = F.rsqrt(F.mean(centered * centered, dims, True) + eps)
    x_hat = centered * r
    h = g if weight is None else g * weight
    again: Any
    by_g, by_w, c, again = [], None, [], None
    if v is not None:
        within, along_v = _project_again(F, v, x_hat, r, dims)
        h_within, along_h = _project_again(F, h, x_hat, r, dims)
        projected = within * r
        by_g.append(projected if weight is None else projected * weight)
        by_w = g * projected
        c.append(-r * (v * along_h + h * along_v))
        again = F.sum(v * h_within, dims, True) * r * r * x_hat / n
    if u is not None:
        by_g.append(u * x_hat)
        c.append(u * g)
    if t is not None:
        by_g.append(F.expand(t, x.shape))
    by_x = _project_again(F, _total(c), x_hat, r, dims)[0] * r if c else None
    return _total(by_g), by_x if again is None else by_x - again, by_w


def _total(terms: list[Any]) -> Any:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _reduced_to(F: Ops, gradient: Any, meta: Meta, shape: Ints) -> Tensor | None:
    """A gradient summed to the broadcastable `shape` of a weight, in the weight's own shape."""
    return None if gradient is None else F.reshape(sum_to(F, gradient, shape), meta.shape)


# -- batch normalisation -----------------------------------------------------------------------------------------


def _others(ndim: int) -> tuple[int, ...]:
    """All dims but that of the channels."""
    return (0, *range(2, ndim))


def _per_channel(*names: str) -> dict[str, tuple[int | str, ...]]:
    """Arguments that have one number for each entry of dim 1, as `Kernel.along` says it."""
    return dict.fromkeys(names, (1,))


_STATISTIC: tuple[int | str, ...] = (0, GROUP)
"""The dims along which a statistic runs that exists once per sample and group, as `Kernel.along` says it."""


def _row_or_rest(output_mask: Sequence[bool]) -> str:
    """The form of a backward: a norm of rows where the input's gradient is wanted, else a reduction across rows."""
    return "norm" if output_mask[0] else "reduction"


def _column(m: Numpy, values: Array | None, ndim: int) -> Any:
    """One number per channel, shaped to broadcast."""
    return None if values is None else m.reshape(values, (1, -1, *(1,) * (ndim - 2)))


def _column_shape(ndim: int) -> list[int]:
    return [1, -1, *[1] * (ndim - 2)]


def _check_channels(name: str, shape: Ints, **vectors: Any) -> None:
    if len(shape) < 2:
        raise ShapeError(f"{name}: expects at least 2 dims, got the sizes {list(shape)}")
    for label, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (shape[1],):
            raise ShapeError(f"{name}: {label} should have the sizes [{shape[1]}], got {list(vector.shape)}")


@array("aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
       "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", namespaces=("jit",),
       kernel=Kernel(lambda training: "norm" if training else "point", further_along=(1,),
                     along=_per_channel("weight", "bias", "running_mean", "running_var"),
                     reduces=lambda input: _others(input.ndim)),
       grad=dict(running_mean=_STATISTICS, running_var=_STATISTICS))  # fmt: skip
def native_batch_norm(
    m: Numpy, input: Array, weight: Array | None, bias: Array | None, running_mean: Array | None, running_var: Any,
    training: bool, momentum: float, eps: float,
) -> Sequence[Array | None]:  # fmt: skip
    """(normalised input, mean, 1 / standard deviation); the statistics are empty unless they are the batch's.

    Unlike ATen's it leaves the running statistics alone; `batch_norm` updates them.
    """
    vectors = {"weight": weight, "bias": bias, "running_mean": running_mean, "running_var": running_var}
    _check_channels("batch_norm", input.shape, **vectors)
    w, b = _column(m, weight, input.ndim), _column(m, bias, input.ndim)
    if not training:
        scale = (1 / m.sqrt(running_var + eps)).astype(input.dtype)
        y = m.subtract(input, _column(m, running_mean, input.ndim), order="C")
        y *= _column(m, scale, input.ndim)
        return _affine(y, w, b), m.zeros(0, input.dtype), m.zeros(0, input.dtype)
    y, mean, r = _moments(m, input, _others(input.ndim), eps)
    y *= r
    return _affine(y, w, b), mean.reshape(-1), r.reshape(-1)


@native_batch_norm.terms
def _(
    t: Terms, input: Term, weight: Term | None, bias: Term | None, running_mean: Term | None, running_var: Term | None,
    training: bool, eps: float,
) -> Sequence[Term | None]:  # fmt: skip
    x, w, b, mean, variance = t.alike(input, weight, bias, running_mean, running_var)
    if training:
        return _normalised_terms(t, x, w, b, eps)
    scale = _inverse_deviation(t, variance, eps)
    y = t.apply(lambda m, a, b, s: (a - b) * s, x, mean, scale, cost=2)
    return (_affine_terms(t, y, w, b),)


@native_batch_norm.type
def _(
    input: KnownType, weight: KnownType | None, bias: KnownType | None, running_mean: KnownType | None,
    running_var: KnownType | None, training: bool, momentum: float, eps: float,
) -> Sequence[Type]:  # fmt: skip
    vectors = {"weight": weight, "bias": bias, "running_mean": running_mean, "running_var": running_var}
    _check_channels("batch_norm", input.shape, **vectors)
    statistics = TensorType(input.dtype, (input.shape[1] if training else 0,), None, input.device)
    return TensorType(input.dtype, input.shape, None, input.device), statistics, statistics


@native_batch_norm.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], out: Sequence[Tensor], input: Tensor, weight: Tensor | None,
    running_mean: Tensor | None, running_var: Tensor | None, training: bool, eps: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    wanted = [bool(n) for n in needs[:3]]
    rest = weight, running_mean, running_var, out[1], out[2], training, eps, wanted
    return (*F.native_batch_norm_backward(g, input, *rest), None, None)


@native_batch_norm.onnx
def _(
    g: OnnxWriter, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, training: bool, momentum: float, eps: float,
) -> Sequence[Value | None]:  # fmt: skip
    scale, shift = _onnx_vector(g, weight, input, 1), _onnx_vector(g, bias, input, 0)
    if not training:
        y = g.op("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=eps)
        return y, g.constant([], like=input), g.constant([], like=input)
    centered, mean, r = _onnx_moments(g, input, _others(input.ndim), eps)
    column = g.ints(_column_shape(input.ndim))
    y = g.op("Mul", g.op("Mul", centered, r), g.op("Reshape", scale, column))
    flat = g.ints([-1])
    out = g.op("Add", y, g.op("Reshape", shift, column))
    return out, g.op("Reshape", mean, flat), g.op("Reshape", r, flat)


def _onnx_vector(g: OnnxWriter, given: Value | None, input: Value, value: int) -> Value | None:
    """A weight or bias, or a constant for a missing one."""
    if given is not None:
        return given
    if type(input.shape[1]) is not int:
        raise g.unsupported("the number of channels is dynamic, and a missing weight or bias needs as many constants")
    return g.constant([value] * input.shape[1], like=input)


def _onnx_moments(g: OnnxWriter, x: Value, dims: Sequence[int], eps: float) -> tuple[Any, Any, Any]:
    mean = g.reduce("ReduceMean", x, list(dims), True)
    centered = g.op("Sub", x, mean)
    variance = g.reduce("ReduceMean", g.op("Mul", centered, centered), list(dims), True)
    deviation = g.op("Sqrt", g.op("Add", variance, g.constant(eps, like=x)))
    return centered, mean, g.op("Reciprocal", deviation)


@native_batch_norm.samples
def _() -> Iterator[Sample]:
    vectors = make(3, seed=1), make(3, seed=2), make(3, seed=3), make(3, low=0.5, seed=4)
    yield sample(make(4, 3, 2, 2), *vectors, True, 0.1, 1e-5)
    yield sample(make(4, 3, 2, 2), *vectors, False, 0.1, 1e-5)
    yield sample(make(5, 3), None, None, None, None, True, 0.1, 1e-3)
    yield sample(make(2, 3, 4), make(3, seed=1), None, *vectors[2:], False, 0.1, 1e-3)
    yield sample(strided(make(4, 3, 2)), *vectors, True, 0.1, 1e-5, note="strided")


@array("aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
       "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) "
       "-> (Tensor, Tensor, Tensor)", namespaces=(), differentiable=(0, 1, 2),
       kernel=Kernel("norm", further_along=(1,), reduces=lambda input: _others(input.ndim),
                     along=_per_channel("weight", "running_mean", "running_var", "save_mean", "save_invstd")),
       grad=dict(running_mean=_STATISTICS, running_var=_STATISTICS, save_mean=_SAVED, save_invstd=_SAVED))  # fmt: skip
def native_batch_norm_backward(
    m: Numpy, grad_out: Array, input: Array, weight: Array | None, running_mean: Array | None, running_var: Any,
    save_mean: Array | None, save_invstd: Array | None, train: bool, eps: float, output_mask: Sequence[bool],
) -> Sequence[Array | None]:  # fmt: skip
    """The gradients of batch normalisation's input, weight and bias, as far as output_mask asks for them."""
    _refuse_integers(input)
    n, dims = input.ndim, _others(input.ndim)
    mean, r = (save_mean, save_invstd) if train else (running_mean, (1 / m.sqrt(running_var + eps)).astype(input.dtype))
    r = _column(m, r, n)
    x_hat = (input - _column(m, mean, n)) * r
    by_x = by_w = by_b = None
    if output_mask[0]:
        h = grad_out if weight is None else grad_out * _column(m, weight, n)
        by_x = _project(m, h, x_hat, r, dims) if train else m.multiply(h, r, order="C")
    if output_mask[1]:
        by_w = m.sum(grad_out * x_hat, axis=dims)
    if output_mask[2]:
        by_b = m.sum(grad_out, axis=dims)
    return by_x, by_w, by_b


@native_batch_norm_backward.terms
def _(
    t: Terms, grad_out: Term, input: Term, weight: Term | None, running_mean: Term | None, running_var: Term | None,
    save_mean: Term | None, save_invstd: Term | None, train: bool, eps: float, output_mask: Sequence[bool],
) -> Sequence[Term | None]:  # fmt: skip
    given = grad_out, input, weight, running_mean, running_var, save_mean, save_invstd
    g, x, w, mean, variance, saved_mean, saved_r = t.alike(*given)
    if not train:
        saved_mean, saved_r = mean, _inverse_deviation(t, variance, eps)
    return _gradient_terms(t, g, x, saved_mean, saved_r, w, output_mask, projects=train)


@native_batch_norm_backward.type
def _(
    grad_out: KnownType, input: KnownType, weight: KnownType | None, running_mean: KnownType | None,
    running_var: KnownType | None, save_mean: KnownType | None, save_invstd: KnownType | None, train: bool, eps: float,
    output_mask: Sequence[bool],
) -> Sequence[Type]:  # fmt: skip
    shapes = input.shape, (input.shape[1],), (input.shape[1],)
    types = [TensorType(grad_out.dtype, shape, None, grad_out.device) for shape in shapes]
    return [t if wanted else UNDEFINED for t, wanted in zip(types, output_mask)]


@native_batch_norm_backward.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], grad_out: Tensor, input: Tensor, weight: Tensor | None,
    running_mean: Any, running_var: Any, train: bool, eps: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    """See Note [Normalising, three times]."""
    shape, dims = _column_shape(input.ndim), list(_others(input.ndim))
    column = None if weight is None else F.view(weight, shape)
    v, u, t = (x if i == 0 or x is None else F.view(x, shape) for i, x in enumerate(g))
    if train:
        by_g, by_x, by_w = _double_backward(F, (v, u, t), grad_out, input, column, dims, eps)
    else:
        r = F.rsqrt(F.view(running_var, shape) + eps)
        x_hat = (input - F.view(running_mean, shape)) * r
        scaled = None if v is None else v * r
        terms = [scaled if scaled is None or column is None else scaled * column, u if u is None else u * x_hat]
        by_g = _total([x for x in (*terms, t if t is None else F.expand(t, input.shape)) if x is not None])
        by_x = None if u is None else u * grad_out * r
        by_w = None if scaled is None else grad_out * scaled
    by_weight = None if weight is None or by_w is None else F.sum(by_w, dims)
    return by_g, by_x if needs[1] else None, by_weight, None, None, None, None


@native_batch_norm_backward.onnx
def _(
    g: OnnxWriter, grad_out: Value, input: Value, weight: Value | None, running_mean: Value | None,
    running_var: Value | None, save_mean: Value | None, save_invstd: Value | None, train: bool, eps: float,
    output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    dims, column = list(_others(input.ndim)), g.ints(_column_shape(input.ndim))
    mean, r = save_mean, save_invstd
    if not train:
        deviation = g.op("Sqrt", g.op("Add", running_var, g.constant(eps, like=input)))
        mean, r = running_mean, g.op("Reciprocal", deviation)
    r = g.op("Reshape", r, column)
    x_hat = g.op("Mul", g.op("Sub", input, g.op("Reshape", mean, column)), r)
    h = grad_out if weight is None else g.op("Mul", grad_out, g.op("Reshape", weight, column))
    by_x = _onnx_project(g, h, x_hat, r, dims) if train else g.op("Mul", h, r)
    by_w = g.reduce("ReduceSum", g.op("Mul", grad_out, x_hat), dims, False)
    return by_x, by_w, g.reduce("ReduceSum", grad_out, dims, False)


def _onnx_project(g: OnnxWriter, h: Value, x_hat: Value, r: Value, dims: Sequence[int]) -> Value:
    along = g.reduce("ReduceMean", g.op("Mul", h, x_hat), dims, True)
    centered = g.op("Sub", h, g.reduce("ReduceMean", h, dims, True))
    return g.op("Mul", r, g.op("Sub", centered, g.op("Mul", x_hat, along)))


def _statistics(x: Any, dims: Ints, eps: float) -> tuple[Any, Any]:
    """The mean and 1 / standard deviation that a forward pass would have saved."""
    return x.mean(dims), (1 / (x.var(dims) + eps) ** 0.5).astype(x.dtype)


@native_batch_norm_backward.samples
def _() -> Iterator[Sample]:
    x, g = make(4, 3, 2), make(4, 3, 2, seed=5)
    weight, mean, var = make(3, seed=1), make(3, seed=3), make(3, low=0.5, seed=4)
    every = [True, True, True]
    yield sample(g, x, weight, mean, var, *_statistics(x, (0, 2), 1e-3), True, 1e-3, every, grad=False)
    yield sample(g, x, weight, mean, var, make(0), make(0), False, 1e-3, every)
    yield sample(g, x, None, mean, var, *_statistics(x, (0, 2), 1e-3), True, 1e-3, [True, False, False], grad=False)


_BATCH_NORM = "Tensor? running_mean, Tensor? running_var"


def _batch_norm(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    if input.ndim == 1 and input.numel() == 0:  # PyTorch takes it, too
        return F.clone(input)
    _check_channels("batch_norm", input.shape)
    if training and input.numel() == input.shape[1] != 0:
        raise ShapeError(f"batch_norm: training needs more than one value per channel, got {list(input.shape)}")
    if not training and (running_mean is None or running_var is None):
        raise ShapeError("batch_norm: evaluation needs running_mean and running_var; pass them, or training=True")
    return _normalised(F, input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _normalised(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    """The results of `native_batch_norm`; training updates the running statistics, and so must not save them."""
    read = (None, None) if training else (running_mean, running_var)
    out, mean, r = F.native_batch_norm(input, weight, bias, *read, training, momentum, eps)
    if training and (running_mean is not None or running_var is not None) and input.numel() != 0:
        count = input.numel() // input.shape[1]
        with F.no_grad():
            _update(F, running_mean, mean, momentum)
            _update(F, running_var, (1 / (r * r) - eps) * (count / (count - 1)), momentum)
    return out, mean, r


def _update(F: Ops, running: Any, value: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_(running * (1 - momentum) + value * momentum)


@composite(f"aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, {_BATCH_NORM}, bool training, "
           "float momentum, float eps, bool cudnn_enabled) -> Tensor", namespaces=("jit",),
           grad=dict(running_mean=_STATISTICS, running_var=_STATISTICS))  # fmt: skip
def batch_norm(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """(input - mean) / standard deviation * weight + bias, for each channel, the entries of dim 1.

    In training mean and variance are the batch's, and update the running ones in place; else the running ones are
    taken.
    """
    return _batch_norm(F, input, weight, bias, running_mean, running_var, training, momentum, eps)


@batch_norm.samples
def _() -> Iterator[Sample]:
    vectors = make(3, seed=1), make(3, seed=2), make(3, seed=3), make(3, low=0.5, seed=4)
    yield sample(make(4, 3, 2, 2), *vectors, False, 0.1, 1e-5, True)
    yield sample(make(4, 3, 2, 2), *vectors[:2], None, None, True, 0.1, 1e-5, True)
    yield sample(make(4, 3), *vectors, True, 0.1, 1e-5, True, note="updates statistics", grad=False)
    yield sample(make(2, 3, 4), None, None, *vectors[2:], False, 0.1, 1e-3, True)
    yield sample(make(0), None, None, None, None, True, 0.1, 1e-3, True, note="nothing", onnx=False)


_RUNNING = "Tensor running_mean, Tensor running_var"


@composite(f"aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, {_RUNNING}, bool training, "
           "float momentum, float eps) -> (Tensor, Tensor, Tensor)", namespaces=("jit",),
           grad=dict(running_mean=_STATISTICS, running_var=_STATISTICS))  # fmt: skip
def _native_batch_norm_legit(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    training: bool, momentum: float, eps: float,
) -> Sequence[Tensor]:  # fmt: skip
    """`native_batch_norm` that, in training, updates the running statistics."""
    return _normalised(F, input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite("aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, "
           "float momentum, float eps) -> (Tensor, Tensor, Tensor)", namespaces=("jit",))  # fmt: skip
def _native_batch_norm_legit_no_stats(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Sequence[Tensor]:
    """`native_batch_norm` with the statistics of the batch."""
    if not training:
        raise ShapeError("batch_norm: evaluation needs running_mean and running_var; pass them, or training=True")
    return F.native_batch_norm(input, weight, bias, None, None, True, momentum, eps)


@composite("aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, "
           f"{_RUNNING}, float momentum, float eps) -> (Tensor, Tensor, Tensor)", namespaces=("jit",),
           grad=dict(running_mean=_STATISTICS, running_var=_STATISTICS))  # fmt: skip
def _native_batch_norm_legit_no_training(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor, running_var: Tensor,
    momentum: float, eps: float,
) -> Sequence[Tensor]:  # fmt: skip
    """`native_batch_norm` with the running statistics."""
    return F.native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


@_native_batch_norm_legit.samples
def _() -> Iterator[Sample]:
    vectors = make(3, seed=1), make(3, seed=2), make(3, seed=3), make(3, low=0.5, seed=4)
    yield sample(make(4, 3, 2), *vectors, False, 0.1, 1e-5)
    yield sample(make(4, 3, 2), *vectors, True, 0.1, 1e-5, note="updates statistics", grad=False)
    yield sample(make(5, 3), None, None, *vectors[2:], False, 0.1, 1e-3)


@_native_batch_norm_legit_no_stats.samples
def _() -> Iterator[Sample]:
    yield sample(make(4, 3, 2), make(3, seed=1), make(3, seed=2), True, 0.1, 1e-5)
    yield sample(strided(make(5, 3)), None, None, True, 0.1, 1e-3, note="strided")


@_native_batch_norm_legit_no_training.samples
def _() -> Iterator[Sample]:
    vectors = make(3, seed=1), make(3, seed=2), make(3, seed=3), make(3, low=0.5, seed=4)
    yield sample(make(4, 3, 2), *vectors, 0.1, 1e-5)
    yield sample(make(5, 3), None, None, *vectors[2:], 0.1, 1e-3)


# -- instance normalisation --------------------------------------------------------------------------------------


def _instance_norm(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    if not use_input_stats:
        return _batch_norm(F, input, weight, bias, running_mean, running_var, False, momentum, eps)
    (batch, channels), places = input.shape[:2], input.shape[2:]
    if math.prod(places) == 1:
        raise ShapeError(f"instance_norm: needs more than one value per channel, got the sizes {list(input.shape)}")
    flat = F.reshape(input, [1, batch * channels, *places])
    out, mean, r = F.native_batch_norm(flat, None, None, None, None, True, momentum, eps)
    if running_mean is not None or running_var is not None:
        count = math.prod(places)
        with F.no_grad():
            _update(F, running_mean, F.mean(F.view(mean, [batch, channels]), 0), momentum)
            variance = (1 / (r * r) - eps) * (count / (count - 1))
            _update(F, running_var, F.mean(F.view(variance, [batch, channels]), 0), momentum)
    return _scaled(F, F.view(out, input.shape), weight, bias)


def _scaled(F: Ops, y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """`y` times a weight plus a bias, one number for each channel."""
    shape = _column_shape(y.ndim)
    y = y if weight is None else y * F.view(weight, shape)
    return y if bias is None else y + F.view(bias, shape)


@composite(f"aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, {_BATCH_NORM}, bool use_input_stats, "
           "float momentum, float eps, bool cudnn_enabled) -> Tensor", namespaces=("jit",),
           grad=dict(running_mean=_STATISTICS, running_var=_STATISTICS))  # fmt: skip
def instance_norm(
    F: Ops, input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Tensor:  # fmt: skip
    """`batch_norm` with a mean and variance for each channel of each sample."""
    return _instance_norm(F, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


@instance_norm.onnx
def _(
    g: OnnxWriter, input: Value, weight: Value | None, bias: Value | None, running_mean: Value | None,
    running_var: Value | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Value:  # fmt: skip
    scale, shift = _onnx_vector(g, weight, input, 1), _onnx_vector(g, bias, input, 0)
    if use_input_stats:
        return g.op("InstanceNormalization", input, scale, shift, epsilon=eps)
    return g.op("BatchNormalization", input, scale, shift, running_mean, running_var, epsilon=eps)


@instance_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), make(3, seed=1), make(3, seed=2), None, None, True, 0.1, 1e-5, True)
    yield sample(make(2, 3, 2, 2), None, None, None, None, True, 0.1, 1e-5, True)


# -- layer, group and RMS normalisation --------------------------------------------------------------------------


def _last(name: str, shape: Ints, normalized_shape: Ints, *affine: Any) -> tuple[int, ...]:
    """The dims that are normalised."""
    n = len(normalized_shape)
    if n == 0 or tuple(shape[len(shape) - n :]) != tuple(normalized_shape) or n > len(shape):
        raise ShapeError(f"{name}: the last sizes of {list(shape)} should be {list(normalized_shape)}")
    for given in affine:
        if given is not None and tuple(given.shape) != tuple(normalized_shape):
            raise ShapeError(f"{name}: weight and bias should have the sizes {list(normalized_shape)}")
    return tuple(range(len(shape) - n, len(shape)))


def _rows(input: KnownType, normalized_shape: Ints, beside: bool = False) -> tuple[int, ...]:
    """The dims that are normalised, or those beside them."""
    lead = input.ndim - len(normalized_shape)
    return tuple(range(lead) if beside else range(lead, input.ndim))


@Precision(cuda="float32")
@array("aten::native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
       "-> (Tensor, Tensor, Tensor)",
       kernel=Kernel("norm", reduces=lambda input, normalized_shape: _rows(input, normalized_shape)),
       namespaces=("jit",))  # fmt: skip
def native_layer_norm(
    m: Numpy, input: Array, normalized_shape: Ints, weight: Array | None, bias: Array | None, eps: float
) -> Sequence[Array | None]:
    """(the result of `layer_norm`, mean, 1 / standard deviation); the statistics have sizes 1 in normalised dims."""
    dims = _last("layer_norm", input.shape, normalized_shape, weight, bias)
    y, mean, r = _moments(m, input, dims, eps)
    y *= r
    return _affine(y, weight, bias), mean, r


@native_layer_norm.terms
def _(t: Terms, input: Term, weight: Term | None, bias: Term | None, eps: float) -> Sequence[Term | None]:
    x, w, b = t.alike(input, weight, bias)
    return _normalised_terms(t, x, w, b, eps)


@native_layer_norm.type
def _(
    input: KnownType, normalized_shape: Ints, weight: KnownType | None, bias: KnownType | None, eps: float
) -> Sequence[Type]:
    dims = _last("layer_norm", input.sizes, normalized_shape, weight, bias)
    sizes = tuple(1 if d in dims else s for d, s in enumerate(input.sizes))
    statistics = TensorType(input.dtype, sizes, None, input.device)
    return TensorType(input.dtype, input.shape, None, input.device), statistics, statistics


@native_layer_norm.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], out: Sequence[Tensor], input: Tensor, normalized_shape: Ints,
    weight: Tensor | None, eps: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    wanted = [bool(n) for n in needs]
    return F.native_layer_norm_backward(g, input, normalized_shape, out[1], out[2], weight, eps, wanted)


@native_layer_norm.onnx
def _(
    g: OnnxWriter, input: Value, normalized_shape: Ints, weight: Value | None, bias: Value | None, eps: float
) -> Sequence[Value | None]:
    if g.opset < 17:
        dims = list(range(input.ndim - len(normalized_shape), input.ndim))
        y, mean, r = _onnx_moments(g, input, dims, eps)
        y = g.op("Mul", y, r)
        y = y if weight is None else g.op("Mul", y, weight)
        return y if bias is None else g.op("Add", y, bias), mean, r
    import numpy as np

    scale = weight if weight is not None else g.constant(np.ones([int(s) for s in normalized_shape]), like=input)
    axis = -len(normalized_shape)
    return g.op("LayerNormalization", input, scale, bias, axis=axis, epsilon=eps, outputs=3)


@native_layer_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [4], make(4, seed=1), make(4, seed=2), 1e-5)
    yield sample(make(2, 3, 4), [3, 4], make(3, 4, seed=1), make(3, 4, seed=2), 1e-3)
    yield sample(make(2, 4), [4], None, None, 1e-5)
    yield sample(strided(make(3, 4)), [4], make(4, seed=1), None, 1e-5, note="strided")


@array("aten::native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, "
       "Tensor rstd, Tensor? weight, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", namespaces=(),
       kernel=Kernel(_row_or_rest, separable=True, reduces=lambda input, normalized_shape, output_mask:
                     _rows(input, normalized_shape, beside=not output_mask[0])),
       differentiable=(0, 1, 2), grad=dict(mean=_SAVED, rstd=_SAVED))  # fmt: skip
def native_layer_norm_backward(
    m: Numpy, grad_out: Array, input: Array, normalized_shape: Ints, mean: Array, rstd: Array, weight: Array | None,
    eps: float, output_mask: Sequence[bool],
) -> Sequence[Array | None]:  # fmt: skip
    """The gradients of layer normalisation's input, weight and bias, as far as output_mask asks for them.

    ATen's has no eps and takes the bias; with eps the double backward can start from the input.
    """
    _refuse_integers(input)
    lead = tuple(range(input.ndim - len(normalized_shape)))
    x_hat = (input - mean) * rstd
    by_x = by_w = by_b = None
    if output_mask[0]:
        h = grad_out if weight is None else grad_out * weight
        by_x = _project(m, h, x_hat, rstd, tuple(range(len(lead), input.ndim)))
    if output_mask[1]:
        by_w = m.sum(grad_out * x_hat, axis=lead)
    if output_mask[2]:
        by_b = m.array(m.sum(grad_out, axis=lead))
    return by_x, by_w, by_b


@native_layer_norm_backward.terms
def _(
    t: Terms, grad_out: Term, input: Term, mean: Term, rstd: Term, weight: Term | None, output_mask: Sequence[bool]
) -> Sequence[Term | None]:  # fmt: skip
    g, x, centre, r, w = t.alike(grad_out, input, mean, rstd, weight)
    return _gradient_terms(t, g, x, centre, r, w, output_mask)


@native_layer_norm_backward.type
def _(
    grad_out: KnownType, input: KnownType, normalized_shape: Ints, mean: KnownType, rstd: KnownType,
    weight: KnownType | None, eps: float, output_mask: Sequence[bool],
) -> Sequence[Type]:  # fmt: skip
    shapes = input.shape, tuple(normalized_shape), tuple(normalized_shape)
    types = [TensorType(grad_out.dtype, shape, None, grad_out.device) for shape in shapes]
    return [t if wanted else UNDEFINED for t, wanted in zip(types, output_mask)]


@native_layer_norm_backward.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], grad_out: Tensor, input: Tensor, normalized_shape: Ints,
    weight: Tensor | None, eps: float,
) -> Sequence[Tensor | None]:  # fmt: skip
    """See Note [Normalising, three times]."""
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    by_g, by_x, by_w = _double_backward(F, g, grad_out, input, weight, dims, eps)
    by_weight = None if weight is None or by_w is None else sum_to(F, by_w, weight.shape)
    return by_g, by_x if needs[1] else None, None, None, by_weight


@native_layer_norm_backward.onnx
def _(
    g: OnnxWriter, grad_out: Value, input: Value, normalized_shape: Ints, mean: Value, rstd: Value,
    weight: Value | None, eps: float, output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    split = input.ndim - len(normalized_shape)
    x_hat = g.op("Mul", g.op("Sub", input, mean), rstd)
    h = grad_out if weight is None else g.op("Mul", grad_out, weight)
    by_x = _onnx_project(g, h, x_hat, rstd, list(range(split, input.ndim)))
    by_w, by_b = g.op("Mul", grad_out, x_hat), grad_out
    if split:
        by_w, by_b = (g.reduce("ReduceSum", t, list(range(split)), False) for t in (by_w, by_b))
    return by_x, by_w, by_b


@native_layer_norm_backward.samples
def _() -> Iterator[Sample]:
    x, g = make(2, 3, 4), make(2, 3, 4, seed=5)
    mean, r = x.mean(2, keepdims=True), (1 / (x.var(2, keepdims=True) + 1e-3) ** 0.5).astype(x.dtype)
    yield sample(g, x, [4], mean, r, make(4, seed=1), 1e-3, [True, True, True], grad=False)
    yield sample(g, x, [4], mean, r, None, 1e-3, [True, False, False], grad=False)


@Precision(cuda="float32")
@composite("aten::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
           "float eps=1e-05, bool cudnn_enable=True) -> Tensor", namespaces=("jit", "nn.functional"))  # fmt: skip
def layer_norm(
    F: Ops, input: Tensor, normalized_shape: Ints, weight: Tensor | None, bias: Tensor | None, eps: float,
    cudnn_enable: bool,
) -> Tensor:  # fmt: skip
    """(input - mean) / standard deviation * weight + bias, over the last dims, of sizes normalized_shape."""
    if weight is not None and _has_wider_weights(input, weight):
        wide = F._to_copy(input, dtype=weight.dtype)
        return F._to_copy(F.native_layer_norm(wide, normalized_shape, weight, bias, eps)[0], dtype=input.dtype)
    return F.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def _has_wider_weights(input: Tensor, weight: Tensor | None) -> bool:
    """Whether 16-bit floats are normalised with weights of more bits, whose gradients should not be rounded to 16."""
    return weight is not None and input.dtype.is_half and not weight.dtype.is_half


@layer_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [4], make(4, seed=1), make(4, seed=2))
    yield sample(make(2, 3, 4), [3, 4])


class _Groups(NamedTuple):
    """Groups of (N, C, ...): the sizes (N, groups, channels of a group, places of a channel)."""

    sizes: tuple[Any, ...]

    @property
    def per_group(self) -> list[Any]:
        """The sizes of what there is once per sample and group."""
        return [*self.sizes[:2], 1, 1]

    @property
    def per_channel(self) -> list[Any]:
        """The sizes of a weight."""
        return [1, *self.sizes[1:3], 1]


_IN_GROUP, _IN_CHANNEL = (2, 3), (0, 3)
"""The dims of grouped sizes that a mean, and the gradient of a weight, is taken over."""


def _groups(name: str, input: Any, N: int, C: int, HxW: int, group: int, *vectors: Any) -> _Groups:
    if input.ndim < 2 or (input.shape[0], input.shape[1]) != (N, C) or math.prod(input.shape[2:]) != HxW:
        raise ShapeError(
            f"{name}: the sizes {list(input.shape)} are not {N} samples of {C} channels with {HxW} elements"
        )
    if group < 1 or C % group:
        raise ShapeError(f"{name}: {group} groups do not divide the channels of {list(input.shape)}")
    for vector in vectors:
        if vector is not None and tuple(vector.shape) != (C,):
            raise ShapeError(f"{name}: weight and bias should have the sizes [{C}], got {list(vector.shape)}")
    return _Groups((N, group, C // group, HxW))


_GROUPED = "int N, int C, int HxW, int group"


@array(f"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, {_GROUPED}, float eps) "
       "-> (Tensor, Tensor, Tensor)",
       kernel=Kernel("norm", along=_per_channel("weight", "bias"), further_along=_STATISTIC, groups=lambda group: group,
                     reduces=lambda input: range(2, input.ndim)),
       namespaces=("jit",), differentiable=(0, 1, 2))  # fmt: skip
def native_group_norm(
    m: Numpy, input: Array, weight: Array | None, bias: Array | None, N: int, C: int, HxW: int, group: int, eps: float
) -> Sequence[Array | None]:
    """(the result of `group_norm`, mean, 1 / standard deviation); the statistics are [N, group]."""
    groups = _groups("group_norm", input, N, C, HxW, group, weight, bias)
    if HxW == 0:
        return (
            m.zeros(input.shape, input.dtype),
            m.zeros((N, group), input.dtype),
            m.full((N, group), m.nan, input.dtype),
        )
    y, mean, r = _moments(m, input.reshape(groups.sizes), _IN_GROUP, eps)
    y *= r
    w, b = (None if v is None else v.reshape(groups.per_channel) for v in (weight, bias))
    return _affine(y, w, b).reshape(input.shape), mean.reshape(N, group), r.reshape(N, group)


@native_group_norm.terms
def _(t: Terms, input: Term, weight: Term | None, bias: Term | None, eps: float) -> Sequence[Term | None]:
    x, w, b = t.alike(input, weight, bias)
    return _normalised_terms(t, x, w, b, eps)


@native_group_norm.type
def _(
    input: KnownType, weight: KnownType | None, bias: KnownType | None, N: int, C: int, HxW: int, group: int, eps: float
) -> Sequence[Type]:
    _groups("group_norm", input, N, C, HxW, group, weight, bias)
    statistics = TensorType(input.dtype, (N, group), None, input.device)
    return TensorType(input.dtype, input.shape, None, input.device), statistics, statistics


@native_group_norm.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], out: Sequence[Tensor], input: Tensor, weight: Tensor | None,
    N: int, C: int, HxW: int, group: int,
) -> Sequence[Tensor | None]:  # fmt: skip
    """The statistics are results like the first: their gradients come in too, and flow on from the backward's."""
    by_y, by_mean, by_r = g
    found: list[Any] = [None, None, None]
    if by_y is not None:
        wanted = [bool(n) for n in needs]
        found = list(F.native_group_norm_backward(by_y, input, out[1], out[2], weight, N, C, HxW, group, wanted))
    if needs[0] and (by_mean is not None or by_r is not None):
        groups = _Groups((N, group, C // group, HxW))
        mean, r = (F.reshape(t, groups.per_group) for t in out[1:])
        terms = [None if by_mean is None else F.reshape(by_mean, groups.per_group)]
        if by_r is not None:
            x = F.reshape(input, list(groups.sizes))
            terms.append(F.reshape(by_r, groups.per_group) * (r * r * r) * (mean - x))
        total = _total([t for t in terms if t is not None]) / (C // group * HxW)
        by_x = F.reshape(F.expand(total, list(groups.sizes)), input.shape)
        found[0] = by_x if found[0] is None else found[0] + by_x
    return found


@native_group_norm.onnx
def _(
    g: OnnxWriter, input: Value, weight: Value | None, bias: Value | None, N: int, C: int, HxW: int, group: int,
    eps: float,
) -> Sequence[Value | None]:  # fmt: skip
    grouped = g.op("Reshape", input, g.ints([N, group, C // group * HxW]))
    _, mean, r = _onnx_moments(g, grouped, (2,), eps)
    statistics = [g.op("Reshape", s, g.ints([N, group])) for s in (mean, r)]
    one, zero = (g.constant([number] * group, like=input) for number in (1, 0))
    y = g.op("InstanceNormalization", grouped, one, zero, epsilon=eps)
    y = g.op("Reshape", y, g.ints(input.shape))
    column = g.ints([C, *[1] * (input.ndim - 2)])
    y = y if weight is None else g.op("Mul", y, g.op("Reshape", weight, column))
    return y if bias is None else g.op("Add", y, g.op("Reshape", bias, column)), *statistics


@native_group_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4, 3), make(4, seed=1), make(4, seed=2), 2, 4, 3, 2, 1e-5)
    yield sample(make(2, 6, 2, 2), None, None, 2, 6, 4, 3, 1e-3)
    yield sample(make(3, 4), make(4, seed=1), None, 3, 4, 1, 2, 1e-3, note="without places")
    yield sample(strided(make(2, 4, 3)), None, make(4, seed=2), 2, 4, 3, 1, 1e-5, note="strided")
    yield sample(make(0, 4, 3), make(4, seed=1), None, 0, 4, 3, 2, 1e-5, note="empty", onnx=False)
    half = [make(*shape, dtype="float16", seed=seed) for shape, seed in (((2, 4, 3), 0), ((4,), 1), ((4,), 2))]
    yield sample(*half, 2, 4, 3, 2, 1e-5, note="half", grad=False, onnx=False)


@array("aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, "
       f"{_GROUPED}, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", namespaces=(),
       kernel=Kernel(_row_or_rest, separable=True, groups=lambda group: group, further_along=_STATISTIC,
                     along={**_per_channel("weight"), "mean": _STATISTIC, "rstd": _STATISTIC},
                     reduces=lambda input, output_mask:
                     range(2, input.ndim) if output_mask[0] else _others(input.ndim)),
       differentiable=(0, 1, 2))  # fmt: skip
def native_group_norm_backward(
    m: Numpy, grad_out: Array, input: Array, mean: Array, rstd: Array, weight: Array | None, N: int, C: int, HxW: int,
    group: int, output_mask: Sequence[bool],
) -> Sequence[Array | None]:  # fmt: skip
    """The gradients of group normalisation's input, weight and bias, as far as output_mask asks for them.

    mean and rstd are arguments like the others: the derivative of this operator goes along them, too.
    """
    _refuse_integers(input)
    groups = _groups("group_norm", input, N, C, HxW, group, weight)
    g, x = (t.reshape(groups.sizes) for t in (grad_out, input))
    r = rstd.reshape(groups.per_group)
    x_hat = (x - mean.reshape(groups.per_group)) * r
    by_x = by_w = by_b = None
    if output_mask[0]:
        h = g if weight is None else g * weight.reshape(groups.per_channel)
        by_x = _project(m, h, x_hat, r, _IN_GROUP).reshape(input.shape) if x.size else m.zeros_like(input)
    if output_mask[1]:
        by_w = m.sum(g * x_hat, axis=_IN_CHANNEL).reshape(C)
    if output_mask[2]:
        by_b = m.sum(g, axis=_IN_CHANNEL).reshape(C)
    return by_x, by_w, by_b


@native_group_norm_backward.terms
def _(
    t: Terms, grad_out: Term, input: Term, mean: Term, rstd: Term, weight: Term | None, output_mask: Sequence[bool]
) -> Sequence[Term | None]:  # fmt: skip
    g, x, centre, r, w = t.alike(grad_out, input, mean, rstd, weight)
    return _gradient_terms(t, g, x, centre, r, w, output_mask)


@native_group_norm_backward.type
def _(
    grad_out: KnownType, input: KnownType, mean: KnownType, rstd: KnownType, weight: KnownType | None, N: int, C: int,
    HxW: int, group: int, output_mask: Sequence[bool],
) -> Sequence[Type]:  # fmt: skip
    _groups("group_norm", input, N, C, HxW, group, weight)
    types = [TensorType(grad_out.dtype, shape, None, grad_out.device) for shape in (input.shape, (C,), (C,))]
    return [t if wanted else UNDEFINED for t, wanted in zip(types, output_mask)]


@native_group_norm_backward.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor,
    weight: Tensor | None, N: int, C: int, HxW: int, group: int,
) -> Sequence[Tensor | None]:  # fmt: skip
    """Step 2 of Note [Normalising, three times], with mean and r on their own: what comes to x_hat goes on to x, mean
    and r, and nothing else goes to x."""
    groups = _Groups((N, group, C // group, HxW))
    sizes, dims = list(groups.sizes), list(_IN_GROUP)
    grad, x = (F.reshape(t, sizes) for t in (grad_out, input))
    r, centered = F.reshape(rstd, groups.per_group), x - F.reshape(mean, groups.per_group)
    w = None if weight is None else F.reshape(weight, groups.per_channel)
    v = None if g[0] is None else F.reshape(g[0], sizes)
    u, t = (None if part is None else F.reshape(part, groups.per_channel) for part in g[1:])
    h, x_hat = grad if w is None else grad * w, centered * r
    by_g, by_x_hat, by_w, by_r = [], [], None, None
    if v is not None:
        within, along_v = _project_again(F, v, x_hat, r, dims)
        h_within, along_h = _project_again(F, h, x_hat, r, dims)
        projected = within * r
        by_g.append(projected if w is None else projected * w)
        by_w = F.reshape(F.sum(grad * projected, list(_IN_CHANNEL)), [C])
        by_x_hat.append(-r * (v * along_h + h * along_v))
        by_r = F.sum(v * h_within, dims, True)
    if u is not None:
        by_g.append(u * x_hat)
        by_x_hat.append(u * grad)
    if t is not None:
        by_g.append(F.expand(t, sizes))
    by_x = by_mean = None
    if by_x_hat:
        c = _total(by_x_hat)
        by_x, scale = c * r, F.sum(c * centered, dims, True)
        by_mean = F.reshape(-F.sum(by_x, dims, True), mean.shape)
        by_r = F.reshape(scale if by_r is None else by_r + scale, rstd.shape)
    total = _total(by_g)
    given = [None if part is None else F.reshape(part, input.shape) for part in (total, by_x)]
    return *given, by_mean, by_r, None if w is None else by_w


@native_group_norm_backward.onnx
def _(
    g: OnnxWriter, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Value | None, N: int, C: int,
    HxW: int, group: int, output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    sizes, statistic = g.ints([N, group, C // group, -1]), g.ints([N, group, 1, 1])
    grad, x = (g.op("Reshape", t, sizes) for t in (grad_out, input))
    r = g.op("Reshape", rstd, statistic)
    x_hat = g.op("Mul", g.op("Sub", x, g.op("Reshape", mean, statistic)), r)
    h = grad if weight is None else g.op("Mul", grad, g.op("Reshape", weight, g.ints([1, group, C // group, 1])))
    by_x = g.op("Reshape", _onnx_project(g, h, x_hat, r, _IN_GROUP), g.op("Shape", input))
    sums = [g.reduce("ReduceSum", t, list(_IN_CHANNEL), False) for t in (g.op("Mul", grad, x_hat), grad)]
    return by_x, *(g.op("Reshape", t, g.ints([C])) for t in sums)


@native_group_norm_backward.samples
def _() -> Iterator[Sample]:
    x, g = make(2, 4, 3), make(2, 4, 3, seed=5)
    mean, r = make(2, 2, seed=1), make(2, 2, low=0.5, seed=2)
    every, sizes = [True, True, True], (2, 4, 3, 2)
    yield sample(g, x, mean, r, make(4, seed=3), *sizes, every)
    yield sample(g, x, mean, r, None, *sizes, [True, False, False])
    yield sample(g, x, mean, r, make(4, seed=3), *sizes, [False, True, True])
    yield sample(strided(g), strided(x), mean, r, make(4, seed=3), *sizes, every, note="strided")
    empty = make(0, 4, 3), make(0, 4, 3), make(0, 2), make(0, 2)
    yield sample(*empty, make(4, seed=3), 0, *sizes[1:], every, note="empty", onnx=False)


@Precision(cuda="float32")
@composite("aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
           "bool cudnn_enabled=True) -> Tensor", namespaces=("jit", "nn.functional"))  # fmt: skip
def group_norm(
    F: Ops, input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, cudnn_enabled: bool
) -> Tensor:
    """(input - mean) / standard deviation * weight + bias, for each of num_groups groups of channels of a sample."""
    if input.ndim < 2:
        raise ShapeError(f"group_norm: expects at least 2 dims, got the sizes {list(input.shape)}")
    sizes = input.shape[0], input.shape[1], math.prod(input.shape[2:])
    if num_groups > 0 and sizes[0] * (sizes[1] // num_groups) * sizes[2] == 1:
        raise ShapeError(f"group_norm: needs more than one value per group, got the sizes {list(input.shape)}")
    if weight is not None and _has_wider_weights(input, weight):
        wide = F._to_copy(input, dtype=weight.dtype)
        return F._to_copy(F.native_group_norm(wide, weight, bias, *sizes, num_groups, eps)[0], dtype=input.dtype)
    return F.native_group_norm(input, weight, bias, *sizes, num_groups, eps)[0]


@group_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 4, 3), 2, make(4, seed=1), make(4, seed=2))
    yield sample(make(2, 6, 2, 2), 3)
    yield sample(strided(make(2, 4, 3)), 4, note="strided")


@Precision(cuda="float32")
@composite("aten::rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
           namespaces=("jit", "nn.functional"))  # fmt: skip
def rms_norm(F: Ops, input: Tensor, normalized_shape: Ints, weight: Tensor | None, eps: float | None) -> Tensor:
    """input over its root mean square over the last dims, of sizes normalized_shape, times weight."""
    dims = list(_last("rms_norm", input.shape, normalized_shape, weight))
    wide = F._to_copy(input, dtype=dtypes.float32) if input.dtype.is_half else input  # squares leave a half's range
    floor = (2.0**-52 if wide.dtype is dtypes.float64 else 2.0**-23) if eps is None else eps
    out = wide * F.rsqrt(F.mean(wide * wide, dims, True) + floor)
    out = out if weight is None else out * weight
    return F._to_copy(out, dtype=input.dtype) if out.dtype is not input.dtype else out


@rms_norm.onnx
def _(g: OnnxWriter, input: Value, normalized_shape: Ints, weight: Value | None, eps: float | None) -> Value:
    """One node where there is a kernel for it, which computes in float32, as the parts do."""
    if not g.runs("RMSNormalization", input.dtype) or (weight is not None and weight.dtype is not input.dtype):
        raise g.unsupported("it is written as its parts")
    one = g.constant(1, like=input)
    scale = g.op("Expand", one, g.ints(list(normalized_shape))) if weight is None else weight
    eps = 2.0**-23 if eps is None else eps
    return g.op("RMSNormalization", input, scale, axis=-len(normalized_shape), epsilon=eps)


@rms_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), [4], make(4, seed=1))
    yield sample(make(2, 3, 4), [3, 4], eps=1e-3)


# -- by a norm or by the neighbours ------------------------------------------------------------------------------


@composite("aten::norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor", namespaces=("jit",))
def norm_except_dim(F: Ops, v: Tensor, pow: int, dim: int) -> Tensor:
    """The norm over all dims but `dim`, [1, ..., n, ..., 1]; over all, 0-d, if dim is -1."""
    if dim == -1:
        return F.norm(v, pow)
    kept = wrap_dim(dim, v.ndim)
    return F.norm(v, pow, [d for d in range(v.ndim) if d != kept], True) if v.ndim > 1 else F.abs(v)


@norm_except_dim.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, 4))
    yield sample(make(3, 2, 4), 2, 1)
    yield sample(make(3, 4), 1, -1)
    yield sample(strided(make(3, 4, low=0.5)), 3, -2, note="strided")
    yield sample(make(5, low=0.5), note="1-d")


@Precision(cuda="given")
@composite("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", namespaces=("jit",))
def _weight_norm(F: Ops, v: Tensor, g: Tensor, dim: int) -> Tensor:
    """v scaled to the norm `g` for each entry of `dim`: g * v / norm_except_dim(v, 2, dim)."""
    return v * (g / F.norm_except_dim(v, 2, dim))


@_weight_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(3, 2, 4), make(3, 1, 1, seed=1))
    yield sample(make(3, 4), make(1, 4, seed=1), 1)
    yield sample(strided(make(3, 4)), make(seed=1), -1, note="strided")


@composite("aten::normalize(Tensor input, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
           namespaces=("nn.functional",))  # fmt: skip
def normalize(F: Ops, input: Tensor, p: float, dim: int, eps: float) -> Tensor:
    """input over its p-norm along dim, or over eps where that is larger."""
    return input / F.clamp(F.norm(input, p, [dim], True), min=eps)


@normalize.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, low=0.5))
    yield sample(make(2, 3, 2, low=0.5), 1.0, -1)


@composite("aten::local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) "
           "-> Tensor", namespaces=("nn.functional",))  # fmt: skip
def local_response_norm(F: Ops, input: Tensor, size: int, alpha: float, beta: float, k: float) -> Tensor:
    """input over (k + alpha * the mean square of the `size` nearest channels) ** beta."""
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: expects at least 3 dims, got the sizes {list(input.shape)}")
    if input.numel() == 0:
        return input
    squares = F.unsqueeze(F.flatten(input * input, 2), 1)
    padded = F.constant_pad_nd(squares, [0, 0, size // 2, (size - 1) // 2])
    means = F.squeeze(F.avg_pool2d(padded, [size, 1], [1, 1]), 1)
    return input / (F.view(means, input.shape) * alpha + k) ** beta


@local_response_norm.onnx
def _(g: OnnxWriter, input: Value, size: int, alpha: float, beta: float, k: float) -> Value:
    """LRN, which has as many neighbours on either side, and a kernel for images of float32."""
    if size % 2 == 0 or input.ndim != 4 or input.dtype is not dtypes.float32:
        raise g.unsupported("it is written as its parts")
    return g.op("LRN", input, size=size, alpha=alpha, beta=beta, bias=k)


@local_response_norm.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 5, 3), 3, 0.5)
    yield sample(make(1, 4, 2, 2), 2)
