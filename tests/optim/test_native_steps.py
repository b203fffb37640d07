"""Native steps of optimizers: the bits of their operators, whatever the parameters are and whatever changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit import optim
from jit.optim import native_steps

STEPS = 9

MAKERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd-momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "sgd-nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "adam-amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1, maximize=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1),
    "adamax": lambda p: optim.Adamax(p, lr=0.1, weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: optim.RAdam(p, lr=0.1, betas=(0.9, 0.6)),
    "radam-late": lambda p: optim.RAdam(p, lr=0.1, betas=(0.9, 0.9), weight_decay=0.1),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1),
    "rmsprop-all": lambda p: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5, weight_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p, weight_decay=0.1),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of parameters in each native call that went through."""
    run, made = native_steps._NativeStep.__call__, []

    def counted(self: Any, members: Any, numbers: Any) -> bool:
        done = run(self, members, numbers)
        if done:
            made.append(len(members))
        return done

    monkeypatch.setattr(native_steps._NativeStep, "__call__", counted)
    yield made


def parameters(dtype: Any = jit.float32) -> list[Any]:
    rng = np.random.default_rng(1)
    shapes = [(3, 4), (4,), (), (2, 3, 5), (1,), (0, 3), (4,), (70, 33)]
    return [jit.nn.Parameter(jit.tensor(rng.standard_normal(shape)).to(dtype)) for shape in shapes]


def steps(
    optimizer: Any, params: list[Any], count: int = STEPS, each: Callable[[int], Any] = lambda step: None, seed: int = 2
) -> Any:
    rng = np.random.default_rng(seed)
    for step in range(count):
        for parameter in params:
            parameter.grad = jit.tensor(rng.standard_normal(parameter.shape)).to(parameter.dtype)
        each(step)
        optimizer.step()
    return optimizer


def contents(optimizer: Any, params: list[Any]) -> list[Any]:
    states = [optimizer.state[p] for p in params if p in optimizer.state]
    kept = [(name, value.numpy().tobytes()) for state in states for name, value in sorted(state.items())]
    return [*(p.detach().numpy().tobytes() for p in params), *kept]


def same_as_operators(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., Any], each: Callable[..., Any] = lambda *_: None,
    dtype: Any = jit.float32,
) -> None:  # fmt: skip
    """Compare the bits of parameters and states with those of steps that are never native."""
    found = []
    for patience in (native_steps.PATIENCE, 10**9):
        with monkeypatch.context() as patch:
            patch.setattr(native_steps, "PATIENCE", patience)
            params = parameters(dtype)
            optimizer = make(params)
            for step in range(STEPS):
                steps(optimizer, params, 1, lambda _: each(step, optimizer, params), seed=step)  # noqa: B023
            found.append(contents(optimizer, params))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [jit.float32, jit.float64], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_bits_are_those_of_the_operators(name: str, dtype: Any, calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    same_as_operators(monkeypatch, MAKERS[name], dtype=dtype)
    assert calls == [8] * (STEPS - native_steps.PATIENCE)


def no_gradients(step: int, optimizer: Any, params: list[Any]) -> None:
    for parameter in params[step % 2 :: 2]:
        parameter.grad = None


def turned_gradients(step: int, optimizer: Any, params: list[Any]) -> None:
    if step % 2:
        params[0].grad = jit.tensor(np.asfortranarray(params[0].grad.numpy()))


def gradients_that_are_parameters(step: int, optimizer: Any, params: list[Any]) -> None:
    params[1].grad, params[6].grad = params[6].detach(), params[6].detach()


def options_that_change(step: int, optimizer: Any, params: list[Any]) -> None:
    group = optimizer.param_groups[0]
    group["lr"] *= 0.7
    group["weight_decay"] = 0.1 * (step % 2)
    if "amsgrad" in group and step == 5:
        group["amsgrad"] = True


def rates_that_are_no_numbers(step: int, optimizer: Any, params: list[Any]) -> None:
    optimizer.param_groups[0]["lr"] = [0.1, float("inf"), 0.1, 1e300][step % 4]


def memory_that_is_replaced(step: int, optimizer: Any, params: list[Any]) -> None:
    if step == 6:
        for parameter in params:
            parameter.data = parameter.data.clone()
        params[0].data = jit.tensor(np.asfortranarray(params[0].detach().numpy()))


def a_parameter_that_comes_late(step: int, optimizer: Any, params: list[Any]) -> None:
    if step == 5:
        params.append(jit.nn.Parameter(jit.ones(7)))
        params[-1].grad = jit.full((7,), 0.3)
        optimizer.add_param_group({"params": params[-1:], "lr": 0.2})


def states_that_are_loaded(step: int, optimizer: Any, params: list[Any]) -> None:
    if step == 6:
        optimizer.load_state_dict(optimizer.state_dict())


def memory_that_is_shared(step: int, optimizer: Any, params: list[Any]) -> None:
    if step == 0:
        params[0].data, params[1].data = params[7].data[:3, :4], params[7].data[0, 2:6]


@pytest.mark.parametrize("name", ["sgd-momentum", "adam", "rmsprop-all"])
@pytest.mark.parametrize(
    "each",
    [
        no_gradients, turned_gradients, gradients_that_are_parameters, options_that_change, rates_that_are_no_numbers,
        memory_that_is_replaced, a_parameter_that_comes_late, states_that_are_loaded, memory_that_is_shared,
    ],
    ids=lambda each: each.__name__,
)  # fmt: skip
def test_whatever_changes_between_steps(each: Any, name: str, calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    same_as_operators(monkeypatch, MAKERS[name], each)
    assert bool(calls) == (each not in (memory_that_is_shared, gradients_that_are_parameters))


@pytest.mark.parametrize("dtype", [jit.float16, jit.bfloat16, jit.complex64], ids=str)
def test_other_dtypes_go_by_operators(dtype: Any, calls: Any) -> None:
    params = parameters(dtype)
    steps(optim.Adam(params), params)
    assert not calls


def test_dtypes_that_are_mixed(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed(step: int, optimizer: Any, params: list[Any]) -> None:
        if step == 0:
            params[3].data = params[3].data.double()
            params[3].grad = params[3].grad.double()

    same_as_operators(monkeypatch, MAKERS["adam"], mixed)
    assert calls[:2] == [7, 1]


def test_what_an_operator_would_count_is_counted(calls: Any) -> None:
    params = parameters()
    optimizer = steps(MAKERS["adam"](params), params)
    tensors = [params[0], *optimizer.state[params[0]].values()]
    versions = [tensor._version for tensor in tensors]
    optimizer.step()
    assert [tensor._version - version for tensor, version in zip(tensors, versions)] == [1] * 4
    assert calls


def test_a_backward_that_needs_the_old_elements_is_refused(calls: Any) -> None:
    params = parameters()
    optimizer = steps(MAKERS["sgd"](params), params)
    loss = (params[0] * params[0]).sum()
    optimizer.step()
    assert calls
    with pytest.raises(jit.AutogradError, match=r"test_native_steps.py"):
        loss.backward()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))], ids=["copy", "file"])
def test_copies_go_on_alike(copied: Any, calls: Any) -> None:
    params = parameters()
    optimizer = steps(MAKERS["adam"](params), params)
    twin, twins = copied((optimizer, params))
    for each, those in ((optimizer, params), (twin, twins)):
        steps(each, those, 6)
    assert contents(optimizer, params) == contents(twin, twins)
    assert len(calls) == STEPS - native_steps.PATIENCE + 6 + (6 - native_steps.PATIENCE)


def test_a_subclass_with_an_update_of_its_own_is_asked(calls: Any) -> None:
    class Halved(optim.SGD):
        def update(self, parameter: Any, gradient: Any, state: Any, group: Any) -> None:
            super().update(parameter, gradient * 0.5, state, group)

    params, halved = parameters(), parameters()
    steps(optim.SGD(params, lr=0.5), params)
    calls.clear()
    steps(Halved(halved, lr=1.0), halved)
    assert not calls
    assert contents(optim.SGD(params), params) == contents(optim.SGD(halved), halved)


def test_a_parameter_that_is_listed_twice_steps_twice(calls: Any) -> None:
    (p, *_) = parameters()
    with pytest.warns(UserWarning, match="twice"):
        optimizer = optim.SGD([p, p], lr=0.5)
    for _ in range(6):
        p.grad = jit.ones(3, 4)
        before = p.detach().clone()
        optimizer.step()
        assert jit.equal(p, before - 0.5 - 0.5)
    assert not calls


def test_traced_and_untraced_steps_take_turns() -> None:
    """A traced step records operators; what it leaves is what a native one goes on with."""
    params, twins = parameters()[:2], parameters()[:2]
    optimizer, other = MAKERS["adam"](params), MAKERS["adam"](twins)
    traced = jit.trace(optimizer.step)
    for step in range(12):
        for p, q in zip(params, twins):
            p.grad, q.grad = jit.full(p.shape, 0.1 * step), jit.full(q.shape, 0.1 * step)
        (traced if step % 3 == 2 else optimizer.step)()
        other.step()
    for p, q in zip(params, twins):
        assert jit.allclose(p, q, rtol=1e-5, atol=1e-6)


def test_where_there_is_no_native_code(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jit.runtime.plans.entry.available", lambda: False)
    same_as_operators(monkeypatch, MAKERS["adam"])
    assert not calls
