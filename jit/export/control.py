"""Control flow as ONNX has it: `If`, `Loop` and `Scan`, whose sub-graphs see the values of the graph around them.

    %y = prim::If[then=@0, otherwise=@1](%p, %x, %w)      y = If(p) <then_branch = (...), else_branch = (...)>

What a sub-graph uses of the graph around stays there, and only what changes from step to step is an input. Sizes that
are written inside are not known outside, so what a builder remembers of sizes ends with a sub-graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jit.ir import dtypes
from jit.ir.control import IF, LOOP, SCAN, carried, scanned
from jit.ir.graph import Graph, Node, Value
from jit.ir.types import GeneratorType, ScalarType, TensorType

from . import peephole
from .builder import OnnxBuilder, OnnxCall
from .proxies import OnnxProxy, Scalar, Unsupported

if TYPE_CHECKING:
    import onnx_ir

    from .converter import Converter


def write_if(converter: Converter, node: Node) -> Any:
    """`If`, or the branch alone if the predicate is known."""
    condition = converter.values[node.inputs[0]]
    then, otherwise = node.subgraphs
    if isinstance(condition, bool):
        return converter.descend(node, then if condition else otherwise)
    _settle(converter, node)
    branches = [_subgraph(converter, node, graph, [], name) for graph, name in ((then, "then"), (otherwise, "else"))]
    attributes = [_graph_attribute(f"{graph.name}_branch", graph) for graph in branches]
    return _written(converter, "If", [converter.as_tensor(condition)], attributes, node.outputs)


def write_loop(converter: Converter, node: Node) -> Any:
    """`Loop` without a number of trips, while a condition holds."""
    _settle(converter, node)
    g, (step,) = converter.g, node.subgraphs
    given = [_single(g, converter.as_tensor(converter.values[node.inputs[0]]))]
    given += [converter.as_tensor(converter.values[value]) for value in node.inputs[1 : carried(node)]]
    body = _subgraph(converter, node, step, step.inputs[: carried(node)], "body", is_loop=True)
    found = _written(converter, "Loop", [None, *given], [_graph_attribute("body", body)], node.outputs[1:])
    return [None, *found]


def write_scan(converter: Converter, node: Node) -> Any:
    """`Scan` along the first dims."""
    _settle(converter, node)
    (step,), along = node.subgraphs, scanned(node)
    leading = carried(node) + along
    given = [converter.as_tensor(converter.values[value]) for value in node.inputs[:leading]]
    body = _subgraph(converter, node, step, step.inputs[:leading], "body")
    attributes = [_graph_attribute("body", body), _ints("num_scan_inputs", along)]
    if node.attributes.get("reverse"):
        rows = len(node.outputs) - carried(node)
        attributes += [_ints("scan_input_directions", [1] * along), _ints("scan_output_directions", [1] * rows)]
    return _written(converter, "Scan", given, attributes, node.outputs)


def every_node(nodes: Sequence[onnx_ir.Node]) -> Iterator[onnx_ir.Node]:
    """Nodes, and those inside of them, which come first."""
    for node in nodes:
        for graph in subgraphs_of(node):
            yield from every_node(list(graph))
        yield node


def subgraphs_of(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    """The sub-graphs of an ONNX node."""
    for attribute in node.attributes.values():
        if attribute.type.name == "GRAPH":
            yield attribute.as_graph()


# -- sub-graphs --------------------------------------------------------------------------------------------------------


def _settle(converter: Converter, node: Node) -> None:
    """Let numbers that sub-graphs use be written outside, where all of them see these.

    Raises:
        Unsupported: It gives what no sub-graph of ONNX can give.
    """
    if any(isinstance(value.type, GeneratorType) for value in node.outputs):
        raise Unsupported("it draws random numbers in a branch; draw them outside")
    for value in node.inputs:
        found = converter.values.get(value)
        if isinstance(found, Scalar):
            found.value  # noqa: B018


def _subgraph(
    converter: Converter, node: Node, body: Graph, own: Sequence[Value], name: str, is_loop: bool = False
) -> onnx_ir.Graph:
    """A sub-graph; `own` are the inputs that it has, since they differ from step to step."""
    import onnx_ir

    g = converter.g
    with _inside(g) as nodes:
        inputs = [_input(converter, formal) for formal in own]
        captured = list(zip(body.inputs, node.inputs, strict=True))[len(own) :]
        found = converter.written_inside(node, body, captured)
        results = [converter.as_tensor(item) for item in found]
        if is_loop:
            results[0] = _single(g, results[0])
            inputs.insert(0, g.new_value(dtypes.int64, ()))
        outputs: list[onnx_ir.Value] = []
        for result in results:
            outputs.append(_result(g, result, outputs, set(inputs)))
    return onnx_ir.Graph(inputs, outputs, nodes=peephole.simplify(nodes, outputs), name=name)


@contextmanager
def _inside(g: OnnxBuilder) -> Iterator[list[onnx_ir.Node]]:
    """A block in which nodes are written to a list of their own."""
    before, g.nodes = g.nodes, []
    memory = g.forget_sizes()
    try:
        yield g.nodes
    finally:
        g.nodes = before
        g.remember_sizes(memory)


def _input(converter: Converter, formal: Value) -> onnx_ir.Value:
    kind = formal.type
    if isinstance(kind, ScalarType):
        raise Unsupported("a number is carried from step to step; carry a tensor")
    if not isinstance(kind, TensorType) or kind.dtype is None or kind.dtype.is_complex:
        raise Unsupported("ONNX carries no complex numbers and no states of generators from step to step")
    value = converter.g.new_value(kind.dtype, kind.shape)
    converter.values[formal] = converter.g.stand_in(value, kind.dtype, kind.shape)
    return value


def _result(g: OnnxBuilder, result: OnnxProxy, taken: Sequence[Any], inputs: set[Any]) -> onnx_ir.Value:
    """A value that a node of this sub-graph makes, and no other output is."""
    if result.dtype is not None and result.dtype.is_complex:
        raise Unsupported("ONNX gives no complex numbers from branches and steps")
    made = {output for node in g.nodes for output in node.outputs}
    if result.value not in made or result.value in taken or result.value in inputs:
        copy = g.op("Identity", result)
        copy.dims = result.known_dims
        result = copy
    g.set_type(result.value, result.dtype, result.known_dims)
    value: onnx_ir.Value = result.value
    return value


def _single(g: OnnxBuilder, condition: OnnxProxy) -> OnnxProxy:
    """A condition without dims, as Loop wants it."""
    if condition.known_dims == ():
        return condition
    made: OnnxProxy = g.op("Reshape", condition, g.ints([]))
    made.dims = ()
    return made


# -- nodes -------------------------------------------------------------------------------------------------------------


def _written(
    converter: Converter, name: str, inputs: Sequence[Any], attributes: list[Any], outputs: Sequence[Value]
) -> list[OnnxProxy]:
    types = [value.type.dtype for value in outputs if isinstance(value.type, TensorType)]
    if len(types) < len(outputs):
        raise Unsupported("it gives a number; give a tensor")
    call = OnnxCall(name, list(inputs), {}, len(outputs))
    return list(converter.g.node(call, attributes, types))


def _graph_attribute(name: str, graph: onnx_ir.Graph) -> onnx_ir.Attr:
    import onnx_ir

    return onnx_ir.AttrGraph(name, graph)


def _ints(name: str, given: Any) -> onnx_ir.Attr:
    import onnx_ir

    return onnx_ir.AttrInt64s(name, given) if isinstance(given, list) else onnx_ir.AttrInt64(name, given)


CONTROL_WRITERS: dict[str, Callable[[Any, Node], Any]] = {IF: write_if, LOOP: write_loop, SCAN: write_scan}

__all__ = ["CONTROL_WRITERS", "every_node", "subgraphs_of"]
