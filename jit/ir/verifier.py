"""Checks that a graph is what every pass, engine and exporter takes for granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from .attempts import attempt_of
from .control import is_control, problems
from .errors import GraphError, SchemaError
from .geometry import Geometry
from .graph import Graph, Node, Ref, Use, Value, leaves
from .inference import inferred_types
from .op import Op, find
from .printer import format_node, reference
from .registry import names_operator
from .types import BOOL, GENERATOR, HANDLE, TENSOR, UNDEFINED, TensorType, Type

Problems: TypeAlias = Iterator[tuple[str, Node]]
"""The faults, each with its node."""


def verify(graph: Graph) -> None:
    """Check every invariant of the IR, in this order, for `graph` and then for each of its sub-graphs.

    1.  links: the list of nodes is linked both ways, counted right, and holds neither params nor returns.
    2.  stages: stage k begins with the `prim::Param` number k, without inputs, and ends with the `prim::Return`
        number k, without outputs; the nodes stand in the order of their stages.
    3.  names: every value has a name of its own, and knows the node and the place where it is defined.
    4.  templates: the Refs of a node name its inputs, each input exactly once; no Value stands in a template itself.
    5.  order: a node's inputs are defined before it, in the same graph, and in no later stage.
    6.  uses: a value lists as its uses exactly the places where it is an input of a node of the graph.
    7.  returns: a stage returns values, None and numbers, but no Handle.
    8.  updates: a stage updates inputs of its own or of stage 0, each once, with values of their kind.
    9.  operators: an `aten::` node is declared, its arguments bind to the schema and its outputs to the returns. A
        composite may have a `body`, whose inputs and outputs then rule, and `extra` values that the body needs.
    10. mutation: no node changes its arguments.
    11. handles: a Handle is the last output of a node, its only one, and is used only as the last operand of
        `prim::Eval` nodes; those of its own stage come from a backward inside of the traced function.
    12. guards: a `prim::Guard` has one operand, and no output that is a tensor; a `prim::raises` names an operator that
        takes its operands, and gives one bool.
    13. sub-graphs: a graph belongs to one node; a body or kernel has one stage, an input for every input of the node,
        and an output or update for every output of the node. Control flow has the sub-graphs of its kind, whose types
        agree with those of the node (Note [Control flow]).
    14. devices: the tensors of a `prim::FusionGroup` are on one device.
    15. types: the types of outputs agree with what the operator's type rule says, as far as both are known.

    Raises:
        GraphError: An invariant does not hold; the message names it, and shows the node among its neighbours.

    >>> from jit.ir import parse
    >>> verify(parse("graph(%x : Float(2)) { return (%x) }"))
    """
    graphs, seen = [graph], {id(graph)}
    for current in graphs:
        for number, check in enumerate(CHECKS, 1):
            for problem, node in check(current):
                _fail(number, check, problem, node)
        for node in current.nodes:
            for inner in node.subgraphs:
                if id(inner) in seen:
                    _fail(CHECKS.index(_sub_graphs) + 1, _sub_graphs, "its sub-graph belongs to another node too", node)
                seen.add(id(inner))
                graphs.append(inner)


def _fail(number: int, check: Callable[[Graph], Problems], problem: str, node: Node) -> None:
    name = check.__name__.strip("_").replace("_", "-")
    at = f" (asked for at {node.source})" if node.source else ""
    raise GraphError(f"the graph violates invariant {number} ({name}): {problem}{at}\n{neighbourhood(node)}")


def neighbourhood(node: Node, reach: int = 2) -> str:
    """The node's text between that of its neighbours, marked by `>`."""
    before: list[Node] = []
    after: list[Node] = []
    graph = node.graph
    step = graph._last if graph and node.kind == "prim::Return" else node._previous
    while step is not None and len(before) < reach:
        before.insert(0, step)
        step = step._previous
    step = node._next
    while step is not None and len(after) < reach:
        after.append(step)
        step = step._next
    lines = [f"    {format_node(n)}" for n in before]
    lines += [f"  > {format_node(node)}".replace("\n", "\n    ")]
    return "\n".join(lines + [f"    {format_node(n)}" for n in after])


# -- structure ---------------------------------------------------------------------------------------------------


def _links(graph: Graph) -> Problems:
    count, previous, node = 0, None, graph._first
    while node is not None:
        if node._previous is not previous:
            yield "the node does not link back to the one before it", node
        if node.graph is not graph:
            yield "the node stands in the graph, but believes that it stands in another", node
        if node.kind in ("prim::Param", "prim::Return"):
            yield f"{node.kind} stands among the nodes", node
        count, previous, node = count + 1, node, node._next
    if graph._last is not previous or len(graph) != count:
        yield f"the graph has {count} nodes, but counts {len(graph)} or ends elsewhere", graph.stages[-1].result


def _stages(graph: Graph) -> Problems:
    for index, stage in enumerate(graph.stages):
        for node, kind in ((stage.param, "prim::Param"), (stage.result, "prim::Return")):
            if node.kind != kind or node.stage != index or node.graph is not graph:
                yield f"stage {index} has {node.kind} of stage {node.stage} as its {kind}", node
        if stage.param.inputs or stage.result.outputs:
            yield f"stage {index} has a param with inputs or a return with outputs", stage.param
    current = 0
    for node in graph.nodes:
        if not current <= node.stage < len(graph.stages):
            yield f"a node of stage {node.stage} of {len(graph.stages)} follows a node of stage {current}", node
        current = node.stage


def _all_nodes(graph: Graph) -> Iterator[Node]:
    """Params, nodes and returns."""
    for stage in graph.stages:
        yield stage.param
    yield from graph.nodes
    for stage in graph.stages:
        yield stage.result


def _names(graph: Graph) -> Problems:
    seen: set[str] = set()
    for node in _all_nodes(graph):
        for offset, value in enumerate(node.outputs):
            if value.node is not node or value.offset != offset:
                yield f"{reference(value)} believes that it is defined elsewhere", node
            if value.name in seen or not value.name:
                yield f"the name {reference(value)} is empty or used twice", node
            seen.add(value.name)


def _templates(graph: Graph) -> Problems:
    for node in _all_nodes(graph):
        found = []
        for leaf in leaves((node.args, node.attributes)):
            if isinstance(leaf, Ref):
                found.append(leaf.index)
            elif isinstance(leaf, Value):
                yield f"the value {reference(leaf)} stands in a template instead of a Ref", node
        if sorted(found) != list(range(len(node.inputs))):
            yield f"its templates refer to the inputs {found}, but it has {len(node.inputs)} inputs", node


def _order(graph: Graph) -> Problems:
    defined = {value for stage in graph.stages for value in stage.inputs}
    for node in graph.nodes:
        yield from _defined_before(node, defined)
        defined.update(node.outputs)
    for stage in graph.stages:
        yield from _defined_before(stage.result, defined)


def _defined_before(node: Node, defined: set[Value]) -> Problems:
    for value in node.inputs:
        if value not in defined:
            where = "after it" if value.node.graph is node.graph else "in another graph"
            yield f"{reference(value)} is used, but defined {where}", node
        if value.stage > node.stage:
            yield f"{reference(value)} of stage {value.stage} is used in stage {node.stage}", node


def _uses(graph: Graph) -> Problems:
    expected: dict[Value, set[Use]] = {value: set() for value in graph.values}
    for node in _all_nodes(graph):
        for index, value in enumerate(node.inputs):
            expected[value].add(Use(node, index))
    for value, uses in expected.items():
        for use in uses.symmetric_difference(value.uses):
            missing = "does not list" if use in uses else "lists"
            yield f"{reference(value)} {missing} as a use: input {use.index} of {use.node.kind}", value.node


def _returns(graph: Graph) -> Problems:
    for stage in graph.stages:
        for item in leaves(stage.outputs):
            if isinstance(item, Value) and item.type == HANDLE:
                yield f"the Handle {reference(item)} is returned", stage.result
            elif not isinstance(item, (Value, bool, int, float, complex, str, type(None))):
                yield f"{item!r} is returned", stage.result


def _updates(graph: Graph) -> Problems:
    for stage in graph.stages:
        targets = set()
        for target, value in stage.updates:
            if target.node not in (stage.param, graph.stages[0].param):
                yield f"{reference(target)} is updated, but is no input of this stage or of stage 0", stage.result
            if target in targets:
                yield f"{reference(target)} is updated twice", stage.result
            if type(target.type) is not type(value.type):
                yield f"{reference(target)} is updated with a {value.type}", stage.result
            targets.add(target)


# -- operators ---------------------------------------------------------------------------------------------------


def _operators(graph: Graph) -> Problems:
    for node in graph.nodes:
        if not names_operator(node.kind):
            continue
        op = find(node.kind)
        if op is not None:
            yield from _binding(node, op)
        elif any(isinstance(value.type, TensorType) for value in node.outputs) or not node.outputs:
            yield f"no operator {node.kind} is declared", node


def _binding(node: Node, op: Op) -> Problems:
    own = {"body", "extra"} if op.kind == "composite" else set()
    unknown = set(node.attributes) - set(op.schema.argument_names) - own
    if unknown:
        yield f"{op.schema} has no argument {', '.join(sorted(unknown))}", node
    try:
        op.join(node.operands, node.attributes)
    except SchemaError as error:
        yield str(error), node
    if "body" in node.attributes:
        return
    most = len(op.tensors) + sum(argument.type.base == "Generator" for argument in op.arguments)
    if len(node.args) > most:
        yield f"{op.schema} takes at most {most} operands", node
    yield from _results(node, op)


def _results(node: Node, op: Op) -> Problems:
    wanted = len(op.schema.returns) + (op.kind == "random")
    if len(node.outputs) != wanted and not any(returned.type.is_list for returned in op.schema.returns):
        yield f"{op.schema} gives {wanted} results, but the node has {len(node.outputs)}", node
    elif op.kind == "random" and node.outputs[-1].type != GENERATOR:
        yield "the last output of a random operator is the generator's next state", node


def mutates(node: Node) -> bool:
    """True if the node changes one of its arguments: `aten::add_`, or a PythonOp marked `inplace`."""
    if not names_operator(node.kind):
        return bool(node.attributes.get("inplace", False))
    name = node.kind.partition("::")[2].split(".")[0]
    op = find(node.kind)
    return (name.endswith("_") and not name.endswith("__")) or bool(op and op.schema.mutated)


def _mutation(graph: Graph) -> Problems:
    for node in graph.nodes:
        if mutates(node):
            yield f"{node.kind} changes its argument; functionalize the graph first", node


def _handles(graph: Graph) -> Problems:
    for node in graph.nodes:
        handles = [value for value in node.outputs if value.type == HANDLE]
        if len(handles) > 1 or (handles and handles[0] is not node.outputs[-1]):
            yield "a node may have one Handle, and that comes last among its outputs", node
        for use in (use for value in handles for use in value.uses):
            last = use.node.kind == "prim::Eval" and use.node.args and use.node.args[-1] == Ref(use.index)
            if not last:
                yield "a Handle is used otherwise than as the last operand of a prim::Eval", use.node


def _guards(graph: Graph) -> Problems:
    for node in graph.nodes:
        if node.kind == "prim::raises":
            yield from _attempts(node)
        if node.kind != "prim::Guard":
            continue
        if len(node.args) != 1 or any(isinstance(value.type, TensorType) for value in node.outputs):
            yield "a guard looks at one operand and gives no tensor", node


def _attempts(node: Node) -> Problems:
    attempt = attempt_of(node)
    if attempt is None:
        yield "it names no operator and error", node
        return
    if len(node.outputs) != 1 or node.output.type != BOOL:
        yield "whether an operator raises is one bool", node
    if isinstance(attempt.what, Op):
        unknown = set(attempt.attributes) - set(attempt.what.schema.argument_names)
        if unknown:
            yield f"{attempt.what.schema} has no argument {', '.join(sorted(unknown))}", node
        try:
            attempt.what.join(attempt.operands, attempt.attributes)
        except SchemaError as error:
            yield str(error), node


# -- sub-graphs --------------------------------------------------------------------------------------------------


def _sub_graphs(graph: Graph) -> Problems:
    for node in graph.nodes:
        for inner in node.subgraphs:
            if len(inner.stages) != 1:
                yield f"its sub-graph has {len(inner.stages)} stages instead of one", node
            if len(inner.inputs) != len(node.inputs):
                yield f"its sub-graph has {len(inner.inputs)} inputs, but the node has {len(node.inputs)}", node
            given = len(inner.outputs) + len(inner.stages[0].updates)
            if given != len(node.outputs):
                yield f"its sub-graph gives {given} results, but the node has {len(node.outputs)}", node
        if is_control(node):
            yield from ((problem, node) for problem in problems(node))


def _devices(graph: Graph) -> Problems:
    for node in graph.nodes:
        if node.kind != "prim::FusionGroup":
            continue
        values = [*node.inputs, *node.outputs, *(value for inner in node.subgraphs for value in inner.values)]
        devices = {value.type.device for value in values if isinstance(value.type, TensorType) and value.type.ndim}
        if len(devices) > 1:
            yield f"a fusion group runs on one device, but its tensors are on {', '.join(sorted(devices))}", node


# -- types -------------------------------------------------------------------------------------------------------


def _types(graph: Graph) -> Problems:
    for node in graph.nodes:
        try:
            inferred = inferred_types(node)
        except Exception as error:  # a rule may stumble in any way over operands that it cannot foresee
            yield f"its operands do not fit: {error}", node
            continue
        op = find(node.kind)
        for value, type in zip(node.outputs, inferred or ()):
            if not _agree(value.type, type, op is not None and op.kind == "view"):
                yield f"{reference(value)} is declared {value.type}, but the operator gives {type}", node


def _agree(declared: Type, inferred: Type, with_strides: bool) -> bool:
    """True if the two can be types of one value. The strides are the operator's choice, except for a view."""
    if declared is UNDEFINED and inferred == TENSOR:  # of unknown sizes, a rule cannot say that there is nothing
        return True
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType):
        return declared == inferred
    if declared.dtype and inferred.dtype and declared.dtype is not inferred.dtype:
        return False
    if declared.shape is None or inferred.shape is None:
        return True
    if len(declared.shape) != len(inferred.shape) or declared.device != inferred.device:
        return False
    pairs = zip(declared.shape, inferred.shape, strict=True)
    if any(type(a) is int and type(b) is int and a != b for a, b in pairs):
        return False
    if declared.sizes is None or inferred.sizes is None:
        return True
    return not with_strides or _strides(declared) == _strides(inferred)


def _strides(type: TensorType) -> tuple[int, ...] | None:
    """The strides unless the elements are contiguous, which is said in several ways; dims of size 1 do not count."""
    if type.sizes is None or type.strides is None or Geometry(type.sizes, type.strides).is_contiguous:
        return None
    return tuple(0 if size == 1 else stride for size, stride in zip(type.sizes, type.strides, strict=True))


CHECKS: tuple[Callable[[Graph], Problems], ...] = (
    _links, _stages, _names, _templates, _order, _uses, _returns, _updates, _operators, _mutation, _handles, _guards,
    _sub_graphs, _devices, _types,
)  # fmt: skip
"""The invariants in the order of `verify`'s docstring."""
