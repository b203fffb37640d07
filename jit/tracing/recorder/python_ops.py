"""Python and native functions in a trace: opaque nodes, with a Handle where they have a backward to run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

import numpy as np

from jit.eager import context, dispatch
from jit.eager.proxies import TracedScalar
from jit.eager.tensors import Tensor
from jit.eager.watch import pause, resume
from jit.export.opsets import OPSETS
from jit.export.registration import registered
from jit.ir import HANDLE, Value
from jit.ir.errors import EscapedTracerError, TraceError
from jit.ir.graph import leaves
from jit.ir.types import Type

from ..recordings.recalling import run_once
from ..surroundings.peeking import is_a
from ..surroundings.properties import type_of
from .recording_trace import RecordingTrace
from .records import SLOT, Arguments, Treatment, copied
from .refusals import at_line
from .writes import assign, keep_original


def record_function(trace: RecordingTrace, function: Any, args: Sequence[Any]) -> Any:
    """Run an autograd.Function and record it as a PythonOp: opaque, with a Handle if it has a backward to run.

    For a model, which has no such nodes, what it does is recorded, if it is done in operators and has no ONNX form.
    """
    if context.EXPORTING.get() and not _has_symbolic(function):
        hook = pause()
        try:
            return function._run(args, only_tensors=False)[0]
        except EscapedTracerError as error:  # it computes by foreign code
            trace.forgive(error)
        finally:
            resume(hook)
    hook = pause()  # it may do as it likes: it runs in every call
    try:
        return _run_and_record(trace, function, args)
    except Exception as error:
        trace.errors.note_foreign(error, function.__name__)
        raise
    finally:
        resume(hook)


def _has_symbolic(function: Any) -> bool:
    """Whether the user says what a Function becomes in a model."""
    return hasattr(function, "symbolic") or registered(f"^{function.__name__}", OPSETS[-1])[0] is not None


def _run_and_record(trace: RecordingTrace, function: Any, args: Sequence[Any]) -> Any:
    args = [_decided(a) for a in args]
    _check_opaque(function, args)
    tensors = [a for a in args if is_a(a, Tensor) and a.defined]
    operands = [trace.value_of(t) for t in tensors]
    plain = tuple(SLOT if is_a(a, Tensor) and a.defined else copied(a) for a in args)
    needs = tuple(map(dispatch.requires_grad, tensors))
    before = [(t._array.copy(), t._storage.version) for t in tensors]
    with context.tracing(None):
        result, node = run_once(function, args, tensors, context.GRAD_ENABLED.get() and any(needs))
    outputs = dispatch.unpack(result)
    types: list[Type] = [type_of(t) for t in outputs]
    written = tuple(any(t is o for o in outputs) for t in tensors)
    _check_written(function, tensors, before, written)
    attributes = {
        **_named_arguments(function, plain), "function": function, "arguments": Arguments(plain),
        "treatment": Treatment(needs, written, context.AUTOCAST.get()),
    }  # fmt: skip
    recorded = trace.tape.add(
        f"^{function.__name__}", operands, attributes, types if node is None else [*types, HANDLE]
    )
    for tensor, value in zip(outputs, recorded.outputs, strict=False):
        which = next((i for i, t in enumerate(tensors) if t is tensor), None)
        if which is None:
            cell = trace.memory.bind_root(tensor, value).cell
            _note_view(trace, function, tensor, cell, tensors)
        else:
            _assign_dirty(trace, tensor, value, before[which][0])
    if node is not None:
        trace.functions.handles[node] = recorded.outputs[-1]
    return result


def _note_view(trace: RecordingTrace, function: Any, made: Tensor, cell: Any, tensors: Sequence[Tensor]) -> None:
    """Note it if a Python function has returned memory of its arguments."""
    bindings = [trace.memory.binding(t) for t in tensors if np.may_share_memory(t._array, made._array)]
    if bindings:
        trace.functions.note_view(function.__name__, cell, [b.cell for b in bindings if b is not None])


def _assign_dirty(trace: RecordingTrace, tensor: Tensor, value: Value, before: Any) -> None:
    """Record that a PythonOp has written to its argument."""
    after = tensor._array.copy()
    np.copyto(tensor._array, before)
    trace.memory.note_version(tensor._storage)
    keep_original(trace, tensor)
    np.copyto(tensor._array, after)
    assign(trace, tensor, value)


def record_native(trace: RecordingTrace, op: Any, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Record a call of a CppOp, which has just run."""
    operands = [trace.value_of(t) for t in tensors]
    recorded = trace.tape.add(op.schema.qualified, operands, {"function": op}, [type_of(t) for t in outputs])
    for tensor, value in zip(outputs, recorded.outputs, strict=True):
        trace.memory.bind_root(tensor, value)


def record_eval(
    trace: RecordingTrace, node: Any, gradients: Sequence[Any], run: Callable[[], Sequence[Any]]
) -> Sequence[Any]:
    """Run the backward of a PythonOp and record it as an Eval of its Handle."""
    operands = [None if g is None else trace.value_of(g) for g in gradients]
    trace.uncounted.refuse_over(node)
    hook = pause()  # as in `record_function`
    try:
        with context.tracing(None):
            results = run()
    except Exception as error:
        trace.errors.note_foreign(error, node.name)
        raise
    finally:
        resume(hook)
    found = [r for r in results if r is not None]
    if any(r.requires_grad for r in found):
        raise EscapedTracerError(
            f"{at_line()}{node.name} computes a part of its gradient by foreign code, and a part that can be "
            "differentiated; write all of it in tensor operations, or none"
        )
    recorded = trace.tape.add(
        "prim::Eval",
        (*operands, trace.functions.handles[node]),
        {"wanted": tuple(r is not None for r in results)},
        [type_of(r) for r in found],
    )
    for tensor, value in zip(found, recorded.outputs, strict=True):
        trace.memory.bind_root(tensor, value)
    return results


def _decided(item: Any) -> Any:
    """An argument with plain numbers for traced ones; lists, tuples and dicts of such are new ones."""
    if type(item) is TracedScalar:
        return item._decide()
    if not is_a(item, (list, tuple, dict)) or not any(type(leaf) is TracedScalar for leaf in leaves(item)):
        return item
    if isinstance(item, dict):
        copied = copy.copy(item)
        copied.update({key: _decided(each) for key, each in item.items()})
        return copied
    make = getattr(item, "_make", type(item))
    return make([_decided(each) for each in item])


def _check_opaque(function: Any, args: Sequence[Any]) -> None:
    """Raise TraceError if a PythonOp gets tensors or traced numbers other than as its own arguments."""
    hidden = [item for a in args if is_a(a, (list, tuple, dict)) for item in leaves(a)]
    cells = getattr(function.forward, "__closure__", None) or ()
    inner = [c.cell_contents for c in cells if c != CellType()]
    hidden += [t for t in inner if isinstance(t, Tensor) and t._bindings is not None]
    if any(isinstance(item, (Tensor, TracedScalar)) for item in hidden):
        raise TraceError(
            f"{at_line()}{function.__name__} takes tensors in a list, a dict or from the function around it, where a "
            "recording cannot follow them; pass each as an argument of apply()"
        )


def _check_written(function: Any, tensors: Sequence[Tensor], before: Sequence[Any], written: Sequence[bool]) -> None:
    for tensor, (_, version), declared in zip(tensors, before, written, strict=True):
        if tensor._storage.version != version and not declared:
            raise TraceError(
                f"{at_line()}{function.__name__} writes to an argument without saying so; pass it to ctx.mark_dirty() "
                "and return it"
            )


def _named_arguments(function: Any, plain: Sequence[Any]) -> dict[str, Any]:
    """The non-tensor arguments by the names that forward gives them, for the printout."""
    code = getattr(function.forward, "__code__", None)
    names = list(code.co_varnames[1 : code.co_argcount]) if code is not None else []
    simple = (int, float, bool, str, type(None))
    return {n: a for n, a in zip(names, plain, strict=False) if is_a(a, simple)}
