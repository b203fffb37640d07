"""The error of checkpoints."""

from __future__ import annotations

from ..faults import FileError


class CheckpointError(FileError):
    """A checkpoint that cannot be written by all processes, or does not hold what is wanted of it."""
