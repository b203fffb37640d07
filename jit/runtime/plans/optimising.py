"""Improves graphs by passes, with what these need to know of the runtime, which they may not import themselves."""

from __future__ import annotations

from typing import Any

from jit.ir import Graph, Node, Op, TensorType
from jit.ir.collector import collector_resting
from jit.passes import OPTIMIZE, apply


def optimised(graph: Graph) -> Graph:
    """A copy of the graph, improved by the passes."""
    with collector_resting():
        improved = graph.clone()
        apply(improved, OPTIMIZE, options=pass_options())
        return improved


def pass_options() -> dict[str, dict[str, Any]]:
    """Options of passes that tell them what the runtime can do."""
    kernels = {"supported": supported}
    return {"constant_fold": {"evaluate": _evaluate}, "distribute": kernels, "fuse": kernels}


def _evaluate(op: Op, values: Any) -> Any:
    from ..arrays.execute import execute

    return execute(op, values)


def supported(node: Node) -> bool:
    """Whether there is a kernel for a node."""
    from ..kernels.fusion import supports

    tensors = (v.type for v in (*node.inputs, *node.outputs) if isinstance(v.type, TensorType))
    return len({type.device for type in tensors}) <= 1 and supports(node)
