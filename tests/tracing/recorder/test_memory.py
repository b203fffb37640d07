"""Cells and bindings, without a trace around them."""

from __future__ import annotations

import pytest

import jit
from jit.ir import Graph, TensorType, Value, dtypes
from jit.ir.errors import TraceError
from jit.tracing.recorder.memory import TraceMemory


def values(count: int) -> list[Value]:
    graph = Graph()
    return [graph.add_input(TensorType(dtypes.float32, (2,))) for _ in range(count)]


def test_a_tensor_is_bound_to_the_root_of_its_cell() -> None:
    memory, (value,) = TraceMemory(), values(1)
    tensor = jit.ones(2)
    assert memory.known(tensor) is None
    binding = memory.bind_root(tensor, value)
    assert memory.binding(tensor) is binding and binding.value is value is binding.cell.root
    assert TraceMemory().binding(tensor) is None


def test_another_object_for_the_same_memory_is_recognised() -> None:
    memory, (value,) = TraceMemory(), values(1)
    tensor = jit.ones(2)
    made = memory.bind_root(tensor, value)
    binding = memory.known(tensor.detach())
    assert binding is not None and binding.cell is made.cell
    with pytest.raises(TraceError, match="shares memory with one made in the traced function"):
        memory.known(tensor[:1])


def test_writes_to_inputs_are_updates() -> None:
    memory, (source, new) = TraceMemory(), values(2)
    tensor = jit.ones(2)
    cell = memory.bind_root(tensor, source, source).cell
    assert memory.updates() == [] and not memory.is_written(tensor._array)
    memory.keep_original(cell)
    tensor.add_(1)
    cell.root = new
    memory.note_write(cell, tensor._storage)
    assert memory.updates() == [(cell, new)] and memory.is_written(tensor._array) and cell.epoch == 1
    assert memory.original(tensor, source).tolist() == [1, 1]
    memory.forget()
    assert memory.original(tensor, source).tolist() == [2, 2]


def test_the_same_memory_may_have_two_version_counters() -> None:
    memory, (value,) = TraceMemory(), values(1)
    tensor = jit.ones(2)
    first = memory.bind_root(tensor, value)
    data = tensor.data
    memory.bind_again(data, tensor)
    second = memory.binding(data)
    assert second is not None and second.cell is first.cell and second.counter is not first.counter
    data.add_(1)
    memory.note_version(data._storage)
    assert (first.counter.version, second.counter.version) == (0, 1)
