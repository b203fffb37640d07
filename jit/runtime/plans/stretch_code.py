"""Code of a stretch: its steps compiled, their words written, and their temporaries laid into an arena."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.ir import Node
from jit.ir.errors import CompileError

from ..arrays.arrays import address_of
from ..arrays.programs import locate
from ..kernels.codegen import Kernel, check_status, compile_nests
from . import entry, pool
from .arena import Arena
from .parts import QUICK, marked, table_of, threads_for
from .places import Layout, MemoryBlock, Step, StepDeclined, Stretch
from .steps import StretchLowering


@dataclass(eq=False, repr=False)
class StretchCode:
    """A stretch compiled for certain layouts of its inputs."""

    stretch: Stretch
    layouts: list[Layout]
    lowering: StretchLowering
    program: Any
    """See Note [A program] in `entry`."""
    operands: int
    arena: int
    kernels: list[Kernel]
    kept: Any
    nodes: list[Node]
    """Per step, for errors."""
    outputs: list[tuple[tuple[int, ...], Any]]
    """Shape and dtype of each output of a run."""
    is_quick: bool
    """Whether a run is over before another thread could take turns."""

    @property
    def constants(self) -> list[int]:
        """Addresses."""
        return [address_of(a) for a in self.lowering.constants]

    def failed(self, status: int) -> None:
        """Raise what a run has returned."""
        if status < 0:
            raise MemoryError(f"a plan needs {self.arena} bytes for temporaries; free memory, or pass smaller inputs")
        step, error = divmod(status, 256)
        try:
            check_status(error)
        except Exception as raised:
            locate(raised, self.nodes[step])
            raise

    def tables(self) -> entry.Tables:
        """The tables that an entry for arrays looks at."""
        inputs = [
            entry.EntryInput(layout.dtype, layout.shape, layout.strides, argument=index)
            for index, layout in enumerate(self.layouts)
        ]
        return entry.Tables(
            inputs, self.outputs, self.program, self.operands, self.arena, self.constants, self.failed,
            not self.is_quick, kept=self,
        )  # fmt: skip


def compile_stretch(stretch: Stretch, layouts: Sequence[Layout], gap: int = 0) -> StretchCode:
    """Lower, place and compile a stretch, leaving `gap` bytes behind each temporary; StepDeclined names the node."""
    lowering = StretchLowering(stretch, layouts)
    kernels = kernels_of_steps(lowering.steps)
    for number, step in enumerate(lowering.steps):
        step.work.bind(kernels)
        if step.work.scratch_bytes:
            lowering.scratch(number, step.work.scratch_bytes * _parts(step))
    size = _place_temporaries(lowering, gap)
    words: list[int] = []
    kept: list[Any] = []
    shared = np.array([_parts(step) for step in lowering.steps], np.int64)
    shares = np.array([step.work.effort / step.work.long for step in lowering.steps])
    for step, parts in zip(lowering.steps, marked(shared, shares).tolist(), strict=True):
        table, memory = table_of(step.work, parts & ~pool.WAKES)
        kept += memory
        words += [step.work.function(), address_of(table), len(step.operands), parts, step.work.scratch_bytes]
        for place in step.operands:
            words += [base_of(place.block, stretch), place.block.offset + place.start]
    program = np.array([*words, 0], np.int64)
    operands = max((len(s.operands) for s in lowering.steps), default=0)
    nodes = [step.node for step in lowering.steps]
    return StretchCode(
        stretch, list(layouts), lowering, program, operands, size, list(kernels.values()), kept, nodes,
        outputs_of(stretch), is_quick(lowering.steps, touched_by(lowering.steps)),
    )  # fmt: skip


def outputs_of(stretch: Stretch) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and dtype of each output of a run."""
    types = [value.type for value in stretch.outputs]
    return [(t.sizes, t.dtype.numpy) for t in types]  # type: ignore[attr-defined]


def is_quick(steps: Sequence[Step], touched: int) -> bool:
    """Whether steps that touch so many bytes are over before another thread could take turns."""
    return touched < QUICK and all(step.work.is_linear for step in steps)


def touched_by(steps: Sequence[Step]) -> int:
    """The bytes of all operands of all steps."""
    return sum(place.block.nbytes for step in steps for place in step.operands)


def _parts(step: Step) -> int:
    return threads_for(step.work.long, len(step.operands), step.work.effort, step.work.panels)


def kernels_of_steps(steps: Sequence[Step]) -> dict[int, Kernel]:
    """Kernels by the `id` of their nests; in one LLVM module, or one by one if one is refused, to learn which."""
    nests = {id(nest): nest for step in steps for nest in step.nests}
    try:
        return dict(zip(nests, compile_nests(list(nests.values())), strict=True)) if nests else {}
    except CompileError:
        for step in steps:
            try:
                compile_nests(step.nests)
            except CompileError as error:
                raise StepDeclined(step.node, error) from error
        raise


def base_of(block: MemoryBlock, stretch: Stretch) -> int:
    """The number of the base that a block counts from."""
    outputs = 1 + len(stretch.inputs)
    first = {"temporary": 0, "input": 1, "output": outputs, "constant": outputs + len(stretch.outputs)}
    return first[block.kind] + block.number


def _place_temporaries(lowering: StretchLowering, gap: int) -> int:
    """Give every temporary its offset: one that dies where another of its size is made hands its memory on.

    Scratch memory, which ends where it begins, inherits none: a step fills it before it has read its operands.
    """
    arena = Arena(gap)
    starting: dict[int, list[MemoryBlock]] = {}
    ending: dict[int, list[MemoryBlock]] = {}
    for block in lowering.blocks:
        if block.kind == "temporary" and block.first >= 0:
            starting.setdefault(block.first, []).append(block)
            ending.setdefault(block.last, []).append(block)
    handed: set[MemoryBlock] = set()
    for number, step in enumerate(lowering.steps):
        free = [b for i in step.reusable if (b := step.operands[i].block).last == number]
        for block in starting.get(number, ()):
            alike = (b for b in free if b.nbytes == block.nbytes and b not in handed)
            heir = next(alike, None) if block.last > number else None
            if heir is None:
                block.offset = arena.take(block.nbytes)
            else:
                handed.add(heir)
                block.offset = heir.offset
        for block in ending.get(number, ()):
            if block not in handed:
                arena.give(block.offset)
    return arena.size
