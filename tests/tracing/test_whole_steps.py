"""Whole steps of training as people write them: schedules, averages of weights, clipping, sizes that change.

In float64, and without a bias in front of a batch norm: its gradient is zero but for roundings, which optimizers that
divide by the size of gradients would make as large as any other.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.eager.pytree import flatten
from tests.tolerances import assert_close

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda weights: jit.optim.SGD(weights, 0.1, momentum=0.9, nesterov=True),
    "adamw": lambda weights: jit.optim.AdamW(weights, 1e-2, amsgrad=True),
    "rmsprop": lambda weights: jit.optim.RMSprop(weights, 1e-2, momentum=0.5),
    "adagrad": lambda weights: jit.optim.Adagrad(weights, 1e-2),
}
ROUNDINGS: Any = {"rtol": 1e-9, "atol": 1e-11}
"""Of doubles: kernels add in another order, and each step takes over the roundings of those before it."""
FORMS = ("plain", "accumulated", "clipped", "returning weights", "returning a number")


class Training:
    """A network that learns, with a schedule and an average of its weights; `step` is a whole step."""

    def __init__(self, optimizer: str, form: str) -> None:
        jit.manual_seed(1)
        layers = nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)
        self.network = nn.Sequential(*layers).double()
        self.average = copy.deepcopy(self.network)
        self.optimizer, self.form = OPTIMIZERS[optimizer](self.network.parameters()), form
        self.schedule = jit.optim.lr_scheduler.OneCycleLR(
            self.optimizer, 0.05, total_steps=60, cycle_momentum=optimizer != "adagrad"
        )

    def step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.network(x), y)
        if self.form == "accumulated":
            (loss * 0.5).backward(retain_graph=True)
            (loss * 0.5).backward()
        else:
            loss.backward()
        if self.form == "clipped":
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        with jit.no_grad():
            for mean, weight in zip(self.average.parameters(), self.network.parameters(), strict=True):
                mean.mul_(0.9).add_(weight, alpha=0.1)
        if self.form == "returning weights":
            return loss, self.network[0].weight, self.network[0].weight * 1
        return loss.item() if self.form == "returning a number" else loss

    def tensors(self) -> list[Any]:
        return [*self.network.state_dict().values(), *self.average.state_dict().values()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_traced_steps_learn_as_untraced_ones(optimizer: str, form: str, rng: np.random.Generator) -> None:
    plain, traced = Training(optimizer, form), Training(optimizer, form)
    step = jit.trace(traced.step)
    for number in range(15):
        count = (8, 8, 5, 12, 8)[number % 5]
        example = jit.from_numpy(rng.standard_normal((count, 6))), jit.from_numpy(rng.integers(0, 3, count))
        expected, found = plain.step(*example), step(*example)
        for one, other in zip(flatten(found)[0], flatten(expected)[0], strict=True):
            assert_close(one, other, **ROUNDINGS)
        for each in (plain, traced):
            each.schedule.step()
    assert step.hits >= 10
    for one, other in zip(traced.tensors(), plain.tensors(), strict=True):
        assert_close(one, other, **ROUNDINGS)


def test_a_result_whose_backward_has_not_run_keeps_what_the_step_has_overwritten() -> None:
    weight = jit.ones(3, requires_grad=True)

    @jit.trace
    def step(x: Any) -> Any:
        loss = (weight * x).square().sum()
        loss.backward()
        other = (weight.square() * x).sum()
        with jit.no_grad():
            weight.sub_(0.1 * weight.grad)
        weight.grad = None
        return loss, other

    for number in range(1, 7):
        before = weight.detach().clone()
        loss, other = step(jit.full((3,), 0.1 * number))
        other.backward()
        assert_close(weight.grad, before * (0.2 * number))
        weight.grad = None
        with pytest.raises(jit.AutogradError):
            loss.backward()
