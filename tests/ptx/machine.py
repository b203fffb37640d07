"""The threads of a launch, as lanes of numpy arrays that go through a function's steps together.

Note [Lowest place first]
    Lanes that branch apart wait at different places, and those at the lowest place go on until they come to where
    others wait, whom they join. So loops are left together and the ways around an `if` meet behind it, whatever the
    branches look like; nothing that a kernel may count on depends on it, since barriers and exchanges wait for
    whom they need. Only where nobody can go on any more, those who wait are waited for in vain. A loop in which a
    thread waits for what another one writes is an endless loop here, if it comes first in the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .arithmetic import Array
from .findings import BarrierNotReached, Coordinates, EndlessLoop, Finding, NeverSet
from .memory import Memory, Piece, Storage, private_piece
from .program import Program, Step
from .tensor import Copy
from .traffic import BLOCK, INTERVAL, Traffic


@dataclass(frozen=True)
class Threads:
    """Who the lanes are."""

    blocks: Array
    """The number of a lane's block among those that run together."""
    numbers: Array
    """The number of a lane in its block."""
    slots: Array
    """The number of a lane's warp among those that run together, times 32, and its lane there."""
    who: Array
    """The number in stamps, the thread of a stamp."""
    places: dict[str, tuple[Array, Array, Array]]
    """%tid and %ctaid."""
    extents: dict[str, Coordinates]
    """%ntid and %nctaid."""

    @property
    def per_block(self) -> int:
        return math.prod(self.extents["%ntid"])

    @cached_property
    def warps(self) -> int:
        return int(self.slots.max()) // 32 + 1

    def take(self, lanes: Array) -> Threads:
        """Some of them."""
        places = {name: tuple(axis[lanes] for axis in axes) for name, axes in self.places.items()}
        one = (self.blocks[lanes], self.numbers[lanes], self.slots[lanes], self.who[lanes])
        return Threads(*one, places, self.extents)  # type: ignore[arg-type]


def threads_of(blocks: Array, grid: Coordinates, block: Coordinates) -> Threads:
    """The threads of some blocks, which are given by their numbers."""
    size = math.prod(block)
    of_block, numbers = np.repeat(np.arange(len(blocks)), size), np.tile(np.arange(size), len(blocks))
    given = np.repeat(blocks, size)
    slots = (of_block * -(-size // 32) + numbers // 32) * 32 + numbers % 32
    places = {"%tid": _coordinates(numbers, block), "%ctaid": _coordinates(given, grid)}
    extents = {"%ntid": block, "%nctaid": grid}
    return Threads(of_block, numbers, slots, given << BLOCK | numbers, places, extents)


def _coordinates(numbers: Array, extents: Coordinates) -> tuple[Array, Array, Array]:
    x, y, _ = extents
    return numbers % x, numbers // x % y, numbers // (x * y)


@dataclass
class Launch:
    """What the threads that run together share: memory, parameters, and the tally of steps and accesses."""

    memory: Memory
    parameters: Storage
    shared: Storage
    symbols: dict[str, int]
    program: Callable[[str], Program]
    """The translated functions by name."""
    unit: int
    traffic: dict[int, Traffic]
    intervals: Array
    """How many barriers each block has passed."""
    steps: int
    """How many more may be taken."""
    shared_bytes: int = 0

    def note(self, kind: str, piece: Piece, width: int, own: Array) -> None:
        """Record an access to memory that threads share."""
        found = self.traffic.get(id(piece.storage))
        if found is not None:
            found.record(kind, piece.places, width, own)
        elif piece.storage is self.shared or piece.storage.is_global:
            size = len(piece.storage.bytes)
            self.traffic[id(piece.storage)] = Traffic(size, self.unit)
            self.note(kind, piece, width, own)


@dataclass
class Run:
    """A function on its way: where its lanes are, and what their registers hold."""

    program: Program
    threads: Threads
    launch: Launch
    ready: dict[int, Array] = field(default_factory=dict)
    """The lanes that can go on, by place."""
    waiting: dict[int, Array] = field(default_factory=dict)
    """The lanes that wait for others at a barrier or an exchange, by place."""

    def __post_init__(self) -> None:
        count = self.count = len(self.threads.blocks)
        self.all = np.arange(count)
        self.live = np.ones(count, bool)
        self.registers: list[Any] = [None] * len(self.program.index)
        self.known = {index: np.zeros(count, bool) for index in self.program.doubtful}
        self.local = Storage(self.program.local.size, count)
        self.private = Storage(self.program.private.size, count)
        self.barriers = np.zeros(count, np.uint32)
        self.groups = np.zeros(count, np.int64)
        """How many groups of copies each lane has committed."""
        self.copies: list[Copy] = []
        """Copies that may not have happened yet."""

    # -- registers -----------------------------------------------------------------------------------------------

    def own(self, values: Array, lanes: Array) -> Array:
        """Those of an array's elements that belong to lanes."""
        return values if lanes is self.all else values[lanes]

    def values(self, index: int, lanes: Array) -> Any:
        """The bits of a register."""
        values = self.registers[index]
        return values if lanes is self.all else values[lanes]

    def assign(self, index: int, lanes: Array, bits: Any, word: Any) -> None:
        """Set a register; `bits` may be one number for all lanes."""
        if lanes is self.all:
            self.registers[index] = bits if bits.shape == (self.count,) else np.full(self.count, bits)
        else:
            if self.registers[index] is None:
                self.registers[index] = np.zeros(self.count, word)
            self.registers[index][lanes] = bits
        if index in self.known:
            self.known[index][lanes] = True

    def forget(self, lanes: Array, addresses: Array, size: int) -> None:
        """Bytes of shared memory have no value any more, nor yet."""
        shared, blocks = self.launch.shared, self.own(self.threads.blocks, lanes)
        for offset in range(size):
            piece = private_piece(shared, blocks, addresses + addresses.dtype.type(offset), 1)
            shared.written[piece.places] = 0  # type: ignore[index]

    def stamps(self, lanes: Array) -> Array:
        """What accesses of the lanes are stamped with now."""
        intervals = self.launch.intervals[self.own(self.threads.blocks, lanes)]
        return intervals << INTERVAL | self.own(self.threads.who, lanes)

    # -- going on ------------------------------------------------------------------------------------------------

    def execute(self) -> None:
        """Run until all lanes have left; a Finding says what is wrong."""
        self.join(0, self.all)
        while self.ready or self.waiting:
            if not self.ready:
                self._release()
            place = min(self.ready)
            self._advance(place, self.ready.pop(place))

    def join(self, place: int, lanes: Array) -> None:
        """Lanes can go on at a place, together with those that are there."""
        _gather(self.ready, place, lanes)
        if len(self.ready[place]) == self.count:
            self.ready[place] = self.all

    def _advance(self, place: int, lanes: Array) -> None:
        """Go on from a place (see Note [Lowest place first]) until the way branches or others wait there."""
        steps, launch, active = self.program.steps, self.launch, lanes
        try:
            while True:
                step = steps[place]
                launch.steps -= 1
                active = lanes if step.guard is None else self._guarded(step, lanes)
                if step.doubtful:
                    self._check_known(step, active)
                if launch.steps < 0:
                    raise EndlessLoop("the launch takes more steps than it may", 0)
                if step.is_control:
                    self._turn(step, place, lanes, active)
                    return
                if len(active):
                    step.act(self, active)
                place += 1
                if place in self.ready:
                    self.join(place, lanes)
                    return
        except Finding as finding:
            self._locate(finding, steps[place], active)
            raise

    def _turn(self, step: Step, place: int, lanes: Array, active: Array) -> None:
        """A control step: the lanes that it is not for go on behind it."""
        if len(active) < len(lanes):
            self.join(place + 1, np.setdiff1d(lanes, active, assume_unique=True))
        if len(active):
            step.act(self, place, active)

    def _guarded(self, step: Step, lanes: Array) -> Array:
        """The lanes whose predicate lets them take part."""
        assert step.guard is not None
        if step.guard in step.doubtful:
            self._check_known(step._replace(doubtful=(step.guard,)), lanes)
        holds = self.values(step.guard, lanes) != step.negated
        return lanes if holds.all() else lanes[holds]

    def _check_known(self, step: Step, lanes: Array) -> None:
        for index in step.doubtful:
            known = self.known[index][lanes]
            if not known.all():
                name = list(self.program.index)[index]
                raise NeverSet(f"{name} has no value here", int(np.argmin(known)))

    def _locate(self, finding: Finding, step: Step, lanes: Array) -> None:
        """Say where it was, and who."""
        if finding.kernel:
            return
        finding.kernel, finding.line = self.program.function.name, step.instruction.line
        finding.instruction = str(step.instruction)
        if finding.lane is not None and len(lanes):
            lane = int(lanes[min(finding.lane, len(lanes) - 1)])
            finding.thread, finding.block = self._place(lane, "%tid"), self._place(lane, "%ctaid")

    def _place(self, lane: int, name: str) -> Coordinates:
        x, y, z = (int(axis[lane]) for axis in self.threads.places[name])
        return x, y, z

    # -- waiting -------------------------------------------------------------------------------------------------

    def wait(self, place: int, lanes: Array) -> None:
        """Lanes stay at a place until others come."""
        _gather(self.waiting, place, lanes)

    def with_waiting(self, place: int, lanes: Array) -> Array:
        """Lanes that arrive somewhere, and those that wait there."""
        if place not in self.waiting:
            return lanes
        _gather(self.waiting, place, lanes)
        return self.waiting.pop(place)

    def are_complete(self, lanes: Array, wanted: Array) -> Array:
        """Which lanes have beside them all lanes that their masks name and that are still there."""
        if lanes is self.all:
            return np.ones(len(lanes), bool)
        slots, here, there = self.threads.slots, np.zeros((2, self.threads.warps * 32), bool), None
        here[0][slots[self.live]] = True
        here[1][slots[lanes]] = True
        there = here[0] & ~here[1]
        missing = np.packbits(there.reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]
        return missing[slots[lanes] >> 5] & wanted == 0

    def _release(self) -> None:
        """Nobody can go on: let those go on who have waited long enough, and report the others."""
        for place in list(self.waiting):
            if self.program.steps[place].instruction.name not in ("bar", "barrier"):
                self._advance(place, self.waiting.pop(place))
        if not self.ready:
            self._pass_barriers()
        if not self.ready:
            self._report_waiting()

    def _pass_barriers(self) -> None:
        """Blocks of which all threads have come to a barrier pass it."""
        lanes = np.concatenate(list(self.waiting.values()))
        blocks = self.threads.blocks[lanes]
        numbers = np.full(len(self.launch.intervals), -1)
        numbers[blocks] = self.barriers[lanes]
        together = np.bincount(blocks, numbers[blocks] == self.barriers[lanes], len(numbers))
        passing = (together == self.threads.per_block) & self._are_aligned(lanes)
        for place, there in list(self.waiting.items()):
            chosen = passing[self.threads.blocks[there]]
            self.waiting[place] = there[~chosen]
            if chosen.all():
                del self.waiting[place]
            if chosen.any():
                self.join(place + 1, there[chosen])
        self.launch.intervals[passing] += 1

    def _are_aligned(self, lanes: Array) -> Array:
        """Blocks in which no warp waits at two different instructions."""
        places = np.repeat(list(self.waiting), [len(each) for each in self.waiting.values()])
        first = np.zeros(self.threads.warps, np.int64)
        first[self.threads.slots[lanes] >> 5] = places
        astray = first[self.threads.slots[lanes] >> 5] != places
        found = np.ones(len(self.launch.intervals), bool)
        found[self.threads.blocks[lanes[astray]]] = False
        return found

    def _report_waiting(self) -> None:
        place, lanes = min(self.waiting.items())
        block = self.threads.blocks[lanes[0]]
        there = int((self.threads.blocks[lanes] == block).sum())
        message = f"{there} of {self.threads.per_block} threads of the block wait here for others, which do not come"
        finding = BarrierNotReached(message, 0)
        self._locate(finding, self.program.steps[place], lanes)
        raise finding

    # -- calls ---------------------------------------------------------------------------------------------------

    def calling(self, name: str, lanes: Array) -> Run:
        """A run of another function on some of the lanes."""
        return Run(self.launch.program(name), self.threads.take(lanes), self.launch)

    def hand_over(self, name: str, lanes: Array, other: Run, target: str, others: Array) -> None:
        """Copy a parameter of a call to the parameter of a function, or a result back."""
        start, end = self.program.private.offsets[name], other.program.private.offsets[target]
        size = next(v.size for v in self._variables() if v.name == name)
        for own, theirs in ((self.private.bytes, other.private.bytes), (self.private.written, other.private.written)):
            rows, filled = own.reshape(self.count, -1), theirs.reshape(other.count, -1)  # type: ignore[union-attr]
            filled[others, end : end + size] = rows[lanes, start : start + size]

    def _variables(self) -> list[Any]:
        function = self.program.function
        return [*function.parameters, *function.results, *function.variables]


def _gather(places: dict[int, Array], place: int, lanes: Array) -> None:
    """Add lanes to those at a place, in their order."""
    there = places.get(place)
    places[place] = lanes if there is None else np.sort(np.concatenate([there, lanes]))
