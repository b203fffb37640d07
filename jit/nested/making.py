"""Nested tensors from lists of tensors, and from rows with offsets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from jit.eager import context
from jit.eager.creation import tensor
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import layouts
from jit.ir.errors import KindError, UnwrittenError, UsageError

from .tensors import NestedTensor


def _layout(given: Any) -> Any:
    if given not in (None, layouts.strided, layouts.jagged):
        raise UsageError(f"a nested tensor is strided or jagged, not {given!r}; leave layout out")
    return layouts.strided if given is None else given


def nested_tensor(
    tensor_list: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:  # fmt: skip
    """A nested tensor with copies of tensors, lists or numbers, without a history.

    Args:
        tensor_list: The members.
        dtype: Their element type; that of the first one if left out.
        layout: `jit.strided` or `jit.jagged`, which differ in nothing here.
        device: Where it lies.
        requires_grad: Whether gradients by it are wanted.
        pin_memory: Accepted; makes no difference.

    >>> import jit
    >>> jit.nested.nested_tensor([[1.0, 2.0], [3.0]]).size(0)
    2
    """
    with context.no_grad():
        members = [tensor(each, dtype=dtype, device=device) for each in tensor_list]
        made = NestedTensor.of(members, _layout(layout))
    made.held = made.held.detach()
    made.requires_grad_(requires_grad)
    return made


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> NestedTensor:
    """A nested tensor of tensors, which gradients reach.

    Args:
        ts: The members; a tensor stands for its rows.
        dtype: Their element type.
        device: Where it lies.
        layout: `jit.strided` or `jit.jagged`.
    """
    if isinstance(ts, NestedTensor):
        return ts.to(dtype=dtype, device=device)
    members = [each if isinstance(each, Tensor) else tensor(each) for each in ts]
    return NestedTensor.of(members, _layout(layout)).to(dtype=dtype, device=device)


def nested_tensor_from_jagged(
    values: Any, offsets: Any = None, lengths: Any = None, jagged_dim: int | None = None, min_seqlen: Any = None,
    max_seqlen: Any = None,
) -> NestedTensor:  # fmt: skip
    """A nested tensor whose members are stretches of the rows of a tensor; gradients reach it.

    Args:
        values: The rows.
        offsets: The row at which each member begins, and behind them the number of rows.
        lengths: The number of rows of each member, in place of offsets.
        jagged_dim: 1: members differ in their first dim.
        min_seqlen: Accepted; makes no difference.
        max_seqlen: Accepted; makes no difference.

    Raises:
        UsageError: Neither offsets nor lengths are given, or they do not fit the rows.
    """
    if jagged_dim not in (None, 1):
        raise UnwrittenError(f"members differ in their first dim, which is dim 1 of the batch, not {jagged_dim}")
    if (offsets is None) == (lengths is None):
        raise UsageError("nested_tensor_from_jagged takes either offsets or lengths: members without gaps between them")
    starts = [0] if offsets is None else [int(each) for each in offsets.tolist()]
    for length in () if lengths is None else lengths.tolist():
        starts.append(starts[-1] + int(length))
    counts = [end - start for start, end in pairwise(starts)]
    if starts[0] != 0 or starts[-1] != values.shape[0] or min(counts, default=0) < 0:
        raise UsageError(f"offsets go from 0 up to the number of rows, {values.shape[0]}, unlike {starts}")
    rest = tuple(map(int, values.shape[1:]))
    return NestedTensor(F.reshape(values, [-1]), tuple((count, *rest) for count in counts), layouts.jagged)


def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Any:
    """An ordinary tensor, in which a number fills up what members lack.

    Args:
        input: A nested tensor.
        padding: The number.
        output_size: The sizes of the result; the largest of the members if left out.
    """
    if not isinstance(input, NestedTensor):
        raise KindError(f"to_padded_tensor takes a nested tensor, not {type(input).__name__}; make one of it first")
    return input.to_padded_tensor(padding, output_size)


__all__ = ["NestedTensor", "as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]
