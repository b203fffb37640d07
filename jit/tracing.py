"""`jit.trace`: runs a function once, records it, and from then on runs the recording.

A call is reduced to a `Key`; each key has a tree of `Recording`s, one per path that the guards have taken. See
docs/tracing.md.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jit.ir import Graph, Value
from jit.ir.errors import TraceError, UsageError
from jit.ir.types import is_contiguous
from jit.runtime.interpreter import GuardFailed

from . import context, dispatch
from .autograd.nodes import edge_of
from .compiling import optimise, unoptimised
from .proxies import TracedScalar
from .pytree import Structure, flatten, paths, unflatten
from .stages import Chain, Kept, Live, OutputSpec, Recording, StageNode, _give_history, stand_in
from .surroundings import Surroundings
from .tensors import Tensor
from .tracer import Constant, Trace

BRANCHES = 8
"""How many paths one key may have before its calls run eagerly."""
KEYS = 64
"""How many keys a function may have before further ones run eagerly."""


class Key(NamedTuple):
    """What a recording is specialised on."""

    structure: tuple[Structure, ...]
    tensors: tuple[Any, ...]
    sharing: tuple[Any, ...]
    grad_mode: bool
    surroundings: tuple[Any, ...]


_KEY_WORDS = {
    "structure": "the structure of the arguments or a non-tensor argument", "tensors": "a tensor argument",
    "sharing": "which arguments share memory", "grad_mode": "whether gradients are recorded",
    "surroundings": "a Python value that the function reads",
}  # fmt: skip


@dataclass
class Entry:
    """All paths of one key."""

    recordings: list[Recording] = field(default_factory=list)
    exhausted: bool = False
    """The budget of branches is spent; calls run eagerly."""


class TracedFunction:
    """A function with its recordings; made by `jit.trace`."""

    def __init__(self, function: Callable[..., Any], owner: Any = None, *, optimize: bool = True, strict: bool = False) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._owner = owner
        self._optimise = optimise if optimize else unoptimised
        self._strict = strict
        self._surroundings = Surroundings(function, owner)
        self._signature = _signature_of(function if owner is None else getattr(owner, "forward", owner))
        self._cache: dict[Key, Entry] = {}
        self._lock = threading.RLock()
        self._last: Recording | None = None
        self._explanation = "it has not been called yet"
        self._methods: weakref.WeakKeyDictionary[Any, TracedFunction] = weakref.WeakKeyDictionary()
        self._warned = False
        self.keep_examples = False
        """Whether recordings keep copies of the arrays that they were made with."""
        self.enabled = True
        """False makes the function transparent: calls run eagerly."""
        self.hits = 0
        """Calls that ran a recording."""
        self.misses = 0
        """Calls that recorded."""

    # -- calling -------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if context.TRACE.get() is not None or not self.enabled:
            return self._function(*args, **kwargs)
        names, values = self._bind(args, kwargs)
        leaves, structures = _flatten_arguments(values)
        key = self._key(leaves, structures)
        with self._lock:
            entry = self._cache.get(key)
            if entry is None:
                if len(self._cache) >= KEYS:
                    return self._eagerly(f"it has been called in {KEYS} different ways", args, kwargs)
                self._explain_key(key)
                entry = self._cache[key] = Entry()
        return self._dispatch(entry, key, names, leaves, structures, (args, kwargs))

    def _dispatch(self, entry: Entry, key: Key, names: Any, leaves: list[Any], structures: Any, call: Any) -> Any:
        """Run the recording that the guards lead to, or make it."""
        recording = entry.recordings[-1] if entry.recordings else None
        prefix: tuple[Any, ...] = ()
        while recording is not None:
            try:
                result = recording.run(leaves)
            except GuardFailed as failed:
                prefix = (*recording.outcomes[: failed.index], (type(failed.actual), failed.actual))
                self._explain_guard(recording, failed)
                recording = _matching(entry, prefix)
                continue
            self.hits += 1
            self._last = recording
            return result
        with self._lock:
            if entry.exhausted or len(entry.recordings) >= BRANCHES:
                entry.exhausted = True
                return self._eagerly(f"its guards have taken {BRANCHES} different paths", *call)
            found = _matching(entry, prefix) if entry.recordings and not prefix else None
            if found is None:
                return self._record(entry, key, names, leaves, structures)
        return self._dispatch(entry, key, names, leaves, structures, call)

    def _eagerly(self, why: str, args: Any, kwargs: Any) -> Any:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.__name__} runs untraced from now on where it has no recording yet, because {why}; "
                f"{self._explanation}. Pass what varies as a tensor, or call clear_cache()",
                stacklevel=3,
            )
        return self._function(*args, **kwargs)

    def _bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[str], list[Any]]:
        if self._signature is None:
            return [f"input_{i}" for i in range(len(args))] + list(kwargs), [*args, *kwargs.values()]
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _call_error(self.__name__, error) from None
        bound.apply_defaults()
        return list(bound.arguments), list(bound.arguments.values())

    def _key(self, leaves: Sequence[Any], structures: tuple[Structure, ...]) -> Key:
        return Key(
            structures, tuple(map(_tensor_key, leaves)), _sharing(leaves), context.GRAD_ENABLED.get(), self._surroundings.fingerprint()
        )

    # -- recording -----------------------------------------------------------------------------------------------

    def _record(self, entry: Entry, key: Key, names: list[str], leaves: list[Any], structures: tuple[Structure, ...]) -> Any:
        self.misses += 1
        trace = Trace(self._surroundings.name_of)
        inners, grounds = _stand_ins(leaves)
        for name, (tensor, inner) in zip(_leaf_names(names, structures), zip(leaves, inners, strict=True), strict=True):
            if trace.binding(inner) is None:
                trace.add_argument(inner, tensor.name or name)
        values = _unflatten_arguments(structures, inners)
        examples = [t._array.copy() for t in _distinct(leaves)] if self.keep_examples else []
        token = context.TRACE.set(trace)
        try:
            result = self._call_with(names, values)
            recording, live = _close(trace, result, len(trace.graph.inputs) - len(trace.captures), self._optimise, grounds)
        finally:
            context.TRACE.reset(token)
        if self._strict and trace.guards:
            guard = trace.guards[0]
            raise TraceError(f"at {guard.source}: Python decides on a traced value here, and strict=True forbids that")
        recording.examples = examples
        entry.recordings.append(recording)
        self._last = recording
        return _finish_call(recording, live, leaves)

    def _call_with(self, names: list[str], values: list[Any]) -> Any:
        if self._signature is None:
            return self._function(*values)
        bound = inspect.BoundArguments(self._signature, dict(zip(names, values, strict=True)))  # type: ignore[arg-type]
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
        _, values = self._bind(args, kwargs)
        entry = self._cache.get(self._key(*_flatten_arguments(values)))
        return entry.recordings[-1] if entry is not None and entry.recordings else None

    @property
    def graphs(self) -> list[Any]:
        """One titled graph per pass of the last recording's compilation."""
        from .compiling import titled_graphs

        return titled_graphs(self.graph)

    def constants(self) -> list[Constant]:
        """Every value that the last recording has baked in, with the user's line and the reason."""
        return [] if self._last is None else list(self._last.trace.constants)

    def clear_cache(self) -> None:
        """Forget all recordings."""
        with self._lock:
            self._cache.clear()
            self._last = None
            self.hits = self.misses = 0

    def explain(self) -> str:
        """Why the last recording was made, in a sentence."""
        return self._explanation

    def _explain_key(self, key: Key) -> None:
        if not self._cache:
            self._explanation = "it was recorded because this was its first call"
            return
        nearest = max(self._cache, key=lambda other: sum(a == b for a, b in zip(key, other, strict=True)))
        differing = [name for name in Key._fields if getattr(key, name) != getattr(nearest, name)]
        details = [f"{_KEY_WORDS[n]} differs: {_difference(getattr(nearest, n), getattr(key, n))}" for n in differing]
        self._explanation = "it was recorded anew because " + "; ".join(details)

    def _explain_guard(self, recording: Recording, failed: GuardFailed) -> None:
        guard = recording.trace.guards[failed.index]
        self._explanation = f"it took another path because the value decided upon at {guard.source} was {failed.actual!r}, not {guard.outcome!r}"

    # -- being a method or a module ------------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        if instance not in self._methods:
            bound = self._function.__get__(instance, owner)  # type: ignore[attr-defined]
            self._methods[instance] = TracedFunction(bound, None, optimize=self._optimise is optimise, strict=self._strict)
        return self._methods[instance]

    def __getattr__(self, name: str) -> Any:
        owner = self.__dict__.get("_owner")
        if owner is None or name.startswith("__"):
            raise AttributeError(f"a traced function has no attribute {name!r}")
        return getattr(owner, name)

    def __repr__(self) -> str:
        return f"<traced {self.__name__}: {len(self._cache)} keys, {self.hits} hits, {self.misses} misses>"


# -- keys --------------------------------------------------------------------------------------------------------


def _signature_of(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _call_error(name: str, error: TypeError) -> UsageError:
    class CallError(UsageError, TypeError):
        pass

    return CallError(f"{name}: {error}")


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


def _tensor_key(tensor: Tensor) -> tuple[Any, ...]:
    array = tensor._array
    if array is None:
        return ("undefined",)
    strides = tuple(s // array.itemsize for s in array.strides)
    layout = None if is_contiguous(array.shape, strides) else strides
    return (array.dtype, array.shape, layout, tensor.requires_grad, tensor.is_leaf, array.flags.writeable)


def _sharing(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """For each tensor the first one that shares its storage, and how it lies to that."""
    first: dict[int, tuple[int, int]] = {}
    pattern = []
    for index, tensor in enumerate(leaves):
        if tensor._array is None:
            continue
        address = tensor._array.__array_interface__["data"][0]
        other, start = first.setdefault(id(tensor._storage), (index, address))
        if other != index:
            pattern.append((index, other, address - start, tensor._array.strides))
    return tuple(pattern)


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            if a != b:
                return _difference(a, b) if isinstance(a, tuple) and isinstance(b, tuple) and not hasattr(a, "_fields") else f"{_show(a)} became {_show(b)}"
    return f"{_show(old)} became {_show(new)}"


def _show(value: Any) -> str:
    if isinstance(value, Structure):
        return repr(value.keys[0]) if value.kind == "static" else str(getattr(value.kind, "__name__", value.kind))
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def _matching(entry: Entry, prefix: tuple[Any, ...]) -> Recording | None:
    """The recording whose guards saw `prefix` first."""
    return next((r for r in reversed(entry.recordings) if r.outcomes[: len(prefix)] == prefix), None)


# -- from a finished run to a recording --------------------------------------------------------------------------


def _stand_ins(leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What the traced function gets for each tensor, and the leaves under them; one for identical tensors."""
    made: dict[Any, tuple[Any, Any]] = {}
    for tensor in leaves:
        place = (id(tensor._storage), None if tensor._array is None else (tensor._array.__array_interface__["data"][0], tensor._array.shape, tensor._array.strides), edge_of(tensor))
        if place not in made:
            made[place] = stand_in(tensor)
        made[id(tensor)] = made[place]
    pairs = [made[id(tensor)] for tensor in leaves]
    return [inner for inner, _ in pairs], [ground for _, ground in pairs]


def _close(trace: Trace, result: Any, arguments: int, optimise: Any, grounds: Sequence[Any]) -> tuple[Recording, Live]:
    """End stage 0: describe the outputs, list the updates, gather what a backward would start from."""
    leaves, structure = flatten(result)
    specs, values, tensors = _describe(trace, leaves)
    updates, drawn = trace.updates(), trace.drawn()
    pairs: list[tuple[Value, Value]] = [(cell.source, value) for cell, value in updates if cell.source is not None]
    pairs += [(first, last) for _, first, last in drawn]
    trace.graph.set_return(values, pairs)
    position = {value: index for index, value in enumerate(trace.graph.inputs)}
    outputs = [*tensors, *(cell.tensor for cell, _ in updates)]
    recording = Recording(specs, structure, arguments, optimise, [Chain(trace)])
    recording.targets = [position[target] for target, _ in pairs]
    recording.differentiable = [i for i, t in enumerate(outputs) if t is not None and t.requires_grad]
    inputs = list(dict.fromkeys(id(g) for g in grounds))
    by_id = {id(g): g for g in grounds}
    captured = [c.owner if isinstance(c.owner, Tensor) else None for c in trace.captures]
    return recording, Live(outputs + [None] * len(drawn), [*(by_id[i] for i in inputs), *captured])


def _describe(trace: Trace, leaves: Sequence[Any]) -> tuple[list[OutputSpec], list[Any], list[Any]]:
    specs: list[OutputSpec] = []
    values, tensors, seen = [], [], {}
    for number, leaf in enumerate(leaves):
        if type(leaf) is TracedScalar:
            specs.append(OutputSpec("number"))
            values.append(leaf._ir() if leaf._trace is trace else leaf._number)
            tensors.append(None)
            continue
        if not leaf.defined:
            specs.append(OutputSpec("fresh"))
            values.append(None)
            tensors.append(None)
            continue
        values.append(trace.value_of(leaf))
        binding = trace.binding(leaf)
        assert binding is not None
        if id(leaf) in seen:
            specs.append(OutputSpec("same", seen[id(leaf)]))
        elif binding.cell.source is not None:
            specs.append(OutputSpec("input", trace.graph.inputs.index(binding.cell.source), binding.path))
        else:
            specs.append(OutputSpec("fresh", number, (), leaf.requires_grad))
        seen.setdefault(id(leaf), number)
        tensors.append(leaf if specs[-1].kind == "fresh" else None)
    return specs, values, tensors


def _finish_call(recording: Recording, live: Live, arguments: Sequence[Tensor]) -> Any:
    """The result of the call that was recorded: the same wrapping as for later calls, around the eager arrays."""
    owners = recording.inputs(_distinct(arguments))
    outputs = [getattr(t, "_array", None) for t in live.outputs[: len(recording.outputs)]]
    numbers = recording.trace.graph.outputs
    node = None
    if context.GRAD_ENABLED.get() and recording.differentiable:
        node = StageNode(recording, (), [edge_of(o) for o in owners], len(live.outputs))
        versions = [(o._storage, o._storage.version) if isinstance(o, Tensor) else (None, None) for o in owners]
        values = [o._array if isinstance(o, Tensor) else o.state for o in owners]
        node.kept = Kept([values], versions, [dispatch.requires_grad(o) for o in owners])  # type: ignore[arg-type]
        node.live = live
        for index in recording.differentiable:
            if index >= len(recording.outputs):
                owner = owners[recording.targets[index - len(recording.outputs)]]
                _give_history(owner, node, index)
    del numbers
    return recording.rebuild(outputs, owners, node)


def _distinct(arguments: Sequence[Tensor]) -> list[Tensor]:
    """One tensor per input of the graph: identical arguments are one input."""
    inners, _ = _stand_ins(arguments)
    kept: dict[int, Tensor] = {}
    for inner, tensor in zip(inners, arguments, strict=True):
        kept.setdefault(id(inner), tensor)
    return list(kept.values())


# -- the decorator -----------------------------------------------------------------------------------------------


def trace(
    function: Any = None, example_inputs: Sequence[Any] | None = None, *, check: bool = True, optimize: bool = True, strict: bool = False
) -> Any:
    """Record a function of tensors, per signature, and run the recording from then on.

    Works as a decorator with and without arguments, on functions, methods and Module classes, and as a call on functions
    and modules.

    Args:
        function: What to trace; a Module is traced through its call, its parameters and buffers as hidden inputs.
        example_inputs: A tuple of arguments to record with at once.
        check: With example inputs, run the function untraced too, and compare.
        optimize: Improve the graph and compile what can be compiled; without it every call equals eager bit for bit.
        strict: Raise a TraceError where Python decides on a traced value, instead of guarding the decision.

    Raises:
        TraceError: The function does something that cannot be traced; the message names the line.

    >>> import jit
    >>> @jit.trace
    ... def f(x):
    ...     return x * 2 if x.sum() > 0 else -x
    >>> f(jit.ones(2)).tolist(), f(-jit.ones(2)).tolist(), f.misses
    ([2.0, 2.0], [1.0, 1.0], 2)
    """
    options = {"optimize": optimize, "strict": strict}
    if function is None:
        return functools.partial(trace, example_inputs=example_inputs, check=check, **options)
    traced = _wrap(function, options)
    if example_inputs is not None:
        _record_examples(traced, function, tuple(example_inputs), check)
    return traced


def _wrap(function: Any, options: dict[str, bool]) -> Any:
    from .nn import Module

    if isinstance(function, TracedFunction):
        return function
    if isinstance(function, Module):
        return TracedFunction(function, function, **options)
    if isinstance(function, type) and issubclass(function, Module):
        function.forward = TracedFunction(function.forward, **options)  # type: ignore[method-assign, assignment]
        return function
    if not callable(function):
        raise UsageError(f"jit.trace takes a function or a Module, not {type(function).__name__}")
    return TracedFunction(function, **options)


def _record_examples(traced: TracedFunction, function: Any, inputs: tuple[Any, ...], check: bool) -> None:
    from .generators import default_generator

    generator = default_generator()
    state = generator.state
    traced(*inputs)
    if not check:
        return
    from .verifying import compare_results

    generator.state = state
    replayed = traced(*inputs)
    generator.state = state
    compare_results(function(*inputs), replayed, f"{traced.__name__}: traced and untraced results differ")
