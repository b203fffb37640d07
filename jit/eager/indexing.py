"""`t[...]` and `t[...] = v`: basic indices become views, tensors and lists become `index` and `index_put_`."""

from __future__ import annotations

from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import DimError, DTypeError, UsageError

from . import context
from .arguments import wrap_array
from .namespace import F
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
    view, indices = _basic(tensor, key, writes=True)
    if value is None or (isinstance(value, complex) and not tensor.dtype.is_complex):
        raise DTypeError(
            f"{value!r} cannot be written into a tensor of {tensor.dtype.name}; assign a number that it can hold"
        )
    if not isinstance(value, Tensor) and not isinstance(value, (int, float, complex, bool, TracedScalar)):
        value = wrap_array(np.asarray(value))
    if any(index is not None for index in indices):
        source = value if isinstance(value, Tensor) else F.full((), value, dtype=tensor.dtype, device=tensor.device)
        F.index_put_(view, indices, F._to_copy(source, dtype=tensor.dtype))
    elif isinstance(value, Tensor):
        F.copy_(view, _without_leading_ones(value, view.ndim))
    else:
        F.fill_(view, value)


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    while value.ndim > ndim and value.shape[0] == 1:
        value = value[0]
    return value


def _basic(tensor: Tensor, key: Any, writes: bool = False) -> tuple[Tensor, list[Any]]:
    """The view that ints, slices, None and ... select, and the tensor indices for it, one per dim (None: all).

    An int that differs from sample to sample selects a copy, which is not to be written to.
    """
    items = _expand_ellipsis(tensor, _as_indices(key))
    indices: list[Any] = []
    view, dim = tensor, 0
    for item in items:
        if item is None:
            view = F.unsqueeze(view, dim)
        elif isinstance(item, slice):
            view = _slice(view, dim, item)
        elif isinstance(item, Tensor) and _is_int(item):
            view = F.select(view, dim, item.item()) if writes else F.index(view, [*[None] * dim, item])
            continue
        elif isinstance(item, Tensor):
            if item.ndim == 0:  # a truth value: a dim of its own, of which it takes all or nothing
                view, item = F.unsqueeze(view, dim), F.reshape(item, [1])
            indices.extend([None] * (dim - len(indices)))
            indices.append(item)
            dim += item.ndim - 1 if item.dtype is dtypes.bool_ else 0
        elif isinstance(item, (int, TracedScalar)):
            view = F.select(view, dim, item)
            continue
        else:
            raise DimError(
                f"tensors are indexed by ints, slices, ..., None, tensors and lists, not by "
                f"{type(item).__name__}; use one of these"
            )
        dim += 1
    return view, indices


def _as_indices(key: Any) -> list[Any]:
    if isinstance(key, tuple):
        return [_as_index(item) for item in key]
    if isinstance(key, list) and _stands_for_a_tuple(key):
        context.warn(
            "a list of lists, tensors or slices indexes as the tuple of them does; write the tuple, or jit.tensor(...)"
        )
        return [_as_index(item) for item in key]
    return [_as_index(key)]


_LONGEST = 32
"""The length from which a list is one index for one dim, whatever it holds."""


def _stands_for_a_tuple(key: list[Any]) -> bool:
    """Whether a list means one index per dim, as it once did in numpy and still does in PyTorch."""
    several = (list, tuple, range, slice, np.ndarray, Tensor)
    return len(key) < _LONGEST and any(isinstance(i, several) or i is None or i is Ellipsis for i in key)


def _as_index(item: Any) -> Any:
    if type(item) is TracedScalar or item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, Tensor):
        return _tensor_index(item)
    if isinstance(item, (bool, np.bool_)):
        return wrap_array(np.asarray(bool(item)))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, (list, tuple, range, np.ndarray)):
        array = _index_array(item)
        return _tensor_index(wrap_array(array.astype(np.int64) if array.size == 0 else array))
    return item


def _index_array(item: Any) -> Any:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise DimError(
            "the lists of an index do not all have the same length; make those of one level equally long"
        ) from error
    if array.dtype.kind not in "biufc":
        raise DimError("the list of an index holds something else than numbers; use whole numbers, or bools, alone")
    return array


_INDICES = (dtypes.int64, dtypes.int32, dtypes.bool_)


def _tensor_index(item: Tensor) -> Any:
    """A tensor among the indices as it is used: a 0-d one as a number, a mask of bytes as one of bools."""
    if item.dtype is dtypes.uint8:
        context.warn("a mask of dtype uint8 among the indices is deprecated; convert it with .bool()")
        return F._to_copy(item, dtype=dtypes.bool_)
    if item.dtype not in _INDICES and not (item.ndim == 0 and item.dtype.is_integral):
        raise DimError(
            f"tensors are indexed by tensors of int64, int32 or bool, and this one is {item.dtype.name}; convert it "
            "with .long() or .bool()"
        )
    return item.item() if _is_int(item) and not item._is_sample else item


def _is_int(index: Tensor) -> bool:
    return index.ndim == 0 and index.dtype is not dtypes.bool_


def _expand_ellipsis(tensor: Tensor, items: list[Any]) -> list[Any]:
    used = sum(_consumes(item) for item in items)
    if used > tensor.ndim:
        raise DimError(
            f"too many indices: {used} for a tensor of {tensor.ndim} dims, of sizes {list(tensor._array.shape)}; leave "
            "some out"
        )
    if sum(item is Ellipsis for item in items) > 1:
        raise DimError("an index holds more than one ellipsis (...); leave one")
    for position, item in enumerate(items):
        if item is Ellipsis:
            return items[:position] + [slice(None)] * (tensor.ndim - used) + items[position + 1 :]
    return items


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor):
        return item.ndim if item.dtype is dtypes.bool_ else 1
    return 1


def _slice(view: Tensor, dim: int, item: slice) -> Tensor:
    if item == slice(None):
        return view
    step = 1 if item.step is None else item.step
    if step <= 0:
        raise UsageError(f"a slice of a tensor needs a positive step, not {step}; use flip for the reverse order")
    return F.slice(view, dim, item.start, item.stop, step)
