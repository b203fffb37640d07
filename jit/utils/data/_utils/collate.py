"""`default_collate`: one nest of tensors with a new first dim, from a list of samples of the same form."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from jit.eager.creation import as_tensor, tensor
from jit.eager.namespace import F
from jit.eager.tensors import Tensor
from jit.ir.dtypes import float64
from jit.ir.errors import KindError, ShapeError

CollateFns = dict[Any, Callable[..., Any]]
"""Functions that join samples, by the type of these or a tuple of types."""

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """`data` with tensors in the place of numpy arrays, wherever they are nested."""
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    return _like_sequence(data, list(map(default_convert, data))) if isinstance(data, Sequence) else data


def collate(batch: list[Any], *, collate_fn_map: CollateFns | None = None) -> Any:
    """The samples of a batch, joined.

    Args:
        batch: The samples.
        collate_fn_map: What joins samples of a type: a function of the batch, and of this map by keyword.

    Raises:
        KindError: There is no way to join samples of this type.
        ShapeError: Lists of several lengths are to be joined.
    """
    first, joiners = batch[0], collate_fn_map or {}
    for kinds, join in joiners.items():
        if type(first) is kinds:
            return join(batch, collate_fn_map=joiners)
    for kinds, join in joiners.items():
        if isinstance(first, kinds):
            return join(batch, collate_fn_map=joiners)
    if isinstance(first, Mapping):
        return _like_mapping(first, {k: collate([b[k] for b in batch], collate_fn_map=joiners) for k in first})
    if isinstance(first, Sequence):
        return _collate_sequences(batch, joiners)
    raise KindError(default_collate_err_msg_format.format(type(first)))


def _collate_sequences(batch: list[Any], joiners: CollateFns) -> Any:
    first = batch[0]
    if any(len(sample) != len(first) for sample in batch):
        raise ShapeError("each element in list of batch should be of equal size")
    joined = [collate(list(column), collate_fn_map=joiners) for column in zip(*batch)]
    if hasattr(first, "_fields"):
        return type(first)(*joined)
    return joined if isinstance(first, tuple) else _like_sequence(first, joined)


def _like_mapping(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """The items in a mapping of the type of `original`, or in a dict where none can be made."""
    try:
        if isinstance(original, MutableMapping):
            made = copy.copy(original)
            made.update(items)
            return made
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _like_sequence(original: Sequence[Any], items: list[Any]) -> Any:
    """The items in a sequence of the type of `original`, or in a list where none can be made."""
    try:
        if isinstance(original, MutableSequence):
            made = copy.copy(original)
            for place, item in enumerate(items):
                made[place] = item
            return made
        return items if isinstance(original, range) else type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def collate_tensor_fn(batch: list[Tensor], *, collate_fn_map: CollateFns | None = None) -> Tensor:
    """The tensors stacked."""
    stacked: Tensor = F.stack(batch, 0)
    return stacked


def collate_numpy_array_fn(batch: list[Any], *, collate_fn_map: CollateFns | None = None) -> Any:
    """The arrays as tensors, stacked; KindError for strings and objects."""
    if batch[0].dtype.kind in "SUO":
        raise KindError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate_tensor_fn([as_tensor(array) for array in batch])


def collate_numpy_scalar_fn(batch: list[Any], *, collate_fn_map: CollateFns | None = None) -> Tensor:
    """The numbers as a tensor of their dtype."""
    return as_tensor(np.stack(batch))


def collate_float_fn(batch: list[float], *, collate_fn_map: CollateFns | None = None) -> Tensor:
    """The numbers as a tensor of float64."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: list[int], *, collate_fn_map: CollateFns | None = None) -> Tensor:
    """The whole numbers as a tensor."""
    return tensor(batch)


def collate_str_fn(batch: list[Any], *, collate_fn_map: CollateFns | None = None) -> list[Any]:
    """The list of strings as it is."""
    return batch


default_collate_fn_map: CollateFns = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""The types that `default_collate` knows; programs add their own."""


def default_collate(batch: list[Any]) -> Any:
    """The samples of a batch joined: tensors, arrays and numbers along a new first dim, wherever they are nested.

    >>> default_collate([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
    {'x': tensor([1.5000, 2.5000], dtype=jit.float64), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
