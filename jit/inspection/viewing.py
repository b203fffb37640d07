"""`f.view(path)`: a page about a traced function, which holds all that is known of it and needs no network.

The page is put together of the files in `page/`; what it shows comes as one JSON object, made here. A node whose text
is the same after several passes is in it once, and graphs are lists of numbers of nodes: so it stays small.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable
from importlib import resources
from typing import TYPE_CHECKING, Any

from jit.ir import Graph, Node, Value
from jit.ir.cards import COLOURS, node_card, short_type
from jit.ir.drawing import STAGES
from jit.ir.files import write_atomically
from jit.ir.graph import Stage, leaves
from jit.ir.printer import declaration, format_node, reference
from jit.tracing.recordings.compiling import improvements

from .source_files import source_texts

if TYPE_CHECKING:
    from jit.runtime.plans.views import KernelView
    from jit.tracing.function import TracedFunction

    from .profiling import Profile, ProfileRow

PARTS = ("page.css", "layout.js", "drawing.js", "panels.js", "page.js")
"""The files of the page, which stand in page.html as /*page.css*/ and so on."""


def write_page(traced: TracedFunction, path: str | os.PathLike[str], profile: Profile | str) -> None:
    """Write the page of a traced function that has been called.

    Args:
        traced: The function.
        path: The file; it is written whole or not at all.
        profile: Where the time of a call goes, or why nobody knows.

    Raises:
        Error: The file cannot be written.
    """
    write_atomically(path, _filled(traced.__name__, contents(traced, profile)))


def _filled(name: str, data: dict[str, Any]) -> str:
    folder = resources.files(__package__).joinpath("page")
    page = folder.joinpath("page.html").read_text(encoding="utf-8").replace("<!--NAME-->", html.escape(name))
    for part in PARTS:
        page = page.replace(f"/*{part}*/", folder.joinpath(part).read_text(encoding="utf-8"))
    return page.replace("/*DATA*/{}", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def contents(traced: TracedFunction, profile: Profile | str) -> dict[str, Any]:
    """All that the page shows: graphs by pass, kernels with their code, source files, and times."""
    graph, table = traced.graph, _NodeTable()
    passes = improvements(graph) if traced.optimizes else [("recorded", graph)]
    graphs = [table.graph(title, after) for title, after in passes]
    return {
        "name": traced.__name__,
        "facts": [f"{traced.hits} hits", f"{traced.misses} recorded", traced.explain()],
        "colours": COLOURS,
        "stages": [STAGES[i] if i < len(STAGES) else f"derivative {i}" for i in range(len(graph.stages))],
        "nodes": table.rows,
        "scopes": [*table.scopes],
        "sources": [[source.file, source.line, source.function] for source in table.sources],
        "graphs": graphs,
        "files": source_texts(table.sources),
        "kernels": list(map(_kernel_row, traced.kernels)),
        "profile": profile if isinstance(profile, str) else _profile_rows(profile),
    }


# -- nodes -------------------------------------------------------------------------------------------------------


class _NodeTable:
    """The nodes of several graphs, each text once, with the scopes and lines that they mention by number."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.scopes: dict[str, int] = {}
        self.sources: dict[Any, int] = {}
        self._places: dict[str, int] = {}
        self._before: set[Node] = set()

    def graph(self, title: str, graph: Graph) -> dict[str, Any]:
        """A graph: of each stage its inputs, its nodes by number, those that are new, and what it returns."""
        stages = [{**_ends(stage), "nodes": [], "fresh": []} for stage in graph.stages]
        for node in graph.nodes:
            number = self._place(node)
            stages[node.stage]["nodes"].append(number)
            if self._before and node not in self._before:
                stages[node.stage]["fresh"].append(number)
        self._before = set(graph.nodes)
        return {"title": title, "stages": stages}

    def _place(self, node: Node) -> int:
        text = format_node(node)
        if (place := self._places.get(text)) is None:
            place = self._places[text] = len(self.rows)
            self.rows.append(self._row(node, text))
        return place

    def _row(self, node: Node, text: str) -> list[Any]:
        card = node_card(node, "")
        scope = self.scopes.setdefault(node.scope, len(self.scopes))
        source = -1 if node.source is None else self.sources.setdefault(node.source, len(self.sources))
        inputs = [reference(value) for value in dict.fromkeys(node.inputs)]
        outputs = [[reference(value), short_type(value.type)] for value in node.outputs]
        inner = [str(graph) for graph in node.subgraphs]
        return [text, card.title, card.family, card.details, scope, source, inputs, outputs, inner]


def _ends(stage: Stage) -> dict[str, Any]:
    """The inputs of a stage, and the values that it returns and writes back."""
    returned = [leaf for leaf in leaves(stage.outputs) if isinstance(leaf, Value)]
    written = [[reference(target), reference(value)] for target, value in stage.updates]
    inputs = [[reference(value), short_type(value.type), declaration(value)] for value in stage.inputs]
    return {
        "inputs": inputs,
        "returns": [reference(value) for value in returned],
        "updates": written,
        "text": format_node(stage.result),
    }


# -- kernels and times -------------------------------------------------------------------------------------------


def _kernel_row(kernel: KernelView) -> dict[str, Any]:
    return {
        "name": kernel.name, "stage": kernel.stage, "calls": kernel.calls, "bytes": kernel.bytes,
        "flops": kernel.flops, "lines": kernel.source_lines, "llvm": kernel.llvm_ir, "asm": kernel.asm,
    }  # fmt: skip


def _profile_rows(profile: Profile) -> dict[str, Any]:
    return {"seconds": profile.seconds, "kernels": _rows(profile.kernels), "lines": _rows(profile.lines)}


def _rows(rows: Iterable[ProfileRow]) -> list[list[Any]]:
    return [[row.name, row.stage, row.calls, row.seconds, row.bytes, row.flops] for row in rows]
