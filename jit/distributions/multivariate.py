"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError
from jit.ir.geometry import broadcast_shapes

from . import constraints
from .constraints import Constraint
from .distribution import Distribution, fresh


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Args:
        loc: The mean.
        covariance_matrix: The covariance; or one of the next two.
        precision_matrix: Its inverse.
        scale_tril: A lower triangular matrix whose square it is.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = [each for each in (covariance_matrix, precision_matrix, scale_tril) if each is not None]
        if len(given) != 1:
            raise UsageError("MultivariateNormal: pass one of covariance_matrix, precision_matrix and scale_tril")
        batch = broadcast_shapes(tuple(given[0].shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand(*batch, loc.shape[-1])
        matrix = given[0].expand(*batch, *given[0].shape[-2:])
        name = next(
            n for n, each in (("covariance_matrix", covariance_matrix), ("precision_matrix", precision_matrix),
                              ("scale_tril", scale_tril)) if each is not None
        )  # fmt: skip
        vars(self)[name] = matrix
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._unbroadcasted_scale_tril = vars(self)["scale_tril"] if name == "scale_tril" else self._root(name, matrix)

    @staticmethod
    def _root(name: str, matrix: Any) -> Any:
        covariance = matrix if name == "covariance_matrix" else F.linalg_inv(matrix)
        return F.linalg_cholesky(covariance)

    def __getattr__(self, name: str) -> Any:
        """The forms of the covariance that were not given, from the one that was."""
        if name not in ("covariance_matrix", "precision_matrix", "scale_tril"):
            raise AttributeError(f"'MultivariateNormal' object has no attribute {name!r}")
        root = vars(self)["_unbroadcasted_scale_tril"]
        if name == "scale_tril":
            return root
        return root @ root.mT if name == "covariance_matrix" else F.linalg_inv(root @ root.mT)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution for a larger batch.

        Args:
            batch_shape: The sizes of the batch.
        """
        root = self._unbroadcasted_scale_tril.expand(*batch_shape, *self._unbroadcasted_scale_tril.shape[-2:])
        loc = self.loc.expand(*batch_shape, self.loc.shape[-1])
        return MultivariateNormal(loc, scale_tril=root, validate_args=False)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Any:
        """The most likely value."""
        return self.loc

    @property
    def variance(self) -> Any:
        """The variance of each element."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Values drawn, through which gradients flow to the parameters."""
        with context.no_grad():
            drawn = fresh(self.loc, Size(self._extended_shape(sample_shape))).normal_()
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def _log_root_determinant(self) -> Any:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density at a value."""
        self._validate_sample(value)
        moved = (value - self.loc).unsqueeze(-1)
        shape = broadcast_shapes(tuple(moved.shape[:-2]), tuple(self._unbroadcasted_scale_tril.shape[:-2]))
        root = self._unbroadcasted_scale_tril.expand(*shape, *self._unbroadcasted_scale_tril.shape[-2:])
        solved = F.linalg_solve_triangular(root, moved.expand(*shape, *moved.shape[-2:]), upper=False)
        distance = solved.pow(2).sum((-2, -1))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._log_root_determinant()

    def entropy(self) -> Any:
        """The entropy, in nats."""
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_root_determinant()


__all__ = ["MultivariateNormal"]
