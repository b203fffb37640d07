"""Models by the name of an entry in a folder's `hubconf.py`, and weights by their address, as in PyTorch.

Folders and weights are where torch has them, `~/.cache/torch/hub`, unless TORCH_HOME or `set_dir` says otherwise.
Weights are downloaded when they are not there; folders of code are not: `jit` runs what the user has put there.
"""

from __future__ import annotations

import builtins
import hashlib
import http.client
import importlib.util
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from jit.ir.errors import UsageError
from jit.ir.files import replacing

from .files import loading
from .files.faults import FileError, NoFileError

ENV_TORCH_HOME = "TORCH_HOME"
ENV_XDG_CACHE_HOME = "XDG_CACHE_HOME"
DEFAULT_CACHE_DIR = "~/.cache"
VAR_DEPENDENCY = "dependencies"
MODULE_HUBCONF = "hubconf.py"
READ_DATA_CHUNK = 128 * 1024
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The beginning of a checksum in the name of a file: resnet18-f37072fd.pth."""

_TIMEOUT = 30
_chosen: builtins.list[str] = []
"""The folder that `set_dir` has chosen, if it has."""

__all__ = [
    "DEFAULT_CACHE_DIR", "ENV_TORCH_HOME", "ENV_XDG_CACHE_HOME", "HASH_REGEX", "HubError", "MODULE_HUBCONF",
    "READ_DATA_CHUNK", "VAR_DEPENDENCY", "download_url_to_file", "get_dir", "help", "list", "load",
    "load_state_dict_from_url", "set_dir", "urlparse",
]  # fmt: skip


class HubError(NoFileError):
    """A model or a file of weights that is not here and cannot be fetched."""


# -- folders -----------------------------------------------------------------------------------------------------


def _get_torch_home() -> str:
    """The folder of all that is kept from one run to the next."""
    cache = os.getenv(ENV_XDG_CACHE_HOME, DEFAULT_CACHE_DIR)
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME, os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of models and weights: the one that `set_dir` has chosen, or `hub` in that of TORCH_HOME."""
    return _chosen[0] if _chosen else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder of models and weights."""
    _chosen[:] = [os.path.expanduser(d)]


# -- models ------------------------------------------------------------------------------------------------------


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """The result of calling an entry of a folder's `hubconf.py`, which is run.

    Args:
        repo_or_dir: With source="local" the path of a folder; else `owner/name` or `owner/name:branch` of a repository
            whose copy lies in the folder of models.
        model: The name of the entry.
        *args: Its arguments.
        source: "local" or "github".
        trust_repo: Accepted for PyTorch's sake, as are those that follow: nothing is fetched, so there is nothing to
            trust but the folder that the user has put there.
        force_reload: Accepted.
        verbose: Accepted.
        skip_validation: Accepted.
        **kwargs: The named arguments of the entry.

    Raises:
        UsageError: There is no such source or entry, or a package is missing that the folder needs.
        HubError: There is no such folder.

    >>> import jit, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...     _ = file.write("import jit\\ndef small(width): return jit.nn.Linear(width, 1)")
    >>> jit.hub.load(folder, "small", 3, source="local")
    Linear(in_features=3, out_features=1, bias=True)
    """
    if source not in ("local", "github"):
        raise UsageError(f"models are loaded from source='local' or 'github', not {source!r}; choose one of these")
    folder = Path(repo_or_dir) if source == "local" else _copy_of(os.fspath(repo_or_dir))
    return _entry(_hubconf(folder), model)(*args, **kwargs)


def list(github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = None,
         verbose: bool = True) -> builtins.list[str]:  # fmt: skip
    """The names of the entries of a folder's `hubconf.py`, which is run.

    Args:
        github: As `repo_or_dir` of `load`; a path is known by the folder that is there.
        force_reload: Accepted for PyTorch's sake, as are those that follow.
        skip_validation: Accepted.
        trust_repo: Accepted.
        verbose: Accepted.
    """
    found = vars(_hubconf(_folder(github)))
    return [name for name, value in found.items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, force_reload: bool = False, skip_validation: bool = False,
         trust_repo: Any = None) -> str | None:  # fmt: skip
    """The documentation of an entry of a folder's `hubconf.py`, which is run.

    Args:
        github: As for `list`.
        model: The name of the entry.
        force_reload: Accepted for PyTorch's sake, as are those that follow.
        skip_validation: Accepted.
        trust_repo: Accepted.
    """
    return _entry(_hubconf(_folder(github)), model).__doc__


def _folder(name: str) -> Path:
    return Path(name) if os.path.isdir(name) else _copy_of(name)


def _copy_of(repository: str) -> Path:
    """The folder in which torch keeps a copy of a repository.

    Raises:
        HubError: There is none.
        UsageError: This is not the name of a repository.
    """
    found = re.fullmatch(r"([\w.-]+)/([\w.-]+)(?::([\w./-]+))?", repository)
    if found is None or ".." in repository:
        raise UsageError(f"a repository is called owner/name or owner/name:branch, not {repository!r}; see source=")
    owner, name, branch = found.groups()
    branches = [branch.replace("/", "_")] if branch else ["main", "master"]
    folders = [Path(get_dir(), f"{owner}_{name}_{each}") for each in branches]
    for folder in folders:
        if folder.is_dir():
            return folder
    raise HubError(
        f"there is no copy of {repository} here, and code is not downloaded; clone https://github.com/{owner}/{name} "
        f"to {folders[0]}, or anywhere and pass source='local'"
    )


def _hubconf(folder: Path) -> Any:
    """The module `hubconf.py` of a folder, whose other modules it may import."""
    path = folder / MODULE_HUBCONF
    if not path.is_file():
        raise HubError(f"{folder} has no {MODULE_HUBCONF}, which says what models there are; pass one that has")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None, "the name of the file ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    missing = [name for name in getattr(module, VAR_DEPENDENCY, ()) if not _is_installed(name)]
    if missing:
        raise UsageError(f"{path} needs packages that are not installed: {', '.join(missing)}; install them")
    return module


def _is_installed(package: str) -> bool:
    return package in sys.modules or importlib.util.find_spec(package) is not None


def _entry(hubconf: Any, model: str) -> Callable[..., Any]:
    found = getattr(hubconf, model, None)
    if not callable(found):
        known = ", ".join(name for name, value in vars(hubconf).items() if callable(value) and name[0] != "_")
        raise UsageError(f"{hubconf.__file__} has no entry {model!r}; it has {known}")
    return found


# -- weights -----------------------------------------------------------------------------------------------------


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike[str] | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """The object in a file of weights, which is downloaded if it is not in the folder of weights yet.

    Args:
        url: The address of the file.
        model_dir: The folder; `checkpoints` in `get_dir()` if left out.
        map_location: As for `jit.load`.
        progress: Whether a line says what is downloaded.
        check_hash: Whether the file's checksum must begin as its name says: name-f37072fd.pth.
        file_name: The name of the file in the folder, if it is not that of the address.
        weights_only: As for `jit.load`.

    Raises:
        HubError: The file is not there and cannot be downloaded.
    """
    folder = Path(model_dir) if model_dir is not None else Path(get_dir(), "checkpoints")
    name = file_name or os.path.basename(urlparse(url).path)
    path = folder / name
    if not path.exists():
        found = HASH_REGEX.search(name) if check_hash else None
        if progress:
            sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        download_url_to_file(url, str(path), found[1] if found else None, progress)
    return loading.load(path, map_location, weights_only=weights_only)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file, whole or not at all.

    Args:
        url: The address.
        dst: The path of the file.
        hash_prefix: The beginning of the file's SHA-256 in hexadecimal digits; None if it is not checked.
        progress: Accepted for PyTorch's sake.

    Raises:
        HubError: There is no way to the address.
        FileError: Another file came than the checksum says.
    """
    checksum = hashlib.sha256()
    with replacing(dst) as file:
        for chunk in _chunks(url, dst):
            checksum.update(chunk)
            file.write(chunk)
        if hash_prefix and not checksum.hexdigest().startswith(hash_prefix):
            raise FileError(
                f"{url} gave a file whose checksum begins with {checksum.hexdigest()[: len(hash_prefix)]} and not with "
                f"{hash_prefix}; it is damaged, or another one: try again"
            )


def _chunks(url: str, dst: str) -> Iterator[bytes]:
    """The contents at an address, piece by piece; `dst` is where somebody else could put the file.

    Raises:
        HubError: There is no way to the address, or the connection broke.
    """
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "jit.hub"})
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            while chunk := answer.read(READ_DATA_CHUNK):
                yield chunk
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise HubError(f"{url} cannot be downloaded ({reason}); fetch it elsewhere and put it at {dst}") from error
