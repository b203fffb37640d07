"""CUDA graphs of lists of launches: what the driver has to be told once instead of at every call.

A graph is built node by node, by the driver's functions, and not by capturing a stream: CuPy refuses to capture what
its libraries do (products among them), and a captured graph holds the addresses of one call. One that is built has its
addresses changed before each launch, see Note [A replay] in `launch_code`. So results may be anywhere, and nothing
that Python holds is written again.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any

from .driver import DriverFunctions, is_blocking
from .launch_code import STEP, compiled, replay
from .launch_words import LaunchHead, LaunchWords

SWITCH = "JIT_CUDA_GRAPHS"
"""The environment variable that does without graphs, with the value "0"."""
WATCHED = 16
"""Replays after which a graph is dropped if more than half of its kernels had to be told other addresses each time."""


class NodeParameters(ctypes.Structure):
    """CUDA's CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("blocks", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class GraphRefused(Exception):
    """The driver does not make a graph, or does not launch it; nothing has been queued."""


class LaunchGraph:
    """A list of launches as a CUDA graph, in which each kernel waits for the one before.

    Args:
        words: The list.
        functions: The driver's.

    Raises:
        GraphRefused: The driver does not make it.
    """

    def __init__(self, words: LaunchWords, functions: DriverFunctions) -> None:
        self._words, self._functions = words, functions
        self._graph = _call(functions.create_graph, ctypes.c_uint(0))
        weakref.finalize(self, _destroy, functions, functions.destroy_graph, self._graph).atexit = False
        self._nodes = (ctypes.c_int64 * (3 * len(words.starts)))()
        self._kept: list[Any] = []
        self._changed = ctypes.c_int64(0)
        self._replays = 0
        self._lock = threading.Lock()
        for number, head in enumerate(words.heads):
            self._add(number, head)
        self._executable = _call(functions.instantiate, self._graph, ctypes.c_ulonglong(0))
        weakref.finalize(self, _destroy, functions, functions.destroy_executable, self._executable).atexit = False

    def _add(self, number: int, head: LaunchHead) -> None:
        """Add a launch behind the one before; its addresses are told before the first replay."""
        held = (ctypes.c_int64 * (1 + head.operands))()
        start = ctypes.addressof(held)
        pointers = (ctypes.c_void_p * 3)(start + 8, head.geometry, start)
        grid = (ctypes.c_uint * 3)(head.blocks, 1, 1), (ctypes.c_uint * 3)(head.threads, 1, 1)
        record = NodeParameters(head.function, *grid, 0, ctypes.addressof(pointers), None, None, None)
        before = (ctypes.c_void_p * min(number, 1))(*self._nodes[3 * number - 3 : 3 * number : 3])
        node = _call(
            self._functions.add_kernel_node, self._graph, ctypes.cast(before, ctypes.c_void_p),
            ctypes.c_size_t(min(number, 1)), ctypes.byref(record),
        )  # fmt: skip
        assert node.value is not None
        self._nodes[3 * number : 3 * number + 3] = [node.value, ctypes.addressof(record), start]
        self._kept += [held, pointers, record]

    def queue(self, bases: Any, stream: int) -> bool:
        """Queue the launches with these bases; False, and nothing is done, while another thread does.

        Raises:
            GraphRefused: The driver does not launch it, and nothing has been queued.
        """
        if not self._lock.acquire(False):
            return False
        try:
            self._replays += 1
            status = compiled(replay)(
                self._words.start, ctypes.addressof(bases), ctypes.addressof(self._nodes),
                self._executable.value, stream, self._functions.set_parameters,
                self._functions.launch_graph, ctypes.addressof(self._changed),
            )  # fmt: skip
        finally:
            self._lock.release()
        if status:
            raise GraphRefused(f"its launch ended with error {status % STEP}")
        return True

    @property
    def is_worth(self) -> bool:
        """Whether most kernels find their operands where the last call had them."""
        return self._replays < WATCHED or 2 * self._changed.value <= self._replays * len(self._words.starts)


def are_used() -> bool:
    """Whether graphs are made: not while each kernel is waited for, to learn which one fails."""
    return os.environ.get(SWITCH, "") != "0" and not is_blocking()


def _call(address: int, *arguments: Any) -> ctypes.c_void_p:
    """The handle that a function of the driver makes, and stores where its first parameter says."""
    made = ctypes.c_void_p()
    if status := ctypes.CFUNCTYPE(ctypes.c_int)(address)(ctypes.byref(made), *arguments):
        raise GraphRefused(f"the driver answers {status}")
    return made


def _destroy(functions: DriverFunctions, address: int, handle: ctypes.c_void_p) -> None:
    """Destroy what a function of the driver has made, once the GPU is done with it."""
    ctypes.CFUNCTYPE(ctypes.c_int)(functions.synchronize)()
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)(handle)
