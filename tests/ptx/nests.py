"""Kernels that the package generates, run by the interpreter: what they compute is what the CPU's kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.runtime.gpu.device import DeviceKernel
from jit.runtime.kernels.codegen import check_status

from .launch import Loaded
from .memory import Memory

Array = np.ndarray[Any, Any]


def interpreted(kernel: DeviceKernel, inputs: list[Array], outputs: list[Array], order: str | int = "forward") -> None:
    """Fill `outputs`, every byte of which the kernel has to write; raises the error that it reports."""
    memory = Memory()
    sources = [memory.allocate(a, f"input {number}") for number, a in enumerate(inputs)]
    targets = [memory.reserve(a.shape, a.dtype, f"output {number}") for number, a in enumerate(outputs)]
    errors = memory.allocate(np.zeros(1, np.int32), "errors")
    data = np.array(sources + targets, np.int64).tobytes()
    params: list[int | float | bytes] = [data, bytes(kernel.geometry), errors]
    loaded = Loaded(kernel.ptx, memory)
    loaded.launch(kernel.name, kernel.grid.blocks, kernel.grid.threads, params, order=order)
    for target, array in zip(targets, outputs, strict=True):
        array[...] = np.frombuffer(memory.read(target, array.nbytes, written=True), array.dtype).reshape(array.shape)
    check_status(int(memory.view(errors)[0]))


def assert_same_bits(found: list[Array], expected: list[Array]) -> None:
    """Equal but for the bits of NaN, which processors choose."""
    for a, b in zip(found, expected, strict=True):
        if a.dtype.kind not in "iub":
            assert (np.isnan(a) == np.isnan(b)).all()
            a, b = (np.where(np.isnan(each), each.dtype.type(0), each) for each in (a, b))
        np.testing.assert_array_equal(np.atleast_1d(a).view(np.uint8), np.atleast_1d(b).view(np.uint8))
