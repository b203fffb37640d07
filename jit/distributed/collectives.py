"""Collectives by PyTorch's names, which write their results into tensors that they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor, requires_grad
from jit.ir.errors import KindError, ShapeError, UsageError
from jit.runtime.processes import collectives as engine
from jit.runtime.processes.groups import Team

from .groups import held_group
from .reductions import ReduceOp, name_of
from .works import check_alike, exchange


def check_tensor(name: str, tensor: Any) -> None:
    """Refuse what is no tensor.

    Args:
        name: The collective.
        tensor: What was passed.

    Raises:
        KindError: It is no tensor.
    """
    if not isinstance(tensor, Tensor):
        raise KindError(f"{name}: tensors travel, not {type(tensor).__name__}; use the collectives of objects")


def _is_tracked(tensor: Tensor) -> bool:
    """Whether a tensor that is overwritten has a history to go on."""
    return context.is_grad_enabled() and requires_grad(tensor) and not tensor.is_leaf


def place_of(group: Team, rank: int | None, group_rank: int | None, what: str) -> int:
    """The number in a group of a process that is given by its rank among all, or by that number.

    Args:
        group: The group.
        rank: The rank.
        group_rank: The number.
        what: The argument that says it.

    Raises:
        UsageError: Neither is given, or it is not in the group.
    """
    if rank is None and group_rank is None:
        raise UsageError(f"say which process is meant by {what}")
    return group.place_of(rank) if group_rank is None else int(group_rank)  # type: ignore[arg-type]


def _whole(found: Any) -> list[Any]:
    return [found]


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce the tensors of all processes, and write the result into the tensor of each.

    Args:
        tensor: The tensor of this process.
        op: The reduction.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
    """
    check_tensor("all_reduce", tensor)
    held, reduction = held_group(group), name_of(op)
    if held is None:
        return None
    name = held.name
    return exchange(
        [tensor],
        lambda: F.all_reduce(tensor, reduction, name),
        lambda: engine.all_reduce(tensor._array, reduction, name, True),
        _whole,
        async_op,
        _is_tracked(tensor),
    )


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Write the tensor of one process into those of all.

    Args:
        tensor: The tensor of this process.
        src: The rank of the process whose tensor it is.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
        group_src: Its number in the group, instead of `src`.
    """
    check_tensor("broadcast", tensor)
    held = held_group(group)
    if held is None:
        return None
    name, place = held.name, place_of(held, src, group_src, "src")
    return exchange(
        [tensor],
        lambda: F.broadcast(tensor, place, name),
        lambda: engine.broadcast(tensor._array, place, name, True),
        _whole,
        async_op,
        _is_tracked(tensor),
    )


def reduce(
    tensor: Any, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Any:  # fmt: skip
    """Reduce the tensors of all processes, and write the result into that of one; those of the others stay.

    Args:
        tensor: The tensor of this process.
        dst: The rank of the process that gets the result.
        op: The reduction.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
        group_dst: Its number in the group, instead of `dst`.
    """
    check_tensor("reduce", tensor)
    held, reduction = held_group(group), name_of(op)
    if held is None:
        return None
    name, place = held.name, place_of(held, dst, group_dst, "dst")
    here = held.rank == place
    return exchange(
        [tensor] if here else [],
        lambda: F.reduce(tensor, reduction, place, name),
        lambda: engine.reduce(tensor._array, reduction, place, name),
        lambda found: [found] if here else [],
        async_op,
        here and _is_tracked(tensor),
    )


def rows(sizes: Sequence[int], count: int) -> Callable[[Any], list[Any]]:
    """A function that splits tensors that are joined along the first dim.

    Args:
        sizes: Those of each.
        count: How many there are.
    """

    def split(found: Any) -> list[Any]:
        parts = found.reshape((count, *sizes))
        return [parts[i] for i in range(count)]

    return split


def all_gather(tensor_list: Sequence[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Write the tensors of all processes into a list of tensors.

    Args:
        tensor_list: A tensor for each process.
        tensor: The tensor of this process.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.

    Raises:
        ShapeError: The list has another length, or its tensors have other sizes.
    """
    check_tensor("all_gather", tensor)
    held = held_group(group)
    if held is None:
        return None
    check_count("all_gather", tensor_list, held)
    check_alike("all_gather", tensor_list, tensor.shape, tensor.dtype)
    return _gathered(tensor_list, tensor, held, rows(tuple(tensor.shape), held.size), async_op)


def _gathered(targets: Sequence[Any], tensor: Any, held: Team, split: Callable[[Any], Any], async_op: bool) -> Any:
    name, size = held.name, held.size
    return exchange(
        targets,
        lambda: F.all_gather_into_tensor(tensor, size, name),
        lambda: engine.all_gather(tensor._array, size, name),
        split,
        async_op,
    )


def check_count(name: str, tensors: Sequence[Any] | None, held: Team) -> None:
    """Refuse a list that has not one tensor for each process.

    Args:
        name: The collective.
        tensors: The list.
        held: The group.

    Raises:
        ShapeError: It has more or fewer, or there is none.
    """
    if tensors is None or len(tensors) != held.size:
        count = "none" if tensors is None else len(tensors)
        raise ShapeError(f"{name}: there are {held.size} processes, and {count} tensors for them")


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Write the tensors of all processes into one, joined or stacked along the first dim, as its sizes say.

    Args:
        output_tensor: The tensor to write to.
        input_tensor: The tensor of this process.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.

    Raises:
        ShapeError: `output_tensor` has other sizes.
    """
    check_tensor("all_gather_into_tensor", input_tensor)
    held = held_group(group)
    if held is None:
        return None
    sizes = tuple(input_tensor.shape)
    stacked = tuple(getattr(output_tensor, "shape", ())) == (held.size, *sizes)
    wanted = (held.size, *sizes) if stacked else engine.joined_sizes(sizes, held.size)
    check_alike("all_gather_into_tensor", [output_tensor], wanted, input_tensor.dtype)
    return _gathered([output_tensor], input_tensor, held, lambda found: [found.reshape(wanted)], async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait until all processes have come here.

    Args:
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
        device_ids: Accepted and ignored.
    """
    from jit.eager.creation import tensor

    held = held_group(group)
    return None if held is None else all_reduce(tensor([1.0]), ReduceOp.SUM, group, async_op)


__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "barrier", "broadcast", "check_count", "check_tensor",
    "place_of", "reduce", "rows",
]  # fmt: skip
