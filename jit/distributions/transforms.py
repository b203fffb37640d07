"""Transforms: invertible functions of draws, with the logarithm of how they stretch space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jit.eager.namespace import F

from .distribution import clamp_probs, sum_rightmost


class Transform:
    """An invertible function.

    Args:
        cache_size: Accepted and ignored.
    """

    bijective = True
    event_dim = 0

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size

    def __call__(self, x: Any) -> Any:
        """The value of the function."""
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching at `x`, whose value is `y`."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return InverseTransform(self)

    def forward_shape(self, shape: Any) -> Any:
        """The sizes of the value for an argument of these sizes."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InverseTransform(Transform):
    """The inverse of a transform.

    Args:
        transform: The transform.
    """

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._of, self.event_dim = transform, transform.event_dim

    def __call__(self, x: Any) -> Any:
        """The value of the inverse."""
        return self._of._inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching."""
        return -self._of.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        """The transform itself."""
        return self._of


class AffineTransform(Transform):
    """The function `loc + scale * x`.

    Args:
        loc: What is added.
        scale: What is multiplied with.
        event_dim: The number of last dims that are one value.
        cache_size: Accepted and ignored.
    """

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def __call__(self, x: Any) -> Any:
        """The value of the function."""
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching."""
        plain = isinstance(self.scale, (int, float))
        each = F.full_like(x, math.log(abs(self.scale))) if plain else self.scale.abs().log().expand(x.shape)
        return sum_rightmost(each, self.event_dim)


class ExpTransform(Transform):
    """The exponential."""

    def __call__(self, x: Any) -> Any:
        """The value of the function."""
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching."""
        return x


class SigmoidTransform(Transform):
    """The sigmoid."""

    def __call__(self, x: Any) -> Any:
        """The value of the function."""
        return clamp_probs(x.sigmoid())

    def _inverse(self, y: Any) -> Any:
        y = clamp_probs(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching."""
        return -F.softplus(-x) - F.softplus(x)


class TanhTransform(Transform):
    """The hyperbolic tangent."""

    def __call__(self, x: Any) -> Any:
        """The value of the function."""
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return F.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: The transforms, the first of which is applied first.
        cache_size: Accepted and ignored.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max((each.event_dim for each in self.parts), default=0)

    def __call__(self, x: Any) -> Any:
        """The value of the last, of the value of the one before, and so on."""
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the stretching."""
        total: Any = 0.0
        for part in self.parts:
            value = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, value), self.event_dim - part.event_dim)
            x = value
        return total


identity_transform = ComposeTransform([])

__all__ = [
    "AffineTransform", "ComposeTransform", "ExpTransform", "InverseTransform", "SigmoidTransform", "TanhTransform",
    "Transform", "identity_transform",
]  # fmt: skip
