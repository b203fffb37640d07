"""Graphs of ONNX models, prepared once and walked at every call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir.errors import Error, ModelError
from jit.tracing.surroundings.known_types import Watched

from .bodies import body_of
from .model_context import ModelContext
from .table import Operator, find
from .values import SMALL, Known, as_list, as_number

if TYPE_CHECKING:
    import onnx

Values = dict[str, Any]


class Subgraph:
    """A graph that is an attribute of a node: a function of its inputs once the values around it are given."""

    def __init__(self, graph: Walk, outputs: Sequence[onnx.ValueInfoProto], around: Values | None = None) -> None:
        self.graph, self.outputs, self.around = graph, outputs, around

    @property
    def input_count(self) -> int:
        """The number of its inputs."""
        return len(self.graph.inputs)

    def inside(self, around: Values) -> Subgraph:
        """The same where these values are seen."""
        return Subgraph(self.graph, self.outputs, around)

    def __call__(self, *inputs: Any) -> list[Any]:
        assert self.around is not None
        return self.graph.run(inputs, self.around)


@dataclass
class NodeCall:
    """A node, ready to run."""

    node: onnx.NodeProto
    operator: Operator | None
    """None where a function body computes it."""
    operands: list[str | Known | None]
    """Names of values, constants that the host knows, and None for those that are left out."""
    attributes: dict[str, Any]
    constant_types: list[np.dtype[Any] | None] = field(default_factory=list)
    """Types of the elements of operands that are constants, None for those that are not."""
    dead: list[str] = field(default_factory=list)
    """The values that nobody needs afterwards."""
    bodies: dict[Any, Walk] = field(default_factory=dict)
    """The function bodies that compute it, by the types of operands."""

    @property
    def on_data(self) -> bool:
        """Whether no recording can repeat it."""
        inner = [value.graph for value in self.attributes.values() if isinstance(value, Subgraph)]
        told = self.operator is not None and self.operator.on_data
        looks = told(self.attributes, self.constant_types) if callable(told) else told
        return looks or any(graph.on_data for graph in inner)

    def __str__(self) -> str:
        name = f" {self.node.name!r}" if self.node.name else ""
        return f"node{name} ({self.node.op_type}{f' of {self.node.domain}' if self.node.domain else ''})"


class Walk(Watched):
    """A graph or a function body as a function of its inputs.

    Args:
        nodes: Its nodes, in an order in which they can run.
        inputs: Names of its inputs.
        outputs: Names of its outputs.
        context: What it shares with the rest of the model.
        given: Attributes that a function body refers to.
        known: Constants that the graph has of its own.
    """

    def __init__(
        self, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str], context: ModelContext,
        given: Mapping[str, Any] | None = None, known: Mapping[str, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        self.inputs, self.outputs, self.context = list(inputs), list(outputs), context
        self._given = given or {}
        self._own = {name for node in nodes for name in node.output} | set(inputs)
        self._known = {name: Known(array) for name, array in (known or {}).items()}
        self.steps = [self._step(node) for node in nodes]
        self._mark_dead()

    def watched(self) -> Iterable[tuple[str, Any]]:
        """Nothing: a model does not change once it is read."""
        return ()

    @property
    def on_data(self) -> bool:
        """Whether Python looks at elements, or makes some that tensors do not have: no recording repeats it."""
        return any(step.on_data for step in self.steps)

    # -- preparing -----------------------------------------------------------------------------------------------

    def _step(self, node: onnx.NodeProto) -> NodeCall:
        version = self.context.opsets.get(_domain(node.domain))
        if version is None:
            raise ModelError(f"the model has nodes of the domain {node.domain!r} and does not import it")
        local = (node.domain, node.op_type) in self.context.functions
        operator = None if local else find(_domain(node.domain), node.op_type, version)
        attributes = {a.name: self._attribute(a) for a in node.attribute if not a.ref_attr_name}
        for a in node.attribute:
            if a.ref_attr_name and a.ref_attr_name in self._given:
                attributes[a.name] = self._given[a.ref_attr_name]
        attributes = {**({} if local else _defaults(node, version)), **attributes}
        operands = [self._operand(name, index, operator) for index, name in enumerate(node.input)]
        constants = [None if name in self._own else self.context.constants.get(name) for name in node.input]
        return NodeCall(node, operator, operands, attributes, [None if c is None else c.dtype for c in constants])

    def _operand(self, name: str, index: int, operator: Operator | None) -> str | Known | None:
        """The operand's name, or what it is if it is a constant that the host should know."""
        if not name:
            return None
        constant = self.context.constants.get(name)
        if constant is None or name in self._own:
            return name
        known = constant.ndim == 0 or (constant.size <= SMALL and constant.dtype.kind in "iub")
        if operator is not None and index < len(operator.operands):
            known = known or operator.operands[index][1] in (as_list, as_number)
        return Known(constant) if known else name

    def _attribute(self, attribute: onnx.AttributeProto) -> Any:
        import onnx

        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.GraphProto):
            return self._subgraph(value)
        if isinstance(value, onnx.TensorProto):
            return Known(array_in(value))
        if isinstance(value, onnx.SparseTensorProto):
            return Known(dense(value))
        return _decoded(value)

    def _subgraph(self, graph: onnx.GraphProto) -> Subgraph:
        own = initializers(graph)
        around = {name: array for name, array in self.context.constants.items() if name not in self._own}
        inputs, outputs = [v.name for v in graph.input], [v.name for v in graph.output]
        context = self.context.deeper(constants={**around, **own})
        return Subgraph(Walk(graph.node, inputs, outputs, context, self._given, own), list(graph.output))

    def needed(self) -> set[str]:
        """The names that come from around it."""
        found = {o for step in self.steps for o in step.operands if isinstance(o, str)} | set(self.outputs)
        for step in self.steps:
            found |= {
                n for value in step.attributes.values() if isinstance(value, Subgraph) for n in value.graph.needed()
            }
        return found - self._own - set(self._known)

    def _mark_dead(self) -> None:
        kept, seen = {*self.outputs, *self.inputs}, set[str]()
        for step in reversed(self.steps):
            used = {operand for operand in step.operands if isinstance(operand, str)}
            for value in step.attributes.values():
                used |= value.graph.needed() if isinstance(value, Subgraph) else set()
            step.dead = [name for name in (used | set(step.node.output)) & self._own - seen - kept if name]
            seen |= used | set(step.node.output)

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, inputs: Sequence[Any], around: Values) -> list[Any]:
        """The outputs for these inputs; `around` has the values that it sees beside them."""
        values = {**self._known, **around}
        values.update(zip(self.inputs, inputs, strict=False))
        for step in self.steps:
            results = self._results(step, values)
            values.update(zip(step.node.output, results, strict=False))
            for name in step.dead:
                values.pop(name, None)
        return [self._found(name, values) for name in self.outputs]

    def _found(self, name: str, values: Values) -> Any:
        if name not in values:
            raise ModelError(f"nothing in the model computes {name!r}")
        return values[name]

    def _results(self, step: NodeCall, values: Values) -> Sequence[Any]:
        operands = [self._found(o, values) if isinstance(o, str) else o for o in step.operands]
        attributes = {k: v.inside(values) if isinstance(v, Subgraph) else v for k, v in step.attributes.items()}
        try:
            if step.operator is None:
                return self._by_body(step, operands, attributes)
            return _as_sequence(self._by_operator(step, step.operator, operands, attributes), step)
        except Error as error:
            error.add_note(f"in {step} of the ONNX model")
            raise

    def _by_operator(self, step: NodeCall, operator: Operator, operands: list[Any], attributes: dict[str, Any]) -> Any:
        found = _on_host(operator, operands, attributes)
        if found is not None:
            return found
        used = max((place for place, name in enumerate(step.node.output, 1) if name), default=0)
        version = self.context.opsets[_domain(step.node.domain)]
        return operator.call(operands, attributes, {"outputs": used, "version": version})

    def _by_body(self, step: NodeCall, operands: list[Any], attributes: dict[str, Any]) -> Sequence[Any]:
        key, proto, opsets = body_of(step.node, operands, self.context)
        if proto is None:
            version = self.context.opsets[_domain(step.node.domain)]
            raise ModelError(f"the operator {step.node.op_type} of {step.node.domain or 'ONNX'} {version} is not known")
        if key not in step.bodies:
            given = {**{a.name: self._attribute(a) for a in proto.attribute_proto}, **attributes}
            inner = self.context.deeper(opsets={**self.context.opsets, **opsets}, constants={})
            step.bodies[key] = Walk(proto.node, proto.input, proto.output, inner, given)
        walk = step.bodies[key]
        missing = [None] * (len(walk.inputs) - len(operands))
        return walk.run([*operands, *missing], {})


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _defaults(node: onnx.NodeProto, version: int) -> dict[str, Any]:
    """The attributes that ONNX says a node has if it does not say otherwise."""
    import onnx

    try:
        schema = onnx.defs.get_schema(node.op_type, min(version, onnx.defs.onnx_opset_version()), _domain(node.domain))
    except onnx.defs.SchemaError:
        return {}
    values = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.type}
    found = {name: onnx.helper.get_attribute_value(value) for name, value in values.items()}
    return {name: _decoded(value) for name, value in found.items()}


def _decoded(value: Any) -> Any:
    """Strings in place of bytes, lists in place of protobuf's."""
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [_decoded(part) for part in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _on_host(operator: Operator, operands: list[Any], attributes: Mapping[str, Any]) -> Any:
    """The result on the host; None if it does not know all operands, or this form of the operator has none."""
    if operator.on_host is None or not operands or not all(isinstance(o, Known) for o in operands):
        return None
    known = {name: value for name, value in attributes.items() if name in operator.attributes}
    return operator.on_host(*operands, **known)


def _as_sequence(result: Any, step: NodeCall) -> Sequence[Any]:
    return result if isinstance(result, tuple) else (result,)


def initializers(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """The initializers of a graph, dense."""
    found = {tensor.name: array_in(tensor) for tensor in graph.initializer}
    return found | {sparse.values.name: dense(sparse) for sparse in graph.sparse_initializer}


def constants_of(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """The tensors of a graph's nodes `Constant`, by the names of their results."""
    nodes = [node for node in graph.node if node.op_type == "Constant" and node.domain in ("", "ai.onnx")]
    given = [(node.output[0], a.t) for node in nodes for a in node.attribute if a.name == "value" and node.output]
    return {name: array_in(tensor) for name, tensor in given}


def dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    """A sparse tensor with its zeros."""
    values, indices = array_in(sparse.values), array_in(sparse.indices)
    try:
        array = np.zeros(tuple(sparse.dims), values.dtype)
        places = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), array.shape)
        array.reshape(-1)[places] = values
    except (ValueError, IndexError, TypeError, MemoryError) as error:
        raise ModelError(f"the sparse constant {sparse.values.name!r} is damaged: {error}") from error
    return array


def array_in(tensor: onnx.TensorProto) -> np.ndarray:
    """The elements of a constant; ModelError if there are more or fewer than its dims say, or of an unknown type."""
    import onnx

    try:
        return onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as error:
        raise ModelError(f"the constant {tensor.name!r} is damaged: {error}") from error
