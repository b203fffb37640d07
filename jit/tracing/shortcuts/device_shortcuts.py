"""The short way through a traced call whose tensors lie on a GPU.

Native code compares all that it compares for tensors on the CPU (Note [What a shortcut looks at] in `shortcuts`), but
for the arrays: those of CuPy are objects of a compiled class, whose fields have no fixed places. So Python asks the
arrays of arguments for their layouts and addresses. A captured tensor mostly has the same array as in the last call,
which says all of that at once.

A plan that is one stretch is given addresses, and nothing more is in its way; any other one, and calls whose gradient
may be asked for, run as they do the long way, with the key left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jit.eager.pytree import TENSOR, unflatten
from jit.eager.tensors import Tensor, tensor_of
from jit.ir.sizes import any_symbolic
from jit.runtime.arrays.libraries import library_of
from jit.runtime.plans import entry
from jit.runtime.plans.places import Layout
from jit.runtime.plans.sized_tables import SizedShapes, as_texts

from .orders import order_of
from .sized_shortcuts import KeepsGaps, is_open, shape_of

if TYPE_CHECKING:
    from ..recordings.chains import Plan
    from ..recordings.recording import Recording

Shortcut = Callable[..., Any]
MOST_LAYOUTS = 256
"""The most layouts of arguments that a shortcut knows."""
Span = tuple[int, int]
"""The first byte of an array, and the one behind its last, from its address on."""
Launch = Callable[[Sequence[int]], Sequence[Any]]
"""Takes the addresses of a call's inputs."""


class DeviceArrays:
    """Finds the arrays of a call, and where they lie.

    Args:
        positions: The places of tensors among the items of a call.
        captured: The tensors behind the other inputs.
        first: Some array of theirs.
    """

    def __init__(self, positions: Sequence[int], captured: Sequence[Tensor], first: Any) -> None:
        self.positions, self.captured = positions, captured
        self._class, self._index = type(first), library_of(first).index  # type: ignore[attr-defined]
        self._held = [_KnownArray(tensor._array) for tensor in captured]

    def given(self, items: Sequence[Any]) -> tuple[list[Any], list[int], tuple[Any, ...]] | None:
        """The arrays of arguments, their addresses, and their layouts; None if one lies elsewhere."""
        arrays: list[Any] = []
        addresses: list[int] = []
        layouts: list[Any] = []
        kind, index = self._class, self._index
        for position in self.positions:
            array = items[position]._array
            if type(array) is not kind or (place := array.data).device_id != index:
                return None
            arrays.append(array)
            addresses.append(place.ptr)
            layouts += (array.dtype, array.shape, array.strides)
        return arrays, addresses, tuple(layouts)

    def hold(self, arrays: list[Any], addresses: list[int]) -> bool:
        """Add those of captured tensors; False if one is of another kind than it was."""
        for number, (tensor, held) in enumerate(zip(self.captured, self._held)):
            array = tensor._array
            if held.array() is not array:
                other = _KnownArray(array) if type(array) is self._class else None
                if other is None or other.facts != held.facts:
                    return False
                held = self._held[number] = other
            arrays.append(array)
            addresses.append(held.address)
        return True


class _KnownArray:
    """An array that a captured tensor has; it is not kept alive."""

    __slots__ = ("address", "array", "facts")

    def __init__(self, array: Any) -> None:
        self.array, self.address = weakref.ref(array), array.data.ptr
        self.facts = array.data.device_id, array.dtype, array.shape, array.strides


class _Way(NamedTuple):
    """The way of calls with arguments of certain layouts."""

    spans: Sequence[Span]
    """The memory of each argument; none if there is but one."""
    launch: Launch | None
    """Gives what the function returns; None if the recording is to be run."""


class DeviceCalls:
    """The calls of a recording, for the layouts that come.

    Args:
        recording: What is run.
        owners: The tensors behind its inputs in some call.
        count: The number of those that are arguments.
        whole: Whether the recording is to be run as a whole, whatever its plan is.
    """

    def __init__(self, recording: Recording, owners: Sequence[Tensor], count: int, whole: bool) -> None:
        self._recording, self._count, self._whole = recording, count, whole
        self.known: dict[tuple[Any, ...], _Way] = {}
        """The ways, by the layouts of arguments."""
        self._layouts = [Layout(o._array.dtype, o._array.shape, o._array.strides) for o in owners]
        if recording.general:
            named = recording.named(recording.chains[0])
            names = [symbol.name for symbol in named.symbols]
            types = [value.type for value in named.graph.inputs]
            self._open = SizedShapes([_texts(*pair) for pair in zip(types, self._layouts, strict=True)], (), names)
            parts = [KeepsGaps(type, names) for type in types if is_open(type) and not any_symbolic(type.strides)]
            self._parts = [part for part in parts if part(recording.sizes_of(owners))]

    def made(self, layouts: tuple[Any, ...], arrays: Sequence[Any], owners: list[Any]) -> _Way | None:
        """The way for arguments of other layouts; None if the call is another one."""
        found = self._ready(arrays, owners)
        if found is not None:
            while len(self.known) >= MOST_LAYOUTS:
                del self.known[next(iter(self.known))]
            self.known[layouts] = found
        return found

    def _ready(self, arrays: Sequence[Any], owners: list[Any]) -> _Way | None:
        sizes = self._recording.sizes_of(owners)
        plan = self._plan(sizes)
        wanted = self._open.at(sizes)[0] if self._recording.general else self._layouts
        given = [Layout(a.dtype, a.shape, a.strides) for a in arrays[: self._count]]
        if plan is None or not all(map(Layout.fits, given, wanted)):
            return None
        spans = [_span(layout) for layout in given] if len(given) > 1 else []
        return _Way(spans, None if self._whole else self._launch(plan, arrays))

    def _plan(self, sizes: tuple[int, ...]) -> Plan | None:
        """The plan that there is for some sizes, if these are right for the recording."""
        recording, chain = self._recording, self._recording.chains[0]
        if not recording.general:
            return chain.plan
        assert recording.size_test is not None
        if not recording.size_test.holds(sizes) or not all(part(sizes) for part in self._parts):
            return None
        return next((made.plan for made in chain.sized_plans.made if made.suits(sizes)), None)

    def _launch(self, plan: Plan, arrays: Sequence[Any]) -> Launch | None:
        """A function that launches the one stretch that a plan consists of; None if there is more to it."""
        from jit.runtime.cuda.stretches import launcher_of, only_device_call

        program = plan.interpreter.programs[0]
        native, _ = only_device_call(program)
        order = None if native is None else order_of(native.results, plan, self._recording)
        if order is None or not order.is_whole:
            return None
        return launcher_of(program, plan.interpreter.count, arrays, order.numbers)


def _texts(type: Any, layout: Layout) -> tuple[Any, Any, Any]:
    """The layout of an input, with the texts of sizes where it is for many."""
    if not is_open(type):
        return layout.dtype, layout.shape, layout.strides
    shape, strides, _ = shape_of(type)
    return layout.dtype, as_texts(shape), as_texts(strides)


def _span(layout: Layout) -> Span:
    reaches = [(n - 1) * s for n, s in zip(layout.shape, layout.strides, strict=True)]
    return sum(r for r in reaches if r < 0), sum(r for r in reaches if r > 0) + layout.itemsize


def _are_apart(spans: Sequence[Span], addresses: Sequence[int]) -> bool:
    """Whether arrays share no memory."""
    end = 0
    for first, last in sorted([(at + low, at + high) for at, (low, high) in zip(addresses, spans)]):
        if first < end:
            return False
        end = last
    return True


def on_device(
    checks: Shortcut, recording: Recording, arrays: DeviceArrays, calls: DeviceCalls, inference: bool
) -> Shortcut:
    """A function of the items of a call that does what the recording does, or returns None.

    Args:
        checks: The entry that compares everything but arrays.
        recording: What is run.
        arrays: Finds the arrays of a call.
        calls: Knows what to do for their layouts.
        inference: Whether results are tensors of inference mode.
    """
    structure = recording.result.structure
    is_bare = structure == TENSOR

    def owners(items: Sequence[Any]) -> list[Any]:
        return [*(items[position] for position in arrays.positions), *arrays.captured]

    def run(items: Sequence[Any]) -> Any:
        given = arrays.given(items)
        if given is None or not arrays.hold(*given[:2]):
            return None
        values, addresses, layouts = given
        ready = calls.known.get(layouts) or calls.made(layouts, values, owners(items))
        if ready is None or not _are_apart(ready.spans, addresses):
            return None
        if ready.launch is None:
            return recording.run(owners(items))
        made = [tensor_of(array) for array in ready.launch(addresses)]
        if inference:
            for tensor in made:
                tensor._storage.inference = True
        return made[0] if is_bare else unflatten(structure, made)

    def call(*items: Any) -> Any:
        if checks(*items) is None:
            return None
        result = None
        try:
            result = run(items)
        finally:
            if result is None:
                entry.uncount(checks)
        return result

    call.__wrapped__ = checks  # type: ignore[attr-defined]
    return call
