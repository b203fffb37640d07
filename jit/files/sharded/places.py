"""The folders of checkpoints, under the names that PyTorch gives to what reads and writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jit.ir.errors import KindError, UsageError

from .index import CheckpointIndex, read_index


class _CheckpointPlace:
    """Base of what stands for the folder of a checkpoint.

    Args:
        path: The folder.
    """

    def __init__(self, path: Any) -> None:
        self.path = folder_of(path)


class FileSystemWriter(_CheckpointPlace):
    """The folder that `save` writes to; the path as `checkpoint_id` is the shorter way to say it.

    Args:
        path: The folder.
    """


class FileSystemReader(_CheckpointPlace):
    """The folder that `load` reads; the path as `checkpoint_id` is the shorter way to say it.

    Args:
        path: The folder.
    """

    def read_metadata(self) -> CheckpointIndex:
        """The contents of the checkpoint.

        Raises:
            FileError: There is no checkpoint, or it is damaged.
        """
        return read_index(self.path)


def folder_of(path: Any) -> Path:
    """The path of a folder.

    Raises:
        KindError: It is no path.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise KindError(f"a checkpoint lies in a folder, and {type(path).__name__} is no path of one; pass a path")
    return Path(path)


def chosen(checkpoint_id: Any, place: Any, planner: Any) -> Path:
    """The folder that the arguments of `save` or `load` mean.

    Args:
        checkpoint_id: The path.
        place: A `FileSystemWriter` or `FileSystemReader`.
        planner: None: there is one way to share the work.

    Raises:
        UsageError: There is no path, or a planner.
    """
    if planner is not None:
        raise UsageError("checkpoints are shared among processes in one way; leave the planner out")
    if checkpoint_id is None and place is None:
        raise UsageError("no place is given for the checkpoint; pass checkpoint_id=, the path of a folder")
    if place is not None and not isinstance(place, _CheckpointPlace):
        raise KindError(f"checkpoints are folders here, and {type(place).__name__} is none; pass checkpoint_id=")
    return folder_of(checkpoint_id) if place is None or checkpoint_id is not None else place.path
