"""Losses of classes: reductions, weights and ignored classes against onnx's reference, and gradients."""

import numpy as np
import onnx
import pytest
from onnx import helper

import jit
from jit.ir.errors import ModelError
from jit.onnx.importing import ImportedModel

from .checking import check, check_gradients, model_of, random

KINDS = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]


def case(kind, shape=(4, 5), weight=False, outputs=1, dtype=np.float32, classes=np.int64, **attributes):
    target = np.random.default_rng(1).integers(0, shape[1], (shape[0], *shape[2:])).astype(classes)
    given = {"x": random(*shape, dtype=dtype), "target": target}
    given |= {"weight": np.abs(random(shape[1], seed=2, dtype=dtype))} if weight else {}
    names = ["y", "log"][:outputs]
    return model_of(helper.make_node(kind, list(given), names, **attributes), given, names, 13), given


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("ignored", [None, 2, -100])
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3), (2, 5, 3, 2, 2)])
def test_reductions(kind, reduction, weight, ignored, shape):
    model, given = case(
        kind, shape, weight, reduction=reduction, **({} if ignored is None else {"ignore_index": ignored})
    )
    if ignored == -100:
        given["target"][0] = -100
    check(model, given, traced=len(shape) == 3)


@pytest.mark.parametrize("outputs", [1, 2])
def test_log_probabilities_and_short_integers(outputs):
    check(*case(KINDS[1], (2, 5, 3), True, outputs, classes=np.int32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_gradients(kind, reduction):
    model, given = case(kind, (3, 4, 2), True, dtype=np.float64, reduction=reduction, ignore_index=1)
    check_gradients(model, given, ["x"])


def test_a_reduction_that_there_is_not():
    model, given = case(KINDS[0], reduction="product")
    with pytest.raises(ModelError, match="not by 'product'"):
        ImportedModel(model)(*map(jit.tensor, given.values()))


def test_half_precision():
    model, given = case(KINDS[1], dtype=np.float16)
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    check(model, given, rtol=2e-3)
