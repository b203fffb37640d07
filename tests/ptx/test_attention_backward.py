"""The gradients of attention in tiles as the PTX that a driver gets, run by the interpreter, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.ir.dtypes import as_dtype
from jit.ir.errors import CompileError
from jit.runtime.gpu.attention_backward import gradient_kernel, kernels_of
from jit.runtime.gpu.device import DeviceKernel
from jit.runtime.gpu.ptxas import assemble
from jit.runtime.kernels.nest import Buffer
from jit.runtime.targets.target import Target

from ..runtime.grid_emulation import AMD, GPU
from ..runtime.test_ptxas import ARCHS, needs_ptxas
from .nests import interpreted
from .test_attention import ERROR, SCALE, exact, exact_scores, numbers, operands

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]
WANTED = ("query", "key", "value")


def arguments(arrays: list[Array], mask: Array | None = None, causal: bool = False) -> dict[str, Array]:
    """What the kernels take, by name: rows of statistics are those of the exact result."""
    q, k, v = arrays
    out, logsumexp = exact(q, k, v, mask, causal)
    grad = numbers(out.shape, q.dtype.name, 9)
    rowsum = (grad.astype(float) * out).sum(-1).astype(np.float32)
    named = dict(grad=grad, query=q, key=k, value=v, logsumexp=logsumexp.astype(np.float32), rowsum=rowsum)
    return named | ({} if mask is None else {"attn_mask": mask})


def exact_gradients(given: dict[str, Array], causal: bool) -> dict[str, Array]:
    g, q, k, v, logsumexp, rowsum = (array.astype(float) for array in list(given.values())[:6])
    scores = exact_scores(q, k, given.get("attn_mask"), causal)
    weights = np.exp(scores - logsumexp[..., None])
    by_scores = weights * (g @ v.swapaxes(-1, -2) - rowsum[..., None])
    turned = by_scores.swapaxes(-1, -2)
    return {"query": SCALE * by_scores @ k, "key": SCALE * turned @ q, "value": weights.swapaxes(-1, -2) @ g}


def kernel_for(
    names: tuple[str, ...], given: dict[str, Array], causal: bool, target: Target = GPU
) -> tuple[DeviceKernel, list[Array]]:
    outs = [np.zeros(given[name].shape, given[name].dtype) for name in names]
    layouts = {name: Buffer.like(array) for name, array in given.items()}
    return gradient_kernel(names, layouts, list(map(Buffer.like, outs)), target, SCALE, causal), outs


def computed(given: dict[str, Array], causal: bool = False, wanted: tuple[str, ...] = WANTED) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for names in kernels_of(wanted, given["key"].shape[-1] == given["value"].shape[-1]):
        kernel, outs = kernel_for(names, given, causal)
        interpreted(kernel, [array if array.base is None else array.base for array in given.values()], outs)
        found |= dict(zip(names, outs, strict=True))
    return found


def check(given: dict[str, Array], causal: bool = False, wanted: tuple[str, ...] = WANTED) -> dict[str, Array]:
    """An error is bounded by what the terms of a sum come to, as rounded weights and numbers of 16 bits have it."""
    found, exactly = computed(given, causal, wanted), exact_gradients(given, causal)
    assert set(found) == set(wanted)
    for name, array in found.items():
        largest = float(np.abs(exactly[name]).max())
        error = np.abs(array.astype(float) - exactly[name]).max()
        assert error <= 4 * ERROR[as_dtype(array.dtype.name).name] * max(largest, 1), (name, error, largest)
    return found


@pytest.mark.parametrize(
    ("sizes", "causal"),
    [((19, 23, 16, 16), False), ((66, 130, 24, 24), True), ((70, 66, 40, 72), False), ((130, 5, 8, 8), True)],
)
@pytest.mark.parametrize("dtype", ERROR)
def test_gradients(dtype, sizes, causal):
    """Fewer queries and keys than a turn takes, several turns, rests of everything, and keys that no query sees."""
    check(arguments(operands(dtype, (1,), sizes), causal=causal), causal)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((20, 70), "bool"), ((70,), "float32"), ((2, 20, 70), "float16"), ((2, 1, 70), "bool"), ((20, 1), "float32")],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_masks(dtype, shape, kind):
    mask = numbers(shape, "float32", 3)
    check(arguments(operands(dtype, (2,), (20, 70, 8, 8)), mask > 0 if kind == "bool" else mask.astype(kind)))


@pytest.mark.parametrize("wanted", [("query",), ("key",), ("value",), ("query", "value"), ("key", "value")])
def test_gradients_that_nobody_wants_are_not_computed(wanted):
    given = arguments(operands("float16", (1,), (20, 30, 8, 8)))
    together, alone = check(given), check(given, wanted=wanted)
    assert all((together[name] == alone[name]).all() for name in wanted)


@pytest.mark.parametrize("dtype", ERROR)
def test_a_query_that_sees_nothing_has_no_part_in_gradients(dtype):
    mask = np.ones((20, 70), bool)
    mask[7], mask[:, 3] = False, False
    given = arguments(operands(dtype, (1,), (20, 70, 8, 8)), mask)
    assert np.isposinf(given["logsumexp"][0, 7])
    found = check(given)
    assert not found["query"][0, 7].any() and not found["key"][0, 3].any() and not found["value"][0, 3].any()


def test_batches_and_factors_may_lie_as_they_like():
    arrays = [numbers((20, 2, 3, 8), "float32", seed).transpose(1, 2, 0, 3) for seed in range(3)]
    given = arguments(arrays, numbers((2, 1, 20, 20), "float32", 3))
    given["grad"] = np.broadcast_to(given["grad"][..., :1], given["grad"].shape)
    given["rowsum"] = given["rowsum"].transpose(2, 0, 1).copy().transpose(1, 2, 0)
    check(given)


def test_no_block_waits_for_another():
    """Whatever the order of blocks and warps, the bits are the same."""
    given = arguments(operands("float16", (2,), (70, 70, 16, 16)))
    for names in (("query",), ("key", "value")):
        kernel, outs = kernel_for(names, given, True)
        interpreted(kernel, list(given.values()), outs)
        first = [out.copy() for out in outs]
        interpreted(kernel, list(given.values()), outs, order="backward")
        assert all((a == b).all() for a, b in zip(first, outs, strict=True))


def test_weights_are_not_in_memory():
    """A kernel has its operands and its results, and shared memory that no size decides on."""
    for names in (("query",), ("key", "value")):
        given = [arguments(operands("float16", (1,), (n, n, 64, 64))) for n in (64, 640)]
        small, large = (kernel_for(names, each, False)[0] for each in given)
        assert small.function == large.function and large.grid.blocks == 10
        assert len(large.nest.inputs) == 6 and len(large.nest.outputs) == len(names)


@needs_ptxas
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ERROR)
def test_no_register_is_spilled(dtype, arch):
    mask = np.zeros((128, 128), bool)
    for masks, causal in ((None, True), (mask, False)):
        for names in (("query",), ("key", "value"), ("value",)):
            given = arguments(operands(dtype, (2,), (128, 128, 64, 64)), masks)
            kernel, _ = kernel_for(names, given, causal, Target.nvidia(arch))
            cost = assemble(kernel.ptx, arch).kernels[kernel.name]
            assert not cost.spilled and cost.shared <= 48 << 10


def test_gpus_without_tiles_have_none():
    given = arguments(operands("float32", (1,), (8, 8, 8, 8)))
    for target in (AMD, Target.nvidia("sm_75"), Target.host()):
        with pytest.raises(CompileError, match="in several steps"):
            kernel_for(("query",), given, False, target)
    with pytest.raises(CompileError, match="float64"):
        kernel_for(("query",), {name: array.astype(float) for name, array in given.items()}, False)
