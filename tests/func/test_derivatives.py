"""`jit.func`'s derivatives: right by finite differences and by loops, nested, with vmap and in traces."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)  # fmt: skip
from jit.ir.errors import Error

MATRIX = jit.tensor([[0.3, -1.0, 0.5], [1.5, 0.2, -0.4], [0.1, 0.7, 0.9], [-0.6, 0.8, 0.25]], dtype=jit.float64)


def points(*sizes: int) -> jit.Tensor:
    """Numbers between -1 and 1, none of them 0, no two alike."""
    count = int(np.prod(sizes))
    return jit.from_numpy(np.sin(np.arange(1, count + 1) * 1.7).reshape(sizes))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tanh of a product": lambda x: jit.tanh(MATRIX @ x),
    "softmax": lambda x: jit.softmax(MATRIX @ x, 0),
    "norm and products": lambda x: x / jit.linalg.vector_norm(x) * (x * x).sum(),
    "outer product": lambda x: jit.outer(x, x.sin()),
    "picked elements": lambda x: x[jit.tensor([2, 0, 2])] * x[1].exp(),
    "written in place": lambda x: x.clone().mul_(x).index_add_(0, jit.tensor([0, 1]), x[1:].cos()),
    "solve": lambda x: jit.linalg.solve(MATRIX[:3] + jit.diag(x * x + 3), x),
    "number": lambda x: x.prod() + x.logsumexp(0),
    "sort and cumsum": lambda x: jit.cumsum(jit.sort(x)[0], 0) ** 2,
    "linear": lambda x: MATRIX @ x,
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def differences(function: Callable[[Any], Any], x: jit.Tensor) -> jit.Tensor:
    """The Jacobian by central differences."""
    columns = []
    for unit in jit.eye(x.numel(), dtype=x.dtype) * 1e-6:
        step = unit.reshape(x.shape)
        columns.append((function(x + step) - function(x - step)) / 2e-6)
    found = jit.stack(columns, -1)
    return found.reshape([*found.shape[:-1], *x.shape])


def close(have: Any, want: Any, tolerance: float = 1e-10) -> None:
    assert have.shape == want.shape and have.dtype is want.dtype
    np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=tolerance, atol=tolerance)


# -- one derivative --------------------------------------------------------------------------------------------------


@functions
@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobians_are_those_of_finite_differences(name, jacobian):
    x = points(3)
    close(jacobian(FUNCTIONS[name])(x), differences(FUNCTIONS[name], x), 1e-7)


@functions
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product([jacrev, jacfwd], repeat=2)))
def test_second_derivatives_by_all_ways(name, outer, inner):
    x, function = points(3), FUNCTIONS[name]
    want = differences(jacrev(function), x)
    close(outer(inner(function))(x), want, 1e-6)
    close(hessian(function)(x), want, 1e-6)


@functions
def test_products_are_those_with_the_jacobian(name):
    x, function = points(3), FUNCTIONS[name]
    matrix = jacrev(function)(x)
    direction = points(5)[2:]
    value, product = jvp(function, (x,), (direction,))
    close(value, function(x))
    close(product, jit.tensordot(matrix, direction, 1))
    value, along = linearize(function, x)
    close(along(direction), product)
    close(along(2 * direction), 2 * product)
    value, products = vjp(function, x)
    weight = points(*value.shape) if value.ndim else points(1)[0]
    for factor in (1, 3):
        (have,) = products(factor * weight)
        close(have, jit.tensordot(factor * weight, matrix, value.ndim))


def test_third_derivative():
    x = jit.tensor(0.7, dtype=jit.float64)
    ways: list[Any] = [grad, jacrev, jacfwd, lambda f: lambda x: jvp(f, (x,), (jit.ones_like(x),))[1]]
    for one, two, three in itertools.product(ways, repeat=3):
        close(one(two(three(jit.sin)))(x), -jit.cos(x))


# -- arguments and results -------------------------------------------------------------------------------------------


def test_argnums_and_nests():
    def function(a, b, *, scale):
        return (a["x"] * b[0]).sum() * scale + b[1].sum()

    a, b = {"x": points(2)}, (points(2), points(3))
    assert grad(function)(a, b, scale=2)["x"].tolist() == (2 * b[0]).tolist()
    first, second = grad(function, argnums=(0, 1))(a, b, scale=2)
    assert first["x"].tolist() == (2 * b[0]).tolist()
    assert second[0].tolist() == (2 * a["x"]).tolist() and second[1].tolist() == [1, 1, 1]
    (last,) = grad(function, argnums=(-1,))(a, b, scale=2)
    assert last[1].tolist() == [1, 1, 1]


def test_jacobians_of_nests():
    def function(a, b):
        return {"sum": a + b[0], "outer": jit.outer(a, b[1])}

    args = points(2), [points(2), points(3)]
    for jacobian in (jacrev, jacfwd):
        found = jacobian(function, argnums=(0, 1))(*args)
        assert found["sum"][0].tolist() == jit.eye(2).tolist()
        assert found["outer"][1][1].shape == (2, 3, 3) and found["outer"][0].shape == (2, 3, 2)
        assert found["sum"][1][1].shape == (2, 3) and not found["sum"][1][1].any()
        close(found["outer"][0], differences(lambda a: function(a, args[1])["outer"], args[0]), 1e-7)


def test_hessian_by_several_arguments():
    def function(a, b):
        return (a * a).sum() * b.sum()

    (aa, ab), (ba, bb) = hessian(function, argnums=(0, 1))(points(2), points(3))
    assert (aa.shape, ab.shape, ba.shape, bb.shape) == ((2, 2), (2, 3), (3, 2), (3, 3))
    close(ab, ba.T)
    assert not bb.any() and aa.abs().sum() > 0


def test_aux_is_passed_through_without_history():
    def function(x):
        return (x * x).sum(), {"x": x, "note": "kept"}

    x = points(3)
    gradient, (value, aux) = grad_and_value(function, has_aux=True)(x)
    assert aux["note"] == "kept" and not aux["x"].requires_grad and not value.requires_grad
    close(gradient, 2 * x)
    assert grad(function, has_aux=True)(x)[1]["note"] == "kept"
    assert jacrev(function, has_aux=True)(x)[1]["note"] == jacfwd(function, has_aux=True)(x)[1]["note"] == "kept"
    assert vjp(function, x, has_aux=True)[2]["note"] == jvp(function, (x,), (x,), has_aux=True)[2]["note"] == "kept"


def test_what_a_result_does_not_depend_on_has_zeros():
    x = points(2)
    assert grad(lambda x, y: y.sum())(x, x).tolist() == [0, 0]
    assert jvp(lambda x: jit.ones(3), (x,), (x,))[1].tolist() == [0, 0, 0]
    assert jacrev(lambda x: jit.ones(3))(x).tolist() == jacfwd(lambda x: jit.ones(3))(x).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_no_elements(jacobian):
    assert jacobian(lambda x: x * 2)(jit.ones(0)).shape == (0, 0)
    assert jacobian(lambda x: x[:0])(jit.ones(3)).shape == (0, 3)


def test_rows_in_chunks():
    x = points(3)
    whole = jacrev(FUNCTIONS["softmax"])(x)
    for size in (1, 3, 4, 9):
        close(jacrev(FUNCTIONS["softmax"], chunk_size=size)(x), whole)


def test_complex_arguments_have_conjugate_gradients():
    z = jit.tensor([1 + 2j, -0.5j])
    assert grad(lambda z: (z * z.conj()).real.sum())(z).tolist() == (2 * z).tolist()


def test_functionalize_changes_nothing():
    assert functionalize(FUNCTIONS["written in place"])(points(3)).shape == (3,)
    with pytest.raises(Error, match="mutations_and_views"):
        functionalize(jit.sin, remove="views")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: grad(jit.sin)(x), r"scalar tensor.*\[3\].*jacrev"),
        (lambda x: grad(lambda x: (x, x))(x), "to return a tensor"),
        (lambda x: grad(lambda x: 1.0)(x), "not float"),
        (lambda x: grad(jit.sum)(2.0), "not float"),
        (lambda x: grad(jit.sum, argnums=1)(x), "argnums=1"),
        (lambda x: grad(jit.mul, argnums=(0, -2))(x, x), "twice"),
        (lambda x: grad(jit.sum, argnums=())(x), "names no argument"),
        (lambda x: grad(jit.sum, has_aux=True)(x), "pair"),
        (lambda x: grad(lambda x: (x * 1j).sum())(x), "complex"),
        (lambda x: vjp(jit.sin, x)[1](x[:2]), r"other sizes.*\[3\]"),
        (lambda x: vjp(jit.sin, x)[1]((x, x)), "nested"),
        (lambda x: jvp(jit.sin, x, (x,)), r"tuple.*\(primals,\)"),
        (lambda x: jvp(jit.sin, (x,), (x[0],)), "other sizes"),
        (lambda x: jacrev(jit.sin, chunk_size=0), "greater than 0"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(Error, match=message):
        call(points(3))


# -- histories -------------------------------------------------------------------------------------------------------


def test_results_have_a_history_only_where_it_is_needed():
    x, w = points(3), points(3).requires_grad_()
    assert not grad(lambda x: (x * x).sum())(x).requires_grad
    assert not hessian(lambda x: (x * x * x).sum())(x).requires_grad
    assert grad(lambda w: (w * w).sum())(w).requires_grad  # as of PyTorch: w is varied outside
    found = grad(lambda x: (x * x * w).sum())(x)
    close(jit.grad(found.sum(), w)[0], 2 * x)
    with jit.no_grad():
        assert not grad(lambda x: (x * x * w).sum())(x).requires_grad
    assert w.grad is None


def test_no_grad_within_the_function_is_respected():
    def function(x):
        with jit.no_grad():
            factor = x * 2
        return (factor * x).sum()

    x = points(3)
    with jit.no_grad():
        close(grad(function)(x), 2 * x)


def test_a_closure_is_constant_to_the_inner_derivative_alone():
    x = jit.tensor(3.0, dtype=jit.float64)
    close(grad(lambda x: x * grad(lambda y: x + y)(x))(x), jit.ones((), dtype=jit.float64))
    close(grad(lambda x: grad(lambda y: x * x * y)(x))(x), 2 * x)
    close(jvp(lambda x: jvp(lambda y: x * y * y, (x,), (x,))[1], (x,), (jit.ones_like(x),))[1], 6 * x * x)


def test_aux_of_an_inner_derivative_is_differentiated_outside():
    def outer(x):
        gradient, aux = grad(lambda y: ((y * y).sum(), y.sin()), has_aux=True)(x)
        return (gradient * aux).sum()

    x = points(3)
    close(grad(outer)(x), 2 * x.sin() + 2 * x * x.cos())


# -- with vmap -------------------------------------------------------------------------------------------------------


@functions
@pytest.mark.parametrize("derivative", [jacrev, jacfwd, hessian])
def test_mapped_derivatives_are_those_of_each_sample(name, derivative):
    xs = points(4, 3)
    have = vmap(derivative(FUNCTIONS[name]))(xs)
    close(have, jit.stack([derivative(FUNCTIONS[name])(x) for x in xs]))


@functions
def test_derivatives_of_mapped_functions(name):
    xs = points(2, 3)
    have = jacrev(vmap(FUNCTIONS[name]))(xs)
    want = jit.stack([jacrev(FUNCTIONS[name])(x) for x in xs])
    for one, other in itertools.product(range(2), repeat=2):
        close(have[one].select(-2, other), want[one] * (one == other))


def test_two_maps_around_a_derivative():
    def function(x, w):
        return jit.tanh(w * x).sum()

    xs, ws = points(2, 3), points(4, 3)
    for derivative in (grad, jacrev, jacfwd, hessian):
        have = vmap(vmap(derivative(function, argnums=1), (None, 0)), (0, None))(xs, ws)
        want = jit.stack([jit.stack([derivative(function, argnums=1)(x, w) for w in ws]) for x in xs])
        close(have, want)


def test_a_derivative_by_what_is_the_same_for_all_samples_differs():
    w, xs = points(3), points(5, 3)
    have = vmap(grad(lambda w, x: (w @ x).sin()), in_dims=(None, 0))(w, xs)
    close(have, jit.cos(xs @ w).unsqueeze(1) * xs)


def test_products_mapped_later():
    x = points(3)
    _, products = vjp(FUNCTIONS["softmax"], x)
    (rows,) = vmap(products)(jit.eye(4, dtype=jit.float64))
    close(rows, jacrev(FUNCTIONS["softmax"])(x))
    (both,) = vmap(vmap(products))(points(2, 5, 4))
    close(both, points(2, 5, 4) @ rows)


def test_autograd_with_mapped_weights():
    w = points(3).requires_grad_()
    out = FUNCTIONS["softmax"](w)
    rows = vmap(lambda v: jit.autograd.grad(out, [w], v, retain_graph=True)[0])(jit.eye(4, dtype=jit.float64))
    close(rows, jacrev(FUNCTIONS["softmax"])(w))


def test_a_product_outlives_no_map():
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(vjp(jit.sin, x)[1])
        return x

    vmap(keeps)(points(2, 3))
    with pytest.raises(Error, match="within the vmap"):
        kept[0](points(3))


def test_random_numbers_under_a_mapped_derivative():
    def function(w, x):
        return (w * jit.nn.functional.dropout(x, 0.5)).sum()

    w, xs = jit.ones(50), jit.ones(4, 50)
    with pytest.raises(Error, match="randomness"):
        vmap(grad(function), (None, 0))(w, xs)
    found = vmap(grad(function), (None, 0), randomness="different")(w, xs)
    assert {0.0, 2.0} == set(found.flatten().tolist()) and (found[0] != found[1]).any()
    same = vmap(grad(function), (None, 0), randomness="same")(w, xs)
    assert (same[0] == same[3]).all()


# -- networks --------------------------------------------------------------------------------------------------------


def network() -> tuple[jit.nn.Module, dict[str, jit.Tensor]]:
    jit.manual_seed(0)
    net = jit.nn.Sequential(
        jit.nn.Conv2d(1, 4, 3), jit.nn.ReLU(), jit.nn.MaxPool2d(2), jit.nn.Flatten(), jit.nn.Linear(36, 5)
    ).double()
    return net, {name: value.detach() for name, value in net.named_parameters()}


def loss_of(net: jit.nn.Module) -> Callable[..., jit.Tensor]:
    def loss(parameters, x, y):
        out = functional_call(net, parameters, (x.unsqueeze(0),))
        return jit.nn.functional.cross_entropy(out, y.unsqueeze(0))

    return loss


def test_gradients_of_each_sample():
    net, parameters = network()
    loss, xs, ys = loss_of(net), points(6, 1, 8, 8), jit.tensor([0, 1, 2, 3, 4, 0])
    have = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, ys)
    for name in parameters:
        close(have[name], jit.stack([grad(loss)(parameters, x, y)[name] for x, y in zip(xs, ys)]))


def recorded(count: int) -> list[str]:
    """The operators of the gradients of so many samples."""
    net, parameters = network()
    mapped = jit.trace(vmap(grad(loss_of(net)), in_dims=(None, 0, 0)))
    mapped(parameters, points(count, 1, 8, 8), jit.zeros(count, dtype=jit.int64))
    return re.findall(r"(?:aten|jit)::\w+", str(mapped.graph))


def test_gradients_of_each_sample_are_computed_at_once():
    assert len(recorded(3)) == len(recorded(9)) > 10


def test_traced_gradients_of_each_sample():
    net, parameters = network()
    mapped = vmap(grad(loss_of(net)), in_dims=(None, 0, 0))
    xs, ys = points(6, 1, 8, 8), jit.tensor([0, 1, 2, 3, 4, 0])
    traced = jit.trace(mapped)
    for scale in (1, 2, 3):
        have, want = traced(parameters, xs * scale, ys), mapped(parameters, xs * scale, ys)
        for name in want:
            close(have[name], want[name])
    assert traced.hits == 2


@functions
@pytest.mark.parametrize("derivative", [jacrev, jacfwd, hessian])
def test_traced_derivatives(name, derivative):
    traced = jit.trace(derivative(FUNCTIONS[name]))
    for scale in (1.0, 0.5, 2.0):
        close(traced(points(3) * scale), derivative(FUNCTIONS[name])(points(3) * scale))
    assert traced.hits == 2


def test_learning_to_learn():
    """MAML: the gradient through one step on each task, all tasks at once."""
    net = jit.nn.Sequential(jit.nn.Linear(1, 8), jit.nn.Tanh(), jit.nn.Linear(8, 1)).double()
    parameters = {name: value.detach() for name, value in net.named_parameters()}

    def error(parameters, x, y):
        return jit.nn.functional.mse_loss(functional_call(net, parameters, (x,)), y)

    def after_a_step(parameters, x, y, later_x, later_y):
        gradients = grad(error)(parameters, x, y)
        return error({name: parameters[name] - 0.1 * gradients[name] for name in parameters}, later_x, later_y)

    tasks = [points(5, 6, 1) * scale for scale in (1, 0.5, 2, 3)]
    dims = (None, 0, 0, 0, 0)
    have = grad(lambda parameters: vmap(after_a_step, dims)(parameters, *tasks).mean())(parameters)

    def one_by_one(parameters):
        return jit.stack([after_a_step(parameters, *(part[task] for part in tasks)) for task in range(5)]).mean()

    want = grad(one_by_one)(parameters)
    for name in parameters:
        close(have[name], want[name])


def test_neural_tangent_kernel_by_both_ways():
    net = jit.nn.Sequential(jit.nn.Linear(3, 8), jit.nn.Tanh(), jit.nn.Linear(8, 2)).double()
    parameters = {name: value.detach() for name, value in net.named_parameters()}

    def call(parameters, x):
        return functional_call(net, parameters, (x,))

    first, second = points(4, 3), points(5, 3)
    rows = [vmap(jacrev(call), (None, 0))(parameters, x) for x in (first, second)]
    pairs = zip(*([each.flatten(2) for each in row.values()] for row in rows))
    want = sum(jit.einsum("naf,mbf->nmab", one, other) for one, other in pairs)

    def kernel(one, other):
        _, products = vjp(lambda p: call(p, one), parameters)
        along = vmap(lambda v: jvp(lambda p: call(p, other), (parameters,), products(v))[1])
        return along(jit.eye(2, dtype=jit.float64))

    close(vmap(vmap(kernel, (None, 0)), (0, None))(first, second), want)
