"""Averages of models over a training: plain ones, exponential ones, and the learning rate that goes with them."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from jit.eager.context import no_grad
from jit.eager.expecting import expect_number
from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.devices import resolve
from jit.ir.errors import UsageError

from ..nn.modules import Module
from .lr_scheduler.base import LRScheduler, per_group

# -- averages ------------------------------------------------------------------------------------------------------


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """The plain average: ``avg_fn(averaged, current, num_averaged)`` of all models so far."""
    return lambda averaged, current, number: averaged + (current - averaged) / (number + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """The exponential average: each model weighs `decay` times as much as the one after it."""
    _check_decay(decay)
    return lambda averaged, current, number: averaged * decay + current * (1 - decay)


def get_swa_multi_avg_fn() -> Callable[[list[Any], list[Any], Any], None]:
    """`get_swa_avg_fn` for all tensors at once, in place."""
    return _for_each(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Any], list[Any], Any], None]:
    """`get_ema_avg_fn` for all tensors at once, in place."""
    return _for_each(get_ema_avg_fn(decay))


def _for_each(average: Callable[[Any, Any, Any], Any]) -> Callable[[list[Any], list[Any], Any], None]:
    def function(averaged: list[Any], current: list[Any], number: Any) -> None:
        with no_grad():
            for old, new in zip(averaged, current, strict=True):
                old.copy_(average(old, new, number) if old.is_floating_point() else new)

    return function


def _check_decay(decay: float) -> None:
    expect_number("the decay of an average", decay)
    if not 0 <= decay <= 1:
        raise UsageError(f"the decay of an average is {decay}; pass a number between 0 and 1")


class AveragedModel(Module):
    """A model whose parameters are the average of those of another one (Izmailov et al., 2018).

    Args:
        model: The model that is learned; the average starts as a copy of it.
        device: The device of the average, which is the CPU.
        avg_fn: ``avg_fn(averaged, current, num_averaged)`` returns the new average of a parameter; the plain average if
            neither this nor the next is given.
        multi_avg_fn: ``multi_avg_fn(averaged, current, num_averaged)`` changes a list of averages in place.
        use_buffers: Whether buffers are averaged, too, rather than copied.

    >>> import jit
    >>> model = jit.nn.Linear(1, 1)
    >>> average = jit.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = jit.nn.init.constant_(model.weight, value)
    ...     average.update_parameters(model)
    >>> average.module.weight.item()
    3.0
    """

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        resolve(device)
        if avg_fn is not None and multi_avg_fn is not None:
            raise UsageError("avg_fn and multi_avg_fn are both given; pass one of them")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", F.zeros((), dtype=dtypes.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the parameters of `model` to the average."""
        own, given = (list(self._averaged(m)) for m in (self.module, model))
        with no_grad():
            if self.n_averaged.item() == 0:
                for averaged, current in zip(own, given, strict=True):
                    averaged.copy_(current)
            elif self.multi_avg_fn is not None:
                self.multi_avg_fn(own, given, self.n_averaged)
            else:
                _for_each(self.avg_fn or get_swa_avg_fn())(own, given, self.n_averaged)
            if not self.use_buffers:
                for averaged, current in zip(self.module.buffers(), model.buffers(), strict=True):
                    averaged.copy_(current)
            self.n_averaged.add_(1)

    def _averaged(self, model: Module) -> Iterable[Any]:
        found = (t.detach() for t in model.parameters())
        return itertools.chain(found, model.buffers()) if self.use_buffers else found


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Measure the running statistics of the batch norms of `model` anew.

    Args:
        loader: Gives inputs, or tuples and lists that begin with one.
        model: The model; it is left in the mode in which it was.
        device: The device of the inputs, which is the CPU.
    """
    resolve(device)
    norms = [m for m in model.modules() if getattr(m, "running_mean", None) is not None and hasattr(m, "momentum")]
    if not norms:
        return
    momenta, was_training = [norm.momentum for norm in norms], model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with no_grad():
        for given in loader:
            model(given[0] if isinstance(given, (tuple, list)) else given)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


# -- the learning rate ---------------------------------------------------------------------------------------------


class SWALR(LRScheduler):
    """Takes the learning rate to a constant, from which models are averaged.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        swa_lr: The constant, or one for each group.
        anneal_epochs: The number of steps in which it is reached.
        anneal_strategy: "cos" or "linear".
        last_epoch: The step to go on from.
    """

    def __init__(
        self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise UsageError(f"anneal_strategy is {anneal_strategy!r}; it must be 'cos' or 'linear'")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise UsageError(f"anneal_epochs is {anneal_epochs}; pass a whole number from 0 on")
        for group, rate in zip(optimizer.param_groups, per_group(swa_lr, optimizer, "swa_lr"), strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        before, now = self._share(self.last_epoch - 1), self._share(self.last_epoch)
        return [_moved(group["lr"], group["swa_lr"], before, now) for group in self.optimizer.param_groups]

    def _share(self, epoch: int) -> float:
        """The share of the way to the constant that has been gone after an epoch, from 0 to 1."""
        if self.anneal_epochs == 0:
            return float(epoch >= 0)
        t = min(1.0, max(0.0, epoch / self.anneal_epochs))
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t


def _moved(rate: float, goal: float, before: float, now: float) -> float:
    """A rate that lies at `before` on the way to `goal`, moved on to `now`; both are shares of the way."""
    return goal if before == 1 else goal + (rate - goal) * (1 - now) / (1 - before)
