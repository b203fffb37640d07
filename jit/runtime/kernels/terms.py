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
from jit.ir.sizes import SizeExpr, any_symbolic
from jit.passes.support.spaces import arguments, main_output, row_length

from .nest import Access, NestScan, Position

SCAN_COST = 8
Along = Callable[[int, int], tuple[tuple[int, ...], frozenset[int]]]
"""The strides along the nest's extents of a step along a dim, and the axes along which one leads further."""


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

    def __init__(self, row: tuple[int, ...], position: Position | None, dims: int) -> None:
        self.row = frozenset(row)
        self._position = position
        self._dims = dims
        self.all: list[Term] = []
        self._told: dict[tuple[Any, ...], int] = {}
        """The numbers of places that sizes decide on."""

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

    def size(self, size: int) -> Term:
        """A size that is told when the kernel runs."""
        return self.place((0,) * self._dims, size, frozenset())

    def place(self, strides: tuple[int, ...], offset: int, axes: frozenset[int]) -> Term:
        """The number `offset + sum(i * stride)` at each point; what sizes decide on is told when the kernel runs."""
        number = 0
        if any_symbolic(strides, (offset,)):
            number = self._told.setdefault((strides, offset), len(self._told) + 1)
        return self.read(Position(strides, offset, number), int64, axes)

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

    def __init__(self, terms: Terms, node: Node, along: Along) -> None:
        self.row = terms.row
        """The axes of the row; empty if it has one element."""
        self.dtype = dtype_of(main_output(node))
        self._terms, self._node, self._along = terms, node, along
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
        if type(number) is SizeExpr:
            return self.apply(lambda m, x, size: x / m.cast(size, x.dtype), term, self._terms.size(number))
        return self.apply(lambda m, x: x / m.constant(number, x.dtype), term)

    def place(self, dim: int, start: int = 0, step: int = 1) -> Term:
        """The place along a dim of the first result, counted from `start` in steps."""
        if type(step) is SizeExpr:  # strides that sizes decide on might be 0 or 1 when code is made
            counted = self.apply(lambda m, i, n: i * n, self.place(dim), self._terms.size(step))
            return self.apply(lambda m, i, n: i + n, counted, self.number(_checked(start), int64))
        strides, axes = self._along(dim, _checked(step))
        return self._terms.place(strides, _checked(start), axes)

    def number(self, number: Any, dtype: DType) -> Term:
        """A number, which may be a size."""
        if type(number) is SizeExpr:
            return self.cast(self._terms.size(number), dtype)
        return self.apply(lambda m: m.constant(number, dtype), dtype=dtype, cost=0)


def _checked(number: int) -> int:
    """A number that int64 holds."""
    if type(number) is not SizeExpr and not -(2**63) <= number < 2**63:
        raise CompileError(f"{number} is no int64; the interpreter counts with it")
    return number


def expanded(terms: Terms, node: Node, operands: Mapping[Value, Term], along: Along) -> dict[Value, Term]:
    """The results of an operator that has terms, in terms of its operands.

    Args:
        terms: Those of the group, to which they are added.
        node: The operator.
        operands: Its operands.
        along: The way of a step along a dim of its first result, and the axes on which that depends.
    """
    op, values = arguments(node)
    assert op.kernel.terms is not None
    given = [operands[value] if isinstance(value, Value) else value for value in values]
    found = op.ask(op.kernel.terms, given, Rows(terms, node, along))
    made = zip(node.outputs, (found,) if isinstance(found, Term) else found)  # there may be more results than terms
    return {value: terms.cast(term, dtype_of(value)) for value, term in made if term is not None}
