"""Products of a stretch as launches of its list: by cuBLAS, or by a kernel of ours, alone or with the group behind it.

Note [A product and what follows, in a list]
    Where `operators.pays` says so, a product and the group that reads its result are one launch. Whether they are one
    kernel is known only when the group is lowered, so the product waits for it. It stands right in front of the group
    meanwhile, so that nothing that it reads ends before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jit.ir import Node, Value, find
from jit.ir.errors import CompileError

from ..gpu import operators
from ..gpu.epilogues import followed_by
from ..gpu.fused_product import group_of, is_listed, leads
from ..kernels.fusion import group_nest
from ..kernels.nest import Buffer, Nest
from ..plans.places import Stretch
from .cublas_products import CublasProduct

BufferOf = Callable[[Value], Buffer]
"""A function that says how a value lies."""


def with_products_last(stretch: Stretch) -> Stretch:
    """The stretch with each product that a group may follow in one kernel right in front of that group."""
    present = set(stretch.nodes)
    before: dict[Node, list[Node]] = {}
    for node in stretch.nodes:
        if is_listed(node) and leads(node) and not node.output.type.dtype.is_half:  # type: ignore[attr-defined]
            group = _reader(node)
            if group in present:
                before.setdefault(group, []).append(node)
    moved = {product for products in before.values() for product in products}
    nodes = [each for node in stretch.nodes if node not in moved for each in (*before.get(node, ()), node)]
    return replace(stretch, nodes=nodes)


def waits(product: Node, following: Node | None, buffer: BufferOf) -> bool:
    """Whether a node is a product that is computed with the node behind it, if they are one kernel."""
    if following is None or not is_listed(product) or not leads(product):
        return False
    if _reader(product) is not following:
        return False
    nest = _nest_of(product, buffer)
    return nest is not None and _pays(product, nest, followed=True)


def product_kernel(product: Node, buffer: BufferOf, library: Any) -> Any:
    """The launch of a product: a `CublasProduct` or a `CudaKernel`; CompileError if there is none."""
    nest = _nest_of(product, buffer)
    if nest is None:
        raise CompileError("a product without terms or elements has no kernel; compute it by CuPy")
    if _pays(product, nest, followed=False):
        return library.kernel(nest)
    a, b = map(buffer, product.inputs)
    return CublasProduct(a, b, library.cublas)


def kernel_together(product: Node, group: Node, buffer: BufferOf, library: Any) -> tuple[Any, Sequence[Value]] | None:
    """The kernel of a product and the group behind it, and what it reads; None if they are two."""
    nest = _nest_of(product, buffer)
    read, body = group_of(group)
    made = read.index(product.output)
    assert nest is not None
    (between,) = nest.outputs
    buffers = [between if value is product.output else buffer(value) for value in read]
    try:
        whole = followed_by(nest, group_nest(body, buffers), made)
        kernel = None if whole is None else library.kernel(whole)
    except CompileError:
        return None
    return None if kernel is None else (kernel, (*product.inputs, *read[:made], *read[made + 1 :]))


def _reader(product: Node) -> Node:
    """The only node that reads a result."""
    (use,) = product.output.uses
    return use.node


def _nest_of(product: Node, buffer: BufferOf) -> Nest | None:
    op = find(product.kind)
    assert op is not None
    names = (argument.name for argument in op.arguments)
    return operators.nest_of(op, dict(zip(names, map(buffer, product.inputs), strict=True)))


def _pays(product: Node, nest: Nest, followed: bool) -> bool:
    op = find(product.kind)
    assert op is not None
    return operators.pays(op, nest, followed, has_cublas=True)
