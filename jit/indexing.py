"""`t[...]` and `t[...] = v`: basic indices become views, tensors and lists become `index` and `index_put_`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir.errors import DimError, UsageError

from .dispatch import wrap_array
from .functions import F
from .proxies import TracedScalar
from .tensors import Tensor


def get_item(tensor: Tensor, key: Any) -> Any:
    """`tensor[key]`."""
    view, indices = _basic(tensor, key)
    if any(index is not None for index in indices):
        return F.index(view, indices)
    return F.alias(view) if view is tensor else view


def set_item(tensor: Tensor, key: Any, value: Any) -> None:
    """`tensor[key] = value`."""
    view, indices = _basic(tensor, key)
    if not isinstance(value, Tensor) and not isinstance(value, (int, float, complex, bool, TracedScalar)):
        value = wrap_array(np.asarray(value))
    if any(index is not None for index in indices):
        source = value if isinstance(value, Tensor) else F.full((), value, dtype=tensor.dtype)
        F.index_put_(view, indices, F._to_copy(source, dtype=tensor.dtype))
    elif isinstance(value, Tensor):
        F.copy_(view, _without_leading_ones(value, view.ndim))
    else:
        F.fill_(view, value)


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    while value.ndim > ndim and value._array.shape[0] == 1:
        value = value[0]
    return value


def _basic(tensor: Tensor, key: Any) -> tuple[Tensor, list[Any]]:
    """The view that ints, slices, None and ... select, and the tensor indices left over, one per dim (None: all)."""
    items = _expand_ellipsis(tensor, _as_indices(key))
    indices: list[Any] = []
    view, dim = tensor, 0
    for item in items:
        if item is None:
            view = F.unsqueeze(view, dim)
        elif isinstance(item, slice):
            view = _slice(view, dim, item)
        elif isinstance(item, Tensor):
            indices.extend([None] * (dim - len(indices)))
            indices.append(item)
            dim += item.ndim - 1 if str(item.dtype) == "jit.bool" and item.ndim else 0
        elif isinstance(item, (int, TracedScalar)):
            view = F.select(view, dim, item)
            continue
        else:
            raise DimError(
                f"tensors are indexed by ints, slices, ..., None, tensors and lists, not by {type(item).__name__}"
            )
        dim += 1
    return view, indices


def _as_indices(key: Any) -> list[Any]:
    items = list(key) if isinstance(key, tuple) else [key]
    return [_as_index(item) for item in items]


def _as_index(item: Any) -> Any:
    if type(item) is TracedScalar or item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, Tensor):
        return item.item() if item.ndim == 0 and item.dtype.is_integral and str(item.dtype) != "jit.bool" else item
    if isinstance(item, (bool, np.bool_)):
        return wrap_array(np.asarray(bool(item)))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, (list, range, np.ndarray)):
        array = np.asarray(item)
        return wrap_array(array.astype(np.int64) if array.size == 0 else array)
    return item


def _expand_ellipsis(tensor: Tensor, items: list[Any]) -> list[Any]:
    used = sum(_consumes(item) for item in items)
    if used > tensor.ndim:
        raise DimError(f"too many indices: {used} for a tensor of {tensor.ndim} dims")
    if sum(item is Ellipsis for item in items) > 1:
        raise DimError("an index may hold one ellipsis only")
    for position, item in enumerate(items):
        if item is Ellipsis:
            return items[:position] + [slice(None)] * (tensor.ndim - used) + items[position + 1 :]
    return items


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor):
        return item.ndim if str(item.dtype) == "jit.bool" else 1
    return 1


def _slice(view: Tensor, dim: int, item: slice) -> Tensor:
    if item == slice(None):
        return view
    step = 1 if item.step is None else item.step
    if step <= 0:
        raise UsageError(f"a slice of a tensor needs a positive step, not {step}; use flip for the reverse order")
    return F.slice(view, dim, item.start, item.stop, step)
