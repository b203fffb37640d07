"""`jit.files.checkpoints` at PyTorch's path, for type checkers; the package `jit` makes this module."""

from jit.files.checkpoints import CheckpointError as CheckpointError
from jit.files.checkpoints import CheckpointIndex as CheckpointIndex
from jit.files.checkpoints import FileSystemReader as FileSystemReader
from jit.files.checkpoints import FileSystemWriter as FileSystemWriter
from jit.files.checkpoints import load as load
from jit.files.checkpoints import save as save
