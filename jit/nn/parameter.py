"""`Parameter`: a tensor that a module learns; and parameters and buffers whose sizes are not known yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from jit.eager.namespace import F
from jit.eager.tensors import Tensor, Variable
from jit.ir.devices import resolve
from jit.ir.errors import UsageError


class Parameter(Variable):
    """A tensor that becomes part of the module it is assigned to: listed by `parameters()`, saved in the state dict.

    Args:
        data: The tensor whose memory the parameter shares; an empty one if left out.
        requires_grad: Whether gradients are wanted; it must be False for integer tensors.

    Raises:
        UsageError: `data` is no tensor, or gradients are wanted of integers.

    >>> import jit
    >>> jit.nn.Parameter(jit.zeros(2)).requires_grad
    True
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
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
    """Base of tensors whose sizes are not known yet: they can be moved and given sizes, and not computed with."""

    __slots__ = ()

    cls_to_become: type
    """The class that the tensor has once its sizes are known."""

    @property
    def shape(self) -> NoReturn:
        """Refused: the sizes are not known yet.

        Raises:
            UsageError: Always.
        """
        raise UsageError("this tensor has no sizes yet; call its module once, or load a state dict")

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of these sizes; its numbers are whatever the memory holds.

        Args:
            shape: The sizes.
            device: The device; that which it has if left out.
            dtype: The element type; that which it has if left out.
        """
        home = resolve(self.device if device is None else device)
        kept = self.dtype if dtype is None else dtype
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
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
        return memo.setdefault(id(self), type(self)(self.requires_grad, dtype=self.dtype))

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
        super().__init__(F.empty((0,), device=device, dtype=dtype), requires_grad)


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
        made = F.empty((0,), device=device, dtype=dtype)
        self._hold(made._array, made._storage)
        self.requires_grad_(requires_grad)


def is_lazy(tensor: Any) -> bool:
    """Whether a parameter or buffer has no sizes yet."""
    return isinstance(tensor, _Uninitialized)


def forget_gradient(tensor: Any, set_to_none: bool) -> None:
    """Set `tensor.grad` to None, or fill it with zeros."""
    if set_to_none or tensor.grad is None:
        tensor.grad = None
    else:
        tensor.grad = tensor.grad.detach().zero_()
