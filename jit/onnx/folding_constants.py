"""Folding: nodes that depend on constants alone are computed once, when a model is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.eager.context import no_grad
from jit.eager.tensors import Tensor
from jit.ir.errors import Error

from .model_context import ModelContext
from .values import Known
from .walk import Walk

if TYPE_CHECKING:
    import onnx

MOST_BYTES = 1 << 30
"""The most memory that the results take together."""
_MOVING = frozenset({"Cast", "Concat", "Flatten", "Identity", "Neg", "Reshape", "Slice", "Squeeze", "Unsqueeze"})
"""Operators whose results are about as large as their operands."""
_MAKING = frozenset({"ConstantOfShape", "Range"})
"""Operators whose results are as large as small operands say."""


def fold_constants(
    nodes: Sequence[onnx.NodeProto], context: ModelContext, learnable: Mapping[str, Any]
) -> list[onnx.NodeProto]:
    """The nodes that are left; the results of the others are among the context's constants now.

    Args:
        nodes: The nodes of the model's graph, in their order.
        context: What is known of the model; its constants grow.
        learnable: Names of weights, through which gradients have to find their way.
    """
    left, spent = [], 0
    for node in nodes:
        found = _computed(node, context, MOST_BYTES - spent) if _is_foldable(node, context, learnable) else None
        if found is None:
            left.append(node)
        else:
            spent += found.nbytes
            context.constants[node.output[0]] = found
    return left


def _is_foldable(node: onnx.NodeProto, context: ModelContext, learnable: Mapping[str, Any]) -> bool:
    if node.domain not in ("", "ai.onnx") or node.op_type not in _MOVING | _MAKING or len(node.output) != 1:
        return False
    if ("", node.op_type) in context.functions or not any(node.input):
        return False
    known = [context.constants.get(name) for name in node.input if name]
    return all(array is not None for array in known) and not any(
        name in learnable and array is not None and array.dtype.kind not in "iub"
        for name, array in zip(filter(None, node.input), known, strict=True)
    )


def _computed(node: onnx.NodeProto, context: ModelContext, budget: int) -> np.ndarray[Any, Any] | None:
    """The result; None if it would be large, or there is none, which the call will say."""
    if _size(node, context.constants) * 8 > budget:
        return None
    try:
        walk = Walk([node], [], list(node.output), replace(context))
        with no_grad():
            (found,) = walk.run([], {name: Known(context.constants[name]) for name in node.input if name})
        array = found.numpy() if isinstance(found, Tensor) else found.array if isinstance(found, Known) else None
    except (Error, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
        return None
    return None if array is None or array.dtype == object else np.array(array)


def _size(node: onnx.NodeProto, constants: Mapping[str, np.ndarray[Any, Any]]) -> float:
    """A bound of the number of elements of a result: there are no fewer, but for slices."""
    given = [constants[name] for name in node.input if name]
    if node.op_type == "ConstantOfShape":
        return float(np.prod(given[0].astype(np.float64)))
    if node.op_type == "Range" and all(each.size == 1 for each in given) and len(given) == 3:
        start, limit, delta = (float(each.ravel()[0]) for each in given)
        return abs(limit - start) / abs(delta) if delta else float("inf")
    return float(sum(each.size for each in given))
