"""Gradients of complex tensors: dL/dx + i dL/dy, against central differences of both parts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.namespace import F

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "product": lambda z: z * (z + 2j),
    "quotient": lambda z: (z + 1) / (z - 3j),
    "power": lambda z: z**3,
    "complex exponent": lambda z: z ** (0.5 + 1j),
    "exp": F.exp, "log": F.log, "sqrt": F.sqrt, "sin": F.sin, "tanh": F.tanh, "sigmoid": F.sigmoid,
    "reciprocal": F.reciprocal,
    "abs": F.abs, "angle": F.angle, "sgn": F.sgn, "conj": lambda z: z * F.conj(z) * 1j,
    "parts": lambda z: F.real(z) * F.imag(z), "pairs": lambda z: F.view_as_complex(F.view_as_real(z) * 2) * z,
    "polar": lambda z: F.polar(F.abs(z), F.real(z)), "complex": lambda z: F.complex(F.imag(z), F.real(z)) * z,
    "matrix": lambda z: F.matmul(F.reshape(z, (2, 2)), F.reshape(z, (2, 2))),
    "norm": lambda z: F.norm(z), "sum": lambda z: F.sum(z) * z, "mixed": lambda z: F.real(z) * z,
}  # fmt: skip


def loss(function: Callable[[Any], Any], z: Any) -> Any:
    """A real number that every part of the result counts for."""
    result = function(z)
    if not result.dtype.is_complex:
        return F.sum(result * 1.5)
    return F.sum(F.real(result) * 0.7 + F.imag(result) * 1.3)


def differences(function: Callable[[Any], Any], point: np.ndarray) -> np.ndarray:
    out = np.zeros(point.shape, complex)
    for place in np.ndindex(*point.shape):
        for part in (1, 1j):
            step = np.zeros(point.shape, complex)
            step[place] = 1e-6 * part
            high, low = (loss(function, jit.from_numpy(point + s)).item() for s in (step, -step))
            out[place] += part * (high - low) / 2e-6
    return out


POINT = np.array([0.5 + 0.7j, -0.3 + 0.2j, 1.1 - 0.6j, -0.8 - 0.9j])


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradient(function: Callable[[Any], Any]) -> None:
    z = jit.from_numpy(POINT.copy()).requires_grad_()
    (found,) = jit.grad(loss(function, z), [z])
    np.testing.assert_allclose(found.numpy(), differences(function, POINT), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradient_of_the_gradient(function: Callable[[Any], Any]) -> None:
    def slope(z: Any) -> Any:
        (found,) = jit.grad(loss(function, z), [z], create_graph=True)
        return found * (z + 1)

    z = jit.from_numpy(POINT.copy()).requires_grad_()
    (found,) = jit.grad(loss(slope, z), [z])
    expected = differences(lambda x: slope(x.requires_grad_()).detach(), POINT)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_a_real_operand_gets_the_real_part() -> None:
    x = jit.tensor([2.0], dtype=jit.float64, requires_grad=True)
    z = jit.tensor([1 + 3j], dtype=jit.complex128)
    (found,) = jit.grad(F.sum(F.imag(x * z)), [x])
    assert found.dtype is jit.float64
    assert found.tolist() == [3.0]


def test_parts_are_views() -> None:
    z = jit.tensor([1 + 2j, 3 + 4j])
    z.real.fill_(9.0)
    z.imag[0] = 5.0
    assert z.tolist() == [9 + 5j, 9 + 4j]


def test_writing_a_part_keeps_the_history() -> None:
    z = jit.tensor([1 + 2j, 3 + 4j], dtype=jit.complex128, requires_grad=True)
    w = z * 2
    w.real.mul_(3.0)
    (found,) = jit.grad(F.sum(F.real(w) + F.imag(w)), [z])
    np.testing.assert_allclose(found.numpy(), [6 + 2j, 6 + 2j])
