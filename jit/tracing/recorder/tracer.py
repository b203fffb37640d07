"""Records what runs: operators, sizes, guards, captures and random draws become the graph of a `Trace`.

See docs/tracing.md for the cases that shaped this. The graph of a Trace is in full detail: the parts of composites
stand beside them; `jit.tracing.recorder.folding` makes the graph that passes and people see.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.autograd.nodes import next_serial
from jit.eager import context, dispatch
from jit.eager.generators import Generator, default_generator
from jit.eager.proxies import TracedScalar
from jit.eager.tensors import Tensor, ViewStep
from jit.eager.watch import pause, resume
from jit.ir import GENERATOR, Graph, Node, Op, Value
from jit.ir.errors import Error, TraceError
from jit.ir.types import UNDEFINED, ScalarType, Type
from jit.passes.support.builder import Builder

from ..surroundings.properties import contents_of, row_major, type_of
from . import gradients, measuring, metadata, python_ops, raising, refusals, writes
from .capturing import is_from_outside, is_inside, known, state_of
from .composites import nodes_after, record_composite
from .measuring import guard_sizes, has_measured_sizes, settled
from .memory import Memory
from .raising import note_raised
from .records import Capture, Composite, Constant, GuardRecord
from .refusals import at_line
from .views import bind_view, derive, lies_otherwise, view_types

_PLAIN = frozenset({type(None), int, float, bool, complex, str})
"""Of arguments that stand in a graph as they are."""


@dataclass(eq=False)
class Trace:
    """A recording under way. Its `graph` grows with every operator that runs in its context.

    What a trace is told by the rest of the system are its methods; those of one concern are functions of a module of
    their own, and are listed at the end.
    """

    locate: Callable[[Any], tuple[str | None, int | None]] = lambda owner: (None, None)
    """Finds the user's name for a captured tensor, and its place in the World of a call."""
    graph: Graph = field(default_factory=Graph)
    strict: bool = False
    """Whether a decision of Python's on a traced value is an error."""
    open_sizes: bool = False
    """Whether sizes that depend on elements are not fixed: for exporting, where all sizes are looked at anew."""
    left_open: bool = False
    """Whether there were any."""
    captures: list[Capture] = field(default_factory=list)
    guards: list[GuardRecord] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    composites: list[Composite] = field(default_factory=list)
    hooks: dict[Value, list[Callable[[Any], Any]]] = field(default_factory=dict)
    """What the function has hooked to the gradients of its values."""
    originals: dict[Value, Any] = field(default_factory=dict)
    """What inputs held that the function has written to since."""
    untracked: set[Node] = field(default_factory=set)
    """Nodes of operators that ran without recording derivatives; a replay runs them so, too."""
    checkpoints: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    """Nodes recorded under checkpoints, and which those are, the outermost first."""
    backwards: set[Node] = field(default_factory=set)
    """Nodes of stage 0 that a backward inside of the function has recorded."""
    histories: dict[Value, Value] = field(default_factory=dict)
    """What was written over tensors without recording derivatives -> what they held before, whose history stays."""
    impure: str | None = None
    """What the function has done that no recording can repeat; see jit.tracing.surroundings.impurity."""
    one_size: str | None = None
    """Where it has looked at sizes in a way that no guard says: the recording serves these alone."""
    caught: str | None = None
    """Where it has caught an error of which no guard says whether it comes again."""
    refused: TraceError | None = None
    """What to raise if the function catches an error."""
    made: list[Error] = field(default_factory=list)
    """The errors of ours that were made meanwhile; see jit.tracing.recorder.raising."""
    raised: list[Exception] = field(default_factory=list)
    """Those of operators."""
    plain_numbers: bool = False
    """Whether the function gets plain numbers, all of them guarded; see Note [Exact types]."""
    asked_late: bool = False
    """Whether code that asks for exact types has begun to run when numbers had been handed out."""
    failures: list[tuple[Any, int]] = field(default_factory=list)
    """Where functions in C have raised something: code, and the instruction in it."""
    deeds: list[str] = field(default_factory=list)
    """All that `impure` would say."""
    foreign_views: dict[Any, tuple[str, list[Any]]] = field(default_factory=dict)
    """Cells of what Python functions have returned that is memory of their arguments -> who, and the cells of these."""
    printing: int = 0
    """How many calls of `print` are under way."""
    numbers: list[weakref.ref[TracedScalar]] = field(default_factory=list)
    """The traced numbers that the function has got."""
    slots: dict[Tensor, gradients.GradientSlot] = field(default_factory=dict)
    """By their holders."""
    outer: dict[Tensor, Tensor] = field(default_factory=dict)
    """What the function got for an argument -> the argument."""
    inner: dict[Tensor, Tensor] = field(default_factory=dict)
    """The inverse of `outer`."""
    differentiated: dict[Tensor, Value] = field(default_factory=dict)
    """Leaves from outside at which a backward inside the function has ended."""
    facts: dict[tuple[Value, str], Any] = field(default_factory=dict)
    """What the function has read of the tensors behind inputs; see Note [Metadata]."""
    reshaped: dict[Tensor, Tensor] = field(default_factory=dict)
    """Tensors from outside that have become views of themselves -> what they were."""
    pasts: dict[Tensor, Tensor] = field(default_factory=dict)
    """The inverse of `reshaped`."""
    memory: Memory = field(default_factory=Memory, init=False)
    """What tensors hold."""
    generators: dict[Generator, Value] = field(default_factory=dict, init=False)
    """The states that generators are in now."""
    initial_states: dict[Generator, Value] = field(default_factory=dict, init=False)
    """The states that they came with."""
    handles: weakref.WeakKeyDictionary[Any, Value] = field(default_factory=weakref.WeakKeyDictionary, init=False)
    """Autograd node of a PythonOp -> its Handle."""
    guarded: dict[Value, Any] = field(default_factory=dict, init=False)
    """What Python has decided on -> the outcome."""
    step_numbers: dict[int, tuple[ViewStep, list[TracedScalar]]] = field(default_factory=dict, init=False)
    """By the identity of the step: the traced numbers behind its plain ones."""
    first_serial: int = field(default_factory=next_serial, init=False)
    """Autograd nodes with a lower number come from outside."""
    outer_backward: Any = field(default_factory=context.BACKWARD.get, init=False)
    """The backward that the function itself runs in."""

    # -- what comes in -------------------------------------------------------------------------------------------

    def stand_for(self, inner: Tensor, outer: Tensor) -> None:
        """The function gets `inner` in the place of its argument `outer`."""
        self.outer[inner], self.inner[outer] = outer, inner

    def add_argument(self, tensor: Tensor, name: str, stage: int = 0) -> Value:
        """A visible input of `stage`."""
        value = self.graph.add_input(type_of(tensor), name, stage)
        self.memory.bind_root(tensor, value, value)
        return value

    def add_number(self, number: Any, name: str) -> TracedScalar:
        """A promoted number: a hidden input, and what stands in its place."""
        value = self.graph.add_input(ScalarType(type(number).__name__), name, 0)
        count = sum(capture.number is not None for capture in self.captures)
        self.captures.append(Capture(value, number, name, number=count))
        made = TracedScalar(self, number, value)
        return made._decide() if self.plain_numbers else made

    def constant(self, tensor: Tensor, reason: str, foreign: bool = False) -> Value:
        """A tensor made from Python data inside the trace: a constant, listed in the ledger."""
        array = np.array(tensor._array, order="C")
        value = self.add("prim::Constant", (), {"value": array}, [row_major(type_of(tensor))]).output
        self.memory.bind_root(tensor, value, foreign=foreign)
        self.constants.append(Constant(value.name, int(array.nbytes), context.user_source(), reason))
        return value

    # -- nodes ---------------------------------------------------------------------------------------------------

    def add(self, kind: str, operands: Sequence[Any], attributes: dict[str, Any], types: Sequence[Type]) -> Node:
        """A node of the line that runs."""
        node = self.graph.add(kind, operands, attributes, types)
        self.mark(node)
        return node

    def mark(self, node: Node) -> None:
        """A node belongs to the line, the scope and the grad mode that it was asked for in."""
        node.source, node.scope = context.user_source(), context.SCOPE.get()
        if not context.GRAD_ENABLED.get():
            self.untracked.add(node)
        if len(self.graph.stages) == 1:
            if around := context.CHECKPOINTS.get():
                self.checkpoints[node] = around
            if self._is_in_backward():
                self.backwards.add(node)

    def _is_in_backward(self) -> bool:
        return context.BACKWARD.get() is not self.outer_backward

    @contextlib.contextmanager
    def building(self) -> Iterator[Builder]:
        """Write nodes; they belong to the line that made them necessary."""
        last = self.graph._last
        yield Builder(self.graph)
        for node in nodes_after(self.graph, last):
            self.mark(node)

    @contextlib.contextmanager
    def checkpointed(self) -> Iterator[None]:
        """What is recorded in this block stands under a checkpoint of its own, unless a backward runs it."""
        around = context.CHECKPOINTS.get()
        token = context.CHECKPOINTS.set(around if self._is_in_backward() else (*around, next_serial()))
        try:
            yield
        finally:
            context.CHECKPOINTS.reset(token)

    def value_of(self, tensor: Tensor) -> Value:
        """The Value that `tensor` holds now; tensors from outside become hidden inputs."""
        binding = self.memory.binding(tensor) or known(self, tensor)
        if binding.counter.version != tensor._storage.version:
            raise TraceError(
                f"{at_line()}a tensor was written to at {tensor._storage.writer} behind the back of the traced "
                "function, by another thread perhaps; write to it in the function itself, or clone it"
            )
        if binding.epoch != binding.cell.epoch:
            binding.value = derive(self, binding)
            binding.epoch = binding.cell.epoch
        return binding.value

    def operand(self, value: Any) -> Any:
        """A schema argument as a template: tensors and traced numbers as Values."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Tensor):
            return self.value_of(value)
        if type(value) is TracedScalar:
            return value._ir() if value._trace is self else value._number
        if isinstance(value, (tuple, list)):
            return tuple(self.operand(item) for item in value)
        if isinstance(value, Generator):
            return state_of(self, value)
        return value

    def record(self, op: Op, values: Sequence[Any]) -> Any:
        """Run `op` and record it."""
        hook = pause()
        try:
            return self._record(op, values)
        except Exception as error:
            note_raised(self, error, op, values)
            raise
        finally:
            resume(hook)

    def _record(self, op: Op, values: Sequence[Any]) -> Any:
        if op.kind == "composite":
            return record_composite(self, op, values)
        if op.kind == "view":  # the way to a view is replayed, by numbers that are known
            values = [values[0], *(settled(v) for v in values[1:])]
        operands, attributes, generator = self.prepare(op, values)
        result = dispatch.run(op, values)
        outputs = dispatch.unpack(result)
        types: list[Type] = [UNDEFINED if t._array is None else type_of(t) for t in outputs]
        if op.kind == "view" and lies_otherwise(operands[0].type, type_of(values[0])):
            types = view_types(op, operands[0], values[1:])
        node = self.add(op.name, operands, attributes, types if generator is None else [*types, GENERATOR])
        for index, (tensor, value) in enumerate(zip(outputs, node.outputs, strict=False)):
            if tensor._array is None:
                continue
            if op.kind == "view":
                bind_view(self, op, values, tensor, value, index)
            else:
                self.memory.bind_root(tensor, value)
        if generator is not None:
            self.generators[generator] = node.outputs[-1]
        if has_measured_sizes(op, values):
            guard_sizes(self, outputs)
        return result

    def prepare(self, op: Op, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any], Generator | None]:
        """Operands and attributes of the node, taken before the op runs."""
        generator: Generator | None = None
        filled = list(values)
        if op.kind == "random":
            at = next(i for i, a in enumerate(op.arguments) if a.type.base == "Generator")
            generator = filled[at] or default_generator()
            filled[at] = generator
        operands, attributes = op.split([self.operand(v) for v in filled])
        return operands, attributes, generator

    # -- results -------------------------------------------------------------------------------------------------

    def input_value(self, owner: Any, value: Value) -> Any:
        """What an input held before the function ran: an array or a RandomState."""
        if value in self.originals:
            return self.originals[value]
        return contents_of(owner)

    def drop_stage(self, stage: int, guards: int) -> None:
        """Forget a stage that could not be recorded, and the guards after the first `guards`."""
        self.composites = [c for c in self.composites if c.node.stage < stage]
        del self.guards[guards:]
        self.guarded = {value: outcome for value, outcome in self.guarded.items() if value.stage < stage}
        self.graph.drop_stages(stage)

    def forget(self) -> None:
        """Let go of the memory of the call that was recorded."""
        for table in (self.originals, self.slots, self.outer, self.inner, self.differentiated):
            table.clear()
        self.reshaped.clear()
        self.pasts.clear()
        for cell in self.memory.inputs:
            cell.tensor = None

    def drawn(self) -> list[tuple[Generator, Value, Value]]:
        """Generators that were drawn from: (generator, its input, its final state)."""
        pairs = ((g, self.initial_states[g], v) for g, v in self.generators.items())
        return [(g, first, last) for g, first, last in pairs if first is not last]

    # -- functions of one concern --------------------------------------------------------------------------------

    record_inplace = writes.record_inplace
    record_data = writes.record_data
    record_function = python_ops.record_function
    record_native = python_ops.record_native
    record_eval = python_ops.record_eval
    is_inside = is_inside
    is_from_outside = is_from_outside
    shape_of = measuring.shape_of
    sizes_of = measuring.sizes_of
    item = measuring.item
    elements = measuring.elements
    scalar_node = measuring.scalar_node
    guard = measuring.guard
    gradient_of = gradients.gradient_of
    set_gradient = gradients.set_gradient
    accumulate = gradients.accumulate
    note_hook = gradients.note_hook
    check_hooks = gradients.check_hooks
    check_inside = gradients.check_inside
    note_number = raising.note_number
    note_foreign = raising.note_foreign
    forgive = raising.forgive
    note_impure = refusals.note_impure
    note_state = refusals.note_state
    note_failure = refusals.note_failure
    note_text = refusals.note_text
    refuse_escape = refusals.refuse_escape
    refuse_change = refusals.refuse_change
    fact = metadata.fact
    base = metadata.base
    strides = metadata.strides
    note_offset = metadata.note_offset
    note_layout = metadata.note_layout
    meet = metadata.meet
    note_reshaped = metadata.note_reshaped
    resize = metadata.resize
