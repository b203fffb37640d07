"""Observers: modules that look at the tensors passing through, and say by which scale to quantise such.

scale, zero_point = observer.calculate_qparams()
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from jit.eager import context
from jit.eager.creation import from_numpy
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import UnwrittenError, UsageError
from jit.nn import Module

from .schemes import (
    QScheme,
    integer_range,
    per_channel_affine,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

EPS = float(np.finfo(np.float32).eps)
"""The least scale: that of tensors of zeros."""
_SHARES = tuple(1 - i / 32 for i in range(28))
"""The shares of the least and of the greatest number that a histogram is tried with."""


class ObserverBase(Module):
    """Base of observers, which return what they are called with.

    Args:
        dtype: The integers to quantise to: a dtype, or "int4" or "uint4".
        qscheme: How they are spread over the numbers.
        reduce_range: Whether to leave half of them out, for processors whose sums overflow otherwise.
        quant_min: The least integer; that of the dtype if left out.
        quant_max: The greatest.
        eps: The least scale.
    """

    ch_axis = -1
    """The dim of the channels; -1 where there is one scale for all."""
    min_val: Tensor
    """The least number, or the least of each channel; infinity before there is one."""
    max_val: Tensor
    """The greatest number."""

    def __init__(
        self, dtype: Any = dtypes.uint8, qscheme: QScheme = per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, eps: float = EPS,
    ) -> None:  # fmt: skip
        super().__init__()
        self.range = integer_range(dtype, quant_min, quant_max)
        if reduce_range:
            self.range = self.range._replace(low=self.range.low // 2, high=self.range.high // 2)
        self.dtype, self.qscheme, self.eps = dtype, qscheme, eps
        self.register_buffer("min_val", F.full((), float("inf")))
        self.register_buffer("max_val", F.full((), float("-inf")))

    @classmethod
    def with_args(cls, **options: Any) -> Any:
        """A factory of such observers with these arguments."""
        return partial(cls, **options)

    @property
    def quant_min(self) -> int:
        """The least integer."""
        return self.range.low

    @property
    def quant_max(self) -> int:
        """The greatest integer."""
        return self.range.high

    def forward(self, x_orig: Any) -> Any:
        """Args: x_orig, a tensor. Returns: the same tensor, which was looked at."""
        if x_orig.numel():
            with context.no_grad():
                self.observe(x_orig.detach().float())
        return x_orig

    def observe(self, x: Tensor) -> None:
        """Look at a tensor of float32.

        Args:
            x: The tensor, of one element or more.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError(f"{type(self).__name__} does not define observe(self, x); define it")

    def limits(self) -> tuple[Tensor, Tensor]:
        """The least and the greatest number to provide for."""
        return self.min_val, self.max_val

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The scale and the zero point, of int32: vectors of one element or of one for each channel.

        Raises:
            UsageError: Nothing was observed.
        """
        low, high = self.limits()
        if not bool(F.all(low <= high)):
            raise UsageError("an observer has seen nothing yet, so it knows no scale; run the network on samples first")
        return parameters_of(low, high, self)

    def reset_min_max_vals(self) -> None:
        """Forget what was observed."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))

    def extra_repr(self) -> str:
        return f"min_val={self.min_val.tolist()}, max_val={self.max_val.tolist()}"


def parameters_of(low: Tensor, high: Tensor, observer: ObserverBase) -> tuple[Tensor, Tensor]:
    """Scales and zero points for numbers from `low` to `high`, 0 among them, which is always represented exactly.

    Args:
        low: The least numbers.
        high: The greatest numbers.
        observer: Knows the integers, the scheme and the least scale.
    """
    low, high = F.reshape(F.clamp(low, max=0), (-1,)), F.reshape(F.clamp(high, min=0), (-1,))
    integers = observer.range
    if observer.qscheme.is_symmetric:
        scale = F.maximum(-low, high) / ((integers.high - integers.low) / 2)
        zero = F.full_like(scale, integers.middle if integers.low >= 0 else 0)
        return F.clamp(scale, min=observer.eps), F._to_copy(zero, dtype=dtypes.int32)
    scale = F.clamp((high - low) / (integers.high - integers.low), min=observer.eps)
    zero = F.clamp(integers.low - F.round(low / scale), integers.low, integers.high)
    return scale, F._to_copy(zero, dtype=dtypes.int32)


class MinMaxObserver(ObserverBase):
    """An observer of the least and the greatest number of all.

    Args:
        qscheme: How integers are spread over the numbers.
        reduce_range: Whether to leave half of the integers out.
        quant_min: The least integer; that of the dtype if left out.
        quant_max: The greatest integer.
        eps: The least scale.
    """

    def observe(self, x: Tensor) -> None:
        self.min_val.copy_(F.minimum(F.amin(x), self.min_val))
        self.max_val.copy_(F.maximum(F.amax(x), self.max_val))


class MovingAverageMinMaxObserver(ObserverBase):
    """An observer of the running averages of the least and of the greatest number of each tensor.

    Args:
        averaging_constant: The weight of the newest tensor.
        options: What `ObserverBase` takes.
    """

    def __init__(self, averaging_constant: float = 0.01, **options: Any) -> None:
        super().__init__(**options)
        self.averaging_constant = averaging_constant

    def observe(self, x: Tensor) -> None:
        low, high = self.extremes(x)
        self.min_val.copy_(self._averaged(self.min_val, low))
        self.max_val.copy_(self._averaged(self.max_val, high))

    def extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the greatest number of a tensor.

        Args:
            x: The tensor.
        """
        return F.amin(x), F.amax(x)

    def _averaged(self, kept: Tensor, new: Tensor) -> Tensor:
        return F.where(F.isinf(kept), new, kept + self.averaging_constant * (new - kept))


class PerChannelMinMaxObserver(ObserverBase):
    """An observer of the least and the greatest number of each channel.

    Args:
        ch_axis: The dim of the channels.
        qscheme: How the integers are spread over the numbers.
        options: What `ObserverBase` takes besides.
    """

    def __init__(self, ch_axis: int = 0, qscheme: QScheme = per_channel_affine, **options: Any) -> None:
        super().__init__(qscheme=qscheme, **options)
        self.ch_axis = ch_axis

    def observe(self, x: Tensor) -> None:
        low, high = _extremes_along(x, self.ch_axis)
        self.min_val, self.max_val = F.minimum(low, self.min_val), F.maximum(high, self.max_val)


class MovingAveragePerChannelMinMaxObserver(MovingAverageMinMaxObserver):
    """An observer of the running averages of the extremes of each channel.

    Args:
        averaging_constant: The weight of the newest tensor.
        ch_axis: The dim of the channels.
        qscheme: How the integers are spread over the numbers.
        options: What `ObserverBase` takes besides.
    """

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, qscheme: QScheme = per_channel_affine, **options: Any
    ) -> None:
        super().__init__(averaging_constant, qscheme=qscheme, **options)
        self.ch_axis = ch_axis

    def observe(self, x: Tensor) -> None:
        low, high = _extremes_along(x, self.ch_axis)
        self.min_val, self.max_val = self._averaged(self.min_val, low), self._averaged(self.max_val, high)


def _extremes_along(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    others = [dim for dim in range(x.ndim) if dim != axis % x.ndim]
    return (F.amin(x, others), F.amax(x, others)) if others else (x, x)


class HistogramObserver(ObserverBase):
    """An observer that counts the numbers in bins, and cuts off the few whose loss costs less than a finer scale wins.

    Args:
        bins: The number of bins between the least and the greatest number.
        options: What `ObserverBase` takes.
    """

    def __init__(self, bins: int = 2048, **options: Any) -> None:
        super().__init__(**options)
        self.bins = bins
        self.register_buffer("histogram", F.zeros((bins,)))

    def observe(self, x: Tensor) -> None:
        numbers = x.cpu().numpy().ravel()
        numbers = numbers[np.isfinite(numbers)]
        if not numbers.size:
            return
        old_low, old_high = float(self.min_val), float(self.max_val)
        low, high = min(old_low, float(numbers.min())), max(old_high, float(numbers.max()))
        counts = _counted(numbers, None, low, high, self.bins)
        if old_low <= old_high:
            before = self.histogram.cpu().numpy()
            counts += _counted(_middles(old_low, old_high, self.bins), before, low, high, self.bins)
        self.min_val.fill_(low)
        self.max_val.fill_(high)
        self.histogram.copy_(from_numpy(counts))

    def limits(self) -> tuple[Tensor, Tensor]:
        """The least and the greatest number, such that the squares of all errors are least."""
        low, high = float(self.min_val), float(self.max_val)
        if not low < high:
            return self.min_val, self.max_val
        middles, counts = from_numpy(_middles(low, high, self.bins)), self.histogram.cpu()
        lows, highs = ([limit * share for share in _SHARES] for limit in (min(low, 0.0), max(high, 0.0)))
        best = min(
            product(dict.fromkeys(lows), dict.fromkeys(highs)), key=lambda cut: self._loss(middles, counts, *cut)
        )
        device = self.min_val.device
        return F.full((), best[0], device=device), F.full((), best[1], device=device)

    def _loss(self, middles: Tensor, counts: Tensor, low: float, high: float) -> float:
        """The sum of the squares of all errors, if numbers from `low` to `high` are provided for."""
        scale, zero = parameters_of(F.full((), low), F.full((), high), self)
        errors = F._fake_quantize(middles, scale, zero, self.quant_min, self.quant_max) - middles
        return float(F.sum(errors * errors * counts))

    def reset_min_max_vals(self) -> None:
        """Forget what was observed."""
        super().reset_min_max_vals()
        self.histogram.zero_()


def _middles(low: float, high: float, bins: int) -> Any:
    """The middles of bins from `low` to `high`."""
    step = (high - low) / bins
    return (low + step * (np.arange(bins) + 0.5)).astype(np.float32)


def _counted(numbers: Any, weights: Any, low: float, high: float, bins: int) -> Any:
    """The counts of the numbers in each bin, each as often as its weight says."""
    return np.histogram(numbers, bins, (low, high), weights=weights)[0].astype(np.float32)


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(dtype=dtypes.int8, qscheme=per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=dtypes.int8, qscheme=per_channel_symmetric
)
