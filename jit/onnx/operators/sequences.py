"""Sequences, which are Python's lists here, and optionals, which are their value or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.eager.namespace import F
from jit.ir.errors import ModelError

from ..table import Number, Tensor, operator
from ..values import Known, as_list, as_tensor
from ..walk import Subgraph


def stacked(values: Sequence[Any], axis: int = 0) -> Any:
    """Values along a new axis; they stay on the host if they are all there."""
    return _joined(values, np.stack, F.stack, axis)


def _joined(values: Sequence[Any], on_host: Callable[..., Any], on_tensors: Callable[..., Tensor], axis: int) -> Any:
    if not values:
        raise ModelError("a sequence without elements cannot be joined into a tensor")
    if all(isinstance(value, Known) for value in values):
        return Known(on_host([value.array for value in values], axis), values[0].dtype)
    return on_tensors([as_tensor(value) for value in values], axis)


# -- sequences -----------------------------------------------------------------------------------------------------


@operator("SequenceConstruct")
def construct(*values: Any) -> list[Any]:
    return list(values)


@operator("SequenceEmpty")
def empty(*, dtype: int | None = None) -> list[Any]:
    return []


@operator("SequenceLength")
def length(sequence: Any) -> Known:
    return Known(np.int64(len(sequence)))


@operator("SequenceAt")
def at(sequence: Any, position: Number) -> Any:
    return sequence[_place(position, len(sequence))]


@operator("SequenceErase")
def erase(sequence: Any, position: Number | None) -> list[Any]:
    place = _place(-1 if position is None else position, len(sequence))
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("SequenceInsert")
def insert(sequence: Any, tensor: Any, position: Number | None) -> list[Any]:
    place = len(sequence) if position is None else _place(position, len(sequence), 1)
    return [*sequence[:place], tensor, *sequence[place:]]


def _place(position: Any, count: int, more: int = 0) -> int:
    """A position counted from the front; ModelError unless it is one of `count + more`."""
    place = int(position)
    if not -count <= place < count + more:
        raise ModelError(f"a sequence of {count} elements has no position {place}")
    return place % count if place < 0 else place


@operator("SplitToSequence")
def split(x: Tensor, parts: Any, *, axis: int = 0, keepdims: int = 1) -> list[Tensor]:
    if parts is None:
        return [F.unsqueeze(part, axis) if keepdims else part for part in F.unbind(x, axis)]
    lengths = [int(number) for number in as_list(parts)]
    scalar = (parts.array if isinstance(parts, Known) else parts).ndim == 0
    return list(F.split(x, lengths[0], axis) if scalar else F.split_with_sizes(x, lengths, axis))


@operator("ConcatFromSequence")
def concatenate(sequence: Any, *, axis: int, new_axis: int = 0) -> Any:
    return stacked(sequence, axis) if new_axis else _joined(sequence, np.concatenate, F.cat, axis)


@operator("SequenceMap")
def sequence_map(*operands: Any, body: Subgraph) -> tuple[list[Any], ...]:
    count = len(operands[0])
    if any(isinstance(operand, list) and len(operand) != count for operand in operands):
        raise ModelError("SequenceMap takes sequences of the same length")
    found = [body(*(o[index] if isinstance(o, list) else o for o in operands)) for index in range(count)]
    return tuple(map(list, zip(*found, strict=True))) if found else tuple([] for _ in body.outputs)


# -- optionals -----------------------------------------------------------------------------------------------------


@operator("Optional")
def optional(value: Any, *, type: Any = None) -> Any:
    return value


@operator("OptionalGetElement")
def get_element(value: Any) -> Any:
    if value is None:
        raise ModelError("an optional without a value has no element")
    return value


@operator("OptionalHasElement")
def has_element(value: Any) -> Known:
    return Known(np.bool_(value is not None))
