"""`ProgramToExport`: what becomes a model, one recording of a function or several as one graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jit.eager.pytree import Structure
from jit.eager.tensors import Tensor
from jit.ir import Graph
from jit.ir.errors import ExportError
from jit.ir.types import GeneratorType
from jit.runtime.arrays.libraries import HOST

from .exported_results import left_out, names_of_results, return_numbers
from .recordings.chains import graph_of
from .recordings.joined_paths import join_paths
from .recordings.recording import Recording


class ProgramToExport(NamedTuple):
    """A graph that is exported, and the recordings of which it was made."""

    recordings: Sequence[Recording]
    """One for each path through the function."""
    graph: Graph
    captured: dict[str, Any]
    """The tensors and generators behind the inputs that are no arguments, by the names of these, in order."""

    @property
    def structure(self) -> Structure:
        """The structure of the function's result."""
        found: Structure = self.recordings[0].result.structure
        return found

    def initializers(self) -> dict[str, Any]:
        """The arrays of parameters and other captured tensors, by the names of the graph's inputs."""
        present = {value.name for stage in self.graph.stages for value in stage.inputs}
        owners = {name: owner for name, owner in self.captured.items() if isinstance(owner, Tensor)}
        return {name: HOST.taken(owner._array) for name, owner in owners.items() if name in present}

    def forgotten(self) -> list[str]:
        """The deeds of the function besides returning something, which the model leaves out: for the report."""
        return list(dict.fromkeys(remark for recording in self.recordings for remark in _forgotten(recording)))


def program_of(recordings: Sequence[Recording], stage: int, varies: bool) -> ProgramToExport:
    """The graph of one or several paths.

    Args:
        recordings: One for each path.
        stage: The stage whose outputs the model gives.
        varies: Whether the graph is for other sizes than the recorded ones.

    Raises:
        ExportError: The paths do not fit together.
    """
    if len(recordings) > 1:
        return _joined(recordings, varies)
    (recording,) = recordings
    graph = recording.graph().clone() if recording.general and not varies else _graph_of(recording, varies)
    if stage == 0:  # what aliases need to be made anew, and gradients that are left behind, are no results
        return_numbers(graph, recording.result.structure, recording.result.count)
    captured = {capture.value.name: capture.owner for capture in recording.trace.captures.found}
    return ProgramToExport(recordings, graph, captured)


def _graph_of(recording: Recording, varies: bool) -> Graph:
    """The recorded graph; if sizes vary, derivatives compute with the sizes of what they differentiate."""
    return graph_of(recording.trace, one_size=not varies)


def _joined(recordings: Sequence[Recording], varies: bool) -> ProgramToExport:
    """The graph that takes each of several paths where it is right."""
    names = {tuple(names_of_results(recording.result.structure)) for recording in recordings}
    if len(names) > 1:
        raise ExportError(
            "the ways through the function return structures with other keys or numbers of tensors; let all return the "
            "same structure"
        )
    graphs = []
    for recording in recordings:
        graph = _graph_of(recording, varies)
        return_numbers(graph, recording.result.structure, recording.result.count)
        graphs.append(graph)
    arguments = [object() for _ in recordings[0].positions]
    captures = ([capture.owner for capture in recording.trace.captures.found] for recording in recordings)
    graph, owners = join_paths(graphs, [[*arguments, *each] for each in captures])
    behind = zip(graph.inputs[len(arguments) :], owners[len(arguments) :], strict=True)
    return ProgramToExport(recordings, graph, {value.name: owner for value, owner in behind})


def _forgotten(recording: Recording) -> Iterator[str]:
    if recording.trace.impurity.reason is not None:
        yield f"the call {recording.trace.impurity.reason}, which the model does not: it gives what a call gives now"
    stage = recording.trace.graph.stages[0]
    written = [value.name for value, _ in stage.updates if not isinstance(value.type, GeneratorType)]
    if written:
        yield f"the model leaves out what the function writes to {', '.join(written)}"
    yield from left_out(recording.result.structure)
    kept = [attribute.name for attribute in recording.result.attributes if attribute.is_read]
    if kept:
        yield f"the model leaves out what the function sets {', '.join(kept)} to, and goes on with what was there"


__all__ = ["ProgramToExport", "program_of"]
