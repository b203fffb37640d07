"""The facet `kernel`: complete, and of one mind with the bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.ir import TensorType, dtypes, kernel_of
from jit.ir.errors import CompileError, SchemaError
from jit.ir.geometry import wrap_dims
from jit.ir.kernel import GROUP, ROWS, Kernel
from jit.ir.op import OVERLOADS, REGISTRY, Op, array, pointwise
from jit.ir.rows import OnArrays
from jit.runtime.arrays.array_math import numpy_math
from jit.runtime.arrays.execute import execute

from ..tolerances import tolerance_of

ALONG_ROWS = [op for op in REGISTRY.values() if op.kernel.terms is not None]
POINTWISE = [op for op in REGISTRY.values() if op.kind == "pointwise"]

# -- complete ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_facts_agree_with_each_other(op):
    kernel = op.kernel
    assert (kernel.form in (*ROWS, "positions") or callable(kernel.form)) or kernel.terms is None
    assert kernel.form not in ROWS or kernel.terms is not None, "what goes along rows consists of terms"
    assert kernel.form != "positions" or kernel.terms is not None, "what follows from positions consists of terms"
    assert kernel.form != "positions" or not op.tensors, "what follows from positions reads nothing"
    assert (kernel.fills is not None) == (kernel.step == "fill")
    assert bool(kernel.product) == (kernel.flops is not None)
    assert not kernel.product or kernel.step or op.kind == "composite" or op.schema.name.startswith("_")
    assert kernel.step not in ("copy", "fill", "join") or kernel.moves
    assert (op.kind == "pointwise") == (kernel.form == "point")


DEAR = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "arcsin", "arccos", "arctan", "arctan2", "arcsinh", "arccosh", "arctanh", "sigmoid", "erf", "erfc",
    "power", "hypot", "special", "floor_divide", "remainder", "fmod", "gcd", "lcm",
}  # fmt: skip
"""Functions of the math namespace that are no instruction, nor a few."""


def functions_named(function: Any) -> set[str]:
    """What a body asks for, and the functions beside it that it calls."""
    seen: set[str] = set()
    work = [function]
    while work:
        code, known = work[-1].__code__, work.pop().__globals__
        for name in set(code.co_names) - seen:
            seen.add(name)
            if hasattr(known.get(name), "__code__"):
                work.append(known[name])
    return seen


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
def test_a_dear_function_shows_in_the_cost(op):
    dear = functions_named(op.body) & DEAR
    assert op.kernel.cost > 4 or not dear, f"{op.name} calls {sorted(dear)}, and is said to take {op.kernel.cost}"


@pytest.mark.parametrize("name", ["where.self", "eq", "lt", "floor", "bitwise_and", "add", "relu"])
def test_an_instruction_is_cheap(name):
    assert kernel_of(f"aten::{name}").cost == 1


# -- declared ------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry():
    known = set(REGISTRY)
    yield
    for name in set(REGISTRY) - known:
        del OVERLOADS[REGISTRY.pop(name).schema.name]


def test_facts_are_of_arguments(registry):
    with pytest.raises(SchemaError, match="its kernel asks for 'dims', which is none of"):
        array("test::f(Tensor self, int dim) -> Tensor", kernel=Kernel("norm", reduces=lambda dims: dims))(
            lambda m, self, dim: self
        )
    with pytest.raises(SchemaError, match=r"its kernel names \['weight'\]"):
        array("test::g(Tensor self) -> Tensor", kernel=Kernel("norm", along={"weight": (1,)}))(lambda m, self: self)


def test_terms_are_of_arguments(registry):
    @array("test::h(Tensor self, int dim) -> Tensor", kernel=Kernel("norm"))
    def h(m: Any, self: Any, dim: int) -> Any:
        return self

    with pytest.raises(SchemaError, match="asks for 'x'"):

        @h.terms
        def _(t: Any, x: Any) -> Any:
            return x


def test_a_pointwise_operator_is_one_instruction_unless_it_says_otherwise(registry):
    plain = pointwise("test::p(Tensor self) -> Tensor")(lambda m, self: self)
    dear = pointwise("test::q(Tensor self) -> Tensor", cost=7)(lambda m, self: self)
    tail = pointwise("test::r(Tensor self) -> Tensor", kernel=Kernel(is_epilogue=True))(lambda m, self: self)
    assert (plain.kernel, dear.kernel) == (Kernel("point"), Kernel("point", cost=7))
    assert tail.kernel == Kernel("point", is_epilogue=True)


def test_what_is_no_operator_is_nothing_to_kernels():
    assert kernel_of("prim::FusionGroup") == Kernel()


# -- of one mind ---------------------------------------------------------------------------------------------------


def by_terms(op: Op, values: list[Any], types: list[Any]) -> list[Any]:
    """The results of an operator by its terms, over numpy; see Note [Terms] in jit/ir/kernel.py."""
    typed = [TensorType(dtypes.from_numpy(v.dtype), v.shape) if isinstance(v, np.ndarray) else v for v in values]
    if op.kernel.form == "positions":
        assert op.kernel.terms is not None
        made = op.ask(op.kernel.terms, values, OnArrays(numpy_math, types[0].sizes, (), types[0].dtype))
        return [np.broadcast_to(made, types[0].sizes).astype(types[0].dtype.numpy)]
    form = op.kernel.form if isinstance(op.kernel.form, str) else op.ask(op.kernel.form, typed)
    first = values[op.tensors[0]]
    dims = wrap_dims(values[op.schema.argument_names.index("dim")] if "dim" in op.schema.argument_names else None,
                     first.ndim) if op.kernel.reduces is None else tuple(op.ask(op.kernel.reduces, typed))  # fmt: skip
    dims = dims if first.ndim else ()
    place: dict[Any, tuple[int, ...]] = {d: (d,) for d in range(first.ndim)}
    shape = first.shape
    if op.kernel.groups is not None:
        count = op.ask(op.kernel.groups, typed)
        shape = (shape[0], count, shape[1] // count, *shape[2:])
        place = {0: (0,), 1: (1, 2), GROUP: (1,), **{d: (d + 1,) for d in range(2, first.ndim)}}
        dims = tuple(sorted({p for d in dims for p in place[d]} | ({2} if form == "norm" else set())))
    given = []
    for argument, value in zip(op.schema.arguments, values, strict=True):
        if isinstance(value, np.ndarray) and argument.name in op.kernel.along:
            where = {p for d in op.kernel.along[argument.name] for p in place[d]}
            value = value.reshape([n if d in where else 1 for d, n in enumerate(shape)])
        elif isinstance(value, np.ndarray) and value.shape == first.shape:
            value = value.reshape(shape)
        given.append(value)
    assert op.kernel.terms is not None
    found = op.ask(op.kernel.terms, given, OnArrays(numpy_math, shape, dims, types[0].dtype))
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return [None if f is None else np.asarray(f).astype(t.dtype.numpy).reshape(t.sizes) for f, t in zip(found, types)]


def calls() -> Any:
    for op in ALONG_ROWS:
        for number, sample in enumerate(op.sampler() if op.sampler is not None else ()):
            values = list(op.bind(*sample.args, **sample.kwargs))
            arrays = [v for v in values if isinstance(v, np.ndarray)]
            if all(a.size and a.dtype.kind != "c" for a in arrays) and (not arrays or arrays[0].ndim):
                for part in apart(op, values):
                    yield pytest.param(op, part, id=f"{op.name}:{number}")


def apart(op: Op, values: list[Any]) -> list[list[Any]]:
    """A call whose first result reduces other dims than the rest as two calls, as `fuse` has it."""
    values = [tuple(value) if isinstance(value, list) else value for value in values]
    mask = values[-1]
    if not op.kernel.separable or not mask[0] or not any(mask[1:]):
        return [values]
    return [[*values[:-1], (True, False, False)], [*values[:-1], (False, *mask[1:])]]


@pytest.mark.parametrize(("op", "values"), list(calls()))
def test_terms_say_what_the_body_says(op, values):
    """In kernels an operator is its terms, elsewhere its body: over numpy both are the same but for rounding."""
    with np.errstate(all="ignore"):
        expected = execute(op, values)
        main = next(e for e in expected if isinstance(e, np.ndarray))
        made = [e if isinstance(e, np.ndarray) else main for e in expected]
        try:
            found = by_terms(op, values, [TensorType(dtypes.from_numpy(e.dtype), e.shape) for e in made])
        except CompileError:
            assert op.schema.name == "linalg_vector_norm", "other orders than 0, 1, 2 and inf have no kernel"
            return
    for a, b in zip(found, expected):
        if a is not None:
            rtol, atol = tolerance_of(b.dtype)
            np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=8 * rtol, atol=8 * atol)
