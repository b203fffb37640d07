"""A view that is looked at in call after call: once that pays, native code asks whether it still holds.

Note [Native looks]
    A call on the long way asks every place of the view whether it is as it was, some 200 ns each: a network with a
    thousand places takes longer than many a call. So when a view has held for some calls, the tables of a shortcut are
    made for it alone: an entry without arguments and without a program (jit.runtime.plans.entry), which returns None if
    anything differs from what they say. They are stricter than the view, so then the view is asked itself; if it holds
    all the same, native code is not asked any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jit.eager.tensors import Tensor
from jit.runtime.plans import entry

from .moved_tuples import follow_tuples
from .native_checks import native_checks
from .native_tensors import input_of
from .observations import Observations
from .properties import look_of
from .views import View

LOOKS = 16
"""The number of looks at one view from which on native code asks: making its tables takes as long as some 20 looks."""


class RepeatedLook:
    """The looks at one view.

    Args:
        view: What was seen.
    """

    __slots__ = ("_native", "_times", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self._times = 0
        """The looks at which the view held, as Python says."""
        self._native: Callable[[], Any] | None = None

    def holds(self) -> bool:
        """Whether everything is as it was seen."""
        native = self._native
        if native is not None:
            if native() is not None:
                return True
            self._native = None
        if self.view.has_changed() and (not follow_tuples(self.view) or self.view.has_changed()):
            return False
        self._times += 1
        if self._times == LOOKS:
            self._native = native_look(self.view)
        return True


def native_look(view: Observations) -> Callable[[], Any] | None:
    """A native function that returns None if anything may differ from what was seen; None if there is none here."""
    if not entry.available():
        return None
    inputs = [given for tensor, kind in view.types if (given := _compared(tensor, kind)) is not None]
    tables = entry.Tables(
        inputs, (), np.zeros(1, np.int64), 0, 0, (), _cannot_fail, release=False, arguments=0, reads=0
    )
    native_checks(view, {id(given.object) for given in inputs}).fill(tables)
    return entry.make_entry(tables)


def _compared(tensor: Tensor, kind: Any) -> entry.EntryInput | None:
    """The facts of a tensor for native code; None if they are not all that `look_of` says."""
    if look_of(tensor) != kind or tensor._viewed is not None or vars(tensor):
        return None
    given = input_of(tensor)
    if given is None or 1 in given.shape:  # the stride of a dim of size 1 is not compared
        return None
    given.object, given.base = tensor, -1
    return given


def _cannot_fail(status: int) -> Any:
    raise AssertionError("a look runs no steps")
