"""Runs recorded stages through autograd again, binding tensors to the Values that they had, so that a backward that is
not recorded yet can be recorded."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jit.autograd.nodes import AccumulateGrad, Edge, edge_of
from jit.eager import context, dispatch
from jit.eager.autocasting import autocasting
from jit.eager.generators import Generator
from jit.eager.proxies import TracedScalar, concrete
from jit.eager.tensors import Tensor, Variable, alias, tensor_of, variable_of
from jit.ir import Node, Op, Value, find
from jit.ir.control import is_control
from jit.ir.errors import TraceError
from jit.ir.graph import map_template
from jit.runtime.arrays.interpreter import Interpreter
from jit.runtime.arrays.libraries import is_array

from ..recorder.control_flow import run_node
from ..recorder.tracer import Trace
from ..surroundings.properties import type_of
from .counts import is_open
from .hosting import PythonHost
from .recalling import run_once
from .stage_recording import Live


def replay_stages(trace: Trace, inputs: Sequence[Sequence[Any]], requires_grad: Sequence[bool]) -> Live:
    """Replay stages 0..n of `trace` from the arrays that went in; effects are not repeated.

    Returns the outputs of the last stage with their history, and the edges to differentiate by.
    """
    environment: dict[Value, Any] = {}
    edges: list[Edge | None] = []
    flags = iter(requires_grad)
    token = context.SIZED.set(trace)
    watching = context.ANOMALY.set(None)  # what is on the stack here is not what called the operators
    try:
        _replay_all(trace, inputs, flags, environment, edges)
    finally:
        context.ANOMALY.reset(watching)
        context.SIZED.reset(token)
    stage = trace.graph.stages[len(inputs) - 1]
    returned = [*stage.outputs, *(value for _, value in stage.updates)]
    outputs = [environment.get(v) if isinstance(v, Value) else None for v in returned]
    trace.forget()
    counts = tuple(concrete(environment[guard.node.inputs[0]]) for guard in trace.guards.records if is_open(guard.node))
    return Live([o if isinstance(o, Tensor) else None for o in outputs], edges, trace, counts)


def _replay_all(
    trace: Trace, inputs: Sequence[Sequence[Any]], flags: Iterator[bool], environment: dict[Value, Any],
    edges: list[Edge | None],
) -> None:  # fmt: skip
    with context.tracing(None), context.enable_grad(), autocasting(None):
        for number, values in enumerate(inputs):
            for value, array in zip(trace.graph.stages[number].inputs, values, strict=True):
                leaf = _leaf(array, next(flags))
                edges.append(edge_of(leaf))
                _bind(trace, environment, value, leaf, value)
        _replay_nodes(trace, environment, len(inputs))


def _leaf(value: Any, requires_grad: bool) -> Any:
    if not is_array(value):
        return value
    leaf: Tensor = variable_of(value) if requires_grad else tensor_of(value)
    leaf._requires_grad = requires_grad
    return leaf


def _bind(trace: Trace, environment: dict[Value, Any], value: Value, result: Any, source: Value | None = None) -> None:
    if type(result) in (bool, int, float, complex):
        result = TracedScalar(trace, result, value, measured=_is_measured(environment, value.node))
    environment[value] = result
    if isinstance(result, Tensor) and result.defined:  # some results may be left out
        if value in trace.tape.elemental:  # types are those of another call
            value.type = type_of(result)
        trace.memory.bind_root(result, value, source)
        _hook(trace, value, result)


def _is_measured(environment: Mapping[Value, Any], node: Node) -> bool:
    """Whether the number that a node gives depends on elements; sizes, and what is computed from them, do not."""
    if not node.kind.startswith("prim::") or node.kind in ("prim::Param", "prim::item"):
        return True
    return any(type(n := environment.get(value)) is TracedScalar and n._measured for value in node.inputs)


def _hook(trace: Trace, value: Value, tensor: Tensor) -> None:
    for hook in trace.gradients.hooks.get(value, ()) if tensor.requires_grad else ():
        tensor.register_hook(hook)


def _replay_nodes(trace: Trace, environment: dict[Value, Any], stages: int) -> None:
    """Replay all nodes: composites with a derivative of their own as themselves, others as their parts."""
    whole = {c.node for c in trace.tape.composites if (op := find(c.node.kind)) is not None and op.is_differentiable}
    skipped = {part for c in trace.tape.composites if c.node in whole for part in c.parts}
    taken = {c.node: c.taken for c in trace.tape.composites if c.node not in whole}
    for node in trace.graph.nodes:
        if node.stage >= stages or node in skipped or is_open(node):
            continue
        if node in taken:
            for part, output in zip(taken[node], node.outputs, strict=True):
                environment[output] = environment[part]
                if isinstance(environment[part], Tensor):
                    trace.memory.bind_root(environment[part], output)
                    _hook(trace, output, environment[part])
            continue
        if node.kind == "prim::Guard":  # it has held; computed anew, by other code, the number may end otherwise
            _bind(trace, environment, node.inputs[0], node.attributes["expected"])
            continue
        with context.standing_at(node.source), context.set_grad_enabled(node not in trace.tape.untracked):
            results = _results(trace, environment, node)
        for value, result in zip(node.outputs, results, strict=True):
            _bind(trace, environment, value, _with_history(trace, environment, value, result))


def _with_history(trace: Trace, environment: dict[Value, Any], value: Value, result: Any) -> Any:
    """A tensor that was written over without recording derivatives, with the history that it had before."""
    if value not in trace.tape.histories or not isinstance(result, Tensor):
        return result
    edge = edge_of(environment[trace.tape.histories[value]])
    if edge is None:
        return result
    written = alias(result, Variable)
    if isinstance(edge.node, AccumulateGrad):
        written._requires_grad, written._accumulator = True, weakref.ref(edge.node)
    else:
        written.set_history(edge.node, edge.index)  # type: ignore[attr-defined]
    return written


def _results(trace: Trace, environment: dict[Value, Any], node: Node) -> list[Any]:
    def lookup(leaf: Any) -> Any:
        return environment[leaf] if isinstance(leaf, Value) else leaf

    op = find(node.kind)
    if op is not None:
        attributes = {k: node.resolve(v) for k, v in node.attributes.items() if k != "extra"}
        values = [map_template(lookup, v) for v in op.join(node.operands, attributes)]
        return _run(op, values)
    if node.kind.startswith("^"):
        return _run_python(trace, node, [environment[v] for v in node.inputs])
    if node.kind == "prim::Eval":
        *gradients, handle = map(lookup, node.operands)
        return list(handle.evaluated(gradients, node.attribute("wanted")))
    if is_control(node):
        return run_node(node, list(map(lookup, node.operands)))
    return _run_primitive(node, environment)


def _run(op: Op, values: list[Any]) -> list[Any]:
    if op.kind != "random":
        return dispatch.unpack(dispatch.run(op, values))
    at = next(i for i, a in enumerate(op.arguments) if a.type.base == "Generator")
    generator = Generator()
    generator.state = values[at]
    values[at] = generator
    return [*dispatch.unpack(dispatch.run(op, values)), generator.state]


def _run_python(trace: Trace, node: Node, tensors: list[Any]) -> list[Any]:
    from .hosting import arguments_of, region_of

    function = node.attributes.get("function")
    if function is None:
        raise TraceError(
            f"{node.kind} cannot be differentiated: its function is not part of the graph; give it to "
            "parse(functions=...)"
        )
    tracked = context.GRAD_ENABLED.get() and any(t.requires_grad for t in tensors)
    with autocasting(region_of(node)):
        result, history = run_once(function, arguments_of(node, tensors), tensors, tracked)
    outputs = dispatch.unpack(result)
    if len(outputs) < len(node.outputs):
        if history is not None:
            trace.functions.handles[history] = node.outputs[-1]
        outputs = [*outputs, history]
    return outputs


def _run_primitive(node: Node, environment: dict[Value, Any]) -> list[Any]:
    """Numbers, guards and constants, by the interpreter's own instructions."""
    values = [concrete(environment[v]) for v in node.inputs]
    arrays = [v._array if isinstance(v, Tensor) else v for v in values]
    if node.kind.startswith("cpp::"):
        return [tensor_of(r) for r in PythonHost().call(node, arrays)]
    return [tensor_of(r) if is_array(r) else r for r in Interpreter.run_node(node, arrays)]
