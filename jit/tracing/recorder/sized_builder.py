"""Writes nodes of a trace whose numbers may be traced ones: the way to a view is replayed for sizes that may vary.

The numbers in the operands are the Values behind them, and the sizes of tensors are traced; types are those of the call
that is recorded.
"""

from __future__ import annotations

from typing import Any

from jit.eager.proxies import TracedScalar, concrete
from jit.eager.tensors import Size
from jit.ir import TensorType, Value
from jit.passes.support.builder import GraphBuilder, GraphProxy

from .measuring import traced_size
from .recording_trace import RecordingTrace


class SizedProxy(GraphProxy):
    """A Value that behaves as a tensor in formulas, and whose sizes are traced numbers."""

    __slots__ = ()

    builder: SizedBuilder

    @property
    def shape(self) -> Any:
        """The sizes; nothing is recorded for one until it is used."""
        sizes = self.type.sizes
        assert sizes is not None
        return Size(traced_size(self.builder.trace, self.value, dim, size) for dim, size in enumerate(sizes))


class SizedBuilder(GraphBuilder):
    """Every operator by its ATen name, adding nodes to the graph of a trace."""

    def __init__(self, trace: RecordingTrace) -> None:
        super().__init__(trace.graph)
        self.trace = trace

    def wrap(self, value: Any) -> Any:
        """A tensor's Value as a proxy; anything else as it is."""
        return SizedProxy(self, value) if isinstance(value, Value) and isinstance(value.type, TensorType) else value

    def known(self, value: Any) -> Any:
        """The part of an argument that a type rule is told: of a traced number, the number that it is now."""
        return super().known(concrete(value))

    def operand(self, value: Any) -> Any:
        """The operand of a node for an argument: the Value of a traced number."""
        return self.trace.operand(value) if type(value) is TracedScalar else super().operand(value)
