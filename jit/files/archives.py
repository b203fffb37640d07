"""Zip files: their entries, none of which is larger than the file, and torch's format, which is one.

    archive/data.pkl       the object, a pickle in which storages are numbered
    archive/byteorder      "little" or "big"
    archive/data/0 ...     the storages, each at a multiple of 64 bytes
    archive/version        "3", with a line feed

The folder is called as whoever wrote the file liked.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any, NamedTuple

from ..artifacts.relocating import Relocation
from .faults import FileError
from .machine import Unpickler
from .memories import Memories, is_swapped
from .rebuilding import StorageKind
from .sources import FileSource
from .vocabulary import DataVocabulary

_LOCAL_HEADER = 30


class ZipMember(NamedTuple):
    """A file within a zip file."""

    header: int
    """The place of its own header."""
    size: int
    checksum: int
    is_plain: bool
    """Whether it is stored as it is."""


class Archive:
    """A zip file.

    Args:
        source: The file.

    Raises:
        FileError: Its table of contents cannot be read.
    """

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._taken = 0
        try:
            with zipfile.ZipFile(source.seekable()) as file:
                self.members = {entry.filename: _member(entry) for entry in file.infolist()}
        except Exception as error:
            raise FileError(f"it is a zip file that is cut off or damaged ({error})") from error

    def read(self, name: str) -> Any:
        """The contents of a member, as an array of bytes.

        Raises:
            FileError: There is no such member, or it is damaged.
        """
        if name not in self.members:
            raise FileError(f"it lacks {name[:200]!r}")
        member = self.members[name]
        if not member.is_plain:
            raise FileError(f"{name[:200]!r} in it is compressed or encrypted, unlike files of torch; unpack it first")
        self._taken += member.size
        if self._taken > self._source.size:
            raise FileError("its members overlap")
        data = self._source.array(self._start(member), member.size)
        if not self._source.mapped and member.checksum not in (0, zlib.crc32(data)):  # torch can be told to write 0
            raise FileError(f"{name[:200]!r} in it is damaged: its checksum is wrong")
        return data

    def pickle(self, prefix: str) -> io.BytesIO:
        """The pickle of a file of torch's."""
        return io.BytesIO(self.read(f"{prefix}data.pkl").tobytes())

    def _start(self, member: ZipMember) -> int:
        header = self._source.part(member.header, _LOCAL_HEADER)
        if header[:4] != b"PK\3\4":
            raise FileError("its table of contents is wrong")
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        return member.header + _LOCAL_HEADER + lengths


def _member(entry: zipfile.ZipInfo) -> ZipMember:
    plain = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & 1
    return ZipMember(entry.header_offset, entry.file_size, entry.CRC, plain and entry.file_size == entry.compress_size)


def read_archive(archive: Archive, prefix: str, relocation: Relocation, modules: bool, encoding: str) -> Any:
    """The object in a file of torch's.

    Args:
        archive: The file.
        prefix: The folder in it.
        relocation: The devices that take the place of those in it.
        modules: Whether it may hold layers.
        encoding: The encoding of strings of Python 2.

    Raises:
        FileError: It is damaged, or holds what is not allowed.
    """

    def memory_of(key: str, kind: StorageKind, count: int) -> Any:
        return archive.read(f"{prefix}data/{key}")

    order = archive.read(f"{prefix}byteorder").tobytes() if f"{prefix}byteorder" in archive.members else b"little"
    memories = Memories(memory_of, relocation, is_swapped(order.decode("ascii", "replace")))
    return Unpickler(DataVocabulary(memories.find, modules), encoding).run(archive.pickle(prefix))
