"""`CheckpointIndex`: what a checkpoint holds, and in which of its files; a file of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ..faults import NoFileError
from .faults import CheckpointError
from .trees import Path, Step

INDEX = "index.json"
_FORMAT = "jit.checkpoint"
_VERSION = 1


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a checkpoint."""

    path: Path
    """The keys that lead to it."""
    dtype: str
    """The name of its element type."""
    shape: tuple[int, ...]
    """The sizes."""
    file: str = ""
    """The name of the file that it is in."""


@dataclass(frozen=True)
class StoredValue:
    """A value in a checkpoint that is no tensor."""

    path: Path
    """The keys that lead to it."""
    value: Any
    """The value, as JSON has it."""


@dataclass
class CheckpointIndex:
    """The contents of a checkpoint by name."""

    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    """The tensors."""
    values: dict[str, StoredValue] = field(default_factory=dict)
    """Everything else."""
    files: dict[str, int] = field(default_factory=dict)
    """The files with their sizes in bytes."""

    def text(self) -> str:
        """The index as JSON."""
        tensors = {
            name: {"path": each.path, "dtype": each.dtype, "shape": each.shape, "file": each.file}
            for name, each in self.tensors.items()
        }
        values = {name: {"path": each.path, "value": each.value} for name, each in self.values.items()}
        head = {"format": _FORMAT, "version": _VERSION, "files": self.files}
        return json.dumps({**head, "tensors": tensors, "values": values}, indent=1)


def read_index(folder: FilePath) -> CheckpointIndex:
    """The index of the checkpoint in a folder.

    Raises:
        NoFileError: There is none.
        CheckpointError: It cannot be read, or is none.
    """
    try:
        text = (folder / INDEX).read_text()
    except FileNotFoundError:
        raise NoFileError(
            f"{folder} holds no checkpoint: no {INDEX} is in it, which every finished save writes"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{folder / INDEX} cannot be read: {error.strerror or error}") from error
    try:
        return _parsed(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder / INDEX} is no index of a checkpoint, or is damaged ({error})") from error


def _parsed(table: Any) -> CheckpointIndex:
    if table["format"] != _FORMAT or table["version"] != _VERSION:
        raise ValueError(f"it is of the format {table['format']!r:.40}, version {table['version']!r:.10}")
    tensors = {
        name: StoredTensor(_path(row["path"]), row["dtype"], tuple(row["shape"]), row["file"])
        for name, row in table["tensors"].items()
    }
    values = {name: StoredValue(_path(row["path"]), row["value"]) for name, row in table["values"].items()}
    files = dict(table["files"])
    if any(each.file not in files for each in tensors.values()) or any(FilePath(name).name != name for name in files):
        raise ValueError("it names a file that is not in the checkpoint")
    return CheckpointIndex(tensors, values, files)


def _path(steps: list[Any]) -> Path:
    return tuple(_step(step) for step in steps)


def _step(step: Any) -> Step:
    if isinstance(step, list):
        (position,) = step
        return (int(position),)
    return str(step) if isinstance(step, str) else int(step)
