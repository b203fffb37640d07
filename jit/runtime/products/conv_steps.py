"""Steps of a convolution: its three maps (Note [Three maps of a convolution]) as calls of kernels.

Note [By the input]
    With a stride of 1, the map by the input is a convolution of y by the weight turned around, filters and channels
    exchanged. With a longer one, entries of the image fall into phases, by the remainder of their position: those of
    one phase meet the same taps, every so many of the kernel, and are a convolution with stride 1 of their own:

        stride 2, 3 taps, padding 1     x[0], x[2], ... meet tap 1;  x[1], x[3], ... meet taps 2 and 0

    Each phase is computed by itself and copied to its place; a phase that meets no tap is 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jit.ir import Graph, Node, TensorType, kernel_of
from jit.ir.geometry import Geometry
from jit.passes.support.builder import GraphBuilder
from jit.passes.support.spaces import sizes_of

from ..kernels import fusion, recipes
from ..kernels.nest import Buffer
from ..kernels.nest_work import NestWork
from ..plans.builder import StretchBuilder
from ..plans.copies import arguments_of, copy_to
from ..plans.places import Step, ValuePlace
from . import conv
from .conv import ConvolutionWork, ConvWindow, Triple
from .conv_folded import FoldedConvolution, pays
from .conv_weight import WeightGradient
from .depthwise import by_rows

_FEWEST = 8
"""Filters of a group (unless it is one) from which a weight's gradient is computed here: vectors run along them."""


class ConvLayer(NamedTuple):
    """The convolution that a node belongs to, as a map from the larger image x to the smaller one y."""

    dtype: Any
    batch: int
    groups: int
    channels: int
    """The number of channels of a group."""
    filters: int
    window: ConvWindow

    def forward(self, bias: bool = False) -> ConvolutionWork:
        """The work that computes y of x."""
        return ConvolutionWork(
            self.dtype, self.batch, self.groups, self.channels, self.filters, self.window.flat(), bias
        )

    def folded(self, bias: bool = False) -> FoldedConvolution:
        """The work that computes x of y."""
        return FoldedConvolution(self.dtype, self.batch, self.groups, self.channels, self.filters, self.window, bias)


def layer_of(
    x: Sequence[int], weight: Sequence[int], y: Sequence[int], arguments: dict[str, Any], dtype: Any
) -> ConvLayer:
    """The layer, from the sizes of its three tensors and what a node says of its window."""
    dims = len(x) - 2

    def three(numbers: Sequence[int], fill: int) -> Triple:
        return _triple([fill] * (3 - dims) + list(numbers) * (dims if len(numbers) == 1 else 1))

    window = ConvWindow(
        three(x[2:], 1), three(weight[2:], 1), three(y[2:], 1), three(arguments["stride"], 1),
        three(arguments["padding"], 0), three(arguments["dilation"], 1),
    )  # fmt: skip
    groups = arguments["groups"]
    return ConvLayer(dtype, x[0], groups, x[1] // groups, y[1] // groups, window)


def _triple(numbers: Sequence[int]) -> Triple:
    a, b, c = numbers
    return a, b, c


class ConvPhase(NamedTuple):
    """The entries of an image that meet the same taps, along one dim."""

    first: int
    """The first entry; the others follow at the distance of the stride."""
    entries: int
    tap: int
    """The first tap that they meet."""
    every: int
    taps: int
    """The number of taps that they meet, at a distance of `every`."""
    padding: int
    dilation: int


def phases(size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[ConvPhase]:
    """The phases of an image of `size` entries.

    >>> [(p.first, p.tap, p.taps, p.padding) for p in phases(6, 3, 2, 1, 1)]
    [(0, 1, 1, 0), (1, 0, 2, 0)]
    """
    common = math.gcd(stride, dilation)
    every, apart = stride // common, dilation // common
    found = []
    for first in range(min(stride, size)):
        count = -(-(size - first) // stride)
        tap = next((i for i in range(min(every, kernel)) if (first + padding - i * dilation) % stride == 0), kernel)
        taps = -(-(kernel - tap) // every)
        before = (taps - 1) * apart - (first + padding - tap * dilation) // stride
        found.append(ConvPhase(first, count, tap, every, taps, before, apart))
    return found


class Part(NamedTuple):
    """A phase of the map by the input: where its result belongs, which taps it meets, and the work."""

    at: tuple[ConvPhase, ConvPhase, ConvPhase]
    work: ConvolutionWork | None
    """None if it meets no tap."""


def parts_by_input(layer: ConvLayer) -> Iterator[Part]:
    """The convolutions that the map by the input is made of."""
    w = layer.window
    each = [phases(*numbers) for numbers in zip(w.image, w.kernel, w.stride, w.padding, w.dilation, strict=True)]
    for chosen in itertools.product(*each):
        kernel, padding, dilation, places = (
            _triple([getattr(phase, name) for phase in chosen]) for name in ("taps", "padding", "dilation", "entries")
        )
        window = ConvWindow(w.places, kernel, places, (1, 1, 1), padding, dilation)
        work = ConvolutionWork(layer.dtype, layer.batch, layer.groups, layer.filters, layer.channels, window.flat())
        yield Part((chosen[0], chosen[1], chosen[2]), work if min(kernel) > 0 else None)


# -- which nodes -------------------------------------------------------------------------------------------------


def _dtypes(node: Node) -> set[Any]:
    return {v.type.dtype for v in (*node.inputs, *node.outputs) if isinstance(v.type, TensorType)}


def is_convolution(node: Node) -> bool:
    """Whether an `aten::convolution` has kernels."""
    arguments = arguments_of(node)
    x, w, y = sizes_of(arguments["input"]), sizes_of(arguments["weight"]), sizes_of(node.output)
    if len(_dtypes(node)) != 1 or 0 in (*x, *w, *y):
        return False
    dtype = node.output.type.dtype  # type: ignore[attr-defined]
    if arguments["transposed"]:
        return _has_by_input(layer_of(y, w, x, arguments, dtype))
    return conv.supports(layer_of(x, w, y, arguments, dtype).forward())


def _has_by_input(layer: ConvLayer) -> bool:
    if pays(layer.folded()):
        return True
    works = [part.work for part in parts_by_input(layer)] if max(layer.window.stride) <= 4 else [None]
    return any(works) and all(work is None or conv.supports(work) for work in works)


def is_backward(node: Node) -> bool:
    """Whether an `aten::convolution_backward` has kernels for all that is asked of it."""
    arguments = arguments_of(node)
    x, w, y = (sizes_of(arguments[name]) for name in ("input", "weight", "grad_output"))
    if len(_dtypes(node)) != 1 or 0 in (*x, *w, *y):
        return False
    transposed, (by_x, by_w, _) = arguments["transposed"], arguments["output_mask"]
    dtype = node.inputs[0].type.dtype
    layer = layer_of(*((y, w, x) if transposed else (x, w, y)), arguments, dtype)
    forward = layer.forward()
    if by_x and not (conv.supports(forward) if transposed else _has_by_input(layer)):
        return False
    return not by_w or (conv.supports(forward) and (forward.is_depthwise or forward.filters >= _FEWEST))


# -- steps -------------------------------------------------------------------------------------------------------


def lower_convolution(lowering: StretchBuilder, node: Node) -> None:
    """The steps of `aten::convolution`."""
    arguments = arguments_of(node)
    x, w = (contiguous(lowering, node, lowering.of(arguments[name])) for name in ("input", "weight"))
    bias = None if arguments["bias"] is None else contiguous(lowering, node, lowering.of(arguments["bias"]))
    relu = None if arguments["transposed"] else _relu_after(lowering, node)
    result = lowering.make((relu or node).output)
    sizes = x.geometry.sizes, w.geometry.sizes, result.geometry.sizes
    if arguments["transposed"]:
        layer = layer_of(sizes[2], sizes[1], sizes[0], arguments, x.dtype)
        _by_input(lowering, node, layer, x, w, result, bias)
    else:
        work = replace(layer_of(*sizes, arguments, x.dtype).forward(), relu=relu is not None)
        _forward(lowering, node, work, x, w, result, bias)
    if relu is not None:
        lowering.skip(relu)


def _relu_after(lowering: StretchBuilder, node: Node) -> Node | None:
    """The relu that alone reads a result, so that the kernel can compute it before it stores; None if there is none."""
    users = [use.node for use in node.output.uses]
    if len(users) != 1 or not kernel_of(users[0].kind).is_epilogue or not lowering.is_free_to_move(node.output):
        return None
    return users[0]


def lower_backward(lowering: StretchBuilder, node: Node) -> None:
    """The steps of `aten::convolution_backward`: those of the results that are asked for."""
    arguments = arguments_of(node)
    names = ("grad_output", "input", "weight")
    g, x, w = (contiguous(lowering, node, lowering.of(arguments[name])) for name in names)
    by_x, by_w, by_bias = arguments["output_mask"]
    large, small = (g, x) if arguments["transposed"] else (x, g)
    sizes = large.geometry.sizes, w.geometry.sizes, small.geometry.sizes
    layer = layer_of(*sizes, arguments, g.dtype)
    if by_x:
        result = lowering.make(node.outputs[0])
        if arguments["transposed"]:
            _forward(lowering, node, layer.forward(), g, w, result, None)
        else:
            _by_input(lowering, node, layer, g, w, result, None)
    if by_w:
        result = lowering.make(node.outputs[1])
        _step(lowering, node, WeightGradient(layer.forward()), [large, small, result])
    if by_bias:
        _over_places(lowering, node, g, lowering.make(node.outputs[2]))


def _step(
    lowering: StretchBuilder,
    node: Node,
    work: ConvolutionWork | FoldedConvolution | WeightGradient,
    operands: list[ValuePlace],
) -> None:
    lowering.step(Step(work, operands, 1, node))


def _forward(
    lowering: StretchBuilder,
    node: Node,
    work: ConvolutionWork,
    x: ValuePlace,
    w: ValuePlace,
    result: ValuePlace,
    bias: ValuePlace | None,
) -> None:
    more = [] if bias is None else [bias]
    work = by_rows(replace(work, bias=bias is not None))
    lowering.step_of_product(Step(work, [x, w, *more, result], 1, node))


def _by_input(
    lowering: StretchBuilder,
    node: Node,
    layer: ConvLayer,
    y: ValuePlace,
    w: ValuePlace,
    result: ValuePlace,
    bias: ValuePlace | None,
) -> None:
    """The steps of the map by the input, see Note [By the input]."""
    folded = layer.folded(bias is not None)
    if pays(folded):
        more = [] if bias is None else [bias]
        _step(lowering, node, folded, [y, w, *more, result])
        return
    whole = max(layer.window.stride) == 1
    for part in parts_by_input(layer):
        target = _phase_of(result, layer, part)
        if part.work is None:
            _fill(lowering, node, target, bias)
            continue
        turned = _copy(lowering, node, _turned(w, layer, part))
        made = result if whole else lowering.temporary(result.dtype, target.geometry.sizes)
        _forward(lowering, node, part.work, y, turned, made, bias)
        if not whole:
            copy_to(lowering, node, made, target)


def _turned(w: ValuePlace, layer: ConvLayer, part: Part) -> ValuePlace:
    """The taps of a part, the last one first, and for each channel those of all filters of the group."""
    kernel = layer.window.kernel
    steps = (math.prod(kernel), kernel[1] * kernel[2], kernel[2], 1)
    row = layer.channels * steps[0]
    sizes = (layer.groups, layer.channels, layer.filters, *(phase.taps for phase in part.at))
    strides = (
        layer.filters * row, steps[0], row, *(-phase.every * s for phase, s in zip(part.at, steps[1:], strict=True))
    )  # fmt: skip
    last = [phase.tap + (phase.taps - 1) * phase.every for phase in part.at]
    offset = w.geometry.offset + sum(i * s for i, s in zip(last, steps[1:], strict=True))
    return w._replace(geometry=Geometry(sizes, strides, offset))


def _phase_of(result: ValuePlace, layer: ConvLayer, part: Part) -> ValuePlace:
    """The place in the result of the entries of a part."""
    geometry, dims = result.geometry, result.geometry.ndim - 2
    for dim, (phase, stride) in enumerate(list(zip(part.at, layer.window.stride, strict=True))[3 - dims :], 2):
        geometry = geometry.window(dim, phase.first, phase.entries, stride)
    return result._replace(geometry=geometry)


def _fill(lowering: StretchBuilder, node: Node, target: ValuePlace, bias: ValuePlace | None) -> None:
    """Fill entries that meet no tap with 0, or with the bias."""
    if bias is not None:
        dims = target.geometry.ndim - 2
        spread = Geometry((bias.geometry.numel, *(1,) * dims), (1, *(0,) * dims), bias.geometry.offset)
        copy_to(lowering, node, bias._replace(geometry=spread), target)
        return
    dtype = target.dtype
    body = recipes.named(lambda m: m.constant(0.0, dtype), f"fill 0.0 {dtype.name}")
    lowering.pointwise(node, body, [], target, "fill")


def contiguous(lowering: StretchBuilder, node: Node, place: ValuePlace) -> ValuePlace:
    """The place, or a row-major copy of it."""
    return place if place.geometry.is_contiguous else _copy(lowering, node, place)


def _copy(lowering: StretchBuilder, node: Node, place: ValuePlace) -> ValuePlace:
    copy = lowering.temporary(place.dtype, place.geometry.sizes)
    copy_to(lowering, node, place, copy)
    return copy


def _over_places(lowering: StretchBuilder, node: Node, y: ValuePlace, result: ValuePlace) -> None:
    """The gradient of a bias: the sum of y over images and places."""
    body = Graph()
    F = GraphBuilder(body)
    value = F.wrap(body.add_input(TensorType(y.dtype, y.geometry.sizes)))
    body.set_return([F.sum(value, [0, *range(2, y.geometry.ndim)]).value])
    nest = fusion.group_nest(body, [Buffer.like(y.layout)])  # type: ignore[arg-type]
    lowering.step(Step(NestWork.of(node, nest, share=0.0), [y, result], 1, node))  # next to none of the convolution
