"""What a run copies before it hands it out: no result shares memory with another one, and no write meets another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit


def written_and_returned(a: Any, b: Any) -> Any:
    """One value, which is written to an argument and returned."""
    return a.add_(b, alpha=-0.5)


def written_twice_and_returned(a: Any, b: Any) -> Any:
    c = a + b
    a.copy_(c)
    b.copy_(c)
    return c


def exchanged(a: Any, b: Any) -> Any:
    c = a.clone()
    a.copy_(b)
    b.copy_(c)
    return c


def shifted_over_itself(a: Any, b: Any) -> Any:
    a[1:] = a[:-1].clone()
    return a[1:] * b[1:]


@pytest.mark.parametrize("function", [written_and_returned, written_twice_and_returned, exchanged, shifted_over_itself])
def test_results_and_arguments_are_those_of_the_function(function: Callable[..., Any]) -> None:
    f = jit.trace(function)
    rng = np.random.default_rng(0)
    with jit.no_grad():
        for _ in range(6):
            arrays = rng.standard_normal((2, 5)).astype(np.float32)
            expected, found = ([jit.tensor(array) for array in arrays] for _ in range(2))
            results = function(*expected), f(*found)
            for one, other in zip((*expected, results[0]), (*found, results[1]), strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())
            found[0].zero_()  # what was returned stays, unless it is this argument
            assert (results[1] is found[0]) == (results[0] is expected[0])
            if results[1] is not found[0]:
                np.testing.assert_array_equal(results[1].numpy(), results[0].numpy())
    assert f.hits


@pytest.mark.llvm
def test_what_is_written_elsewhere_is_not_copied_before() -> None:
    for function in (written_and_returned, written_twice_and_returned):
        f = jit.trace(function)
        with jit.no_grad():
            for _ in range(4):
                f(jit.ones(5), jit.ones(5))
        plan = f._last.chains[0].plan
        assert plan is not None and not plan.memory.copied
