"""`load`: fills a nest of tensors and values from a checkpoint, whoever has written it."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from pathlib import Path as FilePath
from typing import Any

from jit.eager import context
from jit.eager.tensors import Tensor

from ..faults import NoFileError
from ..loading import load as load_file
from .faults import CheckpointError
from .index import CheckpointIndex, StoredTensor, StoredValue, read_index
from .places import chosen
from .trees import Path, from_json, name_of, steps, tree_of

_ATTEMPTS = 5
"""The number of times that the index is read if a file that it names is gone: a save has replaced both in between."""


def load(
    state_dict: MutableMapping[str, Any], *, checkpoint_id: Any = None, storage_reader: Any = None,
    planner: Any = None, process_group: Any = None, no_dist: bool = False,
) -> None:  # fmt: skip
    """Fill a nest of dictionaries and lists from a checkpoint that any number of processes have written.

    Tensors are copied into those that are there; values take the place of those that are there. An empty dictionary
    gets all that the checkpoint has below its name, so `{}` as a whole gets everything. Tensors that come in this way
    are windows into the files, which are read as they are used. Objects with `load_state_dict` load their state.

    Args:
        state_dict: What to fill, with names as they were saved.
        checkpoint_id: The path of the folder.
        storage_reader: A `FileSystemReader` instead of the path.
        planner: Refused: there is one way to share the work.
        process_group: Accepted and ignored: each process reads what it needs.
        no_dist: Accepted and ignored.

    Raises:
        CheckpointError: It does not hold what is wanted, or is damaged. Nothing has been changed then.
        NoFileError: There is no checkpoint.
    """
    folder = chosen(checkpoint_id, storage_reader, planner)
    objects = {key: value for key, value in state_dict.items() if hasattr(value, "load_state_dict")}
    wanted = {key: {} if key in objects else value for key, value in state_dict.items()}
    stored = _opened(folder)
    filling = _Filling(stored)
    filling.walk(wanted, ())
    filling.run()
    for key, value in wanted.items():
        if key in objects:
            objects[key].load_state_dict(value)
        else:
            state_dict[key] = value


class _Stored:
    """A checkpoint with its files.

    Args:
        folder: The folder.
        index: What it holds.

    Raises:
        CheckpointError: A file is missing or damaged.
    """

    def __init__(self, folder: FilePath, index: CheckpointIndex) -> None:
        self.index = index
        self._files: dict[str, dict[str, Tensor]] = {}
        for name, size in index.files.items():
            path = folder / name
            self._files[name] = load_file(path)
            if path.stat().st_size != size:
                raise CheckpointError(f"{path} does not have the {size} bytes that it was written with; it is damaged")

    def tensor(self, name: str) -> Tensor:
        """A tensor by its name.

        Raises:
            CheckpointError: Its file has another one.
        """
        row = self.index.tensors[name]
        found = self._files[row.file].get(name)
        if found is None or found.dtype.name != row.dtype or tuple(found.shape) != row.shape:
            raise CheckpointError(f"{name!r} is not in {row.file} as the index says; the checkpoint is damaged")
        return found

    def below(self, path: Path) -> Any:
        """All that lies below a path, as a tree; None if there is nothing."""
        rows: dict[str, StoredTensor | StoredValue] = {**self.index.tensors, **self.index.values}
        inner = [(row, name) for name, row in rows.items() if row.path[: len(path)] == path and row.path != path]
        if not inner:
            return None
        inner.sort(key=lambda pair: not isinstance(pair[0], StoredTensor) and pair[0].value == {"dict": []})
        return tree_of((row.path[len(path) :], self.content(name)) for row, name in inner)

    def content(self, name: str) -> Any:
        """A tensor or a value by its name."""
        return self.tensor(name) if name in self.index.tensors else from_json(self.index.values[name].value)


def _opened(folder: FilePath) -> _Stored:
    for left in reversed(range(_ATTEMPTS)):
        index = read_index(folder)
        try:
            return _Stored(folder, index)
        except (NoFileError, FileNotFoundError) as error:
            if not left:
                raise CheckpointError(f"{folder} lacks a file of the checkpoint in it ({error})") from error
    raise AssertionError


class _Filling:
    """The copies that are to be made; none is until all sources have been found."""

    def __init__(self, stored: _Stored) -> None:
        self.stored = stored
        self.missing: list[str] = []
        self.faults: list[str] = []
        self.copies: list[tuple[Tensor, Tensor]] = []
        self.assignments: list[Callable[[], None]] = []

    def walk(self, tree: Any, path: Path) -> None:
        """Look for all that a container wants."""
        if not tree and isinstance(tree, MutableMapping):
            self._note_all(tree, path)
            return
        for step, value in steps(tree, path) or ():
            key = step[0] if isinstance(step, tuple) else step
            inner = (*path, step)
            if steps(value, inner) is not None or (isinstance(value, MutableMapping) and not value):
                self.walk(value, inner)
            else:
                self._note_one(tree, key, value, inner)

    def _note_all(self, tree: MutableMapping[Any, Any], path: Path) -> None:
        found = self.stored.below(path)
        if isinstance(found, dict):
            self.assignments.append(lambda: tree.update(found))
        elif name_of(path) not in self.stored.index.values and path:
            self.missing.append(name_of(path))

    def _note_one(self, tree: Any, key: Any, value: Any, path: Path) -> None:
        name, index = name_of(path), self.stored.index
        if name not in index.tensors and name not in index.values:
            self.missing.append(name)
        elif not isinstance(value, Tensor):
            found = self.stored.content(name)
            self.assignments.append(lambda: tree.__setitem__(key, found))
        elif name in index.values:
            self.faults.append(f"{name!r} is no tensor in the checkpoint")
        elif tuple(value.shape) != index.tensors[name].shape:
            sizes = f"{list(index.tensors[name].shape)} in the checkpoint and {list(value.shape)} here"
            self.faults.append(f"{name!r} has the sizes {sizes}")
        else:
            self.copies.append((value, self.stored.tensor(name)))

    def run(self) -> None:
        """Copy everything.

        Raises:
            CheckpointError: Something was not found.
        """
        if self.missing:
            more = f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
            self.faults.append(f"it does not hold {', '.join(map(repr, self.missing[:3]))}{more}")
        if self.faults:
            raise CheckpointError(f"the checkpoint does not fit: {'; '.join(self.faults)}")
        with context.no_grad():
            for target, source in self.copies:
                target.copy_(source)
        for assign in self.assignments:
            assign()
