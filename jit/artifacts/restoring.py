"""Makes recordings that run from the plain data of an artifact; every number is checked against the graph it refers to.

A file that contradicts itself is refused: `jit.ir.verify` checks the graphs, and `vetting` what the manifest says of
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from jit.eager.generators import Generator, default_generator
from jit.eager.pytree import Structure, statics
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import HANDLE, Graph, Node, Value, dtypes, parse, verify
from jit.ir.devices import CPU, resolve
from jit.ir.dtypes import DType
from jit.ir.errors import UsageError
from jit.ir.precision import Regime, regime
from jit.ir.printer import is_content_hash
from jit.runtime.arrays.libraries import HOST, ArrayLibrary, library_on
from jit.tracing.recorder.records import SLOT, Arguments, Capture, Composite, Constant, GuardRecord, Treatment
from jit.tracing.recorder.tape import Tape
from jit.tracing.recorder.tracer import Trace
from jit.tracing.recordings.chains import Chain, StageSizes, graph_of
from jit.tracing.recordings.compiling import optimise, unoptimised
from jit.tracing.recordings.counts import find_elemental
from jit.tracing.recordings.recording import PARTS, Recording
from jit.tracing.recordings.shapes import Pattern, varying_in
from jit.tracing.surroundings.properties import kind_of
from jit.tracing.surroundings.surroundings import World, view_of_objects

from ..autograd.registered import registered
from ..nn import Parameter
from ..tracing.function import Key, TracedFunction
from .manifests import CARRIERS, CHAIN, RECORDING
from .plain import PlainError, decode
from .relocating import Relocation
from .sharing import SHARED, Placed, can_be_shared, digest_of, put
from .vetting import check, check_nodes


class Reader:
    """The contents of an artifact.

    Args:
        tensors: Its tensors, as safetensors.
        graphs: The texts of its graphs.
        relocation: The devices that take the place of those in it.
    """

    def __init__(self, tensors: bytes, graphs: Sequence[str], relocation: Relocation) -> None:
        self._relocation = relocation
        self._arrays = _arrays(tensors)
        self._constants = {name: array for name, array in self._arrays.items() if is_content_hash(name)}
        """The arrays that graphs mention; all others are tensors of the function."""
        self._texts = graphs
        self._owners: list[Any] = []
        self._memory: dict[str, Tensor] = {}

    # -- tensors -------------------------------------------------------------------------------------------------

    def owners(self, data: Any) -> dict[str, Any]:
        """Parameters, buffers, captured tensors and generators by name; captured numbers are kept for later.

        Raises:
            PlainError: The data is not what a manifest says of owners.
        """
        named = {}
        for name, kind, *about in data:
            owner = self._owner(kind, about)
            self._owners.append(owner)
            if isinstance(owner, (Tensor, Generator)):
                named[str(name)] = owner
        if len({name for name, *_ in data}) != len(data):
            raise PlainError("two tensors have one name")
        return named

    def _owner(self, kind: str, about: Sequence[Any]) -> Any:
        if kind == "default generator":
            return default_generator()
        if kind == "generator":
            generator = Generator()
            generator.state = decode(about[0])
            return generator
        if kind == "number":
            number = decode(about[0])
            if type(number) not in (int, float):
                raise PlainError("a captured number is no number")
            return number
        if kind not in ("tensor", "parameter"):
            raise PlainError(f"no capture is of a kind {kind!r:.60}")
        return self._tensor(kind, *about)

    def _tensor(
        self, kind: str, dtype: str, shape: Any, requires_grad: bool, source: str, layout: Any, device: str = "cpu"
    ) -> Tensor:
        wanted, library = dtypes.by_name(dtype).numpy, _library(self._relocation(device))
        if layout is None:
            array = _uncarried(self._arrays[source], wanted)
            if array.shape != tuple(shape):
                raise PlainError(f"the tensor {source} has another shape than the manifest says")
            made = tensor_of(library.taken(array))
        else:
            offset, strides = layout
            held = self._arrays[source]
            HOST.math.strided(held, tuple(shape), offset, tuple(strides), wanted)  # refuses what is not inside
            memory = self._memory.setdefault(source, tensor_of(library.taken(held.copy())))
            seen = library.math.strided(memory._array, tuple(shape), offset, tuple(strides), wanted)
            made = tensor_of(seen, memory._storage)
        if kind == "parameter":
            return Parameter(made, requires_grad is True)
        return made.requires_grad_() if requires_grad is True else made

    # -- functions -----------------------------------------------------------------------------------------------

    def signature(self, data: Any) -> inspect.Signature | None:
        """The signature of the function; None if it has none."""
        if data is None:
            return None
        kinds = list(inspect._ParameterKind)
        return inspect.Signature(
            [
                inspect.Parameter(
                    name, kinds[_natural(kind, len(kinds))], default=decode(*default) if default else inspect._empty
                )
                for name, kind, *default in data
            ]
        )

    def fill(self, function: TracedFunction, manifest: Mapping[str, Any], written: bytes) -> None:
        """Give `function` the recordings of the manifest: those of an equal artifact, if one was read before.

        Args:
            function: What has the owners that were read.
            manifest: The contents of the manifest.
            written: Its bytes.

        Raises:
            PlainError: The manifest does not fit itself or the graphs.
        """
        view = function._surroundings.look()
        digest = None if self._relocation.is_asked else digest_of(written, self._texts, self._constants)
        placed = None if digest is None else SHARED.find(digest, view.fingerprint)
        if placed is None:
            placed = [self._placed(entry, function, view) for entry in manifest["entries"]]
            if digest is not None and can_be_shared(placed):
                SHARED.keep(digest, view.fingerprint, placed)
        put(function, placed)

    def _placed(self, entry: Mapping[str, Any], function: TracedFunction, view: Any) -> Placed:
        """The recordings of one key, with their place in the cache of the function."""
        key = self._key(entry["key"], function, view)
        recordings = [self._recording(data, key, function, view) for data in entry["recordings"]]
        if entry["general"] is None:
            return Placed(key, None, recordings)
        family_key, pattern = self._key(entry["general"][0], function, view), decode(entry["general"][1])
        if not _is_made_like(pattern, [[int]]) or len(pattern) != len(key.tensors):
            raise PlainError("this does not say which sizes of the tensors vary")
        if any(not _names_what_varies(recording, pattern) for recording in recordings):
            raise PlainError("a recording for many sizes does not say which of its sizes vary")
        return Placed(key, (family_key, pattern), recordings)

    def _key(self, data: Any, function: TracedFunction, view: Any) -> Key:
        """The key that was written so, in the surroundings of the function."""
        structures, tensors, sharing, grad_mode, home, region = decode(data)
        fit = isinstance(structures, tuple) and all(type(s) is Structure for s in structures)
        if not fit or not _is_made_like((tensors, grad_mode, home, region), ([tuple], bool, str, str)):
            raise PlainError("this is no key")
        tensors, home = self._relocation.kinds(tensors), self._home(home)
        names = list(function._parameters.named) or (f"input_{i}" for i in range(len(structures)))
        arguments = zip(names, structures, strict=True)
        objects = view_of_objects([(name, value) for name, s in arguments for value in statics(s)])
        return Key(structures, tensors, sharing, grad_mode, home, region, World(view, objects).fingerprint)

    def _home(self, home: str) -> str:
        """The default device in a key, and the rest of what it says of devices; that of a caller is mostly the CPU."""
        default, *rest = home.split()
        return home if default == str(CPU) else " ".join([self._relocation(default), *rest])

    def _recording(self, data: Mapping[str, Any], key: Key, function: TracedFunction, view: Any) -> Recording:
        plain = _plain(data, RECORDING)
        optimiser = optimise if function._optimise is optimise else unoptimised
        parts: dict[str, Any] = {
            part: make(**{each.name: plain.pop(each.name) for each in fields(make) if each.name in RECORDING})
            for part, make in PARTS.items()
        }
        recording = Recording(optimise=optimiser, **parts, **plain)
        facts = recording.conditions.facts
        facts[:] = [(index, name, self._relocation.fact(answer)) for index, name, answer in facts]
        recording.chains = [self._chain(chain, view) for chain in data["chains"]]
        check(recording, key)
        _let_go(recording)
        return recording

    def _chain(self, data: Mapping[str, Any], view: Any) -> Chain:
        graph = parse(self._texts[_natural(data["graph"], len(self._texts))], tensors=self._constants)
        nodes, values = list(graph.nodes), {v.name: v for v in graph.values}
        for number, arguments, needs, written, region in data["calls"]:
            node = nodes[_natural(number, len(nodes))]
            treatment = Treatment(tuple(needs), tuple(written), _regime(decode(region)))
            _restore_call(node, decode(arguments), treatment)
        check_nodes(graph)
        self._relocation.move(graph)
        trace = Trace(tape=Tape(graph))
        trace.captures.found = [
            self._capture(c, v, view) for c, v in zip(data["captures"], _captured(graph, data), strict=True)
        ]
        trace.guards.records = [
            _guard(nodes[_natural(n, len(nodes))], decode(outcome), decode(source))
            for n, outcome, source in data["guards"]
        ]
        trace.tape.composites = [
            Composite(nodes[_natural(n, len(nodes))], _chosen(nodes, parts), [values[t] for t in taken])
            for n, parts, taken in data["composites"]
        ]  # fmt: skip
        trace.tape.untracked = set(_chosen(nodes, data["untracked"]))
        trace.tape.checkpoints = {
            nodes[_natural(n, len(nodes))]: tuple(_natural(i, len(nodes)) for i in path)
            for n, path in data.get("checkpoints", ())
        }
        trace.tape.backwards = set(_chosen(nodes, data.get("backwards", ())))
        trace.tape.histories = {values[value]: values[before] for value, before in data["histories"]}
        trace.constants = [c for c in decode(data["constants"]) if isinstance(c, Constant)]
        _restore_draws(trace)
        find_elemental(trace)
        verify(graph_of(trace))
        plain = _plain(data, CHAIN)
        plain["sizes"] = tuple(StageSizes(tuple(recorded), tuple(free)) for recorded, free in plain["sizes"])
        return Chain(trace, **plain)

    def _capture(self, data: Any, value: Value, view: Any) -> Capture:
        name, kind, number, *more = data
        if kind == "grad":
            return Capture(value, None, str(name), gradient_of=number)
        if kind == "number":
            sign, *fixed = more
            owner = decode(fixed[0]) if fixed else None
            return Capture(value, owner, str(name), number=number, sign=sign, is_fixed=bool(fixed))
        if kind == "item":
            return Capture(value, None, str(name), item_of=number, sign=more[0])
        owner = self._owners[_natural(number, len(self._owners))]
        place = view.index_of(owner) if isinstance(owner, (Tensor, Generator)) else None
        return Capture(value, owner, str(name), place, kind=kind_of(owner) if isinstance(owner, Tensor) else None)


def _let_go(recording: Recording) -> None:
    """Let captures hold no tensors: each call finds those of its function, by their places."""
    for capture in (capture for chain in recording.chains for capture in chain.trace.captures.found):
        if capture.place is not None:
            capture.owner = None


def _plain(data: Mapping[str, Any], makes: Mapping[str, Any]) -> dict[str, Any]:
    """The plain fields, each checked to be of the form that the table says."""
    found = {name: decode(data[name]) for name in makes}
    for name, make in makes.items():
        if not _is_made_like(found[name], make):
            raise PlainError(f"its {name!r} is not of the form that it should have")
    return found


def _names_what_varies(recording: Recording, pattern: Pattern) -> bool:
    """Whether the sizes that a recording leaves open are those in which the calls of its key may differ, or numbers."""
    inside = all(0 <= index < len(pattern) for index in recording.positions)
    of_arguments = [(at, dim) for at, dim in recording.varying if at < len(recording.positions)]
    return inside and sorted(of_arguments) == sorted(varying_in(pattern, recording.positions))


def _is_made_like(value: Any, make: Any) -> bool:
    """Whether a value is of a form: any number of items like `make[0]`, a tuple of fixed parts, or of a type."""
    if type(make) is list:
        return isinstance(value, (list, tuple)) and all(_is_made_like(item, make[0]) for item in value)
    if type(make) is tuple:
        return type(value) is tuple and len(value) == len(make) and all(map(_is_made_like, value, make))
    return isinstance(value, make) and not (make is int and type(value) is bool)


# -- arrays ------------------------------------------------------------------------------------------------------


def _arrays(data: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return {str(name): array.copy() for name, array in load(data).items()}
    except SafetensorError as error:
        raise PlainError(f"its tensors cannot be read: {error}") from error


def _library(device: str) -> ArrayLibrary:
    """The library of the device that a tensor lay on."""
    try:
        return library_on(str(resolve(device)))
    except UsageError as error:
        raise UsageError(f"{error}, and save the function with its tensors there") from error


def _uncarried(array: Any, wanted: Any) -> Any:
    """The elements in the dtype that they had before they were saved; see `CARRIERS`."""
    carrier = CARRIERS.get(wanted.name)
    if carrier is not None and array.dtype == carrier:
        array = array.view(wanted)[..., 0]
    if array.dtype != wanted:
        raise PlainError(f"a tensor is of {array.dtype} where the manifest says {wanted}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _natural(number: Any, end: int) -> int:
    """The number, checked to be a whole one from 0 to below `end`."""
    if type(number) is not int or not 0 <= number < end:
        raise PlainError(f"{number!r:.60} is not between 0 and {end}")
    return number


def _chosen(nodes: Sequence[Node], numbers: Sequence[Any]) -> list[Node]:
    return [nodes[_natural(number, len(nodes))] for number in numbers]


# -- graphs ------------------------------------------------------------------------------------------------------


def _captured(graph: Graph, data: Mapping[str, Any]) -> Sequence[Value]:
    """The inputs of stage 0 that are no arguments."""
    inputs = list(graph.stages[0].inputs)
    return inputs[len(inputs) - len(data["captures"]) :] if data["captures"] else []


def _guard(node: Node, outcome: Any, source: Any) -> GuardRecord:
    if node.kind != "prim::Guard":
        raise PlainError(f"{node.kind} is no guard")
    if outcome != outcome and node.attribute("expected") != node.attribute("expected"):
        node.attributes["expected"] = outcome  # text knows one NaN
    return GuardRecord(node, outcome, source)


def _regime(parts: Any) -> Regime | None:
    """The setting of `autocast` around a PythonOp.

    Raises:
        PlainError: It is none.
    """
    if parts is None:
        return None
    kinds = DType | None
    if not _is_made_like(parts, (kinds, kinds, bool)):
        raise PlainError("this is nothing that autocast could be set to")
    return regime(*parts)


def _restore_call(node: Node, arguments: Any, treatment: Treatment) -> None:
    """Give a node of a PythonOp or CppOp its function and arguments."""
    function = registered(node.kind)
    if function is None:
        raise PlainError(
            f"{node.kind} is not registered here; import the module that defines it under @jit.autograd.register"
        )
    node.attributes["function"] = function
    if not node.kind.startswith("^"):
        return
    slots = [a is None for a in arguments]
    tensors = [v for v in node.inputs if v.type is not HANDLE]
    if sum(slots) != len(tensors) or not len(treatment.needs) == len(treatment.written) == len(tensors):
        raise PlainError(f"the arguments of {node.kind} do not fit")
    node.attributes["arguments"] = Arguments(tuple(SLOT if a is None else a[0] for a in arguments))
    node.attributes["treatment"] = treatment


def _restore_draws(trace: Trace) -> None:
    """Note the generators from which the recording draws, so that calls at the same time take turns with them."""
    updates = dict(trace.graph.stages[0].updates)
    for capture in trace.captures.found:
        if isinstance(capture.owner, Generator):
            trace.randomness.begin(capture.owner, capture.value)
            trace.randomness.advance(capture.owner, updates.get(capture.value, capture.value))
