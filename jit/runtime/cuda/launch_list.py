"""Kernels that are queued one after the other by one native call: as a CUDA graph once they have run a few times."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from jit.ir.errors import Error

from ..arrays.programs import locate
from .cublas import Cublas, cublas_error
from .cublas_products import CublasProduct
from .graphs import GraphRefused, LaunchGraph, are_used
from .launch_code import STEP, compiled, queue
from .launch_words import KernelLaunch, LaunchWords
from .launching import Driver

CALLS_BEFORE = 2
"""Calls after which a list becomes a graph: one that is called once is not worth it."""
FEWEST = 2
"""The fewest launches that are worth a graph: one is launched as fast by itself. Products by cuBLAS are in none: which
kernels it launches is its own affair."""


class LaunchList:
    """Launches in their order.

    Args:
        launches: At least one.
        words: Their words at the sizes of its calls.
        driver: Launches them.
        graphs_work: Says whether they may become a graph; asked when they are to.
        cublas: Computes the products among them.
    """

    def __init__(
        self, launches: Sequence[KernelLaunch], words: LaunchWords, driver: Driver, graphs_work: Callable[[], bool],
        cublas: Cublas | None = None,
    ) -> None:  # fmt: skip
        assert driver.functions is not None
        self.remark = ""
        """Why there is no graph although there was to be one."""
        self._launches, self._driver, self._functions = launches, driver, driver.functions
        self._words = words
        self._queue = compiled(queue)
        self._graph: LaunchGraph | None = None
        self._graphs_work = graphs_work
        self._cublas = cublas if any(isinstance(launch.kernel, CublasProduct) for launch in launches) else None
        can_be_graph = self._cublas is None and len(launches) >= FEWEST
        self._calls_before = CALLS_BEFORE if can_be_graph and are_used() else -1
        """The calls until a graph is made; negative if none is."""

    def __call__(self, bases: Any, stream: int) -> None:
        """Queue them on a stream; `bases` is a ctypes array of int64.

        Raises:
            AcceleratorError: The driver refuses a launch, or cuBLAS a product.
            OutOfMemoryError: cuBLAS has no memory left.
        """
        if self._calls_before >= 0:
            self._calls_before -= 1
            if self._calls_before < 0:
                self._make_graph()
        graph = self._graph
        if graph is not None and self._replayed(graph, bases, stream):
            return
        words, address = self._words, ctypes.addressof(bases)
        handle = 0 if self._cublas is None else self._cublas.handle(stream)
        status = self._queue(words.start, address, words.most, stream, self._functions.launch_kernel, handle)
        if status:
            self._fail(status)

    @property
    def is_graph(self) -> bool:
        """Whether calls launch a graph."""
        return self._graph is not None

    def _make_graph(self) -> None:
        if not self._graphs_work():
            self._drop_graph("a graph that was tried out has not worked")
            return
        try:
            self._graph = LaunchGraph(self._words, self._functions)
        except GraphRefused as refused:
            self._drop_graph(str(refused))

    def _replayed(self, graph: LaunchGraph, bases: Any, stream: int) -> bool:
        """Whether the graph was launched."""
        try:
            done = graph.queue(bases, stream)
        except GraphRefused as refused:
            self._drop_graph(str(refused))
            return False
        if not graph.is_worth:
            self._drop_graph("its arrays lie elsewhere in most calls")
        return done

    def _drop_graph(self, reason: str) -> None:
        self._graph = None
        self.remark = f"{len(self._launches)} kernels are launched one by one and not as a CUDA graph, because {reason}"

    def _fail(self, status: int) -> None:
        launch = self._launches[status // STEP - 1]
        try:
            if isinstance(launch.kernel, CublasProduct):
                raise cublas_error(status % STEP, launch.node.kind.removeprefix("aten::"))
            self._driver.check(status % STEP, f"the kernel {launch.kernel.name}")
        except Error as error:
            locate(error, launch.node)
            raise
