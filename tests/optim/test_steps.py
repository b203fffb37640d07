"""What an optimizer is given and keeps: names, repeated parameters, states of other dtypes, steps with a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit import optim


def leaf(*values: float, dtype: Any = jit.float32) -> Any:
    return jit.tensor(values, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(("act", "builtin"), [
    (lambda p: optim.SGD(p), TypeError),
    (lambda p: optim.Adam(p), TypeError),
    (lambda p: optim.LBFGS(p), TypeError),
    (lambda p: optim.SGD([3]), TypeError),
    (lambda p: optim.SGD([{"params": {p}}]), TypeError),
    (lambda p: optim.SGD([p], nonsense=1), TypeError),
    (lambda p: optim.SGD([p]).add_param_group(p), TypeError),
    (lambda p: optim.SGD([{"lr": 1.0}]), KeyError),
    (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError),
    (lambda p: optim.SGD([p * 2]), ValueError),
])  # fmt: skip
def test_refusals_are_the_fitting_builtin(act: Callable[[Any], Any], builtin: type[Exception]) -> None:
    with pytest.raises(builtin) as caught:
        act(leaf(1.0))
    assert isinstance(caught.value, jit.Error)


def test_a_parameter_listed_twice_steps_twice_with_a_warning() -> None:
    x = leaf(1.0)
    with pytest.warns(UserWarning, match="listed twice"):
        optimizer = optim.SGD([x, x], lr=0.25)
    (2 * x).sum().backward()
    optimizer.step()
    assert x.item() == 0.0
    assert optimizer.state_dict()["param_groups"][0]["params"] == [0, 0]


def test_names_are_kept() -> None:
    optimizer = optim.SGD([("a", leaf(1.0)), ("b", leaf(2.0))], lr=0.1)
    optimizer.add_param_group({"params": [("c", leaf(3.0))]})
    assert [group["param_names"] for group in optimizer.state_dict()["param_groups"]] == [["a", "b"], ["c"]]
    with pytest.raises(TypeError, match="name all of them, or none"):
        optimizer.add_param_group({"params": [leaf(4.0)]})


def test_what_keeps_its_gradient_can_be_optimized() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    y.retain_grad()
    optimizer = optim.SGD([y], lr=0.5)
    (y * y).sum().backward()
    optimizer.step()
    assert y.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("saved", [jit.float64, jit.float16])
def test_a_loaded_state_has_the_dtype_of_the_parameter(saved: Any) -> None:
    x, y = leaf(1.0, 2.0, dtype=saved), leaf(1.0, 2.0)
    one, other = optim.Adam([x]), optim.Adam([y])
    (x * x).sum().backward()
    one.step()
    state = one.state_dict()
    other.load_state_dict(state)
    assert {v.dtype for v in other.state[y].values()} == {jit.float32}
    assert state["state"][0]["exp_avg"].dtype is saved


def test_hooks_see_what_step_was_given() -> None:
    x, seen = leaf(1.0), list[Any]()
    optimizer = optim.SGD([x])
    optimizer.register_step_pre_hook(lambda *given: seen.append(given))
    optimizer.register_step_post_hook(lambda *given: seen.append(given))

    def closure() -> Any:
        return x.sum()

    optimizer.step()
    optimizer.step(closure)
    assert seen == [(optimizer, (optimizer,), {})] * 2 + [(optimizer, (optimizer, closure), {})] * 2


# -- steps with a history --------------------------------------------------------------------------------------------

DIFFERENTIABLE: list[Callable[..., Any]] = [
    lambda p, **o: optim.SGD(p, lr=0.01, weight_decay=0.1, **o),
    lambda p, **o: optim.Adam(p, lr=0.1, weight_decay=0.1, **o),
    lambda p, **o: optim.Adam(p, lr=0.1, amsgrad=True, **o),
    lambda p, **o: optim.AdamW(p, lr=0.1, weight_decay=0.1, **o),
    lambda p, **o: optim.Adagrad(p, lr=0.1, weight_decay=0.1, **o),
    lambda p, **o: optim.Adadelta(p, **o),
    lambda p, **o: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.5, **o),
    lambda p, **o: optim.Adamax(p, lr=0.1, **o),
    lambda p, **o: optim.NAdam(p, lr=0.1, **o),
    lambda p, **o: optim.RAdam(p, lr=0.1, **o),
    lambda p, **o: optim.ASGD(p, lr=0.1, **o),
    lambda p, **o: optim.Rprop(p, lr=0.1, **o),
]


@pytest.mark.parametrize("make", DIFFERENTIABLE)
def test_a_differentiable_step_has_its_derivative(make: Callable[..., Any], rng: np.random.Generator) -> None:
    """Of two steps with given gradients, against differences of undifferentiable ones."""
    first, second = (jit.tensor(rng.standard_normal(3)) for _ in range(2))

    def moved(x: Any, g: Any, **options: Any) -> Any:
        p = x.clone() if options else x.detach().clone().requires_grad_()
        optimizer = make([p], **options)
        for gradient in (g, g * second):
            p.grad = gradient
            optimizer.step()
        return (p * p).sum()

    x, g = leaf(1.0, 2.0, -3.0, dtype=jit.float64), first.clone().requires_grad_()
    value = moved(x, g, differentiable=True)
    assert value.item() == pytest.approx(moved(x, g.detach()).item(), rel=1e-12)
    value.backward()
    for tensor, gradient in ((x, x.grad), (g, g.grad)):
        for index in range(3):
            pieces = []
            for step in (1e-6, -1e-6):
                shifted = [t.detach().clone() for t in (x, g)]
                shifted[0 if tensor is x else 1][index] += step
                pieces.append(moved(*shifted).item())
            expected = (pieces[0] - pieces[1]) / 2e-6
            assert 0.0 if gradient is None else gradient[index].item() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_without_the_option_a_step_has_no_history() -> None:
    x = leaf(1.0, 2.0)
    y = (x * 1).detach().requires_grad_()
    optimizer = optim.Adam([y], lr=0.1)
    (y * y).sum().backward()
    optimizer.step()
    assert y.is_leaf and y.grad_fn is None


def test_hooks_on_the_steps_of_all_optimizers():
    from jit.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    seen, parameter = [], jit.nn.Parameter(jit.ones(1))
    optimizers = [jit.optim.SGD([parameter], lr=0.1), jit.optim.Adam([parameter])]
    optimizers[0].register_step_pre_hook(lambda *given: seen.append("own before"))
    optimizers[0].register_step_post_hook(lambda *given: seen.append("own after"))
    before = register_optimizer_step_pre_hook(lambda each, *given: seen.append(f"before {type(each).__name__}"))
    with before, register_optimizer_step_post_hook(lambda optimizer, *given: seen.append("after")):
        for optimizer in optimizers:
            optimizer.step()
    optimizers[1].step()
    assert seen == ["before SGD", "own before", "own after", "after", "before Adam", "after"]


def test_lbfgs_steps_where_nothing_descends():
    parameter = jit.nn.Parameter(jit.ones(2))
    optimizer = jit.optim.LBFGS([parameter], 0.01, tolerance_grad=-float("inf"))
    assert optimizer.step(lambda: jit.tensor([10])).item() == 10
    assert parameter.tolist() == [1.0, 1.0]
