"""The end of a process that works with others: none is left waiting for one that is gone.

Note [Ends]
    mpiexec ends all processes when one is killed, or ends without a farewell. What it does not see is an uncaught
    exception: Python would wait in `MPI_Finalize` for the others, which wait for it. So an uncaught exception is shown,
    and then MPI is told to end all. A process that ends in any other way says farewell: an exchange like the others in
    all of its groups, so that who still waits for it in another exchange learns that it is gone, see Note [Agreement].
"""

from __future__ import annotations

import atexit
import math
import os
import sys
import time
from types import TracebackType
from typing import Any

from jit.ir.errors import DistributedError

from .agreement import agree
from .groups import GROUPS, WORLD, Team
from .library import mpi
from .works import PROGRESS, Work

FAREWELL = "the end of its program"
SAID = 0.5
"""The seconds in which mpiexec passes on what this process and the others say: it ends them without looking."""
_FAILED = 1


class Ends:
    """The acts of this process when it ends; none before `watch`."""

    def __init__(self) -> None:
        self._process = -1
        """The process whose end matters; those that it forks are none of MPI's."""

    def watch(self) -> None:
        """Let the other processes learn of the end of this one, from now on."""
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        shown = sys.excepthook

        def show(kind: type[BaseException], error: BaseException, trail: TracebackType | None) -> None:
            shown(kind, error, trail)
            if os.getpid() == self._process:
                abort(f"has died of {kind.__name__}")

        sys.excepthook = show
        atexit.register(self._leave)

    def _leave(self) -> None:
        if os.getpid() != self._process or mpi().Is_finalized() or WORLD not in GROUPS:
            return
        try:
            farewell()
        except DistributedError as error:
            abort(f"has ended, and others have not: {error}")


def farewell() -> None:
    """Wait until all processes end here.

    Raises:
        DistributedError: One of them does something else, or does not come.
    """
    groups = [group for group in GROUPS.values() if group.size > 1]
    works = [PROGRESS.begin(Work(group, FAREWELL, _goodbye(group))) for group in groups]
    for work in works:
        work.wait(math.inf)  # the others may have work of their own to do; who waits for this process learns of it


def _goodbye(group: Team) -> Any:
    if group.headers is not None:
        yield from agree(group, FAREWELL)
    else:
        yield group.data.Ibarrier()


def abort(what: str) -> None:
    """End all processes, because of what has happened to this one.

    Args:
        what: It, for the text that is shown.
    """
    world = mpi().COMM_WORLD
    if world.size == 1:
        return
    print(f"jit.distributed: rank {world.rank} of {world.size} {what}; all processes end", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(SAID)
    world.Abort(_FAILED)


ENDS = Ends()
