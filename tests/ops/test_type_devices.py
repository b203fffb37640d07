"""Type rules: the results of operators lie where the operands do, or where `device` says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.ir import TensorType
from jit.ir.dtypes import from_numpy
from jit.ir.errors import Error
from jit.ir.op import REGISTRY, Op
from tests.registry_cases import all_cases, mapped

PRIMITIVES = [op for op in REGISTRY.values() if op.kind != "composite"]


def on_gpu(array: np.ndarray) -> TensorType:
    return TensorType(from_numpy(array.dtype), array.shape, None, "cuda:0")


@pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)
def test_results_lie_where_operands_do(op: Op) -> None:
    names = op.schema.argument_names
    for case in all_cases(op):
        given = {name: mapped(value, on_gpu) for name, value in case.sample.kwargs.items()}
        values: list[Any] = list(op.bind(*(mapped(value, on_gpu) for value in case.sample.args), **given))
        if "device" in names and not op.tensors:
            values[names.index("device")] = "cuda:0"
        try:
            found = op.infer(values)
        except Error:  # a sample of a refusal, or numbers that are no argument yet
            continue
        assert all(type.device == "cuda:0" for type in found if isinstance(type, TensorType) and type.dtype)
