"""`Distribution`, the base of all: shapes, checks, and what follows from the rest."""

from __future__ import annotations

from typing import Any, ClassVar

from jit.eager.context import TRACE, no_grad
from jit.eager.namespace import F
from jit.eager.tensors import Size, Tensor
from jit.ir.errors import UsageError

from . import constraints


class Distribution:
    """A distribution, or many of one family: one for each element of the batch's shape.

    Args:
        batch_shape: The shape of what is drawn independently, each element from a distribution of its own.
        event_shape: The shape of one thing that is drawn.
        validate_args: Whether parameters and values are checked; as `set_default_validate_args` says if left out.
            Nothing is checked while a trace records, or under `vmap`, where a check would be a branch.

    Raises:
        UsageError: A parameter does not lie where it should.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Any = {}
    support: Any = None
    _validate_args: bool = __debug__
    _checks_by_default: ClassVar[bool] = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Let distributions that are not told check their arguments, or not."""
        Distribution._checks_by_default = bool(value)

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        self._validate_args = Distribution._checks_by_default if validate_args is None else validate_args
        if self._is_checking():
            self._check_parameters()

    def _is_checking(self) -> bool:
        return self._validate_args and TRACE.get() is None

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or name not in self.__dict__:
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise UsageError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, expanded to a larger batch."""
        shape = Size(batch_shape)
        made = self._bare(_instance)
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                event = value.shape[value.ndim - constraint.event_dim :] if constraint.event_dim else ()
                made.__dict__[name] = value.expand([*shape, *event])
            elif value is not None:
                made.__dict__[name] = value
        self._expand_parts(made, shape)
        made._batch_shape, made._event_shape = shape, self._event_shape
        made._validate_args = self._validate_args
        return made

    def _bare(self, instance: Any = None) -> Any:
        return type(self).__new__(type(self)) if instance is None else instance

    def _expand_parts(self, made: Any, shape: Size) -> None:
        """Give `made` what else it is made of."""

    @property
    def batch_shape(self) -> Size:
        """The shape of what is drawn independently."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one thing that is drawn."""
        return self._event_shape

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return F.sqrt(self.variance)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Values drawn from the distributions, so many of each; no gradients flow to the parameters."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn by a function of the parameters and of what is not, so that gradients flow to them."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample; use sample()")

    def sample_n(self, n: int) -> Any:
        """`n` values of each distribution."""
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at values."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of at most a value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Any) -> Any:
        """The value of which the `cdf` is given."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values that can be drawn, along a new first dim."""
        raise NotImplementedError(f"the values of {type(self).__name__} cannot be listed")

    def _listed(self, values: Any, expand: bool) -> Any:
        """`values` along a new first dim, in the place of the batch."""
        lined = values.reshape([-1, *[1] * len(self._batch_shape)])
        return lined.expand([-1, *self._batch_shape]) if expand else lined

    def entropy(self) -> Any:
        """The entropy."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return F.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _check(self, value: Any) -> None:
        """Refuse values of shapes that do not fit, or outside of the support."""
        if not self._is_checking():
            return
        if not isinstance(value, Tensor):
            raise UsageError("The value argument to log_prob must be a Tensor")
        event = len(self._event_shape)
        if tuple(value.shape[value.ndim - event :] if event else ()) != tuple(self._event_shape):
            raise UsageError(
                f"The right-most size of value must match event_shape: {tuple(value.shape)} vs "
                f"{tuple(self._event_shape)}."
            )
        own = tuple(self._batch_shape) + tuple(self._event_shape)
        for here, there in zip(reversed(value.shape), reversed(own), strict=False):
            if 1 not in (here, there) and here != there:
                raise UsageError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {own}."
                )
        if self.support is not None and not bool(self.support.check(value).all()):
            raise UsageError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        told = [f"{n}: {self.__dict__[n] if self.__dict__[n].numel() == 1 else self.__dict__[n].size()}" for n in names]
        return f"{type(self).__name__}({', '.join(told)})"


__all__ = ["Distribution"]
