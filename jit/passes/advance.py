"""Moves sums of what a kernel computes up to that kernel, which then is their kernel, too."""

from __future__ import annotations

from jit.ir import Graph, Node, find

from .support.analysis import has_effects, with_subgraphs
from .support.spaces import form_of, is_view


def advance(graph: Graph) -> bool:
    """Move each reduction of a pointwise result to the place right behind that; says whether there was any to move.

    A group of nodes stands where its last one does, and whoever reads what it leaves must come later. Whether the
    gradient of a bias comes before or after the products of a backward depends on how a layer was spelled; early, it is
    part of the kernel that computes what it adds up. It is smaller than that, so memory takes no harm:

    Given                                                Result
        %1 : Float(32, 256) = aten::cos(%x)                  %1 : Float(32, 256) = aten::cos(%x)
        %2 : Float(32, 384) = aten::mm(%1, %w)               %3 : Float(256) = aten::sum[dim=[0]](%1)
        %3 : Float(256) = aten::sum[dim=[0]](%1)             %2 : Float(32, 384) = aten::mm(%1, %w)
    """
    changes = [_advance(inner) for inner in with_subgraphs(graph)]
    return any(changes)


def _advance(graph: Graph) -> bool:
    nodes = list(graph.nodes)
    places = {node: place for place, node in enumerate(nodes)}
    settled: set[Node] = set()
    starts: dict[Node, int] = {}
    barrier, changed = -1, False
    for node in nodes:
        if has_effects(node):  # nothing moves in front of a guard, which may protect it
            barrier = places[node]
            continue
        parts = _with_views(node) if _is_reduction(node) else []
        source = parts[0].inputs[0].node if parts else node
        if not parts or not _is_pointwise(source) or source.stage != node.stage or places[source] < barrier:
            continue
        parts = [part for part in parts if part not in settled]  # a view that an earlier reduction reads, too, stays
        settled.update(parts)
        start = starts.get(source, places[source] + 1)
        while nodes[start] in settled and start < places[node]:
            start += 1
        starts[source] = start
        if start < places[node]:
            changed = True
            for part in parts:
                part.move_before(nodes[start])
    return changed


def _is_pointwise(node: Node) -> bool:
    op = find(node.kind)
    return op is not None and op.kind == "pointwise" and len(node.outputs) == 1


def _is_reduction(node: Node) -> bool:
    return len(node.inputs) == 1 and find(node.kind) is not None and form_of(node) == "reduction"


def _with_views(node: Node) -> list[Node]:
    """A reduction behind the views of what it reduces."""
    parts = [node]
    while is_view(parts[-1].inputs[0].node) and parts[-1].inputs[0].node.stage == node.stage:
        parts.append(parts[-1].inputs[0].node)
    return parts[::-1]
