"""Every primitive operator, run on its samples: against float64 references, and against its type rule.

References are plain functions of numpy arrays, by operator, in the tables `REFERENCES` of tests/ops/references/*.py.
Composites, gradients, traces and exports are walked with Tensors, in tests/ops/test_registry.py.
"""

from typing import Any

import numpy as np
import pytest

import jit.ops  # noqa: F401  (fills the registry)
from jit.ir import dtypes
from jit.ir.op import REGISTRY, Op
from jit.ir.samples import Sample
from jit.ir.types import UNDEFINED, TensorType, contiguous_strides
from jit.runtime.arrays.execute import execute
from tests.ops.references import table_of_references
from tests.tolerances import assert_close, widened

PRIMITIVES = [op for op in REGISTRY.values() if op.kind != "composite"]

SIZES_FROM_DATA = {
    "aten::index.Tensor", "aten::masked_select", "aten::nonzero", "aten::one_hot", "aten::bincount", "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::_pack_padded_sequence", "aten::_pad_packed_sequence",
}  # fmt: skip
"""Operators some of whose sizes no type rule can know; all others must know every size."""

REFERENCES = table_of_references()


def arguments(op: Op, sample: Sample) -> list[Any]:
    """The sample as schema-ordered arguments: lists as tuples, single numbers as the lists that the schema wants."""
    return [_argument(a, v) for a, v in zip(op.arguments, op.bind(*sample.args, **sample.kwargs), strict=True)]


def _argument(argument: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if argument.type.is_list and argument.type.base != "Tensor" and isinstance(value, (int, float)):
        return (value,) * (argument.type.list_size or 1)
    return value


def each(value: Any, function: Any) -> Any:
    """`function` of an array, or of the arrays in a tuple; everything else as it is."""
    if isinstance(value, tuple):
        return tuple(each(item, function) for item in value)
    return function(value) if isinstance(value, np.ndarray) else value


def type_of(array: np.ndarray) -> TensorType:
    """The type of an array, its strides included."""
    strides = tuple(s // array.itemsize for s in array.strides)
    contiguous = strides == contiguous_strides(array.shape)
    return TensorType(dtypes.from_numpy(array.dtype), array.shape, None if contiguous else strides)


def wide(array: np.ndarray) -> np.ndarray:
    """Floats as float64; integers and bools as they are."""
    return array if array.dtype.kind in "iub" else widened(array)


def samples_of(op: Op) -> list[Sample]:
    """The samples, or a failure that says where they are missing."""
    if op.sampler is None:
        pytest.fail(f"{op.name} has no samples: attach @{op.body.__name__}.samples in {op.module.replace('.', '/')}.py")
    return list(op.sampler())


@pytest.mark.parametrize("op", REGISTRY.values(), ids=lambda op: op.name)
def test_has_samples(op: Op) -> None:
    assert samples_of(op), f"{op.name}: samples() in {op.module} yields nothing"


@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op.kind in ("pointwise", "array")], ids=lambda op: op.name)
def test_value(op: Op) -> None:
    if op.name not in REFERENCES:
        pytest.fail(f"{op.name} has no reference: add a float64 function to REFERENCES in tests/ops/references/")
    for sample in samples_of(op):
        values = arguments(op, sample)
        got = execute(op, values)
        with np.errstate(all="ignore"):
            want = REFERENCES[op.name](*(each(v, wide) for v in values))
            want = want if isinstance(want, (tuple, list)) else (want,)
            assert len(got) == len(want)
            for a, b in zip(got, want, strict=True):
                if a is None:
                    assert b is None
                    continue
                rounded = np.asarray(b).astype(a.dtype)
                assert_close(a, rounded, message=f"{op.name}, sample {sample.note or sample}")


@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op.kind != "random"], ids=lambda op: op.name)
def test_type_rule(op: Op) -> None:
    for sample in samples_of(op):
        values = arguments(op, sample)
        got = execute(op, values)
        types = op.infer([each(v, type_of) for v in values])
        many = op.schema.returns[0].type.is_list
        assert many or len(got) == len(types) == len(op.schema.returns)
        for array, type in zip(got, types, strict=True):
            if array is None:
                assert type == UNDEFINED
                continue
            assert isinstance(type, TensorType)
            unknown = op.name in SIZES_FROM_DATA and type.shape is not None and None in type.shape
            shape = tuple(None if n is None else size for n, size in zip(type.shape or (), array.shape, strict=False))
            found = dtypes.from_numpy(array.dtype), shape if unknown else array.shape
            assert found == (type.dtype, type.shape), f"{op.name}: {sample}"


@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op.kind in ("pointwise", "array")], ids=lambda op: op.name)
def test_inputs_are_left_alone(op: Op) -> None:
    """A primitive that is no view changes no input and shares memory with none."""
    for sample in samples_of(op):
        values = arguments(op, sample)
        before = each(tuple(values), np.copy)
        got = execute(op, values)
        for value, copy in zip(values, before, strict=True):
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(widened(value), widened(copy))
                assert not any(np.shares_memory(value, result) for result in got), f"{op.name}: {sample}"
