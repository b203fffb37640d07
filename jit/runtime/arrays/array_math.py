"""The math namespace over arrays: what eager mode and the interpreter hand to an op's `compute` body as `m`.

`jit.runtime.llvm.math` offers the same names over LLVM expressions. A name that is not defined here is the library's
own, numpy's or one with numpy's names, so array bodies write `m.sum`, `m.matmul`, `m.einsum`. The caller has cast the
operands (16-bit floats to float32) and has silenced numpy's warnings with `np.errstate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.ir.dtypes import as_dtype
from jit.ir.errors import DivisionError

from .arrays import moved
from .philox import NUMPY

FEW = 64
"""The most rows of a left operand for which `matmul` swaps its operands."""


class ArrayMath:
    """The namespace over one library of arrays.

    Args:
        library: numpy, or a library with its names.
        special: SciPy's special functions, or a library with their names: `m.special.digamma(x)`.
        lapack: SciPy's linear algebra, likewise: `m.lapack.expm(x)`.
        philox: The random numbers.
    """

    refuses_indices = False
    """Whether `x[indices]` raises where there is no such element; CuPy's takes another one."""

    def __init__(self, library: Any, special: Any, lapack: Any, philox: Any) -> None:
        self.library = library
        self.special, self.lapack, self.philox = special, lapack, philox

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.library, name)
        setattr(self, name, found)
        return found

    @property
    def processes(self) -> Any:
        """The collectives of processes that work together."""
        from ..processes import collectives

        return collectives

    @property
    def pending(self) -> Any:
        """The exchanges that have begun and whose results somebody will ask for."""
        from ..processes import pending

        return pending

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        """The product of matrices."""
        return self.library.matmul(a, b, out=out)

    def strided(self, x: Any, sizes: Any, offset: int, strides: Any, dtype: Any = None) -> Any:
        """The memory of x from `offset` on with these sizes and strides, all in bytes but the sizes."""
        return type(x)(sizes, dtype or x.dtype, moved(x.data, offset), strides)

    def running(self, name: str, x: Any, axis: int) -> Any:
        """The running results of a ufunc along a dim."""
        return getattr(self.library, name).accumulate(x, axis=axis)

    def starts_of_runs(self, x: Any) -> Any:
        """The places in a vector, which is not empty, where elements differ from those before; 0 is the first."""
        is_first = self.library.ones(len(x), bool)
        is_first[1:] = x[1:] != x[:-1]
        return self.library.flatnonzero(is_first)

    def sums_of_runs(self, x: Any, starts: Any, axis: int, dtype: Any) -> Any:
        """The sums of the runs along a dim that begin at `starts`, none of them empty."""
        return self.library.add.reduceat(x, starts, axis=axis, dtype=dtype)

    def combine_at(self, name: str, flat: Any, places: Any, values: Any) -> None:
        """`flat[place] = ufunc(flat[place], value)` for all places and values, one after the other."""
        getattr(self.library, name).at(flat, places, values)

    def matrix_exp(self, matrices: Any) -> Any:
        """The exponentials of square matrices."""
        return self.lapack.expm(matrices)

    def sign(self, x: Any) -> Any:
        """-1, 0 or 1; of NaN 0, where numpy's is NaN. A bool is its own sign."""
        if x.dtype == bool:
            return x.copy()
        signs = self.library.sign(x)
        return self.library.where(signs == signs, signs, 0) if x.dtype.kind == "f" else signs

    def cast(self, x: Any, dtype: Any) -> Any:
        """`x` as `dtype`: rounds to nearest even, truncates floats toward zero, and calls everything but 0 true.

        A float that an integer cannot hold becomes what numpy makes of it on this machine (INT_MIN on x86).
        """
        return self.library.asarray(x).astype(as_dtype(dtype).numpy, copy=False)

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x)), below 0 exp(x) / (1 + exp(x)), which does not overflow and keeps the denormal results."""
        exp = self.library.exp
        if x.dtype.kind == "c":
            return 1 / (1 + exp(-x))
        return exp(self.library.minimum(x, 0)) / (1 + exp(-self.library.abs(x)))

    def erf(self, x: Any) -> Any:
        """The error function."""
        return self.special.erf(x)

    def erfc(self, x: Any) -> Any:
        """1 - erf(x), exact in the tail."""
        return self.special.erfc(x)

    def rsqrt(self, x: Any) -> Any:
        """1 / sqrt(x)."""
        return 1 / self.library.sqrt(x)

    def reciprocal(self, x: Any) -> Any:
        """1 / x."""
        return 1 / x

    def round(self, x: Any) -> Any:
        """The nearest whole number, halves to even; integers stay as they are."""
        return self.library.round(x)

    def floor_divide(self, a: Any, b: Any) -> Any:
        """a / b rounded down, as Python's `//`; an integer division by zero raises."""
        self._refuse_integer_zero(a, b)
        return self.library.floor_divide(a, b)

    def remainder(self, a: Any, b: Any) -> Any:
        """a - b * floor(a / b), with the sign of b, as Python's `%`; an integer division by zero raises."""
        self._refuse_integer_zero(a, b)
        return self.library.remainder(a, b)

    def fmod(self, a: Any, b: Any) -> Any:
        """The remainder with the sign of a, as C's; an integer division by zero raises."""
        self._refuse_integer_zero(a, b)
        return self.library.fmod(a, b)

    def _refuse_integer_zero(self, a: Any, b: Any) -> None:
        if self.library.result_type(a, b).kind in "iub" and not self.library.asarray(b).all():
            raise DivisionError("an integer was divided by zero; mask the zeros or cast to a floating dtype first")


_sum: Any = np.add.reduce
_max: Any = np.maximum.reduce
SHORT = 32
"""The longest rows whose maxima are taken all at once."""
BLOCK = 128
"""The most rows that are added one by one."""
MANY = 1 << 11
"""The fewest elements for which formulas in a dozen steps pay."""
BRANCHES = 1 << 13
"""The fewest elements that `where` chooses by their bits: a processor remembers the branches of fewer."""


def _reduced_dims(x: Any, axis: Any) -> tuple[int, ...]:
    """The dims that a reduction over `axis` takes away, none of them negative."""
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(dim % x.ndim for dim in ((axis,) if isinstance(axis, int) else axis))


def _across(x: Any, axis: Any) -> tuple[int, ...]:
    """The dims along which a sum goes from row to row, the slowest first; none if those are few rows.

    Note [Sums across rows]
        numpy adds pairwise along the dim whose elements lie side by side, and one by one along all others: the error of
        a sum over the 10,000 rows of a matrix grows with 10,000. So such dims are summed one after the other, and a
        long one in blocks of `BLOCK` rows, as kernels do (see `llvm.lowering`, Note [The tree of a sum]).
    """
    if axis is None and x.flags.forc:
        return ()
    dims, step = set(_reduced_dims(x, axis)), x.itemsize
    for dim in sorted(range(x.ndim), key=lambda d: abs(x.strides[d])):
        if x.shape[dim] > 1 and (dim not in dims or x.strides[dim] != step):
            break
        dims.discard(dim)
        step *= x.shape[dim]
    if math.prod(x.shape[d] for d in dims) <= BLOCK:
        return ()
    return tuple(sorted(dims, key=lambda d: -abs(x.strides[d])))


def _sum_across(x: Any, dims: tuple[int, ...], axis: Any, dtype: Any, keepdims: bool) -> Any:
    """The sum over `axis`, which goes across the rows of `dims`."""
    others = tuple(d for d in _reduced_dims(x, axis) if d not in dims)
    total = _sum(x, axis=others, dtype=dtype, keepdims=True) if others else x
    for dim in reversed(dims):
        total = _sum_of_blocks(total, dim, dtype)
    return total if keepdims else total.reshape([s for d, s in enumerate(x.shape) if d not in (*others, *dims)])


def _sum_of_blocks(x: Any, dim: int, dtype: Any) -> Any:
    """The sum over one dim, which stays with size 1: that of each block first."""
    size = x.shape[dim]
    if size <= BLOCK:
        return _sum(x, axis=dim, dtype=dtype, keepdims=True)
    before, whole = (slice(None),) * dim, size - size % BLOCK
    blocks = x[(*before, slice(whole))].reshape(*x.shape[:dim], -1, BLOCK, *x.shape[dim + 1 :])
    total = _sum_of_blocks(_sum(blocks, axis=dim + 1, dtype=dtype), dim, dtype)
    if whole < size:
        total += _sum(x[(*before, slice(whole, size))], axis=dim, dtype=dtype, keepdims=True)
    return total


def _horner(coefficients: Sequence[float], x: Any) -> Any:
    """The polynomial with these coefficients, that of the constant first."""
    *lower, top = coefficients
    total = x * top
    for coefficient in reversed(lower[1:]):
        total += coefficient
        total *= x
    total += lower[0]
    return total


class _NumpyMath(ArrayMath):
    """The namespace over numpy."""

    refuses_indices = True

    def strided(self, x: Any, sizes: Any, offset: int, strides: Any, dtype: Any = None) -> Any:
        """The memory of x from `offset` on with these sizes and strides, all in bytes but the sizes."""
        return np.ndarray(sizes, dtype or x.dtype, x, offset, strides)

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        """The product; `x @ w.T` with few rows in x as `(w @ x.T).T`, which takes BLAS half the time."""
        if out is None and a.ndim == b.ndim == 2 and 1 < len(a) <= min(FEW, b.shape[1] // 4) and b.flags.f_contiguous:
            return np.ascontiguousarray(np.matmul(b.T, a.T).T)
        return np.matmul(a, b, out=out)

    def where(self, condition: Any, *choices: Any) -> Any:
        """`np.where`, which branches; many float32 are chosen by bits: at random that takes a sixth of the time."""
        if not choices or condition.size < BRANCHES or condition.dtype.char != "?":
            return np.where(condition, *choices)
        if np.result_type(*choices) != np.float32:
            return np.where(condition, *choices)
        chosen, other = (np.asarray(choice, np.float32).view(np.int32) for choice in choices)
        mask = np.negative(condition.view(np.int8)).astype(np.int32)
        return (((chosen ^ other) & mask) ^ other).view(np.float32)

    def sum(self, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        """The sum, without what `np.sum` does for those who derive from arrays: that takes longer than short sums.

        See Note [Sums across rows].
        """
        if x.size >= MANY and x.ndim > 1 and x.dtype.kind in "fc":
            dims = _across(x, axis)
            if dims:
                return _sum_across(x, dims, axis, dtype, keepdims)
        return _sum(x, axis=axis, dtype=dtype, keepdims=keepdims)

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        """The maximum, likewise; of short rows all at once, since a row by itself takes 80 ns, however short."""
        if type(axis) is int and x.ndim and axis in (-1, x.ndim - 1) and x.shape[-1] <= SHORT and x.size >= 8 * SHORT:
            columns = np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T)
            return _max(columns, axis=0).reshape(*x.shape[:-1], *(1,) * keepdims)
        return _max(x, axis=axis, keepdims=keepdims)

    def erf(self, x: Any) -> Any:
        """The error function; of many float32 by the formula of kernels, which takes a third of SciPy's time."""
        if x.size < MANY or x.dtype != np.float32:
            return self.special.erf(x)
        from ..llvm.elementary import ERF_CENTRE, ERF_TAIL

        size = np.abs(x)
        tail = _horner(ERF_TAIL, np.minimum(size, 4))
        np.subtract(1, np.exp(np.negative(tail, out=tail), out=tail), out=tail)
        centre = _horner(ERF_CENTRE, x * x)
        centre *= x
        centre += x
        return self.where(size < 0.92, centre, np.copysign(tail, x, out=tail))


class _Late:
    """A module of SciPy's, imported when the first of its functions is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


numpy_math: Any = _NumpyMath(np, _Late("scipy.special"), _Late("scipy.linalg"), NUMPY)
"""The namespace over numpy."""
