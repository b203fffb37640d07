"""`LRScheduler`, the base of schedules."""

from __future__ import annotations

import types
import warnings
from collections.abc import Sequence
from typing import Any

from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, NamingError, UnwrittenError, UsageError

from ..optimizer import Optimizer


class LRScheduler:
    """Base of schedules; a subclass defines `get_lr()`, from `self.last_epoch` and the rates now in force.

    Rates follow from the last ones rather than from the first, so that several schedules may act on one optimizer. A
    subclass with a formula from the first ones defines `_get_closed_form_lr()`, too, for `step(epoch)`.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        last_epoch: The epoch to continue after; -1 to begin.
    """

    _is_initial = False
    """Whether this is the step that the constructor takes: schedules that continue after an epoch keep the rates."""
    _get_lr_called_within_step = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self._step_of_optimizer = vars(optimizer).get("step")
        self.last_epoch = last_epoch
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch != -1 and "initial_lr" not in group:
                raise NamingError(
                    f"to continue after epoch {last_epoch}, group {number} of the optimizer needs its 'initial_lr'; "
                    "load the optimizer's state first, or leave last_epoch out"
                )
            group.setdefault("initial_lr", _copied(group["lr"]))
        self.base_lrs: list[float] = [_copied(group["initial_lr"]) for group in optimizer.param_groups]
        self._last_lr: list[float] = []
        self._initial_step()

    @property
    def rates(self) -> list[float]:
        """The rates now in force, one per group."""
        return [_copied(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The rates of epoch `self.last_epoch`, one per group; the first epoch is 0.

        Raises:
            UnwrittenError: The subclass does not define it.
        """
        raise UnwrittenError(f"{type(self).__name__} does not define get_lr(self), one rate per group; define it")

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or, which is deprecated, to any `epoch`."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            told = "step() of a schedule goes on to the next epoch by itself, and to say which one is deprecated"
            warnings.warn(told, stacklevel=2)
        self._go_to(epoch)

    def _check_order(self) -> None:
        """Warn at the second step, the first one being that of the constructor, if the optimizer has not had one."""
        if vars(self.optimizer).get("step") is not self._step_of_optimizer:
            told = "the optimizer's step was replaced after the schedule was made, which cannot see it any more"
            warnings.warn(f"{told}; take care to call optimizer.step() before schedule.step()", stacklevel=3)
        elif not self.optimizer._stepped.happened:
            told = "a schedule's step() was called before optimizer.step(), so its first rate is skipped"
            warnings.warn(f"{told}; call optimizer.step() first", stacklevel=3)

    def _go_to(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
            self._set(self.get_lr() if closed is None else closed())
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside_step(self) -> None:
        """Warn if `get_lr()` was called by the user: it is what a step asks for, and changes with each call."""
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() computes the next rates; those in force are get_last_lr()", stacklevel=3)

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._last_lr = self.rates

    def get_last_lr(self) -> list[float]:
        """The rates that were last set, one per group."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """The state, without the optimizer and without functions; of callable objects the attributes are kept."""
        kept = {k: v for k, v in self.__dict__.items() if k not in _NOT_SAVED and not _holds_functions(v)}
        functions = self.__dict__.get("lr_lambdas")
        return kept if functions is None else {**kept, "lr_lambdas": [_state_of(f) for f in functions]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict()` gave; the optimizer's own state is loaded separately."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, state in zip(self.__dict__.get("lr_lambdas", ()), state_dict.get("lr_lambdas", ()), strict=False):
            if state is not None:
                function.__dict__.update(state)


_NOT_SAVED = ("optimizer", "_step_of_optimizer")


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimizer.

    Raises:
        KindError: It is no optimizer.
    """
    if not isinstance(optimizer, Optimizer):
        raise KindError(f"a schedule takes an optimizer first, not {type(optimizer).__name__}; pass one of jit.optim")


def _copied(rate: Any) -> Any:
    """A rate that does not change when a tensor that holds it does."""
    return rate.clone() if isinstance(rate, Tensor) else rate


def _state_of(function: Any) -> dict[str, Any] | None:
    """The attributes of a callable object; None for a plain function."""
    return None if isinstance(function, types.FunctionType) else dict(vars(function))


def _holds_functions(value: Any) -> bool:
    return callable(value) or (isinstance(value, list) and any(callable(item) for item in value))


def per_group(value: Any, optimizer: Optimizer, name: str) -> list[Any]:
    """A list of one value for each group, given as one value for all or as such a list.

    Args:
        value: The value, or the list.
        optimizer: The optimizer, whose groups are counted.
        name: The name of the option, for the error.

    Raises:
        UsageError: The list is not as long as there are groups.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise UsageError(f"{name}: the optimizer has {count} groups, not {len(value)}; pass one value, or {count}")
    return list(value)


_LRScheduler = LRScheduler
"""The former name, from which schedules of programs are derived."""
