"""Memory that calls take: how far the resident set grows from nothing loaded to the peak of a later call."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jit.ir.errors import UsageError

CALLS = 4
"""The calls that are made: what is compiled late is compiled by then."""


def grown(make: Callable[[], Callable[[], Any]]) -> int:
    """The bytes by which the resident set grows from before `make` to the peak of the last call of what it makes.

    Pages that importing a library has touched are not counted. Elsewhere than on Linux the peak is that of all calls.
    """
    before = _fresh_peak()
    call = make()
    for _ in range(CALLS):
        _fresh_peak()
        call()
    return max(_peak() - before, 0)


def grown_alone(target: str, side: str, options: Sequence[str]) -> int:
    """The growth that one side of `jit bench` causes, in a process of its own.

    Args:
        target: The target of the command.
        side: "eager", "traced" or the name of a runtime.
        options: The command's options besides.

    Raises:
        UsageError: The process has failed.
    """
    command = [sys.executable, "-m", "jit", "bench", target, "--memory-of", side, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"the memory of {side} cannot be measured: {(done.stderr.strip() or 'no message')[-300:]}")
    return int(json.loads(done.stdout.splitlines()[-1]))


def _peak() -> int:
    """The largest resident set so far; the process that this one was forked from counts in getrusage, not in /proc."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _fresh_peak() -> int:
    """The resident set, from which the peak is counted anew."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()
