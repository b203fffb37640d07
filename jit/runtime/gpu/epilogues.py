"""Pointwise groups that are computed with the product in front of them: one nest, one kernel.

Comes before `device`; the nests are those of `gpu.matrices` and `gpu.convolutions`, and of groups.

Note [A group in terms of a product]
    The loops of the group stay as they are. Along each of them the group moves over the product's result, by steps
    that say along which dim of the product that is: so reshapes and transpositions between the two cost nothing.

        product    out[b, m, n], strides (M N, N, 1)                        terms k
        group      y[b, n, m] = relu(out[b, m, n] + bias[n])                reads out by strides (M N, 1, N)
        together   extents (b, n, m | k): left moves along the third, right along the second; bias and y as before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..kernels.nest import Access, Keep, Local, Nest, NestStep, Operand, Position


def followed_by(product: Nest, behind: Nest, made: int) -> Nest | None:
    """A product and the group that reads its result as its input `made`, as one nest; None if they are two.

    The inputs are those of the product, then the other ones of the group.
    """
    reads = {read for step in behind.steps for read in step.reads if isinstance(read, Access) and read.buffer == made}
    if behind.reduced or len(behind.steps) > 1 or behind.scans or len(reads) != 1:
        return None
    (read,) = reads
    if read.gather or read.within or read.offset or _is_index(behind, made):
        return None
    along = _along(product, behind, read)
    if along is None:
        return None
    moved = _Moved(product, behind, along, made)
    first, second = product.steps
    total, local = product.outputs[0].dtype, max(r.number for r in second.reads if isinstance(r, Local)) + 1
    steps = (
        replace(first, reads=tuple(map(moved.of_product, first.reads))),
        replace(second, reads=tuple(map(moved.of_product, second.reads)), results=(Keep(local, total),)),
        _step(behind.steps[0], moved, read, local),
    )
    inputs = (*product.inputs, *(buffer for number, buffer in enumerate(behind.inputs) if number != made))
    extents = (*behind.extents, *product.extents[len(product.extents) - product.reduced :])
    comments = (*product.comments, *behind.comments)
    name = f"{product.name}_{behind.name}"[:60].rstrip("_")
    return Nest(extents, inputs, behind.outputs, steps, product.reduced, name, comments, behind.cost)


def _is_index(nest: Nest, made: int) -> bool:
    return any(index.access.buffer == made for index in nest.indices)


def _step(step: NestStep, moved: _Moved, read: Access, local: int) -> NestStep:
    """The group's step, which runs once for each element."""
    reads = tuple(Local(local) if operand == read else moved.of_group(operand) for operand in step.reads)
    results = tuple(moved.written(access) for access in step.writes)
    return replace(step, reads=reads, results=results, inner=False)


def _along(product: Nest, behind: Nest, read: Access) -> list[tuple[int, int] | None] | None:
    """The dim of the product along which each loop of the group moves, and by how much; None if one has none."""
    (write,) = product.steps[-1].writes
    dims = [n for n in range(len(product.extents) - product.reduced) if product.extents[n] > 1]
    found: list[tuple[int, int] | None] = []
    for extent, stride in zip(behind.extents, read.strides, strict=True):
        fitting = [
            (n, stride // write.strides[n])
            for n in dims
            if stride and stride % write.strides[n] == 0 and stride // write.strides[n] * extent <= product.extents[n]
        ]
        if extent > 1 and not fitting:
            return None
        found.append(fitting[0] if extent > 1 else None)
    covered = all(_covers(n, product.extents[n], behind.extents, found) for n in dims)
    return found if covered else None


def _covers(dim: int, size: int, extents: Sequence[int], along: Sequence[tuple[int, int] | None]) -> bool:
    """Whether the loops along a dim of the product meet each of its elements once."""
    loops = sorted((at[1], extent) for extent, at in zip(extents, along, strict=True) if at and at[0] == dim)
    reached = 1
    for step, extent in loops:
        if step != reached:
            return False
        reached *= extent
    return reached == size


class _Moved:
    """The maps of a product and of a group in terms of the loops of both.

    Args:
        product: The product.
        behind: The group.
        along: See `_along`.
        made: The input of the group that is the product's result.
    """

    def __init__(self, product: Nest, behind: Nest, along: Sequence[tuple[int, int] | None], made: int) -> None:
        self._along, self._made, self._shift = along, made, len(product.inputs)
        self._reduced, self._parallel = product.reduced, len(product.extents) - product.reduced

    def of_product(self, operand: Operand) -> Operand:
        """An operand of the product."""
        if not isinstance(operand, Access):
            return operand
        within = tuple(replace(b, strides=self._turned(b.strides)) for b in operand.within)
        return replace(operand, strides=self._turned(operand.strides), within=within)

    def _turned(self, strides: Sequence[int]) -> tuple[int, ...]:
        own = (0 if at is None else strides[at[0]] * at[1] for at in self._along)
        return (*own, *strides[self._parallel :])

    def of_group(self, operand: Operand) -> Operand:
        """An operand of the group."""
        if isinstance(operand, Position):
            return replace(operand, strides=self._longer(operand.strides))
        return self._read(operand) if isinstance(operand, Access) else operand

    def _read(self, access: Access) -> Access:
        within = tuple(replace(b, strides=self._longer(b.strides)) for b in access.within)
        gather = tuple(replace(i, access=self._read(i.access)) for i in access.gather)
        buffer = self._shift + access.buffer - (access.buffer > self._made)
        return replace(access, buffer=buffer, strides=self._longer(access.strides), within=within, gather=gather)

    def written(self, access: Access) -> Access:
        """A map by which the group stores."""
        return replace(access, strides=self._longer(access.strides))

    def _longer(self, strides: Sequence[int]) -> tuple[int, ...]:
        return (*strides, *(0,) * self._reduced)
