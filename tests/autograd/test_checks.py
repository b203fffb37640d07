"""gradcheck and gradgradcheck find what is wrong, element by element and along directions."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import Function, gradcheck, gradgradcheck
from jit.autograd.checks import GradcheckError, get_numerical_jacobian
from jit.ir.errors import UsageError

both_modes = pytest.mark.parametrize("fast_mode", [False, True])


class Cube(Function):
    """x * x * x, with a derivative that can be bent."""

    @staticmethod
    def forward(ctx: Any, x: Any, first: float, second: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factors = first, second
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        first, second = ctx.factors
        return Slope.apply(g, x, second) * first, None, None


class Slope(Function):
    """3 * x * x * g, with a derivative that can be bent."""

    @staticmethod
    def forward(ctx: Any, g: Any, x: Any, second: float) -> Any:
        ctx.save_for_backward(g, x)
        ctx.second = second
        return g * x * x * 3

    @staticmethod
    def backward(ctx: Any, gg: Any) -> Any:
        g, x = ctx.saved_tensors
        return gg * x * x * 3, gg * g * x * 6 * ctx.second, None


def leaf(*shape: int) -> jit.Tensor:
    values = np.random.default_rng(3).uniform(0.5, 2, shape)
    return jit.from_numpy(np.asarray(values)).requires_grad_()


@both_modes
def test_right_derivatives_pass(fast_mode: bool) -> None:
    def function(x: jit.Tensor) -> Any:
        return Cube.apply(x, 1.0, 1.0)

    assert gradcheck(function, leaf(2, 3), fast_mode=fast_mode)
    assert gradgradcheck(function, leaf(2, 3), fast_mode=fast_mode)


@both_modes
def test_a_wrong_first_derivative_is_found(fast_mode: bool) -> None:
    with pytest.raises(jit.VerificationError, match="output 0, input 0: the derivative disagrees"):
        gradcheck(lambda x: Cube.apply(x, 1.01, 1.0), leaf(2, 3), fast_mode=fast_mode)
    assert not gradcheck(lambda x: Cube.apply(x, 1.01, 1.0), leaf(2, 3), raise_exception=False, fast_mode=fast_mode)


@both_modes
def test_a_wrong_second_derivative_is_found(fast_mode: bool) -> None:
    def function(x: jit.Tensor) -> Any:
        return Cube.apply(x, 1.0, 1.01)

    assert gradcheck(function, leaf(2, 3), fast_mode=fast_mode)
    assert not gradgradcheck(function, leaf(2, 3), raise_exception=False, fast_mode=fast_mode)


@both_modes
def test_one_wrong_element_of_one_input_of_one_output(fast_mode: bool) -> None:
    bend = jit.from_numpy(np.array([1.0, 1.0, 1.02]))

    def function(x: jit.Tensor, y: jit.Tensor) -> Any:
        wrong = y.detach() * (1 - bend) + y * bend  # right in value, not in derivative
        return x * y, x + wrong

    with pytest.raises(jit.VerificationError, match="output 1, input 1"):
        gradcheck(function, (leaf(3), leaf(3)), fast_mode=fast_mode)


@both_modes
def test_an_unused_input_and_an_output_without_history(fast_mode: bool) -> None:
    assert gradcheck(lambda x, y: (x * x, y.detach() * 3), (leaf(2), leaf(2)), fast_mode=fast_mode)


@both_modes
def test_empty_and_0d(fast_mode: bool) -> None:
    assert gradcheck(lambda x, y: (x * y, y * y), (leaf(0, 3), leaf()), fast_mode=fast_mode)
    assert gradgradcheck(lambda x, y: (x * y, y * y), (leaf(0, 3), leaf()), fast_mode=fast_mode)


def test_inputs_are_left_as_they_were() -> None:
    x = leaf(3)
    before = x.tolist()
    gradcheck(lambda x: x * x, x)
    assert x.tolist() == before


def test_what_cannot_be_checked() -> None:
    with pytest.raises(jit.UsageError, match="at least one input that requires grad"):
        gradcheck(lambda x: x, jit.ones(2))
    with pytest.raises(jit.UsageError, match="float64"):
        gradcheck(lambda x: x, jit.ones(2).requires_grad_())


def test_the_numerical_jacobian_has_the_elements_of_the_input_by_those_of_the_output():
    a = jit.tensor([[1.0, 2.0]], dtype=jit.float64, requires_grad=True)
    b = jit.tensor([3.0, 4.0, 5.0], dtype=jit.float64, requires_grad=True)
    plain = jit.ones(1, dtype=jit.float64)

    def outer(a, b, c):
        return (a.reshape(2, 1) * b + c).reshape(-1), b

    by_a, by_b = get_numerical_jacobian(outer, (a, b, plain))
    assert by_a.shape == (2, 6) and by_b.shape == (3, 6)
    np.testing.assert_allclose(by_a.numpy(), np.kron(np.eye(2), [3, 4, 5]), atol=1e-8)
    np.testing.assert_allclose(by_b.numpy(), np.concatenate([np.eye(3), 2 * np.eye(3)], 1), atol=1e-8)
    (alone,) = get_numerical_jacobian(outer, (a, b, plain), target=plain)
    np.testing.assert_allclose(alone.numpy(), np.ones((1, 6)), atol=1e-8)
    with pytest.raises(UsageError, match="multiply the result"):
        get_numerical_jacobian(outer, (a, b, plain), grad_out=2.0)


def test_a_wrong_derivative_is_an_error_of_its_own():
    class Wrong(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    x = jit.ones(2, dtype=jit.float64, requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        jit.autograd.gradcheck(Wrong.apply, (x,))
    assert isinstance(caught.value, (RuntimeError, AssertionError)) and "disagrees" in str(caught.value)
