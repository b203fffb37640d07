"""Sharing of memory among the inputs of recordings that write: compared in every call, by what is known of arrays."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.tracing.surroundings.sharing import Extents, extent_of, sharing_of


def test_extents_are_those_of_the_arrays_that_come() -> None:
    whole = np.zeros((4, 6), np.float32)
    kept = Extents()
    for array in (whole, whole, whole[1:], whole[:, ::2], whole[::-1], whole[:0], np.zeros((4, 6)), whole):
        assert kept.of(array, 0) == extent_of(array)
    changing = np.zeros(12, np.float32)
    for shape in ((12,), (3, 4), (2, 6), (12,)):
        changing.shape = shape
        assert kept.of(changing, 0) == extent_of(changing)
    for size in range(20):  # arrays that come and go, at the addresses of others
        array = np.zeros(size + 1, np.float32)
        assert kept.of(array, 0) == extent_of(array)
        del array


def test_sharing_is_the_same_with_extents_that_are_kept() -> None:
    base = jit.zeros(12)
    kept = Extents()
    calls = [
        [base[:6], base[6:]],
        [base[:7], base[6:]],
        [base, base],
        [base[:6], jit.zeros(6)],
        [base, base[3:5], base],
    ]
    for tensors in [*calls, *reversed(calls), *calls]:
        assert sharing_of(tensors, kept.of) == sharing_of(tensors)


@pytest.mark.parametrize("calls", [1, 5])
def test_written_tensors_that_come_to_share_memory(calls: int) -> None:
    def train(first: Any, second: Any) -> Any:
        def step(x: Any) -> Any:
            first.add_(x)
            second.mul_(2)
            return first + second

        return step

    pair, other = [jit.ones(3), jit.ones(3)], [jit.ones(3), jit.ones(3)]
    traced, eager, x = jit.trace(train(*pair)), train(*other), jit.tensor([1.0, 2.0, 3.0])
    for _ in range(calls):
        assert traced(x).tolist() == eager(x).tolist()
    pair[1].data = pair[0].detach()
    for _ in range(3):
        with pytest.raises(jit.TraceError, match="share in different ways"):
            traced(x)
    for tensor in (*pair, *other):
        tensor.data = jit.zeros(3)
    for _ in range(3):
        assert traced(x).tolist() == eager(x).tolist()


def test_a_call_names_the_line_of_its_writes() -> None:
    weight = jit.ones(3).requires_grad_()
    factor = jit.ones(3)

    def step(x: Any) -> Any:
        factor.add_(x)
        return factor * 2

    traced = jit.trace(step)
    for _ in range(4):
        traced(jit.ones(3))
    product = weight * factor
    traced(jit.ones(3))
    with pytest.raises(jit.Error, match=r"test_sharing\.py"):
        product.sum().backward()
