"""cuDNN, by NVIDIA's package `cudnn`: whether it is here, and its graphs, which are built once and run often.

Note [Stations]
    cuDNN wants a handle in the hands of one thread at a time, and graphs are built for a handle. So a thread works at
    a station, which is a handle and the stream that this was last told; when the thread ends, the station is free for
    another thread. A kernel builds its graph once for each station that it is run at, which mostly is one.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jit.ir.errors import AcceleratorError, CompileError
from jit.ir.settings import SETTINGS

SWITCH = "JIT_CUDNN"
"""The environment variable that does without cuDNN, with the value "0"."""
ALIGNMENT = 16
"""Bytes: what graphs promise of addresses, and of the strides of queries, keys and values."""
NAMES = {"float16": "HALF", "bfloat16": "BFLOAT16", "float32": "FLOAT"}
"""cuDNN's names for the dtypes that it is asked to compute in."""
FROM_PYTHON = ("sdpa_fwd_prefill", "sdpa_bwd_sm", "frost")
"""The beginnings of the names of engines that the package compiles itself, which takes seconds."""
REFUSALS = (RuntimeError, ValueError, TypeError, AttributeError)
"""Errors of the package besides its own, in building a graph; the last two are an older one's, which lacks much."""


@cache
def installed() -> Any:
    """The package `cudnn`, if it finds its library and a GPU; else None."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        import cudnn  # type: ignore[import-not-found,unused-ignore]

        cudnn.destroy_handle(cudnn.create_handle())
    except Exception:  # whatever is missing, kernels of this package do the work
        return None
    return cudnn


_STANDING_IN: list[Any] = []


def use(frontend: Any) -> None:
    """Let this stand for the package `cudnn` on the simulated device from now on; None: there is no cuDNN."""
    _STANDING_IN[:] = [frontend]


def standing_in() -> Any:
    """The package's stand-in on the simulated device; None if there is none."""
    return _STANDING_IN[0] if _STANDING_IN else None


class CudnnDevice:
    """cuDNN on one GPU.

    Args:
        frontend: The package `cudnn`, or what stands for it; None if there is none.
        module: `cupy`, or what stands for it.
    """

    def __init__(self, frontend: Any, module: Any) -> None:
        self.frontend, self.module = frontend, module
        self._here, self._free = threading.local(), list[Station]()

    def is_on(self) -> bool:
        """Whether it is to be used."""
        return self.frontend is not None and SETTINGS.cudnn

    def choice(self, arrays: Sequence[Any]) -> tuple[bool, ...]:
        """All besides layouts that decides on a graph for arrays; nothing if cuDNN is not to be used."""
        if not self.is_on():
            return ()
        return SETTINGS.allow_tf32, SETTINGS.deterministic, *(is_aligned(array) for array in arrays)

    def station(self) -> Station:
        """The station of this thread, whose work is queued on the current stream."""
        seat = getattr(self._here, "seat", None)
        if seat is None:
            seat = self._here.seat = Seat(self._free, self._free.pop() if self._free else self._new_station())
        station: Station = seat.station
        stream = self.module.cuda.get_current_stream().ptr
        if stream != station.stream:
            self.frontend.set_stream(handle=station.handle, stream=stream)
            station.stream = stream
        return station

    def _new_station(self) -> Station:
        return Station(self.frontend.create_handle())

    def new_graph(self, station: Station, dtype: str) -> Any:
        """A graph without nodes, of tensors of a dtype, which computes in float32."""
        kinds, io = self.frontend.data_type, self.data_type(dtype)
        return self.frontend.pygraph(
            handle=station.handle, io_data_type=io, intermediate_data_type=kinds.FLOAT, compute_data_type=kinds.FLOAT
        )

    def data_type(self, dtype: str) -> Any:
        """cuDNN's name for a dtype.

        Raises:
            CompileError: It computes nothing in this dtype.
        """
        if dtype not in NAMES:
            raise CompileError(f"cuDNN computes nothing in {dtype}; a kernel of this package does")
        return getattr(self.frontend.data_type, NAMES[dtype])

    def build(self, graph: Any, exact: bool) -> None:
        """Choose how a graph is computed.

        Args:
            graph: It, with all its nodes.
            exact: Whether float32 is not to be rounded for tensor cores.
        """
        notes, modes = self.frontend.numerical_note, self.frontend.heur_mode
        barred = [notes.REDUCED_PRECISION_REDUCTION]
        barred += [notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS] if exact else []
        barred += [notes.NONDETERMINISTIC] if SETTINGS.deterministic else []
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([modes.A, modes.FALLBACK])
        graph.deselect_engines(list(FROM_PYTHON))
        graph.deselect_numeric_notes(barred)
        graph.check_support()
        graph.build_plans()


class Station:
    """A handle, and the stream that it was last told; see Note [Stations].

    Args:
        handle: cuDNN's.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.stream: int | None = None


class Seat:
    """A thread's hold on a station, which it gives back by its end.

    Args:
        free: Where stations go.
        station: What it holds.
    """

    def __init__(self, free: list[Station], station: Station) -> None:
        self.station, self._free = station, free

    def __del__(self) -> None:
        self._free.append(self.station)


class CudnnKernel:
    """A graph that runs on arrays, built at the station of this thread at once.

    Args:
        cudnn: The GPU's.
        make: Makes the graph at a station and builds it; its tensors' numbers are 1, 2, ... in the order of addresses.

    Raises:
        CompileError: cuDNN refuses it.
    """

    def __init__(self, cudnn: CudnnDevice, make: Callable[[Station], Any]) -> None:
        self._cudnn, self._make = cudnn, make
        self._built: dict[Station, BuiltGraph] = {}
        self._at(cudnn.station())

    def _at(self, station: Station) -> BuiltGraph:
        return self._built.get(station) or self._built.setdefault(station, self._new(station))

    def _new(self, station: Station) -> BuiltGraph:
        """The graph, built; whatever error says that it cannot be is a refusal, that of an older package, too."""
        refusals = self._cudnn.frontend.cudnnGraphNotSupportedError, *REFUSALS
        try:
            return BuiltGraph(self._make(station))
        except refusals as error:
            raise CompileError(f"cuDNN refuses ({_first_line(error)}); a kernel of this package does it") from error

    def run(self, arrays: Sequence[Any]) -> None:
        """Queue it on the current stream.

        Raises:
            AcceleratorError: cuDNN could not run it.
        """
        station = self._cudnn.station()
        built = self._at(station)
        workspace = self._cudnn.module.empty(built.workspace, "int8") if built.workspace else None
        place = 0 if workspace is None else workspace.data.ptr
        try:
            built.run([array.data.ptr for array in arrays], place, station.handle)
        except RuntimeError as error:
            raise AcceleratorError(f"cuDNN could not run a graph ({_first_line(error)}); set {SWITCH}=0") from error


class BuiltGraph:
    """A graph that has a plan.

    Args:
        graph: It.
    """

    def __init__(self, graph: Any) -> None:
        self._graph, self._shortcut = graph, _NOT_LOOKED_FOR
        self.workspace = int(graph.get_workspace_size())
        """The bytes of memory that it works in."""

    def run(self, addresses: Sequence[int], workspace: int, handle: Any) -> None:
        """Queue it on the handle's stream, given the addresses of its tensors in the order of their numbers."""
        if self._shortcut is _NOT_LOOKED_FOR:
            self._shortcut = _shortcut(self._graph, len(addresses))
        if self._shortcut is None:
            self._graph.execute(dict(enumerate(addresses, 1)), workspace, handle=handle)
        else:
            self._shortcut(addresses, workspace, handle)


_NOT_LOOKED_FOR: Any = object()


def _shortcut(graph: Any, count: int) -> Callable[[Sequence[int], int, Any], None] | None:
    """The function behind `execute` of newer packages, which checks in Python for 40 us; None if it is not as known."""
    try:
        if graph.selected_engine is not None or [*graph._variant_pack_uids()] != [*range(1, count + 1)]:
            return None
        execute, plan = graph._lowered_graph._execute_with_raw_ptrs, graph._plans[graph._plan_index].cpp_index
    except (AttributeError, IndexError, TypeError):
        return None
    array = (ctypes.c_void_p * count)()
    place = ctypes.addressof(array)

    def run(addresses: Sequence[int], workspace: int, handle: Any) -> None:
        array[:] = [*addresses]
        execute(place, count, workspace, handle.backend_handle, -1 if plan is None else plan)

    return run


def is_aligned(array: Any) -> bool:
    """Whether an array begins where cuDNN may read several elements at once."""
    return not array.data.ptr % ALIGNMENT


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
