"""`jit.trace`: runs a function once, records it, and from then on runs the recording.

A call is reduced to a `Key`; each key has a tree of `Recording`s, one per path that the guards have taken. See
docs/tracing.md.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import gc
import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CellType, FrameType
from typing import Any, NamedTuple

import numpy as np

from jit.ir import Graph, Value
from jit.ir.dtypes import DType
from jit.ir.errors import TraceError, UsageError
from jit.ir.graph import leaves as leaves_of
from jit.runtime.interpreter import GuardFailed

from . import context
from .autograd.nodes import OpNode, edge_of
from .compiling import optimise, unoptimised
from .generators import Generator, default_generator
from .impurity import watching
from .inspecting import Inspected
from .promoting import KINDS, replaced, setter
from .proxies import TracedScalar
from .pytree import Structure, flatten, paths, statics, unflatten
from .reasons import why_anew
from .recalling import Recollection, recalling, recollection
from .shapes import OFTEN, Dims, Family, first_difference, general_kind, pattern_of
from .shortcuts import Shortcut, hits, shortcut
from .stages import BRANCHES, Chain, Live, OutputSpec, Recording, adopt, same_tensor, sharing_of, stand_in, twin
from .surroundings import Surroundings, Watched, World, attributes_of, has_state, is_foreign, slots_of, view_of_objects
from .tensors import Size, Tensor, Variable
from .tracer import Constant, GradientSlot, Trace, kind_of

SAMPLES = 4
"""How many sizes without an equal show that sizes are baked in."""
KEYS = 64
"""How many keys a function may have before further ones run eagerly."""


SHORTCUTS = 4
"""How many are tried before a call goes the long way."""


class Key(NamedTuple):
    """What a recording is specialised on."""

    structure: tuple[Structure, ...]
    tensors: tuple[Any, ...]
    sharing: tuple[Any, ...]
    grad_mode: bool
    surroundings: tuple[Any, ...]


@dataclass
class Entry:
    """All paths of one key."""

    recordings: list[Recording] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while one is made: other threads with the same key wait for it, others do not."""


@dataclass
class Call:
    """One call, taken apart."""

    args: Sequence[Any]
    kwargs: dict[str, Any]
    names: list[str]
    leaves: list[Any]
    """The tensors among the arguments."""
    structures: tuple[Structure, ...]
    world: World
    key: Key
    promoted: dict[str, Any]
    """The promoted numbers among the arguments."""

    @property
    def numbers(self) -> list[Any]:
        """All promoted numbers: arguments, then what stands around the function."""
        return [*self.promoted.values(), *(number.value for number in self.world.numbers)]

    def knows(self, tensor: Any) -> bool:
        """Whether a tensor is an argument, or something that the function can name."""
        return any(tensor is leaf for leaf in self.leaves) or self.world.locate(tensor)[1] is not None


class TracedFunction(Watched, Inspected):
    """A function with its recordings; made by `jit.trace`."""

    def __init__(
        self,
        function: Callable[..., Any],
        owner: Any = None,
        *,
        optimize: bool = True,
        strict: bool = False,
        dynamic: bool | Dims | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._owner = owner
        self._optimise = optimise if optimize else unoptimised
        self._strict = strict
        self._dynamic = dynamic
        self._families: dict[Key, Family] = {}
        self._surroundings = Surroundings(function, owner)
        self._signature = _signature_of(function if owner is None else getattr(owner, "forward", owner))
        self._cache: dict[Key, Entry] = {}
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._last: Recording | None = None
        self._explanation = "it has not been called yet"
        self._methods: weakref.WeakKeyDictionary[Any, TracedFunction] = weakref.WeakKeyDictionary()
        self._warned = False
        self._effects = 0
        """How many runs have changed something of Python's."""
        self.keep_examples = False
        """Whether recordings keep copies of the arrays that they were made with."""
        self.open_sizes = False
        """Whether recordings are for looking at, and may leave open what sizes depend on elements."""
        self.enabled = True
        """False makes the function transparent: calls run eagerly."""
        self._hits = 0
        self._shortcuts: tuple[tuple[Shortcut, Recording], ...] = ()
        """The latest ones first."""
        self.misses = 0
        """Calls that recorded."""

    def watched(self) -> list[tuple[str, Any]]:
        """For functions that call this one: what it reads itself."""
        return [("", self._function)] if self._owner is None else [("", self._owner)]

    @property
    def hits(self) -> int:
        """Calls that ran a recording."""
        return self._hits + sum(hits(short) for short, _ in self._shortcuts)

    # -- calling -------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and self.enabled:
            for short, recording in self._shortcuts:
                result = short(*args)
                if result is not None:
                    self._last = recording
                    return result
        return self._long_way(args, kwargs)

    def _long_way(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if context.TRACE.get() is not None or not self.enabled:
            return self._function(*args, **kwargs)
        call = self._prepare(args, kwargs)
        entry = self._cache.get(call.key)
        general = self._general_entry(call) if entry is None else None
        recordings = [recording for each in (entry, general) if each is not None for recording in each.recordings]
        if context.ANOMALY.get() is not None and any(recording.trace.backwards for recording in recordings):
            return self._function(*args, **kwargs)  # eager mode says where the NaN of a backward inside comes from
        if not any(recording.calls_python for recording in recordings):
            return self._answer(call, entry, general)
        with recalling(Recollection()):
            return self._answer(call, entry, general)

    def _answer(self, call: Call, entry: Entry | None, general: Entry | None) -> Any:
        """Run a recording for all sizes, else one for these, else record."""
        if general is not None:
            found, result = self._run(general, call)
            if found:
                return result
        entry = entry or self._entry(call)
        if entry is None:
            return self._eagerly(call)
        seen = len(entry.recordings)
        found, result = self._run(entry, call)
        return result if found else self._record(entry, call, seen)

    def _prepare(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        names, values = self._bind(args, kwargs)
        chosen = self._surroundings.promoted
        promoted = (
            {n: v for n, v in zip(names, values, strict=True) if n in chosen and type(v) in KINDS} if chosen else {}
        )
        values = [_Promoted(type(v)) if n in promoted else v for n, v in zip(names, values, strict=True)]
        leaves, structures = _flatten_arguments(values)
        attached = [(tensor.name or "argument", made) for tensor in leaves if (made := attributes_of(tensor))]
        objects = view_of_objects(
            [*((n, v) for n, s in zip(names, structures, strict=True) for v in statics(s)), *attached]
        )
        world = World(self._surroundings.look(), objects)
        sharing = sharing_of(leaves)
        key = Key(structures, tuple(map(kind_of, leaves)), sharing, context.GRAD_ENABLED.get(), world.fingerprint)
        return Call(args, kwargs, names, leaves, structures, world, key, promoted)

    def where(self) -> str:
        """The line at which the function is defined, for errors that are about all of it."""
        function = self._function if self._owner is None else type(self._owner).forward
        code = getattr(inspect.unwrap(function), "__code__", None)
        return (
            f"{self.__name__}()"
            if code is None
            else f"at {os.path.basename(code.co_filename)}:{code.co_firstlineno} in {code.co_name}"
        )

    def tensors_of(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The tensors among the arguments of a call, in the order in which recordings count them."""
        return self._prepare(args, kwargs).leaves

    def _entry(self, call: Call) -> Entry | None:
        """The recordings of a key; None if the function is to run eagerly."""
        entry = self._cache.get(call.key)
        if entry is not None:
            return entry
        with self._lock:
            entry = self._cache.get(call.key)
            if entry is None and len(self._cache) < KEYS and self._effects < BRANCHES:
                self._explain_key(call)
                entry = self._cache[call.key] = Entry()
            return entry

    # -- sizes that vary -----------------------------------------------------------------------------------------

    def _general_entry(self, call: Call) -> Entry | None:
        """The recordings that serve many sizes, this call's among them; see jit.shapes."""
        family = self._families.get(self._general_key(call.key)) if self._families else None
        for pattern, entries in family.general.items() if family is not None else ():
            found = entries.get(self._general_key(call.key, pattern))
            if found is not None:
                family.calls[call.key] += 1  # type: ignore[union-attr]
                often = self._dynamic is None and family.calls[call.key] > OFTEN  # type: ignore[union-attr]
                return None if often else found
        return None

    def _general_key(self, key: Key, pattern: Sequence[Any] | None = None) -> Key:
        """The key with all sizes that vary made alike."""
        dims = pattern or [None] * len(key.tensors)
        return key._replace(tensors=tuple(map(general_kind, key.tensors, dims)))

    def _compare_sizes(self, call: Call, recording: Recording) -> None:
        """If a call of other sizes was recorded as the same program, one recording serves all sizes from now on."""
        if self._dynamic is False or not call.leaves or recording.trace.impure:
            return
        with self._lock:
            family = self._families.setdefault(self._general_key(call.key), Family())
            partner = family.partner(call.key, recording)
            if partner is not None:
                self._generalise(family, call, partner, recording)
            elif len(family.samples) >= SAMPLES and not family.general and family.closed is None:
                self._close(family)

    def _generalise(self, family: Family, call: Call, partner: Key, recording: Recording) -> None:
        """Let one recording serve all sizes where this call and that of `partner` differ."""
        pattern = pattern_of(call.key.tensors, partner.tensors)
        names = _leaf_names(call.names, call.structures)
        if isinstance(self._dynamic, Mapping):
            ranks = [len(kind[1]) for kind in call.key.tensors]
            allowed = [{d % n for d in self._dynamic.get(name, ())} for name, n in zip(names, ranks, strict=True)]
            if any(not set(dims) <= may for dims, may in zip(pattern, allowed, strict=True)):
                return
        entry = family.general.setdefault(pattern, {}).setdefault(self._general_key(call.key, pattern), Entry())
        if len(entry.recordings) < BRANCHES:
            varying = [(at, d) for at, index in enumerate(recording.positions) for d in pattern[index]]
            entry.recordings.append(recording.generalised(varying))
            where = ", ".join(f"{n}.shape[{d}]" for n, dims in zip(names, pattern, strict=True) for d in dims)
            self._explanation += f"; from now on one recording serves all sizes of 2 and more of {where}"

    def _close(self, family: Family) -> None:
        """Every size has turned out to be another program."""
        (_, first), (_, last) = family.samples[0], family.samples[-1]
        where = first_difference(last.trace.graph, first.trace.graph)
        family.closed = f"sizes are baked in: recordings of different sizes differ first in {where}"
        family.samples.clear()
        self._explanation += f"; {family.closed}"
        if self._dynamic:
            raise TraceError(f"{self.where()}: dynamic sizes were asked for, but {family.closed}")

    def _run(self, entry: Entry, call: Call) -> tuple[bool, Any]:
        """Try the recordings that the guards lead to, the latest first."""
        prefix: tuple[Any, ...] = ()
        for recording in reversed(entry.recordings):
            if recording.outcomes[: len(prefix)] != prefix:
                continue
            owners = recording.inputs(call.leaves, call.world.tensors, call.numbers)
            why_not = recording.misfit(owners, call.knows)
            if why_not is not None:
                self._explanation = f"it was recorded anew because {why_not}"
                continue
            if (calls := recollection()) is not None:
                calls.at = 0
            try:
                result = recording.run(owners)
            except GuardFailed as failed:
                prefix = (*recording.outcomes[: failed.index], (type(failed.actual), failed.actual))
                self._explain_guard(recording, failed)
                continue
            with self._counting:
                self._hits += 1
            self._last = recording
            self._shorten(call, recording)
            return True, result
        return False, None

    def _shorten(self, call: Call, recording: Recording) -> None:
        """Let further calls like this one take a shortcut, if there is one."""
        if recording.tried is call.world.surroundings:
            return
        recording.tried = call.world.surroundings
        short = shortcut(call, recording)
        if short is not None:
            with self._counting:
                self._hits += sum(hits(old) for old, _ in self._shortcuts[SHORTCUTS - 1 :])
                self._shortcuts = ((short, recording), *self._shortcuts[: SHORTCUTS - 1])

    def _eagerly(self, call: Call) -> Any:
        if not self._warned:
            self._warned = True
            why = (
                f"it has been called in {KEYS} different ways"
                if len(self._cache) >= KEYS
                else f"it has taken {BRANCHES} different paths"
            )
            if self._effects >= BRANCHES:
                why = "it does what a recording cannot repeat in every call"
            warnings.warn(
                f"{self.__name__} runs untraced from now on where it has no recording yet, because {why}; "
                f"{self._explanation}. Pass what varies as a tensor, or call clear_cache()",
                stacklevel=3,
            )
        with recalling(None):
            return self._function(*call.args, **call.kwargs)

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], list[Any]]:
        if self._signature is None:
            return [f"input_{i}" for i in range(len(args))] + list(kwargs), [*args, *kwargs.values()]
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CallError(f"{self.__name__}: {error}") from None
        bound.apply_defaults()
        return list(bound.arguments), list(bound.arguments.values())

    # -- recording -----------------------------------------------------------------------------------------------

    def _record(self, entry: Entry, call: Call, seen: int) -> Any:
        with entry.lock:
            if len(entry.recordings) > seen:  # somebody else has recorded meanwhile
                found, result = self._run(entry, call)
                if found:
                    return result
            if len(entry.recordings) < BRANCHES:
                calls = recollection() or Recollection()
                with recalling(calls.again()):
                    return self._record_alone(entry, call)
        return self._eagerly(call)

    def _record_alone(self, entry: Entry, call: Call) -> Any:
        examples = [call.leaves[i]._array.copy() for i in _distinct(call.leaves)] if self.keep_examples else []
        draft = _Draft(Trace(call.world.locate, strict=self._strict, open_sizes=self.open_sizes), call, self.where)
        call.world.watch_random()
        with context.tracing(draft.trace):
            with replaced(call.world.numbers, draft.numbers), watching(draft.trace, is_foreign):
                result = self._call_with(call.names, draft.values)
            recording, live = draft.close(result, self._optimise)
        recording.examples = examples
        with self._counting:
            self.misses += 1
        recording.calls_python = any(node.kind.startswith("^") for node in draft.trace.graph.nodes)
        recording.read = ledger(recording, call.world, call.structures, call.names)
        self._last = recording
        effect = draft.effect()
        if effect is None:
            entry.recordings.append(recording)
            self._compare_sizes(call, recording)
        else:
            self._note_effect(effect)
            draft.trace.note_impure(effect)
            draft.give_back()
        return draft.finish(recording, live)

    def _note_effect(self, effect: str) -> None:
        """The call has done something that a recording cannot repeat."""
        if self._strict:
            raise TraceError(f"{self.where()}: the call {effect}, which a recording cannot repeat; do it outside")
        with self._counting:
            self._effects += 1
        self._explanation = f"it was not kept, because the call {effect}, which a recording cannot repeat"

    def _call_with(self, names: list[str], values: list[Any]) -> Any:
        if self._signature is None:
            return self._function(*values)
        bound = inspect.BoundArguments(self._signature, dict(zip(names, values, strict=True)))
        return self._function(*bound.args, **bound.kwargs)

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph of the last call, all stages that have been seen included."""
        if self._last is None:
            raise UsageError(f"{self.__name__} has no graph yet: call it once")
        return self._last.graph()

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that a call with these arguments would run; UsageError if there is none."""
        recording = self._find(args, kwargs)
        if recording is None:
            raise UsageError(f"{self.__name__} has no trace for these arguments: call it with them once")
        return recording.graph()

    def has_trace_for(self, *args: Any, **kwargs: Any) -> bool:
        """Whether a call with these arguments would run a recording."""
        return self._find(args, kwargs) is not None

    def _find(self, args: Any, kwargs: Any) -> Recording | None:
        call = self._prepare(args, kwargs)
        entry = self._cache.get(call.key) or self._general_entry(call)
        return entry.recordings[-1] if entry is not None and entry.recordings else None

    @property
    def graphs(self) -> list[Any]:
        """One titled graph per pass of the last recording's compilation."""
        from .compiling import titled_graphs

        return titled_graphs(self.graph)

    def constants(self) -> list[Constant]:
        """The ledger of what the last recording has baked in: arrays, and Python values that the function read.

        Each line has the name, the bytes, the user's line where it is known, the reason, and the value of numbers.
        `promote(name)` makes an input of a number.
        """
        return [] if self._last is None else [*self._last.trace.constants, *self._last.read]

    def promote(self, name: str) -> None:
        """Take a number as an input from now on, instead of baking it in and recording anew when it changes.

        Args:
            name: An argument's name, or the number's name in `constants()`, such as "scale" or "optimizer.lr".

        Raises:
            UsageError: The function reads no int or float of that name, or it stands where nobody can replace it.

        >>> import jit
        >>> f = jit.trace(lambda x, scale: x * scale)
        >>> f.promote("scale")
        >>> [f(jit.ones(1), n).item() for n in (2.0, 3.0)], f.misses
        ([2.0, 3.0], 1)
        """
        places = dict(self._surroundings.look().places())
        named = {} if self._signature is None else self._signature.parameters
        numbers = sorted(n for n, fetch in places.items() if type(fetch()) in KINDS and setter(fetch) is not None)
        if name not in numbers and name not in named:
            raise UsageError(
                f"{self.__name__} has no number {name!r} to promote; it reads {', '.join([*named, *numbers]) or 'none'}"
            )
        self._surroundings.promote(name)

    def clear_cache(self) -> None:
        """Forget all recordings."""
        with self._lock:
            self._cache.clear()
            self._families.clear()
            self._last = None
            self._hits = self.misses = 0
            self._shortcuts = ()

    def explain(self) -> str:
        """Why the last recording was made, in a sentence."""
        return self._explanation

    def _explain_key(self, call: Call) -> None:
        if not self._cache:
            self._explanation = "it was recorded because this was its first call"
        else:
            self._explanation = f"it was recorded anew because {why_anew(call.key, [*self._cache], call.names)}"

    def _explain_guard(self, recording: Recording, failed: GuardFailed) -> None:
        guard = recording.trace.guards[failed.index]
        self._explanation = (
            f"it took another path because the value decided upon at {guard.source} was {failed.actual!r}, "
            f"not {guard.outcome!r}"
        )

    # -- being a method or a module ------------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        if instance not in self._methods:
            self._methods[instance] = self._bound_to(instance)
        return self._methods[instance]

    def _bound_to(self, instance: Any) -> TracedFunction:
        """The same function for one instance; it must not keep the instance alive, whose entry would never go."""
        reference, function = weakref.ref(instance), self._function

        @functools.wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            return function(reference(), *args, **kwargs)

        method.__signature__ = inspect.signature(function.__get__(instance))  # type: ignore[attr-defined]
        bound = TracedFunction(
            method, None, optimize=self._optimise is optimise, strict=self._strict, dynamic=self._dynamic
        )
        bound._surroundings = Surroundings(function, reference=reference)
        return bound

    def __getattr__(self, name: str) -> Any:
        owner = self.__dict__.get("_owner")
        if owner is None or name.startswith("__"):
            raise AttributeError(f"a traced function has no attribute {name!r}")
        return getattr(owner, name)

    def __repr__(self) -> str:
        stages = "" if self._last is None else f", {len(self._last.trace.graph.stages)} stages"
        return f"<traced {self.__name__}: {len(self._cache)} keys, {self.hits} hits, {self.misses} misses{stages}>"


# -- keys --------------------------------------------------------------------------------------------------------


def _signature_of(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


class _Promoted(NamedTuple):
    """Stands for a promoted number in the key."""

    kind: type


class CallError(UsageError, TypeError):
    """Arguments that a function does not take; a TypeError too, as in Python."""


def ledger(recording: Recording, world: World, structures: Sequence[Structure], names: Sequence[str]) -> list[Constant]:
    """The Python values in the key of a recording: near ones, and all that its nodes use, with the first one's line."""
    lines: dict[Any, Any] = {}
    for node in recording.trace.graph.nodes:
        for leaf in leaves_of((node.args, *node.attributes.values())):
            if isinstance(leaf, (int, float, complex, str)) and not isinstance(leaf, bool):
                lines.setdefault((type(leaf), leaf), node.source)
    arguments = [(name, value) for name, s in zip(names, structures, strict=True) for value in statics(s)]
    found = [(n, v, "an argument") for n, v in arguments] + [(n, v, "read by the function") for n, v in world.plain()]
    made = []
    for name, value, reason in found:
        if isinstance(value, np.ndarray):
            made.append(Constant(name, value.nbytes, None, f"a numpy array, {reason}; other contents record anew"))
        elif type(value) in (int, float, complex, str) and ((type(value), value) in lines or name.count(".") < 2):
            line, size = lines.get((type(value), value)), len(value) if isinstance(value, str) else 8
            made.append(Constant(name, size, line, f"{reason}; another value records anew", value))
    return made


def _flatten_arguments(values: Sequence[Any]) -> tuple[list[Any], tuple[Structure, ...]]:
    leaves: list[Any] = []
    structures = []
    for value in values:
        found, structure = flatten(value)
        leaves.extend(found)
        structures.append(structure)
    return leaves, tuple(structures)


def _unflatten_arguments(structures: Sequence[Structure], leaves: Sequence[Any]) -> list[Any]:
    values, start = [], 0
    for structure in structures:
        count = len(paths(structure))
        values.append(unflatten(structure, leaves[start : start + count]))
        start += count
    return values


def _leaf_names(names: Sequence[str], structures: Sequence[Structure]) -> list[str]:
    return [path for name, structure in zip(names, structures, strict=True) for path in paths(structure, name)]


# -- from a finished run to a recording --------------------------------------------------------------------------


class _Draft:
    """A recording in the making."""

    def __init__(self, trace: Trace, call: Call, where: Callable[[], str]) -> None:
        self.trace = trace
        self.call = call
        self.where = where
        self.positions = _distinct(call.leaves)
        self.edges: list[Any] = []
        """Per input, where its gradient leaves the function."""
        names = _leaf_names(call.names, call.structures)
        inners = {}
        for index in self.positions:
            tensor = call.leaves[index]
            inners[tensor] = inner = stand_in(tensor)
            trace.add_argument(inner, tensor.name or names[index])
            trace.stand_for(inner, tensor)
            self.edges.append(edge_of(inner))
        for tensor in call.leaves:
            if tensor not in inners:
                inners[tensor] = self._twin(tensor, inners)
        self.inners = [inners[tensor] for tensor in call.leaves]
        self.values = _unflatten_arguments(call.structures, self.inners)
        for name, number in call.promoted.items():
            self.values[call.names.index(name)] = trace.add_number(number, name)
        self.numbers = [trace.add_number(number.value, number.name) for number in call.world.numbers]
        """What stands in the places of promoted numbers around the function."""

    def _twin(self, tensor: Tensor, inners: dict[Tensor, Tensor]) -> Tensor:
        """What the function gets for another object that is the same tensor as one before."""
        first = inners[next(t for i in self.positions if same_tensor(t := self.call.leaves[i], tensor))]
        copy = twin(first, tensor)
        self.trace.bind_again(copy, first)
        self.trace.stand_for(copy, tensor)
        return copy

    def close(self, result: Any, optimise: Any) -> tuple[Recording, Live]:
        """End stage 0: describe the outputs, list the updates, gather what a backward would start from."""
        self._check_arguments()
        trace = self.trace
        leaves, structure = flatten(result)
        _check_structure(structure, self.where)
        slots = [slot for slot in trace.slots.values() if slot.has_changed]
        left = [slot.holder._grad for slot in slots if slot.holder._grad is not None]
        specs, values, tensors = _describe(trace, [*leaves, *left])
        self._check_leaves(leaves)
        updates, drawn = trace.updates(), trace.drawn()
        pairs: list[tuple[Value, Value]] = [(cell.source, value) for cell, value in updates if cell.source is not None]
        pairs += [(first, last) for _, first, last in drawn]
        trace.graph.set_return(values, pairs)
        position = {value: index for index, value in enumerate(trace.graph.inputs)}
        outputs = [*tensors, *(self._rebased(cell) for cell, _ in updates), *(None for _ in drawn)]
        recording = Recording(specs, structure, self.positions, optimise, [Chain(trace)], count=len(leaves))
        _describe_gradients(recording, slots, values)
        recording.targets = [position[target] for target, _ in pairs]
        recording.differentiable = [i for i, t in enumerate(outputs) if isinstance(t, Tensor) and t.requires_grad]
        recording.spent = bool(recording.differentiable) and all(
            _is_spent(outputs[i]) for i in recording.differentiable
        )
        recording.outcomes = tuple((type(g.outcome), g.outcome) for g in trace.guards)
        edges = [*self.edges, *(capture.edge for capture in trace.captures)]
        return recording, Live(outputs, recording.used(edges), trace)

    def _check_leaves(self, results: Sequence[Any]) -> None:
        """TraceError if the function returns a leaf that it made: gradients would have to end there in later calls."""
        for tensor in results:
            if isinstance(tensor, Variable) and tensor._requires_grad and self.trace.is_inside(tensor):
                raise TraceError(
                    f"{self.where()}: the traced function returns a leaf that it has made and that requires grad, "
                    "which a recording cannot make anew; call requires_grad_() outside"
                )

    def _rebased(self, cell: Any) -> Any:
        """A tensor from outside that was written to, if that gave it another history; without one it keeps its own."""
        at = self.trace.graph.inputs.index(cell.source)
        before = [*self.edges, *(capture.edge for capture in self.trace.captures)][at]
        return None if edge_of(cell.tensor) == before else cell.tensor

    def _check_arguments(self) -> None:
        """TraceError if the function has changed a list or dict among its arguments: the caller would not see it."""
        promoted = self.call.promoted
        values = [None if n in promoted else v for n, v in zip(self.call.names, self.values, strict=True)]
        leaves, structures = _flatten_arguments(values)
        for name, before, after in zip(self.call.names, self.call.structures, structures, strict=True):
            if before != after and name not in promoted:
                raise TraceError(
                    f"{self.where()}: the function changes its argument {name!r} itself, which a recording cannot "
                    "repeat; return the new value"
                )
        for inner, outer in self.trace.outer.items():
            if not _same_items(attributes_of(inner), attributes_of(outer)):
                raise TraceError(
                    f"{self.where()}: the function sets an attribute of a tensor among its arguments, which a "
                    "recording cannot repeat; return the value"
                )
        if any(a is not b for a, b in zip(leaves, self.inners, strict=True)):
            raise TraceError(
                f"{self.where()}: the function replaces a tensor in an argument, which a recording cannot repeat; "
                "return the new value"
            )

    def effect(self) -> str | None:
        """What the function has done besides computing, in words that fit behind "the call"."""
        hidden = (capture.name for capture in self.trace.captures if _is_hidden(capture))
        name = next(hidden, None)
        where = None if name is None else f"used {name!r}, a tensor or generator from where nobody can look"
        return self.trace.impure or self.call.world.effect() or where

    def give_back(self) -> None:
        """Replace what stood for arguments and numbers by these themselves, where the function has kept it."""
        stand_ins: list[tuple[Any, Any]] = list(self.trace.outer.items())
        numbers = [number for reference in self.trace.numbers if (number := reference()) is not None]
        for known, true in [*stand_ins, *((number, number._number) for number in numbers)]:
            for holder in gc.get_referrers(known):
                if holder is not self.trace.outer and holder is not numbers:
                    _put_in(holder, known, true)

    def finish(self, recording: Recording, live: Live) -> Any:
        """The result of the call that was recorded: wrapped as in later calls, around the eager arrays."""
        trace = self.trace
        owners = recording.inputs(self.call.leaves)
        recording.sharing = sharing_of(owners) if recording.targets else ()
        results = [t._array if isinstance(t, Tensor) else t for t in live.outputs]
        storages = [t._storage if isinstance(t, Tensor) else None for t in live.outputs]
        before = [trace.input_value(o, v) for o, v in zip(owners, trace.graph.inputs, strict=True)]
        node = None
        if recording.differentiable:
            node = recording.node_of(owners, before, self._outer_edges(owners))
            node.live = None if recording.spent else live
        first = len(recording.trace.graph.outputs)
        for number, index in enumerate(recording.targets, first):
            if node is not None and number in recording.differentiable:
                adopt(owners[index], node, number)
        result = recording.rebuild(results[:first], owners, node, storages)
        trace.forget()
        return result

    def _outer_edges(self, owners: Sequence[Any]) -> list[Any]:
        """Where gradients go on outside: captures as they were before the function wrote to them."""
        count = len(self.positions)
        return [*(edge_of(o) for o in owners[:count]), *(capture.edge for capture in self.trace.captures)]


def _is_hidden(capture: Any) -> bool:
    """Whether later calls cannot know where to find what was captured."""
    known = capture.place is not None or capture.gradient_of is not None or capture.number is not None
    return not known and capture.owner is not default_generator()


def _put_in(holder: Any, known: Any, true: Any) -> None:
    """Let a container, a closure or an object of the user's hold `true` in the place of `known`."""
    if isinstance(holder, dict):
        if any(key is known for key in holder):
            items = [(true if key is known else key, value) for key, value in holder.items()]
            holder.clear()
            holder.update(items)
        for key in [key for key, value in holder.items() if value is known]:
            holder[key] = true
    elif isinstance(holder, (list, collections.deque)):
        for index in [index for index, item in enumerate(holder) if item is known]:
            holder[index] = true
    elif type(holder) in (tuple, Size):  # another one has to stand in its place
        made = type(holder)(true if item is known else item for item in holder)
        for outer in gc.get_referrers(holder):
            if not isinstance(outer, FrameType):
                _put_in(outer, holder, made)
    elif isinstance(holder, set):
        if any(item is known for item in holder):
            holder.discard(known)
            holder.add(true)
    elif isinstance(holder, CellType):
        if holder != CellType() and holder.cell_contents is known:
            holder.cell_contents = true
    elif has_state(holder):
        for name in [*getattr(holder, "__dict__", ()), *slots_of(holder)]:
            if getattr(holder, name, None) is known:
                setattr(holder, name, true)


def _distinct(leaves: Sequence[Any]) -> list[int]:
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
    enum.Enum,
    frozenset,
)


def _check_structure(structure: Structure, where: Callable[[], str]) -> None:
    """TraceError if the result holds an object that would be the same one in every call."""
    for value in statics(structure):
        if not isinstance(value, _REBUILT):
            raise TraceError(
                f"{where()}: the traced function returns an object of type {type(value).__name__}, which a recording "
                "cannot make anew; return tensors, numbers, strings, None, or tuples, lists, dicts and dataclasses of "
                "them"
            )


def _describe(trace: Trace, leaves: Sequence[Any]) -> tuple[list[OutputSpec], list[Any], list[Any]]:
    """Per output how it is made, what stage 0 returns, and for each return the tensor that carries its gradient."""
    values = [_returned(trace, leaf) for leaf in leaves]
    carriers: list[Any] = [leaf._number if type(leaf) is TracedScalar else None for leaf in leaves]
    cells = collections.Counter(id(b.cell) for b in (trace.binding(t) for t in _tensors(leaves)) if b is not None)
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
        binding = trace.binding(leaf)
        assert binding is not None
        if id(leaf) in seen:
            specs.append(OutputSpec("same", seen[id(leaf)]))
            continue
        seen[id(leaf)] = number
        if binding.cell.source is not None:
            trace.settle(binding.path, returned=True)
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
            trace.settle(binding.path, returned=True)
            specs.append(OutputSpec("view", root, binding.path, leaf.requires_grad))
    return specs, values, carriers


def _describe_gradients(recording: Recording, slots: Sequence[GradientSlot], values: Sequence[Any]) -> None:
    """What the recording takes for granted of `.grad` of its inputs, and what it leaves there; see docs/tracing.md."""
    trace = recording.trace
    place = {value: index for index, value in enumerate(trace.graph.inputs)}
    number = recording.count
    for slot in slots:
        if slot.holder._grad is None:
            recording.slots.append((place[slot.value], None))
            continue
        recording.slots.append((place[slot.value], number))
        if not values[number].is_input:
            trace.graph.rename(values[number], f"{slot.value.name}.grad")
        number += 1
    reads = [slot for slot in trace.slots.values() if slot.is_read]
    recording.reads = [(place[s.value], None if s.found is None else place[s.found]) for s in reads]
    recording.hookless = [place[value] for value in trace.differentiated.values()]


def _is_spent(tensor: Any) -> bool:
    """Whether a backward has run through the last operator behind a tensor, and freed what it had saved."""
    return isinstance(tensor.grad_fn, OpNode) and tensor.grad_fn.saved is None


def _returned(trace: Trace, leaf: Any) -> Any:
    if type(leaf) is TracedScalar:
        return leaf._ir() if leaf._trace is trace else leaf._number
    return trace.value_of(leaf) if leaf.defined else None


def _tensors(leaves: Sequence[Any]) -> list[Tensor]:
    """The tensors among the leaves, each once."""
    return list({id(t): t for t in leaves if isinstance(t, Tensor) and t.defined}.values())


def _root_of(trace: Trace, cell: Any, leaves: Sequence[Any], values: list[Any], carriers: list[Any]) -> int | None:
    """Which return is all of the memory that several outputs show parts of; one more return if it is no output."""
    for number, leaf in enumerate(leaves):
        binding = trace.binding(leaf) if isinstance(leaf, Tensor) else None
        if binding is not None and binding.cell is cell and not binding.path:
            return number
    bases = (t._base for t in leaves if isinstance(t, Tensor) and t._base is not None)
    for base in bases:
        binding = trace.binding(base)
        if binding is not None and binding.cell is cell and not binding.path:
            values.append(trace.value_of(base))
            carriers.append(base)
            return len(values) - 1
    return None


# -- the decorator -----------------------------------------------------------------------------------------------


def trace(
    function: Any = None,
    example_inputs: Sequence[Any] | None = None,
    *,
    check: bool = True,
    optimize: bool = True,
    strict: bool = False,
    dynamic: bool | Dims | None = None,
) -> Any:
    """Record a function of tensors, per signature, and run the recording from then on.

    Works as a decorator with and without arguments, on functions, methods and Module classes, and as a call on
    functions and modules.

    Args:
        function: What to trace; a Module is traced through its call, its parameters and buffers as hidden inputs.
        example_inputs: A tuple of arguments to record with at once.
        check: With example inputs, run the function untraced too, and compare.
        optimize: Improve the graph and compile what can be compiled; without it every call equals eager bit for bit.
        strict: Raise a TraceError where Python decides on a traced value, instead of guarding the decision, and where
            it does what a recording cannot repeat.
        dynamic: Which sizes vary. None: all that turn out to; from the second size on one recording serves all sizes
            for which the function is the same program. True: all, and it is a TraceError if they are not the same
            program. A mapping such as `{"x": [0]}`: these dims. False: none, every size is recorded.

    Raises:
        TraceError: The function does something that cannot be traced; the message names the line.

    >>> import jit
    >>> @jit.trace
    ... def f(x):
    ...     return x * 2 if x.sum() > 0 else -x
    >>> f(jit.ones(2)).tolist(), f(-jit.ones(2)).tolist(), f.misses
    ([2.0, 2.0], [1.0, 1.0], 2)
    """
    options: dict[str, Any] = {"optimize": optimize, "strict": strict, "dynamic": dynamic}
    if function is None:
        return functools.partial(trace, example_inputs=example_inputs, check=check, **options)
    traced = _wrap(function, options)
    if example_inputs is not None:
        _record_examples(traced, function, tuple(example_inputs), check)
    return traced


def _wrap(function: Any, options: dict[str, Any]) -> Any:
    from .nn import Module

    if isinstance(function, TracedFunction):
        return function
    if isinstance(function, Module):
        return TracedFunction(function, function, **options)
    if isinstance(function, type) and issubclass(function, Module):
        function.forward = TracedFunction(function.forward, **options)  # type: ignore[method-assign]
        return function
    if not callable(function):
        raise CallError(f"jit.trace takes a function or a Module, not {type(function).__name__}")
    return TracedFunction(function, **options)


def _record_examples(traced: TracedFunction, function: Any, inputs: tuple[Any, ...], check: bool) -> None:
    """Record with examples, and leave buffers and the random generator as they were."""
    from .verifying import compare_results

    with _undone(traced._surroundings.look().tensors):
        traced(*inputs)
    if check:
        with _undone(traced._surroundings.look().tensors):
            replayed = traced(*inputs)
        with _undone(traced._surroundings.look().tensors):
            expected = function(*inputs)
        compare_results(expected, replayed, f"{traced.__name__}: traced and untraced results differ")


@contextlib.contextmanager
def _undone(owners: Sequence[Any]) -> Iterator[None]:
    """What is drawn within this block, and written to tensors that require no grad, is undone after it."""
    generators = {default_generator(), *(o for o in owners if isinstance(o, Generator))}
    states = [(g, g.state) for g in generators]
    arrays = [(t, t._array.copy()) for t in owners if isinstance(t, Tensor) and t.defined and not t.requires_grad]
    try:
        yield
    finally:
        for generator, state in states:
            generator.state = state
        for tensor, array in arrays:
            if tensor._array.flags.writeable:
                np.copyto(tensor._array, array)
