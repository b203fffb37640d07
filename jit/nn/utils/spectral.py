"""`spectral_norm` under its older name, and its inverse."""

from __future__ import annotations

from typing import Any

from . import parametrizations
from .parametrize import remove_parametrizations


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """`jit.nn.utils.parametrizations.spectral_norm`.

    Args:
        module: The module that has the tensor.
        name: The name of the tensor.
        n_power_iterations: Steps of the power iteration in each call while training.
        eps: The least norm that is divided by.
        dim: The dim of the outputs.
    """
    return parametrizations.spectral_norm(module, name, n_power_iterations, eps, dim)


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make a normed tensor a plain one again, with the values that it has now."""
    return remove_parametrizations(module, name)
