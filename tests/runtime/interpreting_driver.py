"""The driver of the simulated device: the interpreter executes the PTX that a driver would get, on its arrays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.runtime.cuda.driver import ILLEGAL_ADDRESS, driver_error
from jit.runtime.cuda.simulated import memory_at
from tests.ptx.launch import Loaded
from tests.ptx.memory import Memory
from tests.ptx.parser import parse

from .cublas_functions import SimulatedCublas
from .driver_functions import DriverOfGraphs, GivenKernel

INVALID_CONTEXT = 201
"""The status of a launch in a thread that knows no GPU."""
BROKEN = 999
"""The status of a kernel in which the interpreter has found something."""


class InterpretingDriver:
    """Loads and launches kernels by interpreting them; counts the launches, a product by cuBLAS as "cublas".

    Args:
        has_cublas: Whether there is cuBLAS.
    """

    def __init__(self, has_cublas: bool = True) -> None:
        self.launches: list[str] = []
        """The names of the kernels that were launched."""
        self._attached = threading.local()
        self._loaded: list[tuple[str, str]] = []
        self._found: Exception | None = None
        self.graphs = DriverOfGraphs(self._sizes, self._run)
        """What CUDA graphs were made and launched."""
        self.functions = self.graphs.functions()
        self.products = SimulatedCublas(lambda: self.launches.append("cublas"))
        """What cuBLAS was told."""
        self.cublas = self.products.functions() if has_cublas else None

    def forget(self) -> None:
        """Count anew."""
        self.launches.clear()
        self.graphs.replays = self.graphs.updates = 0

    def attach(self) -> None:
        """Note that the calling thread may launch kernels."""
        self._attached.ready = True

    def load(self, ptx: str, name: str) -> int:
        """The handle of a kernel."""
        self._loaded.append((ptx, name))
        return len(self._loaded)

    def _sizes(self, function: int) -> tuple[int, int] | None:
        """The bytes of the operands and of the geometry that a kernel takes."""
        if not 0 < function <= len(self._loaded):
            return None
        text, name = self._loaded[function - 1]
        operands, geometry, _ = parse(text).functions[name].parameters
        return operands.size, geometry.size

    def launch(
        self, function: int, blocks: int, threads: int, arrays: Sequence[Any], geometry: Any, errors: Any
    ) -> None:
        """Run a kernel."""
        self.attach()
        operands = tuple(array.data.ptr for array in arrays)
        self.check(self._run(GivenKernel(function, blocks, threads, operands, bytes(geometry), errors.data.ptr)), "it")

    def check(self, status: int, what: str) -> None:
        """Raise what a kernel has ended with."""
        found, self._found = self._found, None
        if found is not None:
            raise found
        if status:
            raise driver_error(status, f"error {status}", what)

    def _run(self, given: GivenKernel) -> int:
        """Run a kernel on copies of the allocations that its arrays lie in, and bring these back."""
        if not hasattr(self._attached, "ready"):
            return INVALID_CONTEXT
        text, name = self._loaded[given.function - 1]
        self.launches.append(name)
        memory, places, pointers = Memory(), {}, []
        for address in (*given.operands, given.errors):
            found = memory_at(address)
            if found is None:
                return ILLEGAL_ADDRESS
            if found.ptr not in places:
                raw = found.owner.ravel(order="K").view(np.uint8)
                places[found.ptr] = raw, memory.allocate(raw, name)
            pointers.append(places[found.ptr][1] + address - found.ptr)
        params: list[Any] = [np.array(pointers[:-1], np.int64).tobytes(), given.geometry, pointers[-1]]
        try:
            Loaded(text, memory).launch(name, given.blocks, given.threads, params)
        except Exception as error:  # no exception leaves a function that native code has called
            self._found = error
            return BROKEN
        for raw, address in places.values():
            raw[...] = memory.view(address)
        return 0
