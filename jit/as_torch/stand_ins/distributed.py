"""`torch.distributed`: there is one process, so nothing is distributed; programs that ask are told so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager import context
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


class DoneWork:
    """Work of a collective call with `async_op=True`, which is done already."""

    def wait(self, timeout: Any = None) -> bool:
        """Whether the work is done: it is.

        Args:
            timeout: Accepted and ignored.
        """
        return True

    is_completed = is_success = wait


Work = DoneWork


def barrier(*args: Any, **options: Any) -> Work | None:
    """Nothing: there is nobody to wait for."""
    return _work(**options)


monitored_barrier = barrier


def _work(async_op: bool = False, **ignored: Any) -> Work | None:
    return DoneWork() if async_op else None


def init_process_group(*args: Any, **options: Any) -> None:
    """Refuse to let processes work together.

    Raises:
        UsageError: Always.
    """
    raise UsageError("torch.distributed has one process here; run the program without init_process_group()")


def destroy_process_group(*args: Any) -> None:
    """Nothing: there is no group."""


def new_group(*args: Any, **options: Any) -> ProcessGroup:
    """A group of this process."""
    return ProcessGroup()


def all_reduce(tensor: Any, *args: Any, **options: Any) -> Work | None:
    """Nothing: the sum over one process is the tensor."""
    return _work(**options)


broadcast = reduce = all_reduce


def _copied(target: Any, source: Any) -> None:
    with context.no_grad():
        target.copy_(source.reshape(target.shape))


def all_gather(tensor_list: Sequence[Any], tensor: Any, *args: Any, **options: Any) -> Work | None:
    """Write this process's tensor to the list of those of all.

    Args:
        tensor_list: A tensor for each process: one.
        tensor: The tensor of this process.
        args: Accepted and ignored.
        options: `async_op`; others are ignored.
    """
    _copied(tensor_list[0], tensor)
    return _work(**options)


def gather(tensor: Any, gather_list: Sequence[Any] | None = None, *args: Any, **options: Any) -> Work | None:
    """Write this process's tensor to the list of those of all, if there is one.

    Args:
        tensor: The tensor of this process.
        gather_list: A tensor for each process: one.
        args: Accepted and ignored.
        options: `async_op`; others are ignored.
    """
    for target in gather_list or ():
        _copied(target, tensor)
    return _work(**options)


def scatter(tensor: Any, scatter_list: Sequence[Any] | None = None, *args: Any, **options: Any) -> Work | None:
    """Write this process's part of a list to a tensor.

    Args:
        tensor: The tensor to write to.
        scatter_list: A tensor for each process: one.
        args: Accepted and ignored.
        options: `async_op`; others are ignored.
    """
    for source in scatter_list or ():
        _copied(tensor, source)
    return _work(**options)


def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], *args: Any, **options: Any) -> Any:
    """Write what this process has for each to what each gets from it.

    Args:
        output_tensor_list: A tensor for each process: one.
        input_tensor_list: A tensor for each process: one.
        args: Accepted and ignored.
        options: `async_op`; others are ignored.
    """
    _copied(output_tensor_list[0], input_tensor_list[0])
    return _work(**options)


def all_gather_into_tensor(output: Any, input: Any, *args: Any, **options: Any) -> Work | None:
    """Write this process's tensor to one in which those of all are joined.

    Args:
        output: The tensor to write to.
        input: The tensor of this process.
        args: Accepted and ignored.
        options: `async_op`; others are ignored.
    """
    _copied(output, input)
    return _work(**options)


reduce_scatter_tensor = all_to_all_single = all_gather_into_tensor
reduce_scatter = scatter


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put this process's object into the list of those of all.

    Args:
        object_list: A place for each process: one.
        obj: The object.
        group: Accepted and ignored.
    """
    object_list[0] = obj


def broadcast_object_list(object_list: list[Any], *args: Any, **options: Any) -> None:
    """Nothing: the objects are here."""


class ReduceOp:
    """The names of reductions."""

    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


class ProcessGroup:
    """A group of processes: this one."""

    def rank(self) -> int:
        """The number of this process: 0."""
        return 0

    def size(self) -> int:
        """The number of processes: 1."""
        return 1


class group:  # noqa: N801  (PyTorch's name)
    """The group of all processes, by its name."""

    WORLD = ProcessGroup()
