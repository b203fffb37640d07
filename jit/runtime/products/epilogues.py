"""Pointwise kernels that run tile by tile with the product or convolution in front of them (`tiled`).

A product whose result a single kernel reads is held back until that kernel's turn comes. Then it is an epilogue if

1. it is pointwise: one step, nothing reduced, as many points as the result has elements;
2. it reads the result point by point, in whatever order and shape, and all its other operands along the axes of the
   product: a bias along columns or rows, a whole array, a batch norm's statistics by channel;
3. the result is more than one tile, of known sizes: a single tile stays in the cache between two steps anyway.

Otherwise the product and the kernel are two steps. An epilogue costs a call for each tile, which is microseconds of
work; it saves a pass over the result and the memory for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jit.ir.sizes import any_symbolic, estimating

from ..kernels.nest import Nest
from ..kernels.work import Tileable, Work
from ..plans.builder import StretchBuilder
from ..plans.places import Step, ValuePlace
from .conv import ConvolutionWork
from .finished import Finished, finished
from .tiled import Tiled, epilogue


def may_follow(lowering: StretchBuilder, step: Step) -> bool:
    """Whether a single kernel reads what a product's step writes, and the product comes in tiles."""
    value = step.node.outputs[0]
    if any_symbolic(step.operands[-1].geometry.sizes):  # tiles are as many as the sizes of a call make them
        return False
    work = step.work
    finishes = isinstance(work, ConvolutionWork) and work.finishes
    if lowering.places.get(value) != step.operands[-1] or not (finishes or _in_tiles(work) is not None):
        return False
    return lowering.reader(value) is not None


@estimating()
def _in_tiles(work: Work) -> Tileable | None:
    """The product as it is computed in several tiles; None if it is not."""
    tileable = work.in_tiles()
    return tileable if tileable is not None and 0 not in tileable.axes and tileable.tile != tileable.axes else None


def joined(nest: Nest, product: Step, reads: Sequence[ValuePlace]) -> Tiled | Finished | None:
    """A kernel that reads a product's result, together with the product; None if it is not an epilogue."""
    work, result = _in_tiles(product.work), product.operands[-1]
    made = frozenset(number for number, place in enumerate(reads) if place.block is result.block)
    if any(reads[number].geometry.offset != result.geometry.offset for number in made):
        return None
    if isinstance(product.work, ConvolutionWork):
        behind = epilogue(nest, made, product.work)
        found = None if behind is None else finished(product.work, behind)
        if found is not None:
            return found
    behind = None if work is None else epilogue(nest, made, work)
    return None if behind is None or work is None else Tiled(work, len(product.operands) - 1, behind)
