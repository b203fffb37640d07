"""Sequences and optionals: positions, splits and joins, what stays on the host."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from jit.ir.errors import ModelError
from jit.onnx.backend import prepare

from .checking import check, check_gradients, model_of, random

X = [random(2, 3, seed=seed) for seed in range(4)]
GIVEN = dict(zip("abcd", X, strict=True))


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def with_position(kind, operands, position):
    """A list of three tensors, and an operator at a position that is a constant."""
    nodes = [node("SequenceConstruct", "a b c", "s"), node(kind, f"s {operands} at", "y")]
    model = model_of(nodes, GIVEN, ["y"], 17)
    model.graph.initializer.append(numpy_helper.from_array(np.array(position, np.int32), "at"))
    return model


@pytest.mark.parametrize("position", [0, 1, 2, -1, -3])
def test_positions(position):
    a, b, c, d = X
    check(with_position("SequenceAt", "", position), GIVEN, [[a, b, c][position]])
    left = [a, b, c]
    del left[position]
    check(with_position("SequenceErase", "", position), GIVEN, [left])
    more = [a, b, c]
    more.insert(position, d)
    check(with_position("SequenceInsert", "d", position), GIVEN, [more])


def test_the_end_is_a_place_to_insert():
    check(with_position("SequenceInsert", "d", 3), GIVEN, [X])


def test_positions_may_be_left_out():
    nodes = [node("SequenceConstruct", "a b c", "s"), node("SequenceErase", "s", "less"),
             node("SequenceInsert", "less d", "y"), node("SequenceLength", "y", "n")]  # fmt: skip
    check(model_of(nodes, GIVEN, ["y", "n"], 17), GIVEN, [[X[0], X[1], X[3]], np.int64(3)])


@pytest.mark.parametrize(("kind", "operands", "position"), [
    ("SequenceAt", "", 3), ("SequenceAt", "", -4), ("SequenceErase", "", 3), ("SequenceInsert", "d", 4),
    ("SequenceInsert", "d", -4),
])  # fmt: skip
def test_positions_outside(kind, operands, position):
    with pytest.raises(ModelError, match=f"3 elements has no position {position}"):
        prepare(with_position(kind, operands, position), traced=False).run(GIVEN)


@pytest.mark.parametrize(("split", "axis", "keepdims", "places"), [
    (None, 0, 1, [1, 2, 3, 4, 5]), (None, -1, 0, [1, 2, 3]), (2, 0, 1, [2, 4]), (3, 0, 1, [3]), (7, 0, 1, []),
    ([1, 3, 2], 0, 1, [1, 4]), ([4], -1, 0, []), ([0, 4], 1, 1, [0]),
])  # fmt: skip
def test_splits(split, axis, keepdims, places):
    x = random(6, 4)
    attributes = {"axis": axis, "keepdims": keepdims}
    splitting = node("SplitToSequence", "x" if split is None else "x split", "y", **attributes)
    model = model_of(splitting, {"x": x}, ["y"], 24)
    if split is not None:
        model.graph.initializer.append(numpy_helper.from_array(np.array(split, np.int64), "split"))
    parts = np.split(x, places, axis)
    expected = [np.squeeze(part, axis) for part in parts] if split is None and not keepdims else parts
    check(model, {"x": x}, [expected])


@pytest.mark.parametrize(("axis", "new"), [(0, 0), (1, 0), (-1, 0), (0, 1), (-1, 1), (2, 1)])
def test_joins(axis, new):
    nodes = [node("SequenceConstruct", "a b c d", "s"), node("ConcatFromSequence", "s", "y", axis=axis, new_axis=new)]
    check(model_of(nodes, GIVEN, ["y"], 17), GIVEN, [np.stack(X, axis) if new else np.concatenate(X, axis)])


def test_sizes_in_sequences_stay_on_the_host():
    """A shape that goes through a sequence is no data: one recording reshapes tensors of all sizes."""
    nodes = [node("Shape", "x", "rows", start=0, end=1), node("Shape", "x", "columns", start=1, end=2),
             node("SequenceConstruct", "columns rows", "s"), node("ConcatFromSequence", "s", "shape", axis=0),
             node("Reshape", "x shape", "y")]  # fmt: skip
    prepared = prepare(model_of(nodes, {"x": X[0]}, ["y"], 17))
    for shape in ((2, 3), (4, 5), (1, 7), (6, 2)):
        x = random(*shape)
        np.testing.assert_array_equal(prepared.run([x])[0], x.reshape(shape[::-1]))


def test_nothing_cannot_be_joined():
    nodes = [node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "y", axis=0)]
    with pytest.raises(ModelError, match="without elements"):
        prepare(model_of(nodes, {"x": X[0]}, ["y"], 17), traced=False).run([X[0]])


def mapped(operands, outputs, nodes, names):
    body = helper.make_graph(
        nodes, "body", [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in names],
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs],
    )  # fmt: skip
    return helper.make_node("SequenceMap", operands, [f"{name}_all" for name in outputs], body=body)


def test_maps_over_several_sequences():
    each = [node("Add", "p q", "u"), node("Mul", "u r", "v")]
    nodes = [node("SequenceConstruct", "a b", "s"), node("SequenceConstruct", "c d", "t"),
             mapped(["s", "t", "a"], ["u", "v"], each, ["p", "q", "r"])]  # fmt: skip
    a, b, c, d = X
    check(model_of(nodes, GIVEN, ["u_all", "v_all"], 17), GIVEN, [[a + c, b + d], [(a + c) * a, (b + d) * a]])


def test_maps_over_nothing_give_nothing():
    each = [node("Neg", "p", "u"), node("Abs", "p", "v")]
    nodes = [node("SequenceEmpty", "", "s"), mapped(["s"], ["u", "v"], each, ["p"])]
    found = prepare(model_of(nodes, GIVEN, ["u_all", "v_all"], 17), traced=False).run(GIVEN)
    assert found == ([], [])


def test_maps_want_sequences_of_one_length():
    nodes = [node("SequenceConstruct", "a b", "s"), node("SequenceConstruct", "c", "t"),
             mapped(["s", "t"], ["u"], [node("Add", "p q", "u")], ["p", "q"])]  # fmt: skip
    with pytest.raises(ModelError, match="same length"):
        prepare(model_of(nodes, GIVEN, ["u_all"], 17), traced=False).run(GIVEN)


def test_gradients():
    nodes = [node("SplitToSequence", "a", "s", axis=1), mapped(["s"], ["u"], [node("Sin", "p", "u")], ["p"]),
             node("ConcatFromSequence", "u_all", "y", axis=0)]  # fmt: skip
    check_gradients(model_of(nodes, {"a": X[0].astype(np.float64)}, ["y"], 17), {"a": X[0].astype(np.float64)}, ["a"])


def test_optionals():
    nodes = [node("Optional", "a", "o"), node("OptionalHasElement", "o", "has"), node("OptionalGetElement", "o", "y"),
             helper.make_node("OptionalHasElement", [], ["nothing"])]  # fmt: skip
    given = {"a": X[0]}
    check(model_of(nodes, given, ["has", "y", "nothing"], 18), given, [np.bool_(True), X[0], np.bool_(False)])


def test_an_empty_optional_has_no_element():
    kind = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
    nodes = [helper.make_node("Optional", [], ["o"], type=kind), node("OptionalGetElement", "o", "y")]
    with pytest.raises(ModelError, match="no element"):
        prepare(model_of(nodes, {"a": X[0]}, ["y"], 18), traced=False).run([X[0]])
