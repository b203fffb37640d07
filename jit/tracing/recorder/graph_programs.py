"""`GraphProgram`: a sub-graph as a function of tensors, whose operators run as if the user had called them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.eager import context, dispatch
from jit.eager.autocasting import autocasting
from jit.eager.generators import Generator
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import GENERATOR, Graph, Node, Op, Value, find
from jit.ir.control import LOOP, carried, is_control, scanned
from jit.ir.graph import map_template
from jit.ir.inference import SIZES
from jit.ir.scalars import scalar_function
from jit.runtime.arrays.libraries import is_array

from .control_history import Flow, Run


class GraphProgram:
    """A graph without stages as a function of tensors and numbers: derivatives and traces follow what it does."""

    def __init__(self, graph: Graph, run: Run) -> None:
        self.graph, self.run = graph, run

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        environment: dict[Value, Any] = dict(zip(self.graph.inputs, inputs, strict=True))
        with autocasting(None):
            for node in self.graph.nodes:
                if node.kind == "prim::Guard":  # what it says is so: it is about sizes, which a call has in its key
                    continue
                with context.standing_at(node.source):
                    results = self._results(node, environment)
                environment.update(zip(node.outputs, results, strict=True))
        return [environment[value] if isinstance(value, Value) else value for value in self.graph.outputs]

    def _results(self, node: Node, environment: dict[Value, Any]) -> Sequence[Any]:
        def lookup(leaf: Any) -> Any:
            return environment[leaf] if isinstance(leaf, Value) else leaf

        operands = [map_template(lookup, item) for item in node.operands]
        if is_control(node):
            return self.run(flow_of(node, self.run), operands)
        body = node.attributes.get("body")
        if isinstance(body, Graph) and any(value.type == GENERATOR for value in node.outputs):
            inputs = [environment[value] for value in node.inputs]
            return GraphProgram(body, self.run)(inputs)  # as itself it would draw other numbers
        op = find(node.kind)
        if op is None:
            return [_on_numbers(node, operands)]
        resolved = {k: node.resolve(v) for k, v in node.attributes.items() if k not in ("body", "extra")}
        return _run(op, [map_template(lookup, item) for item in op.join(node.operands, resolved)])


def flow_of(node: Node, run: Run) -> Flow:
    """The control flow of a node, whose own control flow inside is run by `run`."""
    programs = tuple(GraphProgram(graph, run) for graph in node.subgraphs)
    reverse, keeps = bool(node.attributes.get("reverse")), node.kind == LOOP and len(node.outputs) > carried(node)
    return Flow(node.kind, programs, carried(node), scanned(node), reverse, keeps)


def _on_numbers(node: Node, operands: Sequence[Any]) -> Any:
    """The number or constant that a node gives which is no operator."""
    if node.kind in SIZES:
        return operands[0].shape[node.attributes["dim"]]
    if node.kind == "prim::item":
        return operands[0].item()
    if node.kind == "prim::Constant":
        return _constant(node.attribute("value"))
    function = scalar_function(node.kind)
    assert function is not None, node.kind
    return function.python(*operands)


def _run(op: Op, values: list[Any]) -> list[Any]:
    if op.kind != "random":
        return dispatch.unpack(dispatch.call(op, values))
    at = next(i for i, a in enumerate(op.arguments) if a.type.base == "Generator")
    generator = Generator()
    generator.state = values[at]
    values[at] = generator
    return [*dispatch.unpack(dispatch.call(op, values)), generator.state]


def _constant(value: Any) -> Any:
    if not is_array(value):
        return value
    made: Tensor = tensor_of(value.copy())
    trace = context.TRACE.get()
    if trace is not None:
        trace.constant(made, "a constant of a branch or a step")
    return made
