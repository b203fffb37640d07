"""Graphs as pictures: a networkx graph, Graphviz's language, SVG, and a page to walk around in.

Every node is a card, coloured by what its operator does; the edges carry the shapes of the tensors that flow along
them. A dashed box is a scope (a module), a solid one a stage. Graphs of more than `MOST_CARDS` nodes show each scope as
one card.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
from collections.abc import Iterable, Iterator
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .cards import COLOURS, MOST_CARDS, Card, Link, cards_of, cut
from .errors import Error, UsageError
from .files import write_atomically
from .graph import Graph, Node, Value
from .printer import declaration, format_node, large_constants, reference

if TYPE_CHECKING:
    import networkx

QUICK, _QUICKER = 300, "nslimit=1, nslimit1=1, mclimit=0.3"
"""The number of cards beyond which Graphviz gets these limits, with which it takes seconds rather than minutes."""
STAGES = ("forward", "backward", "double backward")


# -- networkx ----------------------------------------------------------------------------------------------------


def to_networkx(graph: Graph) -> networkx.MultiDiGraph:
    """`graph` as a MultiDiGraph with a node per input, node and return, and an edge per use of a value.

    Nodes have the attributes kind, type (of each output), stage, scope, source and text; edges have value, type and
    index (which input of the user it is). Nodes are named after their first output, `%x`, or their place in the
    graph where they have none.

    >>> from jit.ir import parse
    >>> drawn = to_networkx(parse("graph(%x : Float(2)) { %y : Float(2) = aten::neg(%x) return (%y) }"))
    >>> drawn.nodes["%y"]["kind"], list(drawn.edges(data="value"))
    ('aten::neg', [('%x', '%y', '%x'), ('%y', 'return 0', '%y')])
    """
    import networkx

    drawn = networkx.MultiDiGraph()
    names: dict[Node, str] = {}
    for stage in graph.stages:
        for value in stage.inputs:
            _add_node(drawn, reference(value), stage.param, [value], declaration(value))
    for place, node in enumerate(graph.nodes):
        names[node] = reference(node.outputs[0]) if node.outputs else f"node {place}"
        _add_node(drawn, names[node], node, node.outputs, format_node(node))
    for index, stage in enumerate(graph.stages):
        names[stage.result] = f"return {index}"
        _add_node(drawn, names[stage.result], stage.result, [], format_node(stage.result))
    for node, name in names.items():
        for index, value in enumerate(node.inputs):
            tail = reference(value) if value.is_input else names[value.node]
            drawn.add_edge(tail, name, value=reference(value), type=str(value.type), index=index)
    return drawn


def _add_node(drawn: networkx.MultiDiGraph, name: str, node: Node, outputs: list[Value], text: str) -> None:
    drawn.add_node(
        name, kind=node.kind, type=[str(value.type) for value in outputs], stage=node.stage, scope=node.scope,
        source=str(node.source or ""), text=text,
    )  # fmt: skip


# -- Graphviz ----------------------------------------------------------------------------------------------------

_HEAD = """\
digraph jit {
  graph [rankdir=TB, nodesep=0.28, ranksep=0.42, pad=0.3, bgcolor="white", fontname="Helvetica,Arial,sans-serif",
         fontsize=11, tooltip=" "]
  node [shape=box, style="rounded,filled", fontname="Helvetica,Arial,sans-serif", fontsize=12, fontcolor="#0f172a",
        penwidth=1.2, margin="0.12,0.04", height=0.3]
  edge [color="#94a3b8", fontname="Helvetica,Arial,sans-serif", fontsize=9, fontcolor="#64748b", arrowsize=0.6,
        penwidth=1.1]
"""


def to_dot(graph: Graph, most: int = MOST_CARDS) -> str:
    """`graph` in Graphviz's language, ready for `dot -Tsvg`."""
    cards, links = cards_of(graph, most)
    lines = [_HEAD] if len(cards) <= QUICK else [_HEAD, f"  graph [{_QUICKER}]"]
    for index in range(len(graph.stages)):
        mine = [card for card in cards if card.stage == index]
        lines += _stage_lines(index, mine) if len(graph.stages) > 1 else _scope_lines(mine, "s0")
    lines += [_link_line(link) for link in links]
    return "\n".join([*lines, "}\n"])


def _stage_lines(index: int, cards: list[Card]) -> Iterable[str]:
    name = STAGES[index] if index < len(STAGES) else f"derivative {index}"
    yield f"  subgraph cluster_s{index} {{"
    yield f'  graph [label="stage {index} · {name}", labeljust=l, style="rounded,filled", color="#cbd5e1",'
    yield f'         fillcolor="{"#ffffff" if index % 2 == 0 else "#f8fafc"}", fontcolor="#475569", fontsize=12,'
    yield f'         penwidth=1.2, margin=14, tooltip="stage {index}"]'
    yield from _scope_lines(cards, f"s{index}")
    yield "  }"


def _scope_lines(cards: list[Card], prefix: str) -> Iterator[str]:
    """The cards, each inside the dashed boxes of its scopes; written as a walk through the tree of scopes."""
    tree: dict[str, Any] = {}
    for card in cards:
        branch = tree
        for name in filter(None, card.scope.split("/")):
            branch = branch.setdefault(name, {})
        branch.setdefault("", []).append(card)  # no scope has the empty name
    walks: list[tuple[str, Iterator[tuple[str, Any]]]] = [("", iter(tree.items()))]
    number = 0
    while walks:
        path, entries = walks[-1]
        name, entry = next(entries, ("", None))
        if entry is None:
            walks.pop()
            if walks:
                yield "  }"
        elif isinstance(entry, list):
            yield from map(_card_line, entry)
        else:
            number += 1
            inner = f"{path}/{name}" if path else name
            yield f"  subgraph cluster_{prefix}_{number} {{"
            yield f'  graph [label={_quoted(name)}, labeljust=l, style="rounded,dashed", color="#94a3b8", penwidth=1,'
            yield f'         fontcolor="#64748b", fontsize=10, margin=12, tooltip={_quoted(inner)}]'
            walks.append((inner, iter(entry.items())))


def _card_line(card: Card) -> str:
    fill, border = COLOURS[card.family]
    dark = card.family in ("input", "return")
    grey = "#cbd5e1" if dark else "#475569"
    rows = [f"<B>{_escaped(cut(card.title))}</B>"]
    rows += [f'<FONT POINT-SIZE="9.5" COLOR="{grey}">{_escaped(line)}</FONT>' for line in card.details if line]
    cells = "".join(f"<TR><TD>{row}</TD></TR>" for row in rows)
    label = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{cells}</TABLE>'
    extra = ', fontcolor="#f8fafc"' if dark else ""
    extra += ", peripheries=2" if card.family == "scope" else ""
    return (
        f'  {card.key} [id="{card.key}", label=<{label}>, fillcolor="{fill}", color="{border}"{extra}, '
        f"tooltip={_quoted(card.text)}]"
    )


def _escaped(text: str) -> str:
    return html.escape("".join(character if character.isprintable() else "·" for character in text))


def _link_line(link: Link) -> str:
    style = ', style=dashed, color="#a78bfa"' if link.crosses else ""
    label = f" {link.label}" if link.label else ""
    lines = list(link.values)
    text = _quoted("\n".join(lines if len(lines) <= 10 else [*lines[:9], f"and {len(lines) - 9} more"]))
    return f"  {link.tail} -> {link.head} [label={_quoted(label)}, tooltip={text}, labeltooltip={text}{style}]"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# -- pictures ----------------------------------------------------------------------------------------------------


def to_svg(graph: Graph, most: int = MOST_CARDS) -> str:
    """`graph` as an SVG picture.

    Raises:
        Error: pygraphviz, which computes the layout, is not installed.
    """
    try:
        import pygraphviz
    except ImportError as error:
        raise Error(
            "drawing a graph needs pygraphviz, which is not installed; install it with: pip install 'jit-tracer[viz]'"
        ) from error
    drawn: bytes = pygraphviz.AGraph(string=to_dot(graph, most)).draw(format="svg", prog="dot", args="-q")
    return drawn.decode()


def save_html(graph: Graph, path: str | PathLike[str], most: int = MOST_CARDS) -> None:
    """Write a page that shows `graph`, to pan, zoom and search in; it needs no network and no other file.

    Raises:
        Error: pygraphviz is not installed, or the file cannot be written.
    """
    cards, _ = cards_of(graph, most)
    described = {
        card.key: {"text": card.text, "source": card.source, "scope": card.scope, "family": card.family}
        for card in cards
    }
    picture = to_svg(graph, most)
    page = resources.files(__package__).joinpath("drawing.html").read_text(encoding="utf-8")
    page = page.replace("/*CARDS*/{}", json.dumps(described).replace("<", "\\u003c"))
    page = page.replace("<!--PICTURE-->", picture[picture.index("<svg") :])
    write_atomically(path, page.replace("<!--SUMMARY-->", html.escape(_summary(graph, len(cards)))))


def _summary(graph: Graph, cards: int) -> str:
    stages = f", {len(graph.stages)} stages" if len(graph.stages) > 1 else ""
    collapsed = f", shown as {cards:,} cards by scope" if len(graph) > cards else ""
    return f"{len(graph):,} nodes{stages}{collapsed}"


def save(graph: Graph, path: str | PathLike[str]) -> None:
    """Write `graph` in the form that the suffix of `path` asks for; see `Graph.save`."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix == ".html":
        save_html(graph, target)
    elif suffix == ".svg":
        write_atomically(target, to_svg(graph))
    elif suffix == ".dot":
        write_atomically(target, to_dot(graph))
    elif suffix == ".ir":
        _save_text(graph, target)
    else:
        raise UsageError(f"cannot save a graph as {target.name}: its name must end in .html, .svg, .dot or .ir")


def _save_text(graph: Graph, target: Path) -> None:
    """Write the text of a graph, after its large constants, so that the text never lacks them."""
    constants = large_constants(graph)
    if constants:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **constants)
        write_atomically(target.with_suffix(".npz"), buffer.getvalue())
    write_atomically(target, f"{graph}\n")


def mimebundle(graph: Graph) -> dict[str, str]:
    """The forms in which a notebook can show `graph`."""
    bundle = {"text/plain": str(graph)}
    with contextlib.suppress(Error):  # without pygraphviz, the text alone
        bundle["image/svg+xml"] = to_svg(graph)
    return bundle
