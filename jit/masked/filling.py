"""Values in place of the elements that a mask leaves out: such as make no difference to the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.eager.expecting import expect
from jit.eager.holding import Holding
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import DimError, DTypeError
from jit.library.limits import iinfo

from .tensors import MaskedTensor


def unmasked(what: str, input: Any, mask: Any) -> tuple[Tensor, Tensor | None]:
    """The elements of an input, and the mask of them in their sizes, or None if all count.

    Args:
        what: The name of the function.
        input: A tensor, or a masked one, whose mask counts if no other is given.
        mask: A tensor of bools that is true where an element counts; it is broadcast.
    """
    if isinstance(input, MaskedTensor):
        input, mask = input.held, input.mask if mask is None else mask
    if isinstance(input, Holding):
        input = input.answer(f"masked.{what}", (input,), {})
    expect(f"masked.{what}", input)
    if mask is None:
        return input, None
    if mask.ndim > input.ndim:
        raise DimError(
            f"masked.{what}: a mask has no more dims than what it masks, and these are {mask.ndim} and {input.ndim}"
        )
    return input, F.expand(mask.bool(), list(input.shape))


def filled(what: str, input: Any, mask: Any, identity: Callable[[str, Any], Any]) -> Tensor:
    """The elements of an input with the identity of a function where the mask is false.

    Args:
        what: The name of the function.
        input: A tensor, or a masked one.
        mask: A mask, or None.
        identity: The value that makes no difference, of the name of the function and the dtype.
    """
    values, counting = unmasked(what, input, mask)
    if counting is None:
        return values
    return F.where(counting, values, F.full((), identity(what, values.dtype), dtype=values.dtype, device=values.device))


def zero(what: str, dtype: Any) -> Any:
    """The identity of a sum."""
    return 0


def one(what: str, dtype: Any) -> Any:
    """The identity of a product."""
    return 1


def not_a_number(what: str, dtype: Any) -> Any:
    """NaN, which `nanmedian` leaves out."""
    return math.nan


def lowest(what: str, dtype: Any) -> Any:
    """The identity of a maximum."""
    return -math.inf if dtype.is_floating_point or dtype.is_complex else _limits(what, dtype).min


def highest(what: str, dtype: Any) -> Any:
    """The identity of a minimum."""
    return math.inf if dtype.is_floating_point else _limits(what, dtype).max


def _limits(what: str, dtype: Any) -> Any:
    if dtype.category != dtypes.INTEGRAL:
        raise DTypeError(f"masked.{what}: values of {dtype.name} have no order; convert them with .to(...)")
    return iinfo(dtype)


def cast(result: Any, dtype: Any, input: Any) -> Any:
    """A result in the dtype that was asked for, or that of the input."""
    return result.to(input.dtype if dtype is None else dtype)


__all__ = ["cast", "filled", "highest", "lowest", "not_a_number", "one", "unmasked", "zero"]
