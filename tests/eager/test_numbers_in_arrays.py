"""Numpy's arrays without dims stand for numbers, wherever an argument is a number or a list of them."""

from typing import Any

import numpy as np
import pytest

import jit

THREE: Any = np.array(3)
FOUR: Any = np.array(4, np.int32)
HALF: Any = np.array(0.5)
ONE: Any = np.array(1)
WHOLE: Any = np.int64(3)

CALLS = {
    "sizes one by one": (lambda: jit.ones(THREE, FOUR).shape, (3, 4)),
    "beside numpy's numbers": (lambda: jit.ones(WHOLE, FOUR).shape, (3, 4)),
    "sizes in a tuple": (lambda: jit.zeros((THREE, 4)).shape, (3, 4)),
    "in a method": (lambda: jit.ones(12).reshape(THREE, FOUR).shape, (3, 4)),
    "a dim": (lambda: jit.ones(2, 5).sum(ONE).tolist(), [5.0, 5.0]),
    "a list of one number": (lambda: jit.ones(1, 3, 3).unfold(1, THREE, ONE).shape, (1, 1, 3, 3)),
    "a float": (lambda: jit.nn.functional.dropout(jit.ones(3), HALF, training=False).tolist(), [1.0] * 3),
    "a scalar": (lambda: jit.add(jit.ones(2), 1, alpha=HALF).tolist(), [1.5, 1.5]),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_array_without_dims_is_a_number(name):
    call, expected = CALLS[name]
    assert call() == expected
    assert jit.trace(call)() == expected


@pytest.mark.parametrize("wrong", [HALF, np.array([3]), np.array(True), np.array("3")])
def test_what_is_no_size(wrong):
    for sizes in ((wrong,), (wrong, 2), ((wrong, 2),)):
        with pytest.raises(TypeError):
            jit.ones(*sizes)
