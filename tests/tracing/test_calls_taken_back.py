"""Functions that `jit.compile` cannot trace: what they had changed until that turned out does not happen twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn, optim
from jit.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore:.* runs untraced from now on")

LOG: list[Any] = []


class Worker(nn.Module):
    """A network whose calls have an effect, and then do what cannot be traced.

    Args:
        effect: Is given the network and the input, and returns a tensor.
        end: Makes the result of that.
    """

    def __init__(self, effect: Callable[[Any, Any], Any], end: Callable[[Any], Any]) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.calls = 0
        self.past: list[float] = []
        self.table = {"last": 0}
        self.sgd = optim.SGD(self.linear.parameters(), lr=0.1, momentum=0.9)
        self.adam = optim.Adam(self.linear.parameters(), lr=0.1)
        self.effect, self.end = effect, end

    def forward(self, x: Any) -> Any:
        return self.end(self.effect(self, x))

    def step(self, x: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        loss = self.linear(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    def count(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls

    def remember(self, x: Any) -> Any:
        self.past.append(float(x.detach().sum()))
        self.table["last"] += len(self.past)
        return x * self.table["last"]

    def backward(self, x: Any) -> Any:
        self.linear(x).sum().backward()
        return x

    def log(self, x: Any) -> Any:
        LOG.append(len(LOG))
        return x * len(LOG)


EFFECTS: dict[str, Callable[[Any, Any], Any]] = {
    "running statistics": lambda m, x: m.norm(x),
    "dropout": lambda m, x: F.dropout(x),
    "a step": lambda m, x: m.step(x, m.sgd),
    "a step of Adam": lambda m, x: m.step(x, m.adam),
    "a gradient": lambda m, x: m.backward(x),
    "a counter": lambda m, x: m.count(x),
    "a list and a dict": lambda m, x: m.remember(x),
    "a global": lambda m, x: m.log(x),
    "a write": lambda m, x: x.add_(1),
    "a write to a weight": lambda m, x: x * m.linear.weight.data.mul_(0.5).sum(),
    "random numbers of Python": lambda m, x: x * random.random(),
    "random numbers of numpy": lambda m, x: x * float(np.random.rand()),
}
ENDS: dict[str, Callable[[Any], Any]] = {
    "reads elements": lambda y: float(y.detach().numpy().sum()),
    "returns an array": lambda y: (y.detach(), np.ones(2)),
    "returns an object": lambda y: iter([y.detach()]),
    "returns a leaf": lambda y: y.detach().clone().requires_grad_(),
}


def state_of(worker: Worker, x: Any) -> list[Any]:
    """All that a call may have changed."""
    tensors = [*worker.parameters(), *worker.buffers(), x]
    gradients = [each.grad for each in worker.parameters()]
    moments = [s[k] for o in (worker.sgd, worker.adam) for s in o.state.values() for k in sorted(s)]
    values = [None if each is None else jit.as_tensor(each).tolist() for each in (*tensors, *gradients, *moments)]
    plain = [worker.calls, [*worker.past], {**worker.table}, [*LOG], [each._version for each in tensors]]
    return [*values, *plain, jit.rand(1).item(), random.random(), float(np.random.rand())]


def after_calls(worker: Worker, call: Callable[[Any], Any]) -> list[Any]:
    jit.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    LOG.clear()
    states = []
    for number in range(3):
        x = jit.arange(12.0).reshape(4, 3) * (number + 1)
        call(x)
        states.append(state_of(worker, x))
    return states


def workers(effect: str, end: str) -> tuple[Worker, Worker]:
    jit.manual_seed(1)
    first = Worker(EFFECTS[effect], ENDS[end])
    jit.manual_seed(1)
    return first, Worker(EFFECTS[effect], ENDS[end])


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("effect", EFFECTS)
def test_nothing_happens_twice(effect: str, end: str) -> None:
    plain, compiled = workers(effect, end)
    call = jit.compile(compiled)
    assert after_calls(compiled, call) == after_calls(plain, plain)


@pytest.mark.parametrize("effect", EFFECTS)
def test_calls_that_can_be_traced_change_what_they_do_as_they_are(effect: str) -> None:
    plain, compiled = (Worker(EFFECTS[effect], lambda y: y * 2) for _ in range(2))
    compiled.load_state_dict(plain.state_dict())
    versions = [[each._version for each in worker.parameters()] for worker in (compiled, plain)]
    found, wanted = after_calls(compiled, jit.compile(compiled)), after_calls(plain, plain)
    seen = [[state.pop(-4) for state in states] for states in (found, wanted)]
    moved = [[now - then for now, then in zip(seen[k][0], versions[k], strict=False)] for k in (0, 1)]
    assert moved[0] == moved[1], "a recorded call counts writes as the function does"
    for one, other in zip(found, wanted, strict=True):
        assert all(a is b is None or np.allclose(a, b, 1e-5) for a, b in zip(one, other, strict=True) if a != b)


def test_calls_of_another_kind_are_taken_back_as_well() -> None:
    worker = Worker(EFFECTS["running statistics"], lambda y: y)
    call = jit.compile(worker)
    for _ in range(3):
        call(jit.ones(4, 3))
    worker.end = ENDS["reads elements"]
    call(jit.ones(4, 3))
    assert worker.norm.num_batches_tracked.item() == 4


def test_lists_among_the_arguments() -> None:
    def function(x: Any, seen: list[Any]) -> Any:
        seen.append(len(seen))
        return x * len(seen)

    seen: list[Any] = []
    call = jit.compile(function)
    assert [call(jit.ones(1), seen).item() for _ in range(4)] == [1, 2, 3, 4] and seen == [0, 1, 2, 3]


def test_what_cannot_be_taken_back_is_told() -> None:
    words = iter(range(10))
    call = jit.compile(lambda x: float((x * next(words)).numpy()))
    with pytest.warns(UserWarning, match=r"runs anew as it is; but the call may take from the iterator words"):
        call(jit.ones(()))


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_is_taken_back_is_not_told(effect: str, recwarn: pytest.WarningsRecorder) -> None:
    worker = Worker(EFFECTS[effect], ENDS["reads elements"])
    jit.compile(worker)(jit.ones(4, 3))
    assert not [each for each in recwarn if "runs anew" in str(each.message)]


def test_errors_of_the_function_are_no_refusals() -> None:
    def function(x: Any) -> Any:
        LOG.append(1)
        raise KeyError("x")

    LOG.clear()
    call = jit.compile(function)
    for number in range(3):
        with pytest.raises(KeyError):
            call(jit.ones(1))
        assert len(LOG) == number + 1
