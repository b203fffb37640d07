"""Places that tensors hold: `a[:, i]` with a 0-d `i` is exported as itself, and no model is for one place alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import jit
from jit.ir.errors import ExportError


def written(a: Any, i: Any) -> Any:
    b = a * 1
    b[:, i].add_(5)
    b[i] = 3
    return b


READS = {
    "a column": lambda a, i: a[:, i],
    "an element": lambda a, i: a[i, i],
    "beside a new dim": lambda a, i: a[None, :, i, None],
    "computed": lambda a, i: a[:, i - 1],
    "a number": lambda a, i: a[:, i.item()],
    "selected": lambda a, i: a.select(1, i),
    "narrowed": lambda a, i: a.narrow(1, i, 1),
    "written": written,
    "found in elements": lambda a, i: a[:, a.argmax() % 2 + i * 0],
}


@pytest.mark.parametrize("dtype", [jit.int64, jit.int32])
@pytest.mark.parametrize("name", READS)
def test_another_place_is_read(name, dtype, tmp_path):
    path, function = tmp_path / "m.onnx", READS[name]
    a = jit.from_numpy(np.arange(9, dtype=np.float32).reshape(3, 3))
    report = jit.export_onnx(function, (a, jit.tensor(1, dtype=dtype)), path, input_names=["a", "i"])
    assert report.verified is not None
    session = onnxruntime.InferenceSession(path)
    for place in (0, 1, 2):
        index = jit.tensor(place, dtype=dtype)
        feed = {"a": np.asarray(a), "i": np.asarray(index)}
        (got,) = session.run(None, {key.name: feed[key.name] for key in session.get_inputs()})
        np.testing.assert_array_equal(got, np.asarray(function(a, index)))


@pytest.mark.parametrize("opset", [9, 11, 13, 20])
def test_a_column_is_one_node(opset):
    report = jit.export_onnx(READS["a column"], (jit.randn(2, 3), jit.tensor(1)), opset_version=opset)
    assert report.op_histogram == {"Gather": 1}


def test_a_length_that_a_tensor_holds_is_a_decision_still():
    with pytest.raises(ExportError, match="Python decided"):
        jit.export_onnx(lambda a, i: a[:i], (jit.randn(3, 2), jit.tensor(2)))
