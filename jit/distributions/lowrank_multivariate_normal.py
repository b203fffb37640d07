"""`LowRankMultivariateNormal`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.namespace import F
from jit.ir.geometry import broadcast_shapes

from . import constraints
from .distribution import Distribution
from .multivariate_normal import log_diagonal, squared_distance


class LowRankMultivariateNormal(Distribution):
    """Normal distributions of vectors whose covariances are W W^T + D, with few columns of W and a diagonal D.

    Args:
        loc: The mean.
        cov_factor: W.
        cov_diag: The diagonal of D.
        validate_args: As of Distribution.
    """

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        batch = broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        self.loc, self.cov_diag = loc.expand([*batch, -1]), cov_diag.expand([*batch, -1])
        self.cov_factor = cov_factor.expand([*batch, -1, -1])
        super().__init__(batch, loc.shape[-1:], validate_args)

    @property
    def _capacitance(self) -> Any:
        """The Cholesky factor of 1 + W^T D^-1 W, by which determinants and inverses are small ones."""
        weighted = F.transpose(self.cov_factor, -2, -1) / F.unsqueeze(self.cov_diag, -2)
        one = F.eye(self.cov_factor.shape[-1], dtype=self.loc.dtype, device=self.loc.device)
        return F.linalg_cholesky(one + F.matmul(weighted, self.cov_factor))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return F.sum(F.square(self.cov_factor), -1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Any:
        """The covariances."""
        return F.matmul(self.cov_factor, F.transpose(self.cov_factor, -2, -1)) + F.diag_embed(self.cov_diag)

    @property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariances."""
        return F.linalg_cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariances."""
        return F.cholesky_inverse(self.scale_tril)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape, options = self._extended_shape(sample_shape), {"dtype": self.loc.dtype, "device": self.loc.device}
        common = F.randn([*shape[:-1], self.cov_factor.shape[-1], 1], **options)
        own = F.sqrt(self.cov_diag) * F.randn(shape, **options)
        return self.loc + F.squeeze(F.matmul(self.cov_factor, common), -1) + own

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        difference, factor = value - self.loc, self._capacitance
        scaled = difference / self.cov_diag
        inner = F.squeeze(F.matmul(F.transpose(self.cov_factor, -2, -1), F.unsqueeze(scaled, -1)), -1)
        distance = F.sum(difference * scaled, -1) - squared_distance(factor, inner)
        return -(distance + self._log_volume(factor) + self.loc.shape[-1] * math.log(2 * math.pi)) / 2

    def _log_volume(self, factor: Any) -> Any:
        return 2 * log_diagonal(factor) + F.sum(F.log(self.cov_diag), -1)

    def entropy(self) -> Any:
        return (self.loc.shape[-1] * (1 + math.log(2 * math.pi)) + self._log_volume(self._capacitance)) / 2


__all__ = ["LowRankMultivariateNormal"]
