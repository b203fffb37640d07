"""Sizes that depend on elements are symbolic dims of the exported model, as long as nobody decides on them."""

import numpy as np
import onnxruntime
import pytest

import jit
from jit import nn
from jit.export import verify_model
from jit.ir.errors import ExportError
from jit.nn import functional as F
from jit.tracing import exporting

X = ([1.0, -1.0, 2.0, -3.0], [-1.0, -1.0, 2.0, -3.0], [1.0, 1.0, 2.0, 3.0], [-1.0, -1.0, -1.0, -1.0])
M = ([[1.0, -1.0], [2.0, 3.0], [-1.0, -2.0]], [[-1.0, -1.0], [-2.0, 3.0], [-1.0, -2.0]], [[3.0, 1.0]] * 3)
INTEGERS = ([1, 1, 3], [0, 5, 1])

CASES = {
    "mask": (lambda x: x[x > 0] * 2, X),
    "sum": (lambda x: x[x > 0].sum(), X),
    "softmax": (lambda x: x[x > 0].softmax(0), X[:3]),
    "sort": (lambda x: x[x > 0].sort().values, X),
    "rows": (lambda x: x[x[:, 0] > 0] @ x.t(), M),
    "columns": (lambda x: x[:, x[0] > 0], M),
    "reshape": (lambda x: x[x > 0].reshape(-1, 1), M),
    "view by the size": (lambda x: (y := x[x > 0]).view(y.shape[0], 1), M),
    "half of it": (lambda x: (y := x[x > 0])[: y.shape[0] // 2], X),
    "half that is written": (lambda x: (y := x[x > 0] * 1, y[: y.shape[0] // 2].zero_(), y)[2], X),
    "all but two that are written": (lambda x: (y := x[x > 0] * 1, y[: y.shape[0] - 2].mul_(3), y)[2], X),
    "more than all that is written": (lambda x: (y := x[x > 0] * 1, y[: y.shape[0] + 2].add_(3), y)[2], X),
    "entry that is written": (lambda x: (y := x[x > 0] * 1, y[y.shape[0] // 2].zero_(), y)[2], X[:3]),
    "the size as a number": (lambda x: x[x > 0].shape[0] * x, M),
    "the size of another tensor": (lambda x: (jit.zeros(x[x > 0].shape[0], 2), jit.arange(x[x > 0].shape[0])), M),
    "cat": (lambda x: jit.cat([x[x > 0], x.flatten()]), M),
    "nonzero": (lambda x: (x > 0).nonzero(), M),
    "nonzero as a tuple": (lambda x: jit.nonzero(x > 0, as_tuple=True), M),
    "gather": (lambda x: x[(x > 0).nonzero()[:, 0]], X),
    "masked_select": (lambda x: jit.masked_select(x, x[:1] > 0), M),
    "unique": (lambda x: jit.unique(x, return_inverse=True, return_counts=True), X),
    "unique rows": (lambda x: jit.unique(x, dim=0), M),
    "runs": (lambda x: jit.unique_consecutive(x > 0, return_inverse=True, return_counts=True), M),
    "runs of columns": (lambda x: jit.unique_consecutive(x > 0, dim=1, return_counts=True), M),
    "bincount": (lambda x: jit.bincount(x), INTEGERS),
    "one_hot": (lambda x: F.one_hot(x), INTEGERS),
}  # fmt: skip


def run(model, *inputs):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)})


def assert_equal(found, expected):
    expected = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(found, expected, strict=True):
        b = b.detach().numpy()
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_model_is_right_for_other_data(name, tmp_path):
    function, data = CASES[name]
    traced, *others = map(jit.tensor, data)
    path = tmp_path / "model.onnx"
    jit.export_onnx(function, traced, path)
    for x in (traced, *others):
        assert_equal(run(path, x), function(x))


def test_the_dim_has_no_size():
    report = jit.export_onnx(lambda x: x[x > 0] * 2, jit.tensor(X[0]))
    assert report.outputs == {"output": "float32 (?,)"}


def test_with_a_dynamic_axis(tmp_path):
    def rows(x):
        return x[x[:, 0] > 0].reshape(-1)

    path = tmp_path / "model.onnx"
    jit.export_onnx(rows, jit.tensor(M[0]), path, dynamic_axes={"x": {0: "rows"}})
    for data in (*M, M[0][:1], M[0] * 3):
        assert_equal(run(path, jit.tensor(data)), rows(jit.tensor(data)))


def test_sequences_are_packed(tmp_path):
    net = nn.GRU(2, 3)

    def packed(x, lengths):
        out, last = net(nn.utils.rnn.pack_padded_sequence(x, lengths))
        return nn.utils.rnn.pad_packed_sequence(out)[0], last

    x = jit.arange(12).reshape(3, 2, 2).float() / 10
    path = tmp_path / "model.onnx"
    jit.export_onnx(packed, (x, jit.tensor([3, 2])), path)
    for lengths in ([3, 2], [2, 2], [3, 1]):
        found = run(path, x, jit.tensor(lengths))
        for a, b in zip(found, packed(x, jit.tensor(lengths)), strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_other_data_is_part_of_the_verification(monkeypatch):
    seen: list[int] = []

    def spied(exported, feeds, expected, **options):
        seen.extend(len(results[0]) for results in expected)
        return verify(exported, feeds, expected, **options)

    verify = verify_model
    monkeypatch.setattr(exporting, "verify_model", spied)
    jit.export_onnx(lambda x: x[x > 0], jit.tensor(X[0]))
    assert seen == [2, 2, 2, 4]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (2 if x[x > 0].shape[0] > 1 else 3),
        lambda x: sum(part for part in x[x > 0]),
    ],
    ids=["comparison", "loop"],
)
def test_decisions_on_them_are_refused(function):
    with pytest.raises(
        ExportError, match=r"a decision at test_open_sizes\.py:\d+ in <lambda>: Python decided on the cont"
    ):
        jit.export_onnx(function, jit.tensor(X[0]))
