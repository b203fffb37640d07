"""A fusion group as terms: what is read, what is computed at a point, and what is reduced along a row.

Comes between the graph of a group and its nest. Operators that go along rows say themselves which terms they consist
of - a softmax is a maximum, a sum and two bodies - see Note [Terms] in `jit.ir.kernel`. 16-bit floats are computed in
float32 and rounded at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jit.ir import Node, TensorType, Value
from jit.ir.dtypes import DType, float32, int64
from jit.ir.errors import CompileError
from jit.passes.support.spaces import arguments, main_output, row_length

from .nest import Access, NestScan, Position

SCAN_COST = 8


@dataclass(eq=False, repr=False)
class Term:
    """One value of a group, at a point or for a row."""

    dtype: DType
    axes: frozenset[int]
    """The axes along which it varies."""
    arguments: tuple[Term, ...] = ()
    cost: int = 0

    stage: int = 0
    """The number of reductions, one after the other, that it takes to know it."""


@dataclass(eq=False, repr=False)
class Read(Term):
    """An element of memory, the position in the row, or a function that runs along it."""

    operand: Access | Position | NestScan | None = None


@dataclass(eq=False, repr=False)
class Apply(Term):
    """A function of the math namespace and the arguments' values."""

    function: Callable[..., Any] = lambda m: None


@dataclass(eq=False, repr=False)
class Reduced(Term):
    """The arguments combined along the row; `which` is the number of the result, for monoids with two."""

    monoid: str = "sum"
    which: int = 0
    twin: Reduced | None = None
    """The first result, for the second."""


class Terms:
    """Makes terms, in topological order."""

    def __init__(self, row: tuple[int, ...], position: Position | None) -> None:
        self.row = frozenset(row)
        self._position = position
        self.all: list[Term] = []

    def _add(self, term: Any) -> Any:
        self.all.append(term)
        return term

    def read(self, operand: Access | Position | NestScan, dtype: DType, axes: frozenset[int]) -> Term:
        """An operand of the nest."""
        term: Term = self._add(Read(dtype, axes, operand=operand))
        return term

    def apply(self, function: Callable[..., Any], *terms: Term, dtype: DType | None = None, cost: int = 1) -> Term:
        """`function(m, *values)`, of the dtype of the first term unless another is given."""
        axes = frozenset().union(*(t.axes for t in terms)) if terms else frozenset()
        stage = max((t.stage for t in terms), default=0)
        term: Term = self._add(Apply(dtype or terms[0].dtype, axes, terms, cost, stage, function))
        return term

    def reduce(self, monoid: str, *terms: Term) -> Term:
        """The terms combined along the row."""
        return self._reduced(monoid, terms)[0]

    def extreme(self, monoid: str, term: Term) -> tuple[Term, Term]:
        """(the value, its position in the row)."""
        return self._reduced(monoid, (term, self.position()))

    def position(self) -> Term:
        """The position in the row."""
        if self._position is None:
            raise CompileError("the position of an extremum needs a row; reduce a dim of more than one element")
        return self.read(self._position, int64, self.row)

    def running(self, monoid: str, term: Term) -> Term:
        """The running result of the row's terms at each point; a row of one point leaves it as it is."""
        if not self.row:
            return term
        function = self.read(NestScan(monoid, term.dtype), term.dtype, self.row)
        return self.apply(lambda m, run, x: run(x), function, term, cost=SCAN_COST)

    def _reduced(self, monoid: str, terms: tuple[Term, ...]) -> tuple[Term, Term]:
        axes = frozenset().union(*(t.axes for t in terms)) - self.row
        stage = 1 + max(t.stage for t in terms)
        first = self._add(Reduced(terms[0].dtype, axes, terms, 0, stage, monoid))
        if monoid not in ("argmax", "argmin"):
            return first, first
        return first, self._add(Reduced(int64, axes, terms, 0, stage, monoid, 1, first))

    def cast(self, term: Term, dtype: DType) -> Term:
        """The term in another dtype."""
        return term if term.dtype is dtype else self.apply(lambda m, x: m.cast(x, dtype), term, dtype=dtype)

    def is_inner(self, term: Term) -> bool:
        """Whether it differs from point to point of a row."""
        return not self.row or bool(term.axes & self.row)


def wide(dtype: DType) -> DType:
    """The dtype of the computation: float32 for the 16-bit floats."""
    return float32 if dtype.is_half else dtype


def dtype_of(value: Value) -> DType:
    """The dtype of a value whose type is known."""
    assert isinstance(value.type, TensorType) and value.type.dtype is not None
    return value.type.dtype


class Rows:
    """The builder `t` of an operator's terms, see Note [Terms] in `jit.ir.kernel`: terms of one node of a group."""

    def __init__(self, terms: Terms, node: Node) -> None:
        self.row = terms.row
        """The axes of the row; empty if it has one element."""
        self.dtype = dtype_of(main_output(node))
        self._terms, self._node = terms, node
        self.cast, self.apply, self.reduce = terms.cast, terms.apply, terms.reduce
        self.extreme, self.position, self.running = terms.extreme, terms.position, terms.running

    @property
    def count(self) -> int:
        """The number of elements that are reduced to one."""
        return row_length(self._node)

    def wide(self, term: Term) -> Term:
        """The term in the dtype that the result is computed in."""
        return self.cast(term, wide(self.dtype))

    def widened(self, term: Term) -> Term:
        """The term in the dtype that it is itself computed with."""
        return self.cast(term, wide(term.dtype))

    def alike(self, *terms: Term | None) -> list[Term | None]:
        """All of them widened; CompileError if they are of several dtypes."""
        if len({term.dtype for term in terms if term is not None}) > 1:
            raise CompileError(f"{self._node.kind} of several dtypes has no kernel; cast them to one, or interpret it")
        return [None if term is None else self.widened(term) for term in terms]

    def over(self, term: Term, number: float) -> Term:
        """The term divided by a number, which may be 0, as numpy divides."""
        return self.apply(lambda m, x: x / m.constant(number, x.dtype), term)


def expanded(terms: Terms, node: Node, operands: Mapping[Value, Term]) -> dict[Value, Term]:
    """The results of an operator that goes along rows, in terms of its operands."""
    op, values = arguments(node)
    assert op.kernel.terms is not None
    given = [operands[value] if isinstance(value, Value) else value for value in values]
    found = op.ask(op.kernel.terms, given, Rows(terms, node))
    made = zip(node.outputs, (found,) if isinstance(found, Term) else found)  # there may be more results than terms
    return {value: terms.cast(term, dtype_of(value)) for value, term in made if term is not None}
