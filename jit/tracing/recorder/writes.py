"""Writes in a trace: an in-place operator is recorded as the functional one, whose result the memory then holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.autograd.nodes import scatter_steps, shares_places
from jit.eager import context, dispatch
from jit.eager.tensors import Tensor
from jit.eager.view_paths import ViewStep
from jit.eager.watch import pause, resume
from jit.ir import Op, TensorType, Value
from jit.ir.errors import TraceError
from jit.ir.geometry import Geometry
from jit.ops.casting import _to_copy
from jit.ops.views import expand

from ..surroundings.properties import row_major, type_of
from .measuring import sizes_of
from .raising import note_raised
from .recording_trace import RecordingTrace
from .refusals import at_line, shared_memory
from .sized_builder import SizedBuilder
from .views import apply_step


def record_inplace(trace: RecordingTrace, op: Op, values: Sequence[Any]) -> Tensor:
    """Run `op` in place; recorded as the functional op, whose result the tensor then holds."""
    target = values[0]
    hook = pause()
    try:
        if target._viewed is not None:  # the error of eager mode, before a trace's own about shared memory
            dispatch.check_history(target, any(map(dispatch.requires_grad, values)))
        operands, attributes, generator = trace.prepare(op, values)
        keep_original(trace, target)
        dispatch.run_inplace(op, values)
        value = _functional(trace, op, operands, attributes, generator, target)
        assign(trace, target, value)
    except Exception as error:
        note_raised(trace, error, op, values, in_place=True)
        raise
    finally:
        resume(hook)
    return target


def record_data(trace: RecordingTrace, tensor: Tensor, data: Tensor) -> None:
    """Note that `data` is `tensor.data`: the same memory without history, with a version counter of its own."""
    if tensor.defined:
        trace.memory.bind_again(data, tensor.detach())


def keep_original(trace: RecordingTrace, tensor: Tensor) -> None:
    """Prepare a write to `tensor`: copy an input first; TraceError if a recording could not repeat the write."""
    trace.value_of(tensor)
    binding = trace.memory.binding(tensor)
    assert binding is not None
    cell = binding.cell
    trace.regions.check_write(cell)
    if cell.foreign:
        raise TraceError(
            f"{at_line()}the function writes to the memory of a numpy array; make it a tensor outside of the function"
        )
    if trace.memory.is_shared(cell, tensor._storage):
        raise shared_memory()
    trace.memory.keep_original(cell)


def _functional(
    trace: RecordingTrace, op: Op, operands: Sequence[Any], attributes: dict[str, Any], generator: Any, target: Tensor
) -> Value:
    """The node of an in-place op without its effect: what `target` holds afterwards."""
    wanted = row_major(type_of(target))
    inferred = op.infer([_type_or_constant(v) for v in op.join(operands, attributes)])
    node = trace.tape.add(op.name, operands, attributes, inferred)
    if generator is not None:
        trace.randomness.advance(generator, node.outputs[-1])
    value = node.outputs[0]
    if isinstance(value.type, TensorType) and value.type.dtype is not wanted.dtype:
        value = trace.tape.add(_to_copy.name, (value,), {"dtype": wanted.dtype}, [wanted]).output
    if isinstance(value.type, TensorType) and value.type.shape != wanted.shape:
        sizes = trace.operand(sizes_of(trace, target))
        value = trace.tape.add(expand.name, (value,), {"size": sizes}, [_expanded(value.type, wanted)]).output
    return value


def assign(trace: RecordingTrace, tensor: Tensor, value: Value) -> None:
    """Let `tensor`'s memory hold `value`: a new root for its cell, an epoch further."""
    binding = trace.memory.binding(tensor)
    assert binding is not None
    cell = binding.cell
    root_before = cell.root
    if binding.path:
        F = SizedBuilder(trace)
        with trace.guards.ours(), trace.tape.building():
            root = _scatter(F, trace.scalars.traced(binding.path), F.wrap(cell.root), F.wrap(value))
            cell.root = (root if root.is_contiguous() else F.clone(root)).value
    else:
        cell.root = value
    if not context.GRAD_ENABLED.get():
        trace.tape.histories |= {new: old for old, new in ((binding.value, value), (root_before, cell.root))}
    trace.memory.note_write(cell, tensor._storage)
    trace.memory.note_version(tensor._storage)
    binding.value, binding.epoch = value, cell.epoch


def _scatter(F: SizedBuilder, path: Sequence[ViewStep], base: Any, source: Any) -> Any:
    """`scatter` of jit.autograd.nodes, over a graph; whether elements lie at one place is decided on traced sizes."""
    along = [base]
    for at, step in enumerate(path[:-1]):
        if shares_places(step, along[-1]):
            source = scatter_steps(F, path[at:], along[-1], source)
            path = path[:at]
            break
        along.append(apply_step(F, step, along[-1]))
    for step, outer in zip(reversed(path), reversed(along[: len(path)]), strict=True):
        source = scatter_steps(F, [step], outer, source)
    return source


def _expanded(type: TensorType, wanted: TensorType) -> TensorType:
    assert type.sizes is not None and wanted.sizes is not None
    from jit.ir.op import strides_of

    geometry = Geometry(type.sizes, strides_of(type)).expand(wanted.sizes)
    return TensorType(type.dtype, geometry.sizes, None if geometry.is_contiguous else geometry.strides, type.device)


def _type_or_constant(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_type_or_constant(v) for v in value)
    if isinstance(value, Value):
        return value.type if isinstance(value.type, TensorType) else 1
    return value
