"""`Independent`."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import constraints
from .distribution import Distribution


class Independent(Distribution):
    """A distribution of which dims of the batch are part of one thing that is drawn.

    Args:
        base_distribution: The distribution.
        reinterpreted_batch_ndims: The number of dims, from the last of the batch.
        validate_args: As of Distribution.

    Raises:
        UsageError: There are not as many.

    >>> import jit
    >>> normal = jit.distributions.Normal(jit.zeros(2, 3), 1.0)
    >>> jit.distributions.Independent(normal, 1).log_prob(jit.zeros(2, 3)).shape
    jit.Size([2])
    """

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:  # fmt: skip
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise UsageError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        kept = len(batch) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:kept], [*batch[kept:], *event], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made, own = self._bare(_instance), self._event_shape[: self.reinterpreted_batch_ndims]
        made.base_dist = self.base_dist.expand([*batch_shape, *own])
        made.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(made, batch_shape, self._event_shape, False)
        made._validate_args = self._validate_args
        return made

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through what is drawn."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether all values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """The values of the distribution, several together."""
        found = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(found, count) if count and found is not None else found

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last dims.

    Args:
        value: What is summed.
        dims: The number of dims.
    """
    return F.sum(value, list(range(value.ndim - dims, value.ndim))) if dims else value


__all__ = ["Independent"]
