"""Kernels for GPUs, run thread by thread on the CPU: they agree with the CPU's. `test_ptxas` has their assembly."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jit.ir.dtypes import float32
from jit.passes.fuse import fuse
from jit.runtime.gpu import schedule as gpu_schedule
from jit.runtime.gpu.device import DeviceKernel, device_kernel
from jit.runtime.gpu.schedule import divider
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.fusion import group_nest, supports
from jit.runtime.kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce, one_step, pointwise_nest

from ..passes.test_fuse_rows import ONE_KERNEL, recorded
from .grid_emulation import GPU, emulated, launch
from .kernels_under_test import same_bits
from .nests_under_test import embedding, error_bound, lstm_cell, product, reduction, running, softmax
from .test_ptx_registry import DTYPES, kernels, nodes, operators

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]
Built = tuple[Nest, list[Array], list[Array]]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def group_of(name: str) -> Built:
    """The one kernel of a test of fusion, with inputs and room for outputs."""
    return fused(*ONE_KERNEL[name])


def fused(function: Any, arrays: list[Array]) -> Built:
    """The one kernel that a function becomes, with inputs and room for outputs."""
    graph = recorded(function, *arrays)
    assert fuse(graph, supports)
    (group,) = graph.nodes
    given = dict(zip(graph.inputs, arrays, strict=True))
    inputs = [given[v] for v in group.inputs]
    outputs = [np.zeros(v.type.sizes, v.type.dtype.numpy) for v in group.outputs]  # type: ignore[attr-defined]
    return group_nest(group.attributes["body"], [Buffer.like(a) for a in inputs]), inputs, outputs


def five() -> dict[str, Built]:
    """What a nest can say, in five, and reductions by every monoid."""
    x, out = normal(9, 130), np.zeros((9, 130), np.float32)
    gates, cell = normal(4, 40), normal(4, 10, seed=1)
    weight, tokens = normal(7, 33), np.array([[0, 6, 2], [3, 3, 1]])
    a, b, bias = normal(19, 23), normal(23, 37, seed=1), normal(37, seed=2)
    hidden, state = np.zeros((4, 10), np.float32), np.zeros((4, 10), np.float32)
    looked_up, multiplied = np.zeros((2, 3, 33), np.float32), np.zeros((19, 37), np.float32)
    found: dict[str, Built] = {
        "softmax of rows": (softmax(x, out, 1), [x], [out]),
        "softmax of columns": (softmax(x, out, 0), [x], [out.copy()]),
        "lstm cell": (lstm_cell(gates, cell, hidden, state), [gates, cell], [hidden, state]),
        "embedding": (embedding(weight, tokens, looked_up), [weight, tokens], [looked_up]),
        "product": (
            product(a, b, bias, multiplied, lambda m, x, c: m.maximum(x + c, 0)), [a, b, bias], [multiplied]
        ),
    }  # fmt: skip
    for dim in (0, 1):
        found[f"running sum {dim}"] = (running(x, out, dim), [x], [out.copy()])
        for monoid in ("sum", "prod", "max", "min", "argmax", "argmin"):
            reduced = np.zeros(x.shape[1 - dim], np.int64 if monoid.startswith("arg") else np.float32)
            found[f"{monoid} {dim}"] = (reduction(monoid, x, reduced, (dim,)), [x], [reduced])
    return found


FIVE = five()


def agree(nest: Nest, inputs: list[Array], outputs: list[Array], rtol: float) -> None:
    wanted = [a.copy() for a in outputs]
    compile_nest(nest)(inputs, wanted)
    emulated(nest, inputs, outputs)
    for found, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", FIVE)
def test_threads_compute_what_lanes_compute(name):
    agree(*FIVE[name], rtol=2e-6)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_threads_compute_groups(name):
    agree(*group_of(name), rtol=2e-6)


# -- where threads run ---------------------------------------------------------------------------------------------

M = 1
"""Multiprocessors, so few that threads have to take several points one after the other."""


def equal_bits(nest: Nest, inputs: list[Array], outputs: list[Array]) -> DeviceKernel:
    """A kernel of few blocks stores what the CPU's stores, bit for bit."""
    wanted = [a.copy(order="K") for a in outputs]
    compile_nest(nest)(inputs, wanted)
    kernel = device_kernel(nest, GPU, M)
    launch(kernel, inputs, outputs)
    for found, expected in zip(outputs, wanted, strict=True):
        same_bits(found, expected)
    return kernel


def moved(array: Array, by: int) -> Array:
    """The same in memory that begins `by` elements behind a multiple of 64 bytes."""
    whole = np.zeros(array.size + 64 + by, array.dtype)
    start = (-whole.ctypes.data % 64) // array.itemsize + by
    found = whole[start : start + array.size].reshape(array.shape)
    found[...] = array
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "uint8"])
@pytest.mark.parametrize("count", [4096, 300_003, 5])
@pytest.mark.parametrize("by", [0, 1])
def test_threads_take_vectors(dtype, count, by, rng):
    x, y = (moved(rng.integers(0, 9, count).astype(dtype), where) for where in (0, by))
    out = moved(np.zeros(count, dtype), 0)
    kernel = equal_bits(pointwise_nest(lambda m, a, b: a * b + a, [x, y], [out]), [x, y], [out])
    assert kernel.grid.side == (min(16 // x.itemsize, 8) if count > 5 else 1)
    assert kernel.grid.numbers["turns",] == (-(-count // (32 * 256 * kernel.grid.lanes)))


@pytest.mark.parametrize("shape", [(7, 5, 64), (7, 5, 63), (3, 1001), (9, 6)])
def test_rows_and_columns_meet_in_vectors(shape, rng):
    x, row, column = (rng.normal(size=s).astype(np.float32) for s in (shape, shape[-1:], (*shape[:-1], 1)))
    out = np.zeros(shape, np.float32)
    nest = pointwise_nest(lambda m, a, b, c: a * c + b, [x, row, column], [out])
    kernel = equal_bits(nest, [x, row, column], [out])
    assert kernel.grid.side == (4 if shape[-1] % 4 == 0 or shape[-1] > 64 else 1)


def test_results_may_take_the_place_of_operands(rng):
    x = rng.integers(1, 9, 10_001)
    wanted = 720 // x
    launch(device_kernel(pointwise_nest(lambda m, a: 720 // a, [x], [x]), GPU, M), [x], [x])
    assert np.array_equal(x, wanted)


def whole_numbers(*shape: int) -> Array:
    """Floats whose sums are exact, in whatever order."""
    return np.round(normal(*shape) * 4)


@pytest.mark.parametrize(
    ("length", "teams", "piece"), [(256, 1, 128), (257, 2, 4), (8193, 32, 8), (20_000, 32, 12), (300_001, 32, 76)]
)
def test_teams_share_a_long_row(length, teams, piece):
    """No piece is shorter than the four turns whose loads go ahead."""
    x, out = whole_numbers(2, length), np.zeros(2, np.float32)
    kernel = equal_bits(reduction("sum", x, out, (1,)), [x], [out])
    assert (kernel.grid.teams, kernel.grid.threads) == (teams, 32 * teams if teams > 1 else 256)
    assert teams == 1 or kernel.grid.piece == piece


@pytest.mark.parametrize("shape", [(6, 5, 70), (33, 2, 300), (40, 3, 9), (5, 200, 1)])
def test_teams_share_the_outer_loop_of_a_row(shape):
    """As in the statistics of a batch norm."""
    x, out = whole_numbers(*shape), np.zeros(shape[1], np.float32)
    kernel = equal_bits(reduction("sum", x, out, (0, 2)), [x], [out])
    assert kernel.grid.teams == {6: 8, 33: 32, 40: 32, 5: 2}[shape[0]]


@pytest.mark.parametrize(("shape", "teams"), [((1000, 8), 32), ((129, 64), 32), ((16, 64), 4), ((4, 64), 1)])
def test_teams_share_columns(shape, teams):
    x, out = whole_numbers(*shape), np.zeros(shape[1], np.float32)
    kernel = equal_bits(reduction("sum", x, out, (0,)), [x], [out])
    assert kernel.grid.teams == teams


@pytest.mark.parametrize("dims", [(0,), (1,)])
def test_sums_that_teams_share_stay_within_their_bound(dims):
    x = np.random.default_rng(1).random((301, 307), np.float32)
    out = np.zeros(x.sum(dims).shape, np.float32)
    kernel = device_kernel(reduction("sum", x, out, dims), GPU)
    launch(kernel, [x], [out])
    assert kernel.grid.teams > 1
    assert np.all(abs(out - x.sum(dims, dtype=np.float64)) <= error_bound(x, dims))


def test_teams_share_positions_in_columns():
    x, places = np.round(normal(4500, 256)), np.zeros(256, np.int64)
    assert equal_bits(reduction("argmax", x, places, (0,)), [x], [places]).grid.teams == 16


def test_teams_are_so_few_that_their_results_find_room():
    x, out = whole_numbers(4500, 256), np.zeros(256, np.float32)
    nest = reduction("sum", x, out, (0,))
    both = (Reduce("sum", (0,), float32), Reduce("sum", (1,), float32))
    first = replace(nest.steps[0], results=both, body=lambda m, a: (a, a * a))
    last = replace(nest.steps[1], reads=(Local(0), Local(1)), body=lambda m, a, b: b - a)
    kernel = equal_bits(replace(nest, steps=(first, last)), [x], [out])
    assert kernel.grid.teams == 16 and "[32768 x i8]" in kernel.llvm_ir


@pytest.mark.parametrize(("length", "teams"), [(16, 1), (17, 2), (100, 8), (1000, 16), (5003, 16)])
@pytest.mark.parametrize("monoid", ["sum", "max"])
def test_teams_share_a_scan(length, teams, monoid):
    x = normal(3, length)
    out = np.zeros_like(x)
    kernel = equal_bits(running(x, out, 1, monoid), [x], [out])
    assert (kernel.grid.group, kernel.grid.teams) == (16, teams)


LENGTHS = [1, 3, 16, 33, 64, 100, 1000, 4097, 8300, 20_000]


@pytest.fixture
def alone(monkeypatch):
    """No team shares a row, as where there are many of them."""
    monkeypatch.setattr(gpu_schedule, "ENOUGH", 1)


@pytest.mark.parametrize("length", LENGTHS)
def test_threads_of_a_row_give_the_bits_of_lanes(length, alone):
    x = normal(5, length)
    for monoid in ("sum", "max", "argmin"):
        reduced = np.zeros(5, np.int64 if monoid == "argmin" else np.float32)
        equal_bits(reduction(monoid, x, reduced, (1,)), [x], [reduced])
    out = np.zeros_like(x)
    kernel = equal_bits(softmax(x, out, 1), [x], [out])
    assert bool(kernel.grid.capacity) == (3 < length <= 8192)


@pytest.mark.parametrize("length", LENGTHS[:-1])
@pytest.mark.parametrize("columns", [37, 64])
def test_columns_have_the_bits_of_lanes(length, columns, alone):
    x, out = normal(length, columns), np.zeros(columns, np.float32)
    equal_bits(reduction("sum", x, out, (0,)), [x], [out])
    whole = np.zeros_like(x)
    equal_bits(softmax(x, whole, 0), [x], [whole])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "bool"])
@pytest.mark.parametrize("shape", [(64, 96), (33, 70), (16, 40), (3, 40, 33)])
def test_transposes_go_through_squares(shape, dtype, rng):
    """Operands that lie along the rows, along the columns, and a result of either kind."""
    x, y, z = (rng.integers(0, 2, s).astype(dtype) for s in (shape, (*shape[:-2], *shape[:-3:-1]), shape[-1:]))
    turned, body = y.swapaxes(-1, -2), lambda m, a, b, c: m.where(a > b, c, b)
    for out in (np.zeros(shape, dtype), np.zeros(y.shape, dtype).swapaxes(-1, -2)):
        kernel = equal_bits(pointwise_nest(body, [x, turned, z], [out]), [x, turned, z], [out])
        assert kernel.grid.kind == "squares"
        assert kernel.ptx.count("ld.global") <= 12, "four points of three operands"
        assert kernel.ptx.count("bar.sync") + kernel.ptx.count("barrier.sync") == 1


@pytest.mark.parametrize(("shape", "kind"), [((15, 64), "points"), ((64, 15), "points"), ((16, 16), "squares")])
def test_narrow_transposes_are_read_as_they_lie(shape, kind):
    x, out = normal(*shape), np.zeros(shape[::-1], np.float32)
    assert equal_bits(pointwise_nest(lambda m, a: a * 2, [x.T], [out]), [x.T], [out]).grid.kind == kind


def test_rows_beyond_the_last_store_nothing(alone):
    """Those that the last block has no row for do the last again, which may have been overwritten by then."""
    whole = normal(3, 4, 40)
    for x in (whole[..., :33], whole[..., :33].T):
        nest = reduction("sum", x, np.zeros(3 if x.shape[0] == 3 else 33, np.float32), (1, 2))
        store = NestStep((nest.steps[0].reads[0], Local(0)), (nest.steps[0].reads[0],), lambda m, a, b: a - b)  # type: ignore[arg-type]
        nest = replace(nest, outputs=nest.inputs, steps=(nest.steps[0], store))
        wanted = x - x.astype(np.float64).sum((1, 2), keepdims=True)
        launch(device_kernel(nest, GPU), [x], [x])
        np.testing.assert_allclose(x, wanted, rtol=1e-4, atol=1e-4)


def test_divisions_by_numbers_of_the_launch(rng):
    counts = [*range(1, 70), 255, 256, 257, 2**16 + 1, 10**9, 2**31 - 1, *rng.integers(1, 2**31, 300)]
    for count in map(int, counts):
        times, shift = divider(count)
        assert times < 2**32
        for n in (0, count - 1, count, 7 * count - 1, 2**31 - 1, *map(int, rng.integers(0, 2**31, 20))):
            n %= 2**31
            assert ((n * times >> 32) + n) >> shift == n // count


@pytest.mark.parametrize(("rows", "divides"), [(1 << 16, False), (1 << 17, True)])
def test_more_units_than_32_bits_count_are_divided(rows, divides):
    x = Buffer(float32, (rows, 1 << 16), (1 << 16, 1))
    row = Buffer(float32, (1 << 16,), (1,))
    reads = Access(0, x.strides), Access(1, (0, 1))
    nest = one_step(x.sizes, (x, row), (x,), reads, reads[:1], lambda m, a, b: a + b)
    kernel = device_kernel(nest, GPU)
    assert kernel.grid.blocks == 32 * 132
    assert (" udiv i64 %" in kernel.llvm_ir) is divides


# -- every pointwise operator --------------------------------------------------------------------------------------


BITWISE = re.compile(r"libm_|call double @|\bfma\b")


@operators
def test_threads_compute_every_operator(op, rng):
    """In one dtype in CI: float32 where it takes that. What calls no function of C has the same bits."""
    found = {dtype: (cpu, gpu) for dtype, cpu, gpu in kernels(op)[0]}
    if not found:
        assert not any(nodes(op, dtype) and not kernels(op)[1] for dtype in DTYPES)
        return
    cpu, gpu = found.get("float32") or next(iter(found.values()))
    inputs = [some(b, rng) for b in cpu.nest.inputs]
    outputs = [np.zeros(b.sizes, b.dtype.numpy) for b in cpu.nest.outputs]
    wanted = [a.copy() for a in outputs]
    cpu(inputs, wanted)
    launch(gpu, inputs, outputs)
    for a, b in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-6 if a.dtype.kind not in "iub" else 0, atol=1e-37)


def some(buffer: Buffer, rng: np.random.Generator) -> Array:
    if buffer.dtype.is_floating_point:
        return rng.uniform(0.05, 0.95, buffer.sizes).astype(buffer.dtype.numpy)
    return rng.integers(1, 2 if buffer.dtype.name == "bool" else 6, buffer.sizes).astype(buffer.dtype.numpy)
