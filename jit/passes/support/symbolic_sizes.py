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

    Later stages follow in the same way, with inputs of the sizes of what they are gradients of. What no rule derives -
    results of foreign functions, sizes that depend on elements - has no size, and nodes that read such a size stay.

Note [Control flow and sizes]
    What is inside of control flow is not given expressions: it runs by itself, for whatever arrays come, and reads
    sizes from these. Its types forget their sizes, and a copy is named to find the sizes of its results, and the
    conditions under which it is right. Its operands stay, numbers too, because each stands for an input inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from jit.ir import Graph, Node, TensorType, Type, Value
from jit.ir.control import carried, formal_types, is_control, output_types
from jit.ir.errors import Error
from jit.ir.graph import map_template
from jit.ir.inference import SIZES, inferred_types
from jit.ir.scalars import exactly, scalar_function
from jit.ir.size_conditions import SizeCondition, SizeConditions
from jit.ir.sizes import SizeExpr, SizeSymbol, deciding

from .analysis import with_subgraphs
from .rounded_sizes import rounded_size

_OPAQUE = ("^", "cpp::", "prim::Eval", "prim::raises")
"""Kinds of nodes that are given Values, whatever is known of them: they are no operators of ours, or try one."""


class SizesMisfit(Error):
    """A recording whose sizes do not follow from those of its inputs, with the line at which that shows."""

    node: Node | None = None
    """The node, where that is of interest."""


Enter = Callable[[int], Mapping[Value, TensorType]]
"""Called before each stage: the types of its inputs, with symbols."""


def name_sizes(
    graph: Graph,
    shapes: Mapping[Value, TensorType],
    conditions: SizeConditions,
    enter: Enter = lambda stage: {},
    taken: Mapping[Node, Sequence[Value]] = MappingProxyType({}),
    namer: SizeNamer | None = None,
    stages: int | None = None,
) -> tuple[list[list[SizeCondition]], Mapping[Value, Any]]:
    """Let the types and operands of a graph speak of symbols; see Note [Sizes get names].

    A stage may run for fewer sizes than the ones before it, so nothing that it finds is used in these.

    Args:
        graph: What was recorded; it is changed.
        shapes: The types of the inputs of stage 0, with symbols.
        conditions: Decides, and gathers the conditions under which the graph is right.
        enter: Says the types of the inputs of later stages.
        taken: The values behind the outputs of composites whose parts stand before them.
        namer: Visits the nodes, if not in the usual way.
        stages: The number of stages to be looked at; all of them unless given.

    Returns:
        The conditions of each stage, and the traced numbers that follow from sizes.

    Raises:
        SizesMisfit: What was recorded has other sizes than the operators give.
    """
    namer = namer or SizeNamer(conditions, taken)
    found: list[list[SizeCondition]] = []
    with deciding(conditions):
        for number, stage in enumerate(graph.stages[:stages]):
            for value, type in (enter(number) if number else shapes).items():
                value.type = type
            nodes, before = graph.stage_nodes(number), len(conditions.found)
            for node in nodes:
                namer.visit(node)
            namer.rewrite(stage.result)
            found.append(conditions.found[before:])
            _simplify(stage.inputs, [*nodes, stage.result], conditions)
        namer.clear()
    return found, namer.numbers


def _simplify(inputs: Sequence[Value], nodes: Iterable[Node], conditions: SizeConditions) -> None:
    """Call sizes that are equal, by what was found, by one name, and those that are numbers by these."""
    if conditions.equates:
        _replace_sizes(inputs, nodes, conditions.simplified)


def put_numbers(graph: Graph, values: Mapping[SizeSymbol, int]) -> None:
    """Put numbers in the places of all sizes of a graph.

    Args:
        graph: It is changed.
        values: The values of all symbols.
    """
    inputs = [value for stage in graph.stages for value in stage.inputs]
    _replace_sizes(inputs, [*graph.nodes, *(s.result for s in graph.stages)], lambda size: size.evaluate(values))


def _replace_sizes(inputs: Sequence[Value], nodes: Iterable[Node], replace: Callable[[SizeExpr], int]) -> None:
    def simple(leaf: Any) -> Any:
        return replace(leaf) if type(leaf) is SizeExpr else leaf

    def simplify_type(value: Value) -> None:
        if isinstance(value.type, TensorType):
            shape, strides = map_template(simple, value.type.shape), map_template(simple, value.type.strides)
            value.type = TensorType(value.type.dtype, shape, strides, value.type.device)

    for value in inputs:
        simplify_type(value)
    for node in nodes:
        for value in node.outputs:
            simplify_type(value)
        node.args = map_template(simple, node.args)
        node.attributes = {name: map_template(simple, item) for name, item in node.attributes.items()}
        for body in node.subgraphs:
            _replace_sizes(body.inputs, [*body.nodes, body.stages[0].result], replace)


def forget_sizes(graph: Graph) -> None:
    """Let the types in a graph, and in those inside of it, say nothing of sizes."""
    for inner in with_subgraphs(graph):
        for value in inner.values:
            if isinstance(value.type, TensorType) and value.type.shape is not None:
                unknown = (None,) * len(value.type.shape)
                value.type = TensorType(value.type.dtype, unknown, None, value.type.device)


class SizeNamer:
    """Visits the nodes of a graph in order, and names the sizes of each.

    Args:
        conditions: Decides, and gathers the conditions under which the graph is right.
        taken: The values behind the outputs of composites whose parts stand before them.
    """

    def __init__(
        self, conditions: SizeConditions, taken: Mapping[Node, Sequence[Value]] = MappingProxyType({})
    ) -> None:
        self.conditions = conditions
        self.taken = taken
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
        if is_control(node):
            self.control(node)
            return
        body = next(node.subgraphs, None)
        if body is not None:
            self.composite(node, body)
            return
        if self._is_number(node):
            return
        if not node.kind.startswith(_OPAQUE):
            self.rewrite(node)
        if node in self.taken:
            self._parted(node)
        elif node.kind != "prim::Constant" and scalar_function(node.kind) is None:
            self.give(node, self._as_many(node, self.inferred(node)))

    def rewrite(self, node: Node, needed: Set[Value] = frozenset()) -> None:
        """Put numbers that are known in the places of their Values, but for those that are needed as Values."""
        if any(value in self.numbers and value not in needed for value in node.inputs):

            def known(value: Value) -> Any:
                return value if value in needed else self.numbers.get(value, value)

            attributes = {name: node.resolve(item, known) for name, item in node.attributes.items()}
            node.rewrite(node.resolve(node.args, known), attributes)

    def composite(self, node: Node, body: Graph) -> None:
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
        self.give(node, [result.type if isinstance(result, Value) else None for result in body.outputs])

    def control(self, node: Node) -> None:
        """Name the sizes of the results of control flow; what runs inside looks at its operands, whatever their sizes.

        See Note [Control flow and sizes].
        """
        for graph in node.subgraphs:
            forget_sizes(graph)
        found = [self._results_of(node, graph.clone()) for graph in node.subgraphs]
        self._agree(node, found)
        self.give(node, output_types(node, found))

    def _results_of(self, node: Node, body: Graph) -> list[Type | None]:
        """The types of what a sub-graph gives; its nodes are named as those outside, and thrown away."""
        for formal, actual, type in zip(body.inputs, node.inputs, formal_types(node), strict=True):
            formal.type = type
            if actual in self.numbers:
                self.numbers[formal] = self.numbers[actual]
        for part in list(body.nodes):
            self.visit(part)
        self.rewrite(body.stages[0].result)
        return [value.type if isinstance(value, Value) else None for value in body.outputs]

    def _agree(self, node: Node, found: Sequence[Sequence[Type | None]]) -> None:
        """Let it be a condition that branches, or what comes in and goes out of a step, are of the same sizes."""
        given = [value.type for value in node.inputs[: carried(node)]] if len(found) == 1 else found[1]
        for one, other, declared in zip(found[0], given, [value.type for value in node.outputs]):
            types = (declared, one, other)
            shapes = [type.shape for type in types if isinstance(type, TensorType) and type.shape is not None]
            if len(shapes) == 3 and any(None not in sizes and sizes[1] != sizes[2] for sizes in zip(*shapes)):
                raise SizesMisfit(f"{node.kind} at {node.source} gives {one} one way and {other} the other")

    def _parted(self, node: Node) -> None:
        """Give a composite's outputs the types of the parts behind them; parts that know numbers need not be told."""
        if "extra" in node.attributes:
            further = tuple(item for item in node.attribute("extra") if isinstance(item, Value))
            attributes = {name: node.resolve(item) for name, item in node.attributes.items() if name != "extra"}
            node.rewrite(node.operands, {**attributes, "extra": further} if further else attributes)
        self.give(node, [value.type for value in self.taken[node]])

    # -- numbers -------------------------------------------------------------------------------------------------

    def _is_number(self, node: Node) -> bool:
        """Whether a node gives a number that follows from sizes, or is a guard on one; it is done with then."""
        if not node.kind.startswith("prim::"):
            return False
        if node.kind in SIZES:
            return self._size(node)
        if node.kind != "prim::Guard" and scalar_function(node.kind) is None:
            return False
        operands = node.resolve(node.args, lambda value: self.numbers.get(value, value))
        if node.kind != "prim::Guard":
            return self.arithmetic(node, operands)
        return not isinstance(operands[0], Value) and self._guard(node, *operands)

    def _size(self, node: Node) -> bool:
        type, dim = node.inputs[0].type, node.attribute("dim")
        if not isinstance(type, TensorType) or type.shape is None or type.shape[dim] is None:
            return False
        return self._become(node, type.shape[dim])

    def arithmetic(self, node: Node, operands: Sequence[Any]) -> bool:
        """Compute with numbers that are known; whether that gives an int or a bool, or no size is among them."""
        function = _function_of(node.kind, operands)
        rounded = rounded_size(node) if function is None else None
        if rounded is not None:
            self.resolved.append(node.inputs[0].node)
            return self._become(node, rounded)
        if function is None:
            return False
        try:
            return self._become(node, function(*operands))
        except (ArithmeticError, TypeError, ValueError):  # what it raises, it raises when it runs
            return False

    def _become(self, node: Node, number: Any) -> bool:
        self.numbers[node.output] = number
        self.resolved.append(node)
        return True

    def _guard(self, node: Node, found: Any) -> bool:
        expected = node.attribute("expected")
        right = found == expected if type(found) is SizeExpr else exactly(found) == exactly(expected)
        if not right:
            raise SizesMisfit(f"{expected!r} was decided upon at {node.source}, where its operands give {found}")
        node.erase()
        return True

    # -- tensors -------------------------------------------------------------------------------------------------

    def give(self, node: Node, found: Sequence[Type | None]) -> None:
        """Let the outputs of a node have the types that were found."""
        for value, type in zip(node.outputs, found, strict=False):
            if isinstance(value.type, TensorType):
                value.type = self._checked(node, value.type, type)

    def _as_many(self, node: Node, found: Sequence[Type | None]) -> Sequence[Type | None]:
        """The types that were found, one for each output; of operands of unknown sizes, a rule gives fewer."""
        if len(found) == len(node.outputs):
            return found
        if found and isinstance(found[0], TensorType) and found[0].shape is not None:
            raise SizesMisfit(f"{node.kind} at {node.source} gives another number of results")
        return [None] * len(node.outputs)

    def inferred(self, node: Node) -> Sequence[Type | None]:
        """The types of the outputs of a node that is no composite; None where no rule says them."""
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
        if recorded.shape is not None and not self.is_as_recorded(found.shape, recorded.shape):
            raise SizesMisfit(f"{node.kind} at {node.source} was recorded as {recorded}, and its rule says {found}")
        return TensorType(recorded.dtype, found.shape, found.strides, recorded.device)

    def is_as_recorded(self, found: Sequence[Any], recorded: Sequence[Any]) -> bool:
        """Whether a shape is the one that was recorded, at the sizes of the recording."""
        pairs = zip(found, recorded)
        known = [(dim, size) for dim, size in pairs if dim is not None and type(size) is int]
        return len(found) == len(recorded) and all(self.recorded_size(dim) == size for dim, size in known)

    def recorded_size(self, dim: Any) -> Any:
        """A size as it was when the graph was recorded."""
        return dim.evaluate(self.conditions.values) if type(dim) is SizeExpr else dim


def _function_of(kind: str, operands: Sequence[Any]) -> Callable[..., Any] | None:
    """The function of its operands that a node gives, if they are known, and sizes need not become numbers for it."""
    function = scalar_function(kind)
    if function is None or any(isinstance(item, Value) for item in operands):
        return None
    if not any(type(item) is SizeExpr for item in operands):
        return function.python
    return None if any(type(item) is float for item in operands) else function.of_sizes
