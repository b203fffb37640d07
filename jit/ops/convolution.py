"""Convolutions over one to three spatial dims: strided, padded, dilated, grouped, depthwise, transposed.

Note [Three maps of a convolution]
    A convolution y = conv(x, w) is linear in x and in w, so everything about it is one of three maps:

        forward(x, w) -> y          by_input(y, w) -> x          by_weight(y, x) -> w

    The last two are the adjoints that give the gradients. A transposed convolution *is* `by_input`, so its own
    gradients are `forward` (by its input) and `by_weight` with the roles of x and y exchanged. `aten::convolution`
    and `aten::convolution_backward` are all there is: the derivative of each is written with the two of them,

        d convolution_backward(g, x, w) along (gx, gw, gb):   g: conv(gx, w) + conv(x, gw) + gb
                                                              x: by_input(g, gw)      w: by_weight(g, gx)

    and so derivatives of every order exist. ATen knows that second pair as `_convolution_double_backward`. Masks say
    which of the maps are wanted; the others are not computed.
    How each of the maps is computed is told in Note [How a convolution is computed].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.ir.dtypes import float32, float64
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.kernel import Kernel
from jit.ir.op import array, composite
from jit.ir.precision import LOWER, Precision
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.settings import Settings, settings_for_call
from jit.ir.sizes import any_symbolic, only_if
from jit.ir.types import UNDEFINED, TensorType

from .convolving import ConvGeometry, by_input, by_weight, forward, window_of
from .side_by_side import by_patches, lie_side_by_side, patches_by_weight

if TYPE_CHECKING:
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Meta, Numpy, OnnxWriter, Ops, Tensor, Value


class Fit(NamedTuple):
    """Arguments that have been found to fit each other."""

    window: ConvGeometry
    sizes: tuple[int, ...]
    """Sizes of the result."""


def _fit(
    input: Any, weight: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, transposed: bool,
    output_padding: Ints, groups: int,
) -> Fit:  # fmt: skip
    """The window and the result's sizes; ShapeError or DTypeError where the arguments do not fit each other."""
    dtypes = {o.dtype for o in (input, weight, bias) if o is not None}
    if len(dtypes) > 1:
        names = " and ".join(sorted(map(str, dtypes)))
        raise DTypeError(f"convolution: expects one dtype, got {names}; cast one of them")
    shapes = tuple(input.shape), tuple(weight.shape), None if bias is None else tuple(bias.shape)
    numbers = tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding), groups
    find = _fit_sizes.__wrapped__ if any_symbolic(*shapes) else _fit_sizes
    return find(*shapes, *numbers)


@lru_cache(1024)
def _fit_sizes(
    input: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...] | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Fit:  # fmt: skip
    w = window_of(_check_ranks(input, weight), stride, padding, dilation, groups)
    channels, filters = (weight[0], weight[1] * groups) if transposed else (weight[1] * groups, weight[0])
    if input[1] != channels or weight[0] % groups:
        raise ShapeError(
            f"convolution: a weight of sizes {list(weight)} with groups={groups} takes {channels} channels in whole "
            f"groups, but the input has the sizes {list(input)}"
        )
    if bias is not None and bias != (filters,):
        raise ShapeError(f"convolution: expects a bias of sizes [{filters}], got {list(bias)}")
    kernel = weight[2:]
    if transposed:
        extra = tuple(output_padding) * len(kernel) if len(output_padding) == 1 else tuple(output_padding)
        places = w.image(input[2:], kernel, extra)
    else:
        places = w.places(input[2:], kernel)
    if any(place < 1 for place in places) or 0 in kernel:
        raise ShapeError(f"convolution: the kernel {list(kernel)} does not fit the padded input {list(input)}")
    return Fit(w, (input[0], filters, *places))


def _check_ranks(input: tuple[int, ...], weight: tuple[int, ...]) -> int:
    if len(input) != len(weight) or not 3 <= len(input) <= 5:
        raise ShapeError(
            f"convolution: expects input and weight of equally many dims, 3 to 5, got {list(input)} and {list(weight)}"
        )
    return len(input) - 2


def _per_channel(m: Numpy, values: Array | None, ndim: int) -> Any:
    return m.reshape(values, (-1, *(1,) * (ndim - 2)))


# -- the two operators -------------------------------------------------------------------------------------------


def _flops(out: KnownType, input: KnownType, weight: KnownType, transposed: bool) -> int:
    """The operations of a convolution: every tap meets every place of the result, or of a transposed one's input."""
    return _meetings(input if transposed else out, weight)


def _flops_of_gradients(
    out: KnownType, grad_output: KnownType, input: KnownType, weight: KnownType, transposed: bool,
    output_mask: Sequence[bool],
) -> int:  # fmt: skip
    """The operations of the gradients that are asked for: by input and by weight, each as many as the convolution's."""
    return sum(output_mask[:2]) * _meetings(input if transposed else grad_output, weight)


def _meetings(places: KnownType, weight: KnownType) -> int:
    return int(2 * places.numel * (weight.numel // max(weight.sizes[0], 1)))


@Precision(cuda="lower")
@array("aten::convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
       "bool transposed, int[] output_padding, int groups) -> Tensor",
       kernel=Kernel(step="convolution", product="matrices", flops=_flops), namespaces=("jit",))  # fmt: skip
def convolution(
    m: Numpy, input: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Array:  # fmt: skip
    """A convolution over 1 to 3 spatial dims, or a transposed one, of input [N, C, ...] by weight."""
    w, sizes = _fit(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    out = by_input(m, input, weight, sizes[2:], w) if transposed else forward(m, input, weight, w)
    if bias is not None:
        out += _per_channel(m, bias, out.ndim)
    return out


@convolution.type
def _(
    input: KnownType, weight: KnownType, bias: KnownType | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> TensorType:  # fmt: skip
    fit = _fit(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return TensorType(input.dtype, fit.sizes, None, input.device)


@convolution.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], input: Tensor, weight: Tensor, bias_meta: Meta | None, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Sequence[Tensor | None]:  # fmt: skip
    bias_sizes = None if bias_meta is None else bias_meta.shape
    wanted = [bool(n) for n in needs]
    return F.convolution_backward(
        g, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, wanted
    )


@convolution.parts
def _(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Tensor | None:  # fmt: skip
    """A product of matrices: see Notes [Convolutions of one place] and [Windows side by side]."""
    fit = _fit(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    if not _has_one_place(weight, fit.sizes if transposed else input.shape, fit.window):
        side_by_side = not transposed and lie_side_by_side(input.shape, weight, fit.window)
        return by_patches(F, input, weight, bias) if side_by_side else None
    left, matrix = _as_matrix(F, input), _as_matrix(F, weight)
    found = F.mm(left, matrix if transposed else F.transpose(matrix, 0, 1))
    found = F.reshape(found, [-1, *fit.sizes[1:]])
    return found if bias is None else found + F.reshape(bias, [-1, *[1] * (input.ndim - 2)])


def _has_one_place(weight: Tensor, image: Sequence[int], w: ConvGeometry) -> bool:
    """Whether a kernel covers an image as it is, once.

    Note [Convolutions of one place]
        Then every entry of the kernel meets one of the image, and the three maps are products of matrices,

            y[image, filter] = x[image, (channel, tap)] w[filter, (channel, tap)]',   x = y w,   w = y' x

        Such are the last layer of a critic, the first one of a generator, and layers of one tap on images of one entry.
    """
    plain = w.groups == 1 and not any(w.padding) and weight.device == "cpu" and weight.dtype in (float32, float64)
    whole = plain and all(d == 1 or k == 1 for d, k in zip(w.dilation, weight.shape[2:]))
    return whole and only_if(lambda: tuple(image[2:]) == tuple(weight.shape[2:]) and 0 not in (image[0], *weight.shape))


def _as_matrix(F: Ops, values: Tensor) -> Tensor:
    return F.reshape(values, [values.shape[0], math.prod(values.shape[1:])])


@convolution.onnx
def _onnx_convolution(
    g: OnnxWriter, input: Value, weight: Value, bias: Value | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Value:  # fmt: skip
    w = window_of(input.ndim - 2, stride, padding, dilation, groups)
    if not transposed:
        return _onnx_conv(g, "Conv", input, weight, bias, w)
    extra = list(output_padding) * (input.ndim - 2) if len(output_padding) == 1 else list(output_padding)
    if all(e < s for e, s in zip(extra, w.stride)):
        return _onnx_conv(g, "ConvTranspose", input, weight, bias, w, output_padding=extra)
    return _onnx_wide_transposed(g, input, weight, bias, w, extra)


def _onnx_wide_transposed(
    g: OnnxWriter, x: Value, weight: Value, bias: Value | None, w: ConvGeometry, extra: list[int]
) -> Value:
    """A transposed convolution with as much output padding as onnxruntime does not take: less is cut off at the end,
    and what the convolution does not reach are zeros."""
    missing = [max(e - p, 0) for e, p in zip(extra, w.padding)]
    ends = [max(p - e, 0) for e, p in zip(extra, w.padding)]
    inside = None if any(missing) else bias
    y = g.op("ConvTranspose", x, weight, inside, group=w.groups, strides=list(w.stride), dilations=list(w.dilation),
             pads=[*w.padding, *ends])  # fmt: skip
    if not any(missing):
        return y
    y = g.op("Pad", y, g.ints([0] * (x.ndim + 2) + missing))
    return y if bias is None else g.op("Add", y, g.op("Reshape", bias, g.ints([-1, *[1] * len(extra)])))


def _onnx_conv(
    g: OnnxWriter, name: str, x: Value, weight: Value, bias: Value | None, w: ConvGeometry, **more: Any
) -> Value:
    geometry = {"strides": list(w.stride), "pads": list(w.padding * 2), "dilations": list(w.dilation)}
    return g.op(name, x, weight, bias, group=w.groups, **geometry, **more)


def _cases() -> Any:
    """(input, weight, bias sizes or None, stride, padding, dilation, transposed, output_padding, groups)."""
    yield (2, 2, 5), (3, 2, 3), 3, [1], [0], [1], False, [0], 1
    yield (1, 4, 6), (4, 2, 2), 4, [2], [1], [2], False, [0], 2
    yield (1, 2, 4, 4), (2, 2, 3, 2), 2, [1, 1], [1, 0], [1, 1], False, [0, 0], 1
    yield (1, 2, 5, 4), (4, 1, 2, 2), None, [2, 1], [1, 2], [1, 2], False, [0, 0], 2
    yield (1, 2, 3, 3), (2, 1, 2, 2), 2, [1, 1], [1, 1], [1, 1], False, [0, 0], 2
    yield (2, 2, 3, 3), (2, 2, 1, 1), 2, [2, 2], [0, 0], [1, 1], False, [0, 0], 1
    yield (1, 1, 2, 3, 2), (2, 1, 2, 2, 1), 2, [1, 2, 1], [0, 1, 0], [1, 1, 1], False, [0, 0, 0], 1
    yield (1, 2, 3), (2, 2, 3), 2, [2], [1], [1], True, [1], 1
    yield (1, 4, 2, 2), (4, 1, 3, 2), 2, [2, 1], [1, 0], [1, 2], True, [1, 0], 2
    yield (1, 2, 2, 2), (2, 1, 2, 2), 2, [2, 2], [0, 0], [1, 1], True, [0, 0], 2
    yield (1, 1, 2, 2, 2), (1, 1, 2, 2, 2), None, [1, 1, 1], [0, 0, 0], [1, 1, 1], True, [0, 0, 0], 1


@convolution.samples
def _() -> Iterator[Sample]:
    for image, kernel, bias, *rest in _cases():
        yield sample(make(*image), make(*kernel, seed=1), None if bias is None else make(bias, seed=2), *rest)
    plain = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    yield sample(strided(make(1, 2, 3, 3)), strided(make(2, 2, 2, 2)), None, *plain, note="strided")
    wide = [2, 1], [1, 2], [1, 2], False, [0, 0], 2
    yield sample(make(3, 4, 9, 8), make(6, 2, 3, 3, seed=1), make(6, seed=2), *wide, note="larger", grad=False)
    turned = make(2, 4, 5, 4), make(4, 3, 3, 3, seed=1)
    yield sample(*turned, None, *wide[:3], True, [1, 0], 2, note="larger transposed", grad=False)
    yield sample(make(0, 2, 4, 4), make(2, 2, 3, 3), None, *plain, note="empty", onnx=False)
    half = make(1, 2, 4, 4, dtype="float16"), make(2, 2, 3, 3, dtype="float16")
    yield sample(*half, None, *plain, note="half", grad=False)


@array("aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, "
       "int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[3] output_mask) "
       "-> (Tensor, Tensor, Tensor)",
       kernel=Kernel(step="convolution gradients", product="matrices", flops=_flops_of_gradients),
       namespaces=(), differentiable=(0, 1, 2))  # fmt: skip
def convolution_backward(
    m: Numpy, grad_output: Array, input: Array, weight: Array, bias_sizes: Ints | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> Sequence[Array | None]:  # fmt: skip
    """The gradients of convolution's input, weight and bias, as far as output_mask asks for them."""
    w = window_of(input.ndim - 2, stride, padding, dilation, groups)
    kernel = weight.shape[2:]
    by_x = by_w = by_bias = None
    if output_mask[0]:
        sizes = input.shape[2:]
        by_x = forward(m, grad_output, weight, w) if transposed else by_input(m, grad_output, weight, sizes, w)
        by_x = by_x[(..., *map(slice, sizes))]  # an output padding beyond the stride reaches further than the input
    if output_mask[1]:
        small, large = (input, grad_output) if transposed else (grad_output, input)
        by_w = by_weight(m, small, large, kernel, w)
    if output_mask[2]:
        by_bias = m.sum(grad_output, axis=(0, *range(2, grad_output.ndim)), dtype=grad_output.dtype)
    return by_x, by_w, by_bias


@convolution_backward.parts
def _(
    F: Ops, grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Ints | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> Sequence[Tensor | None] | None:  # fmt: skip
    """The gradient of the bias as a sum, which may join what makes `grad_output`; those by products, where they are."""
    window = window_of(input.ndim - 2, stride, padding, dilation, groups)
    large, small = (grad_output, input) if transposed else (input, grad_output)
    if _has_one_place(weight, large.shape, window):
        return _gradients_of_one_place(F, grad_output, input, weight, large, small, output_mask)
    found: list[Any] = [None, None, _by_bias(F, grad_output) if output_mask[2] else None]
    if output_mask[1] and not transposed and lie_side_by_side(input.shape, weight, window):
        found[1] = patches_by_weight(F, grad_output, input, weight.shape[2:])
    if all(made is None for made in found):
        return None
    left = [wanted and made is None for wanted, made in zip(output_mask, found, strict=True)]
    if any(left):
        rest = stride, padding, dilation, transposed, output_padding, groups, left
        others = F.convolution_backward(grad_output, input, weight, None, *rest)
        found = [other if wanted else made for other, wanted, made in zip(others, left, found, strict=True)]
    return found


def _gradients_of_one_place(
    F: Ops, grad_output: Tensor, input: Tensor, weight: Tensor, large: Tensor, small: Tensor, mask: Sequence[bool]
) -> list[Any]:
    """The gradients that the mask asks for, see Note [Convolutions of one place]."""
    found: list[Any] = [None, None, None]
    if mask[0]:
        matrix = _as_matrix(F, weight)
        factor = F.transpose(matrix, 0, 1) if grad_output is large else matrix
        found[0] = F.reshape(F.mm(_as_matrix(F, grad_output), factor), input.shape)
    if mask[1]:
        found[1] = F.reshape(F.mm(F.transpose(_as_matrix(F, small), 0, 1), _as_matrix(F, large)), weight.shape)
    if mask[2]:
        found[2] = _by_bias(F, grad_output)
    return found


def _by_bias(F: Ops, grad_output: Tensor) -> Tensor:
    return F.sum(grad_output, [d for d in range(grad_output.ndim) if d != 1])


@convolution_backward.type
def _(
    grad_output: KnownType, input: KnownType, weight: KnownType, bias_sizes: Ints | None, stride: Ints, padding: Ints,
    dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> Sequence[Type]:  # fmt: skip
    shapes = input.shape, weight.shape, (grad_output.shape[1],)
    types = [TensorType(grad_output.dtype, shape, None, grad_output.device) for shape in shapes]
    return [t if wanted else UNDEFINED for t, wanted in zip(types, output_mask)]


@convolution_backward.grad
def _(
    F: Ops, g: Sequence[Tensor], needs: Sequence[bool], grad_output: Tensor, input: Tensor, weight: Tensor,
    stride: Ints, padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Sequence[Tensor | None]:  # fmt: skip
    rest = stride, padding, dilation, transposed, output_padding, groups
    return _double_backward(F, g[0], g[1], g[2], grad_output, weight, input, rest, needs)


def _double_backward(
    F: Ops, by_x: Tensor | None, by_w: Tensor | None, by_bias: Tensor | None, grad_output: Tensor, weight: Tensor,
    input: Tensor, rest: tuple[Ints, Ints, Ints, bool, Ints, int], mask: Sequence[bool],
) -> tuple[Any, Any, Any]:  # fmt: skip
    """See Note [Three maps of a convolution]; the gradients along grad_output, input and weight."""
    along_g = along_x = along_w = None
    if mask[0]:
        terms = [
            None if by_x is None else F.convolution(by_x, weight, None, *rest),
            None if by_w is None else F.convolution(input, by_w, None, *rest),
            None if by_bias is None else _over_places(F, by_bias, grad_output),
        ]
        along_g = _sum_of(terms)
    if mask[1] and by_w is not None:
        along_x = F.convolution_backward(grad_output, input, by_w, None, *rest, [True, False, False])[0]
    if mask[2] and by_x is not None:
        along_w = F.convolution_backward(grad_output, by_x, weight, None, *rest, [False, True, False])[1]
    return along_g, along_x, along_w


def _sum_of(terms: Any) -> Any:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _over_places(F: Ops, bias: Tensor, like: Tensor) -> Tensor:
    return F.expand(F.view(bias, [1, -1, *[1] * (like.ndim - 2)]), like.shape)


@convolution_backward.onnx
def _(
    g: OnnxWriter, grad_output: Value, input: Value, weight: Value, bias_sizes: Ints | None, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int, output_mask: Sequence[bool],
) -> Sequence[Value | None]:  # fmt: skip
    w = window_of(input.ndim - 2, stride, padding, dilation, groups)
    by_x = by_w = by_bias = None
    if output_mask[0] and transposed:
        by_x = _onnx_conv(g, "Conv", grad_output, weight, None, w)
    elif output_mask[0]:
        extra = _onnx_output_padding(g, grad_output, input, weight, w)
        by_x = _onnx_conv(g, "ConvTranspose", grad_output, weight, None, w, output_padding=extra)
    if output_mask[1]:
        small, large = (input, grad_output) if transposed else (grad_output, input)
        by_w = _onnx_by_weight(g, small, large, weight, w)
    if output_mask[2]:
        by_bias = g.reduce("ReduceSum", grad_output, [0, *range(2, grad_output.ndim)], False)
    return by_x, by_w, by_bias


def _onnx_output_padding(g: OnnxWriter, y: Value, x: Value, weight: Value, w: ConvGeometry) -> list[int]:
    """The entries by which the image exceeds the smallest one that has as many places."""
    if all(s == 1 for s in w.stride):
        return [0] * (x.ndim - 2)
    smallest = w.image(y.shape[2:], weight.shape[2:], [0] * (x.ndim - 2))
    beyond = [n - least for n, least in zip(x.shape[2:], smallest)]
    if not all(type(n) is int for n in beyond):
        raise g.unsupported("the gradient of a strided convolution needs known spatial sizes")
    return beyond


def _onnx_by_weight(g: OnnxWriter, y: Value, x: Value, weight: Value, w: ConvGeometry) -> Value:
    """A convolution of x by y in which batch and channels change places, and so do stride and dilation.

    x[N, G * c, ...] becomes [c, G * N, ...], y[N, G * o, ...] becomes a weight [G * o, N, ...] of G groups.
    """
    groups, n = w.groups, x.ndim
    image = g.op("Transpose", x, perm=[1, 0, *range(2, n)])
    if groups > 1:
        batch, channels = x.shape[0], weight.shape[1]
        apart = g.op("Reshape", x, g.ints([batch, groups, channels, *x.shape[2:]]))
        turned = g.op("Transpose", apart, perm=[2, 1, 0, *range(3, n + 1)])
        image = g.op("Reshape", turned, g.ints([channels, groups * batch, *x.shape[2:]]))
    kernel = g.op("Transpose", y, perm=[1, 0, *range(2, n)])
    swapped = w._replace(stride=w.dilation, dilation=w.stride)
    found = g.op("Transpose", _onnx_conv(g, "Conv", image, kernel, None, swapped), perm=[1, 0, *range(2, n)])
    axes = list(range(2, n))
    return g.op("Slice", found, g.ints([0] * len(axes)), g.ints(list(weight.shape[2:])), g.ints(axes))


@convolution_backward.samples
def _() -> Iterator[Sample]:
    for image, kernel, _, *rest in _cases():
        out = _fit_sizes(image, kernel, None, *map(tuple, rest[:3]), rest[3], tuple(rest[4]), rest[5]).sizes
        yield sample(make(*out, seed=3), make(*image), make(*kernel, seed=1), [out[1]], *rest, [True, True, True])
    yield sample(make(1, 2, 2, 2), make(1, 2, 4, 4), make(2, 2, 3, 3), None, [1], [0], [1], False, [0], 1,
                 [True, False, False], note="masked")  # fmt: skip


# -- under other names -------------------------------------------------------------------------------------------


@LOWER
@array("aten::_convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
       "bool transposed, int[] output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled, "
       "bool allow_tf32=True) -> Tensor",
       kernel=Kernel(product="matrices", flops=_flops), namespaces=("jit",))  # fmt: skip
def _convolution(
    m: Numpy, input: Array, weight: Array, bias: Array | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
    allow_tf32: bool,
) -> Array:  # fmt: skip
    """`convolution` with its own settings for the choice of the algorithm; the last two flags, cuDNN's, do nothing."""
    with settings_for_call(Settings(benchmark, deterministic)):
        return convolution.body(
            m, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
        )  # fmt: skip


@_convolution.type
def _(
    input: KnownType, weight: KnownType, bias: KnownType | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
    allow_tf32: bool,
) -> TensorType:  # fmt: skip
    fit = _fit(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return TensorType(input.dtype, fit.sizes, None, input.device)


@_convolution.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], input: Tensor, weight: Tensor, bias_meta: Meta | None, stride: Ints,
    padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
) -> Sequence[Tensor | None]:  # fmt: skip
    bias_sizes = None if bias_meta is None else bias_meta.shape
    rest = stride, padding, dilation, transposed, output_padding, groups
    return F.convolution_backward(g, input, weight, bias_sizes, *rest, [bool(n) for n in needs])


@_convolution.onnx
def _(
    g: OnnxWriter, input: Value, weight: Value, bias: Value | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
    allow_tf32: bool,
) -> Value:  # fmt: skip
    return _onnx_convolution(
        g, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )  # fmt: skip


@_convolution.samples
def _() -> Iterator[Sample]:
    flags = False, False, False
    for number, (image, kernel, bias, *rest) in enumerate(_cases()):
        if number % 3 == 0:
            bias = None if bias is None else make(bias, seed=2)
            yield sample(make(*image), make(*kernel, seed=1), bias, *rest, *flags)
    yield sample(make(1, 2, 4), make(3, 2, 2, seed=1), None, [1], [0], [1], False, [0], 1, True, False, True,
                 note="timed")  # fmt: skip


@composite("aten::_convolution_nogroup(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
           "int[] dilation, bool transposed, int[] output_padding) -> Tensor", namespaces=())  # fmt: skip
def _convolution_nogroup(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints,
) -> Tensor:  # fmt: skip
    """`convolution` of one group."""
    return F.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, 1)


@_convolution_nogroup.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 2, 4), make(3, 2, 2, seed=1), make(3, seed=2), [1], [0], [1], False, [0])
    yield sample(make(1, 2, 2, 2), make(2, 1, 2, 2, seed=1), None, [2, 2], [0, 0], [1, 1], True, [0, 0])


@composite("aten::_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, "
           "Tensor self, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, "
           "int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)", namespaces=())  # fmt: skip
def _convolution_double_backward(
    F: Ops, ggI: Tensor | None, ggW: Tensor | None, ggb: Tensor | None, gO: Tensor, weight: Tensor, self: Tensor,
    stride: Ints, padding: Ints, dilation: Ints, transposed: bool, output_padding: Ints, groups: int,
    output_mask: Sequence[bool],
) -> Sequence[Tensor]:  # fmt: skip
    """The derivative of `convolution_backward`: along its gradient, its input and its weight, as the mask asks."""
    rest = stride, padding, dilation, transposed, output_padding, groups
    return _double_backward(F, ggI, ggW, ggb, gO, weight, self, rest, output_mask)


@_convolution_double_backward.samples
def _() -> Iterator[Sample]:
    x, w, g = make(1, 2, 4, 3), make(2, 2, 2, 2, seed=1), make(1, 2, 3, 2, seed=2)
    plain = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    seconds = make(1, 2, 4, 3, seed=3), make(2, 2, 2, 2, seed=4), make(2, seed=5)
    yield sample(*seconds, g, w, x, *plain, [True, True, True])
    yield sample(seconds[0], None, None, g, w, x, *plain, [True, False, True], note="masked")


# -- as users call them ------------------------------------------------------------------------------------------

_FACES = ("jit", "nn.functional")


def _batched(F: Ops, name: str, input: Tensor, weight: Tensor, run: Any) -> Any:
    """`run` of a batch; an input without a batch dim becomes a batch of one for it."""
    if input.ndim == weight.ndim - 1:
        return F.squeeze(run(F.unsqueeze(input, 0)), 0)
    if input.ndim != weight.ndim:
        raise ShapeError(
            f"{name}: expects an input of {weight.ndim - 1} or {weight.ndim} dims, got the sizes {list(input.shape)}"
        )
    return run(input)


def _conv(
    F: Ops, n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Sequence[int],
    dilation: Ints, groups: int,
) -> Any:  # fmt: skip
    if weight.ndim != n + 2:
        raise ShapeError(f"conv{n}d: expects a weight of {n + 2} dims, got the sizes {list(weight.shape)}")
    zeros = [0] * n

    def run(x: Any) -> Any:
        return F.convolution(x, weight, bias, stride, padding, dilation, False, zeros, groups)

    return _batched(F, f"conv{n}d", input, weight, run)


def _conv_named(
    F: Ops, n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, name: str, dilation: Ints,
    groups: int,
) -> Any:  # fmt: skip
    """The convolution with the padding "valid" (none) or "same" (the result has the input's sizes; odd padding ends
    it).
    """
    if name == "valid":
        return _conv(F, n, input, weight, bias, stride, [0] * n, dilation, groups)
    if name != "same":
        raise UsageError(f"conv{n}d: padding {name!r} is neither 'same' nor 'valid'")
    if any(s != 1 for s in stride):
        raise UsageError(f"conv{n}d: padding 'same' needs stride 1, got {list(stride)}; give the padding as numbers")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    odd = [t % 2 for t in totals]
    if any(odd):
        input = F.constant_pad_nd(input, [p for extra in reversed(odd) for p in (0, extra)])
    return _conv(F, n, input, weight, bias, stride, [t // 2 for t in totals], dilation, groups)


@LOWER
@composite("aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
           "int[1] dilation=1, int groups=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv1d(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """The cross-correlation of input, [N, C, L], with weight, [filters, C / groups, K], plus bias."""
    return _conv(F, 1, input, weight, bias, stride, padding, dilation, groups)


@conv1d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 7), make(4, 3, 3, seed=1), make(4, seed=2), 2, 1)
    yield sample(make(3, 7), make(4, 3, 3, seed=1), note="unbatched")


@LOWER
@composite("aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, "
           "str padding='valid', int[1] dilation=1, int groups=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv1d_named(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: str, dilation: Ints, groups: int
) -> Tensor:
    return _conv_named(F, 1, input, weight, bias, stride, padding, dilation, groups)


@conv1d_named.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 7), make(4, 3, 2, seed=1), padding="same")


@LOWER
@composite("aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", namespaces=_FACES)
def conv_tbc(F: Ops, self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    """`conv1d` of sequences that come step by step, [L, N, C], with weight [K, C, filters]; the result is [L', N,
    filters]."""
    for name, given, dims in (("the input", self, 3), ("weight", weight, 3), ("bias", bias, 1)):
        if given.ndim != dims:
            raise ShapeError(f"conv_tbc: {name} has {dims} dims, not the sizes {list(given.shape)}")
    made = _conv(F, 1, F.permute(self, [1, 2, 0]), F.permute(weight, [2, 1, 0]), bias, (1,), (pad,), (1,), 1)
    return F.permute(made, [2, 0, 1])


@conv_tbc.samples
def _() -> Iterator[Sample]:
    yield sample(make(7, 2, 3), make(3, 3, 4, seed=1), make(4, seed=2), 1)
    yield sample(make(5, 1, 2), make(2, 2, 3, seed=1), make(3, seed=2))


@LOWER
@composite("aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
           "int[2] dilation=1, int groups=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv2d(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """The cross-correlation of input, [N, C, H, W], with weight, [filters, C / groups, KH, KW], plus bias."""
    return _conv(F, 2, input, weight, bias, stride, padding, dilation, groups)


@conv2d.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 3, 4), make(2, 2, 3, 3, seed=1), make(2, seed=2), 1, 1)
    yield sample(make(1, 4, 4, 3), make(2, 2, 3, 2, seed=1), None, [2, 1], [1, 0], 1, 2)
    yield sample(make(2, 3, 3), make(2, 2, 2, 2, seed=1), note="unbatched")


@LOWER
@composite("aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
           "str padding='valid', int[2] dilation=1, int groups=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv2d_named(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: str, dilation: Ints, groups: int
) -> Tensor:
    return _conv_named(F, 2, input, weight, bias, stride, padding, dilation, groups)


@conv2d_named.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 4, 3), make(2, 2, 3, 2, seed=1), padding="same")
    yield sample(make(1, 2, 4, 3), make(2, 2, 3, 2, seed=1), padding="valid")


@LOWER
@composite("aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
           "int[3] dilation=1, int groups=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv3d(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Tensor:
    """The cross-correlation of input, [N, C, D, H, W], with weight, [filters, C / groups, KD, KH, KW], plus bias."""
    return _conv(F, 3, input, weight, bias, stride, padding, dilation, groups)


@conv3d.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 2, 2, 2), make(1, 2, 2, 2, 2, seed=1), make(1, seed=2), 1, [1, 0, 0])


@LOWER
@composite("aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, "
           "str padding='valid', int[3] dilation=1, int groups=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv3d_named(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: str, dilation: Ints, groups: int
) -> Tensor:
    return _conv_named(F, 3, input, weight, bias, stride, padding, dilation, groups)


@conv3d_named.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 1, 3, 2, 2), make(2, 1, 3, 1, 2, seed=1), padding="same")


def _conv_transpose(
    F: Ops, n: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints,
    output_padding: Ints, groups: int, dilation: Ints,
) -> Any:  # fmt: skip
    if weight.ndim != n + 2:
        raise ShapeError(f"conv_transpose{n}d: expects a weight of {n + 2} dims, got the sizes {list(weight.shape)}")
    for extra, step, gap in zip(output_padding, stride, dilation):
        if extra >= max(step, gap):
            raise UsageError(f"conv_transpose{n}d: output_padding {extra} must be smaller than stride or dilation")

    def run(x: Any) -> Any:
        return F.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups)

    return _batched(F, f"conv_transpose{n}d", input, weight, run)


@LOWER
@composite("aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
           "int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor", namespaces=_FACES)  # fmt: skip
def conv_transpose1d(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, output_padding: Ints,
    groups: int, dilation: Ints,
) -> Tensor:  # fmt: skip
    """The transposed convolution of input, [N, C, L], by weight, [C, filters / groups, K], plus bias."""
    return _conv_transpose(F, 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@conv_transpose1d.samples
def _() -> Iterator[Sample]:
    yield sample(make(2, 3, 4), make(3, 2, 3, seed=1), make(2, seed=2), 2, 1, 1)


@LOWER
@composite("aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, "
           "int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor",
           namespaces=_FACES)  # fmt: skip
def conv_transpose2d(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, output_padding: Ints,
    groups: int, dilation: Ints,
) -> Tensor:  # fmt: skip
    """The transposed convolution of input, [N, C, H, W], by weight, [C, filters / groups, KH, KW], plus bias."""
    return _conv_transpose(F, 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@conv_transpose2d.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 2, 3, 2), make(2, 2, 3, 2, seed=1), make(2, seed=2), 2, 1, 1)
    yield sample(make(2, 2, 2), make(2, 1, 3, 2, seed=1), note="unbatched")


@LOWER
@composite("aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, "
           "int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor",
           namespaces=_FACES)  # fmt: skip
def conv_transpose3d(
    F: Ops, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, output_padding: Ints,
    groups: int, dilation: Ints,
) -> Tensor:  # fmt: skip
    """The transposed convolution of input, [N, C, D, H, W], by weight, [C, filters / groups, ...], plus bias."""
    return _conv_transpose(F, 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@conv_transpose3d.samples
def _() -> Iterator[Sample]:
    yield sample(make(1, 1, 2, 1, 2), make(1, 2, 2, 2, 2, seed=1), None, 2)
