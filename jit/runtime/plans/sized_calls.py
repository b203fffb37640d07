"""Native calls of stretches whose sizes are expressions: made of their tables for the sizes that come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jit.ir.errors import CompileError

from ..arrays.programs import Program, Registers
from . import entry
from .by_ctypes import Addresses, ByCtypes, SpareMemory, laid_out
from .places import Layout
from .sized_tables import SizedRun, SizedTables

_Made = tuple[SizedRun | None, Callable[..., Any]]
"""A stretch as it runs at some sizes, and its call without an entry."""


class SizedCalls:
    """Calls of a stretch with the values of its symbols and arrays.

    Args:
        tables: All that depends on sizes.
        failed: Raises the error of a status that a call has returned.
        fixed: The stretch with numbers for its sizes, for what the tables do not say.
    """

    def __init__(
        self, tables: SizedTables, failed: Callable[[int], None],
        fixed: Callable[[tuple[int, ...]], Callable[[Sequence[Any]], Sequence[Any]]],
    ) -> None:  # fmt: skip
        self.tables = tables
        self.latest: tuple[int, ...] = ()
        """The sizes of the latest call."""
        self._failed = failed
        self._fixed = fixed
        self._calls: dict[tuple[int, ...], _Made] = {}
        """The calls for the sizes that came last, the latest last."""
        self._addresses, self._spare = Addresses(), SpareMemory()
        self._entry: _FittingEntry | None = None
        """Made when the second call comes."""
        self._lock = threading.Lock()

    def __call__(self, sizes: tuple[int, ...], arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs, the symbols having the values `sizes`."""
        run, call = self._calls.get(sizes) or self._made(sizes)
        is_first, self.latest = not self.latest, sizes
        if run is None:
            return call(*arrays)
        if self._entry is None and not is_first and entry.available():
            self._entry = _FittingEntry(run, self.tables, self._failed)
        found = self._entry(run, arrays) if self._entry is not None else None
        found = call(*arrays) if found is None else found
        found = call(*map(laid_out, arrays, run.layouts)) if found is None else found
        return found if found is not None else self._fixed(sizes)(arrays)

    def run_at(self, sizes: tuple[int, ...]) -> SizedRun | None:
        """The stretch as it runs at some sizes; None if some work has no code at these."""
        return (self._calls.get(sizes) or self._made(sizes))[0]

    def at(self, sizes: tuple[int, ...]) -> CodeAtSizes | None:
        """The code at some sizes; None if some work has no code at these."""
        run = self.run_at(sizes)
        return None if run is None else CodeAtSizes(run, self._failed)

    def _made(self, sizes: tuple[int, ...]) -> _Made:
        try:
            run = self.tables.at(sizes)
            made: _Made = run, ByCtypes(run, self._failed, self._addresses, self._spare)
        except CompileError:  # some work has no code at these sizes
            native = self._fixed(sizes)
            made = None, lambda *arrays: native(arrays)
        with self._lock:
            self._calls[sizes] = made
            while len(self._calls) > _MOST_SIZES:
                del self._calls[next(iter(self._calls))]
        return made


@dataclass(eq=False)
class CodeAtSizes:
    """Code for many sizes as it runs at some of them, with as much of `StretchCode` as entries need."""

    run: SizedRun
    failed: Callable[[int], None]

    @property
    def layouts(self) -> list[Layout]:
        """The layouts of its inputs."""
        return self.run.layouts

    def tables(self) -> entry.Tables:
        """The tables that an entry for arrays looks at."""
        run = self.run
        inputs = [entry.EntryInput(*layout, argument=index) for index, layout in enumerate(run.layouts)]
        return entry.Tables(
            inputs, run.outputs, run.program, run.operands, run.arena, run.constants, self.failed, not run.is_quick,
            kept=self,
        )  # fmt: skip


class _FittingEntry:
    """An entry for arrays that is let be for the sizes that come, for one call at a time.

    Args:
        run: The stretch at some sizes.
        tables: The stretch at all sizes.
        failed: Raises the error of a status that a call has returned.
    """

    def __init__(self, run: SizedRun, tables: SizedTables, failed: Callable[[int], None]) -> None:
        self._entry = entry.make_entry(CodeAtSizes(run, failed).tables())
        self._resizer = entry.Resizer(self._entry, tables.shapes.opened(tables.names))
        self._sizes = run.sizes
        self._lock = threading.Lock()

    def __call__(self, run: SizedRun, arrays: Sequence[Any]) -> Sequence[Any] | None:
        """The outputs; None if arrays lie otherwise, or another call is under way."""
        if not self._lock.acquire(False):
            return None
        try:
            if run.sizes != self._sizes:
                self._sizes = ()  # an interrupt may come
                self._resizer.resize(run.sizes, run.program, run.arena, not run.is_quick)
                self._sizes = run.sizes
            found: Sequence[Any] | None = self._entry(*arrays)
            return found
        finally:
            self._lock.release()


@dataclass(eq=False)
class NativeAtSizes:
    """A native call for many sizes as it is at some of them."""

    reads: Sequence[int]
    """The registers of its inputs."""
    results: Sequence[int]
    """The registers of its outputs."""
    code: CodeAtSizes
    told: int
    """The register of the sizes that it is told."""
    calls: SizedCalls
    """The same for all sizes."""


class OfArrays(Protocol):
    """A native call of arrays."""

    reads: list[int]
    """The registers of its inputs."""
    results: list[int]
    """The registers of its outputs."""

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The outputs."""


class OfSizes(Protocol):
    """A native call for many sizes."""

    reads: list[int]
    results: list[int]
    call: SizedCalls


def native_instruction(native: OfArrays) -> Callable[[Registers], None]:
    """The instruction of a native call."""
    inputs, results = native.reads, native.results

    def run(r: Registers) -> None:
        for result, value in zip(results, native([r[i] for i in inputs]), strict=True):
            r[result] = value

    run.native = native  # type: ignore[attr-defined]
    return run


def sized_instruction(native: OfSizes, sizes: int) -> Callable[[Registers], None]:
    """The instruction of a native call for many sizes, given the register of the values of symbols."""
    inputs, results, call = native.reads, native.results, native.call

    def run(r: Registers) -> None:
        for result, value in zip(results, call(r[sizes], [r[i] for i in inputs]), strict=True):
            r[result] = value

    run.native, run.sizes = native, sizes  # type: ignore[attr-defined]
    return run


def views_of(program: Program) -> list[Callable[[Registers], None]]:
    """The instructions of a program that make views in Python."""
    return [instruction for instruction in program.instructions if getattr(instruction, "view_of", ())]


def only_call(program: Program, count: int, arrays: Sequence[Any], with_views: bool = False) -> Any:
    """The one native call that a program of the first stage consists of; None if there is more to it.

    One for many sizes is in it as it is at the sizes of `arrays`. What stands in front of it finds these sizes.

    Args:
        program: The program.
        count: The number of registers.
        arrays: The inputs; needed where sizes vary.
        with_views: Whether there may also be views of which the native call reads none.
    """
    views = views_of(program) if with_views else []
    instructions = [instruction for instruction in program.instructions if instruction not in views]
    if not instructions:
        return None
    *before, last = instructions
    native, sizes = getattr(last, "native", None), getattr(last, "sizes", None)
    if native is None or len(before) != (sizes is not None):
        return None
    if not {register for view in views for register in view.view_of}.isdisjoint(native.reads):  # type: ignore[attr-defined]
        return None
    if sizes is None:
        return native
    if not arrays:
        return None
    registers: list[Any] = [None] * count
    for register, array in zip(program.inputs, arrays, strict=True):
        registers[register] = array
    before[0](registers)
    code = native.call.at(registers[sizes])
    return code and NativeAtSizes(native.reads, native.results, code, sizes, native.call)


_MOST_SIZES = 256
"""The most sizes for which a call is kept."""
