"""`LRScheduler`, the base of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.ir.errors import UsageError

from ..optimizer import Optimizer


class LRScheduler:
    """Base of schedules; a subclass defines `get_lr()`, from `self.last_epoch` and the rates now in force.

    Rates follow from the last ones rather than from the first, so that several schedules may act on one optimizer.

    Args:
        optimizer: Whose groups' "lr" is changed.
        last_epoch: The epoch to continue after; -1 to begin.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule is made for an optimizer, not for a {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.last_epoch = last_epoch
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch != -1 and "initial_lr" not in group:
                raise UsageError(f"to continue after epoch {last_epoch}, group {number} needs its 'initial_lr'")
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self._last_lr: list[float] = []
        self.step()

    @property
    def rates(self) -> list[float]:
        """The rates now in force, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The rates of epoch `self.last_epoch`, one per group; the first epoch is 0."""
        raise NotImplementedError(type(self).__name__)

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def get_last_lr(self) -> list[float]:
        """The rates that were last set, one per group."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not _holds_functions(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict()` gave; the optimizer's own state is loaded separately."""
        self.__dict__.update(state_dict)


def _holds_functions(value: Any) -> bool:
    return callable(value) or (isinstance(value, list) and any(callable(item) for item in value))


def per_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """One value for all groups, or a list with one for each, as such a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise UsageError(f"{name}: the optimizer has {count} groups, and {len(value)} values were given")
    return list(value)
