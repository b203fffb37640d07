"""Every operator that has a kernel, on every sample, layout and dtype: the kernel runs, and gives what it should.

Arithmetic agrees with the interpreter bit for bit; where an operation rounds otherwise than numpy's - elementary
functions, the order of a sum - results are as near to float64 as rounding allows (Note [How far apart results may be]
in tests/random_graphs.py). All buffers end, or begin, at a page that must not be touched.
The usual run takes one layout, one dtype and one set of awkward numbers of each operator; this takes some minutes:

    python -m pytest -m "slow or not slow" tests/runtime/test_kernel_registry.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import jit
from jit.ir import Graph, Node, TensorType
from jit.ir.dtypes import ALL, as_dtype
from jit.ir.errors import DivisionError, Error
from jit.ir.op import REGISTRY, Op
from jit.passes.fuse import _separate_gradients
from jit.passes.support.spaces import main_output
from jit.runtime.arrays.interpreter import Interpreter, fused_group
from jit.runtime.kernels.fusion import FusedGroup, supports

from ..random_graphs import Bounds, Exact, both_nan
from ..registry_cases import Case, all_cases, copied, function_of, mapped
from .guarded import guarded
from .kernels_under_test import numbers

pytestmark = pytest.mark.llvm

Array = np.ndarray[Any, Any]
DTYPES = [d.name for d in ALL if not d.is_complex]

# -- the operator's own nodes --------------------------------------------------------------------------------------


def recorded(case: Case, convert: Callable[[Array], Array]) -> list[tuple[Node, list[Array]]]:
    """The nodes of the operator in a call with converted arrays, each with what it read."""
    arrays: list[Array] = []
    mapped([case.sample.args, *case.sample.kwargs.values()], lambda a: arrays.append(convert(copied(a))))
    function = function_of(case.op)

    def call(*tensors: Any) -> Any:
        rest = iter(tensors)
        args = mapped(list(case.sample.args), lambda a: next(rest))
        return function(*args, **{k: mapped(v, lambda a: next(rest)) for k, v in case.sample.kwargs.items()})

    traced = jit.trace(call, optimize=False)
    try:
        with np.errstate(all="ignore"):
            traced(*map(jit.from_numpy, arrays))
    except (Error, TypeError, ValueError):  # the dtype is not one that the operator takes
        return []
    graph = traced.graph.clone()
    _separate_gradients(graph)  # as `fuse` does first
    given = dict(zip(graph.inputs, arrays, strict=True))
    own = [n for n in graph.nodes if n.kind == case.op.name and all(v in given for v in n.inputs)]
    return [(n, [given[v] for v in dict.fromkeys(n.inputs)]) for n in own]


def has_kernel(node: Node) -> bool:
    known = all(isinstance(v.type, TensorType) and v.type.dtype is not None and v.type.sizes is not None
                for v in (*node.inputs, main_output(node)))  # fmt: skip
    real = all(not v.type.dtype.is_complex for v in node.inputs) if known else False  # type: ignore[attr-defined]
    alike = node.kind != "aten::cat" or len({(v.type.sizes, v.type.dtype) for v in node.inputs}) == 1  # type: ignore[attr-defined]
    return known and real and alike and supports(node)


def alone(node: Node) -> Graph:
    """The node with inputs of its own."""
    graph = Graph()
    mapping = {v: graph.add_input(v.type) for v in dict.fromkeys(node.inputs)}
    copy = graph.copy_node(node, mapping)
    copy.stage = 0
    graph.set_return([v for v in copy.outputs if isinstance(v.type, TensorType) and v.type.sizes is not None])
    return graph


# -- judging -------------------------------------------------------------------------------------------------------


def outcome(function: Callable[[list[Array]], list[Array]], arrays: list[Array]) -> list[Array] | str:
    try:
        with np.errstate(all="ignore"):
            return function(arrays)
    except DivisionError as error:
        return type(error).__name__


def check(node: Node, arrays: list[Array]) -> None:
    """Run a node's kernel and the interpreter on arrays of the node's sizes and dtypes."""
    graph = alone(node)
    expected = outcome(lambda a: Interpreter(graph).run(0, a)[0], arrays)
    group = fused_group(graph.clone())
    for at_end in (True, False):
        found = outcome(partial(native, group, at_end), arrays)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected
        else:
            agree(graph, arrays, found, expected)
    if all(t.numel for t in group._types):
        assert group.kernels, "it was interpreted"


def native(group: FusedGroup, at_end: bool, arrays: list[Array]) -> list[Array]:
    """The kernel on guarded memory."""
    given = [guarded(a, at_end) for a in arrays]
    if any(t.numel == 0 for t in group._types):
        return group(given)
    group(given)
    (kernel,) = group.kernels
    outputs = [guarded(np.zeros(t.sizes, t.dtype.numpy), at_end) for t in group._types]
    kernel(given, outputs)
    return outputs


def agree(graph: Graph, arrays: list[Array], found: list[Array], expected: list[Array]) -> None:
    loose = []
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if not same_bits(a, b):
            loose.append(number)
    if not loose:
        return
    (node,) = graph.nodes
    assert rounds(node), f"{node.kind} is arithmetic: {differences(found, expected)}"
    samples = Exact(graph, arrays).samples()
    for number in loose:
        bounds = Bounds([s[number] for s in samples], found[number].dtype)
        for name, other in (("interpreter", expected[number]), ("float64", bounds.exact)):
            wrong = bounds.wrong(found[number], other)
            if wrong.any():
                at = tuple(map(int, np.argwhere(wrong)[0]))
                operands = [np.broadcast_to(x, wrong.shape)[at] if x.ndim <= wrong.ndim else "" for x in arrays
                            if np.broadcast_shapes(x.shape, wrong.shape) == wrong.shape]  # fmt: skip
                raise AssertionError(f"{node}\n{wrong.sum()} of {wrong.size} wrong: at {at} of {operands} kernel has "
                                     f"{found[number][at]!r}, {name} {other[at]!r}")  # fmt: skip


def same_bits(a: Array, b: Array) -> bool:
    bits = np.dtype(f"u{a.dtype.itemsize}")
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return bool(np.all(same.reshape(a.shape) | both_nan(a, b)))


def differences(found: list[Array], expected: list[Array]) -> str:
    a, b = next((a, b) for a, b in zip(found, expected, strict=True) if not same_bits(a, b))
    wrong = ~((a == b) & (np.signbit(a) == np.signbit(b)) | both_nan(a, b)) if a.dtype.kind not in "iub" else a != b
    at = tuple(map(int, np.argwhere(wrong)[0])) if wrong.any() else (0,) * a.ndim
    return f"{wrong.sum()} of {wrong.size} elements, at {at} {a[at]!r} instead of {b[at]!r}"


# -- which operators may round otherwise ---------------------------------------------------------------------------


class _Spy:
    """A math namespace that notes which functions a body asks for."""

    def __init__(self, used: set[str]) -> None:
        self._used = used

    def __getattr__(self, name: str) -> Any:
        from jit.runtime.arrays.array_math import numpy_math

        self._used.add(name)
        return getattr(numpy_math, name)


ELEMENTARY = {
    "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh", "sigmoid", "erf", "erfc", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "arctan2", "hypot", "cbrt", "power",
    "pow", "rsqrt", "logaddexp", "logaddexp2",
}  # fmt: skip
"""Functions of a body in which kernels and numpy round differently."""
ADDS_UP = {"sum", "mean", "prod", "var", "std", "logsumexp", "softmax", "log_softmax", "_softmax_backward_data",
           "_safe_softmax", "_log_softmax_backward_data", "native_layer_norm", "native_batch_norm",
           "native_layer_norm_backward", "native_batch_norm_backward", "native_group_norm",
           "native_group_norm_backward", "cumsum", "logcumsumexp", "linalg_vector_norm"}  # fmt: skip


def rounds(node: Node) -> bool:
    """Whether a node may round otherwise than numpy: it asks for an elementary function, or adds up floats."""
    op = REGISTRY[node.kind]
    if op.kind != "pointwise":
        return op.schema.name in ADDS_UP
    used: set[str] = set()
    values = [
        np.ones((), np.float64) if i in op.promoted else v
        for i, v in enumerate(op.join(node.operands, {k: node.resolve(v) for k, v in node.attributes.items()}))
    ]
    with np.errstate(all="ignore"):
        try:
            op.body(_Spy(used), *values)
            (op.numpy_body or op.body)(_Spy(used), *values)
        except TypeError:  # a body of integers alone
            return False
    return bool(used & ELEMENTARY)


# -- the walk ------------------------------------------------------------------------------------------------------


CANDIDATES = [op for op in REGISTRY.values() if op.kind in ("pointwise", "array") and all_cases(op)]

operators = pytest.mark.parametrize("op", CANDIDATES, ids=lambda op: op.name.removeprefix("aten::"))


@cache
def kernelled(name: str) -> bool:
    """Whether a sample of the operator, as it stands, has a kernel: those without get no awkward numbers."""
    cases = all_cases(REGISTRY[name])
    return any(has_kernel(node) for case in cases for node, _ in recorded(case, lambda array: array))


def nodes(op: Op, cases: list[Case], convert: Callable[[Array], Array] = lambda a: a) -> Iterator[tuple[Node, Any]]:
    for case in cases:
        yield from ((node, arrays) for node, arrays in recorded(case, convert) if has_kernel(node))


@pytest.mark.slow
@operators
def test_every_sample(op):
    for node, arrays in nodes(op, all_cases(op)):
        check(node, arrays)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "column-major": np.asfortranarray,
    "with gaps": lambda a: np.repeat(a, 3, -1)[..., ::3] if a.ndim else a,
    "backwards": lambda a: a[::-1].copy()[::-1] if a.ndim else a,
    "one row for all": lambda a: np.broadcast_to(a[:1], a.shape) if a.ndim > 1 else a,
    "inside": lambda a: np.pad(a, 1)[(slice(1, -1),) * a.ndim],
}


@pytest.mark.slow
@operators
def test_every_layout(op):
    for layout in LAYOUTS.values():
        for node, arrays in nodes(op, all_cases(op)[:1], layout):
            check(node, arrays)


@pytest.mark.slow
@operators
def test_every_dtype(op):
    for name in DTYPES:
        for node, arrays in nodes(op, all_cases(op)[:2], of_dtype(name)):
            check(node, arrays)


def of_dtype(name: str) -> Callable[[Array], Array]:
    def convert(array: Array) -> Array:
        with np.errstate(all="ignore"):
            return array.real.astype(as_dtype(name).numpy)

    return convert


@pytest.mark.slow
@operators
def test_awkward_numbers(op, rng):
    """NaN, infinities, signed zeros, denormals, the ends of the integers: in pointwise operators everywhere."""
    if op.kind == "pointwise":
        cases, converts = all_cases(op)[:1], [awkward(name, rng) for name in DTYPES]
    else:
        cases, converts = all_cases(op)[:2], [sprinkled(rng)]
    for convert in converts if kernelled(op.name) else []:
        for node, arrays in nodes(op, cases, convert):
            check(node, arrays)


def awkward(name: str, rng: np.random.Generator) -> Callable[[Array], Array]:
    """Other numbers of a dtype, 60 of them; single ones stay what they are."""
    convert = of_dtype(name)
    return lambda a: rng.permutation(numbers(as_dtype(name), rng, 30))[:60] if a.ndim else convert(a)


def sprinkled(rng: np.random.Generator) -> Callable[[Array], Array]:
    """Some elements of floating arrays replaced."""

    def convert(array: Array) -> Array:
        if array.dtype.kind in "iubc" or not array.size:
            return array
        found = array.copy()
        places = rng.integers(0, found.size, 2)
        found.reshape(-1)[places] = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45]), 2).astype(found.dtype)
        return found

    return convert


# -- the usual run -------------------------------------------------------------------------------------------------


@operators
def test_a_layout_a_dtype_and_awkward_numbers(op, rng):
    """Of everything above a little: layouts and dtypes take turns with the operators."""
    turn = CANDIDATES.index(op)
    name = DTYPES[turn % len(DTYPES)]
    worse = awkward(name, rng) if op.kind == "pointwise" else sprinkled(rng)
    converts = [list(LAYOUTS.values())[turn % len(LAYOUTS)], of_dtype(name)]
    for convert in [*converts, worse] if kernelled(op.name) else converts:
        for node, arrays in nodes(op, all_cases(op)[:1], convert):
            check(node, arrays)


def test_how_many_have_one():
    """As many operators as this says have a kernel; that it is compiled and right is what the tests above see."""
    found = {op.name for op in CANDIDATES if kernelled(op.name)}
    assert len(found) >= 140, sorted(found)
