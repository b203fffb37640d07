"""Times a plan step by step: every kernel inside a native call, and every node that runs by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.ir import Node

from ..arrays.arrays import address_of
from ..arrays.programs import Engine, Program, Registers
from . import entry
from .by_ctypes import fits
from .native import Native
from .stretch_code import StretchCode
from .views import flops_of, parts_of, work_of_node, work_of_step


@dataclass
class Timed:
    """One kernel call, product or node."""

    name: str
    stage: int
    seconds: float
    bytes: int
    flops: int
    lines: dict[str, float]
    """The user's lines and the share that each has in the work."""
    is_native: bool


def timed(engine: Engine) -> list[Timed]:
    """Make every instruction of an engine note how long it took; the list is filled in the order of a run.

    The engine is changed, so give one that nothing else runs.
    """
    notes: list[Timed] = []
    for stage, program in enumerate(engine.programs):
        natives = iter(engine.natives[stage])
        for number, node in enumerate(program.nodes):
            if node.kind == "prim::Native":
                program.instructions[number] = _timed_native(program, number, next(natives), stage, notes)
            else:
                program.instructions[number] = _timed_node(program, number, node, stage, notes)
    return notes


def _timed_node(program: Program, number: int, node: Node, stage: int, notes: list[Timed]) -> Callable[..., None]:
    instruction = program.instructions[number]

    def run(r: Registers) -> None:
        start = time.perf_counter()
        instruction(r)
        took = time.perf_counter() - start
        notes.append(Timed(node.kind, stage, took, *work_of_node(node), _shares(node), False))

    return run


def _timed_native(program: Program, number: int, native: Native, stage: int, notes: list[Timed]) -> Callable[..., None]:
    instruction = program.instructions[number]

    def run(r: Registers) -> None:
        arrays = [r[i] for i in native.reads]
        instruction(r)
        notes.extend(_steps_of(native, arrays, stage))

    return run


def _steps_of(native: Native, arrays: Sequence[Any], stage: int) -> Iterator[Timed]:
    """Every step of a stretch by itself, on the inputs of the call; its outputs are thrown away."""
    codes = [c for c in native.codes if all(fits(a, x) for a, x in zip(arrays, c.layouts, strict=True))]
    for code in codes[:1]:
        for step, seconds in zip(code.lowering.steps, _durations(code, arrays), strict=True):
            name = step.work.label(step.nodes[0].kind.removeprefix("aten::"))
            yield Timed(name, stage, seconds, *work_of_step(step), _shares(*step.nodes), True)


def _durations(code: StretchCode, arrays: Sequence[Any]) -> list[float]:
    """Seconds that each step takes, less what it takes to call a program of no steps."""
    execute = entry.executor()
    outputs = [np.empty(shape, dtype) for shape, dtype in code.outputs]
    arena = np.empty(code.arena + 64, np.uint8)
    start = -(-address_of(arena) // 64) * 64
    bases = np.array([start, *map(address_of, arrays), *map(address_of, outputs), *code.constants], np.int64)
    most = max(code.operands, 1)

    def duration(words: Any) -> tuple[float, int]:
        program, table = address_of(words), address_of(bases)
        began = time.perf_counter()
        status = execute(program, table, most)
        return time.perf_counter() - began, status

    idle = min(duration(np.zeros(1, np.int64))[0] for _ in range(10))
    found = []
    for number, words in enumerate(_programs(code)):
        seconds, status = duration(words)
        found.append(max(seconds - idle, 0.0))
        if status:
            code.failed(number * 256 + status % 256)
    return found


def _programs(code: StretchCode) -> Iterator[Any]:
    """The program cut into one for each step, see Note [A program] in `entry`."""
    at = 0
    for _ in code.lowering.steps:
        end = at + entry.STEP + 2 * int(code.program[at + 2])
        yield np.append(code.program[at:end], 0)
        at = end


def _shares(*nodes: Node) -> dict[str, float]:
    """Shares of the user's lines in the work of nodes: by flops, evenly if there are none."""
    parts = [part for node in nodes for part in parts_of(node) if part.source is not None]
    flops = [flops_of(part) for part in parts]
    weights = flops if any(flops) else [1] * len(parts)
    shares: dict[str, float] = {}
    for part, weight in zip(parts, weights, strict=True):
        shares[str(part.source)] = shares.get(str(part.source), 0.0) + weight / sum(weights)
    return shares
