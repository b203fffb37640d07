"""Pointwise operators on large arrays: results in memory that is used again, and intermediate values in the cache.

Note [Parts]
    A body such as `exp(min(x, 0)) / (1 + exp(-abs(x)))` makes six arrays on its way. Of 64 MB each they come from the
    operating system, page by page, and go through main memory twice. So the body runs on parts of the operands that fit
    into the cache, one after the other, and each part of the result is written where it belongs. The body of a
    pointwise operator works element by element, so the values are the same. Where it is a single function of numpy's,
    that function writes the whole result by itself.

Note [Transposed operands]
    Results are row-major, whatever the operands are. A transposed operand whose columns lie a power of two apart is
    read from memory once per element, since all its columns want the same few places in the cache; copied in strips of
    one cache line (16 floats), once per line: 1024 x 256 floats in 0.2 ms instead of 0.7 ms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jit.ir.op import Op

from . import blocks
from .array_math import numpy_math

PART = 1 << 16
"""Elements that a body gets at once: a few arrays of them fit into a core's own cache."""
LINE = 64
"""Bytes in a cache line."""
CROWDED = 1024
"""Columns that lie a multiple of so many bytes apart share places in the cache."""

Part = tuple[slice, ...]


def is_large(op: Op, values: Sequence[Any], itemsize: int) -> bool:
    """Whether the result of a pointwise operator, elements of `itemsize` bytes, is large enough for this module."""
    most = itemsize
    for index in op.promoted:
        value = values[index]
        if type(value) is np.ndarray:
            most *= value.size
    return most >= blocks.LARGE and _size_of_result(op, values) * itemsize >= blocks.LARGE


def _size_of_result(op: Op, values: Sequence[Any]) -> int:
    """The number of elements of the result; of operands that do not go together, those of the largest."""
    arrays = [value for i in op.tensors if isinstance(value := values[i], np.ndarray)]
    largest = max([array.size for array in arrays])
    if all([array.shape == arrays[0].shape for array in arrays]):
        return largest
    try:
        return np.broadcast(*arrays).size
    except ValueError:
        return largest


def pointwise(op: Op, values: Sequence[Any], final: Any, wide: Any) -> Any:
    """The result of a pointwise operator: a new row-major array.

    Args:
        op: The operator.
        values: Its arguments; numbers among the promoted ones as arrays of dtype `wide`.
        final: The dtype of the result.
        wide: The dtype that the body computes in; promoted operands of others are cast.

    Raises:
        ValueError: The operands do not broadcast.
    """
    args = [row_major(v) if isinstance(v, np.ndarray) and _is_crowded(v) else v for v in values]
    arrays = [args[i] for i in op.tensors if isinstance(args[i], np.ndarray)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    made = blocks.empty(shape, final)
    single = op.into if final == wide and all(array.dtype == wide for array in arrays) else None
    if single is None or op.ask(single, args, np, made) is None:
        _in_parts(op, args, arrays, made, wide)
    return made


def _in_parts(op: Op, args: list[Any], arrays: Sequence[Any], made: Any, wide: Any) -> None:
    """Fill `made` with the result, part by part."""
    if all(array.ndim == 0 or (array.shape == made.shape and array.flags.c_contiguous) for array in arrays):
        made = made.reshape(-1)
        args = [a.reshape(-1) if isinstance(a, np.ndarray) and a.ndim else a for a in args]
    body, casts = op.numpy_body or op.body, [wide if i in op.promoted else None for i in range(len(args))]
    for part in parts(made.shape):
        pieces = [_piece(value, part, dtype) for value, dtype in zip(args, casts, strict=True)]
        np.copyto(made[part], body(numpy_math, *pieces), casting="unsafe")


def _piece(value: Any, part: Part, dtype: Any) -> Any:
    """The elements of an operand that belong to a part of the result, in `dtype` if that is given."""
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim:
        ours = part[-value.ndim :]
        value = value[tuple([slice(None) if n == 1 else s for n, s in zip(value.shape, ours, strict=True)])]
    return value if dtype is None or value.dtype == dtype else value.astype(dtype)


def parts(shape: tuple[int, ...], size: int = PART) -> Iterator[Part]:
    """Cuts an array of this shape into parts of at most `size` elements, in order, the inner dims whole.

    >>> list(parts((3, 4), 8))
    [(slice(0, 2, None), slice(None, None, None)), (slice(2, 4, None), slice(None, None, None))]
    """
    whole = len(shape)
    while whole and math.prod(shape[whole - 1 :]) <= size:
        whole -= 1
    rest = (slice(None),) * (len(shape) - whole)
    if not whole:
        yield rest
        return
    step = max(1, size // math.prod(shape[whole:]))
    for outer in itertools.product(*map(range, shape[: whole - 1])):
        for start in range(0, shape[whole - 1], step):
            yield (*[slice(i, i + 1) for i in outer], slice(start, start + step), *rest)


# -- layouts -------------------------------------------------------------------------------------------------------


def _is_crowded(array: Any) -> bool:
    """Whether an array is large, transposed, and slow to read row by row; see Note [Transposed operands]."""
    if array.ndim < 2 or array.size < PART:
        return False
    step, size = array.strides[-1], array.itemsize
    return step % CROWDED == 0 and step > 0 and array.shape[-1] * size > LINE and min(array.strides) == size


def row_major(array: Any) -> Any:
    """A copy of an array in row-major order."""
    if not _is_crowded(array):
        return array.copy()
    made = blocks.empty(array.shape, array.dtype)
    width = LINE // array.itemsize
    for start in range(0, array.shape[-1], width):
        made[..., start : start + width] = array[..., start : start + width]
    return made
