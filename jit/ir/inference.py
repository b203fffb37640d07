"""Types of a node's outputs before it runs: the operator's type rule applied to the types of its inputs."""

from __future__ import annotations

from typing import Any

from .control import is_control, output_types
from .errors import UndecidedSizeError
from .geometry import broadcast_shapes
from .graph import Node, Value
from .op import Op, find
from .scalars import result_type, scalar_function, type_of_category, type_of_number
from .types import BOOL, GENERATOR, INT, TENSOR, UNDEFINED, ScalarType, TensorType, Type

SIZES = ("prim::size", "aten::size")
"""The kinds of nodes that read a size: `prim::size[dim=0](%x)`."""


def inferred_types(node: Node, whole: bool = False) -> list[Type] | None:
    """The types that follow from the node's operands, one per output.

    Args:
        node: A node whose inputs have types.
        whole: Whether a composite is asked for its own rule; else it has the types of its parts.

    Returns:
        None where there is no rule; unknown types (`Tensor`) where too little is known of the operands.

    Raises:
        Error: The operands do not fit each other.

    >>> from jit.ir import parse
    >>> graph = parse("graph(%x : Float(2, 3)) { %n : int = prim::size[dim=0](%x) return (%n) }")
    >>> [str(type) for type in inferred_types(next(graph.nodes))]
    ['int']
    """
    op = find(node.kind)
    if is_control(node):
        return [type or TENSOR for type in output_types(node)]
    if op is None:
        scalar = _scalar_type(node)
        return None if scalar is None else [scalar]
    if (op.kind == "composite" and not whole) or (op.type_rule is None and op.kind not in ("view", "pointwise")):
        return None
    try:
        return op.infer(_arguments(node, op))
    except _UnknownNumber:
        return [_broadcast(node)] if op.kind == "pointwise" else None
    except UndecidedSizeError:
        return None


def _broadcast(node: Node) -> TensorType:
    """The type of a pointwise result, with its sizes alone: these no number has a say in."""
    types = [value.type for value in node.inputs if isinstance(value.type, TensorType)]
    if not types or any(type.sizes is None for type in types):
        return TensorType()
    return TensorType(None, broadcast_shapes(*(type.sizes or () for type in types)), None, types[0].device)


class _UnknownNumber(Exception):
    """A type rule would have to know the value of a traced number."""


def _arguments(node: Node, op: Op) -> list[Any]:
    attributes = {
        name: node.resolve(item, _any_offset if name in op.offsets else _type_of)
        for name, item in node.attributes.items()
    }
    return op.join(node.resolve(node.args, _type_of), attributes)


def _any_offset(value: Value) -> int:
    """A number for one that is not known, on which sizes do not depend."""
    return 0


def _type_of(value: Value) -> Type | None:
    if isinstance(value.type, TensorType) or value.type == GENERATOR:
        return value.type
    if value.type == UNDEFINED:
        return None
    raise _UnknownNumber


# -- numbers -----------------------------------------------------------------------------------------------------


def _scalar_type(node: Node) -> ScalarType | None:
    """The type of `prim::size`, `prim::item` and of arithmetic on traced numbers, `prim::add` and its like."""
    if node.kind in SIZES:
        return INT
    if node.kind == "prim::raises":
        return BOOL
    if node.kind == "prim::item" and node.inputs:
        return _element_type(node.inputs[0].type)
    function = scalar_function(node.kind)
    return None if function is None else result_type(function, [_number_type(item) for item in node.operands])


def _element_type(type: Type) -> ScalarType | None:
    return type_of_category(type.dtype.category) if isinstance(type, TensorType) and type.dtype else None


def _number_type(item: Any) -> ScalarType | None:
    if isinstance(item, Value):
        return item.type if isinstance(item.type, ScalarType) else None
    return type_of_number(item)
