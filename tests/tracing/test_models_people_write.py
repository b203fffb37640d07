"""The models of the benchmark, small: eager, interpreted and compiled, they compute and learn the same.

What is compared is relative to the largest element: of an output, or of the gradient of a parameter. A gradient that is
zero but for roundings (such as that of a bias in front of a batch norm) has no such element, so at least a thousandth
of the largest gradient of the model counts.
"""

import functools
import itertools
from typing import Any

import numpy as np
import pytest

import jit
from benchmarks.measuring import arrays_of
from benchmarks.models import MODELS, SMALL
from benchmarks.models.model import filled
from tests.sampling import one_of

TOLERANCE = 2e-4
"""Of losses and gradients, against those of float64; a step of learning adds to the errors of the one before."""
OUTPUT_TOLERANCE = 2e-5
STEPS = 4
"""A call records, one plans, further ones run the plan, by a shortcut if there is one."""
BATCH = 2
LEARNING = [name for name, model in SMALL.items() if model.training]


def tensors(arrays, dtype):
    """Arrays in lists and tuples as tensors, floats of this dtype."""
    if isinstance(arrays, list | tuple):
        return type(arrays)(tensors(part, dtype) for part in arrays)
    return jit.from_numpy(arrays.astype(dtype) if arrays.dtype == np.float32 else arrays)


def network_of(model, dtype):
    return filled(jit, model.network(jit, False)).to(getattr(jit, np.dtype(dtype).name))


def whole(network):
    return network


FORMS: dict[str, Any] = {
    "eager": (whole, whole),
    "traced module": (jit.trace, whole),
    "traced step": (whole, jit.trace),
    "interpreted step": (whole, functools.partial(jit.trace, optimize=False)),
}
"""What becomes of a module, and of the step."""


def learned(name, form, dtype=np.float32):
    """The losses of a few steps, and the gradients of the last one."""
    model, (wrap, of_step) = SMALL[name], FORMS[form]
    network = network_of(model, dtype).train()
    assert model.training and model.examples
    step = of_step(model.training(jit, network, wrap))
    example = tensors(model.examples(np.random.default_rng(0), BATCH), dtype)
    losses = [float(step(*example)) for _ in range(STEPS)]
    weights = dict(network.named_parameters())
    return losses, {name: np.asarray(weight.grad) for name, weight in weights.items() if weight.grad is not None}


@functools.cache
def learned_exactly(name):
    return learned(name, "eager", np.float64)


def test_every_model_of_the_benchmark_has_a_small_one():
    assert list(SMALL) == list(MODELS)


@pytest.mark.parametrize(("name", "form"), one_of(2, itertools.product(LEARNING, FORMS), several=True))
def test_losses_and_gradients_are_those_of_float64(name, form):
    losses, gradients = learned(name, form)
    exact_losses, exact = learned_exactly(name)
    assert exact_losses[-1] != exact_losses[0], "nothing is learned"
    np.testing.assert_allclose(losses, exact_losses, rtol=TOLERANCE)
    assert gradients.keys() == exact.keys()
    least = max(np.abs(gradient).max() for gradient in exact.values()) / 1000
    for weight, gradient in exact.items():
        error = np.abs(gradients[weight] - gradient).max() / max(np.abs(gradient).max(), least)
        assert error <= TOLERANCE, weight


@pytest.mark.parametrize(("name", "form"), list(itertools.product(SMALL, ["compiled", "interpreted"])))
def test_outputs_are_those_of_eager_mode(name, form):
    model = SMALL[name]
    network = model.part(network_of(model, np.float32).eval())
    inputs = tensors(model.inputs(np.random.default_rng(0), BATCH), np.float32)
    with jit.no_grad():
        expected = arrays_of(network(*inputs))
        traced = jit.trace(network, optimize=form == "compiled")
        for _ in range(STEPS):
            found = arrays_of(traced(*inputs))
    for array, reference in zip(found, expected, strict=True):
        assert np.abs(array - reference).max() <= OUTPUT_TOLERANCE * np.abs(reference).max()
        if form == "interpreted":
            np.testing.assert_array_equal(array, reference)
