"""Large pointwise operators: the bits of the same operator on small pieces, row-major, whatever the operands are."""

import itertools
import math

import numpy as np
import pytest

import jit
from jit.ir.op import REGISTRY
from jit.runtime.arrays import blocks, large
from jit.runtime.arrays import execute as kernels
from jit.runtime.arrays.execute import execute

RNG = np.random.default_rng(0)
SHAPES = [(1 << 18,), (3, 100_003), (700, 1, 600), (2, 5, 70_001)]


def elements(shape, dtype="float32"):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(1, 100, shape).astype(dtype)
    return (RNG.random(shape) * 3 + 0.1).astype(dtype)


def laid_out(array, layout):
    """The same elements, lying otherwise in memory."""
    if layout == "transposed":
        return array.T.copy().T
    if layout == "strided":
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "reversed":
        return array[..., ::-1].copy()[..., ::-1]
    return array


def check(name, *values):
    """The result on elements from everywhere is what the operator makes of these alone."""
    op = REGISTRY[name]
    shape = np.broadcast_shapes(*(v.shape for v in values if isinstance(v, np.ndarray)))
    (result,) = execute(op, values)
    assert result.shape == shape and result.flags.c_contiguous
    assert result.nbytes >= blocks.LARGE, "this tests nothing"
    at = np.unravel_index(RNG.integers(0, math.prod(shape), 5000), shape)
    chosen = [np.broadcast_to(v, shape)[at] if isinstance(v, np.ndarray) else v for v in values]
    (expected,) = execute(op, chosen)
    assert result.dtype == expected.dtype
    assert np.array_equal(result[at], expected, equal_nan=result.dtype.kind in "fc")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "reversed"])
@pytest.mark.parametrize("name", ["aten::mul", "aten::sigmoid", "aten::hypot"])
def test_layouts(name, layout, shape):
    operands = [laid_out(elements(shape), layout), elements(shape)]
    check(name, *operands[: len(REGISTRY[name].tensors)])


@pytest.mark.parametrize("a, b", list(itertools.permutations([(600, 1, 700), (1, 500, 1), (700,), (), (1, 1)], 2)))
def test_broadcasting(a, b):
    if math.prod(np.broadcast_shapes(a, b)) < 1 << 18:
        a = (600, 1, 700)
    check("aten::add", elements(a), elements(b), 1)
    check("aten::add", elements(a), elements(b), 0.5)
    check("aten::where.self", elements(b, "bool"), elements(a), elements(a))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8", "bool", "complex64"])
def test_dtypes(dtype):
    shape = (1 << 20,)  # of bytes, too
    check("aten::add", elements(shape, dtype), elements(shape), 1)
    check("aten::mul", elements(shape), elements(shape, dtype))
    check("aten::mul", elements(shape, dtype), elements(shape, dtype))
    check("aten::mul", elements(shape, dtype), True)
    check("aten::exp", elements(shape, dtype))
    check("aten::eq", elements(shape, dtype), elements(shape, dtype))


ROUGH = {"aten::pow", "aten::fmod"}
SINGLE = sorted(op.name for op in REGISTRY.values() if op.into is not None)


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_single_functions_do_what_the_bodies_do(name, dtype):
    op = REGISTRY[name]
    values = [elements((1 << 18,), dtype) for _ in op.tensors]
    values += [1 for a in op.arguments if a.name == "alpha"]
    check(name, *values)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 1e-42, -200.0])
@pytest.mark.parametrize("name", ["aten::relu", "aten::sigmoid", "aten::tanh", "aten::neg"])
def test_special_numbers(name, special):
    x = elements((1 << 18,))
    x[::3] = special
    check(name, x)
    (result,) = execute(REGISTRY[name], [x])
    (few,) = execute(REGISTRY[name], [x[:7].copy()])
    assert np.array_equal(np.signbit(result[:7]), np.signbit(few))


def test_an_error_in_the_last_part_is_raised():
    x = np.ones(1 << 20, np.int32)
    x[-1] = 0
    with pytest.raises(jit.Error, match="divided by zero"):
        execute(REGISTRY["aten::remainder"], [x, x])


def test_operands_that_do_not_go_together():
    with pytest.raises(jit.Error, match="size"):
        execute(REGISTRY["aten::mul"], [elements((1000, 700)), elements((1000, 699))])


def test_parts_cover_every_element_once():
    for shape in [(), (5,), (40,), (2, 3, 4), (7, 1, 9), (3, 30), (30, 3), (2, 11, 10)]:
        count = np.zeros(shape, int)
        for part in large.parts(shape, 10):
            assert count[part].size <= 10
            count[part] += 1
        assert (count == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "complex128"])
@pytest.mark.parametrize("shape", [(1024, 256), (256, 1024), (4, 256, 512), (1000, 300), (2048, 33)])
def test_row_major(shape, dtype):
    array = elements(shape, dtype)
    for view in (array.T.copy().T, array.swapaxes(-1, -2).copy().swapaxes(-1, -2), array[::-1], array):
        made = large.row_major(view)
        assert made.flags.c_contiguous and not np.shares_memory(made, view)
        assert np.array_equal(made, view)


def test_memory_of_results_is_used_again():
    x = jit.ones(1 << 20)
    y = x * 2
    where = y.data_ptr()
    del y
    assert (x * 3).data_ptr() == where


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("rows, inner, columns", [(16, 256, 1024), (2, 3, 8), (1, 5, 40), (64, 0, 256), (65, 7, 300)])
def test_products_with_few_rows(rows, inner, columns, dtype):
    x, w = elements((rows, inner), dtype), elements((columns, inner), dtype)
    (result,) = execute(REGISTRY["aten::mm"], [x, w.T])
    assert result.dtype == x.dtype and result.flags.c_contiguous
    assert np.allclose(result, np.einsum("ri,ci->rc", x, w), rtol=1e-4)


def test_no_warnings_and_none_silenced_for_others():
    x = np.zeros(3, np.float32)
    with np.errstate(all="raise"):
        before = np.geterr()
        execute(REGISTRY["aten::div"], [x, x])
        assert np.geterr() == before
        with pytest.raises(jit.Error):
            execute(REGISTRY["aten::mul"], [x, np.zeros(2, np.float32)])
        assert np.geterr() == before


def test_silence_where_numpy_keeps_it_elsewhere(monkeypatch):
    monkeypatch.setattr(kernels, "_warnings", kernels._Warnings())
    monkeypatch.setattr(kernels, "_SILENCE", dict.fromkeys(("divide", "over", "under", "invalid"), "ignore"))
    test_no_warnings_and_none_silenced_for_others()
