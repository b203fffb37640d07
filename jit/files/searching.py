"""A search through a pickle: what storages there are, and which names; nothing is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .rebuilding import STORAGES, UNTYPED, StorageKind
from .vocabulary import storage_identity


class _Ignored:
    """A stand-in for everything that a pickle makes."""


class NameSearch:
    """A vocabulary for a reading that makes nothing."""

    def __init__(self) -> None:
        self.kinds: dict[str, StorageKind] = {}
        """The kinds of the storages by key."""
        self.names: dict[str, None] = {}
        """All names, in the order in which they come."""

    def find(self, name: str) -> Any:
        """The kind of a storage, where the name is that of one."""
        self.names[name] = None
        last = name.rpartition(".")[2]
        return UNTYPED if last in ("UntypedStorage", "_UntypedStorage") else STORAGES.get(last, _Ignored)

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Nothing."""
        return _Ignored()

    def new(self, kind: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Nothing; see `Vocabulary.new`."""
        return _Ignored()

    def build(self, made: Any, state: Any) -> None:
        """Do nothing."""

    def extend(self, made: Any, items: list[Any]) -> None:
        """Do nothing."""

    def update(self, made: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Do nothing."""

    def persistent(self, identity: Any) -> Any:
        """Nothing; the kind of the storage is noted."""
        if isinstance(identity, tuple) and len(identity) > 1 and isinstance(identity[1], StorageKind):
            kind, key, *_ = storage_identity(identity)
            self.kinds[key] = kind
        return _Ignored()


def is_source(identity: Any) -> bool:
    """Whether something outside of a pickle is the source text of a class, which old files have beside its name."""
    return isinstance(identity, tuple) and len(identity) == 4 and identity[0] == "module"
