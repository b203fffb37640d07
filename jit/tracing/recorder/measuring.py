"""Numbers in a trace: sizes and elements that Python holds, which of them depend on elements, and what is guarded."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jit.eager import context
from jit.eager.namespace import F
from jit.eager.proxies import TracedScalar, concrete, makes_counts
from jit.eager.tensors import Size, Tensor
from jit.ir import Op, Value, dtypes
from jit.ir.errors import EscapedTracerError
from jit.ir.inference import SIZES
from jit.ir.types import INT, ScalarType
from jit.ops.views import squeeze, squeeze_dim, squeeze_dims

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
        trace, size, make=lambda: trace.tape.number("prim::size", (value,), {"dim": dim}, INT), measured=False,
        counts=True,
    )  # fmt: skip


def item(trace: RecordingTrace, tensor: Tensor) -> Any:
    """The only element of a tensor as a traced number."""
    if tensor._array is None or tensor._array.size != 1:
        return None
    decide_sizes(trace, tensor)  # of no other number of elements it is one number
    value = trace.value_of(tensor)
    number = dtypes.number_in(tensor._array)
    node = trace.tape.add("prim::item", (value,), {}, [ScalarType(type(number).__name__)])
    given = trace.scalars.items_vary and value.node.kind == "prim::Param"
    if given and type(number) is int and 1 < abs(number) < 1 << 63:
        trace.scalars.items[node.output] = number
    given = node.output in trace.scalars.items
    return trace.scalars.given(TracedScalar(trace, number, node.output, measured=not given))


LISTED = 64
"""The most elements that `tolist()` hands to a traced function."""


def elements(trace: RecordingTrace, tensor: Tensor) -> Any:
    """The result of `tolist()` as traced numbers: what Python decides on one of them is guarded, as of `item()`."""
    if tensor._array.size > LISTED:
        raise EscapedTracerError(
            f"{at_line()}tolist() hands {tensor._array.size} elements to Python, and a traced function gets at most "
            f"{LISTED}; use tensor operations, or clone() and list them outside"
        )
    decide_sizes(trace, tensor)
    with context.no_grad():
        flat = F.reshape(tensor, [-1])
        found = iter([item(trace, F.select(flat, 0, index)) for index in range(tensor._array.size)])
    return _nested(tensor._array.shape, found)


def _nested(sizes: Sequence[int], numbers: Iterator[Any]) -> Any:
    return [_nested(sizes[1:], numbers) for _ in range(sizes[0])] if sizes else next(numbers)


def scalar_node(trace: RecordingTrace, kind: str, operands: Sequence[Any], number: Any) -> TracedScalar:
    """A recorded computation on numbers."""
    value = trace.tape.number(kind, [trace.operand(o) for o in operands], {}, ScalarType(type(number).__name__))
    measured = any(type(o) is TracedScalar and o._measured for o in operands)
    return TracedScalar(trace, number, value, measured=measured, counts=makes_counts(kind, operands))


def reads_elements(value: Value) -> bool:
    """Whether a number was computed from elements: not from sizes and promoted numbers alone."""
    stack = [value]
    while stack:
        node = stack.pop().node
        if node.kind == "prim::item":
            return True
        stack += () if node.kind in SIZES else node.inputs
    return False


def guard_sizes(trace: RecordingTrace, op: Op, tensors: Sequence[Tensor]) -> None:
    """Guard sizes that depend on elements: they may differ in the next call, and the recording goes on with these.

    Those of views follow from the numbers that were given, which are guarded themselves.
    """
    if trace.scalars.open_sizes:
        trace.scalars.left_open = True
        return
    for tensor in (tensor for tensor in tensors if tensor.defined):  # some results may be left out
        trace.tape.elemental.add(trace.value_of(tensor))
        for size in sizes_of(trace, tensor) if op.kind != "view" else ():
            trace.guards.count(size._ir(), size._number)


def is_elemental(trace: RecordingTrace, tensor: Tensor) -> bool:
    """Whether the sizes of a tensor may depend on elements: what they were decides on no other call."""
    binding = trace.memory.binding(tensor) if trace.tape.elemental and tensor._array is not None else None
    return binding is not None and binding.value in trace.tape.elemental


def decide_equal(
    trace: RecordingTrace, tensor: Tensor, numbers: Sequence[int], dims: Iterable[int] | None = None
) -> None:
    """Decide which sizes of a tensor are one of some numbers, if they may depend on elements."""
    if is_elemental(trace, tensor):
        sizes = sizes_of(trace, tensor)
        with trace.guards.ours():
            for dim in range(len(sizes)) if dims is None else dims:
                for number in numbers:
                    bool(sizes[dim] == number)


def decide_sizes(trace: RecordingTrace, tensor: Tensor, dims: Iterable[int] | None = None) -> None:
    """Decide on sizes of a tensor as they are, if they may depend on elements."""
    if is_elemental(trace, tensor):
        sizes = sizes_of(trace, tensor)
        with trace.guards.ours():
            for dim in range(len(sizes)) if dims is None else dims:
                sizes[dim]._decide()


def decide_for_view(trace: RecordingTrace, op: Op, values: Sequence[Any]) -> None:
    """Decide what follows from sizes that may depend on elements: how many views there are, and of how many dims."""
    if not is_elemental(trace, values[0]) or not values[0].ndim:
        return
    given = dict(zip((argument.name for argument in op.arguments), values, strict=True))
    dims = given.get("dim")
    if op in _SQUEEZE:
        decide_equal(trace, values[0], (1,), [dims] if isinstance(dims, int) else dims)
    elif op.schema.returns[0].type.is_list:
        decide_sizes(trace, values[0], [dims] if isinstance(dims, int) else None)


_SQUEEZE = (squeeze, squeeze_dim, squeeze_dims)


def decide_same(trace: RecordingTrace, tensor: Tensor, sizes: Sequence[Any]) -> None:
    """Decide which sizes of a tensor are these, if they may depend on elements."""
    if trace.tape.elemental and tensor._array.ndim == len(sizes):
        with trace.guards.ours():
            for own, other in zip(sizes_of(trace, tensor) or tensor._array.shape, sizes, strict=True):
                bool(own == other)


def has_measured_sizes(op: Op, values: Sequence[Any]) -> bool:
    """Whether the sizes of the results depend on elements of tensors."""
    measures = op.measures
    if measures and (measures is True or op.ask(measures, [*map(plain_number, values)])):
        return True
    counts = range(len(values)) if not op.tensors and op.kind != "composite" else op.integers  # arange(0, 1, step)
    return any([_is_measured(values[i]) for i in counts])


def _is_measured(value: Any) -> bool:
    return (
        any(map(_is_measured, value)) if isinstance(value, tuple) else type(value) is TracedScalar and value._measured
    )


def plain_number(value: Any) -> Any:
    """A value with plain numbers in place of traced ones, unguarded; for sizes, which the key of a trace fixes."""
    return tuple(map(plain_number, value)) if isinstance(value, tuple) else concrete(value)


def settled_for_view(trace: RecordingTrace, op: Op, values: Sequence[Any]) -> list[Any]:
    """The arguments of a view; elements among them are guarded as what sizes depend on, or decided upon.

    That is done where they say how many views there are, or where in the memory of something else one is.
    """
    free = op.offsets if trace.scalars.items_vary or trace.scalars.open_sizes else ()
    settle = settled if op.is_absolute or op.schema.returns[0].type.is_list else functools.partial(_counted, trace)
    pairs = zip(op.arguments[1:], values[1:], strict=True)
    return [values[0], *(value if argument.name in free else settle(value) for argument, value in pairs)]


def _counted(trace: RecordingTrace, value: Any) -> Any:
    """A value whose whole numbers, where they depend on elements, are guarded as counts; others are decided upon."""
    if isinstance(value, tuple):
        return tuple(_counted(trace, item) for item in value)
    if not _is_measured(value):
        return value
    if type(value._number) is not int:
        return value._decide()
    trace.guards.count(value._ir(), value._number)
    return value


def settled(value: Any) -> Any:
    """A value with plain numbers, each guarded, in place of traced ones that depend on elements."""
    if isinstance(value, tuple):
        return tuple(map(settled, value))
    return value._decide() if _is_measured(value) else value
