"""What CuPy refuses, the simulated device refuses; and what it takes, that takes, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.cuda import simulated

M = simulated.library()


def floats() -> Any:
    return M.asarray(np.array([[3.0, 1.0], [2.0, 4.0]]))


def numbers(*values: Any, dtype: str = "int64") -> Any:
    return M.asarray(np.array(values, dtype))


REFUSALS: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "an order of a ufunc's result": (TypeError, lambda x: M.subtract(x, 1, order="C")),
    "a mask of a ufunc": (TypeError, lambda x: M.add(x, x, where=x > 1)),
    "a list for a ufunc": (TypeError, lambda x: M.add(x, [1.0, 2.0])),
    "running maxima": (NotImplementedError, lambda x: M.maximum.accumulate(x, axis=0)),
    "the maximum by the ufunc": (NotImplementedError, lambda x: M.maximum.reduce(x)),
    "maxima of runs": (NotImplementedError, lambda x: M.maximum.reduceat(x, numbers(0))),
    "products at places": (NotImplementedError, lambda x: M.multiply.at(x[0], numbers(0), 2.0)),
    "sums of bytes at places": (TypeError, lambda x: M.add.at(numbers(1, dtype="int8"), numbers(0), 1)),
    "complex sums at places": (TypeError, lambda x: M.add.at(x[0] + 1j, numbers(0), 1)),
    "the least of a sum": (TypeError, lambda x: x.max(initial=0.0)),
    "a masked sum": (TypeError, lambda x: M.sum(x, where=x > 1)),
    "a way of taking": (TypeError, lambda x: M.take(x, numbers(0), mode="clip")),
    "a result of a transform": (TypeError, lambda x: M.fft.fft(x, out=x + 0j)),
    "another kind of sorting": (ValueError, lambda x: M.argsort(x, kind="heapsort")),
    "an order of fields": (TypeError, lambda x: M.sort(x, order="a")),
    "lists among what is joined": (TypeError, lambda x: M.concatenate([[0.0], x[0]])),
    "a list of keys": (TypeError, lambda x: M.lexsort((x[0], x[1]))),
    "the logic of complex numbers": (TypeError, lambda x: M.logical_not(x + 1j)),
    "arrays in a list of indices": (TypeError, lambda x: x[[numbers(0)[0], 1]]),
    "arrays in a list of places": (TypeError, lambda x: x.__setitem__([0, numbers(1)[0]], 0.0)),
    "a list put into an array": (TypeError, lambda x: x.__setitem__(0, [1.0, 2.0])),
    "several matrices": (ValueError, lambda x: simulated.lapack().expm(x[None])),
    "another dtype copied in": (TypeError, lambda x: x.set(np.zeros((2, 2), np.float32))),
    "other sizes copied in": (ValueError, lambda x: x.set(np.zeros(2))),
    "floats of eight bits": (ValueError, lambda x: x.astype(jit.float8_e5m2.numpy)),
    "a step in no memory": (AssertionError, lambda x: M.empty((0, 2)).data + 8),
}


@pytest.mark.parametrize("error, call", REFUSALS.values(), ids=REFUSALS)
def test_refused(error: type[Exception], call: Callable[[Any], Any]) -> None:
    with pytest.raises(error):
        call(floats())


@pytest.mark.parametrize(
    "call",
    [
        lambda x: M.subtract(x, 1, out=x),
        lambda x: M.add(x, x, dtype=np.float64, casting="unsafe"),
        lambda x: M.add.accumulate(x, axis=0),
        lambda x: M.multiply.reduce(x, axis=0),
        lambda x: M.add.at(x[0], numbers(0), 1.0),
        lambda x: M.sort(x, axis=-1, kind="stable"),
        lambda x: M.concatenate([x, x]),
        lambda x: M.copyto(x, 0.0, where=x > 1),
        lambda x: M.bincount(numbers(0, 1), weights=x[0]),
        lambda x: x[[0, 1]],
        lambda x: x.astype(jit.bfloat16.numpy),
        lambda x: simulated.lapack().expm(x),
        lambda x: x.set(np.zeros((2, 2))),
    ],
)
def test_taken(call: Callable[[Any], Any]) -> None:
    call(floats())


def test_new_arrays_of_ufuncs_are_row_major() -> None:
    turned = floats().T
    assert not turned.flags.c_contiguous
    for made in (turned + 1, M.exp(turned), M.subtract(turned, turned)):
        assert made.flags.c_contiguous
