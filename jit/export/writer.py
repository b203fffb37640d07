"""Model files: written beside their place first and moved there when complete, so that no half of one is ever seen."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jit.ir.errors import ExportError, UsageError

if TYPE_CHECKING:
    import onnx_ir

EXTERNAL_ABOVE = 1_500_000_000
"""Bytes of weights above which they go to a file of their own; a protobuf message ends at 2 GiB."""
MESSAGE_LIMIT = 2**31 - 2**20
"""Bytes of weights beyond which a model does not fit into one protobuf message."""
_SMALL = 1024
"""Tensors of fewer bytes stay in the model in any case."""

EXTERNAL_MODES = ("auto", "always", "never")


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path to write a model to; UsageError if it cannot be written, before any work is done.

    Raises:
        UsageError: The path is none, is a folder or a device, or lies in a folder that is not there or read-only.
    """
    try:
        target = Path(os.path.realpath(os.fspath(path)))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path!r} is not the path of a file ({error}); pass a str or a Path.") from error
    if target.is_dir():
        raise UsageError(f"Cannot write the model to {str(path)!r}: it is a folder; name a file in it.")
    if target.exists() and not target.is_file():
        raise UsageError(f"Cannot write the model to {str(path)!r}: it is not an ordinary file; name another one.")
    if not target.parent.is_dir():
        raise UsageError(
            f"Cannot write the model to {str(path)!r}: there is no folder {str(target.parent)!r}; make it first."
        )
    if not os.access(target.parent, os.W_OK):
        raise UsageError(
            f"Cannot write the model to {str(path)!r}: the folder {str(target.parent)!r} is read-only; choose another."
        )
    return target


def initializer_bytes(model: onnx_ir.Model) -> int:
    """The bytes of all weights and constants."""
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def to_bytes(model: onnx_ir.Model) -> bytes:
    """The model as a file would hold it; the same model gives the same bytes.

    Raises:
        ExportError: The model does not fit into one file.
    """
    import onnx_ir

    if initializer_bytes(model) > MESSAGE_LIMIT:
        size = f"{initializer_bytes(model):,} bytes"
        raise ExportError(f"A model of {size} does not fit into one file: save it with external_data='auto'.")
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def write_model(model: onnx_ir.Model, path: str | os.PathLike[str], external_data: str = "auto") -> str | None:
    """Write the model, and weights above 1.5 GB to `<path>.data` beside it.

    Args:
        model: What to write.
        path: The file; an older one is replaced once the new one is complete.
        external_data: When the weights go to a file of their own: "auto" (above 1.5 GB), "always" or "never".

    Returns:
        The name of the file with the weights, if there is one.

    Raises:
        UsageError: If the path cannot be written to, or `external_data` is none of the three.
        ExportError: If writing fails; then no file is left behind.
    """
    if external_data not in EXTERNAL_MODES:
        raise UsageError(f"external_data must be one of {', '.join(map(repr, EXTERNAL_MODES))}, got {external_data!r}.")
    target = check_target(path)
    external = external_data == "always" or (external_data == "auto" and initializer_bytes(model) > EXTERNAL_ABOVE)
    data = f"{target.name}.data" if external else None
    try:
        with _folder_beside(target) as folder:
            _write_files(model, folder, target.name, data)
            _move_into_place(folder, target)
    except OSError as error:
        raise ExportError(
            f"Cannot write the model to {str(path)!r}: {error.strerror or error}; choose another place for it."
        ) from error
    return data


@contextlib.contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    """A folder on the same disk, so that moving out of it is one step; gone afterwards."""
    folder = tempfile.mkdtemp(prefix=".jit-export-", dir=target.parent)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_files(model: onnx_ir.Model, folder: Path, name: str, data: str | None) -> None:
    import onnx_ir

    if data is None:
        (folder / name).write_bytes(to_bytes(model))
        return
    values = list(model.graph.initializers.values())
    tensors = [value.const_value for value in values]
    try:
        onnx_ir.external_data.unload_from_model(model, folder, data, size_threshold_bytes=_SMALL)
        (folder / name).write_bytes(onnx_ir.to_proto(model).SerializeToString(deterministic=True))
    finally:
        for value, tensor in zip(values, tensors):
            value.const_value = tensor


def _move_into_place(folder: Path, target: Path) -> None:
    """Move the weights first, then the model, so that a model in its place has its weights.

    An older model that has its weights in the same file goes before them: it is not to be met with the new ones. They
    go, too, if the new model has its weights within.
    """
    data = f"{target.name}.data"
    if _has_weights_in(target, target.parent / data):
        target.unlink()
        (target.parent / data).unlink()
    if (folder / data).exists():
        os.replace(folder / data, target.parent / data)
    os.replace(folder / target.name, target)


def _has_weights_in(model: Path, data: Path) -> bool:
    """Whether a model that is there has its weights in a file beside it."""
    return model.is_file() and data.is_file() and data.name.encode() in model.read_bytes()
