"""Complex parameters are optimized as pairs of real ones; their state is kept complex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import optim

KINDS: list[Callable[[Any], Any]] = [
    lambda p: optim.SGD(p, lr=0.01),
    lambda p: optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True),
    lambda p: optim.SGD(p, lr=0.01, maximize=True),
    lambda p: optim.Adam(p, lr=0.1),
    lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    lambda p: optim.AdamW(p, lr=0.1, maximize=True),
    lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.2),
    lambda p: optim.Adadelta(p, weight_decay=0.1),
    lambda p: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5),
    lambda p: optim.RMSprop(p, lr=0.1),
    lambda p: optim.Adamax(p, lr=0.1, weight_decay=0.1),
    lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1),
    lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True),
    lambda p: optim.RAdam(p, lr=0.1),
    lambda p: optim.ASGD(p, lr=0.1, weight_decay=0.1, t0=1),
    lambda p: optim.Rprop(p, lr=0.1),
]


def pair(rng: np.random.Generator, dtype: Any) -> tuple[Any, Any]:
    """A complex parameter and the pairs of reals that it is."""
    parts = jit.tensor(rng.standard_normal((4, 2)), dtype=dtype)
    return jit.view_as_complex(parts.clone()).requires_grad_(), parts.requires_grad_()


def loss(pairs: Any, goal: Any) -> Any:
    return ((pairs * jit.tensor([3.0, 5.0]) - goal) ** 2).sum()


def stepper(make: Callable[[Any], Any], parameter: Any) -> tuple[Any, Callable[[], Any]]:
    optimizer = make([parameter])

    def step() -> Any:
        optimizer.zero_grad()
        pairs = jit.view_as_real(parameter) if parameter.is_complex() else parameter
        value = loss(pairs, 1.0)
        value.backward()
        optimizer.step()
        return value

    return optimizer, step


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("dtype", [jit.float32, jit.float64])
@pytest.mark.parametrize("make", KINDS)
def test_both_parts_move_as_reals_do(make: Any, dtype: Any, traced: bool, rng: np.random.Generator) -> None:
    whole, parts = pair(rng, dtype)
    (one, step_whole), (other, step_parts) = stepper(make, whole), stepper(make, parts)
    step_whole = jit.trace(step_whole) if traced else step_whole
    for _ in range(4):
        step_whole()
        step_parts()
    near: Any = dict(rtol=1e-5, atol=1e-6) if dtype is jit.float32 else dict(rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(jit.view_as_real(whole.detach()).numpy(), parts.detach().numpy(), **near)
    for name, value in other.state[parts].items():
        if value.ndim:
            assert one.state[whole][name].is_complex()
            np.testing.assert_allclose(jit.view_as_real(one.state[whole][name]).numpy(), value.numpy(), **near)


@pytest.mark.parametrize("make", [KINDS[1], KINDS[4], KINDS[8], KINDS[11]])
def test_a_saved_state_continues(make: Any, rng: np.random.Generator) -> None:
    whole, _ = pair(rng, jit.float64)
    optimizer, step = stepper(make, whole)
    step()
    copy = whole.detach().clone().requires_grad_()
    other, step_other = stepper(make, copy)
    other.load_state_dict(optimizer.state_dict())
    step()
    step_other()
    assert copy.tolist() == whole.tolist()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_both_parts(search: str | None, rng: np.random.Generator) -> None:
    whole, parts = pair(rng, jit.float64)
    found = []
    for parameter in (whole, parts):
        optimizer = optim.LBFGS([parameter], lr=0.5, line_search_fn=search)

        def closure(parameter: Any = parameter, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            value = loss(jit.view_as_real(parameter) if parameter.is_complex() else parameter, 1.0)
            value.backward()
            return value

        optimizer.step(closure)
        found.append(jit.view_as_real(parameter.detach()) if parameter.is_complex() else parameter.detach())
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=1e-12)
    np.testing.assert_allclose(found[0].numpy(), [[1 / 3, 1 / 5]] * 4, rtol=1e-3)


def test_adafactor_takes_real_parameters() -> None:
    x = jit.ones(2, dtype=jit.complex64, requires_grad=True)
    optimizer = optim.Adafactor([x])
    jit.view_as_real(x).sum().backward()
    with pytest.raises(jit.Error, match="no complex parameters"):
        optimizer.step()
