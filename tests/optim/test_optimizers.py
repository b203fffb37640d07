"""The optimizers beside SGD and Adam, against their formulas in numpy; L-BFGS against minima that are known."""

import math
from functools import partial

import numpy as np
import pytest

import jit
from jit import optim
from tests.tolerances import assert_close

STEPS = 7


def adagrad(x, gradients, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10):
    total = np.full_like(x, initial_accumulator_value)
    for t, gradient in enumerate(gradients):
        g = gradient + weight_decay * x
        total = total + g * g
        x = x - lr / (1 + t * lr_decay) * g / (np.sqrt(total) + eps)
    return x


def rmsprop(x, gradients, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False):
    square = mean = velocity = np.zeros_like(x)
    for gradient in gradients:
        g = gradient + weight_decay * x
        square, mean = alpha * square + (1 - alpha) * g * g, alpha * mean + (1 - alpha) * g
        velocity = momentum * velocity + g / (np.sqrt(square - mean * mean * centered) + eps)
        x = x - lr * velocity
    return x


def adadelta(x, gradients, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
    square = steps = np.zeros_like(x)
    for gradient in gradients:
        g = gradient + weight_decay * x
        square = rho * square + (1 - rho) * g * g
        change = np.sqrt((steps + eps) / (square + eps)) * g
        steps = rho * steps + (1 - rho) * change * change
        x = x - lr * change
    return x


def adamax(x, gradients, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
    mean = largest = np.zeros_like(x)
    for t, gradient in enumerate(gradients, 1):
        g = gradient + weight_decay * x
        mean = betas[0] * mean + (1 - betas[0]) * g
        largest = np.maximum(betas[1] * largest, np.abs(g) + eps)
        x = x - lr / (1 - betas[0] ** t) * mean / largest
    return x


def nadam(
    x, gradients, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
    decoupled_weight_decay=False,
):  # fmt: skip
    mean = square = np.zeros_like(x)
    product = 1.0
    for t, gradient in enumerate(gradients, 1):
        g = gradient if decoupled_weight_decay else gradient + weight_decay * x
        x = x * (1 - lr * weight_decay) if decoupled_weight_decay else x
        now, then = (betas[0] * (1 - 0.5 * 0.96 ** (k * momentum_decay)) for k in (t, t + 1))
        product *= now
        mean, square = betas[0] * mean + (1 - betas[0]) * g, betas[1] * square + (1 - betas[1]) * g * g
        ahead = (1 - now) / (1 - product) * g + then / (1 - product * then) * mean
        x = x - lr * ahead / (np.sqrt(square / (1 - betas[1] ** t)) + eps)
    return x


def radam(x, gradients, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False):
    mean = square = np.zeros_like(x)
    limit = 2 / (1 - betas[1]) - 1
    for t, gradient in enumerate(gradients, 1):
        g = gradient if decoupled_weight_decay else gradient + weight_decay * x
        x = x * (1 - lr * weight_decay) if decoupled_weight_decay else x
        mean, square = betas[0] * mean + (1 - betas[0]) * g, betas[1] * square + (1 - betas[1]) * g * g
        certain = limit - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        change = mean / (1 - betas[0] ** t)
        if certain > 5:
            ratio = (certain - 4) * (certain - 2) * limit / ((limit - 4) * (limit - 2) * certain)
            change = change * math.sqrt(ratio * (1 - betas[1] ** t)) / (np.sqrt(square) + eps)
        x = x - lr * change
    return x


def rprop(x, gradients, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0)):
    before, sizes = np.zeros_like(x), np.full_like(x, lr)
    for gradient in gradients:
        agreement = np.sign(gradient * before)
        sizes = np.clip(sizes * np.choose(agreement.astype(int) + 1, [etas[0], 1.0, etas[1]]), *step_sizes)
        before = np.where(agreement < 0, 0, gradient)
        x = x - np.sign(before) * sizes
    return x


def asgd(x, gradients, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0):
    rate = lr
    for t, gradient in enumerate(gradients, 1):
        x = x * (1 - lambd * rate) - rate * (gradient + weight_decay * x)
        rate = lr / (1 + lambd * lr * t) ** alpha
    return x


CASES = [
    (optim.Adagrad, adagrad, {}),
    (optim.Adagrad, adagrad, {"lr_decay": 0.3, "initial_accumulator_value": 0.2, "weight_decay": 0.1}),
    (optim.RMSprop, rmsprop, {"alpha": 0.8}),
    (optim.RMSprop, rmsprop, {"alpha": 0.8, "momentum": 0.7, "centered": True, "weight_decay": 0.1, "eps": 1e-2}),
    (optim.Adadelta, adadelta, {"weight_decay": 0.1, "lr": 0.5}),
    (optim.Adamax, adamax, {"betas": (0.7, 0.8), "weight_decay": 0.1}),
    (optim.NAdam, nadam, {"betas": (0.7, 0.8), "weight_decay": 0.1}),
    (optim.NAdam, nadam, {"lr": 0.1, "momentum_decay": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, radam, {"weight_decay": 0.1}),
    (optim.RAdam, radam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.Rprop, rprop, {}),
    (optim.Rprop, rprop, {"etas": (0.3, 3.0), "step_sizes": (5e-3, 2e-2)}),
    (optim.ASGD, asgd, {"lambd": 0.1, "weight_decay": 0.1}),
]


def steps(make, start, gradients):
    parameter = jit.tensor(start, requires_grad=True)
    optimizer = make([parameter])
    for gradient in gradients:
        parameter.grad = jit.tensor(gradient)
        optimizer.step()
    return parameter, optimizer


@pytest.mark.parametrize(("kind", "formula", "options"), CASES, ids=lambda v: getattr(v, "__name__", repr(v)))
def test_optimizers_follow_their_formulas(kind, formula, options, rng):
    start, gradients = rng.standard_normal((2, 3)), rng.standard_normal((STEPS, 2, 3))
    moved, _ = steps(lambda p: kind(p, **options), start, gradients)
    # the scalars that are kept between steps are float32
    assert_close(moved, formula(start, gradients, **options), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("kind", "options"), [(kind, options) for kind, _, options in CASES[::2]])
def test_maximizing_is_minimizing_the_opposite(kind, options, rng):
    start, gradients = rng.standard_normal((2, 3)), rng.standard_normal((STEPS, 2, 3))
    up, _ = steps(lambda p: kind(p, maximize=True, **options), start, gradients)
    down, _ = steps(lambda p: kind(p, **options), start, -gradients)
    assert up.tolist() == down.tolist()


def test_asgd_averages_from_t0_on(rng):
    start, gradients = np.zeros(2), rng.standard_normal((6, 2))
    x, optimizer = steps(lambda p: optim.ASGD(p, lr=0.1, lambd=0.0, t0=2), start, gradients)
    passed = -0.1 * np.cumsum(gradients, 0)
    assert_close(x, passed[-1], rtol=1e-6)
    assert_close(optimizer.state[x]["ax"], passed[3:].mean(0), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [case[0] for case in CASES[::2]])
def test_a_saved_optimizer_continues_exactly(kind, rng):
    gradients = rng.standard_normal((6, 4))
    x, optimizer = steps(kind, np.ones(4), gradients[:3])
    y = x.detach().clone().requires_grad_()
    other = kind([y])
    other.load_state_dict(optimizer.state_dict())
    for gradient in gradients[3:]:
        x.grad, y.grad = jit.tensor(gradient), jit.tensor(gradient)
        optimizer.step()
        other.step()
    assert x.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.Adagrad(p, lr_decay=-1.0), "lr_decay is -1.0; pass a number of at least 0"),
        (lambda p: optim.Adadelta(p, rho=2.0), "rho is 2.0; pass a number between 0 and 1"),
        (lambda p: optim.Adamax(p, betas=(0.9, 1.0)), "pass numbers from 0 to below 1"),
        (lambda p: optim.Rprop(p, etas=(1.2, 0.5)), "pass a factor between 0 and 1, and one above 1"),
        (lambda p: optim.LBFGS(p, line_search_fn="armijo"), "line_search_fn is 'armijo'"),
        (lambda p: optim.LBFGS([{"params": [q]} for q in (*p, jit.zeros(1))]), "one group of parameters"),
        (lambda p: optim.LBFGS(p).step(), r"pass step\(\) a closure"),
    ],
)
def test_misuse_is_named(make, message):
    with pytest.raises(jit.Error, match=message):
        make([jit.zeros(1, requires_grad=True)])


def test_options_that_choose_an_implementation_make_no_difference():
    optim.Adam([jit.zeros(1)], foreach=True, fused=False)
    with pytest.raises(TypeError, match="no option 'momentun'"):
        optim.RMSprop([jit.zeros(1)], momentun=0.9)


# -- L-BFGS ------------------------------------------------------------------------------------------------------------


def minimized(loss, start, steps, **options):
    x = jit.tensor(np.array(start), requires_grad=True)
    optimizer = optim.LBFGS([x], **options)

    def closure():
        optimizer.zero_grad()
        value = loss(x)
        value.backward()
        return value

    found = [optimizer.step(closure).item() for _ in range(steps)]
    return x, found, optimizer


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def test_lbfgs_finds_the_minimum_of_a_bent_valley():
    x, losses, _ = minimized(rosenbrock, [-1.5, 2.0], 4, line_search_fn="strong_wolfe")
    assert losses[0] == 12.5 and losses == sorted(losses, reverse=True)
    assert_close(x, np.ones(2), rtol=1e-5)


def test_lbfgs_solves_linear_equations(rng):
    root = rng.standard_normal((4, 4))
    matrix, right = root @ root.T + np.eye(4), rng.standard_normal(4)
    a, b = jit.tensor(matrix), jit.tensor(right)
    x, _, _ = minimized(lambda x: (a @ x) @ x / 2 - b @ x, np.zeros(4), 3, lr=0.5, max_iter=50)
    assert_close(x, np.linalg.solve(matrix, right), rtol=1e-4)  # near its minimum the loss hardly changes


def test_lbfgs_keeps_to_its_budget():
    _, _, optimizer = minimized(rosenbrock, [-1.5, 2.0], 1, max_iter=3, max_eval=9)
    state = next(iter(optimizer.state.values()))
    assert state["n_iter"] == 3 and state["func_evals"] == 3
    _, _, optimizer = minimized(rosenbrock, [-1.5, 2.0], 1, max_eval=5)
    assert next(iter(optimizer.state.values()))["func_evals"] == 5


def test_lbfgs_stays_at_a_minimum():
    x, _, optimizer = minimized(lambda x: ((x - 1) ** 2).sum(), [1.0, 1.0], 1)
    assert x.tolist() == [1.0, 1.0] and next(iter(optimizer.state.values()))["n_iter"] == 0


# -- traced ------------------------------------------------------------------------------------------------------------

TRACED = [optim.SGD, optim.Adam, optim.Adagrad, optim.RMSprop, optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam,
          optim.Rprop, optim.ASGD]  # fmt: skip


def losses_of(kind, is_traced):
    """The losses of six steps of training, as one function with its backward and its update."""
    jit.manual_seed(0)
    layer = jit.nn.Linear(3, 2)
    optimizer = kind(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    function = jit.trace(step) if is_traced else step
    return [function(jit.ones(4, 3) * (i + 1)).item() for i in range(6)], function


@pytest.mark.parametrize("kind", TRACED, ids=lambda kind: kind.__name__)
def test_a_traced_step_of_training_is_the_eager_one(kind):
    eager, _ = losses_of(kind, False)
    traced, function = losses_of(kind, True)
    assert traced == pytest.approx(eager, rel=1e-5)  # kernels need not round as numpy does
    assert function.hits >= 3


def test_an_optimizer_prints_its_groups_as_pytorch_does() -> None:
    made = optim.SGD([{"params": [jit.zeros(1)]}, {"params": [jit.zeros(2)], "lr": 0.5}], lr=0.1)
    options = ["dampening: 0", "differentiable: False", "foreach: None", "fused: None", "lr: 0.1", "maximize: False",
               "momentum: 0", "nesterov: False", "weight_decay: 0"]  # fmt: skip
    first = "".join(f"    {option}\n" for option in options)
    second = first.replace("lr: 0.1", "lr: 0.5")
    assert repr(made) == f"SGD (\nParameter Group 0\n{first}\nParameter Group 1\n{second})"
    assert set(optim.Adam([jit.zeros(1)]).state_dict()["param_groups"][0]) == {
        "amsgrad", "betas", "capturable", "decoupled_weight_decay", "differentiable", "eps", "foreach", "fused", "lr",
        "maximize", "params", "weight_decay",
    }  # fmt: skip


def test_adam_with_decoupled_decay_is_adamw() -> None:
    ends = []
    for make in (partial(optim.Adam, decoupled_weight_decay=True), optim.AdamW):
        x = jit.tensor([2.0, -1.0], requires_grad=True)
        made = make([x], lr=0.1, weight_decay=0.5)
        for _ in range(5):
            made.zero_grad()
            (x * x).sum().backward()
            made.step()
        ends.append(x.tolist())
    assert ends[0] == ends[1]


def test_a_class_that_wraps_an_optimizer_need_not_call_its_init():
    class Half(jit.optim.Optimizer):
        def __init__(self, optimizer):
            self.optimizer, self.param_groups = optimizer, optimizer.param_groups
            self.state, self.defaults = optimizer.state, optimizer.defaults

        def step(self, closure=None):
            return self.optimizer.step(closure)

    p = jit.ones(2, requires_grad=True)
    half = Half(jit.optim.SGD([p], 0.5))
    schedule = jit.optim.lr_scheduler.StepLR(half, 1, 0.5)
    (p * p).sum().backward()
    half.step()
    half.zero_grad()
    schedule.step()
    assert p.tolist() == [0.0, 0.0] and p.grad is None and half.state_dict()["param_groups"][0]["lr"] == 0.25
