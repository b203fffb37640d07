"""`ExponentialFamily`: distributions whose entropy follows from the derivative of their normalizer."""

from __future__ import annotations

from typing import Any

from jit.autograd.differentiation import grad
from jit.eager.context import enable_grad
from jit.eager.namespace import F

from .distribution import Distribution


class ExponentialFamily(Distribution):
    """A distribution whose density is exp(t(x) . theta - A(theta) + k(x)), with natural parameters theta."""

    _mean_carrier_measure: Any = 0.0

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError(type(self).__name__)

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(type(self).__name__)

    def entropy(self) -> Any:
        """The entropy: the divergence of Bregman of the normalizer."""
        with enable_grad():
            parameters = [p.detach().requires_grad_() for p in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            gradients = grad(F.sum(normalizer), parameters, create_graph=True)
        result = -self._mean_carrier_measure + normalizer
        for parameter, gradient in zip(parameters, gradients, strict=True):
            term = parameter * gradient
            event = len(self._event_shape)
            result = result - (F.sum(term, list(range(term.ndim - event, term.ndim))) if event else term)
        return result


__all__ = ["ExponentialFamily"]
