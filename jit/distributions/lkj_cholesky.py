"""`LKJCholesky`."""

from __future__ import annotations

import math
from typing import Any

from jit.eager.context import no_grad
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir.errors import UsageError

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all


class LKJCholesky(Distribution):
    """Distributions of Cholesky factors of correlations, by Lewandowski, Kurowicka and Joe.

    Args:
        dim: The number of rows.
        concentration: The shape; 1 is the uniform distribution over correlations.
        validate_args: As of Distribution.

    Raises:
        UsageError: There are fewer than 2 rows.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise UsageError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _expand_parts(self, made: Any, shape: Size) -> None:
        made.dim = self.dim

    def sample(self, sample_shape: Any = ()) -> Any:
        """Factors by the onion method: the square of the length of each row beside its last is a Beta number."""
        with no_grad():
            rows = F.arange(1, self.dim, dtype=self.concentration.dtype, device=self.concentration.device)
            second = F.unsqueeze(self.concentration, -1) + (self.dim - 1 - rows) / 2
            squares = Beta(rows / 2, second).sample(sample_shape)
            noise = F.tril(F.randn_like(squares.new_empty([*squares.shape, self.dim - 1])))
            lengths = F.linalg_vector_norm(noise, 2, [-1], True)
            inner = F.unsqueeze(F.sqrt(squares), -1) * noise / lengths
            factor = F.constant_pad_nd(inner, [0, 1, 1, 0], 0.0)
            diagonal = F.sqrt(F.clamp(1 - F.sum(F.square(factor), -1), 1e-30))
            return factor + F.diag_embed(diagonal)

    def log_prob(self, value: Any) -> Any:
        self._check(value)
        diagonal = F.diagonal(value, 0, -2, -1)[..., 1:]
        rows = F.arange(2, self.dim + 1, dtype=self.concentration.dtype, device=self.concentration.device)
        order = F.unsqueeze(2 * (self.concentration - 1), -1) + self.dim - rows
        unscaled = F.sum(order * F.log(diagonal), -1)
        count, alpha = self.dim - 1, self.concentration + (self.dim - 1) / 2
        constant = F.mvlgamma(alpha - 0.5, count) - F.lgamma(alpha) * count
        return unscaled - constant - count * math.log(math.pi) / 2


__all__ = ["LKJCholesky"]
