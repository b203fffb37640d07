"""The ways in which the elements of a tensor can lie that mean the same for every size.

Dims are ranked from the innermost: (1, 0) is a row-major matrix, (0, 1) its transpose, and an expanded dim has rank -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Ranks = tuple[int, ...]


def row_major(ndim: int) -> Ranks:
    """The ranks of the dims of a contiguous tensor."""
    return tuple(reversed(range(ndim)))


def ranks_of(sizes: Sequence[int], strides: Sequence[int] | None) -> Ranks | None:
    """The ranks of the dims of a tensor, of which no strides means contiguous; None if there are gaps in its memory.

    >>> ranks_of((3, 4), (1, 3)), ranks_of((3, 4), (0, 1)), ranks_of((3, 4), (8, 1))
    ((0, 1), (-1, 0), None)
    """
    if strides is None:
        return row_major(len(sizes))
    expanded = [stride == 0 and size > 1 for size, stride in zip(sizes, strides, strict=True)]
    dims = sorted(range(len(sizes)), key=lambda d: (-strides[d] if sizes[d] > 1 else -float("inf"), d))
    inner = [d for d in reversed(dims) if not expanded[d]]
    ranks, step = [-1] * len(sizes), 1
    for rank, dim in enumerate(inner):
        if sizes[dim] > 1 and strides[dim] != step:
            return None
        ranks[dim] = rank
        step *= sizes[dim]
    return tuple(ranks)


def strides_of(sizes: Sequence[Any], ranks: Ranks) -> tuple[Any, ...] | None:
    """The strides of a tensor of these sizes, numbers or expressions; None if it is contiguous."""
    if ranks == row_major(len(sizes)):
        return None
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for dim in sorted((d for d, rank in enumerate(ranks) if rank >= 0), key=lambda d: ranks[d]):
        strides[dim] = step
        step = step * sizes[dim]
    return tuple(strides)


def general_kind(kind: tuple[Any, ...], dims: Sequence[int] | None) -> tuple[Any, ...]:
    """The kind of a tensor with sizes of 2 and more made alike.

    Tensors without gaps are alike if their dims have the same ranks. One with gaps is a part of a larger one, such as
    the rows of a buffer that have been filled: it is like others with the very same strides.

    Args:
        kind: A tuple of dtype, sizes, layout and more.
        dims: The dims whose sizes vary; None for all.
    """
    if len(kind) < 3:
        return kind
    dtype, sizes, layout, *rest = kind
    lies: Any = None if layout is None else ranks_of(sizes, layout)
    if layout is not None and lies is None:
        if not is_part(sizes, layout):
            return kind
        lies = ("gaps", *layout)
    varying = range(len(sizes)) if dims is None else [d % len(sizes) for d in dims if sizes]
    shape = tuple(min(n, 2) if d in varying else -n for d, n in enumerate(sizes))
    return (dtype, shape, lies, *rest)


def is_part(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether there are gaps in a tensor's memory, and no two elements share any, as far as that shows dim by dim.

    >>> is_part((3, 4), (8, 1)), is_part((3, 4), (4, 1)), is_part((3, 4), (2, 1)), is_part((3, 4), (0, 1))
    (True, False, False, False)
    """
    if ranks_of(sizes, strides) is not None:
        return False
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(strides, sizes, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def kind_of_gradient(kind: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The kind of a gradient of any size: that of what it is the gradient of. One with gaps will be copied."""
    if kind is None or len(kind) < 3:
        return kind
    dtype, sizes, layout, *rest = kind
    ranks = None if layout is None else ranks_of(sizes, layout)
    return (dtype, (None,) * len(sizes), None if ranks == row_major(len(sizes)) else ranks, *rest)
