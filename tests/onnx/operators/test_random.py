"""Random numbers: distributions, seeds, types, and the default generator."""

import numpy as np
import onnx
import pytest
from onnx import helper

import jit
from jit.onnx.backend import prepare

from .checking import model_of

X = np.linspace(0, 1, 40000, dtype=np.float32).reshape(200, 200)


def model(kind, **attributes):
    operands = [] if kind in ("RandomNormal", "RandomUniform") else ["x"]
    attributes |= {} if operands else {"shape": [200, 200]}
    return model_of(helper.make_node(kind, operands, ["y"], **attributes), {"x": X}, ["y"], 22)


def drawn(kind, traced=False, **attributes):
    return prepare(model(kind, **attributes), traced=traced).run([X])[0]


@pytest.mark.parametrize("kind", ["RandomNormal", "RandomNormalLike"])
def test_normal(kind):
    y = drawn(kind, mean=3.0, scale=0.5)
    assert y.shape == X.shape and y.dtype == np.float32
    assert abs(y.mean() - 3) < 0.02 and abs(y.std() - 0.5) < 0.02
    assert abs(((y - 3) / 0.5 < 1).mean() - 0.8413) < 0.02


@pytest.mark.parametrize("kind", ["RandomUniform", "RandomUniformLike"])
def test_uniform(kind):
    y = drawn(kind, low=-2.0, high=6.0)
    assert -2 <= y.min() < -1.9 and 5.9 < y.max() <= 6
    assert abs(y.mean() - 2) < 0.1 and abs((y < 0).mean() - 0.25) < 0.02


def test_bernoulli():
    y = drawn("Bernoulli")
    assert y.dtype == np.float32 and set(np.unique(y)) == {0, 1}
    assert abs(y[:100].mean() - 0.25) < 0.02 and abs(y[100:].mean() - 0.75) < 0.02
    assert drawn("Bernoulli", dtype=onnx.TensorProto.BOOL).dtype == np.bool_


def test_multinomial():
    """Operands are logarithms of probabilities up to a constant."""
    x = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-30]], np.float32)) + 3
    node = helper.make_node("Multinomial", ["x"], ["y"], sample_size=20000, dtype=onnx.TensorProto.INT64)
    (y,) = prepare(model_of(node, {"x": x}, ["y"], 22), traced=False).run([x])
    shares = [np.bincount(row, minlength=3) / 20000 for row in y]
    np.testing.assert_allclose(shares, [[0.1, 0.2, 0.7], [0.5, 0.5, 0]], atol=0.02)
    assert drawn("Multinomial", sample_size=2).dtype == np.int32


KINDS = ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("traced", [False, True])
def test_seeds_give_the_same_again_and_others_give_others(kind, traced):
    extra = {"sample_size": 9} if kind == "Multinomial" else {}
    prepared = prepare(model(kind, seed=0.25, **extra), traced=traced)
    first = prepared.run([X])[0]
    np.testing.assert_array_equal(prepared.run([X])[0], first)
    assert (drawn(kind, traced, seed=0.75, **extra) != first).any()
    unseeded = prepare(model(kind, **extra), traced=traced)
    assert (unseeded.run([X])[0] != unseeded.run([X])[0]).any()


@pytest.mark.parametrize("traced", [False, True])
def test_the_default_generator_can_be_seeded(traced):
    prepared = prepare(model("RandomNormal"), traced=traced)
    prepared.run([X])
    jit.manual_seed(5)
    first = prepared.run([X])[0]
    jit.manual_seed(5)
    np.testing.assert_array_equal(prepared.run([X])[0], first)


@pytest.mark.parametrize("element", [onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16])
def test_element_types(element):
    for kind in KINDS[:4]:
        assert drawn(kind, dtype=element).dtype == helper.tensor_dtype_to_np_dtype(element)
