"""Tiles of a product's factors on their way to shared memory, by copies that run beside the threads.

Used by `gpu.product_machine`, which says when; see Note [Tiles of a product] in `gpu.contraction`.

Note [Sides]
    A factor has two sides: its own, the rows of the left one or the columns of the right one, and the terms. A side is
    one loop or several, as in a convolution, whose rows are the places of all images, and whose terms are the taps of
    all channels:

        left[(n, y, x), (c, j, i)] = image[n, c, y * stride + j - padding, ...]     0 where a bound does not hold

    So threads count rows and terms one by one, find the index along each loop by divisions, and add up steps: patches
    are never laid out in memory. A side whose loops lie evenly in the factor needs no divisions.

    Threads copy side by side what lies side by side, 16 bytes at a time where every vector begins at a multiple of 16
    bytes; the kernel asks that once, of the numbers of the launch. Elsewhere they copy element by element. What is
    beyond the factor, or in the padding, becomes zero: a copy may fill up with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..kernels.nest import Access, Bound
from ..llvm.build import Register
from .schedule import VECTOR_BYTES
from .tile_machine import SHARED, TileMachine

PITCH_BYTES = 16
"""The bytes between the lines of a tile in shared memory, so that neighbouring lines lie in other banks."""
AT_ONCE = 4
"""The copies of a thread whose addresses are known at once: each holds registers."""


class SharedTile:
    """A tile of a factor in shared memory.

    Args:
        size: Its extent along the factor's own side.
        depth: Its extent along the terms.
        itemsize: The bytes of an element.
        lines_of_terms: Whether its lines run along the terms.
    """

    def __init__(self, size: int, depth: int, itemsize: int, lines_of_terms: bool) -> None:
        self.size, self.depth, self.itemsize, self.lines_of_terms = size, depth, itemsize, lines_of_terms
        self.pitch = (depth if lines_of_terms else size) + PITCH_BYTES // itemsize
        """The elements from line to line."""

    @property
    def bytes(self) -> int:
        """The bytes of a tile."""
        return (self.size if self.lines_of_terms else self.depth) * self.pitch * self.itemsize


class StagedFactor(SharedTile):
    """One factor of a product, tile by tile.

    Args:
        machine: The kernel under construction.
        access: The factor's map.
        sides: The loops of its own side, and those of the terms.
        size: The tile's extent along its own side.
    """

    def __init__(
        self, machine: TileMachine, access: Access, sides: tuple[Sequence[int], Sequence[int]], size: int
    ) -> None:
        self.machine, self.builder, self.access = machine, machine.builder, access
        self.memory, self.loops, self.nest = machine.memory, machine.loops, machine.nest
        self.map = self.nest.reads.index(access)
        self.strides = self.loops.strides[self.map]
        own, self.terms = sides
        self.own = tuple(sorted(own, key=lambda loop: -abs(self.strides[loop])))
        self.along_terms = self._lies_along_terms()
        """Whether neighbours in memory are neighbouring terms."""
        itemsize = self.nest.inputs[access.buffer].dtype.itemsize
        super().__init__(size, machine.tile.depth, itemsize, self.along_terms and machine.by_tensor_cores)

    def _lies_along_terms(self) -> bool:
        """Whether the side of terms takes the shorter steps; of equal ones the longer side counts."""
        sides = [side[-1:] for side in (self.own, self.terms)]
        own, terms = (
            min(((abs(self.strides[n]) or 1 << 62, -self.loops.extents[n]) for n in side), default=(1 << 62, 0))
            for side in sides
        )
        return terms < own

    # -- copies --------------------------------------------------------------------------------------------------

    def stage(self, first: Register, start: Register, place: Register) -> None:
        """Copy a tile: from an index of its own side and a term on, to a place in shared memory."""
        wide = VECTOR_BYTES // self.itemsize
        if not self._has_vectors():
            self._copy(first, start, place, 1)
            return
        aligned = self._aligned()
        odd = self.builder.binary("xor", aligned, Register("true", "i1"))
        self.builder.when(aligned, lambda: self._copy(first, start, place, wide), self.builder.depth)
        self.builder.when(odd, lambda: self._copy(first, start, place, 1), self.builder.depth)

    def _has_vectors(self) -> bool:
        """Whether elements lie side by side, in memory and in shared memory, whatever the padding."""
        side = self.terms if self.along_terms else self.own
        if not side or self.strides[side[-1]] != 1 or self.along_terms != self.lines_of_terms:
            return False
        return not any(self.loops.strides[self.memory.map_of(bound)][side[-1]] for bound in self.access.within)

    def _aligned(self) -> Register:
        """Whether all vectors begin at multiples of their size, and none goes beyond the end of a loop inside."""
        builder, side = self.builder, self.terms if self.along_terms else self.own
        base = self.memory.base(self.map)
        together = builder.emit("i64", f"ptrtoint {base} to i64", base)
        for loop, stride in enumerate(self.strides):
            if stride and loop != side[-1]:
                together = builder.binary("or", together, self.memory.number("stride", self.map, loop))
        if len(side) > 1:
            extent = self.memory.number("extent", side[-1])
            together = builder.binary("or", together, builder.binary("mul", extent, _number(self.itemsize)))
        odd = builder.binary("and", together, _number(VECTOR_BYTES - 1))
        return builder.compare("icmp eq", odd, _number(0))

    def _copy(self, first: Register, start: Register, place: Register, width: int) -> None:
        """Each thread copies some vectors of so many elements, a few at once."""
        threads = self.machine.tile.threads
        count = self.size * self.depth // (width * threads)
        once = min(count, AT_ONCE)

        def several(begin: Register) -> None:
            turns = [self.builder.binary("add", begin, _number(number * threads)) for number in range(once)]
            self._copy_each(turns, first, start, place, width)

        if count == once:
            several(self.machine.thread)
            return
        with self.builder.loop(_number(0), _number(count * threads), once * threads) as group:
            several(self.builder.binary("add", self.machine.thread, group.index))

    def _copy_each(
        self, turns: Sequence[Register], first: Register, start: Register, place: Register, width: int
    ) -> None:
        """Copy the vectors of these numbers."""
        builder, jobs = self.builder, []
        length = (self.depth if self.along_terms else self.size) // width
        for turn in turns:
            inner = builder.binary("mul", builder.binary("urem", turn, _number(length)), _number(width))
            outer = builder.binary("udiv", turn, _number(length))
            own, term = (outer, inner) if self.along_terms else (inner, outer)
            index, at = builder.binary("add", first, own), builder.binary("add", start, term)
            line, within = (own, term) if self.lines_of_terms else (term, own)
            left = self._left(at if self.along_terms else index, width)
            jobs.append((*self._source(index, at), self._at(place, line, within), left))
        if width * self.itemsize < 4:
            self._bring([job[:3] for job in jobs])
            return
        for valid, source, target, left in jobs:
            count = builder.select(valid, left, Register("0", "i32"))
            self.machine.instructions.copy(builder, target, source, count, width * self.itemsize)

    def _at(self, place: Register, line: Register, within: Register) -> Register:
        """An address in shared memory."""
        builder = self.builder
        element = builder.binary("add", builder.binary("mul", line, _number(self.pitch)), within)
        offset = builder.binary("mul", element, _number(self.itemsize))
        return builder.emit(SHARED, f"getelementptr i8, {place}, {offset}", place, offset)

    def _left(self, index: Register, width: int) -> Register:
        """The bytes of a vector that begins at an index, as i32: fewer at the end of the side."""
        builder, whole = self.builder, Register(str(width * self.itemsize), "i32")
        if width == 1:
            return whole
        extent = self.machine.extent(self.terms if self.along_terms else self.own)
        left = builder.call("i64", "llvm.smin.i64", builder.binary("sub", extent, index), _number(width))
        return builder.convert("trunc", builder.binary("mul", left, _number(self.itemsize)), "i32")

    def _bring(self, jobs: Sequence[tuple[Register, Register, Register]]) -> None:
        """Copy elements of 2 bytes, which copies beside the threads cannot; (valid, source, target) of each."""
        builder, loaded = self.builder, []
        for _, source, _ in jobs:
            loaded.append(Register(f"%{builder.name()}", "i16", builder.depth))
            builder.write(f"{loaded[-1].text} = load i16, {source}", builder.depth)
        for (valid, _, target), value in zip(jobs, loaded, strict=True):
            builder.write(f"store {builder.select(valid, value, Register('0', 'i16'))}, {target}", builder.depth)

    # -- addresses -----------------------------------------------------------------------------------------------

    def _source(self, index: Register, term: Register) -> tuple[Register, Register]:
        """(whether there is an element, its address); an address that may be read if there is none."""
        builder = self.builder
        valid = builder.compare("icmp slt", index, self.machine.extent(self.own))
        beyond = builder.compare("icmp slt", term, self.machine.extent(self.terms))
        valid = builder.binary("and", valid, beyond)
        address = self._moved(self._moved(self._of_batch(), self.own, index), self.terms, term)
        if self.access.within:
            places = self.machine.places(self.own, index) | self.machine.places(self.terms, term)
            for bound in self.access.within:
                valid = builder.binary("and", valid, self._holds(bound, places))
        safe = self.memory.pointer(self.access.buffer)
        return valid, builder.select(valid, address, safe)

    def _of_batch(self) -> Register:
        """The address of a matrix."""
        address = self.memory.base(self.map)
        for loop in self.machine.product.batch:
            if self.strides[loop]:
                address = self._stepped(address, loop, self.memory.indices[loop])
        return address

    def _moved(self, address: Register, side: Sequence[int], index: Register) -> Register:
        """An address at an index of a side."""
        if self._is_even(side):
            return self._stepped(address, side[-1], index) if side and self.strides[side[-1]] else address
        for loop, place in self.machine.places(side, index).items():
            if self.strides[loop]:
                address = self._stepped(address, loop, place)
        return address

    def _is_even(self, side: Sequence[int]) -> bool:
        """Whether the loops of a side are as one."""
        return all(self.strides[a] == self.strides[b] * self.loops.extents[b] for a, b in pairwise(side))

    def _stepped(self, address: Register, loop: int, index: Register) -> Register:
        step = self.builder.binary("mul", index, self.memory.number("stride", self.map, loop))
        return self.builder.emit("ptr", f"getelementptr i8, {address}, {step}", address, step)

    def _holds(self, bound: Bound, places: Mapping[int, Register]) -> Register:
        """Whether a bound holds: one comparison of numbers without signs."""
        builder, map = self.builder, self.memory.map_of(bound)
        number = self.memory.number("offset", map)
        for loop, stride in enumerate(self.loops.strides[map]):
            if stride:
                place = places[loop] if loop in places else self.memory.indices[loop]
                step = builder.binary("mul", place, self.memory.number("stride", map, loop))
                number = builder.binary("add", number, step)
        return builder.compare("icmp ult", number, self.memory.number("size", map - self.memory.first_point))


def _number(value: int) -> Register:
    return Register(str(value), "i64")
