"""Cards and arrows of a picture of a graph: a card for every node, input and return.

Graphs that are too large for a picture of every node get a card per scope instead.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .graph import Graph, Node, Stage, Value, leaves
from .op import find
from .printer import declaration, format_constant, format_node, has_text, reference
from .types import TensorType, Type

MOST_CARDS = 1500
"""The most cards that a reader, and the layout, can cope with."""
FAR, ROOM = 8, 600
"""Arrows that cross more than FAR rows are cut if all arrows together cross more than ROOM."""
RUN = 25
"""The number of nodes without a scope that share a card; in huge graphs, more of them do."""
LONGEST = 42
"""The number of characters after which a line on a card is cut; the tooltip shows the whole line."""


@dataclass(slots=True)
class Card:
    """The picture of a node, an input, a return, or a whole scope."""

    key: str
    title: str
    details: list[str]
    family: str
    stage: int
    scope: str
    text: str
    """The IR text, for the tooltip and the search."""
    source: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    """Counts of the kinds of nodes in a scope; empty for other cards."""


@dataclass(slots=True)
class Link:
    """An arrow between two cards."""

    tail: str
    head: str
    label: str
    values: dict[str, None]
    """The declarations of the values that flow along it, in order."""
    crosses: bool = False
    """Whether it leads from one stage to a later one."""


def cards_of(graph: Graph, most: int = MOST_CARDS) -> tuple[list[Card], list[Link]]:
    """The cards and arrows of a picture with at most about `most` cards."""
    made: dict[Node | Value, Card] = {}
    keys = (f"n{number}" for number in itertools.count())
    for stage in graph.stages:
        made.update((value, _input_card(value, next(keys))) for value in stage.inputs)
    groups = _grouping(graph, most)
    scopes: dict[tuple[int, str], Card] = {}
    for node in graph.nodes:
        if node not in groups:
            made[node] = node_card(node, next(keys))
            continue
        place = (node.stage, groups[node])
        if place not in scopes:
            scopes[place] = _scope_card(node, groups[node], next(keys))
        made[node] = _extended(scopes[place], node)
    users = [(made[node], list(node.inputs)) for node in graph.nodes]
    for stage in graph.stages:
        users += _end_cards(stage, keys)
    cards = list({card.key: card for card in [*made.values(), *(card for card, _ in users)]}.values())
    return _with_stubs(cards, list(_links(made, users)), keys)


def _input_card(value: Value, key: str) -> Card:
    family = "parameter" if "." in value.name else "input"
    return Card(key, value.name, [short_type(value.type)], family, value.stage, "", declaration(value))


def _end_cards(stage: Stage, keys: Iterator[str]) -> Iterator[tuple[Card, list[Value]]]:
    """The return, and a card for every input that holds another value afterwards; each with what flows into it."""
    node, returned = stage.result, [item for item in leaves(stage.outputs) if isinstance(item, Value)]
    if returned or not stage.updates:
        yield Card(next(keys), "return", [], "return", node.stage, "", format_node(node)), returned
    for target, value in stage.updates:
        text = f"update ({reference(target)} = {reference(value)})"
        yield Card(next(keys), target.name, ["updated"], "return", node.stage, "", text), [value]


def node_card(node: Node, key: str) -> Card:
    """The card of a node."""
    title, details = _base_name(node), _details(node)
    if node.kind == "prim::Constant":
        title, details = cut(format_constant(node.attribute("value")).split("<sha256")[0]), []
    source = str(node.source or "")
    return Card(key, title, details, family_of(node), node.stage, node.scope, format_node(node), source)


def _base_name(node: Node) -> str:
    """`max` for aten::max.dim; `^Clip` and `cpp::mine` as they are."""
    namespace, _, name = node.kind.rpartition("::")
    return name.split(".")[0] if namespace in ("aten", "prim") else node.kind


def _details(node: Node) -> list[str]:
    """The lines beneath the title of a card: constants among the operands, and the nodes inside."""
    parts = [f"{name}={_template(node, item)}" for name, item in node.attributes.items() if _is_plain(item)]
    if any(item is not None and not isinstance(item, Value) for item in leaves(node.operands)):
        parts.insert(0, f"({', '.join(_template(node, item) for item in node.args)})")
    lines = [cut(", ".join(parts))] if parts else []
    for inner in node.subgraphs:
        computing = (part for part in inner.nodes if not part.kind.startswith("prim::"))
        lines.append(cut(" · ".join(_base_name(part) for part in itertools.islice(computing, 20))))
    return lines


def _is_plain(item: Any) -> bool:
    return all(has_text(leaf) and not isinstance(leaf, Graph) for leaf in leaves(item))


def _template(node: Node, item: Any) -> str:
    resolved = node.resolve(item)
    if isinstance(resolved, Value):
        return "·" if isinstance(resolved.type, TensorType) else reference(resolved)
    if isinstance(item, tuple):
        return f"[{', '.join(_template(node, part) for part in item)}]"
    return format_constant(resolved)


def cut(text: str) -> str:
    """`text`, or its beginning if it is too long for a card."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _links(made: dict[Node | Value, Card], users: Iterable[tuple[Card, list[Value]]]) -> Iterator[Link]:
    """One arrow per use; arrows between the same two cards become one if a scope is at an end of it."""
    bundles: dict[tuple[str, str], Link] = {}
    for head, values in users:
        for value in values:
            tail = made[value if value.is_input else value.node]
            label = "" if value.is_input else short_type(value.type)  # the card of an input says it already
            link = Link(tail.key, head.key, label, {declaration(value): None}, tail.stage < head.stage)
            if not (tail.kinds or head.kinds):
                yield link
            elif tail is not head:
                bundle = bundles.setdefault((tail.key, head.key), link)
                bundle.values.update(link.values)
                bundle.label = label if len(bundle.values) == 1 else f"{len(bundle.values)} values"
    yield from bundles.values()


def short_type(type: Type) -> str:
    """The sizes of a tensor's type: `2×3` for floats, `Long 2×3` for others."""
    if not isinstance(type, TensorType) or type.shape is None:
        return str(type)
    name = type.dtype.text if type.dtype else "Tensor"
    dims = "×".join("?" if dim is None else str(dim) for dim in type.shape) or "scalar"
    return dims if name == "Float" else f"{name} {dims}"


# -- large graphs ------------------------------------------------------------------------------------------------


def _with_stubs(cards: list[Card], links: list[Link], keys: Iterator[str]) -> tuple[list[Card], list[Link]]:
    """Shorten the arrows of a crowded picture: each begins at a small copy of its card beside its head.

    Nobody can follow an arrow over a hundred rows, and the layout needs time and memory for every row that it crosses.
    """
    rows = _rows(cards, links)
    if sum(abs(rows[link.head] - rows[link.tail]) for link in links) - len(links) <= ROOM:
        return cards, links
    by_key = {card.key: card for card in cards}
    stubs: dict[tuple[str, int, int], Card] = {}
    for link in links:
        tail, head = by_key[link.tail], by_key[link.head]
        if abs(rows[link.head] - rows[link.tail]) <= FAR:
            continue
        place = (link.tail, head.stage, rows[link.head] // FAR)
        if place not in stubs:
            family = tail.family if tail.family in ("input", "parameter") else "stub"
            stubs[place] = Card(next(keys), tail.title, tail.details, family, head.stage, "", tail.text, tail.source)
        link.tail = stubs[place].key
    used = {link.tail for link in links} | {link.head for link in links}
    starts = {link_tail for link_tail, _, _ in stubs}
    return [card for card in cards if card.key in used or card.key not in starts] + list(stubs.values()), links


def _rows(cards: list[Card], links: list[Link]) -> dict[str, int]:
    """The row, roughly, in which the layout will put each card: one below the lowest card that points at it."""
    rows = {card.key: 0 for card in cards}
    for link in links:  # in the order of the nodes, so that tails are placed before heads
        rows[link.head] = max(rows[link.head], rows[link.tail] + 1)
    for link in reversed(links):  # inputs stand right above whoever uses them first
        if not rows[link.tail]:
            rows[link.tail] = rows[link.head] - 1
    return rows


def _grouping(graph: Graph, most: int) -> dict[Node, str]:
    """The scope whose card each node of a large graph joins: the deepest one for which there is room."""
    if len(graph) <= most:
        return {}
    run = max(RUN, len(graph) // 200)
    deepest = max(node.scope.count("/") for node in graph.nodes) + 1
    for depth in range(deepest, 0, -1):
        groups = {node: _group_of(node, depth, place // run) for place, node in enumerate(graph.nodes)}
        sizes = Counter((node.stage, group) for node, group in groups.items())
        if len(sizes) <= most:
            break
    return {node: group for node, group in groups.items() if sizes[node.stage, group] > 1}


def _group_of(node: Node, depth: int, run: int) -> str:
    """The first `depth` names of the scope; without a scope, the function that asked for the node, and a number."""
    if node.scope:
        return "/".join(node.scope.split("/")[:depth])
    return f"{node.source.function if node.source else 'part'} #{run + 1}"


def _scope_card(node: Node, group: str, key: str) -> Card:
    outer, _, name = group.rpartition("/")
    return Card(key, name, [], "scope", node.stage, outer, group)


def _extended(card: Card, node: Node) -> Card:
    card.kinds[_base_name(node)] += 1
    most = [f"{kind} ×{count}" for kind, count in card.kinds.most_common(3)]
    card.details = [f"{card.kinds.total():,} nodes", cut(", ".join(most))]
    card.text = f"{card.text.split(chr(10))[0]}\n{', '.join(f'{k} ×{n}' for k, n in card.kinds.most_common(20))}"
    return card


# -- colours -----------------------------------------------------------------------------------------------------

_BLUE, _GREEN, _AMBER, _SLATE = (
    ("#dbeafe", "#3b82f6"),
    ("#dcfce7", "#22a35a"),
    ("#fef3c7", "#d99b0b"),
    ("#eef2f6", "#94a3b8"),
)
_VIOLET, _PINK, _RED, _TEAL = (
    ("#ede9fe", "#8b5cf6"),
    ("#fce7f3", "#db2777"),
    ("#fee2e2", "#dc2626"),
    ("#ccfbf1", "#0d9488"),
)
COLOURS: dict[str, tuple[str, str]] = {
    "contraction": _BLUE,
    "pointwise": _GREEN,
    "reduction": _AMBER,
    "movement": _SLATE,
    "creation": _VIOLET,
    "fused": _TEAL,
    "python": _PINK,
    "guard": _RED,
    "number": ("#ffffff", "#94a3b8"),
    "scope": ("#f8fafc", "#475569"),
    "input": ("#1e293b", "#1e293b"),
    "parameter": ("#e2e8f0", "#64748b"),
    "stub": ("#ffffff", "#cbd5e1"),
    "return": ("#1e293b", "#1e293b"),
}
"""Fill and border of a card, by what it stands for."""

_FAMILY_OF_MODULE = {
    "contraction": (
        "linalg", "convolution", "recurrent", "products", "factorizations", "solving", "fft", "spectrograms",
    ),
    "reduction": ("reductions", "norms", "losses", "pooling", "backwards", "accumulations", "statistics"),
    "movement": (
        "views", "joining", "indexing", "scatters", "assignment", "resize", "gathers", "arranging", "copies", "packing",
        "patches", "grids",
    ),
    "creation": ("creation", "randoms", "windows"),
}  # fmt: skip
"""The family of an operator that is not of a telling kind itself, by the module of `jit.ops` that declares it."""
_BY_MODULE = {module: family for family, modules in _FAMILY_OF_MODULE.items() for module in modules}
_BY_OP_KIND = {"pointwise": "pointwise", "view": "movement", "random": "creation"}
_BY_NODE_KIND = {
    "prim::FusionGroup": "fused",
    "prim::Guard": "guard",
    "prim::Constant": "creation",
    "prim::Print": "python",
}


def family_of(node: Node) -> str:
    """The kind of work that a node does, one of `COLOURS`."""
    if node.kind.startswith(("^", "cpp::")) or node.kind == "prim::Eval":
        return "python"
    op = find(node.kind)
    if op is not None:
        return _BY_OP_KIND.get(op.kind) or _BY_MODULE.get(op.family, "pointwise")
    return _BY_NODE_KIND.get(node.kind, "number")
