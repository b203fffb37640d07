"""Schedules that go up and down: warm restarts, triangular cycles, one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jit.ir.errors import UsageError

from ..optimizer import Optimizer
from .base import LRScheduler, check_optimizer, per_group


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to `eta_min` along half a cosine, then back to the start; each round takes `T_mult` times as long.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        T_0: Epochs of the first round.
        T_mult: How many times longer each round is than the last.
        eta_min: The least rate.
        last_epoch: The epoch to continue after; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        check_optimizer(optimizer)
        if not (isinstance(T_0, int) and isinstance(T_mult, int)) or T_0 < 1 or T_mult < 1:
            raise UsageError(f"T_0 and T_mult are {T_0} and {T_mult}; pass whole numbers from 1 on")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to any `epoch`, which may be a fraction: `epoch + batch / batches`.

        Raises:
            UsageError: The epoch is negative.
        """
        if self._step_count == 1 and epoch is None:
            self._check_order()
        self._step_count += 1
        now = self.last_epoch + 1 if epoch is None else epoch
        if now < 0:
            raise UsageError(f"the epoch is {epoch}; pass a number of at least 0")
        self.T_cur, self.T_i = float(now), self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        self.last_epoch = math.floor(now) - 1
        self._go_to()


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` and down again, round after round; the momentum goes the other way.

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        base_lr: The least rate, one for all groups or one for each.
        max_lr: The largest rate, likewise.
        step_size_up: Steps upward.
        step_size_down: Steps downward; as many as upward if left out.
        mode: "triangular", "triangular2" (each round half as high) or "exp_range" (times ``gamma ** step``).
        gamma: See `mode`.
        scale_fn: A factor for the height, of the round or of the step, instead of `mode`.
        scale_mode: "cycle" or "iterations": what `scale_fn` is a function of.
        cycle_momentum: Whether to change the momentum as well.
        base_momentum: The least momentum, one for all groups or one for each.
        max_momentum: The largest momentum, likewise.
        last_epoch: The step to continue after; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: Any = 0.8, max_momentum: Any = 0.9, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if scale_fn is None and mode not in _SCALES:
            raise UsageError(f"mode is {mode!r}; it must be one of {', '.join(map(repr, _SCALES))}")
        check_optimizer(optimizer)
        lows = per_group(base_lr, optimizer, "base_lr")
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = group["initial_lr"] = low
        self.max_lrs = per_group(max_lr, optimizer, "max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.mode, self.gamma, self.scale_fn, self.scale_mode = mode, gamma, scale_fn, scale_mode
        self.cycle_momentum = cycle_momentum
        self.use_beta1 = cycle_momentum and _momentum_key(optimizer) == "betas"
        self.base_momentums = per_group(base_momentum, optimizer, "base_momentum")
        self.max_momentums = per_group(max_momentum, optimizer, "max_momentum")
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle)
        if self.cycle_momentum:
            spans = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in spans:
                _set_momentum(group, self.use_beta1, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def _scale(self, cycle: int) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        return _SCALES[self.mode](cycle, self.last_epoch, self.gamma)


_SCALES: dict[str, Callable[[int, int, float], float]] = {
    "triangular": lambda cycle, step, gamma: 1.0,
    "triangular2": lambda cycle, step, gamma: 0.5 ** (cycle - 1),
    "exp_range": lambda cycle, step, gamma: gamma**step,
}
"""Height of a round, by mode."""


class _CyclePhase(NamedTuple):
    """A part of the one cycle in states that were pickled before they were PyTorch's: its end, rates and momenta."""

    end: float
    rates: tuple[str, str]
    momenta: tuple[str, str]


_Phase = _CyclePhase
"""The name of the class in the first of these."""


def _of_today(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a schedule under the names of today."""
    if "_phases" not in state:
        return state
    key = state["momentum_key"]
    phases = [_phase(each.end, *each.rates, *each.momenta) for each in state["_phases"]]
    kept = {name: v for name, v in state.items() if name not in ("_phases", "momentum_key", "anneal_strategy")}
    return kept | {
        "_schedule_phases": phases, "_anneal_func_type": state["anneal_strategy"], "cycle_momentum": key is not None,
        "use_beta1": key == "betas",
    }  # fmt: skip


class OneCycleLR(LRScheduler):
    """Up to `max_lr`, then down to far below the start, once; the momentum goes the other way (Smith, 2017).

    Args:
        optimizer: The optimizer whose groups' "lr" is changed.
        max_lr: The largest rate, one for all groups or one for each.
        total_steps: The number of steps; None to have it from the following two.
        epochs: The number of epochs.
        steps_per_epoch: The number of steps in each.
        pct_start: The share of the steps that goes upward.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: Whether to change the momentum as well.
        base_momentum: The least momentum, one for all groups or one for each.
        max_momentum: The largest momentum, likewise.
        div_factor: ``max_lr / div_factor`` is the first rate.
        final_div_factor: The first rate divided by this is the last one.
        three_phase: Whether to go down to the first rate as long as up, and then to the last one.
        last_epoch: The step to continue after; -1 to begin.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear"):
            raise UsageError(f"anneal_strategy is {anneal_strategy!r}; it must be 'cos' or 'linear'")
        if not 0 <= pct_start <= 1:
            raise UsageError(f"pct_start is {pct_start}; pass a number between 0 and 1")
        check_optimizer(optimizer)
        self._anneal_func_type = anneal_strategy
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self.cycle_momentum = cycle_momentum
        self.use_beta1 = cycle_momentum and _momentum_key(optimizer) == "betas"
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, per_group(max_lr, optimizer, "max_lr"), strict=True):
                first = highest / div_factor
                group.update(lr=first, initial_lr=first, max_lr=highest, min_lr=first / final_div_factor)
            if cycle_momentum:
                self._set_momenta(optimizer, base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_of_today(state))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(_of_today(state_dict))

    def _set_momenta(self, optimizer: Optimizer, base_momentum: Any, max_momentum: Any) -> None:
        lows, highs = (per_group(m, optimizer, "momentum") for m in (base_momentum, max_momentum))
        for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
            group.update(base_momentum=low, max_momentum=high)

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise UsageError(
                f"the schedule has {self.total_steps} steps, and step {step} was asked for; pass a larger total_steps"
            )
        start, phase = 0.0, self._schedule_phases[0]
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                _set_momentum(group, self.use_beta1, self._between(group, phase, "momentum", share))
        return [self._between(group, phase, "lr", share) for group in groups]

    def _between(self, group: dict[str, Any], phase: dict[str, Any], what: str, share: float) -> float:
        """The value between two entries of a group, `share` of the way."""
        first, last = group[phase[f"start_{what}"]], group[phase[f"end_{what}"]]
        way = share if self._anneal_func_type == "linear" else (1 - math.cos(math.pi * share)) / 2
        found: float = first + (last - first) * way
        return found


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is None and epochs is not None and steps_per_epoch is not None:
        total_steps = epochs * steps_per_epoch
    if not isinstance(total_steps, int) or total_steps < 1:
        raise UsageError("OneCycleLR needs its steps; pass total_steps, or epochs and steps_per_epoch, from 1 on")
    return total_steps


def _phases(total: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """The parts of the one cycle: the step at which each ends, and what rate and momentum go from and to.

    They are the dicts that PyTorch has in the state of this schedule.
    """
    peak, last = pct_start * total - 1, total - 1
    up = _phase(peak, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return [up, _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    down = _phase(2 * pct_start * total - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
    return [up, down, _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum")]


def _phase(end: float, *ends: str) -> dict[str, Any]:
    names = ("start_lr", "end_lr", "start_momentum", "end_momentum")
    return {"end_step": end, **dict(zip(names, ends, strict=True))}


def _momentum_key(optimizer: Optimizer) -> str:
    """The name of the groups' momentum: "momentum", or "betas", of which it is the first."""
    for name in ("betas", "momentum"):
        if name in optimizer.defaults:
            return name
    raise UsageError("the optimizer has no momentum to change; pass cycle_momentum=False")


def _set_momentum(group: dict[str, Any], use_beta1: bool, momentum: float) -> None:
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
