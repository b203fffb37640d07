"""A product and the group that reads its result, run as one kernel where that is possible and pays.

Comes after `gpu.operators` and `gpu.epilogues`; the interpreter of graphs runs it in the place of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.errors import CompileError
from jit.ir.graph import leaves
from jit.ir.op import Op
from jit.ir.sizes import SizeExpr

from ..arrays.execute import execute
from ..arrays.libraries import library_on
from ..kernels.fusion import Arrays, FusedGroup, group_nest, supports
from ..kernels.nest import Buffer, Nest
from . import operators
from .epilogues import followed_by

STEPS = ("product", "product and sum", "convolution")
"""The steps of plans that a group may follow in one kernel."""


class FusedProduct(FusedGroup):
    """A callable for a product and the group behind it: the product's arrays and the group's others in, results out.

    Args:
        body: The group.
        group: Runs the group by itself.
        product: The node of the product.
        made: The input of the group that is the product's result.
    """

    def __init__(self, body: Graph, group: Callable[[Arrays], list[Any]], product: Node, made: int) -> None:
        super().__init__(body, self._one_by_one)
        op = find(product.kind)
        assert op is not None
        self._group, self._op, self._made, self._count = group, op, made, len(product.inputs)
        attributes = {name: product.resolve(value) for name, value in product.attributes.items()}
        self._template = op.join(product.operands, attributes)

    @property
    def name(self) -> str:
        """The names of the product and of the group's operators, for errors."""
        return f"{self._op.schema.name}, {super().name}"

    def _values(self, arrays: Sequence[Any]) -> list[Any]:
        """The product's arguments."""
        rest = iter(arrays)
        return [next(rest) if isinstance(value, Value) else value for value in self._template]

    def _one_by_one(self, inputs: Arrays) -> list[Any]:
        """The product, then the group."""
        found = execute(self._op, self._values(inputs[: self._count]))[0]
        others = list(inputs[self._count :])
        return self._group([*others[: self._made], found, *others[self._made :]])

    def _compile(self, inputs: Arrays) -> Any:
        try:
            nest = self._nest([Buffer.like(array) for array in inputs])
            return None if nest is None else self._library.kernel(nest)
        except CompileError:
            return None

    def _nest(self, buffers: list[Buffer]) -> Nest | None:
        """Both as one nest; None if they are not one, or that does not pay."""
        names = (argument.name for argument in self._op.arguments)
        values = self._values(buffers[: self._count])
        product = operators.nest_of(self._op, dict(zip(names, values, strict=True)))
        has_cublas = getattr(self._library, "cublas", None) is not None
        if product is None or not operators.pays(self._op, product, followed=True, has_cublas=has_cublas):
            return None
        others = buffers[self._count :]
        behind = group_nest(self._body, [*others[: self._made], *product.outputs, *others[self._made :]])
        return followed_by(product, behind, self._made)


def may_lead(node: Node) -> bool:
    """Whether a node waits for the group behind it, see `FusedProduct`; none that lists of launches hold does."""
    return leads(node) and not is_listed(node)


def is_listed(node: Node) -> bool:
    """Whether a node is a product of matrices that a list of launches may hold, as cuBLAS is at hand."""
    op = find(node.kind)
    if op is None or op.kernel.step != "product" or not _is_elsewhere(node.output):
        return False
    types = [value.type for value in (*node.inputs, node.output)]
    if not all(isinstance(type_, TensorType) and operators.is_factor(type_) for type_ in types):
        return False
    return len({type_.dtype for type_ in types}) == 1 and _has_lists(node.output)


def _has_lists(value: Value) -> bool:
    assert isinstance(value.type, TensorType)
    library: Any = library_on(value.type.device)
    return library.has_elements and library.cublas is not None and library.driver.functions is not None


def leads(node: Node) -> bool:
    """Whether a node is a product on a device whose result a single group, or pointwise operator, reads."""
    op = find(node.kind)
    if op is None or op.kernel.step not in STEPS or not _is_elsewhere(node.output):
        return False
    if _is_left_to_library(op, node.output):
        return False
    if any(type(leaf) is SizeExpr for leaf in leaves((node.args, node.attributes))) or not _is_plain(node):
        return False
    users = [use.node for use in node.output.uses]
    return len(users) == 1 and users[0].stage == node.stage and _is_group(users[0])


def _is_left_to_library(op: Op, made: Value) -> bool:
    """Whether a library of the device computes a product in which no group can be: a convolution, by cuDNN."""
    if op.kernel.step != "convolution" or not isinstance(made.type, TensorType) or made.type.dtype is None:
        return False
    return library_on(made.type.device).has_convolutions(made.type.dtype)


def _is_group(node: Node) -> bool:
    """Whether a node is a group, or a pointwise operator that is a group of one."""
    if node.kind == "prim::FusionGroup":
        return True
    op = find(node.kind)
    if op is None or op.kind != "pointwise" or len(node.outputs) > 1 or not _is_elsewhere(node.output):
        return False
    here = all(map(_is_elsewhere, node.inputs))  # a number may lie on the CPU
    return here and not any(type(leaf) is SizeExpr for leaf in leaves((node.args, node.attributes))) and supports(node)


def group_of(node: Node) -> tuple[list[Value], Graph]:
    """(what a group reads, its body), of a group or of a pointwise operator."""
    if node.kind == "prim::FusionGroup":
        return list(node.inputs), node.attributes["body"]
    body, read = Graph(), list(dict.fromkeys(node.inputs))
    copy = body.copy_node(node, {value: body.add_input(value.type) for value in read})
    copy.stage = 0
    body.set_return(copy.outputs)
    return read, body


def _is_elsewhere(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.device != "cpu"


def _is_plain(node: Node) -> bool:
    """Whether its inputs are its operands, each of which stands there once."""
    return [leaf for leaf in leaves(node.operands) if isinstance(leaf, Value)] == list(node.inputs)
