"""`jit.gradient`: derivatives of values on a grid by finite differences."""

from __future__ import annotations

from typing import Any

from jit.ir import dtypes
from jit.ir.errors import UsageError
from jit.ir.geometry import wrap_dims

from .functions import F
from .tensors import Tensor


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """The derivative of `input` along each of its dims, by central differences; at the ends by one-sided ones.

    Args:
        input: Values on a grid.
        spacing: The distance of neighbours: a number, one per dim, or a vector of places per dim.
        dim: The dims wanted; all if left out.
        edge_order: 1 or 2, the order of the differences at the ends.

    >>> import jit
    >>> jit.gradient(jit.tensor([1.0, 4.0, 9.0]))[0].tolist()
    [3.0, 4.0, 5.0]
    """
    dims = wrap_dims(dim if dim is None or isinstance(dim, int) else tuple(dim), input.ndim)
    given = list(spacing) if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(dims)
    if edge_order not in (1, 2) or len(given) != len(dims):
        raise UsageError("gradient: edge_order is 1 or 2, and there is one spacing for all dims or one for each")
    return [_slope(input, d, step, edge_order) for d, step in zip(dims, given, strict=True)]


def _slope(values: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    """See `gradient`. With a gap a before a place and a gap b behind it, its slope weighs the slopes of the gaps by
    b / (a + b) and a / (a + b): exact for parabolas."""
    size = values.shape[dim] if values.ndim else 0
    if size <= edge_order:
        raise UsageError(f"gradient: a dim of size {size} is too short for edge_order {edge_order}")
    if values.dtype.is_integral:
        values = values.to(dtypes.DEFAULT)
    gaps = F.diff(step) if isinstance(step, Tensor) else F.full([size - 1], step, dtype=dtypes.real_of(values.dtype))
    if isinstance(step, Tensor) and (step.ndim != 1 or step.shape[0] != size):
        raise UsageError(f"gradient: places of sizes {list(step.shape)} do not fit a dim of size {size}")
    gaps = F.reshape(gaps, [-1 if d == dim else 1 for d in range(values.ndim)])
    slopes = F.diff(values, 1, dim) / gaps
    before, behind = (F.narrow(gaps, dim, start, size - 2) for start in (0, 1))
    low, high = (F.narrow(slopes, dim, start, size - 2) for start in (0, 1))
    middle = (low * behind + high * before) / (before + behind)
    first, last = (F.narrow(slopes, dim, at, 1) for at in (0, size - 2))
    if edge_order == 2:
        first, last = _edge(slopes, gaps, dim, 0, 1), _edge(slopes, gaps, dim, size - 2, size - 3)
    return F.cat([first, middle, last], dim)


def _edge(slopes: Tensor, gaps: Tensor, dim: int, near: int, far: int) -> Tensor:
    """The slope at the end of a parabola through three places."""
    (a, b), (low, high) = ([F.narrow(x, dim, at, 1) for at in (near, far)] for x in (gaps, slopes))
    return low + (low - high) * (a / (a + b))
