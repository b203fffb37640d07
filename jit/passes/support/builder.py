"""Writes nodes by calling operators: the op namespace `F` over a graph, so that derivatives and scatters become IR.

    F = GraphBuilder(graph)
    y = F.tanh(F.wrap(x)) * 2        # adds aten::tanh and aten::mul at the graph's insertion point

Types are inferred as nodes are added; composites are written out as their parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from jit.ir import OVERLOADS, Graph, Node, Op, TensorType, Value
from jit.ir.errors import SchemaError
from jit.ir.graph import map_template
from jit.ir.memory_formats import is_in_format
from jit.ir.schema import Argument
from jit.ir.types import GENERATOR, ScalarType


def _operator(name: str, swapped: bool = False) -> Any:
    def method(self: GraphProxy, other: Any) -> Any:
        function = getattr(self.builder, name)
        return function(other, self) if swapped else function(self, other)

    return method


class GraphProxy:
    """A Value that behaves as a tensor in formulas."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: GraphBuilder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> TensorType:
        """The value's type."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def shape(self) -> Any:
        """The sizes, as the type says."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self.type.ndim or 0

    @property
    def device(self) -> str:
        """The device on which it lies."""
        return self.type.device

    def is_contiguous(self, memory_format: str = "contiguous_format") -> bool:
        """Whether the elements lie in a memory format, as the type says."""
        if memory_format == "contiguous_format" or self.type.sizes is None:
            return memory_format == "contiguous_format" and self.type.strides is None
        return is_in_format(memory_format, self.type.sizes, self.stride())

    def stride(self) -> Any:
        """The strides in elements."""
        from jit.ir.op import strides_of

        return strides_of(self.type)

    def numel(self) -> int | None:
        """The number of elements."""
        return self.type.numel

    __add__, __radd__ = _operator("add"), _operator("add", swapped=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swapped=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", swapped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swapped=True)
    __pow__, __rpow__ = _operator("pow"), _operator("pow", swapped=True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", swapped=True)
    __eq__, __ne__ = _operator("eq"), _operator("ne")
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")
    __and__, __or__ = _operator("bitwise_and"), _operator("bitwise_or")
    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return self.builder.neg(self)

    def __invert__(self) -> Any:
        return self.builder.bitwise_not(self)

    def __getitem__(self, index: int) -> Any:
        return self.builder.select(self, 0, index)


class GraphBuilder:
    """Every operator by its ATen name, adding nodes to `graph`."""

    def __init__(self, graph: Graph, stage: int | None = None, origin: Node | None = None) -> None:
        self.graph = graph
        self.stage = stage
        """The stage of new nodes; the graph's last unless given."""
        self.origin = origin
        """The node whose source and scope new nodes have."""

    no_grad = staticmethod(contextlib.nullcontext)

    @staticmethod
    def is_grad_enabled() -> bool:
        """False: whoever writes nodes keeps no history of them."""
        return False

    def wrap(self, value: Any) -> Any:
        """A Value as a GraphProxy; anything else as it is."""
        return GraphProxy(self, value) if isinstance(value, Value) else value

    def __getattr__(self, name: str) -> Any:
        ops = OVERLOADS.get(name)
        if not ops:
            raise AttributeError(f"no operator is called {name!r}")

        def function(*args: Any, **kwargs: Any) -> Any:
            for op in ops:
                with contextlib.suppress(TypeError):
                    values = op.bind(*args, **kwargs)
                    if all(map(_fits, op.arguments, values)):
                        return self.call(op, values)
            raise SchemaError(f"no ATen declaration of {name} fits {args} {kwargs}")

        return function

    def call(self, op: Op, values: Sequence[Any]) -> Any:
        """Add the node of `op(*values)`; the result is a GraphProxy, or a list of them."""
        values = [_normal(a, v) for a, v in zip(op.arguments, values, strict=True)]
        if op.kind == "composite":
            return op.body(self, *values)
        types = op.infer([map_template(self.known, v) for v in values])
        operands, attributes = op.split([map_template(self.operand, v) for v in values])
        node = self.graph.insert(self.graph.create(op.name, operands, attributes), self.stage)
        if self.origin is not None:
            node.source, node.scope = self.origin.source, self.origin.scope
        outputs: list[Any] = [self.wrap(node.add_output(t)) for t in types if t is not GENERATOR]
        single = len(outputs) == 1 and not op.schema.returns[0].type.is_list
        return outputs[0] if single else outputs

    def known(self, value: Any) -> Any:
        """The part of an argument that a type rule is told: the type of a tensor, a number as it is."""
        value = value.value if isinstance(value, GraphProxy) else value
        if isinstance(value, Value):
            return _stand_in(value.type) if isinstance(value.type, ScalarType) else value.type
        return value

    def operand(self, value: Any) -> Any:
        """The operand of a node for an argument: a tensor's Value, a number as it is."""
        return value.value if isinstance(value, GraphProxy) else value


def _fits(argument: Argument, value: Any) -> bool:
    if value is None:
        return argument.type.optional or argument.type.base == "Generator"
    if argument.type.base == "Tensor":
        return (
            isinstance(value, (GraphProxy, list, tuple))
            if argument.type.is_list
            else not isinstance(value, (list, tuple, str))
        )
    return not isinstance(value, GraphProxy) and (argument.type.is_list or not isinstance(value, (list, tuple)))


def _normal(argument: Argument, value: Any) -> Any:
    """Lists as tuples, a single int where a sized list is wanted as that list."""
    if isinstance(value, list):
        return tuple(value)
    if argument.type.is_list and argument.type.list_size and isinstance(value, int):
        return (value,) * argument.type.list_size
    return value


def _stand_in(type: ScalarType) -> Any:
    return {"int": 1, "float": 1.0, "bool": True}.get(type.name, 1j)
