"""PyTorch's oldest constructors, `jit.Tensor(...)` and `jit.Variable(...)`.

Tensors of the package itself come from `jit.eager.tensors.tensor_of`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.devices import resolve
from jit.ir.errors import DTypeError, SchemaError, ShapeError

from .namespace import F
from .proxies import TracedScalar
from .tensors import HISTORY, Size, Tensor, Variable


def construct(made: Any, data: Sequence[Any], device: Any, named: dict[str, Any]) -> None:
    """Initialise `made`, a tensor of the user's, as the arguments of `Tensor(...)` say.

    Args:
        made: The tensor, as `__new__` made it.
        data: The positional arguments: sizes, or one argument that holds the data.
        device: The device of a new tensor; the default one if left out.
        named: The other arguments by name.

    Raises:
        SchemaError: The arguments are not those of a tensor.
        ShapeError: A size is negative.
    """
    home = None if device is None else str(resolve(device))
    if named:
        data = _named(data, named)
    if not data:
        made._hold(None)
    elif len(data) == 1 and isinstance(data[0], Tensor):
        _become_alias(made, data[0])
    elif len(data) == 1 and not _is_size(data[0]):
        _hold_copy(made, data[0], home)
    else:
        _take(made, F.empty(_sizes(data), device=home))


def _named(data: Sequence[Any], named: dict[str, Any]) -> Sequence[Any]:
    unknown = [name for name in named if name not in ("data", "size")]
    if unknown or data or len(named) > 1:
        raise SchemaError(
            f"Tensor() takes sizes, data or a tensor, and device=; not {', '.join(unknown or named)}= beside them. "
            "jit.tensor(data, dtype=..., requires_grad=...) takes more"
        )
    return list(named["size"]) if "size" in named else [named["data"]]


def _is_size(value: Any) -> bool:
    return isinstance(value, Size) or (hasattr(value, "__index__") and not isinstance(value, (bool, np.ndarray)))


def _sizes(data: Sequence[Any]) -> tuple[Any, ...]:
    given = tuple(data[0]) if len(data) == 1 and isinstance(data[0], Size) else tuple(data)
    if any(isinstance(size, bool) or not hasattr(size, "__index__") for size in given):
        raise SchemaError(
            f"Tensor() takes sizes, which are whole numbers, or data in one list; got {_kinds(given)}; "
            "jit.tensor copies any data"
        )
    negative = [size for size in given if size < 0]
    if negative:
        raise ShapeError(f"a tensor cannot have the negative size {negative[0]}; pass sizes of at least 0")
    return tuple(size if type(size) is TracedScalar else operator.index(size) for size in given)


def _kinds(values: Sequence[Any]) -> str:
    return ", ".join(type(value).__name__ for value in values)


def _hold_copy(made: Any, data: Any, device: str | None) -> None:
    """Let `made` hold a copy of `data`, lists or an array, as float32."""
    from .creation import tensor

    if not isinstance(data, (Sequence, np.ndarray)) or isinstance(data, (str, bytes)):
        raise SchemaError(
            f"Tensor() takes sizes, data in a list or an array, or a tensor, not {type(data).__name__}; "
            "jit.tensor takes a number, too"
        )
    found = tensor(data if isinstance(data, np.ndarray) else list(data), device=device)
    if found.dtype.is_complex:
        raise DTypeError("Tensor() makes float32 tensors, and this data is complex; use jit.tensor(data)")
    _take(made, found.to(dtypes.DEFAULT))


def _take(made: Any, source: Any) -> None:
    """Let `made` hold what `source` holds, which nothing else refers to."""
    made._hold(source._array, source._storage)
    for slot in HISTORY:
        setattr(made, slot, getattr(source, slot))


def _become_alias(made: Any, source: Any) -> None:
    """Let `made` share the elements and the history of `source`."""
    if not source.defined:
        made._hold(None)
        return
    found = F.alias(source)
    _take(made, found)
    if isinstance(found, Variable):
        made._promote()


def construct_variable(made: Any, data: Any, requires_grad: bool) -> None:
    """Initialise `made`, a Variable, as a leaf that shares memory with the tensor `data`."""
    if data is None or (isinstance(data, Tensor) and not data.defined):
        made._hold(None)
        if requires_grad:
            raise SchemaError("an undefined tensor has no elements that could require gradients; give Variable data")
        return
    if not isinstance(data, Tensor):
        raise SchemaError(f"Variable() takes a tensor, not {type(data).__name__}; pass jit.tensor(data)")
    _take(made, data.detach())
    made.requires_grad_(bool(requires_grad))
