"""Walks a graph and writes each node with its symbolic, collecting everything that cannot be exported on the way.

Note [All problems at once]
    A node that cannot be written is put on a list, its outputs become stand-ins with the recorded types, and the walk
    goes on; so one export names every obstacle. Whether a newer opset would do is found by writing the node once more
    for each newer opset, into a builder that is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.attempts import KIND
from jit.ir.graph import Graph, Node, Value, leaves, map_template
from jit.ir.inference import SIZES
from jit.ir.op import Op, find
from jit.ir.scalars import scalar_function
from jit.ir.sizes import SizeExpr
from jit.ir.types import GeneratorType, HandleType, ScalarType, TensorType, UndefinedType
from jit.passes.support.steps import length_of, steps_of

from .builder import OnnxBuilder, Origin, Recorded
from .control import CONTROL_WRITERS
from .dims import ExportedType
from .naming import is_numbered, path, short
from .opsets import OPSETS
from .proxies import KINDS, Missing, OnnxProxy, Scalar, Unsupported, kind_of
from .registration import registered
from .scalars import SCALAR_OPS, write_scalar
from .sizes import SizedGraph


@dataclass(frozen=True)
class ExportProblem:
    """One node that cannot be exported."""

    op: str
    reason: str
    source: str
    """The user's line."""
    since: int | None = None
    """The lowest opset that would do."""
    inside: str = ""
    """The composite that the node is a part of."""

    def __str__(self) -> str:
        inside = f" (part of {self.inside})" if self.inside else ""
        where = f" at {self.source}" if self.source else ""
        way_out = f"; opset_version={self.since} would do" if self.since else ""
        return f"{self.op}{inside}{where}: {self.reason}{way_out}"


class Converter:
    """Writes the nodes of a graph into a builder.

    Args:
        builder: The builder that takes the nodes.
        sized: The graph, whose sizes are expressions.
        values: The proxies of the graph's inputs; those of every value that is written are added.
        fixed: Inputs that are the same in every run, such as parameters.
    """

    def __init__(
        self, builder: OnnxBuilder, sized: SizedGraph, values: dict[Value, Any], fixed: Iterable[Value] = ()
    ) -> None:
        self.g = builder
        self.sized = sized
        self.values = values
        self._fixed = set(fixed)
        """Values computed from parameters and constants alone."""
        self.problems = [ExportProblem(p.op, p.reason, p.source, inside=p.inside) for p in sized.problems]
        self.hints: dict[Any, str] = {}
        """ONNX value -> the name that it would like."""
        self.is_random = False
        """Whether the model draws random numbers of its own."""
        self.fallthrough = False
        """Whether what ONNX does not know is written as an operator of a domain of its own."""
        self.fallen: list[str] = []
        """The operators of which this has been done."""
        self.crash: Exception | None = None
        """The first exception of a symbolic that is not `Unsupported`."""
        self._inside: list[Node] = []
        self._needed: set[Value] = set()
        """The values that something is written for."""
        self._lowest: dict[tuple[str, str], int | None] = {}
        self._on_trial = False

    def convert(self, nodes: Sequence[Node], results: Iterable[Value]) -> None:
        """Write those of `nodes` that `results` need."""
        for node in nodes:
            if _is_pure(node) and all(value in self._fixed for value in node.inputs):
                self._fixed.update(node.outputs)
        for node in self._live(nodes, results):
            self._convert(node)

    def _live(self, nodes: Sequence[Node], results: Iterable[Value]) -> list[Node]:
        """Nodes that the results need, and all guards."""
        self._needed.update(results)
        live = []
        for node in reversed(nodes):
            if node.kind == "prim::Guard":
                live.append(node)
            elif any(value in self._needed for value in node.outputs):
                live.append(node)
                self._needed.update(node.inputs)
        return live[::-1]

    def require(self, value: Value) -> None:
        """Note a problem if `value`, which the model returns, is an output that ONNX does not give."""
        found = self.values[value]
        if isinstance(found, Missing):
            self.g.origin = self._origin(value.node)
            self._refuse(value.node, found.reason)

    # -- one node ------------------------------------------------------------------------------------------------

    def _convert(self, node: Node) -> None:
        if node.kind == "prim::Guard":
            self._check_guard(node)
            return
        self.is_random = self.is_random or _draws(node)
        self.g.origin = self._origin(node)
        self.g.outs = [Recorded(self.g, _exported_type(value)) for value in node.outputs if _is_tensor(value)]
        try:
            self._bind(node, self._written(node))
        except Unsupported as obstacle:
            if self.fallthrough:
                self._bind(node, self._fall(node))
            else:
                self._refuse(node, obstacle.reason)
        except Exception as crash:  # a symbolic may be code of the user's
            self.crash = self.crash or crash
            self._refuse(node, f"its symbolic failed with {type(crash).__name__}: {crash}")

    def _origin(self, node: Node) -> Origin:
        outer = self._inside[-1] if self._inside else node
        source = node.source or next((each.source for each in reversed(self._inside) if each.source), None)
        return Origin(node.kind, node.scope or outer.scope, str(source) if source else "")

    def _written(self, node: Node) -> Any:
        """The results of the node's symbolic."""
        op = find(node.kind)
        custom, _ = registered(node.kind, self.g.opset)
        if custom is not None:
            return self._call(custom, node, op)
        if node.kind in WRITERS:
            return WRITERS[node.kind](self, node)
        namespace, _, name = node.kind.partition("::")
        if namespace == "prim" and name in SCALAR_OPS:
            return self._number(node, name)
        if op is not None:
            return self._write_op(node, op)
        return self._write_unknown(node)

    def _number(self, node: Node, name: str) -> Any:
        """The result of arithmetic on numbers, some of which may be known by now."""
        operands, function = self._resolved(node, node.args), scalar_function(node.kind)
        if function is None or any(isinstance(item, Scalar) or type(item) is SizeExpr for item in operands):
            return write_scalar(self.g, name, operands)
        return function.python(*operands)

    def _write_op(self, node: Node, op: Op) -> Any:
        """An operator of the registry: by its symbolic, or by the parts that were recorded under it, or its steps."""
        body = next(node.subgraphs, None)
        if body is None and length_of(node) is not None:
            body = steps_of(node)
        if op.symbolic is None and body is None:
            raise Unsupported(op.missing.get("onnx") or _without_symbolic(op))
        if op.symbolic is not None:
            try:
                return self._call(op.symbolic, node, op)
            except Unsupported:
                if body is None:
                    raise
        assert body is not None
        return self.descend(node, body)

    def _write_unknown(self, node: Node) -> Any:
        """A PythonOp, a native function, or a group of nodes."""
        symbolic = symbolic_of(node)
        if symbolic is not None:
            return self._call(symbolic, node, None)
        body = next(node.subgraphs, None)
        if body is not None:
            return self.descend(node, body)
        raise Unsupported(_way_out(node.kind))

    def _fall(self, node: Node) -> list[Any]:
        """A node as an operator of the domain that it has here, `aten::roll`, with attributes that ONNX can hold."""
        domain, _, name = node.kind.rpartition("::")
        kind = f"{domain or 'python'}::{name.removeprefix('^')}"
        self.fallen.append(kind)
        plain = {key: item for key, item in node.attributes.items() if _is_attribute(item)}
        operands = [self.as_tensor(item) for item in leaves(self._resolved(node, node.args))]
        made = self.g.op(kind, *operands, outputs=len(node.outputs), **plain)
        results = [made] if len(node.outputs) == 1 else list(made)
        for value, proxy in zip(node.outputs, results):
            proxy.dtype = _exported_type(value).dtype if _is_tensor(value) else None
        return results

    def descend(self, node: Node, body: Graph) -> list[Any]:
        """Write the parts of `node`.

        Raises:
            Unsupported: The parts do not hold for all sizes.
        """
        obstacle = self.sized.obstacles.get(node)
        if obstacle is not None:
            raise Unsupported(f"its parts do not hold for other sizes of the dynamic axes: {obstacle}")
        given = [*body.outputs, *(value for _, value in body.stages[0].updates)]
        wanted = [item if value in self._needed else None for item, value in zip(given, node.outputs)]
        return self.written_inside(node, body, zip(body.inputs, node.inputs), wanted)

    def written_inside(
        self, node: Node, body: Graph, pairs: Iterable[tuple[Value, Value]], wanted: Sequence[Any] | None = None
    ) -> list[Any]:
        """Write a sub-graph, where values that it takes are, by `pairs`, values outside; returns what it gives.

        Args:
            node: The node around it.
            body: The sub-graph.
            pairs: Inputs, and what they are outside; others have their proxies already.
            wanted: What is wanted of it; all of its outputs unless given.
        """
        known = list(pairs)
        self._fixed.update(inner for inner, outer in known if outer in self._fixed)
        self.values.update((inner, self.values.get(outer)) for inner, outer in known)
        results = list(body.outputs) if wanted is None else list(wanted)
        outs, self._inside = self.g.outs, [*self._inside, node]
        self.convert(list(body.nodes), [item for item in results if isinstance(item, Value)])
        self.g.outs, self._inside = outs, self._inside[:-1]
        self.g.origin = self._origin(node)
        return [self.values[item] if isinstance(item, Value) else item for item in results]

    # -- arguments -----------------------------------------------------------------------------------------------

    def _call(self, symbolic: str | Callable[..., Any], node: Node, op: Op | None) -> Any:
        if op is None:
            assert callable(symbolic)
            operands = [self.as_tensor(item) for item in self._resolved(node, node.args)]
            return self._call_freely(symbolic, node, operands)
        arguments = self._arguments(node, op)
        if isinstance(symbolic, str):
            return self.g.op(symbolic, *(arguments[index] for index in op.tensors))
        return symbolic(self.g, *arguments)

    def _call_freely(self, symbolic: Callable[..., Any], node: Node, operands: list[Any]) -> Any:
        """Call a symbolic without a schema: a Python function's own arguments, else operands and attributes."""
        if "arguments" in node.attributes:
            return symbolic(self.g, *node.attributes["arguments"].filled(operands))
        attributes = {key: self._resolved(node, item) for key, item in node.attributes.items()}
        plain = {key: item for key, item in attributes.items() if not isinstance(item, Graph) and not callable(item)}
        return symbolic(self.g, *operands, **plain)

    def _arguments(self, node: Node, op: Op) -> list[Any]:
        """Schema-ordered arguments: tensors as proxies, in the dtype that the operator computes in."""
        attributes = {key: self._resolved(node, item) for key, item in node.attributes.items()}
        arguments = op.join(self._resolved(node, node.args), attributes)
        wide = op.compute_dtype([_for_promotion(item) for item in arguments]) if op.promoted else None
        for index, argument in enumerate(op.arguments):
            if index in op.promoted:
                arguments[index] = map_template(lambda item: self.as_tensor(item, wide), arguments[index])
            elif index in op.tensors:
                arguments[index] = map_template(self.as_tensor, arguments[index])
            elif argument.type.base == "Generator":
                arguments[index] = None
            elif argument.type.is_list and isinstance(arguments[index], (int, float, Scalar)):
                arguments[index] = (arguments[index],) * (argument.type.list_size or 1)
        return arguments

    def as_tensor(self, item: Any, dtype: Any = None) -> Any:
        """A tensor operand: numbers, arrays and traced numbers become tensors, None stays."""
        if item is None or (isinstance(item, OnnxProxy) and not isinstance(item, Scalar)):
            return item if item is None else self.g.cast(item, dtype)
        if isinstance(item, (bool, int, float, complex, np.ndarray, np.generic)):
            return self.g.constant(item, dtype=dtype)
        return self.g.cast(self.g.stand_in(item.value, item.dtype, ()), dtype) if isinstance(item, Scalar) else item

    def _resolved(self, node: Node, template: Any) -> Any:
        return node.resolve(template, self.values.get)

    # -- results -------------------------------------------------------------------------------------------------

    def _bind(self, node: Node, results: Any) -> None:
        listed = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(listed) > len(node.outputs):
            raise Unsupported(f"its symbolic returns {len(listed)} values where it has {len(node.outputs)} outputs")
        listed += [None] * (len(node.outputs) - len(listed))
        for value, item in zip(node.outputs, listed):
            self.values[value] = self._result(node, value, item)

    def _result(self, node: Node, value: Value, item: Any) -> Any:
        """The ONNX value of one output, named and typed as it was recorded."""
        if isinstance(value.type, (GeneratorType, HandleType, UndefinedType)):
            return None
        recorded = _exported_type(value) if _is_tensor(value) else ExportedType()
        if item is None:
            reason = f"ONNX does not give output number {value.offset} of {node.kind}"
            return Missing(self.g, reason, recorded.dtype, recorded.shape)
        if isinstance(value.type, ScalarType):
            return item
        tensor = self.g.cast(self.as_tensor(item), recorded.dtype)
        if tensor.value.producer() is not None:
            tensor.dims = recorded.shape if recorded.shape is not None else tensor.dims
            self.g.set_type(tensor.value, tensor.dtype, tensor.dims)
            self.hints.setdefault(tensor.value, _hint(node, value, self.g.origin.scope))
        return tensor

    # -- what cannot be written ----------------------------------------------------------------------------------

    def _check_guard(self, node: Node) -> None:
        """Drop a guard whose value is the same in every run; else note that the model would hold for some runs only."""
        watched = [value for value in node.inputs if value not in self._fixed]
        if not watched:
            return
        self.g.origin = self._origin(node)
        if watched[0].node.kind == KIND:
            error = watched[0].node.attribute("error")
            self._refuse(watched[0].node, f"the function catches the {error} that comes here, {CAUGHT}")
        else:
            self._refuse(node, SIZE_DEPENDENT if all(map(_is_of_sizes, watched)) else DATA_DEPENDENT)

    def _refuse(self, node: Node, reason: str) -> None:
        inside = self._inside[0].kind if self._inside else ""
        name = {"prim::Guard": "a decision", KIND: node.attribute("op")}.get(node.kind, node.kind)
        problem = ExportProblem(name, reason, self.g.origin.source, self._lowest_opset(node, reason), inside)
        if problem not in self.problems:
            self.problems.append(problem)
        for value in node.outputs:
            self.values[value] = self._stand_in(value)

    def _stand_in(self, value: Value) -> Any:
        """A stand-in of the recorded type, so that the walk can go on."""
        if isinstance(value.type, ScalarType):
            return Scalar(self.g, KINDS.get(value.type.name, dtypes.float64), lambda: self.g.new_value(None, ()))
        if not isinstance(value.type, TensorType):
            return None
        recorded = _exported_type(value)
        return self.g.stand_in(self.g.new_value(None, None), recorded.dtype, recorded.shape)

    def _lowest_opset(self, node: Node, reason: str) -> int | None:
        """The lowest newer opset at which `node` can be written; the same answer for the same reason."""
        if self._on_trial or node.kind in ("prim::Guard", KIND):
            return None
        key = (node.kind, reason)
        if key not in self._lowest:
            newer = range(self.g.opset + 1, OPSETS[-1] + 1)
            self._lowest[key] = next((opset for opset in newer if self._would_do(node, opset)), None)
        return self._lowest[key]

    def _would_do(self, node: Node, opset: int) -> bool:
        trial = OnnxBuilder(opset)
        sources = self.g.sizes.sources.items()
        trial.sizes.sources.update((symbol, (_copied(x, trial), dim)) for symbol, (x, dim) in sources)
        values = {value: _copied(self.values.get(value), trial) for value in node.inputs}
        attempt = Converter(trial, self.sized, values)
        attempt._on_trial, attempt.problems = True, []
        attempt._convert(node)
        return not attempt.problems


DATA_DEPENDENT = (
    "Python decided on the contents of a tensor, and the model would go the traced way for all data; "
    "compute both sides and choose with where(), use jit.cond(), or show the other way, too, with branches=[arguments]"
)
CAUGHT = "and the model would go the traced way for all data; check the operands beforehand, or choose with where()"
SIZE_DEPENDENT = (
    "Python decided on a size that follows a dynamic axis, and the model would hold for some sizes only; "
    "leave that axis out of dynamic_axes, or compute with the size instead of deciding on it"
)


# -- kinds that are in no registry -------------------------------------------------------------------------------


def _write_constant(converter: Converter, node: Node) -> Any:
    item = node.attribute("value")
    return item if item is None or isinstance(node.output.type, ScalarType) else converter.g.constant(item)


def _write_size(converter: Converter, node: Node) -> Any:
    tensor = converter.values[node.inputs[0]]
    return tensor.shape[node.attribute("dim")]


def _write_item(converter: Converter, node: Node) -> Scalar:
    """The number in a tensor of one element, as a float64, int64 or bool without dims."""
    g = converter.g
    tensor = converter.values[node.inputs[0]]
    kind = node.output.type.name if isinstance(node.output.type, ScalarType) else "float"
    if kind not in KINDS:
        raise Unsupported(f"ONNX has no {kind} numbers")
    has_dims = tensor.known_dims != ()
    return g.scalar(
        KINDS[kind], lambda: g.cast(g.op("Reshape", tensor, g.ints([])) if has_dims else tensor, KINDS[kind])
    )


WRITERS: dict[str, Callable[[Converter, Node], Any]] = {
    "prim::Constant": _write_constant,
    **dict.fromkeys(SIZES, _write_size),
    "prim::item": _write_item,
    **CONTROL_WRITERS,
}
"""Writers of the kinds that are in no registry."""


# -- helpers -----------------------------------------------------------------------------------------------------


def _is_attribute(item: Any) -> bool:
    """Whether ONNX can hold an attribute: numbers, texts, dtypes, and lists of numbers."""
    if isinstance(item, (tuple, list)):
        return bool(item) and all(type(each) in (int, float, bool) for each in item)
    return type(item) in (int, float, bool, str, dtypes.DType)


def _draws(node: Node) -> bool:
    """Whether a node draws random numbers: it is a random op, or a composite that moves a generator on."""
    op = find(node.kind)
    return (op is not None and op.kind == "random") or any(isinstance(v.type, GeneratorType) for v in node.outputs)


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def _exported_type(value: Value) -> ExportedType:
    assert isinstance(value.type, TensorType)
    return ExportedType(value.type.dtype, value.type.shape)


def _is_pure(node: Node) -> bool:
    op = find(node.kind)
    return node.kind.startswith(("aten::", "prim::")) and not (op is not None and op.kind == "random")


def _is_of_sizes(number: Value) -> bool:
    """Whether a number comes from sizes alone, and not from the contents of a tensor."""
    waiting = [number]
    while waiting:
        node = waiting.pop().node
        if node.kind in SIZES:
            shape = node.inputs[0].type.shape
            if shape is None or shape[node.attribute("dim")] is None:
                return False
        elif scalar_function(node.kind) is None:
            return False
        else:
            waiting += node.inputs
    return True


def _for_promotion(item: Any) -> Any:
    """An argument as the rules of promotion look at it: a traced number is a number."""

    def leaf(each: Any) -> Any:
        return {"bool": False, "int": 0, "float": 0.0}[kind_of(each.dtype)] if isinstance(each, Scalar) else each

    return map_template(leaf, item)


def symbolic_of(node: Node) -> Callable[..., Any] | None:
    """The static method `symbolic` of the function that a node calls."""
    found = getattr(node.attributes.get("function"), "symbolic", None)
    return found if callable(found) else None


def _without_symbolic(op: Op) -> str:
    if op.kind == "composite":
        return "it has no ONNX symbolic, and was recorded without its parts"
    return _way_out(op.name)


def _way_out(kind: str) -> str:
    if kind == "prim::Eval":
        return "the backward of a Python function is opaque to ONNX; write it in operators that are traced"
    if kind.startswith("^"):
        return (
            "a Python function that computes by other means than operators is opaque to ONNX; give it a static method "
            "`symbolic(g, *arguments)`"
        )
    return f"no ONNX form of it is known; give one with jit.export.register_symbolic({kind!r}, ...)"


def _hint(node: Node, value: Value, scope: str) -> str:
    return path(scope, short(node.kind)) if is_numbered(value.name) else value.name


def _copied(item: Any, builder: OnnxBuilder) -> Any:
    """A stand-in for `item` in a builder on trial."""
    if not isinstance(item, OnnxProxy):
        return item
    if isinstance(item, Missing):
        return item
    if isinstance(item, Scalar):
        assert item.dtype is not None
        return Scalar(builder, item.dtype, lambda: builder.new_value(None, ()))
    return builder.stand_in(builder.new_value(None, None), item.dtype, item.known_dims, item.constant)


def explain(problems: Sequence[ExportProblem], opset: int) -> str:
    """The text of the error that lists all problems."""
    if len(problems) == 1:
        return f"The graph cannot be exported to ONNX at opset {opset}: {problems[0]}."
    needed = [problem.since for problem in problems]
    lines = [f"The graph cannot be exported to ONNX at opset {opset}, for {len(problems)} reasons:"]
    lines += [f"  {problem}" for problem in problems]
    if all(needed):
        lines.append(f"opset_version={max(each for each in needed if each)} would do for all of them.")
    return "\n".join(lines)
