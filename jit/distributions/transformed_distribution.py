"""`TransformedDistribution`: that of a function of what another distribution draws."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .distribution import Distribution
from .independent import Independent, sum_rightmost
from .transforms import ComposeTransform, Transform


class TransformedDistribution(Distribution):
    """The distribution of transformed values.

    Args:
        base_distribution: The distribution of what is transformed.
        transforms: A transform, or a list of them, the first first.
        validate_args: As of Distribution.

    Raises:
        UsageError: They are none, or the values have too few dims.

    >>> import jit
    >>> from jit.distributions import Normal, TransformedDistribution, transforms
    >>> TransformedDistribution(Normal(0.0, 1.0), transforms.ExpTransform()).log_prob(jit.tensor(1.0)).item()
    -0.9189385175704956
    """

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(each, Transform) for each in self.transforms):
            raise UsageError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        together = ComposeTransform(self.transforms)
        own = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        if len(own) < together.domain.event_dim:
            raise UsageError(f"base_distribution needs to have shape with size at least {together.domain.event_dim}")
        shape = together.forward_shape(own)
        expanded = together.inverse_shape(shape)
        if tuple(own) != tuple(expanded):
            kept = len(expanded) - len(base_distribution.event_shape)
            base_distribution = base_distribution.expand(expanded[:kept])
        missing = together.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist: Any = base_distribution
        if missing > 0:
            self.base_dist = Independent(base_distribution, missing)
        gained = together.codomain.event_dim - together.domain.event_dim
        event = max(together.codomain.event_dim, len(self.base_dist.event_shape) + gained)
        super().__init__(shape[: len(shape) - event], shape[len(shape) - event :], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made, together = self._bare(_instance), ComposeTransform(self.transforms)
        shape = together.inverse_shape(Size((*batch_shape, *self._event_shape)))
        made.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        made.transforms = self.transforms
        Distribution.__init__(made, batch_shape, self._event_shape, False)
        made._validate_args = self._validate_args
        return made

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through what is drawn."""
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property
    def support(self) -> Any:
        """The values that the last transform gives."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        missing = len(self._event_shape) - found.event_dim
        return constraints.independent(found, missing) if missing > 0 else found

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        event, total, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            event += transform.domain.event_dim - transform.codomain.event_dim
            volume = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(volume, event - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event - len(self.base_dist.event_shape))

    def _monotone(self, value: Any) -> Any:
        """A probability, or one minus it where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        self._check(value)
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._transformed(self.base_dist.icdf(self._monotone(value)))


__all__ = ["TransformedDistribution"]
