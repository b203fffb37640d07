"""Turns a join of products by one matrix into one product of joined rows."""

from __future__ import annotations

from jit.ir import Graph, Node, TensorType, Value
from jit.ir.sizes import estimating, only_if

from .support.analysis import with_subgraphs
from .support.builder import GraphBuilder
from .support.spaces import argument, is_join, sizes_of

SHORT = 128
"""The most rows of a product that is joined with others: reading the matrix once must count."""


STACKING = ("aten::unsqueeze", "aten::view", "aten::reshape")
"""The views that may stand between a product and a join, if all they do is to put a dim of size 1 in front."""


def join_products(graph: Graph) -> bool:
    """Replace products by one matrix that are joined row after row by one product; says whether there were any.

    The gradient of the sequence that a loop over time reads is such a join, and its rows are joined for the gradient of
    the weight anyway:

    Given                                                Result
        %1 : Float(16, 32) = aten::mm(%a, %w)                %1 : Float(32, 64) = aten::cat([%a, %b])
        %2 : Float(16, 32) = aten::mm(%b, %w)                %2 : Float(32, 32) = aten::mm(%1, %w)
        %3 : Float(1, 16, 32) = aten::unsqueeze(%1)          %3 : Float(2, 16, 32) = aten::view(%2)
        %4 : Float(1, 16, 32) = aten::unsqueeze(%2)
        %5 : Float(2, 16, 32) = aten::cat([%3, %4])

    Nothing else may read the products, and they have few rows: those of many keep a processor busy by themselves. Each
    element is the same sum as before.
    """
    changes = [_joined(node) for inner in with_subgraphs(graph) for node in list(inner.nodes)]
    return any(changes)


def _joined(node: Node) -> bool:
    if not is_join(node) or len(node.inputs) < 2 or argument(node, "dim") != 0:
        return False
    products = [_product(value, node) for value in node.inputs]
    first = products[0]
    if first is None or not all(p is not None and _are_alike(p, first) for p in products):
        return False
    if len({len(sizes_of(value)) for value in node.inputs}) > 1:
        return False
    assert node.graph is not None
    with node.graph.inserting_before(node):
        F = GraphBuilder(node.graph, node.stage, origin=node)
        rows = F.cat([F.wrap(product.inputs[0]) for product in products if product is not None], 0)
        made = F.mm(rows, F.wrap(first.inputs[1]))
        made = made if made.ndim == len(sizes_of(node.output)) else F.view(made, list(sizes_of(node.output)))
    parts = list(node.inputs)
    node.replace_with([made.value])
    for dead in [part.node for part in parts if part.node not in products] + [*filter(None, products)]:
        dead.erase()
    return True


def _product(part: Value, join: Node) -> Node | None:
    """The product of few rows that a part of a join shows, if nothing else reads either."""
    node = part.node
    if node.kind in STACKING and len(part.uses) == 1:
        node = node.inputs[0].node
    if node.kind != "aten::mm" or len(node.output.uses) != 1 or node.stage != join.stage:
        return None
    type = node.output.type
    if not isinstance(type, TensorType) or type.sizes is None or type.dtype is None or type.device != "cpu":
        return None
    sizes = type.sizes
    is_whole = only_if(lambda: sizes_of(part) in (sizes, (1, *sizes)))
    return node if is_whole and _is_short(sizes[0]) else None


@estimating()
def _is_short(rows: int) -> bool:
    return 0 < rows <= SHORT


def _are_alike(product: Node, first: Node) -> bool:
    """Whether two products are by one matrix and have results of one dtype."""
    types = [p.output.type for p in (product, first)]
    assert all(isinstance(type, TensorType) for type in types)
    return product.inputs[1] is first.inputs[1] and types[0].dtype is types[1].dtype  # type: ignore[attr-defined]
