"""Reductions across rows whose accumulators stand in memory: the same bits as with accumulators in registers."""

import numpy as np
import pytest

from jit.ir.dtypes import float32, int64
from jit.runtime.kernels.codegen import compile_nest, words_of
from jit.runtime.kernels.lanes import lanes
from jit.runtime.kernels.nest import Access, Buffer, Keep, Local, Nest, NestStep, Reduce
from jit.runtime.kernels.schedule import schedule
from jit.runtime.llvm import column_tiles as llvm_tiles
from jit.runtime.llvm.column_tiles import TiledLowering, is_tiled
from jit.runtime.llvm.lower import lower
from jit.runtime.targets.target import Target
from tests.runtime import nests_under_test as nests

SHAPES = [
    ((300, 700), (0,)),
    ((16, 512), (0,)),
    ((129, 20_000), (0,)),
    ((5, 7, 900), (0, 1)),
    ((5, 40, 900), (1,)),
    ((257, 3, 515), (0,)),
]


@pytest.fixture(autouse=True)
def near(monkeypatch):
    """Rows of few bytes are tiled, too."""
    monkeypatch.setattr(llvm_tiles, "SHORT_STRIDE", 1)


def both_ways(nest, inputs, outputs, monkeypatch):
    """The results of the tiled kernel, and of one with accumulators in registers."""
    assert is_tiled(nest, schedule(nest))
    found = []
    for tiled in (True, False):
        with monkeypatch.context() as patch:
            if not tiled:
                patch.setattr(llvm_tiles, "is_tiled", lambda nest, loops: False)
            compile_nest(nest)(inputs, outputs)
        found.append([out.copy() for out in outputs])
    return found


@pytest.mark.parametrize(("shape", "dims"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool", "float16"])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "argmax", "argmin"])
def test_bits_are_those_of_registers(shape, dims, dtype, name, monkeypatch):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(shape) * 5).astype(dtype)
    if dtype.startswith("float"):
        x.reshape(-1)[rng.integers(0, x.size, 7)] = np.nan
        x.reshape(-1)[rng.integers(0, x.size, 7)] = -np.inf
    kind = np.int64 if name.startswith("arg") else x.dtype
    out = np.empty(x.max(axis=dims).shape, kind)
    nest = nests.reduction(name, x, out, dims)
    (tiled,), (registers,) = both_ways(nest, [x], [out], monkeypatch)
    assert tiled.tobytes() == registers.tobytes()
    if name == "argmax" and len(dims) == 1 and dtype != "bool":
        assert np.array_equal(tiled, np.argmax(x, axis=dims[0]))


def test_several_results_and_epilogues(monkeypatch):
    """Sums and maxima at once, an epilogue that uses both, and one that uses what it kept."""
    x = np.random.default_rng(4).standard_normal((200, 1001), np.float32)
    mean, spread = np.empty(1001, np.float32), np.empty(1001, np.float32)
    read, write = Access(0, (1, 1001)), Access(0, (1, 0))
    steps = (
        NestStep((read,), (Reduce("sum", (0,), float32), Reduce("max", (1,), float32)), lambda m, x: (x, m.abs(x))),
        NestStep((Local(0),), (write, Keep(2, float32)), lambda m, a: (a / 200, a / 200), inner=False),
        NestStep((Local(1), Local(2)), (Access(1, (1, 0)),), lambda m, top, a: top - a, inner=False),
    )
    nest = Nest((1001, 200), (Buffer.like(x),), (Buffer.like(mean), Buffer.like(spread)), steps, 1)
    tiled, registers = both_ways(nest, [x], [mean, spread], monkeypatch)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(tiled, registers, strict=True))
    assert np.allclose(tiled[0], x.mean(0), atol=1e-5)
    assert np.allclose(tiled[1], np.abs(x).max(0) - x.mean(0), atol=1e-5)


def test_parts_give_the_same_bits():
    x = np.random.default_rng(5).standard_normal((333, 1234), np.float32)
    whole, parts = np.empty(1234, np.float32), np.empty(1234, np.float32)
    kernel = compile_nest(nests.reduction("sum", x, whole, (0,)))
    kernel([x], [whole])
    for start, stop in ((0, 64), (64, 700), (700, 1234)):
        geometry = words_of(kernel.part(start, stop))
        scratch = np.empty(kernel.scratch_bytes, np.uint8)
        arrays = (x, parts, scratch)
        assert _call(kernel, arrays, geometry) == 0
    assert whole.tobytes() == parts.tobytes()


def _call(kernel, arrays, geometry):
    import ctypes

    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(kernel.address)
    return function((ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)), geometry)


@pytest.mark.parametrize("features", [(), ("avx", "avx2", "f16c", "fma"), ("avx", "avx2", "avx512f", "fma")])
def test_other_machines(features):
    """Whatever the vectors, the kernel is made; lanes are at most 64."""
    x, out = np.zeros((64, 4096), np.float32), np.zeros(4096, np.float32)
    nest = nests.reduction("sum", x, out, (0,))
    target = Target("x86_64-unknown-linux-gnu", "x86-64", features)
    function = lower(nest, schedule(nest), target)
    assert function.lanes == min(lanes(nest, schedule(nest), target), TiledLowering.most_lanes)


def tiled(nest):
    """Whether a nest is."""
    return is_tiled(nest, schedule(nest))


def test_what_is_not_tiled(monkeypatch):
    x, narrow = np.zeros((64, 512), np.float32), np.zeros((512, 64), np.float32)
    out = np.zeros(512, np.float32)
    assert tiled(nests.reduction("sum", x, out, (0,)))
    assert not tiled(nests.reduction("sum", x, out[:64], (1,)))
    assert not tiled(nests.reduction("sum", narrow, out[:64], (0,)))
    assert not tiled(nests.softmax(x, x.copy(), 0))
    monkeypatch.setattr(llvm_tiles, "SHORT_STRIDE", 4096)
    assert not tiled(nests.reduction("sum", x, out, (0,)))


def test_positions_are_int64(monkeypatch):
    x = np.zeros((40, 300), np.float32)
    out = np.empty(300, np.int64)
    nest = nests.reduction("argmin", x, out, (0,))
    (tiled,), _ = both_ways(nest, [x], [out], monkeypatch)
    assert (tiled == 0).all()
    assert int64.numpy == tiled.dtype
