"""Records what runs: operators, sizes, guards, captures and random draws become the graph of a `Trace`.

See docs/tracing.md for the cases that shaped this. The graph of a Trace is in full detail: the parts of composites
stand beside them; `jit.tracing.recorder.folding` makes the graph that passes and people see.
"""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jit.eager import context, dispatch
from jit.eager.generators import Generator, default_generator
from jit.eager.networks import Network
from jit.eager.proxies import TracedScalar
from jit.eager.tensors import Tensor
from jit.eager.watch import pause, resume
from jit.ir import GENERATOR, Graph, Op, Value
from jit.ir.errors import Error, TraceError
from jit.ir.types import UNDEFINED, Type

from ..surroundings.properties import row_major, type_of
from . import measuring, metadata, metas, python_ops, raising, strides, writes
from .attributes import SetAttributes
from .capturing import Captures, Locate
from .caught_errors import TraceErrors
from .composites import record_composite
from .control_flow import record_flow
from .control_history import Flow
from .gradients import Gradients
from .guards import Guards
from .identities import Identities
from .measuring import guard_sizes, has_measured_sizes
from .memory import TraceMemory
from .open_regions import Regions
from .python_functions import PythonFunctions
from .raising import note_raised
from .randomness import Randomness
from .records import Constant
from .refusals import Impurity, at_line, change_outside, escape
from .scalars import Scalars
from .tape import Tape
from .uncounted import UncountedWrites
from .views import bind_view, derive, lies_otherwise, seen_through

_PLAIN = frozenset({type(None), int, float, bool, complex, str})
"""Types of arguments that stand in a graph as they are."""


def nowhere(owner: Any) -> tuple[str | None, int | None]:
    """The name and the place of a tensor that cannot be found: none."""
    return None, None


class Trace:
    """A recording under way: a graph, which grows with every operator that runs in its context, and what belongs to it.

    Each component owns what it knows. By the methods the rest of the system tells a trace what happens.

    Args:
        locate: Finds the user's name for a captured tensor, and its place in the World of a call.
        tape: The tape of what has been recorded already.
        strict: Whether a decision of Python's on a traced value is an error.
        open_sizes: Whether sizes that depend on elements are not fixed.
        plain_numbers: Whether the function gets plain numbers, all of them guarded.
        items_vary: Whether elements that the function reads as numbers had other values in an earlier call.
    """

    def __init__(
        self,
        locate: Locate = nowhere,
        tape: Tape | None = None,
        *,
        strict: bool = False,
        open_sizes: bool = False,
        plain_numbers: bool = False,
        items_vary: bool = False,
    ) -> None:
        self.tape = Tape(Graph()) if tape is None else tape
        self.graph = self.tape.graph
        self.memory = TraceMemory()
        self.identities = Identities()
        self.scalars = Scalars(plain_numbers, open_sizes)
        self.scalars.items_vary = items_vary
        self.guards = Guards(self.tape, strict)
        self.captures = Captures(self.tape, self.memory, self.identities, locate)
        self.randomness = Randomness(self.captures)
        self.gradients = Gradients(self.captures)
        self.impurity = Impurity(self.scalars)
        self.uncounted = UncountedWrites(self.memory, self.impurity)
        self.errors = TraceErrors(self.impurity)
        self.functions = PythonFunctions()
        self.regions = Regions()
        self.attributes = SetAttributes()
        self.constants: list[Constant] = []
        """The ledger of values that are baked in."""

    def with_owners(self, owners: Sequence[Any]) -> Trace:
        """The same trace of the same graph, in which captures that calls find by their places are these `owners`."""
        made = copy.copy(self)
        made.captures = copy.copy(self.captures)
        pairs = zip(self.captures.found, owners, strict=True)
        made.captures.found = [c if c.place is None else replace(c, owner=owner) for c, owner in pairs]
        return made

    # -- what comes in -------------------------------------------------------------------------------------------

    def add_argument(self, tensor: Tensor, name: str, stage: int = 0) -> Value:
        """Add a visible input to `stage`."""
        value = self.graph.add_input(type_of(tensor), name, stage)
        self.memory.bind_root(tensor, value, value)
        return value

    def add_number(self, number: Any, name: str) -> TracedScalar:
        """Make a promoted number a hidden input; returns the number that stands in its place."""
        value = self.captures.number(number, name)
        with self.guards.ours():
            made: TracedScalar = self.scalars.given(TracedScalar(self, number, value, measured=type(number) is float))
        return made

    def constant(self, tensor: Tensor, reason: str, foreign: bool = False) -> Value:
        """Record a tensor that is made from Python data inside the trace as a constant, listed in the ledger."""
        array = np.array(tensor._array, order="C")
        value = self.tape.add("prim::Constant", (), {"value": array}, [row_major(type_of(tensor))]).output
        self.memory.bind_root(tensor, value, foreign=foreign)
        self.constants.append(Constant(value.name, int(array.nbytes), context.user_source(), reason))
        return value

    # -- operators -----------------------------------------------------------------------------------------------

    def value_of(self, tensor: Tensor) -> Value:
        """The Value that `tensor` holds now; tensors from outside become hidden inputs."""
        binding = self.memory.binding(tensor) or self.captures.known(tensor)
        if binding.counter.version != tensor._storage.version:
            raise TraceError(
                f"{at_line()}a tensor was written to at {tensor._storage.writer} behind the back of the traced "
                "function, by another thread perhaps; write to it in the function itself, or clone it"
            )
        if binding.epoch != binding.cell.epoch:
            last = self.graph._last
            binding.value = derive(self, binding)
            binding.epoch = binding.cell.epoch
            self.regions.note_derived(self.graph, binding.cell, last)
        if self.regions.open or self.regions.enclosed:
            self.regions.note(binding.value, tensor)
        return binding.value

    def bind_copy(self, copy: Tensor, tensor: Tensor) -> None:
        """Let `copy`, which was made unrecorded, hold what `tensor` holds now."""
        self.memory.bind_root(copy, self.value_of(tensor))

    def operand(self, value: Any) -> Any:
        """A schema argument as a template: tensors and traced numbers as Values."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Tensor):
            return self.value_of(value)
        if type(value) is TracedScalar:
            return self._number_of(value) if value._trace is self else value._number
        if isinstance(value, (tuple, list)):
            return tuple(self.operand(item) for item in value)
        if isinstance(value, Generator):
            return self.randomness.state_of(value)
        return value

    def _number_of(self, number: TracedScalar) -> Value:
        value = number._ir()
        self.regions.note(value, number)
        return value

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
            values = measuring.settled_for_view(self, op, values)
            if self.tape.elemental:
                measuring.decide_for_view(self, op, values)
        operands, attributes, generator = self.prepare(op, values)
        result = dispatch.run(op, values)
        outputs = dispatch.unpack(result)
        types: list[Type] = [UNDEFINED if t._array is None else type_of(t) for t in outputs]
        if op.kind == "view" and lies_otherwise(operands[0].type, type_of(values[0])):
            operands[0], types = seen_through(self, op, operands[0], values[1:])
        node = self.tape.add(op.name, operands, attributes, types if generator is None else [*types, GENERATOR])
        for index, (tensor, value) in enumerate(zip(outputs, node.outputs, strict=False)):
            if tensor._array is None:
                continue
            if op.kind == "view":
                bind_view(self, op, values, tensor, value, index)
            else:
                self.memory.bind_root(tensor, value)
        if generator is not None:
            self.randomness.advance(generator, node.outputs[-1])
        if has_measured_sizes(op, values):
            guard_sizes(self, op, outputs)
        return result

    def record_inplace(self, op: Op, values: Sequence[Any]) -> Tensor:
        """Run `op` in place and record it."""
        return writes.record_inplace(self, op, values)

    def record_data(self, tensor: Tensor, data: Tensor) -> None:
        """Note that `data` is `tensor.data`."""
        writes.record_data(self, tensor, data)

    def record_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Run an autograd.Function and record it."""
        self.regions.refuse("runs a Python function; call it outside of cond and its like")
        return python_ops.record_function(self, function, args)

    def record_native(self, op: Any, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Record a call of a CppOp, which has just run."""
        self.regions.refuse("runs a native function; call it outside of cond and its like")
        python_ops.record_native(self, op, tensors, outputs)

    def record_eval(self, node: Any, gradients: Sequence[Any], run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Run the backward of an autograd.Function and record it."""
        return python_ops.record_eval(self, node, gradients, run)

    def control_flow(
        self, kind: str, functions: Sequence[Any], inputs: Sequence[Any], carried: int = 0, scanned: int = 0,
        reverse: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Record control flow over functions, and run it."""
        return record_flow(self, Flow(kind, tuple(functions), carried, scanned, reverse), inputs)

    def checkpointed(self) -> contextlib.AbstractContextManager[None]:
        """A block whose nodes stand under a checkpoint of its own, unless a backward runs it."""
        return self.tape.checkpointed()

    # -- who is who ----------------------------------------------------------------------------------------------

    def is_inside(self, tensor: Tensor) -> bool:
        """Whether the traced function made this tensor."""
        return self.captures.is_inside(tensor)

    def is_from_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor object comes from outside; a view of it, like `x.detach()`, is the function's own object."""
        return self.captures.is_from_outside(tensor)

    @property
    def handles(self) -> weakref.WeakKeyDictionary[Any, Value]:
        """Autograd node of a PythonOp -> its Handle."""
        return self.functions.handles

    # -- numbers -------------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> list[weakref.ref[TracedScalar]]:
        """The traced numbers that the function has got."""
        return self.scalars.handed_out

    def shape_of(self, tensor: Tensor) -> Any:
        """The sizes of a tensor as the function gets them."""
        return measuring.shape_of(self, tensor)

    def item(self, tensor: Tensor) -> Any:
        """The only element of a tensor as a traced number."""
        return measuring.item(self, tensor)

    def elements(self, tensor: Tensor) -> Any:
        """The result of `tolist()`, as traced numbers."""
        return measuring.elements(self, tensor)

    def reads_elements(self, value: Value) -> bool:
        """Whether a traced number was computed from elements of tensors."""
        return measuring.reads_elements(value)

    def scalar_node(self, kind: str, operands: Sequence[Any], number: Any) -> TracedScalar:
        """A recorded computation on numbers."""
        return measuring.scalar_node(self, kind, operands, number)

    def decide_same(self, tensor: Tensor, sizes: Sequence[Any]) -> None:
        """Decide which sizes of a tensor are these, if they may depend on elements."""
        measuring.decide_same(self, tensor, sizes)

    def guard(self, value: Value, outcome: Any) -> None:
        """Record that Python has decided on `value`: the trace holds while it is `outcome`."""
        self.guards.guard(value, outcome)

    # -- gradients -----------------------------------------------------------------------------------------------

    def gradient_of(self, tensor: Tensor) -> Tensor | None:
        """`tensor.grad`, as the function reads it."""
        return self.gradients.read(tensor)

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """`tensor.grad = gradient`, in the function."""
        self.regions.refuse("sets the gradient of a tensor; return it instead")
        self.gradients.write(tensor, gradient)

    def accumulate(self, tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
        """Accumulate a gradient as `jit.autograd.nodes.accumulate` does, by operators that are recorded."""
        self.gradients.accumulate(tensor, gradient, differentiable)

    def note_hook(self, tensor: Tensor, hook: Callable[[Any], Any]) -> None:
        """Note a hook that the function puts on the gradient of `tensor`."""
        self.refuse_change(tensor, "register_hook() of")
        self.gradients.note_hook(self.value_of(tensor), hook)

    def check_hooks(self, node: Any) -> None:
        """TraceError if a backward inside the function ends at a leaf with hooks."""
        self.gradients.check_hooks(node)

    def check_inside(self, node: Any) -> None:
        """TraceError if a backward inside the traced function goes on outside of it."""
        self.gradients.check_inside(node)

    # -- what a recording cannot repeat --------------------------------------------------------------------------

    @property
    def printing(self) -> int:
        """The number of calls of `print` under way."""
        return self.impurity.printing

    def note_impure(self, what: str) -> None:
        """Note that the function does `what`: its recording serves this call alone."""
        self.impurity.note_impure(what)

    def note_attribute(self, network: Network, name: str) -> None:
        """Note that an attribute of a network has been set."""
        self.regions.refuse("sets an attribute of a module; return the value instead")
        self.attributes.note(network, name)

    def note_network(self, network: Network) -> None:
        """Note that a network is being made."""
        self.attributes.note_made(network)

    def note_world(self) -> None:
        """Note that the function has asked whether processes work together, which is in the key of a call."""
        self.impurity.asks_world = True

    def note_text(self) -> None:
        """Note that elements of a tensor become text."""
        self.impurity.note_text()

    def note_state(self, generator: Generator, sets: bool) -> None:
        """Note that the function itself reads or sets the state of a generator."""
        self.impurity.note_impure(f"{'sets' if sets else 'reads'} the state of a random generator")
        if sets:
            self.randomness.forget(generator)

    def note_number(self, error: Exception, name: str, operands: Sequence[Any]) -> None:
        """Record that arithmetic on traced numbers has raised `error`."""
        raising.note_number(self, error, name, operands)

    def note_foreign(self, error: Exception, name: str) -> None:
        """Note that a Python or native function that the recording calls has raised."""
        self.errors.note_foreign(error, name)

    def forgive(self, error: Error) -> None:
        """Forget an error that was expected, since what is done instead is recorded."""
        self.errors.forgive(error)

    def refuse_escape(self, tensor: Tensor, what: str) -> None:
        """Raise the error for `numpy()` and its like, which would bake in what a traced tensor holds."""
        raise escape(what)

    def refuse_change(self, tensor: Tensor, what: str) -> None:
        """TraceError if `tensor` comes from outside: a recording repeats what happens to elements, and nothing else."""
        if self.captures.is_from_outside(tensor):
            raise change_outside(what)

    # -- metadata ------------------------------------------------------------------------------------------------

    def fact(self, tensor: Tensor, name: str) -> Any:
        """The fact `name` of this very object; of one from outside it is a fact of the recording from now on."""
        return metadata.fact(self, tensor, name)

    def base(self, tensor: Tensor) -> Tensor | None:
        """The tensor that `tensor` is a view of."""
        return metadata.base(self, tensor)

    def strides(self, tensor: Tensor, plain: tuple[int, ...], dim: int | None) -> Any:
        """The strides of a tensor: traced products of sizes where its rows have no gaps."""
        return metadata.strides(self, tensor, plain, dim)

    def meta_of(self, tensor: Tensor, plain: Any) -> Any:
        """The facts of a tensor that derivatives may want, of which `plain` are those of this call."""
        return metas.meta_of(self, tensor, plain)

    def own_strides(self, tensor: Tensor, plain: tuple[int, ...]) -> tuple[Any, ...]:
        """The strides of a tensor for code of this package: traced where sizes make them, and nothing is decided."""
        return strides.own_strides(self, tensor, plain)

    def note_offset(self, tensor: Tensor) -> None:
        """Note that the function has read where a tensor starts in its storage."""
        metadata.note_offset(self, tensor)

    def note_layout(self, tensor: Tensor) -> None:
        """Note that the function has asked whether a tensor is contiguous."""
        metadata.note_layout(self, tensor)

    def note_own_layout(self, tensor: Tensor) -> None:
        """Note that this package has asked whether a tensor is contiguous."""
        metadata.note_own_layout(self, tensor)

    def meet(self, tensor: Tensor) -> None:
        """Make the trace know a tensor as it is now, before it becomes a view of itself."""
        self.value_of(tensor)

    def note_reshaped(self, tensor: Tensor, before: Tensor) -> None:
        """Note that `tensor` becomes a view of `before`, which stands for what it was."""
        metadata.note_reshaped(self, tensor, before)

    def resize(self, tensor: Tensor, sizes: Sequence[Any]) -> None:
        """Run `resize_`: other sizes over the same memory, or, where it does not suffice, over a longer copy."""
        metadata.resize(self, tensor, sizes)

    # -- the end -------------------------------------------------------------------------------------------------

    def drop_stage(self, stage: int, guards: int) -> None:
        """Forget a stage that could not be recorded, and the guards after the first `guards`."""
        self.guards.drop_stage(stage, guards)
        self.tape.drop_stage(stage)

    def forget(self) -> None:
        """Let go of the memory of the call that was recorded."""
        for component in (self.memory, self.gradients, self.identities, self.attributes, self.regions):
            component.forget()


__all__ = ["Trace"]
