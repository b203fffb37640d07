"""Writes files so that a reader, or a crash, never meets half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import Error


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write `data` beside `path` and rename it into place; folders on the way are made.

    Raises:
        Error: The file cannot be written; the message names it and the reason. The old file is still there.
    """
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = False) -> Iterator[BinaryIO]:
    """A block that writes a file beside `path`; it is renamed into place at the end, unless the block raises.

    Args:
        path: The file.
        durable: Whether the disk has the file, and its name, at the end: it survives a loss of power, too.

    Raises:
        Error: The file cannot be written, as for `write_atomically`.
    """
    target = Path(path)
    try:
        descriptor, temporary = _beside(target)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        if durable:
            _sync_names(target.parent)
    except Error:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise Error(f"cannot write {target}: {reason}; choose a folder that you may write to") from error


def _beside(target: Path) -> tuple[int, str]:
    """A new file, open, and its path."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except ValueError as error:  # a NUL, or half a character
        raise Error(f"cannot write {str(target)!r}: it is not a path ({error})") from error


def _sync_names(folder: Path) -> None:
    """Have the disk know the names of the files in a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The permissions that new files do not get; files of `mkstemp` have fewer."""
    current = os.umask(0)
    os.umask(current)
    return current
