"""Every pointwise operator as the PTX that a driver gets: the bits of the CPU's kernel, where that calls no library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jit.ir.op import Op
from jit.runtime.gpu.device import device_kernel
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import Buffer

from ..runtime.grid_emulation import GPU
from ..runtime.test_ptx import some
from ..runtime.test_ptx_registry import DTYPES, POINTWISE, kernels, nodes, operators, outcome
from ..tolerances import assert_close
from .nests import assert_same_bits, interpreted

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]

LIBRARY = re.compile(r"@libm_|call double @(?!llvm)")
"""Calls of C's functions in float64, for which a GPU has formulas of its own."""
FLOATS = (0, np.inf, np.nan, 1, 2, 0.5, 1.5, 2.5, 3, 89, 100, 104, 127, 128, 149, 1e4, 2.0**31, 2.0**63, 1e-3, 1e-5)


def awkward(buffer: Buffer, rng: np.random.Generator) -> Array:
    """Numbers at which formulas change: zeros of both signs, ends of ranges, subnormal ones, infinities, NaN."""
    dtype = buffer.dtype.numpy
    if not buffer.dtype.is_floating_point:
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        numbers = {least, most, *range(4), 7, 8, 31, 32, 63, 64, most - 1, least + 1}
        return rng.choice(np.array([n for n in numbers if least <= n <= most], dtype), buffer.sizes)
    ends = ml_dtypes.finfo(dtype)
    few = np.array([*FLOATS, ends.max, ends.tiny, ends.smallest_subnormal], np.float64)
    with np.errstate(over="ignore"):
        many = (rng.normal(size=100) * np.exp(rng.normal(size=100) * 5)).astype(dtype)
        return rng.choice(np.concatenate([np.concatenate([few, -few]).astype(dtype), many]), buffer.sizes)


def agrees(cpu: Any, gpu: Any, inputs: list[Array]) -> None:
    outputs = [np.zeros(b.sizes, b.dtype.numpy) for b in cpu.nest.outputs]
    wanted = [a.copy() for a in outputs]
    cpu(inputs, wanted)
    interpreted(gpu, inputs, outputs)
    if not LIBRARY.search(cpu.llvm_ir):
        assert_same_bits(outputs, wanted)
    for found, expected in zip(outputs, wanted, strict=True):
        assert_close(found, expected)


def check(cpu: Any, gpu: Any, rng: np.random.Generator) -> None:
    agrees(cpu, gpu, [some(b, rng) for b in cpu.nest.inputs])
    agrees(cpu, gpu, [awkward(b, rng) for b in cpu.nest.inputs])


def built_in(op: Op, *dtypes: str) -> Iterator[tuple[str, Any, Any]]:
    """The kernels of an operator in the first of some dtypes that it takes, then in the next."""
    for dtype in dtypes:
        for node in nodes(op, dtype):
            cpu, gpu = outcome(compile_nest, node)[0], outcome(lambda nest: device_kernel(nest, GPU), node)[0]
            if cpu and gpu:
                yield dtype, cpu, gpu


@operators
def test_ptx_computes_what_the_cpu_computes(op, rng):
    """In one dtype: float32 where it takes that."""
    built = next(built_in(op, "float32", *DTYPES), None)
    if built is None:
        assert not kernels(op)[0]
    else:
        check(*built[1:], rng)


@pytest.mark.slow
@operators
def test_ptx_computes_what_the_cpu_computes_in_every_dtype(op, rng):
    for _, cpu, gpu in kernels(op)[0]:
        check(cpu, gpu, rng)


def test_shifts_by_far_too_many_bits_leave_zero():
    """Of `select(amount < 64, x << amount, 0)` LLVM would make `shl.b64 x, amount`, which reads 32 bits of amount."""
    op = next(op for op in POINTWISE if op.name == "aten::bitwise_left_shift")
    _, cpu, gpu = next(built_in(op, "int64"))
    numbers = [np.full(b.sizes, value) for b, value in zip(cpu.nest.inputs, (5, 1 << 32), strict=True)]
    agrees(cpu, gpu, numbers)
