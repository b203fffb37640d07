"""Groups of processes, found by their names: what a recorded graph says of a group is its name and its size."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from jit.ir.errors import DistributedError, UsageError

SELF = "self"
"""The name of the group of this process alone, which is always there."""
WORLD = "world"
"""The name of the group of all processes."""


HAS_WORLD: ContextVar[bool] = ContextVar("has_world", default=False)
"""Whether this process works with others, as far as the thread knows that has started it."""


class Team:
    """Processes that exchange tensors.

    Args:
        name: Its name, the same in all of its processes.
        ranks: The ranks of its processes among all.
        rank: The number of this process in it.
        data: The communicator of its tensors; None for a process alone.
        headers: That of the checks before each exchange; None if nothing is checked.
        timeout: The seconds after which an exchange has failed.
    """

    def __init__(
        self, name: str, ranks: Sequence[int], rank: int, data: Any = None, headers: Any = None, timeout: float = 1800.0
    ) -> None:
        self.name = name
        self.ranks = tuple(ranks)
        self.rank = rank
        self.data, self.headers, self.timeout = data, headers, timeout
        self.queue: deque[Any] = deque()
        """The exchanges that have begun here and are not done, which happen one after the other."""
        self.begun = 0
        """The number of exchanges that have begun."""

    @property
    def size(self) -> int:
        """The number of its processes."""
        return len(self.ranks)

    @property
    def own_rank(self) -> int:
        """The rank of this process among all."""
        return self.ranks[self.rank]

    def place_of(self, rank: int) -> int:
        """The number in the group of the process that has this rank among all.

        Raises:
            UsageError: It is not in the group.
        """
        if rank not in self.ranks:
            raise UsageError(f"the process of rank {rank} is not in the group of ranks {list(self.ranks)}")
        return self.ranks.index(rank)

    def __repr__(self) -> str:
        return f"<group {self.name!r} of ranks {list(self.ranks)}>"


GROUPS: dict[str, Team] = {SELF: Team(SELF, (0,), 0)}
"""The groups of this process by name."""


def group_named(name: str, size: int | None = None) -> Team:
    """The group of this name.

    Args:
        name: The name.
        size: The number of processes that it had where a graph was recorded.

    Raises:
        DistributedError: There is no such group here, or it has another size.
    """
    group = GROUPS.get(name)
    if group is None:
        raise DistributedError(
            f"this process has no group {name!r}: call init_process_group() first, and new_group() in every process in "
            "the order in which the program that was recorded did"
        )
    if size is not None and group.size != size:
        raise DistributedError(
            f"the group {name!r} has {group.size} processes, but this was recorded for {size}; record it anew"
        )
    return group
