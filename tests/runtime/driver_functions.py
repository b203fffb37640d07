"""The functions of CUDA's driver that native code calls, as its manual describes them, for `InterpretingDriver`.

Kernels are given addresses, as by a driver. Where nothing lies at one of them (any more), the answer is
CUDA_ERROR_ILLEGAL_ADDRESS. Graphs hold copies of the parameters of their kernels, and run with these.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jit.runtime.cuda.driver import SYMBOLS, DriverFunctions

INVALID_VALUE, INVALID_HANDLE = 1, 400


class KernelNodeParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2, as the manual has it."""

    _fields_ = [
        ("func", ctypes.c_void_p),
        *[(f"{what}Dim{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "XYZ"],
        ("sharedMemBytes", ctypes.c_uint),
        *[(name, ctypes.c_void_p) for name in ("kernelParams", "extra", "kern", "ctx")],
    ]


@dataclass(frozen=True)
class GivenKernel:
    """A kernel with all that it is launched with."""

    function: int
    blocks: int
    threads: int
    operands: tuple[int, ...]
    geometry: bytes
    errors: int


@dataclass(eq=False)
class SimulatedGraph:
    """A graph: its kernels, and those that each waits for."""

    kernels: dict[int, GivenKernel] = field(default_factory=dict)
    after: dict[int, tuple[int, ...]] = field(default_factory=dict)


class DriverOfGraphs:
    """Functions with the signatures of CUDA's driver, which launch kernels one by one and as graphs.

    Args:
        sizes: The bytes of the operands and of the geometry that a function takes; None if there is no such function.
        run: Runs a kernel: 0 or an error.
    """

    def __init__(self, sizes: Callable[[int], tuple[int, int] | None], run: Callable[[GivenKernel], int]) -> None:
        self._sizes, self._run = sizes, run
        self.graphs: dict[int, SimulatedGraph] = {}
        self.executables: dict[int, SimulatedGraph] = {}
        self.replays = 0
        """How often graphs were launched."""
        self.updates = 0
        """How often one of their kernels was given other parameters."""
        self.streams: list[int] = []
        """The streams on which kernels and graphs were queued."""
        self.refused: dict[str, int] = {}
        """Errors that functions answer instead of doing anything, by their names."""
        self._handle = 1 << 40
        self.callables: dict[str, Any] = {}
        """The functions for ctypes, by their names."""

    def functions(self) -> DriverFunctions:
        """The addresses of the functions."""
        u, p, n = ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t
        signatures: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
            "cuLaunchKernel": (self._launch, (p, u, u, u, u, u, u, u, p, p, p)),
            "cuGraphCreate": (self._create, (p, u)),
            "cuGraphAddKernelNode_v2": (self._add, (p, p, p, n, p)),
            "cuGraphInstantiateWithFlags": (self._instantiate, (p, p, ctypes.c_ulonglong)),
            "cuGraphExecKernelNodeSetParams_v2": (self._set_parameters, (p, p, p)),
            "cuGraphLaunch": (self._replay, (p, p)),
            "cuGraphExecDestroy": (self.executables.pop, (p,)),
            "cuGraphDestroy": (self.graphs.pop, (p,)),
            "cuCtxSynchronize": (lambda: 0, ()),
        }
        return DriverFunctions(*(self._address(name, *signatures[name]) for name in SYMBOLS))

    def _address(self, name: str, function: Callable[..., Any], types: tuple[Any, ...]) -> int:
        def call(*arguments: Any) -> int:
            if name in self.refused:
                return self.refused[name]
            try:
                status = function(*(0 if a is None else a for a in arguments))
            except KeyError:
                return INVALID_HANDLE
            return status if isinstance(status, int) else 0

        made = self.callables[name] = ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    def _new(self, place: int) -> int:
        self._handle += 16
        ctypes.c_void_p.from_address(place).value = self._handle
        return self._handle

    # -- launches ------------------------------------------------------------------------------------------------

    def _launch(self, function: int, *rest: int) -> int:
        *grid, shared, stream, parameters, extra = rest
        self.streams.append(stream)
        given = self._given(function, grid[:3], grid[3:], parameters)
        return INVALID_VALUE if shared or extra or given is None else self._run(given)

    def _given(self, function: int, blocks: Any, threads: Any, parameters: int) -> GivenKernel | None:
        """A copy of what a kernel is launched with; None if it is nonsense."""
        sizes = self._sizes(function)
        if sizes is None or [*blocks[1:], *threads[1:]] != [1] * 4 or not blocks[0] or not 0 < threads[0] <= 1024:
            return None
        places = (ctypes.c_void_p * 3).from_address(parameters)
        operands, geometry = (ctypes.string_at(place, size) for place, size in zip(places, sizes, strict=False))
        errors = ctypes.c_uint64.from_address(places[2] or 0).value
        words = memoryview(operands).cast("Q").tolist()
        return GivenKernel(function, blocks[0], threads[0], tuple(words), geometry, errors)

    # -- graphs --------------------------------------------------------------------------------------------------

    def _create(self, place: int, flags: int) -> int:
        self.graphs[self._new(place)] = SimulatedGraph()
        return INVALID_VALUE if flags else 0

    def _add(self, place: int, graph: int, before: int, count: int, record: int) -> int:
        found = self.graphs[graph]
        given = self._of_record(record)
        waits = tuple((ctypes.c_uint64 * count).from_address(before)) if count else ()
        if given is None or not set(waits) <= found.kernels.keys():
            return INVALID_VALUE
        node = self._new(place)
        found.kernels[node], found.after[node] = given, waits
        return 0

    def _of_record(self, address: int) -> GivenKernel | None:
        r = KernelNodeParams.from_address(address)
        if r.sharedMemBytes or r.extra or r.kern or r.ctx:
            return None
        blocks, threads = [r.gridDimX, r.gridDimY, r.gridDimZ], [r.blockDimX, r.blockDimY, r.blockDimZ]
        return self._given(r.func, blocks, threads, r.kernelParams)

    def _instantiate(self, place: int, graph: int, flags: int) -> int:
        found = self.graphs[graph]
        self.executables[self._new(place)] = SimulatedGraph(dict(found.kernels), found.after)
        return INVALID_VALUE if flags else 0

    def _set_parameters(self, executable: int, node: int, record: int) -> int:
        found, given = self.executables[executable], self._of_record(record)
        if given is None or node not in found.kernels or found.kernels[node].function != given.function:
            return INVALID_VALUE
        found.kernels[node] = given
        self.updates += 1
        return 0

    def _replay(self, executable: int, stream: int) -> int:
        """Run the kernels, of those that do not wait any more the last one first: no order but theirs is promised."""
        found = self.executables[executable]
        self.replays += 1
        self.streams.append(stream)
        left = dict(found.after)
        while left:
            ready = [node for node, before in left.items() if not set(before) & left.keys()]
            del left[ready[-1]]
            if status := self._run(found.kernels[ready[-1]]):
                return status
        return 0
