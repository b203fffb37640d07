"""Lets exchanges with other processes begin early, and whoever needs their results wait late."""

from __future__ import annotations

from typing import Final

from jit.ir import Graph, Node, TensorType

WHOLE: Final = "_c10d_functional::all_reduce"
BEGIN: Final = "_c10d_functional::begin_all_reduce"
WAIT: Final = "_c10d_functional::wait_tensor"


def overlap(graph: Graph) -> bool:
    """Split reductions whose results are not used at once; says whether there were any.

    What stands between the halves is computed while tensors travel. Halves that begin stay in their order, which has to
    be the same in all processes:

    Given                                                Result
        %1 : Float(9) = _c10d_functional::                   %1 : Float(9) = _c10d_functional::
            all_reduce[...](%row)                                begin_all_reduce[...](%row)
        %2 : Float(32, 256) = aten::mm(%x, %w)               %2 : Float(32, 256) = aten::mm(%x, %w)
        %3 : Float(9) = aten::mul(%1, %lr)                   %3 : Float(9) = _c10d_functional::wait_tensor(%1)
                                                             %4 : Float(9) = aten::mul(%3, %lr)
    """
    places = {node: place for place, node in enumerate(graph.nodes)}
    return any([_split(graph, node, places) for node in list(graph.nodes) if node.kind == WHOLE])


def _split(graph: Graph, node: Node, places: dict[Node, int]) -> bool:
    users = [use.node for use in node.output.uses]
    if not users or not _travels(node) or any(u not in places or u.stage != node.stage for u in users):
        return False
    first = min(users, key=lambda user: places[user])
    if places[first] <= places[node] + 1:
        return False
    kind = node.output.type
    with graph.inserting_before(node):
        begun = graph.add(BEGIN, node.operands, node.attributes, [kind])
    with graph.inserting_before(first):
        done = graph.add(WAIT, [begun.output], {}, [kind])
    node.replace_with([done.output])
    return True


def _travels(node: Node) -> bool:
    """Whether elements travel as they are, from and to memory of the CPU."""
    known = node.output.type
    return (
        isinstance(known, TensorType) and known.device == "cpu" and known.dtype is not None
        and known.dtype.itemsize >= 4 and known.dtype.is_floating_point
    )  # fmt: skip
