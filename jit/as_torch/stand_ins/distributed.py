"""`torch.distributed`: there is one process, so nothing is distributed; programs that ask are told so."""

from __future__ import annotations

from typing import Any

from jit.ir.errors import UsageError


def is_available() -> bool:
    """Whether processes can work together: they cannot."""
    return False


def is_initialized() -> bool:
    """Whether processes work together: they do not."""
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_initialized


def get_rank(group: Any = None) -> int:
    """The number of this process: 0.

    Args:
        group: Accepted and ignored.
    """
    return 0


def get_world_size(group: Any = None) -> int:
    """The number of processes: 1.

    Args:
        group: Accepted and ignored.
    """
    return 1


def barrier(*args: Any, **options: Any) -> None:
    """Nothing: there is nobody to wait for."""


def init_process_group(*args: Any, **options: Any) -> None:
    """Refuse to let processes work together.

    Raises:
        UsageError: Always.
    """
    raise UsageError("torch.distributed has one process here; run the program without init_process_group()")


def destroy_process_group(*args: Any) -> None:
    """Nothing: there is no group."""


def all_reduce(tensor: Any, *args: Any, **options: Any) -> None:
    """Nothing: the sum over one process is the tensor."""


broadcast = reduce = all_reduce


class ReduceOp:
    """The names of reductions."""

    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


class ProcessGroup:
    """A group of processes, of which there is none; for annotations."""
