"""`spectral_norm` under its older name, with the names of parts that older state dicts have, and its inverse."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

from .. import functional
from ..modules import Module
from ..parameter import Parameter
from .normed import weight_to_norm


def rows_of(module: Any, dim: int | None) -> int:
    """The dim of a weight's rows; if left out, 1 for transposed convolutions, else 0."""
    return (1 if getattr(module, "transposed", False) else 0) if dim is None else dim


def matrix_of(weight: Any, dim: int) -> Any:
    """A weight as a matrix, with a row for each entry of a dim."""
    return F.flatten(F.movedim(weight, dim, 0), 1)


def over_singular_value(weight: Any, matrix: Any, u: Any, v: Any) -> Any:
    """A weight divided by the singular value of its matrix that belongs to two singular vectors.

    Args:
        weight: The weight.
        matrix: The same as a matrix.
        u: The vector with an entry for each row.
        v: The vector with an entry for each column.
    """
    u, v = F.clone(u), F.clone(v)  # a later step overwrites them; this one's gradient needs them
    return weight / F.dot(u, F.mv(matrix, v))


class SpectralWeight:
    """Computes a weight whose largest singular value is about 1 from `<name>_orig` whenever it is read.

    Args:
        name: The name of the weight.
        n_power_iterations: The number of steps by which each reading in training mode improves the estimate.
        dim: The dim of the rows of the matrix.
        eps: The least norm of a vector that is divided by.
    """

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight: Any) -> Any:
        """The weight as a matrix."""
        return matrix_of(weight, self.dim)

    def normalized(self, vector: Any) -> Any:
        """A vector of length 1."""
        return functional.normalize(vector, dim=0, eps=self.eps)

    def __call__(self, module: Any) -> Any:
        return self.compute(module, module.training)

    def compute(self, module: Any, improves: bool) -> Any:
        """The weight.

        Args:
            module: The module that has its parts.
            improves: Whether the estimate is improved before.
        """
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.matrix(weight)
        if improves:
            self._improve(matrix.detach(), u, v)
        return over_singular_value(weight, matrix, u, v)

    def _improve(self, matrix: Any, u: Any, v: Any) -> None:
        """Power iteration: u and v come nearer to the singular vectors of the largest singular value."""
        with no_grad():
            for _ in range(self.n_power_iterations):
                v.copy_(self.normalized(F.mv(F.t(matrix), u)))
                u.copy_(self.normalized(F.mv(matrix, v)))


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight of `module` by its largest singular value, estimated as it is learned (Miyato et al., 2018).

    The module then has `<name>_orig`, which is learned, and the vectors `<name>_u` and `<name>_v`.
    `jit.nn.utils.parametrizations.spectral_norm` does the same under names of its own.

    Args:
        module: The module; it is returned.
        name: The parameter.
        n_power_iterations: The number of steps by which each reading in training mode improves the estimate.
        eps: The least norm of a vector that is divided by.
        dim: The dim of the rows of the matrix; if left out, 1 for transposed convolutions, else 0.

    Raises:
        UsageError: There is no such parameter, it is normed already, or there are no steps.
        ShapeError: The parameter has no such dim.

    >>> import jit
    >>> layer = jit.nn.utils.spectral_norm(jit.nn.Linear(20, 40))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    expect("spectral_norm", module, Module)
    if n_power_iterations < 1:
        raise UsageError(f"n_power_iterations is {n_power_iterations}; pass at least 1")
    weight = weight_to_norm(module, name)
    rows = rows_of(module, dim)
    if not -weight.ndim <= rows < weight.ndim:
        raise ShapeError(f"spectral_norm: dim {rows} does not fit a tensor of {weight.ndim} dims")
    norm = SpectralWeight(name, n_power_iterations, rows % weight.ndim, eps)
    _take_apart(module, weight, norm)
    return module


def _take_apart(module: Any, weight: Any, norm: SpectralWeight) -> None:
    """Put what a normed weight is computed from into its place."""
    rows, columns = norm.matrix(weight.detach()).shape
    module.register_parameter(f"{norm.name}_orig", module._parameters.pop(norm.name))
    for part, size in (("u", rows), ("v", columns)):
        drawn = F.randn((size,), dtype=weight.dtype, device=weight.device)
        module.register_buffer(f"{norm.name}_{part}", norm.normalized(drawn))
    module._computed[norm.name] = norm


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make a normed weight a parameter again, with the values that it has now.

    Raises:
        UsageError: The weight is not normed.
    """
    expect("remove_spectral_norm", module, Module)
    norm = module._computed.get(name)
    if not isinstance(norm, SpectralWeight):
        raise UsageError(f"{name!r} of this {type(module).__name__} is no normed weight; call spectral_norm() first")
    weight = norm.compute(module, improves=False).detach()
    del module._computed[name], module._buffers[f"{name}_u"], module._buffers[f"{name}_v"]
    original = module._parameters.pop(f"{name}_orig")
    module.register_parameter(name, Parameter(weight, original.requires_grad))
    return module


__all__ = ["SpectralWeight", "remove_spectral_norm", "spectral_norm"]
