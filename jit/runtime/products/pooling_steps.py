"""Pooling as steps of a plan: which nodes there is work for, and what that is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jit.ir import Node, TensorType, Value
from jit.ir.dtypes import int64

from ..llvm.product_tiles import ELEMENT
from ..plans.builder import StretchBuilder
from ..plans.copies import arguments_of
from ..plans.places import Step
from .conv import ConvolutionWork, ConvWindow, Triple, supports
from .conv_steps import contiguous
from .pooling import MaxPoolWork, MaxUnpoolWork, MeanPoolWork


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _window(arguments: dict[str, Any], x: TensorType, y: TensorType) -> ConvWindow:
    assert x.sizes is not None and y.sizes is not None

    def flat(numbers: Any, depth: int) -> Triple:
        height, width = numbers if len(numbers) == 2 else (*numbers, *numbers)
        return depth, height, width

    kernel = arguments["kernel_size"]
    return ConvWindow(
        flat(x.sizes[-2:], 1), flat(kernel, 1), flat(y.sizes[-2:], 1), flat(arguments["stride"] or kernel, 1),
        flat(arguments["padding"], 0), flat(arguments.get("dilation", [1]), 1),
    )  # fmt: skip


def _maxima(node: Node) -> MaxPoolWork:
    x, y = _type(node.inputs[0]), _type(node.outputs[0])
    assert x.dtype is not None and x.sizes is not None
    return MaxPoolWork(x.dtype, math.prod(x.sizes[:-2]), _window(arguments_of(node), x, y))


def _means(node: Node) -> MeanPoolWork:
    x, arguments = _type(node.inputs[0]), arguments_of(node)
    assert x.dtype is not None and x.sizes is not None
    window = _window(arguments, x, _type(node.output))
    rest = (arguments[name] for name in ("ceil_mode", "count_include_pad", "divisor_override"))
    return MeanPoolWork(x.dtype, math.prod(x.sizes[:-2]), window, *rest)


def is_max_pool(node: Node) -> bool:
    """Whether there is a kernel for an `aten::max_pool2d_with_indices`."""
    return _is_supported(node, _maxima)


def is_mean_pool(node: Node) -> bool:
    """Whether there is a kernel for an `aten::avg_pool2d`."""
    return arguments_of(node)["divisor_override"] != 0 and _is_supported(node, _means)


def _is_supported(node: Node, work_of: Callable[[Node], MaxPoolWork | MeanPoolWork]) -> bool:
    x, y = _type(node.inputs[0]), _type(node.outputs[0])
    if x.dtype not in ELEMENT or not x.numel or not y.numel:
        return False
    work = work_of(node)
    return supports(ConvolutionWork(work.dtype, 1, 1, 1, 1, work.window))


def is_max_unpool(node: Node) -> bool:
    """Whether there is a kernel for an `aten::max_pool2d_with_indices_backward`."""
    arguments = arguments_of(node)
    y, indices = _type(arguments["grad_output"]), _type(arguments["indices"])
    x = _type(node.output)
    return y.dtype in ELEMENT and indices.dtype is int64 and bool(x.numel) and bool(y.numel)


def lower_max_pool(lowering: StretchBuilder, node: Node) -> None:
    """Lower max pooling to one step, which finds positions only if they are used."""
    x = contiguous(lowering, node, lowering.of(node.inputs[0]))
    results = [lowering.make(value) for value in node.outputs if value is node.outputs[0] or value.uses]
    work = replace(_maxima(node), indices=len(results) == 2)
    lowering.step(Step(work, [x, *results], len(results), node))


def lower_mean_pool(lowering: StretchBuilder, node: Node) -> None:
    """Lower average pooling to one step."""
    x = contiguous(lowering, node, lowering.of(node.inputs[0]))
    lowering.step(Step(_means(node), [x, lowering.make(node.output)], 1, node))


def lower_max_unpool(lowering: StretchBuilder, node: Node) -> None:
    """Lower the backward of max pooling to one step."""
    arguments = arguments_of(node)
    y, indices = (contiguous(lowering, node, lowering.of(arguments[name])) for name in ("grad_output", "indices"))
    result = lowering.make(node.output)
    places, plane = (math.prod(place.geometry.sizes[-2:]) for place in (y, result))
    work = MaxUnpoolWork(y.dtype, result.geometry.numel // plane, places, plane)
    lowering.step(Step(work, [y, indices, result], 1, node))
