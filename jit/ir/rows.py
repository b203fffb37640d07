"""Terms computed with arrays at once: the builder `t` of Note [Terms] over numpy.

The terms of an operator can so be written once, for kernels and for its numpy body:

    def _log_softmax(t, x): ...                     an expression of `t`

    def log_softmax(m, self, dim, dtype): ...       _log_softmax(OnArrays(m, x.shape, dims), x) ...

    @log_softmax.terms
    def _(t, self):                                 return _log_softmax(t, t.wide(self))

Bodies are written apart where numpy is faster in another way: in place, or with a quotient where kernels multiply.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .dtypes import DType, from_numpy

_ACCUMULATED = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "logaddexp": "logaddexp"}
MANY = 1 << 11
"""The fewest elements for which a sum in blocks pays."""


class OnArrays:
    """Rows of arrays along `dims`; reductions keep these dims, with size 1."""

    __slots__ = ("_m", "dims", "dtype", "shape")

    def __init__(self, m: Any, shape: tuple[int, ...], dims: tuple[int, ...], dtype: DType | None = None) -> None:
        self._m, self.shape, self.dims, self.dtype = m, shape, dims, dtype

    @property
    def count(self) -> int:
        """The number of elements that are reduced to one."""
        return math.prod(self.shape[d] for d in self.dims)

    @property
    def row(self) -> tuple[int, ...]:
        """The dims of a row, or () if it has one element."""
        return self.dims if self.count != 1 else ()

    def wide(self, x: Any) -> Any:
        """x in the dtype that the result is computed in."""
        assert self.dtype is not None
        return x.astype(np.float32 if self.dtype.is_narrow else self.dtype.numpy, copy=False)

    def widened(self, x: Any) -> Any:
        """x in the dtype that numbers of its own dtype are computed in."""
        return x.astype(np.float32, copy=False) if from_numpy(x.dtype).is_narrow else x

    def alike(self, *arrays: Any) -> list[Any]:
        """The arrays, widened; None stays None."""
        return [None if x is None else self.widened(x) for x in arrays]

    def place(self, dim: int, start: int = 0, step: int = 1) -> Any:
        """The place along a dim, counted from `start` in steps."""
        return (start + np.arange(self.shape[dim]) * step).reshape(-1, *(1,) * (len(self.shape) - dim - 1))

    def number(self, number: Any, dtype: DType) -> Any:
        """A number."""
        return np.asarray(number, dtype.numpy)[()]

    def cast(self, x: Any, dtype: DType) -> Any:
        """x in another dtype."""
        return x.astype(dtype.numpy, copy=False)

    def apply(self, function: Callable[..., Any], *arrays: Any, dtype: DType | None = None, cost: int = 1) -> Any:
        """The function of all elements of the arrays."""
        return function(self._m, *arrays)

    def over(self, x: Any, number: float) -> Any:
        """x divided by a number that may be 0."""
        return x / np.asarray(number, x.dtype)[()]

    def reduce(self, monoid: str, x: Any) -> Any:
        """x combined along the row."""
        if monoid == "sum" and x.size >= MANY:
            return self._m.sum(x, axis=self.dims, keepdims=True)  # adds many rows in blocks
        return getattr(x, monoid)(axis=self.dims, keepdims=True)  # the method takes a microsecond less than m.sum

    def extreme(self, monoid: str, x: Any) -> tuple[Any, Any]:
        """(the extremum of the row, its position in it)."""
        kept = tuple(d for d in range(x.ndim) if d not in self.dims)
        rows = self._m.transpose(x, (*kept, *self.dims)).reshape(*(x.shape[d] for d in kept), -1)
        places = getattr(self._m, monoid)(rows, axis=-1, keepdims=True)
        values = self._m.take_along_axis(rows, places, -1)
        sizes = [1 if d in self.dims else n for d, n in enumerate(x.shape)]
        return values.reshape(sizes), places.reshape(sizes)

    def running(self, monoid: str, x: Any) -> Any:
        """The running result along the row, which is a single dim."""
        return self._m.running(_ACCUMULATED[monoid], x, self.dims[0]) if self.row else x

    def position(self) -> Any:
        """The position in the row, shaped to broadcast to arrays with as many dims as the operand."""
        (dim,) = self.dims
        return self._m.arange(self.count).reshape(-1, *[1] * (len(self.shape) - 1 - dim))
