"""Views in a trace: a root and a path from there, which is replayed when the root has changed; see Note [Cells]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jit.autograd.nodes import replay
from jit.eager import context, dispatch
from jit.eager.tensors import Tensor
from jit.eager.view_paths import ViewStep, strided_step
from jit.ir import Op, TensorType, Value
from jit.ir.errors import ShapeError, TraceError
from jit.ir.geometry import Geometry
from jit.ir.types import Type
from jit.ops.views import as_strided
from jit.passes.support.builder import GraphBuilder
from jit.runtime.arrays.arrays import geometry_of, offset_of

from .measuring import plain_number, traced_size
from .memory import Binding
from .recording_trace import RecordingTrace
from .refusals import at_line
from .sized_builder import SizedBuilder
from .strides import dense_strides, geometry_behind


def bind_view(trace: RecordingTrace, op: Op, values: Sequence[Any], tensor: Tensor, value: Value, index: int) -> None:
    """Bind `tensor`, output `index` of a view op: one step further than the tensor that it is a view of."""
    source = trace.memory.binding(values[0])
    assert source is not None
    if op.is_absolute:
        _bind_strided(trace, tensor, source, value, values[1:])
        return
    step = ViewStep(op, plain_number(tuple(values[1:])), index)
    trace.scalars.note_step(step, values[1:])
    trace.memory.bind_view(tensor, source, (*source.path, step), value)


def _bind_strided(trace: RecordingTrace, tensor: Tensor, source: Binding, value: Value, numbers: Sequence[Any]) -> None:
    """Bind the result of `as_strided`, which shows memory; its Value is computed from the root's elements."""
    cell = source.cell
    if isinstance(cell.root.type, TensorType) and cell.root.type.dtype is not tensor.dtype:
        raise TraceError(f"{at_line()}as_strided of a view of another dtype cannot be recorded; clone the view first")
    address, sizes, strides = cell.geometry
    home = Geometry(sizes, tuple(s // tensor._array.itemsize for s in strides))
    plain = not source.path and home.is_contiguous
    if cell.source is not None and numbers[-1] is not None:  # which counts from the beginning of the storage
        trace.note_offset(cell.tensor)
    step = strided_step(address, home, tensor._array)
    with trace.guards.ours():
        trace.scalars.note_step(step, _traced_strides(trace, source, home, step, numbers))
    binding = trace.memory.bind_view(tensor, source, (step,), value)
    if not plain:
        binding.value = derive(trace, binding)


def _traced_strides(
    trace: RecordingTrace, source: Binding, home: Geometry, step: ViewStep, numbers: Sequence[Any]
) -> Sequence[Any]:
    """The arguments of a strided step with the traced numbers that they were made of.

    Where they do not follow from these, the numbers and the sizes of the memory are guarded.
    """
    root, (size, stride, given) = source.cell.root, numbers
    traced = tuple(traced_size(trace, root, dim, n) for dim, n in enumerate(home.sizes))
    rows, shown = dense_strides(traced, home.strides), geometry_behind(trace, source)
    first = step.arguments[-1]
    start = shown.offset if given is None and shown is not None else given
    if rows is None or start is None or (given is None and plain_number(start) != first):
        trace.scalars.settle(source.path)
        for number in traced:
            number._decide()
        return (*step.arguments[:2], size, stride, first)
    return (traced, rows, size, stride, start - (plain_number(start) - first))


def derive(trace: RecordingTrace, binding: Binding) -> Value:
    """The Value of a view whose root has changed: the path replayed from the new root."""
    F = SizedBuilder(trace)
    # a view has the history of its base, wherever it is read
    with context.enable_grad(), trace.guards.ours(), trace.tape.building():
        proxy = F.wrap(binding.cell.root)
        for step in trace.scalars.traced(binding.path):
            proxy = apply_step(F, step, proxy)
    return cast(Value, proxy.value)


def apply_step(F: GraphBuilder, step: ViewStep, base: Any) -> Any:
    """The result of one step of a path to a view, as nodes of a graph."""
    try:
        result = F.call(step.op, (base, *step.arguments))
    except ShapeError:  # see `seen_through`
        result = F.call(step.op, (F.contiguous(base), *step.arguments))
    return result[step.index] if isinstance(result, list) else result


def shown(path: Sequence[ViewStep], base: Tensor) -> Tensor:
    """The view of a tensor to which a path leads; it shares the tensor's memory even if a step is by strides."""
    for step in path:
        given = step.arguments
        lies_so = geometry_of(base._array)[:2] == tuple(map(tuple, given[:2])) if step.is_strided else False
        if lies_so:
            *_, size, stride, offset = given
            base = dispatch.call(as_strided, (base, size, stride, offset_of(base._array) + offset))
        else:
            base = replay([step], base)
    return base


def lies_otherwise(type: Any, actual: TensorType) -> bool:
    """Whether a Value has the tensor's sizes but another layout; in a replay for other sizes its type says nothing."""
    return bool(type != actual and type.shape == actual.shape)


def seen_through(trace: RecordingTrace, op: Op, base: Value, arguments: Sequence[Any]) -> tuple[Value, list[Type]]:
    """The Value that a view op gets for one that lies otherwise than the memory it stands for, and the results' types.

    Memory that was written to keeps its layout, and so does that of a numpy array, while their Values are row-major:
    a view of a view may suit the memory and not the Value, whose elements are put in order then.
    """
    given = [*map(plain_number, arguments)]
    try:
        return base, op.infer([base.type, *given])
    except ShapeError:
        F = SizedBuilder(trace)
        with trace.guards.ours():
            ordered = cast(Value, F.contiguous(F.wrap(base)).value)
        return ordered, op.infer([ordered.type, *given])
