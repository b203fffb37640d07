"""`torch.multiprocessing`: Python's, whose processes get copies of tensors; and `spawn`, which starts several."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any

from jit.as_torch.ledger import LEDGER


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: processes get copies.

    Args:
        new_strategy: Accepted and ignored.
    """
    LEDGER.note("torch.multiprocessing gives processes copies of tensors; share_memory_() does not share here")


def get_sharing_strategy() -> str:
    """The name of the only way: that PyTorch calls so."""
    return "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names of all ways."""
    return {"file_descriptor"}


def spawn(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> Any:  # fmt: skip
    """Start processes that call `fn(number, *args)`, and wait for them.

    Args:
        fn: A function of a module.
        args: What it takes after the number of its process.
        nprocs: The number of processes.
        join: Wait for them, or return them.
        daemon: Whether they end with this process.
        start_method: How processes are started.

    Raises:
        RuntimeError: One of them failed.
    """
    kind: Any = multiprocessing.get_context(start_method)
    processes = [kind.Process(target=fn, args=(number, *args), daemon=daemon) for number in range(nprocs)]
    for each in processes:
        each.start()
    if not join:
        return processes
    for each in processes:
        each.join()
    failed = [number for number, each in enumerate(processes) if each.exitcode]
    if failed:
        raise RuntimeError(f"process {failed[0]} of torch.multiprocessing.spawn ended with an error; its text is above")
    return None
