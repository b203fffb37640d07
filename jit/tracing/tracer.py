"""Records what runs: operators, sizes, guards, captures and random draws become the graph of a `Trace`.

See docs/tracing.md for the cases that shaped this. The graph of a Trace is in full detail: the parts of composites
stand beside them; `jit.tracing.folding` makes the graph that passes and people see.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CellType
from typing import Any

import numpy as np

from jit.ir import GENERATOR, HANDLE, Graph, Node, Op, RandomState, Source, TensorType, Value, dtypes
from jit.ir.errors import EscapedTracerError, ShapeError, TraceError
from jit.ir.geometry import Geometry
from jit.ir.graph import leaves
from jit.ir.types import INT, UNDEFINED, ScalarType, Type, is_contiguous
from jit.passes.builder import Builder

from .. import context, dispatch
from ..autograd.nodes import edge_of, is_plain, next_serial, scatter, strided_step
from ..generators import Generator, default_generator
from ..proxies import TracedScalar, concrete
from ..tensors import Size, Storage, Tensor, ViewStep
from .impurity import pause, resume
from .promoting import KINDS
from .recalling import run_once
from .surroundings import class_of

_BINDING = threading.Lock()
"""Held while a tensor's list of bindings is replaced: several threads may trace functions of the same parameters."""


@dataclass(eq=False, slots=True)
class Cell:
    """What a storage holds now; see Note [Cells]."""

    root: Value
    geometry: tuple[Any, ...]
    """Array interface of the root tensor: (address, sizes, strides), to recognise other tensors on the same memory."""
    extent: tuple[int, int]
    """The addresses between which its elements lie."""
    epoch: int = 0
    source: Value | None = None
    """The hidden or visible input that the cell started as; None for memory made inside the trace."""
    tensor: Any = None
    """The root tensor, if it is an input; dropped when the recording is complete."""
    foreign: bool = False
    """Whether somebody outside owns the memory of a constant, and would miss what is written to it."""
    version: int = 0
    """The version of the storage after the last write that was recorded."""


@dataclass(eq=False)
class Binding:
    """One tensor in one trace."""

    trace: int
    cell: Cell
    path: tuple[ViewStep, ...]
    value: Value
    epoch: int


@dataclass(eq=False, slots=True)
class Composite:
    """A composite's node, the parts that stand before it, and which part value each of its outputs took over."""

    node: Node
    parts: list[Node]
    taken: list[Value]


@dataclass(slots=True)
class Capture:
    """A tensor or generator from outside that became a hidden input."""

    value: Value
    owner: Any
    """What it was while recording."""
    name: str
    place: int | None = None
    """Where to find what it is now, among the tensors of a World; None: it is the owner for ever."""
    gradient_of: int | None = None
    """It is the `.grad` of this input."""
    number: int | None = None
    """It is a promoted number: this one of them."""
    edge: Any = None
    """Where its gradient went before the function ran."""
    kind: Any = None
    """What `kind_of` said of it then."""


@dataclass(slots=True)
class Constant:
    """A line of the constants ledger."""

    name: str
    nbytes: int
    source: Source | None
    """The user's line."""
    reason: str
    value: Any = None
    """What it is; None for arrays, which stand in the graph."""


@dataclass(eq=False, slots=True)
class GradientSlot:
    """`.grad` of a tensor from outside, which the function reads or writes; see Note [Gradients as effects]."""

    holder: Any
    """The tensor outside; while recording it holds what the function has put there."""
    value: Value
    """The input that it is."""
    initial: Any
    """What was there when the function came: a tensor or None."""
    found: Value | None = None
    """The input that `initial` is, if the function has read it."""
    is_read: bool = False
    """Whether the function has read it before it wrote it."""

    @property
    def has_changed(self) -> bool:
        """Whether there may be another tensor now; what is written to the memory of the same one is an update."""
        return not self.is_read or self.holder._grad is not self.initial


@dataclass(slots=True)
class GuardRecord:
    """A decision that Python took on a traced value."""

    node: Node
    outcome: Any
    source: Source | None


@dataclass(eq=False)
class Trace:
    """A recording under way. Its `graph` grows with every operator that runs in its context."""

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
    """What the function has done that no recording can repeat; see jit.tracing.impurity."""
    printing: int = 0
    """How many calls of `print` are under way."""
    numbers: list[weakref.ref[TracedScalar]] = field(default_factory=list)
    """The traced numbers that the function has got."""
    slots: dict[Tensor, GradientSlot] = field(default_factory=dict)
    """By their holders."""
    outer: dict[Tensor, Tensor] = field(default_factory=dict)
    """What the function got for an argument -> the argument."""
    inner: dict[Tensor, Tensor] = field(default_factory=dict)
    """The inverse of `outer`."""
    differentiated: dict[Tensor, Value] = field(default_factory=dict)
    """Leaves from outside at which a backward inside the function has ended."""

    def __post_init__(self) -> None:
        self._outer_backward = context.BACKWARD.get()
        self._first = next_serial()
        """Autograd nodes with a lower number come from outside."""
        self._bindings: list[Binding] = []
        self._cells: weakref.WeakKeyDictionary[Storage, list[Cell]] = weakref.WeakKeyDictionary()
        self._generators: dict[Generator, Value] = {}
        self._initial_states: dict[Generator, Value] = {}
        self.handles: weakref.WeakKeyDictionary[Any, Value] = weakref.WeakKeyDictionary()
        """Autograd node of a PythonOp -> its Handle."""
        self._guarded: dict[Value, Any] = {}
        self._numbers: dict[int, tuple[ViewStep, list[TracedScalar]]] = {}
        """By the identity of the step: the traced numbers behind its plain ones."""
        self._dirty: dict[Cell, None] = {}
        self._inputs: list[Cell] = []

    # -- who is who ----------------------------------------------------------------------------------------------

    def binding(self, tensor: Tensor) -> Binding | None:
        """What this trace knows of `tensor`; references of dead traces are dropped on the way."""
        found, dead = None, False
        for reference in tensor._bindings or ():
            binding = reference()
            if binding is None:
                dead = True
            elif binding.trace == id(self):
                found = binding
        if dead:
            with _BINDING:
                tensor._bindings = tuple(r for r in tensor._bindings or () if r() is not None) or None
        return found

    def bind(self, tensor: Tensor, cell: Cell, path: tuple[ViewStep, ...], value: Value) -> Binding:
        """Let `value` be what `tensor` holds now."""
        old = self.binding(tensor)
        if old is not None:
            old.cell, old.path, old.value, old.epoch = cell, path, value, cell.epoch
            return old
        binding = Binding(id(self), cell, path, value, cell.epoch)
        self._bindings.append(binding)
        with _BINDING:
            tensor._bindings = (*(tensor._bindings or ()), weakref.ref(binding))
        return binding

    def bind_again(self, tensor: Tensor, known: Tensor) -> None:
        """Let `tensor` be what `known` is."""
        binding = self.binding(known)
        assert binding is not None
        self.bind(tensor, binding.cell, binding.path, binding.value)

    def bind_root(self, tensor: Tensor, value: Value, source: Value | None = None) -> None:
        """Let `value` be the root of `tensor`'s storage."""
        cell = Cell(value, _place(tensor), extent_of(tensor._array), 0, source, tensor if source is not None else None)
        cell.version = tensor._storage.version
        self._cells.setdefault(tensor._storage, []).append(cell)
        if source is not None:
            self._inputs.append(cell)
        self.bind(tensor, cell, (), value)

    def value_of(self, tensor: Tensor) -> Value:
        """The Value that `tensor` holds now; tensors from outside become hidden inputs."""
        binding = self.binding(tensor) or self._recognise(tensor)
        if binding.cell.version != tensor._storage.version:
            raise TraceError(
                f"{_at()}a tensor was written to at {tensor._storage.writer} behind the back of the traced function, "
                "by another thread perhaps; write to it in the function itself, or clone it"
            )
        if binding.epoch != binding.cell.epoch:
            binding.value = self._derive(binding)
            binding.epoch = binding.cell.epoch
        return binding.value

    def _derive(self, binding: Binding) -> Value:
        """The Value of a view whose root has moved on: the path replayed from the new root."""
        self.settle(binding.path)
        with context.enable_grad(), self._building() as F:  # a view has the history of its base, wherever it is read
            proxy = F.wrap(binding.cell.root)
            for step in binding.path:
                proxy = _step(F, step, proxy)
        return proxy.value

    @contextlib.contextmanager
    def _building(self) -> Iterator[Builder]:
        """Write nodes; they belong to the line that made them necessary."""
        last = self.graph._last
        yield Builder(self.graph)
        for node in _nodes_after(self.graph, last):
            self._mark(node)

    def _mark(self, node: Node) -> None:
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
        return context.BACKWARD.get() is not self._outer_backward

    @contextlib.contextmanager
    def checkpointed(self) -> Iterator[None]:
        """What is recorded in this block stands under a checkpoint of its own, unless a backward runs it."""
        around = context.CHECKPOINTS.get()
        token = context.CHECKPOINTS.set(around if self._is_in_backward() else (*around, next_serial()))
        try:
            yield
        finally:
            context.CHECKPOINTS.reset(token)

    def _recognise(self, tensor: Tensor) -> Binding:
        """A tensor seen for the first time: another object for memory made inside the trace, or a capture."""
        place = _place(tensor)
        inside = [cell for cell in self._cells.get(tensor._storage, ()) if cell.source is None]
        for cell in inside:
            if cell.geometry == place:
                return self.bind(tensor, cell, (), cell.root)
        if inside:
            raise TraceError(
                f"{_at()}a tensor shares memory with one made in the traced function in a way that was not recorded; "
                "clone it"
            )
        return self._capture(tensor)

    def _capture(self, tensor: Tensor, gradient_of: Value | None = None) -> Binding:
        self._check_first_stage("a tensor")
        extent = extent_of(tensor._array)
        if any(_overlap(cell.extent, extent) for cell in self._dirty):
            raise _shared_memory()
        name, place = self.locate(tensor)
        holder = None
        if place is None and gradient_of is not None:
            name, holder = f"{gradient_of.name}.grad", self.graph.inputs.index(gradient_of)
        name = name or tensor.name or "captured"
        value = self.graph.add_input(type_of(tensor), name, 0)
        self.captures.append(Capture(value, tensor, name, place, holder, edge=edge_of(tensor), kind=kind_of(tensor)))
        self.bind_root(tensor, value, value)
        return self.binding(tensor)  # type: ignore[return-value]

    def _check_first_stage(self, what: str) -> None:
        if len(self.graph.stages) > 1:
            raise TraceError(
                f"{_at()}{what} that the traced function itself does not use is first used in its backward, "
                "by a hook perhaps; use it in the function, or register the hook outside"
            )

    def stand_for(self, inner: Tensor, outer: Tensor) -> None:
        """The function gets `inner` in the place of its argument `outer`."""
        self.outer[inner], self.inner[outer] = outer, inner

    def add_argument(self, tensor: Tensor, name: str, stage: int = 0) -> Value:
        """A visible input of `stage`."""
        value = self.graph.add_input(type_of(tensor), name, stage)
        self.bind_root(tensor, value, value)
        return value

    def add_number(self, number: Any, name: str) -> TracedScalar:
        """A promoted number: a hidden input, and what stands in its place."""
        value = self.graph.add_input(ScalarType(type(number).__name__), name, 0)
        count = sum(capture.number is not None for capture in self.captures)
        self.captures.append(Capture(value, number, name, number=count))
        return TracedScalar(self, number, value)

    def constant(self, tensor: Tensor, reason: str, foreign: bool = False) -> Value:
        """A tensor made from Python data inside the trace: a constant, listed in the ledger."""
        array = np.array(tensor._array, order="C")
        value = self._add("prim::Constant", (), {"value": array}, [_contiguous(type_of(tensor))]).output
        self.bind_root(tensor, value)
        self._cells[tensor._storage][-1].foreign = foreign
        self._note_constant(value, array, reason)
        return value

    def _note_constant(self, value: Value, array: Any, reason: str) -> None:
        self.constants.append(Constant(value.name, int(array.nbytes), context.user_source(), reason))

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _add(self, kind: str, operands: Sequence[Any], attributes: dict[str, Any], types: Sequence[Type]) -> Node:
        node = self.graph.add(kind, operands, attributes, types)
        self._mark(node)
        return node

    def _operand(self, value: Any) -> Any:
        """A schema argument as a template: tensors and traced numbers as Values."""
        if isinstance(value, Tensor):
            return self.value_of(value)
        if type(value) is TracedScalar:
            return value._ir() if value._trace is self else value._number
        if isinstance(value, (tuple, list)):
            return tuple(self._operand(item) for item in value)
        if isinstance(value, Generator):
            return self._state_of(value)
        return value

    def _state_of(self, generator: Generator) -> Value:
        if generator not in self._generators:
            self._check_first_stage("a random generator")
            name, place = self.locate(generator)
            name = "rng" if generator is default_generator() else (name or "generator")
            value = self.graph.add_input(GENERATOR, name, 0)
            self.captures.append(Capture(value, generator, name, place))
            self.originals[value] = generator.state
            self._generators[generator] = self._initial_states[generator] = value
        return self._generators[generator]

    def record(self, op: Op, values: Sequence[Any]) -> Any:
        """Run `op` and record it."""
        hook = pause()
        try:
            return self._record(op, values)
        finally:
            resume(hook)

    def _record(self, op: Op, values: Sequence[Any]) -> Any:
        if op.kind == "composite":
            return self._record_composite(op, values)
        if op.kind == "view":  # the way to a view is replayed, by numbers that are known
            values = [values[0], *(_settled(v) for v in values[1:])]
        operands, attributes, generator = self._prepare(op, values)
        result = dispatch.run(op, values)
        outputs = dispatch.unpack(result)
        types: list[Type] = [type_of(t) if t.defined else UNDEFINED for t in outputs]
        if op.kind == "view" and _lies_otherwise(operands[0].type, type_of(values[0])):
            types = _view_types(op, operands[0], values[1:])
        node = self._add(op.name, operands, attributes, types if generator is None else [*types, GENERATOR])
        for index, (tensor, value) in enumerate(zip(outputs, node.outputs, strict=False)):
            if tensor.defined:
                self._bind_output(op, values, tensor, value, index)
        if generator is not None:
            self._generators[generator] = node.outputs[-1]
        if _has_measured_sizes(op, values):
            self._guard_sizes(outputs)
        return result

    def _guard_sizes(self, tensors: Sequence[Tensor]) -> None:
        """Sizes that depend on elements may differ in the next call, and what follows has been recorded for these."""
        if self.open_sizes:
            self.left_open = True
            return
        for size in (size for tensor in tensors for size in self.sizes_of(tensor)):
            size._decide()

    def _prepare(self, op: Op, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any], Generator | None]:
        """Operands and attributes of the node, taken before the op runs."""
        generator: Generator | None = None
        filled = list(values)
        if op.kind == "random":
            at = next(i for i, a in enumerate(op.arguments) if a.type.base == "Generator")
            generator = filled[at] or default_generator()
            filled[at] = generator
        operands, attributes = op.split([self._operand(v) for v in filled])
        return operands, attributes, generator

    def _bind_output(self, op: Op, values: Sequence[Any], tensor: Tensor, value: Value, index: int) -> None:
        if op.kind == "view":
            source = self.binding(values[0])
            assert source is not None
            if op.schema.name == "as_strided":
                self._bind_strided(tensor, source, value, values[1:])
                return
            step = ViewStep(op, _plain(tuple(values[1:])), index)
            self._note_numbers(step, values[1:])
            self.bind(tensor, source.cell, (*source.path, step), value)
        else:
            self.bind_root(tensor, value)

    def _note_numbers(self, step: ViewStep, arguments: Any) -> None:
        """Remember what a step knows as plain numbers, and was given as traced ones."""
        if numbers := [n for n in leaves(tuple(arguments)) if type(n) is TracedScalar]:
            self._numbers[id(step)] = (step, numbers)

    def _numbers_of(self, step: ViewStep) -> Sequence[TracedScalar]:
        return self._numbers[id(step)][1] if id(step) in self._numbers else ()

    def settle(self, path: Sequence[ViewStep], returned: bool = False) -> None:
        """A way to a view is gone once more, by numbers that are plain there: from now on these are decided upon."""
        if returned and self.open_sizes:  # nobody goes that way
            return
        for step in path:
            for number in self._numbers_of(step):
                number._decide()

    def _bind_strided(self, tensor: Tensor, source: Binding, value: Value, numbers: Sequence[Any]) -> None:
        """`as_strided` shows what lies in memory; of any but a contiguous root, a graph says it of its elements."""
        cell = source.cell
        if isinstance(cell.root.type, TensorType) and cell.root.type.dtype is not tensor.dtype:
            raise TraceError(f"{_at()}as_strided of a view of another dtype cannot be recorded; clone the view first")
        address, sizes, strides = cell.geometry
        home = Geometry(sizes, tuple(s // tensor._array.itemsize for s in strides))
        plain = not source.path and home.is_contiguous
        step = strided_step(address, home, tensor._array)
        self._note_numbers(step, [*numbers, *(n for before in source.path for n in self._numbers_of(before))])
        binding = self.bind(tensor, cell, (step,), value)
        if not plain:
            binding.value = self._derive(binding)

    def record_inplace(self, op: Op, values: Sequence[Any]) -> Tensor:
        """Run `op` in place; recorded as the functional op, whose result the tensor then holds."""
        target = values[0]
        hook = pause()
        try:
            operands, attributes, generator = self._prepare(op, values)
            self.keep_original(target)
            dispatch.run_inplace(op, values)
            value = self._functional(op, operands, attributes, generator, target)
            self.assign(target, value)
        finally:
            resume(hook)
        return target

    def _functional(
        self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], generator: Any, target: Tensor
    ) -> Value:
        wanted = _contiguous(type_of(target))
        inferred = op.infer([_type_or_constant(v) for v in op.join(operands, attributes)])
        node = self._add(op.name, operands, attributes, inferred)
        if generator is not None:
            self._generators[generator] = node.outputs[-1]
        value = node.outputs[0]
        if isinstance(value.type, TensorType) and value.type.dtype is not wanted.dtype:
            value = self._add("aten::_to_copy", (value,), {"dtype": wanted.dtype}, [wanted]).output
        if isinstance(value.type, TensorType) and value.type.shape != wanted.shape:
            value = self._add("aten::expand", (value,), {"size": wanted.shape}, [_expanded(value.type, wanted)]).output
        return value

    def assign(self, tensor: Tensor, value: Value) -> None:
        """`tensor`'s memory now holds `value`: a new root for its cell, an epoch further."""
        binding = self.binding(tensor)
        assert binding is not None
        cell = binding.cell
        root_before = cell.root
        if binding.path:
            self.settle(binding.path)
            with self._building() as F:
                root = _scatter(F, binding.path, F.wrap(cell.root), F.wrap(value))
                cell.root = (root if root.is_contiguous() else F.clone(root)).value
        else:
            cell.root = value
        if not context.GRAD_ENABLED.get():
            self.histories |= {new: old for old, new in ((binding.value, value), (root_before, cell.root))}
        cell.epoch += 1
        self._take_note_of_writes(tensor)
        binding.value, binding.epoch = value, cell.epoch
        if cell.source is not None:
            self._dirty[cell] = None

    def _take_note_of_writes(self, tensor: Tensor) -> None:
        for cell in self._cells.get(tensor._storage, ()):
            cell.version = tensor._storage.version

    def keep_original(self, tensor: Tensor) -> None:
        """Before `tensor` is written to: TraceError where a recording could not repeat that, and a copy of an input."""
        self.value_of(tensor)
        binding = self.binding(tensor)
        assert binding is not None
        cell = binding.cell
        if cell.foreign:
            raise TraceError(
                f"{_at()}the function writes to the memory of a numpy array; make it a tensor outside of the function"
            )
        neighbours = {*self._inputs, *self._cells.get(tensor._storage, ())} - {cell}
        if any(_overlap(other.extent, cell.extent) for other in neighbours):
            raise _shared_memory()
        if cell.source is not None and cell.source not in self.originals:
            self.originals[cell.source] = cell.tensor._array.copy()

    # -- composites ----------------------------------------------------------------------------------------------

    def _record_composite(self, op: Op, values: Sequence[Any]) -> Any:
        """The DCE trick: the parts are recorded, then the composite's node over them, which takes over the outputs."""
        graph = self.graph
        operands, attributes = op.split([self._operand(v) for v in values])
        last, cells, states = graph._last, self._roots(), dict(self._generators)
        outer = context.SCOPE.get()
        result = dispatch.run(op, values)
        parts = _nodes_after(graph, last)
        inside = {v for node in parts for v in node.outputs}
        outputs = [t for t in dispatch.unpack(result) if isinstance(t, Tensor)]
        fresh = [t for t in outputs if self.binding(t) is not None and self.value_of(t) in inside]
        moved = [
            cell
            for cell, root in self._roots().items()
            if cells.get(cell) is not root and cell.root in inside and cell in cells
        ]
        drawn = [g for g, v in self._generators.items() if states.get(g) is not v and v in inside]
        if not fresh and not moved and not drawn:
            return result
        node = graph.create(op.name, operands, attributes)
        extra = tuple(
            v
            for v in dict.fromkeys(v for n in parts for v in n.inputs)
            if v not in inside and v not in set(node.inputs)
        )
        if extra:
            node = graph.create(op.name, operands, {**attributes, "extra": extra})
        graph.insert(node)
        self._mark(node)
        node.scope = outer
        composite = Composite(node, parts, [])
        for tensor in fresh:
            binding = self.binding(tensor)
            assert binding is not None
            new = self._take_over(composite, binding.value)
            if binding.cell.root is binding.value:
                binding.cell.root = new
            binding.value = new
        for cell in moved:
            cell.root = self._take_over(composite, cell.root)
        for generator in drawn:
            self._generators[generator] = self._take_over(composite, self._generators[generator])
        self.composites.append(composite)
        return result

    def _take_over(self, composite: Composite, part: Value) -> Value:
        if part in composite.taken:
            return composite.node.outputs[composite.taken.index(part)]
        composite.taken.append(part)
        return composite.node.add_output(part.type)

    def _roots(self) -> dict[Cell, Value]:
        return {cell: cell.root for cell in self._inputs}

    # -- Python functions ----------------------------------------------------------------------------------------

    def record_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Run an autograd.Function and record it as a PythonOp: opaque, with a Handle if it has a backward to run."""
        hook = pause()  # it may do as it likes: it runs in every call
        try:
            return self._record_function(function, args)
        finally:
            resume(hook)

    def _record_function(self, function: Any, args: Sequence[Any]) -> Any:
        args = [a._decide() if type(a) is TracedScalar else a for a in args]
        _check_opaque(function, args)
        tensors = [a for a in args if isinstance(a, Tensor)]
        operands = [self.value_of(t) for t in tensors]
        plain = tuple(_Slot if isinstance(a, Tensor) else a for a in args)
        needs = tuple(map(dispatch.requires_grad, tensors))
        before = [(t._array.copy(), t._storage.version) for t in tensors]
        with context.tracing(None):
            result, node = run_once(function, args, tensors, context.GRAD_ENABLED.get() and any(needs))
        outputs = dispatch.unpack(result)
        types: list[Type] = [type_of(t) for t in outputs]
        written = tuple(any(t is o for o in outputs) for t in tensors)
        _check_written(function, tensors, before, written)
        attributes = {
            **_named_arguments(function, plain), "function": function, "arguments": plain,
            "treatment": Treatment(needs, written),
        }  # fmt: skip
        recorded = self._add(f"^{function.__name__}", operands, attributes, types if node is None else [*types, HANDLE])
        for tensor, value in zip(outputs, recorded.outputs, strict=False):
            which = next((i for i, t in enumerate(tensors) if t is tensor), None)
            if which is None:
                self.bind_root(tensor, value)
            else:
                self._assign_dirty(tensor, value, before[which][0])
        if node is not None:
            self.handles[node] = recorded.outputs[-1]
        return result

    def _assign_dirty(self, tensor: Tensor, value: Value, before: Any) -> None:
        """A PythonOp has written to its argument."""
        after = tensor._array.copy()
        np.copyto(tensor._array, before)
        self._take_note_of_writes(tensor)
        self.keep_original(tensor)
        np.copyto(tensor._array, after)
        self.assign(tensor, value)

    def record_native(self, op: Any, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """A call of a CppOp, which has just run."""
        operands = [self.value_of(t) for t in tensors]
        recorded = self._add(op.schema.qualified, operands, {"function": op}, [type_of(t) for t in outputs])
        for tensor, value in zip(outputs, recorded.outputs, strict=True):
            self.bind_root(tensor, value)

    def record_eval(self, node: Any, gradients: Sequence[Any], run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Run the backward of a PythonOp and record it as an Eval of its Handle."""
        operands = [None if g is None else self.value_of(g) for g in gradients]
        hook = pause()  # as in `record_function`
        try:
            with context.tracing(None):
                results = run()
        finally:
            resume(hook)
        found = [r for r in results if r is not None]
        if any(r.requires_grad for r in found):
            raise EscapedTracerError(
                f"{_at()}{node.name} computes a part of its gradient by foreign code, and a part that can be "
                "differentiated; write it in tensor operations, or none of it"
            )
        recorded = self._add(
            "prim::Eval",
            (*operands, self.handles[node]),
            {"wanted": tuple(r is not None for r in results)},
            [type_of(r) for r in found],
        )
        for tensor, value in zip(found, recorded.outputs, strict=True):
            self.bind_root(tensor, value)
        return results

    # -- numbers -------------------------------------------------------------------------------------------------

    def sizes_of(self, tensor: Tensor) -> Any:
        """Traced integers for the sizes of a tensor that this trace knows; None for others."""
        binding = self.binding(tensor)
        if binding is None or tensor._array is None:
            return None
        value = binding.value
        return Size(self._size(value, dim, size) for dim, size in enumerate(tensor._array.shape))  # type: ignore[misc]

    def _size(self, value: Value, dim: int, size: int) -> TracedScalar:
        return TracedScalar(
            self, size, make=lambda: self._add("prim::size", (value,), {"dim": dim}, [INT]).output, measured=False
        )

    def item(self, tensor: Tensor) -> Any:
        """The only element of a tensor as a traced number."""
        if tensor._array is None or tensor._array.size != 1:
            return None
        value = self.value_of(tensor)
        number = tensor._array.item() if tensor.dtype is not dtypes.bfloat16 else float(tensor._array.reshape(())[()])
        return TracedScalar(
            self, number, self._add("prim::item", (value,), {}, [ScalarType(type(number).__name__)]).output
        )

    def scalar_node(self, kind: str, operands: Sequence[Any], number: Any) -> TracedScalar:
        """A recorded computation on numbers."""
        node = self._add(kind, [self._operand(o) for o in operands], {}, [ScalarType(type(number).__name__)])
        measured = any(type(o) is TracedScalar and o._measured for o in operands)
        return TracedScalar(self, number, node.output, measured=measured)

    def guard(self, value: Value, outcome: Any) -> None:
        """Python has decided on `value`: the trace holds while it is `outcome`."""
        if value in self._guarded:
            return
        if self.strict:
            raise TraceError(
                f"{_at()}Python decides on a traced value here, and strict=True forbids that; use where(), "
                "or trace without strict"
            )
        self._guarded[value] = outcome
        node = self._add("prim::Guard", (value,), {"expected": outcome}, [])
        self.guards.append(GuardRecord(node, outcome, node.source))

    def note_impure(self, what: str) -> None:
        """The function does `what`: its recording serves this call alone."""
        if self.impure is None:
            source = context.user_source()
            self.impure = what if source is None else f"{what} at {source}"

    def note_state(self, generator: Generator, sets: bool) -> None:
        """The function itself reads or sets the state of a generator."""
        self.note_impure(f"{'sets' if sets else 'reads'} the state of a random generator")
        if sets:
            self._generators.pop(generator, None)  # what it draws from now on starts elsewhere

    def note_text(self) -> None:
        """Elements of a tensor become text: fine for people to read, but nobody knows what else becomes of it."""
        if not self.printing:
            self.note_impure("makes text of the elements of a tensor")

    def refuse_escape(self, tensor: Tensor, what: str) -> None:
        """`numpy()` and its like would bake what a traced tensor holds."""
        raise EscapedTracerError(
            f"{_at()}{what} takes a tensor out of the trace, so what Python computes from it would be frozen; use "
            "tensor operations, .item(), .clone(), or an autograd.Function for foreign code"
        )

    def is_inside(self, tensor: Tensor) -> bool:
        """Whether the traced function made this tensor."""
        binding = self.binding(tensor)
        if binding is None and tensor._storage in self._cells:
            binding = self._recognise(tensor)
        return binding is not None and binding.cell.source is None

    def refuse_change(self, tensor: Tensor, what: str) -> None:
        """TraceError if `tensor` comes from outside: a recording repeats what happens to elements, and nothing else."""
        if not self.is_inside(tensor):
            raise TraceError(
                f"{_at()}{what} a tensor from outside the traced function cannot be repeated by a recording; "
                "do it outside"
            )

    def note_hook(self, tensor: Tensor, hook: Callable[[Any], Any]) -> None:
        """The function hooks something to the gradient of `tensor`: it becomes part of the stages that follow."""
        self.refuse_change(tensor, "register_hook() of")
        self.hooks.setdefault(self.value_of(tensor), []).append(hook)

    def check_inside(self, node: Any) -> None:
        """TraceError if a backward inside the traced function goes on outside of it."""
        if node.edges and node.serial < self._first:
            raise TraceError(
                f"{_at()}a backward inside the traced function goes on through {node.name}, which was computed outside "
                f"of it (at {node.source}); pass what it is computed from as an argument, or detach() it"
            )

    # -- gradients -----------------------------------------------------------------------------------------------

    def gradient_of(self, tensor: Tensor) -> Tensor | None:
        """`tensor.grad`, as the function reads it."""
        slot = self._slot(tensor, reads=True)
        return tensor._grad if slot is None else slot.holder._grad

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """`tensor.grad = gradient`, in the function."""
        slot = self._slot(tensor, reads=False)
        (tensor if slot is None else slot.holder)._grad = gradient

    def accumulate(self, tensor: Tensor, gradient: Tensor, differentiable: bool) -> None:
        """What `jit.autograd.nodes.accumulate` does, by operators that are recorded."""
        from ..functions import F

        have = self.gradient_of(tensor)
        if have is None:
            self.set_gradient(tensor, gradient if differentiable else F.clone(gradient))
        elif differentiable or have.requires_grad or not is_plain(have):
            self.set_gradient(tensor, have + gradient)
        else:
            with context.no_grad():
                have.add_(gradient)

    def _slot(self, tensor: Tensor, reads: bool) -> GradientSlot | None:
        """The slot of a tensor from outside; None for one that the function made."""
        inner = self.inner.get(tensor, tensor)
        cell = (self.binding(inner) or self._recognise(inner)).cell
        if cell.source is None:
            return None
        self._check_first_stage(".grad of a tensor from outside")
        if cell.tensor is not inner and inner not in self.outer:
            return None
        holder = self.outer.get(inner, inner)
        slot = self.slots.get(holder)
        if slot is None:
            slot = self.slots[holder] = GradientSlot(holder, cell.source, holder._grad, None, reads)
            if reads and holder._grad is not None:
                slot.found = self._found_gradient(holder._grad, cell.source)
        return slot

    def _found_gradient(self, gradient: Tensor, holder: Value) -> Value:
        binding = self.binding(self.inner.get(gradient, gradient))
        if binding is None or (binding.cell.tensor is not gradient and gradient not in self.inner):
            binding = self._capture(gradient, holder)
        assert binding.cell.source is not None
        return binding.cell.source

    def check_hooks(self, node: Any) -> None:
        """TraceError if a backward inside the function ends at a leaf with hooks: they are not part of the function."""
        if len(self.graph.stages) > 1:
            return
        leaf = self.inner.get(node.variable, node.variable)
        cell = (self.binding(leaf) or self._recognise(leaf)).cell
        if cell.source is None:
            return
        self.differentiated[self.outer.get(leaf, leaf)] = cell.source
        if has_hooks(node.variable):
            raise TraceError(
                f"{_at()}a backward inside the traced function runs a hook that was registered outside, on "
                f"{cell.source.name!r}; register it inside, or call backward() outside"
            )

    # -- results -------------------------------------------------------------------------------------------------

    def input_value(self, owner: Any, value: Value) -> Any:
        """What an input held before the function ran: an array or a RandomState."""
        if value in self.originals:
            return self.originals[value]
        if type(owner) in KINDS:
            return owner
        return owner.state if isinstance(owner, Generator) else owner._array

    def drop_stage(self, stage: int, guards: int) -> None:
        """Forget a stage that could not be recorded, and the guards after the first `guards`."""
        self.composites = [c for c in self.composites if c.node.stage < stage]
        del self.guards[guards:]
        self._guarded = {value: outcome for value, outcome in self._guarded.items() if value.stage < stage}
        self.graph.drop_stages(stage)

    def forget(self) -> None:
        """Let go of the memory of the call that was recorded."""
        for table in (self.originals, self.slots, self.outer, self.inner, self.differentiated):
            table.clear()
        for cell in self._inputs:
            cell.tensor = None

    def updates(self) -> list[tuple[Cell, Value]]:
        """Inputs that hold another value than they came with."""
        return [
            (cell, cell.root)
            for cell in sorted(self._dirty, key=lambda c: c.source.name if c.source else "")
            if cell.root is not cell.source
        ]

    def drawn(self) -> list[tuple[Generator, Value, Value]]:
        """Generators that were drawn from: (generator, its input, its final state)."""
        pairs = ((g, self._initial_states[g], v) for g, v in self._generators.items())
        return [(g, first, last) for g, first, last in pairs if first is not last]


def _at() -> str:
    source = context.user_source()
    return "" if source is None else f"at {source}: "


def _shared_memory() -> TraceError:
    return TraceError(
        f"{_at()}the traced function writes to memory that several tensors from outside share in different ways; "
        "clone one of them first"
    )


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _check_opaque(function: Any, args: Sequence[Any]) -> None:
    """A PythonOp sees the tensors among its arguments and nothing else of the trace."""
    hidden = [item for a in args if isinstance(a, (list, tuple, dict)) for item in leaves(a)]
    cells = getattr(function.forward, "__closure__", None) or ()
    inner = [c.cell_contents for c in cells if c != CellType()]
    hidden += [t for t in inner if isinstance(t, Tensor) and t._bindings is not None]
    if any(isinstance(item, (Tensor, TracedScalar)) for item in hidden):
        raise TraceError(
            f"{_at()}{function.__name__} takes tensors in a list, a dict or from the function around it, where a "
            "recording cannot follow them; pass each as an argument of apply()"
        )


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a PythonOp did with its tensor arguments; an attribute without text."""

    needs: tuple[bool, ...]
    """Which of them required a gradient."""
    written: tuple[bool, ...]
    """Which of them it wrote to and returned."""


def _check_written(function: Any, tensors: Sequence[Tensor], before: Sequence[Any], written: Sequence[bool]) -> None:
    for tensor, (_, version), declared in zip(tensors, before, written, strict=True):
        if tensor._storage.version != version and not declared:
            raise TraceError(
                f"{_at()}{function.__name__} writes to an argument without saying so; pass it to ctx.mark_dirty() "
                "and return it"
            )


def _lies_otherwise(type: Any, actual: TensorType) -> bool:
    """Whether a Value lies otherwise than the tensor; in a replay for other sizes no type of before says anything."""
    return bool(type != actual and type.shape == actual.shape)


def _view_types(op: Op, base: Value, arguments: Sequence[Any]) -> list[Type]:
    """The types of views of a Value that lies otherwise than the memory that it stands for.

    Memory that was written to keeps its layout; the Value that was written is row-major.
    """
    try:
        return op.infer([base.type, *map(_plain, arguments)])
    except ShapeError as error:
        raise TraceError(
            f"{_at()}a tensor that is not row-major was written to in place and is then seen through "
            f"{op.schema.name}, which depends on how it lies in memory; call contiguous() on it first"
        ) from error


def _always(*_: Any) -> bool:
    return True


_MEASURING: dict[str, Callable[..., bool]] = {
    "index": lambda self, indices: any(t is not None and t.dtype is dtypes.bool_ for t in indices),
    "one_hot": lambda self, num_classes: concrete(num_classes) == -1,
    "nonzero": _always, "masked_select": _always, "bincount": _always, "_unique2": _always, "unique_dim": _always,
    "unique_consecutive": _always, "_pack_padded_sequence": _always, "_pad_packed_sequence": _always,
}  # fmt: skip
"""Operators whose results have sizes that depend on elements, and for which arguments."""


def _has_measured_sizes(op: Op, values: Sequence[Any]) -> bool:
    """Whether the sizes of the results depend on the elements of something."""
    if op.schema.name in _MEASURING and _MEASURING[op.schema.name](*values):
        return True
    return any(_is_measured(v) for v, a in zip(values, op.arguments, strict=True) if a.type.base == "int")


def _is_measured(value: Any) -> bool:
    return (
        any(map(_is_measured, value)) if isinstance(value, tuple) else type(value) is TracedScalar and value._measured
    )


def _plain(value: Any) -> Any:
    """Traced numbers as what they are now; for sizes, which the key of a trace fixes."""
    return tuple(map(_plain, value)) if isinstance(value, tuple) else concrete(value)


def _settled(value: Any) -> Any:
    """A number read from elements as a plain one, by a guard."""
    if isinstance(value, tuple):
        return tuple(map(_settled, value))
    return value._decide() if _is_measured(value) else value


class _SlotType:
    """Stands for a tensor among the arguments of a PythonOp."""

    def __repr__(self) -> str:
        return "tensor"


_Slot = _SlotType()


def _named_arguments(function: Any, plain: Sequence[Any]) -> dict[str, Any]:
    """The non-tensor arguments by the names that forward gives them, for the printout."""
    code = getattr(function.forward, "__code__", None)
    names = list(code.co_varnames[1 : code.co_argcount]) if code is not None else []
    simple = (int, float, bool, str, type(None))
    return {n: a for n, a in zip(names, plain, strict=False) if isinstance(a, simple)}


def _nodes_after(graph: Graph, last: Node | None) -> list[Node]:
    node = graph._first if last is None else last._next
    found = []
    while node is not None:
        found.append(node)
        node = node._next
    return found


def type_of(tensor: Tensor) -> TensorType:
    """The IR type of a tensor."""
    array = tensor._array
    strides = tuple(s // array.itemsize for s in array.strides)
    return TensorType(
        tensor.dtype, tuple(array.shape), None if is_contiguous(array.shape, strides) else strides, tensor.device
    )


def _contiguous(type: TensorType) -> TensorType:
    return TensorType(type.dtype, type.shape, None, type.device)


def _expanded(type: TensorType, wanted: TensorType) -> TensorType:
    assert type.sizes is not None and wanted.sizes is not None
    from jit.ir.op import strides_of

    geometry = Geometry(type.sizes, strides_of(type)).expand(wanted.sizes)
    return TensorType(type.dtype, geometry.sizes, None if geometry.is_contiguous else geometry.strides, type.device)


def _type_or_constant(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_type_or_constant(v) for v in value)
    if isinstance(value, Value):
        return value.type if isinstance(value.type, TensorType) else 1
    return value


def _place(tensor: Tensor) -> tuple[Any, ...]:
    array = tensor._array
    return (array.__array_interface__["data"][0], array.shape, array.strides)


def extent_of(array: Any) -> tuple[int, int]:
    """The addresses between which the elements of an array lie; empty if it has none."""
    start = array.__array_interface__["data"][0]
    if array.size == 0:
        return start, start
    reaches = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    return start + sum(r for r in reaches if r < 0), start + sum(r for r in reaches if r > 0) + array.itemsize


def has_hooks(leaf: Any) -> bool:
    """Whether somebody has hooked something to the gradient of a leaf."""
    return any(leaf.__dict__.get(name) for name in ("gradient_hooks", "post_accumulate_hooks"))


def kind_of(tensor: Any) -> tuple[Any, ...]:
    """What a recording takes for granted of a tensor."""
    array = getattr(tensor, "_array", None)
    if array is None:
        return ("undefined",)
    strides = tuple(s // array.itemsize for s in array.strides)
    layout = None if is_contiguous(array.shape, strides) else strides
    flags = (tensor.requires_grad, tensor.is_leaf, array.flags.writeable)
    return (array.dtype, array.shape, layout, *flags, class_of(tensor))


def _scatter(F: Builder, path: Sequence[ViewStep], base: Any, source: Any) -> Any:
    """`scatter` of jit.autograd.nodes, over a graph."""
    along = [base]
    for step in path[:-1]:
        along.append(_step(F, step, along[-1]))
    for step, outer in zip(reversed(path), reversed(along), strict=True):
        returns = step.op.schema.returns[0].type
        if step.op.scatter is not None and not returns.is_list:
            source = step.op.scatter(F, outer, source, *step.arguments)
        else:
            geometry = step.op.body(Geometry.contiguous(outer.type.sizes), *step.arguments)
            sizes, strides, offset = geometry[step.index] if isinstance(geometry, list) else geometry
            source = F.as_strided_scatter(outer, source, sizes, strides, offset)
    return source


def _step(F: Builder, step: ViewStep, base: Any) -> Any:
    result = F.call(step.op, (base, *step.arguments))
    return result[step.index] if isinstance(result, list) else result


__all__ = [
    "Binding",
    "Capture",
    "Cell",
    "Composite",
    "RandomState",
    "Trace",
    "extent_of",
    "has_hooks",
    "kind_of",
    "scatter",
    "type_of",
]
