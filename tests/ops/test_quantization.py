"""Gradients through rounding, and arguments of quantisation that make no sense."""

import numpy as np
import pytest

import jit
from jit.ir.errors import ShapeError, UsageError


def channels(x, low=-8, high=7):
    scale, zero = jit.tensor([0.5, 0.25]), jit.tensor([0, 3], dtype=jit.int32)
    return jit.fake_quantize_per_channel_affine(x, scale, zero, 0, low, high)


def whole(x, low=-8, high=7):
    return jit.fake_quantize_per_tensor_affine(x, 0.5, 1, low, high)


def with_tensors(x, low=-8, high=7):
    return jit.fake_quantize_per_tensor_affine(x, jit.tensor([0.5]), jit.tensor([1]), low, high)


INPUTS = [[-9.0, -4.5, 0.3, 3.0, 3.3], [-3.0, -2.76, 0.1, 1.0, 1.2]]
PASSED = {
    channels: [[0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0, 0.0]],
    whole: [[0.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]],
    with_tensors: [[0.0, 1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]],
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("function", PASSED, ids=lambda function: function.__name__)
def test_gradients_pass_where_nothing_was_cut_off(function, traced):
    run = jit.trace(function) if traced else function
    for _ in range(3):
        x = jit.tensor(INPUTS, requires_grad=True)
        (gradient,) = jit.grad((run(x) * 3).sum(), x)
        assert gradient.tolist() == (3 * np.array(PASSED[function])).tolist()


def test_the_gradient_of_a_gradient_passes_alike():
    x = jit.tensor(INPUTS, requires_grad=True)
    weights = jit.ones_like(x).requires_grad_()
    (first,) = jit.grad(whole(x), x, weights, create_graph=True)
    (second,) = jit.grad(first.sum(), weights)
    assert second.tolist() == PASSED[whole]


def test_scales_have_no_gradient():
    scale = jit.tensor([0.5], requires_grad=True)
    result = jit.fake_quantize_per_tensor_affine(jit.ones(2, requires_grad=True), scale, jit.tensor([0]), 0, 255)
    assert jit.grad(result.sum(), scale, allow_unused=True) == (None,)


def test_halves_are_rounded_once():
    x = jit.linspace(-3, 3, 50).half()
    scale, zero = jit.tensor([0.0371]), jit.tensor([2])
    found = jit.fake_quantize_per_tensor_affine(x, scale, zero, -128, 127)
    assert jit.equal(found, jit.fake_quantize_per_tensor_affine(x.float(), scale, zero, -128, 127).half())


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: whole(x, 7, -8), UsageError, "above"),
        (lambda x: jit.fake_quantize_per_tensor_affine(x, 0.5, 9, -8, 7), UsageError, "zero point"),
        (lambda x: jit.fake_quantize_per_tensor_affine(x, jit.ones(2), jit.zeros(2), 0, 1), ShapeError, "per_channel"),
        (lambda x: channels(x.t()), ShapeError, "size 5"),
    ],
)
def test_wrong_arguments_are_refused(call, error, match):
    with pytest.raises(error, match=match):
        call(jit.tensor(INPUTS))
