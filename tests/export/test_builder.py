"""The node builder `g`: constants, traced sizes, attributes, and the older forms of operators."""

from typing import Any

import numpy as np
import pytest

import jit.ops  # noqa: F401
from jit.export import export_graph, register_symbolic, unregister_symbolic
from jit.export.builder import OnnxBuilder
from jit.export.proxies import Unsupported
from jit.ir import dtypes, parse

from .models import checked, listing, run


def proxy(g, dtype=dtypes.float32, dims=(2, 3)):
    return g.stand_in(g.new_value(dtype, dims), dtype, dims)


def written(symbolic, x="Float(2, 3)", out="Tensor", opset=20, **options):
    """The model of a graph of one node, which `symbolic` writes."""
    register_symbolic("test::op", symbolic)
    try:
        graph = parse(f"graph(%x : {x}) {{ %0 : {out} = test::op(%x) return (%0) }}")
        return checked(export_graph(graph, opset_version=opset, **options))
    finally:
        unregister_symbolic("test::op")


# -- constants ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"), [(1, "int64"), (1.0, "float32"), (True, "bool"), ([1, 2], "int64"), (np.float64(1), "float64")]
)
def test_constants_of_python_numbers(value, dtype):
    assert OnnxBuilder(20).constant(value).dtype is dtypes.by_name(dtype)


def test_constants_in_the_type_of_another():
    g = OnnxBuilder(20)
    assert g.constant(2, like=proxy(g, dtypes.float16)).dtype is dtypes.float16
    assert g.constant(2, dtype="int32").dtype is dtypes.int32


def test_equal_constants_are_one():
    g = OnnxBuilder(20)
    assert g.constant(2.0) is g.constant(2.0)
    assert len({g.constant(2.0), g.constant(2), g.constant([2.0]), g.constant(0.0), g.constant(-0.0)}) == 5


def test_a_number_takes_the_type_of_the_input_that_it_goes_with():
    g = OnnxBuilder(20)
    x = proxy(g, dtypes.float64)
    node = g.op("Gather", g.op("Add", x, 1), 0).value.producer()
    added = node.inputs[0].producer()
    assert [g.proxies[added.inputs[1]].dtype, g.proxies[node.inputs[1]].dtype] == [dtypes.float64, dtypes.int64]


def test_casts():
    g = OnnxBuilder(20)
    x = proxy(g)
    assert g.cast(x, dtypes.float32) is x and g.cast(x, None) is x
    assert g.cast(x, dtypes.int64).dtype is dtypes.int64
    assert g.cast(g.constant(1.7), dtypes.int64).constant == 1


# -- attributes and types ----------------------------------------------------------------------------------------


def test_attributes_have_the_declared_kind():
    def symbolic(g, x):
        return g.op("Elu", g.op("Transpose", x, perm=(np.int64(1), 0)), alpha=2)

    assert (
        listing(written(symbolic)) == "op/Transpose = Transpose[perm=[1,0]](x)\noutput = Elu[alpha=2.0](op/Transpose)"
    )


def test_attributes_that_say_the_default_are_left_out():
    assert listing(written(lambda g, x: g.op("Elu", x, alpha=1.0))) == "output = Elu(x)"


def test_no_attribute():
    assert listing(written(lambda g, x: g.op("Elu", x, alpha=None))) == "output = Elu(x)"


def test_a_dtype_is_an_attribute():
    assert "to=11" in listing(written(lambda g, x: g.op("Cast", x, to=dtypes.float64)))


@pytest.mark.parametrize(
    ("name", "dtype", "result"),
    [
        ("Relu", dtypes.float16, dtypes.float16),
        ("Shape", dtypes.float32, dtypes.int64),
        ("IsNaN", dtypes.float32, dtypes.bool_),
        ("ArgMax", dtypes.float32, dtypes.int64),
    ],
)
def test_results_have_a_type(name, dtype, result):
    g = OnnxBuilder(20)
    assert g.op(name, proxy(g, dtype, (2, None))).dtype is result


def test_ranks_and_sizes_of_what_was_written():
    g = OnnxBuilder(20)
    x = proxy(g, dims=(2, 3))
    assert g.op("Transpose", x, perm=[1, 0]).shape == (3, 2)
    assert g.op("Reshape", x, g.ints([1, -1])).shape == (1, 6)
    assert g.op("Expand", g.op("Unsqueeze", x, g.ints([0])), g.ints([4, 1, 1])).shape == (4, 2, 3)
    assert g.op("ReduceSum", x, g.ints([1]), keepdims=0).ndim == 1


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda g, x: g.op("Gelu", x), "Gelu is in ONNX from opset 20 on"),
        (lambda g, x: g.op("NoSuch", x), "there is no ONNX operator NoSuch"),
        (lambda g, x: g.op("Upsample", x), "ONNX has dropped Upsample"),
        (lambda g, x: g.op("Relu", x, x), "Relu takes 1 inputs at opset 13"),
        (lambda g, x: g.op("Relu", x, slope=1), "Relu has no attribute slope at opset 13"),
        (lambda g, x: g.op("Relu", g.cast(x, dtypes.bool_)), "Relu does not take bool at opset 13"),
        (lambda g, x: g.op("Add", x, g.cast(x, dtypes.int64)), "Add is given float32 and int64 at once"),
    ],
)
def test_what_an_opset_does_not_know(write, reason):
    g = OnnxBuilder(13)
    with pytest.raises(Unsupported, match=reason):
        write(g, proxy(g))


def test_operators_of_other_domains():
    register_symbolic("test::op", lambda g, x: g.op("com.acme::Spin", x, times=2, how="fast"))
    try:
        exported = export_graph(parse("graph(%x : Float(2)) { %0 : Float(2) = test::op(%x) return (%0) }"))
    finally:
        unregister_symbolic("test::op")
    assert listing(exported) == "output = com.acme::Spin[how=fast, times=2](x)"
    assert exported.model.opset_imports == {"": 20, "com.acme": 1}


# -- reductions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [9, 12, 13, 17, 18, 26])
@pytest.mark.parametrize("dim", [None, 1, -1, (0, -1), ()])
def test_reductions(opset, dim):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    functions: list[Any] = [np.sum, np.mean]
    for name, function in zip(["ReduceSum", "ReduceMean"], functions):
        exported = written(lambda g, x, name=name: g.reduce(name, x, dim, True), opset=opset, out="Float(?, ?)")
        axis = None if dim in (None, ()) else dim
        np.testing.assert_array_equal(run(exported, x=x)[0], function(x, axis=axis, keepdims=True))


def test_a_tensor_without_dims_is_reduced_over_none():
    exported = written(lambda g, x: g.reduce("ReduceSum", x, 0, False), x="Float()", out="Float()")
    assert run(exported, x=np.float32(3))[0] == 3


# -- older forms -------------------------------------------------------------------------------------------------

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 11
PADS = [(0, 0), (1, 0), (0, 2)]


@pytest.mark.parametrize("opset", [9, 10, 11, 12, 13, 18, 26])
@pytest.mark.parametrize(
    ("symbolic", "expected"),
    [
        (lambda g, x: g.op("Squeeze", g.op("Unsqueeze", x, g.ints([-1])), g.ints([-1])), X),
        (lambda g, x: g.op("Unsqueeze", x, axes=[0]), X[None]),
        (lambda g, x: g.op("Clip", x, -2, 5), np.clip(X, -2, 5)),
        (lambda g, x: g.op("Clip", x, None, 5), np.minimum(X, 5)),
        (lambda g, x: g.op("Split", x, g.ints([1, 2]), axis=1, outputs=2)[1], X[:, 1:]),
        (lambda g, x: g.op("Slice", x, g.ints([1]), g.ints([3]), g.ints([-1])), X[..., 1:3]),
        (
            lambda g, x: g.op("Pad", x, g.ints([0, 1, 0, 0, 0, 2]), 7.0),
            np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=7),
        ),
        (lambda g, x: g.op("Softmax", x, axis=1), np.exp(X) / np.exp(X).sum(1, keepdims=True)),
        (lambda g, x: g.op("Concat", x, x, axis=-2), np.concatenate([X, X], 1)),
        (lambda g, x: g.op("LessOrEqual", x, 3), X <= 3),
        (lambda g, x: g.op("Equal", x, 3), X == 3),
        (lambda g, x: g.op("ReduceMax", x, g.ints([2]), keepdims=0), X.max(2)),
        (lambda g, x: g.op("TopK", x, g.ints([1]), axis=2, outputs=2)[0], X.max(2, keepdims=True)),
    ],
)
def test_one_symbolic_serves_every_opset(symbolic, expected, opset):
    out = f"{dtypes.from_numpy(expected.dtype).text}({', '.join(map(str, expected.shape))})"
    exported = written(symbolic, x="Float(2, 3, 4)", out=out, opset=opset)
    np.testing.assert_allclose(run(exported, x=X)[0], expected, rtol=1e-5, atol=1e-6)


def test_nan_is_not_equal_before_opset_11_either():
    exported = written(lambda g, x: g.op("Equal", x, x), x="Float(2)", out="Bool(2)", opset=9)
    assert run(exported, x=np.array([np.nan, 1], np.float32))[0].tolist() == [False, True]


def test_what_must_be_constant_at_an_old_opset():
    g = OnnxBuilder(12)
    with pytest.raises(Unsupported, match="Squeeze takes only a constant for axes before opset 13"):
        g.op("Squeeze", proxy(g), proxy(g, dtypes.int64, (1,)))
    with pytest.raises(Unsupported, match="Slice has no steps before opset 10"):
        g = OnnxBuilder(9)
        g.op("Slice", proxy(g), g.ints([0]), g.ints([2]), g.ints([0]), g.ints([2]))


@pytest.mark.parametrize("opset", [13, 20])
def test_a_size_of_zero_means_no_elements(opset):
    exported = written(lambda g, x: g.op("Reshape", x, g.ints([0, 5])), x="Float(0, 3)", out="Float(0, 5)", opset=opset)
    assert run(exported, x=np.zeros((0, 3), np.float32))[0].shape == (0, 5)


def test_the_shape_of_fixed_sizes_is_a_constant():
    g = OnnxBuilder(20)
    assert g.op("Shape", proxy(g)).constant.tolist() == [2, 3]


def test_a_symbolic_may_not_look_at_numbers():
    g = OnnxBuilder(20)
    with pytest.raises(Unsupported, match="depends on the contents of a tensor"):
        bool(proxy(g))
