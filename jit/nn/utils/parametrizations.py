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
    """An orthogonal matrix as a function of a skew-symmetric one, or of reflections, times a fixed orthogonal one."""

    def __init__(self, weight: Any, map: str, trivialized: bool) -> None:
        super().__init__()
        self.map, self.trivialized, self.sizes = map, trivialized, tuple(weight.shape)
        if trivialized:
            self.register_buffer("base", F.eye(max(weight.shape[-2:]), dtype=weight.dtype, device=weight.device))

    def forward(self, x: Any) -> Any:
        tall = _tall(x)
        k = tall.shape[-1]
        q = _reflected(tall) if self.map == "householder" else self._of_skew(tall)
        q = F.slice(F.matmul(self.base, q) if self.trivialized else q, -1, 0, k)
        return q if tall is x else F.transpose(q, -2, -1)

    def _of_skew(self, tall: Any) -> Any:
        """The orthogonal matrix of a skew-symmetric one, which is given by its lower part."""
        n, k = tall.shape[-2:]
        lower = F.tril(tall)
        if n != k:
            lower = F.cat([lower, F.zeros((*tall.shape[:-1], n - k), dtype=tall.dtype, device=tall.device)], -1)
        skew = lower - _adjoint(lower)
        if self.map == "matrix_exp":
            return F.linalg_matrix_exp(skew)
        identity = F.eye(n, dtype=skew.dtype, device=skew.device)
        return F.linalg_solve(identity - skew * 0.5, identity + skew * 0.5)

    def right_inverse(self, value: Any) -> Any:
        if tuple(value.shape) != self.sizes:
            raise ShapeError(f"orthogonal: a matrix of sizes {list(self.sizes)} is needed, not {list(value.shape)}")
        tall = _tall(value)
        if self.trivialized:
            self._buffers["base"] = _completed(tall)
            rows, columns = value.shape[-2:]
            return F.zeros_like(value) - F.eye(rows, columns, dtype=value.dtype, device=value.device)
        if self.map == "householder":
            found = _reflections(tall)
            return found if tall is value else F.transpose(found, -2, -1)
        raise UnwrittenError(
            "a tensor that is kept orthogonal with use_trivialization=False cannot be assigned to; leave "
            "use_trivialization out, or take the map 'householder'"
        )


def _tall(x: Any) -> Any:
    return x if x.shape[-2] >= x.shape[-1] else F.transpose(x, -2, -1)


def _adjoint(x: Any) -> Any:
    return F.conj(F.transpose(x, -2, -1)) if x.is_complex() else F.transpose(x, -2, -1)


def _completed(tall: Any) -> Any:
    """A square orthogonal matrix whose first columns span those of `tall`, and are these if they are orthonormal."""
    n, k = tall.shape[-2:]
    q, r = F.linalg_qr(tall, "complete")
    signs = F.sgn(F.diagonal(r, 0, -2, -1))
    return F.cat([F.slice(q, -1, 0, k) * F.unsqueeze(signs, -2), F.slice(q, -1, k, n)], -1)


def _reflected(x: Any) -> Any:
    """The product of the reflections whose normals are the columns of `x` below its diagonal, under a one each; the
    diagonal says by its signs which columns of the product are turned around.

    With V for the normals, the product is ``I - V T V'``, and the inverse of T is the upper part of ``V' V`` with half
    its diagonal.
    """
    n, k = x.shape[-2:]
    identity = F.eye(n, k, dtype=x.dtype, device=x.device)
    normals = F.tril(x, -1) + identity
    dots = F.matmul(F.transpose(normals, -2, -1), normals)
    inverse = F.triu(dots, 1) + F.diag_embed(F.diagonal(dots, 0, -2, -1) * 0.5)
    front = F.transpose(F.slice(normals, -2, 0, k), -2, -1)
    product = identity - F.matmul(normals, F.linalg_solve_triangular(inverse, front, upper=True))
    return product * F.unsqueeze(F.sign(F.diagonal(x.detach(), 0, -2, -1)), -2)


def _reflections(tall: Any) -> Any:
    """The matrix of which `_reflected` makes the orthogonal factor of `tall`: its columns are reflected, one by one, on
    to the edges of a triangle."""
    left, columns = tall, []
    for j in range(tall.shape[-1]):
        column = F.select(left, -1, 0)
        head, tail = F.slice(column, -1, 0, 1), F.slice(column, -1, 1, column.shape[-1])
        sign = F.where(head < 0, 1.0, -1.0).to(head.dtype)  # away from the column, so that nothing cancels
        apart = head - sign * F.linalg_vector_norm(column, 2, -1, True)
        below = tail / F.where(apart == 0, F.ones_like(apart), apart)
        columns.append(F.cat([F.zeros((*tall.shape[:-2], j), dtype=tall.dtype, device=tall.device), sign, below], -1))
        normal = F.unsqueeze(F.cat([F.ones_like(head), below], -1), -1)
        along = F.matmul(F.transpose(normal, -2, -1), left) * (2 / F.sum(normal * normal, -2, True))
        left = F.slice(F.slice(left - F.matmul(normal, along), -2, 1, left.shape[-2]), -1, 1, left.shape[-1])
    return F.stack(columns, -1)


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Any:
    """Keep a matrix of `module` orthogonal: its columns, or its rows if these are fewer, are orthonormal.

    Args:
        module: The module; it is returned. Its tensor becomes the nearest such matrix that QR gives.
        name: The parameter, of two dims at least.
        orthogonal_map: "matrix_exp", the default of square and of complex matrices, "cayley", or "householder", the
            default of others, which is a product of reflections.
        use_trivialization: Whether there is a fixed factor, which makes assignments possible.

    Raises:
        UsageError: There is no such map, or not for complex numbers, or no such parameter.
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
    exponential = weight.is_complex() or weight.shape[-2] == weight.shape[-1]
    chosen = orthogonal_map or ("matrix_exp" if exponential else "householder")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise UsageError(f"orthogonal_map is 'matrix_exp', 'cayley' or 'householder', not {chosen!r}")
    if chosen == "householder" and weight.is_complex():
        raise UsageError("the map 'householder' is for real matrices, and this is a complex one; take 'matrix_exp'")
    return register_parametrization(module, name, _Orthogonal(weight, chosen, use_trivialization), unsafe=True)
