"""What the tests of compiled kernels share: targets, awkward numbers, and a comparison of bit patterns."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jit.ir.dtypes import ALL, DType, as_dtype, from_numpy
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import pointwise_nest
from jit.runtime.targets.target import Target

Array = np.ndarray[Any, Any]

REAL = [d for d in ALL if not d.is_complex]
FLOATS = [d for d in REAL if d.is_floating_point]
SINGLE_AND_DOUBLE = [as_dtype("float32"), as_dtype("float64")]
INTEGERS = [d for d in REAL if d.is_integral and d.name != "bool"]
SIGNED = [d for d in INTEGERS if d.is_signed]


class ScalarTarget(Target):
    """This machine without vectors: the lowering that a GPU will use."""

    vector_bytes = property(lambda self: 4)


def targets() -> dict[str, Target]:
    """This machine, and the same machine with fewer features."""
    host = Target.host()
    found = {"host": host, "scalar": ScalarTarget(host.triple, host.cpu, host.features, host.absent)}
    if host.family.name == "x86":
        found["sse2"] = Target(host.triple, "x86-64", ("sse2",))
        if "avx2" in host.features:
            found["avx2"] = Target(host.triple, "x86-64-v3", ("avx", "avx2", "f16c", "fma", "sse4.1"))
    return found


TARGETS = targets()


def run(body: Callable[..., Any], *inputs: Array, out: Any, target: Target | None = None) -> Array:
    """The result, of dtype `out`, of a compiled pointwise body over broadcast inputs."""
    shape = np.broadcast_shapes(*(a.shape for a in inputs))
    result = np.empty(shape, out.numpy if isinstance(out, DType) else out)
    compile_nest(pointwise_nest(body, inputs, [result]), target)(inputs, [result])
    return result


def expect(body: Callable[..., Any], *inputs: Array, target: Target | None = None) -> None:
    """Check that the compiled body gives the bits that numpy gives."""
    with np.errstate(all="ignore"):
        wanted = np.broadcast_to(body(numpy_math, *inputs), np.broadcast_shapes(*(a.shape for a in inputs)))
    same_bits(run(body, *inputs, out=from_numpy(wanted.dtype), target=target), wanted, inputs)


def same_bits(got: Array, wanted: Array, inputs: tuple[Array, ...] = ()) -> None:
    """Check that two arrays have the same bits; any NaN equals any other."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    as_bits = np.dtype(f"u{got.dtype.itemsize}")
    with np.errstate(all="ignore"):
        both_nan = (got != got) & (wanted != wanted)
    wrong = (np.ascontiguousarray(got).view(as_bits) != np.ascontiguousarray(wanted).view(as_bits)) & ~both_nan
    if np.any(wrong):
        index = tuple(np.argwhere(wrong)[0])
        operands = [np.broadcast_to(a, got.shape)[index] for a in inputs]
        raise AssertionError(f"{wrong.sum()} differ; at {index} of {operands!r}: {got[index]!r}, not {wanted[index]!r}")


def numbers(dtype: DType, rng: np.random.Generator, count: int = 200) -> Array:
    """The awkward numbers of a dtype, then random ones."""
    if dtype.name == "bool":
        return rng.integers(0, 2, count).astype(np.bool_)
    return _integers(dtype, rng, count) if dtype.is_integral else _floats(dtype, rng, count)


def _integers(dtype: DType, rng: np.random.Generator, count: int) -> Array:
    limits = np.iinfo(dtype.numpy)
    awkward = [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1]
    negative = [-1, -2, -7] if dtype.is_signed else []
    drawn = rng.integers(limits.min, limits.max, count, dtype=dtype.numpy, endpoint=True)
    small = rng.integers(-20 if dtype.is_signed else 0, 20, count).astype(dtype.numpy)
    return np.concatenate([np.array(awkward + negative, dtype.numpy), drawn, small])


def _floats(dtype: DType, rng: np.random.Generator, count: int) -> Array:
    """Zeros, ties, infinities, NaN, the bounds of integers, denormals; then random patterns and random numbers."""
    bounds = [2.0**31, -(2.0**31), 1e10, 2.0**63]
    awkward = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, np.inf, -np.inf, np.nan, *bounds])
    ends = np.array([1, 2], f"u{dtype.itemsize}").view(dtype.numpy)
    patterns = rng.integers(0, 256, (count, dtype.itemsize), dtype=np.uint8).view(dtype.numpy)[:, 0]
    with np.errstate(all="ignore"):
        drawn = (rng.normal(size=count) * 9).astype(dtype.numpy)
        return np.concatenate([awkward.astype(dtype.numpy), ends, -ends, patterns, drawn])


def pairs(dtype: DType, rng: np.random.Generator, count: int = 60) -> tuple[Array, Array]:
    """Every number with every number, as a column and a row."""
    return numbers(dtype, rng, count)[:, None], numbers(dtype, rng, count)[None, :]
