"""Questions of a pass before it changes a graph: its sub-graphs, its effects, the memory that leaves it."""

from __future__ import annotations

from jit.ir import Graph, Node, TensorType, Type, Value, find
from jit.ir.inference import inferred_types
from jit.ir.verifier import mutates

_FRESH = ("pointwise", "array", "random")
"""Kinds of operators whose results are always new memory."""


def with_subgraphs(graph: Graph) -> list[Graph]:
    """`graph` and all graphs inside it, outer ones first."""
    graphs = [graph]
    for current in graphs:
        for node in current.nodes:
            graphs += node.subgraphs
    return graphs


def has_subgraphs(node: Node) -> bool:
    """True for composites with a body, fusion groups and their like (a graph without nodes is falsy, so no `any`)."""
    return next(node.subgraphs, None) is not None


def calls_out(node: Node) -> bool:
    """True if the node runs code that is not ours: a PythonOp, a CppOp, or the backward of one."""
    return node.kind.startswith(("^", "cpp::")) or node.kind == "prim::Eval"


def communicates(node: Node) -> bool:
    """True if the node exchanges something with other processes."""
    op = find(node.kind)
    return op is not None and op.communicates


def has_effects(node: Node) -> bool:
    """True if the node must run even if nobody uses its outputs (sub-graphs aside).

    These are guards and prints and whatever else has no outputs, nodes that change an argument, operators that
    communicate, and calls of foreign code unless they are marked `pure=True`.
    """
    if not node.outputs or mutates(node) or node.kind in ("prim::Guard", "prim::Print") or communicates(node):
        return True
    return calls_out(node) and node.attributes.get("pure") is not True


def escaping(graph: Graph) -> set[Value]:
    """The values whose memory may outlive its stage: what is returned, written back or used later, and its bases.

    Note [Escaping values]
        In eager mode `return x * 1` hands out new memory, so the caller may change the result and keep x. To replace
        such a value by another one would let the two share memory:

            %y = aten::mul(%x, 1)           return (%x)        # must not happen
            return (%y)

        The same holds for a value that a later stage reads, because its base may change in between, and for the base
        of a view that escapes. Everything else is seen by nobody but pure operators, and may be shared freely.
    """
    found = {value for stage in graph.stages for value in stage.result.inputs}
    for node in graph.reversed_nodes:
        found.update(value for value in node.inputs if value.stage < node.stage)
        if not found.isdisjoint(node.outputs) and not _makes_new_memory(node):
            found.update(node.inputs)
    return found


def _makes_new_memory(node: Node) -> bool:
    op = find(node.kind)
    return op is not None and op.kind in _FRESH


def fixed_shapes(graph: Graph) -> set[Value]:
    """The values whose declared sizes hold in every run, not just in the one that was recorded."""
    sure = fixed_inputs(graph)
    for node in graph.nodes:
        confirm_sizes(node, sure)
    return sure


def fixed_inputs(graph: Graph) -> set[Value]:
    """The inputs with known sizes: a call, or a backward, is matched to its graph by their types, so those are sure."""
    return {value for stage in graph.stages for value in stage.inputs if _sizes(value.type) is not None}


def confirm_sizes(node: Node, sure: set[Value]) -> None:
    """Add the node's outputs to `sure` if a type rule derives their sizes from sizes that are sure.

    What depends on data (nonzero), on foreign code or on a named dim is not sure.
    """
    if node.kind == "prim::Constant":
        sure.update(node.outputs)
    elif all(value in sure or not isinstance(value.type, TensorType) for value in node.inputs):
        try:
            types = inferred_types(node) or []
        except Exception:  # the operands do not fit, which the verifier has to say
            return
        pairs = zip(node.outputs, types)
        sure.update(value for value, type in pairs if _sizes(type) is not None and _sizes(value.type) == _sizes(type))


def row_major_values(graph: Graph) -> set[Value]:
    """The tensors whose elements certainly follow each other in row-major order in every run.

    These are inputs of stage 0 that are declared so, constants, and what pointwise operators and views make of them.
    Other declarations say how the elements lay when they were recorded, or what a type rule assumes; a kernel may
    answer to transposed operands with a transposed result.
    """
    sure = {value for value in graph.inputs if _declared_row_major(value)}
    for node in graph.nodes:
        op = find(node.kind)
        keeps_order = op is not None and op.kind in ("pointwise", "view") and all(
            value in sure or not isinstance(value.type, TensorType) for value in node.inputs
        )  # fmt: skip
        if keeps_order or node.kind == "prim::Constant":
            sure.update(value for value in node.outputs if _declared_row_major(value))
    return sure


def _declared_row_major(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None and value.type.strides is None


def _sizes(type: Type) -> tuple[int, ...] | None:
    return type.sizes if isinstance(type, TensorType) else None
