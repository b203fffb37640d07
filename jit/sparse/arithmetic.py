"""Arithmetic element by element, of what keeps zeros zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import ShapeError, UsageError
from jit.ir.geometry import broadcast_shapes

from .tensors import Sparse, SparseTensor

KEEPING_ZEROS = (
    "abs", "sqrt", "sin", "tan", "tanh", "asin", "atan", "sinh", "asinh", "atanh", "floor", "ceil", "round", "trunc",
    "sign", "sgn", "relu", "square", "expm1", "log1p", "erf", "erfinv", "deg2rad", "rad2deg", "isnan", "isinf",
    "nan_to_num", "relu6", "leaky_relu",
)  # fmt: skip
"""Functions of one tensor that are 0 at 0, so that only entries change."""


def of_entries(name: str) -> Callable[..., Any]:
    """A function of one tensor that is 0 at 0, for the entries of a sparse one.

    Args:
        name: The name of its operator.
    """

    def apply(self: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        whole = self.coalesce()
        return whole.holding(getattr(F, name)(whole.held, *args, **kwargs))

    return apply


def negative(self: SparseTensor) -> SparseTensor:
    """The operator neg."""
    return self.holding(F.neg(self.held))


def power(self: SparseTensor, exponent: Any) -> SparseTensor:
    """The operator pow, of positive numbers as exponents."""
    if isinstance(exponent, (Tensor, Sparse)) or not exponent > 0:
        raise UsageError("a power keeps zeros zero where the exponent is a positive number; use to_dense()")
    whole = self.coalesce()
    return whole.holding(F.pow(whole.held, exponent))


def _is_number(value: Any) -> bool:
    """Whether a value is one number: Python's or a tensor without dims."""
    return not isinstance(value, Sparse) and (not isinstance(value, Tensor) or value.ndim == 0)


def times(self: Any, other: Any) -> SparseTensor:
    """The operator mul: where one factor is sparse, the product is."""
    if not isinstance(self, Sparse):
        return times(other, self)
    if _is_number(other):
        return self.holding(F.mul(self.held, other))
    return _times_sparse(self, other) if isinstance(other, Sparse) else _times_dense(self, other)


def _times_dense(matrix: Any, dense: Any) -> SparseTensor:
    if tuple(broadcast_shapes(tuple(dense.shape), tuple(matrix.shape))) != tuple(matrix.shape):
        raise ShapeError(
            f"a sparse tensor of sizes {list(matrix.shape)} is not multiplied by larger sizes {list(dense.shape)}; use "
            "to_dense()"
        )
    return matrix.holding(matrix.held * at_places(F.expand(dense, list(matrix.shape)), matrix))


def at_places(dense: Any, pattern: SparseTensor) -> Any:
    """The elements of a dense tensor at the places of the entries of a sparse one."""
    dims = pattern.sparse_dim()
    flat = F.reshape(dense, [-1, *pattern.shape[dims:]])
    return F.index_select(flat, 0, pattern.numbered(range(dims)))


def _times_sparse(left: Any, right: Any) -> SparseTensor:
    """The entries of `left` that `right` has, too, times its."""
    _expect_equal_sizes("mul", left, right)
    left, right = left.coalesce(), right.coalesce()
    mine, others = (each.numbered(range(left.sparse_dim())) for each in (left, right))
    if not others.shape[0]:
        return right.holding(F.mul(right.held, left.held[:0]))
    place = F.clamp_max(F.searchsorted(others, mine), others.shape[0] - 1)
    both = F.reshape(F.nonzero(F.eq(F.index_select(others, 0, place), mine)), [-1])
    values = F.index_select(left.held, 0, both) * F.index_select(right.held, 0, F.index_select(place, 0, both))
    return SparseTensor(F.index_select(left.at, 1, both), values, left.shape, True)


def divided(self: Any, other: Any, *, rounding_mode: str | None = None) -> SparseTensor:
    """The operator div, by a number."""
    if not isinstance(self, Sparse) or not _is_number(other):
        raise UsageError("a sparse tensor is divided by a number; use to_dense(), or mul with what is 1 / other")
    whole = self if rounding_mode is None else self.coalesce()
    return whole.holding(F.div(whole.held, other, rounding_mode=rounding_mode))


def plus(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The operator add: sparse, if both are; a dense tensor takes a sparse one, as in PyTorch not the other way."""
    if isinstance(self, Sparse) and not isinstance(other, Sparse):
        raise UsageError("add(sparse, dense) is not supported; use add(dense, sparse), or to_dense()")
    scaled = other if type(alpha) is int and alpha == 1 else other.holding(other.held * alpha)
    if not isinstance(self, Sparse):
        return self + scaled.to_dense()
    _expect_equal_sizes("add", self, other)
    values = F.cat([self.held, scaled.held])
    both = SparseTensor(F.cat([self.at, other.at], 1), values, self.shape, False)
    return both.coalesce() if self.ordered and other.ordered else both


def minus(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    """The operator sub."""
    return plus(self, other, alpha=-alpha)


def _expect_equal_sizes(what: str, left: Any, right: Any) -> None:
    if tuple(left.shape) != tuple(right.shape) or left.sparse_dim() != right.sparse_dim():
        raise ShapeError(
            f"{what}: the sizes {list(left.shape)} and {list(right.shape)} of sparse tensors differ; use to_dense(), "
            "which is broadcast"
        )


__all__ = [
    "KEEPING_ZEROS", "at_places", "divided", "minus", "negative", "of_entries", "plus", "power", "times",
]  # fmt: skip
