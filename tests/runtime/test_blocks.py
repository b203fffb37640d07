"""Large arrays: memory is used again, but never while anybody can see it."""

import gc
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import jit
from jit.runtime.arrays import blocks
from jit.runtime.arrays.arrays import address_of, room_of

SHAPE = (1 << 10, 1 << 9)
FLOAT = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def pool(monkeypatch):
    """A pool of the test's own."""
    made = blocks.BlockPool(kept=1 << 23)
    monkeypatch.setattr(blocks, "_pool", made)
    return made


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.bool_, np.uint8, np.float16, ml_dtypes.bfloat16])
def test_arrays_are_those_of_numpy(kind):
    dtype = np.dtype(kind)
    array, wanted = blocks.empty((1 << 10, 1 << 11), dtype), np.empty((1 << 10, 1 << 11), dtype)
    assert type(array) is np.ndarray
    assert array.dtype is dtype
    assert (array.shape, array.strides) == (wanted.shape, wanted.strides)
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.flags.aligned
    assert room_of(array) == (address_of(array), array.nbytes)


def test_small_arrays_are_not_kept(pool):
    blocks.empty((16,), FLOAT)
    gc.collect()
    assert pool.nbytes == 0


def test_memory_is_used_again(pool):
    first = blocks.empty(SHAPE, FLOAT)
    place = address_of(first)
    del first
    assert pool.nbytes == (1 << 21) + blocks.ALIGNMENT
    assert address_of(blocks.empty((1 << 21,), np.dtype(np.uint8))) == place


@pytest.mark.parametrize(
    "held",
    [
        lambda a: a[5:],
        lambda a: a.view(np.int32),
        lambda a: memoryview(a),
        lambda a: a.__dlpack__(),
        lambda a: np.from_dlpack(a),
        lambda a: a.reshape(-1)[3::7].T,
    ],
)
def test_memory_that_somebody_sees_is_not_used_again(pool, held):
    array = blocks.empty(SHAPE, FLOAT)
    place = address_of(array)
    view = held(array)
    del array
    gc.collect()
    assert pool.nbytes == 0
    assert address_of(blocks.empty(SHAPE, FLOAT)) != place
    del view
    gc.collect()
    assert pool.nbytes >= 1 << 21


def test_what_is_kept_is_bounded(pool):
    arrays = [blocks.empty(SHAPE, FLOAT) for _ in range(20)]
    del arrays
    gc.collect()
    assert 0 < pool.nbytes <= 1 << 23
    del pool
    large = blocks.empty((1 << 22,), FLOAT)
    del large
    assert blocks._pool.nbytes <= 1 << 23


def test_memory_runs_out_only_when_nothing_is_kept(pool, monkeypatch):
    pool.give(np.empty(1 << 20, np.uint8))
    made, tried = np.empty, []

    def scarce(*arguments):
        tried.append(arguments)
        if len(tried) == 1:
            raise MemoryError
        return made(*arguments)

    monkeypatch.setattr(np, "empty", scarce)
    large = blocks.empty((1 << 20,), FLOAT)
    assert len(tried) == 2
    assert large.nbytes == 1 << 22
    assert pool.nbytes == 0


def test_results_of_a_traced_function_are_apart_while_they_live():
    import jit

    @jit.trace
    def double(x):
        return x * 2

    results = [double(jit.full((1 << 19,), float(i))) for i in range(6)]
    assert [r[7].item() for r in results] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    view = results[3][100:]
    del results
    for i in range(5):
        double(jit.full((1 << 19,), float(i)))
    assert view[0].item() == 6.0


def test_nothing_is_said_when_a_process_ends():
    program = "import numpy; from jit.runtime.arrays import blocks; x = blocks.empty((1 << 20,), numpy.dtype(float))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_plan_gives_back_what_its_recording_has_used() -> None:
    function = jit.trace(lambda x: jit.tanh(x * 2 + 1).sum())
    x = jit.ones(1 << 19)
    function(x)
    assert blocks._pool.nbytes > 1 << 20
    function(x)
    assert blocks._pool.nbytes == 0
