"""Maps the loops of a nest to the blocks and threads of a GPU; the loops themselves are those of `schedule`.

Comes after `schedule`, before `gpu.machine`.

Note [Where threads run]
    points: a thread computes one point of the parallel loops, and the row inside of it, if there is one, by itself.
            Neighbouring threads are neighbours along the lanes, so that what they read lies side by side.
    rows:   the row is what lies side by side: the threads of a block share one row. Thread t takes the points t,
            t + threads, ...; the block has as many threads as a vector on the CPU has lanes, so that a sum is the same
            tree (Note [The tree of a sum]) and has the same bits.
    tiles:  a matrix product: a block computes TILE x TILE results, one each thread. Tiles of the factors pass through
            shared memory, so that an element is read once for TILE results. Terms are added in the order of the row.

Note [Nothing is kept]
    On the CPU a step may keep values at every point for later steps, in a row that stays in the cache. A thread has
    no such place, and computes them again instead: the later step takes in the operands and the body of the earlier.

        e = keep(exp(x - top)), total = sum(e)            total = sum(exp(x - top))
        out = e / total                                   out = exp(x - top) / total
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..kernels.lanes import lanes
from ..kernels.nest import Access, Keep, Local, Nest, NestStep, Operand, Reduce, Result
from ..kernels.schedule import FIXED, Loops
from ..targets.target import Target

THREADS = 256
"""Threads of a block, where nothing else decides."""
TILE = 16
"""The results of a matrix product that a block computes, along either dim."""


@dataclass(frozen=True)
class Grid:
    """A grid: its number of blocks and threads, and what a thread computes: "points", "rows" or "tiles"."""

    kind: str
    blocks: int
    threads: int


def grid(nest: Nest, loops: Loops) -> Grid:
    """The grid for a nest with at least one point, see Note [Where threads run]."""
    extents = loops.extents[: loops.parallel]
    if loops.along_row:
        return Grid("rows", math.prod(extents), lanes(nest, loops, _ANY))
    if _is_tiled(nest, loops):
        tiled = (loops.lane, loops.jam)
        return Grid("tiles", math.prod(-(-n // TILE) if i in tiled else n for i, n in enumerate(extents)), TILE * TILE)
    return Grid("points", -(-math.prod(extents) // THREADS), THREADS)


_ANY = Target("", "", ())
"""A target for questions whose answer does not depend on it: how many lanes share a row."""


def _is_tiled(nest: Nest, loops: Loops) -> bool:
    """Whether every step over the row is a sum of products, and some factor serves several threads."""
    inner = [step for step in nest.steps if step.inner]
    dots = all(isinstance(r, Reduce) and r.monoid == "dot" for step in inner for r in step.results)
    return dots and loops.jam is not None and any(shared(nest, loops, o) for step in inner for o in step.reads)


def shared(nest: Nest, loops: Loops, operand: Operand) -> int | None:
    """The one of the loops `lane` and `jam` that an operand of a matrix product moves along, but not along the other.

    None if it moves along both or neither, or not along the row: each thread then reads for itself.
    """
    if not isinstance(operand, Access) or loops.jam is None or not _moves(nest, loops, operand, len(loops.extents) - 1):
        return None
    found = [loop for loop in (loops.lane, loops.jam) if _moves(nest, loops, operand, loop)]
    return found[0] if len(found) == 1 else None


def _moves(nest: Nest, loops: Loops, access: Access, loop: int) -> bool:
    """Whether an access, its indices or its bounds move along a loop."""
    first_point = len(nest.reads) + len(nest.writes)
    maps = [nest.reads.index(a) for a in (access, *(i.access for i in access.gather))]
    maps += [first_point + nest.points.index(bound) for bound in access.within]
    return any(loops.motion(map, loop) != FIXED for map in maps)


# -- kept values -------------------------------------------------------------------------------------------------

_Maker = tuple[NestStep, int, Keep]
"""The step that makes a kept value, the first of its results, and how it was to be kept."""


def without_kept(nest: Nest) -> Nest:
    """The same nest with no values kept at every point, see Note [Nothing is kept]."""
    makers: dict[int, _Maker] = {}
    steps = []
    for step in nest.steps:
        step = _taking_in(step, makers)
        left: list[Result] = []
        places: list[int] = []
        first = 0
        for result in step.results:
            if isinstance(result, Keep) and step.inner:
                makers[result.local] = (step, first, result)
            else:
                left.append(result)
                places += range(first, first + result.arity)
            first += result.arity
        if len(left) == len(step.results):
            steps.append(step)
        elif left:
            steps.append(replace(step, results=tuple(left), body=_picking(step.body, places)))
    return replace(nest, steps=tuple(steps))


def _taking_in(step: NestStep, makers: dict[int, _Maker]) -> NestStep:
    """A step that computes again what it was to read."""
    found = [makers.get(o.number) if isinstance(o, Local) else None for o in step.reads]
    if not any(found):
        return step
    parts = [maker[0].reads if maker else (operand,) for maker, operand in zip(found, step.reads, strict=True)]
    counts = [len(part) for part in parts]

    def body(m: Any, *values: Any) -> Any:
        rest, taken = list(values), []
        for maker, count in zip(found, counts, strict=True):
            own, rest = rest[:count], rest[count:]
            taken.append(_again(m, maker, own) if maker else own[0])
        return step.body(m, *taken)

    return replace(step, reads=tuple(o for part in parts for o in part), body=body)


def _again(m: Any, maker: _Maker, values: Sequence[Any]) -> Any:
    step, place, keep = maker
    value = _results(step.body, m, values)[place]
    return value if hasattr(value, "dtype") else m.constant(value, keep.dtype)


def _picking(body: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """A body with some of the results of another."""

    def picked(m: Any, *values: Any) -> Any:
        results = _results(body, m, values)
        return tuple(results[place] for place in places)

    return picked


def _results(body: Callable[..., Any], m: Any, values: Sequence[Any]) -> Sequence[Any]:
    returned = body(m, *values)
    return returned if isinstance(returned, (tuple, list)) else (returned,)
