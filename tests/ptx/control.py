"""Instructions that decide where lanes go on: branches, calls, ends and barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .arithmetic import Array
from .findings import Finding, UnknownInstruction
from .parser import Instruction, Symbol, Vector
from .tensor import MATRICES
from .warps import EXCHANGES

if TYPE_CHECKING:
    from .machine import Run
    from .program import Control, Program


def _branch(program: Program, instruction: Instruction) -> Control:
    (target,) = instruction.operands
    goal = program.function.labels[str(target)]
    return lambda run, place, lanes: run.join(goal, lanes)


def leave(run: Run, place: int, lanes: Array) -> None:
    """The end of a function: its lanes are done."""
    run.live[lanes] = False


def _exit(program: Program, instruction: Instruction) -> Control:
    if not program.function.is_entry:
        raise UnknownInstruction("a thread that ends in a function which was called")
    return leave


def _trap(program: Program, instruction: Instruction) -> Control:
    def act(run: Run, place: int, lanes: Array) -> None:
        raise Finding("the kernel gives up", 0)

    return act


def _call(program: Program, instruction: Instruction) -> Control:
    """A function runs on the lanes of its call alone, with registers and parameters of its own."""
    lists = [o for o in instruction.operands if isinstance(o, Vector)]
    name = next(o.name for o in instruction.operands if isinstance(o, Symbol))
    has_results = isinstance(instruction.operands[0], Vector)
    function = program.module.functions[name]
    results = _names(lists[0]) if has_results else []
    arguments = _names(lists[-1]) if len(lists) > has_results else []
    taken = list(zip(arguments, (p.name for p in function.parameters), strict=True))
    given = list(zip((r.name for r in function.results), results, strict=True))

    def act(run: Run, place: int, lanes: Array) -> None:
        callee = run.calling(name, lanes)
        everyone = np.arange(len(lanes))
        for own, other in taken:
            run.hand_over(own, lanes, callee, other, everyone)
        callee.execute()
        for other, own in given:
            callee.hand_over(other, everyone, run, own, lanes)
        run.join(place + 1, lanes)

    return act


def _names(operands: Vector) -> list[str]:
    """The variables that a call names."""
    if not all(isinstance(o, Symbol) for o in operands.items):
        raise UnknownInstruction("a call whose parameters are not variables")
    return [o.name for o in operands.items if isinstance(o, Symbol)]


def _barrier(program: Program, instruction: Instruction) -> Control:
    """All threads of the block meet; a part of them is not supported."""
    suffixes = [s for s in instruction.suffixes if s not in ("cta", "aligned")]
    if suffixes == ["warp", "sync"]:
        return EXCHANGES["bar.warp.sync"](program, instruction)
    if suffixes != ["sync"] or len(instruction.operands) != 1:
        raise UnknownInstruction("only barriers of all threads of a block are known")
    number = program.reader(instruction.operands[0], "u32")

    def act(run: Run, place: int, lanes: Array) -> None:
        run.barriers[lanes] = number(run, lanes)
        run.wait(place, lanes)

    return act


CONTROL: dict[str, Callable[[Any, Instruction], Any]] = {
    "bra": _branch,
    "ret": lambda program, instruction: leave,
    "exit": _exit,
    "trap": _trap,
    "call": _call,
    "bar": _barrier,
    "barrier": _barrier,
    **MATRICES,
    **{name: found for name, found in EXCHANGES.items() if "." not in name},
}
IGNORED = {"membar", "fence", "prefetch", "prefetchu", "nanosleep", "pmevent", "discard", "applypriority"}
"""Instructions that order or hasten what is in order here anyway."""
