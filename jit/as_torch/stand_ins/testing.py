"""`torch.testing`: comparisons of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jit

_TOLERANCES = {
    jit.float16: (1e-3, 1e-5), jit.bfloat16: (1.6e-2, 1e-5), jit.float32: (1.3e-6, 1e-5), jit.float64: (1e-7, 1e-7),
    jit.complex64: (1.3e-6, 1e-5), jit.complex128: (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
    check_dtype: bool = True, msg: Any = None, **others: Any,
) -> None:  # fmt: skip
    """Raise an AssertionError unless two tensors, or containers of them, hold nearly the same.

    Args:
        actual: A tensor, a number, an array, or a container of such.
        expected: What it should be.
        rtol: The allowed difference relative to `expected`; by the dtype if left out.
        atol: The allowed difference.
        equal_nan: Whether NaN equals NaN.
        check_dtype: Whether the dtypes must be the same.
        msg: The text of the error.
        others: Accepted and ignored.

    Raises:
        AssertionError: They differ.
    """
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype}
    if isinstance(expected, Mapping):
        assert actual.keys() == expected.keys(), msg or "the names differ"
        for key in expected:
            assert_close(actual[key], expected[key], msg=msg, **options)
    elif isinstance(expected, Sequence):
        assert len(actual) == len(expected), msg or "the numbers of members differ"
        for pair in zip(actual, expected):
            assert_close(*pair, msg=msg, **options)
    else:
        _compare(jit.as_tensor(actual).detach(), jit.as_tensor(expected).detach(), msg, **options)


def _compare(actual: Any, expected: Any, msg: Any, **options: Any) -> None:
    assert actual.shape == expected.shape, msg or f"sizes {list(actual.shape)} are not {list(expected.shape)}"
    if options["check_dtype"]:
        assert actual.dtype is expected.dtype, msg or f"{actual.dtype} is not {expected.dtype}"
    known = [_TOLERANCES.get(each.dtype, (0.0, 0.0)) for each in (actual, expected)]
    rtol = max(pair[0] for pair in known) if options["rtol"] is None else options["rtol"]
    atol = max(pair[1] for pair in known) if options["atol"] is None else options["atol"]
    wide = jit.promote_types(actual.dtype, expected.dtype)
    near = jit.isclose(actual.to(wide), expected.to(wide), rtol, atol, options["equal_nan"])
    if not bool(near.all()):
        count = int((~near).sum())
        text = f"{count} of {near.numel()} elements are not close (rtol {rtol}, atol {atol})"
        raise AssertionError(msg(text) if callable(msg) else msg or text)


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """`assert_close` by its former name, whatever the dtypes.

    Args:
        actual: A tensor.
        expected: What it should be.
        rtol: The allowed difference relative to `expected`.
        atol: The allowed difference.
    """
    assert_close(actual, expected, rtol=rtol, atol=atol, check_dtype=False)


__all__ = ["assert_allclose", "assert_close"]
