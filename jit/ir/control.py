"""Control flow in graphs: nodes that choose between graphs, or repeat one.

Note [Control flow]
    A node of control flow has sub-graphs, each of which has an input for every input of the node, and an output for
    every output of it. Nothing of the graph around is seen in them otherwise: what a branch uses is an input.

        %y = prim::If[then=@0, otherwise=@1](%p, %x, %w)        one of the two runs; both take %p, %x and %w

        %go, %x = prim::Loop[step=@0](%p, %a, %w)               while %p: %p, %a = step(%p, %a, %w)

        %c, %y = prim::Scan[step=@0, carried=1, scanned=1, reverse=False](%a, %xs, %w)
                                                                for each row x of %xs: %a, y = step(%a, x, %w);
                                                                %y holds the rows y, one on the other

    So the outputs of a Loop are its first inputs after the last trip, those of a Scan its first `carried` inputs, and
    the rows that its steps give. A Loop may say `carried`, too, and give rows, whose number nobody knows before. With
    `reverse`, a Scan begins with the last row. The values behind these inputs, such as the parameters that a function
    has captured, are the same in every trip. What repeats has one type in all trips, and branches give results of the
    same types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .dtypes import bool_
from .graph import Graph, Node, Value
from .sizes import SizeExpr
from .types import BOOL, TensorType, Type

IF, LOOP, SCAN = "prim::If", "prim::Loop", "prim::Scan"
SUBGRAPHS = {IF: ("then", "otherwise"), LOOP: ("step",), SCAN: ("step",)}
"""The kinds of control flow, and which of their attributes are graphs."""


def is_control(node: Node) -> bool:
    """Whether a node is control flow."""
    return node.kind in SUBGRAPHS


def carried(node: Node) -> int:
    """The number of inputs of a Loop or Scan that its steps give anew; they come first."""
    return int(node.attributes.get("carried", len(node.outputs) if node.kind == LOOP else 0))


def scanned(node: Node) -> int:
    """The number of inputs of which steps take a row each; they come after those that are carried."""
    return int(node.attributes.get("scanned", 0)) if node.kind == SCAN else 0


def formal_types(node: Node) -> list[Type]:
    """The types of the inputs of a node's sub-graphs."""
    first, rows = carried(node), scanned(node)
    return [row_of(v.type) if first <= at < first + rows else v.type for at, v in enumerate(node.inputs)]


def row_of(type: Type) -> Type:
    """The type of a row of a tensor."""
    if not isinstance(type, TensorType) or not type.shape:
        return type
    return TensorType(type.dtype, type.shape[1:], None, type.device)


def stacked(type: Type, length: Any) -> Type:
    """The type of so many tensors of one type, one on the other."""
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    return TensorType(type.dtype, (length, *type.shape), None, type.device)


def output_types(node: Node, found: Sequence[Sequence[Type | None]] | None = None) -> list[Type | None]:
    """The types of the outputs of a node.

    Args:
        node: The node.
        found: The types of what each sub-graph gives, unless they are those that these declare.
    """
    given = [[v.type if isinstance(v, Value) else None for v in g.outputs] for g in node.subgraphs]
    first, *others = map(list, found or given)
    if node.kind == IF:
        pairs = zip(first, *others, (value.type for value in node.outputs))
        return [None if a is None or b is None else common_type(a, b, declared) for a, b, declared in pairs]
    length = _length(node)
    return [
        type if at < carried(node) or type is None else stacked(type, length) for at, type in enumerate(first)
    ]  # fmt: skip


def common_type(a: Type, b: Type, declared: Type | None = None) -> Type:
    """The type of what is of one of two types, of one dtype and as many dims: sizes that differ are not known.

    Args:
        a: One.
        b: The other.
        declared: What is said of it elsewhere: sizes that are known there do not differ.
    """
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a
    shapes = [type.shape for type in (a, b, declared) if isinstance(type, TensorType) and type.shape is not None]
    if not shapes:
        return a
    unknown = (None,) * len(shapes[0])
    sides = zip(a.shape or unknown, b.shape or unknown)
    fixed = declared.shape if isinstance(declared, TensorType) and declared.shape is not None else unknown
    sizes = (m if size is not None or _is_same(m, n) else None for (m, n), size in zip(sides, fixed))
    return TensorType(a.dtype, tuple(sizes), None, a.device)


def _is_same(m: Any, n: Any) -> bool:
    """Whether two sizes are the same number or expression; nobody is asked whether they are equal by chance."""
    return bool(m.is_same(n)) if type(m) is SizeExpr else type(n) is not SizeExpr and m == n


def _length(node: Node) -> Any:
    rows = node.inputs[carried(node)].type if scanned(node) else None
    return rows.shape[0] if isinstance(rows, TensorType) and rows.shape else None


def problems(node: Node) -> Iterator[str]:
    """All that is wrong with a node of control flow, besides the numbers of inputs and outputs of its sub-graphs."""
    names = SUBGRAPHS[node.kind]
    if [name for name in node.attributes if isinstance(node.attributes[name], Graph)] != list(names):
        yield f"{node.kind} has the sub-graphs {' and '.join(names)}"
        return
    if node.kind != SCAN and not (node.inputs and _decides(node.inputs[0].type)):
        yield "its first operand is no bool"
    if carried(node) + scanned(node) > len(node.inputs) or (node.kind == SCAN and not scanned(node)):
        yield "it has fewer operands than it says"
        return
    wanted = formal_types(node)
    for graph in node.subgraphs:
        yield from _misfits(graph.inputs, wanted, "takes")
        results = [value for value in graph.outputs if isinstance(value, Value)]
        if len(results) != len(graph.outputs) or graph.stages[0].updates:
            yield "its sub-graph returns something else than values, or changes an input"
            return
        yield from _misfits(results, [_row_or_whole(node, at) for at in range(len(node.outputs))], "gives")
        if node.kind != IF:
            yield from _misfits(results, [value.type for value in node.inputs[: carried(node)]], "gives")


def _row_or_whole(node: Node, at: int) -> Type:
    type = node.outputs[at].type
    return row_of(type) if node.kind != IF and at >= carried(node) else type


def _decides(type: Type) -> bool:
    return type == BOOL or (isinstance(type, TensorType) and type.dtype in (bool_, None))


def _misfits(values: Sequence[Value], types: Sequence[Type], verb: str) -> Iterator[str]:
    for value, wanted in zip(values, types):
        if not _agree(value.type, wanted):
            yield f"its sub-graph {verb} %{value.name} as {value.type}, which is {wanted} outside"


def _agree(a: Type, b: Type) -> bool:
    """Whether two may be types of one value; strides are the matter of whoever runs it."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a == b
    if (a.dtype and b.dtype and a.dtype is not b.dtype) or a.device != b.device:
        return False
    if a.shape is None or b.shape is None:
        return True
    pairs = zip(a.shape, b.shape)
    return len(a.shape) == len(b.shape) and all(m == n for m, n in pairs if type(m) is int and type(n) is int)
