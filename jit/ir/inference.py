"""What is known of a node's outputs before it runs: the operator's type rule applied to the types of its inputs."""

from __future__ import annotations

from typing import Any

from .graph import Node, Value
from .op import Op, find
from .types import BOOL, COMPLEX_SCALAR, FLOAT, GENERATOR, INT, UNDEFINED, ScalarType, TensorType, Type

_RANK = (BOOL, INT, FLOAT, COMPLEX_SCALAR)
_OF_PYTHON: dict[type, ScalarType] = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX_SCALAR}
_WIDEST = {"add", "sub", "mul", "floordiv", "mod", "neg", "abs", "lshift", "rshift"}
_BITS = {"and", "or", "xor"}
_FIXED: dict[str, ScalarType] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "not", "bool"), BOOL),
    **dict.fromkeys(("int", "floor", "ceil", "round", "trunc"), INT),
    **dict.fromkeys(("float", "sqrt"), FLOAT),
}


def inferred_types(node: Node) -> list[Type] | None:
    """The types that follow from the node's operands, one per output.

    Args:
        node: A node whose inputs have types.

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
    if op is None:
        scalar = _scalar_type(node)
        return None if scalar is None else [scalar]
    if op.kind == "composite" or (op.type_rule is None and op.kind not in ("view", "pointwise")):
        return None
    try:
        return op.infer(_arguments(node, op))
    except _Unknown:
        return None


class _Unknown(Exception):
    """A traced number, whose value a type rule would have to know."""


def _arguments(node: Node, op: Op) -> list[Any]:
    attributes = {name: node.resolve(item, _type_of) for name, item in node.attributes.items()}
    return op.join(node.resolve(node.args, _type_of), attributes)


def _type_of(value: Value) -> Type | None:
    if isinstance(value.type, TensorType) or value.type == GENERATOR:
        return value.type
    if value.type == UNDEFINED:
        return None
    raise _Unknown


# -- numbers -----------------------------------------------------------------------------------------------------


def _scalar_type(node: Node) -> ScalarType | None:
    """The type of `prim::size`, `prim::item` and of arithmetic on traced numbers, `prim::add` and its like."""
    namespace, _, name = node.kind.partition("::")
    if name == "size":
        return INT
    if name == "item":
        return _element_type(node.inputs[0].type) if node.inputs else None
    if namespace != "prim" or name in _FIXED:
        return _FIXED.get(name) if namespace == "prim" else None
    kinds = [_number_type(item) for item in node.operands]
    if not kinds or None in kinds:
        return None
    widest = max(_RANK.index(kind) for kind in kinds if kind)
    if name == "truediv":
        return _RANK[max(widest, _RANK.index(FLOAT))]
    if name in _BITS:
        return _RANK[widest]
    return _RANK[max(widest, _RANK.index(INT))] if name in _WIDEST else None


def _element_type(type: Type) -> ScalarType | None:
    return _RANK[type.dtype.category] if isinstance(type, TensorType) and type.dtype else None


def _number_type(item: Any) -> ScalarType | None:
    if isinstance(item, Value):
        return item.type if isinstance(item.type, ScalarType) else None
    return _OF_PYTHON.get(type(item))
