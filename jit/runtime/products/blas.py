"""Matrix products of the BLAS that SciPy brings, called from compiled code.

Every step of a plan is a function `i32 kernel(ptr data, ptr geometry)`; this one calls `gemm` for a batch of products.
BLAS is column-major: a row-major product C = A B is written as C' = B' A', so that nothing needs to be copied unless
an operand has neither dim contiguous.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import importlib.util
import math
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jit.ir.dtypes import DType, float32, float64
from jit.ir.errors import CompileError

from ..kernels.work import Work
from ..llvm.words import Routine
from ..plans.threads import chosen
from . import blas_alone
from .blas_threads import set_blas_threads

LETTER = {float32: "s", float64: "d"}
"""The dtypes that have a product, and how BLAS calls them."""
FUNCTIONS = ("gemm", "gemv")
"""The functions of BLAS that plans call."""

_FIELDS = (
    "gemm", "transa", "transb", "m", "n", "k", "alpha", "lda", "ldb", "beta", "ldc", "batch", "step_a", "step_b",
    "step_c", "first_a", "first_b", "first_c", "alone",
)  # fmt: skip
"""The fields of a product's geometry: the function, what it takes, the number of products, steps in bytes and where
the first product begins, and the state of `blas_alone`.

`gemm` takes all by reference: letters and int32 in the first bytes of a word - all processors that there is code for
have the lowest byte first -; alpha and beta are words in memory of their own, to which these are the addresses.
"""


_SINGLE = 1 << 16
"""Multiplications that OpenBLAS does in one thread, a quarter of its own limit for `gemm`."""


class Matrix(NamedTuple):
    """An operand as BLAS takes it: row-major or transposed, with `leading` elements from one line to the next."""

    transposed: bool
    leading: int


def as_matrix(sizes: Sequence[int], strides: Sequence[int]) -> Matrix | None:
    """An operand of these sizes and strides as BLAS takes it; None if it has to be copied first.

    >>> as_matrix((2, 3), (3, 1)), as_matrix((2, 3), (1, 2)), as_matrix((2, 3), (6, 2))
    (Matrix(transposed=False, leading=3), Matrix(transposed=True, leading=2), None)
    """
    (rows, columns), (down, along) = sizes, strides
    if (along == 1 or columns == 1) and (down >= max(columns, 1) or rows == 1):
        return Matrix(False, max(down if rows != 1 else columns, columns, 1))
    if (down == 1 or rows == 1) and (along >= max(rows, 1) or columns == 1):
        return Matrix(True, max(along if columns != 1 else rows, rows, 1))
    return None


@dataclass(frozen=True)
class BlasProduct(Work):
    """C[i] = alpha A[i] B[i] + beta C[i], for i below `batch`; C is row-major."""

    dtype: DType
    sizes: tuple[int, int, int]
    """Rows of A, columns of B, columns of A."""
    a: Matrix
    b: Matrix
    alpha: float = 1.0
    beta: float = 0.0
    batch: int = 1
    steps: tuple[int, int, int] = (0, 0, 0)
    """Steps from one matrix to the next, in elements, of A, B and C."""

    is_late = False

    @property
    def panels(self) -> int:
        """The number of products, or the rows of a single one."""
        return (self.sizes[0] if self._is_single else self.batch) if blas_alone.can_be_shared() else 1

    @property
    def _is_single(self) -> bool:
        return type(self.batch) is int and self.batch == 1

    @property
    def effort(self) -> int:
        """The number of multiplications."""
        return self.batch * math.prod(self.sizes)

    @cached_property
    def kept(self) -> Any:
        """The numbers alpha and beta."""
        return np.array([self.alpha, self.beta], self.dtype.numpy)

    def function(self) -> int:
        """The loop over the batch; operands are A, B, C."""
        return _product_function()

    def geometry(self, first: int = 0, last: int | None = None) -> list[int]:
        """The numbers that `_FIELDS` names."""
        (rows, columns, inner), batch, panels = self.sizes, self.batch, self.steps
        if last is not None and self._is_single:
            rows, panels = last - first, (1 if self.a.transposed else self.a.leading, 0, columns)
        elif last is not None:
            batch = last - first
        left, right = (ord("T") if m.transposed else ord("N") for m in (self.b, self.a))
        alpha, beta = (address_of(self.kept) + self.dtype.itemsize * i for i in range(2))
        fields = {
            "gemm": blas_function("gemm", self.dtype), "transa": left, "transb": right,
            "m": columns, "n": rows, "k": inner, "alpha": alpha, "lda": self.b.leading, "ldb": self.a.leading,
            "beta": beta, "ldc": max(columns, 1), "batch": batch, "alone": blas_alone.state_for(self.effort, _SINGLE),
            **{f"step_{name}": step * self.dtype.itemsize for name, step in zip("abc", self.steps)},
            **{f"first_{name}": first * step * self.dtype.itemsize for name, step in zip("abc", panels)},
        }  # fmt: skip
        return [fields[name] for name in _FIELDS]

    def label(self, operator: str) -> str:
        """The operator, and who computes it."""
        return f"{operator} (BLAS)"


def address_of(array: Any) -> int:
    """The address of an array's data."""
    return int(array.__array_interface__["data"][0])


@cache
def _product_function() -> int:
    """`i32 kernel(ptr data, ptr geometry)`: a loop over the batch around a call of `gemm`."""
    from ..kernels.codegen import compile_routine

    return compile_routine("product", lambda: (blas_alone.changes(), _product_routine()))


def _product_routine() -> str:
    r = Routine("kernel", ["data", "geometry"])
    of = {name: r.word("%geometry", i) for i, name in enumerate(_FIELDS)}
    at = {name: r.add("%geometry", 8 * i) for i, name in enumerate(_FIELDS)}
    a, b, c = (r.add(r.word("%data", i), of[f"first_{name}"]) for i, name in enumerate("abc"))
    r.invoke("enter_blas", of["alone"])
    with r.loop(of["batch"]) as i:
        left, right, result = (
            r.add(base, r.scale(i, of[step])) for base, step in ((a, "step_a"), (b, "step_b"), (c, "step_c"))
        )
        numbers = (at["transa"], at["transb"], at["m"], at["n"], at["k"], of["alpha"])
        lines = (right, at["lda"], left, at["ldb"], of["beta"], result, at["ldc"])
        r.call(of["gemm"], *numbers, *lines, returns="void")
    r.invoke("leave_blas", of["alone"])
    r.leave(0)
    return r.text()


_LOADING = threading.Lock()
"""Held while SciPy's module is loaded: another thread would meet half of it."""


def _renew_lock() -> None:
    """After a fork: a thread that loaded the module at that moment does not exist in the child."""
    global _LOADING
    _LOADING = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


@cache
def blas_function(name: str, dtype: DType) -> int:
    """The address of a function of SciPy's BLAS, such as `sgemm` or `dgemm`."""
    with _LOADING:
        is_first = _module.cache_info().currsize == 0
        capsule = _module().__pyx_capi__[LETTER[dtype] + name]
    if is_first and (count := chosen()) is not None:
        set_blas_threads("scipy", count)
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    address: int | None = pointer(capsule, name_of(capsule))
    if not address:
        raise CompileError(f"SciPy's BLAS has no {LETTER[dtype]}{name} to call; run with the interpreter")
    return address


@cache
def _module() -> Any:
    """`scipy.linalg.cython_blas`, without the ten times longer import of all of `scipy.linalg` where that works.

    The module is not registered: whoever imports it by its name afterwards gets the same one, the regular way.
    """
    name = "scipy.linalg.cython_blas"
    if "scipy.linalg" not in sys.modules:
        import scipy

        folder = Path(scipy.__file__).with_name("linalg")
        found = (folder / f"cython_blas{s}" for s in importlib.machinery.EXTENSION_SUFFIXES)
        path = next((p for p in found if p.exists()), None)
        spec = None if path is None else importlib.util.spec_from_file_location(name, path)
        if spec is not None and spec.loader is not None:
            with contextlib.suppress(ImportError):
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                sys.modules.pop(name, None)  # it has put itself there, but not into its package
                return module
    return importlib.import_module(name)
