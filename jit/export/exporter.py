"""Export of a graph as an ONNX model: names, inputs and outputs, and the parts of this package in their order.

graph --sizes--> sizes are expressions --converter--> ONNX nodes --peephole--> fewer --writer--> a file
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import dtypes
from jit.ir.collector import collector_resting
from jit.ir.errors import ExportError, UsageError
from jit.ir.graph import Graph, Node, Value, leaves
from jit.ir.op import find
from jit.ir.sizes import SizeExpr, SizeSymbol, deciding
from jit.ir.types import GeneratorType, HandleType, ScalarType, TensorType, Type, UndefinedType

from . import peephole, rotary, writer
from .axes import Axis, DynamicAxes, axes_of
from .builder import OnnxBuilder
from .control import every_node, subgraphs_of
from .converter import Converter, ExportProblem, explain, symbolic_of
from .folding import ModelFolding
from .naming import Names, is_numbered, path, short
from .opsets import ELEMENT_TYPES, IR_VERSIONS, KERNELS, check_opset, dtype_of
from .outlining import DOMAIN, SINCE, Outlining
from .proxies import KINDS, Missing, OnnxProxy, Scalar
from .registration import registered
from .report import ExportReport
from .size_nodes import FixedSizes
from .sizes import SizedGraph, sized_graph

if TYPE_CHECKING:
    import onnx_ir


@dataclass
class Exported:
    """A model that was made from a graph."""

    model: onnx_ir.Model
    """The model, not yet in a file."""
    report: ExportReport
    """The account of the export."""
    names: dict[Value, str]
    """The graph's tensors -> the names that they have in the model, for those that are in it."""
    sized: SizedGraph
    """The graph with expressions for sizes, and what must hold of these."""
    axes: dict[str, dict[int, str]]
    """Input of the model -> its dynamic dims and the names of their axes."""
    updated: list[str]
    """The inputs whose new values are the last outputs."""
    fell: bool = False
    """Whether it has operators that ONNX does not know, which were asked for."""

    def save(self, path: str | os.PathLike[str], external_data: str = "auto") -> None:
        """Write the model to `path`; see `jit.export.writer.write_model`."""
        self.report.external_data = writer.write_model(self.model, path, external_data)
        self.report.path = os.fspath(path)

    def to_bytes(self) -> bytes:
        """The model as a file would hold it."""
        return writer.to_bytes(self.model)


@dataclass
class _ModelInput:
    """One input of the graph, and its name, numbers and dynamic axes in the model."""

    value: Value
    name: str
    array: np.ndarray[Any, Any] | None = None
    """The numbers of an initializer; None for an input of the model."""
    axes: dict[int, Axis] = field(default_factory=dict)
    """Dim -> the dynamic axis."""


def export_graph(
    graph: Graph,
    path: str | os.PathLike[str] | None = None,
    *,
    opset_version: int | None = None,
    stage: int = 0,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    output_hints: Sequence[str | None] = (),
    dynamic_axes: DynamicAxes | None = None,
    initializers: Mapping[str, np.ndarray[Any, Any]] | None = None,
    keep_initializers_as_inputs: bool = False,
    updates_as_outputs: bool = False,
    fold: bool = True,
    fallthrough: bool = False,
    functions: Mapping[str, str] | None = None,
    external_data: str = "auto",
    metadata: Mapping[str, str] | None = None,
    graph_name: str = "graph",
) -> Exported:
    """Make an ONNX model of a graph.

    Args:
        graph: What was traced; every input has an element type and a shape.
        path: Where to write the model; None leaves it in memory.
        opset_version: The version of ONNX's operators, 9 to 26; None is 20.
        stage: Which stage's outputs the model gives. For stage 1 the model takes the inputs of both stages and gives
            the gradients.
        input_names: Names for the inputs that are not initializers, in order; None keeps the graph's.
        output_names: Names for the outputs, in order.
        output_hints: Names that outputs have in the program, in order, those of undefined ones and None where there are
            none among them; they count where `output_names` is left out.
        dynamic_axes: Which sizes may differ from run to run: `{"x": {0: "batch"}}`, or `{"x": [0]}`, or
            `{"x": {0: ("batch", 1, 64)}}` with the least and the greatest size.
        initializers: The numbers of those inputs that become part of the model (parameters, buffers), by graph name.
        keep_initializers_as_inputs: Whether they can be overridden when the model runs.
        updates_as_outputs: Whether the new values of what is written to, such as buffers, are further outputs, `x.new`
            for `x`, which then is an input that may be left out; otherwise they are dropped.
        fold: Whether what depends on weights alone is computed now, and batch norms and factors become part of the
            weights before them; of gradients, and of weights that runs may override, nothing is.
        fallthrough: Whether operators that ONNX does not know are written as ones of a domain of their own, `aten`.
        functions: Scopes that become functions of the model, with the names of the functions.
        external_data: "auto", "always" or "never": whether weights go to a file beside the model.
        metadata: Key -> text, kept with the model.
        graph_name: The name of the graph in the model.

    Returns:
        The model with a report.

    Raises:
        ExportError: If something cannot be expressed in ONNX; it lists all of it.
        UsageError: If an argument makes no sense.

    >>> from jit.ir import Graph, TensorType, dtypes
    >>> graph = Graph()
    >>> x = graph.add_input(TensorType(dtypes.float32, (2, 3)), "x")
    >>> graph.set_return([graph.add("aten::tanh", [x], types=[x.type]).output])
    >>> print(export_graph(graph, dynamic_axes={"x": {0: "batch"}}).report.outputs)
    {'output': 'float32 (batch, 3)'}
    """
    opset = check_opset(opset_version)
    if path is not None:
        writer.check_target(path)
    export = _Export(graph, opset, stage)
    export.fallthrough = fallthrough
    export.is_open = keep_initializers_as_inputs or updates_as_outputs
    export.take_inputs(input_names, output_names, initializers or {})
    export.take_axes(dynamic_axes or {}, output_names)
    with collector_resting():
        export.convert(updates_as_outputs, output_hints)
        if fold and stage == 0 and not keep_initializers_as_inputs and not updates_as_outputs:
            export.fold()
        export.join_rotations()
        export.name_outputs(output_names)
        made = export.finish(keep_initializers_as_inputs, dict(metadata or {}), graph_name, functions or {})
    if path is not None:
        made.save(path, external_data)
    return made


def problems_of(graph: Graph, opset: int) -> list[ExportProblem]:
    """All that cannot be expressed in ONNX of a graph's first stage.

    Args:
        graph: What was traced, after the passes for export.
        opset: The version of ONNX's operators.
    """
    export = _Export(graph, opset, 0)
    export.take_inputs(None, None, {})
    with contextlib.suppress(ExportError):
        export.convert(False)
    return export.converter.problems


class _Export:
    """One export under way."""

    def __init__(self, graph: Graph, opset: int, stage: int) -> None:
        last = len(graph.stages) - 1
        if isinstance(stage, bool) or not isinstance(stage, int) or not 0 <= stage <= last:
            raise UsageError(
                f"The graph has stages 0 to {last}, so stage {stage!r} cannot be exported; pass one of these."
            )
        self.graph = graph
        self.stage = stage
        self.g = OnnxBuilder(opset)
        self.names = Names()
        self.warnings: list[str] = []
        self.inputs: list[_ModelInput] = []
        self.values: dict[Value, Any] = {}
        self.results: list[Any] = []
        """The returns of the graph: Values and constants."""
        self.outputs: list[onnx_ir.Value] = []
        self.output_axes: dict[str, dict[int, Axis]] = {}
        self.output_names: list[str] = []
        self.given_outputs: dict[str, str] = {}
        """Names that the user gives to outputs -> those that the model has."""
        self.hints: list[str | None] = []
        """Names of the results in the program."""
        self.fallthrough = False
        """Whether operators that ONNX does not know are written, too."""
        self.is_open = False
        """Whether runs may override parameters, of which nothing is a constant then."""
        self.updated: list[_ModelInput] = []
        """The inputs whose new values are outputs."""
        self.folded: list[onnx_ir.Value] = []
        """Constants that were computed of constants."""
        self.changed: set[onnx_ir.Value] = set()
        """Values of which the model has others than the graph."""

    # -- inputs --------------------------------------------------------------------------------------------------

    def take_inputs(
        self, names: Sequence[str] | None, outputs: Sequence[str] | None, arrays: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        """Decide which inputs of the graph become inputs of the model, and which initializers.

        What the user sees of the model gets its names first: its inputs, and the outputs that have been given names.
        """
        stages = self.graph.stages[: self.stage + 1]
        values = [value for stage in stages for value in stage.inputs if not isinstance(value.type, GeneratorType)]
        known = {value.name for value in values}
        strange = [name for name in arrays if name not in known]
        if strange:
            raise UsageError(f"There is no input {strange[0]!r} to initialize; the graph's are {_quoted(known)}.")
        given = _checked_names("input", names, [value.name for value in values if value.name not in arrays])
        own = {v: v.name if given is None else given.pop(0) for v in values if v.name not in arrays}
        own = {value: self.names.unique(name) for value, name in own.items()}
        if outputs is not None and not isinstance(outputs, str):
            self.given_outputs = {name: self.names.unique(name) for name in outputs if isinstance(name, str)}
        for value in values:
            array = _checked_array(value, arrays[value.name]) if value.name in arrays else None
            _check_input_type(value)
            name = own[value] if value in own else self.names.unique(value.name)
            self.inputs.append(_ModelInput(value, name, array))

    def take_axes(self, axes: DynamicAxes, output_names: Sequence[str] | None) -> None:
        """Note which dims of which inputs are dynamic."""
        by_name = {name: item for item in self.inputs for name in (item.name, item.value.name)}
        for name, dims in axes.items():
            if name in by_name:
                by_name[name].axes.update(_axes_of(by_name[name], dims))
            elif output_names is not None and name in output_names:
                self.output_axes[name] = axes_of(name, dims, self._rank_of_output(list(output_names).index(name)))
            else:
                inputs = [item.name for item in self.inputs if item.array is None]
                raise UsageError(
                    f"dynamic_axes names {name!r}, which is not an input; the inputs are {_quoted(inputs)}."
                )
        for item in self.inputs:
            shape = item.value.type.shape if isinstance(item.value.type, TensorType) else None
            for dim, size in enumerate(shape or ()):
                if type(size) is SizeExpr:
                    symbol = size.lone_symbol or SizeSymbol(str(size), 1)
                    item.axes.setdefault(dim, Axis(symbol.name, symbol.low, symbol.high))

    def _rank_of_output(self, index: int) -> int | None:
        """The number of dims of one of the tensors that the graph returns."""
        types = [v.type for v in self.graph.stages[self.stage].outputs if isinstance(v, Value)]
        known = [type for type in types if isinstance(type, TensorType)]
        return known[index].ndim if index < len(known) and len(known) == len(types) else None

    # -- nodes ---------------------------------------------------------------------------------------------------

    def convert(self, updates_as_outputs: bool, hints: Sequence[str | None] = ()) -> None:
        """Write all nodes; ExportError lists those that cannot be written."""
        places = {item.value: item.axes for item in self.inputs if item.axes}
        self.sized = sized_graph(self.graph, self.stage, places, self._is_known)
        self.g.sizes.names.update((symbol, axis.name) for symbol, axis in self.sized.axes.items())
        for item in self.inputs:
            self.values[self.sized.copies[item.value]] = self._input_value(item)
        with deciding(FixedSizes(self.sized.conditions, self.g.sizes.text)):
            self._convert(updates_as_outputs, hints)

    def _is_known(self, node: Node) -> bool:
        """Whether a composite is written by a symbolic, without its parts."""
        op = find(node.kind)
        written = (op is not None and op.symbolic is not None) or symbolic_of(node) is not None
        return written or registered(node.kind, self.g.opset)[0] is not None

    def _convert(self, updates_as_outputs: bool, hints: Sequence[str | None]) -> None:
        returned = list(leaves(self._returned(updates_as_outputs)))
        own = len(returned) - len(self.updated)
        named = [*hints[:own], *[None] * (own - len(hints)), *(f"{item.name}.new" for item in self.updated)]
        kept = [(item, hint) for item, hint in zip(returned, named) if self._is_result(item, hint)]
        self.results, self.hints = [item for item, _ in kept], [hint for _, hint in kept]
        nodes = [node for node in self.sized.graph.nodes if node.stage <= self.stage]
        fixed = [self.sized.copies[item.value] for item in self.inputs if item.array is not None]
        self.converter = Converter(self.g, self.sized, self.values, fixed)
        self.converter.fallthrough = self.fallthrough
        returned = [item for item in self.results if isinstance(item, Value)]
        self.converter.convert(nodes, returned)
        for value in returned:
            self.converter.require(value)
        if self.converter.problems:
            raise ExportError(explain(self.converter.problems, self.g.opset)) from self.converter.crash
        if self.converter.fallen:
            kinds = ", ".join(dict.fromkeys(self.converter.fallen))
            self.warnings.append(f"the model has operators that ONNX does not know, for which a runtime needs {kinds}")
        if not self.results:
            raise ExportError("The graph returns no tensors, so there is nothing to export; return at least one.")
        self.outputs = [self._output_value(item) for item in self.results]
        self.nodes = peephole.simplify(self.g.nodes, self.outputs, self._constant, self.g.opset)

    def fold(self) -> None:
        """Compute what depends on constants alone."""
        folding = ModelFolding(self.outputs, self.g.opset, self._folded_constant, self.g.tensor, self._element_of)
        self.nodes = peephole.simplify(folding.fold(self.nodes), self.outputs, self._constant, self.g.opset)
        self.changed = set(folding.changed)

    def join_rotations(self) -> None:
        """Let rotated places be one operator, where there is a kernel for it."""
        opsets, types = KERNELS[rotary.NAME]
        if self.g.opset in opsets:
            kinds = [ELEMENT_TYPES[dtype] for dtype in types]
            self.nodes = rotary.join_rotations(self.nodes, self.outputs, self._constant, kinds)

    def _constant(self, array: np.ndarray[Any, Any]) -> onnx_ir.Value:
        return self.g.constant(array).value

    def _element_of(self, value: onnx_ir.Value) -> int:
        dtype = self.g.proxies[value].dtype
        return 0 if dtype is None else ELEMENT_TYPES[dtype]

    def _folded_constant(self, array: np.ndarray[Any, Any], name: str) -> onnx_ir.Value:
        known = dtype_of(array)
        value = self.g.new_value(known, array.shape, self.names.unique(name))
        value.const_value = self.g.tensor(np.array(array, order="C"), value.name)
        self.g.stand_in(value, known, array.shape)
        self.folded.append(value)
        return value

    def _input_value(self, item: _ModelInput) -> OnnxProxy:
        g, kind = self.g, item.value.type
        if isinstance(kind, ScalarType):
            number = g.new_value(KINDS[kind.name], (), item.name)
            g.stand_in(number, KINDS[kind.name], ())
            return Scalar(g, KINDS[kind.name], lambda: number)
        known: Any = self.sized.copies[item.value].type
        value = g.new_value(known.dtype, known.shape, item.name)
        if item.array is not None and not self.is_open:
            value.const_value = g.tensor(item.array, item.name)
        proxy = g.stand_in(value, known.dtype, known.shape)
        for dim in item.axes:
            size = known.shape[dim]
            symbol = size.lone_symbol if type(size) is SizeExpr else None
            if symbol is not None:  # else it is fixed by chance, which is a problem that is reported
                g.sizes.sources.setdefault(symbol, (proxy, dim))
        return proxy

    def _returned(self, updates_as_outputs: bool) -> list[Any]:
        stage = self.sized.graph.stages[self.stage]
        if not updates_as_outputs:
            return list(stage.outputs)
        updates = [pair for pair in stage.updates if not isinstance(pair[1].type, GeneratorType)]
        by_copy = {self.sized.copies[item.value]: item for item in self.inputs}
        self.updated = [by_copy[target] for target, _ in updates]
        return [*stage.outputs, *(value for _, value in updates)]

    def _is_result(self, item: Any, hint: str | None) -> bool:
        """Whether an item becomes an output: no generator, no Handle, and no undefined gradient, which is warned of."""
        if item is None or (isinstance(item, Value) and isinstance(item.type, UndefinedType)):
            what = f"the result {hint!r}" if hint else "one of the results"
            self.warnings.append(f"{what} is undefined, and left out of the model's outputs")
            return False
        return not (isinstance(item, Value) and isinstance(item.type, (GeneratorType, HandleType)))

    def _output_value(self, item: Any) -> onnx_ir.Value:
        found = self.values[item] if isinstance(item, Value) else item
        return found.value if isinstance(found, OnnxProxy) else self.g.constant(found).value

    # -- outputs -------------------------------------------------------------------------------------------------

    def name_outputs(self, names: Sequence[str] | None) -> None:
        """Give the outputs their names; one that is also an input, a constant or another output gets an Identity."""
        default = [self._default_name(index, item) for index, item in enumerate(self.results)]
        given = _checked_names("output", names, default)
        for index, value in enumerate(self.outputs):
            wanted = default[index] if given is None else given[index]
            if given is not None and _is_input(wanted, self.inputs):
                raise UsageError(f"{wanted!r} cannot be the name of an input and of an output; rename one of them.")
            if value.producer() is None or value in self.outputs[:index]:
                value = self.outputs[index] = self._identity(value)
            value.name = self.given_outputs[wanted] if given is not None else self.names.unique(wanted)
            self.output_names.append(value.name)
            self._type_output(value, self.results[index], self.output_axes.get(wanted, {}))

    def _default_name(self, index: int, item: Any) -> str:
        if hint := self.hints[index]:
            return hint
        if isinstance(item, Value) and not is_numbered(item.name) and not item.is_input:
            return item.name
        return "output" if len(self.results) - len(self.updated) == 1 else f"output_{index}"

    def _identity(self, value: onnx_ir.Value) -> onnx_ir.Value:
        source = self.g.proxies[value]
        copy = self.g.op("Identity", source)
        self.nodes.append(self.g.nodes[-1])
        copy.dims = source.dims
        return copy.value

    def _type_output(self, value: onnx_ir.Value, item: Any, wanted: dict[int, Axis]) -> None:
        proxy = self.g.proxies[value]
        dims: list[Any] = [self.g.sizes.text(size) for size in proxy.known_dims or ()]
        named = {axis.name for axis in self.sized.axes.values()}
        if proxy.known_dims is None and isinstance(item, Value) and isinstance(item.type, TensorType):
            raise ExportError(f"The shape of the output {value.name!r} is not known: run infer_types on the graph.")
        for dim, axis in wanted.items():
            if not -len(dims) <= dim < len(dims) or isinstance(dims[dim], int):
                self.warnings.append(f"dim {dim} of the output {value.name!r} does not follow any dynamic axis")
            elif dims[dim] not in named:
                dims[dim] = axis.name
        self.g.set_type(value, proxy.dtype, tuple(dims))

    # -- the model -----------------------------------------------------------------------------------------------

    def finish(
        self, keep_as_inputs: bool, metadata: dict[str, str], graph_name: str, functions: Mapping[str, str]
    ) -> Exported:
        """Name what is left, and put the model together."""
        import onnx_ir

        self._name_rest()
        outlined = self._outlined(functions) if functions else []
        held = [item for item in self.inputs if item.array is not None]
        held = [item for item in held if self.values[self.sized.copies[item.value]].value.uses()]
        kept = [self.values[self.sized.copies[item.value]].value for item in held]
        for item, value in zip(held, kept):
            if value.const_value is None and item.array is not None:
                value.const_value = self.g.tensor(item.array, item.name)
        open_to_runs = [value for item, value in zip(held, kept) if keep_as_inputs or item in self.updated]
        constants = [proxy.value for proxy in self.g.constants.values() if proxy.value.uses()]
        inputs = [self.values[self.sized.copies[item.value]].value for item in self.inputs if item.array is None]
        imported = {DOMAIN: 1} if outlined else {}
        graph = onnx_ir.Graph(
            inputs + open_to_runs,
            self.outputs,
            nodes=self.nodes,
            initializers=[*kept, *constants, *(value for value in self.folded if value.uses())],
            opset_imports={"": self.g.opset, **{domain: 1 for domain in sorted(self.g.domains)}, **imported},
            name=graph_name,
        )
        model = onnx_ir.Model(
            graph,
            ir_version=IR_VERSIONS[self.g.opset],
            producer_name="jit",
            producer_version=_version(),
            functions=outlined,
            metadata_props=metadata,
        )
        originals = {copy: value for value, copy in self.sized.copies.items()}
        known = ((originals.get(value), proxy) for value, proxy in self._named_tensors())
        names = {value: str(proxy.value.name) for value, proxy in known if value is not None}
        axes = {item.name: {dim: axis.name for dim, axis in item.axes.items()} for item in self.inputs}
        updated, fell = [item.name for item in self.updated], bool(self.converter.fallen)
        return Exported(model, self._report(model), names, self.sized, axes, updated, fell)

    def _outlined(self, names: Mapping[str, str]) -> list[onnx_ir.Function]:
        """The functions that the nodes of some scopes have become."""
        if self.g.opset < SINCE:
            raise UsageError(f"models have functions from opset_version={SINCE} on, not at {self.g.opset}; choose that")
        constants = {proxy.value for proxy in self.g.constants.values()}
        outlining = Outlining(self.outputs, constants, self.g.opset, names)
        self.nodes = outlining.outline(self.nodes)
        return list(outlining.functions.values())

    def _name_rest(self) -> None:
        for proxy in self.g.constants.values():
            if proxy.value.uses():
                proxy.value.name = self.names.unique("constant")
                assert proxy.value.const_value is not None
                proxy.value.const_value.name = proxy.value.name
        hints = self.converter.hints
        for node in every_node(self.nodes):
            for value in [*(v for graph in subgraphs_of(node) for v in graph.inputs), *node.outputs]:
                if value.name not in self.output_names:
                    value.name = self.names.unique(hints.get(value) or _own_name(node))
            node.name = node.outputs[0].name

    def _named_tensors(self) -> Iterator[tuple[Value, OnnxProxy]]:
        present = {output for node in self.nodes for output in node.outputs} - self.changed
        for value, item in self.values.items():
            if isinstance(item, OnnxProxy) and not isinstance(item, (Missing, Scalar)) and item.value in present:
                yield value, item

    def _report(self, model: onnx_ir.Model) -> ExportReport:
        counts = Counter(node.op_type for node in every_node(self.nodes))
        return ExportReport(
            path=None,
            opset=self.g.opset,
            ir_version=model.ir_version,
            inputs={str(value.name): _shown(value) for value in model.graph.inputs},
            outputs={str(value.name): _shown(value) for value in model.graph.outputs},
            node_count=sum(counts.values()),
            op_histogram=dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))),
            initializers=len(model.graph.initializers),
            initializer_bytes=writer.initializer_bytes(model),
            is_random=self.converter.is_random,
            conditions=self.sized.notes,
            warnings=self.warnings,
        )


# -- checks ------------------------------------------------------------------------------------------------------


def _quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"


def _checked_names(what: str, names: Sequence[str] | None, default: Sequence[str]) -> list[str] | None:
    """A copy of the names that the user gives, if they are as many as there are values, and all different."""
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{what}_names must be a list of names, got {names!r}.")
    if len(names) != len(default):
        listed = ", ".join(default) or "none"
        raise UsageError(
            f"There are {len(default)} {what}s ({listed}), but {len(names)} {what}_names; pass one for each."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(f"{what}_names has {twice[0]!r} twice; every {what} needs a name of its own.")
    return list(names)


def _is_input(name: str, inputs: Sequence[_ModelInput]) -> bool:
    """Whether an input of the model has this name."""
    return any(item.name == name and item.array is None for item in inputs)


def _check_input_type(value: Value) -> None:
    type: Type = value.type
    if isinstance(type, ScalarType) and type.name in KINDS:
        return
    if not isinstance(type, TensorType):
        raise ExportError(f"The input {value.name!r} is a {type}, which ONNX cannot take; pass tensors and numbers.")
    if type.dtype is None or type.shape is None:
        raise ExportError(f"The type of the input {value.name!r} is not known: give it an element type and a shape.")


def _checked_array(value: Value, array: Any) -> np.ndarray[Any, Any]:
    """The numbers of an initializer, row-major, if they are what the graph's input is."""
    array = np.array(array, order="C", copy=None)
    if not isinstance(value.type, TensorType):
        raise UsageError(f"The input {value.name!r} is not a tensor; take it out of initializers.")
    given = TensorType(dtypes.from_numpy(array.dtype), array.shape)
    if value.type.dtype not in (None, given.dtype) or value.type.sizes not in (None, given.shape):
        raise UsageError(
            f"The initializer {value.name!r} is {given}, but the graph says {value.type}; pass such an array."
        )
    return array


def _axes_of(item: _ModelInput, dims: Any) -> dict[int, Axis]:
    if item.array is not None:
        raise UsageError(
            f"dynamic_axes names {item.name!r}, which is a weight of the model: its sizes are fixed; leave it out."
        )
    rank = item.value.type.ndim if isinstance(item.value.type, TensorType) else 0
    return axes_of(item.name, dims, rank)


# -- texts -------------------------------------------------------------------------------------------------------


def _own_name(node: onnx_ir.Node) -> str:
    """The name of a value that the program has no name for: `Net/fc/linear/MatMul`."""
    origin = node.metadata_props
    return path(origin.get("jit.scope", ""), short(origin["jit.op"]) if "jit.op" in origin else "", node.op_type)


def _shown(value: onnx_ir.Value) -> str:
    """`float32 (batch, 3)`."""
    dims = [] if value.shape is None else [dim if isinstance(dim, int) else dim.value or "?" for dim in value.shape]
    shape = f"({', '.join(map(str, dims))}{',' * (len(dims) == 1)})"
    return f"{_dtype_name(value)} {shape}"


def _dtype_name(value: onnx_ir.Value) -> str:
    from .opsets import DTYPES

    return DTYPES[value.dtype.value].name if value.dtype is not None else "unknown"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("jit-tracer")
    except PackageNotFoundError:
        return ""
