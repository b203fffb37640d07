"""Functions that keep the sizes, and in which only the elements count that a mask leaves.

What they give where the mask is false is of no meaning: 0 from a softmax, the running result from a cumulative sum.
"""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.geometry import wrap_dim

from .filling import cast, filled, highest, lowest, one, zero
from .reductions import norm


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The softmax of the elements that a mask leaves; of none, NaN.

    Args:
        input: A tensor, or a masked one.
        dim: The dim along which the results sum up to 1.
        dtype: The element type to compute in.
        mask: A tensor of bools that is true where an element counts; it is broadcast.

    >>> import jit
    >>> jit.masked.softmax(jit.zeros(3), 0, mask=jit.tensor([True, False, True])).tolist()
    [0.5, 0.0, 0.5]
    """
    whole = filled("softmax", input, mask, lowest)
    return F.softmax(whole, wrap_dim(dim, whole.ndim), dtype=whole.dtype if dtype is None else dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of `softmax`.

    Args:
        input: A tensor, or a masked one.
        dim: The dim along which the exponentials of the results sum up to 1.
        dtype: The element type to compute in.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("log_softmax", input, mask, lowest)
    return F.log_softmax(whole, wrap_dim(dim, whole.ndim), dtype=whole.dtype if dtype is None else dtype)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The softmax of the negative of the elements that a mask leaves.

    Args:
        input: A tensor, or a masked one.
        dim: The dim along which the results sum up to 1.
        dtype: The element type to compute in.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("softmin", input, mask, highest)
    return F.softmax(-whole, wrap_dim(dim, whole.ndim), dtype=whole.dtype if dtype is None else dtype)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The elements over the norm of those that a mask leaves.

    Args:
        input: A tensor, or a masked one.
        ord: The order of the norm.
        dim: The dim along which norms are computed.
        eps: The least number to divide by.
        dtype: The element type of the norm.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return filled("normalize", input, mask, zero) / F.clamp_min(length, eps)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The cumulative sum of the elements that a mask leaves.

    Args:
        input: A tensor, or a masked one.
        dim: The dim along which to sum.
        dtype: The element type to compute in; that of the input if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("cumsum", input, mask, zero)
    return cast(F.cumsum(whole, wrap_dim(dim, whole.ndim), dtype=whole.dtype if dtype is None else dtype), dtype, whole)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The cumulative product of the elements that a mask leaves.

    Args:
        input: A tensor, or a masked one.
        dim: The dim along which to multiply.
        dtype: The element type to compute in; that of the input if left out.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    whole = filled("cumprod", input, mask, one)
    wanted = whole.dtype if dtype is None else dtype
    return cast(F.cumprod(whole, wrap_dim(dim, whole.ndim), dtype=wanted), dtype, whole)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """The logarithm of the sum of two exponentials, of which masks leave both, one, or none.

    Args:
        input: A tensor, or a masked one.
        other: A tensor, or a masked one.
        dtype: The element type of the result.
        input_mask: A tensor of bools that is true where an element of `input` counts.
        other_mask: A tensor of bools that is true where an element of `other` counts.
    """
    left, right = filled("logaddexp", input, input_mask, lowest), filled("logaddexp", other, other_mask, lowest)
    return cast(F.logaddexp(left, right), dtype, left)


__all__ = ["cumprod", "cumsum", "log_softmax", "logaddexp", "normalize", "softmax", "softmin"]
