"""Forward derivatives through duals, held against `jit.autograd.functional.jvp`."""

from typing import Any

import pytest

import jit
from jit.autograd import forward_ad
from jit.autograd.functional import jvp

unpack: Any = forward_ad.unpack_dual

FUNCTIONS = {
    "product": lambda x: x * x.sum(),
    "chain": lambda x: x.exp().sin().cumsum(0),
    "matmul": lambda x: x.reshape(2, 2) @ x.reshape(2, 2).t(),
    "linear": lambda x: 3 * x + 1,
    "written to": lambda x: (x * 2).mul_(x),
    "views": lambda x: x.view(2, 2)[:, 1] ** 3,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_tangent_is_the_product_of_jacobian_and_direction(function):
    x = jit.tensor([0.5, -1.0, 2.0, 0.25], dtype=jit.float64)
    direction = jit.tensor([1.0, 0.0, -2.0, 0.5], dtype=jit.float64)
    result, expected = jvp(function, x, direction)
    with forward_ad.dual_level():
        found = unpack(function(forward_ad.make_dual(x, direction)))
    assert jit.allclose(found.primal, result)
    assert jit.allclose(found.tangent, expected)


def test_several_duals_add_up():
    a, b = jit.tensor([2.0]), jit.tensor([3.0])
    with forward_ad.dual_level():
        x, y = forward_ad.make_dual(a, jit.tensor([1.0])), forward_ad.make_dual(b, jit.tensor([10.0]))
        assert unpack(x * y).tangent.tolist() == [3.0 + 20.0]
        assert unpack(y * y).tangent.tolist() == [60.0]


def test_what_a_dual_is_and_what_depends_on_none():
    x, direction = jit.tensor([1.0, 2.0]), jit.tensor([1.0, 0.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        assert unpack(dual).tangent is direction
        assert dual.data_ptr() == x.data_ptr()
        dual.mul_(3)
        assert x.tolist() == [3.0, 6.0] and unpack(dual).tangent.tolist() == [3.0, 0.0]
        assert unpack(x).tangent is None
        other = jit.ones(2, requires_grad=True)
        assert unpack(other * 2).tangent is None
    assert unpack(dual).tangent is None


@pytest.mark.parametrize("function", [lambda x: x.clone(), lambda x: x.view(1, 2), lambda x: x + 0, lambda x: x[1:]])
def test_what_is_written_to_a_tangent_does_not_change_the_direction(function):
    direction = jit.tensor([1.0, 2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(jit.ones(2), direction)
        unpack(function(dual)).tangent.mul_(5)
        assert direction.tolist() == [1.0, 2.0] == unpack(dual.clone()).tangent.tolist()


def test_gradients_of_a_tangent():
    x, direction = jit.tensor([1.0, 2.0], requires_grad=True), jit.tensor([1.0, 1.0], requires_grad=True)
    with forward_ad.dual_level():
        tangent = unpack(forward_ad.make_dual(x, direction) ** 3).tangent
        (by_x, by_direction) = jit.grad(tangent.sum(), [x, direction])
    assert by_direction.tolist() == [3.0, 12.0]
    assert by_x.tolist() == [6.0, 12.0]


def test_wrong_calls():
    x = jit.ones(2)
    with pytest.raises(jit.UsageError, match="open level"):
        forward_ad.make_dual(x, x)
    with forward_ad.dual_level():
        with pytest.raises(jit.UsageError, match="one level"):
            forward_ad.enter_dual_level()
        with jit.no_grad(), pytest.raises(jit.UsageError, match="has no tangent here"):
            forward_ad.make_dual(x, x)
        with pytest.raises(jit.ShapeError, match="does not fit"):
            forward_ad.make_dual(x, jit.ones(3))
        with pytest.raises(ValueError, match="no derivatives"):
            forward_ad.make_dual(jit.arange(2), jit.arange(2))
        with pytest.raises(jit.DTypeError, match="one dtype"):
            forward_ad.make_dual(x, x.double())
    with pytest.raises(jit.UsageError, match="not open"):
        forward_ad.exit_dual_level()
