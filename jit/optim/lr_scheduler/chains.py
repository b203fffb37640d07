"""Several schedules for one optimizer: one after the other, or all at once."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import Any

from jit.eager.expecting import expect
from jit.ir.errors import KindError, UsageError

from ..optimizer import Optimizer
from .base import LRScheduler
from .plateau import ReduceLROnPlateau


class _Several(LRScheduler):
    """Base of combined schedules: a list of schedules of one optimizer, whose states are saved together."""

    def _take(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        if not isinstance(schedulers, Iterable):
            raise KindError(
                f"{type(self).__name__} takes several schedules, not {type(schedulers).__name__}; pass a list"
            )
        schedulers = list(schedulers)
        if not schedulers:
            raise UsageError(f"{type(self).__name__} got no schedules; pass at least one")
        for scheduler in schedulers:
            expect(type(self).__name__, scheduler, LRScheduler)
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        if any(scheduler.optimizer is not self.optimizer for scheduler in schedulers):
            raise UsageError(
                f"{type(self).__name__} takes schedules of one optimizer, and these have several; make one for each"
            )
        if any(isinstance(scheduler, ReduceLROnPlateau) for scheduler in schedulers):
            raise UsageError(
                f"{type(self).__name__} steps without a metric, and ReduceLROnPlateau needs one; step that by itself"
            )
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer, with the states of all schedules."""
        kept = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**kept, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict()` gave."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Several):
    """One schedule after the other: the next begins, with an epoch 0 of its own, at each of the milestones.

    Args:
        optimizer: The optimizer of the schedules.
        schedulers: The schedules.
        milestones: The epochs at which the second, the third, ... begins.
        last_epoch: The epoch to continue after; -1 to begin.

    >>> import jit
    >>> from jit.optim import lr_scheduler
    >>> optimizer = jit.optim.SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    >>> warmup = lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> schedule = lr_scheduler.SequentialLR(optimizer, [warmup, lr_scheduler.ExponentialLR(optimizer, 0.5)], [2])
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self._take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise UsageError(
                f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, not {len(milestones)}; pass one "
                "for each but the first"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # making the schedules has changed the rates
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        number = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            _begin(scheduler)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _begin(scheduler: LRScheduler) -> None:
    """Go to epoch 0 of a schedule, starting from the first rates."""
    if hasattr(scheduler, "_get_closed_form_lr"):
        scheduler._go_to(0)
        return
    if "base_lrs" in scheduler.__dict__:
        scheduler._set(scheduler.base_lrs)
    scheduler.last_epoch = -1
    scheduler.step()


class ChainedScheduler(_Several):
    """All schedules at once: each changes what the one before has set.

    Args:
        schedulers: The schedules, of one optimizer.
        optimizer: Their optimizer; that of the first if left out.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(optimizer, schedulers)
        self._last_lr = self.rates

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch in every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self.rates
