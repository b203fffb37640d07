"""Names for the sizes of a graph that becomes a model: what is different from naming those of a recording.

Note [Naming for a model]
    A recording is replaced by another one where its conditions do not hold, and a model is not. So it is written down
    who has asked for each condition. ONNX knows no strides, so these are left out. A composite that ONNX knows, such as
    an LSTM, is written without its parts: if they hold for the recorded sizes alone, as a loop over a size does, and it
    has a type rule of its own, that is remembered in case that they are needed after all, and forgotten otherwise.
    Numbers that nobody has decided upon are computed when the model runs.

    Operators ask again and again whether a size is 1, or 0: sizes of 1 broadcast, and any stride will do for them. They
    are told that sizes are 2 or more. Whether the model is right for axes of 1 and 0 is looked at afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from jit.ir import Graph, Node, TensorType, Type, Value, find
from jit.ir.control import output_types
from jit.ir.errors import Error
from jit.ir.graph import leaves
from jit.ir.inference import inferred_types
from jit.ir.scalars import scalar_function
from jit.ir.size_conditions import SizeCondition, SizeConditions
from jit.ir.sizes import Bounds, SizeExpr, SizeFunction, SizeSymbol, any_symbolic
from jit.ir.types import BOOL, ScalarType
from jit.passes.support.symbolic_sizes import SizeNamer, SizesMisfit

PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
"""Factors of sizes that shall not be equal, and sizes for axes that were recorded with 0 or 1."""


def _is_decision(node: Node) -> bool:
    """Whether a node is Python's, and no operator."""
    return node.kind.startswith("prim::")


class Asked(NamedTuple):
    """A condition, and the node that has asked for it."""

    condition: SizeCondition
    node: Node
    inside: str
    """The composite that the node is a part of."""
    source: str
    """The user's line."""
    is_baked: bool
    """Whether it fixes a size, or ties two of them; that a size has to be even leaves enough of them."""

    @property
    def words(self) -> str:
        """`aten::view at model.py:12 in forward asks for n == 4`."""
        where = f" at {self.source}" if self.source else ""
        return f"{self.node.kind}{where} asks for {self.condition}"

    @property
    def is_decision(self) -> bool:
        """Whether the user's Python has decided on it; otherwise an operator has, or one of its parts."""
        return not self.inside and _is_decision(self.node)

    @property
    def counts(self) -> bool:
        """Whether the number of results depends on it, and so what Python goes on with."""
        op = find(self.node.kind)
        return op is not None and op.pieces is not None


class AskedConditions(SizeConditions):
    """Conditions that remember the nodes which have asked; operators are told that sizes are 2 or more.

    Args:
        values: The numbers that the symbols stand for.
    """

    def __init__(self, values: Mapping[SizeSymbol, int]) -> None:
        super().__init__(values)
        self.asking: list[Node] = []
        """The node that is looked at, behind the composites around it."""
        self._askers: dict[SizeCondition, tuple[Node, str, str]] = {}

    def decide(self, relation: str, difference: SizeExpr) -> bool:
        """Whether `difference relation 0`, relation being "==" or ">="."""
        before, bounds = len(self.found), self._bounds
        if not _is_decision(self.asking[0]):
            self._bounds = {**bounds, **{symbol: self._of_several(symbol) for symbol in difference.symbols}}
        try:
            return super().decide(relation, difference)
        finally:
            self._bounds = bounds
            for condition in self.found[before:]:
                inside = self.asking[0].kind if len(self.asking) > 1 else ""
                self._askers[condition] = (self.asking[-1], inside, _source(self.asking))
                self.assume(condition)

    def _of_several(self, symbol: SizeSymbol) -> Bounds:
        low, high = self._bounds.get(symbol, (None, None))
        return max(low or 0, symbol.low, 2), high

    def allow(self, symbol: SizeSymbol, size: int) -> bool:
        """Whether the conditions on this symbol alone hold for a size of it."""
        return all(c.holds({symbol: size}) for c in self.found if c.size.symbols == {symbol})

    @property
    def asked(self) -> list[Asked]:
        """The conditions that were found, and the nodes that have asked for them."""
        return [Asked(condition, *self._askers[condition], self._fixes(condition)) for condition in self.found]

    def _fixes(self, condition: SizeCondition) -> bool:
        """Whether a condition is about remainders neither by its looks, nor because it holds for multiples of sizes."""
        atoms = {atom for product in condition.size.terms for atom in product}
        if condition.relation != "==" or any(isinstance(a, SizeFunction) and a.name == "%" for a in atoms):
            return False
        return not condition.holds({s: n * prime for (s, n), prime in zip(self.values.items(), cycle(PRIMES))})


class ModelNamer(SizeNamer):
    """Visits the nodes of a graph that becomes a model; see Note [Naming for a model].

    Args:
        conditions: Decides, and gathers the conditions under which the model is right.
        recorded: The sizes that were recorded; those by which conditions are decided may be others. None: some sizes
            are fixed to other ones, so results are not those that were recorded.
        is_known: Whether ONNX knows a composite.
    """

    conditions: AskedConditions

    def __init__(
        self, conditions: AskedConditions, recorded: Mapping[SizeSymbol, int] | None, is_known: Callable[[Node], bool]
    ) -> None:
        super().__init__(conditions)
        self._recorded = recorded
        self._is_known = is_known
        self.obstacles: dict[Node, str] = {}
        """Composites whose parts hold for the recorded sizes alone, and why."""

    def visit(self, node: Node) -> None:
        """Name the sizes of one node, whose operands have theirs."""
        self.conditions.asking.append(node)
        try:
            super().visit(node)
        except SizesMisfit as misfit:
            misfit.node = node
            raise
        finally:
            self.conditions.asking.pop()
        if node.kind == "prim::Constant" and isinstance(node.output.type, ScalarType):
            self.numbers[node.output] = node.attribute("value")

    def composite(self, node: Node, body: Graph) -> None:
        """Name the sizes of the parts of a composite, or of its results alone if ONNX knows it."""
        op = find(node.kind)
        has_rule = op is not None and (op.type_rule is not None or op.kind == "pointwise")
        if not (has_rule and self._is_known(node)):
            super().composite(node, body)
            return
        if self._recorded is None:  # nothing is written, so the parts do not matter
            self._whole(node)
            return
        mark = self.conditions.mark()
        try:
            super().composite(node, body)
            obstacle = self._pinned_since(len(mark[0]))
        except SizesMisfit as misfit:
            obstacle = str(misfit)
        if obstacle is not None:
            self.conditions.return_to(mark)
            self.obstacles[node] = obstacle
            self._whole(node)

    def control(self, node: Node) -> None:
        """Name the sizes of what is inside of control flow, too: a model is one for all sizes."""
        found = [self._results_of(node, graph) for graph in node.subgraphs]
        self._agree(node, found)
        self.give(node, output_types(node, found))

    def _whole(self, node: Node) -> None:
        """Name the sizes of the results of a composite by its own rule."""
        self.rewrite(node)
        try:
            found = inferred_types(node, whole=True)
        except Error as error:
            raise SizesMisfit(f"{node.kind} at {node.source} takes no other sizes: {error}") from error
        self.give(node, [None] * len(node.outputs) if found is None else found)

    def _pinned_since(self, count: int) -> str | None:
        """The first condition behind `count` others for which the parts of a composite cannot be relied upon."""
        if len(self.conditions.found) == count:
            return None
        return next((a.words for a in self.conditions.asked[count:] if a.is_baked), None)

    def arithmetic(self, node: Node, operands: Sequence[Any]) -> bool:
        """Compute with numbers that are known; a comparison that nobody decides upon may be left to the model."""
        function = scalar_function(node.kind)
        if function is None or function.lowest is not BOOL or function.widens or guard_of(node) is not None:
            return super().arithmetic(node, operands)
        mark = self.conditions.mark()
        done = super().arithmetic(node, operands)
        if len(self.conditions.found) == len(mark[0]):
            return done
        self.conditions.return_to(mark)
        self.resolved.remove(node)
        del self.numbers[node.output]
        return False

    def inferred(self, node: Node) -> Sequence[Type | None]:
        """The types of the outputs of a node; without a rule, the recorded ones if no operand varies."""
        found = super().inferred(node)
        if self._recorded is None or any(type is not None for type in found) or _varies(node):
            return found
        return [value.type for value in node.outputs]

    def give(self, node: Node, found: Sequence[Type | None]) -> None:
        """Let the outputs of a node have the types that were found, without strides."""
        super().give(node, found)
        for value in node.outputs:
            if isinstance(value.type, TensorType):
                value.type = TensorType(value.type.dtype, value.type.shape, None, value.type.device)

    def recorded_size(self, dim: Any) -> Any:
        """A size as it was when the graph was recorded."""
        return dim.evaluate(self._recorded) if type(dim) is SizeExpr and self._recorded is not None else dim

    def is_as_recorded(self, found: Sequence[Any], recorded: Sequence[Any]) -> bool:
        """Whether a shape is the one that was recorded, at the sizes of the recording."""
        return self._recorded is None or super().is_as_recorded(found, recorded)


def guard_of(node: Node) -> Node | None:
    """The decision of Python's that a number leads to, by itself or through others that are computed from it."""
    waiting, seen = [node], {node}
    while waiting:
        for use in [use for value in waiting.pop().outputs for use in value.uses]:
            if use.node.kind == "prim::Guard":
                return use.node
            if scalar_function(use.node.kind) is not None and use.node not in seen:
                seen.add(use.node)
                waiting.append(use.node)
    return None


def _source(nodes: Sequence[Node]) -> str:
    """The line of a node within others; a number may have it from the decision that it leads to."""
    guard = guard_of(nodes[-1])
    lines = [node.source for node in (nodes[-1], guard, *nodes) if node is not None and node.source]
    return str(lines[0]) if lines else ""


def _varies(node: Node) -> bool:
    """Whether sizes or numbers that a node is given are not the same in every run."""
    return any(map(_is_open, node.inputs)) or any_symbolic(leaves(node.args), leaves(node.attributes))


def _is_open(value: Value) -> bool:
    kind = value.type
    if isinstance(kind, TensorType):
        return kind.shape is None or None in kind.shape or any_symbolic(kind.shape)
    return isinstance(kind, ScalarType)


__all__ = ["PRIMES", "Asked", "AskedConditions", "ModelNamer"]
