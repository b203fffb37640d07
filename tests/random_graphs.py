"""Random graphs of up to 30 operators, and whether float64, eager mode, the interpreter and native code agree on them.

    python -m tests.random_graphs 0 5000         # 5,000 graphs; prints those that fail, exits with 1 if any did
    python -m tests.random_graphs 17 18 -v       # one of them, with its graph

Note [How far apart results may be]
    A fixed tolerance is either too loose for a sum or too strict for a difference of near numbers. So each graph is
    run in float64 several times: once as it is, once with every operation rounded, then with every operation's result
    moved by up to 4 half ulps of its dtype. How far that moves a result is how far rounding can move it, whatever the
    order of operations; six times as much is allowed, for errors may add up. Where a comparison, an `argmax` or a
    cast falls out differently, nothing is demanded.
    Results of arithmetic, comparisons, casts and data movement alone must agree bit for bit.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import jit
import jit.nn.functional as F
from jit.ir import Graph, Node, Op, TensorType, Value, find
from jit.ir.dtypes import DType, as_dtype
from jit.passes import run
from jit.passes.support.spaces import arguments
from jit.runtime.arrays.array_math import numpy_math

from .rounding import Mover, Shaky, ToNearest, nudged

Array = np.ndarray[Any, Any]
Program = Callable[..., tuple[Any, ...]]

LARGEST = 6000
"""Elements of a value."""
NODES = 30
SAMPLES = 6
"""Runs with moved values."""
SLACK = 6
"""How many times what they show is allowed."""

MAIN = ["float32"] * 6 + ["float64"] * 2 + ["float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
"""What the inputs of a graph mostly are."""


def shape(x: Any) -> tuple[int, ...]:
    """The sizes as numbers that are not traced."""
    return tuple(x._array.shape)


def size(x: Any) -> int:
    """How many elements there are."""
    return int(x._array.size)


# -- operators, by what they take --------------------------------------------------------------------------------

FLOATS: list[Callable[..., Any]] = [
    jit.tanh, jit.sigmoid, jit.abs, jit.neg, jit.relu, jit.sin, jit.cos, jit.erf, jit.floor, jit.trunc, jit.round,
    jit.sign, jit.square, jit.expm1, F.gelu, F.silu, F.softplus, F.leaky_relu, F.hardswish, F.elu, jit.atan,
    lambda x: x * 0.5 + 1, lambda x: jit.exp(-x * x), lambda x: jit.where(x > 0, x, x * 0.1), lambda x: 1 / x,
    lambda x: x.clamp(-2, 2), lambda x: jit.sqrt(jit.abs(x) + 1), lambda x: jit.log(jit.abs(x)), lambda x: x**3,
    lambda x: jit.log1p(jit.abs(x)), lambda x: jit.rsqrt(jit.abs(x) + 0.5), lambda x: jit.exp(x.clamp(-9, 9)),
    lambda x: x.remainder(1.5), lambda x: x.fmod(0.7), lambda x: x.nan_to_num(0.5, 3, -3), lambda x: x - 1.25,
]  # fmt: skip
INTEGERS: list[Callable[..., Any]] = [
    jit.abs, jit.neg, jit.bitwise_not, jit.sign, jit.square, lambda x: x // 3, lambda x: x % 5, lambda x: x << 1,
    lambda x: x >> 2, lambda x: x.clamp(-2, 5), lambda x: x * 3 + 1, lambda x: x.clamp(0, 3) ** 2, lambda x: x / 4,
    lambda x: jit.sin(x), lambda x: jit.where(x > 1, x, 7), lambda x: x.div(-3, rounding_mode="trunc"), jit.relu,
]  # fmt: skip
TRUTHS: list[Callable[..., Any]] = [
    jit.logical_not, lambda x: ~x, lambda x: x * 2, lambda x: jit.where(x, 1.5, -2.0), lambda x: x.logical_xor(True),
]  # fmt: skip
ANY_PAIR: list[Callable[..., Any]] = [
    lambda x, y: x + y, lambda x, y: x * y, jit.maximum, jit.minimum, jit.lt, jit.ge, jit.eq, jit.logical_and,
    lambda x, y: jit.where(x > y, x, y), lambda x, y: jit.where(x != 0, y, x), lambda x, y: x / (y * y + 1),
]  # fmt: skip
FLOAT_PAIR: list[Callable[..., Any]] = [
    lambda x, y: x - y, jit.atan2, jit.hypot, lambda x, y: jit.lerp(x, y, 0.3), lambda x, y: x.copysign(y),
    lambda x, y: (x * 0.3).pow(2) + y, lambda x, y: x.addcmul(y, y, value=0.5), lambda x, y: x / y,
]  # fmt: skip
INTEGER_PAIR: list[Callable[..., Any]] = [
    jit.bitwise_and, jit.bitwise_or, jit.bitwise_xor, lambda x, y: x - y, lambda x, y: x // y.clamp(1, 7),
    lambda x, y: x % y.clamp(1, 7), lambda x, y: x.clamp(-3, 3) ** y.clamp(-2, 4),
]  # fmt: skip
ROWS: list[Callable[..., Any]] = [
    lambda x, d, k: x.sum(d, keepdim=k), lambda x, d, k: x.amax(d, keepdim=k), lambda x, d, k: x.amin(d, keepdim=k),
    lambda x, d, k: x.argmax(d, keepdim=k), lambda x, d, k: x.max(d, keepdim=k)[0], lambda x, d, k: x.cumsum(d),
    lambda x, d, k: x.sum(), lambda x, d, k: x.any(d, keepdim=k), lambda x, d, k: x.argmin(d, keepdim=k),
    lambda x, d, k: x.min(d, keepdim=k)[1],
]  # fmt: skip
FLOAT_ROWS: list[Callable[..., Any]] = [
    lambda x, d, k: x.mean(d, keepdim=k), lambda x, d, k: x.var(d, correction=0, keepdim=k),
    lambda x, d, k: jit.std(x, d, correction=0, keepdim=k), lambda x, d, k: jit.softmax(x, d),
    lambda x, d, k: jit.log_softmax(x, d), lambda x, d, k: F.layer_norm(x, shape(x)[-1:]),
    lambda x, d, k: jit.logsumexp(x, d, k), lambda x, d, k: x.mean(), lambda x, d, k: F.rms_norm(x, shape(x)[-1:]),
    lambda x, d, k: x.norm(dim=d, keepdim=k), lambda x, d, k: F.normalize(x, dim=d),
    lambda x, d, k: F.batch_norm(jit.cat([x, x * 2]), None, None, training=True),
    lambda x, d, k: x.clamp(-1.5, 1.5).prod(d, keepdim=k),
    lambda x, d, k: _grouped(x, 2 if shape(x)[1] % 2 == 0 else 1),
]  # fmt: skip
VIEWS: list[Callable[..., Any]] = [
    lambda x, d, n: x.transpose(0, -1), lambda x, d, n: x.unsqueeze(d).squeeze(d), lambda x, d, n: x.select(d, n - 1),
    lambda x, d, n: x.narrow(d, n // 3, n - n // 3), lambda x, d, n: x.chunk(2, d)[-1], lambda x, d, n: x.flip(d),
    lambda x, d, n: jit.cat([x, x * 2], d), lambda x, d, n: jit.stack([x, x + 1], d).select(d, 1),
    lambda x, d, n: jit.stack([x, x * x], d), lambda x, d, n: x.reshape(-1), lambda x, d, n: x.contiguous(),
    lambda x, d, n: x.unsqueeze(0).expand(2, *shape(x)), lambda x, d, n: x[..., ::2], lambda x, d, n: x.split(1, d)[0],
    lambda x, d, n: jit.cat([x.narrow(d, 0, n // 2 + 1) * 3, x], d), lambda x, d, n: jit.roll(x, 1, d),
    lambda x, d, n: x.chunk(2, d)[0] + x.chunk(2, d)[0], lambda x, d, n: jit.cat([x, x.narrow(d, 0, 1)], d) * 2,
    lambda x, d, n: x.index_select(d, jit.tensor([0, n - 1, n // 2])), lambda x, d, n: x[jit.tensor([0, -1, 0])],
    lambda x, d, n: jit.cat([x * 3, x.narrow(d, 0, n // 2 + 1) + 1, x], d) * 2 + 1,
    lambda x, d, n: jit.cat([p * (i + 2) for i, p in enumerate(x.split([n // 3, n - n // 3], d))][::-1], d) * x,
    lambda x, d, n: _neighbours(x * 2 + 1, d, n), lambda x, d, n: (x * x).unbind(d)[0] * (x * 3).unbind(d)[n - 1],
    lambda x, d, n: jit.cat([x.narrow(d, n // 2, n - n // 2) * 3, x.narrow(d, 0, n // 2)], d) * x + x,
    lambda x, d, n: _halves(jit.maximum(x * 2, x + 1), d), lambda x, d, n: (x * 3 + x)[..., ::2] * 2,
    lambda x, d, n: jit.cat([jit.cat([x + 1, x], d) * 2, x.narrow(d, n - 1, 1)], d) * 3,
    lambda x, d, n: _halves((x + 1).transpose(0, -1) * 2, d), lambda x, d, n: jit.stack([x * 2, x + x, x], d) * 3,
]  # fmt: skip


def _neighbours(x: Any, dim: int, n: int) -> Any:
    """Sums of elements side by side: parts that overlap."""
    return x.narrow(dim, 0, max(n - 1, 1)) + x.narrow(dim, min(1, n - 1), max(n - 1, 1))


def _grouped(x: Any, groups: int) -> Any:
    """Normalised by groups, unless each of them is one value."""
    return F.group_norm(x, groups) if size(x) > groups else x


def _halves(x: Any, dim: int) -> Any:
    """The product of both halves, or the last part alone if they differ."""
    a, b = x.chunk(2, dim) if shape(x)[dim] > 1 else (x, x)
    return a * b if shape(a) == shape(b) else b * 2


CASTS = ["float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


class _Chooser:
    """Grows a program by one operator at a time; what it chooses depends on sizes and dtypes alone."""

    def __init__(self, seed: int, values: Sequence[Any]) -> None:
        self.rng = np.random.default_rng(seed)
        self.values = list(values)

    def pick(self, options: Sequence[Any]) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def value(self) -> Any:
        """A value of the program, mostly a recent one, so that graphs are deep."""
        return self.values[self.rng.integers(max(len(self.values) - 6, 0), len(self.values))]

    def partner(self, x: Any) -> Any:
        """A value whose sizes broadcast with those of `x`."""
        order = self.rng.permutation(len(self.values))
        return next((y for y in (self.values[i] for i in order) if _fits(x, y)), x)

    def grow(self) -> None:
        """Add one more value to the program, unless it is too large."""
        x, kind = self.value(), self.rng.random()
        if kind < 0.33:
            new = self.pick(FLOATS if x.is_floating_point() else TRUTHS if x.dtype is jit.bool else INTEGERS)(x)
        elif kind < 0.55:
            new = self.pair(x)
        elif kind < 0.62:
            new = self.cast(x)
        elif kind < 0.66:
            new = self.product(x)
        elif kind < 0.70:
            new = self.lookup(x)
        elif x.ndim < 2 or size(x) == 0:
            return
        elif kind < 0.86:
            rows = ROWS + FLOAT_ROWS if x.is_floating_point() else ROWS
            new = self.pick(rows)(x, int(self.rng.integers(x.ndim)), bool(self.rng.integers(2)))
        else:
            dim = int(self.rng.integers(x.ndim))
            new = self.pick(VIEWS)(x, dim, shape(x)[dim])
        if size(new) <= LARGEST:
            self.values.append(new)

    def pair(self, x: Any) -> Any:
        y = self.partner(x)
        if x.is_floating_point() and y.is_floating_point():
            return self.pick(ANY_PAIR + FLOAT_PAIR)(x, y)
        whole = not (x.is_floating_point() or y.is_floating_point() or jit.bool in (x.dtype, y.dtype))
        return self.pick(ANY_PAIR + INTEGER_PAIR if whole else ANY_PAIR)(x, y)

    def cast(self, x: Any) -> Any:
        dtype = as_dtype(self.pick(CASTS))
        if x.is_floating_point() and not dtype.is_floating_point and dtype is not jit.bool:
            x = x.nan_to_num(0.0).clamp(0, 100)
        return x.to(dtype)

    def product(self, x: Any) -> Any:
        """A linear layer, or a batch of products."""
        if not x.is_floating_point() or x.ndim < 2 or 0 in shape(x):
            return x + 1
        form = self.rng.integers(4)
        if form == 0:
            return x @ x.transpose(-1, -2)
        if form == 1:
            return F.linear(x, x.reshape(-1, shape(x)[-1])[:5], x.reshape(-1)[: min(5, size(x) // shape(x)[-1])])
        if form == 2:
            return jit.relu(x @ x.transpose(-1, -2) + x.select(-1, 0).unsqueeze(-2))
        return x.reshape(-1, shape(x)[-1]) @ x.reshape(-1)[: shape(x)[-1]]

    def lookup(self, x: Any) -> Any:
        """Rows of `x`; another value says which."""
        if x.ndim < 2 or 0 in shape(x):
            return x * 2
        whole = [v for v in self.values if v.dtype in (jit.int64, jit.int32) and 0 < size(v) < 60]
        places = self.pick(whole) if whole else jit.tensor([[0, 3], [2, 1]])
        places = (places % shape(x)[0]).to(jit.int64)
        if self.rng.integers(3) == 0:
            return x[places.reshape(-1)]
        return F.embedding(places, x.reshape(shape(x)[0], -1))


def _fits(x: Any, y: Any) -> bool:
    pairs = zip(reversed(tuple(shape(x))), reversed(tuple(shape(y))))
    return all(a == b or 1 in (a, b) for a, b in pairs)


def program(seed: int) -> Program:
    """A function of the tensors of `inputs(seed)`."""

    def function(*given: Any) -> tuple[Any, ...]:
        chooser = _Chooser(seed, given)
        for _ in range(int(chooser.rng.integers(3, NODES + 1))):
            chooser.grow()
        results = [chooser.value() for _ in range(chooser.rng.integers(1, 4))]
        return tuple(r.logical_not() if r.dtype is jit.bool else r * 1 for r in results)

    return function


# -- inputs ------------------------------------------------------------------------------------------------------


def inputs(seed: int) -> list[Array]:
    """Two matrices (or stacks of them), a row, a column: of several dtypes, in several layouts."""
    rng = np.random.default_rng(10**6 + seed)
    main = MAIN[rng.integers(len(MAIN))]
    lead = (int(rng.integers(1, 4)),) if rng.random() < 0.25 else ()
    n, m = map(int, rng.integers(1, 40, 2))
    shapes = [(*lead, n, m), (*lead, n, m), (m,), (n, 1)]
    names = [main if rng.random() < 0.8 else MAIN[rng.integers(len(MAIN))] for _ in shapes]
    return [_laid_out(_drawn(as_dtype(name), shape, rng), rng) for name, shape in zip(names, shapes, strict=True)]


def _drawn(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if dtype.is_floating_point:
        return (rng.normal(size=shape) * rng.choice([0.3, 1, 3])).astype(dtype.numpy)
    low, high = (0, 2) if dtype is jit.bool else (0 if not dtype.is_signed else -20, 20)
    return rng.integers(low, high, shape).astype(dtype.numpy)


def _laid_out(array: Array, rng: np.random.Generator) -> Array:
    """Row-major, column-major, with gaps, from the middle of memory, backwards in memory, or one row for all."""
    form = rng.integers(8)
    if form == 0:
        return np.asfortranarray(array)
    if form == 1:
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2 + 1), array.dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if form == 2 and array.ndim > 1:
        return np.broadcast_to(array[:1], array.shape)
    return array


# -- the exact results, and how far rounding can move them ---------------------------------------------------------


class Exact:
    """A recorded graph in float64, by the references of the operators' tests."""

    def __init__(self, graph: Graph, arrays: Sequence[Array]) -> None:
        self.graph, self.arrays = graph, arrays

    def run(self, rng: Mover | None = None) -> list[Array]:
        """The results; with a generator, every value on the way is moved a little."""
        known = {v: self._moved(wide(a), v, rng) for v, a in zip(self.graph.inputs, self.arrays, strict=True)}
        for node in self.graph.nodes:
            known.update(self._node(node, known, rng))
        return [known[v] for v in self.graph.outputs]

    def samples(self) -> list[list[Array]]:
        """The results exactly, rounded, and moved at random several times."""
        movers: list[Mover | None] = [None, ToNearest(), *map(np.random.default_rng, range(SAMPLES))]
        return [self.run(mover) for mover in movers]

    def _node(self, node: Node, known: dict[Value, Any], rng: Mover | None) -> dict[Value, Any]:
        from tests.ops.test_ops import REFERENCES

        if node.kind == "prim::Constant":
            value = node.attributes["value"]
            return {node.output: wide(value) if isinstance(value, np.ndarray) else value}
        op = find(node.kind)
        assert op is not None, node.kind
        given = self._given(node, op, known, rng)
        with np.errstate(all="ignore"):
            if rng is not None and op.kind == "pointwise":
                found = shaken(node, op, given, rng)
            else:
                found = REFERENCES[node.kind](*given)
        many = list(found) if isinstance(found, (tuple, list)) else [found]
        made = [f for f in many if f is not None]  # gradients that a mask leaves out are undefined
        defined = [v for v in node.outputs if getattr(v.type, "dtype", None) is not None]
        return {v: self._moved(f, v, rng) for f, v in zip(made, defined, strict=False)}

    def _given(self, node: Node, op: Op, known: dict[Value, Any], rng: Mover | None) -> list[Any]:
        """The arguments; what a sum adds up is moved, because the sums in between are rounded."""
        values = arguments(node)[1]
        if rng is not None and op.kind == "array" and not _moves_data(node):
            eps = _coarsest(node)
            known = {v: nudged(known[v], rng, eps) for v in node.inputs}
        return [_substituted(v, known) for v in _cast(op, values, known)]

    def _moved(self, array: Any, value: Value, rng: Mover | None) -> Any:
        """The array as the value's dtype would hold it: rounded to 16 bits, or infinite if too large; and moved."""
        type_ = value.type
        assert isinstance(type_, TensorType) and type_.dtype is not None
        dtype, array = type_.dtype, np.asarray(array)
        with np.errstate(all="ignore"):
            if not dtype.is_floating_point:
                return array.astype(dtype.numpy)
            if rng is not None and find(getattr(value.node, "kind", "")) is not None and not _moves_data(value.node):
                near_zero = SUMS_OF_LOGS if _name(value.node) in LOGS_OF_SUMS else 0.0
                array = nudged(array + near_zero, rng, _coarsest(value.node)) - near_zero
            narrow = array.astype(dtype.numpy)
            if dtype.is_half:
                return narrow.astype(np.float64)
            return np.where(np.isinf(narrow), narrow, array).astype(np.float64)


def shaken(node: Node, op: Op, given: Sequence[Any], rng: Mover) -> Any:
    """A pointwise operator by its own formula, every operation of which is nudged; by its reference if of integers."""
    from tests.ops.test_ops import REFERENCES

    _, values = arguments(node)
    if not op.compute_dtype([v.type if isinstance(v, Value) else v for v in values]).is_floating_point:
        return REFERENCES[node.kind](*given)
    eps = float(np.finfo(_single_or_double(node.output)).eps)
    start = nudged if _name(node) == "erfc" else lambda array, rng, eps: array  # SciPy's is off by its steepness
    operands = [
        Shaky.of(start(np.asarray(v, np.float64), rng, eps), rng, eps) if i in op.promoted and v is not None else v
        for i, v in enumerate(given)
    ]  # fmt: skip
    return np.asarray((op.numpy_body or op.body)(numpy_math, *operands))


LOGS_OF_SUMS = {"log_softmax", "logsumexp", "_log_softmax_backward_data"}
SUMS_OF_LOGS = 2.0
"""The results of `LOGS_OF_SUMS` may be small differences of numbers of about this size."""


def _coarsest(node: Any) -> float:
    """The larger eps of the dtypes that a reduction reads and writes (it may compute in either), or a pointwise node
    writes."""
    values = [v for v in (*node.inputs, *node.outputs) if getattr(v.type, "dtype", None) is not None]
    pointwise = (op := find(node.kind)) is not None and op.kind == "pointwise"
    floats = [v for v in (node.outputs if pointwise else values) if v.type.dtype.is_floating_point]
    return max(float(np.finfo(_single_or_double(v)).eps) for v in floats) if floats else 0.0


def _single_or_double(value: Value) -> Any:
    return np.float64 if value.type.dtype is jit.float64 else np.float32  # type: ignore[attr-defined]


def _cast(op: Op, values: list[Any], known: dict[Value, Any]) -> list[Any]:
    """Numbers and integers take the dtype that is computed in: in uint8 -1 is 255, in float32 0.7 is not quite 0.7."""
    if not any(isinstance(values[i], Value) for i in op.promoted):
        return values
    dtype = op.compute_dtype([v.type if isinstance(v, Value) else v for v in values])
    narrow = jit.float32 if dtype.is_half else dtype
    found = list(values)
    for i in op.promoted:
        value = known.get(values[i]) if isinstance(values[i], Value) else values[i]
        if isinstance(value, (bool, int, float)) or (isinstance(value, np.ndarray) and value.dtype.kind in "iub"):
            found[i] = wide(np.asarray(value).astype(narrow.numpy))
    return found


def wide(array: Array) -> Array:
    return array if array.dtype.kind in "iub" else array.astype(np.float64)


def _substituted(value: Any, known: dict[Value, Any]) -> Any:
    if isinstance(value, Value):
        return known[value]
    if isinstance(value, (list, tuple)):
        return tuple(_substituted(v, known) for v in value)
    return value


MOVES = {"cat", "stack", "embedding", "index", "index_select", "where", "clone", "contiguous", "flip", "roll", "amax",
         "amin", "max", "min", "maximum", "minimum", "abs", "neg", "relu", "clamp", "split", "chunk"}  # fmt: skip
"""Operators whose results are elements of their operands, up to the sign."""
EXACT = MOVES | {
    "add", "sub", "mul", "div", "square", "sqrt", "sign", "floor", "trunc", "round", "remainder", "fmod", "lt", "ge",
    "gt", "ne", "eq", "logical_and", "logical_not", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or",
    "bitwise_xor", "floor_divide", "copysign", "nan_to_num", "leaky_relu", "hardswish", "addcmul", "lerp", "argmax",
    "argmin", "_to_copy", "to", "any", "__lshift__", "__rshift__", "reciprocal", "rsub", "constant_pad_nd",
}  # fmt: skip
"""Operators of which all ways of computing agree bit for bit."""


def _name(node: Node | None) -> str:
    return "" if node is None else node.kind.rpartition("::")[2].partition(".")[0]


def _moves_data(node: Node | None) -> bool:
    op = find(node.kind) if node is not None else None
    return op is not None and (op.kind == "view" or _name(node) in MOVES)


def exact_values(graph: Graph) -> set[Value]:
    """The values to which only exact operators lead; integers stay exact in every operator."""
    found = set(graph.inputs)
    for node in graph.nodes:
        op = find(node.kind)
        whole = all(not v.type.dtype.is_floating_point for v in (*node.inputs, *node.outputs))
        agrees = op is None or op.kind == "view" or whole or _name(node) in EXACT
        if agrees and all(v in found for v in node.inputs):
            found.update(node.outputs)
    return found


# -- judging -----------------------------------------------------------------------------------------------------


class Bounds:
    """The exact result, and how far a result may be from it."""

    def __init__(self, samples: Sequence[Array], dtype: Any) -> None:
        self.exact, self.floating = samples[0], samples[0].dtype.kind not in "iub"
        with np.errstate(all="ignore"):
            if self.floating:
                self._floating(samples, dtype)
            else:
                self.open = np.any([s != self.exact for s in samples], axis=0)

    def _floating(self, samples: Sequence[Array], dtype: Any) -> None:
        spread = np.max([np.abs(s - self.exact) for s in samples], axis=0)
        alike = [(np.isfinite(s) & np.isfinite(self.exact)) | (s == self.exact) | both_nan(s, self.exact)
                 for s in samples]  # fmt: skip
        self.open = ~np.all(alike, axis=0)
        """The elements that are not judged."""
        import ml_dtypes

        info = ml_dtypes.finfo(dtype)
        self.open |= np.abs(self.exact) * 1.01 > float(info.max)
        slack = 4 * float(info.eps) * np.abs(self.exact) + 8 * float(info.smallest_subnormal)
        self.width = np.where(np.isfinite(spread), SLACK * spread, 0) + np.where(np.isfinite(slack), slack, 0)

    def wrong(self, a: Array, b: Array) -> Array:
        """The elements in which two results differ by more than they may."""
        with np.errstate(all="ignore"):
            if not self.floating:
                return (a != b) & ~self.open
            a, b = a.astype(np.float64), b.astype(np.float64)
            near = np.abs(a - b) <= self.width
            return np.asarray(~(near | (a == b) | both_nan(a, b)) & ~self.open)


def both_nan(a: Array, b: Array) -> Array:
    return np.asarray((a != a) & (b != b))


class Verdict:
    """Four ways of computing one graph, and where they disagree."""

    def __init__(self, seed: int) -> None:
        self.seed, self.arrays = seed, inputs(seed)
        self.function = program(seed)
        self.interpreted = jit.trace(self.function, optimize=False)
        self.native = jit.trace(self.function)
        with np.errstate(all="ignore"):
            self.eager = self._run(self.function)
            self.runs = {"recording": self._run(self.interpreted), "interpreter": self._run(self.interpreted)}
            self._run(self.native)
            self.runs |= {"native": self._run(self.native), "native again": self._run(self.native)}

    def _run(self, function: Program) -> list[Array]:
        return [np.asarray(t._array) for t in function(*(jit.from_numpy(a) for a in self.arrays))]

    @cached_property
    def graph(self) -> Graph:
        """The recorded graph with the parts of composites, between which values are rounded."""
        graph = self.interpreted.graph.clone()
        run(graph, ["inline_composites", "infer_types", "constant_fold", "dce", "canonicalize"])
        return graph

    def complaints(self) -> Iterator[str]:
        """The disagreements, in words."""
        exact = Exact(self.graph, self.arrays)
        samples = exact.samples()
        sure = exact_values(self.graph)
        for number, (value, eager) in enumerate(zip(self.graph.outputs, self.eager, strict=True)):
            bounds = Bounds([s[number] for s in samples], eager.dtype)
            if bounds.exact.shape != eager.shape:
                yield f"result {number}: float64 has shape {bounds.exact.shape}, eager mode {eager.shape}"
                continue
            yield from self._differences(number, "eager", "float64", eager, bounds.exact, bounds)
            for name, results in self.runs.items():
                found = results[number]
                if (found.dtype, found.shape) != (eager.dtype, eager.shape):
                    yield f"result {number}: {name} gives {found.dtype}{found.shape}, eager {eager.dtype}{eager.shape}"
                elif name in ("recording", "interpreter") or value in sure:
                    yield from self._bits(number, name, found, eager)
                else:
                    yield from self._differences(number, name, "eager", found, eager, bounds)
                    yield from self._differences(number, name, "float64", found, bounds.exact, bounds)

    def _bits(self, number: int, name: str, found: Array, eager: Array) -> Iterator[str]:
        unsigned = np.dtype(f"u{eager.dtype.itemsize}")
        a, b = np.ascontiguousarray(found), np.ascontiguousarray(eager)
        wrong = (a.view(unsigned) != b.view(unsigned)) & ~both_nan(a, b)
        if wrong.any():
            yield _sentence(number, name, "eager (bit for bit)", found, eager, wrong)

    def _differences(self, number: int, name: str, other: str, a: Array, b: Array, bounds: Bounds) -> Iterator[str]:
        wrong = bounds.wrong(a, b)
        if wrong.any():
            width = bounds.width[tuple(np.argwhere(wrong)[0])] if bounds.floating else 0
            yield f"{_sentence(number, name, other, a, b, wrong)}, more than {width:.3g}"


def _sentence(number: int, name: str, other: str, a: Array, b: Array, wrong: Array) -> str:
    at = tuple(map(int, np.argwhere(wrong)[0]))
    return f"result {number}, {wrong.sum()} of {wrong.size} elements: at {at} {name} has {a[at]!r}, {other} {b[at]!r}"


def main() -> int:
    """Judge graphs; returns 1 if one is wrong, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=int, help="the number of the first graph")
    parser.add_argument("stop", type=int, help="the number after that of the last one")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the graphs")
    options = parser.parse_args()
    failures = 0
    for seed in range(options.start, options.stop):
        try:
            verdict = Verdict(seed)
            found = list(verdict.complaints())
            text = f"{verdict.graph}" if options.verbose else ""
        except Exception:  # whatever it is, it is a finding, and the others are judged all the same
            found, text = [traceback.format_exc()], ""
        failures += bool(found)
        if found or text:
            print(f"seed {seed}:", text, *found, sep="\n  ", flush=True)
    print(f"{options.stop - options.start} graphs, {failures} wrong")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
