"""`jit.hub`: entries of a folder's hubconf.py, and weights that are fetched once."""

import hashlib
import sys

import pytest

import jit
from jit import hub

HUBCONF = '''
import jit
from layers import Doubled

dependencies = ["numpy"]

def small(width, bias=True):
    """A small model."""
    return jit.nn.Sequential(jit.nn.Linear(width, 1, bias=bias), Doubled())

def _helper():
    return None
'''
LAYERS = """
import jit

class Doubled(jit.nn.Module):
    def forward(self, x):
        return x * 2
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A folder of models and weights of the test's own."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hub, "_chosen", [])
    monkeypatch.delitem(sys.modules, "layers", raising=False)
    return tmp_path / "home" / "hub"


def write_models(folder):
    folder.mkdir(parents=True)
    (folder / "hubconf.py").write_text(HUBCONF)
    (folder / "layers.py").write_text(LAYERS)
    return folder


def test_an_entry_of_a_local_folder_is_called(tmp_path):
    folder, before = write_models(tmp_path / "models"), list(sys.path)
    made = hub.load(str(folder), "small", 3, bias=False, source="local")
    assert made(jit.ones(2, 3)).shape == (2, 1) and made[0].bias is None
    assert sys.path == before
    assert "small" in hub.list(str(folder)) and "_helper" not in hub.list(str(folder))
    assert hub.help(str(folder), "small") == "A small model."


def test_a_copy_of_a_repository_is_found_where_torch_has_it(home):
    write_models(home / "somebody_models_main")
    write_models(home / "somebody_models_v1.0")
    assert len(hub.load("somebody/models", "small", 2)) == 2
    assert len(hub.load("somebody/models:v1.0", "small", 2)) == 2
    with pytest.raises(hub.HubError, match=r"clone https://github.com/somebody/other to .*somebody_other_main"):
        hub.load("somebody/other", "small")


@pytest.mark.parametrize("name", ["models", "../models", "a/../b", "a/b/c", ""])
def test_what_is_no_repository_is_refused(name):
    with pytest.raises(jit.Error, match="owner/name"):
        hub.load(name, "small")


def test_what_is_missing_is_said(tmp_path):
    folder = write_models(tmp_path / "models")
    with pytest.raises(jit.UsageError, match="no entry 'large'; it has"):
        hub.load(folder, "large", source="local")
    with pytest.raises(jit.UsageError, match="source"):
        hub.load(folder, "small", source="elsewhere")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_package_here']")
    with pytest.raises(jit.UsageError, match="no_such_package_here"):
        hub.list(str(folder))
    (folder / "hubconf.py").unlink()
    with pytest.raises(hub.HubError, match="has no hubconf"):
        hub.load(folder, "small", source="local")


def test_the_folder_is_chosen(home, tmp_path, monkeypatch):
    assert hub.get_dir() == str(home)
    hub.set_dir(tmp_path / "other")
    assert hub.get_dir() == str(tmp_path / "other")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert hub._get_torch_home() == "/caches/torch"


def test_weights_are_fetched_once(home, tmp_path, capsys):
    jit.save({"weight": jit.ones(2)}, tmp_path / "net.pt")
    address = (tmp_path / "net.pt").as_uri()
    assert hub.load_state_dict_from_url(address)["weight"].tolist() == [1, 1]
    assert "Downloading" in capsys.readouterr().err
    (tmp_path / "net.pt").unlink()
    assert hub.load_state_dict_from_url(address)["weight"].tolist() == [1, 1]
    assert (home / "checkpoints" / "net.pt").exists() and not capsys.readouterr().err


def test_weights_that_cannot_be_fetched_have_a_place(home):
    with pytest.raises(hub.HubError, match=r"fetch it elsewhere and put it at .*checkpoints/net-0a1b.pth"):
        hub.load_state_dict_from_url("file:///no/such/folder/net-0a1b.pth", progress=False)
    with pytest.raises(FileNotFoundError):
        hub.load_state_dict_from_url("no address", progress=False)


def test_a_wrong_checksum_leaves_no_file(tmp_path):
    (tmp_path / "a").write_bytes(b"contents")
    right = hashlib.sha256(b"contents").hexdigest()[:8]
    hub.download_url_to_file((tmp_path / "a").as_uri(), str(tmp_path / "b"), right)
    assert (tmp_path / "b").read_bytes() == b"contents"
    with pytest.raises(jit.Error, match="checksum"):
        hub.download_url_to_file((tmp_path / "a").as_uri(), str(tmp_path / "c"), "00000000")
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


def test_names_that_programs_use():
    assert hub.HASH_REGEX.findall("resnet18-f37072fd.pth") == ["f37072fd"]
    assert hub.urlparse("https://host/a/b.pth?x=1").path == "/a/b.pth"
