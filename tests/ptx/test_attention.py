"""Attention in tiles as the PTX that a driver gets, run by the interpreter, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.ir.dtypes import as_dtype
from jit.ir.errors import CompileError
from jit.runtime.gpu.attention import attention_kernel, attention_nest
from jit.runtime.gpu.device import DeviceKernel
from jit.runtime.gpu.ptxas import assemble
from jit.runtime.kernels.nest import Buffer
from jit.runtime.targets.target import Target

from ..runtime.grid_emulation import AMD, GPU
from ..runtime.test_ptxas import ARCHS, needs_ptxas
from .nests import interpreted

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]
SCALE = 0.3
ERROR = {"float32": 2e-6, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""The error relative to the largest value: weights are rounded to the dtype, and so is the result."""


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(as_dtype(dtype).numpy)


def operands(dtype: str, batch: tuple[int, ...], sizes: tuple[int, int, int, int]) -> list[Array]:
    """Queries, keys and values."""
    queries, keys, inner, columns = sizes
    shapes = (queries, inner), (keys, inner), (keys, columns)
    return [numbers((*batch, *shape), dtype, seed) for seed, shape in enumerate(shapes)]


def exact_scores(q: Array, k: Array, mask: Array | None, causal: bool) -> Array:
    scores = SCALE * q.astype(float) @ k.astype(float).swapaxes(-1, -2)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(float)
    found: Array = scores
    return found


def exact(q: Array, k: Array, v: Array, mask: Array | None, causal: bool) -> tuple[Array, Array]:
    """The result, and the logarithms of sums of powers, inf for queries that see nothing."""
    scores = exact_scores(q, k, mask, causal)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    logsumexp = np.where(total > 0, top + np.log(np.where(total > 0, total, 1)), np.inf)
    return powers / np.where(total == 0, 1, total) @ v.astype(float), logsumexp[..., 0]


def results(arrays: list[Array]) -> list[Array]:
    """Memory for the result and the logarithms of sums of powers."""
    rows = arrays[0].shape[:-1]
    return [np.zeros((*rows, arrays[2].shape[-1]), arrays[0].dtype), np.zeros(rows, np.float32)]


def kernel_for(arrays: list[Array], mask: Array | None, causal: bool, target: Target = GPU) -> DeviceKernel:
    q, k, v = map(Buffer.like, arrays)
    out, logsumexp = map(Buffer.like, results(arrays))
    nest = attention_nest(q, k, v, None if mask is None else Buffer.like(mask), out, logsumexp)
    return attention_kernel(nest, target, SCALE, causal)


def check(arrays: list[Array], mask: Array | None = None, causal: bool = False) -> Array:
    out, logsumexp = results(arrays)
    interpreted(kernel_for(arrays, mask, causal), [*arrays, *([] if mask is None else [mask])], [out, logsumexp])
    q, k, v = arrays
    wanted, wanted_logarithms = exact(q, k, v, mask, causal)
    np.testing.assert_allclose(logsumexp, wanted_logarithms, rtol=1e-6, atol=2e-6)
    bound = ERROR[as_dtype(out.dtype.name).name] * float(np.abs(arrays[2].astype(float)).max())
    assert np.abs(out.astype(float) - wanted).max() <= bound
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(19, 23, 16, 16), (70, 150, 40, 72), (3, 1, 5, 2)])
@pytest.mark.parametrize("dtype", ERROR)
def test_attention(dtype, sizes, causal):
    """Fewer keys than a turn takes, several turns, and rests of everything."""
    check(operands(dtype, (2,), sizes), causal=causal)


@pytest.mark.parametrize("kind", ["bool", "float32", "float16"])
@pytest.mark.parametrize("shape", [(20, 70), (70,), (2, 20, 70), (2, 1, 70), (20, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_masks(dtype, shape, kind):
    mask = numbers(shape, "float32", 3)
    check(operands(dtype, (2,), (20, 70, 8, 8)), mask > 0 if kind == "bool" else mask.astype(kind))


@pytest.mark.parametrize("dtype", ERROR)
def test_a_query_that_sees_nothing_gets_zeros(dtype):
    mask = np.ones((20, 70), bool)
    mask[7], mask[9, 5:] = False, False
    out = check(operands(dtype, (1,), (20, 70, 8, 8)), mask)
    assert not out[0, 7].any() and out[0, 9].any()


def test_large_scores_do_not_overflow():
    """Those of the last keys are the largest by far, so what was summed up before shrinks to nothing."""
    q, k, v = operands("float32", (1,), (10, 130, 8, 8))
    k[:, 100:] *= 1000
    out = check([q, k, v])
    assert np.isfinite(out).all()


def test_several_batch_dims():
    arrays = [numbers((2, 2, 20, 8), "float32", seed) for seed in range(3)]
    check(arrays, numbers((2, 1, 20, 20), "float32", 3))


def test_scores_are_not_in_memory():
    """A kernel has its operands and the result, and shared memory that no size decides on."""
    small, large = (kernel_for(operands("float16", (1,), (n, n, 64, 64)), None, False) for n in (64, 4096))
    assert small.function == large.function and len(large.nest.inputs) == 3 and large.grid.blocks == 64


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ERROR)
def test_no_register_is_spilled(dtype, arch):
    mask = np.zeros((128, 128), bool)
    for masks, causal in ((None, True), (mask, False)):
        kernel = kernel_for(operands(dtype, (2,), (128, 128, 64, 64)), masks, causal, Target.nvidia(arch))
        cost = assemble(kernel.ptx, arch).kernels["attention"]
        assert not cost.spilled and cost.shared <= 48 << 10


def test_gpus_without_tiles_have_none():
    for target in (AMD, Target.nvidia("sm_75"), Target.host()):
        with pytest.raises(CompileError, match="in several steps"):
            kernel_for(operands("float32", (1,), (8, 8, 8, 8)), None, False, target)
    with pytest.raises(CompileError, match="float64"):
        kernel_for([a.astype(float) for a in operands("float32", (1,), (8, 8, 8, 8))], None, False)
