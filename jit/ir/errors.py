"""The one exception family: everything that `jit` raises on purpose is a `jit.Error`.

`Error` is a `RuntimeError`, because that is what PyTorch raises; each class is also the builtin that fits.
"""

from __future__ import annotations


class Error(RuntimeError):
    """Base of every exception of this package; its text is one sentence, the user's line, and the way out."""


class SchemaError(Error, TypeError):
    """A call that fits no declared operator, or a declaration that cannot be read."""


class ShapeError(Error, ValueError):
    """Sizes that do not fit the operator."""


class DTypeError(Error, TypeError):
    """An element type that the operator does not take."""


class DimError(Error, IndexError):
    """A dimension or index that is out of range."""


class DivisionError(Error, ZeroDivisionError):
    """An integer division by zero."""


class AutogradError(Error):
    """A misuse of autograd: a second backward, a changed saved tensor, a derivative that does not exist."""


class LinAlgError(Error, ArithmeticError):
    """A matrix that has no inverse, no Cholesky factor or no eigenvalues that could be found."""


class GraphError(Error, ValueError):
    """A graph that violates an invariant of the IR."""


class ParseError(Error, ValueError):
    """IR text that cannot be read."""


class TraceError(Error):
    """A function that cannot be traced; the message names the user's line."""


class EscapedTracerError(TraceError):
    """The elements of a traced tensor are taken out of its trace, where what is computed from them would be frozen."""


class CompileError(Error):
    """A kernel that cannot be generated, compiled or loaded."""


class ExportError(Error):
    """A graph that ONNX cannot express, or an exported model that disagrees with it."""


class VerificationError(Error, AssertionError):
    """Two engines that should agree do not."""


class UsageError(Error, ValueError):
    """A call of the public interface that makes no sense."""


class NotDefinedError(UsageError, NotImplementedError):
    """A method that a subclass was to define and has not."""
