"""Errors that a function catches: that an operator raised is a decision, which a recording takes again in every call.

Note [Errors are decisions] in docs/tracing.md says what is recorded. Besides, a trace is told of every error of ours
that is made while it records (`jit.ir.errors.WATCH`). What has gone through code of the user's, and stands for no
`prim::raises`, was a check in Python code: of sizes, of dtypes, or of who knows what. A recording that depends on such
a check serves the sizes that it was made with, or is not kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from jit.eager import context
from jit.ir import Op, Source, errors
from jit.ir.attempts import KIND, name_in_place
from jit.ir.errors import (
    AutogradError,
    DimError,
    DTypeError,
    Error,
    SchemaError,
    ShapeError,
    TraceError,
    UsageError,
)
from jit.ir.refusals import FOREIGN
from jit.ir.scalars import scalar_function
from jit.ir.types import BOOL

from .refusals import at_line

if TYPE_CHECKING:
    from .tracer import Trace

_STATIC = (AutogradError, SchemaError)
"""What follows from the program, from dtypes and from what requires grad: all of that is in the key of a call."""
_BY_SIZES = (ShapeError, DimError, UsageError, DTypeError)
"""What Python code that looks at sizes raises."""


def note_raised(trace: Trace, error: Exception, op: Op, values: Sequence[Any], in_place: bool = False) -> None:
    """`op` has raised `error` on `values`; if nobody catches it, nothing that is recorded here is kept."""
    if isinstance(error, TraceError) or any(known is error for known in trace.raised):
        return
    trace.raised.append(error)
    if isinstance(error, _STATIC) or (type(error) is DTypeError and error.__cause__ is None):
        return
    if not isinstance(error, (Error, *FOREIGN)):
        _note_caught(trace, f"a {type(error).__name__}")
        return
    if op.kind == "composite":  # it has looked at sizes, and at nothing that is not guarded
        note_by_sizes(trace)
    operands, attributes, _ = trace.prepare(op, values)
    name = name_in_place(op) if in_place else op.name
    _decide(trace, error, operands, {"op": name, "error": type(error).__name__, **attributes})


def note_foreign(trace: Trace, error: Exception, name: str) -> None:
    """A Python function that a recording calls has raised: if that is caught, no later call knows of it beforehand."""
    if not isinstance(error, TraceError):
        _note_caught(trace, f"an error of {name}")


def note_number(trace: Trace, error: Exception, name: str, operands: Sequence[Any]) -> None:
    """Arithmetic on traced numbers has raised `error`."""
    if scalar_function(f"prim::{name}") is not None:
        templates = [trace.operand(operand) for operand in operands]
        _decide(trace, error, templates, {"op": f"prim::{name}", "error": type(error).__name__})


def _decide(trace: Trace, error: Exception, operands: Sequence[Any], attributes: dict[str, Any]) -> None:
    if trace.strict:  # which matters only if the error is caught
        trace.refused = trace.refused or TraceError(
            f"{at_line()}the function catches an error of {attributes['op']}, and strict=True forbids such a decision; "
            "check the operands beforehand, or trace without strict"
        )
        return
    trace.guard(trace.add(KIND, operands, attributes, [BOOL]).output, True)


def note_by_sizes(trace: Trace) -> None:
    """What the function does depends on sizes that it was given in a way that no guard says."""
    trace.one_size = trace.one_size or str(context.user_source())


def _note_caught(trace: Trace, what: str) -> None:
    """Nobody can say when the function catches `what` again."""
    trace.caught = trace.caught or str(context.user_source())
    trace.note_impure(f"catches {what}")


# -- errors that no operator has raised --------------------------------------------------------------------------


def _recording() -> Trace | None:
    """The trace that records here."""
    return cast("Trace | None", context.TRACE.get())


def _made(error: Error) -> None:
    trace = _recording()
    if trace is not None:
        trace.made.append(error)


def _read(error: Error) -> None:
    """Somebody makes text of an error: it may name elements or sizes, and nobody knows what becomes of it."""
    trace = _recording()
    if trace is None or trace.printing or not any(known is error for known in trace.made):
        return
    note_by_sizes(trace)
    if not isinstance(error, (*_STATIC, DTypeError)):
        trace.note_impure("makes text of an error")


errors.WATCH.made, errors.WATCH.read = _made, _read


def forgive(trace: Trace, error: Error) -> None:
    """An error that has gone through code of the user's was expected: what is done instead is recorded."""
    trace.made[:] = [known for known in trace.made if known is not error]


def forget_errors(trace: Trace) -> None:
    """Let go of errors, and with them of all that their tracebacks hold."""
    trace.made.clear()
    trace.raised.clear()


def look_at_caught(trace: Trace) -> None:
    """Draw the conclusions from the errors that the function has caught; TraceError if one was ours to raise."""
    made, trace.made = trace.made, []
    caught = [error for error in made if _is_caught(error)]
    refused = next((error for error in caught if isinstance(error, TraceError)), trace.refused)
    if refused is not None:
        raise refused
    for error in caught:
        if any(known is error for known in trace.raised) or isinstance(error, SchemaError):
            continue
        token = context.SOURCE.set(_line_of(error))
        try:
            note_by_sizes(trace)
            if not isinstance(error, (*_BY_SIZES, AutogradError)):
                _note_caught(trace, f"a {type(error).__name__}")
        finally:
            context.SOURCE.reset(token)
    trace.raised.clear()


def _is_caught(error: Error) -> bool:
    """Whether an error has gone through code of the user's; one whose way nobody knows counts."""
    return error.__traceback__ is None or _line_of(error) is not None


def _line_of(error: Error) -> Source | None:
    """The innermost line of the user's that an error has gone through."""
    step, found = error.__traceback__, None
    while step is not None:
        code = step.tb_frame.f_code
        if not code.co_filename.startswith((context.PACKAGE, "<jit")):
            found = Source(os.path.basename(code.co_filename), step.tb_lineno, code.co_name)
        step = step.tb_next
    return found
