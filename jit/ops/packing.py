"""Sequences of different lengths, packed: the steps of all of them one after the other, without padding.

Note [Packed sequences]
    Three sequences a, b, c of lengths 3, 2, 1, longest first, become one row of elements step by step, and the number
    of sequences that are still running at each step:

        a0 b0 c0 a1 b1 a2        batch_sizes = 3 2 1

    Which places of a padded [time, batch] are elements says the mask `time < length`, the same as
    `batch < batch_sizes`; the place of an element in the row is the number of elements before it, counted time by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.op import absent, array
from jit.ir.samples import Sample, make, sample, strided
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from jit.ir.types import Type

    from .protocols import Array, Ints, KnownType, Number, Numpy, OnnxWriter, Ops, Tensor, Value

_LENGTHS = absent("lengths are whole numbers")


def _check_lengths(lengths: Array, steps: int, batch: int) -> None:
    if lengths.ndim != 1 or lengths.shape[0] != batch:
        raise ShapeError(
            f"pack_padded_sequence: expects {batch} lengths, one for each sequence, got {list(lengths.shape)}"
        )
    if lengths.dtype.kind not in "iu":
        raise DTypeError(f"pack_padded_sequence: lengths should be integers, got {lengths.dtype}")
    if batch == 0 or lengths.min() <= 0:
        raise UsageError("pack_padded_sequence: every sequence must have at least one element; leave empty ones out")
    if (lengths[1:] > lengths[:-1]).any():
        raise UsageError("pack_padded_sequence: lengths must go from longest to shortest; pass enforce_sorted=False")
    if lengths[0] > steps:
        raise ShapeError(f"pack_padded_sequence: a length of {lengths[0]} does not fit {steps} steps")


def _swapped(m: Numpy, x: Array, batch_first: bool) -> Any:
    return m.swapaxes(x, 0, 1) if batch_first else x


def _swapped_sizes(sizes: tuple[int | None, ...], batch_first: bool) -> tuple[Any, ...]:
    return (sizes[1], sizes[0], *sizes[2:]) if batch_first else tuple(sizes)


# -- packing -----------------------------------------------------------------------------------------------------


@array("aten::_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)",
       raises=True, measures=True,
       namespaces=("jit",),
       grad=dict(input=lambda F, g, out, input_meta, batch_first:
                       F._pack_padded_sequence_backward(g, input_meta.shape, out[1], batch_first),
                 lengths=_LENGTHS))  # fmt: skip
def _pack_padded_sequence(m: Numpy, input: Array, lengths: Array, batch_first: bool) -> tuple[Any, Any]:
    """(elements step by step, the number of sequences at each step) of padded sequences, longest first."""
    if input.ndim < 2:
        raise ShapeError(f"pack_padded_sequence: expects time and batch dims, got the sizes {list(input.shape)}")
    padded = _swapped(m, input, batch_first)
    _check_lengths(lengths, *padded.shape[:2])
    runs = m.arange(lengths[0])[:, None] < lengths
    return m.array(padded[: len(runs)][runs], order="C"), runs.sum(1, dtype=m.int64)


@_pack_padded_sequence.type
def _(input: KnownType, lengths: KnownType, batch_first: bool) -> Sequence[Type]:
    rows = TensorType(input.dtype, (None, *input.shape[2:]), None, input.device)
    return rows, TensorType(dtypes.int64, (None,), None, input.device)


@_pack_padded_sequence.onnx
def _(g: OnnxWriter, input: Value, lengths: Value, batch_first: bool) -> Sequence[Value | None]:
    padded = onnx_swapped(g, input, batch_first)
    lengths = g.cast(lengths, dtypes.int64)
    runs = _onnx_below(g, _onnx_size(g, padded, 0), lengths)
    rows = g.op("Reshape", padded, g.op("Concat", g.ints([-1]), _onnx_sizes(g, padded, 2), axis=0))
    data = g.op("Compress", rows, g.op("Reshape", runs, g.ints([-1])), axis=0)
    counts = g.reduce("ReduceSum", g.cast(runs, dtypes.int64), 1, False)
    longest = g.reduce("ReduceMax", lengths, 0, True)
    return data, g.op("Slice", counts, g.ints([0]), longest, g.ints([0]))


@_pack_padded_sequence.samples
def _() -> Iterator[Sample]:
    lengths = np.array([3, 2, 2], np.int64)
    yield sample(make(4, 3, 2), lengths, False)
    yield sample(make(3, 4, 2), lengths, True, note="batch first")
    yield sample(make(3, 3), lengths, False, note="numbers")
    yield sample(strided(make(3, 3, 2)), lengths, False, note="strided")
    yield sample(make(3, 3, 1, dtype="int64"), np.array([3, 3, 1], np.int64), False, note="integer", grad=False)


@array("aten::_pack_padded_sequence_backward(Tensor grad, SymInt[] input_size, Tensor batch_sizes, bool batch_first)"
       " -> Tensor", raises=True, namespaces=("jit",))  # fmt: skip
def _pack_padded_sequence_backward(
    m: Numpy, grad: Array, input_size: Ints, batch_sizes: Array, batch_first: bool
) -> Array:
    """Packed elements at their places in a padded tensor of sizes input_size, zeros elsewhere."""
    padded = m.zeros(_swapped_sizes(input_size, batch_first), grad.dtype)
    padded[: len(batch_sizes)][_runs(m, batch_sizes, padded.shape[1])] = grad
    return m.ascontiguousarray(_swapped(m, padded, batch_first))


def _runs(m: Numpy, batch_sizes: Array, batch: int) -> Any:
    """A mask of the places of a padded [time, batch] that are elements."""
    return m.arange(batch) < batch_sizes[:, None]


@_pack_padded_sequence_backward.type
def _(grad: KnownType, input_size: Ints, batch_sizes: KnownType, batch_first: bool) -> TensorType:
    return TensorType(grad.dtype, tuple(input_size), None, grad.device)


@_pack_padded_sequence_backward.grad
def _(
    F: Ops, g: Tensor, needs: Sequence[bool], input_size: Ints, batch_sizes: Tensor, batch_first: bool
) -> Sequence[Tensor | None]:
    batch = input_size[0] if batch_first else input_size[1]
    lengths = F.sum(F.gt(F.unsqueeze(batch_sizes, 1), F.arange(batch)), 0)
    return F._pack_padded_sequence(g, lengths, batch_first)[0], None


@_pack_padded_sequence_backward.onnx
def _(g: OnnxWriter, grad: Value, input_size: Ints, batch_sizes: Value, batch_first: bool) -> Value:
    steps, batch, *rest = _swapped_sizes(input_size, batch_first)
    padded = onnx_padded(g, grad, g.cast(batch_sizes, dtypes.int64), g.ints([batch]), 0)
    missing = g.op("Sub", g.ints([steps]), _onnx_size(g, padded, 0))
    more = g.op("ConstantOfShape", g.op("Concat", missing, g.ints([batch, *rest]), axis=0))
    return onnx_swapped(g, g.op("Concat", padded, g.cast(more, padded.dtype), axis=0), batch_first)


@_pack_padded_sequence_backward.samples
def _() -> Iterator[Sample]:
    sizes = np.array([3, 3, 1], np.int64)
    yield sample(make(7, 2), [3, 3, 2], sizes, False)
    yield sample(make(7, 2), [3, 5, 2], sizes, True, note="batch first")


# -- unpacking ---------------------------------------------------------------------------------------------------


@array("aten::_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, "
       "int total_length) -> (Tensor, Tensor)", raises=True, measures=True, namespaces=("jit",),
       grad=dict(data=lambda F, g, out, batch_first: F._pack_padded_sequence(g, out[1], batch_first)[0],
                 batch_sizes=_LENGTHS))  # fmt: skip
def _pad_packed_sequence(
    m: Numpy, data: Array, batch_sizes: Array, batch_first: bool, padding_value: Number, total_length: int
) -> Sequence[Array | None]:
    """(padded sequences, their lengths) of packed ones; the length is total_length, or that of the longest."""
    steps = _total_length(len(batch_sizes), total_length)
    runs = _runs(m, batch_sizes, int(batch_sizes[0]))
    padded = m.full((steps, runs.shape[1], *data.shape[1:]), padding_value, data.dtype)
    padded[: len(runs)][runs] = data
    return m.ascontiguousarray(_swapped(m, padded, batch_first)), runs.sum(0, dtype=m.int64)


def _total_length(longest: int, total_length: int) -> int:
    if total_length <= 0:
        return longest
    if total_length < longest:
        raise UsageError(
            f"pad_packed_sequence: total_length {total_length} is less than the longest sequence, {longest}"
        )
    return total_length


@_pad_packed_sequence.type
def _(
    data: KnownType, batch_sizes: KnownType, batch_first: bool, padding_value: Number, total_length: int
) -> Sequence[Type]:
    steps = total_length if total_length > 0 else batch_sizes.shape[0]
    sizes = _swapped_sizes((steps, None, *data.shape[1:]), batch_first)
    return TensorType(data.dtype, sizes, None, data.device), TensorType(dtypes.int64, (None,), None, data.device)


@_pad_packed_sequence.onnx
def _(
    g: OnnxWriter, data: Value, batch_sizes: Value, batch_first: bool, padding_value: Number, total_length: int
) -> Sequence[Value | None]:
    batch_sizes = g.cast(batch_sizes, dtypes.int64)
    batch = g.op("Slice", batch_sizes, g.ints([0]), g.ints([1]), g.ints([0]))
    padded = onnx_padded(g, data, batch_sizes, batch, padding_value)
    if total_length > 0:
        missing = g.op("Sub", g.ints([total_length]), _onnx_size(g, padded, 0))
        sizes = g.op("Concat", missing, _onnx_sizes(g, padded, 1), axis=0)
        more = g.op("Expand", g.constant(padding_value, like=padded), sizes)
        padded = g.op("Concat", padded, more, axis=0)
    lengths = g.reduce("ReduceSum", g.cast(onnx_runs(g, batch_sizes, batch), dtypes.int64), 0, False)
    return onnx_swapped(g, padded, batch_first), lengths


@_pad_packed_sequence.samples
def _() -> Iterator[Sample]:
    sizes = np.array([3, 3, 1], np.int64)
    yield sample(make(7, 2), sizes, False, 0.0, 0)
    yield sample(make(7, 2), sizes, True, -1.5, 5, note="longer")
    yield sample(make(7), sizes, False, 0.0, 0, note="numbers")
    yield sample(make(7, 1, dtype="int64"), sizes, False, 3, 0, note="integer", grad=False)


# -- ONNX --------------------------------------------------------------------------------------------------------


def onnx_swapped(g: OnnxWriter, x: Value, batch_first: bool) -> Value:
    """x with its first two dims exchanged, if `batch_first`."""
    return g.op("Transpose", x, perm=[1, 0, *range(2, x.ndim)]) if batch_first else x


def _onnx_size(g: OnnxWriter, x: Value, dim: int) -> Value:
    """The size of a dim, as a tensor of one number."""
    return g.op("Slice", g.op("Shape", x), g.ints([dim]), g.ints([dim + 1]), g.ints([0]))


def _onnx_sizes(g: OnnxWriter, x: Value, start: int) -> Value:
    """The sizes from dim `start` on, as a vector."""
    return g.op("Slice", g.op("Shape", x), g.ints([start]), g.ints([2**31 - 1]), g.ints([0]))


def _onnx_below(g: OnnxWriter, rows: Value, limits: Value) -> Value:
    """[r, c] is r < limits[c]."""
    count = g.op("Range", g.constant(0), g.op("Squeeze", rows, g.ints([0])), g.constant(1))
    return g.op("Less", g.op("Unsqueeze", count, g.ints([1])), limits)


def onnx_runs(g: OnnxWriter, batch_sizes: Value, batch: Value) -> Value:
    """A mask of the places of a padded [time, batch] that are elements; `batch` is a tensor of one number."""
    return g.op("Transpose", _onnx_below(g, batch, batch_sizes), perm=[1, 0])


def onnx_padded(g: OnnxWriter, data: Value, batch_sizes: Value, batch: Value, padding_value: Number) -> Value:
    """Packed elements as a padded [time, batch, ...]."""
    runs = onnx_runs(g, batch_sizes, batch)
    flat = g.cast(g.op("Reshape", runs, g.ints([-1])), dtypes.int64)
    place = g.op("Sub", g.op("CumSum", flat, g.constant(0)), flat)
    last = g.op("Sub", _onnx_size(g, data, 0), g.ints([1]))
    place = g.op("Reshape", g.op("Min", place, last), g.op("Shape", runs))
    chosen = g.op("Gather", data, place, axis=0)
    inside = g.op("Unsqueeze", runs, g.ints(list(range(2, data.ndim + 1)))) if data.ndim > 1 else runs
    return g.op("Where", inside, chosen, g.constant(padding_value, like=data))
