"""`jit.cuda`: NVIDIA's GPUs, with the names of `torch.cuda`.

Tensors on a GPU are arrays of CuPy's (`pip install 'jit-tracer[cuda]'`). `JIT_CUDA=simulate` stands a simulated device
in for a GPU, whose arrays lie in the memory of the CPU, for tests.

>>> import jit
>>> jit.cuda.is_available() or "GPU" in jit.cuda.obstacle() or "CuPy" in jit.cuda.obstacle()
True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from .eager import context
from .eager.generators import manual_seed as _manual_seed
from .eager.generators import seed as _seed
from .ir.devices import CURRENT, accelerator, resolve
from .ir.devices import device as _Device
from .ir.errors import AcceleratorError as AcceleratorError
from .ir.errors import OutOfMemoryError as OutOfMemoryError
from .ir.errors import UsageError
from .ir.op import Op
from .runtime.arrays.execute import TRANSFERS
from .runtime.cuda import devices as _devices

_devices.announce_devices()


@cache
def _warn_of_transfer(op: Op) -> None:
    """Say once of each operator that it leaves the GPU."""
    context.warn(
        f"{op.schema.name} runs on the CPU: its operands are copied there, and its result back to the GPU. Where more "
        "follows that could run there, move the operands with .cpu() before"
    )


TRANSFERS.append(_warn_of_transfer)

# -- devices -------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether there is a GPU that can be used, or one is simulated."""
    return device_count() > 0


_initialized = False
"""Whether there are generators on GPUs whose states to save, as programs that recompute ask: there are none."""


def is_initialized() -> bool:
    """Whether a GPU has been used already."""
    return _devices.is_open()


def device_count() -> int:
    """The number of GPUs that can be used."""
    counted = _devices.device_count()
    return counted if isinstance(counted, int) else 0


def obstacle() -> str:
    """A sentence that says why there is no GPU that can be used; "" if there is one."""
    counted = _devices.device_count()
    return "" if isinstance(counted, int) else counted


def driver_version() -> str:
    """The newest version of CUDA that the driver knows, "CUDA 13.0"; "simulated" on the simulated device.

    Raises:
        UsageError: No GPU can be used.
    """
    resolve("cuda")
    return _devices.driver_version()


def current_device() -> int:
    """The number of the GPU that "cuda" means.

    Raises:
        UsageError: No GPU can be used.
    """
    return resolve("cuda").index or 0


def set_device(device: Any) -> None:
    """Set the GPU that "cuda" means, in this thread or task.

    Args:
        device: The GPU, or its number.

    Raises:
        UsageError: There is no such GPU.
    """
    CURRENT.set(_index(device))


@contextmanager
def device(device: Any) -> Iterator[None]:
    """A block in which "cuda" means another GPU; None, or a negative number, changes nothing.

    Args:
        device: The GPU, or its number.

    Raises:
        UsageError: There is no such GPU.
    """
    is_left = device is None or (isinstance(device, int) and device < 0)
    token = CURRENT.set(CURRENT.get() if is_left else _index(device))
    try:
        yield
    finally:
        CURRENT.reset(token)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was asked to.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    _library(device).synchronize()


def get_device_name(device: Any = None) -> str:
    """The name of a GPU.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _library(device).name()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU, major and minor number: (9, 0).

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _library(device).capability()


class DeviceProperties(NamedTuple):
    """The facts of a GPU."""

    name: str
    """The name that its maker gave it."""
    major: int
    """The first number of its compute capability."""
    minor: int
    """The second one."""
    total_memory: int
    """The bytes of its memory."""
    multi_processor_count: int
    """The number of its multiprocessors."""
    warp_size: int
    """The number of threads that run in step."""
    max_threads_per_multi_processor: int
    """The most threads that a multiprocessor holds."""
    shared_memory_per_block: int
    """The bytes of memory that the threads of a block share."""
    L2_cache_size: int
    """The bytes of its cache."""


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The facts of a GPU.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    library = _library(device)
    found = library.properties()
    names = ("totalGlobalMem", "multiProcessorCount", "warpSize", "maxThreadsPerMultiProcessor", "sharedMemPerBlock",
             "l2CacheSize")  # fmt: skip
    return DeviceProperties(library.name(), *library.capability(), *(int(found[name]) for name in names))


# -- memory --------------------------------------------------------------------------------------------------------


def memory_allocated(device: Any = None) -> int:
    """The bytes of a GPU's memory that arrays take up now.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _library(device).memory_allocated() if device is not None or is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of a GPU's memory that arrays took up at a time since `reset_peak_memory_stats`.

    Whichever of the two is called first starts the count, which makes every allocation a little slower.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _library(device).max_memory_allocated() if device is not None or is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let `max_memory_allocated` count anew.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    _library(device).reset_peak_memory()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes of a GPU's memory that are free, and all that it has.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return _library(device).memory()


def empty_cache() -> None:
    """Give memory back that was kept for further arrays; without a GPU there is none."""
    for index in range(device_count() if is_initialized() else 0):
        _devices.open_device(index).empty_cache()


# -- streams -------------------------------------------------------------------------------------------------------


class Stream:
    """A queue of work for a GPU; what is queued in different ones may run at the same time.

    Work goes to the current stream, see `stream`. A tensor that another stream computes has to be waited for.

    Args:
        device: The GPU, or its number; the current one if left out.
        priority: A negative number for work that goes first.

    Raises:
        UsageError: No GPU can be used.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = _Device("cuda", _index(device))
        library = self._library()
        with library.current():
            self._made = library.module.cuda.Stream(non_blocking=True, priority=priority)

    @classmethod
    def _of(cls, device: Any, choose: Any) -> Stream:
        """The stream that `choose` takes from `cupy.cuda`."""
        found = object.__new__(cls)
        found.device = _Device("cuda", _index(device))
        library = found._library()
        with library.current():
            found._made = choose(library.module.cuda)
        return found

    def _library(self) -> Any:
        return _devices.open_device(self.device.index or 0)

    @property
    def cuda_stream(self) -> int:
        """The address by which CUDA knows it."""
        return int(self._made.ptr)

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        _note_in_trace()
        self._made.synchronize()

    def query(self) -> bool:
        """Whether all its work is done."""
        _note_in_trace()
        return bool(self._made.done)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one if none is given, in this stream, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let further work in this stream wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let further work in this stream wait for all that is in another one now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<jit.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A mark in a stream: others can wait for it, and the time between two of them is measured on the GPU.

    Args:
        enable_timing: Whether `elapsed_time` will be asked for.
        blocking: Whether `synchronize` lets the CPU sleep.
        interprocess: Whether other processes may use it.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.enable_timing = enable_timing
        self._flags = {"block": blocking, "disable_timing": not enable_timing, "interprocess": interprocess}
        self._made: Any = None
        """The event of the library, made on the device where it is first recorded."""

    def record(self, stream: Stream | None = None) -> None:
        """Mark what is in a stream now, the current one if none is given.

        Raises:
            UsageError: No GPU can be used.
        """
        _note_in_trace()
        stream = current_stream() if stream is None else stream
        library = stream._library()
        with library.current():
            if self._made is None:
                self._made = library.module.cuda.Event(**self._flags)
            self._made.record(stream._made)

    def wait(self, stream: Stream | None = None) -> None:
        """Let further work in a stream, the current one if none is given, wait for the mark."""
        _note_in_trace()
        if self._made is not None:
            (current_stream() if stream is None else stream)._made.wait_event(self._made)

    def synchronize(self) -> None:
        """Wait until all that was marked is done."""
        _note_in_trace()
        if self._made is not None:
            self._made.synchronize()

    def query(self) -> bool:
        """Whether all that was marked is done."""
        _note_in_trace()
        return self._made is None or bool(self._made.done)

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this event to a later one, which is waited for.

        Raises:
            UsageError: One of them was not recorded, or was made without `enable_timing=True`.
        """
        _note_in_trace()
        if not (self.enable_timing and end_event.enable_timing):
            raise UsageError("elapsed_time: both events must measure time; make them with enable_timing=True")
        if self._made is None or end_event._made is None:
            raise UsageError("elapsed_time: one of the events marks nothing; record() both of them first")
        self.synchronize()
        end_event.synchronize()
        return float(_library(None).module.cuda.get_elapsed_time(self._made, end_event._made))


def current_stream(device: Any = None) -> Stream:
    """The stream to which work on a GPU goes.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return Stream._of(device, lambda cuda: cuda.get_current_stream())


def default_stream(device: Any = None) -> Stream:
    """The stream to which work on a GPU goes unless another one is chosen.

    Args:
        device: The GPU, or its number; the current one if left out.

    Raises:
        UsageError: No GPU can be used.
    """
    return Stream._of(device, lambda cuda: cuda.Stream.null)


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """A block in which work on the GPU of a stream goes to it, and "cuda" means that GPU; None changes nothing."""
    _note_in_trace()
    if stream is None:
        yield
        return
    with device(stream.device), stream._library().current(), stream._made:
        yield


def set_stream(stream: Stream) -> None:
    """Let work on the GPU of a stream go to it from now on."""
    _note_in_trace()
    with stream._library().current():
        stream._made.use()


def _note_in_trace() -> None:
    """Let a function that is being traced run in Python at every call: recordings know nothing of streams."""
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_impure("uses a stream of a GPU")


# -- random numbers ------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seed the random numbers, which are the same on every device: `jit.manual_seed`."""
    _manual_seed(seed)


def seed() -> None:
    """Seed the random numbers with a number that nobody knows: `jit.seed`."""
    _seed()


manual_seed_all, seed_all = manual_seed, seed


def _index(device: Any) -> int:
    return resolve(accelerator(device)).index or 0


def _library(device: Any) -> Any:
    return _devices.open_device(_index(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes with bfloat16.

    Args:
        including_emulation: Accepted and ignored.
    """
    return is_available() and get_device_capability() >= (8, 0)


def init() -> None:
    """Nothing: the GPU is opened where it is needed."""


def ipc_collect() -> None:
    """Nothing: memory is not shared with other processes."""


def memory_reserved(device: Any = None) -> int:
    """The bytes that tensors on the GPU take.

    Args:
        device: Which GPU.
    """
    return memory_allocated(device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that tensors on the GPU took.

    Args:
        device: Which GPU.
    """
    return max_memory_allocated(device)


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
