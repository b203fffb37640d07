"""Files of safetensors: tensors by name, in one piece, behind a table in JSON.

The library of that name reads such files into memory of its own. Here they are mapped, so that the elements of a tensor
are read when they are used, and tensors that nobody uses cost nothing; the changes that a program makes stay its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from jit.eager.tensors import Tensor
from jit.ir import dtypes
from jit.runtime.arrays.libraries import HOST

from ..artifacts.relocating import Relocation
from ..nn.modules import Module
from .faults import ContentError, FileError
from .memories import Memories
from .rebuilding import StorageKind, rebuild_tensor
from .sources import FileSource

DTYPES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32,
    "I64": dtypes.int64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
    "C64": dtypes.complex64, "U16": dtypes.uint16, "U32": dtypes.uint32, "U64": dtypes.uint64,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2, "F8_E8M0": dtypes.float8_e8m0fnu,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_LARGEST_HEADER = 100_000_000
_LENGTH = 8
_METADATA = "__metadata__"


def looks_safe(head: bytes, size: int) -> bool:
    """Whether a file begins as one of safetensors does."""
    length = int.from_bytes(head[:_LENGTH], "little")
    return head[_LENGTH : _LENGTH + 1] == b"{" and 2 <= length <= _LARGEST_HEADER


def read_tensors(source: FileSource, relocation: Relocation) -> dict[str, Tensor]:
    """The tensors in a file of safetensors, in the order in which they lie there.

    Args:
        source: The file.
        relocation: The device that takes the place of the CPU.

    Raises:
        FileError: The file is damaged.
    """
    length = int.from_bytes(source.part(0, _LENGTH), "little")
    table = json.loads(source.part(_LENGTH, length), object_pairs_hook=_without_doubles)
    table.pop(_METADATA, None)
    start = _LENGTH + length
    rows = sorted(((name, *_row(name, row)) for name, row in table.items()), key=lambda row: row[3:])
    _check_places(rows, source.size - start)
    places = {name: (start + first, last - first) for name, _, _, first, last in rows}

    def memory_of(key: str, kind: StorageKind, count: int) -> Any:
        return source.array(*places[key])

    memories = Memories(memory_of, relocation, swapped=False)
    return {name: _tensor(memories, name, dtype, shape) for name, dtype, shape, _, _ in rows}


def _tensor(memories: Memories, name: str, dtype: dtypes.DType, shape: list[int]) -> Tensor:
    memory = memories.find(StorageKind(name, dtype), name, "cpu", math.prod(shape), None)
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    return rebuild_tensor(memory, 0, shape, strides)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise FileError("its table has a name twice")
    return dict(pairs)


def _row(name: str, row: Any) -> tuple[dtypes.DType, list[int], int, int]:
    """Dtype, sizes, start and end of a tensor."""
    dtype, shape, (first, last) = row["dtype"], row["shape"], row["data_offsets"]
    if dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise FileError(f"{name[:80]!r} in it has elements of {str(dtype)[:20]}; tensors have one of {known}")
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in (*shape, first, last)):
        raise FileError(f"the sizes of {name[:80]!r} in it are no numbers")
    if len(shape) > 64 or last - first != math.prod(shape) * DTYPES[dtype].itemsize:
        raise FileError(f"{name[:80]!r} in it does not have as many bytes as its sizes say")
    return DTYPES[dtype], shape, first, last


def _check_places(rows: list[Any], size: int) -> None:
    """FileError unless the tensors lie one behind the other and fill the file, as the format demands."""
    end = 0
    for name, _, _, first, last in rows:
        if first != end:
            raise FileError(f"{name[:80]!r} in it overlaps with another tensor, or there is a gap before it")
        end = last
    if end != size:
        raise FileError(f"it is cut off, or goes on: its tensors have {end} bytes, and it has {size} for them")


def write_tensors(content: Any, file: BinaryIO) -> None:
    """Write tensors by name, or the state of a module, as safetensors.

    Raises:
        ContentError: It is something else, or tensors are of complex128.
    """
    tensors = _named_tensors(content)
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))  # so that all are aligned
    table: dict[str, Any] = {_METADATA: {"format": "pt"}}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.dtype.itemsize
        row = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        table[name] = row
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(_LENGTH, "little") + header)
    for name in order:
        file.write(np.ascontiguousarray(HOST.taken(tensors[name]._defined())).reshape(-1).view(np.uint8).data)


def _named_tensors(content: Any) -> dict[str, Tensor]:
    found = content.state_dict() if isinstance(content, Module) else content
    if not isinstance(found, Mapping):
        raise ContentError(
            f"a file of safetensors holds a dictionary of tensors, or the state of a module, not "
            f"{type(content).__name__}; save it as a .pt file"
        )
    for name, value in found.items():
        if not isinstance(name, str) or name == _METADATA:
            raise ContentError(f"a file of safetensors holds tensors by name, and {name!r:.80} is no name for one")
        if not isinstance(value, Tensor) or value.dtype not in _NAMES:
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise ContentError(
                f"a file of safetensors holds tensors, and not {kind}, as {name!r:.80} is; save all this as a .pt file"
            )
    return dict(found)
