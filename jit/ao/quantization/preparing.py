"""`prepare`, `prepare_qat` and `convert`: networks that observe, networks that round as they train, and quantised ones.

All layers that multiply by a weight are quantised, unless their `qconfig`, or that of the network around them, is None.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from jit.eager import context
from jit.ir.errors import KindError
from jit.nn import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Linear, Module
from jit.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from .fake_quantize import FakeQuantize
from .layers import RoundedInput, hold_as_integers, unwatch_input, watch_input
from .observer import MinMaxObserver
from .qconfig import QConfig, get_default_qat_qconfig, get_default_qconfig

LAYERS = (Linear, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
"""Layers that are quantised; those derived from them may compute something else."""


class QuantStub(Module):
    """A place where a network begins to be quantised; it does nothing here, as each layer rounds its input."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        """Args: x, anything. Returns: x."""
        return x


class DeQuantStub(QuantStub):
    """A place where a network ceases to be quantised; it does nothing here."""


def prepare(model: Any, inplace: bool = False, *, qconfig: QConfig | None = None) -> Any:
    """A network that observes the inputs of its layers when it is called on samples.

    Args:
        model: The network, in evaluation mode.
        inplace: Whether it is changed itself.
        qconfig: How it is quantised, where no `qconfig` of a module says otherwise.

    >>> import jit
    >>> prepared = prepare(jit.nn.Sequential(jit.nn.Linear(2, 3)))
    >>> _ = prepared(jit.ones(4, 2))
    >>> convert(prepared)[0].weight.shape
    jit.Size([3, 2])
    """
    return _prepared(model, inplace, qconfig or get_default_qconfig(), _observe)


def prepare_qat(model: Any, inplace: bool = False, *, qconfig: QConfig | None = None) -> Any:
    """A network that rounds the inputs and the weights of its layers as it trains, and lets gradients pass.

    Args:
        model: The network.
        inplace: Whether it is changed itself: then an optimizer that it has stays good.
        qconfig: How it is quantised, where no `qconfig` of a module says otherwise.
    """
    return _prepared(model, inplace, qconfig or get_default_qat_qconfig(), _round)


def convert(model: Any, inplace: bool = False) -> Any:
    """A quantised network: one whose weights are integers, and whose layers round their inputs by the scales found.

    Layers that were never called stay as they are.

    Args:
        model: What `prepare` or `prepare_qat` has made, after it has run.
        inplace: Whether it is changed itself.
    """
    model = model if inplace else copy.deepcopy(model)
    for name, layer in model.named_modules():
        quantizer = getattr(layer, "input_quantizer", None) if isinstance(layer, LAYERS) else None
        if quantizer is None or isinstance(quantizer, RoundedInput):
            continue
        if _has_seen(quantizer):
            _convert(layer, quantizer)
        else:
            context.warn(f"{name or 'the layer'} was not called since it was prepared, so it stays in floats")
            _release(layer)
    return model


# -- layers ------------------------------------------------------------------------------------------------------


def _prepared(model: Any, inplace: bool, qconfig: QConfig, change: Callable[[Any, QConfig], None]) -> Any:
    if not isinstance(model, Module):
        raise KindError(f"networks are quantised, and {type(model).__name__} is none; pass a jit.nn.Module")
    model = model if inplace else copy.deepcopy(model)
    for layer, choice in list(_choices(model, qconfig)):
        if not hasattr(layer, "input_quantizer"):
            change(layer, choice)
    return model


def _choices(model: Any, qconfig: Any) -> Iterator[tuple[Any, QConfig]]:
    """The layers to quantise, each once, and how: by the `qconfig` of the nearest module around it that has one."""
    seen: set[int] = set()
    waiting = [(model, qconfig)]
    while waiting:
        module, inherited = waiting.pop()
        choice = module.__dict__.get("qconfig", inherited)
        if type(module) in LAYERS and choice is not None and id(module) not in seen:
            seen.add(id(module))
            yield module, choice
        waiting += [(child, choice) for child in module.children()]


def _observe(layer: Any, qconfig: QConfig) -> None:
    watch_input(layer, qconfig.activation().to(layer.weight.device))
    layer.add_module("weight_observer", _of_weight(layer, qconfig.weight).to(layer.weight.device))


def _round(layer: Any, qconfig: QConfig) -> None:
    watch_input(layer, qconfig.activation().to(layer.weight.device))
    register_parametrization(layer, "weight", _of_weight(layer, qconfig.weight).to(layer.weight.device))


def _of_weight(layer: Any, factory: Callable[..., Any]) -> Any:
    """The observer of a layer's weight, along the channels of its result."""
    made = factory()
    observer = made.activation_post_process if isinstance(made, FakeQuantize) else made
    if observer.ch_axis != -1 and getattr(layer, "transposed", False):
        observer.ch_axis = 1
        if layer.groups > 1:  # channels of several groups share a place along that dim
            scheme = type(observer.qscheme)(observer.qscheme.value.replace("channel", "tensor"))
            low, high = observer.quant_min, observer.quant_max
            single = MinMaxObserver(dtype=observer.dtype, qscheme=scheme, quant_min=low, quant_max=high)
            return _with_observer(made, single)
    return made


def _with_observer(made: Any, observer: Any) -> Any:
    if not isinstance(made, FakeQuantize):
        return observer
    made.activation_post_process = observer
    return made


def _has_seen(quantizer: Any) -> bool:
    observer = quantizer.activation_post_process if isinstance(quantizer, FakeQuantize) else quantizer
    low, high = observer.limits()
    return bool((low <= high).all())


def _convert(layer: Any, quantizer: Any) -> None:
    observer = layer._modules.pop("weight_observer", None)
    if is_parametrized(layer, "weight"):
        observer = layer.parametrizations.weight[0]
        remove_parametrizations(layer, "weight", leave_parametrized=False)
    observer(layer.weight)
    scale, zero_point = observer.calculate_qparams()
    input_scale, input_zero = quantizer.calculate_qparams()
    layer.add_module("input_quantizer", RoundedInput(input_scale, input_zero, quantizer.range))
    hold_as_integers(layer, scale, zero_point, observer.range, observer.ch_axis)


def _release(layer: Any) -> None:
    """Make a prepared layer a plain one again."""
    layer._modules.pop("weight_observer", None)
    if is_parametrized(layer, "weight"):
        remove_parametrizations(layer, "weight", leave_parametrized=False)
    unwatch_input(layer)
