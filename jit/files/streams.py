"""torch's older format: several pickles in a row, and the memory of the storages behind them.

The pickles are a magic number, a version, facts of the machine, the object, and the keys of the storages. Then the
storages follow in the order of their keys, each with its number of elements in front; but how large an element is only
the object says. So its pickle is read twice: first for the kinds of the storages alone.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

from ..artifacts.relocating import Relocation
from .faults import FileError
from .machine import Unpickler
from .memories import Memories
from .rebuilding import StorageKind
from .searching import NameSearch, is_source
from .sources import FileSource
from .vocabulary import DataVocabulary

MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_FACTS = {"protocol_version": _VERSION, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
_COUNT = 8
"""The bytes of the number in front of a storage."""


class _StreamVocabulary(DataVocabulary):
    """Names of data, in a file that may also hold the source text of a class beside its name."""

    def persistent(self, identity: Any) -> Any:
        """The memory of a storage, or a class, whose source text is left alone."""
        return identity[1] if is_source(identity) else super().persistent(identity)


class Span(NamedTuple):
    """The place of a storage in a file."""

    start: int
    bytes: int


def read_stream(source: FileSource, relocation: Relocation, modules: bool, encoding: str) -> Any:
    """The object in a file of torch's older format.

    Args:
        source: The file.
        relocation: The devices that take the place of those in it.
        modules: Whether it may hold layers.
        encoding: The encoding of strings of Python 2.

    Raises:
        FileError: It is damaged, or holds what is not allowed.
    """
    spans: dict[str, Span] = {}

    def memory_of(key: str, kind: StorageKind, count: int) -> Any:
        if key not in spans:
            raise FileError(f"it lacks storage {key[:40]!r}")
        return source.array(*spans[key])

    memories = Memories(memory_of, relocation, swapped=False)  # this format is little-endian everywhere
    vocabulary = _StreamVocabulary(memories.find, modules)
    start, search = read_preface(source), NameSearch()
    Unpickler(search, encoding).run(source.stream(start))
    for name in search.names:  # refused now: without the kinds of all storages, none of them is found
        vocabulary.find(name)
    pickle = source.part(start, source.position() - start)
    keys = _data(source, start + len(pickle))
    spans.update(_spans(source, source.position(), keys, search.kinds))
    return Unpickler(vocabulary, encoding).run(io.BytesIO(pickle))


def _data(source: FileSource, start: int) -> Any:
    """The contents of a pickle in which there is nothing but data."""
    return Unpickler(DataVocabulary(_refuse_storage)).run(source.stream(start))


def _refuse_storage(*identity: Any) -> Any:
    raise FileError("it has a storage where there is none")


def read_preface(source: FileSource) -> int:
    """The place where the object begins.

    Raises:
        FileError: The file is of no known version.
    """
    magic = _data(source, 0)
    version = _data(source, source.position())
    facts = _data(source, source.position())
    if magic != MAGIC or version != _VERSION or not isinstance(facts, dict):
        raise FileError("it is of a format of torch that is not known")
    return source.position()


def _spans(source: FileSource, start: int, keys: Any, kinds: dict[str, StorageKind]) -> dict[str, Span]:
    if not isinstance(keys, list) or not all(type(key) is str for key in keys):
        raise FileError("the keys of its storages are none")
    spans: dict[str, Span] = {}
    for key in keys:
        if key not in kinds or key in spans:
            raise FileError(f"it has a storage {key[:40]!r} that no tensor lies in")
        count = int.from_bytes(source.part(start, _COUNT), "little")
        spans[key] = Span(start + _COUNT, count * kinds[key].dtype.itemsize)
        start = sum(spans[key])
    return spans


def write_stream(file: BinaryIO, pickled: bytes, storages: Sequence[tuple[int, Any]]) -> None:
    """Write a file of torch's older format.

    Args:
        file: The file, open for writing.
        pickled: The pickle of the object.
        storages: The number of elements and the bytes of each storage; their keys are 0, 1 and so on.
    """
    for head in (MAGIC, _VERSION, _FACTS):
        file.write(pickle.dumps(head, 2))
    file.write(pickled)
    file.write(pickle.dumps([str(key) for key in range(len(storages))], 2))
    for count, data in storages:
        file.write(count.to_bytes(_COUNT, "little"))
        file.write(data)
