"""The bytes of a file, given by its path or open already, of which no more is taken than there is."""

from __future__ import annotations

import io
import mmap
import os
import stat
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np

from jit.ir.errors import KindError, UsageError

from .faults import FileError, NoFileError


class FileSource:
    """A file that is being loaded.

    Args:
        file: The bytes, which can be sought in.
        name: The name of the file in errors.
        mapped: Whether arrays are windows into the file, whose pages are read when they are touched.
    """

    def __init__(self, file: BinaryIO, name: str, mapped: bool = False) -> None:
        self._file = file
        self.name = name
        self.size = file.seek(0, os.SEEK_END)
        self.mapped = mapped
        self._map: Any = None

    @property
    def on_disk(self) -> bool:
        """Whether the file can be mapped into memory."""
        return not isinstance(self._file, io.BytesIO)

    def head(self, count: int) -> bytes:
        """The first bytes, at most `count`."""
        return self.part(0, min(count, self.size))

    def part(self, start: int, count: int) -> bytes:
        """A part of the file.

        Raises:
            FileError: The file ends before.
        """
        self._check(start, count)
        self._file.seek(start)
        return self._file.read(count)

    def array(self, start: int, count: int) -> Any:
        """A part of the file as an array of bytes that can be written to, which never changes the file.

        Raises:
            FileError: The file ends before.
        """
        self._check(start, count)
        if self.mapped and count:
            return np.frombuffer(self._mapping(), np.uint8, count, start)
        made = np.empty(count, np.uint8)
        self._file.seek(start)
        if cast(io.BufferedIOBase, self._file).readinto(made.data) != count:
            raise FileError("it ends too early")
        return made

    def stream(self, start: int) -> IO[bytes]:
        """A file for a reader of pickles, which begins at `start`."""
        self._file.seek(start)
        return cast(IO[bytes], _PickleStream(self._file, self.size))

    def seekable(self) -> BinaryIO:
        """The file itself, for libraries."""
        return self._file

    def position(self) -> int:
        """The place up to which a stream has been read."""
        return self._file.tell()

    def _check(self, start: int, count: int) -> None:
        if min(start, count) < 0 or start + count > self.size:
            raise FileError("it ends too early")

    def _mapping(self) -> Any:
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_COPY)
        return self._map


class _PickleStream:
    """The part of a file that a reader of pickles needs; it never asks for more memory than the file could fill."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self.readline = file.readline
        self.tell = file.tell

    def read(self, count: int) -> bytes:
        return self._file.read(count) if count < 4096 else self._file.read(min(count, self._size - self._file.tell()))


def opened(given: Any, mapped: bool) -> FileSource:
    """The source that is meant by a path, or by a file that somebody has opened.

    Raises:
        KindError: `given` is neither.
        UsageError: A file without a path is to be mapped.
        NoFileError: There is no such file.
        FileError: It is no regular file, or may not be read.
    """
    if hasattr(given, "read"):
        if mapped:
            raise UsageError("only files on disk are mapped into memory; pass the path, or leave mmap out")
        return FileSource(_held(given), str(getattr(given, "name", None) or "the file"))
    try:
        path = Path(os.fsdecode(given))
    except TypeError:
        raise KindError(f"load takes the path of a file, or an open file, not {type(given).__name__}") from None
    return FileSource(_opened_path(path), str(path), mapped)


def _held(given: Any) -> BinaryIO:
    """The rest of an open file in memory."""
    content = given.read()
    if not isinstance(content, (bytes, bytearray)):
        raise KindError(f"load needs a file of bytes, and this one holds {type(content).__name__}; open it with 'rb'")
    return io.BytesIO(content)


def _opened_path(path: Path) -> BinaryIO:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"{path} cannot be loaded: it is no file")
        return path.open("rb")
    except FileNotFoundError as error:
        raise NoFileError(f"{path} cannot be read: there is no such file") from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL, or half a character
        raise FileError(f"{str(path)!r} cannot be read: it is no path ({error})") from error
