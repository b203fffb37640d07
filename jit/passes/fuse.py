"""Gathers pointwise nodes into FusionGroups: nodes whose body is one loop over their common extents.

Given

    %1, %2 = aten::chunk[chunks=2, dim=1](%gates)
    %3 = aten::sigmoid(%1)
    %4 = aten::tanh(%2)
    %5 = aten::mul(%3, %4)
    return (%5)

Result

    %5 = prim::FusionGroup[body=@0](%gates)
    where @0 holds all four nodes: a view of an input is an access map in the loop, and costs nothing.

Note [What joins a group]
    A group stands where its last node stood, so whatever joins it moves down. A node may join if
    1. it is pointwise, its type is fully known, and the code generator has a kernel for it (`supported`);
    2. its shape broadcasts to the extents of the group's last node, in the same stage and on the same device;
    3. every use of it is inside the group or after it; a use after it makes it an output of the group,
       and outputs must have the group's full extents.
    Views join where they read an input of the group. Nodes are visited from last to first, each once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.dtypes import COMPLEX
from jit.ir.errors import ShapeError
from jit.ir.geometry import broadcast_shapes

Supported = Callable[[Node], bool]


@dataclass
class _Group:
    last: Node
    extents: tuple[int, ...]
    members: dict[Node, None] = field(default_factory=dict)


def fuse(graph: Graph, supported: Supported = lambda node: True, minimum: int = 2) -> bool:
    """Form FusionGroups of at least `minimum` pointwise nodes; says whether there were any."""
    order = {node: index for index, node in enumerate(graph.nodes)}
    taken: set[Node] = set()
    groups = []
    for node in graph.reversed_nodes:
        if node not in taken and _is_fusable(node, supported):
            group = _grow(node, order, taken, supported)
            if len(group.members) >= minimum:
                taken.update(group.members)
                groups.append(group)
    for group in groups:
        _replace(graph, group, order)
    return bool(groups)


def _is_fusable(node: Node, supported: Supported) -> bool:
    op = find(node.kind)
    if op is None or op.kind != "pointwise" or len(node.outputs) != 1:
        return False
    types = [v.type for v in (*node.inputs, *node.outputs)]
    return all(_is_known(t) for t in types) and supported(node)


def _is_known(type: object) -> bool:
    return (
        isinstance(type, TensorType)
        and type.sizes is not None
        and type.dtype is not None
        and type.dtype.category < COMPLEX
    )


def _extents(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType) and value.type.sizes is not None
    return value.type.sizes


def _grow(last: Node, order: dict[Node, int], taken: set[Node], supported: Supported) -> _Group:
    """Pull producers in for as long as one may join."""
    group = _Group(last, _extents(last.output), {last: None})
    work = [value.node for value in last.inputs]
    while work:
        node = work.pop()
        if node in group.members or node in taken or not _may_join(node, group, order, supported):
            continue
        group.members[node] = None
        work.extend(value.node for value in node.inputs)
    _expel(group, order)
    return group


def _may_join(node: Node, group: _Group, order: dict[Node, int], supported: Supported) -> bool:
    if node.stage != group.last.stage or not _is_fusable(node, supported):
        return False
    shape = _extents(node.output)
    return _broadcasts(shape, group.extents) and (
        _is_private(node, group) or (shape == group.extents and _is_late(node, group, order))
    )


def _broadcasts(shape: tuple[int, ...], extents: tuple[int, ...]) -> bool:
    try:
        return broadcast_shapes(shape, extents) == extents
    except ShapeError:
        return False


def _is_private(node: Node, group: _Group) -> bool:
    return all(use.node in group.members for use in node.output.uses)


def _is_late(node: Node, group: _Group, order: dict[Node, int]) -> bool:
    """True if every use outside comes after the group's place; returns have no place and come last."""
    place = order[group.last]
    return all(use.node in group.members or order.get(use.node, place + 1) > place for use in node.output.uses)


def _expel(group: _Group, order: dict[Node, int]) -> None:
    """Members were accepted one by one; drop those that a later refusal has left without a right to stay."""
    for node in sorted(group.members, key=order.__getitem__, reverse=True):
        private = _is_private(node, group)
        if (
            node is not group.last
            and not private
            and not (_extents(node.output) == group.extents and _is_late(node, group, order))
        ):
            del group.members[node]


def _replace(graph: Graph, group: _Group, order: dict[Node, int]) -> None:
    """Move the members into a body, and put a FusionGroup in the place of the last one."""
    members = sorted(group.members, key=order.__getitem__)
    outputs = [node.output for node in members if any(use.node not in group.members for use in node.output.uses)]
    body, sources = _body(members, outputs)
    with graph.inserting_before(group.last):
        fused = graph.insert(graph.create("prim::FusionGroup", sources, {"body": body}))
    fused.source, fused.scope = group.last.source, group.last.scope
    for value in outputs:
        value.replace_all_uses_with(fused.add_output(value.type))
    for node in reversed(members):
        node.erase()


def _body(members: list[Node], outputs: list[Value]) -> tuple[Graph, list[Value]]:
    body = Graph()
    mapping: dict[Value, Value] = {}
    sources: list[Value] = []
    inside = set(members)
    for node in members:
        for value in node.inputs:
            if value.node not in inside and value not in mapping:
                _bring_in(body, value, mapping, sources)
        copy = body.copy_node(node, mapping)
        copy.stage = 0
    body.set_return([mapping[value] for value in outputs])
    return body, sources


def _bring_in(body: Graph, value: Value, mapping: dict[Value, Value], sources: list[Value]) -> None:
    """Make an outside value known in the body: through the views that lead to it, or as an input."""
    chain = [value]
    while _is_view(chain[-1].node) and chain[-1].node.inputs[0] not in mapping:
        chain.append(chain[-1].node.inputs[0])
    base = chain[-1]
    if _is_view(base.node):  # the chain ended at a value that is known already
        chain.append(base.node.inputs[0])
    elif base not in mapping:
        sources.append(base)
        mapping[base] = body.add_input(base.type)
    for viewed in reversed(chain[:-1] if chain[-1] in mapping else chain):
        if viewed not in mapping:
            body.copy_node(viewed.node, mapping).stage = 0


def _is_view(node: Node) -> bool:
    op = find(node.kind)
    if op is None or op.kind != "view" or op.result is not None:  # a view in another dtype is a cast of memory
        return False
    return len(node.inputs) == 1 and all(_is_known(v.type) for v in node.outputs)
