"""One process of `jit launch`: a program under the eyes of a small process that says how it has ended.

mpiexec runs this file by its path, without the package, once for each rank. When one of its programs ends badly,
mpiexec kills the others, and what it says of that need not name the one that was first. So this waits for the program,
says at once how it has ended, and only then ends itself, which is what mpiexec sees. The program dies with its watcher.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

VERDICT = "JIT_LAUNCH_VERDICT"
"""The environment variable that names the file into which the first process that fails writes its exit code."""
_NAMES = {
    "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
    "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
    "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "LOCAL_WORLD_SIZE": ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
"""Variables that programs for PyTorch read -> those of MPICH and of Open MPI."""


def known_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that programs for PyTorch read.

    Args:
        environment: That of a process that mpiexec has started.
    """
    found = {name: next((environment[o] for o in others if o in environment), None) for name, others in _NAMES.items()}
    return {name: value for name, value in found.items() if value is not None}


def _die_with_watcher() -> None:
    """Let the kernel kill this process when its parent dies; Linux alone does."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main(command: list[str]) -> int:
    """Run a command as one of the processes; its exit code, 128 and the number of the signal if one killed it.

    Args:
        command: The interpreter, the script and its arguments.
    """
    variables = known_variables(os.environ)
    environment = {**os.environ, **variables}
    if not sys.platform.startswith("linux"):
        os.execve(command[0], command, environment)
    child = subprocess.Popen(command, env=environment, close_fds=False, preexec_fn=_die_with_watcher)
    status = _waited(child)
    if status == 0:
        return 0
    code = status if status > 0 else 128 - status
    _say(code, variables)
    return code


def _waited(child: subprocess.Popen[bytes]) -> int:
    """The status of the program, which gets an interrupt, too, and decides what it means."""
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue


def _say(code: int, variables: Mapping[str, str]) -> None:
    how = f"exit code {code}" if code <= 128 else f"signal {code - 128} ({_name_of(code - 128)})"
    who = f"rank {variables.get('RANK', '?')} of {variables.get('WORLD_SIZE', '?')}"
    with contextlib.suppress(OSError, KeyError):
        with open(os.environ[VERDICT], "x") as file:
            file.write(str(code))
        print(f"jit launch: {who} ended with {how}; mpiexec ends the others", file=sys.stderr, flush=True)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
