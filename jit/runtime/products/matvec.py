"""Products of which one operand is a vector, by BLAS, where there is no code for them (`by_lines`).

`gemm` lays its operands out anew before it multiplies, which pays off for many rows. A product of one row or one column
reads every element of the matrix once, and so do few rows, each by itself: the matrix stays in the cache meanwhile.
`gemv` takes a fifth of the time that `gemm` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from jit.ir.dtypes import DType

from ..kernels.work import Work
from ..llvm.words import Routine
from . import blas_alone
from .blas import address_of, blas_function
from .by_lines import ProductByLines

_SINGLE = 9000
"""Elements of a matrix that OpenBLAS multiplies in one thread: `gemv` shares 9,216 and more."""

_FIELDS = (
    "gemv", "trans", "m", "n", "alpha", "lda", "incx", "beta", "incy", "batch", "matrix", "vector", "step_matrix",
    "step_vector", "step_result", "first_matrix", "first_result", "alone",
)  # fmt: skip
"""The fields of a geometry: the function, what it takes, and for a batch which operand is what, steps in bytes and
where the first product begins, and the state of `blas_alone`."""


@dataclass(frozen=True)
class MatrixVector(Work):
    """y[i] = alpha M[i] x[i] + beta y[i], or the transposed M[i] instead, for i below `batch`."""

    dtype: DType
    sizes: tuple[int, int]
    """Lines of the matrix as it lies in memory, and elements of a line."""
    leading: int
    """Elements from one line to the next."""
    along: bool
    """Whether sums run along lines, else from line to line."""
    increment: int
    """Elements from one of x to the next."""
    is_right: bool
    """Whether the matrix is the second operand."""
    alpha: float = 1.0
    beta: float = 0.0
    batch: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)
    """Steps from one product to the next, in elements, of M, x and y."""

    is_late = False
    grain = 64  # so that parts begin where vectors do
    long = 1 << 17

    @property
    def panels(self) -> int:
        """The number of elements of a result."""
        return self.sizes[0 if self.along else 1] if blas_alone.can_be_shared() else 1

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        return self.batch * self.sizes[0] * self.sizes[1]

    @cached_property
    def kept(self) -> Any:
        """The numbers alpha and beta."""
        return np.array([self.alpha, self.beta], self.dtype.numpy)

    def function(self) -> int:
        """The loop over the batch; operands are both factors and the result."""
        return _function()

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers that `_FIELDS` names; a line is a column to BLAS."""
        (lines, elements), size, panel = self.sizes, self.dtype.itemsize, self.leading if self.along else 1
        if last is not None:
            lines, elements = (last - first, elements) if self.along else (lines, last - first)
        fields = {
            "gemv": blas_function("gemv", self.dtype), "trans": ord("T") if self.along else ord("N"), "m": elements,
            "n": lines, "alpha": address_of(self.kept), "lda": self.leading, "incx": self.increment,
            "beta": address_of(self.kept) + size, "incy": 1, "batch": self.batch, "matrix": int(self.is_right),
            "vector": int(not self.is_right), "first_matrix": first * panel * size, "first_result": first * size,
            "alone": blas_alone.state_for(self.sizes[0] * self.sizes[1], _SINGLE),
            **dict(zip(("step_matrix", "step_vector", "step_result"), (s * size for s in self.steps))),
        }  # fmt: skip
        return [fields[name] for name in _FIELDS]

    def label(self, operator: str) -> str:
        """The operator, and who computes it."""
        return f"{operator} (BLAS)"


def by_blas(product: ProductByLines, alpha: float, beta: float) -> MatrixVector:
    """A product that there is no code for; rows that share a matrix are multiplied one by one."""
    p, batch, steps = product, product.batch, product.steps
    if type(batch) is int and batch == 1:
        batch, steps = p.rows, (0, *p.between)
    return MatrixVector(p.dtype, p.sizes, p.leading, p.along, p.increment, p.is_right, alpha, beta, batch, steps)


@cache
def _function() -> int:
    """`i32 kernel(ptr data, ptr geometry)`: a loop over the batch around a call of `gemv`."""
    from ..kernels.codegen import compile_routine

    return compile_routine("matrix by vector", lambda: (blas_alone.changes(), _routine()))


def _routine() -> str:
    r = Routine("kernel", ["data", "geometry"])
    of = {name: r.word("%geometry", i) for i, name in enumerate(_FIELDS)}
    at = {name: r.add("%geometry", 8 * i) for i, name in enumerate(_FIELDS)}
    vector = r.word("%data", of["vector"])
    matrix = r.add(r.word("%data", of["matrix"]), of["first_matrix"])
    result = r.add(r.word("%data", 2), of["first_result"])
    r.invoke("enter_blas", of["alone"])
    with r.loop(of["batch"]) as i:
        m, x, y = (
            r.add(base, r.scale(i, of[step]))
            for base, step in ((matrix, "step_matrix"), (vector, "step_vector"), (result, "step_result"))
        )
        whole = (at["trans"], at["m"], at["n"], of["alpha"], m, at["lda"])
        r.call(of["gemv"], *whole, x, at["incx"], of["beta"], y, at["incy"], returns="void")
    r.invoke("leave_blas", of["alone"])
    r.leave(0)
    return r.text()
