"""Recording a call of a traced function, and keeping what was recorded, or saying why not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jit.eager import context
from jit.ir.errors import TraceError

from .budget import Budget
from .cache import RecordingCache
from .explanation import Explanation
from .first_runs import FirstRuns
from .promotion import promote_counters
from .recorder.anew import RecordedRun
from .recordings.drafting import distinct, ledger
from .recordings.kept_leaves import connect
from .recordings.recording import Optimise, Recording
from .recordings.sized_numbers import sized
from .recordings.stage_recording import Live
from .surroundings.calls import Entry, TracedCall
from .surroundings.surroundings import Surroundings, World


@dataclass(eq=False)
class RecordedCall:
    """A call that was recorded, which is yet to be kept."""

    call: TracedCall
    before: World
    """The world of the call before it ran."""
    run: RecordedRun
    recording: Recording
    """The recording of this call, which its results belong to."""
    kept: Recording
    """The recording that later calls run: another one where that serves more of them."""
    live: Live
    """The results of the function, with their eager history."""


class CallRecorder:
    """Records calls of one function.

    Args:
        runs: Runs the function.
        surroundings: All that the function reads besides its arguments.
        cache: Keeps the recordings.
        explanation: Is told why a recording is not kept, and which sizes it serves.
        optimise: Improves the graphs of recordings before they run.
        budget: Is told what is recorded, and what of it is not kept.
    """

    def __init__(
        self,
        runs: FirstRuns,
        surroundings: Surroundings,
        cache: RecordingCache,
        explanation: Explanation,
        optimise: Optimise,
        budget: Budget,
    ) -> None:
        self._runs = runs
        self._surroundings = surroundings
        self._cache = cache
        self._explanation = explanation
        self._optimise = optimise
        self._budget = budget
        self._lock = threading.Lock()

    def record(
        self,
        call: TracedCall,
        where: Callable[[], str],
        keep_examples: bool = False,
        open_sizes: bool = False,
        items_vary: bool = False,
    ) -> RecordedCall:
        """Run the function, and record what it does.

        Args:
            call: Its world becomes that of the run.
            where: Says where the function is defined, for errors.
            keep_examples: Whether the recording keeps copies of the arguments.
            open_sizes: Whether sizes that depend on elements may be left open.
            items_vary: Whether elements that the function reads as numbers had other values in an earlier call.
        """
        examples = [call.leaves[i]._array.copy() for i in distinct(call.leaves)] if keep_examples else []
        before = call.world
        run = self._runs.run(call, where, open_sizes, items_vary)
        recording, live = self._closed(run)
        recording.examples = examples
        recording.calls_python = any(node.kind.startswith("^") for node in run.draft.trace.graph.nodes)
        recording.read = ledger(recording, run.world, call.structures, call.names)
        with self._lock:
            self._budget.made += 1
        return RecordedCall(call, before, run, recording, sized(recording), live)

    def _closed(self, run: RecordedRun) -> tuple[Recording, Live]:
        """The recording of a run, which ends here; the error in which the run has ended is raised."""
        trace = run.draft.trace
        try:
            self._raise_error(run)
            with context.tracing(trace):
                return run.draft.close(run.result, self._optimise)
        finally:
            trace.errors.forget()

    def _raise_error(self, run: RecordedRun) -> None:
        """Raise the error in which a run has ended; if it is the function's own, the recording is paid for."""
        try:
            run.raise_error()
        except TraceError:
            raise
        except Exception:
            self._budget.failed += 1
            raise

    def keep(self, made: RecordedCall, entry: Entry) -> Any:
        """Keep a recording if later calls can repeat it.

        Args:
            made: The call and its recording.
            entry: Takes the recording if the call has read nothing new.

        Returns:
            The result of the call.

        Raises:
            TraceError: The function does what a recording cannot repeat, or its sizes do not vary, where that was
                asked for.
        """
        draft = made.run.draft
        if draft.trace.gradients.hooks:  # which run in a backward that comes later
            made.run.world.see_everything()
        effect = draft.effect() or self._cache.grow(entry, made.call, made.before, made.kept)
        if effect is None:
            self._compare_sizes(made)
        else:
            self._let_go(made, entry, effect)
        result = draft.finish(made.recording, made.live)
        made.kept.conditions = made.recording.conditions
        return result

    def _compare_sizes(self, made: RecordedCall) -> None:
        """Let one recording serve many sizes if that of another size is the same program."""
        sizes = self._cache.sizes
        if sizes.may_vary(made.call, made.kept):
            with self._cache.lock:
                sizes.compare(made.call, made.kept, self._explanation, made.run.draft.where)

    def _let_go(self, made: RecordedCall, entry: Entry, effect: str) -> None:
        """Do not keep a recording, because of what the call did; what it leaves behind is as in eager mode."""
        draft = made.run.draft
        if effect.startswith("changed "):  # the next call will hardly do so, but it will run the same code
            self._cache.grow(entry, made.call, made.before, None)
        if draft.counters:
            promote_counters(draft.counters, made.call, self._surroundings)
        draft.needs_eager_history = True  # hooks and the like may have kept tensors between arguments and results
        connect(draft.edges)
        self._note_effect(effect, entry, draft.where)
        draft.trace.note_impure(effect)
        draft.give_back()

    def _note_effect(self, effect: str, entry: Entry, where: Callable[[], str]) -> None:
        """Count and explain a call that is not kept; a TraceError if tracing is strict."""
        if self._runs.strict:
            raise TraceError(f"{where()}: the call {effect}, which a recording cannot repeat; do it outside")
        with self._lock:
            entry.lost += 1
            self._budget.lose(effect)
        self._explanation.not_kept(effect)
