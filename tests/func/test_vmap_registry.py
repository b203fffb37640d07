"""Every operator under `vmap`, on every sample: all samples at once give what a loop over them gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jit
from jit.func import vmap
from jit.func.layers import VmapError
from jit.ir.errors import Error
from tests.registry_cases import Case, cases, mapped, tensors_in

NUMBERS_MAY_DIFFER = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
"""Operators whose results hold whatever their memory held."""
FACTORS_MAY_DIFFER = {"linalg_eig", "linalg_eigh", "linalg_svd", "svd", "linalg_qr", "qr"}
"""Operators whose results are defined up to signs; they are the same nevertheless, computed by the same library."""

ASKS_FOR_A_NUMBER = {"aten::repeat_interleave.self_Tensor:one number"}
"""Samples whose mapped tensor is taken as a number, which Python cannot have of all samples at once."""


def other(array: Any) -> Any:
    """Another array of the same elements: lengths, indices and definite matrices stay such."""
    return array.reshape(-1)[::-1].reshape(array.shape).copy()


def leaves(value: Any) -> list[Any]:
    found: list[Any] = []
    mapped(value, lambda array: found.append(array))
    return found


def filled(value: Any, tensors: Sequence[Any]) -> Any:
    left = iter(tensors)
    return mapped(value, lambda array: next(left))


def results(case: Case, tensors: Sequence[Any]) -> tuple[jit.Tensor, ...]:
    args, kwargs = filled((list(case.sample.args), case.sample.kwargs), tensors)
    return tuple(tensors_in(case.function(*args, **kwargs)))


def loop(case: Case, batches: Sequence[Any], dims: Sequence[int | None]) -> list[tuple[jit.Tensor, ...]]:
    """The results of each sample alone."""
    return [results(case, [b[number] if dim == 0 else b for b, dim in zip(batches, dims)]) for number in range(2)]


def compare(case: Case, first_alone: bool) -> None:
    arrays = leaves((list(case.sample.args), case.sample.kwargs))
    if not arrays:
        pytest.skip("it takes no tensor")
    dims = [0 if number == 0 or not first_alone else None for number in range(len(arrays))]
    both = [np.stack([a, other(a)]) if dim == 0 else a.copy() for a, dim in zip(arrays, dims)]
    batches = [jit.from_numpy(array) for array in both]
    try:
        expected = loop(case, batches, dims)
        stacked = [jit.stack(list(column)) for column in zip(*expected, strict=True)]
    except (Error, ValueError):
        pytest.skip("the other arguments are refused, or the results have several sizes")
    call: Callable[..., Any] = vmap(lambda *tensors: results(case, tensors), in_dims=tuple(dims))
    if case.id in ASKS_FOR_A_NUMBER and dims[-1] == 0:
        with pytest.raises(VmapError, match="another outcome for each sample"):
            call(*batches)
        return
    found = call(*batches)
    assert len(found) == len(stacked)
    for have, want in zip(found, stacked, strict=True):
        assert have.dtype is want.dtype and have.shape == want.shape
        if case.op.schema.name not in NUMBERS_MAY_DIFFER:
            assert_near(have, want)


def assert_near(have: jit.Tensor, want: jit.Tensor) -> None:
    small = have.element_size() <= 4 if not have.dtype.is_complex else have.element_size() <= 8
    exact = not (have.is_floating_point() or have.dtype.is_complex)
    tolerance = 0.0 if exact else 2e-2 if have.element_size() == 2 else 2e-5 if small else 1e-10
    wide = [t.detach().to(jit.complex128 if t.dtype.is_complex else jit.float64).numpy() for t in (have, want)]
    np.testing.assert_allclose(wide[0], wide[1], rtol=tolerance, atol=tolerance)


def is_mappable(case: Case) -> bool:
    return case.op.kind != "random"


@cases(lambda op: op.kind != "random", lambda case: not case.draws)
def test_all_samples_at_once_give_what_a_loop_gives(case):
    compare(case, first_alone=False)


@cases(lambda op: op.kind != "random", lambda case: not case.draws)
def test_arguments_that_are_the_same_for_all_samples(case):
    compare(case, first_alone=True)


def test_refusals_are_errors_of_vmap_also_when_the_tracer_is_loaded():
    jit.trace(lambda x: x * 2)(jit.ones(2))
    with pytest.raises(VmapError, match="another outcome"):
        vmap(lambda x: jit.ones(int(x)))(jit.arange(3))
    assert vmap(jit.linalg.inv)(jit.eye(3).expand(2, 3, 3)).shape == (2, 3, 3)
