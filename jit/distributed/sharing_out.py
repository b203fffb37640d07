"""Collectives in which processes get different parts, or one of them gets all: scatter, gather, all_to_all and others.

Parts travel as rows of one tensor: `gather` is an `all_to_all` in which all send to one, `scatter` one in which one
sends to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.errors import ShapeError, UsageError
from jit.runtime.processes import collectives as engine
from jit.runtime.processes.groups import Team

from .collectives import check_count, check_tensor, place_of, rows
from .groups import held_group
from .reductions import ReduceOp, name_of
from .works import check_alike, exchange


def _sent(
    targets: Sequence[Tensor], sources: Sequence[Tensor], sizes: Sequence[int], received: Sequence[int],
    sent: Sequence[int], held: Team, async_op: bool,
) -> Any:  # fmt: skip
    """Send whole tensors of the same sizes to other processes.

    Args:
        targets: The tensors that are written, in the order in which they come.
        sources: The tensors that are sent, in order; at least one, which says the dtype, even if none is.
        sizes: The sizes of each.
        received: The number of tensors from each process.
        sent: The number of tensors to each.
        held: The group.
        async_op: Whether the caller waits later.
    """
    name, into, out_of = held.name, tuple(received), tuple(sent)

    def joined() -> Tensor:
        return F.stack([*sources]) if any(out_of) else F.new_empty(sources[0], (0, *sizes))

    def begin() -> Any:
        arrays = [source._array for source in sources]
        stacked = np.stack(arrays) if any(out_of) else np.empty((0, *sizes), arrays[0].dtype)
        return engine.all_to_all(stacked, into, out_of, name)

    split = rows(tuple(sizes), sum(into))
    return exchange(targets, lambda: F.all_to_all_single(joined(), into, out_of, name), begin, split, async_op)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None, async_op: bool = False
) -> Any:
    """Send each process a tensor, and write what comes from each into a list of tensors.

    Args:
        output_tensor_list: A tensor for each process, to write to.
        input_tensor_list: A tensor for each process, to send; all of one dtype, and with equal sizes but for the first.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.

    Raises:
        ShapeError: There are more or fewer tensors than processes.
    """
    held = held_group(group)
    if held is None:
        return None
    for tensors in (output_tensor_list, input_tensor_list):
        check_count("all_to_all", tensors, held)
        for tensor in tensors:
            check_tensor("all_to_all", tensor)
    counts = [[tensor.numel() for tensor in tensors] for tensors in (output_tensor_list, input_tensor_list)]
    name, into, out_of = held.name, tuple(counts[0]), tuple(counts[1])

    def split(found: Any) -> list[Any]:
        ends = np.cumsum((0, *into))
        return [found[ends[i] : ends[i + 1]].reshape(tuple(t.shape)) for i, t in enumerate(output_tensor_list)]

    def flat() -> Any:
        return F.cat([F.reshape(tensor, (-1,)) for tensor in input_tensor_list])

    return exchange(
        output_tensor_list,
        lambda: F.all_to_all_single(flat(), into, out_of, name),
        lambda: engine.all_to_all(
            np.concatenate([t._array.reshape(-1) for t in input_tensor_list]), into, out_of, name
        ),
        split,
        async_op,
    )


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """Send rows of a tensor to each process, and write what comes from each into another one.

    Args:
        output: The tensor to write to.
        input: The tensor whose rows are sent.
        output_split_sizes: The number of rows from each process; equal numbers unless given.
        input_split_sizes: The number of rows to each process; equal numbers unless given.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
    """
    check_tensor("all_to_all_single", input)
    check_tensor("all_to_all_single", output)
    held = held_group(group)
    if held is None:
        return None
    name = held.name
    into, out_of = splits(output, output_split_sizes, held), splits(input, input_split_sizes, held)
    check_alike("all_to_all_single", [output], (sum(into), *input.shape[1:]), input.dtype)
    return exchange(
        [output],
        lambda: F.all_to_all_single(input, into, out_of, name),
        lambda: engine.all_to_all(input._array, into, out_of, name),
        lambda found: [found],
        async_op,
    )


def splits(tensor: Tensor, sizes: Sequence[int] | None, held: Team) -> tuple[int, ...]:
    """The rows of a tensor for each process of a group: as many as given, or equal numbers.

    Args:
        tensor: The tensor.
        sizes: The numbers; equal ones if there are none.
        held: The group.

    Raises:
        ShapeError: The rows cannot be shared out like this.
    """
    count = tensor.shape[0] if tensor.ndim else 0
    if not sizes:
        if not tensor.ndim or count % held.size:
            raise ShapeError(
                f"all_to_all_single: sizes {list(tensor.shape)} have no {held.size} equal parts along the first dim"
            )
        return (int(count) // held.size,) * held.size
    if len(sizes) != held.size or sum(sizes) != count:
        raise ShapeError(
            f"all_to_all_single: {list(sizes)} rows for {held.size} processes do not make up {list(tensor.shape)}"
        )
    return tuple(map(int, sizes))


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce the lists of all processes, tensor by tensor, and write each process its own one.

    Args:
        output: The tensor to write to.
        input_list: A tensor for each process.
        op: The reduction.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
    """
    check_tensor("reduce_scatter", output)
    held, reduction = held_group(group), name_of(op)
    if held is None:
        return None
    check_count("reduce_scatter", input_list, held)
    check_alike("reduce_scatter", input_list, output.shape, output.dtype)
    name, size = held.name, held.size
    sizes = tuple(output.shape)
    return exchange(
        [output],
        lambda: F.reduce_scatter_tensor(F.stack([*input_list]), reduction, size, name),
        lambda: engine.reduce_scatter(np.stack([t._array for t in input_list]), reduction, size, name),
        lambda found: [found.reshape(sizes)],
        async_op,
    )


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce the tensors of all processes, and write each process its part along the first dim.

    Args:
        output: The tensor to write to.
        input: The tensor of this process, which joins or stacks the parts of all.
        op: The reduction.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
    """
    check_tensor("reduce_scatter_tensor", input)
    check_tensor("reduce_scatter_tensor", output)
    held, reduction = held_group(group), name_of(op)
    if held is None:
        return None
    name, size, sizes = held.name, held.size, tuple(output.shape)
    part = engine.part_sizes(tuple(input.shape), size)
    check_alike("reduce_scatter_tensor", [output], part if part[:1] != (1,) or len(part) == len(sizes) else part[1:],
                input.dtype)  # fmt: skip
    return exchange(
        [output],
        lambda: F.reduce_scatter_tensor(input, reduction, size, name),
        lambda: engine.reduce_scatter(input._array, reduction, size, name),
        lambda found: [found.reshape(sizes)],
        async_op,
    )


def gather(
    tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """Write the tensors of all processes into a list of tensors in one of them.

    Args:
        tensor: The tensor of this process.
        gather_list: A tensor for each process, where they are wanted; None in the other processes.
        dst: The rank of the process that gets them; 0 unless given.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
        group_dst: Its number in the group, instead of `dst`.

    Raises:
        UsageError: There is a list in another process.
        ShapeError: There are more or fewer tensors than processes.
    """
    check_tensor("gather", tensor)
    held = held_group(group)
    if held is None:
        return None
    place = place_of(held, dst if dst is not None or group_dst is not None else held.ranks[0], group_dst, "dst")
    here = held.rank == place
    if here:
        check_count("gather", gather_list, held)
        check_alike("gather", gather_list or (), tensor.shape, tensor.dtype)
    elif gather_list:
        raise UsageError(f"gather: tensors are gathered in rank {held.ranks[place]} alone; pass no gather_list here")
    sent = [int(i == place) for i in range(held.size)]
    targets = list(gather_list or ()) if here else []
    return _sent(targets, [tensor], tuple(tensor.shape), [int(here)] * held.size, sent, held, async_op)


def scatter(
    tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Any:  # fmt: skip
    """Write each process its own tensor of a list that one of them has.

    Args:
        tensor: The tensor to write to.
        scatter_list: A tensor for each process, in the one that sends; None in the others.
        src: The rank of the process that sends; 0 unless given.
        group: The processes; all of them unless given.
        async_op: Whether to return a `Work` at once, on which to wait.
        group_src: Its number in the group, instead of `src`.

    Raises:
        UsageError: There is a list in another process.
        ShapeError: There are more or fewer tensors than processes.
    """
    check_tensor("scatter", tensor)
    held = held_group(group)
    if held is None:
        return None
    place = place_of(held, src if src is not None or group_src is not None else held.ranks[0], group_src, "src")
    here = held.rank == place
    if here:
        check_count("scatter", scatter_list, held)
        check_alike("scatter", scatter_list or (), tensor.shape, tensor.dtype)
    elif scatter_list:
        raise UsageError(f"scatter: rank {held.ranks[place]} alone sends; pass no scatter_list here")
    received = [int(i == place) for i in range(held.size)]
    sources = list(scatter_list or ()) if here else [tensor]
    with context.no_grad():
        return _sent([tensor], sources, tuple(tensor.shape), received, [int(here)] * held.size, held, async_op)


__all__ = [
    "all_to_all", "all_to_all_single", "gather", "reduce_scatter", "reduce_scatter_tensor", "scatter", "splits",
]  # fmt: skip
