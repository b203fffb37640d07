"""Pools with paddings on either side and sizes that are rounded up, against onnxruntime."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper

import jit

from .checking import by_runtime, check, model_of, random

FORMS = [
    dict(kernel_shape=[k, k], strides=[s, s], pads=[a, a, b, b], ceil_mode=ceil)
    for k, s, a, b, ceil in itertools.product((2, 3), (1, 2, 3), (0, 1), (0, 1, 2), (0, 1))
    if a < k and b < k and not (ceil and a != b)
]
"""onnxruntime's own sizes are wrong for some forms that round up and have uneven pads."""


def name_of(form):
    return "-".join(str(value).replace(" ", "") for value in form.values())


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_max_pools(form):
    for size in (7, 8):
        x = random(2, 3, size, size + 3) - 5  # so that zeros of a padding would be seen
        check(model_of(helper.make_node("MaxPool", ["x"], ["y"], **form), {"x": x}, ["y"]), {"x": x}, by_runtime)


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("form", [form for form in FORMS if not form["ceil_mode"]], ids=name_of)
def test_average_pools(form, count_include_pad):
    x = random(2, 3, 7, 10)
    node = helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=count_include_pad, **form)
    check(model_of(node, {"x": x}, ["y"]), {"x": x}, by_runtime)


@pytest.mark.parametrize(
    ("form", "kinds"),
    [
        (dict(kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]), {"aten::max_pool2d"}),
        (dict(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), {"aten::max_pool2d"}),
        (dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), {"aten::max_pool2d"}),
        (dict(kernel_shape=[2, 2], strides=[1, 1], auto_pad="VALID"), {"aten::max_pool2d"}),
    ],
    ids=str,
)
def test_pools_that_pytorch_has_are_pools(form, kinds):
    model = model_of(helper.make_node("MaxPool", ["x"], ["y"], **form), {"x": random(1, 2, 9, 9)}, ["y"])
    traced = jit.import_onnx(model)
    for size in (9, 10, 13):
        traced(jit.randn(1, 2, size, size))
    assert {node.kind for node in traced.graph.nodes if node.kind.startswith("aten::")} == kinds
    assert traced.misses <= 2


def test_constants_that_a_model_computes_are_computed_once():
    sizes = onnx.numpy_helper.from_array(np.array([3, 4], np.int64), "sizes")
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["w"], value=onnx.helper.make_tensor("v", 1, [1], [0.5])),
        helper.make_node("Unsqueeze", ["w", "axes"], ["w3"]),
        helper.make_node("Mul", ["x", "w3"], ["y"]),
    ]
    model = model_of(nodes, {"x": random(2, 3, 4)}, ["y"])
    model.graph.initializer.extend([sizes, onnx.numpy_helper.from_array(np.array([0], np.int64), "axes")])
    traced = jit.import_onnx(model)
    x = jit.randn(2, 3, 4)
    assert jit.equal(traced(x), x * 0.5) and jit.equal(traced(x), x * 0.5)
    assert [node.kind for node in traced.graph.nodes] == ["aten::mul"]


def test_constants_that_would_be_large_are_left_to_the_call():
    sizes = onnx.numpy_helper.from_array(np.array([1 << 40], np.int64), "sizes")
    nodes = [helper.make_node("ConstantOfShape", ["sizes"], ["w"]), helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_of(nodes, {"x": random(2)}, ["y"])
    model.graph.initializer.append(sizes)
    traced = jit.import_onnx(model)
    with pytest.raises(jit.Error):
        traced(jit.randn(2))


def test_learnable_weights_are_not_folded():
    nodes = [helper.make_node("Neg", ["w"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    model = model_of(nodes, {"x": random(2)}, ["y"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(random(2), "w"))
    traced = jit.import_onnx(model)
    traced.w.requires_grad_()
    (slope,) = jit.grad(traced(jit.zeros(2)).sum(), [traced.w])
    assert slope.tolist() == [-1, -1]
