"""The kernels of tests/runtime/test_ptx.py as the PTX that a driver gets: nests, and groups that fusion makes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from jit.runtime.gpu.device import DeviceKernel, device_kernel
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import Nest, Reduce
from jit.runtime.targets.target import Target

from ..passes.test_fuse_rows import ONE_KERNEL
from ..runtime.grid_emulation import GPU
from ..runtime.nests_under_test import embedding
from ..runtime.test_ptx import FIVE, Built, group_of
from .nests import assert_same_bits, interpreted

pytestmark = pytest.mark.llvm

NAMES = [*FIVE, *ONE_KERNEL]


def built(name: str) -> Built:
    nest, inputs, outputs = FIVE[name] if name in FIVE else group_of(name)
    return nest, inputs, [a.copy() for a in outputs]


@cache
def kernel_of(name: str) -> DeviceKernel:
    return device_kernel(built(name)[0], GPU)


@pytest.mark.parametrize("name", NAMES)
def test_ptx_computes_what_the_cpu_computes(name):
    nest, inputs, outputs = built(name)
    wanted = [a.copy() for a in outputs]
    compile_nest(nest)(inputs, wanted)
    interpreted(kernel_of(name), inputs, outputs)
    if kernel_of(name).grid.teams == 1 or not adds_up_floats(nest):
        assert_same_bits(outputs, wanted)
    for found, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def adds_up_floats(nest: Nest) -> bool:
    """Whether something is reduced whose result depends on the order: teams of threads have another one."""
    reduces = [result for step in nest.steps for result in step.results if isinstance(result, Reduce)]
    return any(r.monoid not in ("max", "min", "argmax", "argmin") and r.dtype.is_floating_point for r in reduces)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", NAMES)
def test_other_gpus_compute_the_same(name, arch):
    nest, inputs, outputs = built(name)
    others = [a.copy() for a in outputs]
    interpreted(kernel_of(name), inputs, outputs)
    interpreted(device_kernel(nest, Target.nvidia(arch)), inputs, others)
    assert_same_bits(others, outputs)


def test_an_index_out_of_range_is_reported():
    """The kernel writes what it can, and its threads report by one atomic operation each."""
    weight, looked_up = np.ones((7, 33), np.float32), np.zeros((2, 3, 33), np.float32)
    tokens = np.array([[0, 6, 2], [3, 7, 1]])
    nest = embedding(weight, tokens, looked_up)
    with pytest.raises(IndexError) as expected:
        compile_nest(nest)([weight, tokens], [looked_up])
    with pytest.raises(IndexError) as found:
        interpreted(device_kernel(nest, GPU), [weight, tokens], [looked_up])
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("order", ["backward", 0])
@pytest.mark.parametrize("name", FIVE)
def test_the_order_of_blocks_does_not_matter(name, order):
    _, inputs, outputs = built(name)
    others = [a.copy() for a in outputs]
    interpreted(kernel_of(name), inputs, outputs)
    interpreted(kernel_of(name), inputs, others, order)
    assert_same_bits(outputs, others)
