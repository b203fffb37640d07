"""Files that torch has written: `make_data.py` says what is in them."""

import argparse
import collections
import io
import pickle
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import jit
from jit import nn
from jit.serialization import FileError, NoFileError, RefusedFileError, add_safe_globals, safe_globals

DATA = Path(__file__).parent / "data"
BOTH = pytest.mark.parametrize("name", ["everything", "everything_old"])


@pytest.fixture(scope="module")
def everything():
    return {name: jit.load(DATA / f"{name}.pt", {"cuda:1": "cpu"}) for name in ("everything", "everything_old")}


@BOTH
def test_views_share_memory_again(name):
    x, row, turned, widened, element, empty = jit.load(DATA / f"{name}.pt")["views"]
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and element.item() == 2 and empty.shape == (0, 3)
    assert turned.stride() == (1, 3) and widened.stride() == (0, 3, 1) and row.storage_offset() == 3
    x[1, 1] = 9
    assert row.tolist() == [3, 9, 5] and turned[1, 1].item() == 9 and widened[1, 1, 1].item() == 9
    row.add_(1)
    assert x[1].tolist() == [4, 10, 6] and x._version == row._version == 2


@BOTH
def test_every_dtype(name, everything):
    found = everything[name]["dtypes"]
    assert set(found) == {dtype.name for dtype in jit.ir.dtypes.ALL}
    for dtype, tensor in found.items():
        assert tensor.dtype is getattr(jit, dtype)
        assert tensor.to(jit.complex64).tolist() == ([0, 1, 1] if dtype == "bool" else [0, 1, 2])


@BOTH
def test_parameters_and_what_requires_gradients(name, everything):
    noted, fixed, leaf = everything[name]["parameters"]
    assert type(noted) is type(fixed) is nn.Parameter and type(leaf) is jit.Variable
    assert (noted.requires_grad, fixed.requires_grad, leaf.requires_grad) == (True, False, True)
    assert vars(noted)["note"] == "a note" and noted.is_leaf


@BOTH
def test_tensors_that_are_read_as_conjugates_or_negated(name, everything):
    conjugate, negated = everything[name]["marked"]
    assert conjugate.tolist() == [1 - 2j] and negated.tolist() == [-2]


@BOTH
def test_python_and_numpy(name, everything):
    found = everything[name]
    assert found["python"] == [
        jit.Size([2, 3]), jit.float16, jit.device("cuda", 1), {1, 2}, 1j, b"bytes", "text", None, 2**70,
    ]  # fmt: skip
    ordered, counted, nested, part = found["containers"]
    assert type(ordered) is collections.OrderedDict and type(counted) is collections.Counter
    assert (ordered, counted, nested, part) == ({"a": 1}, {"a": 2, "b": 1}, (1, (2.5,)), slice(1, 2))
    number, big, texts = found["numpy"]
    assert type(number) is np.float64 and number == 2.5
    assert big.dtype == np.int16 and big.tolist() == [0, 1, 2] and texts.tolist() == [["a"], ["bc"]]
    assert np.dtype("i2").isnative


def test_training_goes_on():
    held = jit.load(DATA / "training.pt")
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = jit.optim.Adam(net.parameters(), lr=1.0)
    schedule = jit.optim.lr_scheduler.StepLR(optimizer, 5)
    net.load_state_dict(held["net"])
    optimizer.load_state_dict(held["optimizer"])
    schedule.load_state_dict(held["schedule"])
    assert held["net"]._metadata["0"] == {"version": 1}
    assert optimizer.param_groups[0]["lr"] == 0.01 and schedule.step_size == 2 and schedule.last_epoch == 1
    x, right = jit.load(DATA / "net_results.pt")
    assert jit.allclose(net.eval()(x), right, atol=1e-6)
    before = net[0].weight.clone()
    net.train()(x).sum().backward()
    optimizer.step()
    assert optimizer.state[net[0].weight]["step"].item() == 2 and not jit.equal(before, net[0].weight)


# -- modules and what is allowed -----------------------------------------------------------------------------------


def test_a_module_of_torch_is_made_of_its_attributes():
    with pytest.raises(RefusedFileError, match=r"torch.nn.modules.container.Sequential.*weights_only=False"):
        jit.load(DATA / "net.pt")
    net = jit.load(DATA / "net.pt", weights_only=False)
    x, right = jit.load(DATA / "net_results.pt")
    assert jit.allclose(net(x), right, atol=1e-6) and not net.training
    assert [name for name, _ in net.named_parameters()][:2] == ["0.weight", "0.bias"]
    handle = net.register_forward_hook(lambda *_: None)
    handle.remove()


class Mine(nn.Module):
    """A module of the user's."""

    made = 0

    def __init__(self):
        super().__init__()
        Mine.made += 1
        self.inner = nn.Linear(2, 1)
        self.register_buffer("seen", jit.zeros(1), persistent=False)

    def forward(self, x):
        return self.inner(x)


def test_a_module_of_the_users_needs_its_class_allowed(tmp_path):
    net, made = Mine(), Mine.made
    jit.save(net, tmp_path / "net.pt")
    with pytest.raises(RefusedFileError, match=r"test_reading.Mine, which is not data"):
        jit.load(tmp_path / "net.pt", weights_only=False)
    with safe_globals([Mine]), pytest.raises(RefusedFileError, match=r"jit.nn.linear.Linear"):
        jit.load(tmp_path / "net.pt")
    with safe_globals([Mine]):
        again = jit.load(tmp_path / "net.pt", weights_only=False)
    assert type(again) is Mine and Mine.made == made
    x = jit.ones(1, 2)
    assert jit.equal(again(x), net(x)) and list(again.state_dict()) == ["inner.weight", "inner.bias"]
    with pytest.raises(RefusedFileError):
        jit.load(tmp_path / "net.pt", weights_only=False)


def test_classes_are_allowed_by_name():
    with pytest.raises(RefusedFileError, match=r"argparse.Namespace.*safe_globals"):
        jit.load(DATA / "options.pt")
    assert jit.serialization.get_unsafe_globals_in_checkpoint(DATA / "options.pt") == ["argparse.Namespace"]
    try:
        add_safe_globals([argparse.Namespace])
        assert jit.serialization.get_safe_globals() == [argparse.Namespace]
        assert jit.load(DATA / "options.pt")["options"].width == 3
        assert jit.serialization.get_unsafe_globals_in_checkpoint(DATA / "options.pt") == []
    finally:
        jit.serialization.clear_safe_globals()
    with safe_globals([(collections.UserDict, "argparse.Namespace")]):
        assert type(jit.load(DATA / "options.pt")["options"]) is collections.UserDict
    with pytest.raises(jit.UsageError, match="classes and functions"):
        add_safe_globals(["argparse.Namespace"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("quantized", "a quantized tensor; save its dequantize"),
        ("program", "a program of TorchScript; torch.jit.load"),
        ("call", "subprocess.call, which is not data"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_not_loaded_is_named(name, reason, weights_only, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=reason) as raised:
        jit.load(DATA / f"{name}.pt", weights_only=weights_only)
    assert f"{name}.pt" in str(raised.value) and not list(tmp_path.iterdir())


def test_a_tensor_without_elements():
    made = jit.load(DATA / "meta.pt")
    assert made.is_meta and (tuple(made.shape), made.dtype) == ((2,), jit.float32)


# -- places --------------------------------------------------------------------------------------------------------


def on_gpu(tmp_path):
    """A file whose tensors lay on the GPU."""
    buffer = io.BytesIO()
    jit.save({"a": jit.ones(2), "b": jit.zeros(1)}, buffer)
    with zipfile.ZipFile(buffer) as held, zipfile.ZipFile(tmp_path / "gpu.pt", "w") as file:
        for name in held.namelist():
            data = held.read(name)
            file.writestr(name, data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00xpu:14"))
    return tmp_path / "gpu.pt"


@pytest.mark.parametrize(
    "place",
    ["cpu", jit.device("cpu"), {"xpu:14": "cpu"}, lambda storage, location: storage, lambda storage, location: "cpu"],
    ids=["text", "device", "dictionary", "storage", "name"],
)
def test_tensors_go_where_map_location_says(tmp_path, place):
    found = jit.load(on_gpu(tmp_path), place)
    assert found["a"].is_cpu and found["a"].tolist() == [1, 1]


def test_a_device_that_is_not_here_is_said(tmp_path):
    path = on_gpu(tmp_path)
    for place in (None, {"cuda:0": "cpu"}, lambda storage, location: None):
        with pytest.raises(FileError, match=r"tensors of the device 'xpu:14'.*pass map_location='cpu'"):
            jit.load(path, place)
    with pytest.raises(jit.UsageError, match="map_location"):
        jit.load(path, 3)


# -- ways to give a file -------------------------------------------------------------------------------------------


def test_files_are_given_in_many_ways(monkeypatch):
    path = DATA / "everything.pt"
    monkeypatch.chdir(DATA)
    for given in (path, str(path), path.name, io.BytesIO(path.read_bytes())):
        assert jit.load(given)["views"][0].sum().item() == 15
    with path.open("rb") as file:
        assert jit.load(file)["views"][0].sum().item() == 15
    for keywords in ({"mmap": True}, {"pickle_module": __import__("pickle")}, {"encoding": "latin1"}, {"errors": ""}):
        assert jit.load(path, **keywords)["views"][0].sum().item() == 15


def test_what_is_no_file_is_said(tmp_path):
    with pytest.raises(NoFileError, match="no such file"):
        jit.load(tmp_path / "missing.pt")
    with pytest.raises(FileNotFoundError):
        jit.load(str(tmp_path / "missing.pt"))
    with pytest.raises(EOFError, match="seek"):
        jit.load(io.BytesIO())
    with pytest.raises(jit.UsageError, match="open it with 'rb'"):
        jit.load(io.StringIO("text"))
    with pytest.raises(jit.UsageError, match="pickle_module"):
        jit.load(DATA / "everything.pt", pickle_module=sys)
    with pytest.raises(jit.UsageError, match="no argument 'maplocation'"):
        jit.load(DATA / "everything.pt", maplocation="cpu")
    with pytest.raises(jit.UsageError, match="pass the path"):
        jit.load(io.BytesIO(b"PK"), mmap=True)


def test_mapped_tensors_are_windows_and_changes_stay_in_the_process(tmp_path):
    shutil.copy(DATA / "everything.pt", tmp_path / "copy.pt")
    held = (tmp_path / "copy.pt").read_bytes()
    x, row, *_ = jit.load(tmp_path / "copy.pt", mmap=True)["views"]
    x.fill_(7)
    assert row.tolist() == [7, 7, 7] and (tmp_path / "copy.pt").read_bytes() == held
    assert jit.load(tmp_path / "copy.pt", mmap=True)["views"][0].sum().item() == 15


def test_numbers_of_the_other_byte_order(tmp_path):
    values = {
        "f": jit.tensor([1.5, -2.0]), "i": jit.tensor([3, 2**40]), "h": jit.tensor([1.5], dtype=jit.bfloat16),
        "c": jit.tensor([1 + 2j]), "b": jit.tensor([True]),
    }  # fmt: skip
    other = "big" if sys.byteorder == "little" else "little"
    buffer = io.BytesIO()
    jit.save(values, buffer)
    widths = {name: t.dtype.itemsize // (2 if t.is_complex() else 1) for name, t in values.items()}
    with zipfile.ZipFile(buffer) as held, zipfile.ZipFile(tmp_path / "other.pt", "w") as file:
        for name in held.namelist():
            data = held.read(name)
            if "/data/" in name:
                width = list(widths.values())[int(name.rpartition("/")[2])]
                data = np.frombuffer(data, f"u{width}").byteswap().tobytes()
            file.writestr(name, other if name.endswith("byteorder") else data)
    found = jit.load(tmp_path / "other.pt")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {n: t.tolist() for n, t in values.items()}


def test_strings_of_python_2(tmp_path):
    """A pickle of Python 2 has strings of bytes, which `encoding` makes text of."""
    pickle = b"\x80\x02}q\x00U\x04na\xc3\xafq\x01K\x01s."
    for encoding, key in {"utf-8": "naï", "latin1": "naÃ¯", "bytes": b"na\xc3\xaf"}.items():
        with zipfile.ZipFile(tmp_path / "old.pt", "w") as file:
            file.writestr("old/data.pkl", pickle)
        assert jit.load(tmp_path / "old.pt", encoding=encoding) == {key: 1}


def stream_of(pickled: bytes, keys: list[str], *storages: tuple[int, bytes]) -> io.BytesIO:
    """A file of torch's older format with this pickle of the object."""
    head = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    memories = b"".join(count.to_bytes(8, "little") + data for count, data in storages)
    return io.BytesIO(head + pickled + pickle.dumps(keys, 2) + memories)


def test_storages_of_python_2_have_names_of_bytes():
    pickled = b"\x80\x02(U\x07storagectorch\nFloatStorage\nU\x0277U\x03cpuK\x02NtQ."
    file = stream_of(pickled, ["77"], (2, struct.pack("<2f", 1.5, 2.5)))
    for encoding in ("bytes", "latin1", "utf-8"):
        file.seek(0)
        assert jit.load(file, encoding=encoding).tolist() == [1.5, 2.5]


def test_parts_of_a_storage_lie_where_they_did():
    def part(offset: int, count: int) -> bytes:
        named = b"X\x01\x00\x00\x00vK" + bytes([offset]) + b"K" + bytes([count]) + b"\x87"
        return (
            b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x007X\x03\x00\x00\x00cpuK\x04"
            + named
            + b"tQ"
        )

    pickled = b"\x80\x02" + part(1, 2) + part(2, 2) + b"\x86."
    first, second = jit.load(stream_of(pickled, ["7"], (4, struct.pack("<4f", 1, 2, 3, 4))))
    assert first.tolist() == [2.0, 3.0] and second.tolist() == [3.0, 4.0]
    assert second.data_ptr() == first.data_ptr() + 4 and len(first) == len(second) == 2
    first[1] = 9
    assert second.tolist() == [9.0, 4.0]


def test_a_loaded_file_is_part_of_traced_programs():
    net = nn.Linear(2, 3)
    net.load_state_dict({k[2:]: v for k, v in jit.load(DATA / "training.pt")["net"].items() if k[0] == "0"})
    traced = jit.trace(net)
    x = jit.ones(1, 2)
    for _ in range(3):
        assert jit.allclose(traced(x), net(x))
    assert traced.hits == 2
