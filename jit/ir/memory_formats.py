"""Memory formats: in which order the elements of a dense tensor lie, whatever the order of its dims.

Note [Results are row-major]
    A result lies in row-major order, whatever the layouts of the operands, unless `memory_format=` asks for another.
    PyTorch lets pointwise results follow their operands, and copies keep the layout by default; here a layout has to
    be asked for: `x.to(memory_format=jit.channels_last)`. Type rules, kernels and plans can
    therefore tell a result's strides from its sizes, except for the few operators that take a memory format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtypes
from .errors import ShapeError, UsageError
from .types import TensorType, contiguous_strides, is_contiguous


class MemoryFormat(str):
    """The name of a memory format, as in `x.contiguous(memory_format=jit.channels_last)`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{dtypes.package}.{self}"


contiguous_format = MemoryFormat("contiguous_format")
"""Row-major: the last dim varies fastest."""
preserve_format = MemoryFormat("preserve_format")
"""The order in which the elements of the operand lie, without its gaps."""
channels_last = MemoryFormat("channels_last")
"""[N, C, H, W] lies as [N, H, W, C]."""
channels_last_3d = MemoryFormat("channels_last_3d")
"""[N, C, D, H, W] lies as [N, D, H, W, C]."""

_FORMATS = {str(f): f for f in (contiguous_format, preserve_format, channels_last, channels_last_3d)}
_RANKS = {"channels_last": 4, "channels_last_3d": 5}


def as_memory_format(value: Any) -> str:
    """The name of a memory format, given by name, or as an object of this package or of PyTorch; else UsageError."""
    name = str(value).rpartition(".")[2]
    if name not in _FORMATS:
        raise UsageError(f"{value!r} is not a memory format; use one of {', '.join(_FORMATS)}")
    return name


def order_of(format: str | None, sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The dims, outermost in memory first, of a dense copy in `format` of a tensor of these sizes and strides."""
    if format in _RANKS:
        if len(sizes) != _RANKS[format]:
            raise ShapeError(f"memory format {format} needs {_RANKS[format]} dims, got the sizes {list(sizes)}")
        return (0, *range(2, len(sizes)), 1)
    if format == "preserve_format":
        return _order_in_memory(sizes, strides)
    return tuple(range(len(sizes)))


def _order_in_memory(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The dims sorted by stride, outermost first; broadcast dims, which take no memory, keep their place."""
    order = list(range(len(sizes)))[::-1]
    for start in range(1, len(order)):
        here = start
        for other in range(start - 1, -1, -1):
            comparison = _compare(order[other], order[here], sizes, strides)
            if comparison < 0:
                break
            if comparison > 0:
                order[other], order[here] = order[here], order[other]
                here = other
    return tuple(reversed(order))


def _compare(a: int, b: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Negative if dim `a` lies inside of `b`, positive if outside, 0 if that cannot be told."""
    if strides[a] == 0 or strides[b] == 0:
        return 0
    if strides[a] != strides[b]:
        return -1 if abs(strides[a]) < abs(strides[b]) else 1
    return 1 if sizes[a] > sizes[b] else 0


def dense_strides(format: str | None, sizes: tuple[int, ...], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The strides of a dense copy in `format`; None where these are row-major, as in a TensorType."""
    order = order_of(format, sizes, strides)
    inner = contiguous_strides(tuple(sizes[d] for d in order))
    found = tuple(inner[order.index(d)] for d in range(len(sizes)))
    return None if is_contiguous(sizes, found) else found


def laid_out(m: Any, array: Any, format: str | None, dtype: Any) -> Any:
    """A copy of an array in `format`, with a numpy dtype."""
    order = order_of(format, array.shape, array.strides)
    return _turned_back(m, m.transpose(array, order).astype(dtype, order="C"), order)


def laid_out_type(like: TensorType, format: str | None, dtype: Any, device: str) -> TensorType:
    """The type of a dense copy, in `format`, of a tensor of type `like`, with another dtype and device."""
    sizes = like.sizes
    if sizes is None or format in (None, "contiguous_format"):
        return TensorType(dtype, like.shape, None, device)
    strides = contiguous_strides(sizes) if like.strides is None else like.strides
    return TensorType(dtype, sizes, dense_strides(format, sizes, strides), device)


def filled_like(m: Any, array: Any, format: str | None, value: Any, dtype: Any) -> Any:
    """An array that holds one value, in `format`, with the sizes of another array."""
    order = order_of(format, array.shape, array.strides)
    return _turned_back(m, m.full([array.shape[d] for d in order], value, dtype), order)


def _turned_back(m: Any, array: Any, order: tuple[int, ...]) -> Any:
    return m.transpose(array, [order.index(d) for d in range(len(order))])


def is_in_format(format: str, sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie densely in `format`, dims of size 1 not counting; any other order means row-major."""
    if format not in _RANKS:
        return is_contiguous(tuple(sizes), tuple(strides))
    if len(sizes) != _RANKS[format]:
        return False
    step = 1
    for dim in reversed(order_of(format, sizes, strides)):
        if sizes[dim] != 1 and strides[dim] != step:
            return False
        step *= sizes[dim]
    return True


def suggested_format(sizes: Sequence[int], strides: Sequence[int]) -> str:
    """The format that a tensor is taken to be in: channels_last where its strides say so, else contiguous_format."""
    for name, rank in _RANKS.items():
        if len(sizes) == rank and _has_channels_last(sizes, strides):
            return name
    return "contiguous_format"


def _has_channels_last(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides grow from the channels outwards.

    Where all sizes but that of the channels are 1, both orders are the same, and the tensor counts as row-major.
    """
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if sizes[dim] == 0 or strides[dim] == 0 or strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * max(sizes[dim], 1)
    return True
