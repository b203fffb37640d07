"""`biject_to` and `transform_to`: from a constraint to a transform of all real numbers into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir.errors import UnwrittenError, UsageError

from . import constraints, transforms


class ConstraintRegistry:
    """The transforms of constraints, by their class."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Let `factory(constraint)` be the transform of constraints of a class; it decorates if it is left out.

        Raises:
            UsageError: It is no constraint.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        if not isinstance(constraint, (type, constraints.Constraint)):
            raise UsageError(f"expected a constraint or a class of constraints, got {constraint}")
        self._registry[_key(constraint)] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform of a constraint.

        Raises:
            UnwrittenError: There is none.
        """
        factory = self._registry.get(_key(constraint)) or self._registry.get(type(constraint))
        if factory is None:
            raise UnwrittenError(
                f"Cannot transform {type(constraint).__name__} constraints; register a transform for them"
            )
        return factory(constraint)


def _key(constraint: Any) -> Any:
    """The class of a constraint; for those that are told apart by their test, the one itself."""
    if isinstance(constraint, type):
        return constraint
    return constraint if isinstance(constraint, constraints._Simple) else type(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _register(
    both: tuple[Any, ...], factory: Callable[[Any], Any], registries: Any = (biject_to, transform_to)
) -> None:
    for constraint in both:
        for registry in registries:
            registry.register(constraint, factory)


def _above(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if not hasattr(low, "ndim") and not hasattr(high, "ndim") and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _below(constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


_register((constraints.real,), lambda constraint: transforms.identity_transform)
_register((constraints._GreaterThan, constraints._GreaterThanEq), _above)
_register((constraints._LessThan,), _below)
_register((constraints._Interval, constraints._HalfOpenInterval), _between)
_register((constraints.lower_cholesky,), lambda constraint: transforms.LowerCholeskyTransform())
_register(
    (constraints.positive_definite, constraints.positive_semidefinite),
    lambda constraint: transforms.PositiveDefiniteTransform(),
)
_register((constraints.corr_cholesky,), lambda constraint: transforms.CorrCholeskyTransform())
_register((constraints.simplex,), lambda constraint: transforms.StickBreakingTransform(), (biject_to,))
_register((constraints.simplex,), lambda constraint: transforms.SoftmaxTransform(), (transform_to,))
for _registry in (biject_to, transform_to):
    _registry.register(
        constraints._IndependentConstraint,
        lambda constraint, registry=_registry: transforms.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    _registry.register(
        constraints._Cat,
        lambda constraint, registry=_registry: transforms.CatTransform(
            [registry(each) for each in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    _registry.register(
        constraints._Stack,
        lambda constraint, registry=_registry: transforms.StackTransform(
            [registry(each) for each in constraint.cseq], constraint.dim
        ),
    )

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
