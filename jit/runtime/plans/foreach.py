"""One native call that computes the same formula for many sets of arrays, and writes the results into some of them.

Note [In place]
    The code of a formula is that of any stretch, with outputs in memory of their own. Here output k is written to where
    input k lies. This is right if nothing reads the old elements afterwards: no later step, and the same step only
    where it reads each element at the very point at which it writes it. Other formulas are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import Graph
from jit.ir.errors import CompileError
from jit.passes import OPTIMIZE, apply

from . import entry
from .places import Layout, Step, Stretch
from .steps import body_of, is_free, is_native, read_in_place
from .stretch_code import StretchCode, compile_stretch

Formula = Callable[[Sequence[Layout]], Graph]


class Foreach:
    """A formula as a native call, for all sets of arrays that it was made of.

    Args:
        formula: The graph for inputs of given layouts, first the arrays of a set, then the numbers. Its result k is the
            new content of input k; the inputs behind are only read. All of it is pointwise.
        sets: The arrays of each set.
        numbers: 0-d arrays, the same ones for all sets.

    Raises:
        CompileError: The formula cannot be written in place, or there is no native code here.
    """

    def __init__(self, formula: Formula, sets: Sequence[Sequence[Any]], numbers: Sequence[Any]) -> None:
        if not entry.available():
            raise CompileError("native calls need CPython")
        self._formula, self._codes = formula, dict[Any, StretchCode]()
        size = len(sets[0])
        codes = {n: self._code([*arrays, *numbers]) for n, arrays in enumerate(sets) if arrays[0].size}
        words: list[int] = []
        for number, code in codes.items():
            words += self._placed(code, 1 + number * size, size, 1 + len(sets) * size)
        operands = max((code.operands for code in codes.values()), default=0)
        arena = max((code.arena for code in codes.values()), default=0)
        arrays = [array for each in sets for array in each] + list(numbers)
        inputs = [entry.EntryInput(a.dtype, a.shape, a.strides, i, writeable=True) for i, a in enumerate(arrays)]
        tables = entry.Tables(
            inputs, (), np.array([*words, 0], np.int64), operands, arena, (), self._failed,
            not all(code.is_quick for code in codes.values()), kept=codes, apart=len(sets) * size, bundle=size,
        )  # fmt: skip
        self._run = entry.make_entry(tables)

    def __call__(self, arrays: Sequence[Any]) -> bool:
        """Compute for all sets, whose arrays are given one behind the other, and the numbers behind them.

        Returns:
            False if the arrays lie otherwise than those that it was made of, or overlap; then nothing has happened.
        """
        return self._run(*arrays) is not None

    def _code(self, arrays: Sequence[Any]) -> StretchCode:
        layouts = [Layout(a.dtype, a.shape, a.strides) for a in arrays]
        key = tuple(layouts)
        if key not in self._codes:
            self._codes[key] = _compiled(self._formula(layouts), layouts)
        return self._codes[key]

    @staticmethod
    def _placed(code: StretchCode, first: int, size: int, numbers: int) -> list[int]:
        """The words of the steps, for the set whose first array has the base `first`; see Note [A program]."""
        inputs, words, rest = len(code.layouts), [], code.program.tolist()
        bases = [0, *range(first, first + size), *range(numbers, numbers + inputs - size)]
        bases += range(first, first + len(code.outputs))
        while rest[0]:
            end = entry.STEP + 2 * rest[2]
            pairs = rest[entry.STEP : end]
            pairs[::2] = [bases[base] for base in pairs[::2]]
            words += rest[: entry.STEP] + pairs
            rest = rest[end:]
        return words

    @staticmethod
    def _failed(status: int) -> None:
        raise MemoryError("there is no memory for a native call")


def _compiled(graph: Graph, layouts: Sequence[Layout]) -> StretchCode:
    apply(graph, OPTIMIZE)
    nodes = list(graph.nodes)
    if not all(is_free(node) or is_native(node) for node in nodes):
        raise CompileError("a part of the formula has no native code")
    code = compile_stretch(Stretch(nodes, list(graph.inputs), list(graph.outputs)), layouts)
    if code.constants or not _may_be_in_place(code.lowering.steps):
        raise CompileError("the formula cannot be computed in place")
    return code


def _may_be_in_place(steps: Sequence[Step]) -> bool:
    """Whether each output may be written to where the input of its number lies. See Note [In place]."""
    written: set[int] = set()
    for step in steps:
        reads, writes = step.operands[: -step.results], step.operands[-step.results :]
        safe = {reads[i].block.number for i in read_in_place(body_of(step.node)[1], reads, writes)}
        inputs = {place.block.number for place in reads if place.block.kind == "input"}
        written |= (made := {place.block.number for place in writes if place.block.kind == "output"})
        if step.scratch or inputs & made - safe or inputs & (written - made):
            return False
    return True


__all__ = ["Foreach"]
