"""Checkpoints in parts: what they hold, and that whoever is killed leaves a whole one."""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from jit.distributed import checkpoint
from jit.files import faults
from jit.files.sharded.trees import leaves, tree_of
from jit.ir.errors import Error, UsageError

CALLS = ("fdopen", "chmod", "replace", "fsync", "unlink")
"""What a save asks of the operating system; the tests fail or end there."""


def state(version):
    """Tensors and values that all say which version they are of."""
    return {
        "net": {f"layer.{n}": jit.full((3, n + 1), float(version)) for n in range(4)},
        "optimizer": {"state": {0: {"step": jit.tensor(float(version))}}, "groups": [{"lr": version, "params": [0]}]},
        "version": version,
    }


def version_in(folder):
    """The version of the checkpoint in a folder, all of which has to be of one."""
    found: dict[str, Any] = {}
    checkpoint.load(found, checkpoint_id=folder)
    values = [float(tensor) for tensor in found["optimizer"]["state"][0].values()]
    values += [float(number) for tensor in found["net"].values() for number in tensor.reshape(-1)]
    values += [found["optimizer"]["groups"][0]["lr"]]
    assert set(values) == {found["version"]} and len(values) == 32
    return found["version"]


@pytest.fixture
def folder(tmp_path):
    checkpoint.save(state(1), checkpoint_id=tmp_path / "kept")
    return tmp_path / "kept"


# -- contents --------------------------------------------------------------------------------------------------------


def test_everything_comes_back(tmp_path):
    given = {
        "bool": jit.tensor([True, False]), "half": jit.ones(2, dtype=jit.bfloat16), "none": jit.zeros(0, 3),
        "number": jit.tensor(3), "nested": [{"a": jit.ones(2), 7: (1, 2.5, None)}, [jit.zeros(1), "text"]],
        "values": [1, True, None, float("inf"), (0.9, 0.999)], "empty": {}, "list": [], "view": jit.ones(4, 4).t()[1:3],
    }  # fmt: skip
    checkpoint.save(given, checkpoint_id=tmp_path)
    found: dict[str, Any] = {}
    checkpoint.load(found, checkpoint_id=tmp_path)
    assert [path for path, _ in leaves(found)] and sorted(found) == sorted(given)
    expected = dict(leaves(given))
    for path, value in leaves(found):
        if isinstance(value, jit.Tensor):
            assert value.dtype == expected[path].dtype and bool((value == expected[path]).all())
        else:
            assert repr(value) == repr(expected[path])


def test_tensors_are_filled_in_place(folder):
    wanted = state(0)
    first, group = wanted["net"]["layer.0"], wanted["optimizer"]["groups"][0]
    checkpoint.load(wanted, checkpoint_id=folder)
    assert wanted["net"]["layer.0"] is first and first.tolist() == [[1.0]] * 3
    assert wanted["optimizer"]["groups"][0] is group and group == {"lr": 1, "params": [0]} and wanted["version"] == 1


def test_objects_save_and_load_their_states(tmp_path):
    def made(seed):
        jit.manual_seed(seed)
        net = jit.nn.Sequential(jit.nn.Linear(3, 4), jit.nn.BatchNorm1d(4))
        optimizer = jit.optim.Adam(net.parameters(), lr=0.1)
        return net, optimizer, jit.optim.lr_scheduler.StepLR(optimizer, 1)

    net, optimizer, schedule = made(0)
    net(jit.randn(5, 3)).square().sum().backward()
    optimizer.step()
    schedule.step()
    checkpoint.save({"net": net, "optimizer": optimizer, "schedule": schedule}, checkpoint_id=tmp_path)
    other, fresh, later = made(1)
    checkpoint.load({"net": other, "optimizer": fresh, "schedule": later}, checkpoint_id=tmp_path)
    pairs = zip(net.state_dict().values(), other.state_dict().values())
    assert all(bool((a == b).all()) for a, b in pairs) and later.get_last_lr() == schedule.get_last_lr()
    old, new = optimizer.state_dict(), fresh.state_dict()
    assert old["param_groups"] == new["param_groups"]
    assert all(bool((old["state"][n][k] == v).all()) for n in new["state"] for k, v in new["state"][n].items())


def test_parts_are_files_of_safetensors(folder):
    index = checkpoint.FileSystemReader(folder).read_metadata()
    (name,) = index.files
    assert index.files[name] == (folder / name).stat().st_size
    assert sorted(jit.load(folder / name)) == sorted(index.tensors) and "net.layer.3" in index.tensors
    assert json.loads((folder / "index.json").read_text())["format"] == "jit.checkpoint"


def test_an_older_checkpoint_is_removed(folder):
    before = {path.name for path in folder.iterdir()}
    (folder / "notes.txt").write_text("mine")
    (folder / ".index.json.abc").write_text("{")
    checkpoint.save(state(2), checkpoint_id=folder)
    after = {path.name for path in folder.iterdir()}
    assert version_in(folder) == 2 and before & after == {"index.json"} and len(after) == 3 and "notes.txt" in after


def test_writers_and_readers(tmp_path):
    checkpoint.save({"x": jit.ones(1)}, storage_writer=checkpoint.FileSystemWriter(tmp_path))
    found = {"x": jit.zeros(1)}
    checkpoint.load(found, storage_reader=checkpoint.FileSystemReader(tmp_path))
    assert found["x"].tolist() == [1.0]


def test_paths_are_told_apart():
    tree = {"a": [1, {"b": 2}], "c": {3: 4, "3 ": 5}}
    assert tree_of(leaves(tree)) == tree


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"net": {"other": jit.ones(1)}}, "does not hold 'net.other'"),
        ({"net": {"layer.0": jit.ones(1)}}, r"has the sizes \[3, 1\] in the checkpoint and \[1\] here"),
        ({"version": jit.ones(1)}, "'version' is no tensor"),
        ({"version": {}, "other": {}}, "does not hold 'other'"),
        ({"net": {"layer.0": jit.zeros(3, 1), "a": 1, "b": 1, "c": 1, "d": 1}}, "and 1 more"),
    ],
)
def test_what_does_not_fit_changes_nothing(folder, wanted, message):
    before = repr(wanted)
    with pytest.raises(checkpoint.CheckpointError, match=message):
        checkpoint.load(wanted, checkpoint_id=folder)
    assert repr(wanted) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": object()}, "tensors, numbers and text"),
        ({("a", 1): 1}, r"has the key \('a', 1\)"),
        ({"x": (jit.ones(1), 2)}, "is a tuple with tensors"),
        ({"a": {"b": 1}, "a.b": 2}, "two entries of the checkpoint have the name 'a.b'"),
        ({"x": jit.ones(1, dtype=jit.complex128)}, "convert it"),
    ],
)
def test_what_cannot_be_saved_leaves_the_older_one(folder, given, message):
    before = sorted(folder.iterdir())
    with pytest.raises(faults.ContentError, match=message):
        checkpoint.save(given, checkpoint_id=folder)
    assert version_in(folder) == 1 and sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: checkpoint.save({}, checkpoint_id=path, planner=1), "leave the planner out"),
        (lambda path: checkpoint.save({}), "no place is given"),
        (lambda path: checkpoint.load({}, checkpoint_id=3), "no path of one"),
        (lambda path: checkpoint.load({}, storage_reader=3), "pass checkpoint_id="),
        (lambda path: checkpoint.load({}, checkpoint_id=path / "nowhere"), "holds no checkpoint"),
    ],
)
def test_calls_that_mean_nothing_are_refused(tmp_path, call, message):
    with pytest.raises(Error, match=message) as caught:
        call(tmp_path)
    assert isinstance(caught.value, (UsageError, faults.FileError, TypeError))


@pytest.mark.parametrize("damage", ["cut", "gone", "index", "version", "elsewhere", "beside", "other"])
def test_damage_is_noticed(folder, damage):
    index = json.loads((folder / "index.json").read_text())
    part = folder / next(iter(index["files"]))
    if damage == "cut":
        part.write_bytes(part.read_bytes()[:-8])
    elif damage == "gone":
        part.unlink()
    elif damage == "other":
        jit.save({"net.layer.0": jit.ones(3, 1)}, part)
    elif damage == "beside":  # a file that holds nothing that is wanted, and stands outside of the folder
        outside = folder.parent / "outside.safetensors"
        jit.save({"x": jit.ones(1)}, outside)
        index["files"][f"../{outside.name}"] = outside.stat().st_size
        (folder / "index.json").write_text(json.dumps(index))
    else:
        text = {"index": "{", "version": json.dumps({**index, "version": 99})}
        index["tensors"]["net.layer.0"]["file"] = "../" + part.name
        (folder / "index.json").write_text(text.get(damage) or json.dumps(index))
    with pytest.raises(Error):
        version_in(folder)


# -- ends at any moment ----------------------------------------------------------------------------------------------


class Failing:
    """Functions of the operating system of which the call number `turn` fails, before or after its work.

    Args:
        turn: The number of the call.
        fail: What happens there.
        after: Whether the call does its work before.
    """

    def __init__(self, turn, fail, after):
        self.calls, self.turn, self.fail, self.after = 0, turn, fail, after

    def wrapped(self, function):
        def call(*args, **kwargs):
            is_turn, self.calls = self.calls == self.turn, self.calls + 1
            if is_turn and not self.after:
                self.fail()
            result = function(*args, **kwargs)
            if is_turn:
                self.fail()
            return Writing(result, self) if function.__name__ == "fdopen" else result

        return call


class Writing:
    """An open file whose writes are such calls, too."""

    def __init__(self, file, failing):
        self._file = file
        self.write = failing.wrapped(file.write)
        self.flush, self.fileno = file.flush, file.fileno

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self._file.close()


def saved_in_child(folder, turn, after):
    """Save version 2 in a process that ends at the call number `turn`; whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            failing = Failing(turn, lambda: os._exit(9), after)
            for name in CALLS:
                setattr(os, name, failing.wrapped(getattr(os, name)))
            checkpoint.save(state(2), checkpoint_id=folder)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("after", [False, True])
def test_a_process_that_ends_at_any_call_leaves_a_whole_checkpoint(folder, after):
    found = []
    for turn in range(100):
        checkpoint.save(state(1), checkpoint_id=folder)
        is_through = saved_in_child(folder, turn, after)
        found.append(version_in(folder))
        if is_through:
            break
    assert found == sorted(found) and found[0] == 1 and found[-1] == 2 and 15 < len(found) < 100
    checkpoint.save(state(3), checkpoint_id=folder)
    assert version_in(folder) == 3 and len(list(folder.iterdir())) == 2, "files of ended saves are removed"


@pytest.mark.parametrize("after", [False, True])
def test_a_call_that_fails_is_an_error_and_leaves_a_whole_checkpoint(folder, monkeypatch, after):
    def fail():
        raise OSError(28, "No space left on device")

    failures, originals = 0, {name: getattr(os, name) for name in CALLS}
    for turn in range(100):
        checkpoint.save(state(1), checkpoint_id=folder)
        failing = Failing(turn, fail, after)
        with monkeypatch.context() as patch:
            for name, function in originals.items():
                patch.setattr(os, name, failing.wrapped(function))
            try:
                checkpoint.save(state(2), checkpoint_id=folder)
                raised = False
            except (Error, OSError):
                raised = True
        failures += raised
        assert version_in(folder) in ((1, 2) if raised else (2,))
        if failing.calls <= turn:
            break
    assert failures > 10


def test_a_process_that_is_killed_at_random_moments_leaves_a_whole_checkpoint(folder):
    chance = random.Random(0)
    last = 1
    for _ in range(12):
        child = os.fork()
        if child == 0:
            try:
                for version in range(last + 1, last + 1000):
                    checkpoint.save(state(version), checkpoint_id=folder)
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0.005, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = version_in(folder)
        assert found >= last
        last = found
    assert last > 3


def test_a_reader_beside_a_writer_finds_whole_checkpoints(folder):
    child = os.fork()
    if child == 0:
        try:
            for version in range(2, 100000):
                checkpoint.save(state(version), checkpoint_id=folder)
        finally:
            os._exit(0)
    try:
        found = [version_in(folder) for _ in range(50)]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert found == sorted(found) and found[-1] > 2


def test_windows_into_a_checkpoint_outlive_it(folder):
    found: dict[str, Any] = {}
    checkpoint.load(found, checkpoint_id=folder)
    checkpoint.save(state(2), checkpoint_id=folder)
    assert np.unique(found["net"]["layer.3"].numpy()).tolist() == [1.0] and Path(folder).exists()
