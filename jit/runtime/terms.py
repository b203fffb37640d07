"""A fusion group as terms: what is read, what is computed at a point, and what is reduced along a row.

Comes between the graph of a group and its nest. Operators that reduce are written here as the terms they consist of -
a softmax is a maximum, a sum and two bodies - in the order of operations of their `compute` lines, so that results
differ from the interpreter's by the order of sums alone. 16-bit floats are computed in float32 and rounded at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jit.ir import Node, TensorType, Value
from jit.ir.dtypes import DType, bool_, float32, int64
from jit.ir.errors import CompileError
from jit.passes.spaces import MASKED, argument, arguments, row_length

from .nest import Access, Position, Scan

SCAN_COST = 8


@dataclass(eq=False, repr=False)
class Term:
    """One value of a group, at a point or for a row."""

    dtype: DType
    axes: frozenset[int]
    """Along which it varies."""
    arguments: tuple[Term, ...] = ()
    cost: int = 0

    stage: int = 0
    """How many reductions, one after the other, it takes to know it."""


@dataclass(eq=False, repr=False)
class Read(Term):
    """An element of memory, the position in the row, or a function that runs along it."""

    operand: Access | Position | Scan | None = None


@dataclass(eq=False, repr=False)
class Apply(Term):
    """A function of the math namespace and the arguments' values."""

    function: Callable[..., Any] = lambda m: None


@dataclass(eq=False, repr=False)
class Reduced(Term):
    """The arguments combined along the row; which of the results, for monoids with two."""

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

    def read(self, operand: Access | Position | Scan, dtype: DType, axes: frozenset[int]) -> Term:
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
            raise CompileError("the position of an extremum needs a row")
        return self.read(self._position, int64, self.row)

    def running(self, monoid: str, term: Term) -> Term:
        """What the terms of the row have come to at each point; a row of one point leaves it as it is."""
        if not self.row:
            return term
        function = self.read(Scan(monoid, term.dtype), term.dtype, self.row)
        return self.apply(lambda m, run, x: run(x), function, term, cost=SCAN_COST)

    def _reduced(self, monoid: str, terms: tuple[Term, ...]) -> tuple[Term, Term]:
        axes = frozenset().union(*(t.axes for t in terms)) - self.row
        stage = 1 + max(t.stage for t in terms)
        first = self._add(Reduced(terms[0].dtype, axes, terms, 0, stage, monoid))
        if monoid not in ("argmax", "argmin"):
            return first, first
        return first, self._add(Reduced(int64, axes, terms, 0, stage, monoid, 1, first))

    def cast(self, term: Term, dtype: DType) -> Term:
        """In another dtype."""
        return term if term.dtype is dtype else self.apply(lambda m, x: m.cast(x, dtype), term, dtype=dtype)

    def is_inner(self, term: Term) -> bool:
        """Whether it differs from point to point of a row."""
        return not self.row or bool(term.axes & self.row)


def wide(dtype: DType) -> DType:
    """What is computed in: float32 for the 16-bit floats."""
    return float32 if dtype.is_half else dtype


def dtype_of(value: Value) -> DType:
    """The dtype of a value whose type is known."""
    assert isinstance(value.type, TensorType) and value.type.dtype is not None
    return value.type.dtype


# -- operators that reduce ---------------------------------------------------------------------------------------

Expansion = Callable[[Terms, Node, Sequence[Term]], Sequence[Term]]


def _result(node: Node) -> DType:
    return dtype_of(node.outputs[0])


def _over(number: float) -> Callable[..., Any]:
    """Divided by a number that may be 0, as numpy does it."""
    return lambda m, x: x / m.constant(number, x.dtype)


def _sum(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    return [t.cast(t.reduce("sum", t.cast(operands[0], wide(_result(node)))), _result(node))]


def _prod(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    return [t.cast(t.reduce("prod", t.cast(operands[0], wide(_result(node)))), _result(node))]


def _mean(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    total = t.reduce("sum", t.cast(operands[0], wide(_result(node))))
    return [t.cast(t.apply(_over(row_length(node)), total), _result(node))]


def _extremum(monoid: str) -> Expansion:
    return lambda t, node, operands: [t.reduce(monoid, operands[0])]


def _truth(monoid: str) -> Expansion:
    """Whether any, or each, is not zero: the greatest, or least, truth value."""
    return lambda t, node, operands: [t.cast(t.reduce(monoid, t.cast(operands[0], bool_)), _result(node))]


def _vector_norm(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    order = argument(node, "ord")
    size = t.apply(lambda m, a: m.abs(a), t.cast(operands[0], wide(_result(node))))
    if order in (math.inf, -math.inf):
        norm = t.reduce("max" if order > 0 else "min", size)
    elif order == 0:
        norm = t.reduce("sum", t.apply(lambda m, a: m.cast(a != 0, a.dtype), size))
    elif order == 1:
        norm = t.reduce("sum", size)
    elif order == 2:
        norm = t.apply(lambda m, s: m.sqrt(s), t.reduce("sum", t.apply(lambda m, a: a * a, size)))
    else:
        raise CompileError(f"the {order}-norm has no kernel")
    return [t.cast(norm, _result(node))]


def _picked(monoid: str) -> Expansion:
    return lambda t, node, operands: t.extreme(monoid, operands[0])


def _position(monoid: str) -> Expansion:
    return lambda t, node, operands: [t.extreme(monoid, operands[0])[1]]


def _scan(monoid: str) -> Expansion:
    def expand(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
        return [t.cast(t.running(monoid, t.cast(operands[0], wide(_result(node)))), _result(node))]

    return expand


def _running_extremum(monoid: str) -> Expansion:
    """(the extremum so far, where it was last attained)."""

    def expand(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
        x = operands[0]
        extremum = t.running(monoid, x)
        if not t.row:
            return extremum, t.apply(lambda m, a: m.constant(0, int64), x, dtype=int64)
        attained = t.apply(_attained, x, extremum, t.position(), dtype=int64, cost=4)
        return extremum, t.running("max", attained)

    return expand


def _attained(m: Any, x: Any, extremum: Any, position: Any) -> Any:
    return m.where((x == extremum) | m.isnan(x), position, 0)


def _spread(t: Terms, node: Node, x: Term) -> Term:
    """The variance in two passes."""
    x = t.cast(x, wide(x.dtype))
    centre = t.apply(_over(row_length(node)), t.reduce("sum", x))
    squares = t.apply(lambda m, a, b: m.square(m.abs(a - b)), x, centre, cost=3)
    correction = argument(node, "correction")
    left = row_length(node) - (1 if correction is None else correction)
    return t.apply(_over(left if left > 0 else 0), t.reduce("sum", squares))


def _var(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    return [t.cast(_spread(t, node, operands[0]), _result(node))]


def _std(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    return [t.cast(t.apply(lambda m, v: m.sqrt(v), _spread(t, node, operands[0])), _result(node))]


def _shifted(t: Terms, node: Node, x: Term) -> tuple[Term, Term]:
    """(x less its maximum, exp of that)."""
    x = t.cast(x, wide(_result(node)))
    low = t.apply(lambda m, a, top: a - top, x, t.reduce("max", x))
    return low, t.apply(lambda m, a: m.exp(a), low, cost=20)


def _softmax(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    """A product with the inverse: a vector's division takes as long as ten products."""
    _, powers = _shifted(t, node, operands[0])
    return [t.cast(t.apply(lambda m, e, total: e * (1 / total), powers, t.reduce("sum", powers)), _result(node))]


def _log_softmax(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    low, powers = _shifted(t, node, operands[0])
    total = t.apply(lambda m, s: m.log(s), t.reduce("sum", powers))
    return [t.cast(t.apply(lambda m, a, b: a - b, low, total), _result(node))]


def _logsumexp(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    x = t.cast(operands[0], wide(_result(node)))
    top = t.apply(lambda m, a: m.where(m.isfinite(a), a, 0), t.reduce("max", x))
    powers = t.apply(lambda m, a, b: m.exp(a - b), x, top, cost=20)
    total = t.apply(lambda m, s, b: m.log(s) + b, t.reduce("sum", powers), top)
    return [t.cast(total, _result(node))]


def _softmax_backward(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    g, out = (t.cast(o, wide(o.dtype)) for o in operands)
    product = t.apply(lambda m, a, b: a * b, g, out)
    total = t.reduce("sum", product)
    return [t.cast(t.apply(lambda m, p, y, s: p - y * s, product, out, total), _result(node))]


def _log_softmax_backward(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    g, out = (t.cast(o, wide(o.dtype)) for o in operands)
    total = t.reduce("sum", g)
    return [t.cast(t.apply(lambda m, a, y, s: a - m.exp(y) * s, g, out, total, cost=20), _result(node))]


def _layer_norm(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    x, weight, bias = (None if o is None else t.cast(o, wide(o.dtype)) for o in _optional(node, operands))
    assert x is not None
    return _normalised(t, node, x, weight, bias)


def _normalised(t: Terms, node: Node, x: Term, weight: Term | None, bias: Term | None) -> Sequence[Term]:
    """(result, mean, 1 / standard deviation) over the row."""
    n, eps = row_length(node), argument(node, "eps")
    mean = t.apply(_over(n), t.reduce("sum", x))
    centred = t.apply(lambda m, a, b: a - b, x, mean)
    variance = t.apply(_over(n), t.reduce("sum", t.apply(lambda m, c: c * c, centred)))
    r = t.apply(lambda m, v: 1 / m.sqrt(v + eps), variance)
    y = t.apply(lambda m, c, s: c * s, centred, r)
    return [t.cast(term, _result(node)) for term in (_affine(t, y, weight, bias), mean, r)]


def _project(t: Terms, node: Node, h: Term, x_hat: Term, r: Term) -> Term:
    """r * (h - mean(h) - x_hat * mean(h * x_hat))."""
    n = row_length(node)
    along = t.apply(_over(n), t.reduce("sum", t.apply(lambda m, a, b: a * b, h, x_hat)))
    mean = t.apply(_over(n), t.reduce("sum", h))
    return t.apply(lambda m, s, a, b, c, d: s * (a - b - c * d), r, h, mean, x_hat, along, cost=4)


def _gradients(t: Terms, node: Node, g: Term, x: Term, mean: Term, r: Term, weight: Term | None) -> Sequence[Term]:
    """Of the input, the weight and the bias of a norm, as far as `output_mask` wants them."""
    mask = argument(node, "output_mask")
    x_hat = t.apply(lambda m, a, b, s: (a - b) * s, x, mean, r, cost=2)
    h = g if weight is None else t.apply(lambda m, a, w: a * w, g, weight)
    projects = node.kind in MASKED or argument(node, "train")
    found = [g, g, g]
    if mask[0]:
        found[0] = _project(t, node, h, x_hat, r) if projects else t.apply(lambda m, a, s: a * s, h, r)
    if mask[1]:
        found[1] = t.reduce("sum", t.apply(lambda m, a, b: a * b, g, x_hat))
    if mask[2]:
        found[2] = t.reduce("sum", g)
    return [t.cast(term, dtype_of(node.inputs[0])) for term in found]


def _layer_norm_backward(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    g, x, mean, r, weight = (None if o is None else t.cast(o, wide(o.dtype)) for o in _optional(node, operands))
    assert g is not None and x is not None and mean is not None and r is not None
    return _gradients(t, node, g, x, mean, r, weight)


def _batch_norm_backward(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    given = [None if o is None else t.cast(o, wide(o.dtype)) for o in _optional(node, operands)]
    g, x, weight, mean, variance, saved_mean, saved_r = given
    eps = argument(node, "eps")
    if not argument(node, "train"):
        assert variance is not None
        saved_mean, saved_r = mean, t.apply(lambda m, v: 1 / m.sqrt(v + eps), variance)
    assert g is not None and x is not None and saved_mean is not None and saved_r is not None
    return _gradients(t, node, g, x, saved_mean, saved_r, weight)


def _batch_norm(t: Terms, node: Node, operands: Sequence[Term]) -> Sequence[Term]:
    given = [None if o is None else t.cast(o, wide(o.dtype)) for o in _optional(node, operands)]
    x, weight, bias, mean, variance = given
    assert x is not None
    eps = argument(node, "eps")
    if argument(node, "training"):
        return _normalised(t, node, x, weight, bias)
    assert mean is not None and variance is not None
    scale = t.apply(lambda m, v: 1 / m.sqrt(v + eps), variance)
    y = t.apply(lambda m, a, b, s: (a - b) * s, x, mean, scale, cost=2)
    return [t.cast(_affine(t, y, weight, bias), _result(node))]


def _affine(t: Terms, y: Term, weight: Term | None, bias: Term | None) -> Term:
    if weight is not None:
        y = t.apply(lambda m, a, w: a * w, y, weight)
    return y if bias is None else t.apply(lambda m, a, b: a + b, y, bias)


def _optional(node: Node, operands: Sequence[Term]) -> list[Term | None]:
    """Operands in the order of the schema, None where one was not given; all of one dtype."""
    known = dict(zip(node.inputs, operands, strict=True))
    op, values = arguments(node)
    given = [None if values[i] is None else known[values[i]] for i in op.tensors]
    if len({t.dtype for t in given if t is not None}) > 1:
        raise CompileError(f"{node.kind} of several dtypes runs with the interpreter")
    return given


EXPANSIONS: dict[str, Expansion] = {
    f"aten::{name}": expansion for name, expansion in {
        "sum": _sum, "prod": _prod, "prod.dim_int": _prod, "mean": _mean,
        "amax": _extremum("max"), "max": _extremum("max"), "amin": _extremum("min"), "min": _extremum("min"),
        "max.dim": _picked("argmax"), "min.dim": _picked("argmin"),
        "argmax": _position("argmax"), "argmin": _position("argmin"),
        "any": _truth("max"), "all": _truth("min"), "linalg_vector_norm": _vector_norm,
        "var.correction": _var, "std.correction": _std, "logsumexp": _logsumexp,
        "cumsum": _scan("sum"), "cumprod": _scan("prod"), "logcumsumexp": _scan("logaddexp"),
        "cummax": _running_extremum("max"), "cummin": _running_extremum("min"),
        "softmax": _softmax, "log_softmax": _log_softmax,
        "_softmax_backward_data": _softmax_backward, "_log_softmax_backward_data": _log_softmax_backward,
        "native_layer_norm": _layer_norm, "native_group_norm": _layer_norm, "native_batch_norm": _batch_norm,
        "native_layer_norm_backward": _layer_norm_backward, "native_group_norm_backward": _layer_norm_backward,
        "native_batch_norm_backward": _batch_norm_backward,
    }.items()
}  # fmt: skip
"""By kind: the terms of the results, given those of the operands in the order of the node's inputs."""
