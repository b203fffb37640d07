"""Devices: `jit.device`, where tensors lie, and the one place that says which there are.

Every device that PyTorch knows can be named, `jit.device("cuda", 0)`, but only the CPU and the GPUs that the runtime
has announced hold tensors, and "meta" takes tensors without elements. `resolve` turns what users write for a device
into one that exists, or refuses it; every `device=` goes through it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from .dtypes import by_name
from .errors import DTypeError, SchemaError, UsageError

KINDS = ("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
         "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone")  # fmt: skip
"""The kinds of devices that can be named."""

_WRITTEN = re.compile(r"([a-z]+)(?::(0|[1-9][0-9]*))?")
_MADE: dict[tuple[str, int | None], device] = {}
"""The devices that have been named, one object for each."""


class device:  # noqa: N801 - users call it like a function
    """A place for tensors: a kind of device, and its number among those of its kind.

    In a `with` block, tensors are made on it unless they are told otherwise. It equals its text, "cuda:1".

    Args:
        type: "cpu", "cuda:1", or another device.
        index: Its number, where `type` does not say it.

    Raises:
        UsageError: No device is called so.

    >>> import jit
    >>> jit.device("cuda", 1), jit.zeros(2).device == jit.device("cpu")
    (device(type='cuda', index=1), True)
    >>> jit.zeros(2).device == "cpu", jit.device("cuda", 1) == "cuda:1"
    (True, True)
    """

    __slots__ = ("_index", "_tokens", "_type")

    _index: int | None
    _tokens: list[Token[device]]
    _type: str

    def __new__(cls, type: Any, index: int | None = None) -> device:
        """The one object for this device, so that a recording knows it again."""
        if isinstance(type, device):
            if index is not None:
                raise SchemaError("device: a device takes no index; pass the index with text, device('cuda', 0)")
            return type
        key = _parsed(type, index)
        made = _MADE.get(key)
        if made is None:
            made = object.__new__(cls)
            made._type, made._index = key
            made._tokens = []
        return _MADE.setdefault(key, made)

    @property
    def type(self) -> str:
        """The kind: "cpu", "cuda"."""
        return self._type

    @property
    def index(self) -> int | None:
        """The number among devices of this kind; None if none was given."""
        return self._index

    def __repr__(self) -> str:
        number = "" if self._index is None else f", index={self._index}"
        return f"device(type={self._type!r}{number})"

    def __str__(self) -> str:
        return self._type if self._index is None else f"{self._type}:{self._index}"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and str(self) == other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        return (device, (self._type, self._index))

    def __enter__(self) -> device:
        self._tokens.append(DEFAULT.set(resolve(self)))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, at: TracebackType | None) -> None:
        DEFAULT.reset(self._tokens.pop())


def _parsed(text: Any, index: Any) -> tuple[str, int | None]:
    if isinstance(text, int) and not isinstance(text, bool) and index is None:
        raise UsageError(f"there is no device {text} here, because a number means a GPU; use 'cpu'")
    if not isinstance(text, str) or not (index is None or type(index) is int):
        wrong = text if not isinstance(text, str) else index
        raise SchemaError(f"a device should be text and perhaps a number, such as 'cuda' and 0, got {wrong!r}")
    found = _WRITTEN.fullmatch(text)
    if found is None or found[1] not in KINDS:
        raise UsageError(f"no device is called {text!r}; use 'cpu', or 'cuda:0' with a number")
    if found[2] is not None and index is not None:
        raise UsageError(f"the index of the device is given twice, by {text!r} and by index={index}; leave one out")
    if index is not None and index < 0:
        raise UsageError(f"the index of a device must not be negative, got {index}; leave it out, or count from 0")
    return found[1], int(found[2]) if found[2] is not None else index


CPU = device("cpu")
META = device("meta")
"""The device of tensors that have sizes and a dtype, but no elements."""
DEFAULT: ContextVar[device] = ContextVar("default_device", default=CPU)
"""The device on which tensors are made unless they are told otherwise."""
CURRENT: ContextVar[int] = ContextVar("current_gpu", default=0)
"""The number of the device that is meant by a kind alone: "cuda"."""
_COUNTS: dict[str, Callable[[], int | str]] = {}
"""The number of devices of each kind besides the CPU, or a sentence that says why there is none."""


def announce(kind: str, count: Callable[[], int | str]) -> None:
    """Let devices of a kind hold tensors.

    Args:
        kind: "cuda".
        count: Makes them ready for use, and says how many there are; or a sentence that says why there is none.
    """
    _COUNTS[kind] = count


def is_present(kind: str) -> bool:
    """Whether there is a device of this kind here that can hold tensors."""
    counted = _COUNTS[kind]() if kind in _COUNTS else ""
    return kind == CPU.type or (isinstance(counted, int) and counted > 0)


def resolve(value: Any) -> device:
    """The device that is meant by what somebody wrote: a device, its text, or None for the default one.

    Raises:
        UsageError: There is no such device here.
        SchemaError: `value` does not stand for a device.
    """
    if value is None:
        return DEFAULT.get()
    if value is CPU:
        return CPU
    wanted = value if isinstance(value, device) else device(value)
    if wanted.type == "cpu" and wanted.index in (None, 0):
        return CPU
    counted = _COUNTS[wanted.type]() if wanted.type in _COUNTS else ""
    if isinstance(counted, str):
        raise UsageError(f"there is no device {str(wanted)!r} here{counted and ', '}{counted}; use 'cpu'")
    index = CURRENT.get() if wanted.index is None else wanted.index
    if index >= counted:
        raise UsageError(f"there is no device {str(wanted)!r} here; the last one is '{wanted.type}:{counted - 1}'")
    return META if wanted.type == "meta" else device(wanted.type, index)


@contextmanager
def made_on(home: device) -> Iterator[None]:
    """A block in which tensors are made on a device unless they are told otherwise."""
    token = DEFAULT.set(home)
    try:
        yield
    finally:
        DEFAULT.reset(token)


def name_of(value: Any) -> str:
    """The device that is meant, as graphs write it."""
    return str(resolve(value))


def is_device(value: Any) -> bool:
    """Whether `value` means a device in a call such as `t.to(value)`, which takes dtypes as well."""
    if not isinstance(value, str):
        return isinstance(value, device) or (isinstance(value, int) and not isinstance(value, bool))
    try:
        by_name(value)
    except DTypeError:
        return True
    return False


def accelerator(value: Any = None) -> device:
    """The GPU that is meant by `t.cuda(value)`; `resolve` says that there is none."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return device("cuda", value)
    if device(value).type != "cuda":
        raise UsageError(f"cuda() expects a GPU, such as 'cuda:0', got {value!r}; use to({value!r})")
    return device(value)


def get_default_device() -> device:
    """The device on which tensors are made by default."""
    return DEFAULT.get()


def set_default_device(device: Any) -> None:
    """Set the device on which tensors are made unless another is asked for; None: the CPU."""
    DEFAULT.set(CPU if device is None else resolve(device))
