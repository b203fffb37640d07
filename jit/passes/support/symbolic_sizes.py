"""Names the sizes of a recorded graph: what follows from the sizes of inputs becomes expressions of symbols.

Note [Sizes get names]
    A recording holds the sizes of one call, and the arithmetic of sizes as nodes. Its type rules are run again with a
    symbol for each size that varies; numbers that follow from sizes become expressions in the operands that use them,
    guards on them become conditions, and neither leaves a node behind:

        graph(%x : Float(3, 32)) {                             graph(%x : Float(n, 32)) {
          %0 : int = prim::size[dim=0](%x)                       %0 : Float(n, 4, 8) = aten::view[size=[n, 4, 8]](%x)
          %1 : int = prim::mod(%0, 3)                            return (%0)
          %2 : bool = prim::eq(%1, 0)                          }
          prim::Guard[expected=True](%2)
          %3 : Float(3, 4, 8) = aten::view[size=[%0, 4, 8]](%x)
          return (%3)                                          under the condition n % 3 == 0
        }

    What no rule derives - results of foreign functions, sizes that depend on elements - has no size, and nodes that
    read such a size stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from jit.ir import Graph, Node, TensorType, Type, Value
from jit.ir.errors import Error
from jit.ir.graph import map_template
from jit.ir.inference import SIZES, inferred_types
from jit.ir.scalars import exactly, scalar_function
from jit.ir.size_conditions import SizeConditions
from jit.ir.sizes import SizeExpr, deciding

_OPAQUE = ("^", "cpp::", "prim::Eval", "prim::raises")
"""Kinds of nodes that are given Values, whatever is known of them: they are no operators of ours, or try one."""


class SizesMisfit(Error):
    """A recording whose sizes do not follow from those of its inputs, with the line at which that shows."""


def name_sizes(
    graph: Graph, shapes: Mapping[Value, TensorType], conditions: SizeConditions, stages: range | None = None
) -> None:
    """Let the types and operands of a graph speak of symbols; see Note [Sizes get names].

    Args:
        graph: What was recorded; it is changed.
        shapes: The types of its inputs, with symbols.
        conditions: Decides, and gathers the conditions under which the graph is right.
        stages: The stages to be looked at; all of them unless given.

    Raises:
        SizesMisfit: What was recorded has other sizes than the operators give.
    """
    namer = _Namer(conditions)
    with deciding(conditions):
        for value, type in shapes.items():
            value.type = type
        for node in list(graph.nodes):
            if stages is None or node.stage in stages:
                namer.visit(node)
        for stage in graph.stages:
            namer.rewrite(stage.result)
        namer.clear()
        _simplify(graph, conditions)


def _simplify(graph: Graph, conditions: SizeConditions) -> None:
    """Call sizes that are equal, by what was found, by one name, and those that are numbers by these."""

    def simple(leaf: Any) -> Any:
        return conditions.simplified(leaf) if type(leaf) is SizeExpr else leaf

    for value in graph.values:
        if isinstance(value.type, TensorType):
            shape, strides = map_template(simple, value.type.shape), map_template(simple, value.type.strides)
            value.type = TensorType(value.type.dtype, shape, strides, value.type.device)
    for node in [*graph.nodes, *(stage.result for stage in graph.stages)]:
        node.args = map_template(simple, node.args)
        node.attributes = {name: map_template(simple, item) for name, item in node.attributes.items()}
        for body in node.subgraphs:
            _simplify(body, conditions)


class _Namer:
    def __init__(self, conditions: SizeConditions) -> None:
        self.conditions = conditions
        self.numbers: dict[Value, Any] = {}
        """The traced numbers that follow from sizes."""
        self.resolved: list[Node] = []
        """The nodes that computed them."""

    def clear(self) -> None:
        """Erase nodes whose numbers everybody has got; foreign functions still read some."""
        for node in reversed(self.resolved):
            if not node.output.uses:
                node.erase()

    def visit(self, node: Node) -> None:
        """Name the sizes of one node, whose operands have theirs."""
        self.conditions.source = node.source
        body = next(node.subgraphs, None)
        if body is not None:
            self._composite(node, body)
            return
        if not node.kind.startswith(_OPAQUE):
            self.rewrite(node)
        if node.kind in SIZES:
            self._size(node)
        elif node.kind == "prim::Guard":
            self._guard(node)
        elif scalar_function(node.kind) is not None:
            self._arithmetic(node)
        elif node.kind != "prim::Constant":
            self._give(node, self._inferred(node))

    def rewrite(self, node: Node, needed: Set[Value] = frozenset()) -> None:
        """Put numbers that are known in the places of their Values, but for those that are needed as Values."""
        if any(value in self.numbers and value not in needed for value in node.inputs):

            def known(value: Value) -> Any:
                return value if value in needed else self.numbers.get(value, value)

            attributes = {name: node.resolve(item, known) for name, item in node.attributes.items()}
            node.rewrite(node.resolve(node.args, known), attributes)

    def _composite(self, node: Node, body: Graph) -> None:
        """Name the sizes of the parts of a composite; inputs that only brought numbers go."""
        pairs = list(zip(body.inputs, node.inputs, strict=True))
        for formal, actual in pairs:
            formal.type = actual.type
            if actual in self.numbers:
                self.numbers[formal] = self.numbers[actual]
        for part in list(body.nodes):
            self.visit(part)
        self.rewrite(body.stages[0].result)
        kept = [(formal, actual) for formal, actual in pairs if formal not in self.numbers or formal.uses]
        body.retain_inputs([formal for formal, _ in kept])
        self.rewrite(node, {actual for _, actual in kept})
        self._give(node, [result.type if isinstance(result, Value) else None for result in body.outputs])

    # -- numbers -------------------------------------------------------------------------------------------------

    def _size(self, node: Node) -> None:
        type, dim = node.inputs[0].type, node.attribute("dim")
        if isinstance(type, TensorType) and type.shape is not None and type.shape[dim] is not None:
            self._become(node, type.shape[dim])

    def _arithmetic(self, node: Node) -> None:
        function, operands = scalar_function(node.kind), node.operands
        if function is None or function.of_sizes is None or any(isinstance(item, Value) for item in operands):
            return
        try:
            self._become(node, function.of_sizes(*operands))
        except (ArithmeticError, TypeError, ValueError):  # what it raises, it raises when it runs
            return

    def _become(self, node: Node, number: Any) -> None:
        self.numbers[node.output] = number
        self.resolved.append(node)

    def _guard(self, node: Node) -> None:
        (found,) = node.operands
        if isinstance(found, Value):
            return
        expected = node.attribute("expected")
        right = found == expected if type(found) is SizeExpr else exactly(found) == exactly(expected)
        if not right:
            raise SizesMisfit(f"{expected!r} was decided upon at {node.source}, where its operands give {found}")
        node.erase()

    # -- tensors -------------------------------------------------------------------------------------------------

    def _give(self, node: Node, found: Sequence[Type | None]) -> None:
        """Let the outputs of a node have the types that were found."""
        for value, type in zip(node.outputs, found, strict=False):
            if isinstance(value.type, TensorType):
                value.type = self._checked(node, value.type, type)

    def _inferred(self, node: Node) -> Sequence[Type | None]:
        try:
            found = inferred_types(node)
        except Error as error:
            raise SizesMisfit(f"{node.kind} at {node.source} takes no other sizes: {error}") from error
        return [None] * len(node.outputs) if found is None else found

    def _checked(self, node: Node, recorded: TensorType, found: Type | None) -> TensorType:
        """The type that a rule has found, if it is the recorded one at the sizes of the recording."""
        if not isinstance(found, TensorType) or found.shape is None:
            unknown = None if recorded.shape is None else (None,) * len(recorded.shape)
            return TensorType(recorded.dtype, unknown, None, recorded.device)
        for dim, size in zip(found.shape, recorded.shape or (), strict=True):
            if dim is not None and self._now(dim) != size:
                raise SizesMisfit(f"{node.kind} at {node.source} was recorded as {recorded}, and its rule says {found}")
        return TensorType(recorded.dtype, found.shape, found.strides, recorded.device)

    def _now(self, dim: Any) -> Any:
        return dim.evaluate(self.conditions.values) if type(dim) is SizeExpr else dim


def forget_sizes(graph: Graph, stages: range) -> None:
    """Let no type in some stages know a size."""
    for value in graph.values:
        if value.stage in stages:
            _forget(value)
    for node in graph.nodes:
        for body in node.subgraphs if node.stage in stages else ():
            for value in body.values:
                _forget(value)


def _forget(value: Value) -> None:
    if isinstance(value.type, TensorType) and value.type.shape is not None:
        value.type = TensorType(value.type.dtype, (None,) * len(value.type.shape), None, value.type.device)
