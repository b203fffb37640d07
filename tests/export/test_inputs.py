"""What becomes of the arguments: each its own input of the model, whatever the caller has given twice."""

import numpy as np
import pytest

import jit
from jit import nn
from jit.export.verification import open_engine
from jit.ir.errors import ExportError


def run(f, args, feeds, tmp_path, **options):
    path = str(tmp_path / "model.onnx")
    report = jit.export_onnx(f, args, path, **options)
    assert report.verified is not None
    return list(open_engine(path)[1](dict(zip(report.inputs, feeds, strict=True))).values())


X = jit.randn(2, 3)
GIVEN = {
    "twice": ((X, X), {}), "thrice": ((X, X, X), {}), "in a list": (([X, X], X), {}), "in a dict": (({"k": X}, X), {}),
    "by name": ((X,), {"b": X}), "as another object": ((X, X.detach()), {}), "as a view": ((X, X.view(2, 3)), {}),
}  # fmt: skip


def total(*items, **named):
    """One more for each tensor in a nest."""
    flat: list = []
    for item in (*items, *named.values()):
        flat += item if isinstance(item, list) else item.values() if isinstance(item, dict) else [item]
    return sum(((k + 1) * x for k, x in enumerate(flat)), jit.zeros(2, 3))


@pytest.mark.parametrize("given", GIVEN)
def test_a_tensor_that_is_given_twice_is_two_inputs(given, tmp_path):
    args, kwargs = GIVEN[given]
    count = 3 if given in ("thrice", "in a list") else 2
    feeds = [np.full((2, 3), 10.0**k, np.float32) for k in range(count)]
    (found,) = run(total, args, feeds, tmp_path, kwargs=kwargs)
    assert np.allclose(found, sum((k + 1) * feed for k, feed in enumerate(feeds)))


def test_self_attention_takes_one_tensor_three_times(tmp_path):
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = jit.randn(1, 4, 8)
    feeds = [np.random.default_rng(k).standard_normal((1, 4, 8)).astype(np.float32) for k in range(3)]
    found = run(attention, (x, x, x), feeds, tmp_path)
    expected = attention.eval()(*map(jit.from_numpy, feeds))
    assert np.allclose(found[0], expected[0].detach().numpy(), atol=1e-5)


def test_sizes_of_a_tensor_that_is_given_twice_may_vary():
    report = jit.export_onnx(lambda a, b: a + b, (X, X), dynamic_axes={"a": {0: "n"}, "b": {0: "n"}})
    assert report.verified is not None and len(report.verified.sizes) == 2


def test_gradients_by_a_tensor_that_is_given_twice_are_two():
    x = jit.randn(3, requires_grad=True)
    report = jit.export_onnx(lambda a, b: a * b * b, (x, x), stage=1)
    assert len(report.outputs) == 2 and x.grad is None


@pytest.mark.parametrize("f", [lambda a, b: a.add_(1) * b, lambda a, b: b.mul_(2) * a], ids=["first", "second"])
def test_writing_to_a_tensor_that_is_given_twice_is_refused(f):
    x = jit.ones(2, 3)
    with pytest.raises(ExportError, match="was given for another argument, too"):
        jit.export_onnx(f, (x, x))
    assert (x == 1).all()
    assert jit.export_onnx(f, (x, x.clone())).verified is not None


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("axes", [None, {"input": {0: "n"}}])
def test_initializers_may_stay_inputs(stage, axes):
    if stage and axes:
        axes = {**axes, "grad": {0: "n"}}
    report = jit.export_onnx(nn.Linear(3, 2), X, keep_initializers_as_inputs=True, stage=stage, dynamic_axes=axes)
    assert report.verified is not None and (stage or list(report.inputs) == ["input", "weight", "bias"])


def test_tensors_that_require_grad_do_so_in_the_verification():
    x = jit.randn(2, 3, requires_grad=True)
    assert jit.export_onnx(lambda t: t * (2 if t.requires_grad else 3), x).verified is not None
