"""Rules of autograd that are easy to be laxer about than PyTorch: hooks that run, errors and warnings that come."""

from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.autograd import functional as AF
from jit.autograd import gradcheck, gradgradcheck


def _double(*sizes: int) -> Any:
    return jit.tensor(np.random.default_rng(3).standard_normal(sizes), requires_grad=True)


# -- gradcheck ---------------------------------------------------------------------------------------------------


def test_gradcheck_calls_the_function_as_a_backward_needs_it() -> None:
    """A function may look at what requires grad, also where differences are taken."""
    scale = _double(4, 2)

    def written(scale: Any) -> Any:
        x = jit.ones(4, 4, dtype=jit.float64)
        x.narrow(1, 2, 2).mul_(scale)
        assert x.requires_grad
        return x

    assert gradcheck(written, (scale,)) and gradgradcheck(written, (scale,))


def test_gradcheck_looks_at_sizes_and_dtypes() -> None:
    x = jit.ones(1, dtype=jit.float64, requires_grad=True)
    changes: list[Any] = [
        lambda x: jit.cat([x, x]) if bool((x >= 1).all()) else x,
        lambda x: x.float() if bool((x >= 1).all()) else x,
        lambda x: (x, x) if bool((x >= 1).all()) else (x,),
    ]
    for change in changes:
        for fast in (False, True):
            with pytest.raises(AssertionError, match="a small step away"):
                gradcheck(change, (x,), fast_mode=fast)


OPTIMIZERS: list[Any] = [jit.optim.SGD, jit.optim.ASGD, jit.optim.Rprop, jit.optim.NAdam, jit.optim.Adam]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_differentiable_steps(optimizer: Any) -> None:
    """Two steps, so that what the first one has written is differentiated through by the second."""
    parameter, first, second = _double(5), _double(5) + 1, _double(5) - 1

    def stepped(p: Any, *gradients: Any) -> Any:
        p = p.clone()
        updates = optimizer([p], lr=0.1, differentiable=True)
        for gradient in gradients:
            p.grad = gradient
            updates.step()
        return p

    assert gradcheck(stepped, (parameter, first.detach().requires_grad_(), second.detach().requires_grad_()))


def test_averaged_descent_differentiates_its_average() -> None:
    def stepped(p: Any, average: Any) -> Any:
        p = p.clone()
        p.grad = jit.ones_like(p)
        updates = jit.optim.ASGD([p], lr=0.9, differentiable=True)
        numbers = dict(step=jit.tensor(10.0), eta=jit.tensor(0.9), mu=jit.tensor(0.5))
        updates.state[p].update(ax=average.clone(), **numbers)
        updates.step()
        return p, updates.state[p]["ax"]

    assert gradcheck(stepped, (_double(4), _double(4)))


# -- hooks -------------------------------------------------------------------------------------------------------


def test_pre_hooks_of_the_node_at_which_a_backward_ends() -> None:
    log: list[str] = []

    def hook(name: str) -> Any:
        return lambda g: log.append(name)

    a = jit.tensor(1.0, requires_grad=True)
    b = a.clone()
    assert b.grad_fn is not None
    b.grad_fn.register_prehook(hook("node"))
    b.register_hook(hook("tensor"))
    b.grad_fn.register_prehook(hook("node again"))
    b.sum().backward(inputs=(b,))
    assert log == ["tensor", "node", "node again"]
    log.clear()
    jit.grad(b.sum(), (b,))
    assert log == ["tensor"]


@pytest.mark.parametrize("layer", [nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss])
def test_backward_hooks_of_modules_see_no_second_derivatives(layer: Any) -> None:
    calls: list[int] = []
    module = layer()
    module.register_full_backward_hook(lambda module, into, out: calls.append(len(out)))
    x, y = _double(3), jit.zeros(3, dtype=jit.float64)
    (first,) = jit.grad(module(x * x, y), x, create_graph=True)
    assert calls == [1]
    jit.grad(first.sum(), x)
    assert calls == [1]


def test_backward_hooks_of_modules_run_in_each_backward() -> None:
    calls: list[int] = []
    module = nn.Tanh()
    module.register_full_backward_hook(lambda module, into, out: calls.append(1))
    x = _double(3)
    y = module(x)
    for _ in range(3):
        y.sum().backward(retain_graph=True)
    assert calls == [1, 1, 1]


# -- custom functions --------------------------------------------------------------------------------------------


class Twice(jit.autograd.Function):
    """Doubles, with its derivative under the other name."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def vjp(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


class Both(Twice):
    """Defines both."""

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def test_a_function_defines_backward_or_vjp() -> None:
    x: Any = jit.ones(2, requires_grad=True)
    Twice.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="one thing"):
        Both.apply(x).sum().backward()
    traced = jit.trace(lambda x: Twice.apply(x).sum())
    for _ in range(3):
        x.grad = None
        traced(x).backward()
        assert x.grad.tolist() == [2, 2]


def test_a_function_is_applied_and_not_called() -> None:
    with pytest.raises(RuntimeError, match=r"Twice\.apply"):
        Twice()(jit.ones(2))


def test_nodes_of_functions_are_of_a_class_of_that_name() -> None:
    x = jit.ones(2, requires_grad=True)
    one, other = Twice.apply(x).grad_fn, Twice.apply(x).grad_fn
    assert type(one).__name__ == "TwiceBackward" and type(one) is type(other)
    assert isinstance(one, jit.autograd.graph.Node)


# -- anomalies ---------------------------------------------------------------------------------------------------


def test_looking_for_anomalies_warns() -> None:
    with pytest.warns(UserWarning, match="slower"), jit.autograd.detect_anomaly():
        x = jit.ones(3, requires_grad=True)
        y = x + 1
        z = y**2
        y.add_(1)
        with pytest.raises(RuntimeError), pytest.warns(UserWarning, match=r"PowBackward(.|\n)*test_hooks_and_errors"):
            jit.grad(z.sum(), x)


def test_an_anomaly_of_a_forward_outside_has_no_place() -> None:
    x = jit.zeros(1, requires_grad=True)
    y = x.sqrt() * 0
    with pytest.warns(UserWarning, match="slower"):
        looking = jit.autograd.detect_anomaly()
    with looking, pytest.raises(RuntimeError), pytest.warns(UserWarning, match="No forward pass information"):
        y.backward()


# -- what has no derivative --------------------------------------------------------------------------------------

UNIQUE: dict[str, Any] = {
    "all": lambda x: jit.unique(x), "dim": lambda x: jit.unique(x, dim=0),
    "consecutive": lambda x: jit.unique_consecutive(x), "method": lambda x: x.unique(return_inverse=True)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", UNIQUE)
def test_distinct_elements_have_no_derivative(name: str) -> None:
    """Rather than one that is zero beside those of other ways."""
    x = jit.tensor([1.0, 2.0, 2.0], requires_grad=True)
    for function in (UNIQUE[name], jit.trace(UNIQUE[name])):
        with pytest.raises(jit.AutogradError, match="no derivative"):
            (function(x).sum() + x.sum()).backward()
    inverse = jit.unique(x, return_inverse=True)[1]
    assert not inverse.requires_grad


# -- functional --------------------------------------------------------------------------------------------------

CONSTANT: dict[str, Any] = {
    "vjp": lambda f, x: AF.vjp(f, x, jit.ones(4), create_graph=True, strict=True),
    "jvp": lambda f, x: AF.jvp(f, x, jit.ones(4), create_graph=True, strict=True),
    "jacobian": lambda f, x: AF.jacobian(f, x, create_graph=True, strict=True),
    "vhp": lambda f, x: AF.vhp(lambda x: f(x).sum(), x, jit.ones(4), strict=True),
    "hvp": lambda f, x: AF.hvp(lambda x: f(x).sum(), x, jit.ones(4), strict=True),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_strict_refuses_a_jacobian_that_does_not_depend_on_its_input(name: str) -> None:
    x = jit.ones(4, requires_grad=True)
    with pytest.raises(jit.AutogradError, match="does not depend"):
        CONSTANT[name](lambda x: x.clone(), x)
    assert CONSTANT[name](lambda x: x**3, x) is not None


def test_vectorize_makes_no_difference() -> None:
    x = jit.arange(1.0, 4.0)

    def cubes(x: Any) -> Any:
        return x**3

    for more in (dict(vectorize=True), dict(vectorize=True, strategy="forward-mode"), dict(strategy="reverse-mode")):
        options: dict[str, Any] = more
        assert jit.equal(AF.jacobian(cubes, x, **options), AF.jacobian(cubes, x))
    assert jit.equal(AF.hessian(lambda x: cubes(x).sum(), x, vectorize=True), jit.diag(6 * x))
    assert AF.jacobian(cubes, x[0]).shape == ()
    for options in (dict(vectorize=True, strict=True), dict(strategy="forward-mode"), dict(strategy="no")):
        with pytest.raises(jit.UsageError):
            AF.jacobian(cubes, x, **options)


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"])
def test_what_is_no_tensor_is_a_type_error(name: str) -> None:
    function: Any = getattr(AF, name)
    x = jit.ones(3)
    with pytest.raises(TypeError):
        function(lambda *x: x[0].sum(), (x, 2))
    with pytest.raises(TypeError):
        function(lambda x: "text", x)


def test_views_of_inference_tensors_are_inference_tensors() -> None:
    with jit.inference_mode():
        whole = jit.ones(2, 3, requires_grad=True)
    for view in (whole.view(-1), whole[0], whole.t(), whole.expand(2, 2, 3)):
        assert view.is_inference() and view.is_leaf and not view.requires_grad
