"""Devices: what does not exist is refused wherever a device can be named, and `jit.device` is PyTorch's."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jit
from jit import nn
from jit.eager.namespace import F
from jit.ir.devices import KINDS
from jit.ir.op import OVERLOADS
from tests.registry_cases import all_cases

MISSING = ["nosuch", "cuda", "cuda:0", "meta:1", "mps", "cpu:x", "cpu:1", "", "CPU", 0, jit.device("cuda", 1)]
NO_DEVICES = [1.5, True, [], jit.float32, object]
PRESENT = ["cpu", "cpu:0", jit.device("cpu"), jit.device("cpu", 0), None]

# -- the objects -------------------------------------------------------------------------------------------------


def test_parts() -> None:
    plain, second = jit.device("cuda"), jit.device("cuda:1")
    assert (plain.type, plain.index, second.type, second.index) == ("cuda", None, "cuda", 1)
    assert repr(jit.device("cpu")) == "device(type='cpu')" and repr(second) == "device(type='cuda', index=1)"
    assert str(jit.device("cpu")) == "cpu" and str(second) == "cuda:1" == f"{second}"
    assert jit.device(type="cuda", index=1) == second == jit.device(second)


def test_equality() -> None:
    made = [jit.device("cpu"), jit.device("cpu", 0), jit.device("cuda"), jit.device("cuda", 0), jit.device("cuda", 1)]
    assert len(set(made)) == len(made)
    assert jit.device("cuda:1") == made[-1] and hash(jit.device("cuda:1")) == hash(made[-1])


@pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:0", "cuda:1"])
def test_a_device_equals_its_text_alone(text: str) -> None:
    made, others = jit.device(text), {"cpu", "cuda", "cuda:0", "cuda:1"} - {text}
    assert made == text and text == made and {text: 1}[made] == 1  # type: ignore[index]
    assert all(made != other for other in others) and made != 0 and made is not None


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_copies(again: Callable[[Any], Any]) -> None:
    assert again(jit.device("cuda", 3)) == jit.device("cuda", 3)


def test_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        jit.device("cpu").type = "cuda"  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_any_device_can_be_spoken_of(kind: str) -> None:
    assert jit.device(kind, 2).type == kind


@pytest.mark.parametrize(
    "arguments", [("nosuch",), ("cuda:x",), ("cuda:",), ("cuda:01",), ("cuda:0", 1), ("cuda", -1), ("CPU",), (3,)]
)
def test_names_that_are_none(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(jit.UsageError, match="device"):
        jit.device(*arguments)


@pytest.mark.parametrize("arguments", [(1.5,), (None,), ("cuda", "1"), ("cuda", True), (jit.device("cpu"), 1)])
def test_types_that_are_none(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="device") as raised:
        jit.device(*arguments)
    assert isinstance(raised.value, jit.Error)


def test_of_a_tensor() -> None:
    x = jit.ones(2)
    assert x.device == jit.device("cpu") and x.device.type == "cpu" and x.device.index is None
    assert x.is_cpu and not x.is_cuda and x.get_device() == -1
    assert jit.Generator().device == jit.device("cpu")


def test_block_and_default() -> None:
    with jit.device("cpu") as entered:
        assert entered == jit.get_default_device() == jit.zeros(2).device
    for name in (None, "cpu", jit.device("cpu:0")):
        jit.set_default_device(name)
        assert jit.get_default_device() == jit.device("cpu")
    for name in ("cuda", "meta:2", jit.device("mps")):
        with pytest.raises(jit.UsageError, match="no device"):
            jit.set_default_device(name)
    with pytest.raises(jit.UsageError, match="no device 'cuda:2' here"), jit.device("cuda", 2):
        pass


# -- wherever a device can be named ------------------------------------------------------------------------------


def takes_device(function: Any) -> bool:
    try:
        return "device" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


OPERATORS = sorted({op.name for ops in OVERLOADS.values() for op in ops if "device" in op.schema.argument_names})


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    """Every operator that declares a device, from the registry, on one of its samples."""
    op = next(op for ops in OVERLOADS.values() for op in ops if op.name == name)
    function, case = getattr(F, op.schema.name), next(iter(all_cases(op)))
    for device in MISSING:
        args, kwargs = case.arguments()
        with pytest.raises(jit.UsageError, match="device"):
            function(*args, **{**kwargs, "device": device})
    for device in NO_DEVICES:
        args, kwargs = case.arguments()
        with pytest.raises(jit.SchemaError, match="device"):
            function(*args, **{**kwargs, "device": device})
    for device in PRESENT:
        args, kwargs = case.arguments()
        assert function(*args, **{**kwargs, "device": device}).device == jit.device("cpu")


x = jit.ones(2, 3)
WAYS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda d: jit.tensor([1.0], device=d),
    "as_tensor": lambda d: jit.as_tensor([1.0], device=d),
    "as_tensor of a tensor": lambda d: jit.as_tensor(x, device=d),
    "asarray": lambda d: jit.asarray(1.0, device=d),
    "from_dlpack": lambda d: jit.from_dlpack(x, device=d),
    "new_tensor": lambda d: x.new_tensor([1.0], device=d),
    "to by name": lambda d: x.to(device=d),
    "to with a dtype": lambda d: x.to("cpu" if d is None else d, jit.float64),
    "Generator": lambda d: jit.Generator(d),
    "Generator by name": lambda d: jit.Generator(device=d),
    "set_default_device": lambda d: jit.set_default_device(d),
    "resolution of methods": lambda d: x.new_zeros(2, 3, device=d),
    "sizes one by one": lambda d: jit.zeros(2, 3, device=d, requires_grad=True),
    "out": lambda d: jit.ones(2, device=d, out=jit.zeros(2)),
    "Module.to": lambda d: nn.Linear(2, 2).to(device=d),
    "Module.to of no parameters": lambda d: nn.ReLU().to(device=d),
    "Module.to_empty": lambda d: nn.Linear(2, 2).to_empty(device=d),
    "windows": lambda d: jit.signal.windows.hann(5, device=d),
    "windows of nothing": lambda d: jit.signal.windows.kaiser(0, device=d),
    "square mask": lambda d: nn.Transformer.generate_square_subsequent_mask(3, device=d),
    "AveragedModel": lambda d: jit.optim.swa_utils.AveragedModel(nn.Linear(1, 1), device=d),
    "update_bn": lambda d: jit.optim.swa_utils.update_bn([], nn.Linear(1, 1), device=d),
    "sparse tensor": lambda d: jit.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device=d),
    "sparse tensor of zeros": lambda d: jit.sparse_coo_tensor((2, 3), device=d),
    "sparse rows": lambda d: jit.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 3), device=d),
    "materialize": lambda d: nn.parameter.UninitializedParameter().materialize((2,), device=d),
}


@pytest.mark.parametrize("way", WAYS)
def test_way(way: str) -> None:
    for device in MISSING:
        with pytest.raises(jit.UsageError, match=r"device|dtype"):
            WAYS[way](device)
    for device in NO_DEVICES[:3]:
        with pytest.raises(jit.Error, match=r"device|dtype"):
            WAYS[way](device)
    for device in PRESENT:
        WAYS[way](device)


@pytest.mark.parametrize("device", [d for d in MISSING if d != ""])
def test_positional(device: Any) -> None:
    for thing in (jit.ones(2), nn.Linear(2, 2), nn.ReLU()):
        with pytest.raises(jit.UsageError, match="device"):
            thing.to(device)


@pytest.mark.parametrize("given", [(), (0,), ("cuda",), ("cuda:1",), (jit.device("cuda"),), ("cpu",), ("nosuch",)])
def test_cuda(given: tuple[Any, ...]) -> None:
    """There is no GPU, whichever is asked for; what is none is refused all the same."""
    for thing in (jit.ones(2), nn.Linear(2, 2)):
        with pytest.raises(jit.UsageError, match=r"device|expects a GPU"):
            thing.cuda(*given)
        assert thing.cpu() is thing


OPTIONS: dict[str, list[tuple[Any, ...]]] = {
    "AdaptiveLogSoftmaxWithLoss": [(4, 6, [2, 4])], "Bilinear": [(2, 2, 2)], "GroupNorm": [(2, 4)],
    "LayerNorm": [(3,), (3, 1e-5, False)], "RMSNorm": [(3,), (3, 1e-5, False)], "MultiheadAttention": [(4, 2)],
    "Transformer": [(4, 2, 1, 1, 4), (4, 2, 0, 0, 4)], "TransformerEncoderLayer": [(4, 2, 4)],
    "TransformerDecoderLayer": [(4, 2, 4)], "PReLU": [()],
    "Embedding": [(3, 2), (3, 2, None, None, 2.0, False, False, x.T)],
    "EmbeddingBag": [(3, 2)], "UninitializedParameter": [()], "UninitializedBuffer": [()],
    "RNNBase": [("LSTM", 2, 2)], "RNNCellBase": [(2, 2, True)],
}  # fmt: skip
LAYERS = sorted(
    name for name in dir(nn) if isinstance(getattr(nn, name), type) and takes_device(getattr(nn, name).__init__)
)


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name: str) -> None:
    layer = getattr(nn, name)
    for given in OPTIONS.get(name, layer_arguments(name)):
        for device in MISSING:
            with pytest.raises(jit.UsageError, match="device"):
                layer(*given, device=device)
        layer(*given, device=jit.device("cpu"))


def layer_arguments(name: str) -> list[tuple[Any, ...]]:
    if "Conv" in name:
        return [(2, 3), (2, 3)] if name.startswith("Lazy") else [(2, 2, 3), (2, 2, 3, 1, 0)]
    if "Norm" in name:
        return [(), (1e-5, 0.1, False, False)] if name.startswith("Lazy") else [(3,), (3, 1e-5, 0.1, False, False)]
    return [(2,)] if name.startswith("Lazy") else [(2, 2)]


def test_there_are_layers() -> None:
    assert len(LAYERS) > 35 and len(OPERATORS) > 35


def test_public_functions_that_take_a_device() -> None:
    """All names of the package that take `device`, outside of the registry, are among the ways above."""
    found = {name for name in dir(jit) if name not in OVERLOADS and takes_device(getattr(jit, name, None))}
    found = {name for name in found if not name.endswith(("Storage", "Tensor"))}  # the classes of one kind of elements
    tensors = {"tensor", "as_tensor", "asarray", "from_dlpack", "sparse_coo_tensor", "sparse_csr_tensor"}
    assert found <= {*tensors, "Generator", "set_default_device"}


# -- recordings --------------------------------------------------------------------------------------------------


def test_traced() -> None:
    @jit.trace
    def f(x: jit.Tensor, device: Any) -> Any:
        made = jit.ones(2, device=device) + x.to(x.device) * (2 if x.device == jit.device("cpu") else 3)
        return made + jit.zeros(2, device=x.device), x.device, jit.device("cuda", 1)

    for device in (jit.device("cpu"), "cpu", jit.device("cpu")):
        result, where, other = f(jit.ones(2), device)
        assert result.tolist() == [3, 3] and where == jit.device("cpu") and other == jit.device("cuda", 1)
    assert f.hits >= 1
    for missing in MISSING:
        with pytest.raises(jit.UsageError, match="device"):
            f(jit.ones(2), missing)


def test_traced_knows_a_device_again() -> None:
    class Model(nn.Module):
        place: Any = None

        def forward(self, x: Any) -> Any:
            return x + jit.ones(2, device=self.place)

    model = Model()
    traced = jit.trace(model)
    names: list[Any] = ["cpu", jit.device("cpu"), jit.device("cpu"), jit.device("cpu:0")]
    for name in names:
        model.place = name
        assert traced(jit.ones(2)).tolist() == [2, 2]
    assert traced.hits >= 1
    model.place = "cuda"
    with pytest.raises(jit.UsageError, match="no device 'cuda'"):
        traced(jit.ones(2))


def test_artifact(tmp_path: Path) -> None:
    f = jit.trace(lambda x, device: (jit.ones(2, device=device) + x, x.device))
    f(jit.ones(2), jit.device("cpu"))
    f.save(tmp_path / "f")
    loaded = jit.load(tmp_path / "f")
    result, device = loaded(jit.ones(2), jit.device("cpu"))
    assert result.tolist() == [2, 2] and device == jit.device("cpu")


def test_export(tmp_path: Path) -> None:
    f = jit.trace(lambda x: jit.ones(2, device=x.device) + x.to("cpu", jit.float64))
    jit.export_onnx(f, (jit.ones(2),), tmp_path / "f.onnx")
    assert (tmp_path / "f.onnx").exists()
