"""`prim::raises`: whether an operator with these operands raises an error of that class, as it did while recording.

    %0 : bool = prim::raises[op="aten::gather", error="DimError", dim=0](%x, %i)
    prim::Guard[expected=True](%0)

Operands and attributes are those that the operator's own node would have. `op` may be an operator, an in-place one
(`aten::add_`), whose result has to fit into its first operand as well, or arithmetic on numbers (`prim::floordiv`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import Error
from .graph import Node, Value, leaves
from .op import Op, find
from .scalars import ScalarFunction, scalar_function
from .sizes import any_symbolic
from .types import GENERATOR, UNDEFINED, ScalarType, TensorType

KIND = "prim::raises"
_OWN = ("op", "error")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The operator that a `prim::raises` node tries, and its operands."""

    what: Op | ScalarFunction
    writes: bool
    """Whether an operator writes its result into its first operand."""
    error: str
    """The name of the class."""
    operands: list[Any]
    attributes: dict[str, Any]

    def arguments(self, node: Node, lookup: Callable[[Value], Any]) -> list[Any]:
        """The operands of a number's function, or schema-ordered arguments, with `lookup` applied to their Values."""
        operands = [node.resolve(item, lookup) for item in node.args]
        if not isinstance(self.what, Op):
            return operands
        return self.what.join(operands, {name: node.resolve(node.attributes[name], lookup) for name in self.attributes})


def attempt_of(node: Node) -> Attempt | None:
    """The attempt of a `prim::raises` node; None if it names no operator that exists."""
    kind, error = node.attributes.get("op"), node.attributes.get("error")
    if node.kind != KIND or not isinstance(kind, str) or not isinstance(error, str):
        return None
    what, writes = _named(kind)
    attributes = {name: value for name, value in node.attributes.items() if name not in _OWN}
    return None if what is None else Attempt(what, writes, error, list(node.operands), attributes)


def _named(kind: str) -> tuple[Op | ScalarFunction | None, bool]:
    op = find(kind)
    if op is not None:
        return op, False
    base, dot, overload = kind.partition(".")
    written = find(f"{base[:-1]}{dot}{overload}") if base.endswith("_") else None
    return (scalar_function(kind), False) if written is None else (written, True)


def name_in_place(op: Op) -> str:
    """The name of an operator's in-place form: `aten::index_fill_.int_Scalar`."""
    base, dot, overload = op.name.partition(".")
    return f"{base}_{dot}{overload}"


def raises_always(node: Node) -> bool:
    """Whether a `prim::raises` node that was true while recording is true for all operands of these dtypes and sizes.

    It is where all sizes are numbers and the elements of the operands do not matter. Sizes that are expressions are not
    those of the recording, even where somebody decides on them. A composite refuses operands by their sizes, or by a
    decision on elements that is guarded.
    """
    attempt = attempt_of(node)
    if attempt is None or not all(map(_is_fixed, node.inputs)) or _tells_sizes(node):
        return False
    if not isinstance(attempt.what, Op):
        return True  # its operands are numbers that are the same in every run
    op = attempt.what
    if op.kind == "composite":
        return True
    types = attempt.arguments(node, lambda value: None if value.type is UNDEFINED else value.type)
    try:
        if not op.may_raise(types):
            return True
        op.infer(types)
    except Error:
        return True
    except Exception:  # a rule may stumble in any way over operands that it cannot foresee
        return False
    return False


def _is_fixed(value: Value) -> bool:
    if isinstance(value.type, TensorType):
        known = value.type.sizes is not None and not any_symbolic(value.type.shape, value.type.strides)
        return value.type.dtype is not None and known
    return value.type is UNDEFINED or value.type == GENERATOR


def _tells_sizes(node: Node) -> bool:
    """Whether sizes that are expressions stand in the operands or attributes of a node."""
    return any(any_symbolic(leaves(item)) for item in (node.args, *node.attributes.values()))


def may_raise(node: Node) -> bool:
    """Whether elements, or numbers read from them, can make a node raise: then it must run even if nobody uses it."""
    function = scalar_function(node.kind)
    if function is not None:
        return function.may_raise(node.operands)
    op = find(node.kind)
    if op is None or (op.raises is False and not any(_is_measured(value) for value in node.inputs)):
        return False
    if op.kind == "composite":
        return False  # its parts may
    if any(_is_measured(value) for value in node.inputs):
        return True
    types = {name: node.resolve(item, _described) for name, item in node.attributes.items()}
    return _asked(op, op.join(node.resolve(node.args, _described), types))


def _asked(op: Op, values: list[Any]) -> bool:
    try:
        return op.may_raise(values)
    except Error:  # operands of unknown dtypes
        return True


def _described(value: Value) -> Any:
    if isinstance(value.type, ScalarType):
        return 0.0 if value.type.name == "float" else 0
    return None if value.type is UNDEFINED else value.type


def _is_measured(value: Value) -> bool:
    """Whether a value is a number that depends on elements."""
    while isinstance(value.type, ScalarType) and not value.is_input:
        if value.node.kind == "prim::item":
            return True
        numbers = [other for other in value.node.inputs if isinstance(other.type, ScalarType)]
        if len(numbers) != 1:
            return any(map(_is_measured, numbers))
        (value,) = numbers
    return False
