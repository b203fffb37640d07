"""Facts of traced tensors for derivatives: their sizes are traced numbers in the stage that made them."""

from __future__ import annotations

from typing import Any

from jit.autograd.nodes import Meta
from jit.eager import context
from jit.eager.tensors import Size, Tensor
from jit.ir import TensorType

from . import measuring
from .memory import Binding
from .recording_trace import RecordingTrace


def meta_of(trace: RecordingTrace, tensor: Tensor, plain: Meta) -> Any:
    """The facts of a tensor, of which `plain` are those of this call."""
    binding = trace.memory.binding(tensor)
    return plain if binding is None else TracedMeta(trace, binding, plain)


class TracedMeta:
    """A `Meta` whose sizes are read from the tensor; see Note [Sizes of earlier stages]."""

    __slots__ = ("_binding", "_plain", "_trace", "_value")

    def __init__(self, trace: RecordingTrace, binding: Binding, plain: Meta) -> None:
        self._trace, self._binding, self._value, self._plain = trace, binding, binding.value, plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def _replace(self, **facts: Any) -> TracedMeta:
        return TracedMeta(self._trace, self._binding, self._plain._replace(**facts))

    @property
    def shape(self) -> Any:
        """The sizes: traced while the trace records."""
        trace, sizes = self._trace, self._plain.shape
        if not context.is_recording(trace):
            return sizes
        type = self._binding.value.type  # of a composite's result, where it was the result of a part
        value = self._binding.value if isinstance(type, TensorType) and type.shape == sizes else self._value
        return Size(measuring.traced_size(trace, value, dim, size) for dim, size in enumerate(sizes))
