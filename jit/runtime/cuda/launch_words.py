"""A list of launches as native code reads it, see Note [A list of launches] in `launch_code`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jit.ir import Node

from .launching import CudaKernel


class KernelLaunch(NamedTuple):
    """A launch of a list."""

    kernel: CudaKernel
    errors: tuple[int, int]
    """The place of its errors: a base, and a byte offset."""
    operands: Sequence[tuple[int, int]]
    """The places of what it reads, then of what it writes, likewise."""
    node: Node
    """The node that it computes, for errors."""


class LaunchHead(NamedTuple):
    """The words of a launch before those of its errors."""

    function: int
    blocks: int
    threads: int
    geometry: int
    operands: int


class LaunchWords:
    """The words of a list, and what their addresses point to.

    Args:
        launches: At least one.
    """

    def __init__(self, launches: Sequence[KernelLaunch]) -> None:
        self._geometries = [launch.kernel.device_kernel.geometry for launch in launches]
        self.heads = [_head(*pair) for pair in zip(launches, self._geometries, strict=True)]
        self.most = max(head.operands for head in self.heads)
        """The most operands of a launch."""
        words: list[int] = []
        for head, launch in zip(self.heads, launches, strict=True):
            words += [*head, *launch.errors, *(word for place in launch.operands for word in place)]
        self._words = np.array([*words, 0], np.int64)
        self.start: int = self._words.ctypes.data
        """The address of the first word."""


def _head(launch: KernelLaunch, geometry: Any) -> LaunchHead:
    kernel = launch.kernel
    grid = kernel.device_kernel.grid
    return LaunchHead(kernel.handle, grid.blocks, grid.threads, ctypes.addressof(geometry), len(launch.operands))
