"""Walks the registry with Tensors: every operator, every facet, every sample, through the functions that users call.

A test's name is the operator's and what is awkward about the sample: `pytest -k "aten::tanh"`. What an operator should
compute stands in the tables REFERENCES of tests/ops/references/*.py; how near it must come, in tests/tolerances.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import gradcheck, gradgradcheck
from jit.eager import dispatch
from jit.eager.arguments import Mismatch
from jit.eager.functions import public
from jit.eager.namespace import F
from jit.ir.op import OVERLOADS, REGISTRY, Op
from jit.ir.samples import strided
from jit.ir.types import TensorType
from jit.ops import catalog
from tests.ops.test_ops import REFERENCES, arguments, each, type_of, wide
from tests.registry_cases import Case, bits, cases, floats, mapped, tensors_in, weights_for
from tests.tolerances import as_array, assert_close

NAMESPACES = ("jit", "linalg", "special", "fft", "nn.functional")


def tensor_first(case: Case) -> bool:
    return bool(case.sample.args) and isinstance(case.sample.args[0], np.ndarray)


def is_differentiable(op: Op) -> bool:
    return op.is_differentiable or (op.kind == "composite" and "grad" not in op.missing)


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_declared(op: Op) -> None:
    """Every facet is declared, or the declaration says why it is not."""
    assert not catalog.gaps(op), f"declare what is missing in {op.module.replace('.', '/')}.py, or say absent(why)"


@pytest.mark.parametrize("ops", OVERLOADS.values(), ids=OVERLOADS)
def test_documented(ops: list[Op]) -> None:
    """The documentation of a function begins with a sentence that says what it computes."""
    assert ops[0].body.__doc__, f"give {ops[0].name} a docstring, in {ops[0].module.replace('.', '/')}.py"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_names(namespace: str) -> None:
    """Every function of a namespace is there, under its aliases too."""
    module = jit if namespace == "jit" else importlib.import_module(f"jit.{namespace}")
    assert [name for name in public(namespace) if not callable(getattr(module, name, None))] == []


# -- values ------------------------------------------------------------------------------------------------------


@cases()
def test_value(case: Case) -> None:
    """Called with positional arguments it gives what the reference says; as a method and by keyword, the same."""
    args, kwargs = case.arguments()
    results = case.call(*args, **kwargs)
    if case.op.kind != "random" and not case.draws:  # tests/ops/test_random_ops.py judges what is random
        assert_reference(case, results)
    for spelled in other_spellings(case):
        assert [bits(t) for t in spelled] == [bits(t) for t in results]


def assert_reference(case: Case, results: Sequence[jit.Tensor]) -> None:
    """Every result equals its reference, rounded to the result's dtype."""
    reference = REFERENCES.get(case.op.name)
    if reference is None:
        pytest.fail(f"{case.op.name} has no reference: add a float64 function to REFERENCES in tests/ops/references/")
    with np.errstate(all="ignore"):
        expected = reference(*(each(value, wide) for value in arguments(case.op, case.sample)))
    wanted = [w for w in (expected if isinstance(expected, (tuple, list)) else [expected]) if w is not None]
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        with np.errstate(all="ignore"):
            rounded = np.asarray(want).astype(as_array(result).dtype)
        assert_close(result, rounded)


def other_spellings(case: Case) -> Iterator[list[jit.Tensor]]:
    """The results of calling the operator as a method, and with keywords alone."""
    op = case.op
    if "Tensor" in op.namespaces and tensor_first(case):
        args, kwargs = case.arguments()
        yield case.call(*args, function=getattr(jit.Tensor, op.schema.name), **kwargs)
    args, kwargs = case.arguments()
    names = ["input" if a.name == "self" else a.name for a in op.arguments if not a.kwarg_only]
    yield case.call(**dict(zip(names, args, strict=False)), **kwargs)


@cases(lambda op: op.kind != "view" and op.schema.name != "float_power")  # which is float64 by definition
def test_dtype(case: Case) -> None:
    """Where all operands are floats of one dtype and no other is asked for, floating results have that dtype."""
    args, kwargs = case.arguments()
    operands = {t.dtype for t in tensors_in([args, kwargs])}
    if len(operands) == 1 and not any(isinstance(v, jit.DType) for v in (*args, *kwargs.values())):
        results = {t.dtype for t in case.call(*args, **kwargs) if t.is_floating_point()}
        assert results <= operands or not next(iter(operands)).is_floating_point


@cases(lambda op: op.type_rule is not None or op.kind in ("view", "pointwise"))
def test_type_rule(case: Case) -> None:
    """The results have the dtypes and sizes that the declaration infers without running anything."""
    args, kwargs = case.arguments()
    results = case.call(*args, **kwargs)
    inferred = case.op.infer([each(value, type_of) for value in arguments(case.op, case.sample)])
    known = [t for t in inferred if isinstance(t, TensorType) and t.dtype is not None]
    for result, type in zip(results, known, strict=True):
        assert result.dtype is type.dtype
        assert type.sizes in (None, tuple(result.shape))  # None: the sizes depend on values, as those of nonzero do


@cases(lambda op: op.kind != "composite")  # what a composite shares, its parts do
def test_sharing(case: Case) -> None:
    """Views share memory and version with their base; all other results are fresh."""
    args, kwargs = case.arguments()
    operands = list(tensors_in([args, kwargs]))
    for result in case.call(*args, **kwargs):
        if case.op.kind == "view":
            assert result._storage is operands[0]._storage
            assert result.numel() == 0 or np.shares_memory(as_array(result), as_array(operands[0]))
        else:
            assert not any(np.shares_memory(as_array(t), as_array(result)) for t in operands)


@cases(lambda op: not op.schema.name.startswith("as_strided"), tensor_first)  # which depend on layouts by definition
def test_layout(case: Case) -> None:
    """Each operand in turn with gaps between its elements and dims in reversed memory order: the same values."""
    args, kwargs = case.arguments()
    expected = case.call(*args, **kwargs)
    for number in range(len(list(tensors_in([args, kwargs])))):
        args, kwargs = case.arguments()
        target = list(tensors_in([args, kwargs]))[number]
        target._array = strided(target._array)
        try:
            results = case.call(*args, **kwargs)
        except jit.ShapeError:
            name = case.op.schema.name.removesuffix("_copy")
            assert name in ("view", "view_as", "view_as_complex", "_view_bytes"), "only views may depend on strides"
            continue
        for result, want in zip(results, expected, strict=True):
            assert_close(result, want)


# -- derivatives -------------------------------------------------------------------------------------------------


FEW = 24
"""Elements up to which derivatives are checked one by one; beyond, along random directions."""


@cases(is_differentiable, lambda case: case.sample.grad)
def test_derivative(case: Case) -> None:
    """Equals central differences."""
    function, leaves = of_its_leaves(case)
    if leaves:
        results = function(*leaves)
        assert any(t.requires_grad for t in results) or not any(t.is_floating_point() for t in results)
        assert gradcheck(function, leaves, fast_mode=are_many(leaves))


@cases(is_differentiable, lambda case: case.sample.grad)
def test_second_derivative(case: Case) -> None:
    """Equals central differences of the first."""
    function, leaves = of_its_leaves(case)
    if leaves:
        assert gradgradcheck(function, leaves, fast_mode=are_many(leaves))


def are_many(leaves: Sequence[jit.Tensor]) -> bool:
    return sum(leaf.numel() for leaf in leaves) > FEW


def of_its_leaves(case: Case) -> tuple[Callable[..., list[jit.Tensor]], list[jit.Tensor]]:
    """The operator as a function of its floating arguments alone, and these in float64, requiring gradients."""
    args, kwargs = case.arguments(lambda a: jit.from_numpy(a if a.dtype.kind in "iub" else a.astype(np.float64)))
    leaves = [leaf.requires_grad_() for leaf in floats(case.op, args, kwargs)]

    def function(*given: jit.Tensor) -> list[jit.Tensor]:
        stand_in = dict(zip(map(id, leaves), given, strict=True))
        inner = mapped([args, *kwargs.values()], lambda t: stand_in.get(id(t), t))
        return case.call(*inner[0], **dict(zip(kwargs, inner[1:], strict=True)))

    return function, leaves


def outcome(case: Case, call: Callable[..., list[jit.Tensor]]) -> list[jit.Tensor]:
    """Results of a call, its operands afterwards, and gradients: all that two ways of calling have to agree in."""
    args, kwargs = case.arguments()
    wanted = case.sample.grad and is_differentiable(case.op)
    leaves = [leaf.requires_grad_() for leaf in floats(case.op, args, kwargs)] if wanted else []
    results = call(*args, **kwargs)
    outputs = [t for t in results if t.requires_grad]
    found = jit.grad(outputs, leaves, weights_for(outputs), allow_unused=True) if outputs else []
    given = [F.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=bool(found))]
    return [*results, *tensors_in([args, kwargs]), *given]


def assert_agree(found: Sequence[jit.Tensor], expected: Sequence[jit.Tensor]) -> None:
    """The same within the table's tolerance."""
    for got, want in zip(found, expected, strict=True):
        assert_close(got, want)


# -- in place and `out=` -----------------------------------------------------------------------------------------


@cases(lambda op: op.has_inplace, tensor_first)
def test_inplace(case: Case) -> None:
    """`x.name_()` leaves in `x` what `x.name()` returns, or refuses what does not fit there."""
    args, kwargs = case.arguments()
    (result,) = case.call(*args, **kwargs)
    args, kwargs = case.arguments()
    target, written = args[0], getattr(jit.Tensor, f"{case.op.schema.name}_")
    if result.shape != target.shape or result.dtype.category > target.dtype.category:
        with pytest.raises((jit.ShapeError, jit.DTypeError)):
            case.call(*args, function=written, **kwargs)
        return
    version = target._version
    (same,) = case.call(*args, function=written, **kwargs)
    assert same is target
    assert target._version == version + 1
    assert bits(target) == bits(result.to(target.dtype))


@cases(lambda op: op.has_inplace and is_differentiable(op), lambda case: tensor_first(case) and case.sample.grad)
def test_inplace_gradient(case: Case) -> None:
    """Written into a copy, or into a part of one, the gradients are those of the functional operator."""
    args, kwargs = case.arguments()
    (result,) = case.call(*args, **kwargs)
    if result.shape != args[0].shape or result.dtype is not args[0].dtype:
        return
    written = getattr(jit.Tensor, f"{case.op.schema.name}_")

    def into_copy(first: jit.Tensor, *rest: Any, **options: Any) -> list[jit.Tensor]:
        return case.call(F.clone(first), *rest, function=written, **options)

    def into_part(first: jit.Tensor, *rest: Any, **options: Any) -> list[jit.Tensor]:
        base = F.stack([first, first])
        case.call(base[1], *rest, function=written, **options)
        return [base[1]]

    expected = outcome(case, case.call)
    assert_agree(outcome(case, into_copy), expected)
    assert_agree(outcome(case, into_part), expected)


def takes_out(op: Op) -> bool:
    is_function = bool({"jit", "linalg", "special", "fft"} & set(op.namespaces))
    return is_function and op.kind != "view" and not op.schema.returns[0].type.is_list


@cases(takes_out)
def test_out(case: Case) -> None:
    """`out=` receives what the functional call returns."""
    args, kwargs = case.arguments()
    results = case.call(*args, **kwargs)
    targets = [jit.from_numpy(np.empty(tuple(t.shape), t.dtype.numpy)) for t in results]
    args, kwargs = case.arguments()
    case.call(*args, **kwargs, out=targets[0] if len(targets) == 1 else tuple(targets))
    assert [bits(t) for t in targets] == [bits(t) for t in results]


# -- traced ------------------------------------------------------------------------------------------------------


@cases()
def test_traced(case: Case) -> None:
    """Recorded, and run from the recording by the interpreter: bit for bit what eager gives, gradients included."""
    expected = list(map(bits, outcome(case, case.call)))
    traced = jit.trace(case.function, optimize=False)
    for _ in range(2):
        assert list(map(bits, outcome(case, partial(case.call, function=traced)))) == expected
    assert (traced.misses, traced.hits) == (1, 1)
    assert case.op.kind == "composite" or case.op.name in {node.kind for node in traced.graph.nodes}


@cases()
def test_optimised(case: Case) -> None:
    """The optimised graph gives what eager gives, within the table's tolerance."""
    expected = outcome(case, case.call)
    traced = jit.trace(case.function)
    for _ in range(2):
        assert_agree(outcome(case, partial(case.call, function=traced)), expected)


# -- wrong calls -------------------------------------------------------------------------------------------------

DIMS = {"dim", "dim0", "dim1", "dim2", "dims", "dimension", "start_dim", "end_dim", "source", "destination"}


def names_dims(op: Op) -> bool:
    counted = op.schema.name in ("tile", "tensordot")  # their `dims` are counts
    return bool(op.namespaces) and not counted and bool(DIMS & {a.name for a in op.arguments if a.type.base == "int"})


@cases(names_dims)
def test_dim_out_of_range(case: Case) -> None:
    """A dim that the tensor does not have is an error that says so, in empty and 0-d tensors too."""
    for position, argument in enumerate(case.op.arguments):
        for outside in (99, -99) if argument.name in DIMS and argument.type.base == "int" else ():
            args, kwargs = case.arguments()
            values = list(case.op.bind(*args, **kwargs))
            listed = isinstance(values[position], (list, tuple))
            values[position] = [outside, *values[position][1:]] if listed else outside
            with pytest.raises((jit.DimError, jit.ShapeError) if listed else jit.DimError):
                dispatch.call(case.op, values)


ODD = (
    lambda a: np.ones(a.shape, np.bool_), lambda a: np.ones(a.shape, np.int64),
    lambda a: np.ones(a.shape, np.complex64), lambda a: np.ones((5, 7), a.dtype), lambda a: np.ones((), a.dtype),
    lambda a: np.ones((0,), a.dtype), lambda a: np.ones((1,) * 6, a.dtype),
)  # fmt: skip
"""What each operand is replaced by: other dtypes, sizes that hardly ever fit, more dims than any operator has."""


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@cases(fitting=lambda case: case.number < 2)
def test_misfits(case: Case) -> None:
    """Whatever operands are given, the operator computes something or refuses with an error of ours."""
    positions = [i for i in case.op.tensors if not case.op.arguments[i].type.is_list]
    for position, odd in product(positions, ODD):
        args, kwargs = case.arguments()
        values = list(case.op.bind(*args, **kwargs))
        if isinstance(values[position], jit.Tensor):
            values[position] = jit.from_numpy(odd(values[position].numpy()))
            with suppress(jit.Error, Mismatch):
                dispatch.call(case.op, values)


FUNCTIONS = {name: namespace for namespace in reversed(NAMESPACES) for name in public(namespace) if name in OVERLOADS}


@pytest.mark.parametrize(("name", "namespace"), FUNCTIONS.items(), ids=FUNCTIONS)
def test_wrong_call(name: str, namespace: str) -> None:
    """Nonsense is answered by the declarations that exist."""
    for nonsense in (("text",), ("text", "text"), (object(),) * 20):
        with pytest.raises(jit.SchemaError) as raised:
            public(namespace)[name](*nonsense)
        assert f"no ATen declaration found for {name}(" in str(raised.value)
        assert all(str(op.schema) in str(raised.value) for op in OVERLOADS[name])
