"""Attributes and methods of tensors that programs ask for although they have one answer here, or hardly any effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jit.ir.errors import AutogradError, KindError, UsageError
from jit.ir.layouts import strided
from jit.ir.types import contiguous_strides
from jit.runtime.arrays.arrays import room_of

from . import context
from .expecting import expect
from .namespace import F
from .storages import TypedStorage, storage_of, untyped_storage_of
from .subclasses import SUBCLASSING, of_kind
from .tensors import Tensor, strides_of


def _always(answer: Any, told: str) -> property:
    return property(lambda self: answer, doc=told)


def _share_memory_(self: Tensor) -> Tensor:
    """This tensor: other processes get copies."""
    return self


def _apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by what a function of numbers makes of it; slow, for the CPU."""
    return _mapped(self, callable, self)


def _map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by what a function makes of it and its counterpart.

    Args:
        self: A tensor, which is written to.
        tensor: A tensor that is broadcast.
        callable: A function of two numbers.
    """
    return _mapped(self, callable, self, F.expand(tensor, self.shape))


def _map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by what a function makes of it and its two counterparts.

    Args:
        self: A tensor, which is written to.
        x: A tensor that is broadcast.
        y: Another one.
        callable: A function of three numbers.
    """
    return _mapped(self, callable, self, F.expand(x, self.shape), F.expand(y, self.shape))


def _mapped(self: Tensor, function: Callable[..., Any], *sources: Tensor) -> Tensor:
    if context.GRAD_ENABLED.get() and any(source.requires_grad for source in sources):
        raise AutogradError(
            "a function of Python's numbers has no derivative, and an argument requires grad; detach() it first"
        )
    rows = [source.detach().reshape(-1).tolist() for source in sources]
    made = [function(*numbers) for numbers in zip(*rows)]
    wrong = next((number for number in made if isinstance(number, (str, bytes))), None)
    if wrong is not None:
        raise KindError(f"the function has returned {type(wrong).__name__} for an element; let it return a number")
    from .creation import tensor

    return F.copy_(self, tensor(made, dtype=self.dtype).reshape(self.shape))


def _set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Let this tensor be another one of the memory of `source`.

    Args:
        self: The tensor.
        source: A tensor, or a storage; new memory without elements if left out.
        storage_offset: The place of the first element in the memory.
        size: The sizes; those of a tensor, or all elements of a storage, if left out.
        stride: The strides; those of rows without gaps if left out.

    Raises:
        UsageError: It has other elements than this tensor.
    """
    if isinstance(source, TypedStorage):
        source = source.elements_as(self.dtype)
    if source is not None and not isinstance(source, Tensor):
        raise UsageError(f"set_() takes a tensor or a storage, not {type(source).__name__}; pass one of these")
    if source is not None and source.dtype is not self.dtype:
        raise UsageError(f"set_() takes the memory of {self.dtype} here, not of {source.dtype}; convert it first")
    if size is not None:
        strides = contiguous_strides(tuple(size)) if stride is None else stride
        source = F.as_strided(source, size, strides, storage_offset)
    self.data = F.empty((0,), dtype=self.dtype) if source is None else source
    return self


def _is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether another tensor is of the same memory, with the same sizes and strides.

    Args:
        self: A tensor.
        tensor: The other one.
    """
    same = self.data_ptr() == tensor.data_ptr() and self.dtype is tensor.dtype
    return bool(same and self.shape == tensor.shape and self.stride() == tensor.stride())


def _sizeof(self: Tensor) -> int:
    """The bytes of the object and of the memory behind it."""
    return object.__sizeof__(self) + room_of(self._defined())[1]


def _is_view(self: Tensor) -> bool:
    """Whether this is a view of another tensor."""
    return self._base is not None


def _as_subclass(self: Tensor, cls: Any) -> Any:
    """The same elements and history as a tensor of a subclass."""
    return of_kind(self, cls)


def _make_subclass(cls: Any, data: Any = None, requires_grad: bool = False) -> Any:
    """A tensor of a subclass that shares memory with `data`.

    Args:
        cls: The subclass.
        data: A tensor.
        requires_grad: Whether gradients are wanted.
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise KindError("_make_subclass takes a class that is derived from Tensor, then a tensor; pass both")
    expect("_make_subclass", data)
    made = object.__new__(cls)
    made._hold(data._defined(), data._storage)
    return made.requires_grad_(requires_grad)


def _dim_order(self: Tensor) -> tuple[int, ...]:
    """The dims from the outermost to the innermost in memory."""
    strides, trace = self.stride(), context.TRACE.get()
    if trace is not None:  # the strides decide, so that they are part of what the function has asked
        strides = trace.strides(self, strides_of(self._defined()), None)
    return tuple(sorted(range(self.ndim), key=lambda dim: -strides[dim]))


def _nbytes(self: Tensor) -> Any:
    return self.numel() * self.element_size()


def _deepcopy(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy that shares memory with copies of what this tensor shares it with."""
    from .deep_copies import deep_copy_of

    return deep_copy_of(self, memo)


def _delitem(self: Tensor, index: Any) -> None:
    """Refused: a tensor has the elements that it has.

    Raises:
        KindError: Always.
    """
    raise KindError("elements of a tensor cannot be deleted; make a tensor of the others, by an index or a mask")


def _dir(self: Tensor) -> list[str]:
    """The names of what this tensor has."""
    names = set(object.__dir__(self))
    return sorted(names - {"__cuda_array_interface__"} if self.is_cpu else names)


ATTRIBUTES: dict[str, Any] = {
    **{
        f"is_{kind}": _always(False, f"Whether this tensor is {kind}: none is.")
        for kind in ("sparse", "sparse_csr", "xpu", "mps", "hpu", "quantized", "mkldnn", "nested")
    },
    "layout": _always(strided, "The order of the elements in memory: strided."),
    "names": property(lambda self: (None,) * self.ndim, doc="The names of the dims: they have none."),
    "volatile": _always(False, "False: no_grad() has taken the place of it."),
    "nbytes": property(_nbytes, doc="The number of bytes of the elements."),
    "itemsize": property(lambda self: self.element_size(), doc="Bytes per element."),
    "storage": storage_of, "untyped_storage": untyped_storage_of, "_typed_storage": storage_of,
    "share_memory_": _share_memory_, "is_shared": lambda self: False, "apply_": _apply_, "map_": _map_, "set_": _set_,
    "map2_": _map2_, "is_set_to": _is_set_to, "__sizeof__": _sizeof, "__deepcopy__": _deepcopy,
    "__delitem__": _delitem, "__dir__": _dir,
    "_is_view": _is_view, "as_subclass": _as_subclass, "_make_subclass": staticmethod(_make_subclass),
    "dim_order": _dim_order, "to_dense": lambda self, dtype=None: self if dtype is None else self.to(dtype),
    **SUBCLASSING,
    "is_coalesced": lambda self: False, "is_distributed": lambda self: False,
}  # fmt: skip
"""Members of `Tensor` by name."""

__all__ = ["ATTRIBUTES"]
