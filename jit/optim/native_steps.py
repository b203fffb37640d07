"""Steps of optimizers as native calls: one for all parameters that have come equally far, which writes in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from jit.eager import context
from jit.eager.effects import NOTES
from jit.eager.tensors import Tensor
from jit.ir import Graph, TensorType, dtypes
from jit.ir.errors import CompileError
from jit.passes.support.builder import GraphBuilder
from jit.runtime.plans.foreach import Foreach
from jit.runtime.plans.places import Layout

Rule = Callable[[Any, Any, Any, dict[str, Any], Mapping[str, Any]], tuple[Any, dict[str, Any]]]
"""See `RuledOptimizer.rule`."""

PATIENCE = 3
"""The number of steps that are computed operator by operator: a formula is compiled for those who take more."""
_CALLS = 8
"""The most native calls that an optimizer keeps, such as for the groups of its parameters."""
_LARGEST = float(np.finfo(np.float32).max)


def may_be_native(parameters: Sequence[Any], group: Mapping[str, Any]) -> bool:
    """Whether nobody watches the operators of a step, and the order of its parameters does not matter."""
    watchers = (context.TRACE, NOTES, context.AUTOCAST, context.PROFILE, context.SAVING, context.ANOMALY)
    if group.get("differentiable") or any([watcher.get() is not None for watcher in watchers]):
        return False
    storages = {parameter._storage for parameter in parameters}
    gradients = {parameter.grad._storage for parameter in parameters if parameter.grad is not None}
    return len(storages) == len(parameters) and storages.isdisjoint(gradients)


@dataclass(slots=True)
class Member:
    """A parameter in a step, with what is kept for it. Whether its arrays lie well is left to the native call."""

    parameter: Tensor
    kept: list[Tensor]
    counted: list[Tensor]
    counts: tuple[float, ...]
    """The numbers in `counted`."""
    arrays: list[Any]
    """The arrays of the parameter, of what is kept, and of the gradient."""
    dtype: Any

    @staticmethod
    def of(parameter: Any, state: Any, names: Sequence[str], counts: Sequence[str]) -> Member | None:
        """A parameter with a gradient; None if native code cannot update it, or nothing is kept for it yet.

        Args:
            parameter: The parameter.
            state: What is kept for it, by name; None before the first step.
            names: The names of the tensors among that.
            counts: The names of the numbers.
        """
        try:
            kept, counted = [state[name] for name in names], [state[name] for name in counts]
            numbers = tuple([float(each._array) for each in counted])
            arrays = [parameter._array, *[each._array for each in kept], parameter.grad._array]
            dtype = arrays[0].dtype
        except (AttributeError, KeyError, TypeError):  # numbers instead of tensors, such as others have saved
            return None
        if dtype.char not in "fd" or parameter._storage.inference:
            return None
        return Member(parameter, kept, counted, numbers, arrays, dtype)

    def note_step(self, counts: Sequence[float], source: Any) -> None:
        """Note that a line has written to its tensors, and what is counted now."""
        self.parameter._storage.written(source)
        for tensor in self.kept:
            tensor._storage.written(source)
        for tensor, value in zip(self.counted, counts):
            tensor._array[...] = value
            tensor._storage.written(source)


class NativeSteps:
    """The native calls of an optimizer, and how many steps it has taken."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}
        self._calls: dict[Any, _NativeStep | None] = {}

    def are_worth_it(self, group: Mapping[str, Any]) -> bool:
        """Whether so many steps have been taken with a group's parameters that there will be more."""
        number = id(group["params"])  # the list stays, while a share of a group is a new dict in each step
        taken = self._taken[number] = self._taken.get(number, 0) + 1
        return taken > PATIENCE

    def run(self, rule: Rule, names: Sequence[str], members: Sequence[Member], numbers: Mapping[str, Any]) -> bool:
        """Update parameters; False if native code cannot, and nothing has happened.

        Args:
            rule: The formula.
            names: The names of what is kept for them.
            members: The parameters, all of one dtype.
            numbers: The numbers in it; truth values decide on what the formula is.
        """
        flags = tuple((name, value if isinstance(value, bool) else None) for name, value in numbers.items())
        key = (flags, members[0].dtype, *[id(member.parameter) for member in members])
        values = [value for value in numbers.values() if not isinstance(value, bool)]
        if not all(abs(value) <= _LARGEST for value in values):
            return False  # not a number, or one that is infinite in the parameters' dtype
        for _ in range(2):
            if key not in self._calls:
                self._add(key, rule, names, members, numbers)
            call = self._calls[key]
            if call is None or call(members, values):
                return call is not None
            del self._calls[key]  # for arrays that lie otherwise than those of this step
        return False

    def _add(
        self, key: Any, rule: Rule, names: Sequence[str], members: Sequence[Member], numbers: Mapping[str, Any]
    ) -> None:
        if len(self._calls) >= _CALLS:
            self._calls.clear()
        try:
            self._calls[key] = _NativeStep(rule, names, members, numbers)
        except CompileError:
            self._calls[key] = None


class _NativeStep:
    """The native call for some parameters."""

    def __init__(self, rule: Rule, names: Sequence[str], members: Sequence[Member], numbers: Mapping[str, Any]) -> None:
        self._rule, self._names, self._given = rule, names, numbers
        if not all(_is_plain(array, member.arrays[0]) for member in members for array in member.arrays):
            raise CompileError("arrays of one layout are needed")
        self._numbers = [np.zeros((), members[0].dtype) for n in numbers.values() if not isinstance(n, bool)]
        self._call = Foreach(self._formula, [member.arrays for member in members], self._numbers)

    def __call__(self, members: Sequence[Member], numbers: Sequence[float]) -> bool:
        for array, number in zip(self._numbers, numbers, strict=True):
            array[()] = number
        return self._call([*(array for member in members for array in member.arrays), *self._numbers])

    def _formula(self, layouts: Sequence[Layout]) -> Graph:
        graph = Graph()
        builder = GraphBuilder(graph)
        types = [TensorType(dtypes.from_numpy(layout.dtype), layout.shape) for layout in layouts]
        p, *others = (builder.wrap(graph.add_input(type)) for type in types)
        kept, (g, *numbers) = dict(zip(self._names, others)), others[len(self._names) :]
        left = iter(numbers)
        given = {name: n if isinstance(n, bool) else next(left) for name, n in self._given.items()}
        changed, after = self._rule(builder, p, g, kept, given)
        graph.set_return([changed.value, *(after[name].value for name in self._names)])
        return graph


def _is_plain(array: Any, other: Any) -> bool:
    is_alike = type(array) is np.ndarray and array.dtype is other.dtype and array.shape == other.shape
    return is_alike and bool(array.flags.c_contiguous)


_STEPS: WeakKeyDictionary[Any, NativeSteps] = WeakKeyDictionary()
"""The native calls of optimizers. They are no attributes of theirs: copies and files have none."""


def native_steps_of(optimizer: Any) -> NativeSteps:
    """The native calls of an optimizer."""
    return _STEPS.setdefault(optimizer, NativeSteps())
