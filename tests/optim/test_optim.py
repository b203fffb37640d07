"""Optimizers against their formulas in numpy and closed forms; what they do with groups and state."""

import copy
import math

import numpy as np
import pytest

import jit
from jit.optim import SGD, Adam, AdamW, lr_scheduler
from tests.tolerances import assert_close

STEPS = 5


def drawn(rng, *sizes):
    return rng.standard_normal(sizes)


def run(make, start, gradients):
    """What an optimizer makes of `start`, given one gradient per step."""
    parameter = jit.tensor(start, requires_grad=True)
    optimizer = make([parameter])
    for gradient in gradients:
        parameter.grad = jit.tensor(gradient)
        assert optimizer.step() is None
    return parameter


# -- formulas --------------------------------------------------------------------------------------------------------


def sgd(x, gradients, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    velocity = None
    for gradient in gradients:
        g = gradient + weight_decay * x
        velocity = g if velocity is None else momentum * velocity + (1 - dampening) * g
        x = x - lr * (g + momentum * velocity if nesterov else velocity if momentum else g)
    return x


def adam(x, gradients, lr, beta1, beta2, eps, weight_decay=0.0, amsgrad=False, decoupled=False):
    mean = square = largest = np.zeros_like(x)
    for t, gradient in enumerate(gradients, 1):
        g = gradient if decoupled else gradient + weight_decay * x
        x = x * (1 - lr * weight_decay) if decoupled else x
        mean, square = beta1 * mean + (1 - beta1) * g, beta2 * square + (1 - beta2) * g * g
        largest = np.maximum(largest, square)
        spread = np.sqrt((largest if amsgrad else square) / (1 - beta2**t)) + eps
        x = x - lr * mean / (1 - beta1**t) / spread
    return x


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.2},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    ],
)
def test_sgd_follows_its_formula(options, rng):
    start, gradients = drawn(rng, 2, 3), drawn(rng, STEPS, 2, 3)
    actual = run(lambda p: SGD(p, **options), start, gradients)
    assert_close(actual, sgd(start, gradients, **options))


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_adam_follows_its_formula(kind, weight_decay, amsgrad, rng):
    start, gradients = drawn(rng, 2, 3), drawn(rng, STEPS, 2, 3)
    options = {"lr": 0.1, "eps": 1e-3, "weight_decay": weight_decay, "amsgrad": amsgrad}
    actual = run(lambda p: kind(p, betas=(0.8, 0.95), **options), start, gradients)
    expected = adam(start, gradients, beta1=0.8, beta2=0.95, decoupled=kind is AdamW, **options)
    assert_close(actual, expected, rtol=1e-13)  # five steps of a dozen roundings each


def test_adams_first_step_is_the_learning_rate():
    x = run(lambda p: Adam(p, lr=0.01), np.array([1.0, -2.0]), [np.array([1e-3, 1e3])])
    assert_close(x, np.array([0.99, -2.01]), rtol=1e-6)  # 1e-3 is not much more than eps


def test_gradient_descent_on_a_parabola_is_a_geometric_sequence():
    x = jit.tensor(3.0, dtype=jit.float64, requires_grad=True)
    optimizer = SGD([x], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        (x * x).backward()
        optimizer.step()
    assert x.item() == pytest.approx(3 * 0.8**10, rel=1e-12)


@pytest.mark.parametrize("make", [lambda p: SGD(p, lr=0.1, maximize=True), lambda p: Adam(p, lr=0.1, maximize=True)])
def test_maximizing_climbs(make):
    gradient = np.array([1.0])
    assert run(make, np.array([0.0]), [gradient]).item() > 0
    assert gradient[0] == 1


# -- what steps touch ------------------------------------------------------------------------------------------------


def test_a_step_writes_in_place_and_leaves_the_rest_alone():
    x, untouched = jit.ones(2, requires_grad=True), jit.ones(2, requires_grad=True)
    memory, optimizer = x.detach(), SGD([x, untouched], lr=1.0, momentum=0.5)
    (x * 2).sum().backward()
    gradient = x.grad
    optimizer.step()
    optimizer.step()
    assert memory.tolist() == [-4, -4] and x.is_leaf and x.requires_grad
    assert x.grad is gradient and gradient.tolist() == [2, 2]
    assert untouched.tolist() == [1, 1] and untouched not in optimizer.state


def test_gradients_are_forgotten():
    x = jit.ones(2, requires_grad=True)
    optimizer = SGD([x])
    x.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert x.grad is None


def test_a_closure_runs_with_gradients_even_under_no_grad():
    x = jit.tensor(2.0, requires_grad=True)
    optimizer = SGD([x], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = x * x
        loss.backward()
        return loss

    with jit.no_grad():
        assert optimizer.step(closure).item() == 4
    assert x.item() == 1


# -- groups ----------------------------------------------------------------------------------------------------------


def test_groups_have_their_own_options():
    a, b, c = (jit.ones(1, requires_grad=True) for _ in range(3))
    optimizer = SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": [c], "lr": 0.0})
    for x in (a, b, c):
        x.grad = jit.ones(1)
    optimizer.step()
    assert [round(x.item(), 6) for x in (a, b, c)] == [0.9, 0.5, 1.0]
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5, 0.0]


def test_named_parameters_are_accepted():
    layer = jit.nn.Linear(2, 2)
    assert len(SGD(layer.named_parameters()).param_groups[0]["params"]) == 2


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda x: SGD([]), "got no parameters"),
        (lambda x: SGD([3]), "takes tensors, not int"),
        (lambda x: SGD([x * 2]), "takes leaves"),
        (lambda x: SGD(x), "takes parameters in a list"),
        (lambda x: SGD(3), "takes parameters in a list"),  # type: ignore[arg-type]
        (lambda x: SGD({"params": [x]}), "takes parameters in a list"),
        (lambda x: SGD([{"params": {x}}]), "an order that is the same in every run"),
        (lambda x: SGD([{"lr": 1}]), 'has no "params"'),
        (lambda x: SGD([("a", x), jit.ones(1)]), "name all of them, or none"),
        (lambda x: SGD([x]).add_param_group(x), "a group of parameters is a dictionary"),
        (lambda x: Adam([x], fused=True, differentiable=True), "a fused step cannot be differentiable"),
        (lambda x: SGD([{"params": [x]}, {"params": [x]}]), "twice"),
        (lambda x: SGD([x], lr=-1), "lr is -1; pass a number of at least 0"),
        (lambda x: SGD([x], nesterov=True), "nesterov=True needs a momentum"),
        (lambda x: Adam([x], betas=(0.9, 1.0)), "pass numbers from 0 to below 1"),
        (lambda x: Adam([x], eps=-1e-8), "eps is -1e-08; pass"),
    ],
)
def test_wrong_requests_are_refused(act, message):
    with pytest.raises(jit.Error, match=message):
        act(jit.ones(1, requires_grad=True))


# -- state -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda p: SGD(p, lr=0.1, momentum=0.9), lambda p: Adam(p, lr=0.1), AdamW])
def test_a_saved_optimizer_continues_exactly(make, rng):
    gradients = drawn(rng, 6, 4)
    x = jit.tensor(np.ones(4), requires_grad=True)
    optimizer = make([x])
    for gradient in gradients[:3]:
        x.grad = jit.tensor(gradient)
        optimizer.step()
    y = x.detach().clone().requires_grad_()
    other = make([y])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for gradient in gradients[3:]:
        x.grad, y.grad = jit.tensor(gradient), jit.tensor(gradient)
        optimizer.step()
        other.step()
    assert x.tolist() == y.tolist()


def test_a_state_names_parameters_by_position():
    a, b = jit.ones(1, requires_grad=True), jit.ones(1, requires_grad=True)
    optimizer = SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1, momentum=0.9)
    b.grad = jit.ones(1)
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert list(state["state"]) == [1] and state["state"][1]["momentum_buffer"].tolist() == [1]
    with pytest.raises(jit.Error, match=r"groups of \[1, 1\] parameters, this one of \[1\]"):
        SGD([a]).load_state_dict(state)


# -- schedules -------------------------------------------------------------------------------------------------------


def rates(make, epochs=6):
    optimizer = SGD([jit.zeros(1, requires_grad=True)], lr=0.8)
    schedule = make(optimizer)
    found = []
    for _ in range(epochs):
        found += schedule.get_last_lr()
        schedule.step()
    return found


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda o: lr_scheduler.StepLR(o, 2, 0.5), [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, 4], 0.5), [0.8, 0.4, 0.4, 0.4, 0.2, 0.2]),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.5), [0.8 * 0.5**e for e in range(6)]),
        (lambda o: lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)), [0.8 / (e + 1) for e in range(6)]),
        (
            lambda o: lr_scheduler.CosineAnnealingLR(o, 5, 0.2),
            [0.2 + 0.3 * (1 + math.cos(math.pi * e / 5)) for e in range(6)],
        ),
    ],
)
def test_schedules_follow_their_formula(make, expected):
    assert rates(make) == pytest.approx(expected)


def test_a_schedule_continues_from_its_state():
    optimizer = SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    schedule = lr_scheduler.StepLR(optimizer, 2, 0.5)
    for _ in range(3):
        schedule.step()
    again = SGD([jit.zeros(1, requires_grad=True)], lr=1.0)
    other = lr_scheduler.StepLR(again, 2, 0.5)
    again.load_state_dict(optimizer.state_dict())
    other.load_state_dict(schedule.state_dict())
    other.step()
    assert other.get_last_lr() == [0.25]
