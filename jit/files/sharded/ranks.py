"""The processes that save together: what one of them has, said to all; and a failure of one, raised in all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jit import distributed

from .faults import CheckpointError

T = TypeVar("T")


class Ranks:
    """The processes of a group, or this one alone.

    Args:
        group: The group; None for all processes.
        alone: Whether this process works alone, whatever others there are.
    """

    def __init__(self, group: Any = None, alone: bool = False) -> None:
        self.group = group
        self.alone = alone or not distributed.is_initialized()
        self.size = 1 if self.alone else distributed.get_world_size(group)
        self.rank = 0 if self.alone else distributed.get_rank(group)

    def all(self, own: T) -> list[T]:
        """The values that the processes have."""
        if self.alone:
            return [own]
        found: list[Any] = [None] * self.size
        distributed.all_gather_object(found, own, self.group)
        return found

    def done(self, work: Callable[[], T]) -> list[T]:
        """The results of some work in every process, if it succeeds in all of them.

        Raises:
            CheckpointError: Another process has failed. What the own one raises is raised as it is.
        """
        failure: BaseException | None = None
        result: T | None = None
        try:
            result = work()
        except Exception as error:
            failure = error
        told = self.all((result, None if failure is None else f"{type(failure).__name__}: {failure}"))
        if failure is not None:
            raise failure
        for rank, (_, reason) in enumerate(told):
            if reason is not None:
                raise CheckpointError(f"process {rank} could not do its part of the checkpoint ({reason})")
        return [each for each, _ in told]  # type: ignore[misc]
