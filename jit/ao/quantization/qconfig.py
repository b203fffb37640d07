"""Choices of how networks are quantised: factories of the observers of activations and of weights."""

from __future__ import annotations

from typing import Any, NamedTuple

from .fake_quantize import (
    default_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)
from .schemes import per_channel_symmetric, per_tensor_symmetric


class QConfig(NamedTuple):
    """Factories of what looks at the tensors of a layer."""

    activation: Any
    """The factory of the observer, or of the FakeQuantize, of the layer's input."""
    weight: Any
    """The factory of the one of its weight."""


default_qconfig = QConfig(default_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The choice that PyTorch starts with: histograms of activations, and a scale for each channel of weights.

    Args:
        backend: The engine that will run the network: "fbgemm" multiplies in sums of 16 bits, so half of the integers
            are left out; "qnnpack" knows one scale for a weight.
        version: Not used.
    """
    histogram = HistogramObserver.with_args(reduce_range=backend == "fbgemm")
    if backend == "qnnpack":
        return QConfig(histogram, default_weight_observer)
    return QConfig(histogram, default_per_channel_weight_observer)


def get_default_qat_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The choice to start training with: running averages of activations, and a scale for each channel of weights.

    Args:
        backend: The engine that will run the network: "qnnpack" knows one scale for a weight.
        version: Not used.
    """
    weight = default_weight_fake_quant if backend == "qnnpack" else default_per_channel_weight_fake_quant
    return QConfig(default_fake_quant, weight)


def qconfig_of(activation_type: Any, weight_type: Any, per_channel: bool, method: str) -> QConfig:
    """A choice by element types.

    Args:
        activation_type: The integers of activations.
        weight_type: The integers of weights.
        per_channel: Whether each channel of a weight has its scale.
        method: "minmax" or "histogram": how the ranges of activations are found.
    """
    observer = HistogramObserver if method == "histogram" else MinMaxObserver
    if per_channel:
        weight = PerChannelMinMaxObserver.with_args(dtype=weight_type, qscheme=per_channel_symmetric)
    else:
        weight = MinMaxObserver.with_args(dtype=weight_type, qscheme=per_tensor_symmetric)
    return QConfig(observer.with_args(dtype=activation_type), weight)
