"""Pooling by powers, and max pooling undone: functions of `jit.nn.functional` made of other functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.eager.autocasting import computes_in
from jit.eager.namespace import F
from jit.ir.errors import DimError, ShapeError, UsageError
from jit.ir.precision import Precision

__all__ = ["lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"]


def spread(value: Any, rank: int) -> tuple[Any, ...]:
    """The numbers for each of `rank` dims, given as one number, alone or in a list, or as one for each.

    Raises:
        ShapeError: There are several numbers, but not one for each dim.
    """
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) not in (1, rank):
        raise ShapeError(f"{len(given)} numbers were given for {rank} dims, {value}; pass one, or one for each dim")
    return given * rank if len(given) == 1 else given


# -- powers --------------------------------------------------------------------------------------------------------


def _lp_pool(rank: int) -> Callable[..., Any]:
    name = f"lp_pool{rank}d"

    def function(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        kernel = spread(kernel_size, rank)
        step = kernel if stride is None else spread(stride, rank)
        means = getattr(F, f"avg_pool{rank}d")(input**norm_type, kernel, step, 0, ceil_mode)
        sums = means * math.prod(kernel)  # as PyTorch: a window that reaches over the edge counts as if it were full
        return F.sign(sums) * F.relu(F.abs(sums)) ** (1.0 / norm_type)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The p-norm of each window over the last {rank} dims.

    Args:
        input: `[N, C, ...]` or `[C, ...]`.
        norm_type: p; 1 gives sums, and the larger it is, the nearer comes the largest element.
        kernel_size: Size of the window, a number or one per dim.
        stride: Step of the window; its size if left out.
        ceil_mode: Whether a window may reach over the edge.
    """
    return function


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pool, (1, 2, 3))


# -- max pooling undone --------------------------------------------------------------------------------------------


def _max_unpool(rank: int) -> Callable[..., Any]:
    name = f"max_unpool{rank}d"

    def function(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        kernel = spread(kernel_size, rank)
        step = kernel if stride is None else spread(stride, rank)
        sizes = _unpooled_sizes(name, input, kernel, step, spread(padding, rank), output_size)
        return _unpool(name, input, indices, sizes)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Put what `max_pool{rank}d` took back to where it was; zeros elsewhere.

    Args:
        input: What `max_pool{rank}d(..., return_indices=True)` gave, `[N, C, ...]` or `[C, ...]`.
        indices: The places that it gave.
        kernel_size, stride, padding: Those of the pooling.
        output_size: The sizes of the input of the pooling, where several are possible.
    """
    return computes_in(Precision(cpu="float32"))(function)


def _unpooled_sizes(name: str, input: Any, kernel: Any, step: Any, padding: Any, wanted: Any) -> list[Any]:
    """The last sizes of the result: those of the input of the pooling."""
    rank = len(kernel)
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"{name} takes {rank + 1} or {rank + 2} dims, and this input has sizes {list(input.shape)}")
    pooled = input.shape[-rank:]
    least = [(n - 1) * s + k - 2 * p for n, s, k, p in zip(pooled, step, kernel, padding)]
    if wanted is None:
        return least
    if len(wanted) not in (rank, rank + 2):
        raise UsageError(f"{name}: output_size has {rank} or {rank + 2} numbers, and {list(wanted)} was given")
    given = list(wanted)[-rank:]
    if any(not n - s < size < n + s for size, n, s in zip(given, least, step)):
        raise ShapeError(f"{name}: an output of sizes {given} is not pooled to {list(pooled)}; expected near {least}")
    return given


def _unpool(name: str, input: Any, indices: Any, sizes: list[Any]) -> Any:
    if indices.shape != input.shape:
        given = f"{list(input.shape)} and {list(indices.shape)}"
        raise ShapeError(f"{name} takes a place for each element, and the sizes {given} differ")
    lead = input.shape[: input.ndim - len(sizes)]
    count = 1
    for size in sizes:
        count = count * size
    if input.numel() and bool(F.any(F.logical_or(F.lt(indices, 0), F.ge(indices, count)))):
        raise DimError(f"{name}: a place lies outside of an output of sizes {sizes}; say output_size")
    flatly = [*lead, math.prod(input.shape[len(lead) :])]
    flat = F.scatter(input.new_zeros((*lead, count)), -1, F.reshape(indices, flatly), F.reshape(input, flatly))
    return F.reshape(flat, [*lead, *sizes])


max_unpool1d, max_unpool2d, max_unpool3d = map(_max_unpool, (1, 2, 3))
