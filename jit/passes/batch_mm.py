"""Turns a sum of matrix products into one product of longer matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.sizes import estimating, only_if

from .straighten import is_turn
from .support.analysis import with_subgraphs


def batch_mm(graph: Graph) -> bool:
    """Replace trees of additions over products by one product; says whether there were any.

    The gradient of a weight that a network uses many times is such a sum:

    Given                                                Result
        %1 : Float(64, 32) = aten::mm(%a, %b)                %1 : Float(64, 16) = aten::cat[dim=1]([%a, %c])
        %2 : Float(64, 32) = aten::mm(%c, %d)                %2 : Float(16, 32) = aten::cat[dim=0]([%b, %d])
        %3 : Float(64, 32) = aten::add(%1, %2)               %3 : Float(64, 32) = aten::mm(%1, %2)
        %4 : Float(64, 32) = aten::add(%3, %x)               %4 : Float(64, 32) = aten::add(%3, %x)

    Note [Which sums are worth it]
        A product is merged if nothing else uses it, and if joining its operands moves less memory than it saves: with
        m x k times k x n elements, 2 (m k + k n) are copied, and m n are not written, read and added. So short ones
        are merged and long ones, which keep a processor busy by themselves, are not.
    """
    changes = [_batch(inner) for inner in with_subgraphs(graph)]
    return any(changes)


@dataclass
class _Sum:
    """The terms of a tree of additions."""

    additions: list[Node] = field(default_factory=list)
    """The additions below the root, users before their operands."""
    products: list[Node] = field(default_factory=list)
    others: list[Value] = field(default_factory=list)


def _batch(graph: Graph) -> bool:
    order = {node: index for index, node in enumerate(graph.nodes)}
    inside: set[Node] = set()
    changed = False
    for node in list(graph.reversed_nodes):
        if node.graph is graph and node not in inside and _is_addition(node):
            found = _flatten(node, inside)
            if len(found.products) > 1:
                found.products.sort(key=lambda product: _age(product, order))
                _merge(graph, node, found)
                changed = True
    return changed


def _age(product: Node, order: dict[Node, int]) -> tuple[int, int, int]:
    """The place of a product among those that are joined: they come in the order in which their operands were made.

    A backward comes to the steps of a loop in reverse; what the loop has read from one tensor, one slice after the
    other, is in the right order again, so that joining it copies nothing.
    """
    operands = [_untransposed(value) for value in product.inputs]
    place, number = min((order.get(value.node, -1), value.offset) for value in operands)
    return place, number, order[product]


def _untransposed(value: Value) -> Value:
    return value.node.inputs[0] if is_turn(value.node) else value


def _is_addition(node: Node) -> bool:
    """A sum of two tensors of one type, neither broadcast nor scaled."""
    if node.kind != "aten::add" or len(node.inputs) != 2 or node.attributes.get("alpha", 1) != 1:
        return False
    made = _kind(node.output)
    return made is not None and only_if(lambda: all(_kind(value) == made for value in node.inputs))


def _kind(value: Value) -> object:
    """The dtype and sizes of a tensor on the CPU; None for others and where either is unknown."""
    type = value.type
    if not isinstance(type, TensorType) or type.sizes is None or type.dtype is None or type.device != "cpu":
        return None
    return type.dtype, type.sizes


def _flatten(root: Node, inside: set[Node]) -> _Sum:
    """The terms of the sum `root`; additions below it that nobody else uses are taken apart, and noted in `inside`."""
    found = _Sum()
    work = list(reversed(root.inputs))
    while work:
        value = work.pop()
        node = value.node
        private = len(value.uses) == 1 and node.graph is root.graph and node.stage == root.stage
        if private and _is_addition(node):
            inside.add(node)
            found.additions.append(node)
            work += reversed(node.inputs)
        elif private and node.kind == "aten::mm" and _is_short(node):
            found.products.append(node)
        else:
            found.others.append(value)
    return found


@estimating()
def _is_short(product: Node) -> bool:
    """Whether joining the operands is less work than adding up the result; see Note [Which sums are worth it]."""
    left, right = (v.type.sizes if isinstance(v.type, TensorType) else None for v in product.inputs)
    if left is None or right is None or not all(_kind(v) for v in product.inputs):
        return False
    (rows, inner), columns = left, right[1]
    return 2 * (rows * inner + inner * columns) < 4 * rows * columns


def _merge(graph: Graph, root: Node, found: _Sum) -> None:
    with graph.inserting_before(root):
        left = _joined(graph, [node.inputs[0] for node in found.products], 1, root)
        right = _joined(graph, [node.inputs[1] for node in found.products], 0, root)
        total = _add(graph, "aten::mm", (left, right), root)
        for value in found.others:
            total = _add(graph, "aten::add", (total, value), root)
    root.replace_with([total])
    for node in (*found.additions, *found.products):
        node.erase()


def _add(graph: Graph, kind: str, operands: tuple[Value, Value], root: Node) -> Value:
    node = graph.add(kind, operands, types=[root.output.type])
    node.source, node.scope = root.source, root.scope
    return node.output


def _joined(graph: Graph, values: Sequence[Value], dim: int, root: Node) -> Value:
    """The operands joined along `dim`; if all are transposed, the transpose of what they show, joined."""
    if all(is_turn(value.node) for value in values):
        whole = _joined(graph, [value.node.inputs[0] for value in values], 1 - dim, root)
        node = graph.add("aten::t", (whole,), {}, [_transposed(whole.type)])
        node.source, node.scope = root.source, root.scope
        return node.output
    types = [value.type for value in values]
    assert all(isinstance(type, TensorType) and type.sizes is not None for type in types)
    sizes = list(types[0].sizes)  # type: ignore[attr-defined]
    sizes[dim] = sum(type.sizes[dim] for type in types)  # type: ignore[attr-defined]
    joined = TensorType(types[0].dtype, tuple(sizes))  # type: ignore[attr-defined]
    node = graph.add("aten::cat", (tuple(values),), {"dim": dim}, [joined])
    node.source, node.scope = root.source, root.scope
    return node.output


def _transposed(type: object) -> TensorType:
    assert isinstance(type, TensorType) and type.sizes is not None
    rows, columns = type.sizes
    return TensorType(type.dtype, (columns, rows), (1, columns))
