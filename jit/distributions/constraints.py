"""Constraints: the sets that parameters and samples of distributions lie in, each with a test of membership."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError


class Constraint:
    """A set of values."""

    is_discrete = False
    event_dim = 0
    """The number of dims, from the last, that are one value."""

    def check(self, value: Any) -> Any:
        """Whether each value lies in the set."""
        raise NotImplementedError(type(self).__name__)

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Simple(Constraint):
    """A set that is given by a test.

    Args:
        name: The name that `repr` shows.
        test: Whether each value lies in it.
        event_dim: The number of dims that are one value.
        is_discrete: Whether it consists of single points.
    """

    def __init__(self, name: str, test: Callable[[Any], Any], event_dim: int = 0, is_discrete: bool = False) -> None:
        self.name, self.check = name, test  # type: ignore[assignment, method-assign]
        self.event_dim, self.is_discrete = event_dim, is_discrete

    def __repr__(self) -> str:
        return self.name


class _Dependent(Constraint):
    """A set that depends on parameters, or on what a distribution is made of.

    Args:
        is_discrete: Whether it consists of single points.
        event_dim: The number of dims that are one value.
    """

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Any:
        """Whether each value lies in the set, which cannot be known."""
        raise UsageError("this constraint depends on parameters; ask the support of a distribution, not of its class")


class _DependentProperty(property, _Dependent):
    """A property that is a constraint of each instance, and a dependent one of the class.

    Args:
        fn: The function of the instance.
        is_discrete: As of a constraint.
        event_dim: Likewise.
    """

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _IndependentConstraint(Constraint):
    """A set whose values are several values of another one.

    Args:
        base_constraint: The other one.
        reinterpreted_batch_ndims: The number of dims that become part of a value.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        """Whether each of the several lies in the set."""
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise UsageError(f"expected a value of at least {self.event_dim} dims, got {value.ndim}")
        return all_of(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Bounded(Constraint):
    """Numbers between bounds, which may be tensors.

    Args:
        lower_bound: The lower one, or None.
        upper_bound: The upper one, or None.
    """

    above: Any = None
    below: Any = None
    """The comparisons with the bounds."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Any:
        """Whether each value lies between the bounds."""
        found = F.eq(value, value)
        if self.above is not None:
            found = found & getattr(F, self.above)(value, self.lower_bound)
        return found if self.below is None else found & getattr(F, self.below)(value, self.upper_bound)

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        told = ", ".join(f"{name}={bound}" for name, bound in bounds.items() if bound is not None)
        return f"{type(self).__name__.lstrip('_')}({told})"


class _GreaterThan(_Bounded):
    """Numbers above a bound."""

    above = "gt"


class _GreaterThanEq(_Bounded):
    """Numbers from a bound on."""

    above = "ge"


class _LessThan(_Bounded):
    """Numbers below a bound, which is given alone."""

    below = "lt"

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)


class _Interval(_Bounded):
    """Numbers between two bounds, both among them."""

    above, below = "ge", "le"


class _HalfOpenInterval(_Bounded):
    """Numbers from a bound on and below another one."""

    above, below = "ge", "lt"


class _IntegerInterval(_Interval):
    """Whole numbers between two bounds, both among them."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Whether each value is such a number."""
        return super().check(value) & F.eq(value, F.floor(value))


class _IntegerGreaterThan(_GreaterThanEq):
    """Whole numbers from a bound on."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Whether each value is such a number."""
        return super().check(value) & F.eq(value, F.floor(value))


class _Counts(Constraint):
    """Counts whose sum is at most a bound.

    Args:
        upper_bound: The bound.
    """

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Any) -> Any:
        """Whether each row holds such counts."""
        return all_of(F.ge(x, 0), 1) & F.le(F.sum(x, -1), self.upper_bound)


class _Cat(Constraint):
    """Values of several sets, one after the other along a dim.

    Args:
        cseq: The sets.
        dim: The dim.
        lengths: How far each reaches; 1 if left out.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        """Whether each part lies in its set."""
        parts = F.split_with_sizes(value, self.lengths, self.dim)
        return F.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(Constraint):
    """Values of several sets, stacked along a dim.

    Args:
        cseq: The sets.
        dim: The dim.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        dims = max(c.event_dim for c in self.cseq)
        self.event_dim = dims + (1 if dim + dims < 0 else 0)

    def check(self, value: Any) -> Any:
        """Whether each part lies in its set."""
        parts = F.unbind(value, self.dim)
        return F.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


def all_of(found: Tensor, dims: int) -> Any:
    """Whether all along the last dims are true.

    Args:
        found: The truth of each.
        dims: The number of dims.
    """
    for _ in range(dims):
        found = F.all(found, -1)
    return found


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint cannot be checked without an instance of a distribution.

    Args:
        constraint: The constraint.
    """
    return isinstance(constraint, _Dependent)


def _is_whole(value: Any) -> Any:
    return F.eq(value, F.floor(value))


def _is_lower(value: Any) -> Any:
    return all_of(F.eq(value, F.tril(value)), 2)


def _has_positive_diagonal(value: Any) -> Any:
    return F.all(F.gt(F.diagonal(value, 0, -2, -1), 0), -1)


def _is_correlation_factor(value: Any) -> Any:
    slack = {"float16": 1e-2, "float32": 1e-5}.get(value.dtype.name, 1e-10) * value.shape[-1] * 10
    norms = F.linalg_vector_norm(F.detach(value), 2, -1)
    return F.all(F.le(F.abs(norms - 1), slack), -1) & _is_lower(value) & _has_positive_diagonal(value)


def _is_square(value: Any) -> Any:
    square = value.ndim > 1 and value.shape[-1] == value.shape[-2]
    return F.full(value.shape[:-2], square, dtype=F.eq(F.zeros(1), 0).dtype, device=value.device)


def _is_symmetric(value: Any) -> Any:
    gap = F.abs(value - F.transpose(value, -2, -1))
    return all_of(F.le(gap, 1e-6), 2) & _is_square(value)


def _is_semidefinite(value: Any) -> Any:
    return _is_symmetric(value) & F.all(F.ge(F.linalg_eigvalsh(value), 0), -1)


def _is_definite(value: Any) -> Any:
    return _is_symmetric(value) & F.eq(F.linalg_cholesky_ex(value)[1], 0)


def _is_one_hot(value: Any) -> Any:
    return F.all(F.eq(value, 0) | F.eq(value, 1), -1) & F.eq(F.sum(value, -1), 1)


def _is_simplex(value: Any) -> Any:
    return F.all(F.ge(value, 0), -1) & F.lt(F.abs(F.sum(value, -1) - 1), 1e-6)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Simple("Boolean()", lambda value: F.eq(value, 0) | F.eq(value, 1), is_discrete=True)
one_hot = _Simple("OneHot()", _is_one_hot, 1, True)
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Simple("Real()", lambda value: F.eq(value, value))
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Counts
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simple("Simplex()", _is_simplex, 1)
lower_triangular = _Simple("LowerTriangular()", _is_lower, 2)
lower_cholesky = _Simple("LowerCholesky()", lambda value: _is_lower(value) & _has_positive_diagonal(value), 2)
corr_cholesky = _Simple("CorrCholesky()", _is_correlation_factor, 2)
square = _Simple("Square()", _is_square, 2)
symmetric = _Simple("Symmetric()", _is_symmetric, 2)
positive_semidefinite = _Simple("PositiveSemidefinite()", _is_semidefinite, 2)
positive_definite = _Simple("PositiveDefinite()", _is_definite, 2)
cat = _Cat
stack = _Stack

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex",
    "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip
