"""What CuPy lacks or answers otherwise, computed by other means on the simulated device: as numpy answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.arrays.arrays import ViewLayout, laid_out
from jit.runtime.cuda import simulated
from jit.runtime.cuda.cuda_math import CudaMath, CudaSpecial

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
LIBRARY = simulated.library()
M: Any = CudaMath(LIBRARY, simulated.special(), simulated.lapack(), None)


def drawn(seed: int, *sizes: int, dtype: Any = np.float64) -> Any:
    values = np.random.default_rng(seed).integers(-3, 4, sizes)
    return (values / 2).astype(dtype) if np.dtype(dtype).kind in "fc" else values.astype(dtype)


def agree(found: Any, wanted: Any) -> None:
    got = found.get()
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logaddexp"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_running(name: str, axis: int, rows: int) -> None:
    x = drawn(rows, rows, 7)
    x[0, 0], x[-1, 3] = -np.inf, np.nan
    agree(M.running(name, LIBRARY.asarray(x), axis), numpy_math.running(name, x, axis))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.complex128])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("starts", [[0], [0, 1, 2], [0, 1, 6], [0, 4, 5, 10]])
def test_sums_of_runs(dtype: Any, axis: int, starts: list[int]) -> None:
    x, at = drawn(axis, 11, 11, dtype=dtype), np.array(starts)
    if x.dtype.kind == "f":
        x[3, 3] = np.inf  # a difference of running sums would be NaN from there on
    here = LIBRARY.asarray(x)
    agree(M.sums_of_runs(here, LIBRARY.asarray(at), axis, dtype), numpy_math.sums_of_runs(x, at, axis, dtype))
    assert (here.get() == x).all()


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_, np.int64, np.complex64])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_combine_at(name: str, dtype: Any, count: int) -> None:
    places = np.random.default_rng(count).integers(0, 4, count)
    wanted, values = drawn(1, 5, dtype=dtype), drawn(2, count, dtype=dtype)
    if wanted.dtype.kind == "f" and count:
        values[0] = np.nan
    found = LIBRARY.array(wanted)
    M.combine_at(name, found, LIBRARY.asarray(places), LIBRARY.asarray(values))
    numpy_math.combine_at(name, wanted, places, values)
    agree(found, wanted)


def test_one_number_at_many_places() -> None:
    found = LIBRARY.asarray(np.ones(3))
    M.combine_at("multiply", found, LIBRARY.asarray(np.array([2, 0, 2])), 3.0)
    assert found.get().tolist() == [3, 1, 9]


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -7.25, 0.1, 1e30, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_that_are_whole_but_for_rounding(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=1000).astype(dtype) * dtype(scale) for scale in (1e4, 1))
    np.testing.assert_array_equal(M.floor_divide(LIBRARY.asarray(a), LIBRARY.asarray(b)).get(), a // b)


@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients(name: str, dtype: Any) -> None:
    """Down to the signs of zeros, for every pair."""
    a, b = (np.array(side, dtype) for side in zip(*[(x, y) for x in SPECIAL for y in SPECIAL], strict=True))
    with np.errstate(all="ignore"):
        found = getattr(M, name)(LIBRARY.asarray(a), LIBRARY.asarray(b)).get()
        wanted = getattr(np, name)(a, b)
        agree(getattr(M, name)(LIBRARY.asarray(a), 2), getattr(np, name)(a, dtype(2)))
    np.testing.assert_array_equal(found, wanted)
    assert (np.signbit(found) == np.signbit(wanted))[wanted == wanted].all()
    with pytest.raises(jit.Error):
        getattr(M, name)(LIBRARY.asarray(np.array([1])), LIBRARY.asarray(np.array([0])))


def test_quotients_do_not_ask_the_library() -> None:
    x = LIBRARY.asarray(np.array([np.inf]))
    cupys = SimpleNamespace(**{name: getattr(LIBRARY, name) for name in ("fmod", "where", "copysign", "result_type")})
    cupys.floor = LIBRARY.floor
    with np.errstate(all="ignore"):
        assert np.isnan(CudaMath(cupys, None, None, None).floor_divide(x, 2.0).get()).all()


def test_exponentials_of_many_matrices() -> None:
    x = drawn(0, 2, 2, 3, 3)
    agree(M.matrix_exp(LIBRARY.asarray(x)), numpy_math.matrix_exp(x))
    agree(M.matrix_exp(LIBRARY.asarray(x[0, 0])), numpy_math.matrix_exp(x[0, 0]))


def test_an_infinite_erfcx() -> None:
    cupys = SimpleNamespace(erfcx=lambda x: LIBRARY.where(x < 0, LIBRARY.nan, x), erf=abs)
    special: Any = CudaSpecial(LIBRARY, cupys)
    found = special.erfcx(LIBRARY.asarray(np.array([-30.0, 2.0, np.nan]))).get()
    assert found[:2].tolist() == [np.inf, 2] and np.isnan(found[2]) and special.erf(-1) == 1


def test_views_of_nothing() -> None:
    """Memory of no bytes is at address 0, from which no step leads."""
    empty, sizes, steps = LIBRARY.empty((0, 3), np.complex64), (0, 3), (24, 8)
    assert laid_out(empty, ViewLayout(sizes, steps, 4), np.dtype(np.float32)).shape == sizes
    assert M.strided(empty, sizes, 4, steps, np.float32).shape == sizes
    assert M.strided(LIBRARY.ones(4), (2,), 16, (8,)).shape == (2,)


def test_places_come_back_as_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's are of C's `long long`, which equals numpy's int64 and is another object."""
    monkeypatch.setenv("JIT_CUDA", "simulate")
    place = jit.from_numpy(np.zeros(2, np.int64)).to("cuda")
    place._array._elements = np.zeros(2, np.longlong)
    assert place.cpu().numpy().dtype is np.dtype(np.int64)
