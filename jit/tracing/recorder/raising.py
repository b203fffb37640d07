"""Errors that a function catches: that an operator raised is a decision, which a recording takes again in every call.

Note [Errors are decisions] in docs/tracing.md says what is recorded. Besides, a trace is told of every `jit.Error` that
is made while it records (`jit.ir.errors.LISTENERS`). One that has gone through code of the user's, and has no
`prim::raises`, came from a check in Python code: of sizes, of dtypes, or of anything else. A recording that depends on
such a check serves the sizes that it was made with, or is not kept.
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

from .refusals import Impurity, at_line

if TYPE_CHECKING:
    from .tracer import Trace

_STATIC = (AutogradError, SchemaError)
"""Errors that follow from the program, from dtypes and from what requires grad: all of that is in the key of a call."""
_BY_SIZES = (ShapeError, DimError, UsageError, DTypeError)
"""Errors of Python code that checks sizes."""


class TraceErrors:
    """The errors that arise while one trace records, and what follows from those that the function catches."""

    def __init__(self, impurity: Impurity) -> None:
        self.made: list[Error] = []
        """The errors of this package that were made while the trace recorded."""
        self.raised: list[Exception] = []
        """The errors of operators."""
        self.refused: TraceError | None = None
        """The error to raise if the function catches an error."""
        self._impurity = impurity

    def is_raised(self, error: Exception) -> bool:
        """Whether an operator has raised an error."""
        return any(known is error for known in self.raised)

    def is_made(self, error: Exception) -> bool:
        """Whether an error is of this package, and was made while the trace recorded."""
        return any(known is error for known in self.made)

    def note_foreign(self, error: Exception, name: str) -> None:
        """Note that a Python function that a recording calls has raised: no guard tells whether it will again."""
        if not isinstance(error, TraceError):
            self._impurity.note_caught(f"an error of {name}")

    def refuse(self, name: str) -> None:
        """Keep the TraceError to raise if the function catches an error of `name`, which strict=True forbids."""
        self.refused = self.refused or TraceError(
            f"{at_line()}the function catches an error of {name}, and strict=True forbids such a decision; check the "
            "operands beforehand, or trace without strict"
        )

    def forgive(self, error: Error) -> None:
        """Forget an error that was expected, since what is done instead is recorded."""
        self.made[:] = [known for known in self.made if known is not error]

    def forget(self) -> None:
        """Let go of errors, and with them of all that their tracebacks hold."""
        self.made.clear()
        self.raised.clear()

    def look_at_caught(self) -> None:
        """Draw the conclusions from the errors that the function has caught; TraceError if it must not catch one."""
        made, self.made = self.made, []
        caught = [error for error in made if _is_caught(error)]
        refused = next((error for error in caught if isinstance(error, TraceError)), self.refused)
        if refused is not None:
            raise refused
        for error in caught:
            if not self.is_raised(error) and not isinstance(error, SchemaError):
                self._note_caught(error)
        self.raised.clear()

    def _note_caught(self, error: Error) -> None:
        token = context.SOURCE.set(_line_of(error))
        try:
            self._impurity.note_by_sizes()
            if not isinstance(error, (*_BY_SIZES, AutogradError)):
                self._impurity.note_caught(f"a {type(error).__name__}")
        finally:
            context.SOURCE.reset(token)


def note_raised(trace: Trace, error: Exception, op: Op, values: Sequence[Any], in_place: bool = False) -> None:
    """Record that `op` has raised `error` on `values`, which matters only if the function catches the error."""
    if isinstance(error, TraceError) or trace.errors.is_raised(error):
        return
    trace.errors.raised.append(error)
    if isinstance(error, _STATIC) or (type(error) is DTypeError and error.__cause__ is None):
        return
    if not isinstance(error, (Error, *FOREIGN)):
        trace.impurity.note_caught(f"a {type(error).__name__}")
        return
    if op.kind == "composite":  # it has looked at sizes, and at nothing that is not guarded
        trace.impurity.note_by_sizes()
    operands, attributes, _ = trace.prepare(op, values)
    name = name_in_place(op) if in_place else op.name
    _decide(trace, error, operands, {"op": name, "error": type(error).__name__, **attributes})


def note_number(trace: Trace, error: Exception, name: str, operands: Sequence[Any]) -> None:
    """Record that arithmetic on traced numbers has raised `error`."""
    if scalar_function(f"prim::{name}") is not None:
        templates = [trace.operand(operand) for operand in operands]
        _decide(trace, error, templates, {"op": f"prim::{name}", "error": type(error).__name__})


def _decide(trace: Trace, error: Exception, operands: Sequence[Any], attributes: dict[str, Any]) -> None:
    if trace.guards.strict:
        trace.errors.refuse(attributes["op"])
        return
    trace.guards.guard(trace.tape.add(KIND, operands, attributes, [BOOL]).output, True)


# -- errors that no operator has raised --------------------------------------------------------------------------


def _recording() -> Trace | None:
    """The trace that records now, if any."""
    return cast("Trace | None", context.TRACE.get())


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


def _is_caught(error: Error) -> bool:
    """Whether an error has gone through code of the user's; one without a traceback counts as such."""
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
