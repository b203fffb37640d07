"""The math namespace over numpy arrays: what eager mode and the interpreter hand to an op's `compute` body as `m`.

`jit.runtime.llvm.math` offers the same names over LLVM expressions. A name that is not defined here is numpy's own,
so array bodies write `m.sum`, `m.matmul`, `m.einsum`. The caller has cast the operands (16-bit floats to float32)
and has silenced numpy's warnings with `np.errstate`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir.dtypes import as_dtype
from jit.ir.errors import DivisionError

from . import philox as philox


def __getattr__(name: str) -> Any:
    return getattr(np, name)


FEW = 64
"""The most rows of a left operand for which `matmul` swaps its operands."""


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """The product of matrices; `x @ w.T` with few rows in x as `(w @ x.T).T`, which takes BLAS half the time."""
    if out is None and a.ndim == b.ndim == 2 and 1 < len(a) <= min(FEW, b.shape[1] // 4) and b.flags.f_contiguous:
        return np.ascontiguousarray(np.matmul(b.T, a.T).T)
    return np.matmul(a, b, out=out)


def sign(x: Any) -> Any:
    """-1, 0 or 1; of NaN 0, where numpy's is NaN. A bool is its own sign."""
    if x.dtype == bool:
        return x.copy()
    signs = np.sign(x)
    return np.where(signs == signs, signs, 0) if x.dtype.kind == "f" else signs


def cast(x: Any, dtype: Any) -> Any:
    """`x` as `dtype`: rounds to nearest even, truncates floats toward zero, and calls everything but 0 true.

    A float that an integer cannot hold becomes what numpy makes of it on this machine (INT_MIN on x86).
    """
    return np.asarray(x).astype(as_dtype(dtype).numpy, copy=False)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), below 0 exp(x) / (1 + exp(x)), which does not overflow and keeps the denormal results."""
    if np.iscomplexobj(x):
        return 1 / (1 + np.exp(-x))
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


class _Special:
    """SciPy's special functions, imported when the first is called: `m.special.digamma(x)`."""

    def __getattr__(self, name: str) -> Any:
        from scipy import special

        return getattr(special, name)


special: Any = _Special()


class _Lapack:
    """SciPy's linear algebra, imported when first called: `m.lapack.expm(x)`."""

    def __getattr__(self, name: str) -> Any:
        from scipy import linalg

        return getattr(linalg, name)


lapack: Any = _Lapack()


def erf(x: Any) -> Any:
    """The error function."""
    from scipy import special

    return special.erf(x)


def erfc(x: Any) -> Any:
    """1 - erf(x), exact in the tail."""
    from scipy import special

    return special.erfc(x)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return 1 / x


def round(x: Any) -> Any:
    """The nearest whole number, halves to even; integers stay as they are."""
    return np.round(x)


def floor_divide(a: Any, b: Any) -> Any:
    """a / b rounded down, as Python's `//`; an integer division by zero raises."""
    _refuse_integer_zero(a, b)
    return np.floor_divide(a, b)


def remainder(a: Any, b: Any) -> Any:
    """a - b * floor(a / b), with the sign of b, as Python's `%`; an integer division by zero raises."""
    _refuse_integer_zero(a, b)
    return np.remainder(a, b)


def fmod(a: Any, b: Any) -> Any:
    """The remainder with the sign of a, as C's; an integer division by zero raises."""
    _refuse_integer_zero(a, b)
    return np.fmod(a, b)


def _refuse_integer_zero(a: Any, b: Any) -> None:
    if np.result_type(a, b).kind in "iub" and not np.all(b):
        raise DivisionError("an integer was divided by zero; mask the zeros or cast to a floating dtype first")
