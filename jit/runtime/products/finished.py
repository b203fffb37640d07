"""A convolution and the pointwise kernel behind it as one function: see Note [Finished in registers]."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.ir.types import contiguous_strides

from ..kernels.nest import Access, Nest, Operand
from ..kernels.work import Sizes, Work
from .conv import ConvolutionWork
from .finishing import Finish, Reading, finish_of
from .tiled import Epilogue


@dataclass(eq=False)
class Finished(Work):
    """A convolution with its epilogue. Operands: what the convolution reads, what else the nest reads, the result."""

    product: ConvolutionWork
    epilogue: Epilogue
    finish: Finish

    @property
    def panels(self) -> int:
        """Those of the convolution."""
        return self.product.panels

    @property
    def effort(self) -> int:
        """The effort of the convolution."""
        return self.product.effort

    @property
    def scratch_bytes(self) -> int:
        """The bytes that the convolution needs."""
        return self.product.scratch_bytes

    @property
    def kept(self) -> Any:
        """The tables of the convolution."""
        return self.product.kept

    def function(self) -> int:
        """The address of `i32 kernel(ptr data, ptr geometry)`."""
        return self.product.finished_by(self.finish)

    def geometry(self, first: int = 0, last: int | None = None) -> Any:
        """The convolution's, then where each reading begins and its step from filter to filter, in bytes."""
        size, reads = self.product.dtype.itemsize, self.epilogue.nest.reads
        more = [(a.offset * size, _step(a, self.product.axes) * size) for a in reads if isinstance(a, Access)]
        return np.concatenate([self.product.geometry(first, last), np.array(more, np.int64).reshape(-1)])

    def flops(self, *of_nodes: int) -> int:
        """The flops of the convolution and of the kernel."""
        of_product, of_kernel = of_nodes
        return self.product.flops(of_product) + of_kernel

    def label(self, operator: str) -> str:
        """The convolution's label, and the name of the kernel."""
        return f"{self.product.label(operator)}, {self.epilogue.nest.name} in registers"


def _step(access: Access, axes: Sizes) -> int:
    """The step from filter to filter, of all groups."""
    return access.strides[2] if axes[2] > 1 else access.strides[1]


def finished(product: ConvolutionWork, epilogue: Epilogue) -> Finished | None:
    """The two as one function, if the epilogue is short and reads nothing but what it can find."""
    nest, (step,) = epilogue.nest, epilogue.nest.steps
    if not product.finishes or epilogue.home is None or len(nest.outputs) != 1 or len(step.results) != 1:
        return None
    if any(buffer.dtype is not product.dtype for buffer in nest.inputs):
        return None
    numbers = itertools.count()
    operands = [-1 if number in epilogue.made else next(numbers) for number in range(len(nest.inputs))]
    readings = []
    for operand in step.reads:
        kind = _kind(operand, epilogue, nest.extents)
        if kind is None or not isinstance(operand, Access):
            return None
        readings.append(Reading(kind, operands[operand.buffer]))  # type: ignore[arg-type]
    finish = finish_of(product.dtype, tuple(readings), step.body)
    return None if finish is None or finish.operands != next(numbers) else Finished(product, epilogue, finish)


def _kind(operand: Operand, epilogue: Epilogue, axes: Sizes) -> str | None:
    """The kind of a reading; None if it is none."""
    if not isinstance(operand, Access) or operand.gather or operand.within:
        return None
    if operand.buffer in epilogue.made:
        return "sum"
    strides = tuple(s if n > 1 else 0 for n, s in zip(axes, operand.strides, strict=True))
    regular = tuple(s if n > 1 else 0 for n, s in zip(axes, contiguous_strides(axes), strict=True))
    if strides == regular:
        return "element"
    image, group, filter, place = strides
    follows = axes[2] == 1 or axes[1] == 1 or group == filter * axes[2]
    return "filter" if image == place == 0 and follows else None
