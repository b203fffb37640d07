"""Files of tensors at PyTorch's path: `jit.save`, `jit.load`, and what strangers' files may name besides data."""

from __future__ import annotations

from .files.allowing import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .files.faults import FileError, NoFileError, RefusedFileError
from .files.loading import get_unsafe_globals_in_checkpoint, load
from .files.saving import save

DEFAULT_PROTOCOL = 2

__all__ = [
    "DEFAULT_PROTOCOL", "FileError", "NoFileError", "RefusedFileError", "add_safe_globals", "clear_safe_globals",
    "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save",
]  # fmt: skip
