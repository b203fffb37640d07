"""Runs adversarial cases, each in a process of its own: `python -m tests.adversarial.run_case cases_state global_list`.

Without a case it serves many: a line `MODULE CASE` is answered by a line of JSON. What every case imports is imported
once then, and each case runs in a fork of that.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

from jit.eager import hot
from tests.adversarial import trial

SECONDS = 120
ROOMS = ("jit.autograd", "jit.nn", "jit.optim", "jit.passes", "jit.runtime", "jit.tracing")
"""Packages that nearly every case imports."""


def main() -> int:
    """Run the case; returns 0 if the traced function equals the eager one or raises what is documented, else 1."""
    if len(sys.argv) not in (1, 3):
        sys.exit("usage: python -m tests.adversarial.run_case [MODULE CASE]")
    hot.MOST = 0  # eager mode, which others are compared with bit for bit, is numpy's
    if len(sys.argv) == 1:
        serve()
        return 0
    return run(*sys.argv[1:])


def run(module: str, name: str) -> int:
    """Run a case in this process."""
    importlib.import_module(f"tests.adversarial.{module}")
    try:
        print(trial.run(name, module))
    except AssertionError as error:
        print(error)
        return 1
    return 0


def serve() -> None:
    """Answer each line with the exit status of the case, negative if a signal has ended it, and what it printed."""
    for room in ROOMS:
        for each in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            importlib.import_module(each.name)
    for line in sys.stdin:
        status, text = forked(*line.split())
        print(json.dumps({"returncode": status, "output": text}), flush=True)


def forked(module: str, name: str) -> tuple[int, str]:
    """Run a case in a fork of this process."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = os.fork()
        if not child:
            _run_and_end(module, name, output)
        status = _waited_for(child)
        output.seek(0)
        return status, output.read()


def _run_and_end(module: str, name: str, output: Any) -> None:
    """Run a case, print to a file, and end the process, whatever happens."""
    status = 1
    try:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        status = run(module, name)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _waited_for(child: int) -> int:
    """The exit status of a child, which is ended if it takes too long."""
    deadline = time.monotonic() + SECONDS
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(found[1])


if __name__ == "__main__":
    sys.exit(main())
