"""Collectives that return new tensors: they are differentiated to any order, and stand in graphs as themselves.

A gradient is that of the sum of what all processes compute: that of `all_reduce` is reduced, too. So all processes have
to go backward through the same collectives, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError
from jit.runtime.processes.groups import Team

from ..collectives import check_count, check_tensor
from ..groups import held_group
from ..reductions import ReduceOp, name_of
from ..sharing_out import splits
from ..works import check_alike


def _member(group: Any) -> Team:
    """The engine's group, of which this process is a member."""
    held = held_group(group)
    if held is None:
        raise UsageError("this process is not in the group, and cannot get a tensor from it")
    return held


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all processes, reduced.

    Args:
        tensor: The tensor of this process.
        op: The reduction; gradients of the least and greatest elements go to the processes that hold them.
        group: The processes; all of them unless given.
    """
    check_tensor("all_reduce", tensor)
    return F.all_reduce(tensor, name_of(op), _member(group).name)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of one process.

    Args:
        tensor: The tensor of this process, which has the same sizes and dtype.
        src: The rank of the process whose tensor it is.
        group: The processes; all of them unless given.
    """
    check_tensor("broadcast", tensor)
    held = _member(group)
    return F.broadcast(tensor, held.place_of(src), held.name)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all processes, reduced, in one process; zeros in the others.

    Args:
        tensor: The tensor of this process.
        dst: The rank of the process that gets the result.
        op: The reduction.
        group: The processes; all of them unless given.
    """
    check_tensor("reduce", tensor)
    held = _member(group)
    return F.reduce(tensor, name_of(op), held.place_of(dst), held.name)


def all_gather_into_tensor(tensor: Any, group: Any = None) -> Any:
    """The tensors of all processes, joined along the first dim.

    Args:
        tensor: The tensor of this process.
        group: The processes; all of them unless given.
    """
    check_tensor("all_gather_into_tensor", tensor)
    held = _member(group)
    return F.all_gather_into_tensor(tensor, held.size, held.name)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes.

    Args:
        tensor: The tensor of this process.
        group: The processes; all of them unless given.
    """
    joined, count = all_gather_into_tensor(tensor, group), _member(group).size
    return tuple(F.unbind(F.reshape(joined, (count, *tensor.shape))))


def reduce_scatter_tensor(input: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The part of this process of the tensors of all, reduced: one of equal parts along the first dim.

    Args:
        input: The tensor of this process.
        op: The reduction.
        group: The processes; all of them unless given.
    """
    check_tensor("reduce_scatter_tensor", input)
    held = _member(group)
    return F.reduce_scatter_tensor(input, name_of(op), held.size, held.name)


def reduce_scatter(output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensor of this process of the lists of all, reduced tensor by tensor.

    Args:
        output: Accepted and ignored, but for its sizes.
        input_list: A tensor for each process.
        op: The reduction.
        group: The processes; all of them unless given.
    """
    held = _member(group)
    check_count("reduce_scatter", input_list, held)
    stacked = F.reduce_scatter_tensor(F.stack([*input_list]), name_of(op), held.size, held.name)
    return F.reshape(stacked, tuple(input_list[0].shape))


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None,
) -> Any:  # fmt: skip
    """Rows from all processes, after rows of a tensor were sent to each.

    Args:
        output: Accepted and ignored, but for its sizes.
        input: The tensor whose rows are sent.
        output_split_sizes: The number of rows from each process; equal numbers unless given.
        input_split_sizes: The number of rows to each process; equal numbers unless given.
        group: The processes; all of them unless given.
    """
    check_tensor("all_to_all_single", input)
    held = _member(group)
    into, out_of = splits(output, output_split_sizes, held), splits(input, input_split_sizes, held)
    return F.all_to_all_single(input, into, out_of, held.name)


def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None) -> Any:
    """A tensor from each process, after one was sent to each.

    Args:
        output_tensor_list: A tensor for each process, for its sizes.
        input_tensor_list: A tensor for each process, to send.
        group: The processes; all of them unless given.
    """
    held = _member(group)
    for tensors in (output_tensor_list, input_tensor_list):
        check_count("all_to_all", tensors, held)
    into, out_of = ([tensor.numel() for tensor in tensors] for tensors in (output_tensor_list, input_tensor_list))
    flat = F.cat([F.reshape(tensor, (-1,)) for tensor in input_tensor_list])
    parts = F.split_with_sizes(F.all_to_all_single(flat, into, out_of, held.name), into)
    return tuple(F.reshape(part, tuple(like.shape)) for part, like in zip(parts, output_tensor_list, strict=True))


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes in one of them; zeros in the others.

    Args:
        tensor: The tensor of this process.
        dst: The rank of the process that gets them.
        group: The processes; all of them unless given.
    """
    check_tensor("gather", tensor)
    held = _member(group)
    place = held.place_of(dst)
    here = held.rank == place
    rows = F.all_to_all_single(
        F.unsqueeze(tensor, 0), [int(here)] * held.size, [int(i == place) for i in range(held.size)], held.name
    )
    whole = rows if here else F.add(F.zeros_like(F.stack([tensor] * held.size)), F.sum(rows))
    return tuple(F.unbind(whole))


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """The tensor of this process of a list that one process has.

    Args:
        tensors: A tensor for each process; those of the others count for their sizes alone.
        src: The rank of the process whose list it is.
        group: The processes; all of them unless given.
    """
    held = _member(group)
    check_count("scatter", tensors, held)
    check_alike("scatter", tensors, tensors[0].shape, tensors[0].dtype)
    place = held.place_of(src)
    here = held.rank == place
    stacked = F.stack([*tensors])
    sent = stacked if here else F.narrow(stacked, 0, 0, 0)
    rows = F.all_to_all_single(sent, [int(i == place) for i in range(held.size)], [int(here)] * held.size, held.name)
    return F.squeeze(rows, 0)


__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather",
    "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip
