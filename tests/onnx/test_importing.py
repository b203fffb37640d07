"""Imported models are traced modules: sizes stay open, weights have names and gradients, and they can be kept."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import jit
from jit import nn
from jit.ir.errors import ModelError, UsageError
from jit.nn import functional as F


def exported(function, args, path, **options):
    jit.export_onnx(function, args, path, **options)
    return jit.import_onnx(path)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.ModuleDict({"out": nn.Linear(4, 3)})

    def forward(self, images):
        x = F.interpolate(F.relu(self.norm(self.conv(images))), scale_factor=2.0)
        return self.head["out"](x.mean((2, 3)))


def test_a_recording_serves_all_sizes(tmp_path):
    net = Net().eval()
    axes = {"images": {0: "batch", 2: "height", 3: "width"}}
    imported = exported(net, jit.randn(2, 2, 6, 8), tmp_path / "net.onnx", dynamic_axes=axes)
    with jit.no_grad():
        for shape in ((2, 2, 6, 8), (3, 2, 8, 6), (4, 2, 9, 9), (5, 2, 6, 8), (2, 2, 12, 4), (7, 2, 5, 5)):
            x = jit.randn(*shape)
            np.testing.assert_allclose(imported(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)
    assert imported.misses <= 2


@pytest.mark.parametrize("places", [1, 100])
def test_constants_do_not_keep_a_recording_from_serving_all_sizes(places):
    value = numpy_helper.from_array(np.arange(places * 3, dtype=np.float32).reshape(places, 3), "c")
    node = onnx.helper.make_node("Constant", [], ["c"], value=value)
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[n, places, 3] x) => (float[n, places, 3] y) '
        "{ a = Add(x, c) y = Mul(a, c) }"
    )
    model.graph.node.insert(0, node)
    imported = jit.import_onnx(model)
    for count in (2, 3, 4, 5, 2, 3):
        x, c = jit.randn(count, places, 3), jit.from_numpy(numpy_helper.to_array(value))
        assert imported(x).tolist() == ((x + c) * c).tolist()
    assert imported.misses <= 2


def test_sizes_that_are_computed_are_no_data():
    model = parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20]> g (float[a, b, c] x) => (float[p, q] y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] rest = {-1}, int64 half = {2}> {
            shape = Shape(x) first = Gather(shape, zero) last = Gather(shape, two)
            sum = Add(first, last) product = Mul(sum, two) part = Div(product, half) back = Sub(part, last)
            wanted = Concat<axis = 0>(back, rest) y = Reshape(x, wanted)
        }"""
    )
    imported = jit.import_onnx(model)
    for sizes in ((2, 3, 4), (3, 2, 5), (4, 6, 7), (5, 3, 2)):
        assert list(imported(jit.ones(*sizes)).shape) == [sizes[0], sizes[1] * sizes[2]]
    assert imported.misses <= 2


def test_weights_have_their_names_and_learn(tmp_path):
    net = Net().eval()
    imported = exported(net, jit.randn(2, 2, 6, 6), tmp_path / "net.onnx", fold=False)
    names = {name for name, _ in net.named_parameters()}
    assert names <= {name for name, _ in imported.named_parameters()}
    assert not any(p.requires_grad for p in imported.parameters())
    imported.requires_grad_()
    x = jit.randn(2, 2, 6, 6)
    (imported(x) ** 2).sum().backward()
    (net(x) ** 2).sum().backward()
    mine = dict(imported.named_parameters())
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(mine[name].grad.numpy(), parameter.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_copies_pickles_and_artifacts_compute_the_same(tmp_path):
    imported = exported(Net().eval(), jit.randn(2, 2, 6, 6), tmp_path / "net.onnx")
    x = jit.randn(2, 2, 6, 6)
    wanted, module = imported(x).numpy(), imported.__wrapped__
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert np.array_equal(other(x).numpy(), module(x).numpy())
    imported(x)
    imported.save(tmp_path / "net.jit")
    np.testing.assert_allclose(jit.load(tmp_path / "net.jit")(x).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_it_is_exported_again(tmp_path):
    imported = exported(Net().eval(), jit.randn(2, 2, 6, 6), tmp_path / "a.onnx")
    again = exported(imported, jit.randn(2, 2, 6, 6), tmp_path / "b.onnx", dynamic_axes={"x": [0]}, input_names=["x"])
    x = jit.randn(2, 2, 6, 6)
    np.testing.assert_allclose(again(x).numpy(), imported(x).numpy(), rtol=1e-4, atol=1e-5)


def test_inputs_go_by_place_and_by_name(tmp_path):
    imported = exported(lambda a, b: a - b, (jit.ones(2), jit.ones(2)), tmp_path / "m.onnx")
    a, b = jit.tensor([1.0, 2.0]), np.array([3.0, 5.0], np.float32)
    assert imported(a, b).tolist() == imported(a, b=jit.from_numpy(b)).tolist() == [-2.0, -3.0]
    for args, kwargs in (((a,), {}), ((a, a, a), {}), ((a,), {"c": a}), ((a, a), {"a": a})):
        with pytest.raises(ModelError, match="a, b"):
            imported(*args, **kwargs)


def test_what_is_no_model_is_refused(tmp_path):
    for content in (b"", b"hello", b"\x00" * 100):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(ModelError, match="no ONNX model"):
            jit.import_onnx(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="cannot read"):
        jit.import_onnx(tmp_path / "none.onnx")
    with pytest.raises(UsageError, match="not the path"):
        jit.import_onnx(3)  # type: ignore[arg-type]


def test_data_outside_of_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (tmp_path / "models").mkdir()
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[4] x) => (float[4] y) {y = Add(x, w)}'
    )
    weight = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="../secret")
    model.graph.initializer.append(weight)
    (tmp_path / "models" / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError):
        jit.import_onnx(tmp_path / "models" / "m.onnx")


def test_data_beside_the_model_is_read(tmp_path):
    net = nn.Linear(300, 200)
    x = jit.randn(2, 300)
    imported = exported(net, x, tmp_path / "m.onnx", external_data="always")
    assert (tmp_path / "m.onnx.data").exists()
    np.testing.assert_allclose(imported(x).numpy(), net(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_an_operator_of_ones_own():
    @jit.onnx.operator("Scaled", domain="test.domain")
    def scaled(x: jit.Tensor, *, by: float = 2.0):
        return x * by

    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20, "test.domain" : 1]> g (float[n] x) => (float[n] y) '
        "{y = test.domain.Scaled<by = 3.0>(x)}"
    )
    assert jit.import_onnx(model)(jit.ones(2)).tolist() == [3.0, 3.0]
    model.graph.node[0].op_type = "Unheard"
    with pytest.raises(ModelError, match=r"Unheard of test\.domain 1 is not known"):
        jit.import_onnx(model)(jit.ones(2))
