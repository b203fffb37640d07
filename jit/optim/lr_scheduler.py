"""Learning rates that change with the epochs: call `step()` once after each."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

from .optimizer import Optimizer


class LRScheduler:
    """Base of schedules; a subclass defines `rate(initial, epoch)`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.last_epoch = last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def rate(self, initial: float, epoch: int) -> float:
        """The learning rate of an epoch (the first is 0) for a group that started with `initial`."""
        raise NotImplementedError(type(self).__name__)

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        for group, initial in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self.rate(initial, self.last_epoch)

    def get_last_lr(self) -> list[float]:
        """The learning rates in force, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict()` gave."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """``initial * function(epoch)``."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.lr_lambda(epoch)


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs.

    >>> import jit
    >>> optimizer = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = jit.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.gamma ** bisect.bisect_right(self.milestones, epoch)


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.gamma**epoch


class CosineAnnealingLR(LRScheduler):
    """Down to `eta_min` along half a cosine that takes `T_max` epochs."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, initial: float, epoch: int) -> float:
        return self.eta_min + (initial - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2
