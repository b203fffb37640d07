"""CUDA's driver: loads the PTX of kernels and launches them, by way of `libcuda`, which every driver brings.

What is called here is what tests stand in for on the simulated device (`launching.use`).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.ir.errors import AcceleratorError, CompileError, Error, OutOfMemoryError

if TYPE_CHECKING:
    from .cublas_library import CublasFunctions

OUT_OF_MEMORY = 2
ILLEGAL_ADDRESS = 700
BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""The environment variable with which the driver waits for each kernel."""


class DriverFunctions(NamedTuple):
    """Addresses of functions of the driver, in the order of `SYMBOLS`."""

    launch_kernel: int
    create_graph: int
    add_kernel_node: int
    instantiate: int
    set_parameters: int
    launch_graph: int
    destroy_executable: int
    destroy_graph: int
    synchronize: int


SYMBOLS = (
    "cuLaunchKernel", "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags",
    "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy", "cuCtxSynchronize",
)  # fmt: skip
"""The names of these functions in the driver, which has them since CUDA 12.0."""


class CudaDriver:
    """The driver of the GPUs of this machine.

    Args:
        module: `cupy`, which says on which stream work is queued.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._driver = _libcuda()
        self._attached = threading.local()

    def attach(self) -> None:
        """Let the driver know the current GPU's context in this thread, which CuPy alone does when it runs a kernel."""
        runtime, attached = self._module.cuda.runtime, self._attached.__dict__
        device = runtime.getDevice()
        if device not in attached:
            runtime.free(0)
            attached[device] = True

    def load(self, ptx: str, name: str) -> int:
        """The function of this name in a PTX text; it stays loaded.

        Raises:
            CompileError: The driver refuses the text.
        """
        self.attach()
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        refusal = self._driver.cuModuleLoadData(ctypes.byref(module), ptx.encode() + b"\0")
        if refusal:
            raise CompileError(f"the CUDA driver refuses the kernel {name} ({self._words(refusal)}); run it on the CPU")
        self.check(self._driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), name)
        assert function.value is not None
        return function.value

    def launch(
        self, function: int, blocks: int, threads: int, arrays: Sequence[Any], geometry: Any, errors: Any
    ) -> None:
        """Queue a kernel on the current stream.

        Args:
            function: What `load` returned.
            blocks: The number of blocks.
            threads: The threads of each.
            arrays: The buffers, inputs then outputs.
            geometry: The numbers that it is launched with, a ctypes array.
            errors: An int32 array of one element, or'ed with the errors.
        """
        self.attach()
        data = (ctypes.c_uint64 * max(len(arrays), 1))(*(array.data.ptr for array in arrays))
        where = ctypes.c_uint64(errors.data.ptr)
        arguments = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (data, geometry, where)))
        stream = ctypes.c_void_p(self._module.cuda.get_current_stream().ptr)
        status = self._driver.cuLaunchKernel(
            ctypes.c_void_p(function), blocks, 1, 1, threads, 1, 1, 0, stream, arguments, None
        )
        self.check(status, "a kernel")

    @cached_property
    def functions(self) -> DriverFunctions | None:
        """The functions that native code calls; None if the driver lacks some of it."""
        try:
            found = [ctypes.cast(getattr(self._driver, name), ctypes.c_void_p) for name in SYMBOLS]
        except AttributeError:
            return None
        return DriverFunctions(*(function.value or 0 for function in found))

    @cached_property
    def cublas(self) -> CublasFunctions | None:
        """The functions of cuBLAS; None if there is none."""
        from .cublas_library import cublas_functions

        return cublas_functions(self._module)

    def check(self, status: int, what: str) -> None:
        """Raise the error of a status, if it is one; `what` says what has failed."""
        if status:
            raise driver_error(status, self._words(status), what)

    def _words(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._driver.cuGetErrorString(status, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"


def driver_error(status: int, words: str, what: str) -> Error:
    """The error of this package for a status of the driver's, which it explains in `words`."""
    if status == OUT_OF_MEMORY:
        return out_of_memory(what)
    if status == ILLEGAL_ADDRESS and not is_blocking():
        return AcceleratorError(
            f"a kernel has touched memory that is not its own, which {what} was told ({words}); "
            f"set {BLOCKING}=1 to learn which one, in a new process"
        )
    return AcceleratorError(f"the CUDA driver could not run {what} ({words}); run it on the CPU")


def out_of_memory(what: str) -> Error:
    """The error for memory that a GPU has not got."""
    return OutOfMemoryError(f"the GPU has no memory left for {what}; free tensors, or pass smaller ones")


def is_blocking() -> bool:
    """Whether the driver waits for each kernel, so that an error is told to the one that has made it."""
    return os.environ.get(BLOCKING, "") not in ("", "0")


@cache
def _libcuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")
