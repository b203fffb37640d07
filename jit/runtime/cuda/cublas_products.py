"""Products of matrices as cuBLAS computes them: the words of one call, alone or as a launch of a list.

Note [Products by cuBLAS]
    cuBLAS takes matrices whose columns lie side by side, so a row-major C = A B is written as C' = B' A'. A matrix of
    which neither rows nor columns lie side by side is none that it can be told of. The words of a product are what the
    function takes, in the order of `ProductWords`; sizes and steps among them may be expressions of symbols, and `beta`
    and `alpha` are bits of a float32 or float64 whose addresses the function gets.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from jit.ir.dtypes import float64
from jit.ir.errors import CompileError

from ..kernels.codegen import words_of
from ..kernels.nest import Buffer
from ..products.blas import as_matrix
from .cublas import KINDS, Cublas, check
from .launch_code import compiled, multiply


class ProductWords(NamedTuple):
    """The words of a product, for cuBLAS, whose first factor is our second one."""

    transposed_b: int
    transposed_a: int
    columns: int
    rows: int
    terms: int
    leading_b: int
    step_b: int
    leading_a: int
    step_a: int
    leading_c: int
    step_c: int
    batch: int
    elements: int
    sums: int
    alpha: int
    beta: int


class CublasProduct:
    """alpha A B + beta C for matrices, or batches of them, of certain layouts; C is row-major.

    Args:
        a: The left factor: two or three dims, none of them empty.
        b: The right one.
        library: cuBLAS.
        alpha: A factor of the product.
        beta: A factor of what C holds before; 0 if that is not to be looked at.

    Raises:
        CompileError: cuBLAS cannot be told of these layouts or dtypes.
    """

    blocks = threads = 0
    """No grid, by which native code knows that a launch is a product."""
    name = "product"
    may_fail = False

    def __init__(self, a: Buffer, b: Buffer, library: Cublas, alpha: float = 1.0, beta: float = 0.0) -> None:
        self._library = library
        self.handle = library.functions.multiply
        """The address of the function."""
        self.numbers = _words(a, b, alpha, beta)
        """The words."""

    def at(self, module: Any) -> DirectProduct:
        """The product as a function of arrays of these layouts, whose sizes are numbers."""
        return DirectProduct(self._library, self.numbers, module)


class DirectProduct:
    """A product that one call queues on the current stream.

    Args:
        library: cuBLAS.
        numbers: The words.
        module: `cupy`, or what stands for it.
    """

    def __init__(self, library: Cublas, numbers: Sequence[int], module: Any) -> None:
        self._library, self._module = library, module
        self._words, self._multiply = words_of(numbers), compiled(multiply)
        self._start = ctypes.addressof(self._words)

    def __call__(self, a: Any, b: Any, out: Any, what: str) -> None:
        """Queue it: fill `out`, or add to it; `what` is the name of the operator for errors."""
        handle = self._library.handle(self._module.cuda.get_current_stream().ptr)
        places = a.data.ptr, b.data.ptr, out.data.ptr
        status = self._multiply(self._library.functions.multiply, handle, self._start, *places)
        check(status, what)


def _words(a: Buffer, b: Buffer, alpha: float, beta: float) -> ProductWords:
    kind = KINDS.get(a.dtype)
    left, right = (as_matrix(factor.sizes[-2:], factor.strides[-2:]) for factor in (a, b))
    if kind is None or a.dtype is not b.dtype or left is None or right is None:
        raise CompileError("cuBLAS computes no product of such matrices; copy them first")
    rows, terms, columns = *a.sizes[-2:], b.sizes[-1]
    batch, step_a, step_b = (a.sizes[0], a.strides[0], b.strides[0]) if len(a.sizes) == 3 else (1, 0, 0)
    factors = (_bits(factor, a.dtype is float64) for factor in (alpha, beta))
    return ProductWords(
        int(right.transposed), int(left.transposed), columns, rows, terms, right.leading, step_b, left.leading, step_a,
        columns, rows * columns, batch, kind.elements, kind.sums, *factors,
    )  # fmt: skip


def _bits(number: float, is_double: bool) -> int:
    """A float as a word that begins with its bytes."""
    return int.from_bytes(struct.pack("<d" if is_double else "<f", number), "little", signed=is_double)
