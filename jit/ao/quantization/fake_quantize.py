"""Fake quantisation: modules that round what passes through to what integers stand for, by an observer's scale."""

from __future__ import annotations

from functools import partial
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.nn import Module

from .observer import (
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    ObserverBase,
    parameters_of,
)
from .schemes import IntegerRange, per_channel_symmetric, per_tensor_symmetric


class FakeQuantizeBase(Module):
    """Base of what rounds tensors: it observes, and it rounds; either can be switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.is_observing = self.is_rounding = True

    @classmethod
    def with_args(cls, **options: Any) -> Any:
        """A factory of such modules with these arguments."""
        return partial(cls, **options)

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Switch rounding on or off.

        Args:
            enabled: Whether tensors are rounded.
        """
        self.is_rounding = bool(enabled)

    def disable_fake_quant(self) -> None:
        """Switch rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Switch observing on or off: without it, scales stay.

        Args:
            enabled: Whether tensors are observed.
        """
        self.is_observing = bool(enabled)

    def disable_observer(self) -> None:
        """Switch observing off."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Rounding of tensors to what integers stand for, by the scale that an observer says.

    Args:
        observer: The class of the observer.
        quant_min: The least integer; that of the observer's dtype if left out.
        quant_max: The greatest integer.
        observer_kwargs: Arguments of the observer.

    >>> import jit
    >>> fake = FakeQuantize(MinMaxObserver, quant_min=0, quant_max=255)
    >>> fake(jit.tensor([0.0, 0.3004, 255.0])).tolist(), fake.scale.item()
    ([0.0, 0.0, 255.0], 1.0)
    """

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None, quant_max: int | None = None,
        **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.activation_post_process: ObserverBase = observer(
            quant_min=quant_min, quant_max=quant_max, **observer_kwargs
        )
        self.register_buffer("scale", F.ones((1,)))
        self.register_buffer("zero_point", F.zeros((1,), dtype=dtypes.int32))

    @property
    def range(self) -> IntegerRange:
        """The integers."""
        return self.activation_post_process.range

    @property
    def ch_axis(self) -> int:
        """The dim of the channels; -1 where there is one scale for all."""
        return self.activation_post_process.ch_axis

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The scale and the zero point that the observer has found."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Any) -> Any:
        """Args: X, a tensor of floats. Returns: what is left of it."""
        if self.is_observing and X.numel():
            self.activation_post_process(X.detach())
            with context.no_grad():
                limits = self.activation_post_process.limits()
                self.scale, self.zero_point = parameters_of(*limits, self.activation_post_process)
        return rounded(X, self.scale, self.zero_point, self.range, self.ch_axis) if self.is_rounding else X

    def extra_repr(self) -> str:
        return f"quant_min={self.range.low}, quant_max={self.range.high}"


def rounded(x: Tensor, scale: Tensor, zero_point: Tensor, integers: IntegerRange, axis: int) -> Tensor:
    """A tensor of floats, rounded to what integers stand for.

    Args:
        x: The tensor.
        scale: A vector of scales, one for all or one for each channel.
        zero_point: A vector of zero points.
        integers: The integers.
        axis: The dim of the channels; -1 where there is one scale for all.
    """
    if axis == -1:
        return F.fake_quantize_per_tensor_affine(x, scale, zero_point, integers.low, integers.high)
    return F.fake_quantize_per_channel_affine(x, scale, zero_point, axis, integers.low, integers.high)


def _each(method: str) -> Any:
    def switch(mod: Any) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, method)()

    switch.__name__ = switch.__qualname__ = method
    switch.__doc__ = f"Call `{method}` of a module that has it: `network.apply({method})`."
    return switch


disable_fake_quant, enable_fake_quant = _each("disable_fake_quant"), _each("enable_fake_quant")
disable_observer, enable_observer = _each("disable_observer"), _each("enable_observer")

default_fake_quant = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MinMaxObserver, dtype=dtypes.int8, qscheme=per_tensor_symmetric
)
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, averaging_constant=1.0, dtype=dtypes.int8,
    qscheme=per_channel_symmetric,
)  # fmt: skip
