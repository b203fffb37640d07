"""Schedules that go on: after an epoch that is named, from a saved state, to any epoch; and what they warn of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jit
from jit.optim import SGD, lr_scheduler

Make = Callable[..., lr_scheduler.LRScheduler]

PLAIN: dict[str, Make] = {
    "lambda": lambda o, **k: lr_scheduler.LambdaLR(o, lambda e: 0.9**e, **k),
    "lambdas": lambda o, **k: lr_scheduler.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)], **k),
    "multiplicative": lambda o, **k: lr_scheduler.MultiplicativeLR(o, lambda e: 0.9, **k),
    "exponential": lambda o, **k: lr_scheduler.ExponentialLR(o, 0.8, **k),
    "linear": lambda o, **k: lr_scheduler.LinearLR(o, 0.3, 0.9, 5, **k),
    "polynomial": lambda o, **k: lr_scheduler.PolynomialLR(o, 5, 2.0, **k),
    "cosine": lambda o, **k: lr_scheduler.CosineAnnealingLR(o, 4, 0.01, **k),
    "cyclic": lambda o, **k: lr_scheduler.CyclicLR(o, 0.01, 0.3, 3, 2, **k),
    "one cycle": lambda o, **k: lr_scheduler.OneCycleLR(o, 0.5, 20, **k),
    "restarts": lambda o, **k: lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.01, **k),
}
STEPPED: dict[str, Make] = {
    "step": lambda o, **k: lr_scheduler.StepLR(o, 3, 0.5, **k),
    "steps": lambda o, **k: lr_scheduler.MultiStepLR(o, [3, 3, 7], 0.5, **k),
    "constant": lambda o, **k: lr_scheduler.ConstantLR(o, 0.5, 4, **k),
}
CLOSED = [*STEPPED, "exponential", "linear", "polynomial", "cosine", "lambda", "cyclic", "restarts"]
ALL = {**PLAIN, **STEPPED}


def optimizer_of(lr: float = 0.05) -> SGD:
    groups = [{"params": [jit.ones(1, requires_grad=True)]}, {"params": [jit.ones(2, requires_grad=True)], "lr": 0.5}]
    return SGD(groups, lr=lr, momentum=0.9)


def go(schedule: Any, epochs: int) -> list[list[float]]:
    found = [schedule.get_last_lr()]
    for _ in range(epochs):
        schedule.optimizer.step()
        schedule.step()
        found.append(schedule.get_last_lr())
    return found


@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("name", PLAIN)
def test_a_schedule_continues_after_a_named_epoch(name: str, epochs: int) -> None:
    """The optimizer still has the rates that were in force: the first step must not change them again."""
    whole = go(PLAIN[name](optimizer_of()), epochs + 5)
    optimizer = optimizer_of()
    go(PLAIN[name](optimizer), epochs)
    resumed = go(PLAIN[name](optimizer, last_epoch=epochs - 1), 5)
    assert resumed == [pytest.approx(rates) for rates in whole[epochs : epochs + 6]]


@pytest.mark.parametrize("name", ALL)
def test_to_continue_needs_the_first_rates(name: str) -> None:
    with pytest.raises(KeyError, match="initial_lr") as caught:
        ALL[name](optimizer_of(), last_epoch=3)
    assert isinstance(caught.value, jit.Error)


@pytest.mark.parametrize("name", ALL)
def test_a_saved_state_continues(name: str) -> None:
    whole = go(ALL[name](optimizer_of()), 8)
    optimizer = optimizer_of()
    first = ALL[name](optimizer)
    go(first, 3)
    other = optimizer_of()
    second = ALL[name](other)
    second.load_state_dict(first.state_dict())
    other.load_state_dict(optimizer.state_dict())
    assert go(second, 5) == [pytest.approx(rates) for rates in whole[3:9]]


@pytest.mark.parametrize("name", CLOSED)
def test_a_step_to_any_epoch(name: str) -> None:
    whole = go(ALL[name](optimizer_of()), 9)
    schedule = ALL[name](optimizer_of())
    schedule.optimizer.step()
    for epoch in (4, 1, 6, 0, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schedule.step(epoch)
        assert schedule.last_epoch == epoch
        assert schedule.get_last_lr() == pytest.approx(whole[epoch])
    schedule.step()
    assert schedule.get_last_lr() == pytest.approx(whole[4])


def test_a_named_epoch_is_deprecated() -> None:
    schedule = lr_scheduler.StepLR(optimizer_of(), 1)
    schedule.optimizer.step()
    with pytest.warns(UserWarning, match="deprecated"):
        schedule.step(3)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer_of())
    with pytest.warns(UserWarning, match="deprecated"):
        plateau.step(1.0, 7)
    assert plateau.last_epoch == 7


# -- states ----------------------------------------------------------------------------------------------------------


class Slope:
    def __init__(self, slope: float) -> None:
        self.slope = slope

    def __call__(self, epoch: int) -> float:
        return self.slope * epoch


@pytest.mark.parametrize("kind", [lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR])
def test_objects_that_are_called_are_saved_by_what_they_hold(kind: Any) -> None:
    state = kind(optimizer_of(), [Slope(2.0), lambda epoch: 1.0]).state_dict()
    assert state["lr_lambdas"] == [{"slope": 2.0}, None]
    assert {"_step_count", "base_lrs", "last_epoch", "_last_lr"} <= set(state)
    other = kind(optimizer_of(), [Slope(5.0), lambda epoch: 1.0])
    functions = list(other.lr_lambdas)
    other.load_state_dict(state)
    assert other.lr_lambdas == functions and functions[0].slope == 2.0


def test_a_state_holds_plain_data() -> None:
    import json

    for make in ALL.values():
        state = make(optimizer_of()).state_dict()
        json.dumps({key: value for key, value in state.items() if key != "milestones"})


# -- order -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def told() -> Iterator[list[Any]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


@pytest.mark.parametrize("name", ALL)
def test_a_schedule_before_its_optimizer_warns_once(name: str, told: list[Any]) -> None:
    schedule = ALL[name](optimizer_of())
    for _ in range(3):
        schedule.step()
    assert [str(w.message).split(",")[0] for w in told] == ["a schedule's step() was called before optimizer.step()"]
    assert told[0].filename == __file__


class Own(SGD):
    """An optimizer that takes its steps itself."""

    def step(self, closure: Any = None) -> Any:
        return None


@pytest.mark.parametrize("kind", [SGD, Own, jit.optim.LBFGS])
@pytest.mark.parametrize("traced", [False, True])
def test_an_optimizer_that_has_stepped_is_seen(kind: Any, traced: bool, told: list[Any]) -> None:
    x = jit.ones(1, requires_grad=True)
    optimizer = kind([x], lr=0.1)
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step() -> None:
        optimizer.step(lambda: (x * x).sum()) if kind is jit.optim.LBFGS else optimizer.step()

    if kind is jit.optim.LBFGS:
        x.grad = jit.ones(1)
        traced = False  # its steps decide on values
    call = jit.trace(step) if traced else step
    for _ in range(3):
        call()
        schedule.step()
    assert [str(w.message) for w in told if "schedule" in str(w.message)] == []


def test_a_step_that_is_replaced_is_told(told: list[Any]) -> None:
    optimizer = optimizer_of()
    schedule = lr_scheduler.ExponentialLR(optimizer, 0.9)
    optimizer.step = lambda closure=None: None  # type: ignore[method-assign]
    optimizer.step()
    schedule.step()
    assert len(told) == 1 and "was replaced" in str(told[0].message)


def test_rates_in_force_are_not_computed_anew(told: list[Any]) -> None:
    schedule = lr_scheduler.ExponentialLR(optimizer_of(), 0.9)
    schedule.get_last_lr()
    assert not told
    schedule.get_lr()
    assert len(told) == 1 and "get_last_lr" in str(told[0].message)


loose: Any = lr_scheduler
"""The package for calls that no type checker would let pass."""


@pytest.mark.parametrize(("act", "builtin"), [
    (lambda o: loose.StepLR(3, 1), TypeError),
    (lambda o: loose.ReduceLROnPlateau(3), TypeError),
    (lambda o: loose.CyclicLR(3, 1, 2), TypeError),
    (lambda o: loose.OneCycleLR(3, 1, 2), TypeError),
    (lambda o: loose.OneCycleLR(o, 1, 2.5), ValueError),
    (lambda o: loose.CosineAnnealingWarmRestarts(o, 1.5), ValueError),
    (lambda o: loose.CosineAnnealingWarmRestarts(o, 1, 1.5), ValueError),
    (lambda o: loose.ChainedScheduler([loose.ReduceLROnPlateau(o)]), ValueError),
    (lambda o: loose.SequentialLR(o, [loose.ReduceLROnPlateau(o)], []), ValueError),
])  # fmt: skip
def test_refusals_are_the_fitting_builtin(act: Callable[[Any], Any], builtin: type[Exception]) -> None:
    with pytest.raises(builtin) as caught:
        act(optimizer_of())
    assert isinstance(caught.value, jit.Error)
