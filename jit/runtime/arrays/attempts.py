"""Runs `prim::raises`: tries an operator, and says whether it raises the error that it raised while recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jit.ir import Node, Op, dtypes
from jit.ir.attempts import Attempt, attempt_of, raises_always
from jit.ir.errors import DTypeError, GraphError, ShapeError

from .execute import execute


def attempt(node: Node) -> Callable[[Callable[[Any], Any]], bool]:
    """A function that says whether the operator raises as it did, given a lookup of the node's Values."""
    wanted = attempt_of(node)
    if wanted is None:
        raise GraphError(f"{node.kind} names no operator and error that exist; write it as in `jit.ir.attempts`")
    if raises_always(node) or (isinstance(wanted.what, Op) and wanted.what.kind == "composite"):
        return lambda lookup: True

    def run(lookup: Callable[[Any], Any]) -> bool:
        try:
            _try(wanted, wanted.arguments(node, lookup))
        except Exception as error:  # with another error the function takes another path
            return type(error).__name__ == wanted.error
        return False

    return run


def _try(wanted: Attempt, values: list[Any]) -> None:
    if not isinstance(wanted.what, Op):
        wanted.what.python(*values)
        return
    op = wanted.what
    state = next((v for a, v in zip(op.arguments, values, strict=True) if a.type.base == "Generator"), None)
    results = execute(op, values, state)
    if wanted.writes:
        _check_fit(results[0], values[0])


def _check_fit(result: Any, target: Any) -> None:
    """Check a result that is to be written over a tensor, as `jit.eager.dispatch.write` does."""
    if result.shape != target.shape and (
        result.size == 0 or np.broadcast_shapes(result.shape, target.shape) != target.shape
    ):
        raise ShapeError("the result does not fit the tensor that is written to")
    if dtypes.from_numpy(result.dtype).category > dtypes.from_numpy(target.dtype).category:
        raise DTypeError("the result cannot be written into the dtype of the tensor that is written to")
