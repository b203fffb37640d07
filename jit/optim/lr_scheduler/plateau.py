"""A schedule that lowers rates when a metric no longer improves."""

from __future__ import annotations

import math
import warnings
from typing import Any

from jit.ir.errors import UsageError

from ..optimizer import Optimizer
from .base import LRScheduler, check_optimizer, per_group


class ReduceLROnPlateau(LRScheduler):
    """Multiplies rates by `factor` when the metric given to `step` has not improved for `patience` epochs.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        mode: Whether "min" or "max" is better.
        factor: The factor of the rates, below 1.
        patience: The number of epochs without an improvement that are allowed.
        threshold: The least improvement that counts.
        threshold_mode: Whether that is a share of the best ("rel") or a difference ("abs").
        cooldown: The number of epochs after a change that are not counted.
        min_lr: The least rate, one for all groups or one for each.
        eps: Changes smaller than this are not made.

    >>> import jit
    >>> optimizer = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = jit.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        if factor >= 1:
            raise UsageError(f"factor is {factor}; pass a number below 1")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise UsageError(f"mode is 'min' or 'max', threshold_mode 'rel' or 'abs'; got {mode!r}, {threshold_mode!r}")
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.min_lrs = per_group(min_lr, optimizer, "min_lr")
        self.best = self.mode_worse = math.inf if mode == "min" else -math.inf
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self.rates

    def step(  # type: ignore[override]
        self, metrics: Any = None, epoch: int | None = None
    ) -> None:
        """Take the metric of an epoch, a number or a tensor of one, and lower the rates if it is time.

        Raises:
            UsageError: No metric is given.
        """
        if metrics is None:
            raise UsageError("ReduceLROnPlateau waits for a metric to improve; pass it to step()")
        current = float(metrics)
        if epoch is not None:
            warnings.warn("step() counts epochs by itself, and to say which one this is is deprecated", stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self.rates

    def is_better(self, a: float, best: float) -> bool:
        """Whether `a` is better than the best by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "abs":
            return a * sign > best * sign + self.threshold
        return a * sign > best * (1 + sign * self.threshold) * sign

    def _reduce(self) -> None:
        lowered = [max(rate * self.factor, least) for rate, least in zip(self.rates, self.min_lrs, strict=True)]
        self._set([new if old - new > self.eps else old for old, new in zip(self.rates, lowered, strict=True)])
