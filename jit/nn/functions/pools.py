"""Pooling as functions: maxima, with their places if asked for, and means, of windows or of a number of parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import ShapeError

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices",
]  # fmt: skip


def _max_pool(dims: int) -> Callable[..., Any]:
    plain, indexed = f"max_pool{dims}d", f"max_pool{dims}d_with_indices"

    def function(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        operator = getattr(F, indexed if return_indices else plain)
        return operator(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)

    function.__name__ = function.__qualname__ = plain
    function.__doc__ = f"""The largest element of each window over the last {dims} dims.

    Args:
        input: `[N, C, ...]` or `[C, ...]`.
        kernel_size: Size of the window, a number or one per dim; the same for the following.
        stride: Step of the window; its size if left out.
        padding: The number of elements put on both sides, which are never the largest.
        dilation: Distance of the window's elements.
        ceil_mode: Whether a window may reach over the edge.
        return_indices: Whether to return the places of the largest elements as well.
    """
    return function


max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))


def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of each window over the last dim.

    Args:
        input: `[N, C, L]` or `[C, L]`.
        kernel_size: Size of the window.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.
    """
    return F.avg_pool1d(input, kernel_size, () if stride is None else stride, padding, ceil_mode, count_include_pad)


def _avg_pool(dims: int) -> Callable[..., Any]:
    name = f"avg_pool{dims}d"

    def function(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        step = () if stride is None else stride
        return getattr(F, name)(input, kernel_size, step, padding, ceil_mode, count_include_pad, divisor_override)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The mean of each window over the last {dims} dims.

    Args:
        input: `[N, C, ...]` or `[C, ...]`.
        kernel_size: Size of the window, a number or one per dim; the same for the following.
        stride: Step of the window; its size if left out.
        padding: Zeros put on both sides.
        ceil_mode: Whether a window may reach over the edge.
        count_include_pad: Whether the zeros count.
        divisor_override: The divisor of each sum; the number of elements if left out.
    """
    return function


avg_pool2d, avg_pool3d = map(_avg_pool, (2, 3))


def _adaptive(kind: str, dims: int) -> Callable[..., Any]:
    name = f"adaptive_{kind}_pool{dims}d"

    def function(input: Any, output_size: Any, *options: Any, **named: Any) -> Any:
        wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * dims
        if len(wanted) != dims or input.ndim < dims:
            raise ShapeError(
                f"{name}: output_size {list(wanted)} does not fit an input of {input.ndim} dims; pass {dims} numbers, "
                f"and an input of {dims + 1} or {dims + 2} dims"
            )
        sizes = input.shape[-dims:]
        filled = tuple(size if want is None else want for want, size in zip(wanted, sizes, strict=True))
        if kind == "avg":
            return getattr(F, name)(input, filled, *options, **named)
        return _with_or_without_indices(getattr(F, name)(input, filled), *options, **named)

    function.__name__ = function.__qualname__ = name
    what = "mean" if kind == "avg" else "largest element"
    function.__doc__ = f"""The {what} of each of `output_size` parts of the last {dims} dims; None keeps a size."""
    return function


def _with_or_without_indices(both: Any, return_indices: bool = False) -> Any:
    return both if return_indices or not isinstance(both, tuple) else both[0]


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive("avg", dims) for dims in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive("max", dims) for dims in (1, 2, 3))


def _with_indices(name: str) -> Callable[..., Any]:
    """The function `name` that returns the places of the largest elements, too."""
    plain = globals()[name]

    def function(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{**kwargs, "return_indices": True})

    function.__name__ = function.__qualname__ = f"{name}_with_indices"
    function.__doc__ = f"`{name}` that returns the places of the largest elements, too."
    return function


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = (
    _with_indices(f"max_pool{dims}d") for dims in (1, 2, 3)
)
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = (
    _with_indices(f"adaptive_max_pool{dims}d") for dims in (1, 2, 3)
)
