"""`jit.gradient`: derivatives of values on a grid by finite differences."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import UsageError
from jit.ir.geometry import wrap_dims


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivative of `input` along each of its dims, by central differences; at the ends by one-sided ones.

    Args:
        input: Values on a grid.
        spacing: The distance of neighbours: a number, one per dim, or a vector of places per dim.
        dim: The dims wanted; all if left out.
        edge_order: 1 or 2, the order of the differences at the ends.

    Raises:
        UsageError: `edge_order` is neither 1 nor 2, or the spacings do not fit the dims.

    >>> import jit
    >>> jit.gradient(jit.tensor([1.0, 4.0, 9.0]))[0].tolist()
    [3.0, 4.0, 5.0]
    """
    expect("gradient", input)
    dims = wrap_dims(dim if dim is None or isinstance(dim, int) else tuple(dim), input.ndim)
    given = list(spacing) if isinstance(spacing, (list, tuple)) else [1 if spacing is None else spacing] * len(dims)
    if edge_order not in (1, 2) or len(given) != len(dims):
        raise UsageError(
            f"gradient: pass 1 or 2 as edge_order, not {edge_order!r}, and one spacing for all dims or one for each of "
            f"{len(dims)}"
        )
    return tuple(_slope(input, d, step, edge_order) for d, step in zip(dims, given, strict=True))


def _slope(values: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    """The derivative along one dim. Every slope is a sum of values times weights, so that an infinity which has no part
    in a slope does not make it NaN."""
    size = values.shape[dim] if values.ndim else 0
    if size <= edge_order:
        raise UsageError(
            f"gradient: a dim of size {size} is too short for edge_order {edge_order}; leave it out with dim="
        )
    if values.dtype.is_integral:
        values = values.to(dtypes.DEFAULT)
    if isinstance(step, Tensor) and (step.ndim != 1 or step.shape[0] != size):
        raise UsageError(
            f"gradient: places of sizes {list(step.shape)} do not fit a dim of size {size}; pass a vector of that size"
        )
    gaps = _gaps(values, dim, step) if isinstance(step, Tensor) else step
    middle = _middle(values, dim, gaps, size)
    first, last = (_end(values, dim, gaps, order, edge_order) for order in _orders(size, edge_order))
    return F.cat([first, middle, last], dim)


def _gaps(values: Tensor, dim: int, places: Tensor) -> Tensor:
    return F.reshape(F.diff(places), [-1 if d == dim else 1 for d in range(values.ndim)])


def _middle(values: Tensor, dim: int, gaps: Any, size: int) -> Tensor:
    """The slopes between the ends: with a gap a before a place and a gap b after it, exact for parabolas."""
    before, here, behind = (F.narrow(values, dim, start, size - 2) for start in (0, 1, 2))
    if not isinstance(gaps, Tensor):
        return (behind - before) / (2 * gaps)
    a, b = (F.narrow(gaps, dim, start, size - 2) for start in (0, 1))
    return before * (-b / (a * (a + b))) + here * ((b - a) / (a * b)) + behind * (a / (b * (a + b)))


def _orders(size: int, edge_order: int) -> tuple[list[int], list[int]]:
    """The places from which the slopes at both ends come, the nearest first."""
    return list(range(edge_order + 1)), [size - 1 - i for i in range(edge_order + 1)]


def _end(values: Tensor, dim: int, gaps: Any, order: list[int], edge_order: int) -> Tensor:
    """The slope at an end: of a line through two places, or of a parabola through three."""
    at = [F.narrow(values, dim, i, 1) for i in order]
    sign = 1 if order[0] == 0 else -1
    if isinstance(gaps, Tensor):
        near, *rest = (F.narrow(gaps, dim, min(pair), 1) * sign for pair in pairwise(order))
    else:
        near, rest = gaps * sign, [gaps * sign]
    if edge_order == 1:
        return (at[1] - at[0]) / near
    far = rest[0]
    weights = -(2 * near + far) / (near * (near + far)), (near + far) / (near * far), -near / (far * (near + far))
    return at[0] * weights[0] + at[1] * weights[1] + at[2] * weights[2]
