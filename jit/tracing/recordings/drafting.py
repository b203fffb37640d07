"""Drafts: a finished run of a function becomes a recording - what it returned, changed, and left behind."""

from __future__ import annotations

import collections
import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jit.autograd.nodes import Node, OpNode, edge_of
from jit.eager.becoming import become
from jit.eager.generators import default_generator
from jit.eager.proxies import TracedScalar
from jit.eager.pytree import Structure, flatten, looking, statics, with_plain_keys
from jit.eager.tensors import Tensor, Variable
from jit.eager.view_paths import with_numbers
from jit.ir import Value
from jit.ir.devices import device
from jit.ir.dtypes import DType
from jit.ir.errors import TraceError
from jit.ir.graph import leaves as leaves_of
from jit.ir.hints import conversion, is_foreign
from jit.ir.scalars import exactly

from ..recorder.gradients import GradientSlot
from ..recorder.measuring import settled
from ..recorder.metadata import Tag, moves, set_tag, tags_of
from ..recorder.records import Constant
from ..recorder.tracer import Trace
from ..recorder.uncounted import nodes_behind
from ..surroundings.calls import TracedCall, flatten_arguments, leaf_names, unflatten_arguments
from ..surroundings.number_arguments import with_stand_ins
from ..surroundings.peeking import is_a
from ..surroundings.places import attribute_of
from ..surroundings.promoting import KINDS
from ..surroundings.properties import recorded_hooks_on
from ..surroundings.sharing import same_tensor, sharing_of
from ..surroundings.stand_ins import replace_everywhere
from ..surroundings.surroundings import World, attributes_of
from .chains import Chain
from .changes import EffectSpec
from .conditions import Conditions
from .histories import adopt, kept_with, stand_in, twin
from .kept_leaves import EagerHistory
from .recording import Recording
from .results import OutputSpec, ResultSpec, SetAttribute
from .stage_recording import Live
from .views_of_sizes import paths_of


class Draft:
    """A recording in the making."""

    def __init__(self, trace: Trace, call: TracedCall, where: Callable[[], str]) -> None:
        self.trace = trace
        self.call = call
        self.where = where
        self.positions = distinct(call.leaves)
        self.odd: list[tuple[int, str, Any]] = []
        """Attributes of results that no other call has: (output, name, value)."""
        self.counters: set[str] = set()
        """The names of numbers on networks that the function has read and set."""
        self.needs_eager_history = False
        """Whether the results of the call have the history of eager mode. Its recording is not kept then: the function
        leaves a leaf behind (jit.tracing.recordings.kept_leaves), or has written over what a history has saved (Note
        [Uncounted writes])."""
        self.edges: list[Any] = []
        """Per input, where its gradient leaves the function."""
        names = leaf_names(call.names, call.structures)
        inners = {}
        for index in self.positions:
            tensor = call.leaves[index]
            inners[tensor] = inner = stand_in(tensor)
            trace.add_argument(inner, tensor._name or names[index])
            trace.identities.stand_for(inner, tensor)
            self.edges.append(edge_of(inner))
        for tensor in call.leaves:
            if tensor not in inners:
                inners[tensor] = self._twin(tensor, inners)
        self.inners = [inners[tensor] for tensor in call.leaves]
        stand_ins = iter([trace.add_number(number, name) for name, number in call.promoted])
        structures = [with_stand_ins(s, stand_ins) for s in call.structures] if call.promoted else call.structures
        self.values = unflatten_arguments(structures, self.inners)
        self._given = flatten_arguments(self.values) if call.promoted else (self.inners, call.structures)
        """The leaves and the structures of what the function got."""
        self.numbers = [trace.add_number(number.value, number.name) for number in call.world.numbers]
        """The stand-ins in the places of promoted numbers around the function."""

    def _twin(self, tensor: Tensor, inners: dict[Tensor, Tensor]) -> Tensor:
        """A stand-in for another object that is the same tensor as one before."""
        first = inners[next(t for i in self.positions if same_tensor(t := self.call.leaves[i], tensor))]
        copy = twin(first, tensor)
        self.trace.memory.bind_again(copy, first)
        self.trace.identities.stand_for(copy, tensor)
        return copy

    def close(self, result: Any, optimise: Any) -> tuple[Recording, Live]:
        """End stage 0: describe the outputs, list the updates, gather what a backward would start from."""
        self.trace.errors.look_at_caught()
        self._check_arguments()
        trace = self.trace
        with looking():
            leaves, structure = flatten(result)
        structure = with_plain_keys(structure)
        _check_structure(structure, self.where)
        slots = [slot for slot in trace.gradients.slots.values() if slot.has_changed]
        left = [slot.holder._grad for slot in slots if slot.holder._grad is not None]
        tags, further = tags_of(trace, leaves)
        attributes, held = self._attributes(len(leaves) + len(left) + len(further))
        further = [*further, *held]
        specs, values, tensors = _describe(trace, [*leaves, *left, *further])
        self._check_leaves([*leaves, *further])
        self._check_views([*leaves, *left, *further])
        updates, drawn = trace.memory.updates(), trace.randomness.drawn()
        pairs: list[tuple[Value, Value]] = [(cell.source, value) for cell, value in updates if cell.source is not None]
        pairs += [(first, last) for _, first, last in drawn]
        trace.graph.set_return(values, pairs)
        position = {value: index for index, value in enumerate(trace.graph.inputs)}
        outputs = [*tensors, *(self._rebased(cell) for cell, _ in updates), *(None for _ in drawn)]
        spec = ResultSpec(specs, structure, len(leaves), self._tags(tags, len(leaves), len(left)), attributes)
        places = _gradients_left(trace, slots, values, len(leaves))
        effects = EffectSpec([position[target] for target, _ in pairs], places, moves(trace, position))
        paths = map(trace.scalars.traced, paths_of(spec, effects))
        number = trace.operand if trace.scalars.open_sizes else lambda n: trace.operand(settled(n))
        trace.tape.views = [with_numbers(path, number) for path in paths]
        recording = Recording(spec, self.positions, optimise, [Chain(trace)], effects, _conditions(trace))
        recording.differentiable = [i for i, t in enumerate(outputs) if isinstance(t, Tensor) and t.requires_grad]
        carrying = [outputs[i] for i in recording.differentiable]
        self.needs_eager_history = trace.uncounted.are_behind(carrying)
        edges = [*self.edges, *(capture.edge for capture in trace.captures.found)]
        outside = {edge.node for edge in edges if edge is not None}
        recording.spent = bool(carrying) and all(_is_spent(t, outside) for t in carrying)
        if any(_ends_inside(t, outside) and not trace.is_from_outside(t) for t in carrying):
            trace.note_impure("returns what requires grad because of nothing but a leaf that it has made")
        recording.outcomes = tuple(exactly(g.outcome) for g in trace.guards.records)
        return recording, Live(outputs, recording.used(edges), trace)

    def _tags(self, tags: Sequence[tuple[int, str, Any]], results: int, gradients: int) -> list[Tag]:
        """Attributes of results as a recording knows them; values that it cannot make anew are for this call alone."""
        found, start = [], results + gradients
        for number, name, value in tags:
            leaves, structure = flatten(value)
            structure = with_plain_keys(structure)
            at = number if number < results else number + gradients
            if any(_is_odd(static) for static in statics(structure, keys=False)):
                self.trace.note_impure(f"sets the attribute {name!r} of a result to what a recording cannot make anew")
                self.odd.append((at, name, value))
            else:
                found.append((at, name, structure, start))
            start += len(leaves)
        return found

    def _attributes(self, start: int) -> tuple[list[SetAttribute], list[Any]]:
        """The attributes that the function has set on networks, and the tensors that they hold.

        Args:
            start: The number of the first of these tensors among the outputs.
        """
        found: list[SetAttribute] = []
        held: list[Any] = []
        world = self.call.world
        for network, name in self.trace.attributes.of_others():
            place, before, after = world.number_of(network), world.before(network, name), attribute_of(network, name)()
            with looking():
                leaves, structure = flatten(after)
            is_there = name in vars(network) or name in vars(network).get("_buffers", ())
            can_be_made = is_there and not any(map(_is_odd, statics(structure, keys=False)))
            can_be_made &= not any(map(self._is_own_leaf, leaves))
            is_input = _is_input(before, after) or world.promotes(network, name)
            if place is not None and can_be_made and (is_input or not before):
                world.let_change(network, name)
                found.append(SetAttribute(place, name, with_plain_keys(structure), start + len(held), bool(before)))
                held += leaves
            elif not before:  # otherwise its place is watched
                self.trace.note_impure(f"changed {name}")
            elif all(type(value) is type(after) for _, value in before) and type(after) in KINDS:
                self.counters.update(called for called, _ in before)
        return found, held

    def _is_own_leaf(self, tensor: Any) -> bool:
        """Whether a tensor is a leaf that requires grad and that the function has made."""
        return isinstance(tensor, Variable) and tensor._requires_grad and not self.trace.is_from_outside(tensor)

    def _check_leaves(self, results: Sequence[Any]) -> None:
        """TraceError if the function returns a leaf that it made: gradients would have to end there in later calls."""
        for tensor in results:
            if self._is_own_leaf(tensor):
                raise TraceError(
                    f"{self.where()}: the traced function returns a leaf that it has made and that requires grad, "
                    "which a recording cannot make anew; call requires_grad_() outside"
                )

    def _check_views(self, results: Sequence[Any]) -> None:
        """Keep no recording if a Python function has returned memory of its arguments that is an input or a result."""
        trace = self.trace
        bindings = [trace.memory.binding(tensor) for tensor in _tensors(results)]
        for name in trace.functions.shown([binding.cell for binding in bindings if binding is not None]):
            trace.note_impure(f"returns a view of an argument that the function {name} has made by itself")

    def _rebased(self, cell: Any) -> Any:
        """A tensor from outside that was written to, if that gave it another history; without one it keeps its own."""
        at = self.trace.graph.inputs.index(cell.source)
        before = [*self.edges, *(capture.edge for capture in self.trace.captures.found)][at]
        edge = edge_of(cell.tensor)
        if edge == before or edge is None or cell.tensor in self.trace.identities.outer:
            return None if edge == before else cell.tensor
        return kept_with(cell.tensor, edge)  # the tensor itself gets the history of the call

    def _check_arguments(self) -> None:
        """TraceError if the function has changed a list or dict among its arguments: the caller would not see it."""
        leaves, structures = flatten_arguments(self.values)
        given, kinds = self._given
        numbers = (type(a) is TracedScalar and a is not b for a, b in zip(given, leaves, strict=False))
        for name, before, after in zip(self.call.names, kinds, structures, strict=True):
            if before != after or any(numbers):
                raise TraceError(
                    f"{self.where()}: the function changes its argument {name!r} itself, which a recording cannot "
                    "repeat; return the new value"
                )
        for inner, outer in self.trace.identities.outer.items():
            if not _same_items(attributes_of(inner), attributes_of(outer)):
                raise TraceError(
                    f"{self.where()}: the function sets an attribute of a tensor among its arguments, which a "
                    "recording cannot repeat; return the value"
                )
        if any(a is not b for a, b in zip(leaves, given, strict=True)):
            raise TraceError(
                f"{self.where()}: the function replaces a tensor in an argument, which a recording cannot repeat; "
                "return the new value"
            )

    def effect(self) -> str | None:
        """The deed of the call that a recording cannot repeat, in words that fit behind "the call"; None if none."""
        hidden = (capture.name for capture in self.trace.captures.found if _is_hidden(capture))
        name = next(hidden, None)
        where = None if name is None else f"used {name!r}, a tensor or generator that later calls cannot find"
        return self.trace.impurity.reason or self.call.world.effect() or where

    @contextlib.contextmanager
    def moved_on_error(self) -> Iterator[None]:
        """Let arguments that became views of themselves stay so, as in eager mode, if the function then fails."""
        try:
            yield
        except BaseException:
            for inner in self.trace.identities.reshaped:
                if inner in self.trace.identities.outer:
                    become(self.trace.identities.outer[inner], inner)
            raise

    def give_back(self) -> None:
        """Replace stand-ins by the arguments and numbers that they stood for, wherever the function has kept them."""
        numbers = [(number, number._number) for number in self.trace.scalars.alive]
        replace_everywhere([*self.trace.identities.outer.items(), *numbers], but=self.trace.identities.outer)

    def finish(self, recording: Recording, live: Live) -> Any:
        """The result of the call that was recorded: wrapped as in later calls, around the eager arrays."""
        trace = self.trace
        objects = recording.inputs(self.call.leaves)
        first_capture = len(self.positions)  # the function got those themselves, and has moved them already
        owners = [
            trace.identities.reshaped.get(o, o) if i >= first_capture and isinstance(o, Tensor) else o
            for i, o in enumerate(objects)
        ]
        if recording.effects.targets:
            recording.conditions = replace(recording.conditions, sharing=sharing_of(owners))
        results = [t._array if isinstance(t, Tensor) else t for t in live.outputs]
        storages = [t._storage if isinstance(t, Tensor) else None for t in live.outputs]
        before = [trace.memory.original(o, v) for o, v in zip(owners, trace.graph.inputs, strict=True)]
        node: Any = None
        if recording.differentiable and self.needs_eager_history:
            node = EagerHistory(live.outputs)
        elif recording.differentiable:
            node = recording.node_of(owners, before, self._outer_edges(owners))
            node.live = None if recording.spent else live
        first = len(recording.trace.graph.outputs)
        for number, index in enumerate(recording.effects.targets, first):
            if node is not None and number in recording.differentiable:
                adopt(owners[index], node, number)
        networks = recording.networks(self.call.world)
        result = recording.rebuild(results[:first], owners, node, storages, objects, networks)
        made = flatten(result)[0] if self.odd else []
        for index, name, value in self.odd:
            if index < len(made):
                set_tag(made[index], name, value)
        trace.forget()
        return result

    def _outer_edges(self, owners: Sequence[Any]) -> list[Any]:
        """The edges outside along which gradients go on: captures as they were before the function wrote to them."""
        count = len(self.positions)
        return [*(edge_of(o) for o in owners[:count]), *(capture.edge for capture in self.trace.captures.found)]


def _is_hidden(capture: Any) -> bool:
    """Whether later calls cannot know where to find what was captured."""
    known = capture.place is not None or capture.gradient_of is not None or capture.number is not None
    return not known and capture.owner is not default_generator()


def _is_input(before: Sequence[tuple[str, Any]], after: Any) -> bool:
    """Whether an attribute that may be read before it is set holds a tensor all the time."""
    return all(is_a(value, Tensor) for value in (after, *(value for _, value in before)))


def distinct(leaves: Sequence[Any]) -> list[int]:
    """The positions of the tensors that are inputs of their own: identical ones are one input."""
    repeated = {index for index, _, _, same in sharing_of(leaves) if same}
    return [i for i in range(len(leaves)) if i not in repeated]


def _same_items(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(a[key] is b[key] for key in a)


_REBUILT = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type,
    range,
    slice,
    type(...),
    np.generic,
    DType,
    device,
    enum.Enum,
    frozenset,
)


def _is_odd(value: Any) -> bool:
    """Whether an object in a result cannot be made anew, so that every call would return the same one."""
    return not is_a(value, _REBUILT)


def _check_structure(structure: Structure, where: Callable[[], str]) -> None:
    """TraceError if the result holds an object that would be the same one in every call."""
    for value in statics(structure, keys=False):
        if is_a(value, np.ndarray) or is_foreign(value):
            raise TraceError(
                f"{where()}: the traced function returns an object of type {type(value).__name__}, which is no tensor "
                f"of this package, so that nothing of it could be recorded; {conversion(value)} before the call, if it "
                "was an argument"
            )
        if _is_odd(value):
            raise TraceError(
                f"{where()}: the traced function returns an object of type {type(value).__name__}, which a recording "
                "cannot make anew; return tensors, numbers, strings, None, or tuples, lists, dicts and dataclasses of "
                "them"
            )


def _describe(trace: Trace, leaves: Sequence[Any]) -> tuple[list[OutputSpec], list[Any], list[Any]]:
    """Per output how it is made, what stage 0 returns, and for each return the tensor that carries its gradient."""
    values = [_returned(trace, leaf) for leaf in leaves]
    carriers: list[Any] = [leaf._number if type(leaf) is TracedScalar else None for leaf in leaves]
    bindings = (trace.memory.binding(t) for t in _tensors(leaves))
    cells = collections.Counter(id(b.cell) for b in bindings if b is not None)
    roots: dict[int, int | None] = {}
    seen: dict[int, int] = {}
    specs = []
    for number, leaf in enumerate(leaves):
        if type(leaf) is TracedScalar:
            specs.append(OutputSpec("number", number))
            continue
        if not leaf.defined:
            specs.append(OutputSpec("fresh", number))
            continue
        binding = trace.memory.binding(leaf)
        assert binding is not None
        if leaf in trace.identities.reshaped and binding.cell.source is not None:
            specs.append(OutputSpec("itself", trace.graph.inputs.index(binding.cell.source)))
            continue
        if id(leaf) in seen:
            specs.append(OutputSpec("same", seen[id(leaf)]))
            continue
        seen[id(leaf)] = number
        if binding.cell.source is not None:
            specs.append(
                OutputSpec("input", trace.graph.inputs.index(binding.cell.source), binding.path, leaf.requires_grad)
            )
            continue
        root = None
        if cells[id(binding.cell)] > 1:
            if id(binding.cell) not in roots:
                roots[id(binding.cell)] = _root_of(trace, binding.cell, leaves, values, carriers)
            root = roots[id(binding.cell)]
        if root is None or root == number:
            specs.append(OutputSpec("fresh", number, (), leaf.requires_grad))
            carriers[number] = leaf
        else:
            specs.append(OutputSpec("view", root, binding.path, leaf.requires_grad))
    return specs, values, carriers


def _gradients_left(
    trace: Trace, slots: Sequence[GradientSlot], values: Sequence[Any], number: int
) -> list[tuple[int, int | None]]:
    """The `.grad` of inputs that the function leaves: pairs (input, output). The first such output is `number`."""
    found: list[tuple[int, int | None]] = []
    for slot in slots:
        place = trace.graph.inputs.index(slot.value)
        if slot.holder._grad is None:
            found.append((place, None))
            continue
        found.append((place, number))
        if not values[number].is_input:
            trace.graph.rename(values[number], f"{slot.value.name}.grad")
        number += 1
    return found


def _conditions(trace: Trace) -> Conditions:
    """The facts that the recording takes for granted of its inputs; see docs/tracing.md."""
    place = {value: index for index, value in enumerate(trace.graph.inputs)}
    reads = [slot for slot in trace.gradients.slots.values() if slot.is_read]
    ends = trace.gradients.differentiated
    return Conditions(
        reads=[(place[s.value], None if s.found is None else place[s.found]) for s in reads],
        hookless=[place[value] for value in ends.values()],
        recorded_hooks=[(place[value], recorded_hooks_on(leaf)) for leaf, value in ends.items()],
        facts=[(place[value], name, answer) for (value, name), answer in trace.captures.facts.items()],
    )


def _is_spent(tensor: Any, outside: set[Node]) -> bool:
    """Whether a backward in the function has freed what another needs; the nodes `outside` were there before."""
    return any(isinstance(n, OpNode) and n.saved is None for n in nodes_behind([tensor], outside) if n not in outside)


def _ends_inside(tensor: Any, outside: set[Node]) -> bool:
    """Whether the gradients of an output reach nothing but leaves that the function has made."""
    return outside.isdisjoint(nodes_behind([tensor], outside))


def _returned(trace: Trace, leaf: Any) -> Any:
    if type(leaf) is TracedScalar:
        return leaf._ir() if leaf._trace is trace else leaf._number
    return trace.value_of(leaf) if leaf.defined else None


def _tensors(leaves: Sequence[Any]) -> list[Tensor]:
    """The tensors among the leaves, each once."""
    return list({id(t): t for t in leaves if isinstance(t, Tensor) and t.defined}.values())


def _root_of(trace: Trace, cell: Any, leaves: Sequence[Any], values: list[Any], carriers: list[Any]) -> int | None:
    """The number of the return that is a whole cell of memory, parts of which several outputs show.

    If none of the leaves is, the tensor that one of them views becomes one more return; None if there is none either.
    """
    for number, leaf in enumerate(leaves):
        binding = trace.memory.binding(leaf) if isinstance(leaf, Tensor) else None
        if binding is not None and binding.cell is cell and not binding.path:
            return number
    bases = (t._viewed for t in leaves if isinstance(t, Tensor) and t._viewed is not None)
    for base in bases:
        binding = trace.memory.binding(base)
        if binding is not None and binding.cell is cell and not binding.path:
            values.append(trace.value_of(base))
            carriers.append(base)
            return len(values) - 1
    return None


def ledger(recording: Recording, world: World, structures: Sequence[Structure], names: Sequence[str]) -> list[Constant]:
    """The Python values in the key of a recording: those of short names, and all that its nodes use, with the line."""
    lines: dict[Any, Any] = {}
    for node in recording.trace.graph.nodes:
        for item in (*node.args, *node.attributes.values()):
            for leaf in leaves_of(item) if type(item) in (tuple, dict) else (item,):
                if type(leaf) in (int, float, complex, str):
                    lines.setdefault((type(leaf), leaf), node.source)
    arguments = [(name, value) for name, s in zip(names, structures, strict=True) for value in statics(s)]
    found = [(n, v, "an argument") for n, v in arguments] + [(n, v, "read by the function") for n, v in world.plain()]
    made = []
    for name, value, reason in found:
        if is_a(value, np.ndarray):
            made.append(Constant(name, value.nbytes, None, f"a numpy array, {reason}; other contents record anew"))
        elif type(value) in (int, float, complex, str) and ((type(value), value) in lines or name.count(".") < 2):
            line, size = lines.get((type(value), value)), len(value) if isinstance(value, str) else 8
            made.append(Constant(name, size, line, f"{reason}; another value records anew", value))
    return made
