"""Models of common programs have the nodes that they need, and no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import jit
import jit.nn.functional as F
from jit import nn
from jit.export.opsets import IR_VERSIONS, KERNELS
from jit.ir.errors import ExportError

A, ROWS = jit.randn(5, 3), jit.tensor([0, 1])


def nodes_of(function: Any, *args: Any, **options: Any) -> dict[str, int]:
    """How often a model has each operator; it has been verified."""
    report = jit.export_onnx(function, args, **options)
    assert report.verified is not None
    return report.op_histogram


def set_to_zero(a: Any, chosen: Any) -> Any:
    a = a.clone()
    a[chosen > 0] = 0
    return a


def columns_set_to_zero(a: Any, chosen: Any) -> Any:
    a = a.clone()
    a[:, chosen > 0] = 0
    return a


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("activation", [nn.ReLU6, nn.Hardtanh, nn.ReLU, nn.LeakyReLU, nn.ELU])
def test_an_activation_in_place_is_one_node(activation, inplace):
    network = nn.Sequential(nn.Linear(3, 4), activation(inplace=inplace), nn.Linear(4, 2))
    found = nodes_of(network, jit.randn(2, 3), dynamic_axes={"input": {0: "batch"}})
    assert sum(found.values()) == 3, found


@pytest.mark.parametrize("dynamic", [None, {"a": {0: "n"}}])
def test_rows_are_added_as_rows(dynamic):
    rows = jit.randn(2, 3)
    expected = {"Reshape": 1, "ScatterND": 1}
    assert nodes_of(lambda a, i, s: a.index_add(0, i, s), A, ROWS, rows, dynamic_axes=dynamic) == expected
    assert nodes_of(lambda a, i, s: a.index_copy(0, i, s), A, ROWS, rows, dynamic_axes=dynamic) == expected
    put = nodes_of(lambda a, i, s: a.index_put((i,), s, accumulate=True), A, ROWS, rows, dynamic_axes=dynamic)
    assert put == {"ScatterND": 1, "Unsqueeze": 1}


def test_columns_are_added():
    added = nodes_of(lambda a, i, s: a.index_add(1, i, s), A, ROWS, jit.randn(5, 2))
    assert added == {"Expand": 1, "Reshape": 1, "ScatterElements": 1}


def test_pairs_of_indices_are_not_broadcast_where_they_are_alike():
    found = nodes_of(lambda a, i, s: a.index_put((i, i), s, accumulate=True), A, ROWS, jit.randn(2))
    assert found == {"Concat": 1, "ScatterND": 1, "Unsqueeze": 1}


def test_a_number_under_a_mask_is_a_choice():
    assert nodes_of(set_to_zero, A, jit.randn(5, 3)) == {"Greater": 1, "Where": 1}
    assert nodes_of(set_to_zero, A, jit.randn(5)) == {"Greater": 1, "Unsqueeze": 1, "Where": 1}
    assert nodes_of(columns_set_to_zero, A, jit.randn(3)) == {"Greater": 1, "Where": 1}


def test_sizes_that_are_there_already_are_not_spread():
    assert nodes_of(lambda a: a.expand_as(a) + 1, A, dynamic_axes={"a": [0]}) == {"Add": 1}


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 14])
def test_triangles_at_every_opset(opset):
    square = {"Trilu": 1} if opset >= 14 else {"Where": 1}
    assert nodes_of(lambda a: a.tril(), jit.randn(3, 3), opset_version=opset) == square
    dynamic = {"a": {1: "n", 2: "m"}}
    nodes_of(lambda a: (a.triu(-1), a.tril(1)), jit.randn(2, 3, 4), opset_version=opset, dynamic_axes=dynamic)
    q, dynamic = jit.randn(1, 2, 3, 4), {"q": {2: "length"}}
    nodes_of(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q, opset_version=opset)
    nodes_of(
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), q, opset_version=opset, dynamic_axes=dynamic
    )


# -- sizes of batches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "shape", "axes", "expected"), [
    (lambda a: a.flatten(1), (2, 3, 4), [0], {"Reshape": 1}),
    (lambda a: a.reshape(a.shape[0], -1, 2), (2, 3, 4), [0], {"Reshape": 1}),
    (lambda a: a.reshape(a.shape[0], 3, 2, 2), (2, 3, 4), [0, 1], None),
    (lambda a: a.reshape(a.shape[0], a.shape[1], 2, 2), (2, 3, 4), [0, 1], {"Reshape": 1}),
    (lambda a: a.reshape(a.shape[0] * a.shape[1], 4), (2, 3, 4), [0, 1], {"Reshape": 1}),
    (lambda a: a.reshape(a.shape[1], a.shape[0], 4), (2, 3, 4), [0, 1], {"Concat": 1, "Reshape": 1, "Shape": 2}),
    (lambda a: a.view(-1, 2, 6).transpose(1, 2).reshape(-1, 12), (2, 3, 4), [0], {"Reshape": 2, "Transpose": 1}),
    (lambda a: a.reshape(-1), (2, 3, 4), [0, 2], {"Reshape": 1}),
])  # fmt: skip
def test_reshaping_takes_no_sizes_apart(function, shape, axes, expected):
    if expected is None:
        with pytest.raises(ExportError, match="alone"):
            nodes_of(function, jit.randn(*shape), dynamic_axes={"a": axes})
        return
    found = nodes_of(function, jit.randn(*shape), dynamic_axes={"a": axes})
    found.pop("Gather", None)
    assert found == expected


@pytest.mark.parametrize("low", [0, 1])
def test_reshaping_a_batch_without_elements(low, tmp_path):
    def function(a: Any) -> Any:
        return a.reshape(a.shape[0], 3, a.shape[2] * 2, 2), a.reshape(-1, 4)

    axes = {"a": {0: ("n", low, None), 2: ("m", low, None)}}
    jit.export_onnx(function, jit.randn(2, 3, 5, 4), tmp_path / "m.onnx", dynamic_axes=axes)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for sizes in [(1, 3, 1, 4), (3, 3, 2, 4)] + [(0, 3, 5, 4), (2, 3, 0, 4)] * (low == 0):
        found = session.run(None, {"a": np.zeros(sizes, np.float32)})
        assert [array.shape for array in found] == [(sizes[0], 3, 2 * sizes[2], 2), (sizes[0] * 3 * sizes[2], 4)]


# -- pairs of nodes ------------------------------------------------------------------------------------------------

IMAGE = jit.randn(2, 3, 6, 5)
BATCH = {"a": {0: "batch"}}


@pytest.mark.parametrize(("function", "expected"), [
    (lambda a: a.mean((2, 3), keepdim=True).flatten(1), {"ReduceMean": 1}),
    (lambda a: a.sum(-1, keepdim=True).squeeze(-1), {"ReduceSum": 1}),
    (lambda a: a.amax((1, 3), keepdim=True).reshape(-1, 6), {"ReduceMax": 1}),
    (lambda a: a.amax((1, 3), keepdim=True).reshape(-1, 3, 2), {"ReduceMax": 1, "Reshape": 1}),
    (lambda a: a.sum(1, keepdim=True).squeeze(1).unsqueeze(1), {"ReduceSum": 1}),
    (lambda a: (lambda s: s.squeeze(3) + s.sum())(a.sum(3, keepdim=True)), {"ReduceSum": 3, "Add": 1}),
    (lambda a: a.flatten(2).reshape(-1, 18, 5), {"Reshape": 1}),
    (lambda a: a.unsqueeze(1).reshape(a.shape[0], 9, 10), {"Reshape": 1}),
    (lambda a: a.transpose(0, 1).flatten(1).reshape(3, -1, 15), {"Reshape": 1, "Transpose": 1}),
    (lambda a: a.mean((2, 3))[:, :, None, None] + a, {"ReduceMean": 1, "Add": 1}),
    (lambda a: a[:, None][..., None] * 2, {"Unsqueeze": 1, "Mul": 1}),
    (lambda a: a.unsqueeze(-1).unsqueeze(0).unsqueeze(2) * 2, {"Unsqueeze": 1, "Mul": 1}),
    (lambda a: a * (a * a + 1).rsqrt(), {"Mul": 1, "Add": 1, "Sqrt": 1, "Div": 1}),
    (lambda a: (lambda r: a * r + r)((a * a + 1).reciprocal()), {"Mul": 2, "Add": 2, "Reciprocal": 1}),
])  # fmt: skip
@pytest.mark.parametrize("opset", [9, 13, 20])
def test_two_nodes_that_are_one(function, expected, opset):
    assert nodes_of(function, IMAGE, dynamic_axes=BATCH, opset_version=opset)
    if opset == 20:
        assert nodes_of(function, IMAGE, dynamic_axes=BATCH) == expected


@pytest.mark.parametrize(("pads", "value", "joined"), [
    ((1, 2), 0.0, True), ((1, 2, 0, 3), 0.0, True), ((1, 1, 1, 1, 1, 1), 0.0, False), ((1, 1), 1.0, False),
    ((-1, 2), 0.0, False), ((0, 0, 2, 0), -0.0, True),
])  # fmt: skip
@pytest.mark.parametrize("opset", [9, 11, 20])
def test_a_convolution_pads_itself(pads, value, joined, opset):
    conv = nn.Conv2d(5 if len(pads) > 4 else 3, 4, 3, stride=2, padding=1)
    found = nodes_of(lambda a: conv(F.pad(a, pads, value=value)), IMAGE, opset_version=opset)
    assert found == ({"Conv": 1} if joined else {"Conv": 1, "Pad": 1})


def test_what_is_padded_for_others_too_stays():
    conv = nn.Conv2d(3, 3, 3)
    found = nodes_of(lambda a: (lambda p: conv(p) + p[:, :, 1:-1, 1:-1])(F.pad(a, (1, 1, 1, 1))), IMAGE)
    assert found["Pad"] == 1


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer", ["Conv2d", "ConvTranspose2d"])
def test_batch_norms_behind_convolutions_of_either_kind(layer, bias, groups):
    network = nn.Sequential(getattr(nn, layer)(4, 6, 3, bias=bias, groups=groups), nn.BatchNorm2d(6))
    assert nodes_of(settled(network), jit.randn(2, 4, 5, 5)) == {layer.removesuffix("2d"): 1}


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("bias", [True, False])
def test_batch_norms_behind_linear_layers(bias, opset):
    network = nn.Sequential(nn.Linear(4, 6, bias=bias), nn.BatchNorm1d(6), nn.ReLU())
    found = nodes_of(settled(network), jit.randn(2, 4), opset_version=opset)
    assert found == {"Gemm": 1, "Relu": 1}


def settled(network: Any) -> Any:
    """A network whose norms have statistics and weights of their own."""
    for norm in (module for module in network.modules() if hasattr(module, "running_var")):
        for name in ("running_mean", "weight", "bias"):
            getattr(norm, name).data.copy_(jit.randn(norm.num_features))
        norm.running_var.copy_(jit.rand(norm.num_features) + 0.5)
    return network.eval()


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("kind", "layers"), [(nn.LSTM, 1), (nn.LSTM, 2), (nn.GRU, 2), (nn.RNN, 1)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_state_of_zeros_is_left_out(kind, layers, bidirectional, batch_first):
    network = kind(3, 4, layers, bidirectional=bidirectional, batch_first=batch_first)
    axes = {"input": {0 if batch_first else 1: "batch"}}
    found = nodes_of(network, jit.randn(2, 5, 3), dynamic_axes=axes)
    assert not {"Expand", "Shape", "Slice"} & set(found), found
    state = jit.randn(layers * (1 + bidirectional), 2 if batch_first else 5, 4)
    given = (state, state * 2) if kind is nn.LSTM else state
    nodes_of(network, jit.randn(2, 5, 3), given)


# -- operators newer than the default opset --------------------------------------------------------------------------


def attend(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v)


def attend_before(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def attend_in_groups(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)


QKV = jit.randn(2, 4, 5, 8), jit.randn(2, 4, 7, 8), jit.randn(2, 4, 7, 6)


@pytest.mark.parametrize("function", [attend, attend_before, attend_in_groups])
@pytest.mark.parametrize("opset", [22, 23, 24])
def test_attention_is_one_node_where_there_is_a_kernel(function, opset):
    axes = {"q": {0: "b", 2: "t"}, "k": {0: "b", 2: "s"}, "v": {0: "b", 2: "s"}}
    found = nodes_of(function, *QKV, dynamic_axes=axes, opset_version=opset)
    assert (found.get("Attention") == 1) == (opset == 23) and ("Softmax" in found) == (opset != 23)


@pytest.mark.parametrize("opset", [20, 23, 24])
def test_rows_that_see_nothing_are_zeros_at_every_opset(opset, tmp_path):
    mask = jit.tensor([[True, False], [False, False]])
    for given in (mask, jit.where(mask, 0.0, -math.inf)):
        rows = jit.randn(1, 1, 2, 4)
        report = jit.export_onnx(F.scaled_dot_product_attention, (rows, rows, rows, given), opset_version=opset)
        assert report.verified is not None and "Attention" not in report.op_histogram


@pytest.mark.parametrize("opset", [20, 23, 26])
@pytest.mark.parametrize("dtype", [jit.float32, jit.float16, jit.float64])
def test_rms_norm_is_one_node_where_there_is_a_kernel(dtype, opset):
    for shape in ((4,), (3, 4)):
        for affine in (True, False):
            norm = nn.RMSNorm(shape, eps=1e-2, elementwise_affine=affine, dtype=dtype)
            found = nodes_of(norm, jit.randn(2, 3, 4).to(dtype), dynamic_axes={"input": [0]}, opset_version=opset)
            assert ("RMSNormalization" in found) == (opset >= 23 and dtype is not jit.float64)


@pytest.mark.parametrize("dtype", [jit.float32, jit.float16, jit.int64, jit.int32, jit.bool])
def test_running_products(dtype):
    a = (jit.rand(3, 4) * 3).to(dtype)
    assert nodes_of(lambda a: a.cumprod(1), a, opset_version=26, dynamic_axes={"a": [1]})["CumProd"] == 1
    assert nodes_of(lambda a: a.sum().cumprod(0), a.float(), opset_version=9)
    for size in (1, 2, 3, 7, 8):
        found = nodes_of(lambda a: a.cumprod(1), a.float().repeat(1, 2)[:, :size], dynamic_axes={"a": [0]})
        assert found.get("Mul", 0) == math.ceil(math.log2(size))
    with pytest.raises(ExportError, match="opset_version=26 would do"):
        jit.export_onnx(lambda a: a.cumprod(1), a, dynamic_axes={"a": [1]})


def write(cache: Any, rows: Any) -> Any:
    cache = cache.clone()
    cache[:, :, 1:3] = rows
    return cache


def write_in_front(cache: Any, rows: Any) -> Any:
    cache = cache.clone()
    cache[1:3] = rows
    return cache


def test_a_write_into_a_cache():
    given, axes = (jit.randn(2, 3, 6, 4), jit.randn(2, 3, 2, 4)), {"cache": {0: "batch"}, "rows": {0: "batch"}}
    assert "ScatterElements" in nodes_of(write, *given, dynamic_axes=axes)
    assert "TensorScatter" in nodes_of(write, *given, dynamic_axes=axes, opset_version=24)
    assert nodes_of(write_in_front, jit.randn(6, 4), jit.randn(2, 4)) == {"ScatterND": 1}


def test_responses_of_neighbours():
    image = jit.randn(2, 5, 4, 4)
    for opset in (9, 20, 26):
        assert nodes_of(nn.LocalResponseNorm(3, 0.1, 0.5, 2.0), image, opset_version=opset) == {"LRN": 1}
    assert "LRN" not in nodes_of(nn.LocalResponseNorm(2), image)
    assert "LRN" not in nodes_of(nn.LocalResponseNorm(3), image[0])


@pytest.mark.parametrize("name", KERNELS)
def test_onnxruntime_has_a_kernel_for_what_is_written_as_itself(name, tmp_path):
    opsets, dtypes = KERNELS[name]
    for opset in range(20, 27):
        for dtype in dtypes:
            known = kept_whole(name, opset, dtype.numpy, tmp_path)
            assert known or opset not in opsets, f"onnxruntime takes {name} of {dtype} at opset {opset} apart"


OPERANDS: dict[str, Any] = {
    "RMSNormalization": [(2, 3), (3,)], "Attention": [(1, 2, 3, 4)] * 3, "TensorScatter": [(2, 5, 3), (2, 2, 3), 1],
    "CumProd": [(2, 3), 0], "RotaryEmbedding": [(1, 2, 3, 4), (1, 3, 2), (1, 3, 2)],
}  # fmt: skip


def kept_whole(name: str, opset: int, dtype: Any, folder: Any) -> bool:
    """Whether onnxruntime runs a node as it is, and not as the parts that ONNX says it has."""
    arrays = [
        np.ones(shape, dtype) if isinstance(shape, tuple) else np.ones([2] * shape, np.int64)
        for shape in OPERANDS[name]
    ]
    feed = {f"i{index}": array for index, array in enumerate(arrays)}
    inputs = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for key, array in feed.items()
    ]
    node, result = helper.make_node(name, list(feed), ["o"]), helper.make_value_info("o", onnx.TypeProto())
    graph = helper.make_graph([node], "one", inputs, [result])
    version = IR_VERSIONS[opset]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(folder / "whole.onnx")
    try:
        model = onnx.shape_inference.infer_shapes(model)
        onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)
    except Exception:  # there is no such operator, or no kernel
        return False
    return [node.op_type for node in onnx.load(folder / "whole.onnx").graph.node] == [name]


# -- factors -------------------------------------------------------------------------------------------------------

LAYER, ROW = nn.Linear(4, 6), jit.randn(6)
VECTORS = jit.randn(2, 3, 4)


@pytest.mark.parametrize(("function", "expected"), [
    (lambda x: LAYER(x) * 0.5, {"MatMul": 1, "Add": 1}), (lambda x: LAYER(x) / 2.5, {"MatMul": 1, "Add": 1}),
    (lambda x: ROW * LAYER(x), {"MatMul": 1, "Add": 1}), (lambda x: LAYER(x) / ROW, {"MatMul": 1, "Add": 1}),
    (lambda x: F.linear(x, LAYER.weight) * ROW, {"MatMul": 1}),
    (lambda x: (LAYER(x) * 0.5).tanh() + LAYER(x), {"MatMul": 1, "Add": 2, "Mul": 1, "Tanh": 1}),
    (lambda x: 2 / LAYER(x), {"MatMul": 1, "Add": 1, "Div": 1}),
    (lambda x: LAYER(x) / 0, {"MatMul": 1, "Add": 1, "Div": 1}),
    (lambda x: LAYER(x) * ROW.expand(5, 1, 1, 6), {"MatMul": 1, "Add": 1, "Mul": 1}),
    (lambda x: (LAYER(x) * 2, x), {"MatMul": 1, "Add": 1, "Identity": 1}),
    (lambda x: (x * x).sum(-1), {"ReduceSumSquare": 1}), (lambda x: (x * x).sum(), {"ReduceSumSquare": 1}),
    (lambda x: (lambda s: s.sum(-1, keepdim=True) + s)(x * x), {"Mul": 1, "ReduceSum": 1, "Add": 1}),
])  # fmt: skip
def test_factors_and_squares(function, expected):
    assert nodes_of(function, VECTORS, dynamic_axes={"x": {0: "batch"}}) == expected
    assert nodes_of(function, VECTORS, opset_version=13)


class Scores(nn.Module):
    """Attention spelled out, without a mask."""

    def __init__(self, before: bool) -> None:
        super().__init__()
        self.q, self.k, self.before = nn.Linear(4, 4), nn.Linear(4, 4), before

    def forward(self, x: Any) -> Any:
        q, k = (layer(x).view(x.shape[0], 3, 2, 2).transpose(1, 2) for layer in (self.q, self.k))
        return ((q / 1.4) @ k.mT if self.before else (q @ k.mT) / 1.4).softmax(-1)


@pytest.mark.parametrize("before", [True, False])
def test_the_scale_of_scores_is_taken_up_by_weights(before):
    found = nodes_of(Scores(before), VECTORS, dynamic_axes={"x": {0: "batch"}})
    assert found == {"MatMul": 3, "Add": 2, "Reshape": 2, "Transpose": 2, "Softmax": 1}


def test_factors_stay_where_weights_are_inputs():
    found = nodes_of(lambda x: LAYER(x) * 0.5, VECTORS, fold=False)
    assert found["Mul"] == 1


@pytest.mark.parametrize("dtype", [jit.int64, jit.float64, jit.int32])
def test_squares_of_every_dtype(dtype):
    assert nodes_of(lambda x: (x * x).sum(0), jit.arange(4).to(dtype))
