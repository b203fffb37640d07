"""Points of Sobol sequences, as whole numbers of 30 bits.

Point k of a dim is the exclusive or of those direction numbers of the dim that stand where the Gray code of k has a 1.
From one point to the next a single direction number comes or goes: the one at the lowest 1 of the next index.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

BITS = 30
"""The bits of a point; a sequence has 2 ** 30 points before it repeats itself."""
MOST_DIMS = 21201
"""The number of dims for which direction numbers are known, those of Joe and Kuo."""


@functools.lru_cache(maxsize=8)
def direction_numbers(dims: int) -> Any:
    """The direction numbers, a row for each dim, the one with the highest bit first; not to be written to.

    Args:
        dims: The number of dims.
    """
    from scipy.stats import qmc

    found = qmc.Sobol(dims, scramble=False, bits=BITS)._sv.astype(np.int64)
    found.flags.writeable = False
    return found


def points(directions: Any, shift: Any, first: int, count: int) -> Any:
    """A stretch of the sequence, a row for each point.

    Args:
        directions: The direction numbers.
        shift: What is combined with each point, a number for each dim.
        first: The index of the first of the points.
        count: How many to give.
    """
    gray = first ^ (first >> 1)
    chosen = [bit for bit in range(BITS) if gray >> bit & 1]
    start = np.bitwise_xor.reduce(directions[:, chosen], axis=1) ^ shift
    following = np.arange(first + 1, first + count)
    lowest = np.bitwise_count((following & -following) - 1)
    return np.bitwise_xor.accumulate(np.vstack([start, directions.T[lowest]]), axis=0)[:count]


def scrambled(directions: Any, matrices: Any) -> Any:
    """The direction numbers after a linear map of their bits, the same for all numbers of a dim.

    Args:
        directions: The direction numbers.
        matrices: For each dim a lower triangular matrix of bits, whose diagonal counts as 1.
    """
    weights = 1 << np.arange(BITS - 1, -1, -1, dtype=np.int64)
    maps = np.tril(matrices, -1) | np.eye(BITS, dtype=np.int64)
    bits = (directions[:, None, :] & weights[:, None]) != 0
    return np.einsum("i,dij->dj", weights, (maps @ bits.astype(np.int64)) & 1)
