"""Recording a call of a traced function, and keeping what was recorded, or saying why not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jit.eager import context
from jit.ir.errors import TraceError

from .cache import RecordingCache
from .explanation import Explanation
from .first_runs import FirstRuns
from .recorder.anew import RecordedRun
from .recordings.chains import BRANCHES
from .recordings.drafting import distinct, ledger
from .recordings.kept_leaves import connect, keeps_leaves
from .recordings.recording import Optimise, Recording
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
    live: Live
    """The results of the function, with their eager history."""


class CallRecorder:
    """Records calls of one function, and counts them.

    Args:
        runs: Runs the function.
        surroundings: All that the function reads besides its arguments.
        cache: Keeps the recordings.
        explanation: Is told why a recording is not kept, and which sizes it serves.
        optimise: Improves the graphs of recordings before they run.
    """

    def __init__(
        self,
        runs: FirstRuns,
        surroundings: Surroundings,
        cache: RecordingCache,
        explanation: Explanation,
        optimise: Optimise,
    ) -> None:
        self.misses = 0
        """Calls that were recorded."""
        self._effects = 0
        """Calls that were not kept, as they have changed or asked something that a recording cannot repeat."""
        self._runs = runs
        self._surroundings = surroundings
        self._cache = cache
        self._explanation = explanation
        self._optimise = optimise
        self._lock = threading.Lock()

    @property
    def has_given_up(self) -> bool:
        """Whether so many calls could not be kept that calls of further keys are not recorded."""
        return self._effects >= BRANCHES

    def record(
        self, call: TracedCall, where: Callable[[], str], keep_examples: bool = False, open_sizes: bool = False
    ) -> RecordedCall:
        """Run the function, and record what it does.

        Args:
            call: Its world becomes that of the run.
            where: Says where the function is defined, for errors.
            keep_examples: Whether the recording keeps copies of the arguments.
            open_sizes: Whether sizes that depend on elements may be left open.
        """
        examples = [call.leaves[i]._array.copy() for i in distinct(call.leaves)] if keep_examples else []
        before = call.world
        run = self._runs.run(call, where, open_sizes)
        recording, live = self._closed(run)
        recording.examples = examples
        recording.calls_python = any(node.kind.startswith("^") for node in run.draft.trace.graph.nodes)
        recording.read = ledger(recording, run.world, call.structures, call.names)
        with self._lock:
            self.misses += 1
        return RecordedCall(call, before, run, recording, live)

    def _closed(self, run: RecordedRun) -> tuple[Recording, Live]:
        """The recording of a run, which ends here; the error in which the run has ended is raised."""
        trace = run.draft.trace
        try:
            run.raise_error()
            with context.tracing(trace):
                return run.draft.close(run.result, self._optimise)
        finally:
            trace.errors.forget()

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
        effect = draft.effect() or self._cache.grow(entry, made.call, made.before, made.recording)
        if effect is None:
            self._compare_sizes(made)
        else:
            self._let_go(made, entry, effect)
        return draft.finish(made.recording, made.live)

    def _compare_sizes(self, made: RecordedCall) -> None:
        """Let one recording serve many sizes if that of another size is the same program."""
        sizes = self._cache.sizes
        if sizes.may_vary(made.call, made.recording):
            with self._cache.lock:
                sizes.compare(made.call, made.recording, self._explanation, made.run.draft.where)

    def _let_go(self, made: RecordedCall, entry: Entry, effect: str) -> None:
        """Do not keep a recording, because of what the call did; what it leaves behind is as in eager mode."""
        draft = made.run.draft
        if effect.startswith("changed "):  # the next call will hardly do so, but it will run the same code
            self._cache.grow(entry, made.call, made.before, None)
        draft.needs_eager_history |= keeps_leaves(
            draft.trace, made.live.outputs, lambda: self._surroundings.reach().tensors
        )
        connect(draft.edges)
        self._note_effect(effect, draft.where)
        draft.trace.note_impure(effect)
        draft.give_back()

    def _note_effect(self, effect: str, where: Callable[[], str]) -> None:
        """Count and explain a call that is not kept; a TraceError if tracing is strict."""
        if self._runs.strict:
            raise TraceError(f"{where()}: the call {effect}, which a recording cannot repeat; do it outside")
        with self._lock:
            self._effects += 1
        self._explanation.not_kept(effect)
