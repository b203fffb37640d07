"""Regions: the parts of a trace that a branch or a step of a loop has recorded, on their way to become a sub-graph.

Note [Regions]
    `jit.cond` and its like run each of their functions once while a trace records, with the tensors of this call, and
    in full detail: sizes are traced, tensors from outside are captured, composites are noted. Then the nodes leave the
    trace for a graph of their own, and what they use from outside becomes an input of the node of control flow:

        %1 = aten::mul(%x, %w)       recorded by true_fn            %3 = prim::If[then=@0, otherwise=@1](%p, %x, %w)
        %2 = aten::neg(%x)           recorded by false_fn

    1. Numbers that are made of what is outside stay there, and so do guards on them and views of what had been written
       to before. Decisions on sizes inside are guards inside, which hold for the sizes in the key.
    2. What cannot be undone is refused: other calls may take another branch. That is a write to memory from outside, an
       attribute that is set, a decision on elements, a Python function.
    3. Results lie in memory of their own, in row-major order, since branches may return what they were given.
    4. Random generators are drawn from: their states are inputs, and outputs if they are drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jit.eager import context
from jit.eager.generators import Generator
from jit.eager.namespace import F
from jit.eager.tensors import Tensor, requires_grad, tensor_of, variable_of
from jit.ir import Graph, Node, Value
from jit.ir.attempts import KIND
from jit.ir.errors import TraceError
from jit.ir.inference import SIZES
from jit.ir.memory_formats import contiguous_format
from jit.ir.scalars import scalar_function
from jit.ir.types import TensorType
from jit.ops.views import detach
from jit.passes import CLEANUP, run

from ..surroundings.properties import row_major, type_of
from .folding import fold
from .memory import StorageCell
from .open_regions import escaped
from .recording_trace import RecordingTrace
from .records import Composite
from .tape import nodes_after

FORMAL = "prim::Formal"
"""The kind of the nodes that stand for the inputs of a region while it is recorded."""


class FlowRegion:
    """One function of control flow, as it was recorded.

    Args:
        trace: The trace that records.
        title: The word for the control flow in errors.
        formals: The tensors that the function gets copies of, which are the sub-graph's first inputs.
    """

    def __init__(self, trace: RecordingTrace, title: str, formals: Sequence[Tensor]) -> None:
        self.trace, self.title = trace, title
        self.things: dict[Value, Any] = {}
        """The tensors, numbers and states of generators behind the values that are used."""
        self.hoisted: set[Node] = set()
        """Nodes that were made meanwhile and stay outside."""
        self.parts: list[Node] = []
        self.results: list[Value] = []
        self.drawn: dict[Generator, tuple[Value, Value]] = {}
        """Generators that were drawn from, with their states before and after."""
        self._last = trace.graph._last
        self.formals = [self._formal(tensor) for tensor in formals]
        self._known = {cell for counter in trace.memory._counters.values() for cell in counter.cells}
        self._composites = len(trace.tape.composites)
        self._guards = len(trace.guards.records)
        self._states = {generator: (value, generator.state) for generator, value in trace.randomness.states.items()}
        self._tracked = context.GRAD_ENABLED.get()

    def _formal(self, tensor: Tensor) -> Tensor:
        make = variable_of if requires_grad(tensor) else tensor_of
        made: Tensor = make(tensor._array.copy())
        made._requires_grad = requires_grad(tensor)
        node = self.trace.tape.add(FORMAL, (), {}, [row_major(type_of(tensor))])
        self.trace.memory.bind_root(made, node.output)
        return made

    def owns(self, cell: StorageCell) -> bool:
        """Whether memory was made in the region."""
        return cell.source is None and cell not in self._known

    # -- recording -----------------------------------------------------------------------------------------------

    def record(self, function: Callable[[list[Tensor]], Sequence[Tensor]]) -> list[Tensor]:
        """Run the function, which takes and gives lists of tensors; returns what it gave, in memory of its own."""
        try:
            with self._open():
                given = self._owned(function(list(self.formals)))
                self.results = [self.trace.value_of(tensor) for tensor in given]
        except BaseException as error:
            self._give_up(error)
            raise
        self._close()
        return given

    def _give_up(self, error: BaseException) -> None:
        """Take away what was recorded, since the function has raised; what it has drawn or made stays as it is."""
        if not isinstance(error, TraceError):  # which no function may catch, and which says nothing of elements
            self.trace.impurity.note_impure(f"raises an error in a function of {self.title}")
        self.parts = nodes_after(self.trace.graph, self._last)
        self.trace.guards.withdraw(set(self.parts))
        self.leave()

    @contextmanager
    def _open(self) -> Iterator[None]:
        self.trace.regions.open.append(self)
        token = context.CASTS.set(None)  # what one branch has cast is not there for the other
        try:
            with self.trace.tape.apart():
                yield
        finally:
            context.CASTS.reset(token)
            self.trace.regions.open.pop()

    def _owned(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        found: list[Tensor] = []
        cells: set[StorageCell] = set()
        for tensor in tensors:
            self.trace.value_of(tensor)
            binding = self.trace.memory.binding(tensor)
            assert binding is not None
            own = self.owns(binding.cell) and not binding.path and binding.cell not in cells
            if not own or row_major(type_of(tensor)) != type_of(tensor) or binding.value.node.kind == FORMAL:
                tensor = F.clone(tensor, memory_format=contiguous_format)
            cells.add(binding.cell)
            found.append(tensor)
        return found

    def _close(self) -> None:
        trace = self.trace
        inside: set[Value] = set()
        of_composites = {part for c in trace.tape.composites[self._composites :] for part in c.parts}
        for node in nodes_after(trace.graph, self._last):
            outer = inside.isdisjoint(node.inputs) and node not in of_composites
            if node in self.hoisted or (outer and _is_number(node)):
                continue
            self.parts.append(node)
            inside.update(node.outputs)
        self._look_at_parts()
        self._close_generators(inside)
        for reference in trace.numbers:
            number = reference()
            if number is not None and number._value in inside and number._make is not None:
                number._value = None

    def _look_at_parts(self) -> None:
        parts, guards = set(self.parts), self.trace.guards
        for record in guards.records[self._guards :]:
            if record.node in parts:
                operand = record.node.inputs[0]
                if record.is_count or self.trace.reads_elements(operand) or operand.node.kind == KIND:
                    raise TraceError(
                        f"at {record.source}: Python decides on elements of a tensor in a function of {self.title}, "
                        "and other calls would go another way; use where(), or a cond inside"
                    )
        guards.withdraw(parts)

    def _close_generators(self, inside: set[Value]) -> None:
        """Note what was drawn from, and let generators be as they were before."""
        randomness = self.trace.randomness
        for generator, after in list(randomness.states.items()):
            first = randomness.initial[generator]
            before: Any = self._states.get(generator) or (first, self.trace.memory.originals.get(first))
            self.things.setdefault(before[0], before[1])
            if after in inside:
                self.drawn[generator] = before[0], after
                randomness.advance(generator, before[0])
                generator.state = before[1]

    # -- the sub-graph -------------------------------------------------------------------------------------------

    @property
    def free(self) -> list[Value]:
        """The values from outside that are used."""
        inside = {value for part in self.parts for value in part.outputs}
        used = [value for part in self.parts for value in part.inputs]
        return list(dict.fromkeys(v for v in [*used, *self.results] if v not in inside))

    def graph(self, leading: Sequence[Value], free: Sequence[Value], results: Sequence[Value]) -> Graph:
        """The sub-graph, folded and tidy; its nodes leave the trace.

        Args:
            leading: Its first inputs: as many values from outside as there are formals, or the predicate.
            free: Its further inputs.
            results: What it gives.
        """
        graph, mapping, nodes = Graph(), dict[Value, Any](), dict[Node, Node]()
        places = [self.trace.value_of(formal) for formal in self.formals]
        for value, place in zip(leading, places or leading, strict=True):
            mapping[place] = graph.add_input(place.type, value.name)
        mapping |= {value: graph.add_input(value.type, value.name) for value in free}
        for part in self.parts:
            if part.kind != FORMAL:
                nodes[part] = graph.copy_node(part, mapping, keep_names=True)
        composites = [
            Composite(nodes[c.node], [nodes[part] for part in c.parts if part in nodes], [mapping[v] for v in c.taken])
            for c in self.trace.tape.composites[self._composites :]
            if c.node in nodes
        ]
        graph.set_return([mapping[value] for value in results])
        self._end_histories(graph, nodes, composites)
        folded = fold(graph, composites)[0]
        run(folded, CLEANUP)
        return folded

    def _end_histories(self, graph: Graph, nodes: dict[Node, Node], composites: Sequence[Composite]) -> None:
        """Let what ran without recording derivatives say so in the graph."""
        owned = {part for composite in composites for part in composite.parts}
        for part, node in nodes.items() if self._tracked else ():
            if part in self.trace.tape.untracked and node not in owned:
                for value in (v for v in node.outputs if isinstance(v.type, TensorType)):
                    with graph.inserting_before(node._next):
                        ended = graph.create(detach.name, (value,))
                        uses = list(value.uses)
                        graph.insert(ended)
                        ended.add_output(value.type)
                    for use in uses:
                        if use.node is not ended:
                            use.node.inputs[use.index] = ended.output

    def leave(self) -> None:
        """Let the nodes of the region leave the trace."""
        tape, parts = self.trace.tape, set(self.parts)
        del tape.composites[self._composites :]
        values = {value for part in self.parts for value in part.outputs}
        for part in reversed(self.parts):
            for use in [use for value in part.outputs for use in value.uses]:
                if use.node.graph is not None:
                    raise escaped()
                use.node.inputs[use.index].uses.pop(use)
            part.erase()
        tape.untracked -= parts
        tape.backwards -= parts
        for part in parts & tape.checkpoints.keys():
            del tape.checkpoints[part]
        tape.elemental -= values
        self.trace.regions.enclosed |= values


def row_major_type(value: Value) -> Any:
    """The type of a value that is carried from trip to trip."""
    return row_major(value.type) if isinstance(value.type, TensorType) else value.type


def _is_number(node: Node) -> bool:
    """Whether a node reads or computes a number, or guards one."""
    return node.kind in (*SIZES, "prim::item", "prim::Guard") or scalar_function(node.kind) is not None
