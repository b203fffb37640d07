"""`jit.save`: what comes back, and what is in the file for torch."""

import argparse
import collections
import io
import os
import pickletools
import signal
import struct
import subprocess
import sys
import textwrap
import zipfile
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.serialization import safe_globals


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    jit.save(value, file)
    file.seek(0)
    return file


def again(value: Any, **keywords: Any) -> Any:
    """What comes back of a value."""
    return jit.load(saved(value), **keywords)


@pytest.mark.parametrize("dtype", jit.ir.dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_tensors_come_back(dtype, shape):
    x = jit.arange(jit.Size(shape).numel()).reshape(shape).to(dtype)
    found = again({"x": x})["x"]
    assert found.dtype is dtype and found.shape == shape and found.tolist() == x.tolist()
    assert type(found) is jit.Tensor and found.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:, ::2], lambda x: x.t(), lambda x: x.expand(2, 3, 4), lambda x: x[0, 0], lambda x: x[:, :0],
        lambda x: x.diagonal(), lambda x: x.T[1:3].T,
    ],
    ids=["slice", "t", "expand", "element", "empty", "diagonal", "columns"],
)  # fmt: skip
def test_views_keep_their_layout_and_their_memory(view):
    x = jit.arange(12.0).reshape(3, 4)
    whole, part = again([x, view(x)])
    right = view(x)
    assert part.tolist() == right.tolist() and part.stride() == right.stride()
    assert part.storage_offset() == right.storage_offset() or not right.numel()
    whole.fill_(5)
    assert part.numel() == 0 or part.flatten()[0].item() == 5


def test_memory_is_written_once():
    x = jit.zeros(1000)
    assert len(saved([x, x[:10], x.reshape(10, 100), jit.nn.Parameter(x)]).getbuffer()) < 2 * 4000
    same = again([x, x])
    assert same[0] is same[1]


def test_arrays_that_torch_has_no_strides_for_are_copied():
    backwards = jit.from_numpy(np.arange(4.0)[::-1])
    packed = np.zeros(3, [("a", "i1"), ("b", "f4")])
    packed["b"] = [1, 2, 3]
    assert again(backwards).tolist() == [3, 2, 1, 0]
    assert again(jit.from_numpy(packed["b"].copy())).tolist() == [1, 2, 3]
    one = np.ones(3, np.complex64)
    with pytest.raises(jit.UsageError, match=r"share memory.*clone"):
        jit.save([jit.from_numpy(one), jit.from_numpy(one.view(np.float32))], io.BytesIO())


def test_what_takes_part_in_autograd_comes_back_as_a_leaf():
    x = jit.ones(2, requires_grad=True)
    p, fixed, leaf, result = again([nn.Parameter(jit.ones(1)), nn.Parameter(jit.ones(1), False), x, x * 2])
    assert type(p) is type(fixed) is nn.Parameter and (p.requires_grad, fixed.requires_grad) == (True, False)
    assert leaf.requires_grad and result.requires_grad and result.is_leaf
    (p * leaf).sum().backward()
    assert leaf.grad.tolist() == [1, 1] and p.grad.item() == 2


def test_containers_and_numbers_come_back():
    value: dict[str, Any] = {
        "dicts": [{1: 2}, collections.OrderedDict(b=1, a=2), collections.defaultdict(list, {1: [2]})],
        "others": [collections.Counter("aab"), collections.deque([1, 2], 3), {1, (2, "x")}, frozenset([1]), range(3)],
        "numbers": [True, None, 2**100, 0.1, 1j, slice(1, None, 2), "text", b"bytes", bytearray(b"array")],
        "ours": [jit.Size([2]), jit.bool, jit.float16, jit.device("cuda:1"), jit.get_rng_state()],
        "numpy": [np.float32(0.5), np.bool_(True), np.int64(3)],
    }
    value["dicts"].append(value["numbers"])
    found = again(value)
    assert found == value and [list(map(type, part)) for part in found.values()] == [
        list(map(type, part)) for part in value.values()
    ]
    assert found["dicts"][3] is found["numbers"]
    loop: list[Any] = []
    loop.append(loop)
    assert (found := again(loop))[0] is found
    array = np.arange(6).reshape(2, 3).T
    assert np.array_equal(again(array), array) and again(array).flags.f_contiguous


def test_a_module_and_its_training_come_back():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.LSTM(3, 2))
    optimizer = jit.optim.AdamW(net.parameters(), lr=0.5)
    net[0](jit.ones(1, 2)).sum().backward()
    optimizer.step()
    state = again({"net": net.state_dict(), "optimizer": optimizer.state_dict()})
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.LSTM(3, 2))
    other.load_state_dict(state["net"])
    assert all(jit.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values()))
    resumed = jit.optim.AdamW(other.parameters())
    resumed.load_state_dict(state["optimizer"])
    assert resumed.param_groups[0]["lr"] == 0.5
    assert jit.equal(resumed.state[other[0].weight]["exp_avg"], optimizer.state[net[0].weight]["exp_avg"])
    whole = again(net, weights_only=False)
    assert repr(whole) == repr(net) and whole[0].weight.requires_grad


def test_objects_of_allowed_classes_come_back():
    options = argparse.Namespace(width=3, names=["a"])
    with safe_globals([argparse.Namespace]):
        assert again({"options": options})["options"] == options


@pytest.mark.parametrize(
    "value", [lambda: 1, open, (i for i in range(0)), sys], ids=["lambda", "open", "generator", "module"]
)
def test_what_cannot_be_saved_leaves_the_old_file(value, tmp_path):
    path = tmp_path / "old.pt"
    jit.save(1, path)
    if value is open:  # a function with a name is saved, and refused when it is loaded
        jit.save(value, path)
        with pytest.raises(jit.Error, match=r"io.open, which is not data"):
            jit.load(path)
        return
    with pytest.raises(jit.UsageError, match="cannot be saved"):
        jit.save([value], path)
    assert jit.load(path) == 1 and os.listdir(tmp_path) == ["old.pt"]


def test_what_is_nested_too_deep_is_said():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(jit.UsageError, match="nested too deep"):
        jit.save(deep, io.BytesIO())


def test_arguments_of_pytorch(tmp_path):
    import pickle

    jit.save({"a": 1}, tmp_path / "new" / "a.pt", pickle, 4, _disable_byteorder_record=False)
    assert jit.load(tmp_path / "new" / "a.pt") == {"a": 1}
    with pytest.raises(jit.UsageError, match="pickle_module"):
        jit.save(1, tmp_path / "a.pt", pickletools)
    for no_file in (3, None, jit.ones(2), object()):
        with pytest.raises(jit.UsageError, match="path of a file") as told:
            jit.save(1, no_file)
        assert isinstance(told.value, AttributeError)
    with pytest.raises(jit.Error, match="cannot write"):
        jit.save(1, tmp_path / "a\0.pt")
    with (tmp_path / "b.pt").open("wb") as file:
        jit.save(2, file)
    assert jit.load(tmp_path / "b.pt") == 2


def test_a_traced_function_is_saved_as_an_artifact(tmp_path):
    f = jit.trace(lambda x: x * 2)
    f(jit.ones(2))
    jit.save(f, tmp_path / "f.jit")
    assert jit.load(tmp_path / "f.jit")(jit.ones(2)).tolist() == [2, 2]
    assert jit.load(io.BytesIO((tmp_path / "f.jit").read_bytes()))(jit.ones(2)).tolist() == [2, 2]


# -- the file ------------------------------------------------------------------------------------------------------


def test_the_file_is_one_of_torch():
    """The instructions and names that torch's own reader takes, and memory where it can be mapped."""
    file = saved({"weight": jit.nn.Parameter(jit.ones(3)), "size": jit.Size([2]), "dtype": jit.bool})
    with zipfile.ZipFile(file) as held:
        names = {entry.filename.partition("/")[2]: entry for entry in held.infolist()}
        assert set(names) == {"data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "version"}
        assert held.read("archive/version") == b"3\n" and held.read("archive/byteorder") == sys.byteorder.encode()
        assert held.read("archive/data/0") == np.ones(3, np.float32).tobytes() and held.testzip() is None
        start = names["data/0"].header_offset
        name, extra = struct.unpack_from("<HH", file.getvalue(), start + 26)
        assert (start + 30 + name + extra) % 64 == 0
        pickle = held.read("archive/data.pkl")
    found = [(op.name, argument) for op, argument, _ in pickletools.genops(pickle)]
    assert ("PROTO", 2) in found
    assert {argument for name, argument in found if name == "GLOBAL"} == {
        "torch._utils _rebuild_parameter", "torch._utils _rebuild_tensor_v2", "torch FloatStorage", "torch Size",
        "torch bool", "collections OrderedDict",
    }  # fmt: skip


def test_equal_objects_make_equal_files():
    net = nn.Linear(2, 3)
    assert saved(net.state_dict()).getvalue() == saved(net.state_dict()).getvalue()


def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path):
    path = tmp_path / "state.pt"
    jit.save({"turn": -1, "x": jit.zeros(10)}, path)
    program = """
    import sys, jit
    turn = 0
    print("ready", flush=True)
    while True:
        jit.save({"turn": turn, "x": jit.full((300_000,), float(turn))}, sys.argv[1])
        turn += 1
    """
    for wait in (0.05, 0.11, 0.2):
        command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(wait)
            process.send_signal(signal.SIGKILL)
        found = jit.load(path)
        assert found["turn"] == -1 or found["x"].eq(found["turn"]).all()


def test_storages_and_attributes_come_back():
    t: Any = jit.arange(4.0)
    parameter: Any = jit.nn.Parameter(jit.ones(2))
    t.note = "kept"
    parameter.decays = False
    back = jit.load(saved([t, t.storage(), jit.IntStorage([1, 2]), parameter, t.untyped_storage()]))
    assert back[0].note == "kept" and back[3].decays is False and type(back[3]) is jit.nn.Parameter
    assert isinstance(back[1], jit.FloatStorage) and back[1].data_ptr() == back[0].data_ptr()
    assert back[2].tolist() == [1, 2] and back[4].data_ptr() == back[0].data_ptr()


def test_the_older_format_holds_what_the_newer_one_does():
    x = jit.arange(12.0).reshape(3, 4)
    held = {
        "views": [x, x.t(), x[1:, ::2]], "half": x.half(), "empty": jit.zeros(0, 2), "none": None, "text": "für",
        "parameter": nn.Parameter(jit.ones(2)), "flags": jit.tensor([True, False]), "z": jit.tensor([1j]),
        "storage": jit.arange(3).storage(), "bytes": jit.tensor([1.5]).untyped_storage(),
    }  # fmt: skip
    file = io.BytesIO()
    jit.save(held, file, _use_new_zipfile_serialization=False)
    assert not zipfile.is_zipfile(file) and file.getvalue().startswith(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19")
    file.seek(0)
    found = jit.load(file)
    assert list(found) == list(held) and found["text"] == "für" and found["none"] is None
    for name in ("half", "empty", "parameter", "flags", "z"):
        assert found[name].equal(held[name]) and found[name].dtype is held[name].dtype
    assert isinstance(found["parameter"], nn.Parameter)
    assert found["storage"].tolist() == [0, 1, 2] and found["bytes"].tolist() == held["bytes"].tolist()
    whole, turned, part = found["views"]
    whole.fill_(7)
    assert turned.tolist() == [[7.0] * 3] * 4 and part.tolist() == [[7.0] * 2] * 2 and part.stride() == (4, 2)


def test_the_older_format_counts_elements_in_one_way():
    x = jit.ones(3)
    with pytest.raises(jit.Error, match="as elements or as bytes"):
        jit.save([x, x.untyped_storage()], io.BytesIO(), _use_new_zipfile_serialization=False)
    jit.save([x.byte(), x.byte().untyped_storage()], io.BytesIO(), _use_new_zipfile_serialization=False)


@pytest.mark.parametrize("newer", [True, False])
def test_an_open_file_can_be_read_under_its_name(newer, tmp_path):
    with open(tmp_path / "a.pt", "wb") as file:
        jit.save({"x": jit.ones(2)}, file, _use_new_zipfile_serialization=newer)
        assert jit.load(tmp_path / "a.pt")["x"].tolist() == [1.0, 1.0]
