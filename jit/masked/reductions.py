"""Reductions over the elements that a mask leaves.

Where it leaves none, the result is that of no elements: 0 for a sum, NaN for a mean.
"""

from __future__ import annotations

import math
from typing import Any

from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.errors import DTypeError, UsageError
from jit.ir.geometry import wrap_dim, wrap_dims

from .filling import cast, filled, highest, lowest, not_a_number, one, unmasked, zero


def _dims(dim: Any, input: Any) -> list[int]:
    """The dims to reduce, counted from the front."""
    return sorted(wrap_dims(tuple(dim) if isinstance(dim, list) else dim, input.ndim))


def _summing_dtype(dtype: Any, input: Any) -> Any:
    """The dtype of a sum or a product: that of all integers is int64."""
    if dtype is not None:
        return dtype
    return dtypes.int64 if input.dtype.is_integral else input.dtype


def sum(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The sum of the elements that a mask leaves.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type to compute in; int64 for integers if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.

    >>> import jit
    >>> jit.masked.sum(jit.tensor([[1, 2], [3, 4]]), 1, mask=jit.tensor([True, False])).tolist()
    [1, 3]
    """
    whole = filled("sum", input, mask, zero)
    return F.sum(whole, _dims(dim, whole), bool(keepdim), dtype=_summing_dtype(dtype, whole))


def prod(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The product of the elements that a mask leaves.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type to compute in; int64 for integers if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("prod", input, mask, one)
    result = whole.to(_summing_dtype(dtype, whole))
    for each in reversed(_dims(dim, whole)):
        result = F.prod(result, each, bool(keepdim))
    return result


def amax(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The greatest of the elements that a mask leaves; of none, the lowest value of the dtype.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type of the result.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("amax", input, mask, lowest)
    return cast(F.amax(whole, _dims(dim, whole), bool(keepdim)), dtype, whole)


def amin(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The least of the elements that a mask leaves; of none, the highest value of the dtype.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type of the result.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("amin", input, mask, highest)
    return cast(F.amin(whole, _dims(dim, whole), bool(keepdim)), dtype, whole)


def argmax(
    input: Any, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The place of the greatest of the elements that a mask leaves, in the dtype of the input, as PyTorch has it.

    Args:
        input: A tensor, or a masked one.
        dim: The dim to reduce; if left out, places are those in the flattened tensor.
        keepdim: Whether the reduced dim stays, with size 1.
        dtype: The element type of the result.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("argmax", input, mask, lowest)
    return cast(F.argmax(whole, dim, bool(keepdim)), dtype, whole)


def argmin(
    input: Any, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The place of the least of the elements that a mask leaves, in the dtype of the input, as PyTorch has it.

    Args:
        input: A tensor, or a masked one.
        dim: The dim to reduce; if left out, places are those in the flattened tensor.
        keepdim: Whether the reduced dim stays, with size 1.
        dtype: The element type of the result.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("argmin", input, mask, highest)
    return cast(F.argmin(whole, dim, bool(keepdim)), dtype, whole)


def mean(input: Any, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Any = None) -> Any:
    """The mean of the elements that a mask leaves; NaN of none.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type to compute in, a floating or complex one; that of the input if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.

    Raises:
        DTypeError: The dtype is one of integers.
    """
    values, counting = unmasked("mean", input, mask)
    wanted = values.dtype if dtype is None else dtypes.as_dtype(dtype)
    if wanted.is_integral:
        raise DTypeError(f"masked.mean: a mean of {wanted.name} is a fraction; pass dtype=jit.float32")
    total = sum(values, dim, keepdim=keepdim, dtype=dtype, mask=counting)
    return total / _count(values, counting, dim, bool(keepdim))


def _count(values: Any, counting: Any, dim: Any, keepdim: bool) -> Any:
    """The number of elements that count; a number where there is no mask."""
    dims = _dims(dim, values)
    if counting is not None:
        return F.sum(counting, dims, keepdim)
    count: Any = 1
    for each in dims:
        count = count * values.shape[each] if values.ndim else count
    return F.full((), count, dtype=dtypes.int64, device=values.device)


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The median of the elements that a mask leaves, the lower of two; NaN of none.

    Args:
        input: A tensor, or a masked one.
        dim: The dim to reduce.
        keepdim: Whether the reduced dim stays, with size 1.
        dtype: The element type of the result for integers, whose median is looked for in float32.
        mask: A tensor of bools that is true where an element counts; it is broadcast.

    Raises:
        UsageError: The mask leaves none of a row of integers, which have no NaN.
    """
    expect("the dim of masked.median", dim, int)
    values, counting = unmasked("median", input, mask)
    sought = values if values.dtype.is_floating_point else values.to(dtypes.float32)
    found = F.nanmedian(filled("median", sought, counting, not_a_number), wrap_dim(dim, sought.ndim), keepdim)[0]
    if values.dtype.is_floating_point:
        return found
    if F.any(F.isnan(found)):
        raise UsageError("masked.median: the mask leaves no element of a row, and integers have no NaN; use .float()")
    return cast(found, dtype, values)


def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of the sum of the exponentials of the elements that a mask leaves; minus infinity of none.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type of the result.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("logsumexp", input, mask, lowest)
    return cast(F.logsumexp(whole, _dims(dim, whole), keepdim), dtype, whole)


def norm(
    input: Any, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Any = None,
) -> Any:  # fmt: skip
    """The norm of the elements that a mask leaves, as of a vector.

    Args:
        input: A tensor, or a masked one.
        ord: The order of the norm.
        dim: The dims to reduce, one or several; all if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type to compute in.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("norm", input, mask, highest if ord == -math.inf else zero)
    wanted = 2.0 if ord is None else ord
    return F.linalg_vector_norm(whole, wanted, _dims(dim, whole), bool(keepdim), dtype=dtype)


def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """The variance of the elements that a mask leaves; NaN of none.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        unbiased: Whether to divide by one less than the number of elements.
        correction: The number to divide by less; 1 if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type to compute in; float32 for integers if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.

    Raises:
        UsageError: Both `unbiased` and `correction` are given.
    """
    if unbiased is not None and correction is not None:
        raise UsageError("masked.var: unbiased=True is correction=1, unbiased=False is correction=0; give one of them")
    less = correction if correction is not None else unbiased if unbiased is not None else 1
    values, counting = unmasked("var", input, mask)
    wanted = (dtypes.float32 if values.dtype.is_integral else values.dtype) if dtype is None else dtypes.as_dtype(dtype)
    computed = dtypes.float32 if wanted.is_integral else wanted
    away = values - sum(values, dim, keepdim=True, dtype=computed, mask=counting) / _count(values, counting, dim, True)
    total = sum(away * F.conj(away), dim, keepdim=keepdim, dtype=computed, mask=counting)
    count = F.clamp_min(_count(values, counting, dim, bool(keepdim)).to(dtypes.real_of(computed)) - float(less), 0)
    return (total / count).to(wanted)


def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation of the elements that a mask leaves; NaN of none.

    Args:
        input: A tensor, or a masked one.
        dim: The dims to reduce, one or several; all if left out.
        unbiased: Whether to divide by one less than the number of elements.
        correction: The number to divide by less; 1 if left out.
        keepdim: Whether the reduced dims stay, with size 1.
        dtype: The element type to compute in; float32 for integers if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.

    Raises:
        UsageError: Both `unbiased` and `correction` are given.
    """
    found = var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return F.sqrt(found)


__all__ = ["amax", "amin", "argmax", "argmin", "logsumexp", "mean", "median", "norm", "prod", "std", "sum", "var"]
