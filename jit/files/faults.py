"""The errors of files."""

from __future__ import annotations

import pickle
from typing import Any

from jit.ir.errors import LISTENERS, Error, KindError


class FileError(Error):
    """A file that cannot be loaded: it is damaged, or of a kind that is not read here."""


class NoFileError(FileError, FileNotFoundError):
    """A file that is not there."""

    def __new__(cls, *args: Any) -> Any:
        """A new error, made as errors of the operating system are, which have fields of their own."""
        made = FileNotFoundError.__new__(cls, *args)
        if LISTENERS.made is not None:
            LISTENERS.made(made)
        return made


class EmptyFileError(FileError, EOFError):
    """A file without contents."""


class RefusedFileError(FileError, pickle.UnpicklingError):
    """A file that names a class or a function which nobody has allowed."""


class ContentError(KindError):
    """An object that a file of the chosen format does not hold."""
