"""CUDA's driver: loads the PTX of kernels and launches them, by way of `libcuda`, which every driver brings.

What is called here is what tests stand in for on the simulated device (`launching.use`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from jit.ir.errors import CompileError, Error


class CudaDriver:
    """The driver of the GPUs of this machine.

    Args:
        module: `cupy`, which says on which stream work is queued.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._driver = _libcuda()

    def load(self, ptx: str, name: str) -> int:
        """The function of this name in a PTX text; it stays loaded.

        Raises:
            CompileError: The driver refuses the text.
        """
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        refusal = self._driver.cuModuleLoadData(ctypes.byref(module), ptx.encode() + b"\0")
        if refusal:
            raise CompileError(f"the CUDA driver refuses the kernel {name} ({self._words(refusal)}); run it on the CPU")
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), name)
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
        data = (ctypes.c_uint64 * max(len(arrays), 1))(*(array.data.ptr for array in arrays))
        where = ctypes.c_uint64(errors.data.ptr)
        arguments = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (data, geometry, where)))
        stream = ctypes.c_void_p(self._module.cuda.get_current_stream().ptr)
        self._check(
            self._driver.cuLaunchKernel(
                ctypes.c_void_p(function), blocks, 1, 1, threads, 1, 1, 0, stream, arguments, None
            ),
            "a kernel",
        )

    def _check(self, status: int, what: str) -> None:
        if status:
            raise Error(f"the CUDA driver could not run {what}: {self._words(status)}")

    def _words(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._driver.cuGetErrorString(status, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"


@cache
def _libcuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")
