"""Weights that stay normed or orthogonal while they are learned, as parametrizations of a layer's tensor."""

from __future__ import annotations

from typing import Any

from jit.eager.context import no_grad
from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import ShapeError, UnwrittenError, UsageError

from .. import functional
from ..modules import Module
from . import spectral
from .parametrize import register_parametrization

# -- a direction and a length --------------------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, length: Any, direction: Any) -> Any:
        return F._weight_norm(direction, length, self.dim)

    def right_inverse(self, weight: Any) -> Any:
        return F.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn a tensor of `module` as lengths, `original0`, and directions, `original1`.

    Args:
        module: The module; it is returned.
        name: The parameter.
        dim: The dim along which each entry has a length of its own; None gives the whole tensor one length.

    >>> import jit
    >>> layer = jit.nn.utils.parametrizations.weight_norm(jit.nn.Linear(3, 4))
    >>> layer.parametrizations.weight.original0.shape
    jit.Size([4, 1])
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


# -- a largest singular value of 1 ---------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """Divides by an estimate of the largest singular value, which each training step makes better."""

    def __init__(self, weight: Any, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if n_power_iterations < 1:
            raise UsageError(f"n_power_iterations is {n_power_iterations}; pass at least 1")
        if not -weight.ndim <= dim < max(weight.ndim, 1):
            raise ShapeError(f"spectral_norm: dim {dim} does not fit a tensor of {weight.ndim} dims")
        self.dim, self.eps, self.n_power_iterations = dim % max(weight.ndim, 1), eps, n_power_iterations
        if weight.ndim > 1:
            rows, columns = self._matrix(weight).shape
            self.register_buffer("_u", self._direction(weight, rows))
            self.register_buffer("_v", self._direction(weight, columns))
            self._improve(self._matrix(weight.detach()), 15)

    def _direction(self, weight: Any, size: int) -> Any:
        drawn = F.randn((size,), dtype=weight.dtype, device=weight.device)
        return functional.normalize(drawn, dim=0, eps=self.eps)

    def _matrix(self, weight: Any) -> Any:
        return spectral.matrix_of(weight, self.dim)

    def _improve(self, matrix: Any, steps: int) -> None:
        """Power iteration: u and v come nearer to the singular vectors of the largest singular value."""
        with no_grad():
            for _ in range(steps):
                self._u.copy_(functional.normalize(F.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(functional.normalize(F.mv(F.t(matrix), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._improve(matrix.detach(), self.n_power_iterations)
        return spectral.over_singular_value(weight, matrix, self._u, self._v)

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a tensor of `module` by its largest singular value, estimated as it is learned (Miyato et al., 2018).

    Args:
        module: The module; it is returned.
        name: The parameter.
        n_power_iterations: The number of steps by which each reading in training mode improves the estimate.
        eps: The least norm of a vector that is divided by.
        dim: The dim of the rows of the matrix; if left out, 1 for transposed convolutions, else 0.

    Raises:
        UsageError: The module has no such parameter or buffer.

    >>> import jit
    >>> layer = jit.nn.utils.parametrizations.spectral_norm(jit.nn.Linear(20, 40))
    >>> bool(jit.linalg.matrix_norm(layer.weight, 2) < 1.2)
    True
    """
    expect("spectral_norm", module, Module)
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise UsageError(
            f"{type(module).__name__} has no parameter or buffer {name!r} to be normed; name one of its own"
        )
    rows = spectral.rows_of(module, dim)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, rows, eps))


# -- orthogonal columns --------------------------------------------------------------------------------------------


class _Orthogonal(Module):
    """An orthogonal matrix as a function of a skew-symmetric one, times a fixed orthogonal one."""

    def __init__(self, weight: Any, map: str, trivialized: bool) -> None:
        super().__init__()
        self.map, self.trivialized, self.sizes = map, trivialized, tuple(weight.shape)
        if trivialized:
            self.register_buffer("base", F.eye(max(weight.shape[-2:]), dtype=weight.dtype, device=weight.device))

    def forward(self, x: Any) -> Any:
        rows, columns = x.shape[-2:]
        tall = x if rows >= columns else F.transpose(x, -2, -1)
        n, k = max(rows, columns), min(rows, columns)
        wide = F.tril(tall)
        if n != k:
            padding = F.zeros((*x.shape[:-2], n, n - k), dtype=x.dtype, device=x.device)
            wide = F.cat([wide, padding], -1)
        skew = wide - F.transpose(wide, -2, -1)
        q = F.linalg_matrix_exp(skew) if self.map == "matrix_exp" else self._cayley(skew, n)
        q = F.matmul(self.base, q) if self.trivialized else q
        q = F.slice(q, -1, 0, k)
        return q if rows >= columns else F.transpose(q, -2, -1)

    @staticmethod
    def _cayley(skew: Any, n: int) -> Any:
        identity = F.eye(n, dtype=skew.dtype, device=skew.device)
        return F.linalg_solve(identity - skew * 0.5, identity + skew * 0.5)

    def right_inverse(self, value: Any) -> Any:
        if tuple(value.shape) != self.sizes:
            raise ShapeError(f"orthogonal: a matrix of sizes {list(self.sizes)} is needed, not {list(value.shape)}")
        if not self.trivialized:
            raise UnwrittenError(
                "a tensor that is kept orthogonal with use_trivialization=False cannot be assigned to; leave "
                "use_trivialization out"
            )
        rows, columns = value.shape[-2:]
        tall = value if rows >= columns else F.transpose(value, -2, -1)
        q, r = F.linalg_qr(tall, "complete")
        k = min(rows, columns)
        signs = F.sign(F.diagonal(r, 0, -2, -1))
        front = F.slice(q, -1, 0, k) * F.unsqueeze(signs, -2)
        self._buffers["base"] = F.cat([front, F.slice(q, -1, k, max(rows, columns))], -1)
        return F.zeros_like(value)


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Keep a matrix of `module` orthogonal: its columns, or its rows if these are fewer, are orthonormal.

    Args:
        module: The module; it is returned. Its tensor becomes the nearest such matrix that QR gives.
        name: The parameter, of two dims at least.
        orthogonal_map: "matrix_exp", the default, or "cayley".
        use_trivialization: Whether there is a fixed factor, which makes assignments possible.

    Raises:
        UsageError: There is no such map, or no such parameter.
        ShapeError: The tensor is no matrix.

    >>> import jit
    >>> layer = jit.nn.utils.parametrizations.orthogonal(jit.nn.Linear(3, 3))
    >>> jit.allclose(layer.weight @ layer.weight.t(), jit.eye(3), atol=1e-5)
    True
    """
    expect("orthogonal", module, Module)
    weight = getattr(module, name, None)
    if weight is None:
        raise UsageError(
            f"{type(module).__name__} has no parameter {name!r} to be kept orthogonal; name one of its own"
        )
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: a matrix is needed, and {name!r} has the sizes {list(weight.shape)}")
    chosen = "matrix_exp" if orthogonal_map is None else orthogonal_map
    if chosen not in ("matrix_exp", "cayley"):
        raise UsageError(f"orthogonal_map is 'matrix_exp' or 'cayley', not {chosen!r}")
    return register_parametrization(module, name, _Orthogonal(weight, chosen, use_trivialization), unsafe=True)
