"""Files of ONNX models, from whoever: nothing in them is trusted, and nothing outside their folder is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jit.ir.errors import ModelError, UsageError

if TYPE_CHECKING:
    import onnx


def read_model(source: Any) -> onnx.ModelProto:
    """The model of a path, of bytes, or as onnx has it, with its external data.

    Raises:
        ModelError: It is no ONNX model, or its data lies outside its folder.
        UsageError: There is no such file.
    """
    import onnx

    if isinstance(source, onnx.ModelProto):
        return source
    if isinstance(source, bytes):
        return _checked(_parsed(source, "the bytes are"), None)
    try:
        path = Path(os.fspath(source))
        content = path.read_bytes()
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source!r} is not the path of an ONNX model ({error})") from error
    except OSError as error:
        raise UsageError(f"cannot read {str(source)!r}: {error.strerror or error}") from error
    return _checked(_parsed(content, f"{str(path)!r} is"), path)


def _parsed(content: bytes, what: str) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError) as error:
        raise ModelError(f"{what} no ONNX model: {error}") from error
    if not model.HasField("graph"):
        raise ModelError(f"{what} no ONNX model: it has no graph")
    return model


def _checked(model: onnx.ModelProto, path: Path | None) -> onnx.ModelProto:
    """The model with its external data, for which onnx refuses places outside of its folder, and links."""
    import onnx

    try:
        onnx.checker.check_model(model if path is None else str(path))
        if path is not None:
            onnx.load_external_data_for_model(model, str(path.parent))
    except (onnx.checker.ValidationError, OSError, ValueError) as error:
        raise ModelError(f"the ONNX model is not valid: {_sentence(error)}") from error
    return model


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
