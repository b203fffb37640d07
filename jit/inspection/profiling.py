"""`f.profile(*args)`: where the time of a traced call goes, by kernel and by the user's lines."""

from __future__ import annotations

import html
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import Graph, TensorType, Value
from jit.ir.errors import Error, UsageError
from jit.ir.files import write_atomically
from jit.ir.refusals import FOREIGN
from jit.ir.tables import html_table
from jit.passes.support.symbolic_sizes import put_numbers
from jit.runtime.arrays.programs import GuardFailed
from jit.tracing.recordings.compiling import engine, is_on_host, unoptimised
from jit.tracing.recordings.hosting import PythonHost
from jit.tracing.recordings.named_sizes import sizes_in

if TYPE_CHECKING:
    from jit.runtime.plans.timing import Timed
    from jit.tracing.recordings.chains import Chain
    from jit.tracing.recordings.recording import Recording

ROUNDS = 5


@dataclass(frozen=True)
class ProfileRow:
    """A row of the table."""

    name: str
    """A kernel, a product, a node, or a line of the user's."""
    seconds: float
    bytes: float
    flops: float
    calls: int
    stage: int = 0


class Profile:
    """The time that a run of a traced function has spent, kernel by kernel; it prints as a table."""

    def __init__(self, name: str, events: Sequence[Timed]) -> None:
        self.name = name
        self._events = list(events)

    @property
    def kernels(self) -> list[ProfileRow]:
        """One row per kernel, product, or node that Python runs, the longest first."""
        return _summed(
            (e, [((e.stage, e.name if e.is_native else f"{e.name} (no kernel)"), 1.0)]) for e in self._events
        )

    @property
    def lines(self) -> list[ProfileRow]:
        """One row per line of the user's, the longest first."""
        return _summed((e, [((e.stage, line), share) for line, share in e.lines.items()]) for e in self._events)

    @property
    def seconds(self) -> float:
        """The total time, in seconds."""
        return sum(event.seconds for event in self._events)

    def chrome_trace(self) -> dict[str, Any]:
        """The events, one after the other, in the format of chrome://tracing and Perfetto."""
        events, at = [], 0.0
        for event in self._events:
            facts = {"bytes": event.bytes, "flops": event.flops, "lines": list(event.lines), "stage": event.stage}
            events.append(
                {"name": event.name, "ph": "X", "pid": 0, "tid": event.stage, "ts": 1e6 * at,
                 "dur": 1e6 * event.seconds, "cat": "kernel" if event.is_native else "node", "args": facts}
            )  # fmt: skip
            at += event.seconds
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the Chrome trace to a file, which chrome://tracing and ui.perfetto.dev show; Error if that fails."""
        write_atomically(path, json.dumps(self.chrome_trace()))

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=120, color_system=None)
        console.print(self.__rich__())
        return f"{self.name}: {_quantity(self.seconds, 's')}\n{console.file.getvalue()}"  # type: ignore[attr-defined]

    def __rich__(self) -> Any:
        """The tables for the library rich."""
        from rich.console import Group

        return Group(*(_table(title, rows, self.seconds) for title, rows in self._tables()))

    def _repr_html_(self) -> str:
        whole = self.seconds
        tables = (html_table([t, *_COLUMNS], [_cells(r, whole) for r in rows]) for t, rows in self._tables())
        return f"<p>{html.escape(self.name)}: {_quantity(whole, 's')}</p>{''.join(tables)}"

    def _tables(self) -> list[tuple[str, list[ProfileRow]]]:
        return [("kernel", self.kernels), ("line", self.lines)]

    def __repr__(self) -> str:
        return str(self)


def _summed(found: Iterable[tuple[Timed, Iterable[tuple[tuple[int, str], float]]]]) -> list[ProfileRow]:
    sums: dict[tuple[int, str], list[float]] = {}
    for event, keys in found:
        for key, share in keys:
            total = sums.setdefault(key, [0.0, 0.0, 0.0, 0])
            for place, amount in enumerate((event.seconds, event.bytes, event.flops)):
                total[place] += share * amount
            total[3] += 1
    rows = [ProfileRow(name, s, b, f, int(n), stage) for (stage, name), (s, b, f, n) in sums.items()]
    return sorted(rows, key=lambda row: -row.seconds)


_COLUMNS = ("stage", "calls", "time", "share", "bytes", "flops", "rate")
"""The titles after the first one."""


def _table(title: str, rows: Sequence[ProfileRow], whole: float) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE, pad_edge=False)
    table.add_column(title, overflow="fold")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, whole))
    return table


def _cells(row: ProfileRow, whole: float) -> list[str]:
    rate = f"{_quantity(row.bytes / row.seconds, 'B/s')}" if row.seconds else ""
    share = f"{row.seconds / whole if whole else 0:.0%}"
    return [
        row.name, str(row.stage), str(row.calls), _quantity(row.seconds, "s"), share, _quantity(row.bytes, "B"),
        _quantity(row.flops, ""), rate,
    ]  # fmt: skip


def _quantity(number: float, unit: str) -> str:
    """A number with three digits and a prefix, such as `12.3 us` or `4.1 MB/s`."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0), ("m", 1e-3), ("u", 1e-6)):
        if number >= size:
            return f"{number / size:.3g} {prefix}{unit}".strip()
    return f"{number * 1e9:.3g} n{unit}" if number else f"0 {unit}".strip()


# -- measuring ---------------------------------------------------------------------------------------------------


def measure(name: str, recordings: Sequence[Recording], owners_of: Callable[[Recording], Sequence[Any]]) -> Profile:
    """Profile the first of `recordings` whose guards hold for the call.

    Args:
        name: The name of the function, for the error.
        recordings: The recordings to try.
        owners_of: A function from a recording to the owners of its captured values, for this call.

    Raises:
        UsageError: There is no recording for these arguments.
    """
    raised: Exception | None = None
    for recording in recordings:
        try:
            return Profile(name, _measured_on(recording, owners_of(recording)))
        except GuardFailed:
            continue
        except (Error, *FOREIGN) as error:  # which another recording has caught, perhaps
            raised = raised or error
    if raised is not None:
        raise raised
    raise UsageError(f"{name} has no trace for these arguments: call it with them once")


def rehearse(name: str, recording: Recording) -> Profile | str:
    """Profile a recording on ones of the recorded sizes in the place of its inputs, or say why that is not possible.

    Args:
        name: The name of the function.
        recording: The recording; captured tensors are ones too.
    """
    try:
        graph = _graph_for(recording, recording.chains[0], None)
        return Profile(name, _measured(recording, graph, [_ones(value) for value in graph.inputs]))
    except Exception as error:  # a guard or an operator does not like ones, or an input is no plain tensor
        return f"{type(error).__name__}: {error}"


def _measured_on(recording: Recording, owners: Sequence[Any]) -> list[Timed]:
    """The times on what the tensors behind the inputs hold."""
    from jit.tracing.surroundings.properties import contents_of

    graph = _graph_for(recording, recording.chains[0], owners)
    return _measured(recording, graph, [contents_of(owner) for owner in owners])


def _measured(recording: Recording, graph: Graph, values: Sequence[Any]) -> list[Timed]:
    """All stages of a recording that have been seen, each kernel in its fastest round; nothing is written back."""
    from jit.runtime.plans.timing import timed

    is_planned = recording.optimise is not unoptimised and is_on_host(graph)
    interpreter = engine(graph, is_planned, PythonHost())  # on a GPU the nodes are timed one by one
    notes = timed(interpreter)
    rounds: list[list[Timed]] = []
    for _ in range(1 if recording.calls_python else ROUNDS):
        state = interpreter.run(0, values)[2]
        for stage, gradients in _backwards(graph):
            state = interpreter.run(stage, gradients, state)[2]
        rounds.append(notes[:])
        notes.clear()
    return [min(same, key=lambda event: event.seconds) for same in zip(*rounds, strict=True)]


def _graph_for(recording: Recording, chain: Chain, owners: Sequence[Any] | None) -> Graph:
    """The graph that runs for these inputs, with numbers for its sizes; those of the first call without inputs."""
    if not recording.general:
        return recording.plan(chain).interpreter.graph
    first = recording.trace.graph.inputs
    sizes = sizes_in(first, recording.varying) if owners is None else recording.sizes_of(owners)
    graph = recording.plan(chain, sizes).interpreter.graph.clone()
    put_numbers(graph, dict(zip(recording.named(chain).symbols, sizes, strict=True)))
    return graph


def _backwards(graph: Graph) -> Iterable[tuple[int, list[Any]]]:
    """The later stages, with gradients of ones to go backward from."""
    for number, stage in enumerate(graph.stages[1:], 1):
        yield number, [_ones(value) for value in stage.inputs]


def _ones(value: Value) -> Any:
    """Ones of the type of an input."""
    type = value.type
    if not isinstance(type, TensorType) or type.sizes is None or type.dtype is None:
        raise UsageError(f"%{value.name} has no known size, so there is nothing to profile it with")
    return np.ones(type.sizes, type.dtype.numpy)
