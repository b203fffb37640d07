"""Functions that programs call once, most of them at their start: settings, checks, names of types."""

from __future__ import annotations

import math
from typing import Any

from jit.backends import (
    are_deterministic_algorithms_enabled,
    is_deterministic_algorithms_warn_only_enabled,
    use_deterministic_algorithms,
)  # fmt: skip
from jit.eager.namespace import F
from jit.eager.storages import TypedStorage
from jit.eager.tensors import Tensor
from jit.eager.typed import found_kind
from jit.ir import dtypes
from jit.ir.errors import DTypeError, UsageError
from jit.ir.settings import SETTINGS


def set_default_dtype(d: Any, /) -> None:
    """Set the dtype of Python's floats, and of tensors that are made without one.

    Raises:
        DTypeError: It is no floating dtype.

    >>> import jit
    >>> jit.set_default_dtype(jit.float64)
    >>> jit.tensor(1.5).dtype, jit.zeros(2).dtype
    (jit.float64, jit.float64)
    >>> jit.set_default_dtype(jit.float32)
    """
    dtype = dtypes.as_dtype(d)
    if not dtype.is_floating_point:
        raise DTypeError(f"the default dtype is a floating one, not {dtype.name}; pass jit.float32 or jit.float64")
    if dtype is not dtypes.DEFAULT:
        dtypes.set_default(dtype)


def set_default_tensor_type(t: Any, /) -> None:
    """Set the default dtype, and the default device, to those of a kind of tensors such as `jit.FloatTensor`.

    Raises:
        UsageError: It is no kind of tensors.
    """
    from jit.ir.devices import set_default_device

    kind = found_kind(t)
    if kind is None:
        raise UsageError(f"{t!r} is no kind of tensors; pass one such as jit.FloatTensor, or 'torch.FloatTensor'")
    set_default_dtype(kind.dtype)
    set_default_device(kind.kind)


def set_flush_denormal(mode: bool, /) -> bool:
    """False: denormal numbers are computed with as they are."""
    return False


def set_float32_matmul_precision(precision: str) -> None:
    """Keep a setting that changes nothing: products of float32 are computed in float32.

    Raises:
        UsageError: It is none of "highest", "high" and "medium".
    """
    if precision not in ("highest", "high", "medium"):
        raise UsageError(f"there is no precision {precision!r}; use 'highest', 'high' or 'medium'")
    SETTINGS.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """The precision that `set_float32_matmul_precision` was told last."""
    return SETTINGS.matmul_precision


def set_warn_always(b: bool, /) -> None:
    """Nothing: Python's filters say how often warnings are shown."""


def is_warn_always_enabled() -> bool:
    """False: Python's filters say how often warnings are shown."""
    return False


_DEBUG_MODES = {0: 0, 1: 1, 2: 2, "default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: Any) -> None:
    """Let operators choose their algorithms by rule alone, or not, see `use_deterministic_algorithms`.

    Args:
        debug_mode: 0 or "default" for not; 1 or "warn", and 2 or "error", which do the same.

    Raises:
        UsageError: There is no such mode.
    """
    if debug_mode not in _DEBUG_MODES:
        raise UsageError(f"there is no mode {debug_mode!r}; give 0, 1 or 2, or 'default', 'warn' or 'error'")
    mode = _DEBUG_MODES[debug_mode]
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """The mode that `set_deterministic_debug_mode` sets, as a number."""
    if not are_deterministic_algorithms_enabled():
        return 0
    return 1 if is_deterministic_algorithms_warn_only_enabled() else 2


def typename(obj: Any, /) -> str:
    """The name of an object's type as PyTorch writes it: `torch.FloatTensor` for tensors."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in ("builtins", "__builtin__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def is_storage(obj: Any, /) -> bool:
    """Whether an object is what `Tensor.storage()` gives."""
    return isinstance(obj, TypedStorage)


def is_inference(input: Any) -> bool:
    """Whether a tensor was made in `inference_mode`, or is a view of what was."""
    return bool(input.is_inference())


def range(start: Any, end: Any = None, step: Any = 1, **options: Any) -> Any:
    """The numbers from `start` to `end`, that included, as floats; `arange` has taken the place of it.

    Args:
        start: The first number; 0 if only one is given.
        end: The last one.
        step: The distance between two.
        options: Those of `arange`.

    >>> import jit
    >>> jit.range(1, 2, 0.5).tolist()
    [1.0, 1.5, 2.0]
    """
    if end is None:
        start, end = 0, start
    count = math.floor((end - start) / step) + 1
    options.setdefault("dtype", dtypes.DEFAULT)
    out = options.pop("out", None)
    if out is not None:
        options["dtype"] = out.dtype
    made = start + F.arange(0, count, 1, **options) * step
    if out is None:
        return made
    return F.mul(F.reshape(made, out.shape) if out.numel() == count else made, 1, out=out)


def _assert(condition: Any, message: str) -> None:
    """Raise an AssertionError with this message unless the condition holds.

    Args:
        condition: A bool, or a tensor of one.
        message: The text of the error.

    Raises:
        AssertionError: It does not hold.
    """
    if not condition:
        raise AssertionError(message)


def _check(cond: Any, message: Any = None) -> None:
    """Raise a RuntimeError unless the condition holds.

    Args:
        cond: A bool.
        message: A function that gives the text of the error.

    Raises:
        RuntimeError: It does not hold.
    """
    _check_with(RuntimeError, cond, message)


def _check_with(error_type: type[Exception], cond: Any, message: Any = None) -> None:
    """Raise an error of this type unless the condition holds."""
    if not cond:
        raise error_type(message() if message is not None else "the program expected something else to be true")


def _check_index(cond: Any, message: Any = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> None:
    _check_with(TypeError, cond, message)


def _check_is_size(i: Any, message: Any = None) -> None:
    """Raise a RuntimeError unless this may be a size."""
    _check_with(RuntimeError, i >= 0, message)


__all__ = [
    "get_deterministic_debug_mode", "get_float32_matmul_precision", "is_storage", "is_warn_always_enabled", "range",
    "set_default_dtype", "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_warn_always", "typename",
]  # fmt: skip
