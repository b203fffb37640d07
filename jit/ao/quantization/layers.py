"""Quantised layers: the input is rounded before each call, and weight and bias are computed from integers.

A layer keeps its class and its `forward`; `layer.weight` gives floats whenever it is read. Around it are

    layer.input_quantizer      an observer, a FakeQuantize, or RoundedInput, which each input passes through
    layer.quantized_weight     an IntegerTensor, after `convert`
    layer.quantized_bias       the same in int32, by the product of both scales: what sums of products are in
"""

from __future__ import annotations

from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.nn import Module

from .fake_quantize import rounded
from .schemes import IntegerRange, integer_range

BIAS_LIMIT = 2.0**30
"""The greatest integer of a bias: half of what int32 holds, so that sums of products have room beside it."""


class RoundedInput(Module):
    """Rounding by a scale that stays as it is.

    Args:
        scale: A vector of one element.
        zero_point: A vector of one element, of int32.
        integers: The integers.
    """

    def __init__(self, scale: Tensor, zero_point: Tensor, integers: IntegerRange) -> None:
        super().__init__()
        self.range = integers
        self.register_buffer("scale", scale.detach().clone())
        self.register_buffer("zero_point", zero_point.detach().clone())

    def forward(self, x: Any) -> Any:
        """Args: x, a tensor of floats. Returns: what is left of it."""
        return rounded(x, self.scale, self.zero_point, self.range, -1)

    def extra_repr(self) -> str:
        integers = f"{self.range.low}..{self.range.high}"
        return f"scale={self.scale.item():.6g}, zero_point={self.zero_point.item()}, {integers}"


class IntegerTensor(Module):
    """A tensor that is held as integers.

    Args:
        values: The floats to hold.
        scale: A vector of scales, one for all or one for each channel.
        zero_point: A vector of zero points, of int32.
        integers: The integers.
        axis: The dim of the channels; -1 where there is one scale for all.
    """

    def __init__(self, values: Tensor, scale: Tensor, zero_point: Tensor, integers: IntegerRange, axis: int) -> None:
        super().__init__()
        self.range, self.axis = integers, axis
        self.register_buffer("kind", F.empty((0,), dtype=values.dtype), persistent=False)
        self.register_buffer("scale", scale.detach().clone())
        self.register_buffer("zero_point", zero_point.detach().clone())
        low, high, dtype = integers
        with context.no_grad():
            if axis == -1:
                found = F.quantize_per_tensor(values, self.scale, self.zero_point, low, high, dtype)
            else:
                found = F.quantize_per_channel(values, self.scale, self.zero_point, axis, low, high, dtype)
        self.register_buffer("integers", found.detach())

    def forward(self) -> Any:
        """The floats that the integers stand for."""
        low, high, _ = self.range
        if self.axis == -1:
            found = F.dequantize_per_tensor(self.integers, self.scale, self.zero_point, low, high)
        else:
            found = F.dequantize_per_channel(self.integers, self.scale, self.zero_point, self.axis, low, high)
        return found if found.dtype is self.kind.dtype else F._to_copy(found, dtype=self.kind.dtype)

    def extra_repr(self) -> str:
        channels = "" if self.axis == -1 else f", {self.scale.numel()} scales along dim {self.axis}"
        return f"{list(self.integers.shape)} of {self.range.low}..{self.range.high}{channels}"


class Integral:
    """Computes a tensor of a layer from the integers that it is held as.

    Args:
        name: The attribute of the layer that is an IntegerTensor.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, layer: Any) -> Any:
        return layer._modules[self.name]()


def pass_input(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let the input of a layer pass through its quantizer: a hook that runs before `forward`.

    Args:
        layer: The layer.
        args: What it is called with by position.
        kwargs: What it is called with by name.
    """
    if args:
        return (layer.input_quantizer(args[0]), *args[1:]), kwargs
    return args, {**kwargs, "input": layer.input_quantizer(kwargs["input"])} if "input" in kwargs else kwargs


def watch_input(layer: Any, quantizer: Module) -> None:
    """Let each input of a layer pass through a module from now on.

    Args:
        layer: The layer.
        quantizer: The module.
    """
    layer.add_module("input_quantizer", quantizer)
    layer.register_forward_pre_hook(pass_input, with_kwargs=True)


def unwatch_input(layer: Any) -> None:
    """Let the inputs of a layer be, which `watch_input` has led through a module.

    Args:
        layer: The layer.
    """
    del layer._modules["input_quantizer"]
    hooks = layer._forward_pre_hooks
    for key in [key for key, (hook, _) in hooks.items() if hook is pass_input]:
        del hooks[key]


def hold_as_integers(layer: Any, scale: Tensor, zero_point: Tensor, integers: IntegerRange, axis: int) -> None:
    """Let the weight of a layer, and its bias, be integers from now on.

    Args:
        layer: The layer, whose `input_quantizer` is a RoundedInput.
        scale: The scales of its weight.
        zero_point: The zero points of its weight.
        integers: The integers of its weight.
        axis: The dim of the channels of the result; -1 where there is one scale for all.
    """
    bias = layer._parameters.get("bias")
    with context.no_grad():
        if bias is not None:
            scale = _with_room_for(bias, scale, layer.input_quantizer.scale)
        _hold(layer, "weight", IntegerTensor(layer.weight, scale, zero_point, integers, axis))
        if bias is not None:
            step = scale * layer.input_quantizer.scale
            bias_axis = -1 if axis == -1 else 0
            _hold(layer, "bias", IntegerTensor(bias, step, F.zeros_like(zero_point), integer_range("int32"), bias_axis))


def _with_room_for(bias: Tensor, scale: Tensor, input_scale: Tensor) -> Tensor:
    """Scales of a weight so large that the bias is no more than `BIAS_LIMIT` times them: that of zeros is next to 0."""
    largest = F.abs(bias) if scale.numel() == bias.numel() else F.amax(F.abs(bias))
    return F.maximum(scale, largest / (input_scale * BIAS_LIMIT))


def _hold(layer: Any, name: str, held: IntegerTensor) -> None:
    del layer._parameters[name]
    layer.add_module(f"quantized_{name}", held)
    layer._computed[name] = Integral(f"quantized_{name}")
