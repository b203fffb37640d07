"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F

from ..lazy import refuse_lazy


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """The elements of all parameters, one after the other, as a vector."""
    parameters = list(parameters)
    refuse_lazy(parameters, "list")
    return F.cat([F.reshape(parameter, (-1,)) for parameter in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """The inverse of `parameters_to_vector`: copy a vector's parts into the parameters."""
    offset = 0
    with no_grad():
        for parameter in parameters:
            count = parameter.numel()
            parameter.copy_(vec[offset : offset + count].view(parameter.shape))
            offset += count
