"""Buckets: tensors that travel together, one behind the other, since a message has its cost however short it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from jit import distributed
from jit.eager.namespace import F
from jit.eager.tensors import Tensor

MEGABYTE = 1024 * 1024
FIRST_BYTES = MEGABYTE
"""The bytes after which the first bucket is full: it is small, so that something travels early."""
BYTES = 25 * MEGABYTE
"""The bytes after which the others are."""

T = TypeVar("T")


def in_buckets(items: Iterable[T], tensor_of: Callable[[T], Tensor], first: int, other: int) -> list[list[T]]:
    """The items in buckets: of one dtype and device each, in the order in which buckets were begun.

    Args:
        items: What stands for tensors.
        tensor_of: The tensor that an item stands for.
        first: The bytes after which the first bucket is full.
        other: The bytes after which another one is.

    >>> [len(bucket) for bucket in in_buckets([F.zeros([2])] * 5, lambda tensor: tensor, 8, 16)]
    [1, 2, 2]
    """
    buckets: list[list[T]] = []
    open_ones: dict[Any, tuple[list[T], int]] = {}
    for item in items:
        tensor = tensor_of(item)
        kind = (tensor.dtype, tensor.device)
        bucket, size = open_ones.get(kind, ([], 0))
        if not bucket:
            buckets.append(bucket)
        bucket.append(item)
        size += tensor.numel() * tensor.dtype.itemsize
        is_full = size >= (first if bucket is buckets[0] else other)
        open_ones[kind] = ([], 0) if is_full else (bucket, size)
    return buckets


def flat(tensors: Sequence[Any]) -> Any:
    """A row of the elements of all tensors."""
    return F.cat([F.reshape(tensor, [-1]) for tensor in tensors])


def parts(row: Any, tensors: Sequence[Any]) -> Iterator[Any]:
    """The parts of a row that stand for tensors of these sizes, as views."""
    start = 0
    for tensor in tensors:
        yield F.view(F.narrow(row, 0, start, tensor.numel()), list(tensor.shape))
        start += tensor.numel()


def broadcast_all(owned: Sequence[tuple[Any, int]], group: Any) -> None:
    """Let every process of a group have the elements that one of them has; to be called without gradients.

    Args:
        owned: Tensors, each with the number in the group of the process that has its elements.
        group: The group; None for all processes.
    """
    rank = distributed.get_rank(group)
    for source in sorted({source for _, source in owned}):
        tensors = [tensor for tensor, owner in owned if owner == source]
        sender = source if group is None else distributed.get_global_rank(group, source)
        for bucket in in_buckets(tensors, lambda tensor: tensor, BYTES, BYTES):
            row = flat(bucket)
            distributed.broadcast(row, sender, group)
            if rank != source:
                for tensor, part in zip(bucket, parts(row, bucket), strict=True):
                    tensor.copy_(part)
