"""The run of a function that is recorded: on stand-ins, watched, and done anew where traced numbers led it astray."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jit.eager import context

from .parameters import FunctionParameters
from .recorder.anew import Abandoned, Notes, RecordedRun, Suspicions
from .recorder.exact_types import asks_exact_types, note_exact_types, tells_bools
from .recorder.tracer import Trace
from .recordings.drafting import Draft
from .surroundings.calls import TracedCall
from .surroundings.facts import GenerationOf
from .surroundings.impurity import watching
from .surroundings.origins import is_foreign
from .surroundings.promoting import replaced
from .surroundings.surroundings import GrowingWorld


@dataclass(eq=False)
class FirstRuns:
    """Runs one function under recorders, and remembers which kind of numbers it takes."""

    function: Callable[..., Any]
    forward: Any
    """The traced `forward` of its module, if it belongs to one."""
    parameters: FunctionParameters
    strict: bool
    """Whether it is an error where Python decides on a traced value."""
    _asks: bool | None = None
    """Whether the function asks numbers for their exact type, or code that it has called so far does."""
    _bools: bool = False
    """The same for what `is True`."""
    _suspicions: Suspicions = field(default_factory=Suspicions)

    def run(
        self, call: TracedCall, where: Callable[[], str], open_sizes: bool, items_vary: bool = False
    ) -> RecordedRun:
        """Run the function under a recorder, as eager mode would have it.

        Args:
            call: Its world becomes that of the run.
            where: Says where the function is defined, for errors.
            open_sizes: Whether sizes that depend on elements may be left open.
            items_vary: Whether elements that the function reads as numbers had other values in an earlier call.
        """
        before = call.world
        if self._asks is None:
            self._asks = asks_exact_types([self.function, self.forward])
            self._bools = tells_bools([self.function, self.forward])

        def once(plain: bool) -> RecordedRun:
            call.world = world = GrowingWorld(before)
            trace = Trace(
                world.locate, strict=self.strict, open_sizes=open_sizes, plain_numbers=plain, items_vary=items_vary
            )
            trace.scalars.plain_bools = self._bools
            run = RecordedRun(Draft(trace, call, where), world, Notes(trace), plain)
            self._run(run, call)
            return run

        run, self._asks = self._suspicions.settled(once, self._asks)
        self._bools |= run.draft.trace.scalars.plain_bools
        return run

    def _run(self, run: RecordedRun, call: TracedCall) -> None:
        world, draft = run.world, run.draft
        world.watch_random()
        with (
            run.noted(),
            context.recording(draft.trace),
            replaced(world.numbers, draft.numbers),
            draft.moved_on_error(),
        ):
            run.result = self._watched(run, *self.parameters.arguments(call.names, draft.values))

    def _watched(self, run: RecordedRun, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run the function, and look at what its code can read before that runs."""
        world, trace = run.world, run.draft.trace

        def tell(code: types.CodeType, space: dict[str, Any]) -> None:
            keeper = note_exact_types(trace, code, space)
            if keeper is not None:
                GenerationOf.excuse(keeper)
                if run.can_be_repeated():
                    raise Abandoned

        world.tell = tell
        try:
            with watching(trace.impurity, is_foreign, world.note_code) as sees:
                if not sees:
                    world.see_everything()
                return self.function(*args, **kwargs)
        finally:
            world.tell = None  # or the run would hold itself, and the arguments of the call
