"""The call of a traced function: it is answered from a recording, else recorded; see docs/tracing.md.

A call goes through `TracedFunction` from top to bottom until it has its result:

    __call__        the shortcuts that earlier calls have left are tried: native code, without Python (shortcuts/)
    _long_way       the call is taken apart and reduced to its `Key` (taking_apart.py), which has an `Entry` (cache.py):
                    a `Recording` for each path that the guards have taken, or one for many sizes (sizes.py)
    _run            the recordings of the entry are tried, and the one that ran leaves a shortcut (answers.py)
    _record         the function runs, is recorded, and the recording is kept (call_recorder.py)
    _run_untraced   the function runs as it is: it has too many keys or paths, or does what no recording can repeat
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jit.eager import context
from jit.eager.pytree import ObjectError, too_deep
from jit.eager.tensors import Tensor
from jit.ir import Graph
from jit.ir.errors import Error, TraceError, UsageError
from jit.late import Provided

from .answers import Answers
from .bound_methods import BoundMethods
from .budget import Budget
from .cache import KEYS, Outgrown, RecordingCache
from .call_recorder import CallRecorder
from .complaint import OFTEN, complaint
from .explanation import Explanation
from .first_runs import FirstRuns
from .frequent_numbers import FrequentNumbers
from .parameters import FunctionParameters
from .patience import patience
from .promotion import bake_in_decided, bake_in_immovable, bake_in_pinned, promote_named, promote_varying
from .recorder.decisions import needs_items
from .recorder.records import ConstantsLedger
from .recordings.chains import BRANCHES
from .recordings.compiling import optimise, titled_graphs, unoptimised
from .recordings.recalling import Recollection, recalling, recollection
from .recordings.recording import Recording
from .recordings.shapes import Dims
from .shortcuts.shortcuts import NOTHING
from .sizes import SizeFamilies
from .surroundings.calls import Entry, Key, TracedCall
from .surroundings.snapshots import taken_back
from .surroundings.surroundings import Surroundings, Watched
from .taking_apart import take_apart


class TracedFunction(Watched):
    """A function with its recordings; made by `jit.trace`."""

    has_code = True
    """Whether there is a Python function, of which calls can be recorded."""

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
        self._parameters = parameters or FunctionParameters.of(function, owner)
        self._explanation = Explanation()
        self._cache = RecordingCache(self._surroundings, SizeFamilies(dynamic))
        self._answers = Answers(self._cache, self._explanation)
        self._shortcuts = self._answers.shortcuts
        self._open = self._shortcuts.open
        """The shortcuts that a call tries first, one look-up away: `__getattr__` makes each look-up on `self` slow."""
        runs = FirstRuns(function, getattr(type(owner), "forward", None), self._parameters, strict)
        self._budget = Budget(lambda: self._answers.hits, strict, lambda: self._answers.looked_up)
        self._recorder = CallRecorder(
            runs, self._surroundings, self._cache, self._explanation, self._optimise, self._budget
        )
        make = functools.partial(TracedFunction, optimize=optimize, strict=strict, dynamic=dynamic)
        self._methods = BoundMethods(function, make)
        self._frequent = FrequentNumbers()
        self._last: Recording | None = None
        self._items_vary = False
        """Whether a recording has needed an element as a number: the next one will meet another."""
        self._has_warned = self._has_complained = False
        self.keep_examples = False
        """Whether recordings keep copies of the arrays that they were made with."""
        self.takes_back = False
        """Whether a call that cannot be traced leaves nothing behind, so that the function can run as it is."""
        self.open_sizes = False
        """Whether recordings are for looking at, and may leave open what sizes depend on elements."""

    def watched(self) -> list[tuple[str, Any]]:
        """The surroundings that it reads itself, for functions that call this one."""
        return [("", self._function)] if self._owner is None else [("", self._owner)]

    @property
    def enabled(self) -> bool:
        """Whether calls run recordings; False makes the function transparent, so that they run eagerly."""
        return self._shortcuts.is_open

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._shortcuts.is_open = value

    @property
    def optimizes(self) -> bool:
        """Whether recordings are improved by the passes before they run."""
        return self._optimise is not unoptimised

    @property
    def hits(self) -> int:
        """Calls that ran a recording."""
        return self._answers.hits

    @property
    def misses(self) -> int:
        """Calls that recorded."""
        return self._budget.made

    # -- calling -------------------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            for short, recording in self._open:
                try:
                    result = short(*args)
                except Exception:  # which the function may catch: the long way finds out
                    break
                if result is not None:
                    self._last = recording
                    return None if result is NOTHING else result
        return self._long_way(args, kwargs)

    def _long_way(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        while True:
            try:
                return self._answer_or_record(args, kwargs)
            except Outgrown:
                continue

    def _answer_or_record(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if context.TRACE.get() is not None or not self.enabled or context.SAVING.get() is not None:
            return self._function(*args, **kwargs)  # hooks on what is saved see what eager mode saves
        if self._budget.resting > 0:
            return self._run_unseen(args, kwargs)
        began = time.perf_counter()
        call = self._taken_apart(args, kwargs)
        call.began = began
        if call.promoted and self._dynamic is None and self._frequent.include(call):
            call = self._taken_apart(args, kwargs, promotes=False)
            call.began = began
        entry = self._cache.get(call.key)
        general = self._general_entry(call) if entry is None or self._cache.sizes.counts_are_open else None
        if entry is None and general is None and self._promote_varying(call):
            return self._long_way(args, kwargs)
        recordings = [recording for each in (entry, general) if each is not None for recording in each.recordings]
        if context.ANOMALY.get() is not None and any(recording.trace.tape.backwards for recording in recordings):
            return self._function(*args, **kwargs)  # eager mode says where the NaN of a backward inside comes from
        if not any(recording.is_recalled for recording in recordings):
            return self._answer(call, entry, general)
        with recalling(Recollection()):
            return self._answer(call, entry, general)

    def _taken_apart(self, args: Sequence[Any], kwargs: dict[str, Any], **how: bool) -> TracedCall:
        """A call, taken apart; the errors of objects that do not let themselves be looked at are ours."""
        try:
            return self._prepare(args, kwargs, **how)
        except Error:
            raise
        except Exception as error:
            raise (too_deep() if isinstance(error, RecursionError) else ObjectError(error)) from error

    def _prepare(self, args: Sequence[Any], kwargs: dict[str, Any], **how: bool) -> TracedCall:
        return take_apart(self.__name__, self._parameters, self._surroundings, args, kwargs, **how)

    def _promote_varying(self, call: TracedCall) -> bool:
        """Make inputs of numbers that vary; whether there are any. See Note [Numbers that vary]."""
        keys = [*self._cache.entries]
        if self._dynamic is False or not keys or not promote_varying(call, keys, self._surroundings):
            return False
        self._explanation.promotes(call.key, keys, call.names)
        return True

    def _answer(self, call: TracedCall, entry: Entry | None, general: Entry | None) -> Any:
        """Run a recording for all sizes, else one for these, else record."""
        try:
            return self._answered(call, entry, general)
        finally:
            call.raised = None

    def _answered(self, call: TracedCall, entry: Entry | None, general: Entry | None) -> Any:
        if general is not None:
            found, result = self._run(general, call)
            if found:
                return result
        if entry is None and self._cache.sizes.waits(call.key):
            self._explain_untraced(call, "sizes are baked in, and these came for the first time")
            return self._run_alone(call.args, call.kwargs)
        entry = entry or self._entry(call)
        if entry is None:
            return self._run_untraced(call, self._budget.refuses())
        seen = len(entry.recordings)
        found, result = self._run(entry, call)
        return result if found else self._record(entry, call, seen)

    def _general_entry(self, call: TracedCall) -> Entry | None:
        """The recordings that serve many sizes, this call's among them; see jit.tracing.recordings.shapes."""
        return self._cache.sizes.entry(call.key)

    def _entry(self, call: TracedCall) -> Entry | None:
        """The recordings of a key; None if the function is to run untraced."""
        entry = self._cache.get(call.key)
        if entry is not None or self._budget.refuses() is not None:
            return entry
        return self._cache.entry(call.key, lambda: self._explain_key(call))

    def _run(self, entry: Entry, call: TracedCall) -> tuple[bool, Any]:
        """Run a recording of an entry; whether one serves the call, and its result."""
        recording, result = self._answers.answer(entry, call)
        if recording is None:
            return False, None
        self._last = recording
        return True, result

    def _record(self, entry: Entry, call: TracedCall, seen: int) -> Any:
        """Record the call, unless another thread has recorded one like it: `seen` recordings do not serve it."""
        with entry.lock:
            self._cache.check_generation(call)
            if bake_in_immovable(call, self._surroundings):
                raise Outgrown
            if len(entry.recordings) > seen:
                found, result = self._run(entry, call)
                if found:
                    return result
            why = self._budget.refuses(entry.lost)
            if len(entry.recordings) < BRANCHES and why is None:
                calls = recollection() or Recollection()
                with recalling(calls.again()):
                    return self._record_alone(entry, call)
        if len(entry.recordings) >= BRANCHES and bake_in_decided(call, entry, self._surroundings):
            self._cache.drop(call.key)
            return self._long_way(call.args, call.kwargs)
        return self._run_untraced(call, why)

    @patience()
    def _record_alone(self, entry: Entry, call: TracedCall) -> Any:
        vary = self._items_vary
        with self._taken_back(call) if self.takes_back else contextlib.nullcontext():
            made = self._recorder.record(call, self.where, self.keep_examples, self.open_sizes, items_vary=vary)
        self._items_vary = vary or needs_items(made.recording.trace)
        self._last = made.kept  # also if it is refused: `graph` shows what was recorded
        why = self._explanation.details
        result = self._recorder.keep(made, entry)
        if bake_in_pinned(call, entry, self._surroundings):
            self._cache.drop(call.key)
        if self.misses >= OFTEN and not self._has_complained:
            self._has_complained = True
            context.warn(complaint(self.__name__, self.where(), why, self._surroundings.promotions.baked_in))
        return result

    @contextlib.contextmanager
    def _taken_back(self, call: TracedCall) -> Iterator[None]:
        """A block that leaves nothing behind of a call that cannot be traced, or says what it leaves."""
        try:
            with taken_back(TraceError, self._function, self._owner, call.args, call.kwargs):
                yield
        except TraceError:
            left = call.world.effect()
            if left is not None:
                context.warn(
                    f"{self.__name__} cannot be traced, and runs anew as it is; but the call {left}, which has not "
                    "been put back. Do that outside of it"
                )
            raise

    def _run_untraced(self, call: TracedCall, why: str | None) -> Any:
        """Run the function as it is, because of `why` the budget refuses to record it, if it does."""
        has_given_up = self._budget.has_given_up
        if why is None or (self._cache.is_full and not has_given_up):
            full = f"it has been called in {KEYS} different ways"
            why = full if self._cache.is_full else f"it has taken {BRANCHES} different paths"
        if not self._has_warned:
            self._has_warned = True
            context.warn(
                f"{self.__name__} runs untraced from now on where it has no recording yet, because {why}; "
                f"{self._explanation}. Pass what varies as a tensor, or call clear_cache()"
            )
        if not has_given_up:  # else it has been said why calls are not kept
            self._explain_untraced(call, why)
        looked = time.perf_counter()
        result = self._run_alone(call.args, call.kwargs)
        self._budget.rest(looked - call.began, time.perf_counter() - looked)
        self._shortcuts.is_resting = self._budget.resting > 0 and self._budget.shortcuts_rest
        return result

    def _run_unseen(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the function without a look at the call, while the budget lets calls rest."""
        self._budget.resting -= 1
        if self._budget.resting <= 0:
            self._shortcuts.is_resting = False
        return self._run_alone(args, kwargs)

    def _run_alone(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self._budget.untraced += 1
        if (calls := recollection()) is None:
            return self._function(*args, **kwargs)
        calls.rewind()
        with recalling(None):
            return self._function(*args, **kwargs)

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

    def tensors_of(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """The tensors among the arguments of a call, in the order in which recordings count them."""
        return self._prepare(args, kwargs).leaves

    def _find(self, args: Any, kwargs: Any) -> Recording | None:
        call = self._prepare(args, kwargs)
        entry = self._cache.get(call.key) or self._general_entry(call)
        return entry.recordings[-1] if entry is not None and entry.recordings else None

    @property
    def graphs(self) -> list[Any]:
        """One titled graph per pass of the last recording's compilation."""
        return titled_graphs(self.graph)

    def constants(self) -> ConstantsLedger:
        """The ledger of what the last recording has baked in: arrays, and Python values that the function read.

        Each line has the name, the bytes, the user's line where it is known, the reason, and the value of numbers.
        `promote(name)` makes an input of a number.
        """
        last = self._last
        return ConstantsLedger([] if last is None else [*last.trace.constants, *last.read])

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
        promote_named(name, self.__name__, self._surroundings, self._parameters)
        self._budget.renew()

    def clear_cache(self) -> None:
        """Forget all recordings."""
        with self._cache.lock:
            self._cache.clear()
            self._answers.clear()
            self._budget.clear()
            self._last = None

    def where(self) -> str:
        """The line at which the function is defined, for errors that are about all of it."""
        function = self._function if self._owner is None else type(self._owner).forward
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None:
            return f"{self.__name__}()"
        return f"at {os.path.basename(code.co_filename)}:{code.co_firstlineno} in {code.co_name}"

    def explain(self) -> str:
        """Why the last recording was made, in a sentence, and what there is to say about how it runs."""
        return "; ".join((str(self._explanation), *(self._last.remarks if self._last is not None else ())))

    def _explain_untraced(self, call: TracedCall, why: str) -> None:
        self._explanation.untraced(why, call.key, [*self._cache.entries], call.names)

    def _explain_key(self, call: TracedCall) -> None:
        if self._cache.entries:
            self._explanation.other_key(call.key, [*self._cache.entries], call.names)
        else:
            self._explanation.first_call()

    # -- being a method or a module ------------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self._methods.of(instance)

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


for _name in ("save", "kernels", "profile", "why_not", "view", "_repr_html_", "__reduce__", "__deepcopy__"):
    setattr(TracedFunction, _name, Provided(_name))  # by `jit.inspection.inspected`

__all__ = ["Entry", "Key", "TracedCall", "TracedFunction"]
