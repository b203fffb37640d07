"""The sizes of a graph that is exported: those of dynamic axes get names, and what was decided on them is judged.

Note [What a model holds for]
    A trace holds the sizes of one run. Its type rules are run again with a symbol for each dynamic axis (Note [Sizes
    get names] in jit.passes.support.symbolic_sizes), which leaves expressions where sizes follow from an axis, and
    conditions where somebody has decided on one:

        %x : Float(n, 3)
        %n : int = prim::size[dim=0](%x)
        %m : int = prim::max(%n, 1)               n, for an axis from 1
        %1 : Float(12) = aten::view[size=[12]](%x)    n == 4: the 12 is baked
        %2 : Float(4, ?) = aten::view[size=[4, -1]](%x)   3*n % 4 == 0, and (4, 3*n//4)

    A condition that follows from the range of the axis is none. Of the others,

    * one that fixes a size, or ties two, is an obstacle: the model would hold for the recorded sizes alone;
    * a decision of Python's is an obstacle, too: the program goes another way where it does not hold;
    * what an operator asks for (at least as many rows as its window has, a multiple of 4) is an obstacle if the user
      has given a range, and another range would do, and else a remark in the report: mostly, the program refuses other
      sizes, too.

    Operators are told that sizes are 2 or more, because a size of 1 broadcasts, and 0 leaves nothing. Whether the model
    is right for these, too, is found by giving the axes these sizes, and looking whether all results have the sizes
    that the expressions say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice, product
from typing import Any, NamedTuple

from jit.ir import Graph, Node, TensorType, Type, Value
from jit.ir.errors import ExportError, UndecidedSizeError, UsageError
from jit.ir.size_conditions import SizeCondition
from jit.ir.sizes import SizeExpr, SizeSymbol
from jit.passes.support.symbolic_sizes import SizesMisfit, name_sizes

from .axes import Axis, merged, symbols_of
from .naming_sizes import PRIMES, Asked, AskedConditions, ModelNamer
from .ranges import as_given, suggested_range, way_out, words

MOST_TRIED = 4
"""The number of sizes of an axis that are tried to find out whether it matters that another size becomes 1."""
FEW = 12
FARTHEST = 64
"""The number of sizes among which one for the verification is looked for."""


@dataclass(frozen=True)
class SizeProblem:
    """Something that the model would be wrong without."""

    op: str
    reason: str
    source: str = ""
    inside: str = ""


@dataclass(eq=False)
class SizedGraph:
    """A graph whose sizes are expressions of the dynamic axes, and what is known of these."""

    graph: Graph
    """A copy of what was recorded."""
    copies: dict[Value, Value]
    """Values that were recorded -> their copies."""
    axes: Mapping[SizeSymbol, Axis]
    recorded: Mapping[SizeSymbol, int]
    conditions: AskedConditions
    obstacles: Mapping[Node, str]
    """Composites whose parts hold for the recorded sizes alone, and why."""
    problems: list[SizeProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Requirements on the sizes, and who asks for them."""
    lows: dict[SizeSymbol, int] = field(default_factory=dict)
    """The least sizes that the model is right for."""

    def holds_for(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model is right for these sizes of the axes, by their names."""
        return self._are_right({symbol: sizes[axis.name] for symbol, axis in self.axes.items()})

    def other_sizes(self) -> Iterator[dict[str, int]]:
        """Other sizes that the model is right for, by the names of the axes, near the recorded ones."""
        return map(self._by_name, filter(self._are_right, self._near())) if self.axes else iter(())

    def checked_sizes(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Sizes of the axes by their names; the recorded ones of those that are not among `wanted`.

        Raises:
            UsageError: There is no such axis, or the model is not right for the sizes.
        """
        sizes = {axis.name: self.recorded[symbol] for symbol, axis in self.axes.items()}
        strange = [name for name in wanted if name not in sizes]
        if strange:
            known = ", ".join(map(repr, sizes)) or "none"
            raise UsageError(f"there is no dynamic axis {strange[0]!r} to verify with; the axes are {known}")
        sizes.update(wanted)
        if not self.holds_for(sizes):
            shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise UsageError(f"the model is not for the sizes {shown}: {'; '.join(self.notes) or 'see dynamic_axes'}")
        return sizes

    def _near(self) -> Iterator[dict[SizeSymbol, int]]:
        for step in [*range(1, FARTHEST), *range(-1, -FARTHEST, -1)]:  # sizes that are equal shall differ
            yield {s: size + step * (1 + i) for i, (s, size) in enumerate(self.recorded.items())}
            yield {symbol: size + step for symbol, size in self.recorded.items()}
        for symbol, size in self.recorded.items():
            for step in [*range(1, FARTHEST), *range(-1, -FARTHEST, -1)]:
                yield {**self.recorded, symbol: size + step}
        yield {symbol: 2 * size for symbol, size in self.recorded.items()}

    def _are_right(self, sizes: Mapping[SizeSymbol, int]) -> bool:
        inside = all(self.lows[s] <= n <= (n if s.high is None else s.high) for s, n in sizes.items())
        return inside and self.conditions.holds(sizes)

    def _by_name(self, sizes: Mapping[SizeSymbol, int]) -> dict[str, int]:
        return {self.axes[symbol].name: size for symbol, size in sizes.items()}


Places = Mapping[Value, Mapping[int, Axis]]
"""Input -> {dim: axis}."""


def sized_graph(graph: Graph, stage: int, places: Places, is_known: Callable[[Node], bool]) -> SizedGraph:
    """A copy of a graph, with names for the sizes of dynamic axes.

    Args:
        graph: What was recorded; its nodes up to stage `stage` are looked at.
        stage: The last stage that matters.
        places: Where the dynamic axes are.
        is_known: Whether ONNX knows a composite, whose parts matter less then.

    Raises:
        ExportError: The graph holds for the recorded sizes alone, or for those of 1 and 0.
        UsageError: The recorded sizes are outside of the ranges of their axes.
    """
    naming = _Naming(graph, stage, places, is_known)
    try:
        found = naming.found()
    except SizesMisfit as misfit:
        raise ExportError(naming.refusal(misfit)) from misfit
    naming.drop_what_is_harmless(found)
    for asked in found.conditions.asked:
        judge(found, asked)
    naming.small_sizes(found)
    return found


def judge(found: SizedGraph, asked: Asked) -> None:
    """Note what a condition means for the model."""
    condition = asked.condition
    axes = [found.axes[symbol] for symbol in condition.size.symbols]
    promised = any(axis.ranged for axis in axes) and suggested_range(found, condition) is not None
    if not (asked.is_decision or asked.is_baked or asked.counts or promised):
        where = f" at {asked.source}" if asked.source else ""
        found.notes.append(f"{words(found, condition)} ({asked.inside or asked.node.kind}{where})")
        return
    said = words(found, condition)
    what = f"Python decided that {said}" if asked.is_decision else f"it holds for {said} alone"
    op = "a decision" if asked.is_decision else asked.node.kind
    found.problems.append(SizeProblem(op, f"{what}; {way_out(found, asked)}", asked.source, asked.inside))


class _Naming:
    def __init__(self, graph: Graph, stage: int, places: Places, is_known: Callable[[Node], bool]) -> None:
        self._graph = graph
        self._stages = range(stage + 1)
        self._is_known = is_known
        axes = merged(axis for dims in places.values() for axis in dims.values())
        symbols = symbols_of(axes)
        self._axes = {symbols[name]: axis for name, axis in axes.items()}
        self._places = {v: {dim: symbols[axis.name] for dim, axis in dims.items()} for v, dims in places.items()}
        self._recorded = self._sizes_now()

    def _sizes_now(self) -> dict[SizeSymbol, int]:
        found: dict[SizeSymbol, int] = {}
        for value, dims in self._places.items():
            for dim, symbol in dims.items():
                size = value.type.shape[dim]  # type: ignore[attr-defined]
                if type(size) is int and found.setdefault(symbol, size) != size:
                    name, other = self._axes[symbol].name, found[symbol]
                    raise UsageError(f"the axis {name!r} has the sizes {other} and {size} in the arguments; pass one")
        for symbol, size in found.items():
            self._check_range(self._axes[symbol], size)
        return {symbol: found.get(symbol, max(symbol.low, 4)) for symbol in self._axes}

    @staticmethod
    def _check_range(axis: Axis, size: int) -> None:
        if axis.ranged and not axis.low <= size <= (size if axis.high is None else axis.high):
            raise UsageError(f"the axis {axis} has the size {size} in the arguments; pass arguments within its range")

    # -- naming --------------------------------------------------------------------------------------------------

    def found(self) -> SizedGraph:
        """The graph with names. Where a decision may be right by chance, as sizes are equal, others decide."""
        first = self._named(self._typical())
        if not any(asked.is_baked for asked in first.conditions.asked):
            return first
        try:
            second = self._named(self._apart())
        except SizesMisfit:
            return first
        return first if any(asked.is_baked for asked in second.conditions.asked) else second

    def _typical(self) -> dict[SizeSymbol, int]:
        """The sizes for which decisions are taken: the recorded ones, but no 0 and 1."""
        primes = cycle(PRIMES)
        return {s: size if size >= 2 else _clipped(s, next(primes)) for s, size in self._recorded.items()}

    def _apart(self) -> dict[SizeSymbol, int]:
        """Multiples of these, which have their divisors, but are hardly equal to each other."""
        return {s: _clipped(s, size * prime) for (s, size), prime in zip(self._typical().items(), cycle(PRIMES))}

    def _named(self, values: Mapping[SizeSymbol, int], fixed: Mapping[SizeSymbol, int] | None = None) -> SizedGraph:
        """A copy of the graph with names for the sizes of the axes, but for those that are fixed."""
        copies: dict[Value, Value] = {}
        graph = self._graph.clone(copies)
        conditions = AskedConditions(values)
        namer = ModelNamer(conditions, None if fixed else self._recorded, self._is_known)
        name_sizes(graph, self._shapes(copies, fixed or {}), conditions, namer=namer, stages=self._stages.stop)
        return SizedGraph(graph, copies, self._axes, self._recorded, conditions, namer.obstacles)

    def _shapes(self, copies: Mapping[Value, Value], fixed: Mapping[SizeSymbol, int]) -> dict[Value, TensorType]:
        inputs = [value for stage in self._graph.stages[: self._stages.stop] for value in stage.inputs]
        return {
            copies[value]: TensorType(value.type.dtype, self._shape(value, fixed), None, value.type.device)
            for value in inputs
            if isinstance(value.type, TensorType) and value.type.shape is not None
        }

    def _shape(self, value: Value, fixed: Mapping[SizeSymbol, int]) -> tuple[Any, ...]:
        shape: Any = list(value.type.shape)  # type: ignore[attr-defined]
        for dim, symbol in self._places.get(value, {}).items():
            shape[dim] = fixed.get(symbol, symbol.size)
        return tuple(shape)

    def refusal(self, misfit: SizesMisfit) -> str:
        """The text of the error for a graph that takes no other sizes."""
        axes = " and ".join(repr(axis.name) for axis in self._axes.values())
        what = str(misfit).rstrip(".")
        small = [axis.name for symbol, axis in self._axes.items() if self._recorded[symbol] < 2]
        hint = "leave the axis out of dynamic_axes, or compute the size from the tensor's shape"
        if small:
            hint = f"pass arguments in which the size of {small[0]!r} is 2 or more, as sizes of 1 broadcast"
        return f"The graph does not hold for other sizes of the dynamic axis {axes}: {what}; {hint}."

    def drop_what_is_harmless(self, found: SizedGraph) -> None:
        """Forget that operators were told of sizes inside, such as n//2, that they are not 1, where 1 would do."""
        for asked in found.conditions.asked:
            if asked.condition.relation == "!=" and not asked.is_decision:
                tried = list(islice(_exceptions(found, asked.condition), MOST_TRIED + 1))
                enough = tried and (len(asked.condition.size.symbols) > 1 or len(tried) <= MOST_TRIED)
                if enough and not any(self._deviation(found, sizes) for sizes in tried[:MOST_TRIED]):
                    found.conditions.found.remove(asked.condition)

    # -- sizes of 0 and 1 ----------------------------------------------------------------------------------------

    def small_sizes(self, found: SizedGraph) -> None:
        """Find out whether the model is right for axes of 1 and 0 as well, as far as the user wants these."""
        found.lows = {symbol: max(symbol.low, 2) for symbol in self._axes}
        for size in (1, 0):
            wanted = [s for s in self._axes if s.low <= size == found.lows[s] - 1 and found.conditions.allow(s, size)]
            if not wanted or self._deviation(found, dict.fromkeys(wanted, size)) is None:
                found.lows.update(dict.fromkeys(wanted, size))
                continue
            for symbol in wanted:
                deviation = self._deviation(found, {symbol: size})
                if deviation is None:
                    found.lows[symbol] = size
                else:
                    self._refuse_small(found, symbol, size, deviation)
        for symbol, low in found.lows.items():
            found.conditions.assume(SizeCondition(">=", symbol.size - low))

    def _refuse_small(self, found: SizedGraph, symbol: SizeSymbol, size: int, deviation: _Deviation) -> None:
        axis, node = self._axes[symbol], deviation.node
        if deviation.is_decision or axis.ranged:
            spec = as_given(axis.name, size + 1, axis.high)
            reason = f"{deviation.reason} where {axis.name!r} is {size}; the range {spec} for the axis would do"
            found.problems.append(SizeProblem(deviation.op, reason, str(node.source or "") if node else ""))
        else:
            found.notes.append(f"{symbol} >= {size + 1} ({deviation.words})")

    def _deviation(self, found: SizedGraph, fixed: Mapping[SizeSymbol, int]) -> _Deviation | None:
        """The first thing that is not what the expressions say if some axes have these sizes."""
        values = {s: n for s, n in found.conditions.values.items() if s not in fixed}
        try:
            small = self._named(values, fixed)
        except SizesMisfit as misfit:
            is_guard = misfit.node is not None and misfit.node.kind == "prim::Guard"
            return _Deviation(misfit.node, "Python decides otherwise" if is_guard else "it takes no tensor")
        for value, copy in found.copies.items():
            if not value.is_input and not _are_alike(copy.type, small.copies[value].type, fixed):
                return _Deviation(value.node, "it gives a result of another size")
        for asked in small.conditions.asked:
            if asked.is_baked or (asked.is_decision and asked.condition not in found.conditions.found):
                return _Deviation(asked.node, f"it asks for {asked.condition}")
        return None


class _Deviation(NamedTuple):
    node: Node | None
    reason: str

    @property
    def is_decision(self) -> bool:
        """Whether Python has decided on a size."""
        return self.node is not None and self.node.kind.startswith("prim::")

    @property
    def op(self) -> str:
        return "a decision" if self.is_decision or self.node is None else self.node.kind

    @property
    def words(self) -> str:
        return self.op if self.node is None or not self.node.source else f"{self.op} at {self.node.source}"


def _are_alike(general: Type, small: Type, fixed: Mapping[SizeSymbol, int]) -> bool:
    """Whether a type for small sizes is what the general one says, as far as both are known."""
    if not isinstance(general, TensorType) or not isinstance(small, TensorType):
        return True
    if general.shape is None or small.shape is None:
        return True
    try:
        expected = [size.evaluate(fixed) if type(size) is SizeExpr else size for size in general.shape]
    except (UndecidedSizeError, ZeroDivisionError):
        return False
    known = [(a, b) for a, b in zip(expected, small.shape) if a is not None and b is not None]
    return len(expected) == len(small.shape) and all(str(a) == str(b) for a, b in known)


def _exceptions(found: SizedGraph, condition: SizeCondition) -> Iterator[dict[SizeSymbol, int]]:
    """Small sizes for which a condition does not hold, though the others do."""
    symbols = sorted(condition.size.symbols, key=str)
    others = [c for c in found.conditions.found if c.relation != "!="]
    for sizes in product(*(range(max(s.low, 2), FARTHEST if len(symbols) == 1 else FEW) for s in symbols)):
        values = dict(zip(symbols, sizes, strict=True))
        if not condition.holds(values) and all(other.holds({**found.conditions.values, **values}) for other in others):
            yield values


def _clipped(symbol: SizeSymbol, size: int) -> int:
    size = max(size, symbol.low, 2)
    return size if symbol.high is None else min(size, symbol.high)
