"""Kernels of products that are lowered once for arrays of all sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.cuda import launching
from jit.runtime.cuda.devices import open_device
from jit.runtime.cuda.open_kernels import OpenKernels
from jit.runtime.gpu.device import device_kernel
from jit.runtime.kernels.nest import Buffer
from jit.runtime.llvm.lowering import NestLowering
from jit.runtime.plans.places import Layout
from jit.runtime.targets.target import Target
from tests.tolerances import assert_close

from .interpreting_driver import InterpretingDriver
from .nests_under_test import softmax

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]


@pytest.fixture(autouse=True)
def driver(gpu: str) -> Iterator[None]:
    """The interpreter of PTX where there is no GPU."""
    if gpu == "simulated":
        launching.use(InterpretingDriver())
    yield
    launching.use(launching.NoDriver())


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that have been lowered since."""
    found: list[str] = []
    function = NestLowering.function

    def noting(self: NestLowering) -> Any:
        found.append(self.nest.name)
        return function(self)

    monkeypatch.setattr(NestLowering, "function", noting)
    return found


class _ArrayLike(Layout):
    """A layout that is taken for an array."""

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)


def normal(*sizes: int, dtype: Any = jit.float32) -> Any:
    """Numbers that 16 bits hold exactly."""
    return jit.from_numpy((np.random.randint(-8, 9, sizes) / 4).astype(np.float32)).to(dtype)


def test_products_of_many_sizes(lowered: list[str]) -> None:
    for n, k, m in (
        (3, 8, 5),
        (4, 9, 6),
        (5, 16, 7),
        (70, 8, 3),
        (3, 40, 66),
        (2, 2, 2),
        (9, 33, 130),
        (1, 6, 1),
        (6, 1, 6),
    ):
        for turned in (False, True):
            x, y = normal(n, k, dtype=jit.float16), normal(m, k, dtype=jit.float16)
            x, y = (x, y.t()) if turned else (x, y.t().contiguous())
            apart = jit.stack([x, x], -1).cuda()[..., 0]  # cuBLAS cannot be told of this layout
            there = apart, (y.t().cuda().t() if turned else y.cuda())
            assert_close((there[0] @ there[1]).cpu(), (x.float() @ y.float()).half(), rtol=2e-3, atol=1e-3)
    assert 2 <= len(lowered) <= 12, "of 16 kinds of products"


def test_kernels_that_are_right_for_some_sizes() -> None:
    """A kernel that keeps rows in shared memory has room for rows of some length, and no kernel for longer ones."""
    library = open_device(0)

    def make(*buffers: Buffer) -> Any:
        x, out = (_ArrayLike(b.dtype.numpy, b.sizes, tuple(4 * s for s in b.strides)) for b in buffers)
        return device_kernel(softmax(x, out, 1), Target.nvidia("sm_90"))  # type: ignore[arg-type]

    kernels = OpenKernels(make, library.driver, library.module)
    for rows, wide in ((4, 20), (5, 22), (3, 700), (2, 40), (6, 21)):
        x = np.random.rand(rows, wide).astype(np.float32)
        there, out = library.taken(x), library.taken(np.zeros_like(x))
        kernels.at([Buffer.like(there), Buffer.like(out)])([there], [out])
        assert np.allclose(out.get(), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)


def test_attention_of_many_sizes(lowered: list[str]) -> None:
    attend = jit.nn.functional.scaled_dot_product_attention
    for queries, keys in ((1, 9), (1, 10), (2, 9), (5, 70), (66, 12), (3, 3), (1, 130)):
        q, k, v = normal(2, 2, queries, 8), normal(2, 2, keys, 8), normal(2, 2, keys, 8)
        assert_close(attend(q.cuda(), k.cuda(), v.cuda()).cpu(), attend(q, k, v), rtol=1e-4, atol=1e-5)
        split = normal(2, queries, 2, 8).transpose(1, 2)  # as heads lie in memory
        assert_close(attend(split.cuda(), k.cuda(), v.cuda()).cpu(), attend(split, k, v), rtol=1e-4, atol=1e-5)
    assert 1 <= len(lowered) <= 6
