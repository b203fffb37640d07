"""Aliasing of a graph's values: what a run must copy before it hands it out, and what outlives its stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from jit.ir import Graph, Node, TensorType, Value, find


@dataclass(slots=True)
class Aliasing:
    """Facts about shared memory for a plan."""

    needed: set[tuple[int, int]] = field(default_factory=set)
    """(stage, number) of the inputs whose memory a later stage reads."""
    exposed: set[tuple[int, int]] = field(default_factory=set)
    """(stage, number) of the outputs whose memory a later stage reads."""
    copied: set[tuple[int, int]] = field(default_factory=set)
    """(stage, number) of the outputs, then the updates, that must be copied, since their memory is not theirs alone. An
    update is written elsewhere in any case; it is only not read from memory that another one may write before."""


def analyse(graph: Graph) -> Aliasing:
    """The aliasing of all stages of `graph`."""
    roots = _roots(graph)
    found = Aliasing()
    surviving = _surviving(graph, roots)
    for number, stage in enumerate(graph.stages):
        found.needed |= {(number, i) for i, value in enumerate(stage.inputs) if value in surviving}
        taken: set[Value] = set()
        returned = [*stage.outputs, *(value for _, value in stage.updates)]
        for index, value in enumerate(returned):
            if not isinstance(value, Value) or not isinstance(value.type, TensorType):
                continue
            root, is_output = roots[value], index < len(stage.outputs)
            if root.is_input or root.stage < number or (root in taken and is_output):
                found.copied.add((number, index))
            elif root in surviving and root not in taken:
                found.exposed.add((number, index))
            taken.add(root)
    return found


def _roots(graph: Graph) -> dict[Value, Value]:
    """The value in whose memory each value lies: itself, unless it is a view."""
    roots: dict[Value, Value] = {value: value for stage in graph.stages for value in stage.inputs}
    for node in graph.nodes:
        body = node.attributes.get("body")
        if isinstance(body, Graph):
            _through_body(node, body, roots)
        else:
            op = find(node.kind)
            is_view = op is not None and op.kind == "view"
            roots |= {value: roots[node.inputs[0]] if is_view else value for value in node.outputs}
    return roots


def _through_body(node: Node, body: Graph, roots: dict[Value, Value]) -> None:
    inner = _roots(body)
    outer = {formal: roots[actual] for formal, actual in zip(body.inputs, node.inputs, strict=True)}
    for value, result in zip(node.outputs, body.outputs, strict=False):
        root = inner[result] if isinstance(result, Value) else value
        roots[value] = outer.setdefault(root, value)
    for value in node.outputs[len(body.outputs) :]:
        roots[value] = value


def _surviving(graph: Graph, roots: dict[Value, Value]) -> set[Value]:
    """Roots whose memory is read in a later stage than the one that made it."""
    users = [*graph.nodes, *(stage.result for stage in graph.stages)]
    return {roots[value] for node in users for value in node.inputs if roots[value].stage < node.stage}
