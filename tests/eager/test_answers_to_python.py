"""What tensors answer where Python, or a program by an old way of writing, asks in its own manner."""

from typing import Any

import numpy as np
import pytest

import jit

NAMES = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def answering(*names):
    """An object whose class answers to these methods, whatever stands on the other side."""
    return type("Answering", (), {f"__{name}__": lambda self, other: "theirs" for name in names})()


@pytest.mark.parametrize("name", NAMES)
def test_operators_leave_classes_that_answer_to_python(name):
    assert getattr(jit.ones(2, 2), f"__{name}__")(answering(f"r{name}")) is NotImplemented


@pytest.mark.parametrize("name", MIRRORED)
def test_comparisons_leave_classes_that_answer_to_python(name):
    assert getattr(jit.ones(2, 2), f"__{name}__")(answering(MIRRORED[name])) is NotImplemented


@pytest.mark.parametrize("name", [name for name in NAMES if name != "matmul"])
def test_operators_in_place_leave_classes_that_answer_to_python(name):
    assert getattr(jit.ones(2, 2), f"__i{name}__")(answering(f"r{name}")) is NotImplemented


@pytest.mark.parametrize("dtype", [jit.float32, jit.int64, jit.bool], ids=str)
@pytest.mark.parametrize("form", ["", "r", "i"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "matmul"])
def test_classes_without_an_answer_are_left_to_python(form, name, dtype):
    assert getattr(jit.ones(2, 2, dtype=dtype), f"__{form}{name}__")(answering()) is NotImplemented


@pytest.mark.parametrize("name", [*MIRRORED, "matmul", "rmatmul"])
def test_comparisons_and_products_too(name):
    assert getattr(jit.ones(2, 2), f"__{name}__")(answering()) is NotImplemented


@pytest.mark.parametrize("use", [lambda t, o: t + o, lambda t, o: o - t, lambda t, o: t @ o, lambda t, o: t < o])
def test_python_refuses_classes_without_an_answer(use):
    with pytest.raises(TypeError, match=r"Tensor.*Answering|Answering.*Tensor"):
        use(jit.ones(2, 2), answering())


def test_layers_are_refused_with_a_sentence():
    layer: Any = jit.nn.ReLU()
    with pytest.raises(jit.SchemaError, match="declaration"):
        jit.ones(2) + layer


@pytest.mark.parametrize("other", [None, "text", [1, 2], {}, (1,)])
def test_pythons_own_values_are_refused_with_a_sentence(other):
    with pytest.raises(jit.SchemaError, match="declaration"):
        jit.ones(2) - other


def test_slices_of_sizes_are_sizes():
    sizes = jit.ones(2, 3, 4).shape
    assert sizes[1:].numel() == 12 and sizes[:0].numel() == 1 and sizes[::2] == (2, 4)
    assert type(sizes[-1]) is int and type(sizes[1:]) is jit.Size


def test_tensors_of_one_element_are_numbers_in_lists():
    one, row = jit.tensor([1]), jit.tensor([2, 3])
    assert jit.tensor([one, 2, row[0]]).tolist() == [1, 2, 2]
    assert jit.tensor([(one, 5), (row[1], 6)]).tolist() == [[1, 5], [3, 6]]
    assert jit.tensor([np.array([1]), np.array([2])]).shape == (2, 1)


@pytest.mark.parametrize("sizes", [(2,), (7,), (2, 2), ()])
def test_out_takes_the_sizes_of_the_result(sizes):
    """With a warning, which the empty tensor that is meant for it gets not."""
    out = jit.full(sizes, 9.0)
    with pytest.warns(UserWarning, match="takes those of the result"):
        assert jit.index_select(jit.arange(6.0), 0, jit.tensor([5, 1, 3]), out=out) is out
    assert out.tolist() == [5, 1, 3] and out.stride() == (1,)
    empty = jit.empty(0)
    jit.index_select(jit.arange(6.0), 0, jit.tensor([5, 1, 3]), out=empty)
    assert empty.tolist() == [5, 1, 3]


def test_out_that_is_a_part_of_memory_takes_what_lies_after_it():
    memory = jit.arange(10.0)
    part = memory[2:5]
    with pytest.warns(UserWarning, match="out has sizes"):
        jit.add(jit.ones(5), 1, out=part)
    assert part.tolist() == [2.0] * 5 and memory.tolist() == [0, 1, 2, 2, 2, 2, 2, 7, 8, 9]


def test_ranges_are_written_into_out():
    for numbers, expected in (((1, 0, -1), [1.0, 0.0]), ((0.5, 2), [0.5, 1.5]), ((0, 1, 0.5), [0.0, 0.5, 1.0])):
        out = jit.tensor(())
        assert jit.range(*numbers, out=out) is out and out.tolist() == expected
        assert jit.range(*numbers).tolist() == expected
    table = jit.zeros(2, 3)
    for fill in (jit.range, lambda first, last, out: jit.arange(first, last + 1, out=out)):
        fill(0, 3, out=table.narrow(1, 1, 2))
        assert table.tolist() == [[0, 0, 1], [0, 2, 3]]
    whole = jit.zeros(2, dtype=jit.int64)
    assert jit.range(3, 4, out=whole).tolist() == whole.tolist() == [3, 4]


def test_places_as_many_times_as_counts_say():
    assert jit.repeat_interleave(jit.tensor([2, 0, 3])).tolist() == [0, 0, 2, 2, 2]
    assert jit.repeat_interleave(jit.tensor([1, 1]), output_size=2).tolist() == [0, 1]
    assert jit.repeat_interleave(jit.tensor([], dtype=jit.int64)).shape == (0,)
    f = jit.trace(lambda n: jit.repeat_interleave(n, output_size=3))
    for counts in ([2, 1], [0, 3], [1, 2]):
        n = jit.tensor(counts)
        assert f(n).tolist() == jit.repeat_interleave(n).tolist()


def test_inference_tensors_are_told_by_a_function():
    with jit.inference_mode():
        made = jit.ones(1)
    assert jit.is_inference(made) and not jit.is_inference(made.clone())


def test_modes_of_determinism():
    assert not jit.is_deterministic_algorithms_warn_only_enabled()
    try:
        jit.use_deterministic_algorithms(True, warn_only=True)
        assert jit.is_deterministic_algorithms_warn_only_enabled() and jit.are_deterministic_algorithms_enabled()
    finally:
        jit.use_deterministic_algorithms(False)
    assert not jit.is_deterministic_algorithms_warn_only_enabled()


@pytest.mark.parametrize(
    "make", [lambda: jit.ones(2), lambda: jit.ones(2, requires_grad=True), lambda: jit.nn.Linear(1, 1).weight]
)
@pytest.mark.parametrize(
    "name", ["data", "requires_grad", "grad_fn", "_grad_fn", "_array", "_storage", "shape", "no_such"]
)
def test_fields_of_tensors_are_not_deleted(make, name):
    t = make()
    with pytest.raises(jit.UsageError, match=f"'{name}' is no attribute") as told:
        delattr(t, name)
    assert isinstance(told.value, AttributeError)
    assert t.sum().item() == t.sum().item() and t.requires_grad is make().requires_grad


def test_gradients_and_attributes_of_a_program_are_deleted():
    t: Any = jit.ones(2, requires_grad=True)
    t.sum().backward()
    t.mark = 3
    del t.grad, t.mark
    assert t.grad is None and not hasattr(t, "mark")
