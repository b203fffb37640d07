"""Decides whether a kernel can compute a node, or look through it."""

from __future__ import annotations

from collections.abc import Callable

from jit.ir import Node, TensorType, find, kernel_of
from jit.ir.dtypes import COMPLEX
from jit.ir.kernel import ROWS
from jit.ir.types import is_contiguous

from .spaces import form_of, has_rows, is_cast, is_join, is_made_up, is_view, main_output

Supported = Callable[[Node], bool]
"""Whether code generation has a kernel for a node."""


def is_fusable(node: Node, supported: Supported) -> bool:
    """Whether a node can be in a group."""
    return obstacle(node, supported) is None


def obstacle(node: Node, supported: Supported) -> str | None:
    """Why a node cannot be in any group; None if it can."""
    op = find(node.kind)
    if op is None or not (node.inputs or is_made_up(node)):
        return f"{node.kind} computes nothing from tensors, so no loop can compute it"
    if not any(value.uses for value in node.outputs):
        return f"nobody reads what {node.kind} gives; it is there because it may raise"
    if op.kernel.product:
        return f"{node.kind} is a step of its own; a pointwise kernel may follow it tile by tile"
    special = is_special(node) or is_join(node)
    if not (special or is_cast(node) or is_made_up(node)) and (op.kind != "pointwise" or len(node.outputs) != 1):
        return f"there is no loop for {node.kind}: it is neither pointwise nor a reduction that kernels know"
    used = [v for v in node.outputs if v.uses] or [main_output(node)]
    if not all(is_known(v.type) for v in (*node.inputs, *used)):
        return f"the sizes or dtypes of {node.kind} are not known before it runs, or it computes complex numbers"
    if not all(is_row_major(v.type) for v in used):
        return f"the result of {node.kind} is not row-major, and kernels write row-major results"
    if special and not has_rows(node):
        return f"{node.kind} reduces a number, or what has no elements"
    return None if supported(node) else f"there is no kernel for {node.kind} of these dtypes"


def is_special(node: Node) -> bool:
    """True for what is not pointwise and is worth a kernel even alone."""
    form = form_of(node)
    return form in ROWS or form == "gather" or (form == "point" and kernel_of(node.kind).terms is not None)


def is_known(type: object) -> bool:
    """True for tensors of known sizes and dtype that are not complex."""
    return (
        isinstance(type, TensorType)
        and type.sizes is not None
        and type.dtype is not None
        and type.dtype.category < COMPLEX
    )


def is_row_major(type: object) -> bool:
    """Whether elements lie one after the other in the order of their indices."""
    assert isinstance(type, TensorType) and type.sizes is not None
    return type.strides is None or is_contiguous(type.sizes, type.strides)


def is_known_view(node: Node) -> bool:
    """True for views that kernels can look through."""
    return is_view(node) and all(is_known(v.type) for v in (*node.inputs, *node.outputs))
