"""`torch.testing`: comparisons of tensors, and tensors of random numbers for tests."""

from __future__ import annotations

import math
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


def make_tensor(
    *shape: Any, dtype: Any, device: Any = None, low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """A tensor of random numbers, by default about as large as the digits.

    Args:
        shape: The sizes, one by one or as one sequence.
        dtype: The dtype.
        device: The device.
        low: The least number; -9 by default, 0 where there are no negative ones.
        high: The bound that is not reached; 9 by default, 10 for whole numbers.
        requires_grad: Whether gradients are wanted.
        noncontiguous: Whether there are gaps between the elements.
        exclude_zero: Whether the smallest number that is not denormal stands where a zero was drawn.
        memory_format: The order of the elements in memory.

    Raises:
        ValueError: The bounds are no interval, or hold no number of this dtype.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor takes noncontiguous=True or a memory_format, not both")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"make_tensor: elements of {dtype} have no gradients; leave requires_grad=True out")
    made = _drawn(sizes, dtype, device, *_interval(dtype, low, high))
    if noncontiguous and made.numel() > 1:
        made = made.repeat_interleave(2, dim=-1)[..., ::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = jit.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
    return made.requires_grad_() if requires_grad else made


def _interval(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds of `make_tensor`, within those of the dtype."""
    exact = not (dtype.is_floating_point or dtype.is_complex)
    least: float
    most: float
    if dtype is jit.bool:
        least, most, usual = 0, 2, (0, 2)
    elif exact:
        info = jit.iinfo(dtype)
        least, most, usual = info.min, min(info.max + 1, 2**63 - 1), (max(info.min, -9), 10)
    else:
        least, most, usual = jit.finfo(dtype).min, jit.finfo(dtype).max, (-9, 9)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if low != low or high != high or low > high or (low == high and exact):
        raise ValueError(f"make_tensor: low must be less than high, but they are {low} and {high}")
    if high < least or low >= most:
        raise ValueError(f"make_tensor: {dtype} has no numbers from {low} to {high}")
    low, high = min(max(low, least), most), min(max(high, least), most)
    return (math.ceil(low), math.ceil(high)) if exact else (low, high)


def _drawn(sizes: Sequence[int], dtype: Any, device: Any, low: float, high: float) -> Any:
    if not (dtype.is_floating_point or dtype.is_complex):
        return jit.randint(int(low), int(high), sizes, dtype=dtype, device=device)
    made = jit.empty(sizes, dtype=dtype, device=device)
    parts = jit.view_as_real(made) if dtype.is_complex else made
    if high - low < jit.finfo(dtype).max:
        parts.uniform_(low, high)
    else:  # which no draw can span at once
        parts.uniform_(low / 2, high / 2).mul_(2)
    return made


__all__ = ["assert_allclose", "assert_close", "make_tensor"]
