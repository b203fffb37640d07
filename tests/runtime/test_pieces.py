"""Few long rows on a GPU, cut into pieces: how many, and that no point is left out or counted twice."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jit.ir.dtypes import float32
from jit.ir.errors import CompileError
from jit.ir.size_conditions import SizeConditions, compiled
from jit.ir.sizes import SizeSymbol, deciding
from jit.runtime.cuda import launching
from jit.runtime.cuda.devices import open_device
from jit.runtime.gpu import pieces
from jit.runtime.gpu.device import device_kernel
from jit.runtime.gpu.pieces import in_pieces, pieces_of
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce
from jit.runtime.kernels.split import Split
from tests.ptx.nests import interpreted

from .grid_emulation import GPU
from .interpreting_driver import InterpretingDriver
from .nests_under_test import error_bound, product, reduction, running, softmax

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]
DIALECT = GPU.family.dialect
assert DIALECT is not None


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 128 points."""
    monkeypatch.setattr(pieces, "PIECE", 128)


def cut(nest: Nest) -> Split:
    return in_pieces(nest, DIALECT)  # type: ignore[arg-type]


def empty_sum(shape: tuple[int, ...], dims: tuple[int, ...]) -> Nest:
    x = np.empty(shape, np.float32)
    return reduction("sum", x, np.empty([n for d, n in enumerate(shape) if d not in dims], np.float32), dims)


# -- where rows are cut --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [(70_001,), (1 << 16,), (32, 3136), (3, 50_000), (7, 9000), (2, 3, 11_003), (9973, 9)])
@pytest.mark.parametrize("count", [4, 7, 64, 100])
def test_pieces_cover_a_row(row: tuple[int, ...], count: int) -> None:
    loop, pieces, length = pieces_of(row, count)
    left = row[loop] - pieces * length
    assert pieces >= 1 and 0 <= left < pieces
    made = math.prod(row[:loop]) * pieces
    assert count // 2 <= made <= 4 * count


@pytest.mark.parametrize(
    ("shape", "dims", "blocks"),
    [
        ((4096, 4096), (0, 1), [256, 1]),
        ((1 << 15,), (0,), [4, 1]),
        (((1 << 15) - 1,), (0,), [1]),
        ((64, 1 << 15), (1,), [256, 1]),
        ((65, 1 << 15), (1,), [65]),
        ((4096, 4096), (0,), [256, 32]),
        ((512, 1024), (0,), [64, 8]),
        ((128, 1024), (0,), [8]),
        ((4096, 32768), (0,), [256]),
        ((32, 64, 56, 56), (0, 2, 3), [256, 1]),
        ((32, 128, 28, 28), (0, 2, 3), [128]),
    ],
)
def test_all_multiprocessors_take_part(shape: tuple[int, ...], dims: tuple[int, ...], blocks: list[int]) -> None:
    calls = cut(empty_sum(shape, dims)).calls
    assert [device_kernel(call.nest, GPU).grid.blocks for call in calls] == blocks


def test_every_step_over_a_row_makes_pieces_longer() -> None:
    x = np.empty((1, 3 << 15), np.float32)
    assert len(cut(softmax(x, x.copy(), 1)).calls) == 5
    assert cut(softmax(x[:, :-1], x[:, :-1].copy(), 1)).alone is not None


def test_what_is_not_cut(short: None) -> None:
    x, out = np.zeros((4096, 100), np.float32), np.zeros(4096, np.float32)
    for nest in (
        reduction("sum", x, out, (1,)),  # many rows
        running(x[:1], x[:1].copy(), 1),
        product(x[:2], x[:2].T, None, x[:2, :2], lambda m, x: x),
    ):
        assert cut(nest).alone is nest
    with pytest.raises(CompileError):
        device_kernel(cut(reduction("sum", x[:, :0], out, (1,))).calls[0].nest, GPU)


# -- what pieces come to -------------------------------------------------------------------------------------------


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[InterpretingDriver]:
    """The interpreter of PTX, which notes races."""
    monkeypatch.setenv("JIT_CUDA", "simulate")
    made = InterpretingDriver()
    launching.use(made)
    yield made
    launching.use(launching.NoDriver())


LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any], tuple[int, ...]]] = {
    "even": ((2048,), lambda x: x, (0,)),
    "rest": ((2003,), lambda x: x, (0,)),
    "cut": ((40, 100), lambda x: x[:, ::2], (0, 1)),
    "turned": ((31, 67), lambda x: x.T, (0, 1)),
    "flipped": ((3, 701), lambda x: x[:, ::-1], (0, 1)),
    "rows": ((3, 911), lambda x: x, (1,)),
    "channels": ((5, 3, 211), lambda x: x, (0, 2)),
    "columns": ((301, 40), lambda x: x, (0,)),
    "three columns": ((1201, 3), lambda x: x, (0,)),
    "odd columns": ((131, 83), lambda x: x[:, 1:], (0,)),
}
"""(the shape of an array, how it lies, the dims of a row)."""


def whole_numbers(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Numbers whose sums are exact, and in which many are equal."""
    return np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("monoid", ["sum", "max", "argmax", "argmin"])
def test_no_point_is_left_out(monoid: str, name: str, short: None, driver: InterpretingDriver) -> None:
    shape, lie, dims = LAYOUTS[name]
    whole = whole_numbers(shape)
    whole[(-1,) * whole.ndim] = 100
    library, x = open_device(0), lie(whole)
    there = lie(library.taken(whole))
    wanted = np.zeros(x.max(dims).shape, np.int64 if monoid.startswith("arg") else np.float32)
    out = library.taken(wanted)
    compile_nest(reduction(monoid, x, wanted, dims))([x], [wanted])
    library.kernel(reduction(monoid, there, out, dims))([there], [out])
    assert driver.launches[0] == f"{monoid}_blocks" and driver.launches[-1] == f"{monoid}_rows"
    assert len(driver.launches) == {"even": 2, "rest": 3}.get(name, len(driver.launches))
    np.testing.assert_array_equal(out.get(), wanted)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "bool"])
@pytest.mark.parametrize("name", ["rest", "columns"])
def test_elements_of_other_sizes(name: str, dtype: str, short: None, driver: InterpretingDriver) -> None:
    shape, _, dims = LAYOUTS[name]
    library, x = open_device(0), whole_numbers(shape, dtype)
    wanted = np.zeros(x.max(dims).shape, x.dtype)
    there, out = library.taken(x), library.taken(wanted)
    compile_nest(reduction("max", x, wanted, dims))([x], [wanted])
    library.kernel(reduction("max", there, out, dims))([there], [out])
    assert len(driver.launches) > 1
    np.testing.assert_array_equal(out.get(), wanted)


@pytest.mark.parametrize("name", ["even", "rest", "columns"])
def test_sums_stay_within_their_bound(name: str, short: None, driver: InterpretingDriver) -> None:
    shape, _, dims = LAYOUTS[name]
    library, x = open_device(0), np.random.default_rng(1).random(shape, np.float32)
    there = library.taken(x)
    out = library.taken(np.zeros(x.max(dims).shape, np.float32))
    library.kernel(reduction("sum", there, out, dims))([there], [out])
    assert np.all(abs(out.get() - x.sum(dims, dtype=np.float64)) <= error_bound(x, dims))


def test_the_first_of_equals_and_nan(short: None, driver: InterpretingDriver) -> None:
    library, x = open_device(0), np.zeros(2003, np.float32)
    at = library.taken(np.zeros((), np.int64))
    kernel = library.kernel(reduction("argmax", x, at, (0,)))
    for places, value in itertools.product(((7,), (1950, 430), (2002, 120, 121), (0, 5)), (3.0, np.nan, -np.inf)):
        x[:] = 0
        x[list(places)] = value
        kernel([library.taken(x)], [at])
        assert int(at.get()) == np.argmax(x)


@pytest.mark.parametrize("dim", [0, 1])
def test_results_at_every_point(dim: int, short: None, driver: InterpretingDriver) -> None:
    """A softmax keeps its rows on the CPU; in pieces they are computed again."""
    library, x = open_device(0), np.random.default_rng(2).normal(size=(2003, 3)).astype(np.float32)
    x = x.T.copy() if dim else x
    wanted = np.zeros_like(x)
    there, out = library.taken(x), library.taken(wanted)
    compile_nest(softmax(x, wanted, dim))([x], [wanted])
    library.kernel(softmax(there, out, dim))([there], [out])
    assert driver.launches.count("softmax_rows") == 2 and driver.launches[-1] == "softmax"
    np.testing.assert_allclose(out.get(), wanted, rtol=1e-5)


def test_the_order_of_blocks_does_not_matter(short: None) -> None:
    x, partial = np.random.default_rng(3).random(2003, np.float32), np.zeros(17, np.float32)
    nest = cut(reduction("sum", x, partial[:1].reshape(()), (0,))).calls[0].nest
    found = []
    for order in ("forward", "backward", 0):
        partial = np.zeros(nest.outputs[0].sizes, np.float32)[:-1]
        kernel = device_kernel(nest, GPU)
        interpreted(kernel, [x], [partial], order)
        found.append(partial.tobytes())
    assert len(set(found)) == 1


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "pieces", "same"),
    [(100, 1, [2, 511]), (513, 4, [2047]), (4001, 16, [2049, 8191]), (70_001, 256, [10**9 + 1])],
)
def test_the_number_of_pieces_is_a_condition_on_sizes(size: int, pieces: int, same: list[int], short: None) -> None:
    """Whether there is a rest is another."""
    n = SizeSymbol("n")
    conditions = SizeConditions({n: size})
    with deciding(conditions):
        parts = cut(sum_of(n.size))
        assert pieces == (parts.calls[0].nest.extents[0] if len(parts.calls) > 1 else 1)
    holds = compiled(conditions.found, [n])
    assert [number for number in (2, 511, 512, 2047, 2049, 8191, 8192, 10**9, 10**9 + 1) if holds(number)] == same


def sum_of(size: int) -> Nest:
    """The sum of so many elements."""
    steps = (
        NestStep((Access(0, (1,)),), (Reduce("sum", (0,), float32),), lambda m, x: x),
        NestStep((Local(0),), (Access(0, (0,)),), lambda m, x: x, inner=False),
    )
    return Nest((size,), (Buffer(float32, (size,), (1,)),), (Buffer(float32, (), ()),), steps, 1, "sum")
