"""The comparison that all other tests lean on accepts what it should and refuses the rest."""

import ml_dtypes
import numpy as np
import pytest

from tests.tolerances import TOLERANCES, assert_close, tolerance_of

FLOATS = [dtype for dtype, row in TOLERANCES.items() if row.rtol > 0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_rounding_passes_and_two_hundred_do_not(dtype):
    one = np.ones(3, dtype)
    epsilon = float(ml_dtypes.finfo(dtype if dtype.kind != "c" else one.real.dtype).eps)
    assert_close((one * (1 + epsilon)).astype(dtype), one)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close((one * (1 + 200 * epsilon)).astype(dtype), one)


def test_integers_are_compared_exactly():
    assert_close(np.array([2**53]), np.array([2**53]))
    with pytest.raises(AssertionError):
        assert_close(np.array([2**53]), np.array([2**53 + 1]))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(np.nan, 0.0), (np.inf, -np.inf), (np.inf, 1e308), (0.0, np.nan)],
)
def test_special_values_equal_only_themselves(actual, expected):
    assert_close(np.array([actual]), np.array([actual]))
    with pytest.raises(AssertionError):
        assert_close(np.array([actual]), np.array([expected]))


def test_shape_and_dtype_are_part_of_the_result():
    with pytest.raises(AssertionError, match=r"shape \(1,\), expected \(\)"):
        assert_close(np.ones(1), np.float64(1))
    with pytest.raises(AssertionError, match="dtype float32, expected float64"):
        assert_close(np.ones(1, np.float32), np.ones(1))
    assert_close(np.ones(1, np.float32), np.ones(1), check_dtype=False)


def test_a_dtype_without_a_row_is_an_error():
    with pytest.raises(LookupError, match="no tolerance is stated for datetime64"):
        tolerance_of("datetime64[s]")
