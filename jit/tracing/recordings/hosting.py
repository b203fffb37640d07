"""Runs the Python functions of a graph for the interpreter, which sees arrays only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.eager import context, dispatch
from jit.eager.autocasting import autocasting
from jit.eager.tensors import Tensor, Variable, alias, tensor_of
from jit.ir import HANDLE, Node, TensorType, dtypes
from jit.ir.errors import TraceError
from jit.ir.precision import Regime
from jit.runtime.arrays.libraries import contiguous

from .histories import PassThrough
from .recalling import run_once


class PythonHost:
    """Calls PythonOps and the backwards behind their Handles."""

    def call(self, node: Node, arrays: Sequence[Any]) -> list[Any]:
        """Run `^Name` or `cpp::name` on arrays: results, then the Handle if the node has one."""
        function = node.attributes.get("function")
        if function is None:
            raise TraceError(
                f"{node.kind} cannot run: its function is not part of the graph; give it to parse(functions=...)"
            )
        if node.kind.startswith("cpp::"):
            return list(function.run(arrays))
        has_handle = bool(node.outputs) and node.outputs[-1].type is HANDLE
        with context.tracing(None), context.set_grad_enabled(has_handle), autocasting(region_of(node)):
            tensors = _operands(node, arrays, has_handle)
            tracked = any(t.requires_grad for t in tensors)
            result, history = run_once(function, arguments_of(node, tensors), tensors, has_handle and tracked)
        outputs = [_owned(t._array, arrays) for t in dispatch.unpack(result)]
        _check_results(node, outputs)
        outputs = [_laid_out(a, v.type) for a, v in zip(outputs, node.outputs, strict=False)]
        return [*outputs, history] if has_handle else outputs

    def evaluate(self, handle: Any, gradients: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run the backward behind `handle`."""
        tensors = [None if g is None else tensor_of(g) for g in gradients]
        with context.tracing(None), context.no_grad(), autocasting(None):
            results = handle._run(tensors, wanted)
        given = tuple(r is not None for r in results)
        if given != wanted:
            raise TraceError(
                f"{handle.name} returned other gradients than when it was recorded: {given} instead of {wanted}; "
                "return gradients of the same arguments in every call"
            )
        return [contiguous(r._array) for r in results if r is not None]


def _operands(node: Node, arrays: Sequence[Any], has_handle: bool) -> list[Tensor]:
    """The arrays as tensors like the recorded arguments: copies where the function writes, with or without grad."""
    treatment = node.attributes.get("treatment")
    floating = tuple(a.dtype.kind in "fcV" for a in arrays)
    needs = floating if treatment is None else treatment.needs
    written = (False,) * len(arrays) if treatment is None else treatment.written
    tensors = [tensor_of(a.copy() if w else a) for a, w in zip(arrays, written, strict=True)]
    return [_no_leaf(t) if has_handle and n else t for t, n in zip(tensors, needs, strict=True)]


def _no_leaf(tensor: Tensor) -> Tensor:
    """A tensor that requires grad, but is not a leaf, so that a function may write to it."""
    inner = alias(tensor, Variable)
    inner.set_history(PassThrough("", (None,)))  # type: ignore[attr-defined]
    return inner


def _owned(array: Any, arrays: Sequence[Any]) -> Any:
    """A result, copied if it is memory of an argument."""
    return array.copy() if any(np.may_share_memory(array, other) for other in arrays) else array


def _laid_out(array: Any, type: Any) -> Any:
    """A result as it lay while recording, or row-major: views of it were recorded for that."""
    strides = tuple(s // array.itemsize for s in array.strides)
    return array if strides == type.strides else contiguous(array)


def _check_results(node: Node, outputs: Sequence[Any]) -> None:
    """TraceError if results are of other dtypes or sizes than while recording, for which the rest was recorded."""
    expected = [value.type for value in node.outputs if isinstance(value.type, TensorType)]
    found = [(dtypes.from_numpy(a.dtype), a.shape) for a in outputs]
    wanted = [(t.dtype, t.shape) for t in expected]
    if found != wanted and all(t.sizes is not None for t in expected):
        raise TraceError(
            f"at {node.source}: {node.kind[1:]} returned {_described(found)}, but {_described(wanted)} when recorded; "
            "have it return the same kinds of tensors for the same kinds of arguments"
        )


def _described(kinds: Sequence[Any]) -> str:
    return ", ".join(f"{dtype.name}{list(shape)}" for dtype, shape in kinds) or "nothing"


def region_of(node: Node) -> Regime | None:
    """The setting of `autocast` where a PythonOp was recorded."""
    treatment = node.attributes.get("treatment")
    return None if treatment is None else treatment.region


def arguments_of(node: Node, tensors: Sequence[Any]) -> list[Any]:
    """The arguments of a PythonOp in a call; tensors alone if the node was parsed from text."""
    recorded = node.attributes.get("arguments")
    return [*tensors] if recorded is None else recorded.filled(tensors)
