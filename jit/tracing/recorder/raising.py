"""Errors of operators: that one has raised is a decision, which a recording takes again in every call.

Note [Errors are decisions] in docs/tracing.md says what is recorded. Besides, a trace is told of every `jit.Error` that
is made while it records (`jit.ir.errors.LISTENERS`); `caught_errors` draws the conclusions. One that has gone through
code of the user's, and has no `prim::raises`, came from a check in Python code: of sizes, of dtypes, or of anything
else. A recording that depends on such a check serves the sizes that it was made with, or is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jit.eager import context
from jit.ir import Op, errors
from jit.ir.attempts import KIND, name_in_place
from jit.ir.errors import AutogradError, DTypeError, Error, SchemaError, TraceError
from jit.ir.refusals import FOREIGN
from jit.ir.scalars import scalar_function
from jit.ir.types import BOOL

from .recording_trace import RecordingTrace

_STATIC = (AutogradError, SchemaError)
"""Errors that follow from the program, from dtypes and from what requires grad: all of that is in the key of a call."""


def note_raised(trace: RecordingTrace, error: Exception, op: Op, values: Sequence[Any], in_place: bool = False) -> None:
    """Record that `op` has raised `error` on `values`, which matters only if the function catches the error."""
    if isinstance(error, TraceError) or trace.errors.is_raised(error):
        return
    trace.errors.raised.append(error)
    if isinstance(error, _STATIC) or (type(error) is DTypeError and error.__cause__ is None):
        return
    if op.communicates or not isinstance(error, (Error, *FOREIGN)):  # others cannot be asked whether it raises again
        trace.impurity.note_caught(f"a {type(error).__name__}")
        return
    if op.kind == "composite":  # it has looked at sizes, and at nothing that is not guarded
        trace.impurity.note_by_sizes()
    operands, attributes, _ = trace.prepare(op, values)
    name = name_in_place(op) if in_place else op.name
    _decide(trace, error, operands, {"op": name, "error": type(error).__name__, **attributes})


def note_number(trace: RecordingTrace, error: Exception, name: str, operands: Sequence[Any]) -> None:
    """Record that arithmetic on traced numbers has raised `error`."""
    if scalar_function(f"prim::{name}") is not None:
        templates = [trace.operand(operand) for operand in operands]
        _decide(trace, error, templates, {"op": f"prim::{name}", "error": type(error).__name__})


def _decide(trace: RecordingTrace, error: Exception, operands: Sequence[Any], attributes: dict[str, Any]) -> None:
    if trace.guards.strict:
        trace.errors.refuse(attributes["op"])
        return
    trace.guards.guard(trace.tape.add(KIND, operands, attributes, [BOOL]).output, True)


# -- errors that no operator has raised --------------------------------------------------------------------------


def _recording() -> RecordingTrace | None:
    """The trace that records now, if any, also beneath a `vmap`."""
    recorder = context.TRACE.get()
    return cast("RecordingTrace | None", getattr(recorder, "beneath", recorder))


def _made(error: Error) -> None:
    trace = _recording()
    if trace is not None:
        trace.errors.made.append(error)


def _read(error: Error) -> None:
    """Note that the text of an error is made: it may name elements or sizes, and results may depend on the text."""
    trace = _recording()
    if trace is None or trace.impurity.printing or not trace.errors.is_made(error):
        return
    trace.impurity.note_by_sizes()
    if not isinstance(error, (*_STATIC, DTypeError)):
        trace.impurity.note_impure("makes text of an error")


errors.LISTENERS.made, errors.LISTENERS.read = _made, _read
