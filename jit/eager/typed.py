"""PyTorch's oldest names for kinds of tensors, `FloatTensor` and its relatives, and the methods `type` and `new`.

A kind makes tensors of its dtype as `Tensor(...)` does, tells by `isinstance` whether a tensor is of it, and converts
in `t.type(kind)`. Its name is `torch.FloatTensor`, which programs compare with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jit.ir import dtypes
from jit.ir.devices import device as Device
from jit.ir.devices import resolve
from jit.ir.dtypes import DType
from jit.ir.errors import DTypeError, KindError, UsageError

from .namespace import F
from .storages import TypedStorage
from .tensors import Tensor

_SPELLED = {
    "Bool": dtypes.bool_, "Byte": dtypes.uint8, "Char": dtypes.int8, "Short": dtypes.int16, "Int": dtypes.int32,
    "Long": dtypes.int64, "Half": dtypes.float16, "BFloat16": dtypes.bfloat16, "Float": dtypes.float32,
    "Double": dtypes.float64, "ComplexFloat": dtypes.complex64, "ComplexDouble": dtypes.complex128,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _SPELLED.items()} | {dtype: dtype.text for dtype in dtypes.STORED}


class TensorKind(type):
    """The class of the kinds, which are no classes that objects have: tensors are of a kind by dtype and device."""

    dtype: DType
    kind: str
    """The kind of their device, "cpu" or "cuda"."""

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> TensorKind:
        """Make a kind; KindError for a class that is derived from one."""
        if bases:
            raise KindError(f"{name} cannot be derived from {bases[0].__name__}, of which no object is; derive Tensor")
        return super().__new__(mcs, name, bases, space)

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        """A tensor of these sizes, or a copy of this data, as `Tensor(...)` makes it."""
        return made_as(cls.dtype, resolve(device if device is not None else cls.kind), data)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.device.type == cls.kind

    def __repr__(cls) -> str:
        return f"<class '{name_of_kind(cls.dtype, cls.kind)}'>"


def made_as(dtype: DType, home: Device, data: Any) -> Any:
    """A tensor of what is given to a kind.

    Args:
        dtype: Its element type.
        home: Its device.
        data: The arguments: sizes, or one that holds the data.
    """
    if not data:
        return F.empty((0,), dtype=dtype, device=str(home))
    if len(data) == 1 and isinstance(data[0], Tensor):
        if data[0].dtype is not dtype:
            raise DTypeError(f"this makes tensors of {dtype}, and was given one of {data[0].dtype}; use .to({dtype})")
        return data[0].to(home).detach()
    if len(data) == 1 and isinstance(data[0], TypedStorage):
        return data[0].elements_as(dtype).to(home).detach()
    if len(data) == 1 and not hasattr(data[0], "__index__") and not isinstance(data[0], tuple):
        from .creation import tensor

        return tensor(data[0] if hasattr(data[0], "__array__") else list(data[0])).to(home, dtype)
    from .legacy import construct

    made: Any = Tensor.__new__(Tensor)
    construct(made, data, None, {})
    return made.to(home, dtype).detach()


def name_of_kind(dtype: DType, kind: str) -> str:
    """The name of a kind as PyTorch writes it, `torch.cuda.FloatTensor`.

    Args:
        dtype: The element type.
        kind: The kind of the device.
    """
    place = "torch." if kind == "cpu" else f"torch.{kind}."
    return f"{place}{_NAMES[dtype]}Tensor"


def _kinds(kind: str) -> Iterator[tuple[str, TensorKind]]:
    for name, dtype in _SPELLED.items():
        full = f"{name}Tensor"
        space = {"dtype": dtype, "kind": kind, "__module__": "torch" if kind == "cpu" else f"torch.{kind}"}
        yield full, TensorKind(full, (), space)


ON_CPU, ON_GPU = dict(_kinds("cpu")), dict(_kinds("cuda"))
"""The kinds by their names."""


def found_kind(value: Any) -> TensorKind | None:
    """The kind that is meant by itself or by its name; None for other values."""
    if isinstance(value, TensorKind):
        return value
    if value is Tensor or value == "torch.Tensor":
        return ON_CPU[f"{_NAMES[dtypes.DEFAULT]}Tensor"]
    if not isinstance(value, str) or not value.startswith("torch.") or not value.endswith("Tensor"):
        return None
    place, _, name = value.rpartition(".")
    found = (ON_GPU if place == "torch.cuda" else ON_CPU).get(name)
    if found is None:
        raise UsageError(f"there is no kind of tensors {value!r}; write one such as 'torch.FloatTensor'")
    return found


def type_of(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of this tensor's kind, `torch.FloatTensor`; with an argument, this tensor as that dtype or kind.

    Args:
        self: A tensor.
        dtype: A dtype, its name, a kind or the name of one.
        non_blocking: Accepted and ignored.
    """
    if dtype is None:
        return name_of_kind(self.dtype, self.device.type)
    kind = found_kind(dtype)
    if kind is not None:
        return self.to(kind.dtype) if self.device.type == kind.kind else self.to(resolve(kind.kind), kind.dtype)
    return self.to(dtypes.by_name(dtype.removeprefix("torch.")) if isinstance(dtype, str) else dtypes.as_dtype(dtype))


def new(self: Tensor, *data: Any, size: Any = None, device: Any = None) -> Any:
    """A tensor of this one's dtype and device: of these sizes, or a copy of this data.

    Args:
        self: A tensor.
        data: Sizes, or one argument that holds the data.
        size: The sizes, by name.
        device: The device, if another is wanted.
    """
    home = self.device if device is None else resolve(device)
    return made_as(self.dtype, home, data if size is None else tuple(size))


__all__ = ["ON_CPU", "ON_GPU", "TensorKind", "found_kind", "made_as", "name_of_kind", "new", "type_of"]
