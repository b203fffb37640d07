"""The symbols of sizes of which nodes speak, in the types of their values or in what they are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .graph import Node, leaves
from .sizes import SizeExpr, SizeSymbol
from .types import TensorType


def symbols_in(nodes: Iterable[Node]) -> set[SizeSymbol]:
    """The symbols in nodes, bodies included."""
    return {symbol for size in _sizes_in(nodes) for symbol in size.symbols}


def _sizes_in(nodes: Iterable[Node]) -> Iterator[SizeExpr]:
    for node in nodes:
        types = [value.type for value in (*node.inputs, *node.outputs) if isinstance(value.type, TensorType)]
        told: Any = [node.args, node.attributes, *((type.shape, type.strides) for type in types)]
        yield from (leaf for leaf in leaves(told) if type(leaf) is SizeExpr)
        for body in node.subgraphs:
            yield from _sizes_in(body.nodes)
