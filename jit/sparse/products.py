"""Products of sparse matrices with dense ones, with vectors, and with each other."""

from __future__ import annotations

from typing import Any

from jit.eager.autocasting import computes_in
from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir.errors import DTypeError, ShapeError, UsageError
from jit.ir.precision import LOWER

from .tensors import Sparse, SparseTensor, expect_matrix, in_runs, summed

# -- what users call ---------------------------------------------------------------------------------------------------


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of two matrices, of which one or both are sparse; it is sparse if both are.

    Args:
        mat1: A matrix.
        mat2: A matrix.
        reduce: The way to combine what comes together, of which there is "sum".

    Raises:
        UsageError: `reduce` is another way.

    >>> import jit
    >>> jit.sparse.mm(jit.eye(2).to_sparse(), jit.ones(2, 1)).tolist()
    [[1.0], [1.0]]
    """
    if reduce not in (None, "sum"):
        raise UsageError(f"sparse.mm adds up what comes together; use index_reduce for the reduction {reduce!r}")
    return F.mm(mat1, mat2)


spmm = dsmm = mm
"""Older names of the product."""


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A dense matrix times beta, plus the product of a sparse matrix and a dense one times alpha.

    Args:
        mat: What is added.
        mat1: A sparse matrix.
        mat2: A dense matrix.
        beta: The factor of `mat`.
        alpha: The factor of the product.
    """
    return F.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A sparse matrix times beta, plus the product of two dense ones times alpha at the places of its entries alone.

    Args:
        input: The sparse matrix.
        mat1: A dense matrix.
        mat2: A dense matrix.
        beta: The factor of `input`.
        alpha: The factor of the product.
    """
    expect("sampled_addmm", input, Sparse)
    whole: Any = input if input.is_sparse_csr else input.coalesce()
    rows, columns = whole.entries().rows()
    found = F.sum(F.index_select(mat1, 0, rows) * F.index_select(F.t(mat2), 0, columns), -1)
    return whole.holding(whole.held * beta + found * alpha)


# -- what operators are for sparse tensors -----------------------------------------------------------------------------


def product(self: Any, mat2: Any) -> Any:
    """The operator mm."""
    _check("mm", self, mat2)
    if not isinstance(self, Sparse):
        return F.t(_sparse_by_dense(_turned(mat2), F.t(self)))
    return _sparse_by_sparse(self, mat2) if isinstance(mat2, Sparse) else _sparse_by_dense(self, mat2)


def product_with_vector(self: Any, vec: Any) -> Any:
    """The operator mv."""
    _check("mv", self, vec)
    if isinstance(vec, Sparse):
        raise UsageError("mv takes a dense vector; use to_dense() of it")
    return F.squeeze(_sparse_by_dense(self, F.unsqueeze(vec, 1)), 1)


def matrix_product(self: Any, other: Any) -> Any:
    """The operator matmul, of a sparse matrix and a matrix or a vector."""
    _expect_tensors("matmul", self, other)
    if other.dim() == 1 and isinstance(self, Sparse):
        return product_with_vector(self, other)
    if self.dim() == 1 and isinstance(other, Sparse):
        return product_with_vector(_turned(other), self)
    return product(self, other)


def added_product(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """The operator addmm."""
    made = product(mat1, mat2)
    if isinstance(self, Sparse) or isinstance(made, Sparse):
        raise UsageError("addmm adds the product to a dense matrix; use to_dense() of what is added")
    scaled = made if _is_one(alpha) else made * alpha
    return (self if _is_one(beta) else self * beta) + scaled


def _is_one(factor: Any) -> bool:
    return type(factor) is int and factor == 1


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """The operator linear, of a sparse input or a sparse weight."""
    made = product(input, _turned(weight) if isinstance(weight, Sparse) else F.t(weight))
    return made if bias is None else made + bias


def _turned(matrix: Any) -> SparseTensor:
    expect_matrix("a product", matrix)
    return SparseTensor(F.flip(matrix.at, [0]), matrix.held, Size(matrix.shape[::-1]), False)


def _expect_tensors(what: str, *operands: Any) -> None:
    for operand in operands:
        expect(what, operand, (Tensor, Sparse))


def _check(what: str, left: Any, right: Any) -> None:
    """Refuse operands that are no matrices, or whose sizes do not fit."""
    if not isinstance(left, Sparse) and not isinstance(right, Sparse):
        raise UsageError(f"the sparse operand of {what} is to be one of the factors; use to_dense() of it")
    _expect_tensors(what, left, right)
    for operand in (left, right):
        if isinstance(operand, Sparse):
            expect_matrix(what, operand)
        elif operand.dim() != (1 if what == "mv" and operand is right else 2):
            raise ShapeError(f"{what} does not take sizes {list(operand.shape)} beside a sparse matrix; use to_dense()")
    if left.shape[1] != right.shape[0]:
        raise ShapeError(
            f"{what}: the sizes {list(left.shape)} and {list(right.shape)} do not fit: {left.shape[1]} columns meet "
            f"{right.shape[0]} rows; transpose one of them"
        )


def _sparse_by_dense(matrix: Any, dense: Any) -> Any:
    rows, columns = matrix.rows()
    return _scaled_sums(matrix.shape[0], rows, columns, matrix.held, dense)


@computes_in(LOWER)
def _scaled_sums(count: Any, rows: Any, columns: Any, values: Any, dense: Any) -> Any:
    """The rows of a dense matrix that `columns` name, times values, added up where `rows` say."""
    _expect_one_dtype(values, dense)
    return summed(count, rows, F.index_select(dense, 0, columns) * F.unsqueeze(values, 1))


def _expect_one_dtype(left: Any, right: Any) -> None:
    if left.dtype is not right.dtype:
        raise DTypeError(f"factors of a product are of one dtype, not {left.dtype} and {right.dtype}; convert one")


def _sparse_by_sparse(left: Any, right: Any) -> SparseTensor:
    """Each entry of `left` meets all entries of one row of `right`: these lie side by side."""
    _expect_one_dtype(left, right)
    by_rows = right.to_sparse_csr()
    rows, middles = left.rows()
    first = F.index_select(by_rows.starts, 0, middles)
    number, met = in_runs(first, F.index_select(by_rows.starts, 0, middles + 1) - first)
    places = F.stack([F.index_select(rows, 0, number), F.index_select(by_rows.columns, 0, met)])
    values = F.index_select(left.held, 0, number) * F.index_select(by_rows.held, 0, met)
    return SparseTensor(places, values, Size((left.shape[0], right.shape[1])), False).coalesce()


__all__ = [
    "addmm", "added_product", "dsmm", "linear", "matrix_product", "mm", "product", "product_with_vector",
    "sampled_addmm", "spmm",
]  # fmt: skip
