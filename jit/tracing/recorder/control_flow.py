"""Control flow in a trace: records the functions of `jit.cond` and its like as sub-graphs of one node, and runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jit.eager import context
from jit.eager.generators import Generator
from jit.eager.namespace import F
from jit.eager.proxies import concrete
from jit.eager.tensors import Tensor, requires_grad, tensor_of, variable_of
from jit.eager.watch import pause, resume, resumed
from jit.ir import Graph, Node, TensorType, Type, Value
from jit.ir.control import IF, LOOP, SCAN, SUBGRAPHS, stacked
from jit.ir.errors import TraceError, UsageError
from jit.passes.support.symbolic_sizes import forget_sizes
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.libraries import is_array

from .control_history import Flow, Program, remembered
from .graph_programs import flow_of
from .recording_trace import RecordingTrace
from .refusals import at_line
from .regions import FlowRegion, row_major_type


def run_node(node: Node, operands: Sequence[Any]) -> list[Any]:
    """Run a node of control flow on tensors."""
    return run_flow(flow_of(node, run_flow), operands)


def run_flow(flow: Flow, inputs: Sequence[Any]) -> list[Any]:
    """Run control flow on tensors, record it if a trace records, and remember how to differentiate it."""
    trace = context.TRACE.get()
    if trace is not None:
        return record_flow(trace, flow, inputs)  # type: ignore[arg-type]  # there is one class of recorders
    with context.no_grad():
        outputs = _computed(flow, inputs)
    plain = [tensor_of(o._array) if isinstance(o, Tensor) else o for o in outputs]
    return remembered(flow, inputs, plain, run_flow)


# -- running -----------------------------------------------------------------------------------------------------------


def _computed(flow: Flow, inputs: Sequence[Any]) -> list[Any]:
    if flow.kind == IF:
        then, otherwise = flow.programs
        return list((then if concrete(inputs[0]) else otherwise)(inputs))
    (step,) = flow.programs
    first, last = flow.carried, flow.carried + flow.scanned
    state, xs, rest = inputs[:first], list(map(F.contiguous, inputs[first:last])), inputs[last:]
    state = list(map(F.contiguous, state))
    found: list[list[Any]] = []

    def make_step(row: Sequence[Any]) -> None:
        given = list(step([*state, *row, *rest]))
        state[:] = given[: flow.carried]
        found.append(given[flow.carried :])

    if flow.kind == LOOP:
        while bool(state[0]):
            make_step(())
    else:
        order = range(xs[0].shape[0])
        for at in reversed(order) if flow.reverse else order:
            make_step([x[at] for x in xs])
    if not found:
        return [*state, *(F.zeros((0, *y.shape), dtype=y.dtype) for y in _like_rows(flow, state, xs, rest))]
    columns = map(list, zip(*found, strict=True))
    return [*state, *(F.stack(rows[::-1] if flow.reverse else rows) for rows in columns)]


def _like_rows(flow: Flow, state: list[Any], xs: Sequence[Any], rest: Sequence[Any]) -> Sequence[Any]:
    """Tensors like the rows of a step that is not made."""
    if flow.kind == LOOP:
        return state if flow.keeps else ()
    zeros = [F.zeros(x.shape[1:], dtype=x.dtype) for x in xs]
    return flow.programs[0]([*state, *zeros, *rest])[flow.carried :]


# -- recording ---------------------------------------------------------------------------------------------------------


def record_flow(trace: RecordingTrace, flow: Flow, inputs: Sequence[Any]) -> list[Any]:
    """Record control flow as one node, and compute what it gives."""
    hook = pause()

    def watched(program: Program) -> Program:
        def run(values: Sequence[Any]) -> Sequence[Any]:
            with resumed(hook):
                return program(values)

        return run

    try:
        return _record(trace, replace(flow, programs=tuple(map(watched, flow.programs))), list(inputs))
    finally:
        resume(hook)


def _record(trace: RecordingTrace, flow: Flow, inputs: list[Any]) -> list[Any]:
    leading: list[Value] = [trace.operand(item) for item in inputs[: flow.leading]]
    regions = [_recorded(trace, flow, number, inputs) for number in range(len(flow.programs))]
    free = list(dict.fromkeys(value for region in regions for value in region.free))
    drawn = {generator: before for region in regions for generator, (before, _) in region.drawn.items()}
    if drawn and flow.kind != IF:
        raise TraceError(f"{at_line()}a step of {flow.title} draws random numbers; draw them for all steps before it")
    graphs = [_graph(region, leading, free, drawn) for region in regions]
    for region in reversed(regions):
        region.leave()
    _check_types(flow, graphs, leading)
    node = _node(trace, flow, graphs, leading, free)
    if trace.scalars.open_sizes or trace.tape.elemental:  # what is inside must not rely on these
        for graph in graphs:
            forget_sizes(graph)
    given = [*inputs[: flow.leading], *(_thing(regions, value) for value in free)]
    found = Interpreter.run_node(node, [o._array if isinstance(o, Tensor) else concrete(o) for o in given])
    plain = [tensor_of(output) if is_array(output) else output for output in found]
    outputs = remembered(flow_of(node, run_flow), given, plain, run_flow)
    _bind(trace, node, outputs, list(drawn))
    return outputs[: len(outputs) - len(drawn)]


def _recorded(trace: RecordingTrace, flow: Flow, number: int, inputs: list[Any]) -> FlowRegion:
    """One of the functions, recorded with the first carries and rows."""
    program, count = flow.programs[number], flow.carried + flow.scanned
    with context.no_grad(), context.tracing(None):
        rows = [_row(x, flow.reverse) for x in inputs[flow.carried : count]]
    region = FlowRegion(trace, flow.title, [*inputs[: flow.carried], *rows])
    try:
        region.record(lambda formals: program([*formals, *inputs[count:]]))
    except (TraceError, UsageError):
        raise
    except Exception as error:
        if flow.kind == IF and bool(concrete(inputs[0].item())) != (number == 0):
            raise TraceError(
                f"{at_line()}a trace records both branches of cond, and the one that is not taken here raises "
                f"{type(error).__name__}: {error}; let both run with the same operands"
            ) from error
        raise
    return region


def _row(x: Tensor, backwards: bool) -> Tensor:
    """The row with which a step begins; zeros where there is none."""
    if not len(x._array):
        return F.zeros(x._array.shape[1:], dtype=x.dtype)
    row: Tensor = variable_of(x._array[-1 if backwards else 0, ...])
    row._requires_grad = requires_grad(x)
    return row


def _graph(region: FlowRegion, leading: list[Value], free: list[Value], drawn: dict[Generator, Value]) -> Graph:
    states = [region.drawn[g][1] if g in region.drawn else before for g, before in drawn.items()]
    return region.graph(leading, free, [*region.results, *states])


def _node(
    trace: RecordingTrace, flow: Flow, graphs: Sequence[Graph], leading: list[Value], free: list[Value]
) -> Node:  # fmt: skip
    attributes: dict[str, Any] = dict(zip(SUBGRAPHS[flow.kind], graphs, strict=True))
    types: list[Type] = [value.type for value in graphs[0].outputs]
    length = None
    if flow.kind == SCAN:
        attributes |= {"carried": flow.carried, "scanned": flow.scanned, "reverse": flow.reverse}
        rows = leading[flow.carried].type
        length = rows.shape[0] if isinstance(rows, TensorType) and rows.shape else None
    elif len(types) > flow.carried and flow.kind == LOOP:
        attributes["carried"] = flow.carried
    if flow.kind != IF:
        types[flow.carried :] = [stacked(type, length) for type in types[flow.carried :]]
    node = trace.tape.add(flow.kind, [*leading, *free], attributes, types)
    _note_sizes(trace, flow, node)
    return node


def _note_sizes(trace: RecordingTrace, flow: Flow, node: Node) -> None:
    """Note of which outputs the sizes depend on elements: rows of loops, but nothing that is carried as it came."""
    elemental = trace.tape.elemental
    if flow.kind == LOOP:
        elemental.update(node.outputs[flow.carried :])
    elemental.difference_update(o for o, i in zip(node.outputs[: flow.carried], node.inputs) if i not in elemental)


def _thing(regions: Sequence[FlowRegion], value: Value) -> Any:
    """The tensor, number or state behind a value that a region uses."""
    for region in regions:
        if value in region.things:
            return region.things[value]
    raise TraceError(
        f"{at_line()}a function of {regions[0].title} uses %{value.name} in a way that a trace does not follow; "
        "pass it as an operand"
    )


def _bind(trace: RecordingTrace, node: Node, outputs: Sequence[Any], drawn: Sequence[Generator]) -> None:
    count = len(outputs) - len(drawn)
    for value, output in zip(node.outputs[:count], outputs[:count], strict=True):
        trace.memory.bind_root(output, value)
    for generator, value, state in zip(drawn, node.outputs[count:], outputs[count:], strict=True):
        trace.randomness.advance(generator, value)
        generator.state = state


# -- what does not fit -------------------------------------------------------------------------------------------------


def _check_types(flow: Flow, graphs: Sequence[Graph], leading: Sequence[Value]) -> None:
    found = [value.type for value in graphs[0].outputs]
    if flow.kind == IF:
        for number, (a, b) in enumerate(zip(found, (value.type for value in graphs[1].outputs), strict=True)):
            if not _are_alike(a, b):
                raise TraceError(
                    f"{at_line()}the branches of cond return other tensors: result {number} of true_fn is "
                    f"{_words(a)}, and of false_fn {_words(b)}; let both return the same dtypes and sizes"
                )
        return
    for value, type in zip(leading[: flow.carried], found):
        if not _are_alike(row_major_type(value), type):
            raise TraceError(
                f"{at_line()}a step of {flow.title} changes what it carries: {_words(value.type)}, then {_words(type)}"
            )


def _words(type: Type) -> str:
    if not isinstance(type, TensorType) or type.dtype is None:
        return str(type)
    return f"{type.dtype.name}{list(type.shape or ())}"


def _are_alike(a: Type, b: Type) -> bool:
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
    return a == b
