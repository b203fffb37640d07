"""How far a result may be from its reference: one table, one row per dtype, one function that applies it."""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np


class Tolerance(NamedTuple):
    """A result passes where |actual - expected| <= atol + rtol * |expected|."""

    rtol: float
    atol: float


EXACT = Tolerance(0.0, 0.0)

# A float row allows a few roundings of its dtype: five for the 16-bit types, which round once per operator,
# and some tens for the types in which sums run. Integers and booleans have nothing to round.
TOLERANCES: dict[np.dtype[Any], Tolerance] = {
    np.dtype(np.bool_): EXACT,
    np.dtype(np.uint8): EXACT,
    np.dtype(np.int8): EXACT,
    np.dtype(np.int16): EXACT,
    np.dtype(np.int32): EXACT,
    np.dtype(np.int64): EXACT,
    np.dtype(np.float16): Tolerance(5e-3, 1e-5),
    np.dtype(ml_dtypes.bfloat16): Tolerance(4e-2, 1e-5),
    np.dtype(np.float32): Tolerance(2e-6, 2e-6),
    np.dtype(np.float64): Tolerance(1e-14, 1e-14),
    np.dtype(np.complex64): Tolerance(2e-6, 2e-6),
    np.dtype(np.complex128): Tolerance(1e-14, 1e-14),
}


def tolerance_of(dtype: Any) -> Tolerance:
    """The row of the table for a numpy dtype."""
    key = np.dtype(dtype)
    if key not in TOLERANCES:
        raise LookupError(f"no tolerance is stated for {key}: add a row to {__file__}")
    return TOLERANCES[key]


def widened(array: np.ndarray) -> np.ndarray:
    """The same numbers in float64 or complex128, in which differences are exact enough to judge."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def as_array(value: Any) -> np.ndarray:
    """A tensor's, an array's or a number's values; a tensor that takes part in autograd is detached first."""
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    check_dtype: bool = True,
    message: str = "",
) -> None:
    """Fail unless two tensors or arrays agree in shape, dtype and, within the table's tolerance, in value.

    The tolerance is that of `actual`'s dtype; `rtol` and `atol` override it and need a reason beside them.
    NaN equals NaN, and an infinity only itself. `check_dtype=False` serves a reference computed in a wider type.
    """
    got, want = as_array(actual), as_array(expected)
    prefix = f"{message}: " if message else ""
    if got.shape != want.shape:
        raise AssertionError(f"{prefix}shape {got.shape}, expected {want.shape}")
    if check_dtype and got.dtype != want.dtype:
        raise AssertionError(f"{prefix}dtype {got.dtype}, expected {want.dtype}")
    row = tolerance_of(got.dtype)
    limit = Tolerance(row.rtol if rtol is None else rtol, row.atol if atol is None else atol)
    note = f"{prefix}{got.dtype}"
    if limit == EXACT:  # in its own type: assert_allclose would round large integers to floats
        np.testing.assert_array_equal(got, want, err_msg=note)
    else:
        np.testing.assert_allclose(widened(got), widened(want), rtol=limit.rtol, atol=limit.atol, err_msg=note)
