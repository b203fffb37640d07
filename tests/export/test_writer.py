"""Files: complete or not there, weights beside the model where it grows too large, and paths that cannot be written."""

import os

import numpy as np
import onnx
import onnxruntime
import pytest

from jit.export import writer
from jit.ir.errors import ExportError, UsageError

from .models import export

TEXT = "graph(%x : Float(1000), %w : Float(1000)) { %0 : Float(1000) = aten::mul(%x, %w) return (%0) }"
W = np.arange(1000, dtype=np.float32)


def exported():
    return export(TEXT, initializers={"w": W})


def runs(path):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": W})[0], W * W)


def test_one_file(tmp_path):
    model = exported()
    model.save(tmp_path / "m.onnx")
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert (tmp_path / "m.onnx").read_bytes() == model.to_bytes()
    assert model.report.path == str(tmp_path / "m.onnx") and model.report.external_data is None
    runs(tmp_path / "m.onnx")


def test_weights_beyond_the_threshold_lie_beside_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "EXTERNAL_ABOVE", 3_999)
    model = exported()
    model.save(tmp_path / "m.onnx")
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]
    assert os.path.getsize(tmp_path / "m.onnx.data") == 4_000
    assert model.report.external_data == "m.onnx.data"
    (tensor,) = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert {entry.key: entry.value for entry in tensor.external_data}["location"] == "m.onnx.data"
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    runs(tmp_path / "m.onnx")
    model.save(tmp_path / "again.onnx", external_data="never")  # the model in memory is as it was
    runs(tmp_path / "again.onnx")


def test_weights_can_always_or_never_lie_beside(tmp_path):
    exported().save(tmp_path / "a.onnx", external_data="always")
    exported().save(tmp_path / "b.onnx", external_data="never")
    assert sorted(os.listdir(tmp_path)) == ["a.onnx", "a.onnx.data", "b.onnx"]
    with pytest.raises(UsageError, match="external_data must be one of 'auto', 'always', 'never', got 'yes'"):
        exported().save(tmp_path / "c.onnx", external_data="yes")


def test_weights_in_the_model_replace_those_beside_it(tmp_path):
    exported().save(tmp_path / "m.onnx", external_data="always")
    (tmp_path / "other.onnx.data").write_bytes(b"of another model")
    exported().save(tmp_path / "m.onnx", external_data="never")
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "other.onnx.data"]
    (tmp_path / "m.onnx.data").write_bytes(b"somebody else's")
    exported().save(tmp_path / "m.onnx", external_data="never")
    assert (tmp_path / "m.onnx.data").read_bytes() == b"somebody else's"


def test_no_model_is_met_with_the_weights_of_another(tmp_path, monkeypatch):
    exported().save(tmp_path / "m.onnx", external_data="always")
    replace = os.replace

    def crash(source, target):
        if os.fspath(target) == str(tmp_path / "m.onnx"):
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(ExportError, match="Input/output error"):
        exported().save(tmp_path / "m.onnx", external_data="always")
    assert os.listdir(tmp_path) == ["m.onnx.data"]


def test_what_does_not_fit_into_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MESSAGE_LIMIT", 100)
    with pytest.raises(ExportError, match="A model of 4,000 bytes does not fit into one file"):
        exported().save(tmp_path / "m.onnx", external_data="never")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", ["never", "always"])
def test_a_failure_leaves_nothing_behind_and_the_old_file_in_place(tmp_path, monkeypatch, mode):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "_move_into_place", fail)
    with pytest.raises(ExportError, match=r"Cannot write the model to .*: No space left on device"):
        exported().save(path, external_data=mode)
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert path.read_bytes() == b"old"


def test_an_older_file_is_replaced_through_a_link(tmp_path):
    (tmp_path / "real.onnx").write_bytes(b"old")
    (tmp_path / "link.onnx").symlink_to("real.onnx")
    exported().save(tmp_path / "link.onnx")
    assert (tmp_path / "link.onnx").is_symlink()
    runs(tmp_path / "real.onnx")


def test_the_file_has_ordinary_rights(tmp_path):
    exported().save(tmp_path / "m.onnx")
    (tmp_path / "other").write_bytes(b"")
    assert os.stat(tmp_path / "m.onnx").st_mode == os.stat(tmp_path / "other").st_mode


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/null", "it is not an ordinary file"),
        ("/no/such/folder/m.onnx", "there is no folder '/no/such/folder'"),
        ("/tmp", "it is a folder; name a file in it"),
        ("a\0b", "is not the path of a file"),
        (3, "is not the path of a file"),
    ],
)
def test_paths_that_cannot_be_written(path, message):
    with pytest.raises(UsageError, match=message):
        exported().save(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="is read-only"):
        exported().save(tmp_path / "m.onnx")


@pytest.mark.slow
def test_two_and_a_half_gigabytes(tmp_path):
    size = 650_000_000
    text = f"graph(%x : Float(1), %w : Float({size})) {{ %0 : Float({size}) = aten::mul(%x, %w) return (%0) }}"
    model = export_large(text, np.ones(size, np.float32))
    model.save(tmp_path / "m.onnx")
    assert os.path.getsize(tmp_path / "m.onnx.data") == 4 * size
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.full(1, 3, np.float32)})[0][-1] == 3


def export_large(text, weights):
    from jit.export import export_graph
    from jit.ir import parse

    return export_graph(parse(text), initializers={"w": weights})
