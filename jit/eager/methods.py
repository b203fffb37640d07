"""Methods that make a Tensor feel like one in Python: operators, indexing, conversions, text, hooks.

Everything here is a line over generated functions; importing this module completes the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

from jit.ir import dtypes
from jit.ir.devices import CPU, accelerator, resolve
from jit.ir.devices import device as Device
from jit.ir.dtypes import DType
from jit.ir.errors import AutogradError, MemberError, SchemaError, ShapeError, UsageError
from jit.ir.memory_formats import as_memory_format, suggested_format
from jit.ir.registry import OVERLOADS
from jit.runtime.cuda.devices import open_device
from jit.runtime.cuda.memory import is_pinned

from . import context
from .attributes import ATTRIBUTES
from .becoming import become, past_of
from .conversions import conversion
from .dispatch import check_history, view_of
from .hooks import HookTable, RemovableHandle
from .indexing import get_item, set_item
from .later import Later
from .namespace import F
from .showing import show_tensor
from .tensors import Tensor
from .typed import new, type_of


def _operators() -> dict[str, Later]:
    """The methods of Python's operators, by dunder name."""
    plain = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
        "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    }  # fmt: skip
    table = {f"__{name}__": _later(f"__{name}__", called, f"__r{name}__") for name, called in plain.items()}
    table |= {
        f"__r{name}__": Later(f"__r{name}__", partial(_reflected, name, called)) for name, called in plain.items()
    }
    table |= {f"__{name}__": _later(f"__{name}__", name, mirrored) for name, mirrored in _MIRRORED.items()}
    table |= {
        f"__i{name}__": _later(f"__i{name}__", f"{called}_", f"__r{name}__")
        for name, called in plain.items()
        if name != "matmul"
    }
    return table


def _later(method: str, function: str, reflected: str) -> Later:
    def made() -> Callable[..., Any]:
        operator = _binary(getattr(F, function), reflected)
        operator.__name__ = function
        return operator

    return Later(method, made)


def _reflected(name: str, called: str) -> Callable[..., Any]:
    """The method of an operator whose other operand is on the left."""
    function = getattr(F, called)
    special: dict[str, Callable[..., Any]] = {"sub": F.rsub, "truediv": lambda a, b: F.mul(F.reciprocal(a), b)}
    method = _binary(special.get(name, lambda a, b: function(b, a)))
    method.__name__ = called if name in ("add", "mul") else f"__r{name}__"
    return method


_MIRRORED = {"eq": "", "ne": "", "lt": "__gt__", "gt": "__lt__", "le": "__ge__", "ge": "__le__"}
"""Comparison -> the one that is asked of the other side; `==` and `!=` may always be answered there."""


def _binary(function: Callable[..., Any], reflected: str = "__radd__") -> Callable[..., Any]:
    """A dunder method that calls `function`. Where that does not take `other`, Python goes on to the method `reflected`
    of its class, as in `t + other`; with `reflected` empty it always goes on, as in `t == None`."""

    def method(self: Any, other: Any) -> Any:
        try:
            return function(self, other)
        except SchemaError:
            if not (reflected == "" or _goes_on(other, reflected)):
                raise
            return NotImplemented

    return method


def _goes_on(other: Any, reflected: str) -> bool:
    """Whether Python asks the class of the other operand, and refuses it by itself. It does for classes of programs;
    values of Python and numpy, and tensors of other libraries, get our error, which helps."""
    from jit.ir.hints import is_foreign

    if isinstance(other, Tensor) or is_foreign(other):
        return False
    return _is_of_a_program(type(other)) or _answers(type(other), reflected)


_WRITTEN_IN_PYTHON = 1 << 9
"""The flag of classes that a `class` statement has made (`Py_TPFLAGS_HEAPTYPE`)."""


def _is_of_a_program(kind: type) -> bool:
    return bool(kind.__flags__ & _WRITTEN_IN_PYTHON) and not kind.__module__.startswith("jit.")


def _answers(kind: type, name: str) -> bool:
    """Whether a class defines this method; those of every object, and of classes as in `int | str`, do not count."""
    return any(name in vars(base) for base in kind.__mro__ if base is not object)


def _delete(self: Tensor, name: str) -> None:
    """`del t.grad`, or of an attribute that the program has set; the fields of a tensor stay."""
    if name != "grad" and name not in self.__dict__:
        raise MemberError(
            f"{name!r} is no attribute of this tensor that can be deleted; {_INSTEAD.get(name, 'leave it')}"
        )
    object.__delattr__(self, name)


_INSTEAD = {"data": "assign another tensor to .data", "requires_grad": "call requires_grad_(False)",
            "_grad_fn": "call detach()", "grad_fn": "call detach()"}  # fmt: skip
"""Field -> what to do instead of deleting it."""


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise UsageError("a 0-d tensor has nothing to iterate over; use .item() for its number")
    if context.TRACE.get() is None and context.PROFILE.get() is None and not self.requires_grad:
        return _rows(self, self._array)
    return iter(F.unbind(self, 0)) if len(self) else iter(())


def _rows(self: Tensor, array: Any) -> Iterator[Tensor]:
    """Rows as `unbind` gives them, one by one, where no history is recorded: a long tensor need not be many objects."""
    (unbind,) = OVERLOADS["unbind"]
    for number in range(len(array)):
        yield view_of(unbind, (self, 0), array[number, ...], number)


def _to(
    self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, memory_format: Any = None,
    non_blocking: bool = False,
) -> Tensor:  # fmt: skip
    """`t.to(dtype)`, `t.to(device)`, `t.to(device, dtype)`, `t.to(other)`, `t.to(memory_format=...)`: self if nothing
    changes and not copy."""
    dtype, device, flags = conversion(args, dtype, device)
    return _converted(self, dtype, copy or (len(flags) > 1 and flags[1]), memory_format, device)


def _converted(
    self: Tensor, dtype: DType | None, copy: bool = False, memory_format: Any = None, device: Device | None = None
) -> Tensor:
    wanted = None if memory_format is None else as_memory_format(memory_format)
    elsewhere = device if device is not None and device != self.device else None
    if not copy and elsewhere is None and dtype in (None, self.dtype) and _lies_in(self, wanted):
        return self
    return F._to_copy(self, dtype=dtype, device=elsewhere, memory_format=wanted)


def _copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return F.copy_(self, src)


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in memory of the CPU from which a GPU can copy by itself; itself if it lies there. It needs a GPU.

    In a traced function the copy is an ordinary one.
    """
    library = open_device(resolve(accelerator(device)).index or 0)
    if not self.is_cpu:
        raise UsageError(f"a tensor on {str(self.device)!r} cannot be pinned; pin t.cpu()")
    if is_pinned(self._defined()):
        return self
    made = F.clone(self)
    if context.TRACE.get() is None:
        made._array = library.pinned(made._array)
    return made


def _lies_in(self: Tensor, format: str | None) -> bool:
    return format in (None, "preserve_format", suggested_format(self.shape, self.stride()))


def _cast(dtype: DType) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return _converted(self, dtype, memory_format=memory_format)

    method.__doc__ = f"This tensor as {dtype.name}."
    return method


def _shown(self: Tensor) -> str:
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_text()
    return show_tensor(self)


def _node_of_whole(self: Tensor) -> Any:
    """The node that gets the whole gradient of a tensor, which becomes its history; None for a leaf."""
    node = self.grad_fn
    if node is None or context.TRACE.get() is not None:
        return node
    whole, index = node.whole(self._output_nr)
    if whole is not node:
        self.set_history(whole, index)  # type: ignore[attr-defined]
    return whole


def _register_hook(self: Tensor, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook(gradient)` when this tensor's gradient is computed; what it returns replaces the gradient.

    Returns a handle: `handle.remove()` takes the hook away, and so does leaving a `with` block.
    """
    if not self.requires_grad:
        raise AutogradError("a hook needs a tensor that requires grad; call requires_grad_() on it first")
    trace = context.TRACE.get()
    if trace is not None:
        trace.note_hook(self, hook)
    node = _node_of_whole(self)
    if node is None:
        return self.__dict__.setdefault("gradient_hooks", HookTable()).register((0, hook))
    if node.tensor_hooks is None:
        node.tensor_hooks = HookTable()
    return node.tensor_hooks.register((self._output_nr, hook))


def _register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to `.grad` of this leaf; an optimizer may step there."""
    if not (self.is_leaf and self.requires_grad):
        raise AutogradError(
            "only leaves that require grad accumulate gradients, and this tensor is none; use register_hook()"
        )
    self._refuse_outside("register_post_accumulate_grad_hook() of")
    return self.__dict__.setdefault("post_accumulate_hooks", HookTable()).register(hook)


def _retain_grad(self: Tensor) -> None:
    """Keep `.grad` of a tensor that is no leaf."""
    if not self.requires_grad:
        raise AutogradError("retain_grad() needs a tensor that requires grad; call requires_grad_() on it first")
    node = _node_of_whole(self)
    if node is not None:
        if not self._retains_grad:
            self._refuse_outside("retain_grad() of")
        node.retain(self)
        self._retains_grad = True


def _detach_(self: Tensor) -> Tensor:
    """Forget this tensor's history."""
    if self._viewed is not None and self.requires_grad:
        raise AutogradError("views cannot be detached in place; use detach() instead of detach_()")
    if self.requires_grad:
        self._refuse_outside("detach_() of")
    self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
    return self


def _new_tensor(self: Tensor, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    from .creation import tensor

    home = self.device if device is None else device
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=home, requires_grad=requires_grad)


def _transposed(self: Tensor) -> Tensor:
    return self if self.ndim < 2 else F.permute(self, list(range(self.ndim))[::-1])


def _matrix_transposed(self: Tensor) -> Tensor:
    return F.transpose(self, -2, -1)


def _adjoint(self: Tensor) -> Tensor:
    return F.conj(_matrix_transposed(self))


def _hermitian(self: Tensor) -> Tensor:
    if self.ndim not in (0, 2):
        raise ShapeError(f".H is the conjugate transpose of a matrix, and this tensor has {self.ndim} dims; use .mH")
    return _adjoint(self) if self.ndim else F.conj(self)


def _sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """This tensor summed down to sizes that broadcast to its own; itself if it has them. Integers sum to int64."""
    sizes = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    if tuple(self.shape) == sizes and sizes:
        return self
    wide = _to(self, dtypes.int64) if self.dtype.is_integral else self
    return F.sum_to_size(wide, sizes)


def _in_place_geometry(name: str) -> Callable[..., Tensor]:
    """`t.squeeze_()` and its like: this very object becomes the view that `squeeze` gives."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.is_leaf and self.requires_grad and context.GRAD_ENABLED.get():
            raise AutogradError(f"{name}_ would change a leaf that requires grad; use {name}() and keep its result")
        check_history(self, context.GRAD_ENABLED.get() and self.requires_grad)
        trace = context.TRACE.get()
        if trace is not None:
            trace.meet(self)
        before = past_of(self)
        after = getattr(F, name)(before, *args, **kwargs)
        if trace is not None:
            trace.note_reshaped(self, before)
        become(self, after)
        return self

    method.__name__ = method.__qualname__ = f"{name}_"
    return method


def _random_(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Fill with whole numbers from `from` up to, not including, `to`; a warning if the dtype cannot hold all these."""
    bounds = [*args, *(kwargs[name] for name in ("from_", "to") if name in kwargs)]
    if bounds and self.dtype.is_floating_point and all(isinstance(bound, int) for bound in bounds):
        exact = 2 ** _DIGITS[self.dtype]
        for number in (*bounds[:-1], bounds[-1] - 1):
            if abs(number) > exact:
                context.warn(f"random_: {self.dtype.name} does not hold all whole numbers up to {number}")
    return F.random_(self, *args, **kwargs)


_DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}
"""The most bits of a whole number that a dtype holds exactly, whatever the bits are."""


METHODS: dict[str, Any] = {
    "__getitem__": get_item, "__setitem__": set_item, "__iter__": _iterate, "__delattr__": _delete,
    "__neg__": lambda self: F.neg(self), "__pos__": lambda self: self, "__abs__": lambda self: F.abs(self),
    "__invert__": lambda self: F.bitwise_not(self),
    "to": _to, "cpu": lambda self, memory_format=None: _to(self, CPU, memory_format=memory_format),
    "cuda": lambda self, device=None, non_blocking=False, memory_format=None: _to(self, accelerator(device)),
    "copy_": _copy_, "pin_memory": _pin_memory, "is_pinned": lambda self: self.is_cpu and is_pinned(self._defined()),
    "type": type_of, "new": new,
    "type_as": lambda self, other: _to(self, other),
    "float": _cast(dtypes.float32), "double": _cast(dtypes.float64), "half": _cast(dtypes.float16),
    "bfloat16": _cast(dtypes.bfloat16), "long": _cast(dtypes.int64), "int": _cast(dtypes.int32),
    "cfloat": _cast(dtypes.complex64), "cdouble": _cast(dtypes.complex128), "short": _cast(dtypes.int16),
    "char": _cast(dtypes.int8), "byte": _cast(dtypes.uint8), "bool": _cast(dtypes.bool_),
    "__repr__": _shown, "register_hook": _register_hook, "retain_grad": _retain_grad, "detach_": _detach_,
    "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook, "new_tensor": _new_tensor,
    "T": property(_transposed), "mT": property(_matrix_transposed), "mH": property(_adjoint), "H": property(_hermitian),
    "where": lambda self, condition, other: F.where(condition, self, other),
    "real": property(lambda self: F.real(self), lambda self, value: set_item(F.real(self), ..., value)),
    "imag": property(lambda self: F.imag(self), lambda self, value: set_item(F.imag(self), ..., value)),
    **{f"{name}_": _in_place_geometry(name) for name in ("squeeze", "unsqueeze", "t", "transpose", "as_strided")},
    "swapaxes_": _in_place_geometry("transpose"), "swapdims_": _in_place_geometry("transpose"),
    "sum_to_size": _sum_to_size, "random_": _random_, **ATTRIBUTES,
}  # fmt: skip

for _name, _function in {**_operators(), **METHODS}.items():
    if isinstance(_function, FunctionType) and _name.startswith("__"):
        _function.__name__ = _name
    setattr(Tensor, _name, _function)
