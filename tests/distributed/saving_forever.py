"""Processes that save one checkpoint after the other until somebody ends them: `mpiexec -n 2 python ... folder`."""

import itertools
import os
import sys
from pathlib import Path

import jit
from jit import distributed as dist

dist.init_process_group("mpi")
folder, rank = Path(sys.argv[1]), dist.get_rank()
(folder / f"process-{rank}").write_text(str(os.getpid()))
for version in itertools.count(1):
    shared = {f"shared {n}": jit.full((50,), float(version)) for n in range(8)}
    own = {f"own {rank}": jit.full((50,), float(version))}
    dist.checkpoint.save({**shared, **own, "version": version}, checkpoint_id=folder / "kept")
