"""Shortcuts of recordings for many sizes: one native entry, which is let be for the sizes that come.

A call that brings the sizes of the call before goes through as it is. For others the conditions of the recording and of
its plan are asked first, and the words of the entry are written anew (Note [An entry for many sizes] in
jit.runtime.plans.entry.resizing); what is around the function is compared by the entry, whatever the sizes are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any, TypeGuard

from jit.eager.tensors import Tensor
from jit.ir import TensorType
from jit.ir.sizes import any_symbolic
from jit.runtime.plans import entry
from jit.runtime.plans.sized_words import compiled_sizes

from ..recordings.layouts import is_part
from ..surroundings.peeking import is_a

if TYPE_CHECKING:
    from ..recordings.chains import Plan
    from ..recordings.recording import Recording

Shortcut = Callable[..., Any]


class Fitting:
    """Lets an entry be for the sizes of a call.

    Args:
        run: The entry.
        recording: What it runs.
        plan: The plan of that for the sizes of the call.
        native: The native call of the plan.
        sizes: The sizes of the call.
    """

    def __init__(self, run: Shortcut, recording: Recording, plan: Plan, native: Any, sizes: tuple[int, ...]) -> None:
        chain = recording.chains[0]
        named = recording.named(chain)
        names = [symbol.name for symbol in named.symbols]
        self.sizes = sizes
        """The sizes for which the entry is at present, in the order of the recording; none while it is changed."""
        self._choose = _chooser([names.index(name) for name in native.calls.tables.names])
        self.chosen: tuple[int, ...] = self._choose(sizes)
        """The same in the order of the plan."""
        assert recording.size_test is not None
        self._admits = (recording.size_test.holds, next(p for p in chain.sized_plans.made if p.plan is plan).suits)
        self._calls = native.calls
        types = [value.type for value in named.graph.inputs]
        shapes = {i: shape_of(type) for i, type in enumerate(types) if is_open(type)}
        parts = [KeepsGaps(type, names) for type in types if is_open(type) and not any_symbolic(type.strides)]
        self._parts = [part for part in parts if part(sizes)]
        self._resizer = entry.Resizer(run, entry.OpenShapes(shapes, native.calls.tables.shapes.outputs, names))

    def fit(self, sizes: tuple[int, ...]) -> bool:
        """Let the entry be for other sizes; whether the recording and the plan are for them."""
        if not all(admits(sizes) for admits in (*self._admits, *self._parts)):
            return False
        chosen = self._choose(sizes)
        run = self._calls.run_at(chosen)
        if run is None:  # some work has no code at these sizes
            return False
        self.sizes = ()  # an interrupt may come
        self._resizer.resize(sizes, run.program, run.arena, not run.is_quick)
        self.sizes, self.chosen, self._calls.latest = sizes, chosen, chosen
        return True


class KeepsGaps:
    """Whether a tensor with gaps in its memory still has some at other sizes: it is of another kind else."""

    def __init__(self, type: TensorType, names: Sequence[str]) -> None:
        assert type.shape is not None
        self._shape = compiled_sizes([*map(str, type.shape)], names)
        self._strides = type.strides

    def __call__(self, sizes: tuple[int, ...]) -> bool:
        """Whether it has, these being the values of the symbols."""
        return self._strides is not None and is_part(self._shape(*sizes), self._strides)


def for_all_sizes(run: Shortcut, fitting: Fitting, recording: Recording, items: Sequence[Any]) -> Shortcut:
    """`run`, whose entry is for certain sizes, for those of each call; for one call at a time.

    Args:
        run: Takes the items of a call.
        fitting: Lets its entry be for other sizes.
        recording: What it runs.
        items: Those of some call.
    """
    positions = [i for i, item in enumerate(items) if is_a(item, Tensor)]
    sizes_of = _reader([(positions[index], dim) for index, dim in recording.varying], items)
    lock = threading.Lock()

    def call(*items: Any) -> Any:
        if not lock.acquire(False):  # another thread is on it, or it waits for this very call
            return None
        try:
            sizes = sizes_of(items)
            if sizes is None or (sizes != fitting.sizes and not fitting.fit(sizes)):
                return None
            return run(*items)
        finally:
            lock.release()

    call.__wrapped__ = getattr(run, "__wrapped__", run)  # type: ignore[attr-defined]
    return call


def _reader(places: Sequence[tuple[int, int]], items: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """A function from the items of a call to sizes, given the numbers of items and dims; None if they are others."""
    kinds = {index: type(items[index]) for index, _ in places}
    checks = [f"len(items) == {len(items)}"]
    checks += [f"type(items[{i}]) is kinds[{i}] and items[{i}]._array.ndim == {items[i]._array.ndim}" for i in kinds]
    sizes = "".join(f"items[{i}]._array.shape[{dim}], " for i, dim in places)
    text = f"lambda items: ({sizes}) if {' and '.join(checks)} else None"
    reader: Callable[[Sequence[Any]], Any] = eval(text, {"kinds": kinds})
    return reader


def _chooser(places: Sequence[int]) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    if len(places) == 1:
        return lambda sizes: (sizes[places[0]],)
    return itemgetter(*places) if places else lambda sizes: ()


def is_open(type: Any) -> TypeGuard[TensorType]:
    """Whether a tensor of this type has a size that varies."""
    return isinstance(type, TensorType) and any_symbolic(type.shape, type.strides)


def shape_of(type: TensorType) -> tuple[Any, Any, int]:
    """Sizes, strides in bytes, and the bytes of an element."""
    assert type.shape is not None and type.dtype is not None
    itemsize = type.dtype.itemsize
    steps = [*accumulate(reversed(type.shape), mul, initial=1)][-2::-1] if type.strides is None else type.strides
    return type.shape, tuple(step * itemsize for step in steps), itemsize
