"""Kernels on a GPU: a nest lowered to PTX, loaded by the driver, and launched on arrays there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from jit.ir.errors import CompileError

from ..gpu.device import DeviceKernel
from ..gpu.schedule import LaunchNumber
from ..kernels.codegen import check_status
from ..kernels.nest import Nest
from ..kernels.split import Split
from ..targets.target import Target
from .cublas_library import CublasFunctions
from .driver import DriverFunctions


class Driver(Protocol):
    """The part of a driver that loads kernels and launches them; see `CudaDriver`."""

    @property
    def functions(self) -> DriverFunctions | None:
        """The functions that native code calls; None if it cannot."""

    @property
    def cublas(self) -> CublasFunctions | None:
        """The functions of cuBLAS; None if there is none."""

    def attach(self) -> None:
        """Make ready for the functions to be called in this thread, for the current GPU."""

    def load(self, ptx: str, name: str) -> Any:
        """The function of this name in a PTX text."""

    def launch(
        self, function: Any, blocks: int, threads: int, arrays: Sequence[Any], geometry: Any, errors: Any
    ) -> None:
        """Queue a kernel."""

    def check(self, status: int, what: str) -> None:
        """Raise the error of a status of one of the functions, if it is one; `what` says what has failed."""


class CudaKernel:
    """A nest compiled for a GPU: callable with arrays of the layouts that the nest names.

    Args:
        kernel: What it computes, lowered for the GPU.
        driver: Loads it and launches it.
        module: `cupy`, or what stands for it.

    Raises:
        CompileError: The driver refuses the kernel.
    """

    def __init__(self, kernel: DeviceKernel, driver: Driver, module: Any) -> None:
        self.device_kernel = kernel
        self.handle, self.may_fail = _loaded(driver, self.device_kernel)
        self._driver, self._module = driver, module
        self._errors = module.zeros(1, "int32")

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Compute `outputs` from `inputs`; a kernel that may fail is waited for.

        Raises:
            DivisionError: An integer was divided by zero.
            DimError: An index is out of range.
        """
        self._launch(self.blocks, self._geometry, inputs, outputs)

    def at(self, blocks: int, geometry: Any) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """The same for other sizes, given what follows from these."""
        return partial(self._launch, blocks, geometry)

    @property
    def name(self) -> str:
        """The name of its entry."""
        return self.device_kernel.name

    @property
    def blocks(self) -> int:
        """The number of blocks that it is launched with."""
        return self.device_kernel.grid.blocks

    @property
    def threads(self) -> int:
        """The threads of each."""
        return self.device_kernel.grid.threads

    @property
    def numbers(self) -> Sequence[LaunchNumber]:
        """The numbers that it reads."""
        return self.device_kernel.numbers

    @cached_property
    def _geometry(self) -> Any:
        return self.device_kernel.geometry

    def _launch(self, blocks: int, geometry: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        errors = self._module.zeros(1, "int32") if self.may_fail else self._errors
        arrays = [*inputs, *outputs]
        self._driver.launch(self.handle, blocks, self.threads, arrays, geometry, errors)
        if self.may_fail:
            check_status(int(errors[0]))


class CudaKernels:
    """The kernels that a nest was split into: callable as one of them is.

    Args:
        work: What they compute.
        make: Compiles a nest.
        module: `cupy`, or what stands for it.
    """

    def __init__(self, work: Split, make: Callable[[Nest], CudaKernel], module: Any) -> None:
        self.calls = [(make(call.nest), call.operands) for call in work.calls]
        """Each with the numbers of its operands: inputs, outputs and temporaries are counted through."""
        self.temporaries = work.temporaries
        """The buffers that pass between them."""
        self._module = module

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Compute `outputs` from `inputs`."""
        between = [self._module.empty(buffer.sizes, buffer.dtype.numpy) for buffer in self.temporaries]
        arrays = [*inputs, *outputs, *between]
        for kernel, operands in self.calls:
            chosen, count = [arrays[i] for i in operands], len(kernel.device_kernel.nest.inputs)
            kernel(chosen[:count], chosen[count:])


_LOADED: WeakKeyDictionary[Driver, dict[tuple[Target, str], tuple[Any, bool]]] = WeakKeyDictionary()
"""The functions that drivers have loaded, by the LLVM IR that they were made of."""


def _loaded(driver: Driver, kernel: DeviceKernel) -> tuple[Any, bool]:
    """The function of a kernel, and whether it may fail; kernels that differ in sizes alone have one."""
    known = _LOADED.setdefault(driver, {})
    key = kernel.target, kernel.function.text(kernel.name)
    if key not in known:
        known[key] = driver.load(kernel.ptx, kernel.name), _REPORTS.search(kernel.ptx) is not None
    return known[key]


_REPORTS = re.compile(r"(?<![\w.])(atom|red)\.")
"""The instructions with which a kernel reports errors; one that cannot fail has none of them."""


class NoDriver:
    """The driver of a simulated device that nothing executes kernels for."""

    functions: DriverFunctions | None = None
    cublas: CublasFunctions | None = None

    def attach(self) -> None:
        """Do nothing: there are no functions."""

    def load(self, ptx: str, name: str) -> Any:
        """Refuse (CompileError) to load a kernel, so that operators run one by one."""
        raise CompileError(f"nothing executes the kernel {name} on the simulated device; run its operators one by one")

    def launch(
        self, function: Any, blocks: int, threads: int, arrays: Sequence[Any], geometry: Any, errors: Any
    ) -> None:
        """Do nothing: no function was loaded."""

    def check(self, status: int, what: str) -> None:
        """Do nothing: nothing has a status."""


_SIMULATED: list[Driver] = []


def use(driver: Driver) -> None:
    """Let a driver execute kernels on the simulated device from now on."""
    _SIMULATED[:] = [driver]


def simulated_driver() -> Driver:
    """The driver of the simulated device."""
    return _SIMULATED[0] if _SIMULATED else NoDriver()
