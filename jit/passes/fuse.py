"""Gathers nodes into FusionGroups: what one pass over an iteration space can compute, reductions along rows included.

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
    A group stands where its last node stood, so whatever joins it moves down. Nodes are asked from the last to the
    first, so that all consumers of a node have been decided upon before it. A node may join if
    1. its types are known, in the same stage, and the code generator has a kernel for it (`supported`);
    2. it fits the group's space, see Note [Axes from the end] in `spaces`: it is pointwise, a reduction of the group's
       rows, a norm, softmax or running sum along them, rows of an embedding, or a view between such;
    3. every use of it is inside the group or after it; a use after it makes it an output of the group, and outputs
       must run along all axes, or along all that are not reduced. Pointwise nodes that use it too early move into the
       group, too, if they can wait: see Note [Siblings].
    Views of the group's inputs come along. A `cat` of equal parts may be the last node: each part is written in place.
    Joins and cuts of what the group computes are out of the way already, see `distribute`.
    `declined` says which were not, and why.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from jit.ir import UNDEFINED, Graph, Node, Value, kernel_of

from .cse import cse
from .distribute import obstacles
from .support.fusable import Supported, is_fusable, is_known_view, is_special, obstacle
from .support.spaces import IterationSpace, SpaceDeclined, argument, is_gather, is_join, is_made_up, is_view

Reasons = dict[tuple[Node, Node], str]

EARLY = "its result is needed before the group has run"

LARGEST = 1000
"""The largest number of nodes in a group: the time that LLVM takes grows faster than its functions do."""


@dataclass
class _Group:
    last: Node
    space: IterationSpace
    members: dict[Node, None] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Roughly the passes over memory that the group saves: one for a node, two for a reduction, none for a view."""
        return sum(0 if is_view(node) else 2 if is_special(node) else 1 for node in self.members)


def fuse(graph: Graph, supported: Supported = lambda node: True, minimum: int = 2) -> bool:
    """Form FusionGroups of at least `minimum` nodes, or of one reduction; says whether it changed anything."""
    _separate_gradients(graph)
    order = {node: index for index, node in enumerate(graph.nodes)}
    found = _groups(graph, order, supported, minimum, {})
    for group in found:
        _replace(graph, group, order)
    merged = cse(graph, lambda node: node.graph is graph and is_made_up(node))  # no kernel has taken these in
    return merged or bool(found)


def declined(graph: Graph, supported: Supported = lambda node: True) -> dict[tuple[Node, Node], str]:
    """Why pairs of nodes are not one kernel, in words: every producer and consumer that `fuse` leaves apart is there.

    Args:
        graph: As it was before `fuse`; it stays as it is.
        supported: As for `fuse`.

    Returns:
        A reason by (producer, the last node of the group that would have taken it in), by (producer, consumer) where
        the consumer is in no group, and by (node, node) for a node that cannot end a group.

    >>> from jit.ir import parse
    >>> body = "%0 : Float(4, 4) = aten::tanh(%x) %1 : Float(4, 4) = aten::mm(%0, %0)"
    >>> graph = parse(f"graph(%x : Float(4, 4)) {{ {body} return (%1) }}")
    >>> [f"{a.kind} before {b.kind}: {reason}" for (a, b), reason in declined(graph).items()]
    ['aten::tanh before aten::mm: aten::mm is a step of its own; a pointwise kernel may follow it tile by tile']
    """
    reasons: Reasons = {}
    order = {node: index for index, node in enumerate(graph.nodes)}
    homes = {node: group for group in _groups(graph, order, supported, 2, reasons) for node in group.members}
    for node in graph.nodes:
        for value in node.inputs:
            if value.node in order and value.node.kind != "prim::Constant":
                _explain(value.node, node, homes, supported, reasons)
    for (node, reader), reason in obstacles(graph, supported).items():
        reasons[node, homes[reader].last if reader in homes else reader] = reason
    return reasons


def _explain(producer: Node, consumer: Node, homes: dict[Node, _Group], supported: Supported, reasons: Reasons) -> None:
    """Add why two neighbours are not one kernel, if that has not been said."""
    home = homes.get(consumer)
    key = producer, consumer if home is None else home.last
    if key in reasons or (home is not None and producer in home.members):
        return
    if home is None and is_join(consumer):
        reasons[key] = "parts of other sizes are kernels of their own, which write into their slices of what is joined"
    elif is_view(producer) or is_view(consumer):
        reasons[key] = "a view needs no kernel: what reads it reads the memory that it shows"
    elif home is not None:
        reasons[key] = f"the group has {LARGEST} nodes, which is the limit"
    else:
        reasons[key] = obstacle(consumer, supported) or "its consumer, tried as the end of a group, did not take it in"


def groups(graph: Graph, supported: Supported = lambda node: True) -> list[set[Node]]:
    """The nodes of each group that `fuse` would form; leaves the graph as it is."""
    order = {node: index for index, node in enumerate(graph.nodes)}
    return [set(group.members) for group in _groups(graph, order, supported, 2, {})]


def _groups(graph: Graph, order: dict[Node, int], supported: Supported, minimum: int, reasons: Reasons) -> list[_Group]:
    taken: set[Node] = set()
    found = []
    for node in graph.reversed_nodes:
        if node not in taken and _may_end(node, supported):
            group = _grow(node, order, taken, supported, reasons)
            if group is not None and group.weight >= minimum:
                taken.update(group.members)
                found.append(group)
    return found


# -- which nodes -------------------------------------------------------------------------------------------------


def _may_end(node: Node, supported: Supported) -> bool:
    return is_fusable(node, supported) and not is_gather(node)


def _separate_gradients(graph: Graph) -> None:
    """A layer or group norm's backward reduces rows for the input and columns for the weight and bias: two nodes.

        %1, %2, %3 = aten::native_layer_norm_backward[output_mask=[True, True, True]](...)
    becomes
        %1, %4, %5 = aten::native_layer_norm_backward[output_mask=[True, False, False]](...)
        %6, %2, %3 = aten::native_layer_norm_backward[output_mask=[False, True, True]](...)
    """
    for node in list(graph.nodes):
        if not kernel_of(node.kind).separable or not argument(node, "output_mask")[0]:
            continue
        rest = [False, *(bool(there) for there in argument(node, "output_mask")[1:])]
        if any(rest):
            with graph.inserting_before(node):
                for mask in ([True, False, False], rest):
                    types = [v.type if there else UNDEFINED for v, there in zip(node.outputs, mask)]
                    attributes = {name: node.resolve(item) for name, item in node.attributes.items()}
                    attributes["output_mask"] = mask
                    part = graph.add(node.kind, node.operands, attributes, types)
                    part.source, part.scope = node.source, node.scope
                    for old, new, there in zip(node.outputs, part.outputs, mask):
                        if there:
                            old.replace_all_uses_with(new)
            node.erase()


# -- growing -----------------------------------------------------------------------------------------------------


def _grow(
    last: Node, order: dict[Node, int], taken: set[Node], supported: Supported, reasons: Reasons
) -> _Group | None:
    """The group that a node ends: producers are taken in, latest first, until none may join."""
    group = _Group(last, IterationSpace(last))
    try:
        group.space.admit(last)
    except SpaceDeclined as reason:
        reasons[last, last] = str(reason)
        return None
    group.members[last] = None
    work: list[tuple[int, Node]] = []
    seen, asked = {last}, set()
    _push(last, work, seen, order)
    while work and len(group.members) < LARGEST:
        node = heapq.heappop(work)[1]
        refusal = _refusal(node, group, order, taken, supported)
        if refusal == EARLY and node not in asked:
            asked.add(node)  # once more, when those that it waits for, and what they read, have been asked
            _take_along(node, group, order, taken | seen, supported, work, seen)
            heapq.heappush(work, (-order[node], node))
        elif refusal is None:
            group.members[node] = None
            _push(node, work, seen, order)
        else:
            reasons[node, last] = refusal
    _drop_leading_views(group)
    return group


def _take_along(
    node: Node, group: _Group, order: dict[Node, int], barred: set[Node], supported: Supported,
    work: list[tuple[int, Node]], seen: set[Node],
) -> None:  # fmt: skip
    """Let those join that read a node too early for it to join, if nobody needs them before the group has run.

    Note [Siblings]
        Both gradients of a cell are made of %0. The group that ends with %2 takes %1 along, which then is an output:

            %0 = aten::mul(%g, %o)      %1 and %2 are returned: without %1 in it, the group could not compute %0
            %1 = aten::mul(%0, %f)
            %2 = aten::mul(%0, %c)
    """
    place = order[group.last]
    early = {use.node for v in node.outputs for use in v.uses if order.get(use.node, place) < place}
    for reader in sorted(early - set(group.members), key=order.__getitem__, reverse=True):
        pointwise = not is_join(reader) and not is_view(reader) and not is_special(reader)
        late = all(_is_late(value, group, order) for value in reader.outputs)
        if reader in barred or not pointwise or not late or _refusal(reader, group, order, set(), supported):
            return
        group.members[reader] = None
        seen.add(reader)
        _push(reader, work, seen, order)


def _push(node: Node, work: list[tuple[int, Node]], seen: set[Node], order: dict[Node, int]) -> None:
    for value in node.inputs:
        if value.node in order and value.node not in seen:
            seen.add(value.node)
            heapq.heappush(work, (-order[value.node], value.node))


def _refusal(node: Node, group: _Group, order: dict[Node, int], taken: set[Node], supported: Supported) -> str | None:
    """Why a node may not join; None if it has joined."""
    if node in taken:
        return "it is part of another kernel"
    if node.stage != group.last.stage:
        return "it belongs to another stage"
    if not (is_known_view(node) or is_fusable(node, supported)):
        return obstacle(node, supported)
    leaving = [v for v in node.outputs if any(use.node not in group.members for use in v.uses)]
    if leaving and (is_view(node) or not all(_is_late(v, group, order) for v in leaving)):
        return EARLY
    try:
        group.space.admit(node, leaving)
    except SpaceDeclined as reason:
        return str(reason)
    return None


def _is_late(value: Value, group: _Group, order: dict[Node, int]) -> bool:
    """True if every use outside comes after the group's place; returns have no place and come last."""
    place = order[group.last]
    return all(use.node in group.members or order.get(use.node, place + 1) > place for use in value.uses)


def _drop_leading_views(group: _Group) -> None:
    """Views of what the group does not compute are views of its inputs, and are brought in as such."""
    for node in list(reversed(group.members)):
        if is_view(node) and node.inputs[0].node not in group.members:
            del group.members[node]


# -- replacing ---------------------------------------------------------------------------------------------------


def _replace(graph: Graph, group: _Group, order: dict[Node, int]) -> None:
    """Move the members into a body, and put a FusionGroup in the place of the last one."""
    members = sorted(group.members, key=order.__getitem__)
    outputs = [v for node in members for v in node.outputs if any(use.node not in group.members for use in v.uses)]
    body, sources = _body(members, outputs)
    with graph.inserting_before(group.last):
        fused = graph.insert(graph.create("prim::FusionGroup", sources, {"body": body}))
    fused.source, fused.scope = group.last.source, group.last.scope
    for value in outputs:
        value.replace_all_uses_with(fused.add_output(value.type))
    feeding = [value.node for node in members for value in node.inputs if value.node not in group.members]
    for node in reversed(members):
        node.erase()
    _erase_unused_views(feeding)


def _erase_unused_views(nodes: list[Node]) -> None:
    """The views that led to a group are in its body now."""
    work = list(nodes)
    while work:
        node = work.pop()
        if node.graph is not None and is_known_view(node) and not any(value.uses for value in node.outputs):
            work.append(node.inputs[0].node)
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
    while is_known_view(chain[-1].node) and chain[-1].node.inputs[0] not in mapping:
        chain.append(chain[-1].node.inputs[0])
    base = chain[-1]
    if is_known_view(base.node):  # the chain ended at a value that is known already
        chain.append(base.node.inputs[0])
    elif base not in mapping:
        sources.append(base)
        mapping[base] = body.add_input(base.type)
    for viewed in reversed(chain[:-1] if chain[-1] in mapping else chain):
        if viewed not in mapping:
            body.copy_node(viewed.node, mapping).stage = 0
