"""The ways to views by numbers that follow from sizes: a recording for many sizes finds these numbers in every call.

    return x[: x.shape[0] // 2]         result: input 0, by slice(dim=0, start=None, end=n//2, step=1)

A recording for one size has the numbers of that size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jit.eager.view_paths import ViewPath, with_numbers
from jit.ir.graph import leaves
from jit.ir.sizes import SizeExpr, SizeSymbol

from .changes import EffectSpec
from .results import ResultSpec
from .size_formulas import SizeFormula


def paths_of(result: ResultSpec, effects: EffectSpec) -> list[ViewPath]:
    """The ways to the views that leave a function: those of its outputs, then of inputs that become views."""
    return [*(output.path for output in result.outputs), *(path for _, path, _ in effects.moves)]


def with_paths(result: ResultSpec, effects: EffectSpec, paths: Sequence[ViewPath]) -> tuple[ResultSpec, EffectSpec]:
    """The same results and changes, with other ways to the views."""
    outputs = [replace(output, path=path) for output, path in zip(result.outputs, paths)]
    moves = [(i, path, grad) for (i, _, grad), path in zip(effects.moves, paths[len(outputs) :], strict=True)]
    return replace(result, outputs=outputs), replace(effects, moves=moves)


class ViewsOfSizes:
    """The results and changes of a recording for many sizes, by the sizes of a call.

    Args:
        result: The way of the result out of a run; its paths may hold sizes.
        effects: The changes, likewise.
        symbols: The symbols of these sizes.
    """

    def __init__(self, result: ResultSpec, effects: EffectSpec, symbols: Sequence[SizeSymbol]) -> None:
        self.result, self.effects = result, effects
        self._paths = paths_of(result, effects)
        found = {id(n): n for path in self._paths for step in path for n in leaves(step.arguments)}
        self._sizes = [n for n in found.values() if type(n) in (SizeExpr, SizeFormula)]
        self._functions: list[Callable[..., int]] = [size.function(symbols) for size in self._sizes]

    def at(self, sizes: Sequence[int]) -> tuple[ResultSpec, EffectSpec]:
        """The results and changes of a call of these sizes."""
        if not self._sizes:
            return self.result, self.effects
        known = {id(size): function(*sizes) for size, function in zip(self._sizes, self._functions, strict=True)}
        paths = [with_numbers(path, lambda n: known.get(id(n), n)) for path in self._paths]
        return with_paths(self.result, self.effects, paths)
