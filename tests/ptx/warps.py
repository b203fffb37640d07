"""What the threads of a warp exchange: shuffles, votes, matches and reductions.

The lanes that an instruction's mask names wait for each other. A lane that has left the function is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .arithmetic import Array
from .findings import Undefined, UnknownInstruction
from .parser import Instruction, Pair

if TYPE_CHECKING:
    from .machine import Run
    from .program import Control, Program, Read

POISON = 0x7FFFDEAD
"""What a shuffle brings from a lane that is not there: as a float NaN, so that nothing may depend on it unseen."""

Exchange = Callable[["Run", Array], None]


def meeting(mask: Read, exchange: Exchange) -> Control:
    """A step at which those lanes of a warp that a mask names wait for each other, and then do something together."""

    def act(run: Run, place: int, lanes: Array) -> None:
        lanes = run.with_waiting(place, lanes)
        wanted = np.broadcast_to(mask(run, lanes), len(lanes))
        named = wanted >> _lane(run, lanes).astype(np.uint32) & 1
        if not named.all():
            raise Undefined("the mask does not name the lane itself", int(np.argmin(named)))
        complete = run.are_complete(lanes, wanted)
        ready = lanes if complete.all() else lanes[complete]
        if len(ready):
            exchange(run, ready)
            run.join(place + 1, ready)
        if len(ready) < len(lanes):
            run.wait(place, lanes[~complete])

    return act


def _lane(run: Run, lanes: Array) -> Array:
    return run.own(run.threads.slots, lanes) & 31


def in_warps(run: Run, lanes: Array, values: Any, neutral: Any = 0) -> Array:
    """The lanes' values as rows of 32, with `neutral` for lanes that take no part."""
    values = np.broadcast_to(values, len(lanes))
    table = np.full(run.threads.warps * 32, neutral, values.dtype)
    table[run.own(run.threads.slots, lanes)] = values
    return table.reshape(-1, 32)


def as_bits(flags: Array) -> Array:
    """Rows of 32 flags as words."""
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint32)[:, 0]


# -- shuffles ------------------------------------------------------------------------------------------------------


def _shuffle(program: Program, instruction: Instruction) -> Control:
    """shfl.sync.mode.b32 d|p, a, b, c, mask: the value of another lane, or one's own where there is no other."""
    target, *given = instruction.operands
    sync, mode, _ = instruction.suffixes
    if sync != "sync" or mode not in ("up", "down", "bfly", "idx"):
        raise UnknownInstruction(f"a shuffle of mode .{mode}")
    targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
    writers = [program.writer(t, type_) for t, type_ in zip(targets, ("b32", "pred"))]
    value, *numbers = (program.reader(operand, "u32") for operand in given)

    def exchange(run: Run, lanes: Array) -> None:
        distance, clamp, mask = (np.asarray(read(run, lanes)).astype(np.int64) for read in numbers)
        source, inside = shuffled_lane(mode, _lane(run, lanes).astype(np.int64), distance, clamp)
        slots = run.own(run.threads.slots, lanes) & ~31 | source
        words = in_warps(run, lanes, value(run, lanes), np.uint32(POISON)).reshape(-1)
        there = mask >> source & 1 == 1
        for write, found in zip(writers, (np.where(there, words[slots], np.uint32(POISON)), inside)):
            write(run, lanes, found)

    return meeting(numbers[-1], exchange)


def shuffled_lane(mode: str, lane: Array, distance: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane that a lane takes its value from, and whether that lies in its segment."""
    segment, last = clamp >> 8 & 31, clamp & 31
    distance = distance & 31
    highest, lowest = lane & segment | last & ~segment, lane & segment
    source = {
        "up": lane - distance,
        "down": lane + distance,
        "bfly": lane ^ distance,
        "idx": lowest | distance & ~segment,
    }[mode]
    inside = np.broadcast_to(source >= highest if mode == "up" else source <= highest, lane.shape)
    return np.where(inside, source, lane), inside.copy()


# -- votes, matches, reductions ------------------------------------------------------------------------------------


def _members(run: Run, lanes: Array, mask: Read) -> Array:
    """For each lane the lanes that take part with it, as flags."""
    wanted = np.broadcast_to(mask(run, lanes), len(lanes))
    present = in_warps(run, lanes, True, False)[run.own(run.threads.slots, lanes) >> 5]
    return present & (wanted[:, None] >> np.arange(32, dtype=np.uint32) & 1 == 1)


def _of_warp(run: Run, lanes: Array, table: Array) -> Array:
    """The row of each lane's warp."""
    return table[run.own(run.threads.slots, lanes) >> 5]


def _vote(program: Program, instruction: Instruction) -> Control:
    target, source, mask_operand = instruction.operands
    mode = instruction.suffixes[1]
    read, mask = program.reader(source, "pred"), program.reader(mask_operand, "u32")
    write = program.writer(target, "b32" if mode == "ballot" else "pred")

    def exchange(run: Run, lanes: Array) -> None:
        members = _members(run, lanes, mask)
        holds = _of_warp(run, lanes, in_warps(run, lanes, read(run, lanes), False)) & members
        every, some = (holds == members).all(1), holds.any(1)
        found = {"all": every, "any": some, "uni": every | ~some, "ballot": as_bits(holds)}[mode]
        write(run, lanes, found)

    return meeting(mask, exchange)


def _active_mask(program: Program, instruction: Instruction) -> Control:
    write = program.writer(instruction.operands[0], "b32")

    def act(run: Run, place: int, lanes: Array) -> None:
        write(run, lanes, _of_warp(run, lanes, as_bits(in_warps(run, lanes, True, False))))
        run.join(place + 1, lanes)

    return act


REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def _reduction(program: Program, instruction: Instruction) -> Control:
    target, source, mask_operand = instruction.operands
    _, name, type_ = instruction.suffixes
    read, mask = program.reader(source, type_), program.reader(mask_operand, "u32")
    write, join = program.writer(target, type_), REDUCTIONS[name]

    def exchange(run: Run, lanes: Array) -> None:
        members = _members(run, lanes, mask)
        values = _of_warp(run, lanes, in_warps(run, lanes, read(run, lanes)))
        found = [join.reduce(row[chosen], dtype=values.dtype) for row, chosen in zip(values, members)]
        write(run, lanes, np.array(found, values.dtype))

    return meeting(mask, exchange)


def _match(program: Program, instruction: Instruction) -> Control:
    target, source, mask_operand = instruction.operands
    mode, _, type_ = instruction.suffixes
    targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
    writers = [program.writer(t, kind) for t, kind in zip(targets, ("b32", "pred"))]
    read, mask = program.reader(source, type_), program.reader(mask_operand, "u32")

    def exchange(run: Run, lanes: Array) -> None:
        members = _members(run, lanes, mask)
        values = np.broadcast_to(read(run, lanes), len(lanes))
        equal = (_of_warp(run, lanes, in_warps(run, lanes, values)) == values[:, None]) & members
        every = (equal == members).all(1)
        words = as_bits(equal)
        for write, found in zip(writers, (np.where(every, words, np.uint32(0)) if mode == "all" else words, every)):
            write(run, lanes, found)

    return meeting(mask, exchange)


def _warp_barrier(program: Program, instruction: Instruction) -> Control:
    mask = program.reader(instruction.operands[-1], "u32")
    return meeting(mask, lambda run, lanes: None)


EXCHANGES: dict[str, Callable[[Any, Instruction], Any]] = {
    "shfl": _shuffle,
    "vote": _vote,
    "activemask": _active_mask,
    "redux": _reduction,
    "match": _match,
    "bar.warp.sync": _warp_barrier,
}
