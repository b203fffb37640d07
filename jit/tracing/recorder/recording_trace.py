"""`RecordingTrace`: a trace as those see it who record one kind of thing for it, such as writes, views or numbers.

They are functions in files of their own, and the methods of `jit.tracing.recorder.tracer.Trace` call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jit.eager.generators import Generator
from jit.eager.recorder import Recorder
from jit.eager.tensors import Tensor
from jit.ir import Graph, Op, Value

from .capturing import Captures
from .caught_errors import TraceErrors
from .guards import Guards
from .identities import Identities
from .memory import TraceMemory
from .open_regions import Regions
from .python_functions import PythonFunctions
from .randomness import Randomness
from .refusals import Impurity
from .scalars import Scalars
from .tape import Tape
from .uncounted import UncountedWrites


class RecordingTrace(Recorder, Protocol):
    """A trace that records: its components, and how operands become values of its graph."""

    graph: Graph
    tape: Tape
    memory: TraceMemory
    uncounted: UncountedWrites
    identities: Identities
    scalars: Scalars
    guards: Guards
    captures: Captures
    randomness: Randomness
    impurity: Impurity
    errors: TraceErrors
    functions: PythonFunctions
    regions: Regions

    def value_of(self, tensor: Tensor) -> Value:
        """The Value that `tensor` holds now."""

    def operand(self, value: Any) -> Any:
        """A schema argument as a template: tensors and traced numbers as Values."""

    def prepare(self, op: Op, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any], Generator | None]:
        """Operands and attributes of the node of an operator, and the generator from which it draws."""

    def is_from_outside(self, tensor: Tensor) -> bool:
        """Whether an object comes from outside."""
