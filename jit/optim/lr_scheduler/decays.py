"""Schedules by a formula of the epoch: in steps, exponential, linear, polynomial, along a cosine, or any function."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from jit.ir.errors import UsageError

from ..optimizer import Optimizer
from .base import LRScheduler, per_group


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        lr_lambda: The function, one for all groups or one for each.
        last_epoch: The epoch to continue after; default -1, to begin.

    >>> import jit
    >>> optimizer = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = jit.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1))
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas = per_group(lr_lambda, optimizer, "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class _Factor(LRScheduler):
    """Schedules that multiply the rates in force by a factor."""

    resumed = False
    """Whether a schedule that continues after an epoch takes the rates in force for those of the next one."""

    def factor_of(self, epoch: int) -> float:
        """The factor of the rates in force at the start of `epoch`."""
        raise NotImplementedError(type(self).__name__)

    def whole(self, epoch: int) -> float:
        """The factor of the first rates in `epoch`."""
        raise NotImplementedError(type(self).__name__)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self.resumed and self._is_initial and self.last_epoch > 0:
            return self.rates
        factor = self.factor_of(self.last_epoch)
        return [rate * factor for rate in self.rates]

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.whole(self.last_epoch)
        return [base * factor for base in self.base_lrs]


class MultiplicativeLR(LRScheduler):
    """The last rate times a function of the epoch.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        lr_lambda: The function, one for all groups or one for each.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas = per_group(lr_lambda, optimizer, "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self._is_initial:
            return self.rates
        return [rate * f(self.last_epoch) for rate, f in zip(self.rates, self.lr_lambdas, strict=True)]


class StepLR(_Factor):
    """The rate times `gamma` every `step_size` epochs.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        step_size: The number of epochs between two changes.
        gamma: The factor; default 0.1.
        last_epoch: The epoch to continue after; default -1, to begin.

    >>> import jit
    >>> optimizer = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = jit.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor_of(self, epoch: int) -> float:
        return self.gamma if epoch and epoch % self.step_size == 0 else 1.0

    def whole(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(_Factor):
    """The rate times `gamma` at each of the milestones.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        milestones: The epochs at which the rate changes.
        gamma: The factor; default 0.1.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor_of(self, epoch: int) -> float:
        return self.gamma ** self.milestones[epoch]

    def whole(self, epoch: int) -> float:
        return self.gamma ** sum(count for milestone, count in self.milestones.items() if milestone <= epoch)


class ConstantLR(_Factor):
    """The first rate times `factor` for the first `total_iters` epochs.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        factor: The factor, between 0 and 1; default 1/3.
        total_iters: The number of epochs; default 5.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise UsageError(f"factor is {factor}; pass a number between 0 and 1")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor_of(self, epoch: int) -> float:
        if epoch == 0:
            return self.factor
        return 1 / self.factor if epoch == self.total_iters else 1.0

    def whole(self, epoch: int) -> float:
        return self.factor if epoch < self.total_iters else 1.0


class LinearLR(_Factor):
    """The first rate times a factor that goes linearly from `start_factor` to `end_factor` in `total_iters` epochs.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        start_factor: The first factor, above 0 and at most 1; default 1/3.
        end_factor: The last factor, between 0 and 1; default 1.
        total_iters: The number of epochs; default 5.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    resumed = True

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise UsageError(f"the factors are {start_factor} and {end_factor}; pass numbers between 0 and 1")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor_of(self, epoch: int) -> float:
        if epoch == 0 or epoch > self.total_iters:
            return self.start_factor if epoch == 0 else 1.0
        return self.whole(epoch) / self.whole(epoch - 1)

    def whole(self, epoch: int) -> float:
        share = min(self.total_iters, epoch) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share


class ExponentialLR(_Factor):
    """The rate times `gamma` every epoch.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        gamma: The factor.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    resumed = True

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_of(self, epoch: int) -> float:
        return 1.0 if self._is_initial else self.gamma

    def whole(self, epoch: int) -> float:
        return self.gamma**epoch


class PolynomialLR(_Factor):
    """The first rate times ``(1 - epoch / total_iters) ** power``; zero from `total_iters` on.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        total_iters: The epoch at which the rate is zero; default 5.
        power: The exponent; default 1.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    resumed = True

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor_of(self, epoch: int) -> float:
        if epoch == 0 or epoch > self.total_iters:
            return 1.0
        return ((self.total_iters - epoch) / (self.total_iters - epoch + 1)) ** self.power

    def whole(self, epoch: int) -> float:
        return (1.0 - min(self.total_iters, epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """``eta_min + (first - eta_min) * (1 + cos(π * epoch / T_max)) / 2`` (Loshchilov and Hutter, 2016).

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        T_max: The number of epochs from the first rate down to `eta_min`.
        eta_min: The least rate; default 0.
        last_epoch: The epoch to continue after; default -1, to begin.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        if self._is_initial:
            return self.rates
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # up again from the very bottom
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - self.eta_min) * rise for base, rate in zip(self.base_lrs, self.rates, strict=True)]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (rate - self.eta_min) + self.eta_min for rate in self.rates]

    def _get_closed_form_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]
