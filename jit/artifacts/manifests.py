"""Recordings as plain data: what `jit.artifacts.files` puts into a file; `jit.artifacts.restoring` reads it.

Nodes are referred to by their places in the graph's text, values by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from jit.eager.generators import Generator, default_generator
from jit.eager.pytree import Structure
from jit.eager.tensors import Tensor
from jit.ir import Node, dtypes
from jit.ir.errors import UsageError
from jit.ir.geometry import Geometry
from jit.ir.printer import format_graph, large_constants
from jit.runtime.arrays.arrays import address_of, window
from jit.runtime.arrays.libraries import HOST
from jit.tracing.recorder.records import SLOT, Capture, Constant, Treatment
from jit.tracing.recorder.tracer import Trace
from jit.tracing.recordings.chains import Chain
from jit.tracing.recordings.compiling import unoptimised
from jit.tracing.recordings.recording import PARTS, Recording
from jit.tracing.recordings.results import OutputSpec
from jit.tracing.surroundings.sharing import extent_of

from ..autograd.registered import kind_of_call, registered
from ..nn import Parameter
from ..tracing.function import Entry, Key, TracedFunction
from ..tracing.surroundings.number_arguments import count_of
from .plain import encode

RECORDING = {
    "outputs": [OutputSpec], "structure": Structure, "positions": [int], "differentiable": [int], "targets": [int],
    "count": int, "slots": [(int, int | None)], "reads": [(int, int | None)], "hookless": [int], "read": [Constant],
    "general": bool, "varying": [(int, int)], "calls_python": bool, "spent": bool, "sharing": tuple,
    "outcomes": [(type, object)], "facts": [(int, str, object)], "moves": [(int, tuple, bool)],
    "tags": [(int, str, Structure, int)],
}  # fmt: skip
"""The plain fields of a recording, and the form of each: a list for any number of items, a tuple for fixed parts, or a
type."""
CHAIN = {"keys": [((tuple, tuple, bool), [(type, object)])], "differentiable": [[int]], "sizes": [([int], [bool])]}
CARRIERS = {"bfloat16": np.dtype("uint16"), "complex128": np.dtype("float64")} | {
    dtype.name: np.dtype("uint8") for dtype in dtypes.STORED if dtype.is_floating_point
}
"""The numpy dtype that carries elements which safetensors cannot store."""


class ManifestWriter:
    """Gathers graphs and tensors while the manifest is made."""

    def __init__(self) -> None:
        self.graphs: list[str] = []
        self._arrays: dict[str, Any] = {}
        self._owners: dict[int, int] = {}
        """Identity of an owner -> its number."""
        self._found: list[tuple[str, Any]] = []
        """Owners by number, with their names."""

    def tensors(self) -> bytes:
        """All arrays, in the safetensors format."""
        from safetensors.numpy import save

        return save({name: _carried(array) for name, array in self._arrays.items()})

    def manifest(self, function: TracedFunction) -> dict[str, Any]:
        """The manifest: all that is neither a tensor nor a graph.

        Raises:
            UsageError: There is nothing to save, or something that plain data cannot express.
        """
        entries = [self._entry(*found) for found in _entries(function)]
        if not entries:
            raise UsageError(
                f"{function.__name__} has no trace that can be saved: call it once, with arguments that are tensors, "
                "numbers, strings, or containers of them, in the surroundings that it is to be saved for"
            )
        return {
            "name": function.__name__,
            "optimize": function._optimise is not unoptimised,
            "promoted": sorted(function._surroundings.promotions.arguments),
            "signature": _signature(function),
            "owners": self._written_owners(),
            "entries": entries,
        }

    # -- recordings ----------------------------------------------------------------------------------------------

    def _entry(self, key: Key, place: Any, entry: Entry, tensors: Sequence[Any]) -> dict[str, Any]:
        promoted = count_of(key.structure)
        return {
            "key": encode(tuple(key[:-1])),
            "general": None if place is None else [encode(tuple(place[0][:-1])), encode(place[1])],
            "recordings": [self._recording(recording, tensors, promoted) for recording in entry.recordings],
        }

    def _recording(self, recording: Recording, tensors: Sequence[Any], promoted: int) -> dict[str, Any]:
        kept = [attribute.name for attribute in recording.result.attributes if attribute.is_read]
        if kept:
            raise UsageError(
                f"the function sets {kept[0]!r} on a network and goes on with it in the next call, and a file holds no "
                "networks; keep it in a buffer that is written to in place, such as self.count.add_(1)"
            )
        places = {each.name: getattr(recording, part) for part, made in PARTS.items() for each in fields(made)}
        plain = {name: encode(getattr(places.get(name, recording), name)) for name in RECORDING}
        return {**plain, "chains": [self._chain(chain, tensors, promoted) for chain in recording.chains]}

    def _chain(self, chain: Chain, tensors: Sequence[Any], promoted: int) -> dict[str, Any]:
        trace = chain.trace
        if trace.gradients.hooks:
            raise UsageError(
                "a function that registers hooks on its own tensors cannot be saved; register them outside"
            )
        if chain.written is None:
            chain.written = _written_graph(trace)
        written: WrittenGraph = chain.written
        self._arrays |= written.constants
        self.graphs.append(written.text)
        return {
            **{name: encode(getattr(chain, name)) for name in CHAIN if name != "sizes"},
            "sizes": encode(tuple((each.recorded, each.free) for each in chain.sizes)),
            "graph": len(self.graphs) - 1,
            "captures": [self._capture(capture, tensors, promoted) for capture in trace.captures.found],
            **written.notes,
            "calls": [[i, *_call(node)] for i, node in enumerate(trace.graph.nodes) if "function" in node.attributes],
        }

    # -- what is captured ----------------------------------------------------------------------------------------

    def _capture(self, capture: Capture, tensors: Sequence[Any], promoted: int) -> list[Any]:
        """The name, and the origin: an `owner` by number, `grad` or `item` of an input, or an argument's `number`.

        Behind numbers stand the sign of those that are sizes, and the number itself if no other will do.
        """
        if capture.gradient_of is not None and capture.place is None:
            return [capture.name, "grad", capture.gradient_of]
        if capture.number is not None and capture.number < promoted:
            fixed = [encode(capture.owner)] if capture.is_fixed else []
            return [capture.name, "number", capture.number, capture.sign, *fixed]
        if capture.item_of is not None:
            return [capture.name, "item", capture.item_of, capture.sign]
        if capture.place is not None and capture.place >= len(tensors):
            raise UsageError(f"{capture.name} is a part of an argument that is an object, which cannot be saved")
        owner = capture.owner if capture.place is None else tensors[capture.place]
        return [capture.name, "owner", self._owner(owner, capture.name)]

    def _owner(self, owner: Any, name: str) -> int:
        if id(owner) not in self._owners:
            taken = {known for known, _ in self._found}
            unique = next(n for n in _numbered(name) if n not in taken)
            self._owners[id(owner)] = len(self._found)
            self._found.append((unique, owner))
        return self._owners[id(owner)]

    def _written_owners(self) -> list[Any]:
        sharing: dict[int, list[Tensor]] = {}
        for _, owner in self._found:
            if isinstance(owner, Tensor) and owner._array is not None:
                sharing.setdefault(id(owner._storage), []).append(owner)
        return [[name, *self._written(name, owner, sharing)] for name, owner in self._found]

    def _written(self, name: str, owner: Any, sharing: dict[int, list[Tensor]]) -> list[Any]:
        """The kind of the owner, and the facts from which it is made again."""
        if isinstance(owner, Generator):
            return ["default generator"] if owner is default_generator() else ["generator", encode(owner.state)]
        if not isinstance(owner, Tensor):
            return ["number", encode(owner)]
        if owner._array is None:
            raise UsageError(f"{name} is an undefined tensor, which cannot be saved")
        group = sharing[id(owner._storage)]
        kind = "parameter" if isinstance(owner, Parameter) else "tensor"
        about = [kind, owner.dtype.name, list(owner.shape), owner.requires_grad]
        home = [] if owner.is_cpu else [str(owner.device)]
        if len(group) == 1 and owner._array.flags.c_contiguous:
            self._arrays[name] = HOST.taken(owner._array)
            return [*about, name, None, *home]
        first = min(group, key=lambda t: extent_of(t._array)[0])
        memory = f"memory of {next(n for n, o in self._found if o is first)}"
        self._arrays[memory] = HOST.taken(_memory(group))
        low = extent_of(first._array)[0]
        return [*about, memory, [address_of(owner._array) - low, list(owner._array.strides)], *home]


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        yield f"{name}.{number}"
        number += 1


def _memory(group: Sequence[Tensor]) -> Any:
    """All bytes that some tensors of one storage lie in."""
    extents = [extent_of(t._array) for t in group]
    low, high = min(e[0] for e in extents), max(e[1] for e in extents)
    array = group[0]._array
    start = low - address_of(array)
    return window(array, Geometry((high - low,), (1,), start), np.dtype("uint8")).copy()


class WrittenGraph(NamedTuple):
    """A recorded graph as a file has it, with what is noted of its nodes; it stays so until a stage is added."""

    text: str
    constants: Mapping[str, Any]
    """The arrays that the text mentions."""
    notes: Mapping[str, Any]


def _written_graph(trace: Trace) -> WrittenGraph:
    nodes, tape = {node: number for number, node in enumerate(trace.graph.nodes)}, trace.tape
    notes = {
        "guards": [[nodes[g.node], encode(g.outcome), encode(g.source)] for g in trace.guards.records],
        "composites": [
            [nodes[c.node], [nodes[part] for part in c.parts], [value.name for value in c.taken]]
            for c in tape.composites
        ],
        "untracked": sorted(nodes[node] for node in tape.untracked if node in nodes),
        "checkpoints": _checkpoints(trace, nodes),
        "backwards": sorted(nodes[node] for node in tape.backwards if node in nodes),
        "histories": [[value.name, before.name] for value, before in tape.histories.items()],
        "constants": encode(list(trace.constants)),
    }  # fmt: skip
    return WrittenGraph(format_graph(trace.graph), large_constants(trace.graph), notes)


def _checkpoints(trace: Trace, nodes: Mapping[Node, int]) -> list[Any]:
    """The nodes under checkpoints, each with the numbers of its checkpoints, counted in the order of appearance."""
    numbers: dict[int, int] = {}
    marked = [(n, trace.tape.checkpoints[node]) for node, n in nodes.items() if node in trace.tape.checkpoints]
    return [[n, [numbers.setdefault(each, len(numbers)) for each in path]] for n, path in marked]


def _carried(array: Any) -> Any:
    dtype = dtypes.from_numpy(array.dtype)
    carrier = CARRIERS.get(dtype.name)
    array = np.ascontiguousarray(array).reshape(array.shape)
    return array if carrier is None else array.reshape(*array.shape, 1).view(carrier)


# -- what is chosen ----------------------------------------------------------------------------------------------


def _entries(function: TracedFunction) -> Iterator[tuple[Key, Any, Entry, Sequence[Any]]]:
    """Keys that hold in the present surroundings, with what is recorded for them: exactly, then for many sizes."""
    view = function._surroundings.look()
    for key, entry in list(function._cache.entries.items()):
        if entry.recordings and key.surroundings[0] == view.fingerprint:
            yield key, None, entry, view.tensors
    for family_key, family in list(function._cache.sizes.families.items()):
        for pattern, entries in family.general.items():
            for key, entry in entries.items():
                if entry.recordings and key.surroundings[0] == view.fingerprint:
                    yield key, (family_key, pattern), entry, view.tensors


def _signature(function: TracedFunction) -> Any:
    """Names, kinds and plain defaults of the parameters."""
    if function._parameters.signature is None:
        return None
    return [[p.name, int(p.kind), *_default(p)] for p in function._parameters.named.values()]


def _default(parameter: Any) -> list[Any]:
    if parameter.default is parameter.empty:
        return []
    try:
        return [encode(parameter.default)]
    except UsageError:  # then no call without the argument has been saved either
        return []


def _call(node: Node) -> list[Any]:
    """The arguments of a PythonOp besides tensors, and what it did to these; UsageError if it is not registered."""
    function = node.attributes["function"]
    if registered(node.kind) is not function:
        raise UsageError(
            f"at {node.source}: {node.kind} cannot be saved, because its code is not part of a file; put "
            f"@jit.autograd.register above {kind_of_call(function).lstrip('^')}, here and where it is loaded"
        )
    treatment = node.attributes.get("treatment", Treatment((), ()))
    items = node.attributes["arguments"].items if "arguments" in node.attributes else ()
    arguments = tuple(None if a is SLOT else (a,) for a in items)
    around = treatment.region
    region = None if around is None else (around.cpu, around.cuda, around.caches)
    return [encode(arguments), list(treatment.needs), list(treatment.written), encode(region)]
