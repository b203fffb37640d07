"""`MultivariateNormal`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError
from jit.ir.geometry import broadcast_shapes

from . import constraints
from .distribution import Distribution
from .utils import lazy_property


class MultivariateNormal(Distribution):
    """Normal distributions of vectors.

    Args:
        loc: The mean.
        covariance_matrix: The covariances,
        precision_matrix: or their inverse,
        scale_tril: or their Cholesky factor; one of the three.
        validate_args: As of Distribution.

    Raises:
        UsageError: Not one of the three is given, or a shape does not do.
    """

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(given) != 1:
            raise UsageError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if loc.ndim < 1:
            raise UsageError("loc must be at least one-dimensional.")
        ((name, matrix),) = given.items()
        if matrix.ndim < 2:
            raise UsageError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand([*batch, -1])
        self.__dict__[name] = matrix.expand([*batch, -1, -1])
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._factor = _factor_of(name, matrix)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._factor = self._factor

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariances."""
        return self._factor.expand([*self._batch_shape, *self._event_shape, *self._event_shape])

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariances."""
        square = F.matmul(self._factor, F.transpose(self._factor, -2, -1))
        return square.expand([*self._batch_shape, *self._event_shape, *self._event_shape])

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariances."""
        return F.cholesky_inverse(self._factor).expand([*self._batch_shape, *self._event_shape, *self._event_shape])

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return F.sum(F.square(self._factor), -1).expand([*self._batch_shape, *self._event_shape])

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = F.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + F.squeeze(F.matmul(self._factor, F.unsqueeze(noise, -1)), -1)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        distance = squared_distance(self._factor, value - self.loc)
        return -(distance + self.loc.shape[-1] * math.log(2 * math.pi)) / 2 - log_diagonal(self._factor)

    def entropy(self) -> Any:
        found = self.loc.shape[-1] * (1 + math.log(2 * math.pi)) / 2 + log_diagonal(self._factor)
        return found.expand(self._batch_shape)


def squared_distance(factor: Any, vector: Any) -> Any:
    """The squared length of vectors, measured by covariances.

    Args:
        factor: The Cholesky factor of the covariances.
        vector: The vectors.
    """
    wide = F.unsqueeze(vector, -1)
    leading = broadcast_shapes(tuple(factor.shape[:-2]), tuple(wide.shape[:-2]))
    size = factor.shape[-1]
    solved = F.linalg_solve_triangular(
        factor.expand([*leading, size, size]), wide.expand([*leading, size, 1]), upper=False
    )
    return F.sum(F.square(F.squeeze(solved, -1)), -1)


def log_diagonal(factor: Any) -> Any:
    """The sum of the logarithms along the diagonal.

    Args:
        factor: Matrices.
    """
    return F.sum(F.log(F.diagonal(factor, 0, -2, -1)), -1)


def _factor_of(name: str, matrix: Any) -> Any:
    """The Cholesky factor of the covariances, which `matrix` is, or of which it is the inverse."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return F.linalg_cholesky(matrix)
    flipped = F.linalg_cholesky(F.flip(matrix, [-2, -1]))  # of the inverse: that of the matrix turned around
    upper = F.transpose(F.flip(flipped, [-2, -1]), -2, -1)
    one = F.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return F.linalg_solve_triangular(upper, one.expand(upper.shape), upper=False)


__all__ = ["MultivariateNormal"]
