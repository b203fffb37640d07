"""The start of working together: the group of all processes, further groups, and their communicators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count

from .ends import ENDS, farewell
from .groups import GROUPS, HAS_WORLD, WORLD, Team
from .library import mpi

CHECKS = "JIT_DISTRIBUTED_CHECKS"
"""The environment variable that turns the checks of exchanges off, if it is 0 for rank 0."""

_numbers = count(1)


def start(timeout: float) -> Team:
    """The group of all processes.

    Args:
        timeout: The seconds after which an exchange has failed.
    """
    world = mpi().COMM_WORLD
    checks = world.bcast(os.environ.get(CHECKS) != "0", 0)
    data, headers = (world.Dup(), world.Dup() if checks else None) if world.size > 1 else (None, None)
    group = GROUPS[WORLD] = Team(WORLD, range(world.size), world.rank, data, headers, timeout)
    HAS_WORLD.set(True)
    ENDS.watch()
    return group


def stop() -> None:
    """Wait until all processes come here, and forget all groups but that of this process alone.

    The names of the others are not given again.
    """
    farewell()
    HAS_WORLD.set(False)
    for name in [name for name in GROUPS if GROUPS[name].data is not None or name == WORLD]:
        del GROUPS[name]


def further_group(ranks: Sequence[int], timeout: float) -> Team | None:
    """A group of some processes; None in those that are not in it. All processes call this, in the same order.

    Args:
        ranks: Their ranks among all.
        timeout: The seconds after which an exchange has failed.
    """
    name, world = f"group {next(_numbers)}", GROUPS[WORLD]
    if world.rank not in ranks:
        return None
    here = ranks.index(world.rank)
    if len(ranks) == 1:
        group = Team(name, ranks, here, timeout=timeout)
    else:
        members = world.data.Get_group().Incl(list(ranks))
        data = world.data.Create_group(members)
        group = Team(name, ranks, here, data, data.Dup() if world.headers is not None else None, timeout)
    GROUPS[name] = group
    return group
