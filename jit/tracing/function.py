"""`jit.trace`: runs a function once, records it, and from then on runs the recording.

A call is reduced to a `Key`; each key has a tree of `Recording`s, one per path that the guards have taken. See
docs/tracing.md.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jit.eager import context
from jit.eager.networks import Network
from jit.eager.pytree import ObjectError, statics, too_deep
from jit.eager.tensors import Tensor
from jit.ir import Graph
from jit.ir.errors import Error, TraceError, UsageError
from jit.runtime.arrays.programs import GuardFailed

from .cache import KEYS, Outgrown, RecordingCache
from .comparing import compare_results, seen, shaken_in_place
from .explanation import Explanation
from .first_runs import FirstRuns
from .parameters import FunctionParameters
from .patience import patience
from .recorder.records import Constant
from .recordings.chains import BRANCHES
from .recordings.compiling import optimise, unoptimised
from .recordings.drafting import distinct, ledger
from .recordings.kept_leaves import connect, keeps_leaves
from .recordings.recalling import Recollection, recalling, recollection
from .recordings.recording import OperatorRaised, Recording, may_follow, seen_by
from .recordings.shapes import Dims
from .shortcuts.shortcuts import Shortcut, hits, shortcut
from .sizes import SizeFamilies
from .surroundings.calls import (
    CallError,
    Entry,
    Key,
    TracedCall,
    _Promoted,
    flatten_arguments,
    marks_of,
)
from .surroundings.promoting import DRIFT, KINDS, drifting
from .surroundings.properties import kind_of
from .surroundings.sharing import sharing_of
from .surroundings.surroundings import Surroundings, Watched, World, attributes_of, view_of_objects

SHORTCUTS = 4
"""The number of shortcuts that are tried before a call goes the long way."""


class TracedFunction(Watched):
    """A function with its recordings; made by `jit.trace`."""

    def __init__(
        self,
        function: Callable[..., Any],
        owner: Any = None,
        *,
        optimize: bool = True,
        strict: bool = False,
        dynamic: bool | Dims | None = None,
        surroundings: Surroundings | None = None,
        parameters: FunctionParameters | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._function = function
        self._owner = owner
        self._optimise = optimise if optimize else unoptimised
        self._strict = strict
        self._dynamic = dynamic
        self._surroundings = surroundings or Surroundings(function, owner)
        self._parameters = parameters or _parameters_of(function, owner)
        self._cache = RecordingCache(self._surroundings, SizeFamilies(dynamic))
        self._runs = FirstRuns(function, getattr(type(owner), "forward", None), strict)
        self._explanation = Explanation()
        self._counting = threading.Lock()
        self._last: Recording | None = None
        self._methods: weakref.WeakKeyDictionary[Any, TracedFunction] = weakref.WeakKeyDictionary()
        self._warned = False
        self._effects = 0
        """The number of runs that have changed something of Python's."""
        self.keep_examples = False
        """Whether recordings keep copies of the arrays that they were made with."""
        self.open_sizes = False
        """Whether recordings are for looking at, and may leave open what sizes depend on elements."""
        self._enabled = True
        self._hits = 0
        self._shortcuts: tuple[tuple[Shortcut, Recording], ...] = ()
        """The latest ones first."""
        self._open: tuple[tuple[Shortcut, Recording], ...] = ()
        """The shortcuts that calls may take: a class with `__getattr__` looks up attributes slowly."""
        self.misses = 0
        """Calls that recorded."""

    def watched(self) -> list[tuple[str, Any]]:
        """The surroundings that it reads itself, for functions that call this one."""
        return [("", self._function)] if self._owner is None else [("", self._owner)]

    @property
    def enabled(self) -> bool:
        """Whether calls run recordings; False makes the function transparent, so that they run eagerly."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        with self._counting:
            self._enabled = value
            self._open = self._shortcuts if value else ()

    @property
    def hits(self) -> int:
        """Calls that ran a recording."""
        return self._hits + sum(hits(short) for short, _ in self._shortcuts)

    # -- calling -------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            for short, recording in self._open:
                try:
                    result = short(*args)
                except Exception:  # which the function may catch: the long way finds out
                    break
                if result is not None:
                    self._last = recording
                    return result
        return self._long_way(args, kwargs)

    def _long_way(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        while True:
            with contextlib.suppress(Outgrown):
                return self._answer_or_record(args, kwargs)

    def _answer_or_record(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if context.TRACE.get() is not None or not self.enabled or context.SAVING.get() is not None:
            return self._function(*args, **kwargs)  # hooks on what is saved see what eager mode saves
        try:
            call = self._prepare(args, kwargs)
        except Error:
            raise
        except Exception as error:
            raise (too_deep() if isinstance(error, RecursionError) else ObjectError(error)) from error
        entry = self._cache.get(call.key)
        general = self._general_entry(call) if entry is None else None
        if entry is None and general is None and self._promote_drifting(call):
            return self._long_way(args, kwargs)
        recordings = [recording for each in (entry, general) if each is not None for recording in each.recordings]
        if context.ANOMALY.get() is not None and any(recording.trace.tape.backwards for recording in recordings):
            return self._function(*args, **kwargs)  # eager mode says where the NaN of a backward inside comes from
        if not any(recording.calls_python for recording in recordings):
            return self._answer(call, entry, general)
        with recalling(Recollection()):
            return self._answer(call, entry, general)

    def _answer(self, call: TracedCall, entry: Entry | None, general: Entry | None) -> Any:
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

    def _prepare(self, args: Sequence[Any], kwargs: dict[str, Any]) -> TracedCall:
        names, values = self._parameters.bind(self.__name__, args, kwargs)
        chosen = self._surroundings.promoted
        promoted = (
            {n: v for n, v in zip(names, values, strict=True) if n in chosen and type(v) in KINDS} if chosen else {}
        )
        values = [_Promoted(type(v)) if n in promoted else v for n, v in zip(names, values, strict=True)]
        leaves, structures = flatten_arguments(values)
        attached = [(tensor._name or "argument", made) for tensor in leaves if (made := attributes_of(tensor))]
        given = [*((n, v) for n, s in zip(names, structures, strict=True) for v in statics(s)), *attached]
        view = self._surroundings.look()
        world = World(view, view_of_objects(given, view.footprint), given)
        sharing = sharing_of(leaves)
        key = Key(structures, tuple(map(kind_of, leaves)), sharing, context.GRAD_ENABLED.get(), world.fingerprint)
        return TracedCall(args, kwargs, names, leaves, structures, world, key, promoted)

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

    def _entry(self, call: TracedCall) -> Entry | None:
        """The recordings of a key; None if the function is to run eagerly."""
        entry = self._cache.get(call.key)
        if entry is not None or self._effects >= BRANCHES:
            return entry
        return self._cache.entry(call.key, lambda: self._explain_key(call))

    def _promote_drifting(self, call: TracedCall) -> bool:
        """Make inputs of floats that are others again and again; whether there are any. See Note [Drift]."""
        if self._dynamic is False or len(self._cache.entries) < DRIFT:
            return False
        names = drifting(call.key, [*self._cache.entries])
        places = dict(self._surroundings.look().places()) if names else {}
        return self._surroundings.promote_unasked(n for n in names if n in places and places[n].writer() is not None)

    def _general_entry(self, call: TracedCall) -> Entry | None:
        """The recordings that serve many sizes, this call's among them; see jit.tracing.recordings.shapes."""
        return self._cache.sizes.entry(call.key)

    def _run(self, entry: Entry, call: TracedCall) -> tuple[bool, Any]:
        """Try the recordings that the guards lead to, the latest first."""
        prefix: tuple[Any, ...] = ()
        for recording in reversed(entry.recordings):
            if not may_follow(recording, prefix):
                continue
            owners = recording.inputs(call.leaves, call.world.tensors, call.numbers)
            self._cache.check_generation(call)
            why_not = recording.misfit(owners, call.knows)
            if why_not is not None:
                self._explanation.anew(why_not)
                continue
            if (calls := recollection()) is not None:
                calls.at = 0
            try:
                result = recording.run(owners)
            except GuardFailed as failed:
                prefix = seen_by(recording, failed)
                self._explanation.other_path(recording, failed)
                continue
            except OperatorRaised as raised:
                call.note_raised(raised.error, calls)
                self._explanation.anew(f"an operator raised {type(raised.error).__name__}")
                continue
            with self._counting:
                self._hits += 1
            self._last = recording
            self._shorten(call, recording)
            return True, result
        return False, None

    def _shorten(self, call: TracedCall, recording: Recording) -> None:
        """Let further calls like this one take a shortcut, if there is one."""
        state = (call.world.surroundings, recording.chains[0].plan, context.INFERENCE.get())
        if recording.tried is not None and all(a is b for a, b in zip(recording.tried, state)):
            return
        recording.tried = state
        short = shortcut(call, recording)
        if short is not None and call.world.generation == self._surroundings.generation:
            with self._counting:
                self._hits += sum(hits(old) for old, _ in self._shortcuts[SHORTCUTS - 1 :])
                self._shortcuts = ((short, recording), *self._shortcuts[: SHORTCUTS - 1])
                self._open = self._shortcuts if self._enabled else ()

    def _eagerly(self, call: TracedCall) -> Any:
        if not self._warned:
            self._warned = True
            full = f"it has been called in {KEYS} different ways"
            why = full if self._cache.is_full else f"it has taken {BRANCHES} different paths"
            if self._effects >= BRANCHES:
                why = "it does what a recording cannot repeat in every call"
            warnings.warn(
                f"{self.__name__} runs untraced from now on where it has no recording yet, because {why}; "
                f"{self._explanation}. Pass what varies as a tensor, or call clear_cache()",
                stacklevel=3,
            )
        with recalling(None):
            return self._function(*call.args, **call.kwargs)

    # -- recording -----------------------------------------------------------------------------------------------

    def _record(self, entry: Entry, call: TracedCall, seen: int) -> Any:
        with entry.lock:
            self._cache.check_generation(call)
            if len(entry.recordings) > seen:  # somebody else has recorded meanwhile
                found, result = self._run(entry, call)
                if found:
                    return result
            if len(entry.recordings) < BRANCHES:
                calls = recollection() or Recollection()
                with recalling(calls.again()):
                    return self._record_alone(entry, call)
        if self._surroundings.bake_in_again():
            return self._long_way(call.args, call.kwargs)
        return self._eagerly(call)

    @patience()
    def _record_alone(self, entry: Entry, call: TracedCall) -> Any:
        examples = [call.leaves[i]._array.copy() for i in distinct(call.leaves)] if self.keep_examples else []
        before = call.world
        run = self._runs.run(call, self._parameters, self.where, self.open_sizes)
        draft, world, result = run.draft, run.world, run.result
        try:
            run.raise_error()
            with context.tracing(draft.trace):
                recording, live = draft.close(result, self._optimise)
        finally:
            draft.trace.errors.forget()
        recording.examples = examples
        with self._counting:
            self.misses += 1
        recording.calls_python = any(node.kind.startswith("^") for node in draft.trace.graph.nodes)
        recording.read = ledger(recording, world, call.structures, call.names)
        self._last = recording
        if draft.trace.gradients.hooks:  # which run in a backward that comes later
            world.see_everything()
        effect = draft.effect() or self._cache.grow(entry, call, before, recording)
        if effect is None:
            self._compare_sizes(call, recording)
        else:
            if effect.startswith("changed "):  # the next call will hardly do so, but it will run the same code
                self._cache.grow(entry, call, before, None)
            draft.needs_eager_history |= keeps_leaves(
                draft.trace, live.outputs, lambda: self._surroundings.reach().tensors
            )
            connect(draft.edges)
            self._note_effect(effect)
            draft.trace.note_impure(effect)
            draft.give_back()
        return draft.finish(recording, live)

    def _compare_sizes(self, call: TracedCall, recording: Recording) -> None:
        sizes = self._cache.sizes
        if sizes.may_vary(call, recording):
            with self._cache.lock:
                sizes.compare(call, recording, self._explanation, self.where)

    def _note_effect(self, effect: str) -> None:
        """The call has done something that a recording cannot repeat."""
        if self._strict:
            raise TraceError(f"{self.where()}: the call {effect}, which a recording cannot repeat; do it outside")
        with self._counting:
            self._effects += 1
        self._explanation.not_kept(effect)

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
        from .recordings.compiling import titled_graphs

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
        places = {**dict(self._surroundings.reach().places()), **dict(self._surroundings.look().places())}
        named = self._parameters.named
        numbers = sorted(n for n, place in places.items() if type(place()) in KINDS and place.writer() is not None)
        if name not in numbers and name not in named:
            raise UsageError(
                f"{self.__name__} has no number {name!r} to promote; it reads {', '.join([*named, *numbers]) or 'none'}"
            )
        self._surroundings.promote(name)

    def clear_cache(self) -> None:
        """Forget all recordings."""
        with self._cache.lock:
            self._cache.clear()
            self._last = None
            self._hits = self.misses = 0
            self._shortcuts = self._open = ()

    def explain(self) -> str:
        """Why the last recording was made, in a sentence."""
        return str(self._explanation)

    def _explain_key(self, call: TracedCall) -> None:
        if self._cache.entries:
            self._explanation.other_key(call.key, [*self._cache.entries], call.names)
        else:
            self._explanation.first_call()

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
        return TracedFunction(
            method,
            optimize=self._optimise is optimise,
            strict=self._strict,
            dynamic=self._dynamic,
            surroundings=Surroundings(function, reference=reference),
            parameters=FunctionParameters(lambda: function.__get__(reference()), marks_of(function)),
        )

    def __getattr__(self, name: str) -> Any:
        owner = self.__dict__.get("_owner")
        if owner is None or name.startswith("__"):
            raise AttributeError(f"a traced function has no attribute {name!r}")
        return getattr(owner, name)

    def __repr__(self) -> str:
        stages = "" if self._last is None else f", {len(self._last.trace.graph.stages)} stages"
        return (
            f"<traced {self.__name__}: {len(self._cache.entries)} keys, {self.hits} hits, {self.misses} misses{stages}>"
        )


def _parameters_of(function: Callable[..., Any], owner: Any) -> FunctionParameters:
    """The parameters of calls: those of the function, or of its module's forward."""

    def described() -> Any:
        return function if owner is None else getattr(owner, "forward", owner)

    return FunctionParameters(described, marks_of(described()))


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
            program. A mapping such as `{"x": [0]}`: these dims. False: none, every size is recorded. Unless it is
            False, a float outside of the function that is another one again and again becomes an input, too.

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
    if isinstance(function, TracedFunction):
        return function
    if isinstance(function, Network):
        return TracedFunction(function, function, **options)
    if isinstance(function, type) and issubclass(function, Network):
        function.forward = TracedFunction(function.forward, **options)
        return function
    if not callable(function):
        raise CallError(f"jit.trace takes a function or a Module, not {type(function).__name__}")
    return TracedFunction(function, **options)


def _record_examples(traced: TracedFunction, function: Any, inputs: tuple[Any, ...], check: bool) -> None:
    """Record with examples, and leave everything else as it was."""
    from .surroundings.snapshots import preserved

    def observed(what: Any, shaken: bool = False) -> list[Any]:
        with preserved(traced._function, traced._owner, inputs):
            if shaken:
                shaken_in_place(inputs)
            return [seen(what(*inputs), inputs) for _ in range(2 if check else 1)]

    replayed = observed(traced)
    if check:
        what = f"{traced.__name__}: traced and untraced results differ"
        compare_results(observed(function), replayed, what, functools.partial(observed, function, shaken=True))


__all__ = ["Entry", "Key", "TracedCall", "TracedFunction", "_Promoted", "trace"]
