"""Gradients of convolutions by their input or their weight alone, as functions of the other and of the incoming one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.eager.context import enable_grad, is_grad_enabled
from jit.eager.namespace import F

from ..autograd import grad


def _of(convolve: Callable[[Any], Any], size: Sequence[int], like: Any, gradient: Any) -> Any:
    """The gradient of a linear function, which is the same at every place, so that zeros do for its argument."""
    follows = is_grad_enabled()
    with enable_grad():
        place = F.zeros(tuple(size), dtype=like.dtype, device=like.device).requires_grad_()
        return grad([convolve(place)], [place], [gradient], create_graph=follows)[0]


def _by_input(name: str) -> Callable[..., Any]:
    def function(
        input_size: Sequence[int], weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        convolution = getattr(F, name)
        rest = None, stride, padding, dilation, groups
        return _of(lambda place: convolution(place, weight, *rest), input_size, weight, grad_output)

    function.__name__ = f"{name}_input"
    function.__doc__ = f"""The gradient of `{name}` by its input.

Args:
    input_size: The sizes of the input.
    weight: The weight.
    grad_output: The gradient by the output.
    stride: The distance of neighbouring places.
    padding: The zeros on each side.
    dilation: The distance of neighbouring weights.
    groups: The number of groups of channels.
"""
    return function


def _by_weight(name: str) -> Callable[..., Any]:
    def function(
        input: Any, weight_size: Sequence[int], grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        convolution = getattr(F, name)
        rest = None, stride, padding, dilation, groups
        return _of(lambda place: convolution(input, place, *rest), weight_size, input, grad_output)

    function.__name__ = f"{name}_weight"
    function.__doc__ = f"""The gradient of `{name}` by its weight.

Args:
    input: The input.
    weight_size: The sizes of the weight.
    grad_output: The gradient by the output.
    stride: The distance of neighbouring places.
    padding: The zeros on each side.
    dilation: The distance of neighbouring weights.
    groups: The number of groups of channels.
"""
    return function


conv1d_input, conv2d_input, conv3d_input = map(_by_input, ("conv1d", "conv2d", "conv3d"))
conv1d_weight, conv2d_weight, conv3d_weight = map(_by_weight, ("conv1d", "conv2d", "conv3d"))

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
