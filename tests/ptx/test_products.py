"""Products of matrices as the PTX that a driver gets, run by the interpreter, against float64.

float32 and float64 have the bits of the CPU's kernels. 16-bit floats are rounded once, behind sums in float32.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jit.ir.dtypes import as_dtype
from jit.runtime.gpu.contraction import DOUBLE_TILES, FLOAT_TILES, TENSOR_TILES, ProductGrid
from jit.runtime.gpu.device import DeviceKernel, device_kernel
from jit.runtime.gpu.matrices import of_matrices, with_addend
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import Buffer, Nest
from jit.runtime.targets.target import Target

from ..runtime.grid_emulation import AMD, GPU
from .nests import assert_same_bits, interpreted

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]
DTYPES = ("float16", "bfloat16", "float32", "float64")
HALVES = DTYPES[:2]
MANY, FEW = 1 << 20, 1
"""Multiprocessors for which tiles are small, and for which they are large."""


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(as_dtype(dtype).numpy)


def lain(array: Array, transposed: bool, padding: int) -> tuple[Array, Buffer]:
    """Matrices in memory of their own, and the layout of those that stand in it: transposed, with room between rows."""
    stored = array.swapaxes(-1, -2) if transposed else array
    wide = np.ones((*stored.shape[:-1], stored.shape[-1] + padding), array.dtype)
    wide[..., : stored.shape[-1]] = stored
    window = wide[..., : stored.shape[-1]]
    return wide, Buffer.like(window.swapaxes(-1, -2) if transposed else window)


def product(
    a: Array, b: Array, lies: tuple[bool, bool] = (False, False), padding: int = 0, multiprocessors: int = MANY
) -> tuple[Array, DeviceKernel]:
    """a @ b, and the kernel."""
    (left, first), (right, second) = lain(a, lies[0], padding), lain(b, lies[1], padding)
    out = np.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
    kernel = device_kernel(of_matrices(first, second, Buffer.like(out)), GPU, multiprocessors)
    assert isinstance(kernel.grid, ProductGrid)
    interpreted(kernel, [left, right], [out])
    return out, kernel


def check(found: Array, a: Array, b: Array) -> None:
    """Against float64: n roundings of sums of |a * b|, and one of the result."""
    exact, size = a.astype(float) @ b.astype(float), np.abs(a.astype(float)) @ np.abs(b.astype(float))
    dtype = as_dtype(found.dtype.name)
    summed = 2.0**-53 if dtype.name == "float64" else 2.0**-24
    rounded = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, summed)
    bound = (a.shape[-1] + 2) * summed * size + rounded * np.abs(exact) + (2.0**-25 if dtype.is_half else 0)
    assert (np.abs(found.astype(float) - exact) <= bound).all()


@pytest.mark.parametrize("lies", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(19, 23, 37), (70, 64, 72), (3, 130, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_all_layouts(dtype, shape, lies):
    rows, terms, columns = shape
    a, b = numbers((rows, terms), dtype), numbers((terms, columns), dtype, 1)
    check(product(a, b, lies)[0], a, b)


@pytest.mark.parametrize("lies", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_tiles(dtype, lies):
    """Whose sums pass through shared memory in two parts, and whose columns have a rest."""
    a, b = numbers((150, 72), dtype), numbers((72, 136), dtype, 1)
    found, kernel = product(a, b, lies, multiprocessors=FEW)
    assert isinstance(kernel.grid, ProductGrid)
    assert kernel.grid.tile == {"float32": FLOAT_TILES, "float64": DOUBLE_TILES}.get(dtype, TENSOR_TILES)[0]
    check(found, a, b)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(*[st.integers(2, 80)] * 3), lies=st.tuples(st.booleans(), st.booleans()), padding=st.integers(0, 3),
    dtype=st.sampled_from(DTYPES), batch=st.sampled_from([(), (2,)]),
)  # fmt: skip
def test_products_of_any_sizes(sizes, lies, padding, dtype, batch):
    a = numbers((*batch, sizes[0], sizes[1]), dtype)
    b = numbers((*batch, sizes[1], sizes[2]), dtype, 1)
    check(product(a, b, lies, padding)[0], a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("multiprocessors", [FEW, MANY])
def test_sums_of_floats_have_the_bits_of_the_cpu(dtype, multiprocessors):
    a, b = numbers((2, 40, 300), dtype), numbers((2, 300, 33), dtype, 1)
    found, kernel = product(a, b, multiprocessors=multiprocessors)
    wanted = np.zeros_like(found)
    compile_nest(kernel.nest)([a, b], [wanted])
    assert_same_bits([found], [wanted])


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_16_bytes_are_copied_where_they_are_aligned(dtype):
    """The text asks for both, so that one kernel serves all; results are the same bits."""
    a, b = numbers((64, 64), dtype), numbers((64, 64), dtype, 1)
    (aligned, kernel), (odd, other) = product(a, b), product(a, b, padding=1)
    assert "cp.async.cg.shared.global" in kernel.ptx and kernel.function == other.function
    assert_same_bits([aligned], [odd])


@pytest.mark.parametrize("dtype", HALVES)
def test_products_of_16_bits_are_tensor_cores(dtype):
    _, kernel = product(numbers((20, 20), dtype), numbers((20, 20), dtype))
    name = "f16" if dtype == "float16" else "bf16"
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32" in kernel.ptx and "fma" not in kernel.ptx


@pytest.mark.parametrize("numbers_", [(1.0, 1.0), (2.0, -0.5), (1.0, 0.0)])
@pytest.mark.parametrize("addend", [(33,), (20, 33), (20, 1)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_products_and_sums(dtype, addend, numbers_):
    alpha, beta = numbers_
    a, b, c = numbers((20, 40), dtype), numbers((40, 33), dtype, 1), numbers(addend, dtype, 2)
    out = np.zeros((20, 33), a.dtype)
    left, right, third, result = map(Buffer.like, (a, b, c, out))
    nest = with_addend(third, left, right, result, alpha, beta)
    interpreted(device_kernel(nest, GPU), [c, a, b], [out])
    exact = alpha * (a.astype(float) @ b.astype(float)) + beta * c.astype(float)
    np.testing.assert_allclose(out.astype(float), exact, rtol=2e-3 if dtype == "float16" else 2e-6, atol=4e-5)


def test_infinities_and_nan_stay_in_their_rows():
    """Zeros beyond the end of the terms meet nothing but zeros."""
    a, b = numbers((20, 21), "float16"), numbers((21, 20), "float16", 1)
    a[3, 20], a[7, 0], b[20, 5] = np.inf, np.nan, -np.inf
    found, _ = product(a, b)
    with np.errstate(invalid="ignore"):
        wanted = a.astype(float) @ b.astype(float)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))


@pytest.mark.parametrize("target", [AMD, Target.nvidia("sm_75")], ids=["amd", "sm_75"])
def test_gpus_without_copies_beside_the_threads_have_another_kernel(target):
    out = np.zeros((20, 20), np.float32)
    kernel = device_kernel(of_matrices(*[Buffer.like(out)] * 3), target)
    assert kernel.grid.kind == "tiles" and "cp.async" not in kernel.assembly


def test_a_product_that_computes_its_factors_is_another_kernel():
    nest = of_matrices(*[Buffer.like(np.zeros((20, 20), np.float32))] * 3)
    first = replace(nest.steps[0], body=lambda m, a, b: (m.tanh(a), b))
    assert device_kernel(Nest(**{**vars(nest), "steps": (first, nest.steps[1])}), GPU).grid.kind == "tiles"
