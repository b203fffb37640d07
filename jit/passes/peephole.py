"""Replaces small patterns of nodes by smaller ones that give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir import TENSOR, Graph, Node, TensorType, Value, dtypes, find
from jit.ir.dtypes import DType

from .support.analysis import escaping, fixed_shapes, has_subgraphs, row_major_values, with_subgraphs
from .support.spaces import is_join, is_view


def peephole(graph: Graph) -> bool:
    """Simplify every node that matches one of these cases, x standing for any tensor.

    1.  `t(t(x))` is x.
    2.  `transpose` of the same two dims twice is x.
    3.  `permute(permute(x, p), q)` is `permute(x, p[q])`; a permutation that moves nothing is x.
    4.  `expand`, `view`, `reshape` and `broadcast_to` to the sizes that x has are x.
    5.  `x * 1`, `1 * x`, `x / 1`, `x - 0`, and `x + 0`, `0 + x` for integers are x.
    6.  `to(to(x, a), b)` is `to(x, b)` if the type a holds every number of x's type.
    7.  `contiguous(x)` is x if x is contiguous.
    8.  `view(view(x, a), b)` is `view(x, b)` if x is contiguous; so for `reshape`.
    9.  `neg(neg(x))` is x.
    10. `clone(x)` is x if that is new memory which nobody else uses: a weight's gradient, once its transposes are gone;
        and if x is a view and the copy is read by those alone who do not mind how it lies: by joins, and if x is
        expanded, or has new dims of size 1, by pointwise operators, which broadcast.
    11. `copy(y, x)`, which is what `y.copy_(x)` leaves in y, is x if x has y's type and is new memory: the activation
        that an operator computes "in place", or the new value of a weight, even if others read it, too.

    In every case the result has x's type. Cases 5, 6, 9 and 11 leave values alone that escape (Note [Escaping values]),
    for in eager mode these are new memory - but not what is only written back, which is copied then; the others hand
    out x's memory in eager mode too. Cases 4, 7 and 8 apply where sizes and layout are the same in every run. What
    replaced nodes leave unused goes in dce.

    Note [Not simplified]
        `x + 0` for floats    -0.0 + 0 is 0.0; neither is `x + -0.0`, which a reader would take for a slip
        `x * 0`               NaN * 0 is NaN, inf * 0 is NaN, and -1.0 * 0 is -0.0
        `x - x`, `x / x`      the same with NaN and inf
        `0 - x` as `neg(x)`   0 - 0.0 is 0.0, but neg(0.0) is -0.0
        `x * 2` as `x + x`    the same bits, but no smaller
        `exp(log(x))`         rounds
        `int64 * 1.0`         changes the type, as does `int64 / 1`
        `to(to(x, int8), int64)`  wraps what does not fit
    """
    changes = [_Simplifier(inner, inner is graph).run() for inner in with_subgraphs(graph)]
    return any(changes)


class _Simplifier:
    """One walk over one graph."""

    def __init__(self, graph: Graph, outermost: bool) -> None:
        self.graph = graph
        self.lasting = escaping(graph)
        sized = outermost and any(node.kind in _SIZED for node in graph.nodes)
        self.fixed = fixed_shapes(graph) if sized else set()
        self.row_major = row_major_values(graph) if sized else set()

    def run(self) -> bool:
        changed = False
        for node in self.graph.nodes:
            rule = _RULES.get(node.kind)
            if rule is not None and node.inputs and len(node.outputs) == 1 and node.output.uses:
                found = rule(node, self)
                changed |= found is True or (isinstance(found, Value) and self.replace(node.output, found))
        return changed

    def replace(self, old: Value, new: Value) -> bool:
        """Let `new` stand for `old` if it has the same type."""
        if old.type not in (new.type, TENSOR):
            return False
        if old in self.lasting:
            self.lasting.add(new)
        old.replace_all_uses_with(new)
        return True

    def is_temporary(self, node: Node) -> bool:
        """True if nobody would notice that the node's result is not new memory."""
        return node.output not in self.lasting

    def is_written_back(self, node: Node) -> bool:
        """True if the node's result is an update of its stage and nothing else: whoever commits that copies it."""
        stage = self.graph.stages[node.stage]
        times = sum(value is node.output for _, value in stage.updates)
        return times == len(node.output.uses)


Outcome = Value | bool | None
"""A value that replaces the node's result; or True if the node got simpler in its place; or None or False."""


def _inner(node: Node, *kinds: str) -> Node | None:
    """The node that made the first operand, if it is of one of these kinds and of the same stage."""
    first = node.inputs[0].node
    return first if first.kind in kinds and first.stage == node.stage and first.inputs else None


def _integers(template: Any) -> tuple[int, ...] | None:
    """The dims of an attribute, if they are known numbers."""
    return template if isinstance(template, tuple) and all(type(item) is int for item in template) else None


# Case 1
def _t(node: Node, graph: _Simplifier) -> Outcome:
    inner = _inner(node, "aten::t")
    return inner.inputs[0] if inner else None


# Case 2
def _transpose(node: Node, graph: _Simplifier) -> Outcome:
    inner = _inner(node, "aten::transpose.int")
    if inner is None:
        return None
    ndim = node.inputs[0].type.ndim if isinstance(node.inputs[0].type, TensorType) else None
    dims = [_swapped_dims(n, ndim) for n in (node, inner)]
    return inner.inputs[0] if dims[0] is not None and dims[0] == dims[1] else None


def _swapped_dims(node: Node, ndim: int | None) -> set[int] | None:
    dims = _integers((node.attribute("dim0"), node.attribute("dim1")))
    return None if dims is None or ndim is None else {dim % max(ndim, 1) for dim in dims}


# Case 3
def _permute(node: Node, graph: _Simplifier) -> Outcome:
    dims = _permutation(node)
    inner = _inner(node, "aten::permute")
    before = _permutation(inner) if inner else None
    if dims is None:
        return None
    composed = inner is not None and before is not None and len(before) == len(dims)
    if inner is not None and before is not None and composed:
        dims = tuple(before[dim] for dim in dims)
        node.rewrite((inner.inputs[0],), {"dims": dims})
    moves_nothing = dims == tuple(range(len(dims)))
    return (moves_nothing and graph.replace(node.output, node.inputs[0])) or composed


def _permutation(node: Node) -> tuple[int, ...] | None:
    dims = _integers(node.attribute("dims"))
    return None if dims is None else tuple(dim % max(len(dims), 1) for dim in dims)


# Cases 4 and 8
def _resize(node: Node, graph: _Simplifier) -> Outcome:
    source = node.inputs[0]
    if source in graph.fixed and _keeps_sizes(node, source):
        return source
    inner = _inner(node, "aten::view", "aten::reshape") if node.kind in ("aten::view", "aten::reshape") else None
    if inner is None or has_subgraphs(node):
        return None
    base = inner.inputs[0]
    if base not in graph.fixed or base not in graph.row_major:
        return None
    if not (_keeps_sizes(node, base) and graph.replace(node.output, base)):
        node.inputs[0] = base
    return True


def _keeps_sizes(node: Node, source: Value) -> bool:
    """True if the node asks for the sizes that `source` has; -1 keeps a size, or stands for what is left."""
    wanted = _integers(node.attribute("shape" if node.kind == "aten::reshape" else "size"))
    sizes = source.type.sizes if isinstance(source.type, TensorType) else None
    if wanted is None or sizes is None or len(wanted) != len(sizes) or wanted.count(-1) > 1:
        return False
    return all(a in (b, -1) for a, b in zip(wanted, sizes, strict=True))


# Case 5
def _arithmetic(node: Node, graph: _Simplifier) -> Outcome:
    operands = node.operands
    dtype = _dtype(node.output)
    if len(operands) != 2 or dtype is None or dtype.is_complex or "alpha" in node.attributes:
        return None
    pairs = [operands, operands[::-1]] if node.kind in ("aten::mul", "aten::add") else [operands]
    for tensor, number in pairs:
        if isinstance(tensor, Value) and _is_neutral(node.kind, number, dtype) and graph.is_temporary(node):
            return tensor
    return None


def _is_neutral(kind: str, number: Any, dtype: DType) -> bool:
    if type(number) not in (bool, int, float):
        return False
    if kind in ("aten::mul", "aten::div"):
        return bool(number == 1)
    exact = kind == "aten::sub" or dtype.is_integral
    return exact and str(number) in ("0", "0.0", "False")  # not -0.0


# Case 6
def _cast(node: Node, graph: _Simplifier) -> Outcome:
    changed = False
    inner = _inner(node, "aten::_to_copy")
    if inner is not None and "device" not in {*node.attributes, *inner.attributes}:
        source, through, target = (_dtype(v) for v in (inner.inputs[0], inner.output, node.output))
        if source and through and target and _holds(through, source) and _rounds_once(source, target):
            node.inputs[0] = inner.inputs[0]
            changed = True
    if node.inputs[0].type == node.output.type and _dtype(node.output) and graph.is_temporary(node):
        return node.inputs[0]
    return changed


def _dtype(value: Value) -> DType | None:
    return value.type.dtype if isinstance(value.type, TensorType) else None


_DIGITS = {
    dtypes.uint8: 8, dtypes.int8: 7, dtypes.int16: 15, dtypes.int32: 31, dtypes.int64: 63,
    dtypes.bfloat16: 8, dtypes.float16: 11, dtypes.float32: 24, dtypes.float64: 53,
}  # fmt: skip
"""Binary digits of the numbers that a type holds exactly."""


def _holds(wide: DType, narrow: DType) -> bool:
    """True if every number of the type `narrow` is one of the type `wide`."""
    if wide is narrow or narrow is dtypes.bool_:
        return True
    if narrow.is_stored or wide.is_stored:
        return _holds_stored(wide, narrow)
    if narrow.is_integral and wide.is_floating_point:
        return _DIGITS[narrow] <= _DIGITS[wide]
    return narrow.category == wide.category and dtypes.promote(narrow, wide) is wide


def _holds_stored(wide: DType, narrow: DType) -> bool:
    """The same where one of the types is there for storage alone."""
    if narrow.is_floating_point:
        return wide in (dtypes.float32, dtypes.float64)
    digits = 8 * narrow.itemsize
    return narrow.is_stored and not wide.is_stored and not wide.is_half and _DIGITS.get(wide, 0) >= digits


def _rounds_once(source: DType, target: DType) -> bool:
    """True if a direct cast is well defined for all numbers, and is not made through a third type."""
    return source.category <= target.category and not (source.is_integral and target.is_narrow)


# Case 7
def _contiguous(node: Node, graph: _Simplifier) -> Outcome:
    source = node.inputs[0]
    return source if source in graph.row_major and "memory_format" not in node.attributes else None


# Case 9
def _neg(node: Node, graph: _Simplifier) -> Outcome:
    inner = _inner(node, "aten::neg")
    return inner.inputs[0] if inner and graph.is_temporary(node) else None


# Case 10
def _clone(node: Node, graph: _Simplifier) -> Outcome:
    source = node.inputs[0]
    if source.is_input or source.stage != node.stage:
        return None
    if is_view(source.node):
        return graph.is_temporary(node) and _is_read_as_it_lies(node, source)
    return source if _is_new(source) and len(source.uses) == 1 and "memory_format" not in node.attributes else None


def _is_new(value: Value) -> bool:
    """Whether an operator has made new memory for a value."""
    op = find(value.node.kind)
    return op is not None and op.kind in ("pointwise", "array", "random")


def _is_read_as_it_lies(node: Node, source: Value) -> bool:
    """Let those who read the copy of a view read the view itself, if it is all the same to all of them."""
    readers = [use.node for use in node.output.uses]
    broadcasts = source.node.kind in ("aten::expand", "aten::unsqueeze")
    if not all(is_join(reader) or (broadcasts and _is_pointwise(reader)) for reader in readers):
        return False
    node.output.replace_all_uses_with(source)
    return True


# Case 11
def _overwritten(node: Node, graph: _Simplifier) -> Outcome:
    target, source = node.inputs[0], node.inputs[-1]
    if source.is_input or source.stage != node.stage or not _is_known(source) or source.type != target.type:
        return None
    alone = len(source.uses) == 1 or graph.is_temporary(node) or graph.is_written_back(node)
    return source if alone and source.type == node.output.type and _is_new(source) else None


def _is_known(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.sizes is not None and value.type.dtype is not None


def _is_pointwise(node: Node) -> bool:
    op = find(node.kind)
    return op is not None and op.kind == "pointwise"


_RULES: dict[str, Callable[[Node, _Simplifier], Outcome]] = {
    "aten::t": _t,
    "aten::transpose.int": _transpose,
    "aten::permute": _permute,
    "aten::expand": _resize,
    "aten::broadcast_to": _resize,
    "aten::view": _resize,
    "aten::reshape": _resize,
    "aten::add": _arithmetic,
    "aten::sub": _arithmetic,
    "aten::mul": _arithmetic,
    "aten::div": _arithmetic,
    "aten::_to_copy": _cast,
    "aten::contiguous": _contiguous,
    "aten::neg": _neg,
    "aten::clone": _clone,
    "aten::copy": _overwritten,
}
"""The rules to try, by the kind of the last node of the pattern."""
_SIZED = {kind for kind, rule in _RULES.items() if rule in (_resize, _contiguous)}
"""Kinds whose rules ask for sizes or layouts."""
