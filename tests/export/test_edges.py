"""Edges: tensors without elements or dims, 16-bit sums, and settings that onnxruntime does not take as they are."""

from __future__ import annotations

from typing import Any

import pytest

import jit
import jit.nn.functional as F
from jit import nn
from jit.ir.errors import ExportError

EMPTY, ROWS, PLACES = jit.randn(0, 3), jit.randn(3, 4), jit.tensor([1, 1])


def verified(function: Any, *args: Any, **options: Any) -> bool:
    return jit.export_onnx(function, args, **options).verified is not None


@pytest.mark.parametrize("function", [
    lambda a: a.unfold(1, 2, 1), lambda a: a.reshape(-1, 3), lambda a: a.reshape(3, -1), lambda a: a.flatten(),
    lambda a: a.mean(), lambda a: a.mean(0), lambda a: a.mean(1, keepdim=True), lambda a: jit.var_mean(a),
    lambda a: jit.std_mean(a, 0), lambda a: a.var(0, unbiased=False), lambda a: a.sum(0), lambda a: a.prod(),
    lambda a: a.softmax(1), lambda a: a.topk(1, 1), lambda a: jit.cat([a, a]), lambda a: a.amax(1), nn.LayerNorm(3),
    nn.Linear(3, 2), nn.BatchNorm1d(3), nn.RMSNorm(3), lambda a: a[:, 0], lambda a: a.cumsum(1),
])  # fmt: skip
def test_no_rows(function):
    assert verified(function, EMPTY)


@pytest.mark.parametrize("function", [
    lambda a: F.unfold(a, 2), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.Conv2d(4, 2, 3), nn.MaxPool2d(2),
    lambda a: F.interpolate(a, scale_factor=2), nn.Upsample((5, 7)), nn.AdaptiveAvgPool2d(1),
])  # fmt: skip
def test_no_images(function):
    assert verified(function, jit.randn(0, 4, 6, 5))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_no_sequences(layer):
    assert verified(layer(3, 4), jit.randn(2, 0, 3))


def test_a_batch_that_may_be_empty():
    for function in (lambda a: F.unfold(a, 2), nn.GroupNorm(2, 4), nn.Conv2d(4, 2, 3)):
        axes = {("a" if not isinstance(function, nn.Module) else "input"): {0: ("batch", 0, None)}}
        assert verified(function, jit.randn(2, 4, 6, 5), dynamic_axes=axes)


@pytest.mark.parametrize(("function", "args"), [
    (lambda a: a.nonzero(), (jit.tensor(3.0),)), (lambda a: a.nonzero(), (jit.tensor(0.0),)),
    (lambda a, i: a.gather(0, i), (jit.tensor(3.0), jit.tensor(0))), (lambda i: F.one_hot(i, 4), (jit.tensor(2),)),
    (lambda a, i: a.index_fill(0, i, 2.0), (jit.tensor(1.0), jit.tensor([0]))), (lambda a: a.mean(), (ROWS.sum(),)),
    (lambda a, i, s: a.index_add(0, i, s), (jit.tensor(1.0), jit.tensor([0]), jit.tensor([2.0]))),
    (lambda a, i, s: a.index_copy(0, i, s), (jit.tensor(1.0), jit.tensor([0]), jit.tensor([2.0]))),
    (lambda a, i: a.index_fill(0, i, 2.0), (ROWS, jit.tensor(1))),
    (lambda a, i, s: a.index_copy(0, i, s), (ROWS[0], jit.tensor([1]), jit.tensor(2.0))),
])  # fmt: skip
def test_no_dims(function, args):
    assert verified(function, *args)


@pytest.mark.parametrize("function", [
    lambda a, s: a.index_add(0, PLACES, s), lambda a, s: a.index_add(1, PLACES, s.T),
    lambda a, s: a.scatter_add(0, PLACES[:, None].expand(2, 3), s), lambda a, s: a.index_put((PLACES,), s, True),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [jit.float16, jit.float32, jit.float64, jit.int64, jit.int32])
def test_sums_of_rows_in_every_dtype(function, dtype):
    assert verified(function, (jit.randn(3, 3) * 5).to(dtype), (jit.randn(2, 3) * 5).to(dtype))


@pytest.mark.parametrize("settings", [
    dict(stride=2, dilation=3, output_padding=2, padding=1), dict(stride=2, dilation=3, output_padding=2),
    dict(stride=2, dilation=3, output_padding=2, padding=2), dict(dilation=2, output_padding=1, bias=False),
    dict(stride=2, dilation=4, output_padding=3, padding=1, groups=2), dict(stride=3, output_padding=2),
])  # fmt: skip
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_with_much_output_padding(dims, settings):
    layer = getattr(nn, f"ConvTranspose{dims}d")(2, 4, 3, **settings)
    assert verified(layer, jit.randn(1, 2, *[4] * dims), dynamic_axes={"input": {0: "batch"}})


@pytest.mark.parametrize("pads", [(1, 1), (4, 4), (-1, 2), (1, -2), (0, 3)])
@pytest.mark.parametrize("mode", ["circular", "replicate", "reflect", "constant"])
def test_pads_of_every_kind(mode, pads):
    if mode == "reflect" and max(pads) > 3:
        return
    if mode == "circular" and min(pads) < 0:
        with pytest.raises(ExportError, match="cut and wrap around at once"):
            verified(lambda a: F.pad(a, pads, mode=mode), jit.randn(1, 2, 4))
    else:
        assert verified(lambda a: F.pad(a, pads, mode=mode), jit.randn(1, 2, 4))
