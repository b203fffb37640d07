"""Kernels that serve arrays of any sizes: lowered when sizes come that none of those made so far is right for.

Comes beside `products`, which runs operators one by one and so knows no symbols. Here each size and stride of an array
becomes a symbol of its own, but for 0 and 1, and for strides that follow from the sizes as in a row-major array:

    q : (1, 4, 1, 24), row-major     k : (1, 4, 37, 24), row-major
        (1, s0, 1, s1)                   (1, s2, s3, s4)                 s0 = 4, s1 = 24, s2 = 4, s3 = 37, s4 = 24
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jit.ir.geometry import Geometry
from jit.ir.size_conditions import SizeConditions, compiled
from jit.ir.sizes import SizeSymbol, deciding

from ..gpu.device import DeviceKernel
from ..kernels.codegen import words_of
from ..kernels.nest import Buffer
from .launch_words import LaunchNumbers
from .launching import CudaKernel, Driver

MOST_VARIANTS = 16
"""The most kernels for arrays of a kind."""


class _Variant(NamedTuple):
    """A kernel for many sizes."""

    kernel: CudaKernel
    numbers: LaunchNumbers
    """The number of blocks, and the geometry."""
    holds: Callable[..., bool]
    """Whether it is right for some sizes."""


class OpenKernels:
    """The kernels of one operator.

    Args:
        make: The kernel for arrays of certain layouts, whose sizes may be expressions.
        driver: Loads kernels and launches them.
        module: `cupy`, or what stands for it.
    """

    def __init__(self, make: Callable[..., DeviceKernel], driver: Driver, module: Any) -> None:
        self._make, self._driver, self._module = make, driver, module
        self._variants: dict[Any, list[_Variant]] = {}
        self._lock = threading.Lock()

    def at(self, buffers: Sequence[Buffer]) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        """The kernel for these layouts, which `make` is given; callable with inputs and outputs.

        Raises:
            CompileError: There is none.
        """
        opened = _Opened()
        layouts = [opened.buffer(buffer) for buffer in buffers]
        kind = tuple(opened.marks)
        with self._lock:
            variants = self._variants.get(kind, [])
            found = next((each for each in variants if each.holds(*opened.values)), None)
            if found is None:
                found = self._lowered(layouts, opened)
                self._variants[kind] = [found, *variants][:MOST_VARIANTS]
        blocks, *geometry = found.numbers.at(opened.values).tolist()
        return found.kernel.at(blocks, words_of(geometry))

    def _lowered(self, layouts: Sequence[Buffer], opened: _Opened) -> _Variant:
        conditions = SizeConditions(dict(zip(opened.symbols, opened.values, strict=True)))
        with deciding(conditions):
            kernel = CudaKernel(self._make(*layouts), self._driver, self._module)
            made = kernel.device_kernel
            numbers = LaunchNumbers([made.grid.blocks, *made.numbers], [symbol.name for symbol in opened.symbols])
        return _Variant(kernel, numbers, compiled(conditions.found, opened.symbols))


class _Opened:
    """Symbols for the sizes and strides of arrays."""

    def __init__(self) -> None:
        self.symbols: list[SizeSymbol] = []
        self.values: list[int] = []
        """What they stand for."""
        self.marks: list[Any] = []
        """All that is the same in arrays of other sizes."""

    def buffer(self, buffer: Buffer) -> Buffer:
        """The layout of an array with symbols for numbers."""
        sizes = tuple(map(self._number, buffer.sizes))
        is_plain = buffer.strides == Geometry.contiguous(buffer.sizes).strides
        self.marks += [buffer.dtype, is_plain]
        strides = Geometry.contiguous(sizes).strides if is_plain else tuple(map(self._number, buffer.strides))
        return Buffer(buffer.dtype, sizes, strides)

    def _number(self, number: int) -> int:
        if number < 2:
            self.marks.append(number)
            return number
        self.marks.append(None)
        self.symbols.append(SizeSymbol(f"s{len(self.symbols)}"))
        self.values.append(number)
        return self.symbols[-1].size
