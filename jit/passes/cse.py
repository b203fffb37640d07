"""Computes equal expressions once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir import Graph, Node, Ref, Value
from jit.ir.graph import map_template
from jit.ir.printer import format_constant, has_text
from jit.ir.verifier import mutates

from .support.analysis import calls_out, communicates, escaping, has_subgraphs, with_subgraphs


def cse(graph: Graph, select: Callable[[Node], bool] | None = None) -> bool:
    """Let a node that repeats an earlier one be replaced by it.

    Args:
        graph: The graph.
        select: Which nodes; all of them unless given.

    Two nodes are equal if they have the same kind, inputs, constants, stage and types of outputs; arrays are compared
    by their contents, and 2, 2.0 and True differ. Never merged are:

    1. calls of foreign code (`^Name`, `cpp::name`, `prim::Eval`), guards, prints, and nodes that mutate or communicate;
    2. nodes with sub-graphs;
    3. two nodes whose values both leave their stage, because the caller may count on separate memory: see
       Note [Escaping values].

    Random operators need no exception: each one takes the state that the one before it left.

    Given                                            Result
        %1 = aten::exp(%x)                               %1 = aten::exp(%x)
        %2 = aten::exp(%x)                               %3 = aten::mul(%1, %1)
        %3 = aten::mul(%1, %2)
    """
    changes = [_merge_equal_nodes(inner, select or _any) for inner in with_subgraphs(graph)]
    return any(changes)


def _any(node: Node) -> bool:
    return True


def _merge_equal_nodes(graph: Graph, select: Callable[[Node], bool]) -> bool:
    changed = False
    lasting = escaping(graph)
    known: dict[Any, Node] = {}
    for node in graph.nodes:
        if not select(node) or not _may_merge(node):
            continue
        earlier = known.setdefault(_key(node), node)
        if earlier is node or (_escapes(node, lasting) and _escapes(earlier, lasting)):
            continue
        if _escapes(node, lasting):
            lasting.update(earlier.outputs)
        node.replace_with(earlier.outputs)
        changed = True
    return changed


def _may_merge(node: Node) -> bool:
    if not node.outputs or calls_out(node) or mutates(node) or communicates(node):
        return False
    if node.kind in ("prim::Guard", "prim::Print"):
        return False
    return not has_subgraphs(node)


def _escapes(node: Node, lasting: set[Value]) -> bool:
    return not lasting.isdisjoint(node.outputs)


def _key(node: Node) -> Any:
    constants = map_template(_frozen, (node.args, tuple(sorted(node.attributes.items()))))
    return node.kind, node.stage, tuple(node.inputs), constants, tuple(value.type for value in node.outputs)


def _frozen(leaf: Any) -> Any:
    """A hashable stand-in for a constant: its text, which tells types apart and NaN equal to itself."""
    if isinstance(leaf, Ref):
        return leaf
    return format_constant(leaf) if has_text(leaf) else (id(leaf),)
