"""Masks of attention as functions of places, and the blocks of queries and keys in which they let anything through."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.errors import ShapeError, UsageError

from .mapping import vmap

MaskFunction = Callable[[Any, Any, Any, Any], Any]
"""A function of the batch, the head, the query and the key that says whether the query sees the key."""

DEFAULT_SIZE = 128
"""The number of queries, and of keys, of a block."""


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """True: every query sees every key.

    Args:
        batch: The number of the sample.
        head: The number of the head.
        token_q: The number of the query.
        token_kv: The number of the key.
    """
    return F.ones((), dtype=dtypes.bool_, device=batch.device)


def and_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """The mask that lets through what all of these let through."""
    return _combined(mask_mods, F.logical_and, F.ones)


def or_masks(*mask_mods: MaskFunction) -> MaskFunction:
    """The mask that lets through what one of these lets through."""
    return _combined(mask_mods, F.logical_or, F.zeros)


def _combined(mask_mods: Any, join: Any, start: Any) -> MaskFunction:
    for each in mask_mods:
        if not callable(each):
            raise UsageError(f"All inputs should be callable mask_mods, and one is a {type(each).__name__}")

    def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = start((), dtype=dtypes.bool_, device=b.device)
        for each in mask_mods:
            result = join(result, each(b, h, q_idx, kv_idx))
        return result

    return mask


def mapped_over_places(function: Callable[..., Any], before: int = 0) -> Callable[..., Any]:
    """A function of the places of one score, for all batches, heads, queries and keys at once.

    Args:
        function: It takes `before` arguments, then the four places.
        before: The number of arguments that are mapped along with all four.
    """
    for places in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = vmap(function, in_dims=(0,) * before + places)
    return function


def places(sizes: Iterable[Any], device: Any) -> tuple[Any, ...]:
    """The numbers of all batches, heads, queries and keys."""
    return tuple(F.arange(count, device=device) for count in sizes)


def create_mask(mod_fn: Any, B: Any, H: Any, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """The tensor of bools `[B, H, Q_LEN, KV_LEN]` of a mask; or of a function of scores, where it is not -inf.

    Args:
        mod_fn: A function of batch, head, query and key, or of a score and these.
        B: The number of samples; 1 for None.
        H: The number of heads; 1 for None.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.

    >>> from jit.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2).tolist()
    [[[[True, False], [True, True]]]]
    """
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    numbers = places(sizes, device)
    if _takes_scores(mod_fn):
        scores = F.zeros(sizes, device=device)
        return F.logical_not(F.isneginf(mapped_over_places(mod_fn, 1)(scores, *numbers)))
    return mapped_over_places(mod_fn)(*numbers).bool()


def _takes_scores(function: Any) -> bool:
    given = inspect.signature(function).parameters.values()
    count = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in given)
    if count not in (4, 5):
        raise UsageError(
            f"a mask is a function of batch, head, query and key, with or without a score before them; this one takes "
            f"{count} arguments"
        )
    return count == 5


class BlockMask:
    """A mask of attention, and the blocks of it that are looked at: in part, by the function, or as a whole.

    Make one with `create_block_mask`, or with `from_kv_blocks`.

    Args:
        seq_lengths: The number of queries, and that of keys.
        partial: `[B, H, blocks of queries, blocks of keys]`: whether the function says what a block lets through.
        full: Whether a block lets everything through; None if none is known to.
        BLOCK_SIZE: The number of queries and of keys of a block.
        mask_mod: The function of batch, head, query and key.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], partial: Any, full: Any, BLOCK_SIZE: tuple[int, int],
        mask_mod: MaskFunction = noop_mask,
    ) -> None:  # fmt: skip
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self._partial, self._full = partial, full

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Any, kv_indices: Any, full_kv_num_blocks: Any = None, full_kv_indices: Any = None,
        BLOCK_SIZE: Any = DEFAULT_SIZE, mask_mod: MaskFunction | None = None,
        seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask of which the numbers of the blocks are known.

        Args:
            kv_num_blocks: `[B, H, blocks of queries]`: the number of blocks of keys that are looked at in part.
            kv_indices: `[B, H, blocks of queries, blocks of keys]`: their numbers, and behind them any.
            full_kv_num_blocks: The number of blocks of keys that let everything through, or None.
            full_kv_indices: Their numbers, or None.
            BLOCK_SIZE: The number of queries and of keys of a block, one for both or two.
            mask_mod: The function of batch, head, query and key; all is let through if left out.
            seq_lengths: The number of queries, and that of keys; those of whole blocks if left out.
            compute_q_blocks: Accepted; makes no difference.
        """
        size = _pair(BLOCK_SIZE)
        if kv_indices.ndim < 2 or (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ShapeError("kv_indices has at least 2 dims, and what is said of full blocks is a number and numbers")
        rows, columns = kv_indices.shape[-2:]
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        full = None if full_kv_num_blocks is None else _flags(full_kv_num_blocks, full_kv_indices)
        return cls(lengths, _flags(kv_num_blocks, kv_indices), full, size, mask_mod or noop_mask)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the mask: batches, heads, queries and keys."""
        return (*self._partial.shape[:-2], *self.seq_lengths)

    kv_num_blocks = property(lambda self: _counted(self._partial)[0], doc="How many blocks of keys are partial.")
    kv_indices = property(lambda self: _counted(self._partial)[1], doc="The numbers of these, then the others.")
    q_num_blocks = property(lambda self: _counted(_turned(self._partial))[0], doc="How many blocks of queries are.")
    q_indices = property(lambda self: _counted(_turned(self._partial))[1], doc="The numbers of these.")
    full_kv_num_blocks = property(lambda self: _counted(self._full)[0], doc="How many blocks of keys are full.")
    full_kv_indices = property(lambda self: _counted(self._full)[1], doc="The numbers of these, then the others.")
    full_q_num_blocks = property(lambda self: _counted(_turned(self._full))[0], doc="How many blocks of queries are.")
    full_q_indices = property(lambda self: _counted(_turned(self._full))[1], doc="The numbers of these.")

    def to_dense(self) -> Any:
        """The blocks that are looked at, as 1, and 0 for the others: `[B, H, blocks of queries, blocks of keys]`."""
        return (self._partial if self._full is None else self._partial | self._full).int()

    def numel(self) -> int:
        """The number of scores."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def sparsity(self) -> float:
        """The share of the scores, in percent, in blocks that nothing looks at."""
        looked_at = float(self.to_dense().sum().item()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - looked_at / self.numel())

    def to(self, device: Any) -> BlockMask:
        """This mask on a device."""
        full = None if self._full is None else self._full.to(device)
        return BlockMask(self.seq_lengths, self._partial.to(device), full, self.BLOCK_SIZE, self.mask_mod)

    def visible(self, batches: Any, heads: Any) -> Any:
        """The scores that the mask lets through, as bools `[batches or 1, heads or 1, queries, keys]`.

        Args:
            batches: The number of samples of the attention.
            heads: The number of its heads.
        """
        device = self._partial.device
        mask = mapped_over_places(self.mask_mod)(*places((batches, heads, *self.seq_lengths), device)).bool()
        mask = mask & self._elements(self._partial)
        return mask if self._full is None else mask | self._elements(self._full)

    def _elements(self, blocks: Any) -> Any:
        """Flags of blocks, for each score of them."""
        for dim in (-2, -1):
            length = self.seq_lengths[dim]
            number = F.arange(length, device=blocks.device) // self.BLOCK_SIZE[dim]
            blocks = F.index_select(blocks, dim, number)
        return blocks

    def __getitem__(self, index: Any) -> BlockMask:
        """Some batches, heads, or blocks of queries; the places of queries move, so `mask_mod` is to be set anew."""
        given = index if isinstance(index, tuple) else (index,)
        kept = tuple(
            slice(each % size, each % size + 1) if isinstance(each, int) else each
            for each, size in zip(given, self._partial.shape, strict=False)
        )
        full = None if self._full is None else self._full[kept]
        rows = self._partial[kept]
        lengths = (rows.shape[-2] * self.BLOCK_SIZE[0], self.seq_lengths[1])
        return BlockMask(lengths, rows, full, self.BLOCK_SIZE, _unsaid)

    def __repr__(self) -> str:
        return f"BlockMask(shape={tuple(map(int, self.shape))}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: MaskFunction, B: Any, H: Any, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: Any = DEFAULT_SIZE, _compile: bool = False, separate_full_blocks: bool = True, **ignored: Any,
) -> BlockMask:  # fmt: skip
    """The mask of a function, with the blocks in which it lets something, or everything, through.

    Args:
        mask_mod: A function of batch, head, query and key that says whether the query sees the key.
        B: The number of samples; None if they are all the same.
        H: The number of heads; None if they are all the same.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        BLOCK_SIZE: The number of queries and of keys of a block, one for both or two.
        separate_full_blocks: Whether blocks that let everything through are told apart.
        ignored: Other arguments of PyTorch's, which make no difference.

    >>> from jit.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).to_dense().tolist()
    [[[[1, 0], [1, 1]]]]
    """
    size = _pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    counts = _counts_of_blocks(mask, size)
    full = F.eq(counts, size[0] * size[1]) if separate_full_blocks else None
    some = F.ne(counts, 0)
    return BlockMask((Q_LEN, KV_LEN), some if full is None else some & ~full, full, size, mask_mod)


def _counts_of_blocks(mask: Any, size: tuple[int, int]) -> Any:
    """The number of scores that a mask lets through in each block; those at the end may be smaller."""
    batches, heads, rows, columns = mask.shape
    padded = F.constant_pad_nd(mask.int(), [0, -columns % size[1], 0, -rows % size[0]])
    blocks = (-(-rows // size[0]), size[0], -(-columns // size[1]), size[1])
    return F.sum(F.reshape(padded, [batches, heads, *blocks]), [3, 5])


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _flags(count: Any, numbers: Any) -> Any:
    """The flags of blocks: whether each is among the first `count` of `numbers`."""
    columns = numbers.shape[-1]
    among = F.arange(columns, device=numbers.device) < F.unsqueeze(count, -1)
    places = F.where(among, numbers.long(), columns)
    none = F.zeros((*numbers.shape[:-1], columns + 1), dtype=dtypes.bool_, device=numbers.device)
    return F.narrow(F.scatter(none, -1, places, True), -1, 0, columns)


def _counted(flags: Any) -> Any:
    """The number of flagged blocks in each row, and the numbers of these before those of the others."""
    if flags is None:
        return None, None
    return F.sum(flags, -1).int(), F.argsort(flags.int(), stable=True, dim=-1, descending=True).int()


def _turned(flags: Any) -> Any:
    return None if flags is None else F.transpose(flags, -2, -1)


def _unsaid(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    raise UsageError(
        "a part of a mask numbers its queries from 0; assign its mask_mod a function that knows where the part begins"
    )


__all__ = [
    "BlockMask", "and_masks", "create_block_mask", "create_mask", "mapped_over_places", "noop_mask", "or_masks",
    "places",
]  # fmt: skip
