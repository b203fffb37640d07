"""If, Loop and Scan: what the host settles and what data decides, nested, with zero trips, differentiated."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import jit
from jit.ir.errors import ModelError
from jit.onnx.backend import prepare
from jit.onnx.importing import ImportedModel

from .checking import by_reference, by_runtime, check, check_gradients, model_of, random

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def value(name, element=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, element, shape)


def graph(nodes, inputs, outputs, constants=()):
    return helper.make_graph(nodes, "body", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def named(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, **attributes)


# -- If ------------------------------------------------------------------------------------------------------------


def branches(x):
    """`x * 2`, or `x + y` and a further value, by whether the sum of x is positive."""
    then = graph([node("Add", "x x", "a"), node("Neg", "x", "b")], [], [value("a"), value("b")])
    other = graph([node("Add", "x y", "c"), node("Mul", "x y", "d")], [], [value("c"), value("d")])
    nodes = [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "cond"),
             node("If", "cond", "u v", then_branch=then, else_branch=other)]  # fmt: skip
    return model_of(nodes, {"x": x, "y": x, "zero": np.zeros((), np.float32)}, ["u", "v"], 17)


def test_data_chooses_a_branch():
    x, y, zero = np.abs(random(2, 3)), random(2, 3, seed=1), np.zeros((), np.float32)
    model = branches(x)
    for sign in (1, -1):
        check(model, {"x": x * np.float32(sign), "y": y, "zero": zero}, by_runtime)
    prepared = prepare(model)
    for sign in (1, -1, -1, 1):
        given = {"x": x * np.float32(sign), "y": y, "zero": zero}
        for found, expected in zip(prepared.run(given), by_reference(model, given), strict=True):
            np.testing.assert_allclose(found, expected)


def test_gradients_go_through_the_branch_taken():
    x = np.abs(random(2, 3, dtype=np.float64))
    for sign in (1.0, -1.0):
        given = {"x": sign * x, "y": random(2, 3, seed=1, dtype=np.float64), "zero": np.zeros(())}
        model = branches(x)
        for each in model.graph.input:
            each.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
        check_gradients(model, given, ["x"] if sign > 0 else ["x", "y"])


def test_a_size_chooses_a_branch_without_a_look_at_data():
    """The number of rows is known to the host, so the recording for tensors of two rows serves any data."""
    then = graph([node("Add", "x x", "a")], [], [value("a")])
    other = graph([node("Neg", "x", "c")], [], [value("c")])
    nodes = [node("Shape", "x", "shape", end=1), node("Squeeze", "shape", "n"), node("Greater", "n limit", "cond"),
             node("If", "cond", "u", then_branch=then, else_branch=other)]  # fmt: skip
    model = model_of(nodes, {"x": random(2, 3)}, ["u"], 17)
    model.graph.initializer.append(numpy_helper.from_array(np.array(3, np.int64), "limit"))
    prepared = prepare(model)
    for rows in (2, 5, 3, 4, 1):
        x = random(rows, 3, seed=rows)
        np.testing.assert_allclose(prepared.run([x])[0], x + x if rows > 3 else -x)


# -- Loop ----------------------------------------------------------------------------------------------------------


def accumulating(shape=(2,), condition=()):
    """Adds `x * trip` to what is carried; gives each sum as an output of all trips."""
    nodes = [node("Cast", "i", "f", to=FLOAT), node("Mul", "x f", "step"), node("Add", "total step", "sum"),
             node("Identity", "sum", "each"), *(condition or [node("Identity", "going", "go_on")])]  # fmt: skip
    inputs = [value("i", INT64, []), value("going", BOOL, []), value("total", FLOAT, shape)]
    outputs = [value("go_on", BOOL, []), value("sum", FLOAT, shape), value("each", FLOAT, shape)]
    return graph(nodes, inputs, outputs)


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_number_of_trips(trips):
    given: dict[str, Any] = {"n": np.int64(trips), "x": random(2), "start": random(2, seed=1)}
    model = model_of(named("Loop", ["n", "", "start"], ["end", "all"], body=accumulating()), given, ["end", "all"], 17)
    total, sums = given["start"], np.zeros((0, 2), np.float32)
    for trip in range(trips):
        total = total + given["x"] * np.float32(trip)
        sums = np.concatenate([sums, total[None]])
    check(model, given, [total, sums])


def test_a_condition_that_is_false_at_once():
    given: dict[str, Any] = {"n": np.int64(3), "cond": np.bool_(False), "x": random(2), "start": random(2, seed=1)}
    model = model_of(node("Loop", "n cond start", "end all", body=accumulating()), given, ["end", "all"], 17)
    check(model, given, [given["start"], np.zeros((0, 2), np.float32)])


def test_the_body_ends_the_loop():
    until = [node("ReduceMax", "sum", "m", keepdims=0), node("Less", "m limit", "go_on")]
    given = {"x": np.array([1, 0.5], np.float32), "start": np.zeros(2, np.float32), "limit": np.array(9, np.float32)}
    loop = named("Loop", ["", "", "start"], ["end", "all"], body=accumulating(condition=until))
    expected = np.cumsum(np.arange(5, dtype=np.float32))[:, None] * given["x"]
    check(model_of(loop, given, ["end", "all"], 17), given, [expected[-1], expected])


def test_what_the_host_counts_is_never_data():
    """Sizes that a body computes of the trip's number are known, so each trip may give another shape."""
    body = graph(
        [node("Add", "i one", "k"), node("Unsqueeze", "k zero", "shape"), node("Expand", "x shape", "part"),
         node("Concat", "joined part", "more", axis=0), node("Identity", "going", "go_on")],
        [value("i", INT64, []), value("going", BOOL, []), value("joined")], [value("go_on", BOOL, []), value("more")],
        [("one", np.int64(1)), ("zero", np.array([0], np.int64))],
    )  # fmt: skip
    given = {"x": random(1), "start": random(2, seed=1)}
    model = model_of(named("Loop", ["n", "", "start"], ["end"], body=body), given, ["end"], 17)
    model.graph.initializer.append(numpy_helper.from_array(np.array(3, np.int64), "n"))
    check(model, given, [np.concatenate([given["start"], np.repeat(given["x"], 6)])])


def test_loops_within_loops_see_what_is_around():
    inner = graph(
        [node("Mul", "v x", "w"), node("Identity", "on", "on_out")],
        [value("j", INT64, []), value("on", BOOL, []), value("v")], [value("on_out", BOOL, []), value("w")],
    )  # fmt: skip
    outer = graph(
        [named("Loop", ["two", "", "a"], ["b"], body=inner), node("Add", "b y", "c"),
         node("Identity", "going", "go_on")],
        [value("i", INT64, []), value("going", BOOL, []), value("a")], [value("go_on", BOOL, []), value("c")],
        [("two", np.int64(2))],
    )  # fmt: skip
    given: dict[str, Any] = {"n": np.int64(3), "x": random(2), "y": random(2, seed=1), "start": random(2, seed=2)}
    expected = given["start"]
    for _ in range(3):
        expected = expected * given["x"] ** 2 + given["y"]
    check(model_of(named("Loop", ["n", "", "start"], ["end"], body=outer), given, ["end"], 17), given, [expected])


def test_sequences_are_carried():
    body = graph(
        [node("Mul", "x x", "xx"), node("SequenceInsert", "items xx", "more"), node("Identity", "going", "go_on")],
        [value("i", INT64, []), value("going", BOOL, []), helper.make_tensor_sequence_value_info("items", FLOAT, None)],
        [value("go_on", BOOL, []), helper.make_tensor_sequence_value_info("more", FLOAT, None)],
    )
    nodes = [node("SequenceEmpty", "", "none"), named("Loop", ["n", "", "none"], ["items_out"], body=body),
             node("ConcatFromSequence", "items_out", "y", axis=0, new_axis=1)]  # fmt: skip
    given: dict[str, Any] = {"n": np.int64(3), "x": random(2)}
    check(model_of(nodes, given, ["y"], 17), given, [np.stack([given["x"] ** 2] * 3)])


def test_gradients_go_through_all_trips():
    given = {"x": random(2, dtype=np.float64), "start": random(2, seed=1, dtype=np.float64)}
    body = graph(
        [node("Mul", "total x", "product"), node("Sin", "product", "next"), node("Identity", "going", "go_on")],
        [value("i", INT64, []), value("going", BOOL, []), value("total")], [value("go_on", BOOL, []), value("next")],
    )  # fmt: skip
    model = model_of(named("Loop", ["n", "", "start"], ["end"], body=body), given, ["end"], 17)
    model.graph.initializer.append(numpy_helper.from_array(np.array(3, np.int64), "n"))
    check_gradients(model, given, ["x", "start"])


def test_without_trips_shapes_must_be_declared():
    given: dict[str, Any] = {"n": np.int64(0), "x": random(2), "start": random(2, seed=1)}
    loop = named("Loop", ["n", "", "start"], ["end", "all"], body=accumulating(None))
    with pytest.raises(ModelError, match="does not declare the shape of 'each'"):
        prepare(model_of(loop, given, ["end", "all"], 17), traced=False).run(given)


def test_a_body_takes_what_is_carried():
    given: dict[str, Any] = {"n": np.int64(1), "x": random(2), "start": random(2, seed=1)}
    loop = named("Loop", ["n", "", "start", "x"], ["end", "all"], body=accumulating())
    with pytest.raises(ModelError, match="takes 3 inputs, and 4 are given"):
        ImportedModel(model_of(loop, given, ["end", "all"], 17))(*map(jit.tensor, given.values()))


# -- Scan ----------------------------------------------------------------------------------------------------------


def summing():
    """Two inputs, one state: the state takes both up; the outputs are the state and the product of the inputs."""
    nodes = [
        node("Add", "state a", "sa"),
        node("Add", "sa b", "sum"),
        node("Identity", "sum", "each"),
        node("Mul", "a b", "ab"),
    ]
    return graph(nodes, [value("state"), value("a"), value("b")], [value("sum"), value("each"), value("ab")])


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (-1, 0), (1, 2)])
@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("out_axes", [(0, 0), (1, -1)])
@pytest.mark.parametrize("out_directions", [(0, 0), (0, 1)])
def test_axes_and_directions(axes, directions, out_axes, out_directions):
    def with_steps(x, axis):
        return np.ascontiguousarray(np.moveaxis(x, 0, axis))

    given = {
        "start": random(3, 2),
        "p": with_steps(random(4, 3, 2, seed=1), axes[0]),
        "q": with_steps(random(4, 3, 2, seed=2), axes[1]),
    }
    attributes = {"scan_input_axes": axes, "scan_input_directions": directions}
    attributes |= {"scan_output_axes": out_axes, "scan_output_directions": out_directions}
    scan = node("Scan", "start p q", "end each product", body=summing(), num_scan_inputs=2, **attributes)
    model = model_of(scan, given, ["end", "each", "product"], 17)
    p, q = (
        np.moveaxis(x, axis, 0)[:: -1 if back else 1]
        for x, axis, back in zip((given["p"], given["q"]), axes, directions, strict=True)
    )
    each = given["start"] + np.cumsum(p + q, 0)
    outputs = [
        np.moveaxis(x[:: -1 if back else 1], 0, axis)
        for x, back, axis in zip((each, p * q), out_directions, out_axes, strict=True)
    ]
    check(model, given, [each[-1], *outputs], traced=axes == (1, 1))


def test_scan_over_batches_of_several_lengths():
    """The first version of Scan has a batch; outputs after a sequence's end are zeros."""
    given = {
        "lengths": np.array([3, 1], np.int64),
        "start": random(2, 3),
        "p": random(2, 4, 3, seed=1),
        "q": random(2, 4, 3, seed=2),
    }
    scan = node("Scan", "lengths start p q", "end each product", body=summing(), num_scan_inputs=2, directions=[0, 1])
    ends, eachs, products = [], np.zeros((2, 4, 3), np.float32), np.zeros((2, 4, 3), np.float32)
    for batch, length in enumerate(given["lengths"]):
        p, q = given["p"][batch, :length], given["q"][batch, :length][::-1]
        eachs[batch, :length], products[batch, :length] = given["start"][batch] + np.cumsum(p + q, 0), p * q
        ends.append(eachs[batch, length - 1])
    check(model_of(scan, given, ["end", "each", "product"], 8), given, [np.stack(ends), eachs, products])


def test_gradients_of_a_scan():
    given = {
        name: random(*shape, seed=seed, dtype=np.float64)
        for seed, (name, shape) in enumerate({"start": (2,), "p": (3, 2), "q": (3, 2)}.items())
    }
    nodes = [
        node("Scan", "start p q", "end each product", body=summing(), num_scan_inputs=2),
        node("Mul", "each product", "y"),
    ]
    check_gradients(model_of(nodes, given, ["y"], 17), given, ["start", "p", "q"])


def test_inputs_of_a_scan_have_one_size():
    given = {"start": random(2), "p": random(3, 2), "q": random(4, 2)}
    scan = node("Scan", "start p q", "end each product", body=summing(), num_scan_inputs=2)
    with pytest.raises(ModelError, match="axes of the same size"):
        prepare(model_of(scan, given, ["end", "each", "product"], 17), traced=False).run(given)


# -- traces --------------------------------------------------------------------------------------------------------


def kinds(traced):
    return [node.kind for node in traced.graph.nodes]


def test_a_trace_records_both_branches():
    model = ImportedModel(branches(np.ones((2, 3), np.float32)))
    traced, y, zero = jit.trace(model), jit.rand(2, 3), jit.tensor(0.0)
    for sign in (1, -1, 1):
        x = sign * jit.rand(2, 3)
        for one, other in zip(model(x, y, zero), traced(x, y, zero), strict=True):
            assert jit.allclose(one, other)
    assert traced.misses == 1 and "prim::If" in kinds(traced)


def test_a_trace_records_a_loop_of_any_number_of_trips(tmp_path):
    def halved(x, least):
        return jit.while_loop(lambda x, n: x.abs().max() > least, lambda x, n: (x / 2, n + 1), (x, jit.tensor(0)))

    jit.export_onnx(halved, (jit.ones(3), jit.tensor(0.1)), tmp_path / "halved.onnx")
    model = jit.import_onnx(tmp_path / "halved.onnx")
    traced = jit.trace(model)
    for least in (0.1, 0.01, 3.0, 0.1):
        x = jit.rand(3) + 0.5
        for one, other in zip(halved(x, jit.tensor(least)), traced(x, jit.tensor(least)), strict=True):
            assert jit.allclose(one, other)
    assert traced.misses == 1 and "prim::Loop" in kinds(traced)


def test_branches_of_other_sizes_are_decided_upon():
    then = graph([node("Identity", "x", "a")], [], [value("a")])
    other = graph([node("ReduceSum", "x", "b", keepdims=0)], [], [value("b")])
    nodes = [node("If", "p", "y", then_branch=then, else_branch=other)]
    model = model_of(nodes, {"p": np.array(True), "x": np.ones(3, np.float32)}, ["y"], 17)
    traced = jit.trace(ImportedModel(model))
    for p in (True, False, True, False):
        assert traced(jit.tensor(p), jit.ones(3)).tolist() == ([1, 1, 1] if p else 3)
    assert "prim::If" not in kinds(traced)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_trace_records_a_scan_of_any_length(tmp_path, reverse):
    def sums(xs):
        return jit.scan(lambda c, x: (c + x, c * x), jit.zeros(2), xs, dim=1, reverse=reverse)

    jit.export_onnx(sums, (jit.ones(2, 3),), tmp_path / "sums.onnx", dynamic_axes={"xs": {1: "n"}})
    model = jit.import_onnx(tmp_path / "sums.onnx")
    traced = jit.trace(model)
    for length in (3, 4, 6, 7):
        x = jit.rand(2, length)
        for one, two, three in zip(sums(x), traced(x), model(x), strict=True):
            assert jit.allclose(one, two) and jit.allclose(one, three)
    assert traced.misses == 2 and "prim::Scan" in kinds(traced)


@pytest.mark.parametrize("inward", [0, 1])
@pytest.mark.parametrize("outward", [0, 1])
def test_directions_of_a_recorded_scan(inward, outward):
    body = graph(
        [node("Add", "c x", "d"), node("Mul", "c x", "y")],
        [value("c", shape=[2]), value("x", shape=[2])], [value("d", shape=[2]), value("y", shape=[2])],
    )  # fmt: skip
    nodes = [node("Scan", "c0 xs", "last ys", body=body, num_scan_inputs=1, scan_input_directions=[inward],
                  scan_output_directions=[outward], scan_output_axes=[1])]  # fmt: skip
    given = {"c0": random(2), "xs": random(3, 2, seed=1)}
    traced = jit.trace(ImportedModel(model_of(nodes, given, ["last", "ys"], 17)))
    wanted = by_runtime(model_of(nodes, given, ["last", "ys"], 17), given)
    for found, expected in zip(traced(*map(jit.tensor, given.values())), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert "prim::Scan" in kinds(traced)
