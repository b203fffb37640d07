"""Few long rows, and columns: a nest whose rows threads cannot share well becomes several, over blocks of its rows.

Comes between `fusion` and `plan`. What is made is plain nests, for any target.

Note [Blocks of a row]
    The mean of everything is one row: nothing that threads could share. So the row is cut into blocks, which are rows
    themselves, and what they come to is reduced once more:

        extents (16777216,), reduced = 1               extents (256, 65536), reduced = 1
        step 1   x[i0] -> Reduce("sum", local 0)         x[65536 * i0 + i1] -> Reduce("sum"), stored in partial[i0]
        step 2   local 0 / 16777216 -> out             extents (256,), reduced = 1
                                                         partial[i0] -> Reduce("sum", local 0)
                                                         local 0 / 16777216 -> out

    A step that stands behind a reduction (the quotient of a softmax) reads the results from memory, and becomes a nest
    of its own over all points.

    Sums of columns are many rows, but side by side: threads that share them each read a part of every line of the
    matrix, which takes longer than reading all of it. So such rows are cut, too, and threads share the blocks:

        extents (4096, 4096), reduced = 1              extents (32, 4096, 128), reduced = 1
        step 1   x[i1, i0] -> Reduce("sum", local 0)     x[128 * i0 + i2, i1] -> Reduce("sum"), in partial[i0, i1]

    The extents alone decide where blocks begin, so neither the number of threads nor the machine shows in the result.
    If a row has no even blocks of a good size, what is left over gets a nest of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from jit.ir.dtypes import DType, int64
from jit.ir.sizes import SizeExpr, only_if
from jit.ir.types import contiguous_strides

from . import recipes
from .nest import Access, Buffer, Keep, Local, Nest, NestStep, Operand, Position, Reduce, Result
from .schedule import is_ordered, merged, schedule

BLOCK_POINTS = 1 << 16
"""About the points of a block: so many that what is done once for each block does not count."""
FEW, FEW_OF_SEVERAL_STEPS = 32, 4
"""The number of rows above which threads share rows as they are, and the number from which on they do if several steps
go over a row, which may stay in the cache."""
TALL_POINTS = 1 << 19
"""About the points of one block of all columns of a matrix."""
FEWEST_COLUMNS, FEWEST_TURNS = 128, 64
"""Narrower matrices are left as they are; lower blocks would write too many partial results."""


class SplitCall(NamedTuple):
    """A call of one of the nests into which a nest was split."""

    nest: Nest
    operands: tuple[int, ...]
    """Buffers that it reads, then those that it writes: numbers of inputs, outputs and temporaries, in this order."""


class Split(NamedTuple):
    """The calls into which a nest was split; made one after the other, they compute its outputs."""

    temporaries: tuple[Buffer, ...]
    calls: tuple[SplitCall, ...]

    @property
    def alone(self) -> Nest | None:
        """The nest, if it is still one."""
        return self.calls[0].nest if len(self.calls) == 1 else None


def is_worth(nest: Nest) -> bool:
    """Whether rows can be cut, and are better cut for the threads of a processor."""
    return can_be_cut(nest) and only_if(lambda: _is_few(nest, passes_of(nest)) or _is_tall(nest))


def can_be_cut(nest: Nest) -> bool:
    """Whether rows are reduced, and steps hand each other nothing but one value for each row."""
    inner = [step for step in nest.steps if step.inner]
    results = [result for step in inner for result in step.results]
    if any(step.scans for step in inner) or any(isinstance(result, Keep) for result in results):
        return False
    monoids = {result.monoid for result in results if isinstance(result, Reduce)}
    return bool(monoids) and "dot" not in monoids


def passes_of(nest: Nest) -> int:
    """The number of steps that go over a row."""
    return sum(step.inner for step in nest.steps)


def _is_few(nest: Nest, passes: int) -> bool:
    """Whether there are few long rows."""
    most = FEW if passes == 1 else FEW_OF_SEVERAL_STEPS - 1
    return nest.row > BLOCK_POINTS and 1 <= _rows_of(nest) <= most


def _is_tall(nest: Nest) -> bool:
    """Whether rows lie side by side in a large matrix, see Note [Blocks of a row]."""
    rows = _rows_of(nest)
    if rows < FEWEST_COLUMNS or nest.row < 2 * FEWEST_TURNS or rows * nest.row < 2 * TALL_POINTS:
        return False
    loops = schedule(nest)
    return loops.parallel == 1 and not loops.along_row


def _rows_of(nest: Nest) -> int:
    return math.prod(nest.extents[: len(nest.extents) - nest.reduced])


Cut = Callable[[Sequence[int]], tuple[int, int, int]]
"""A function that says, given the loops of a row, which of them is cut, into how many blocks, of how many turns."""


def split(nest: Nest, cut: Cut | None = None) -> Split:
    """The nests over blocks of the rows of `nest`, which `can_be_cut`; where `blocks_of` says, or another `cut`."""
    return _Splitter(nest, cut or partial(blocks_of, points=_points_of_block(nest))).split()


def whole(nest: Nest) -> Split:
    """A nest as it is."""
    return Split((), (SplitCall(nest, tuple(range(len(nest.inputs + nest.outputs)))),))


def split_if_worth(nest: Nest) -> Split:
    """The nests over blocks of its rows, or `nest` as it is."""
    return split(nest) if is_worth(nest) else whole(nest)


def _points_of_block(nest: Nest) -> int:
    """Points of a block of a row, at most."""
    return max(TALL_POINTS // _rows_of(nest), FEWEST_TURNS) if _is_tall(nest) else BLOCK_POINTS


def blocks_of(row: Sequence[int], points: int) -> tuple[int, int, int]:
    """(which loop of a row is cut, into how many blocks, of how many turns); the rest of the loop is not a block."""
    inner = [math.prod(row[loop + 1 :]) for loop in range(len(row))]
    loop = next(loop for loop, count in enumerate(inner) if count <= points)
    extent, inside = row[loop], inner[loop]
    if type(extent) is SizeExpr:
        most = points // inside
        return loop, extent // most, most
    most = min(points // inside, extent)
    fewest = -(-extent // most)
    even = next((count for count in range(fewest, 2 * fewest + 1) if extent % count == 0), None)
    return (loop, even, extent // even) if even else (loop, extent // most, most)


@dataclass(frozen=True)
class _SplitSpace:
    """The space in which a new nest runs, and the way of the old one's maps into it."""

    extents: tuple[int, ...]
    reduced: int
    place: Callable[[tuple[int, ...]], tuple[tuple[int, ...], int]]
    """Strides along the merged loops -> strides along `extents`, and how much further the first point is."""


def _as_they_are(m: Any, *values: Any) -> Any:
    return values


recipes.named(_as_they_are, "as they are")


class _Splitter:
    """One nest; buffers are counted through: inputs, outputs, temporaries."""

    def __init__(self, nest: Nest, cut: Cut) -> None:
        self.nest, self.cut = nest, cut
        maps = (*nest.reads, *nest.writes, *nest.points)
        first = len(nest.extents) - nest.reduced
        parallel = merged(nest, maps, range(first), ordered=False)
        row = merged(nest, maps, range(first, len(nest.extents)), ordered=is_ordered(nest))
        self.parallel, self.row = tuple(extent for extent, _ in parallel), tuple(extent for extent, _ in row)
        columns = [column for _, column in (*parallel, *row)]
        self.strides = {map: tuple(column[number] for column in columns) for number, map in enumerate(maps)}
        self.outputs = len(nest.inputs)
        """The number of the first output."""
        self.buffers = [*nest.inputs, *nest.outputs]
        self.locals: dict[int, Access] = {}
        """Number of a local -> the temporary with its value for each row, with strides along the parallel loops."""
        self.dtypes = dict(_dtypes(nest.steps))
        self.calls: list[SplitCall] = []

    def split(self) -> Split:
        """The calls for the steps of the nest, and the temporaries between them."""
        groups = list(_groups(self.nest.steps))
        for number, (inner, outer) in enumerate(groups):
            later = {o.number for pair in groups[number + 1 :] for o in _operands(pair) if isinstance(o, Local)}
            partial: list[Access] = []
            if inner is not None and any(isinstance(r, Reduce) for r in inner.results):
                partial = self._blocks(inner)
            elif inner is not None:
                space = _SplitSpace((*self.parallel, *self.row), 0, lambda strides: (strides, 0))
                self._call(space, [self._moved_step(inner, space, set())], "", self.nest.cost)
            if partial or outer:
                self._rows(inner if partial else None, partial, outer, later)
        return Split(tuple(self.buffers[self.outputs + len(self.nest.outputs) :]), tuple(self.calls))

    # -- the nests -----------------------------------------------------------------------------------------------

    def _blocks(self, step: NestStep) -> list[Access]:
        """A step that reduces, over the blocks and over what is left of the row; what both come to."""
        loop, count, length = self.cut(self.row)
        around, extent, inside = self.row[:loop], self.row[loop], self.row[loop + 1 :]
        at = len(self.parallel) + loop
        left = extent - count * length
        partial = [self._temporary(dtype, self.parallel, (*around, count + (left > 0))) for dtype in _yielded(step)]

        def block(strides: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
            return (*strides[:at], strides[at] * length, *strides[at:]), 0

        def rest(strides: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
            return strides, strides[at] * count * length

        outer = (*self.parallel, *around)
        spaces = [(_SplitSpace((*outer, count, length, *inside), 1 + len(inside), block), 0)]
        if left:
            spaces.append((_SplitSpace((*outer, left, *inside), 1 + len(inside), rest), count))
        for space, offset in spaces:
            dims = len(space.extents) - space.reduced
            writes = [
                replace(a, strides=(*a.strides[:dims], *(0,) * space.reduced), offset=offset * a.strides[-1])
                for a in partial
            ]
            known = {local for result in step.results if isinstance(result, Reduce) for local in result.locals}
            store = NestStep(tuple(map(Local, _reduced(step))), tuple(writes), _as_they_are, inner=False)
            self._call(space, [self._moved_step(step, space, known), store], "_blocks", self.nest.cost)
        return partial

    def _rows(
        self, step: NestStep | None, partial: Sequence[Access], outer: Sequence[NestStep], later: set[int]
    ) -> None:
        """The call behind the blocks: their results are reduced to those of rows, then each row's own steps run."""
        parts = self._partial_sizes(partial)
        zeros = (0,) * len(parts)
        space = _SplitSpace((*self.parallel, *parts), len(parts), lambda s: ((*s[: len(self.parallel)], *zeros), 0))
        steps, known = [], set()
        if step is not None:
            reduces = tuple(r for r in step.results if isinstance(r, Reduce))
            steps.append(NestStep(tuple(partial), reduces, _as_they_are))
            known.update(_reduced(step))
        for each in outer:
            known.update(r.local for r in each.results if isinstance(r, Keep))
            steps.append(self._moved_step(each, space, known))
        needed = sorted(known & later)
        if needed:
            homes = [self._temporary(self.dtypes[number], self.parallel) for number in needed]
            self.locals.update(zip(needed, homes, strict=True))
            writes = tuple(replace(home, strides=(*home.strides, *zeros)) for home in homes)
            steps.append(NestStep(tuple(map(Local, needed)), writes, _as_they_are, inner=False))
        self._call(space, steps, "_rows", 1)

    def _partial_sizes(self, partial: Sequence[Access]) -> tuple[int, ...]:
        return self.buffers[partial[0].buffer].sizes[len(self.parallel) :] if partial else ()

    # -- maps ----------------------------------------------------------------------------------------------------

    def _temporary(self, dtype: DType, rows: tuple[int, ...], parts: tuple[int, ...] = ()) -> Access:
        """A new buffer and the map of all of it: rows lie side by side, as they do where vectors run across them."""
        across, along = contiguous_strides(rows), contiguous_strides((*parts, math.prod(rows)))[:-1]
        self.buffers.append(Buffer(dtype, (*rows, *parts), (*across, *along)))
        return Access(len(self.buffers) - 1, self.buffers[-1].strides)

    def _moved_step(self, step: NestStep, space: _SplitSpace, known: set[int]) -> NestStep:
        """A step with its maps in another space; `known` are the locals that are made in the new nest."""
        reads = tuple(self._moved(operand, space, known) for operand in step.reads)
        results: list[Result] = []
        for result in step.results:
            if isinstance(result, Access):
                moved = self._map(result, space)
                result = replace(moved, buffer=moved.buffer + self.outputs)
            results.append(result)
        return replace(step, reads=reads, results=tuple(results))

    def _moved(self, operand: Operand, space: _SplitSpace, known: set[int]) -> Operand:
        if isinstance(operand, Local):
            if operand.number in known:
                return operand
            home = self.locals[operand.number]
            beside = len(space.extents) - len(self.parallel)
            return replace(home, strides=(*home.strides, *(0,) * beside))
        assert isinstance(operand, Access | Position)
        return self._map(operand, space)

    def _map(self, map: Any, space: _SplitSpace) -> Any:
        strides, shift = space.place(self.strides[map])
        moved = replace(map, strides=strides, offset=map.offset + shift)
        if isinstance(map, Access) and (map.gather or map.within):
            gather = tuple(replace(i, access=self._map(i.access, space)) for i in map.gather)
            moved = replace(moved, gather=gather, within=tuple(self._map(b, space) for b in map.within))
        return moved

    def _call(self, space: _SplitSpace, steps: Sequence[NestStep], suffix: str, cost: int) -> None:
        """One more nest, of which only the buffers that it needs are operands."""
        reads = sorted({a.buffer for step in steps for a in _accesses(step.reads)})
        writes = sorted({a.buffer for step in steps for a in step.writes})
        renumbered = [
            replace(
                step,
                reads=tuple(_renumbered(o, reads) for o in step.reads),
                results=tuple(_renumbered(r, writes) for r in step.results),
            )
            for step in steps
        ]
        ins, outs = (tuple(self.buffers[b] for b in numbers) for numbers in (reads, writes))
        name, comments = self.nest.name + suffix, self.nest.comments
        nest = Nest(space.extents, ins, outs, tuple(renumbered), space.reduced, name, comments, cost)
        self.calls.append(SplitCall(nest, (*reads, *writes)))


def _groups(steps: Sequence[NestStep]) -> Iterator[tuple[NestStep | None, list[NestStep]]]:
    """Each step that runs at every point, with those behind it that run once for each row."""
    inner: NestStep | None = None
    outer: list[NestStep] = []
    for step in steps:
        if step.inner:
            if inner is not None or outer:
                yield inner, outer
            inner, outer = step, []
        else:
            outer.append(step)
    yield inner, outer


def _operands(pair: tuple[NestStep | None, list[NestStep]]) -> list[Operand]:
    inner, outer = pair
    return [operand for step in (*([] if inner is None else [inner]), *outer) for operand in step.reads]


def _reduced(step: NestStep) -> list[int]:
    """The locals that a step reduces its rows to, in the order of its results."""
    return [local for result in step.results if isinstance(result, Reduce) for local in result.locals]


def _yielded(step: NestStep) -> list[DType]:
    """The dtypes of the values that a body yields."""
    return [dtype for result in step.results if isinstance(result, Reduce) for dtype in _pair(result)]


def _pair(result: Reduce) -> list[DType]:
    return [result.dtype, int64][: len(result.locals)]


def _dtypes(steps: Iterable[NestStep]) -> Iterator[tuple[int, DType]]:
    """The dtype of each local."""
    for step in steps:
        yield from zip(_reduced(step), _yielded(step), strict=True)
        yield from ((result.local, result.dtype) for result in step.results if isinstance(result, Keep))


def _accesses(operands: Iterable[Operand]) -> Iterator[Access]:
    for operand in operands:
        if isinstance(operand, Access):
            yield operand
            yield from (index.access for index in operand.gather)


def _renumbered(thing: Any, numbers: Sequence[int]) -> Any:
    if not isinstance(thing, Access):
        return thing
    gather = tuple(replace(index, access=_renumbered(index.access, numbers)) for index in thing.gather)
    return replace(thing, buffer=numbers.index(thing.buffer), gather=gather)
