"""ATen's rules, case by case: which dtype a result has, and which calls are refused with which error."""

import math
from typing import Any

import numpy as np
import pytest

import jit.ops  # noqa: F401  (fills the registry)
from jit.ir import dtypes
from jit.ir.errors import DimError, DivisionError, DTypeError, ShapeError, UsageError
from jit.ir.geometry import Geometry
from jit.ir.op import REGISTRY
from jit.ir.types import TensorType
from jit.runtime.arrays.execute import execute
from tests.ops.test_ops import each, type_of


def run(name: str, *args: Any, **kwargs: Any) -> Any:
    op = REGISTRY[f"aten::{name}"]
    return execute(op, op.bind(*args, **kwargs))[0]


def inferred(name: str, *args: Any, **kwargs: Any) -> TensorType:
    op = REGISTRY[f"aten::{name}"]
    found = op.infer([each(v, type_of) for v in op.bind(*args, **kwargs)])[0]
    assert isinstance(found, TensorType)
    return found


def ones(dtype: str, *shape: int) -> np.ndarray:
    return np.ones(shape or (2,), dtypes.by_name(dtype).numpy)


BOOL, BYTE, INT, LONG = (ones(d) for d in ("bool", "uint8", "int32", "int64"))
HALF, BRAIN, FLOAT, DOUBLE = (ones(d) for d in ("float16", "bfloat16", "float32", "float64"))
LONG_0, DOUBLE_0 = ones("int64")[0:1].reshape(()), ones("float64")[0:1].reshape(())

RESULTS = [
    ("add", (INT, FLOAT), "float32"),
    ("add", (LONG, HALF), "float16"),
    ("add", (HALF, BRAIN), "float32"),
    ("add", (BYTE, ones("int8")), "int16"),
    ("add", (LONG, 2.5), "float32"),
    ("add", (HALF, 2.5), "float16"),
    ("add", (BYTE, 7), "uint8"),
    ("add", (BOOL, 1), "int64"),
    ("add", (BOOL, BOOL), "bool"),
    ("add", (FLOAT, DOUBLE_0), "float32"),
    ("add", (INT, DOUBLE_0), "float64"),
    ("add", (INT, LONG_0), "int32"),
    ("add", (2.5, INT), "float32"),
    ("mul", (FLOAT, 1j), "complex64"),
    ("mul", (DOUBLE, 1j), "complex128"),
    ("div", (LONG, LONG), "float32"),
    ("div", (DOUBLE, LONG), "float64"),
    ("floor_divide", (LONG, INT), "int64"),
    ("floor_divide", (LONG, 2.0), "float32"),
    ("sqrt", (LONG,), "float32"),
    ("sqrt", (BRAIN,), "bfloat16"),
    ("floor", (INT,), "int32"),
    ("sign", (BOOL,), "bool"),
    ("pow", (INT, 2), "int32"),
    ("pow", (INT, 0.5), "float32"),
    ("clamp", (INT, 0, None), "int32"),
    ("clamp", (INT, 0.5, None), "float32"),
    ("maximum", (INT, LONG), "int64"),
    ("relu", (INT,), "int32"),
    ("eq", (LONG, FLOAT), "bool"),
    ("logical_and", (LONG, FLOAT), "bool"),
    ("isnan", (LONG,), "bool"),
    ("bitwise_and", (BYTE, LONG), "int64"),
    ("where.self", (BOOL, INT, FLOAT), "float32"),
    ("where.self", (BOOL, 1, 0), "int64"),
    ("where.self", (BOOL, HALF, 0.5), "float16"),
    ("masked_fill", (INT, BOOL, 2.5), "int32"),
    ("masked_fill", (HALF, BOOL, 1e4), "float16"),
    ("sum", (BOOL,), "int64"),
    ("sum", (BYTE,), "int64"),
    ("sum", (HALF,), "float16"),
    ("prod", (INT,), "int64"),
    ("cumsum", (INT, 0), "int64"),
    ("mean", (HALF,), "float16"),
    ("amax", (BYTE,), "uint8"),
    ("argmax", (FLOAT,), "int64"),
    ("any", (FLOAT,), "bool"),
    ("any", (BYTE,), "uint8"),
    ("all", (BYTE,), "uint8"),
    ("logsumexp", (LONG, (0,)), "float32"),
    ("softmax", (HALF, 0), "float16"),
    ("softmax", (LONG, 0, dtypes.float64), "float64"),
    ("full", ((2,), True), "bool"),
    ("full", ((2,), 3), "int64"),
    ("full", ((2,), 3.0), "float32"),
    ("full_like", (LONG, 2.5), "int64"),
    ("arange.start_step", (0, 3), "int64"),
    ("arange.start_step", (0, 3.0), "float32"),
    ("linspace", (0, 1, 3), "float32"),
    ("zeros_like", (BRAIN,), "bfloat16"),
    ("clone", (HALF,), "float16"),
]


@pytest.mark.parametrize(("name", "args", "dtype"), RESULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_dtype_of_result(name: str, args: tuple[Any, ...], dtype: str) -> None:
    expected = dtypes.by_name(dtype)
    assert dtypes.from_numpy(run(name, *args).dtype) is expected
    assert inferred(name, *args).dtype is expected


EMPTY = np.zeros((2, 0), np.float32)

REFUSED = [
    (DTypeError, "sub", (BOOL, BOOL)),
    (DTypeError, "sub", (FLOAT, BOOL)),
    (DTypeError, "sub", (BOOL, True)),
    (DTypeError, "rsub", (BOOL, FLOAT)),
    (DTypeError, "neg", (BOOL,)),
    (DTypeError, "floor_divide", (BOOL, BOOL)),
    (DTypeError, "mean", (LONG,)),
    (DTypeError, "mean", (BOOL,)),
    (DTypeError, "var.correction", (LONG,)),
    (DTypeError, "linalg_vector_norm", (LONG,)),
    (DTypeError, "softmax", (LONG, 0)),
    (DTypeError, "log_softmax", (LONG, 0)),
    (DTypeError, "gelu", (LONG,)),
    (DTypeError, "lerp", (LONG, LONG, 1)),
    (DTypeError, "addcdiv", (LONG, LONG, LONG)),
    (DTypeError, "frac", (LONG,)),
    (DTypeError, "bitwise_and", (LONG, FLOAT)),
    (DTypeError, "bitwise_not", (FLOAT,)),
    (DTypeError, "lt", (ones("complex64"), FLOAT)),
    (DTypeError, "maximum", (ones("complex64"), FLOAT)),
    (DTypeError, "floor", (ones("complex64"),)),
    (DimError, "amax", (EMPTY, (1,))),
    (DimError, "amin", (EMPTY,)),
    (DimError, "max", (EMPTY,)),
    (DimError, "max.dim", (EMPTY, 1)),
    (DimError, "argmin", (EMPTY,)),
    (DimError, "linalg_vector_norm", (EMPTY, math.inf, (1,))),
    (ShapeError, "sum", (FLOAT, (0, -1))),
    (ShapeError, "sum_to_size", (FLOAT, (3,))),
    (ShapeError, "zeros", ((2, -1),)),
    (DimError, "sum", (FLOAT, (1,))),
    (DimError, "sum", (np.array(1.0), (1,))),
    (DimError, "softmax", (FLOAT, 1)),
    (DimError, "cumsum", (FLOAT, -2)),
    (DimError, "argmax", (FLOAT, 1)),
    (UsageError, "arange.start_step", (0, 5, 0)),
    (UsageError, "arange.start_step", (0, 5, -1)),
    (UsageError, "arange.start_step", (0, math.inf)),
    (UsageError, "linspace", (0, 1, -1)),
]


@pytest.mark.parametrize(("error", "name", "args"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_refused_by_kernel_and_type_rule(error: type[Exception], name: str, args: tuple[Any, ...]) -> None:
    for attempt in (run, run, inferred):  # twice: what the kernel remembers of the first call must not let it pass
        with pytest.raises(error) as caught:
            attempt(name, *args)
        assert "\n" not in str(caught.value).strip()


VALUES = [
    (DivisionError, "floor_divide", (LONG, 0)),
    (DivisionError, "remainder", (LONG, np.array([1, 0]))),
    (DivisionError, "fmod", (BYTE, 0)),
    (DivisionError, "_div_trunc", (LONG, 0)),
    (DTypeError, "pow", (LONG, -1)),
    (DTypeError, "add", (LONG, LONG, 0.5)),
    (UsageError, "gelu", (FLOAT, "tan")),
    (UsageError, "clamp", (FLOAT,)),
]


@pytest.mark.parametrize(("error", "name", "args"), VALUES, ids=lambda value: value if isinstance(value, str) else "")
def test_refused_for_its_numbers(error: type[Exception], name: str, args: tuple[Any, ...]) -> None:
    op = REGISTRY[f"aten::{name}"]
    positional = len([a for a in op.arguments if not a.kwarg_only])
    named = {a.name: v for a, v in zip(op.arguments[positional:], args[positional:], strict=False)}
    run(name, *([ones("int64")] * positional)) if name in ("floor_divide", "pow") else None  # a good call first
    with pytest.raises(error):
        run(name, *args[:positional], **named)


LOWEST = np.iinfo(np.int64).min


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("floor_divide", -7, 2, -4),
        ("floor_divide", LOWEST, -1, LOWEST),
        ("_div_trunc", -7, 2, -3),
        ("_div_trunc", LOWEST, -1, LOWEST),
        ("remainder", -7, 2, 1),
        ("remainder", 7, -2, -1),
        ("remainder", LOWEST, -1, 0),
        ("fmod", -7, 2, -1),
        ("fmod", LOWEST, -1, 0),
        ("mul", LOWEST, -1, LOWEST),
        ("add", LOWEST, -1, np.iinfo(np.int64).max),
        ("pow", 3, 41, 3**41 - 2**64 * round(3**41 / 2**64)),
        ("pow", 0, 0, 1),
    ],
)
def test_integer_arithmetic_wraps_and_rounds_down(name: str, a: int, b: int, expected: int) -> None:
    assert run(name, np.array([a]), np.array([b])).tolist() == [expected]


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("round", (np.array([0.5, 1.5, 2.5, -0.5]),), [0, 2, 2, -0.0]),
        ("sign", (np.array([math.nan, -0.0, -3.0]),), [0.0, 0.0, -1.0]),
        ("pow", (np.array([0.0, -8.0, 4.0]), np.array([0.0, 1 / 3, 0.5])), [1.0, math.nan, 2.0]),
        ("mul", (np.array([0.0]), math.inf), [math.nan]),
        ("maximum", (np.array([math.nan, 1.0]), np.array([1.0, math.nan])), [math.nan, math.nan]),
        ("clamp", (np.array([math.nan, -5.0]), -1, 1), [math.nan, -1.0]),
        ("relu", (np.array([math.nan, -1.0]),), [math.nan, 0.0]),
        ("argmax", (np.array([1.0, math.nan, 2.0, math.nan]),), 1),
        ("softmax", (np.array([-math.inf, -math.inf]), 0), [math.nan, math.nan]),
        ("logsumexp", (np.array([-math.inf, -math.inf]), (0,)), -math.inf),
        ("atan2", (np.array([0.0, -0.0]), np.array([-0.0, -0.0])), [math.pi, -math.pi]),
        ("mul", (np.array([1e-40], np.float32), 0.5), [float(np.float32(5e-41))]),
        ("prod", (np.zeros((0,)),), 1.0),
        ("sum", (np.zeros((0,)),), 0.0),
        ("mean", (np.zeros((0,)),), math.nan),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_special_numbers(name: str, args: tuple[Any, ...], expected: Any) -> None:
    np.testing.assert_array_equal(run(name, *args), expected)


def test_half_rounds_once_at_the_end() -> None:
    """2048 ones and a few more: a sum that rounded at every step would stay at 2048."""
    assert run("sum", np.ones(2051, np.float16)) == np.float16(2052)
    tiny = np.full(3, 2.0**-12, np.float16)
    assert run("addcmul", np.ones(3, np.float16), tiny, tiny, value=2.0**14).tolist() == [1.0009765625] * 3


def test_numbers_meet_integers_of_the_same_width() -> None:
    assert run("add", BYTE, -1).tolist() == [0, 0]
    assert run("add", BYTE, BYTE, alpha=300).tolist() == [45, 45]
    assert run("full_like", BYTE, -1).tolist() == [255, 255]
    with pytest.raises(UsageError, match="does not fit into uint8"):
        run("full_like", BYTE, 257)


def test_lerp_hits_both_ends() -> None:
    start, end = np.array([0.1, 1e8], np.float32), np.array([0.7, 1.0], np.float32)
    assert run("lerp", start, end, 0).tolist() == start.tolist()
    assert run("lerp", start, end, 1).tolist() == end.tolist()


@pytest.mark.parametrize("op", [op for op in REGISTRY.values() if op.shows_all], ids=lambda op: op.name)
def test_a_view_that_shows_all_leaves_nothing_out(op: Any) -> None:
    for sample in op.sampler():
        array, *rest = op.bind(*sample.args, **sample.kwargs)
        shown = op.body(Geometry.contiguous(array.shape), *rest)
        assert shown.offset == 0
        assert 0 in shown.sizes or math.prod(n for n, s in zip(shown.sizes, shown.strides) if s) == array.size


def test_only_lists_of_tensors_are_given_one_by_one():
    spreading = [op for op in REGISTRY.values() if op.spreads]
    assert spreading
    assert all(any(a.type.base == "Tensor" and a.type.is_list for a in op.arguments) for op in spreading)
