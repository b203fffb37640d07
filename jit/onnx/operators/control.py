"""Control flow: conditions and loops of Python over tensors.

A condition or a number of trips that the host knows is settled where it stands. One that is data is looked at, unless a
trace records: then `cond`, `while_loop` and `scan` record all ways, if branches and steps give tensors alike. What they
refuse is looked at after all, which a trace guards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from jit.autograd.control_flow import cond, while_loop
from jit.autograd.control_flow import scan as scan_tensors
from jit.eager import context
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.export.opsets import DTYPES
from jit.ir.dtypes import bool_, int64
from jit.ir.errors import ModelError, TraceError, UsageError

from ..table import operator
from ..values import Known, as_list, as_number, as_tensor
from ..walk import Subgraph
from .sequences import stacked


@operator("If")
def if_(condition: Any, *, then_branch: Subgraph, else_branch: Subgraph) -> tuple[Any, ...]:
    if _records(condition) and _types(then_branch) == _types(else_branch) is not None:
        with suppress(TraceError, UsageError):
            return cond(F.reshape(condition, []), _tensors_of(then_branch), _tensors_of(else_branch))
    return tuple(then_branch() if as_number(condition) else else_branch())


def _records(*conditions: Any) -> bool:
    """Whether a trace records, and something depends on data."""
    return context.TRACE.get() is not None and any(isinstance(each, Tensor) for each in conditions)


def _types(branch: Subgraph) -> list[int] | None:
    """The element types of what a branch gives; None if it gives something else than tensors, or looks at elements."""
    found = [output.type.tensor_type.elem_type for output in branch.outputs]
    return found if all(each in DTYPES for each in found) and not branch.graph.on_data else None


def _tensors_of(branch: Subgraph) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: tuple(map(as_tensor, branch()))


# -- Loop ----------------------------------------------------------------------------------------------------------


@operator("Loop")
def loop(*operands: Any, body: Subgraph) -> tuple[Any, ...]:
    trips, condition, *carried = [*operands, None, None][: max(len(operands), 2)]
    if body.input_count != len(carried) + 2:
        raise ModelError(f"the body of Loop takes {body.input_count} inputs, and {len(carried) + 2} are given")
    if _records(trips, condition) and body.input_count == len(body.outputs) + 1 and not body.graph.on_data:
        with suppress(TraceError, UsageError):
            return _recorded(trips, condition, [as_tensor(value) for value in carried], body)
    goes_on = condition is None or bool(as_number(condition))
    collected: list[list[Any]] = [[] for _ in body.outputs[len(carried) + 1 :]]
    for trip in _trips(trips):
        if not goes_on:
            break
        found = body(Known(np.int64(trip)), Known(np.bool_(True)), *carried)
        goes_on, carried = bool(as_number(found[0])), found[1 : len(carried) + 1]
        for values, value in zip(collected, found[len(carried) + 1 :], strict=True):
            values.append(value)
    return (*carried, *(_collected(body, len(carried) + 1 + i, values) for i, values in enumerate(collected)))


def _recorded(trips: Any, condition: Any, carried: Sequence[Any], body: Subgraph) -> tuple[Any, ...]:
    """The loop as a node of a trace, which looks only at whether it went on for too long."""
    most = F.full((), MOST_TRIPS) if trips is None else F.clamp_max(F.reshape(as_tensor(trips), []), MOST_TRIPS)
    start = F.ones((), dtype=bool_) if condition is None else F.reshape(as_tensor(condition), [])

    def step(number: Any, goes_on: Any, *values: Any) -> tuple[Any, ...]:
        found = [as_tensor(value) for value in body(number, goes_on, *values)]
        return (F.add(number, 1), F.reshape(found[0], []), *found[1:])

    begin = (F.zeros((), dtype=int64), start, *carried)
    made, goes_on, *last = while_loop(lambda n, goes_on, *_: F.logical_and(goes_on, F.lt(n, most)), step, begin)
    stopped = F.logical_and(goes_on, F.ge(made, MOST_TRIPS))
    if trips is not None:
        stopped = F.logical_and(stopped, F.gt(as_tensor(trips), MOST_TRIPS))
    if bool(stopped):
        raise _too_many()
    return tuple(last)


def _trips(given: Any) -> Iterator[int]:
    """Numbers of trips; ModelError beyond `MOST_TRIPS`, since a model from a stranger might go on for ever."""
    yield from range(MOST_TRIPS if given is None else min(int(as_number(given)), MOST_TRIPS))
    if given is None or int(as_number(given)) > MOST_TRIPS:
        raise _too_many()


def _too_many() -> ModelError:
    return ModelError(f"a Loop of the model makes more than {MOST_TRIPS:,} trips")


MOST_TRIPS = 100_000
"""The trips that a loop may make."""


def _collected(body: Subgraph, index: int, values: Sequence[Any], axis: int = 0) -> Any:
    """An output of all trips along a new axis; where there were none, it is empty and as the body declares it."""
    if values:
        return stacked(values, axis)
    declared = body.outputs[index].type.tensor_type
    if declared.elem_type not in DTYPES or not declared.HasField("shape"):
        raise ModelError(f"no trip was made, and the body does not declare the shape of {body.outputs[index].name!r}")
    shape = [dim.dim_value for dim in declared.shape.dim]
    shape.insert(axis % (len(shape) + 1), 0)
    return F.zeros(shape, dtype=DTYPES[declared.elem_type])


# -- Scan ----------------------------------------------------------------------------------------------------------


@operator("Scan", since=9)
def scan(
    *operands: Any, body: Subgraph, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    states, inputs = list(operands[:-num_scan_inputs]), operands[-num_scan_inputs:]
    axes = scan_input_axes or [0] * len(inputs)
    backwards = scan_input_directions or [0] * len(inputs)
    outward = scan_output_axes or [0] * (len(body.outputs) - len(states))
    directions = scan_output_directions or [0] * len(outward)
    if _records(*inputs) and len(set(backwards)) == 1 and _types(body) is not None:
        with suppress(TraceError, UsageError):
            along = [F.movedim(as_tensor(x), axis, 0) for x, axis in zip(inputs, axes, strict=True)]
            return _scan_recorded(body, states, along, bool(backwards[0]), outward, directions)
    states, collected = _scanned(body, states, [_along(*i) for i in zip(inputs, axes, backwards, strict=True)])
    axes, backwards = outward, directions
    outputs = [
        _collected(body, len(states) + index, values[::-1] if back else values, axis)
        for index, (values, axis, back) in enumerate(zip(collected, axes, backwards, strict=True))
    ]
    return (*states, *outputs)


def _scan_recorded(
    body: Subgraph, states: Sequence[Any], along: Sequence[Any], reverse: bool, axes: Sequence[int],
    directions: Sequence[int],
) -> tuple[Any, ...]:  # fmt: skip
    """A scan as a node of a trace; results come in the order of its steps, or the other way round."""

    def step(carried: Any, rows: Any) -> Any:
        found = [as_tensor(value) for value in body(*carried, *rows)]
        return tuple(found[: len(states)]), tuple(found[len(states) :])

    last, rows = scan_tensors(step, tuple(map(as_tensor, states)), tuple(along), reverse=reverse)
    stacked = [F.flip(y, [0]) if bool(back) != reverse else y for y, back in zip(rows, directions, strict=True)]
    return (*last, *(F.movedim(y, 0, axis) for y, axis in zip(stacked, axes, strict=True)))


def _along(x: Any, axis: int, backwards: int) -> list[Any]:
    """The parts of a value along an axis."""
    if isinstance(x, Known):
        parts: list[Any] = [Known(part, x.dtype) for part in np.moveaxis(x.array, axis, 0)]
    else:
        parts = list(F.unbind(x, axis))
    return parts[::-1] if backwards else parts


def _scanned(body: Subgraph, states: list[Any], inputs: Sequence[list[Any]]) -> tuple[list[Any], list[list[Any]]]:
    """The last states, and the other outputs of all trips."""
    if len({len(parts) for parts in inputs}) > 1:
        raise ModelError("Scan runs along axes of the same size")
    collected: list[list[Any]] = [[] for _ in body.outputs[len(states) :]]
    for parts in zip(*inputs, strict=True):
        found = body(*states, *parts)
        states = found[: len(states)]
        for values, value in zip(collected, found[len(states) :], strict=True):
            values.append(value)
    return states, collected


@operator("Scan", since=8)
def scan_of_batches(*operands: Any, body: Subgraph, num_scan_inputs: int, directions: Any = None) -> tuple[Any, ...]:
    lengths, values = as_list(operands[0]), [as_tensor(value) for value in operands[1:]]
    directions = directions or [0] * num_scan_inputs
    found = []
    for batch in range(values[0].shape[0]):
        each = [value[batch] for value in values]
        states, inputs = each[:-num_scan_inputs], each[-num_scan_inputs:]
        steps = inputs[0].shape[0]
        length = steps if lengths is None else int(lengths[batch])
        parts = [_along(x[:length], 0, back) for x, back in zip(inputs, directions, strict=True)]
        states, collected = _scanned(body, states, parts)
        outputs = [_collected(body, len(states) + index, values) for index, values in enumerate(collected)]
        found.append([*states, *(_filled(output, steps) for output in outputs)])
    return tuple(stacked(outputs) for outputs in zip(*found, strict=True))


def _filled(x: Any, steps: Any) -> Any:
    """The tensor with zeros up to so many steps."""
    x = as_tensor(x)
    return x if x.shape[0] == steps else F.cat([x, F.zeros((steps - x.shape[0], *x.shape[1:]), dtype=x.dtype)])
