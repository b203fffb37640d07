"""Checkpoints in parts, `torch.distributed.checkpoint` in PyTorch: what several processes save, any number can load.

>>> import jit, os, tempfile
>>> folder = os.path.join(tempfile.mkdtemp(), "step-100")
>>> _ = jit.distributed.checkpoint.save({"model": jit.nn.Linear(2, 1), "step": 100}, checkpoint_id=folder)
>>> found = {}
>>> jit.distributed.checkpoint.load(found, checkpoint_id=folder)
>>> found["step"], list(found["model"])
(100, ['weight', 'bias'])
"""

from __future__ import annotations

from .sharded.faults import CheckpointError
from .sharded.index import CheckpointIndex
from .sharded.places import FileSystemReader, FileSystemWriter
from .sharded.reading import load
from .sharded.writing import save

__all__ = ["CheckpointError", "CheckpointIndex", "FileSystemReader", "FileSystemWriter", "load", "save"]
