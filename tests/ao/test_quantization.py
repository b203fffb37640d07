"""Quantised networks: scales as they should be, numbers that are near, and models that runtimes compute the same."""

from typing import Any

import numpy as np
import onnx
import pytest

import jit
from jit import nn
from jit.ao.quantization import (
    FakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
    QConfig,
    convert,
    default_qat_qconfig,
    disable_fake_quant,
    disable_observer,
    fuse_modules,
    per_channel_symmetric,
    per_tensor_symmetric,
    prepare,
    prepare_qat,
    quantize_static,
)
from jit.eager.namespace import F
from jit.ir.errors import KindError, UsageError


@pytest.fixture(autouse=True)
def seeded():
    jit.manual_seed(0)


# -- observers ---------------------------------------------------------------------------------------------------


def found(observer: Any, *arrays: Any) -> tuple[Any, list[int]]:
    for array in arrays:
        tensor = jit.tensor(array)
        assert observer(tensor) is tensor
    scale, zero_point = observer.calculate_qparams()
    assert (scale.dtype, zero_point.dtype) == (jit.float32, jit.int32)
    return pytest.approx(scale.tolist(), rel=1e-6), zero_point.tolist()


@pytest.mark.parametrize(
    ("options", "scale", "zero_point"),
    [
        ({}, 4 / 255, 64),
        ({"reduce_range": True}, 4 / 127, 32),
        ({"quant_min": 0, "quant_max": 15}, 4 / 15, 4),
        ({"dtype": jit.int8}, 4 / 255, -64),
        ({"dtype": "int4"}, 4 / 15, -4),
        ({"dtype": jit.int8, "qscheme": per_tensor_symmetric}, 3 / 127.5, 0),
        ({"qscheme": per_tensor_symmetric}, 3 / 127.5, 128),
    ],
)
def test_extremes_are_provided_for(options, scale, zero_point):
    assert found(MinMaxObserver(**options), [0.5, 3.0], [-1.0, 2.0]) == ([scale], [zero_point])


def test_zero_is_provided_for():
    assert found(MinMaxObserver(), [2.0, 3.0]) == ([3 / 255], [0])
    assert found(MinMaxObserver(), [-2.0, -1.0]) == ([2 / 255], [255])
    assert found(MinMaxObserver(), [0.0, 0.0]) == ([MinMaxObserver().eps], [0])


def test_averages_begin_with_the_first_tensor():
    observer = MovingAverageMinMaxObserver(averaging_constant=0.25, dtype=jit.int8)
    assert found(observer, [-1.0, 1.0], [-5.0, 3.0]) == ([3.5 / 255], [18])


def test_each_channel_has_a_scale():
    observer = PerChannelMinMaxObserver(ch_axis=-1, dtype=jit.int8, qscheme=per_channel_symmetric)
    assert found(observer, [[1.0, -2.0], [3.0, 0.0]], [[0.0, 4.0]]) == ([3 / 127.5, 4 / 127.5], [0, 0])


def test_histograms_cut_off_what_is_rare(rng):
    numbers = np.concatenate([rng.standard_normal(20000), [40.0]]).astype(np.float32)
    errors = []
    for observer in (MinMaxObserver(dtype=jit.uint8), HistogramObserver(dtype=jit.uint8)):
        for part in np.array_split(numbers, 3):
            observer(jit.tensor(part))
        scale, zero_point = observer.calculate_qparams()
        rounded = F.fake_quantize_per_tensor_affine(jit.tensor(numbers), scale, zero_point, 0, 255)
        errors.append(float(((rounded - jit.tensor(numbers)) ** 2).mean()))
    assert float(observer.histogram.sum()) == len(numbers)
    assert errors[1] < errors[0]


def test_observers_that_have_seen_nothing_say_so():
    for observer in (MinMaxObserver(), HistogramObserver()):
        observer(jit.zeros(0, 3))
        with pytest.raises(UsageError, match="seen nothing"):
            observer.calculate_qparams()


def test_reset_observers_begin_anew():
    observer = HistogramObserver()
    observer(jit.tensor([-8.0, 9.0]))
    observer.reset_min_max_vals()
    assert found(observer, [0.0, 1.0], [0.0, 1.0]) == ([1 / 255], [0])


@pytest.mark.parametrize("options", [{"dtype": jit.float32}, {"quant_min": 3, "quant_max": 3}, {"quant_max": 300}])
def test_ranges_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        MinMaxObserver(**options)


# -- fake quantisation -------------------------------------------------------------------------------------------


def test_fake_quantisation_can_be_switched_off():
    fake = FakeQuantize(MinMaxObserver, quant_min=0, quant_max=255)
    x = jit.tensor([0.0, 0.3, 255.0], requires_grad=True)
    assert fake(x).tolist() == [0.0, 0.0, 255.0]
    network = nn.Sequential(fake)
    network.apply(disable_observer)
    assert network(jit.tensor([1.2, 1000.0])).tolist() == [1.0, 255.0]
    network.apply(disable_fake_quant)
    assert network(x) is x


def trained(traced: bool) -> tuple[list[float], Any, Any]:
    """The losses of a network that trains as it is quantised; the network, and its input."""
    jit.manual_seed(0)
    net = prepare_qat(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)))
    optimizer = jit.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = jit.randn(8, 1, 8, 8)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run: Any = jit.trace(step) if traced else step
    losses = [run(x).item() for _ in range(5)]
    assert not traced or run.hits >= 2
    return losses, net.eval(), x


def test_networks_train_with_what_rounding_does():
    losses, net, x = trained(traced=False)
    assert losses[-1] < losses[0] / 2
    assert trained(traced=True)[0] == pytest.approx(losses, rel=1e-4)
    net.apply(disable_observer)
    with jit.no_grad():
        assert jit.allclose(convert(net)(x), net(x), atol=5e-3)


# -- preparing and converting ------------------------------------------------------------------------------------


def test_qconfig_of_the_nearest_module_counts():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    net[1].qconfig = None
    net[1][1].qconfig = default_qat_qconfig
    prepared = prepare(net)
    assert not hasattr(net[0], "input_quantizer")
    assert isinstance(prepared[0].input_quantizer, HistogramObserver)
    assert not hasattr(prepared[1][0], "input_quantizer")
    assert isinstance(prepared[1][1].input_quantizer, FakeQuantize)


def test_layers_that_were_not_called_stay_in_floats():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 3))
    prepared = prepare_qat(net, inplace=True)
    assert prepared is net
    prepared[0](jit.randn(4, 2))
    with pytest.warns(UserWarning, match="1 was not called"):
        small = convert(prepared)
    assert hasattr(small[0], "quantized_weight")
    assert {name for name, _ in small[1].named_parameters()} == {"weight", "bias"}
    assert small[1](jit.ones(1, 2)).shape == (1, 3)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Linear(6, 4), (2, 5, 6)),
        (lambda: nn.Linear(6, 4, bias=False), (3, 6)),
        (lambda: nn.Conv1d(4, 6, 3, groups=2), (2, 4, 9)),
        (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 5, 5)),
        (lambda: nn.Conv3d(2, 3, 2), (1, 2, 3, 4, 5)),
        (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 5, 5)),
        (lambda: nn.ConvTranspose1d(4, 6, 3, groups=2), (2, 4, 5)),
    ],
)
def test_quantised_layers_are_near_and_export(layer, shape, per_channel):
    net, x = nn.Sequential(layer()), jit.randn(*shape)
    small = quantize_static(net, [x], per_channel=per_channel)
    with jit.no_grad():
        want, got = net(x), small(x)
    assert float((want - got).abs().max()) < 0.02 * float(want.abs().max())
    assert small[0].weight.shape == net[0].weight.shape
    report = jit.export_onnx(small, x)
    assert report.op_histogram["QuantizeLinear"] == 1
    assert report.op_histogram["DequantizeLinear"] == (2 if net[0].bias is None else 3)


def test_channels_of_zeros_keep_their_bias():
    net = nn.Sequential(nn.Linear(3, 2))
    with jit.no_grad():
        net[0].weight[0] = 0.0
        net[0].bias[0] = 1e6
    small = quantize_static(net, [jit.ones(2, 3)])
    assert small(jit.ones(1, 3))[0, 0].item() == pytest.approx(1e6, rel=1e-6)


def test_batch_norms_become_part_of_the_layers_before_them():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)
            self.second, self.other = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

        def forward(self, x):
            x = self.norm(self.first(x))
            y = self.second(x)
            return self.other(y) + y  # two users: not to be fused

    net, x = Net(), jit.randn(4, 1, 6, 6)
    net(x)
    net.eval()
    small = quantize_static(net, [x])
    assert isinstance(small.norm, nn.Identity)
    assert isinstance(small.other, nn.BatchNorm2d)
    with jit.no_grad():
        want = net(x)
        assert float((small(x) - want).abs().max()) < 0.03 * float(want.abs().max())
    by_hand = fuse_modules(net, [["first", "norm"]])
    with jit.no_grad():
        assert jit.allclose(by_hand(x), want, atol=1e-5)


def test_samples_and_arguments_in_all_forms():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(3, 2)

        def forward(self, x, y):
            return self.a(input=x) + self.b(y)

    x, y = jit.randn(4, 2), jit.randn(4, 3)
    made = [quantize_static(Net(), samples)(x, y) for samples in ([(x, y)], [{"x": x, "y": y}], iter([[x, y]]))]
    assert all(each.shape == (4, 2) for each in made)
    traced = jit.trace(nn.Sequential(nn.Linear(2, 2)))
    assert hasattr(quantize_static(traced, [x])[0], "quantized_weight")
    assert not hasattr(quantize_static(traced, [x], exclude=["0"])[0], "quantized_weight")
    chosen = QConfig(MinMaxObserver.with_args(quant_max=15), MinMaxObserver.with_args(dtype="int4"))
    assert quantize_static(traced, [x], qconfig=chosen)[0].input_quantizer.range.high == 15


def test_wrong_calls_are_refused():
    net = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(KindError, match=r"jit\.nn\.Module"):
        quantize_static(lambda x: x, [jit.ones(1)])
    with pytest.raises(UsageError, match="samples"):
        quantize_static(net, [])
    with pytest.raises(UsageError, match="no module"):
        quantize_static(net, [jit.ones(1, 2)], exclude=["fc"])
    with pytest.raises(UsageError, match="calibrate_method"):
        quantize_static(net, [jit.ones(1, 2)], calibrate_method="entropy")
    with pytest.raises(UsageError, match="float32"):
        quantize_static(net, [jit.ones(1, 2)], weight_type=jit.float32)


# -- digits ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    from examples import digits

    return digits, digits.model()


def run(path: Any, images: Any, fused: bool) -> np.ndarray:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not fused:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"images": images})[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"per_channel": False, "activation_type": "int8"},
        {"calibrate_method": "histogram"},
        {"weight_type": "int4"},
        {"weight_type": "uint8"},
    ],
    ids=str,
)
def test_digits_are_read_as_well(digits, options, tmp_path):
    example, net = digits
    images, _, tested, answers = example.load_digits()
    small = quantize_static(net, images[:512].split(64), **options)
    path = tmp_path / "digits.onnx"
    opset = 21 if options.get("weight_type") == "int4" else 20
    jit.export_onnx(small, (tested[:8],), path, dynamic_axes={"images": {0: "batch"}}, opset_version=opset)
    onnx.checker.check_model(path, full_check=True)
    with jit.no_grad():
        floats, ours = net(tested).numpy(), jit.trace(small)(tested).numpy()
    theirs = run(path, tested.numpy(), fused=False)
    step = 4 / 255 * np.abs(ours).max()
    assert np.mean(np.abs(theirs - ours) <= 1e-4 * np.abs(ours).max()) > 0.99
    assert np.abs(theirs - ours).max() <= step
    right = example.accuracy(floats, answers)
    for logits in (ours, theirs, run(path, tested.numpy(), fused=True)):
        assert abs(example.accuracy(logits, answers) - right) <= 0.01
    with jit.no_grad():
        again = jit.import_onnx(path)(tested[:8]).numpy()
    assert np.abs(again - ours[:8]).max() <= step


def test_weights_are_stored_as_integers(digits, tmp_path):
    example, net = digits
    images = example.load_digits()[0]
    path = tmp_path / "digits.onnx"
    sizes = {}
    for kind, opset in (("int8", 20), ("int4", 21)):
        jit.export_onnx(quantize_static(net, [images[:64]], weight_type=kind), images[:8], path, opset_version=opset)
        graph = onnx.load(path).graph
        held = {tensor.name: tensor for tensor in graph.initializer}
        sources = {node.input[0] for node in graph.node if node.op_type == "DequantizeLinear"} & held.keys()
        types = [onnx.TensorProto.DataType.Name(held[name].data_type) for name in sources]
        assert sorted(types) == sorted([kind.upper()] * 3 + ["INT32"] * 3)
        sizes[kind] = path.stat().st_size
    assert sizes["int4"] < sizes["int8"]


@pytest.mark.parametrize("dtype", [jit.float16, jit.float64])
@pytest.mark.parametrize("is_late", [False, True])
def test_dtypes_of_floats_are_kept(dtype, is_late):
    net, x = nn.Sequential(nn.Linear(4, 3)), jit.randn(5, 4)
    made = quantize_static(net, [x]).to(dtype) if is_late else quantize_static(net.to(dtype), [x.to(dtype)])
    with jit.no_grad():
        result = made(x.to(dtype))
        assert (result.dtype, made[0].weight.dtype) == (dtype, dtype)
        assert jit.allclose(result.float(), net.float()(x), atol=0.05)
    assert jit.export_onnx(made, x.to(dtype)).verified is not None


def test_state_is_loaded_and_pickled():
    import pickle

    x = jit.randn(5, 4)
    first, second = (quantize_static(nn.Sequential(nn.Linear(4, 3)), [jit.randn(9, 4)]) for _ in range(2))
    second.load_state_dict(first.state_dict())
    with jit.no_grad():
        assert jit.equal(first(x), second(x))
        assert jit.equal(first(x), pickle.loads(pickle.dumps(first))(x))


def test_networks_that_round_as_they_train_export_with_integers(tmp_path):
    net, x = prepare_qat(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 3))), jit.randn(4, 1, 8, 8)
    net(x)
    net.apply(disable_observer)
    path = tmp_path / "rounding.onnx"
    report = jit.export_onnx(net.eval(), x, path, dynamic_axes={"input": {0: "batch"}})
    assert report.warnings == []
    assert (report.op_histogram["QuantizeLinear"], report.op_histogram["DequantizeLinear"]) == (2, 4)
    held = [tensor for tensor in onnx.load(path).graph.initializer if tensor.data_type == onnx.TensorProto.INT8]
    assert [list(tensor.dims) for tensor in held if len(tensor.dims) > 1] == [[4, 1, 3, 3], [3, 144]]
