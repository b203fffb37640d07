"""Numbers in a trace: sizes and elements that Python holds, which of them depend on elements, and what is guarded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.proxies import TracedScalar, concrete
from jit.eager.tensors import Size, Tensor
from jit.ir import Op, Value, dtypes
from jit.ir.errors import EscapedTracerError
from jit.ir.types import INT, ScalarType

from .recording_trace import RecordingTrace
from .refusals import at_line


def sizes_of(trace: RecordingTrace, tensor: Tensor) -> Any:
    """Traced integers for the sizes of a tensor that this trace knows; None for others."""
    binding = trace.memory.binding(tensor)
    if binding is None or tensor._array is None:
        return None
    value = binding.value
    return Size(traced_size(trace, value, dim, size) for dim, size in enumerate(tensor._array.shape))


def shape_of(trace: RecordingTrace, tensor: Tensor) -> Any:
    """The sizes of a tensor as the function gets them: see Note [Exact types]."""
    sizes = sizes_of(trace, tensor)
    return Size(map(trace.scalars.given, sizes)) if trace.scalars.plain and sizes is not None else sizes


def traced_size(trace: RecordingTrace, value: Value, dim: int, size: int) -> TracedScalar:
    """One size of a value."""
    return TracedScalar(
        trace, size, make=lambda: trace.tape.add("prim::size", (value,), {"dim": dim}, [INT]).output, measured=False
    )


def item(trace: RecordingTrace, tensor: Tensor) -> Any:
    """The only element of a tensor as a traced number."""
    if tensor._array is None or tensor._array.size != 1:
        return None
    value = trace.value_of(tensor)
    number = tensor._array.item() if tensor.dtype is not dtypes.bfloat16 else float(tensor._array.reshape(())[()])
    node = trace.tape.add("prim::item", (value,), {}, [ScalarType(type(number).__name__)])
    return trace.scalars.given(TracedScalar(trace, number, node.output))


LISTED = 64
"""The most elements that `tolist()` hands to a traced function."""


def elements(trace: RecordingTrace, tensor: Tensor) -> Any:
    """The result of `tolist()` as traced numbers: what Python decides on one of them is guarded, as of `item()`."""
    if tensor._array.size > LISTED:
        raise EscapedTracerError(
            f"{at_line()}tolist() hands {tensor._array.size} elements to Python, and a traced function gets at most "
            f"{LISTED}; use tensor operations, or clone() and list them outside"
        )
    with context.no_grad():
        flat = F.reshape(tensor, [-1])
        found = iter([item(trace, F.select(flat, 0, index)) for index in range(tensor._array.size)])
    return _nested(tensor._array.shape, found)


def _nested(sizes: Sequence[int], numbers: Iterator[Any]) -> Any:
    return [_nested(sizes[1:], numbers) for _ in range(sizes[0])] if sizes else next(numbers)


def scalar_node(trace: RecordingTrace, kind: str, operands: Sequence[Any], number: Any) -> TracedScalar:
    """A recorded computation on numbers."""
    node = trace.tape.add(kind, [trace.operand(o) for o in operands], {}, [ScalarType(type(number).__name__)])
    measured = any(type(o) is TracedScalar and o._measured for o in operands)
    return TracedScalar(trace, number, node.output, measured=measured)


def guard_sizes(trace: RecordingTrace, tensors: Sequence[Tensor]) -> None:
    """Guard sizes that depend on elements: they may differ in the next call, and the recording goes on with these."""
    if trace.scalars.open_sizes:
        trace.scalars.left_open = True
        return
    present = (tensor for tensor in tensors if tensor.defined)  # some results may be left out
    for size in (size for tensor in present for size in sizes_of(trace, tensor)):
        size._decide()


def has_measured_sizes(op: Op, values: Sequence[Any]) -> bool:
    """Whether the sizes of the results depend on elements of tensors."""
    measures = op.measures
    if measures and (measures is True or op.ask(measures, [*map(plain_number, values)])):
        return True
    return any([_is_measured(values[i]) for i in op.integers])


def _is_measured(value: Any) -> bool:
    return (
        any(map(_is_measured, value)) if isinstance(value, tuple) else type(value) is TracedScalar and value._measured
    )


def plain_number(value: Any) -> Any:
    """A value with plain numbers in place of traced ones, unguarded; for sizes, which the key of a trace fixes."""
    return tuple(map(plain_number, value)) if isinstance(value, tuple) else concrete(value)


def settled(value: Any) -> Any:
    """A value with plain numbers, each guarded, in place of traced ones that depend on elements."""
    if isinstance(value, tuple):
        return tuple(map(settled, value))
    return value._decide() if _is_measured(value) else value
