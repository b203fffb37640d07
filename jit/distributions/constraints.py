"""Constraints: sets of values that parameters and samples of a distribution lie in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.eager.namespace import F


class Constraint:
    """The set of values that a test accepts.

    Args:
        name: Its name, for messages.
        test: Tells of each value of a tensor whether it lies in the set.
        event_dim: The number of last dims that are one value.
        is_discrete: Whether its values are whole numbers.
    """

    is_discrete = False
    event_dim = 0

    def __init__(
        self, name: str, test: Callable[[Any], Any], event_dim: int = 0, is_discrete: bool = False
    ) -> None:  # fmt: skip
        self.name, self._test, self.event_dim, self.is_discrete = name, test, event_dim, is_discrete

    def check(self, value: Any) -> Any:
        """Whether each value lies in the set."""
        return self._test(value)

    def __repr__(self) -> str:
        return self.name


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """The numbers between two bounds, which belong to them."""
    return Constraint(f"Interval({lower_bound}, {upper_bound})", lambda x: (lower_bound <= x) & (x <= upper_bound))


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """The whole numbers between two bounds, which belong to them."""

    def test(value: Any) -> Any:
        return (value % 1 == 0) & (lower_bound <= value) & (value <= upper_bound)

    return Constraint(f"IntegerInterval({lower_bound}, {upper_bound})", test, is_discrete=True)


def greater_than(lower_bound: Any) -> Constraint:
    """The numbers above a bound."""
    return Constraint(f"GreaterThan({lower_bound})", lambda x: lower_bound < x)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """The numbers that are a bound or above it."""
    return Constraint(f"GreaterThanEq({lower_bound})", lambda x: lower_bound <= x)


def less_than(upper_bound: Any) -> Constraint:
    """The numbers below a bound."""
    return Constraint(f"LessThan({upper_bound})", lambda x: x < upper_bound)


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """A set of values of more dims, whose parts all lie in a set.

    Args:
        base: The set of the parts.
        reinterpreted_batch_ndims: The number of dims that are one value.
    """

    def test(value: Any) -> Any:
        return base.check(value).flatten(value.ndim - reinterpreted_batch_ndims - base.event_dim).all(-1)

    return Constraint(f"Independent({base})", test, base.event_dim + reinterpreted_batch_ndims, base.is_discrete)


def _is_triangular(value: Any) -> Any:
    return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1)


def _is_positive_definite(value: Any) -> Any:
    symmetric = F.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)
    return symmetric & (F.linalg_cholesky_ex(value)[1] == 0)


def _is_simplex(value: Any) -> Any:
    return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


real = Constraint("Real()", lambda x: x == x)
real_vector = independent(real, 1)
boolean = Constraint("Boolean()", lambda x: (x == 0) | (x == 1), is_discrete=True)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
nonnegative_integer = Constraint("IntegerGreaterThan(0)", lambda x: (x % 1 == 0) & (x >= 0), is_discrete=True)
positive_integer = Constraint("IntegerGreaterThan(1)", lambda x: (x % 1 == 0) & (x >= 1), is_discrete=True)
simplex = Constraint("Simplex()", _is_simplex, 1)
one_hot = Constraint("OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True)
lower_cholesky = Constraint("LowerCholesky()", _is_triangular, 2)
positive_definite = Constraint("PositiveDefinite()", _is_positive_definite, 2)
dependent = Constraint("_Dependent()", lambda x: x == x)

__all__ = [
    "Constraint", "boolean", "dependent", "greater_than", "greater_than_eq", "independent", "integer_interval",
    "interval", "less_than", "lower_cholesky", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "real", "real_vector", "simplex", "unit_interval",
]  # fmt: skip
