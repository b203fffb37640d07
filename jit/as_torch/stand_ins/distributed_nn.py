"""`torch.distributed.nn`: what processes send each other, with gradients; there is one, so each gets what it sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def all_reduce(tensor: Any, *args: Any, **options: Any) -> Any:
    """A copy: the sum over one process is the tensor."""
    return tensor.clone()


broadcast = reduce = all_reduce


def all_gather(tensor: Any, *args: Any, **options: Any) -> tuple[Any, ...]:
    """The tensors of all processes: one."""
    return (tensor.clone(),)


gather = all_gather


def scatter(tensors: Sequence[Any], *args: Any, **options: Any) -> Any:
    """This process's part of a list of one tensor."""
    return tensors[0].clone()


def reduce_scatter(output: Any, input_list: Sequence[Any], *args: Any, **options: Any) -> Any:
    """This process's part of the sum over one process."""
    return input_list[0].clone()


def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], *args: Any) -> tuple[Any, ...]:
    """Tensors that this process gets from each: those that it has for each."""
    return tuple(each.clone() for each in input_tensor_list)


def all_to_all_single(output: Any, input: Any, *args: Any, **options: Any) -> Any:
    """A tensor that joins what this process gets from all: the one that it has for all."""
    return input.clone()
