"""Sequences of different lengths in one batch: padded to one length, or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jit.eager.creation import tensor
from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import KindError, ShapeError, UsageError


class PackedSequence(NamedTuple):
    """Several sequences, longest first, packed step by step; made by `pack_padded_sequence` and `pack_sequence`.

    It is a tuple of tensors, so that it passes through `jit.trace` as an argument or a result.
    """

    data: Tensor
    """The elements: those of the first step, then those of the second, ..."""
    batch_sizes: Tensor
    """The numbers of sequences that have a first element, a second element, ..."""
    sorted_indices: Tensor | None = None
    """The sequences that were put first, second, ..., by number; None if they were given in this order."""
    unsorted_indices: Tensor | None = None
    """The place of each sequence: the inverse of `sorted_indices`."""

    def _holding(self, data: Any) -> PackedSequence:
        return self if data is self.data else self._replace(data=data)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """This sequence with its elements as `data.to(...)` gives them."""
        return self._holding(self.data.to(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """This sequence on the CPU."""
        return self._holding(self.data.cpu())

    def double(self) -> PackedSequence:
        """This sequence in float64."""
        return self._holding(self.data.double())

    def float(self) -> PackedSequence:
        """This sequence in float32."""
        return self._holding(self.data.float())

    def half(self) -> PackedSequence:
        """This sequence in float16."""
        return self._holding(self.data.half())

    def long(self) -> PackedSequence:
        """This sequence in int64."""
        return self._holding(self.data.long())

    def int(self) -> PackedSequence:
        """This sequence in int32."""
        return self._holding(self.data.int())

    def short(self) -> PackedSequence:
        """This sequence in int16."""
        return self._holding(self.data.short())

    def char(self) -> PackedSequence:
        """This sequence in int8."""
        return self._holding(self.data.char())

    def byte(self) -> PackedSequence:
        """This sequence in uint8."""
        return self._holding(self.data.byte())

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one.

    >>> import jit
    >>> jit.nn.utils.rnn.invert_permutation(jit.tensor([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    if permutation is None:
        return None
    return F.scatter(
        F.empty_like(permutation), 0, permutation, F.arange(permutation.shape[0], device=permutation.device)
    )


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a batch of padded sequences.

    Args:
        input: `[T, B, ...]`, or `[B, T, ...]` if `batch_first`.
        lengths: The number of elements, up to T, of each of the B sequences: a list, or a tensor of integers.
        batch_first: Whether the batch is the first dim.
        enforce_sorted: Whether sequences must come longest first. Otherwise they are sorted, and put back into their
            order by `pad_packed_sequence`.

    Raises:
        UsageError: A length is not positive, or lengths are not sorted where they must be.
        ShapeError: Lengths do not fit the input.

    >>> import jit
    >>> from jit.nn.utils.rnn import pack_padded_sequence
    >>> packed = pack_padded_sequence(jit.tensor([[1, 2], [3, 0]]), [2, 1])
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1, 2, 3], [2, 1])
    """
    lengths = lengths if isinstance(lengths, Tensor) else tensor(list(lengths))
    order = None
    if not enforce_sorted:
        lengths, order = F.sort(lengths, -1, True)
        input = F.index_select(input, 0 if batch_first else 1, order)
    data, batch_sizes = F._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, order, invert_permutation(order))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Undo `pack_padded_sequence`.

    Args:
        sequence: What was packed.
        batch_first: Whether to return `[B, T, ...]` instead of `[T, B, ...]`.
        padding_value: The number that fills up shorter sequences.
        total_length: T; the longest length if left out.

    Returns:
        The padded sequences and their lengths.

    Raises:
        UsageError: `total_length` is less than the longest length.
    """
    expect("pad_packed_sequence", sequence, PackedSequence)
    data, batch_sizes, _, order = sequence
    total = 0 if total_length is None else total_length
    if total_length is not None and total < batch_sizes.shape[0]:
        longest = batch_sizes.shape[0]
        raise UsageError(
            f"pad_packed_sequence: total_length is {total}, but a sequence has {longest} elements; pass at least that"
        )
    padded, lengths = F._pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total)
    if order is None:
        return padded, lengths
    return F.index_select(padded, 0 if batch_first else 1, order), F.index_select(lengths, 0, order)


def pad_sequence(
    sequences: Sequence[Any], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Sequences `[L, ...]` of different lengths as one padded tensor.

    Args:
        sequences: Tensors that differ in their first size alone.
        batch_first: Whether to return `[B, T, ...]` instead of `[T, B, ...]`.
        padding_value: The number that fills up shorter ones.
        padding_side: "right" or "left".

    Raises:
        UsageError: `padding_side` is neither "right" nor "left".
        KindError: `sequences` is not iterable, or a member is no tensor.
        ShapeError: There is no sequence, or one has no dim.

    >>> import jit
    >>> jit.nn.utils.rnn.pad_sequence([jit.ones(2), jit.ones(1)], batch_first=True).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    if padding_side not in ("right", "left"):
        raise UsageError(f"padding_side is {padding_side!r}; it must be 'right' or 'left'")
    if not isinstance(sequences, Iterable):
        raise KindError(f"pad_sequence takes several sequences, not {type(sequences).__name__}; pass a list")
    listed = list(F.unbind(sequences, 0)) if isinstance(sequences, Tensor) else list(sequences)
    for member in listed:
        expect("each sequence of pad_sequence", member)
    if not listed or any(s.ndim == 0 for s in listed):
        raise ShapeError("a sequence of pad_sequence is missing or has no dim; pass at least one, of at least one dim")
    longest = max(s.shape[0] for s in listed)
    padded = [_lengthened(s, longest - s.shape[0], padding_value, padding_side == "left") for s in listed]
    return F.stack(padded, 0 if batch_first else 1)


def _lengthened(sequence: Any, missing: Any, value: float, in_front: bool) -> Any:
    ends = (missing, 0) if in_front else (0, missing)
    return F.constant_pad_nd(sequence, [0, 0] * (sequence.ndim - 1) + list(ends), value)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """Undo `pad_sequence`: the first `lengths[i]` elements of each sequence.

    Args:
        padded_sequences: `[L, N, ...]`, or `[N, L, ...]` if `batch_first`.
        lengths: The length of each sequence, a list or a tensor.
        batch_first: Whether N comes before L.

    Returns:
        N tensors `[length, ...]`.
    """
    batch = padded_sequences if batch_first else F.transpose(padded_sequences, 0, 1)
    counts = [int(n) for n in F.unbind(lengths, 0)] if isinstance(lengths, Tensor) else list(lengths)
    return [F.narrow(row, 0, 0, count) for row, count in zip(F.unbind(batch, 0), counts, strict=True)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences `[L, ...]` of different lengths.

    >>> import jit
    >>> jit.nn.utils.rnn.pack_sequence([jit.tensor([1, 2]), jit.tensor([3])]).data.tolist()
    [1, 3, 2]
    """
    padded = pad_sequence(sequences)
    return pack_padded_sequence(padded, [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Undo `pack_sequence`."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
