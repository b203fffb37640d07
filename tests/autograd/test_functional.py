"""`jit.autograd.functional`: Jacobians, Hessians and their products with vectors, against derivatives made by hand."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import functional

X = np.array([0.5, -1.0, 2.0])
Y = np.array([[1.0, 3.0]])


def tensor(array: Any) -> Any:
    return jit.from_numpy(np.array(array))


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-14)


def test_jacobian_of_one():
    found = functional.jacobian(lambda x: x.sin() * x.sum(), tensor(X))
    close(found, np.diag(np.cos(X)) * X.sum() + np.sin(X)[:, None])
    assert not found.requires_grad


def test_jacobian_of_several():
    (a, b), (c, d) = functional.jacobian(lambda x, y: (x * y.sum(), y.t() * 2), (tensor(X), tensor(Y)))
    close(a, np.eye(3) * Y.sum())
    close(b, np.broadcast_to(X[:, None, None], (3, 1, 2)))
    close(c, np.zeros((2, 1, 3)))
    close(d, 2 * np.eye(2).reshape(2, 1, 1, 2))


def test_jacobian_of_nothing_and_of_constants():
    assert functional.jacobian(lambda x: x[:0], tensor(X)).shape == (0, 3)
    close(functional.jacobian(lambda x: jit.ones(2), tensor(X)), np.zeros((2, 3)))


def test_hessian():
    close(
        functional.hessian(lambda x: (x**3).sum() + x[0] * x[1], tensor(X)),
        np.diag(6 * X) + np.eye(3)[[1, 0, 2]] * [[1], [1], [0]],
    )
    (xx, xy), (yx, yy) = functional.hessian(lambda x, y: (x.sum() * y.square()).sum(), (tensor(X), tensor(Y)))
    close(xx, np.zeros((3, 3)))
    close(xy, np.broadcast_to(2 * Y, (3, 1, 2)))
    close(yx, np.broadcast_to(2 * Y[..., None], (1, 2, 3)))
    close(yy, 2 * X.sum() * np.eye(2).reshape(1, 2, 1, 2))


def test_products():
    v, w = np.array([1.0, -2.0, 0.5]), np.array([3.0, 1.0, -1.0])
    jacobian = np.diag(np.cos(X)) * X.sum() + np.sin(X)[:, None]

    def f(x: Any) -> Any:
        return x.sin() * x.sum()

    value, product = functional.vjp(f, tensor(X), tensor(v))
    close(value, np.sin(X) * X.sum())
    close(product, v @ jacobian)
    value, product = functional.jvp(f, tensor(X), tensor(v))
    close(value, np.sin(X) * X.sum())
    close(product, jacobian @ v)
    for product in (functional.hvp, functional.vhp):
        value, found = product(lambda x: (x**3).sum() * x[0], tensor(X), tensor(w))
        close(value, (X**3).sum() * X[0])
        hessian = np.diag(6 * X * X[0])
        hessian[0] += 3 * X**2
        hessian[:, 0] += 3 * X**2
        close(found, hessian @ w)


def test_jvp_of_several():
    (a, b), (c, d) = functional.jvp(lambda x, y: (x * y.sum(), y * 2), (tensor(X), tensor(Y)), (tensor(X), tensor(Y)))
    close(a, X * Y.sum())
    close(b, 2 * Y)
    close(c, X * Y.sum() * 2)
    close(d, 2 * Y)


def test_create_graph():
    x = tensor(X).requires_grad_()
    found = functional.jacobian(lambda x: x**3, x, create_graph=True)
    close(jit.grad(found.sum(), x)[0], 6 * X)
    _, product = functional.hvp(lambda x: (x**4).sum(), x, tensor([1.0, 1.0, 1.0]), create_graph=True)
    close(jit.grad(product.sum(), x)[0], 24 * X)
    _, product = functional.jvp(lambda x: x**3, x, tensor([1.0, 1.0, 1.0]), create_graph=True)
    close(jit.grad(product.sum(), x)[0], 6 * X)
    assert x.grad is None


def test_under_no_grad_and_of_traced_functions():
    traced = jit.trace(lambda x: x.sin() * x.sum())
    for _ in range(3):
        with jit.no_grad():
            found = functional.jacobian(traced, tensor(X))
        close(found, np.diag(np.cos(X)) * X.sum() + np.sin(X)[:, None])


def test_what_cannot_be_computed():
    with pytest.raises(jit.UsageError, match="v can be left out"):
        functional.vjp(lambda x: x, tensor(X))
    with pytest.raises(jit.ShapeError, match=r"outputs' sizes; pass tensors of sizes \[3\]"):
        functional.vjp(lambda x: x, tensor(X), tensor(Y))
    with pytest.raises(jit.UsageError, match="a single number"):
        functional.hessian(lambda x: x, tensor(X))
    with pytest.raises(jit.UsageError, match="what the function returns"):
        functional.jacobian(lambda x: 3, tensor(X))
    with pytest.raises(jit.AutogradError, match="output 0 does not depend on input 1"):
        functional.jacobian(lambda x, y: x, (tensor(X), tensor(Y)), strict=True)
