"""From an artifact's plain data to recordings that run, with every number compared with the graph that it is about.

A file that lies is refused here, and not met by a kernel: `jit.ir.verify` has checked the graphs, and `_Checker` what
the manifest says of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jit.ir import GENERATOR, HANDLE, Graph, Node, TensorType, Value, dtypes, parse, verify
from jit.ir.types import ScalarType

from .autograd.registered import registered
from .compiling import optimise, unoptimised
from .generators import Generator, default_generator
from .manifests import CARRIERS, CHAIN, RECORDING
from .nn import Parameter
from .plain import PlainError, decode
from .pytree import Structure, paths, statics
from .shapes import Family
from .stages import Chain, OutputSpec, Recording, graph_of
from .surroundings import World, view_of_objects
from .tensors import Tensor
from .tracer import Capture, Composite, Constant, GuardRecord, Trace, Treatment, _Slot, kind_of
from .tracing import Entry, Key, TracedFunction

LARGEST = 1 << 40
"""Bytes that one value of a graph may have."""


class Reader:
    """The contents of an artifact.

    Args:
        tensors: Its tensors, as safetensors.
        graphs: The texts of its graphs.
    """

    def __init__(self, tensors: bytes, graphs: Sequence[str]) -> None:
        self._arrays = _arrays(tensors)
        self._texts = graphs
        self._owners: list[Any] = []
        self._memory: dict[str, Tensor] = {}

    # -- tensors -------------------------------------------------------------------------------------------------

    def owners(self, data: Any) -> dict[str, Any]:
        """Parameters, buffers, captured tensors and generators by name; numbers are kept for captures."""
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
                raise PlainError("a captured number is none")
            return number
        if kind not in ("tensor", "parameter"):
            raise PlainError(f"there is nothing to capture that is called {kind!r:.60}")
        return self._tensor(kind, *about)

    def _tensor(self, kind: str, dtype: str, shape: Any, requires_grad: bool, source: str, layout: Any) -> Tensor:
        wanted = dtypes.by_name(dtype).numpy
        if layout is None:
            array = _uncarried(self._arrays[source], wanted)
            if array.shape != tuple(shape):
                raise PlainError(f"the tensor {source} has another shape than the manifest says")
            made = Tensor(array)
        else:
            memory = self._memory.setdefault(source, Tensor(self._arrays[source].copy()))
            offset, strides = layout
            made = Tensor(np.ndarray(tuple(shape), wanted, memory._array, offset, tuple(strides)), memory._storage)
        if kind == "parameter":
            return Parameter(made, requires_grad is True)
        return made.requires_grad_() if requires_grad is True else made

    # -- functions -----------------------------------------------------------------------------------------------

    def signature(self, data: Any) -> inspect.Signature | None:
        """What the function takes."""
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

    def fill(self, function: TracedFunction, manifest: Mapping[str, Any]) -> None:
        """Give `function` what was recorded."""
        view = function._surroundings.look()
        names = None if function._signature is None else list(function._signature.parameters)

        def key_of(data: Any) -> Key:
            structures, tensors, sharing, grad_mode = decode(data)
            fit = isinstance(structures, tuple) and all(type(s) is Structure for s in structures)
            if not fit or not _is_made_like((tensors, grad_mode), ([tuple], bool)):
                raise PlainError("this is no key")
            arguments = zip(names or (f"input_{i}" for i in range(len(structures))), structures, strict=True)
            objects = view_of_objects([(name, value) for name, s in arguments for value in statics(s)])
            return Key(structures, tensors, sharing, grad_mode, World(view, objects).fingerprint)

        for entry in manifest["entries"]:
            key = key_of(entry["key"])
            recordings = [self._recording(data, key, function, view) for data in entry["recordings"]]
            if entry["general"] is None:
                function._cache[key] = Entry(recordings)
            else:
                family_key, pattern = key_of(entry["general"][0]), decode(entry["general"][1])
                family = function._families.setdefault(family_key, Family())
                family.general.setdefault(pattern, {})[key] = Entry(recordings)

    def _recording(self, data: Mapping[str, Any], key: Key, function: TracedFunction, view: Any) -> Recording:
        plain = _plain(data, RECORDING)
        optimiser = optimise if function._optimise is optimise and not plain["general"] else unoptimised
        recording = Recording(optimise=optimiser, **plain)
        recording.chains = [self._chain(chain, view) for chain in data["chains"]]
        check(recording, key)
        return recording

    def _chain(self, data: Mapping[str, Any], view: Any) -> Chain:
        graph = parse(self._texts[_natural(data["graph"], len(self._texts))], tensors=self._arrays)
        nodes, values = list(graph.nodes), {v.name: v for v in _values(graph)}
        for number, arguments, needs, written in data["calls"]:
            node = nodes[_natural(number, len(nodes))]
            _restore_call(node, decode(arguments), Treatment(tuple(needs), tuple(written)))
        _check_nodes(graph)
        trace = Trace(graph=graph)
        trace.captures = [
            self._capture(c, v, view) for c, v in zip(data["captures"], _captured(graph, data), strict=True)
        ]
        trace.guards = [
            GuardRecord(_guard(nodes[_natural(n, len(nodes))]), decode(outcome), decode(source))
            for n, outcome, source in data["guards"]
        ]
        trace.composites = [
            Composite(nodes[_natural(n, len(nodes))], _chosen(nodes, parts), [values[t] for t in taken])
            for n, parts, taken in data["composites"]
        ]  # fmt: skip
        trace.untracked = set(_chosen(nodes, data["untracked"]))
        trace.checkpoints = {
            nodes[_natural(n, len(nodes))]: tuple(_natural(i, len(nodes)) for i in path)
            for n, path in data.get("checkpoints", ())
        }
        trace.backwards = set(_chosen(nodes, data.get("backwards", ())))
        trace.histories = {values[value]: values[before] for value, before in data["histories"]}
        trace.constants = [c for c in decode(data["constants"]) if isinstance(c, Constant)]
        _restore_draws(trace)
        verify(graph_of(trace))
        return Chain(trace, **_plain(data, CHAIN))

    def _capture(self, data: Any, value: Value, view: Any) -> Capture:
        name, kind, number = data
        if kind == "grad":
            return Capture(value, None, str(name), gradient_of=number)
        if kind == "number":
            return Capture(value, None, str(name), number=number)
        owner = self._owners[_natural(number, len(self._owners))]
        place = view.index_of(owner) if isinstance(owner, (Tensor, Generator)) else None
        return Capture(value, owner, str(name), place, kind=kind_of(owner) if isinstance(owner, Tensor) else None)


def _plain(data: Mapping[str, Any], makes: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields, each of which has to be made as the table says."""
    found = {name: decode(data[name]) for name in makes}
    for name, make in makes.items():
        if not _is_made_like(found[name], make):
            raise PlainError(f"its {name!r} is not what it should be")
    return found


def _is_made_like(value: Any, make: Any) -> bool:
    """Whether a value is a list or tuple of items like `make[0]`, a tuple of parts, or of a type."""
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


def _uncarried(array: Any, wanted: Any) -> Any:
    """The elements as what they are; see `CARRIERS`."""
    carrier = CARRIERS.get(wanted.name)
    if carrier is not None and array.dtype == carrier:
        array = array.view(wanted)[..., 0]
    if array.dtype != wanted:
        raise PlainError(f"a tensor is of {array.dtype} where the manifest says {wanted}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _natural(number: Any, end: int) -> int:
    """A number from 0 to `end` exclusively."""
    if type(number) is not int or not 0 <= number < end:
        raise PlainError(f"{number!r:.60} is not between 0 and {end}")
    return number


def _chosen(nodes: Sequence[Node], numbers: Sequence[Any]) -> list[Node]:
    return [nodes[_natural(number, len(nodes))] for number in numbers]


# -- graphs ------------------------------------------------------------------------------------------------------


def _check_nodes(graph: Graph) -> None:
    """PlainError for nodes that no recording has, and for values of impossible size."""
    for node in graph.nodes:
        called = node.kind.startswith(("^", "cpp::")) and "function" in node.attributes
        allowed = called or node.kind.startswith("aten::") or node.kind in _PRIMITIVES or _is_scalar(node)
        if not allowed or next(node.subgraphs, None) is not None:
            raise PlainError(f"a recording holds no {node.kind}")
    for value in _values(graph):
        if _bytes_of(value.type) > LARGEST:
            raise PlainError(f"%{value.name} is declared to be {value.type}, which is too large")


def _bytes_of(type: Any) -> int:
    known = isinstance(type, TensorType) and type.sizes is not None and type.dtype is not None
    return type.numel * type.dtype.itemsize if known else 0


def _values(graph: Graph) -> Iterator[Value]:
    for stage in graph.stages:
        yield from stage.inputs
    for node in graph.nodes:
        yield from node.outputs


_PRIMITIVES = ("prim::Constant", "prim::Guard", "prim::Eval")


def _is_scalar(node: Node) -> bool:
    """Arithmetic on numbers."""
    return node.kind.startswith("prim::") and node.kind[6:7].islower()


def _captured(graph: Graph, data: Mapping[str, Any]) -> Sequence[Value]:
    """The inputs of stage 0 that are no arguments."""
    inputs = list(graph.stages[0].inputs)
    return inputs[len(inputs) - len(data["captures"]) :] if data["captures"] else []


def _guard(node: Node) -> Node:
    if node.kind != "prim::Guard":
        raise PlainError(f"{node.kind} is no guard")
    return node


def _restore_call(node: Node, arguments: Any, treatment: Treatment) -> None:
    """What a PythonOp or CppOp calls, with which arguments."""
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
    node.attributes["arguments"] = tuple(_Slot if a is None else a[0] for a in arguments)
    node.attributes["treatment"] = treatment


def _restore_draws(trace: Trace) -> None:
    """Which generators the recording draws from, so that nobody else draws from them at the same time."""
    updates = dict(trace.graph.stages[0].updates)
    for capture in trace.captures:
        if isinstance(capture.owner, Generator):
            trace._initial_states[capture.owner] = capture.value
            trace._generators[capture.owner] = updates.get(capture.value, capture.value)


# -- whether it all fits together --------------------------------------------------------------------------------


def check(recording: Recording, key: Key) -> None:
    """PlainError if a recording says of its graphs what is not so."""
    for problem in _problems(recording, key):
        raise PlainError(f"a recording contradicts its graph: {problem}")


def _problems(recording: Recording, key: Key) -> Iterator[str]:
    if not recording.chains:
        yield "it has no graph"
    for chain in recording.chains:
        yield from _problems_of_inputs(recording, chain, key)
        yield from _problems_of_stages(recording, chain)
    yield from _problems_of_outputs(recording)


def _problems_of_inputs(recording: Recording, chain: Chain, key: Key) -> Iterator[str]:
    inputs, captures = chain.trace.graph.stages[0].inputs, chain.trace.captures
    positions = recording.positions
    if len(positions) + len(captures) != len(inputs) or not _all_below(positions, len(key.tensors)):
        yield "arguments"
        return
    varying = {(at, dim) for at, dim in recording.varying}
    for at, (index, value) in enumerate(zip(positions, inputs)):
        if not _fits(value.type, key.tensors[index], {d for i, d in varying if i == at}, recording.general):
            yield f"the argument %{value.name}"
    for capture in captures:
        owner, type = capture.owner, capture.value.type
        if isinstance(owner, Tensor):
            fits = _fits(type, kind_of(owner), set(), False)
        elif isinstance(owner, Generator):
            fits = type is GENERATOR
        elif capture.gradient_of is not None:
            fits = _all_below([capture.gradient_of], len(inputs)) and isinstance(type, TensorType)
        else:
            fits = isinstance(type, ScalarType) and (owner is None or type.name == _scalar_name(owner))
        if not fits:
            yield f"the captured %{capture.value.name}"


def _scalar_name(number: Any) -> str:
    return str(type(number).__name__)


def _fits(type: Any, kind: Sequence[Any], varying: set[int], general: bool) -> bool:
    """Whether an input is declared as what the key admits."""
    if len(kind) < 3:
        return not isinstance(type, TensorType)
    if not isinstance(type, TensorType) or type.dtype is None or type.dtype.numpy != kind[0] or type.sizes is None:
        return False
    if general:  # a general key has other sizes; what varies is checked in every call by the recording itself
        return len(type.sizes) == len(kind[1])
    return type.sizes == tuple(kind[1])


def _problems_of_stages(recording: Recording, chain: Chain) -> Iterator[str]:
    stages = chain.trace.graph.stages
    if not len(chain.keys) == len(chain.differentiable) == len(stages) - 1:
        yield "stages"
        return
    edges, returns = len(stages[0].inputs), _returned(stages[0])
    for number, (asked, _) in enumerate(chain.keys, 1):
        gradients, wanted, create = asked
        stage = stages[number]
        given = [kind for kind in gradients if kind is not None]
        fits = len(gradients) == returns and len(wanted) == edges and len(given) == len(stage.inputs)
        if not fits or type(create) is not bool or len(stage.outputs) != len(wanted):
            yield f"stage {number}"
            return
        for kind, value in zip(given, stage.inputs):
            if not _fits(value.type, kind, set(), recording.general):
                yield f"the gradient %{value.name}"
        if not _all_below(chain.differentiable[number - 1], len(stage.outputs)):
            yield f"what stage {number} returns"
        edges, returns = edges + len(given), _returned(stage)


def _returned(stage: Any) -> int:
    return len(stage.outputs) + len(stage.updates)


def _problems_of_outputs(recording: Recording) -> Iterator[str]:
    stage = recording.trace.graph.stages[0]
    inputs, returned = len(stage.inputs), len(stage.outputs)
    ends = {"fresh": returned, "view": returned, "number": returned, "input": inputs}
    for number, spec in enumerate(recording.outputs):
        end = number if spec.kind == "same" else ends.get(spec.kind, 0)
        if type(spec) is not OutputSpec or not _all_below([spec.index], end):
            yield f"output {number}"
    counts = len(paths(recording.structure)), recording.count
    if counts[0] != counts[1] or recording.count > len(recording.outputs):
        yield "outputs"
    if len(recording.targets) != len(stage.updates) or not _all_below(recording.targets, inputs):
        yield "updates"
    pairs = [(i, n, len(recording.outputs)) for i, n in recording.slots] + [(i, n, inputs) for i, n in recording.reads]
    if not _all_below([i for i, *_ in pairs], inputs) or any(
        n is not None and not _all_below([n], e) for _, n, e in pairs
    ):
        yield "gradients"
    if not _all_below(recording.hookless, inputs) or not _all_below(recording.differentiable, _returned(stage)):
        yield "what can be differentiated"


def _all_below(numbers: Sequence[Any], end: int) -> bool:
    return all(type(n) is int and 0 <= n < end for n in numbers)
