"""Graphs as text: the one form that is printed, parsed, compared in tests, quoted in errors and dumped to files.

    graph(%x : Float(2, 3), %w : Float(4, 3)) {
      %2 : Float(2, 4) = aten::linear(%x, %w)  # model.py:12 in forward, scope: Net/fc
      %n : int = aten::size[dim=0](%x)
      %4 : Float(2, 4) = aten::view[size=[%n, 4]](%2)
      return (%4)
    ---- stage 1 (%5 : Float(2, 4)) ----
      %6 : Float(2, 3) = aten::mm(%5, %w)
      return (%6)
    }

Constants are written so that each kind can be told apart: `2`, `2.0`, `True`, `None`, `'mean'`, `complex(0.0, 1.0)`,
`jit.float32`, `slice(1, None, 2)`, `RandomState(7, 0)`, `[1, 2]`, `{'a': 1}`, a small array `Float(2){1.5, 2.0}` and a
large one `Float(128, 64)<sha256:9f86d081884c7d65>`, whose data `large_constants` collects. Sub-graphs are `@0`, `@1`
and so on, and follow the graph as `where @0 = graph(...) {...}`. What has no text (a PythonOp's function) is left out
of the attributes and stands as `<Name>` among the arguments; the reader gives functions back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import DTypeError
from .graph import Graph, Node, Ref, Source, Value, leaves
from .random_state import RandomState
from .types import TensorType, Type

LINE = 120
"""Headers longer than this get one input per line."""
SMALL = 10
"""Arrays of up to this many elements are written in full."""

_PLAIN_NAME = re.compile(r"[\w.]+")
_PLAIN_KIND = re.compile(r"[A-Za-z_]\w*::[\w.]+|[A-Za-z_][\w.]*")


def format_graph(graph: Graph) -> str:
    """The text of `graph` and, after it, of every sub-graph in the order in which they are mentioned.

    >>> from jit.ir import Graph, TENSOR
    >>> g = Graph()
    >>> g.set_return([g.add_input(TENSOR, "x")])
    >>> print(format_graph(g))
    graph(%x : Tensor) {
      return (%x)
    }
    """
    numbers = _Numbers()
    lines = _graph_lines(graph, "graph", numbers)
    for index, inner in enumerate(numbers.graphs):  # grows while it is walked: sub-graphs mention others
        lines += _graph_lines(inner, f"where @{index} = graph", numbers)
    return "\n".join(lines)


def format_node(node: Node) -> str:
    """The text of one node, as it stands in its graph's text; sub-graphs are numbered from @0."""
    return _node_text(node, _Numbers())


def format_constant(value: Any) -> str:
    """The text of a constant: `[1, 'mean', jit.float32]`."""
    return _template(value, None, _Numbers())


def large_constants(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that the text mentions by hash alone, sub-graphs included: what `parse` wants as `tensors`."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    graphs, seen = [graph], {id(graph)}
    for current in graphs:
        for node in [*current.nodes, *(stage.result for stage in current.stages)]:
            for leaf in leaves((node.args, node.attributes)):
                if isinstance(leaf, Graph) and id(leaf) not in seen:
                    seen.add(id(leaf))
                    graphs.append(leaf)
                elif isinstance(leaf, np.ndarray) and leaf.size > SMALL and _dtype_of(leaf):
                    found[content_hash(leaf)] = leaf
    return found


def content_hash(array: np.ndarray[Any, Any]) -> str:
    """`sha256:` and 16 hexadecimal digits that stand for the array's dtype, shape and bytes."""
    dtype = dtypes.from_numpy(array.dtype)
    digest = hashlib.sha256(f"{dtype.text}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array, dtype.numpy).tobytes())
    return f"sha256:{digest.hexdigest()[:16]}"


def is_content_hash(name: str) -> bool:
    """Whether a name stands for an array, see `content_hash`."""
    return name.startswith("sha256:")


# -- graphs and nodes --------------------------------------------------------------------------------------------


class _Numbers:
    """The sub-graphs met so far; the place of one is its number."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self._places: dict[int, int] = {}

    def of(self, graph: Graph) -> int:
        place = self._places.setdefault(id(graph), len(self.graphs))
        if place == len(self.graphs):
            self.graphs.append(graph)
        return place


def _graph_lines(graph: Graph, opening: str, numbers: _Numbers) -> list[str]:
    stages: list[list[Node]] = [[] for _ in graph.stages]
    for node in graph.nodes:
        stages[min(node.stage, len(stages) - 1)].append(node)
    lines: list[str] = []
    for index, (stage, nodes) in enumerate(zip(graph.stages, stages, strict=True)):
        start, end = (opening, " {") if index == 0 else (f"---- stage {index} ", " ----")
        lines += _header(start, stage.inputs, end)
        lines += [f"  {_node_text(node, numbers)}" for node in nodes]
        lines += [f"  {line}" for line in _node_text(stage.result, numbers).split("\n")]
    return [*lines, "}"]


def _header(opening: str, inputs: Iterable[Value], closing: str) -> list[str]:
    declared = [declaration(value) for value in inputs]
    line = f"{opening}({', '.join(declared)}){closing}"
    if len(line) <= LINE or len(declared) < 2:
        return [line]
    return [f"{opening}(", *(f"    {text}," for text in declared[:-1]), f"    {declared[-1]}){closing}"]


def _node_text(node: Node, numbers: _Numbers) -> str:
    args = ", ".join(_template(item, node, numbers) for item in node.args)
    if node.kind == "prim::Return":
        return f"return ({args}){_update_text(node)}"
    outputs = ", ".join(declaration(value) for value in node.outputs)
    attributes = _attributes_text(node, numbers)
    return f"{outputs}{' = ' if outputs else ''}{_kind_text(node.kind)}{attributes}({args}){_comment(node)}"


def _update_text(node: Node) -> str:
    pairs = node.attribute("update", ())
    if not pairs:
        return ""
    return f"\nupdate ({', '.join(f'{reference(target)} = {reference(value)}' for target, value in pairs)})"


def _attributes_text(node: Node, numbers: _Numbers) -> str:
    parts = [
        f"{_word(key)}={_template(item, node, numbers)}"
        for key, item in node.attributes.items()
        if all(has_text(leaf) for leaf in leaves(item))
    ]
    return f"[{', '.join(parts)}]" if parts else ""


def _comment(node: Node) -> str:
    parts = [str(node.source)] if node.source else []
    parts += [f"scope: {node.scope}"] if node.scope else []
    text = ", ".join(parts).replace("\r", "\\r").replace("\n", "\\n")
    return f"  # {text}" if text else ""


_SOURCE = r"(?P<file>.*?):(?P<line>\d+) in (?P<function>.*?)(?:, (?=scope: )|$)"
_COMMENT = re.compile(rf"(?:{_SOURCE})?(?:scope: (?P<scope>.+))?")


def read_comment(text: str) -> tuple[Source | None, str]:
    """Source and scope from the comment behind a node; (None, "") if it is only a remark."""
    match = _COMMENT.fullmatch(text)
    if match is None:
        return None, ""
    source = Source(match["file"], int(match["line"]), match["function"]) if match["line"] else None
    return source, match["scope"] or ""


def declaration(value: Value) -> str:
    """`%x : Float(2, 3)`, as where a value is defined."""
    return f"{reference(value)} : {value.type}"


def reference(value: Value) -> str:
    """`%x`, as where a value is used; an unusual name is quoted: `%'params[0]'`."""
    return f"%{_word(value.name)}"


def _word(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else repr(name)


def _kind_text(kind: str) -> str:
    if kind.startswith("^"):
        return f"^{_word(kind[1:])}"
    return kind if _PLAIN_KIND.fullmatch(kind) else repr(kind)


# -- constants ---------------------------------------------------------------------------------------------------


def _template(item: Any, node: Node | None, numbers: _Numbers) -> str:
    if isinstance(item, (tuple, list)):
        return f"[{', '.join(_template(part, node, numbers) for part in item)}]"
    if isinstance(item, dict):
        pairs = (f"{_leaf(key)}: {_template(part, node, numbers)}" for key, part in item.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(item, Ref):
        return reference(node.inputs[item.index]) if node and item.index < len(node.inputs) else f"%?{item.index}"
    return f"@{numbers.of(item)}" if isinstance(item, Graph) else _leaf(item)


def _leaf(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)) and _dtype_of(value):
        return _array_text(np.asarray(value))
    if isinstance(value, DType):
        return f"jit.{value.name}"
    if isinstance(value, (bool, int, float, str, bytes, Type)) or value is None:
        return str(value) if isinstance(value, Type) else repr(value)
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, slice):
        return f"slice({', '.join(_leaf(part) for part in (value.start, value.stop, value.step))})"
    if isinstance(value, RandomState):
        return f"RandomState({value.seed}, {value.offset})"
    return "..." if value is ... else f"<{getattr(value, '__name__', type(value).__name__)}>"


_WITH_TEXT = (bool, int, float, complex, str, bytes, type(None), DType, Type, slice, RandomState, type(...), Ref, Graph)


def has_text(value: Any) -> bool:
    """True if the leaf of a template can be printed and read back."""
    if isinstance(value, (np.ndarray, np.generic)):
        return _dtype_of(value) is not None
    return isinstance(value, _WITH_TEXT)


def _dtype_of(array: np.ndarray[Any, Any] | np.generic) -> DType | None:
    try:
        return dtypes.from_numpy(array.dtype)
    except DTypeError:
        return None


def _array_text(array: np.ndarray[Any, Any]) -> str:
    type_text = str(TensorType(dtypes.from_numpy(array.dtype), array.shape))
    if array.size > SMALL:
        return f"{type_text}<{content_hash(array)}>"
    return f"{type_text}{{{', '.join(_element_text(element) for element in array.ravel())}}}"


def _element_text(element: Any) -> str:
    """The shortest digits that give the same element when they are read as a Python number and rounded once more."""
    if isinstance(element, np.complexfloating):
        return f"complex({_element_text(element.real)}, {_element_text(element.imag)})"
    number = element.item()
    if not isinstance(number, float) or number != number:
        return repr(number)
    short = str(element)
    exact = {".", "e"} & set(short) and type(element)(float(short)) == element
    return short if exact else repr(number)
