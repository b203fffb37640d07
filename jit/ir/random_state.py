"""The state of a random generator: the runtime value of every `Generator` in a graph.

Random numbers come from a counter-based generator, so a state is no buffer that drawing changes: it is a seed, which
names a sequence of 128-bit blocks, and an offset, which says how many of them are spent. Whoever draws reads the blocks
from the offset on and hands the advanced state to the next. What is in a block is the runtime's business
(`jit.runtime.arrays.philox`).
"""

from dataclasses import dataclass
from typing import Final

from jit.ir.errors import UsageError

__all__ = ["RandomState"]

_WORD64: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class RandomState:
    """A place in a sequence of random blocks; immutable, hashable, and equal where seed and offset are.

    Args:
        seed: The number of the sequence, from -2**63 to 2**64 - 1; a negative seed is the same as that seed + 2**64.
        offset: The number of 128-bit blocks (each of four 32-bit words) of the sequence that are spent, modulo 2**64.

    Raises:
        UsageError: The seed is out of range.

    >>> RandomState(seed=7).advance(3)
    RandomState(seed=7, offset=3)
    """

    seed: int
    offset: int = 0

    def __post_init__(self) -> None:
        if not -_WORD64 // 2 <= self.seed < _WORD64:
            raise UsageError(f"the seed {self.seed} does not fit into 64 bits; pass one from -2**63 to 2**64 - 1")
        object.__setattr__(self, "seed", self.seed % _WORD64)
        object.__setattr__(self, "offset", self.offset % _WORD64)

    def advance(self, draws: int) -> "RandomState":
        """The state after `draws` further blocks are spent."""
        return RandomState(self.seed, self.offset + draws)
