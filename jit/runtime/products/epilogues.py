"""Pointwise kernels that run with the product or convolution in front of them: in its registers, or tile by tile.

A product whose result a single kernel reads is held back until that kernel's turn comes. Then it is an epilogue if

1. it is pointwise: one step, nothing reduced, as many points as the result has elements;
2. it reads the result point by point, in whatever order and shape, and all its other operands along the axes of the
   product: a bias along columns or rows, a whole array, a batch norm's statistics by channel;
3. it is short, and the product one that finishes its sums in registers (`finished`); or the result is more than one
   tile (`tiled`): a single tile stays in the cache between two steps anyway. Sizes are known.

Otherwise the product and the kernel are two steps. An epilogue by tiles costs a call for each tile, which is
microseconds of work; it saves a pass over the result and the memory for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jit.ir.sizes import any_symbolic, estimating

from ..kernels.nest import Nest
from ..kernels.work import Tileable, Work
from ..plans.builder import StretchBuilder
from ..plans.places import Step, ValuePlace
from .finished import Finished, finished
from .tiled import Tiled, epilogue


def may_follow(lowering: StretchBuilder, step: Step) -> bool:
    """Whether a single kernel reads what a product's step writes, and the product can take it along."""
    value = step.node.outputs[0]
    if any_symbolic(step.operands[-1].geometry.sizes):  # tiles are as many as the sizes of a call make them
        return False
    joinable = step.work.in_registers() is not None or _in_tiles(step.work) is not None
    if lowering.places.get(value) != step.operands[-1] or not joinable:
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
    whole = product.work.in_registers()
    behind = epilogue(nest, made, whole) if whole is not None else None
    if whole is not None and behind is not None and (found := finished(whole, behind)) is not None:
        return found
    behind = epilogue(nest, made, work) if work is not None else None
    return Tiled(work, len(product.operands) - 1, behind) if work is not None and behind is not None else None
