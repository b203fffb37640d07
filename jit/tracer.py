"""Records what runs: operators, sizes, guards, captures and random draws become the graph of a `Trace`.

See docs/tracing.md for the cases that shaped this. The graph of a Trace is in full detail: the parts of composites
stand beside them; `jit.folding` makes the graph that passes and people see.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jit.ir import GENERATOR, HANDLE, Graph, Node, Op, RandomState, Source, TensorType, Value, dtypes, find
from jit.ir.errors import TraceError
from jit.ir.geometry import Geometry
from jit.ir.types import UNDEFINED, ScalarType, Type, is_contiguous
from jit.passes.builder import Builder

from . import context, dispatch
from .autograd.nodes import scatter
from .generators import Generator, default_generator
from .proxies import TracedScalar, concrete
from .tensors import Size, Storage, Tensor, ViewStep


@dataclass(eq=False, slots=True)
class Cell:
    """What a storage holds now; see Note [Cells]."""

    root: Value
    geometry: tuple[Any, ...]
    """Array interface of the root tensor: (address, sizes, strides), to recognise other tensors on the same memory."""
    epoch: int = 0
    source: Value | None = None
    """The hidden or visible input that the cell started as; None for memory made inside the trace."""
    tensor: Any = None
    """The root tensor, if it is an input."""


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
    name: str


@dataclass(slots=True)
class Constant:
    """A line of the constants ledger."""

    name: str
    nbytes: int
    source: Source | None
    reason: str


@dataclass(slots=True)
class GuardRecord:
    """A decision that Python took on a traced value."""

    node: Node
    outcome: Any
    source: Source | None


@dataclass(eq=False)
class Trace:
    """A recording under way. Its `graph` grows with every operator that runs in its context."""

    name_of: Callable[[Any], str | None] = lambda owner: None
    """Finds the user's name for a captured tensor."""
    graph: Graph = field(default_factory=Graph)
    captures: list[Capture] = field(default_factory=list)
    guards: list[GuardRecord] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    composites: list[Composite] = field(default_factory=list)
    gradients: dict[Tensor, None] = field(default_factory=dict)
    """Leaves whose `.grad` was written by a backward inside the traced function."""

    def __post_init__(self) -> None:
        self._bindings: list[Binding] = []
        self._cells: weakref.WeakKeyDictionary[Storage, list[Cell]] = weakref.WeakKeyDictionary()
        self._generators: dict[Generator, Value] = {}
        self._initial_states: dict[Generator, Value] = {}
        self.handles: dict[Any, Value] = {}
        """Autograd node of a PythonOp -> its Handle."""
        self._guarded: dict[Value, Any] = {}
        self._dirty: set[Cell] = set()
        self._kept: list[Any] = []

    # -- who is who ----------------------------------------------------------------------------------------------

    def binding(self, tensor: Tensor) -> Binding | None:
        """What this trace knows of `tensor`; references of dead traces are dropped on the way."""
        found, alive = None, []
        for reference in tensor._bindings or ():
            binding = reference()
            if binding is not None:
                alive.append(reference)
                if binding.trace == id(self):
                    found = binding
        if tensor._bindings is not None and len(alive) != len(tensor._bindings):
            tensor._bindings = tuple(alive) or None
        return found

    def bind(self, tensor: Tensor, cell: Cell, path: tuple[ViewStep, ...], value: Value) -> Binding:
        """Let `value` be what `tensor` holds now."""
        old = self.binding(tensor)
        if old is not None:
            old.cell, old.path, old.value, old.epoch = cell, path, value, cell.epoch
            return old
        binding = Binding(id(self), cell, path, value, cell.epoch)
        self._bindings.append(binding)
        tensor._bindings = (*(tensor._bindings or ()), weakref.ref(binding))
        return binding

    def bind_root(self, tensor: Tensor, value: Value, source: Value | None = None) -> None:
        """Let `value` be the root of `tensor`'s storage."""
        cell = Cell(value, _place(tensor), 0, source, tensor if source is not None else None)
        self._cells.setdefault(tensor._storage, []).append(cell)
        self.bind(tensor, cell, (), value)

    def value_of(self, tensor: Tensor) -> Value:
        """The Value that `tensor` holds now; tensors from outside become hidden inputs."""
        binding = self.binding(tensor) or self._recognise(tensor)
        if binding.epoch != binding.cell.epoch:
            binding.value = self._derive(binding)
            binding.epoch = binding.cell.epoch
        return binding.value

    def _derive(self, binding: Binding) -> Value:
        """The Value of a view whose root has moved on: the path replayed from the new root."""
        F = Builder(self.graph)
        proxy = F.wrap(binding.cell.root)
        for step in binding.path:
            result = F.call(step.op, (proxy, *(concrete(a) for a in step.arguments)))
            proxy = result[step.index] if isinstance(result, list) else result
        return proxy.value  # type: ignore[no-any-return]

    def _recognise(self, tensor: Tensor) -> Binding:
        """A tensor seen for the first time: other memory of a known storage, or a capture."""
        place = _place(tensor)
        for cell in self._cells.get(tensor._storage, ()):
            if cell.geometry == place:
                return self.bind(tensor, cell, (), cell.root)
        for cell in self._cells.get(tensor._storage, ()):
            step = _strided_step(cell, tensor)
            if step is not None:
                binding = self.bind(tensor, cell, (step,), cell.root)
                binding.epoch = -1
                return binding
        return self._capture(tensor)

    def _capture(self, tensor: Tensor) -> Binding:
        name = self.name_of(tensor) or tensor.name or "captured"
        value = self.graph.add_input(type_of(tensor), name, 0)
        self.captures.append(Capture(value, tensor, name))
        self.bind_root(tensor, value, value)
        return self.binding(tensor)  # type: ignore[return-value]

    def add_argument(self, tensor: Tensor, name: str, stage: int = 0) -> Value:
        """A visible input of `stage`."""
        value = self.graph.add_input(type_of(tensor), name, stage)
        self.bind_root(tensor, value, value)
        return value

    def constant(self, tensor: Tensor, reason: str, source: Any = None) -> Value:
        """A tensor made from Python data inside the trace: a constant, listed in the ledger."""
        array = np.array(tensor._array)
        value = self._add("prim::Constant", (), {"value": array}, [type_of(tensor)]).output
        self.bind_root(tensor, value)
        self._note_constant(value, array, reason)
        return value

    def _note_constant(self, value: Value, array: Any, reason: str) -> None:
        self.constants.append(Constant(value.name, int(array.nbytes), context.user_source(), reason))

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _add(self, kind: str, operands: Sequence[Any], attributes: dict[str, Any], types: Sequence[Type]) -> Node:
        node = self.graph.add(kind, operands, attributes, types)
        node.source, node.scope = context.user_source(), context.SCOPE.get()
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
            name = "rng" if generator is default_generator() else (self.name_of(generator) or "generator")
            value = self.graph.add_input(GENERATOR, name, 0)
            self.captures.append(Capture(value, generator, name))
            self._generators[generator] = self._initial_states[generator] = value
        return self._generators[generator]

    def record(self, op: Op, values: Sequence[Any]) -> Any:
        """Run `op` and record it."""
        if op.kind == "composite":
            return self._record_composite(op, values)
        operands, attributes, generator = self._prepare(op, values)
        result = dispatch.run(op, values)
        outputs = dispatch.unpack(result)
        types: list[Type] = [type_of(t) if t.defined else UNDEFINED for t in outputs]
        node = self._add(op.name, operands, attributes, types if generator is None else [*types, GENERATOR])
        for index, (tensor, value) in enumerate(zip(outputs, node.outputs, strict=False)):
            if tensor.defined:
                self._bind_output(op, values, tensor, value, index)
        if generator is not None:
            self._generators[generator] = node.outputs[-1]
        return result

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
            step = ViewStep(op, tuple(concrete(v) for v in values[1:]), index)
            self.bind(tensor, source.cell, (*source.path, step), value)
        else:
            self.bind_root(tensor, value)

    def record_inplace(self, op: Op, values: Sequence[Any]) -> Tensor:
        """Run `op` in place; recorded as the functional op, whose result the tensor then holds."""
        target = values[0]
        operands, attributes, generator = self._prepare(op, values)
        dispatch.run_inplace(op, values)
        value = self._functional(op, operands, attributes, generator, target)
        self.assign(target, value)
        return target  # type: ignore[no-any-return]

    def _functional(self, op: Op, operands: Sequence[Any], attributes: dict[str, Any], generator: Any, target: Tensor) -> Value:
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
        self.value_of(tensor)
        binding = self.binding(tensor)
        assert binding is not None
        cell = binding.cell
        if len(self._cells.get(tensor._storage, ())) > 1:
            raise TraceError(
                f"at {context.user_source()}: the function writes to memory that several of its arguments share in different "
                "layouts; clone one of them first"
            )
        if binding.path:
            F = Builder(self.graph)
            path = [ViewStep(s.op, tuple(concrete(a) for a in s.arguments), s.index) for s in binding.path]
            cell.root = _scatter(F, path, F.wrap(cell.root), F.wrap(value)).value
        else:
            cell.root = value
        cell.epoch += 1
        binding.value, binding.epoch = value, cell.epoch
        if cell.source is not None:
            self._dirty.add(cell)

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
        fresh = [t for t in outputs if (b := self.binding(t)) is not None and self.value_of(t) in inside]
        moved = [cell for cell, root in self._roots().items() if cells.get(cell) is not root and cell.root in inside and cell in cells]
        drawn = [g for g, v in self._generators.items() if states.get(g) is not v and v in inside]
        if not fresh and not moved and not drawn:
            return result
        node = graph.create(op.name, operands, attributes)
        extra = tuple(v for v in dict.fromkeys(v for n in parts for v in n.inputs) if v not in inside and v not in set(node.inputs))
        if extra:
            node = graph.create(op.name, operands, {**attributes, "extra": extra})
        graph.insert(node)
        node.source, node.scope = context.user_source(), outer
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
        return {cell: cell.root for cells in self._cells.values() for cell in cells if cell.source is not None}

    # -- Python functions ----------------------------------------------------------------------------------------

    def record_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Run an autograd.Function and record it as a PythonOp: opaque, with a Handle if it has a backward to run."""
        tensors = [a for a in args if isinstance(a, Tensor)]
        operands = [self.value_of(t) for t in tensors]
        plain = tuple(concrete(a) if not isinstance(a, Tensor) else _Slot for a in args)
        with context.tracing(None):
            result, node = function._run(args)
        outputs = dispatch.unpack(result)
        types: list[Type] = [type_of(t) for t in outputs]
        named = _named_arguments(function, plain)
        attributes = {**named, "function": function, "arguments": tuple(plain)}
        recorded = self._add(f"^{function.__name__}", operands, attributes, types if node is None else [*types, HANDLE])
        for tensor, value in zip(outputs, recorded.outputs, strict=False):
            if any(tensor is t for t in tensors):
                self.assign(tensor, value)
            else:
                self.bind_root(tensor, value)
        if node is not None:
            self.handles[node] = recorded.outputs[-1]
        return result

    def record_native(self, op: Any, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """A call of a CppOp, which has just run."""
        operands = [self.value_of(t) for t in tensors]
        recorded = self._add(op.schema.qualified, operands, {"function": op}, [type_of(t) for t in outputs])
        for tensor, value in zip(outputs, recorded.outputs, strict=True):
            self.bind_root(tensor, value)

    def record_eval(self, node: Any, gradients: Sequence[Any], run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """Run the backward of a PythonOp and record it as an Eval of its Handle."""
        operands = [None if g is None else self.value_of(g) for g in gradients]
        with context.tracing(None):
            results = run()
        found = [r for r in results if r is not None]
        recorded = self._add("prim::Eval", (*operands, self.handles[node]), {"wanted": tuple(r is not None for r in results)}, [type_of(r) for r in found])
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
        return Size(self._size(value, dim, size) for dim, size in enumerate(tensor._array.shape))

    def _size(self, value: Value, dim: int, size: int) -> TracedScalar:
        return TracedScalar(self, size, make=lambda: self._add("prim::size", (value,), {"dim": dim}, [ScalarType("int")]).output)

    def item(self, tensor: Tensor) -> Any:
        """The only element of a tensor as a traced number."""
        if tensor._array is None or tensor._array.size != 1:
            return None
        value = self.value_of(tensor)
        number = tensor._array.item() if tensor.dtype is not dtypes.bfloat16 else float(tensor._array.reshape(())[()])
        return TracedScalar(self, number, self._add("prim::item", (value,), {}, [ScalarType(type(number).__name__)]).output)

    def scalar_node(self, kind: str, operands: Sequence[Any], number: Any) -> TracedScalar:
        """A recorded computation on numbers."""
        node = self._add(kind, [self._operand(o) for o in operands], {}, [ScalarType(type(number).__name__)])
        return TracedScalar(self, number, node.output)

    def guard(self, value: Value, outcome: Any) -> None:
        """Python has decided on `value`: the trace holds while it is `outcome`."""
        if value in self._guarded:
            return
        self._guarded[value] = outcome
        node = self._add("prim::Guard", (value,), {"expected": outcome}, [])
        self.guards.append(GuardRecord(node, outcome, node.source))

    def refuse_escape(self, tensor: Tensor, what: str) -> None:
        """`numpy()` and its like would bake what a traced tensor holds."""
        if self.binding(tensor) is not None or self._cells.get(tensor._storage):
            raise TraceError(
                f"at {context.user_source()}: {what} takes a traced tensor out of the trace, so what Python computes from it "
                "would be frozen; use tensor operations, .item(), or an autograd.Function for foreign code"
            )

    def note_gradient(self, leaf: Tensor) -> None:
        """A backward inside the traced function wrote `.grad` of `leaf`."""
        self.gradients[leaf] = None

    # -- results -------------------------------------------------------------------------------------------------

    def updates(self) -> list[tuple[Cell, Value]]:
        """Inputs that hold another value than they came with."""
        return [(cell, cell.root) for cell in sorted(self._dirty, key=lambda c: c.source.name if c.source else "") if cell.root is not cell.source]

    def drawn(self) -> list[tuple[Generator, Value, Value]]:
        """Generators that were drawn from: (generator, its input, its final state)."""
        pairs = ((g, self._initial_states[g], v) for g, v in self._generators.items())
        return [(g, first, last) for g, first, last in pairs if first is not last]


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
    return TensorType(tensor.dtype, tuple(array.shape), None if is_contiguous(array.shape, strides) else strides, tensor.device)


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


def _strided_step(cell: Cell, tensor: Tensor) -> ViewStep | None:
    """How to see `tensor` as a window into the root of `cell`, if it lies inside it."""
    address, shape, strides = cell.geometry
    array = tensor._array
    size = array.itemsize
    root = Geometry(shape, tuple(s // size for s in strides))
    if not root.is_contiguous:
        return None
    offset = array.__array_interface__["data"][0] - address
    if offset < 0 or offset % size or offset // size >= max(root.numel, 1):
        return None
    op = find("aten::as_strided")
    assert op is not None
    return ViewStep(op, (tuple(array.shape), tuple(s // size for s in array.strides), offset // size), 0)


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
            part = _step(F, step, outer)
            strides, offset = part.stride(), _offset(step, outer)
            source = F.as_strided_scatter(F.contiguous(outer), source, part.shape, strides, offset)
    return source


def _step(F: Builder, step: ViewStep, base: Any) -> Any:
    result = F.call(step.op, (base, *step.arguments))
    return result[step.index] if isinstance(result, list) else result


def _offset(step: ViewStep, base: Any) -> int:
    result = step.op.body(Geometry(base.type.sizes, base.stride()), *step.arguments)
    return result[step.index].offset if isinstance(result, list) else result.offset  # type: ignore[no-any-return]


__all__ = ["Binding", "Capture", "Cell", "Composite", "RandomState", "Trace", "scatter", "type_of"]
