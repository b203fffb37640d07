"""`Holding`: what tensors that are made of values and something else have in common, sparse and masked ones.

The values say the dtype, the device and the history. A class says what else it holds, and which operators it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, partialmethod
from typing import Any, ClassVar

from jit.ir import dtypes
from jit.ir.errors import MemberError
from jit.late import found_later

from .composed import Composed
from .conversions import conversion
from .namespace import F
from .tensors import Tensor


def _forward(name: str) -> Any:
    return lambda self, *others: self.answer(name, (self, *others), {})


def _both(name: str) -> tuple[Any, Any]:
    """The methods for an operator of Python: on the left, and on the right."""
    return _forward(name), lambda self, other: self.answer(name, (other, self), {})


class Holding(Composed):
    """The base of such classes."""

    held: Any
    """The values."""
    shape: Any
    """The sizes of the tensor."""
    answered_in: ClassVar[str]
    """The module that has `ANSWERS`: name of an operator -> what it is for tensors of this class."""
    noun: ClassVar[str]
    """The words for such a tensor, with the article."""
    way_out: ClassVar[str]
    """The method that gives an ordinary tensor."""
    is_quantized = is_mkldnn = is_nested = False

    @classmethod
    def answers(cls) -> Mapping[str, Callable[..., Any]]:
        """The table of `answered_in`, which is imported by now: a pickle knows of the class alone."""
        found: Mapping[str, Callable[..., Any]] = found_later(cls.answered_in, "ANSWERS")
        return found

    def holding(self, values: Any) -> Any:
        """A tensor like this one with other values."""
        raise NotImplementedError

    def moved(self, device: Any) -> Any:
        """This tensor, with all that it holds, on a device."""
        raise NotImplementedError

    def _like_this(self, value: Any) -> Any:
        """The value that is assigned as the gradient, if it may be; an error otherwise."""
        raise NotImplementedError

    dtype = property(lambda self: self.held.dtype, doc="The element type.")
    device = property(lambda self: self.held.device, doc="The device of the elements.")
    is_cpu = property(lambda self: self.held.is_cpu, doc="Whether the elements lie on the CPU.")
    is_cuda = property(lambda self: self.held.is_cuda, doc="Whether the elements lie on a GPU.")
    is_meta = property(lambda self: self.held.is_meta, doc="Whether the values have no elements.")
    T = mT = property(lambda self: self.t(), doc="The transposed matrix.")  # noqa: N815
    ndim = property(lambda self: len(self.shape), doc="The number of dims.")
    grad_fn = property(lambda self: self.held.grad_fn, doc="The node behind the values; None for leaves.")
    is_leaf = property(lambda self: self.held.is_leaf, doc="Whether no operator made the values.")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow into the values."""
        return bool(self.held.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.held.requires_grad_(value)

    @property
    def grad(self) -> Any:
        """The gradient by the values, an object like this one; None if there is none yet."""
        return None if self.held.grad is None else self.holding(self.held.grad)

    @grad.setter
    def grad(self, value: Any) -> None:
        self.held.grad = None if value is None else self._like_this(value).held

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Ask for gradients by the values."""
        self.held.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        """Keep the gradient by the values, though an operator made them."""
        self.held.retain_grad()

    def detach(self) -> Any:
        """The same elements without a history."""
        return self.holding(self.held.detach())

    data = property(detach, doc="The same elements without a history.")

    def clone(self, memory_format: Any = None) -> Any:
        """A copy; gradients flow through it."""
        return self.holding(F.clone(self.held))

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or that of `dim`."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    ndimension = dim

    def numel(self) -> Any:
        """The number of elements, zeros included."""
        return self.shape.numel()

    nelement = numel

    def element_size(self) -> int:
        """Bytes per element."""
        return int(self.held.element_size())

    def is_floating_point(self) -> bool:
        """True for the real floating dtypes."""
        return bool(self.held.is_floating_point())

    def is_complex(self) -> bool:
        """True for the complex dtypes."""
        return bool(self.held.is_complex())

    def to(self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **ignored: Any) -> Any:
        """This tensor in another dtype, or on another device.

        Args:
            args: A dtype, a device, both, or a tensor that has them.
            dtype: The element type.
            device: The device.
            copy: Whether to copy where nothing changes.
            ignored: Other arguments of `Tensor.to`, which make no difference.
        """
        like = [
            F.empty((0,), dtype=each.dtype, device=each.device) if isinstance(each, Holding) else each for each in args
        ]
        wanted, home, flags = conversion(like, dtype, device)
        made = self if home is None else self.moved(home)
        made = made if wanted is None or wanted is made.dtype else made.holding(made.held.to(wanted))
        return made.clone() if made is self and (copy or any(flags[1:])) else made

    def cpu(self) -> Any:
        """This tensor on the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """This tensor on a GPU."""
        return self.moved(self.held.cuda(device).device)

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("div")
    __floordiv__, __rfloordiv__ = _both("floor_divide")
    __mod__, __rmod__ = _both("remainder")
    __pow__, __rpow__ = _both("pow")
    __matmul__, __rmatmul__ = _both("matmul")
    __and__, __rand__ = _both("bitwise_and")
    __or__, __ror__ = _both("bitwise_or")
    __xor__, __rxor__ = _both("bitwise_xor")
    __neg__ = _forward("neg")
    __abs__ = _forward("abs")
    __invert__ = _forward("bitwise_not")
    __lt__ = _forward("lt")
    __le__ = _forward("le")
    __gt__ = _forward("gt")
    __ge__ = _forward("ge")

    def __len__(self) -> Any:
        return self.shape[0]

    def _called(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.answer(name, (self, *args), kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self.answers():
            return partial(self._called, name)
        if name.startswith("__") or not hasattr(Tensor, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name.endswith("_"):
            raise MemberError(f"{self.noun} is not changed in place; use what {name[:-1]} returns instead of {name}")
        raise MemberError(f"{self.noun} has no {name}; use {self.way_out}.{name}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.answers()})


_CONVERTING = {
    "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8, "short": dtypes.int16, "int": dtypes.int32,
    "long": dtypes.int64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16, "float": dtypes.float32,
    "double": dtypes.float64, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}  # fmt: skip
for _name, _dtype in _CONVERTING.items():
    setattr(Holding, _name, partialmethod(Holding.to, _dtype))


__all__ = ["Holding"]
