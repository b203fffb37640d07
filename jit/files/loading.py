"""`jit.load`: any file that holds tensors, or a sentence that says what the file is and who can open it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

from jit.ir.errors import Error, UsageError

from ..artifacts import files as artifacts
from ..artifacts.relocating import Relocation
from .allowing import allowed
from .archives import Archive, read_archive
from .faults import EmptyFileError, FileError
from .kinds import HEAD, TORCH_STREAM, ZIP, check_no_folder, kind_of_start, kind_of_zip
from .machine import Unpickler
from .names import KNOWN
from .safe_tensors import looks_safe, read_tensors
from .searching import NameSearch
from .sources import FileSource, opened
from .streams import read_preface, read_stream

_MANIFEST = "manifest.json"
_PICKLE = "data.pkl"


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    encoding: str = "utf-8",
    **pickle_load_args: Any,
) -> Any:
    """The object in a file: one that `jit.save` or torch has written, a file of safetensors, or a traced function.

    Nothing that the file names is run or imported, whatever the arguments are. A file of torch may hold tensors,
    parameters, numbers, text, arrays of numpy and containers of them; other classes are allowed one by one, see
    `jit.serialization.safe_globals`. Tensors that shared memory when they were saved share it again.

    A traced function that `f.save(path)` has written is called like the original, for every signature that had been
    recorded, and has its gradients.

    Args:
        f: The path of the file, or a file that is open for reading bytes.
        map_location: The device for all that was saved, or a dictionary from devices to devices. Or a function: it is
            called as `map_location(empty, "cuda:0")` for each device in the file, with a tensor without elements on the
            CPU, and returns a device, a tensor on it, or None for the same device. By default tensors go back to where
            they were.
        pickle_module: Accepted for PyTorch's sake; None or `pickle`.
        weights_only: False allows the layers of this package, too, and those of torch that have the same attributes
            here, so that a whole module can be loaded. They are made attribute by attribute.
        mmap: Whether tensors are windows into the file, which is read as they are used, and must not change meanwhile.
            Files of safetensors are unless this is False, others if it is True.
        encoding: The encoding of strings in files of Python 2; "bytes" leaves them as they are.
        **pickle_load_args: Accepted for PyTorch's sake: `errors` and `fix_imports`.

    Raises:
        UsageError: Another `pickle_module` is wanted, or an argument that there is not.
        FileError: The file cannot be read, is damaged, or of a kind that is not loaded here.
        RefusedFileError: It names a class or a function that nobody has allowed.
        Error: It is an artifact that is damaged, or that needs a PythonOp which is not registered here.

    >>> import jit, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.pt")
    >>> jit.save(jit.nn.Linear(2, 1).state_dict(), path)
    >>> {name: tensor.shape for name, tensor in jit.load(path).items()}
    {'weight': jit.Size([1, 2]), 'bias': jit.Size([1])}
    """
    if pickle_module not in (None, pickle):
        raise UsageError("files are read in one way, whatever the pickle_module is; leave it out")
    if unknown := sorted(pickle_load_args.keys() - {"errors", "fix_imports"}):
        raise UsageError(f"load takes no argument {unknown[0]!r}; leave it out")
    if isinstance(f, (str, os.PathLike)) and "\0" not in os.fsdecode(f):
        check_no_folder(Path(os.fsdecode(f)))
    source = opened(f, mapped=bool(mmap))
    try:
        return _contents(source, Relocation(map_location), mmap, not weights_only, encoding)
    except (Error, MemoryError) as error:
        if isinstance(error, FileError):
            raise type(error)(f"{source.name} cannot be loaded: {error}") from error
        raise
    except Exception as error:  # whatever goes wrong while reading is the file's fault
        raise FileError(f"{source.name} cannot be loaded: it is damaged ({type(error).__name__}: {error})") from error


def _contents(source: FileSource, relocation: Relocation, mmap: bool | None, modules: bool, encoding: str) -> Any:
    head = source.head(HEAD)
    if not head:
        raise EmptyFileError(
            "it is empty and no artifact; if the file is open and was just written, go to its start with seek(0)"
        )
    if head.startswith(ZIP):
        return _of_zip(source, relocation, modules, encoding)
    if head.startswith(TORCH_STREAM):
        return read_stream(source, relocation, modules, encoding)
    if looks_safe(head, source.size):
        source.mapped = mmap is not False and source.on_disk
        return read_tensors(source, relocation)
    raise FileError(f"it is {kind_of_start(head, source.name)}")


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a file of torch that are neither data nor allowed; `load` refuses the file for the first of them.

    Raises:
        FileError: It is no file of torch.

    >>> import argparse, io, jit
    >>> file = io.BytesIO()
    >>> jit.save({"options": argparse.Namespace(width=3)}, file)
    >>> _ = file.seek(0)
    >>> jit.serialization.get_unsafe_globals_in_checkpoint(file)
    ['argparse.Namespace']
    """
    source = opened(f, mapped=False)
    search = NameSearch()
    head = source.head(HEAD)
    try:
        if head.startswith(TORCH_STREAM):
            Unpickler(search).run(source.stream(read_preface(source)))
        elif head.startswith(ZIP) and (prefix := _prefix(archive := Archive(source))) is not None:
            Unpickler(search).run(archive.pickle(prefix))
        else:
            raise FileError("it is no file of torch")
    except Exception as error:
        raise FileError(f"{source.name} cannot be searched: {error}") from error
    return [name for name in search.names if name not in KNOWN and name not in allowed()]


def _of_zip(source: FileSource, relocation: Relocation, modules: bool, encoding: str) -> Any:
    archive = Archive(source)
    if _MANIFEST in archive.members:
        return artifacts.loads(source.part(0, source.size), source.name, relocation)
    prefix = _prefix(archive)
    if prefix is None or f"{prefix}constants.pkl" in archive.members:
        raise FileError(f"it is {kind_of_zip(archive.members)}")
    return read_archive(archive, prefix, relocation, modules, encoding)


def _prefix(archive: Archive) -> str | None:
    """The folder of a file of torch within a zip file; None if it is none."""
    return next((name[: -len(_PICKLE)] for name in archive.members if name.endswith("/" + _PICKLE)), None)
