"""Runs the Python functions of a graph for the interpreter, which sees arrays only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jit.ir import HANDLE, Node
from jit.ir.errors import TraceError

from . import context, dispatch
from .tensors import Tensor


class PythonHost:
    """Calls PythonOps and the backwards behind their Handles."""

    def call(self, node: Node, arrays: Sequence[Any]) -> list[Any]:
        """Run `^Name` or `cpp::name` on arrays: results, then the Handle if the node has one."""
        function = node.attributes.get("function")
        if function is None:
            raise TraceError(f"{node.kind} cannot run: its function is not part of the graph; give it to parse(functions=...)")
        if node.kind.startswith("cpp::"):
            return list(function.run(arrays))
        has_handle = bool(node.outputs) and node.outputs[-1].type is HANDLE
        tensors = [Tensor(a).requires_grad_() if has_handle and a.dtype.kind in "fcV" else Tensor(a) for a in arrays]
        with context.tracing(None), context.set_grad_enabled(has_handle):
            inputs = [_no_leaf(t) if has_handle else t for t in tensors]
            result, history = function._run(arguments_of(node, inputs))
        outputs = [t._array for t in dispatch.unpack(result)]
        return [*outputs, history] if has_handle else outputs

    def evaluate(self, handle: Any, gradients: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Run the backward behind `handle`."""
        tensors = [None if g is None else Tensor(g) for g in gradients]
        with context.tracing(None), context.no_grad():
            results = handle._run(tensors, wanted)
        return [r._array for r, want in zip(results, wanted, strict=True) if want and r is not None]


def _no_leaf(tensor: Tensor) -> Tensor:
    """An argument that a function may write to although gradients are recorded."""
    from .stages import stand_in

    inner, _ = stand_in(tensor)
    return inner


def arguments_of(node: Node, tensors: Sequence[Any]) -> list[Any]:
    """The arguments of a PythonOp: its constants with `tensors` in their places."""
    rest = iter(tensors)
    return [next(rest) if repr(a) == "tensor" else a for a in node.attributes["arguments"]]
