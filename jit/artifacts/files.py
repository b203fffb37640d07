"""`f.save(path)` and `jit.load(path)`: traced functions as files that hold data and no code.

An artifact is a zip file without compression:

    manifest.json         signature, keys, and what each recording takes for granted, as `jit.artifacts.plain` writes it
    graphs/0.ir ...       the recorded graphs, all stages, as text
    tensors.safetensors   parameters, buffers, captured tensors and large constants

Reading one calls nothing that the file names: the text is parsed and verified, every number is checked, and
PythonOps and CppOps are those that this process has registered under the names in the file. Kernels are compiled anew,
or come from this machine's cache. A loaded function runs what was recorded and no more; it has no Python code to
record from.

Note [What is saved]
    The recordings that hold in the present surroundings: what the function would do if it were called. What it reads
    besides its arguments is saved as it is at that moment, tensors by their state-dict paths; those that share memory
    share it again when they are loaded. `.grad` is not saved, nor is the default random generator: a loaded function
    draws from that of its process.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import zipfile
from typing import Any

from jit.ir.errors import Error, TraceError, UsageError
from jit.ir.files import write_atomically
from jit.tracing.surroundings.surroundings import Surroundings

from ..tracing.function import Entry, TracedCall, TracedFunction
from ..tracing.parameters import FunctionParameters
from ..tracing.patience import patience
from .manifests import ManifestWriter
from .relocating import Relocation
from .restoring import Reader

FORMAT = 3
_MANIFEST, _TENSORS = "manifest.json", "tensors.safetensors"


class ArtifactError(Error):
    """A file that is no artifact, or one that is damaged."""


# -- writing -----------------------------------------------------------------------------------------------------


def save(function: TracedFunction, path: str | os.PathLike[str]) -> None:
    """Write what `function` has recorded to a file, whole or not at all; see `TracedFunction.save`."""
    write_atomically(path, dumps(function))


@patience()
def dumps(function: TracedFunction) -> bytes:
    """An artifact as bytes."""
    writer = ManifestWriter()
    manifest = {"format": FORMAT, **writer.manifest(function)}
    members = {_MANIFEST: json.dumps(manifest).encode(), _TENSORS: writer.tensors()}
    members |= {f"graphs/{number}.ir": text.encode() for number, text in enumerate(writer.graphs)}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)  # with no date: equal functions make equal files
    return buffer.getvalue()


# -- reading -----------------------------------------------------------------------------------------------------


@patience()
def loads(data: bytes | bytearray | memoryview, name: str = "the artifact", map_location: Any = None) -> LoadedFunction:
    """The function in an artifact's bytes. It runs no code of the file's, which may come from a stranger.

    Args:
        data: The bytes.
        name: The name of the file, for errors.
        map_location: As for `jit.load`.

    Raises:
        ArtifactError: The bytes are damaged, no artifact, or of another format.
    """
    relocation = map_location if isinstance(map_location, Relocation) else Relocation(map_location)
    try:
        members = _members(data)
        written = members.pop(_MANIFEST)
        manifest = json.loads(written)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ArtifactError(
                f"it is of a format that this version cannot read, which reads format {FORMAT}; save the function again"
            )
        tensors = members.pop(_TENSORS)
        graphs = [members.pop(f"graphs/{i}.ir").decode() for i in range(len(members))]
        reader = Reader(tensors, graphs, relocation)
        return LoadedFunction(reader, manifest, written)
    except Error as error:
        raise type(error)(f"{name} cannot be loaded: {error}") from error
    except Exception as error:  # whatever goes wrong while reading is the file's fault
        raise ArtifactError(f"{name} cannot be loaded: it is damaged, or no artifact ({error})") from error


def _members(data: bytes | bytearray | memoryview) -> dict[str, bytes]:
    """Contents of the zip file by name. Nothing in it is compressed, so it is never larger than the file."""
    size = memoryview(data).nbytes
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = file.infolist()
        if any(e.compress_type != zipfile.ZIP_STORED or e.file_size != e.compress_size for e in entries):
            raise ArtifactError("it holds compressed data, which artifacts do not")
        if sum(e.file_size for e in entries) > size or len({e.filename for e in entries}) != len(entries):
            raise ArtifactError("its table of contents is wrong")
        return {e.filename: file.read(e) for e in entries}


class LoadedFunction(TracedFunction):
    """A traced function without Python code: it runs what was recorded before it was saved.

    Args:
        reader: The contents of its artifact.
        manifest: What the manifest of that says.
        written: The bytes of the manifest.
    """

    has_code = False

    def __init__(self, reader: Reader, manifest: dict[str, Any], written: bytes) -> None:
        self.tensors: dict[str, Any] = reader.owners(manifest["owners"])
        """The parameters, buffers and other tensors that the function reads, by name."""
        super().__init__(
            self._refuse_inside,
            optimize=manifest["optimize"] is True,
            dynamic=False,
            surroundings=Surroundings(self.tensors, self.tensors),  # type: ignore[arg-type]
            parameters=FunctionParameters.fixed(reader.signature(manifest["signature"])),
        )
        self.__name__ = str(manifest["name"])
        self.__doc__ = None
        self._surroundings.promotions.arguments.update(map(str, manifest["promoted"]))
        reader.fill(self, manifest, written)
        recordings = [r for entry in self._cache.entries.values() for r in entry.recordings]
        if not recordings:
            raise ArtifactError("it holds no recording")
        for recording in recordings:
            recording.damaged = ArtifactError
        self._last = recordings[-1]
        self._explanation.loaded()

    def watched(self) -> list[tuple[str, Any]]:
        """The tensors that the function reads, which stand for the surroundings that a loaded function lacks."""
        return [("", self.tensors)]

    def where(self) -> str:
        """The name of the function in messages: it has no line of its own."""
        return f"{self.__name__}() as loaded"

    def parameters(self) -> list[Any]:
        """The parameters that the function reads, to be given to an optimizer."""
        return list(dict(self.named_parameters()).values())

    def named_parameters(self) -> list[tuple[str, Any]]:
        """The parameters that the function reads, with their state-dict paths."""
        from ..nn import Parameter

        return [(name, t) for name, t in self.tensors.items() if isinstance(t, Parameter)]

    def named_buffers(self) -> list[tuple[str, Any]]:
        """The other tensors that the function reads, with their names."""
        from jit.eager.tensors import Tensor

        from ..nn import Parameter

        return [(n, t) for n, t in self.tensors.items() if isinstance(t, Tensor) and not isinstance(t, Parameter)]

    def state_dict(self) -> dict[str, Any]:
        """All tensors that the function reads, by name, as they are now."""
        return {name: tensor.detach() for name, tensor in [*self.named_parameters(), *self.named_buffers()]}

    def _refuse_inside(self, *args: Any, **kwargs: Any) -> Any:
        raise TraceError(
            f"{self.__name__} was loaded and has no Python code, so it cannot be recorded as a part of another traced "
            "function; call it outside"
        )

    def _entry(self, call: TracedCall) -> Entry | None:
        entry = self._cache.get(call.key)
        if entry is None:
            self._explain_key(call)
            self._refuse()
        return entry

    def _run(self, entry: Entry, call: TracedCall) -> tuple[bool, Any]:
        try:
            return super()._run(entry, call)
        except (Error, MemoryError):
            raise
        except Exception as error:
            raise self._damage(entry, error) from error

    def _record(self, entry: Entry, call: TracedCall, seen: int) -> Any:
        if call.raised is not None:  # the original raised that, too, unless it caught it
            raise self._damage(entry, call.raised) from call.raised.__cause__
        self._refuse()

    def _damage(self, entry: Entry, error: Exception) -> Exception:
        """The error to raise for one in a run: itself if an operator or Python raised it, else an ArtifactError."""
        mine = isinstance(error, (Error, MemoryError, ArithmeticError))
        if mine or any(recording.calls_python for recording in entry.recordings):
            return error
        return ArtifactError(f"{self.__name__} as loaded is damaged: {type(error).__name__} ({error})")

    def _refuse(self) -> None:
        raise UsageError(
            f"{self.__name__} was loaded and has no trace for this call: {self._explanation.reason}. Call the original "
            "in this way and save it again"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return loads(dumps(self))


def pickled(function: TracedFunction, protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
    """The reduction of a traced function for `pickle`: its artifact; without recordings, its place in Python.

    Args:
        function: What is pickled.
        protocol: The protocol of the pickle; from 5 on the artifact can travel beside it, without being copied.

    Raises:
        UsageError: There is neither a recording nor a name by which the function could be found.
    """
    if any(entry.recordings for entry in function._cache.entries.values()):
        data = dumps(function)
        return loads, (pickle.PickleBuffer(data) if protocol >= 5 else data,)
    name = getattr(function, "__qualname__", function.__name__)
    found: Any = inspect.getmodule(function._function)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is function:
        return name
    raise UsageError(
        f"{function.__name__} has no trace that could be pickled, and no name by which it could be found; call it once "
        "with arguments like those of the calls to come, and pickle it then"
    )
