"""Reductions, norms, softmaxes, embeddings and joins become one kernel with what feeds and follows them."""

from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.ir import UNDEFINED, Graph, TensorType, parse
from jit.ir.errors import DimError
from jit.passes import run as run_passes
from jit.passes.fuse import declined, fuse, groups
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.kernels.fusion import group_nest, supports
from jit.runtime.kernels.nest import Buffer
from tests.random_graphs import inputs, program

CLEANING = ["inline_composites", "infer_types", "constant_fold", "peephole", "cse", "dce"]


def recorded(function, *arrays) -> Graph:
    traced = jit.trace(function, optimize=False)
    traced(*map(jit.from_numpy, arrays))
    graph = traced.graph.clone()
    run_passes(graph, CLEANING)
    return graph


def kinds(graph: Graph) -> list[str]:
    return [node.kind.rpartition("::")[2] for node in graph.nodes]


def run(graph, *arrays):
    return Interpreter(graph).run(0, arrays)[0]


def normal(*shape, dtype="float32", seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype)


def by_hand(x):
    e = jit.exp(x - x.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)


def norm_by_hand(x):
    return (x - x.mean(-1, keepdim=True)) / jit.sqrt(x.var(-1, keepdim=True) + 1e-5)


X, VECTOR = normal(6, 33), normal(33, seed=1)
IMAGE = [normal(3, 4, 5, 5), *(normal(4, seed=s) for s in range(4))]
TOKENS = np.random.default_rng(2).integers(0, 10, (3, 4))

ONE_KERNEL: dict[str, tuple[Any, list[Any]]] = {
    "softmax": (lambda x: jit.softmax(x, 1), [X]),
    "softmax of columns": (lambda x: jit.softmax(x * 2, 0) + 1, [X]),
    "softmax by hand": (by_hand, [X]),
    "log_softmax": (lambda x: -jit.log_softmax(x * 3, -1), [X]),
    "logsumexp": (lambda x: jit.logsumexp(x, 1), [X]),
    "masked attention": (
        lambda x, mask: jit.softmax(jit.where(mask > 0, x * 0.125, -1e9), -1),
        [normal(2, 3, 8, 8), normal(8, 8)],
    ),
    "layer norm": (lambda x, w, b: F.gelu(F.layer_norm(x + 1, [33], w, b)), [X, VECTOR, VECTOR]),
    "layer norm by hand": (norm_by_hand, [X]),
    "two layer norms": (lambda x: F.layer_norm(F.layer_norm(x, [33]) * 2, [33]), [X]),
    "kept values that need kept values": (
        lambda x: jit.softmax(jit.exp(jit.softmax(jit.tanh(x), 1)) * 2, 1) * jit.tanh(x),
        [X],
    ),
    "rms norm": (lambda x, w: F.rms_norm(x, [33], w), [X, VECTOR]),
    "batch norm, evaluating": (lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v.abs(), w, b, False)), IMAGE),
    "batch norm, training": (lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)), IMAGE[:3]),
    "group norm": (lambda x, w, b: F.relu(F.group_norm(x * 2, 2, w, b)), IMAGE[:3]),
    "group norm of one group": (lambda x, w: F.group_norm(x, 1, w) + x, IMAGE[:2]),
    "group norm of channels": (lambda x, w, b: F.group_norm(x, 4, w, b) * x, IMAGE[:3]),
    "group norm without places": (lambda x, w, b: F.group_norm(x, 3, w, b), [normal(5, 6), normal(6), normal(6)]),
    "group norm of one channel": (lambda x: F.group_norm(x, 1) * 2, [normal(5, 1, 7)]),
    "two group norms": (lambda x: F.group_norm(F.group_norm(x, 2).tanh(), 2), IMAGE[:1]),
    "group norm by hand": (
        lambda x: ((v := x.exp().reshape(3, 2, -1)) - v.mean(-1, keepdim=True)).reshape(x.shape) * 2,
        IMAGE[:1],
    ),
    "instance norm": (lambda x, w, b: F.relu(F.instance_norm(x * 2, None, None, w, b)), IMAGE[:3]),
    "dims taken apart": (lambda x, y: (x * 2).reshape(3, 2, 11, 3).tanh() * y, [X, normal(11, 1)]),
    "dims put together": (lambda x, y: (x * 2).reshape(3, 66) * y, [X, normal(66)]),
    "apart and together": (lambda x: (x * 2).reshape(18, 11).exp().reshape(2, 99).sum(1), [X]),
    "heads": (lambda x: jit.softmax((x * 2).reshape(2, 5, 3, 4).transpose(1, 2), -1), [normal(2, 5, 12)]),
    "a row of dims taken apart": (lambda x: (x * 2).reshape(6, 3, 11).amax((1, 2)), [X]),
    "argmax of dims put together": (lambda x: (x * 2).reshape(3, 66).argmax(1), [X]),
    "sum of a row": (lambda x: (x * 2).sum(1) * 3 + 1, [X]),
    "sum of all": (lambda x: (x * x).sum(), [X]),
    "sum of outer dims": (lambda x: (x * x).sum((0, 2)).sqrt(), [normal(4, 5, 6)]),
    "mean square error": (lambda x, y: ((x - y) ** 2).mean(), [X, normal(6, 33, seed=4)]),
    "a broadcast and a mean": (
        lambda x, y, z: (F.relu(x * y + z) * 0.5 - x).mean(-1),
        [normal(5, 1, 7), normal(1, 6, 7), normal(7)],
    ),
    "argmax": (lambda x: (x * 2).argmax(1), [X]),
    "argmax of all": (lambda x: (x * 2).argmax(), [X]),
    "maxima and where": (lambda x: (x * 2).max(1), [X]),
    "indices alone": (lambda x: x.abs().min(0)[1], [X]),
    "unsqueezed": (lambda x: x - x.sum(1).unsqueeze(1), [X]),
    "two dims": (lambda x: x.sum((1, 2), keepdim=True) * x, [normal(4, 4, 5)]),
    "std": (lambda x: (x.double() * 2).std(1), [X]),
    "integers": (lambda x: (x * 2).sum(1) * 3, [np.arange(-90, 90, dtype=np.int32).reshape(6, 30)]),
    "booleans": (lambda x: (x > 0).sum(1), [X]),
    "embedding": (lambda w, i: jit.embedding(w, i) * 2 + 1, [normal(10, 8), TOKENS]),
    "embedding and norm": (
        lambda w, i, p: F.layer_norm(jit.embedding(w, i) + p, [8]),
        [normal(10, 8), TOKENS, normal(4, 8)],
    ),
    "cumsum": (lambda x: jit.tanh((x * 2).cumsum(1) * 0.01) + x, [X]),
    "cumsum of columns": (lambda x: (x * 2).cumsum(0) + 1, [X]),
    "cumsum alone": (lambda x: x.cumsum(-1), [normal(4, 70)]),
    "cumsum of cumsum": (lambda x: jit.exp(x * 0.01).cumsum(1).cumsum(1), [X]),
    "cumsum of a softmax": (lambda x: jit.softmax(x, 1).cumsum(1), [X]),
    "the mean of running sums": (lambda x: x.cumsum(1).mean(1), [X]),
    "softmax of running sums": (lambda x: jit.softmax(x.cumsum(1), 1), [X]),
    "cumsum of a broadcast": (lambda x, y: (x * y).cumsum(1), [normal(6, 1), VECTOR]),
    "cumsum of one": (lambda x: (x * 2).cumsum(1) + 1, [normal(6, 1)]),
    "cumsum of booleans": (lambda x: (x > 0).cumsum(0), [X]),
    "cumsum in halves": (lambda x: x.half().cumsum(1), [X]),
    "cumprod": (lambda x: jit.tanh(x).cumprod(1) * 2, [X]),
    "cummax": (lambda x: (x * 2).cummax(1), [X]),
    "cummin, positions alone": (lambda x: x.round().cummin(0)[1] * 2, [normal(40, 5)]),
    "cummax of one": (lambda x: (x * 2).cummax(1), [normal(6, 1)]),
    "logcumsumexp": (lambda x: (x * 2).logcumsumexp(1), [X]),
    "logcumsumexp of columns": (lambda x: (x * 2).logcumsumexp(0), [X]),
    "cat": (lambda x, y: jit.cat([x * 2, y + 1], 1), [X, X]),
    "stack": (lambda x, y: jit.stack([x * 2, y + 1, x - y], 0), [X, X]),
}

LAYOUTS: list[Any] = [
    lambda a: a,
    np.asfortranarray,
    lambda a: np.repeat(a, 2, -1)[..., ::2],
    lambda a: a[::-1].copy()[::-1],
]


@pytest.mark.llvm
@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel_that_agrees_with_the_interpreter(name):
    function, arrays = ONE_KERNEL[name]
    graph = recorded(function, *arrays)
    expected = run(graph.clone(), *arrays)
    assert fuse(graph, supports)
    assert kinds(graph) == ["FusionGroup"]
    (group,) = graph.nodes
    given = dict(zip(graph.inputs, arrays, strict=True))
    group_nest(group.attributes["body"], [Buffer.like(given[v]) for v in group.inputs])
    for layout in LAYOUTS:
        for found, wanted in zip(run(graph, *map(layout, arrays)), expected, strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.llvm
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32_and_rounded_once_in_each_op(dtype):
    def function(x):
        return jit.softmax(x * 2, 1), F.layer_norm(x, [33]) + 1, (x * 2).sum(1) * 3, x.amax(0), x.argmax(1)

    half = jit.from_numpy(X).to(getattr(jit, dtype))
    traced = jit.trace(function, optimize=False)
    traced(half)
    graph = traced.graph.clone()
    run_passes(graph, CLEANING)
    expected = run(graph.clone(), half._array)
    assert fuse(graph, supports)
    one_step = {"float16": 2**-10, "bfloat16": 2**-7}[dtype]  # the order of a sum may tip a rounding
    for found, wanted in zip(run(graph, half._array), expected, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=one_step)


@pytest.mark.llvm
def test_nan_and_infinities():
    x = X.copy()
    x[0, 3], x[1, 4], x[2, 5], x[3] = np.nan, np.inf, -np.inf, -np.inf
    for name in [
        "softmax",
        "log_softmax",
        "logsumexp",
        "layer norm by hand",
        "sum of a row",
        "argmax",
        "maxima and where",
    ]:
        graph = recorded(ONE_KERNEL[name][0], x)
        expected = run(graph.clone(), x)
        fuse(graph, supports)
        for found, wanted in zip(run(graph, x), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.llvm
def test_an_index_out_of_range_is_an_error():
    tokens = TOKENS.copy()
    function, arrays = ONE_KERNEL["embedding"]
    graph = recorded(function, *arrays)
    fuse(graph, supports)
    tokens[1, 1] = 10
    with pytest.raises(DimError, match="out of range"):
        run(graph, normal(10, 8), tokens)


@pytest.mark.llvm
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), ()])
def test_nothing_to_reduce_is_left_alone(shape):
    x = np.zeros(shape, np.float32)
    graph = recorded(lambda x: jit.softmax(x * 2, -1).sum(), x)
    expected = run(graph.clone(), x)
    fuse(graph, supports)
    np.testing.assert_array_equal(run(graph, x)[0], expected[0])


REASONS: dict[str, tuple[str, str]] = {
    "a producer that is needed too early": (
        """graph(%x : Float(4, 4)) {
  %0 : Float(4, 4) = aten::tanh(%x)
  %1 : Float(4, 4) = aten::mm(%0, %0)
  %2 : Float(4, 4) = aten::add(%0, %1)
  %3 : Float(4, 4) = aten::neg(%2)
  return (%3)
}""",
        "its result is needed before the group has run",
    ),
    "rows of another kind": (
        """graph(%x : Float(8, 6)) {
  %0 : Float(8, 1) = aten::sum[dim=[1], keepdim=True](%x)
  %1 : Float(1, 6) = aten::sum[dim=[0], keepdim=True](%x)
  %2 : Float(8, 6) = aten::add(%0, %1)
  return (%2)
}""",
        "it reduces other dims than the rest of the group",
    ),
    "a reduction that every element would repeat": (
        """graph(%x : Float(8, 9), %y : Float(8, 6)) {
  %0 : Float(8, 1) = aten::sum[dim=[1], keepdim=True](%x)
  %1 : Float(8, 6) = aten::add(%y, %0)
  return (%1)
}""",
        "it would be computed again for every element that reads it",
    ),
    "a part of what is computed": (
        """graph(%x : Float(8, 9)) {
  %0 : Float(8, 9) = aten::tanh(%x)
  %1 : Float(8, 3) = aten::narrow[dim=1, start=0, length=3](%0)
  %2 : Float(8, 3) = aten::neg(%1)
  return (%2)
}""",
        "it shows a part of what is computed",
    ),
    "few long rows": (
        """graph(%x : Float(2, 100000)) {
  %0 : Float(2, 1) = aten::sum[dim=[1], keepdim=True](%x)
  %1 : Float(2, 100000) = aten::div(%x, %0)
  return (%1)
}""",
        "it has few long rows, and what follows is better shared out among threads",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_is_declined_says_why(name):
    text, reason = REASONS[name]
    assert reason in declined(parse(text)).values()


@pytest.mark.llvm
@pytest.mark.parametrize("seed", range(12))
def test_all_neighbours_that_are_left_apart_have_a_reason(seed):
    graph = recorded(program(seed), *inputs(seed))
    order = {node: index for index, node in enumerate(graph.nodes)}
    homes = {node: group for group in groups(graph, supports) for node in group}
    reasons = declined(graph, supports)
    for node in graph.nodes:
        last = max(homes.get(node, {node}), key=order.__getitem__)
        for maker in (value.node for value in node.inputs if value.node in order):
            together = maker in homes and homes[maker] is homes.get(node)
            assert together or maker.kind == "prim::Constant" or reasons[maker, last]


def test_a_statistic_that_the_backward_needs_is_an_output():
    graph = parse(
        """graph(%x : Float(8, 6)) {
  %0 : Float(8, 1) = aten::mean[dim=[1], keepdim=True](%x)
  %1 : Float(8, 6) = aten::sub(%x, %0)
  return (%1, %0)
}"""
    )
    assert fuse(graph)
    assert kinds(graph) == ["FusionGroup"]
    x = normal(8, 6)
    centred, mean = run(graph, x)
    np.testing.assert_allclose(mean, x.mean(1, keepdims=True), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(centred, x - mean)


MASKS = [[True, True, True], [True, False, False], [False, True, True], [False, False, True]]


def backward(kind: str, x: Any, vector: Any, inputs: list[Any], attributes: dict[str, Any], mask: list[bool]) -> Graph:
    """A graph of a norm's backward alone."""
    graph = Graph()
    values = [graph.add_input(TensorType(jit.float32, sizes)) for sizes in inputs]
    types = [TensorType(jit.float32, s) if there else UNDEFINED for s, there in zip([x, vector, vector], mask)]
    node = graph.add(kind, values, {**attributes, "eps": 1e-5, "output_mask": mask}, types)
    graph.set_return([value for value, there in zip(node.outputs, mask) if there])
    return graph


@pytest.mark.llvm
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("kind", ["native_layer_norm_backward", "native_batch_norm_backward"])
def test_backwards_of_norms(kind, train, mask):
    if kind == "native_layer_norm_backward":
        inputs = [(6, 33), (6, 33), (6, 1), (6, 1), (33,)]
        graph = backward(f"aten::{kind}", (6, 33), (33,), inputs, {"normalized_shape": (33,)}, mask)
    else:
        inputs = [(3, 4, 5, 5)] * 2 + [(4,)] * 5
        graph = backward(f"aten::{kind}", (3, 4, 5, 5), (4,), inputs, {"train": train}, mask)
    arrays = [np.abs(normal(*v.type.sizes, seed=i)) + 0.1 for i, v in enumerate(graph.inputs)]  # type: ignore[attr-defined]
    expected = run(graph.clone(), *arrays)
    fused = fuse(graph, supports)
    assert fused == (kind == "native_layer_norm_backward" or mask[0])
    for found, wanted in zip(run(graph, *arrays), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.llvm
def test_running_sums_do_not_run_along_several_dims():
    graph = recorded(lambda x: (x * 2).reshape(3, 66).cumsum(1) + 1, X)
    assert fuse(graph, supports)
    assert kinds(graph) == ["mul", "FusionGroup"]
    np.testing.assert_allclose(run(graph, X)[0], (X * 2).reshape(3, 66).cumsum(1) + 1, rtol=1e-5, atol=1e-4)


def trained(function, *arrays) -> tuple[Any, list[np.ndarray]]:
    """(what was traced, the result and the gradients of a call that runs natively)."""
    traced = jit.trace(function)
    for _ in range(3):
        found = gradients(traced, *arrays)
    return traced, found


def gradients(function, *arrays) -> list[np.ndarray]:
    tensors = [jit.from_numpy(a).requires_grad_() for a in arrays]
    result = function(*tensors)
    result.backward(jit.from_numpy(normal(*result.shape, dtype=arrays[0].dtype.name, seed=9)))
    return [result.detach().numpy(), *(t.grad.numpy() for t in tensors)]


@pytest.mark.llvm
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 4, 5, 5), (2, 6, 7), (5, 6), (1, 2, 1, 3)])
@pytest.mark.parametrize("groups", [1, 2, None])
def test_a_group_norm_is_one_kernel_and_its_backward_two(groups, shape, dtype):
    arrays = [normal(*shape, dtype=dtype), *(normal(shape[1], dtype=dtype, seed=s) for s in (1, 2))]

    def norm(x, w, b):
        return F.group_norm(x, groups or shape[1], w, b)

    if groups is None and len(shape) == 2:
        return  # each element by itself: a matter of rounding
    traced, found = trained(norm, *arrays)
    assert [kernel.stage for kernel in traced.kernels] == [0, 1, 1]
    rounding = 2e-4 if dtype == "float32" else 1e-10
    for a, b in zip(found, gradients(norm, *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=rounding, atol=rounding)
