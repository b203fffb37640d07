"""`Tensor`, a strided array with views and version counters, and `Variable`, its subclass that takes part in autograd.

Both have the same layout, so an object is promoted by `__class__`: `requires_grad_()`, or an in-place operation that
gives it a history, turns a Tensor into a Variable; what refers to it need not know. Operators are not here:
methods such as `add` or `sum` are generated from the registry by `jit.eager.functions`.
"""

from __future__ import annotations

import functools
import weakref
from numbers import Number
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.ir import Source, dtypes
from jit.ir.devices import CPU, META, resolve
from jit.ir.devices import device as Device
from jit.ir.dtypes import DType
from jit.ir.errors import AutogradError, DTypeError, KindError, MemberError, UsageError
from jit.ir.memory_formats import as_memory_format, is_in_format
from jit.ir.types import contiguous_strides
from jit.runtime.arrays.arrays import with_known_dtype
from jit.runtime.arrays.libraries import FINDERS, HOST, library_of, library_on

from . import context, derivatives
from .derivatives import Node
from .proxies import TracedScalar
from .view_paths import ViewStep

if TYPE_CHECKING:
    from jit._stubs.methods import Methods
else:
    Methods = object  # jit.eager.functions and jit.eager.methods add them at run time


class Storage:
    """The identity of some memory, shared by all views of it: what changes through one of them changes for all."""

    __slots__ = ("__weakref__", "inference", "place", "version")

    inference: bool
    """Whether it was made in `inference_mode`: derivatives may not use it later."""
    version: int
    """The number of in-place operations so far."""
    place: context.Place
    """The place of `writer`."""

    @property
    def writer(self) -> Source | None:
        """The user's line of the last in-place operation."""
        return context.source_of(self.place)

    @writer.setter
    def writer(self, source: Source | None) -> None:
        self.place = source

    def written(self, place: context.Place = None, skipped: int = 1) -> None:
        """Note an in-place operation; `place` is that of the user's line where it is known, else see `user_place`."""
        self.version += 1
        self.place = place or context.user_place(skipped)


_in_inference_mode = context.INFERENCE.get


def fresh_storage() -> Storage:
    """The identity of memory that is new; an `__init__` would take twice as long."""
    made = Storage()
    made.inference = _in_inference_mode()
    made.version = 0
    made.place = None
    return made


_item = tuple.__getitem__


class Size(tuple[int, ...]):
    """The sizes of a tensor: a tuple that also counts elements."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        """Make a size of whole numbers, also those in arrays and tensors; TypeError for others."""
        return tuple.__new__(cls, [s if type(s) in (int, TracedScalar) else index(s) for s in sizes])

    def __getitem__(self, index: Any) -> Any:
        found = _item(self, index)
        return tuple.__new__(Size, found) if type(found) is tuple else found

    def __add__(self, other: Any) -> Any:
        joined = tuple.__add__(self, other)
        return joined if joined is NotImplemented else tuple.__new__(Size, joined)

    def __radd__(self, other: Any) -> Any:
        return tuple.__new__(Size, (*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__

    def numel(self) -> int:
        """The product of the sizes."""
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"{dtypes.package}.Size({list(self)})"


_sized = tuple.__new__
"""`_sized(Size, shape)`: sizes that are known to be whole numbers."""


class Tensor(Methods):
    """A strided array on a device. Make one with `jit.tensor`, `jit.from_numpy` or an operator.

    >>> import jit
    >>> t = jit.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> t.shape, t.dtype, t.sum().item()
    (jit.Size([2, 2]), jit.float32, 10.0)
    """

    __slots__ = (
        "__dict__", "__weakref__", "_accumulator", "_array", "_bindings", "_grad", "_grad_fn", "_grad_version", "_name",
        "_output_nr", "_path", "_requires_grad", "_retains_grad", "_storage", "_viewed",
    )  # fmt: skip

    __array_priority__ = 1000
    __array_ufunc__ = None
    _is_sample = False
    """Whether this stands for a sample of many, as in a function under `vmap`; its elements have no numbers then."""

    def __new__(cls, *data: Any, **named: Any) -> Any:
        """Make an undefined tensor, so that a subclass whose `__init__` calls none has no broken objects."""
        made = _new(cls)
        made._hold(None)
        return made

    def __init__(self, *data: Any, device: Any = None, **named: Any) -> None:
        """Make a float32 tensor of these sizes, with whatever its memory holds; or a float32 copy of data in lists or
        an array; or an alias of another tensor; or, of nothing, the undefined tensor."""
        if self._array is not None:  # the `__new__` of a subclass has made it
            return
        from .legacy import construct

        construct(self, data, device, named)

    def _hold(self, array: Any, storage: Storage | None = None) -> None:
        """Initialise the fields for a tensor of this memory, without a history."""
        self._array = array
        """The array, numpy's or another library's; None for an undefined tensor."""
        self._storage = fresh_storage() if storage is None else storage
        self._bindings: Any = None
        """The bindings of this tensor in traces; see jit.tracing.recorder.memory."""
        self._viewed: Tensor | None = None
        """The tensor that it is a view of, which is none itself."""
        self._path: tuple[ViewStep, ...] = ()
        self._requires_grad = False
        self._grad: Tensor | None = None
        self._grad_fn: Node | None = None
        self._grad_version = 0
        """The storage's version when `_grad_fn` was set; a view whose storage was written to since derives it anew."""
        self._output_nr = 0
        self._accumulator: weakref.ref[Any] | None = None
        self._retains_grad = False
        self._name: str | None = None

    @property
    def name(self) -> str | None:
        """The name that recordings give it; None if it was not named."""
        trace = context.asking_trace()
        return self._name if trace is None else trace.fact(self, "name")

    @name.setter
    def name(self, value: str | None) -> None:
        if value != self._name:
            self._refuse_outside("setting the name of")
        self._name = value

    # -- geometry ------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Any:
        """The sizes; while a trace records this tensor, traced integers."""
        trace = context.TRACE.get()
        if trace is not None:
            sizes = trace.shape_of(self)
            if sizes is not None:
                return sizes
        return _sized(Size, self._defined().shape)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._defined().ndim

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtypes.from_numpy(self._defined().dtype)

    @property
    def device(self) -> Device:
        """The device of the elements."""
        if not FINDERS or self._array is None:
            return CPU
        return Device(library_of(self._array).device)

    @property
    def is_cpu(self) -> bool:
        """Whether the elements lie on the CPU."""
        return self.device.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie on a GPU."""
        return self.device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        """Whether it has no elements, but only sizes and a dtype."""
        return self.device is META

    def _defined(self) -> Any:
        if self._array is None:
            raise UsageError("this tensor is undefined; give the operator a tensor with data")
        return self._array

    @property
    def defined(self) -> bool:
        """False for the undefined tensor, which stands for a missing one."""
        return self._array is not None

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or that of `dim`."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dims."""
        return self.ndim

    ndimension = dim

    def numel(self) -> Any:
        """The number of elements."""
        count: Any = 1
        for size in self.shape:
            count = count * size
        return count

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, all or that of `dim`."""
        strides = strides_of(self._defined())
        trace = context.TRACE.get()
        if trace is not None:
            if trace is context.asking_trace():
                return trace.strides(self, strides, dim)
            strides = trace.own_strides(self, strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """The distance of the first element from the start of the storage, in elements."""
        from jit.runtime.arrays.arrays import offset_of

        offset = offset_of(self._defined())
        trace = context.asking_trace()
        if trace is not None:
            trace.note_offset(self)
        return offset

    def is_contiguous(self, memory_format: Any = "contiguous_format") -> bool:
        """True if the elements lie in row-major order, or in that of another memory format, without gaps."""
        array = self._defined()
        trace = context.TRACE.get()
        if trace is not None:
            (trace.note_layout if trace is context.asking_trace() else trace.note_own_layout)(self)
        if memory_format == "contiguous_format":
            return bool(array.flags.c_contiguous)
        return is_in_format(
            as_memory_format(memory_format), array.shape, tuple(s // array.itemsize for s in array.strides)
        )

    def is_floating_point(self) -> bool:
        """True for the real floating dtypes."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """True for the complex dtypes."""
        return self.dtype.is_complex

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        from jit.runtime.arrays.arrays import address_of

        trace = context.asking_trace()
        if trace is not None:
            trace.note_impure("reads the address of a tensor")
        return address_of(self._defined())

    @property
    def _version(self) -> int:
        trace = context.asking_trace()
        if trace is not None and not trace.is_inside(self):
            trace.note_impure("reads how often a tensor from outside was written to")
        if self._storage.inference:
            raise UsageError("inference tensors do not count how often they are written to; a clone() does")
        return self._storage.version

    @property
    def _base(self) -> Tensor | None:
        """The tensor that it is a view of; None for all others."""
        trace = context.asking_trace()
        return self._viewed if trace is None else trace.base(self)

    def is_inference(self) -> bool:
        """Whether this was made in `inference_mode`, or is a view of what was."""
        return self._storage.inference

    # -- leaving the world of tensors ----------------------------------------------------------------------------

    def item(self) -> Any:
        """The only element as a Python number. In a trace it stays a traced number until Python decides on it."""
        trace = context.TRACE.get()
        if trace is not None:
            traced = trace.item(self)
            if traced is not None:
                return traced
        if self._defined().size != 1:
            raise UsageError(
                f"a tensor of {self._array.size} elements cannot be converted to a Python number; select one element, "
                "or use tolist()"
            )
        return dtypes.number_in(self._array)

    def tolist(self) -> Any:
        """The elements as nested lists, or a number for a 0-d tensor. In a trace they are traced numbers."""
        array = self._defined()
        trace = context.TRACE.get()
        if trace is not None:
            return trace.elements(self)
        return (array.astype(np.float32) if self.dtype.is_narrow else array).tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """The same memory as a numpy array; refused for tensors that require gradients (call `.detach()` first).

        Args:
            force: Take the tensor from its history, and copy it from a GPU, if need be.
        """
        self._leave("numpy()")
        if force:
            return self.detach().cpu().numpy()
        if self.requires_grad and context.GRAD_ENABLED.get():
            raise UsageError("a tensor that requires grad cannot be seen as a numpy array; use t.detach().numpy()")
        if not isinstance(self._defined(), np.ndarray):
            way_out = "it has no elements" if self.is_meta else "use t.cpu().numpy()"
            raise KindError(f"a tensor on {str(self.device)!r} cannot be seen as a numpy array; {way_out}")
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return np.array(array, dtype=dtype, copy=copy) if dtype is not None or copy else array

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        from jit.runtime.arrays.dlpack import ExchangeError, lend

        self._leave("__dlpack__()")
        array = self._defined()
        if self.requires_grad:
            raise ExchangeError("memory of a tensor that requires grad is not lent; lend t.detach()")
        if stream is not None and type(stream) is not int:
            raise KindError(f"a stream is a number, not {type(stream).__name__}; leave it out")
        if not isinstance(array, np.ndarray):
            if copy and dl_device is None:  # CuPy copies to the CPU alone
                array, copy = array.copy(), None
            return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if stream is not None or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise ExchangeError("memory is lent on the CPU, where there are no streams; leave stream and dl_device out")
        return lend(array, max_version, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self.device is CPU else self._array.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        """The place and layout of the elements, for other libraries on a GPU."""
        if not self.is_cuda:
            raise MemberError(f"a tensor on {str(self.device)!r} has no __cuda_array_interface__; use t.cuda()")
        self._leave("__cuda_array_interface__")
        if self.requires_grad:
            raise UsageError("a tensor that requires grad is not seen by other libraries; use t.detach()")
        return self._array.__cuda_array_interface__

    def _leave(self, what: str) -> None:
        trace = context.TRACE.get()
        if trace is not None:
            trace.refuse_escape(self, what)

    def __bool__(self) -> bool:
        return self._concrete(bool)

    def __int__(self) -> int:
        return self._concrete(int)

    def __float__(self) -> float:
        return self._concrete(float)

    def __complex__(self) -> complex:
        return self._concrete(complex)

    def __index__(self) -> int:
        if not self.dtype.is_integral:
            raise DTypeError(
                f"only integer tensors can be an index, and this one is {self.dtype}; convert it with .long()"
            )
        return int(self)

    def _concrete(self, kind: type) -> Any:
        try:
            number = self.item()
        except UsageError as error:
            if kind is not bool or self._array is None or self._array.size == 1:
                raise
            raise UsageError(
                f"a tensor of {self._array.size} elements is neither true nor false; use its any() or all()"
            ) from error
        if kind in (int, float) and self.dtype.is_complex:
            number = complex(number)
            if number.imag:
                raise DTypeError(f"{kind.__name__}() of {number}, which is not real; take .real of the tensor first")
            number = number.real
        return kind(number)

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, Number, TracedScalar)):
            raise KindError(f"a tensor contains numbers and no {type(element).__name__}; look for a number or a tensor")
        return bool((self == element).any())

    def __reversed__(self) -> Any:
        return self.flip(0) if self.ndim else self

    def __len__(self) -> int:
        if self.ndim == 0:
            raise DTypeError("a 0-d tensor has no len(); use .item() for its number")
        return int(self.shape[0])

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        if type(self) in (Tensor, Variable) and self._array is not None and self.ndim == 0 and not self.is_meta:
            return format(self.item(), spec)
        if spec:
            raise KindError(
                f"{spec!r} formats tensors that are a number, of no dims; parameters, those with dims and those on "
                "'meta' are not formatted as a number; format item()"
            )
        return str(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._leave("pickling or copying")
        if not self.is_leaf:
            raise AutogradError("only leaves can be copied or pickled; call .detach() first")
        if self.device is CPU or self.is_meta:
            return (_rebuild, (type(self), self._array, self._requires_grad))
        return (_rebuild_on, (str(self.device), type(self), HOST.taken(self._array), self._requires_grad))

    def __copy__(self) -> Any:
        self._leave("copy.copy()")
        if not self.is_leaf:
            raise AutogradError("only leaves can be copied or pickled; call .detach() first")
        return _holding(type(self), self._array, self._requires_grad)

    # -- autograd ------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow into this tensor."""
        return self._follows_base() and self.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def grad_fn(self) -> Node | None:
        """The node that computes this tensor's gradient; None for leaves."""
        return self.grad_fn if self._follows_base() else None

    def _follows_base(self) -> bool:
        """Whether this is a view of a tensor that has become a Variable since; if so it becomes one, too."""
        if self._viewed is None or type(root_of(self)) is Tensor:
            return False
        self._promote()
        return True

    @property
    def grad(self) -> Any:  # Tensor | None, but type checkers would ask about None at every use
        """The accumulated gradient of a leaf, or None."""
        trace = context.TRACE.get()
        if trace is not None and self._array is not None:
            return trace.gradient_of(self)
        if self._grad is None and self._grad_fn is not None and not self._retains_grad:
            context.warn(".grad of a tensor that is no leaf stays None; call retain_grad() on it before backward()")
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise KindError(f"a gradient is a tensor or None, not {type(value).__name__}; assign one of these to .grad")
        if value is not None and value._defined().shape != self._defined().shape:
            raise UsageError(
                f"the gradient has sizes {list(value.shape)}, the tensor {list(self.shape)}; assign a gradient of the "
                "tensor's sizes"
            )
        if value is self or (value is not None and value.dtype is not self.dtype):
            what = "the tensor itself" if value is self else f"of {value.dtype}, the tensor of {self.dtype}"
            raise DTypeError(f"the gradient is {what}; assign another tensor of the tensor's dtype")
        trace = context.TRACE.get()
        if trace is None:
            self._grad = value
        else:
            trace.set_gradient(self, value)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def is_leaf(self) -> bool:
        """True if no operator made it, as far as autograd knows."""
        return self.grad_fn is None

    @property
    def output_nr(self) -> int:
        """The number of this output of `grad_fn`."""
        trace = context.asking_trace()
        return self._output_nr if trace is None else trace.fact(self, "output_nr")

    @property
    def retains_grad(self) -> bool:
        """Whether `.grad` of this tensor, which is no leaf, is kept."""
        trace = context.asking_trace()
        return self._retains_grad if trace is None else trace.fact(self, "retains_grad")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients with respect to this tensor; it becomes a leaf `Variable`."""
        if requires_grad and not (self.dtype.is_floating_point or self.dtype.is_complex):
            raise UsageError(
                f"only floating point and complex tensors can require gradients, and this one is {self.dtype}; convert "
                "it with .float()"
            )
        if requires_grad and self._storage.inference and not context.INFERENCE.get():
            raise UsageError("an inference tensor cannot require gradients outside of inference_mode; clone() it first")
        if not requires_grad and self.grad_fn is not None:
            raise UsageError("requires_grad can be switched off on leaves only; use .detach()")
        if bool(requires_grad) != self.requires_grad:
            self._refuse_outside("requires_grad_() of")
        if requires_grad:
            self._promote()
        self._requires_grad = bool(requires_grad)
        return self

    def _refuse_outside(self, what: str) -> None:
        """Let a trace refuse a change of something other than elements, which a recording could not repeat."""
        trace = context.TRACE.get()
        if trace is not None:
            trace.refuse_change(self, what)

    def _promote(self) -> None:
        kind: Any = type(self)
        if not issubclass(kind, Variable):
            self.__class__ = Variable if kind is Tensor else _variable_kind(kind)

    @property
    def data(self) -> Tensor:
        """The same memory without history, and with a version counter of its own."""
        made, trace = tensor_of(self._array), context.TRACE.get()
        if trace is not None:
            trace.record_data(self, made)
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        self._leave("assigning to .data")
        if not isinstance(value, Tensor):
            raise DTypeError(f".data is a tensor, not {type(value).__name__}; assign jit.tensor(...)")
        if self._requires_grad and not (value.dtype.is_floating_point or value.dtype.is_complex):
            raise UsageError(
                f"data of a tensor that requires grad is floating point, and this is {value.dtype.name}; convert it "
                "with .float()"
            )
        self._array = value._array


HISTORY = ("_viewed", "_path", "_requires_grad", "_grad_fn", "_grad_version", "_output_nr", "_bindings")
"""The fields that say how a tensor was made."""


class Variable(Tensor):
    """A tensor that takes part in autograd.

    Args:
        data: The tensor whose memory it shares, without its history; left out for an undefined one.
        requires_grad: Whether gradients are wanted.
        volatile: Accepted and ignored: `jit.no_grad()` switches gradients off.
    """

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> None:
        from .legacy import construct_variable

        construct_variable(self, data, requires_grad)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow into this tensor."""
        if self._viewed is not None and self._grad_version != self._storage.version:
            return derivatives.autograd.stale_requires_grad(self)
        return self._requires_grad or self._grad_fn is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def grad_fn(self) -> Node | None:
        """The node that computes this tensor's gradient; None for leaves."""
        base = self._viewed
        if base is not None and self._grad_version != self._storage.version:
            derivatives.autograd.view_history(self)
        return self._grad_fn

    def set_history(self, node: Node | None, output_nr: int = 0) -> None:
        """Let `node`, whose output number `output_nr` this tensor is, be the node that computes its gradient."""
        self._grad_fn, self._output_nr = node, output_nr
        self._grad_version = self._storage.version
        if self._retains_grad and node is not None:  # it was written to: what is retained is the new gradient
            node.retain(self)


@functools.cache
def _variable_kind(kind: Any) -> Any:
    """The class of Variables that are of a class which a program has derived from Tensor."""
    return type(kind.__name__, (kind, Variable), {"__module__": kind.__module__, "__doc__": kind.__doc__})


_new = object.__new__


def tensor_of(array: Any, storage: Storage | None = None) -> Tensor:
    """The tensor of a numpy array, sharing its memory; `Tensor(...)` is for users, and copies.

    Every result comes this way, so what `_hold` does is written out: Python is faster where it meets one class alone.
    """
    if storage is None:
        storage = _new(Storage)
        storage.inference = _in_inference_mode()
        storage.version = 0
        storage.place = None
    made: Tensor = _new(Tensor)
    made._array = array
    made._storage = storage
    made._bindings = None
    made._viewed = None
    made._path = ()
    made._requires_grad = False
    made._grad = None
    made._grad_fn = None
    made._grad_version = 0
    made._output_nr = 0
    made._accumulator = None
    made._retains_grad = False
    made._name = None
    return made


def variable_of(array: Any, storage: Storage | None = None) -> Variable:
    """`tensor_of` for a tensor that takes part in autograd."""
    made = _new(Variable)
    made._hold(array, storage)
    return made


def _rebuild(kind: type[Tensor], array: Any, requires_grad: bool) -> Tensor:
    """A tensor that was pickled. Its memory is its own: what was sent beside the pickle may be that of a file."""
    is_lent = isinstance(array, np.ndarray) and not (type(array) is np.ndarray and array.flags.writeable)
    return _holding(kind, np.array(array) if is_lent else array, requires_grad)


def _holding(kind: type[Tensor], array: Any, requires_grad: bool) -> Tensor:
    tensor: Tensor = _new(kind)
    tensor._hold(with_known_dtype(array) if isinstance(array, np.ndarray) else array)
    tensor._requires_grad = requires_grad
    return tensor


def _rebuild_on(device: str, kind: type[Tensor], array: Any, requires_grad: bool) -> Tensor:
    """A tensor that was pickled on a device other than the CPU."""
    try:
        library = library_on(str(resolve(device)))
    except UsageError as error:
        raise UsageError(f"a tensor was pickled on {device!r}, but {error}, and pickle t.cpu()") from error
    with library.current():
        return _holding(kind, library.taken(array), requires_grad)


def strides_of(array: Any) -> tuple[int, ...]:
    """The strides of an array in elements."""
    strides = tuple(s // array.itemsize for s in array.strides)
    if not array.size and not any(strides):  # numpy has none for new arrays without elements
        return contiguous_strides(array.shape)
    return strides


def root_of(tensor: Tensor) -> Tensor:
    """The tensor at which the path of a view starts; the tensor itself if it is no view.

    The tensor that a view was taken of may have become a view of its own past since, by `t_()`: the path starts there.
    """
    base = tensor._viewed
    if base is None:
        return tensor
    return base if base._viewed is None else base._viewed


def requires_grad(value: Any) -> bool:
    """Whether gradients flow into a tensor, or into one of a list."""
    if type(value) is Tensor:
        return value._viewed is not None and value.requires_grad
    if type(value) is tuple:
        return any(map(requires_grad, value))
    return isinstance(value, Variable) and value.requires_grad


def alias(tensor: Tensor, kind: type[Tensor] = Tensor) -> Tensor:
    """A new object for the same memory and version counter, without history."""
    copy: Tensor = _new(kind)
    copy._hold(tensor._array, tensor._storage)
    return copy
