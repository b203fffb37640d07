"""`Parameter`: a tensor that a module learns; and parameters and buffers whose sizes are not known yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from jit.eager.namespace import F
from jit.eager.tensors import Tensor, Variable
from jit.ir.devices import device as Device
from jit.ir.devices import resolve
from jit.ir.dtypes import DType
from jit.ir.errors import UsageError


class Parameter(Variable):
    """A tensor that becomes part of the module it is assigned to: listed by `parameters()`, saved in the state dict.

    Args:
        data: The tensor whose memory the parameter shares; an empty one if left out.
        requires_grad: Whether gradients are wanted; it must be False for integer tensors.

    Raises:
        UsageError: `data` is no tensor, gradients are wanted of integers, or there are other arguments.

    >>> import jit
    >>> jit.nn.Parameter(jit.zeros(2)).requires_grad
    True
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True, *rest: Any, **named: Any) -> None:
        if self._array is not None:  # the `__new__` of a subclass has made it, perhaps of other arguments
            return
        if rest or named:
            raise UsageError("a Parameter is made from a tensor, and whether it requires grad; leave the rest out")
        if data is None:
            data = F.empty((0,))
        if not isinstance(data, Tensor):
            raise UsageError(f"a Parameter is made from a tensor, not from {type(data).__name__}; use jit.tensor(...)")
        self._hold(data._defined(), data._storage)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else repr(self)


class _Uninitialized(Tensor):
    """Base of tensors whose sizes are not known yet: they can be moved and given sizes, and not computed with.

    They are undefined tensors, which every operator refuses, and know their dtype and device beside.
    """

    __slots__ = ()

    cls_to_become: type
    """The class that the tensor has once its sizes are known."""
    _empty: Tensor
    """A tensor without elements, which has the dtype and the device."""

    def _await_sizes(self, device: Any, dtype: Any, requires_grad: bool) -> None:
        self._hold(None)
        self._empty = F.empty((0,), device=device, dtype=dtype)
        self.requires_grad_(requires_grad)

    def _defined(self) -> NoReturn:
        raise UsageError("this tensor has no sizes yet; call its module once, or load a state dict")

    @property
    def shape(self) -> NoReturn:
        """Refused: the sizes are not known yet.

        Raises:
            UsageError: Always.
        """
        self._defined()

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._empty.dtype

    @property
    def device(self) -> Device:
        """The device on which the elements will be."""
        return self._empty.device

    @property
    def data(self) -> Tensor:
        """A tensor without elements of the same dtype and device."""
        return self._empty

    @data.setter
    def data(self, value: Tensor) -> None:
        self._empty = value.data

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """One of another dtype or device, as `Tensor.to` takes them, and without sizes, too."""
        return type(self)(self.requires_grad, **_home(self._empty.to(*args, **kwargs)))

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """One of another dtype, as `Tensor.type` takes it; its name if none is given."""
        return self._empty.type() if dtype is None else self.to(self._empty.type(dtype).dtype)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of these sizes; its numbers are whatever the memory holds.

        Args:
            shape: The sizes.
            device: The device; that which it has if left out.
            dtype: The element type; that which it has if left out.
        """
        home = resolve(self.device if device is None else device)
        kept = self.dtype if dtype is None else dtype
        self.__class__ = self.cls_to_become
        del self._empty
        self.data = F.empty(tuple(shape) if isinstance(shape, Iterable) else (shape,), dtype=kept, device=home)

    def share_memory_(self) -> NoReturn:
        """Refused: there is no memory yet.

        Raises:
            UsageError: Always.
        """
        raise UsageError("this tensor has no memory yet; call its module once, or load a state dict")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), type(self)(self.requires_grad, **_home(self)))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (type(self), (self.requires_grad, None, self.dtype))


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose sizes are not known yet.

    Args:
        requires_grad: Whether gradients will be wanted.
        device: The device; the default one if left out.
        dtype: The element type; float32 if left out.
    """

    __slots__ = ()

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        self._await_sizes(device, dtype, requires_grad)


class UninitializedBuffer(_Uninitialized):
    """A buffer whose sizes are not known yet.

    Args:
        requires_grad: Whether gradients will be wanted.
        device: The device; the default one if left out.
        dtype: The element type; float32 if left out.
    """

    __slots__ = ()

    cls_to_become = Tensor

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> None:
        self._await_sizes(device, dtype, requires_grad)


def _home(tensor: Tensor) -> dict[str, Any]:
    return {"device": tensor.device, "dtype": tensor.dtype}


def is_lazy(tensor: Any) -> bool:
    """Whether a parameter or buffer has no sizes yet."""
    return isinstance(tensor, _Uninitialized)


def forget_gradient(tensor: Any, set_to_none: bool) -> None:
    """Set `tensor.grad` to None, or fill it with zeros."""
    if set_to_none or tensor.grad is None:
        tensor.grad = None
    else:
        tensor.grad = tensor.grad.detach().zero_()
