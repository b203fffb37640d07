"""Calls of every operator that raise, made from samples that do not: by other elements, and by other sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import jit
from jit.ir.op import Op
from tests.registry_cases import Case, all_cases, copied, mapped

Arrays = list[np.ndarray]
MOST = 3
"""How many calls of a kind an operator is tried with."""


class Program:
    """A case as a function of its tensors alone, and lists of tensors for it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.arrays: Arrays = []
        mapped([*case.sample.args, *case.sample.kwargs.values()], self._note)

    def _note(self, array: Any) -> Any:
        self.arrays.append(copied(np.asarray(array)))
        return array

    def call(self, *tensors: jit.Tensor) -> Any:
        """The operator, its tensors replaced by these."""
        rest = iter(tensors)
        args = [mapped(value, lambda _: next(rest)) for value in self.case.sample.args]
        return self.case.function(
            *args, **{name: mapped(value, lambda _: next(rest)) for name, value in self.case.sample.kwargs.items()}
        )

    def raises(self, arrays: Arrays) -> bool:
        """Whether eager mode refuses these arrays."""
        jit.manual_seed(Case.SEED)
        try:
            with np.errstate(all="ignore"):
                self.call(*tensors_of(arrays))
        except Exception:
            return True
        return False


def tensors_of(arrays: Arrays) -> list[jit.Tensor]:
    """Fresh tensors of these arrays."""
    return [jit.from_numpy(copied(array)) for array in arrays]


# -- mutations ---------------------------------------------------------------------------------------------------

FILLS: dict[str, tuple[Any, ...]] = {
    "i": (1000, -1000, 0, -1), "u": (200, 0), "b": (True, False), "f": (float("nan"), float("inf"), 0.0, -1.0, 2.0),
    "c": (float("nan"), 0.0), "V": (float("nan"), 0.0, -1.0),
}  # fmt: skip


def by_elements(arrays: Arrays) -> Iterator[Arrays]:
    """One array filled with one number, or its last element alone set to it."""
    for index, array in enumerate(arrays):
        for number in FILLS.get(array.dtype.kind, ()) if array.size else ():
            for at in (..., (-1,) * array.ndim):
                changed = copied(array)
                if changed.dtype.kind == "i" and abs(int(number)) > np.iinfo(changed.dtype).max:
                    number = np.sign(number) * np.iinfo(changed.dtype).max
                changed[at] = number
                yield [*arrays[:index], changed, *arrays[index + 1 :]]


def by_sizes(arrays: Arrays) -> Iterator[Arrays]:
    """One array, or all of them, with a dim that is one longer or shorter."""
    for dim in range(max((array.ndim for array in arrays), default=0)):
        for change in (1, 2, -1):
            yield [_resized(array, dim, change) for array in arrays]
            for index in range(len(arrays)):
                yield [*arrays[:index], _resized(arrays[index], dim, change), *arrays[index + 1 :]]


def _resized(array: np.ndarray, dim: int, change: int) -> np.ndarray:
    if dim >= array.ndim or array.shape[dim] == 0 or array.shape[dim] + change < 2:
        return array
    places = np.arange(array.shape[dim] + change) % array.shape[dim]
    return np.ascontiguousarray(np.take(array, places, axis=dim))


class Calls:
    """Calls of one program of which some raise."""

    def __init__(self, program: Program, mutate: Callable[[Arrays], Iterator[Arrays]]) -> None:
        self.program = program
        self.good: list[Arrays] = [program.arrays]
        self.bad: list[Arrays] = []
        for arrays in mutate(program.arrays):
            raises = program.raises(arrays)
            kind = self.bad if raises else self.good
            if len(kind) < MOST + 1 and (raises or not trusts_its_caller(program.case.op)):
                kind.append(arrays)
            elif len(self.good) + len(self.bad) == 2 * (MOST + 1):
                break

    def in_turn(self, good_first: bool) -> list[Arrays]:
        """Good ones and bad ones by turns, each of them twice at least."""
        first, second = (self.good, self.bad) if good_first else (self.bad, self.good)
        rounds = range(2 * max(len(first), len(second)))
        calls = [kind[n % len(kind)] for n in rounds for kind in (first, second)]
        return [*calls, *first[:1], *first[:1], *second[:1], *second[:1]]


def trusts_its_caller(op: Op) -> bool:
    """Whether an operator is called by others alone, and takes for granted that sizes fit each other."""
    return not op.namespaces or op.schema.name.endswith("_backward")


def calls_of(op: Op, mutate: Callable[[Arrays], Iterator[Arrays]]) -> Calls | None:
    """Calls of the first sample of an operator that can be made to raise; None if none can."""
    for case in all_cases(op):
        program = Program(case)
        if program.raises(program.arrays):
            continue
        calls = Calls(program, mutate)
        if calls.bad:
            return calls
    return None
