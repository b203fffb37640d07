"""`jit launch`: starts a program as several processes, with the mpiexec of the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jit.ir.errors import UsageError

from . import ranked

_THREADS = ("JIT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def mpiexec() -> str:
    """The path of mpiexec: that beside the interpreter, which the wheel `mpich` brings, else the one on PATH.

    Raises:
        UsageError: There is none.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.is_file() else shutil.which("mpiexec")
    if found is None:
        raise UsageError('there is no mpiexec here; pip install "jit-tracer[dist]" brings one')
    return found


def launch(count: int, program: Sequence[str], is_module: bool = False, hosts: str | None = None) -> int:
    """Run a program as several processes; the exit code of the first that has failed, 0 if none has.

    Args:
        count: The number of processes.
        program: The script, or the module, and its arguments.
        is_module: Whether it is a module.
        hosts: The machines to run on, with commas between; this one unless given.

    Raises:
        UsageError: There is no mpiexec, or no such script.
    """
    if not is_module and not Path(program[0]).is_file():
        raise UsageError(f"there is no script {program[0]}; say -m for a module")
    command = [mpiexec(), "-n", str(count), *(["-hosts", hosts] if hosts else []), sys.executable, ranked.__file__]
    command += [sys.executable, *(["-m"] if is_module else []), *program]
    with tempfile.TemporaryDirectory(prefix="jit-launch-") as folder:
        verdict = Path(folder) / "verdict"
        environment = {**shared_threads(count if hosts is None else 1), **os.environ, ranked.VERDICT: str(verdict)}
        code = _waited(subprocess.Popen(command, env=environment))
        return int(verdict.read_text() or code) if verdict.is_file() else code


def _waited(process: subprocess.Popen[bytes]) -> int:
    """The exit code of mpiexec, which gets an interrupt, too, and ends its processes."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def shared_threads(count: int) -> dict[str, str]:
    """Environment variables by which as many processes share the cores of this machine.

    Args:
        count: The number of processes.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return dict.fromkeys(_THREADS, str(max(1, cores // count)))
