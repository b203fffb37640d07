"""The errors that arise while a function is recorded, and what follows from those that it catches."""

from __future__ import annotations

import os

from jit.eager import context
from jit.ir import Source
from jit.ir.errors import AutogradError, DimError, DTypeError, Error, SchemaError, ShapeError, TraceError, UsageError

from .refusals import Impurity, at_line

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
        with context.standing_at(_line_of(error)):
            self._impurity.note_by_sizes()
            if not isinstance(error, (*_BY_SIZES, AutogradError)):
                self._impurity.note_caught(f"a {type(error).__name__}")


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
