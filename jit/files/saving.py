"""`jit.save`: objects with tensors in them as files that torch opens, or as safetensors."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from jit.eager.storages import TypedStorage, UntypedStorage
from jit.eager.tensors import Size, Tensor
from jit.ir.devices import device
from jit.ir.dtypes import DType
from jit.ir.errors import MemberError, UsageError
from jit.ir.files import replacing
from jit.ir.layouts import TensorLayout
from jit.ir.random_state import RandomState
from jit.runtime.arrays.arrays import ViewLayout, address_of, laid_out, room_of
from jit.runtime.arrays.libraries import HOST, library_of
from jit.sparse.making import Sparse

from ..artifacts import files as artifacts
from ..nn import Parameter
from ..tracing.function import TracedFunction
from .faults import ContentError
from .names import name_of, written
from .rebuilding import (
    STORAGES,
    UNTYPED,
    layout_of,
    rebuild_parameter,
    rebuild_parameter_with_state,
    rebuild_sparse,
    rebuild_subclass,
    rebuild_tensor,
    rebuild_tensor_of_dtype,
    rebuild_without_elements,
)
from .safe_tensors import write_tensors
from .streams import write_stream

_ALIGNMENT = 64
_HEADER = 30
_ZIP64 = 20
"""The bytes that the header of a member has more if the member is large."""
_OF_SAFETENSORS = ".safetensors"
_PROTOCOL = 2
"""The protocol of pickles that torch reads with weights_only=True."""


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = _PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file, whole or not at all.

    The file is one of torch's, which `torch.load` and `jit.load` read: tensors, parameters, state dicts, numbers, text,
    arrays and containers of them. If the name ends in .safetensors, it is one of those, and the object a dictionary of
    tensors or a module, whose state is written. A traced function becomes an artifact, as by `f.save(path)`.

    With `_use_new_zipfile_serialization=False` it is of the older format, which torch has written until 1.5.

    Tensors that share memory share it again when they are loaded; so a view is saved with all of its memory. An object
    of a class, a module for example, is saved as the name of the class and its attributes, and loaded only where the
    class is allowed: the state dict is the better thing to save.

    Args:
        obj: The object.
        f: The path of the file, or a file that is open for writing bytes.
        pickle_module: Accepted for PyTorch's sake; None or `pickle`.
        pickle_protocol: Accepted, and ignored: the protocol is 2, which torch reads with weights_only=True.

    Raises:
        UsageError: Another `pickle_module` is wanted.
        ContentError: The object holds what no file can.
        Error: The file cannot be written; an older one is still there.

    >>> import jit, io
    >>> file = io.BytesIO()
    >>> jit.save({"weight": jit.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> jit.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module not in (None, pickle):
        raise UsageError("files are pickled in one way, whatever the pickle_module is; leave it out")
    write = _writer_of(obj, f, _write_archive if _use_new_zipfile_serialization else _write_stream)
    if hasattr(f, "write"):
        buffer = io.BytesIO()
        write(buffer)
        f.write(buffer.getbuffer())
        if hasattr(f, "flush"):  # it may be read under its name before it is closed
            f.flush()
        return
    try:
        path = Path(os.fsdecode(f))
    except TypeError:
        raise MemberError(
            f"save takes the path of a file, or a file with a method `write`, which {type(f).__name__} lacks"
        ) from None
    with replacing(path) as file:
        write(file)


def _writer_of(obj: Any, f: Any, otherwise: Callable[[Any, BinaryIO], None]) -> Callable[[BinaryIO], Any]:
    """The function that writes an object to an open file, in the format that fits it and the file's name."""
    if isinstance(obj, TracedFunction):
        return lambda file: file.write(artifacts.dumps(obj))
    if isinstance(f, (str, os.PathLike)) and os.fspath(f).endswith(_OF_SAFETENSORS):
        return lambda file: write_tensors(obj, file)
    return lambda file: otherwise(obj, file)


def _write_archive(obj: Any, file: BinaryIO) -> None:
    storages = SavedStorages()
    data = _pickled(obj, storages)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, text in (("data.pkl", data), (".format_version", b"1"), (".storage_alignment", b"64"),
                           ("byteorder", sys.byteorder.encode())):  # fmt: skip
            _add(archive, name, text)
        for key, memory in enumerate(storages.memories):
            _add(archive, f"data/{key}", HOST.taken(memory).view(np.uint8).data)
        _add(archive, "version", b"3\n")


def _write_stream(obj: Any, file: BinaryIO) -> None:
    storages = SavedStorages(in_streams=True)
    data = _pickled(obj, storages)
    memories = (HOST.taken(memory).view(np.uint8) for memory in storages.memories)
    counted = [(m.size // storages.sizes[str(key)], m.data) for key, m in enumerate(memories)]
    write_stream(file, data, counted)


def _add(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Add a member whose contents begin at a multiple of 64 bytes, so that they can be mapped."""
    entry = zipfile.ZipInfo(f"archive/{name}")  # with no date: equal objects make equal files
    assert archive.fp is not None
    large = len(data) * 1.05 > zipfile.ZIP64_LIMIT  # as zipfile reckons
    start = archive.fp.tell() + _HEADER + len(entry.filename) + (_ZIP64 if large else 0) + 4
    padding = -start % _ALIGNMENT
    entry.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    archive.writestr(entry, data)


def _pickled(obj: Any, storages: SavedStorages) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, storages).dump(obj)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ContentError(
            f"{type(obj).__name__} cannot be saved, as it holds something that no file can ({error}); save what is "
            "data in it, such as state_dict()"
        ) from error
    except RecursionError as error:
        raise ContentError("what is to be saved is nested too deep; save flat lists or dictionaries") from error
    return written(buffer.getvalue())


class SavedStorages:
    """The memories that are to be saved; tensors that lie in the same one share its number.

    Args:
        in_streams: Whether they go into torch's older format.
    """

    def __init__(self, in_streams: bool = False) -> None:
        self.in_streams = in_streams
        self.sizes: dict[str, int] = {}
        """The bytes of an element of each memory by its number, in that format."""
        self.memories: list[Any] = []
        self._keys: dict[tuple[int, int], tuple[str, Any]] = {}

    def reduced(self, tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
        """A tensor as the call that makes it.

        Raises:
            ContentError: It shares memory with a tensor of another dtype.
        """
        if tensor.is_meta:
            return rebuild_without_elements, (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
        array = tensor._defined()
        geometry = _in_room(array)
        if geometry is None:
            array = library_of(array).row_major(array)
            geometry = _in_room(array)
        assert geometry is not None, "a new array fills its memory"
        memory, offset, strides = geometry
        storage = SavedStorage(tensor, self._key(memory, tensor.dtype), memory)
        hooks: dict[int, Any] = OrderedDict()
        arguments = (storage, offset, tuple(array.shape), strides, tensor.requires_grad, hooks)
        if tensor.dtype.is_stored:  # torch has no kinds of storages for these
            return rebuild_tensor_of_dtype, (*arguments, tensor.dtype)
        return rebuild_tensor, arguments

    def identity(self, storage: TypedStorage) -> Any:
        """The identity of a storage that a program holds."""
        tensor = storage._elements()  # of bytes it has the dtype of the tensors in them
        kind = UNTYPED if isinstance(storage, UntypedStorage) else STORAGES[f"{storage.dtype.text}Storage"]
        key = self._key(tensor._defined(), tensor.dtype)
        return self.noted(("storage", kind, key, str(storage.device), len(storage)))

    def noted(self, identity: tuple[Any, ...]) -> tuple[Any, ...]:
        """The identity of a storage as the format has it.

        Raises:
            ContentError: The format counts its elements, and a program holds it as elements and as bytes.
        """
        if not self.in_streams:
            return identity
        size = identity[1].dtype.itemsize
        if self.sizes.setdefault(identity[2], size) != size:
            raise ContentError("torch's older format holds a storage as elements or as bytes; save one of the two")
        return (*identity, None)

    def _key(self, memory: Any, dtype: Any) -> str:
        room = (address_of(memory), memory.nbytes)
        key, known = self._keys.setdefault(room, (str(len(self._keys)), dtype))
        if known is not dtype:
            raise ContentError(
                f"tensors of {known} and {dtype} share memory, which files of torch do not hold; clone() one of them"
            )
        if int(key) == len(self.memories):
            self.memories.append(memory)
        return key


class SavedStorage:
    """The memory of a tensor on its way into a pickle, which names it and does not hold it.

    Args:
        tensor: The tensor.
        key: The number of the memory in the file.
        memory: All of it, as a row of elements.
    """

    def __init__(self, tensor: Tensor, key: str, memory: Any) -> None:
        is_bytes = tensor.dtype.is_stored
        kind = UNTYPED if is_bytes else STORAGES[f"{tensor.dtype.text}Storage"]
        self.identity = ("storage", kind, key, str(tensor.device), memory.nbytes if is_bytes else memory.size)


def _in_room(array: Any) -> tuple[Any, int, tuple[int, ...]] | None:
    """The whole memory of an array in one dim, the offset and the strides in it; None if torch could not say it so."""
    start, held = room_of(array)
    item = array.itemsize
    offset, strides = address_of(array) - start, array.strides
    last = offset + sum((size - 1) * step for size, step in zip(array.shape, strides)) + item if array.size else 0
    if min((offset, *strides), default=0) < 0 or any(n % item for n in (offset, held, *strides)) or last > held:
        return None
    layout = ViewLayout((held // item,), (item,), -offset)
    return laid_out(array, layout, array.dtype), offset // item, tuple(step // item for step in strides)


class _Pickler(pickle.Pickler):
    """Writes tensors as torch does: as calls of its functions, whose names are put in afterwards."""

    def __init__(self, file: BinaryIO, storages: SavedStorages) -> None:
        super().__init__(file, _PROTOCOL)
        self._storages = storages

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, TypedStorage):
            return self._storages.identity(obj)
        return self._storages.noted(obj.identity) if type(obj) is SavedStorage else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Parameter):
            data = obj.detach()
            if obj.__dict__:
                state = dict(obj.__dict__)
                return rebuild_parameter_with_state, (data, obj.requires_grad, OrderedDict(), state)
            return rebuild_parameter, (data, obj.requires_grad, OrderedDict())
        if isinstance(obj, Tensor):
            function, arguments = self._storages.reduced(obj)
            if not obj.__dict__:
                return function, arguments
            return rebuild_subclass, (function, Tensor, arguments, dict(obj.__dict__))
        if isinstance(obj, Sparse):
            return rebuild_sparse, (obj.layout, obj.parts())
        if type(obj) is TensorLayout:
            return layout_of, (f"torch.{obj.name}",)
        if type(obj) is DType:
            return name_of(obj)
        if type(obj) is Size:
            return Size, (tuple(obj),)
        if type(obj) is device:
            return device, (str(obj),)
        if type(obj) is RandomState:
            return RandomState, (obj.seed, obj.offset)
        return NotImplemented
