"""`Wishart`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError
from jit.ir.geometry import broadcast_shapes

from . import constraints
from .exp_family import ExponentialFamily
from .multivariate_normal import MultivariateNormal, log_diagonal


class Wishart(ExponentialFamily):
    """Wishart distributions of positive definite matrices.

    Args:
        df: The degrees of freedom.
        covariance_matrix: The scale,
        precision_matrix: or its inverse,
        scale_tril: or its Cholesky factor; one of the three.
        validate_args: As of Distribution.

    Raises:
        UsageError: Not one of the three is given, or there are too few degrees of freedom.
    """

    arg_constraints = {
        "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(0),
    }  # fmt: skip
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise UsageError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        matrix = given[0]
        if matrix.ndim < 2:
            raise UsageError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if hasattr(df, "ndim") else F.full([], float(df), dtype=matrix.dtype, device=matrix.device)
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape))
        self.df = df.expand(batch)
        whole = MultivariateNormal(
            F.zeros_like(matrix[..., 0]), covariance_matrix, precision_matrix, scale_tril, validate_args
        )
        self._normal = whole.expand(batch)
        super().__init__(batch, matrix.shape[-2:], validate_args)
        if self._is_checking() and not bool(F.all(F.gt(self.df, self._event_shape[-1] - 1))):
            raise UsageError(f"Value of df={df} expected to be greater than ndim - 1 = {self._event_shape[-1] - 1}.")

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made._normal = self._normal.expand(shape)

    @property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the scale."""
        return self._normal.scale_tril

    @property
    def covariance_matrix(self) -> Any:
        """The scale."""
        return self._normal.covariance_matrix

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the scale."""
        return self._normal.precision_matrix

    def _wide_df(self) -> Any:
        return self.df.reshape([*self._batch_shape, 1, 1])

    @property
    def mean(self) -> Any:
        return self._wide_df() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        return F.where(F.gt(factor, 0), factor, math.nan).reshape([*self._batch_shape, 1, 1]) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        diagonal = F.diagonal(v, 0, -2, -1)
        return self._wide_df() * (F.square(v) + F.unsqueeze(diagonal, -1) * F.unsqueeze(diagonal, -2))

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Matrices by the decomposition of Bartlett."""
        size = self._event_shape[-1]
        shape = Size((*sample_shape, *self._batch_shape, size))
        steps = F.arange(size, dtype=self.df.dtype, device=self.df.device)
        chi2 = 2 * F._standard_gamma(((F.unsqueeze(self.df, -1) - steps) / 2).expand(shape))
        noise = F.tril(F.randn([*shape, size], dtype=self.df.dtype, device=self.df.device), -1)
        factor = F.matmul(self.scale_tril, noise + F.diag_embed(F.sqrt(chi2)))
        return F.matmul(factor, F.transpose(factor, -2, -1))

    def _log_constant(self) -> Any:
        n, p = self.df, self._event_shape[-1]
        return n * p * math.log(2) / 2 + n * log_diagonal(self.scale_tril) + F.mvlgamma(n / 2, p)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        p = self._event_shape[-1]
        trace = F.sum(self.precision_matrix * F.transpose(value, -2, -1), [-2, -1])
        return (self.df - p - 1) / 2 * F.logdet(value) - trace / 2 - self._log_constant()

    def entropy(self) -> Any:
        n, p = self.df, self._event_shape[-1]
        return self._log_constant() - (n - p - 1) / 2 * self._mean_log_det() + n * p / 2

    def _mean_log_det(self) -> Any:
        p = self._event_shape[-1]
        steps = F.arange(p, dtype=self.df.dtype, device=self.df.device)
        psi = F.sum(F.digamma((F.unsqueeze(self.df, -1) - steps) / 2), -1)
        return psi + p * math.log(2) + 2 * log_diagonal(self.scale_tril)


__all__ = ["Wishart"]
