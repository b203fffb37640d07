"""Runs a function anew, with plain numbers, where code in C did not accept traced ones.

Note [Run anew]
    Code in C that takes an `int` or a `float` and nothing else raises when it gets a traced number, or asks for its
    type and goes another way; which code does is not known beforehand. So three kinds of runs are in doubt: one that
    ends in an error which no `raise` of the user's has raised; one in which a function in C has raised an error that
    was caught; and one in which code that asks for exact types began when numbers had been handed out already. What
    such a run has written to memory, gradients and generators is put back, and the function runs once more with plain
    numbers, each of them guarded. If that fails in the same places, traced numbers were not to blame, and these places
    are not suspected again.

    A run that has changed anything else - a list, a file, an attribute - cannot be repeated: its error says so and
    names the way out, and the next call hands out plain numbers from its start. What is printed is printed twice.
"""

from __future__ import annotations

import contextlib
import dis
import traceback
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jit.eager import context
from jit.eager.effects import NOTES, Effects
from jit.eager.generators import Generator
from jit.eager.tensors import Storage, Tensor
from jit.ir.errors import Error

from ..recordings.recalling import recalling, recollection
from ..surroundings.origins import is_foreign
from ..surroundings.snapshots import Undo, undoing_tensor
from ..surroundings.surroundings import GrowingWorld
from .plain_numbers import explained

if TYPE_CHECKING:
    from ..recordings.drafting import Draft
    from .tracer import Trace

Place = tuple[types.CodeType, int]
"""Code, and the instruction in it."""
_HARMLESS_DEEDS = ("reads the clock", "asks ", "looks at", "makes text", "catches ")
"""Deeds that may be done twice."""


class Notes(Effects):
    """Notes of the tensors outside that a recorded function writes to, and of their elements before."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace
        self._mode = context.GRAD_ENABLED.get()
        self._region = context.AUTOCAST.get()
        self._undo: dict[int, list[Undo]] = {}
        """The ways back from changes of tensors' metadata, by identity of the tensors."""
        self._versions: dict[Storage, tuple[int, Any]] = {}

    def note_write(self, tensor: Tensor) -> None:
        """Note that `tensor` will be written to, unless the function itself has made it."""
        binding = self._trace.memory.binding(tensor)
        if binding is not None and binding.cell.source is None:
            if self.outer is not None:
                self.outer.note_write(tensor)
            return
        super().note_write(tensor)
        self._versions.setdefault(tensor._storage, (tensor._storage.version, tensor._storage.writer))
        if id(tensor) not in self._undo:
            self._undo[id(tensor)] = list(undoing_tensor(tensor))

    def undo(self) -> None:
        """Put everything back."""
        for region in reversed(list(self.regions.values())):
            region.array[...] = region.before
        for storage, (version, writer) in self._versions.items():
            storage.version, storage.writer = version, writer
        for undo in (undo for each in self._undo.values() for undo in each):
            undo()
        for slot in self._trace.gradients.slots.values():
            slot.holder._grad = slot.initial
        for generator, state in self.drawn.items():
            _set_state(generator, state)
        context.GRAD_ENABLED.set(self._mode)
        context.AUTOCAST.set(self._region)


def _set_state(generator: Generator, state: Any) -> None:
    generator.state = state


class Abandoned(BaseException):
    """The end of a run before a function whose result is kept gets a traced number; the function runs anew."""


@dataclass
class RecordedRun:
    """One run of a function under a recorder."""

    draft: Draft
    world: GrowingWorld
    notes: Notes
    plain: bool
    """Whether the function gets plain numbers."""
    result: Any = None
    error: Exception | Abandoned | None = None

    def is_doubtful(self, known: Collection[Place]) -> bool:
        """Whether traced numbers may have led it astray; `known` are failures that have nothing to do with them."""
        trace = self.draft.trace
        if not trace.scalars.handed_out or isinstance(self.error, Error):
            return False
        if self.error is not None:
            return trace.scalars.asked_late or not _is_raised_by_user(self.error)
        return trace.scalars.asked_late or any(place not in known for place in trace.impurity.failures)

    def can_be_repeated(self) -> bool:
        """Whether all that it has changed can be put back."""
        trace = self.draft.trace
        done = [deed for deed in trace.impurity.deeds if not deed.startswith(_HARMLESS_DEEDS)]
        return not (done or trace.gradients.hooks or trace.identities.reshaped or self.world.effect())

    def ends_like(self, other: RecordedRun) -> bool:
        """Whether another run has come to the same end in the same way, errors caught on the way included."""
        same = type(self.error) is type(other.error) and str(self.error) == str(other.error)
        return same and self.draft.trace.impurity.failures == other.draft.trace.impurity.failures

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Take notes within this block, and keep what is raised."""
        token = NOTES.set(self.notes)
        try:
            yield
        except (Exception, Abandoned) as error:
            self.error = error
        finally:
            NOTES.reset(token)

    def raise_error(self) -> None:
        """Raise what it ended in, if it did: with the way out, if traced numbers are to blame."""
        error, self.error = self.error, None
        try:
            if error is not None:
                with contextlib.nullcontext() if self.plain else explained(self.draft.trace):
                    raise error
        finally:
            del error  # which holds this frame


def _is_raised_by_user(error: BaseException) -> bool:
    """Whether a `raise` in code that is neither ours nor Python's has raised it."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames or is_foreign(frames[-1][0].f_code.co_filename):
        return False
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    assert step is not None
    return dis.opname[step.tb_frame.f_code.co_code[step.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


class Suspicions:
    """Knowledge of a traced function about places where code in C fails, whatever kind of numbers it gets."""

    def __init__(self) -> None:
        self.innocent: set[Place] = set()
        """Places where functions in C raise whatever kind of numbers they get."""

    def settled(self, run: Callable[[bool], RecordedRun], plain: bool) -> tuple[RecordedRun, bool]:
        """A run that is as eager mode would have it, and whether functions are to get plain numbers from now on.

        Args:
            run: Runs the function, with plain numbers or traced ones.
            plain: Whether it gets plain numbers at first.
        """
        first = run(plain)
        if plain or not first.is_doubtful(self.innocent):
            return first, first.draft.trace.scalars.plain
        if not first.can_be_repeated():
            if first.draft.trace.scalars.asked_late:
                first.draft.trace.note_impure("asks a number for its exact type")
            return first, True
        first.notes.undo()
        first.draft.trace.errors.forget()
        with recalling(calls.again() if (calls := recollection()) is not None else None):
            second = run(True)
        if first.ends_like(second) and not first.draft.trace.scalars.asked_late:
            self.innocent.update(first.draft.trace.impurity.failures)
            return second, False
        return second, True


__all__ = ["Abandoned", "Notes", "RecordedRun", "Suspicions"]
