"""Quantization: all types and granularities against onnx's reference, products against integers."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import jit
from jit.ir.errors import ModelError
from jit.onnx.backend import prepare
from jit.onnx.importing import ImportedModel
from jit.onnx.operators.casts import is_foreign

from .checking import by_reference, by_runtime, check, model_of, random

TENSOR_TYPES = [np.uint8, np.int8, np.int16]
HOST_TYPES = [np.uint16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
              ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float4_e2m1fn]  # fmt: skip

GRANULARITIES = [
    ((), 1, 0),
    ((1,), 1, 0),
    ((4,), 1, 0),
    ((6,), -1, 0),
    ((3,), 0, 0),
    ((3, 2, 6), 1, 2),
    ((3, 4, 2), 2, 4),
]
"""Shapes of scales for [3, 4, 6], axes, sizes of blocks; the last block is not full."""


def quantizing(x, scale, zero_point=None, opset=21, **attributes):
    given = {"x": x, "scale": scale} | ({} if zero_point is None else {"zero_point": zero_point})
    return model_of(helper.make_node("QuantizeLinear", list(given), ["y"], **attributes), given, ["y"], opset), given


def dequantizing(x, scale, zero_point=None, opset=21, **attributes):
    given = {"x": x, "scale": scale} | ({} if zero_point is None else {"zero_point": zero_point})
    return model_of(helper.make_node("DequantizeLinear", list(given), ["y"], **attributes), given, ["y"], opset), given


def scales(shape):
    return (np.random.default_rng(1).random(shape) / 8 + 0.01).astype(np.float32)


def zero_points(shape, dtype):
    if dtype in HOST_TYPES[3:]:
        return np.zeros(shape, dtype)
    return np.random.default_rng(2).integers(0, 7, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TENSOR_TYPES + HOST_TYPES)
@pytest.mark.parametrize(("shape", "axis", "block"), GRANULARITIES)
def test_there(dtype, shape, axis, block):
    x = random(3, 4, 6) * 4
    opset = 23 if dtype is ml_dtypes.float4_e2m1fn else 21
    check(*quantizing(x, scales(shape), zero_points(shape, dtype), opset, axis=axis, block_size=block))


@pytest.mark.parametrize("dtype", [*TENSOR_TYPES, np.int32, *HOST_TYPES])
@pytest.mark.parametrize(("shape", "axis", "block"), GRANULARITIES)
def test_back(dtype, shape, axis, block):
    x = (np.random.default_rng(0).random((3, 4, 6)) * 7).astype(dtype)
    zero_point = None if dtype is np.int32 else zero_points(shape, dtype)
    opset = 23 if dtype is ml_dtypes.float4_e2m1fn else 21
    check(*dequantizing(x, scales(shape), zero_point, opset, axis=axis, block_size=block))


def test_halves_go_to_even_numbers_and_what_is_too_large_to_the_ends():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, 126.5, 127.5], np.float32)
    expected = np.array([0, 2, 2, 0, -2, 127, -128, 126, 127], np.int8)
    check(*quantizing(x, np.float32(1), np.int8(0)), [expected])
    check(*quantizing(x, np.float32(1)), [np.clip(np.rint(x), 0, 255).astype(np.uint8)])
    moved = np.clip(np.rint(x) + 3, 0, 255).astype(np.uint8)
    check(*quantizing(x, np.float32(1), np.uint8(3)), [moved])


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", HOST_TYPES[3:7])
def test_small_floats_that_are_too_large(dtype, saturate):
    x = np.array([0, 1, 1e3, -1e6, 1e10, np.inf, -np.inf, np.nan, 3.3], np.float32)
    check(*quantizing(x, np.float32(2), np.zeros((), dtype), 21, saturate=saturate))


@pytest.mark.parametrize("dtype", HOST_TYPES[:7])
def test_models_whose_constants_are_of_such_types(dtype):
    """Weights of any type are constants of a recording; what gives such elements runs untraced."""
    zeros = zero_points((4,), dtype)
    given = {"x": random(3, 4)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["xx"]),
             helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["ww"]),
             helper.make_node("Add", ["xx", "ww"], ["y"])]  # fmt: skip
    weights = (np.random.default_rng(0).random((3, 4)) * 7).astype(dtype)
    constants = [numpy_helper.from_array(a, n) for n, a in (("scale", scales((4,))), ("zero", zeros), ("w", weights))]
    for first in (0, 2):
        model = model_of(nodes[first:], given if first == 0 else {"xx": given["x"]}, ["y"], 21)
        model.graph.initializer.extend(constants)
        check(model, given if first == 0 else {"xx": given["x"]})
        assert ImportedModel(model).is_traceable == (first == 2 or not is_foreign(np.dtype(dtype)))


def test_an_output_dtype_of_such_a_type():
    model, given = quantizing(random(3, 4), np.float32(0.1), None, 21, output_dtype=onnx.TensorProto.UINT4)
    check(model, given)
    assert not ImportedModel(model).is_traceable


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.int32])
def test_other_operands(kind):
    x = (random(3, 4, 6) * 9).astype(kind)
    scale = scales((4,)) if kind is np.int32 else scales((4,)).astype(kind)
    check(*quantizing(x, scale, zero_points((4,), np.int8)))


def test_the_output_dtype_and_the_precision():
    x = random(3, 4, 6)
    element = onnx.TensorProto.INT16
    check(*quantizing(x, np.float32(0.01), output_dtype=element))
    half = (x * 8).astype(np.float16)
    check(*quantizing(half, np.float16(0.03), np.int8(1), 23, precision=onnx.TensorProto.FLOAT))
    element = onnx.TensorProto.FLOAT16
    check(*dequantizing((x * 9).astype(np.int8), np.float32(0.3), np.int8(1), 23, output_dtype=element))


def test_before_scales_had_axes():
    check(*quantizing(random(3, 4) * 3, np.float32(0.02), np.uint8(9), 10))
    check(*dequantizing((random(3, 4) * 30).astype(np.int8), np.float32(0.02), np.int8(-9), 10), by_runtime)


def test_there_and_back_in_one_recording_with_gradients():
    """Rounding has no slope, so what comes back is a step function of `x` and linear in the scale there."""
    x, scale = random(4, 5), scales((5,))
    given = {"x": x, "scale": scale, "zero": np.zeros(5, np.int8)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"])]  # fmt: skip
    model = model_of(nodes, given, ["y"], 21)
    check(model, given)
    tensors = [jit.tensor(x), jit.tensor(scale).requires_grad_(), jit.tensor(given["zero"])]
    ImportedModel(model)(*tensors).sum().backward()
    np.testing.assert_allclose(tensors[1].grad.numpy(), np.clip(np.rint(x / scale), -128, 127).sum(0), rtol=1e-5)


@pytest.mark.parametrize("x", [random(3, 4), np.abs(random(7)), -np.abs(random(2, 3)), np.zeros((2, 2), np.float32)])
def test_dynamically(x):
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    check(model_of(node, {"x": x}, ["y", "scale", "zero"], 11), {"x": x})


# -- products ------------------------------------------------------------------------------------------------------


def bytes_of(*shape, dtype=np.uint8, seed=0):
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("a", [np.uint8, np.int8])
@pytest.mark.parametrize("b", [np.uint8, np.int8])
@pytest.mark.parametrize("zeros", [None, "tensor", "rows"])
def test_matmul_integer(a, b, zeros):
    given = {"a": bytes_of(3, 50, dtype=a), "b": bytes_of(50, 4, dtype=b, seed=1)}
    if zeros:
        given["a_zero"] = bytes_of(*([3] if zeros == "rows" else []), dtype=a, seed=2)
        given["b_zero"] = bytes_of(*([4] if zeros == "rows" else []), dtype=b, seed=3)
    wide = {name: x.astype(np.int64) for name, x in given.items()}
    rows = wide.get("a_zero", np.int64(0)).reshape(-1, 1)
    expected = (wide["a"] - rows) @ (wide["b"] - wide.get("b_zero", 0))
    node = helper.make_node("MatMulInteger", list(given), ["y"])
    check(model_of(node, given, ["y"], 10), given, [expected.astype(np.int32)])


@pytest.mark.parametrize(("attributes", "group"), [
    ({}, 1), ({"pads": [1, 0, 2, 1]}, 1), ({"strides": [2, 1], "dilations": [1, 2]}, 2),
    ({"auto_pad": "SAME_UPPER"}, 1),
])  # fmt: skip
@pytest.mark.parametrize("zeros", [False, True])
def test_conv_integer(attributes, group, zeros):
    given = {"x": bytes_of(2, 4, 7, 6), "w": bytes_of(6, 4 // group, 3, 2, seed=1)}
    given |= {"x_zero": np.uint8(117), "w_zero": np.uint8(9)} if zeros else {}
    node = helper.make_node("ConvInteger", list(given), ["y"], group=group, **attributes)
    check(model_of(node, given, ["y"], 10), given, by_runtime)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(), (5,)])
@pytest.mark.parametrize("bias", [False, True])
def test_quantized_convolutions(dtype, shape, bias):
    """Weights have zero points of 0 where there are several, as onnxruntime demands."""
    given = {
        "x": bytes_of(2, 3, 8, 7, dtype=np.uint8), "x_scale": np.float32(0.02), "x_zero": np.uint8(120),
        # 7 bits: without VNNI, onnxruntime adds products of 8 bits up in 16, which then saturate
        "w": bytes_of(5, 3, 3, 3, dtype=dtype, seed=1) // 2, "w_scale": scales(shape),
        "w_zero": np.zeros(shape, dtype) if shape else dtype(3), "y_scale": np.float32(0.9), "y_zero": np.uint8(128),
    }  # fmt: skip
    given |= {"b": np.random.default_rng(3).integers(-9000, 9000, 5).astype(np.int32)} if bias else {}
    node = helper.make_node("QLinearConv", list(given), ["y"], pads=[1, 1, 0, 0], strides=[2, 1])
    expected = by_runtime(model_of(node, given, ["y"], 10), given)
    found = prepare(model_of(node, given, ["y"], 10)).run(given)
    assert len(np.unique(found[0])) > 20
    off = np.abs(found[0].astype(int) - expected[0].astype(int))
    assert off.max() <= 1 and (off > 0).mean() < 0.01  # its factor is rounded otherwise, which may move a half


@pytest.mark.parametrize("per", ["tensor", "row"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_quantized_products(per, dtype):
    rows, columns = ((4, 1), (1, 6)) if per == "row" else ((), ())
    given = {
        "a": bytes_of(2, 4, 5, dtype=dtype), "a_scale": scales(rows), "a_zero": zero_points(rows, dtype),
        "b": bytes_of(2, 5, 6, dtype=dtype, seed=1), "b_scale": scales(columns), "b_zero": zero_points(columns, dtype),
        "y_scale": np.float32(0.7), "y_zero": dtype(11),
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", list(given), ["y"])
    check(model_of(node, given, ["y"], 21), given, by_reference)


def test_rows_of_matrices_have_scales_as_vectors():
    given = {
        "a": bytes_of(4, 5), "a_scale": scales((4,)), "a_zero": zero_points((4,), np.uint8),
        "b": bytes_of(5, 6, seed=1), "b_scale": scales((6,)), "b_zero": zero_points((6,), np.uint8),
        "y_scale": np.float32(9), "y_zero": np.uint8(11),
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", list(given), ["y"])
    turned = {**given, "a_scale": given["a_scale"][:, None], "a_zero": given["a_zero"][:, None]}
    expected = by_reference(model_of(node, turned, ["y"], 21), turned)
    check(model_of(node, given, ["y"], 21), given, expected)


def test_a_scale_of_powers_needs_an_output_dtype():
    scale = np.array(2.0, ml_dtypes.float8_e8m0fnu)
    model, given = dequantizing(np.int8(3).reshape(1), scale, None, 24)
    with pytest.raises(ModelError, match="output_dtype"):
        prepare(model, traced=False).run(given)
