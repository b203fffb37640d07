"""Max pooling over windows of random steps: functions of `jit.nn.functional` made of other functions.

Note [Windows of random steps]
    Of n entries, m windows of k entries each are taken. A number u, drawn for each channel, says where they begin:
    number i at ``floor((i + u) * a) - floor(u * a)`` with ``a = (n - k) / (m - 1)``, and the last one at the end. So
    steps are whole numbers around `a` in an order that differs from call to call (Graham, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jit.eager.autocasting import computes_in
from jit.eager.namespace import F
from jit.ir import dtypes
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.precision import Precision

from .unpooling import spread

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip


def _fractional(rank: int) -> Callable[..., Any]:
    name = f"fractional_max_pool{rank}d"

    def function(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        if input.ndim not in (rank + 1, rank + 2):
            sizes = list(input.shape)
            raise ShapeError(f"{name} takes {rank + 1}-d or {rank + 2}-d inputs, and this one has sizes {sizes}")
        if 0 in input.shape[input.ndim - rank - 1 :]:
            raise ShapeError(f"{name} takes inputs of which only the batch may be empty, not sizes {list(input.shape)}")
        batch = input if input.ndim == rank + 2 else F.unsqueeze(input, 0)
        kernel = _sizes(name, "kernel_size", kernel_size, rank)
        wanted = _output_size(name, batch.shape[2:], output_size, output_ratio)
        for n, k, m in zip(batch.shape[2:], kernel, wanted, strict=True):
            if not 0 <= m <= n - k + 1:
                raise ShapeError(f"{name}: {m} windows of {k} do not fit {n} entries; there may be {n - k + 1} at most")
        if _random_samples is not None and _random_samples.dtype is not input.dtype:
            raise DTypeError(f"{name}: the samples should be of the dtype of the input, {input.dtype}")
        drawn = _random_samples
        if drawn is None:
            drawn = F.rand((*batch.shape[:2], rank), dtype=input.dtype, device=input.device)
        values, indices = _largest(batch, kernel, wanted, drawn)
        if input.ndim == rank + 1:
            values, indices = F.squeeze(values, 0), F.squeeze(indices, 0)
        return (values, indices) if return_indices else values

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The largest element of each of `output_size` windows over the last {rank} dims, which begin
    at places drawn anew in each call, see Note [Windows of random steps].

    Args:
        input: `[N, C, ...]` or `[C, ...]`.
        kernel_size: Size of the window, a number or one per dim.
        output_size: The number of windows along each dim; None to use `output_ratio`.
        output_ratio: The factor of the sizes, between 0 and 1; None to use `output_size`.
        return_indices: Whether to return the places of the largest elements as well.
    """
    return computes_in(Precision(cpu="float32"))(function)


def _output_size(name: str, sizes: Any, size: Any, ratio: Any) -> tuple[int, ...]:
    if size is None and ratio is None:
        raise UsageError(f"{name} got neither output_size nor output_ratio; pass one of them")
    if size is not None:
        return _sizes(name, "output_size", size, len(sizes))
    ratios = spread(ratio, len(sizes))
    if not all(0 < r < 1 for r in ratios):
        raise UsageError(f"{name}: output_ratio is {ratio}; pass a number between 0 and 1")
    return tuple(math.floor(n * r) for n, r in zip(sizes, ratios, strict=True))


def _sizes(name: str, what: str, given: Any, rank: int) -> tuple[int, ...]:
    """One size for each dim; unlike other pools, these take no list of one for all, nor does PyTorch."""
    if isinstance(given, (tuple, list)) and len(given) != rank:
        raise ShapeError(
            f"{name}: {what} {given} has {len(given)} sizes; pass one number, or one for each of {rank} dims"
        )
    return spread(given, rank)


def _largest(x: Any, kernel: Any, wanted: Any, drawn: Any) -> tuple[Any, Any]:
    """The values and the places of the largest elements of the windows of `[N, C, ...]`."""
    rank, sizes = len(kernel), x.shape[2:]
    order = (1, 0) if rank == 2 else (0, 1, 2)  # of the numbers drawn, PyTorch gives the first to the last dim of two
    places: Any = 0
    for dim, (n, k, m) in enumerate(zip(sizes, kernel, wanted, strict=True)):
        starts = _starts(F.select(drawn, -1, order[dim]), n, k, m)
        inside = F.unsqueeze(starts, -1) + F.arange(k, device=drawn.device)  # [N, C, m, k]
        windows, entries = ([size if d == dim else 1 for d in range(rank)] for size in (m, k))
        places = places * n + F.reshape(inside, [*x.shape[:2], *windows, *entries])
    places = F.reshape(places, [*x.shape[:2], *wanted, math.prod(kernel)])
    flat = F.reshape(x, [*x.shape[:2], math.prod(sizes)])
    picked = F.reshape(F.gather(flat, 2, F.flatten(places, 2)), places.shape)
    values, which = F.max(picked, -1)
    return values, F.squeeze(F.gather(places, -1, F.unsqueeze(which, -1)), -1)


def _starts(drawn: Any, entries: int, kernel: int, windows: int) -> Any:
    """The places where the windows of each channel begin, `[N, C, windows]`."""
    last = F.full([*drawn.shape, 1], entries - kernel, dtype=dtypes.int64, device=drawn.device)
    if windows == 0:
        return F.slice(last, -1, 0, 0)
    if windows == 1:
        return last
    step = (entries - kernel) / (windows - 1)
    u = F.unsqueeze(drawn, -1)
    steps = F.arange(windows - 1, dtype=drawn.dtype, device=drawn.device)
    starts = F.floor((steps + u) * step) - F.floor(u * step)
    return F.cat([F._to_copy(starts, dtype=dtypes.int64), last], -1)


def _with_indices(function: Callable[..., Any]) -> Callable[..., Any]:
    def indexed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**kwargs, "return_indices": True})

    indexed.__name__ = indexed.__qualname__ = f"{function.__name__}_with_indices"
    indexed.__doc__ = f"`{function.__name__}` that returns the places of the largest elements, too."
    return indexed


fractional_max_pool2d, fractional_max_pool3d = map(_fractional, (2, 3))
fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d)
