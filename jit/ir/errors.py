"""The one exception family: everything that `jit` raises on purpose is a `jit.Error`.

`Error` is a `RuntimeError`, because that is what PyTorch raises; each class is also the builtin that fits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any


class _ErrorListeners:
    """Listeners to the errors of this package: a recording must know what the function learns from them."""

    made: Callable[[Any], None] | None = None
    """Called with every error that is made."""
    read: Callable[[Any], None] | None = None
    """Called with every error whose text is read by code outside of this package."""


LISTENERS = _ErrorListeners()
_ARGS: Any = BaseException.args


class Error(RuntimeError):
    """Base of every exception of this package; its text is one sentence, the user's line, and the way out."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new error; the listener, if there is one, is told of it."""
        error = super().__new__(cls, *args, **kwargs)
        if LISTENERS.made is not None:
            LISTENERS.made(error)
        return error

    def __str__(self) -> str:
        _note_reader(self)
        return BaseException.__str__(self)  # a KeyError would show its text in quotes

    def __repr__(self) -> str:
        _note_reader(self)
        return super().__repr__()

    def _render_traceback_(self) -> list[str]:
        """The traceback as IPython and notebooks show it: without the frames of this package."""
        shell: Any = vars(sys.modules["IPython.core.getipython"])["get_ipython"]()
        trail = _of_user(self.__traceback__)
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, trail, tb_offset=1)
        return lines

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of the error: its text."""
        _note_reader(self)
        return _ARGS.__get__(self)

    @args.setter
    def args(self, values: tuple[Any, ...]) -> None:
        _ARGS.__set__(self, values)


_PACKAGE = __name__.partition(".")[0]


def _of_user(trail: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package."""
    steps = []
    while trail is not None:
        if str(trail.tb_frame.f_globals.get("__name__")).partition(".")[0] != _PACKAGE:
            steps.append(trail)
        trail = trail.tb_next
    for step in reversed(steps):
        trail = TracebackType(trail, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return trail


def _note_reader(error: Error) -> None:
    if LISTENERS.read is None:
        return
    reader = sys._getframe(1).f_back  # None: the interpreter itself, which shows an error that nobody has caught
    if reader is not None and reader.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE:
        LISTENERS.read(error)


class SchemaError(Error, TypeError):
    """A call that fits no declared operator, or a declaration that cannot be read."""


class ShapeError(Error, ValueError):
    """Sizes that do not fit the operator."""


class DTypeError(Error, TypeError):
    """An element type that the operator does not take."""


class UndecidedSizeError(Error, ValueError):
    """A question about sizes whose answer depends on what a call brings, where nobody answers it."""


class DimError(Error, IndexError):
    """A dimension or index that is out of range."""


class EmptyError(ShapeError, DimError):
    """A dim without elements where one has to be chosen."""


class DivisionError(Error, ZeroDivisionError):
    """An integer division by zero."""


class AutogradError(Error):
    """A misuse of autograd: a second backward, a changed saved tensor, a derivative that does not exist."""


class LinAlgError(Error, ArithmeticError):
    """A matrix that has no inverse, no Cholesky factor or no eigenvalues that could be found."""


class AcceleratorError(Error):
    """Something that a GPU, or its driver, refused or failed to do."""


class OutOfMemoryError(AcceleratorError, MemoryError):
    """A device has too little memory left."""


class DistributedError(Error):
    """An exchange among processes that has failed: they do not do the same, or one of them is missing."""


class GraphError(Error, ValueError):
    """A graph that violates an invariant of the IR."""


class ParseError(Error, ValueError):
    """IR text that cannot be read."""


class TraceError(Error):
    """A function that cannot be traced; the message names the user's line."""


class EscapedTracerError(TraceError):
    """The elements of a traced tensor were read outside of its trace, which would bake in what they lead to."""


class CompileError(Error):
    """A kernel that cannot be generated, compiled or loaded."""


class ExportError(Error):
    """A graph that ONNX cannot express, or an exported model that disagrees with it."""


class ModelError(Error, ValueError):
    """An ONNX model that is none, asks for what there is not, or is called with other inputs than its own."""


class VerificationError(Error, AssertionError):
    """Two engines that should agree, but do not."""


class UsageError(Error, ValueError):
    """A call of the public interface with arguments that make no sense."""


class KindError(UsageError, TypeError):
    """An argument of a kind that the call does not take."""


class NamingError(UsageError, KeyError):
    """A name that is not allowed, is taken already, or is not known."""


class ExpectationError(UsageError, AssertionError):
    """A condition of a layer that does not hold."""


class UnwrittenError(UsageError, NotImplementedError):
    """A feature that does not exist, or a method that a subclass should define."""


class MemberError(UsageError, AttributeError):
    """A part of a module or of another object that does not exist, or a member that this tensor lacks where it lies."""
