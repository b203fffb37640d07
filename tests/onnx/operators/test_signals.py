"""Fourier transforms against numpy's, windows and mel filters against their definitions."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from jit.ir.errors import ModelError
from jit.onnx.backend import prepare

from .checking import by_reference, check, check_gradients, model_of, random

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def pairs(x):
    return np.stack([x.real, x.imag], -1)


def transform(x, length=None, axis=None, opset=20, **attributes):
    """A DFT whose length and axis are constants; they are attributes or operands by the opset."""
    constants = {} if length is None else {"length": np.int64(length)}
    names = ["x", "length" if length is not None else ""]
    if axis is not None and opset >= 20:
        constants["axis"] = np.int64(axis)
        names.append("axis")
    elif axis is not None:
        attributes["axis"] = axis
    model = model_of(helper.make_node("DFT", names, ["y"], **attributes), {"x": x}, ["y"], opset)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    return model, {"x": x}


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("axis", [0, 1, 2, -2, -3])
@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("onesided", [0, 1])
def test_of_real_signals(opset, axis, length, onesided):
    x = random(3, 6, 5, 1)
    run = np.fft.rfft if onesided else np.fft.fft
    expected = pairs(run(x[..., 0], length, axis % 4)).astype(np.float32)
    check(*transform(x, length, axis, opset, onesided=onesided), [expected], **TOLERANCE, traced=axis == 1)


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [None, 4, 9])
def test_of_complex_signals(inverse, length):
    x = random(3, 6, 2)
    run = np.fft.ifft if inverse else np.fft.fft
    expected = pairs(run(x[..., 0] + 1j * x[..., 1], length, 1)).astype(np.float32)
    check(*transform(x, length, 1, inverse=inverse), [expected], **TOLERANCE)


@pytest.mark.parametrize("length", [None, 10, 11, 5])
def test_back_to_real_signals(length):
    x = random(3, 6, 2)
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, 1)[..., None].astype(np.float32)
    check(*transform(x, length, 1, inverse=1, onesided=1), [expected], **TOLERANCE)


def test_the_default_axis_is_another_from_opset_20_on():
    x = random(3, 6, 5, 1)
    for opset, axis in ((17, 1), (20, 2)):
        check(*transform(x, opset=opset), [pairs(np.fft.fft(x[..., 0], axis=axis)).astype(np.float32)], **TOLERANCE)


def test_what_is_no_signal():
    for x, axis, words in ((random(3, 6, 3), 1, "one element or two, not 3"), (random(3, 6, 1), 2, "before the last")):
        with pytest.raises(ModelError, match=words):
            prepare(transform(x, None, axis)[0], traced=False).run([x])


@pytest.mark.parametrize("attributes", [{}, {"onesided": 1}])
def test_gradients_of_transforms(attributes):
    x = random(2, 5, 1, dtype=np.float64)
    check_gradients(*transform(x, None, 1, **attributes), ["x"])


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("window", "length", "step"), [(False, 6, 3), (True, None, 2), (True, 8, 5), (False, None, 4)])
def test_frames(onesided, window, length, step):
    x = random(2, 20, 1)
    constants = {"step": np.int64(step)}
    constants |= {"window": np.abs(random(8, seed=1))} if window else {}
    constants |= {"length": np.int64(length)} if length else {}
    names = [name if name in constants else "" for name in ("step", "window", "length")]
    node = helper.make_node("STFT", ["x", *names], ["y"], onesided=onesided)
    model = model_of(node, {"x": x}, ["y"], 17)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    size = 8 if window else length or 20
    frames = np.stack([x[:, at : at + size, 0] for at in range(0, 20 - size + 1, step)], 1)
    run = np.fft.rfft if onesided else np.fft.fft
    expected = pairs(run(frames * constants.get("window", np.float32(1)))).astype(np.float32)
    check(model, {"x": x}, [expected], **TOLERANCE)


def test_frames_of_complex_signals():
    x = random(2, 12, 2)
    model = model_of(helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=0), {"x": x}, ["y"], 17)
    window = np.abs(random(4, seed=1))
    constants = {"step": np.int64(4), "window": window}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    frames = (x[..., 0] + 1j * x[..., 1]).reshape(2, 3, 4) * window
    check(model, {"x": x}, [pairs(np.fft.fft(frames)).astype(np.float32)], **TOLERANCE)


@pytest.mark.parametrize("kind", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("element", [onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16])
def test_windows(kind, periodic, element):
    node = helper.make_node(kind, ["n"], ["y"], periodic=periodic, output_datatype=element)
    for size in (2, 7, 16):
        angles = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
        expected = {
            "HannWindow": 0.5 - 0.5 * np.cos(angles),
            "HammingWindow": 25 / 46 - 21 / 46 * np.cos(angles),
            "BlackmanWindow": 0.42 - 0.5 * np.cos(angles) + 0.08 * np.cos(2 * angles),
        }[kind].astype(helper.tensor_dtype_to_np_dtype(element))
        given = {"n": np.int64(size)}
        check(model_of(node, given, ["y"], 17), given, [expected], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("bins", "length", "rate", "low", "high"), [
    (8, 16, 8192, 0.0, 4096.0), (20, 512, 16000, 20.0, 7600.0), (40, 400, 16000, 0.0, 8000.0), (3, 8, 100, 1.0, 30.0),
])  # fmt: skip
def test_mel_filters(bins, length, rate, low, high):
    given: dict[str, Any] = {"bins": np.int64(bins), "length": np.int64(length), "rate": np.int64(rate)}
    given |= {"low": np.float32(low), "high": np.float32(high)}
    model = model_of(helper.make_node("MelWeightMatrix", list(given), ["y"]), given, ["y"], 17)
    check(model, given, by_reference)
