"""Programs that tests run as several processes of one machine, with the environment's own mpiexec."""

import os
import subprocess
import sys
from pathlib import Path

from jit.command.launching import mpiexec

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"


def run(name: str, count: int, *arguments: str, launcher: bool = False, timeout: float = 60, **variables: str):
    """What a program of the folder `programs` has done as `count` processes."""
    start = [sys.executable, "-m", "jit", "launch"] if launcher else [mpiexec()]
    program = [str(PROGRAMS / f"{name}.py"), *arguments]
    command = [*start, "-n", str(count), *([] if launcher else [sys.executable]), *program]
    threads = dict.fromkeys(("JIT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **threads, **variables}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def succeeds(name: str, count: int, *arguments: str, **options) -> str:
    """What a program prints, which has to end well."""
    done = run(name, count, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fails(name: str, count: int, *arguments: str, **options) -> str:
    """What a program says, which has to fail."""
    done = run(name, count, *arguments, **options)
    assert done.returncode != 0, done.stdout + done.stderr
    return done.stdout + done.stderr
