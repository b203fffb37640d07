"""Processes that work together: their start, their ranks, and groups of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from jit.eager import context
from jit.ir.errors import DistributedError, UsageError
from jit.runtime.processes import starting
from jit.runtime.processes.groups import Team
from jit.runtime.processes.library import is_installed

default_pg_timeout = timedelta(minutes=30)
"""The time after which an exchange has failed, unless `init_process_group` is told another one."""


class ProcessGroup:
    """A group of processes; made by `new_group`, or `group.WORLD`.

    Args:
        held: What the engine knows of it.
    """

    def __init__(self, held: Team) -> None:
        self.held = held

    def rank(self) -> int:
        """The number of this process in the group."""
        return self.held.rank

    def size(self) -> int:
        """The number of its processes."""
        return self.held.size

    @property
    def group_name(self) -> str:
        """The name by which recorded graphs know it."""
        return self.held.name

    def name(self) -> str:
        """The name of the backend."""
        return Backend.MPI

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.held.name!r} of ranks {list(self.held.ranks)}>"


class Backend:
    """The names of backends; MPI is the one that there is."""

    MPI, GLOO, NCCL, UNDEFINED = "mpi", "gloo", "nccl", "undefined"


class GroupMember:
    """The group of all processes, and what `new_group` gives those that are not in the new one."""

    NON_GROUP_MEMBER = object()
    WORLD: ProcessGroup | None = None


class _KnowsWorld(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; None before `init_process_group`."""
        return GroupMember.WORLD


class group(metaclass=_KnowsWorld):  # noqa: N801  (PyTorch's name)
    """The group of all processes, by its name."""


def is_available() -> bool:
    """Whether processes can work together: mpi4py is installed."""
    return is_installed()


is_mpi_available = is_gloo_available = is_available


def is_nccl_available() -> bool:
    """False: tensors travel by MPI."""
    return False


is_ucc_available = is_xccl_available = is_torchelastic_launched = is_nccl_available


def is_initialized() -> bool:
    """Whether `init_process_group` was called; a traced function that asks is recorded for the answer."""
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_world()
    return GroupMember.WORLD is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Let the processes that mpiexec, or `jit launch`, has started work together; one without them is a world of one.

    Args:
        backend: "mpi". With "gloo", MPI does what gloo would; with "nccl", too, and tensors travel through the CPU.
        init_method: Accepted and ignored: the processes know each other.
        timeout: The time, or the seconds, after which an exchange has failed; 30 minutes unless given.
        world_size: The number of processes, which is checked if given.
        rank: The number of this process, likewise.
        store: Accepted and ignored.
        group_name: Accepted and ignored.
        pg_options: Accepted and ignored.
        device_id: Accepted and ignored.

    Raises:
        UsageError: MPI is not installed, there is no such backend, or the processes are others than expected.
        DistributedError: They work together already.
    """
    _refuse_recording("init_process_group")
    if is_initialized():
        raise DistributedError("init_process_group() was called already; call destroy_process_group() before")
    _check_backend(backend)
    world = starting.start(_seconds(timeout))
    for what, told, found in (("world_size", world_size, world.size), ("rank", rank, world.rank)):
        if told not in (-1, None, found):
            starting.stop()
            raise UsageError(
                f"init_process_group: {what} is {told}, but MPI says {found}; start the program with "
                f"`jit launch -n {max(world_size, 1)}`, or mpiexec, and leave {what} out"
            )
    GroupMember.WORLD = ProcessGroup(world)


def _check_backend(backend: str | None) -> None:
    names = [part.rpartition(":")[2] for part in str(backend or Backend.MPI).lower().split(",")]
    unknown = [name for name in names if name not in (Backend.MPI, Backend.GLOO, Backend.NCCL)]
    if unknown:
        raise UsageError(f"there is no backend {unknown[0]!r}; use 'mpi'")
    if Backend.NCCL in names and Backend.GLOO not in names:
        warnings.warn("there is no NCCL here: tensors travel by MPI, those of a GPU through the CPU", stacklevel=3)


def _seconds(timeout: timedelta | float | None) -> float:
    limit = default_pg_timeout if timeout is None else timeout
    return limit.total_seconds() if isinstance(limit, timedelta) else float(limit)


def _refuse_recording(what: str) -> None:
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_impure(f"calls {what}()")


def destroy_process_group(group: Any = None) -> None:
    """End the work together.

    Args:
        group: A group to forget, which changes nothing for the others; all of them unless given.
    """
    _refuse_recording("destroy_process_group")
    if group is not None and group is not GroupMember.WORLD:
        return
    held_group(None)
    starting.stop()
    GroupMember.WORLD = None


def held_group(group: Any) -> Team | None:
    """The engine's group; None for a process that is not in it.

    Args:
        group: A group as users have it; None for that of all processes.

    Raises:
        DistributedError: There are no groups yet.
    """
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    if GroupMember.WORLD is None:
        raise DistributedError("the default process group has not been initialized; call init_process_group() first")
    if group is None:
        return GroupMember.WORLD.held
    if not isinstance(group, ProcessGroup):
        raise UsageError(f"a process group is what new_group() returns, or None for all processes, not {group!r}")
    return group.held


def get_rank(group: Any = None) -> int:
    """The number of this process in a group, -1 if it is not in it.

    Args:
        group: The group; all processes unless given.
    """
    held = held_group(group)
    return -1 if held is None else held.rank


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group, -1 if this one is not in it.

    Args:
        group: The group; all processes unless given.
    """
    held = held_group(group)
    return -1 if held is None else held.size


def get_backend(group: Any = None) -> str:
    """The name of the backend: "mpi".

    Args:
        group: The group; all processes unless given.
    """
    held_group(group)
    return Backend.MPI


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of the processes of a group.

    Args:
        group: The group; all processes unless given.
    """
    held = held_group(group)
    return [] if held is None else list(held.ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of a process.

    Args:
        group: The group.
        global_rank: Its rank among all processes.
    """
    held = held_group(group)
    assert held is not None
    return held.place_of(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all of a process of a group.

    Args:
        group: The group.
        group_rank: The number of the process in it.
    """
    return get_process_group_ranks(group)[group_rank]


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes; `GroupMember.NON_GROUP_MEMBER` in the others. All processes call this, in one order.

    Args:
        ranks: Their ranks; all of them unless given.
        timeout: The time, or the seconds, after which an exchange has failed; that of all processes unless given.
        backend: "mpi", see `init_process_group`.
        pg_options: Accepted and ignored.
        use_local_synchronization: Accepted and ignored: all processes call this.
        group_desc: Accepted and ignored.
        device_id: Accepted and ignored.

    Raises:
        UsageError: There is no such process.
    """
    _refuse_recording("new_group")
    world = held_group(None)
    assert world is not None
    _check_backend(backend)
    wanted = sorted(range(world.size) if ranks is None else ranks)
    if not wanted or len(set(wanted)) != len(wanted) or not set(wanted) <= set(world.ranks):
        raise UsageError(f"new_group: ranks are some of 0 to {world.size - 1}, each once, not {wanted}")
    made = starting.further_group(wanted, world.timeout if timeout is None else _seconds(timeout))
    return GroupMember.NON_GROUP_MEMBER if made is None else ProcessGroup(made)


def new_subgroups(group_size: int | None = None, group: Any = None, **options: Any) -> tuple[Any, list[Any]]:
    """Groups of as many processes each, by their ranks: that of this process, and all of them.

    Args:
        group_size: The number of processes of each; all of them unless given.
        group: Accepted and ignored.
        options: Those of `new_group`.

    Raises:
        UsageError: The processes cannot be shared out evenly.
    """
    world = get_world_size()
    size = group_size or world
    if world % size:
        raise UsageError(f"new_subgroups: {world} processes do not make up groups of {size}")
    made = [new_group(range(start, start + size), **options) for start in range(0, world, size)]
    return made[get_rank() // size], made


__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "default_pg_timeout", "destroy_process_group", "get_backend",
    "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group", "held_group",
    "init_process_group", "is_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
    "new_subgroups",
]  # fmt: skip
