"""Fills in the types that follow from the types of the inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jit.ir import Graph, Node, TensorType, Type, Value, dtypes
from jit.ir.control import formal_types, is_control, output_types
from jit.ir.errors import DTypeError, GraphError
from jit.ir.inference import inferred_types
from jit.ir.scalars import type_of_number
from jit.ir.verifier import neighbourhood

from .support.analysis import has_subgraphs


def infer_types(graph: Graph) -> bool:
    """Apply the type rules in order; what a node already says of its outputs is completed, never replaced.

    Constants have the type of their value, and the outputs of a node with a sub-graph the types of what that returns.

    Raises:
        GraphError: The operands of a node whose type was to be found do not fit each other.

    Given                                                Result
        graph(%x : Float(2, 3)) {                            graph(%x : Float(2, 3)) {
          %y : Tensor = aten::t(%x)                            %y : Float(3, 2, strides=[1, 3]) = aten::t(%x)
          return (%y)                                          return (%y)
        }                                                    }
    """
    changed = False
    walks = [_walk(graph)]  # a stack instead of recursion: a node's sub-graph comes between its inputs and its outputs
    while walks:
        step = next(walks[-1], None)
        if step is None:
            walks.pop()
        elif isinstance(step, Graph):
            walks.append(_walk(step))
        else:
            changed |= _complete(*step)
    return changed


def _walk(graph: Graph) -> Iterator[Graph | tuple[Value, Type | None]]:
    """The work in order: infer a sub-graph, or complete the type of a value."""
    for node in graph.nodes:
        if all(_is_complete(value.type) for value in node.outputs) and not has_subgraphs(node):
            continue
        given = formal_types(node) if is_control(node) else [value.type for value in node.inputs]
        for inner in node.subgraphs:
            yield from zip(inner.inputs, given)
            yield inner
        yield from zip(node.outputs, _types(node))


def _is_complete(type: Type) -> bool:
    return not isinstance(type, TensorType) or (type.dtype is not None and type.sizes is not None)


def _types(node: Node) -> list[Type | None]:
    if node.kind == "prim::Constant":
        return [_type_of_constant(node.attribute("value"))]
    if is_control(node):
        return output_types(node)
    for inner in node.subgraphs:
        results = [*inner.outputs, *(value for _, value in inner.stages[0].updates)]
        return [result.type if isinstance(result, Value) else type_of_number(result) for result in results]
    try:
        return list(inferred_types(node) or [])
    except Exception as error:  # a rule may stumble in any way over operands that it cannot foresee
        at = f" (asked for at {node.source})" if node.source else ""
        raise GraphError(f"the operands of {node.kind} do not fit: {error}{at}\n{neighbourhood(node)}") from error


def _type_of_constant(value: object) -> Type | None:
    if not isinstance(value, np.ndarray):
        return type_of_number(value)
    try:
        return TensorType(dtypes.from_numpy(value.dtype), value.shape)
    except DTypeError:
        return None


def _complete(value: Value, found: Type | None) -> bool:
    known = value.type
    if not isinstance(known, TensorType) or not isinstance(found, TensorType):
        return False
    value.type = _merged(known, found)
    return value.type != known


def _merged(known: TensorType, found: TensorType) -> TensorType:
    """The type that both together give; the declaration wins: it may name a dim, or know how the elements lie."""
    dtype = known.dtype or found.dtype
    if known.shape is None or found.shape is None or len(known.shape) != len(found.shape):
        shape, layout = (known.shape, known) if known.shape is not None else (found.shape, found)
        return TensorType(dtype, shape, layout.strides, layout.device)
    shape = tuple(b if a is None else a for a, b in zip(known.shape, found.shape, strict=True))
    layout = found if None in known.shape else known
    return TensorType(dtype, shape, layout.strides, layout.device)
