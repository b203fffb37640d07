"""Numbers that fill a cube more evenly than random ones: Sobol sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.eager import context
from jit.eager.creation import from_numpy
from jit.eager.generators import Generator
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.ir.errors import UsageError
from jit.runtime.arrays.low_discrepancy import BITS, MOST_DIMS, direction_numbers, points, scrambled


class SobolEngine:
    """A source of points of a Sobol sequence in the unit cube, with the direction numbers of Joe and Kuo.

    Args:
        dimension: The number of dims of the cube, up to 21201.
        scramble: Whether to map and shift the bits at random, which keeps how evenly the points lie.
        seed: The seed of the scrambling; another one each time if left out.

    Raises:
        UsageError: There are no direction numbers for so many dims.

    >>> import jit
    >>> jit.quasirandom.SobolEngine(2).draw(4).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    """

    MAXBIT = BITS
    MAXDIM = MOST_DIMS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise UsageError(f"a SobolEngine has 1 to {self.MAXDIM} dims, not {dimension}")
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        """The number of points that have been drawn or passed over."""
        self._directions = direction_numbers(dimension)
        self._shift = np.zeros(dimension, np.int64)
        """The first point, as whole numbers."""
        if scramble:
            self._scramble()

    def _scramble(self) -> None:
        source = Generator()
        if self.seed is None:
            source.seed()
        else:
            source.manual_seed(self.seed)
        self._shift = F.randint(2**BITS, (self.dimension,), generator=source).numpy()
        matrices = F.randint(2, (self.dimension, BITS, BITS), generator=source)
        self._directions = scrambled(self._directions, matrices.numpy())

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next points, a row for each.

        Args:
            n: How many.
            out: A tensor to write them into, which is given their sizes.
            dtype: Their dtype; the default one if left out.

        Raises:
            UsageError: The sequence does not have so many points, or their number is negative.
        """
        first = self.num_generated
        self.fast_forward(n)
        whole = from_numpy(points(self._directions, self._shift, first, n))
        found = (whole.to(dtypes.float64) / 2**BITS).to(dtypes.DEFAULT if dtype is None else dtypes.as_dtype(dtype))
        return found if out is None else out.resize_(found.shape).copy_(found)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2 ** m points, where the number of all points drawn is then a power of 2, as an even filling needs.

        Args:
            m: The exponent.
            out: A tensor to write them into, which is given their sizes.
            dtype: Their dtype; the default one if left out.

        Raises:
            UsageError: The number of all points would not be a power of 2.
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise UsageError(
                f"{self.num_generated} points and 2 ** {m} more are {total}, which is no power of 2, so the points "
                "would not lie evenly; use draw() for any number"
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Start from the first point again."""
        self._move_to(0)
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Pass over points.

        Args:
            n: How many.

        Raises:
            UsageError: The sequence does not have so many points, or their number is negative.
        """
        if not 0 <= n <= 2**BITS - self.num_generated:
            raise UsageError(
                f"the next {n} points cannot be had: a sequence has 2 ** {BITS}, and {self.num_generated} are past; "
                "call reset() to start again"
            )
        self._move_to(self.num_generated + n)
        return self

    def _move_to(self, index: int) -> None:
        trace = context.TRACE.get()
        if trace is not None:
            trace.note_impure("moves a SobolEngine on")
        self.num_generated = index

    def __repr__(self) -> str:
        options = f"dimension={self.dimension}"
        if self.scramble:
            options += f", scramble=True{'' if self.seed is None else f', seed={self.seed}'}"
        return f"SobolEngine({options})"


__all__ = ["SobolEngine"]
