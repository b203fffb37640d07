"""Results of Python functions during one call, so that none of them runs twice when the call starts again.

Note [Once]
    A recording runs up to a guard that fails; then another one runs from the start, or the function itself does. An
    `autograd.Function` may count, print or send something, so what it has returned already is given back the second
    time: up to the guard both programs are the same, hence they call the same functions in the same order, with equal
    arguments. What other processes have sent is recalled as well, see Note [Exchanges happen once] in
    `jit.runtime.processes.exchanges`. Random draws need no such care, since a generator advances after the last guard.
    The same holds for a backward that is not recorded yet: it replays the forward, but not its functions. A function
    that writes to its arguments is called again, and so is the backward of one after a failed guard in a backward.
"""

from __future__ import annotations

import contextlib
import copy
import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.autograd.custom import FunctionNode
from jit.autograd.nodes import SavedTensor
from jit.eager.tensors import Tensor, tensor_of
from jit.runtime.processes.exchanges import Exchanges, current_exchanges, exchanging


@dataclass(slots=True)
class RecalledCall:
    """One call of a function."""

    function: Any
    inputs: list[Any]
    """The arrays among its arguments."""
    outputs: list[Any]
    """The arrays that it returned."""
    kind: Any
    """The class of its result: a tuple, a list, or a tensor."""
    history: Any
    """The autograd node of the results, or None."""
    carrying: list[bool]
    """Whether each output has that history."""
    error: Exception | None = None
    """The exception that it raised instead."""
    exchanges: int = 0
    """The number of exchanges with other processes that it has made."""

    def had(self, tensors: Sequence[Any]) -> bool:
        """Whether it was called with arrays like these."""
        pairs = zip(self.inputs, [t._array for t in tensors])
        same = (a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)
        return len(self.inputs) == len(tensors) and all(same)


class Recollection:
    """The calls of Python functions in one call of a traced one, and how far a second run has got."""

    def __init__(self, made: Sequence[RecalledCall] = (), exchanges: Exchanges | None = None) -> None:
        self.made = list(made)
        self.at = 0
        self.exchanges = exchanges or Exchanges(outer=current_exchanges())
        """The results that the call has got from other processes."""
        self.raised: Exception | None = None
        """The exception of the last function that was called."""
        self.is_doubtful = False
        """Whether an operator has raised: a recording may have called functions that come behind it."""

    def recall(self, function: Any, tensors: Sequence[Any], tracked: bool) -> RecalledCall | None:
        """The results of `function`, if it is the next that was called and its history is (not) wanted as then."""
        if self.at < len(self.made):
            known = self.made[self.at]
            fits = known.function is function and (known.error is not None or (known.history is not None) == tracked)
            if fits and (not self.is_doubtful or known.had(tensors)):
                self.at += 1
                return known
            del self.made[self.at :]
        return None

    def note(self, function: Any, tensors: Sequence[Any], result: Any, history: Any, exchanges: int) -> None:
        """Note a call of `function`; one that returns an argument is not recalled, since it has to write again.

        Args:
            function: The function.
            tensors: The tensors among its arguments.
            result: What it returned.
            history: The autograd node of that.
            exchanges: The number of exchanges that it has made.
        """
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if any(o is t for o in outputs for t in tensors):
            function = None
        carrying = [history is not None and o.grad_fn is history for o in outputs]
        arrays = [o._array for o in outputs]
        inputs = [t._array for t in tensors]
        known = RecalledCall(function, inputs, arrays, type(result), history, carrying, exchanges=exchanges)
        self.made.append(known)
        self.at = len(self.made)

    def note_error(self, function: Any, tensors: Sequence[Any], error: Exception, exchanges: int) -> None:
        """Note a call of `function` that has raised.

        Args:
            function: The function.
            tensors: The tensors among its arguments.
            error: What it raised.
            exchanges: The number of exchanges that it has made.
        """
        inputs = [t._array for t in tensors]
        self.made.append(RecalledCall(function, inputs, [], None, None, [], error, exchanges))
        self.at = len(self.made)
        self.raised = error

    def followed_by(self, exchanges: Exchanges | None) -> Recollection:
        """The same calls, with further exchanges behind their own."""
        further = [] if exchanges is None else exchanges.made
        return Recollection(self.made, Exchanges([*self.exchanges.made, *further], self.exchanges.outer))

    def rewind(self) -> None:
        """Start again, to recall what was called before."""
        self.at = self.exchanges.at = 0

    def forget(self) -> None:
        """Let go of the calls: the frames of an error hold them, and they would hold the error."""
        self.made.clear()
        self.raised = None

    def again(self, outer: Exchanges | None = None) -> Recollection:
        """The same calls, to be recalled from the start.

        Args:
            outer: The exchanges of the call around the new run; as here unless given.
        """
        calls = Recollection(self.made, self.exchanges.again(outer))
        calls.is_doubtful = self.is_doubtful
        return calls


_RECOLLECTION: ContextVar[Recollection | None] = ContextVar("recollection", default=None)


def recollection() -> Recollection | None:
    """The recollection of the call under way, if it has one."""
    return _RECOLLECTION.get()


@contextlib.contextmanager
def recalling(calls: Recollection | None) -> Iterator[None]:
    """Recall calls of functions and exchanges, within this block, instead of making them once more.

    With None, functions are called, and exchanges stand where they did.
    """
    token = _RECOLLECTION.set(calls)
    try:
        with exchanging(current_exchanges() if calls is None else calls.exchanges):
            yield
    except BaseException:
        if calls is not None:
            calls.forget()
        raise
    finally:
        _RECOLLECTION.reset(token)


def run_once(function: Any, args: Sequence[Any], tensors: Sequence[Any], tracked: bool) -> tuple[Any, Any]:
    """`function._run(args)`, or what it gave when it ran before: the result and its history."""
    calls, exchanges = recollection(), current_exchanges() or Exchanges()
    known = None if calls is None else calls.recall(function, tensors, tracked)
    if known is not None:
        exchanges.at += known.exchanges
    if known is not None and known.error is not None:
        try:
            raise known.error
        finally:
            del known  # which holds the error, whose traceback holds this frame
    if known is not None:
        return _made_again(known, args, tensors)
    before = exchanges.at
    try:
        with recalling(None):
            result, history = function._run(args)
    except Exception as error:
        if calls is not None:
            calls.note_error(function, tensors, error, exchanges.at - before)
        raise
    if calls is not None:
        calls.note(function, tensors, result, history, exchanges.at - before)
    return result, history


def _made_again(known: RecalledCall, args: Sequence[Any], tensors: Sequence[Any]) -> tuple[Any, Any]:
    """The result of an earlier call as new tensors, with a history that leads to the arguments of this one."""
    outputs = [tensor_of(np.array(array, order="K")) for array in known.outputs]
    history = None
    if known.history is not None:
        context = copy.copy(known.history.ctx)
        history = FunctionNode(known.function, context, args, outputs)
        context._node = weakref.ref(history)
        for index, output in enumerate(outputs):
            if known.carrying[index]:
                output._promote()
                output.set_history(history, index)  # type: ignore[attr-defined]
        if context._saved is not None:
            context._saved = [_saved_again(item, known, tensors, outputs) for item in context._saved]
    many = known.kind in (tuple, list)
    return (known.kind(outputs) if many else outputs[0]), history


def _saved_again(item: Any, known: RecalledCall, tensors: Sequence[Any], outputs: Sequence[Tensor]) -> Any:
    if not isinstance(item, SavedTensor):
        return item
    for array, tensor in zip((*known.inputs, *known.outputs), (*tensors, *outputs), strict=True):
        if item._array is array:
            return SavedTensor(tensor, item.what, item._index)
    return item
