"""Replaces composites by the nodes of their bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir import UNDEFINED, Graph, Node, Type, Value
from jit.ir.scalars import type_of_number

from .support.analysis import with_subgraphs


def inline_composites(graph: Graph, select: Callable[[Node], bool] | None = None) -> bool:
    """Let the parts of composites stand where the composites stood, inner composites included.

    The parts move, they are not copied: whoever holds on to one still has it, even a node outside the body.

    Args:
        graph: The graph.
        select: Which composites; all of them unless given. `lends_parts` picks those that have to go.

    Given                                                Result
        %1 : Float() = aten::mean[body=@0](%x)               %1 : Float() = aten::sum(%x)
        return (%1)                                          %2 : Float() = aten::div(%1, 2)
        where @0 = graph(%x : Float(2)) {                    return (%2)
          %0 : Float() = aten::sum(%x)
          %1 : Float() = aten::div(%0, 2)
          return (%1)
        }
    """
    work = [node for inner in with_subgraphs(graph) for node in inner.nodes]
    chosen = [node for node in work if _is_composite(node) and (select is None or select(node))]
    for node in chosen:  # outer ones first, so that every part moves once
        _dissolve(node)
    return bool(chosen)


def _is_composite(node: Node) -> bool:
    return "body" in node.attributes and node.kind != "prim::FusionGroup"


def lends_parts(node: Node) -> bool:
    """True if a value inside the composite's body is used outside of it, for instance by a derivative."""
    body = node.attributes["body"]
    mine = set(with_subgraphs(body))
    return any(use.node.graph not in mine for value in body.values for use in value.uses)


def _dissolve(node: Node) -> None:
    graph, body = node.graph, node.attributes["body"]
    assert graph is not None
    for formal, actual in zip(body.inputs, node.inputs, strict=True):
        formal.replace_all_uses_with(actual)
    results = [*body.outputs, *(value for _, value in body.stages[0].updates)]
    body.set_return([])
    with graph.inserting_before(node):
        for part in body.nodes:
            _move(part, node)
        node.replace_with([_as_value(graph, result) for result in results])


def _move(part: Node, node: Node) -> None:
    """Move a node to the insertion point of the composite's graph."""
    graph = node.graph
    assert graph is not None
    part.unlink()
    graph.insert(part, node.stage)
    part.source, part.scope = part.source or node.source, part.scope or node.scope
    for value in part.outputs:
        value.name = graph.unique_name(None if value.name.isdecimal() else value.name)


def _as_value(graph: Graph, result: Any) -> Value:
    if isinstance(result, Value):
        return result
    type: Type = type_of_number(result) or UNDEFINED
    return graph.add("prim::Constant", (), {"value": result}, [type]).output
