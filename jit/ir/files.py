"""Writes files so that a reader, or a crash, never meets half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import Error


def write_atomically(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write `data` beside `path` and rename it into place; folders on the way are made.

    Raises:
        Error: The file cannot be written; the message names it and the reason. The old file is still there.
    """
    target = Path(path)
    content = data.encode() if isinstance(data, str) else data
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise Error(f"cannot write {target}: {reason}; choose a folder that you may write to") from error
    except ValueError as error:  # a NUL, or half a character
        raise Error(f"cannot write {str(target)!r}: it is not a path ({error})") from error


def _umask() -> int:
    """The permissions that new files do not get; files of `mkstemp` have fewer."""
    current = os.umask(0)
    os.umask(current)
    return current
