"""Arguments of `t.to(...)` and `module.to(...)`: a dtype, a device, both in any order, or those of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jit.ir.devices import device as Device
from jit.ir.devices import is_device, resolve
from jit.ir.dtypes import DType, as_dtype
from jit.ir.errors import SchemaError

from .tensors import Tensor


class Conversion(NamedTuple):
    """The arguments of `to`, told apart."""

    dtype: DType | None
    device: Device | None
    flags: tuple[bool, ...]
    """The arguments given by position after them: `non_blocking`, then `copy`."""


def conversion(args: Sequence[Any], dtype: Any, device: Any) -> Conversion:
    """Tell the arguments of `to` apart; devices that are not there, and what is given twice, are refused."""
    dtypes, devices, flags = [dtype], [device], []
    for place, value in enumerate(args):
        if isinstance(value, bool) and place:
            flags.append(value)
        elif isinstance(value, Tensor):
            dtypes.append(value.dtype)
            devices.append(value.device)
        elif is_device(value):
            devices.append(value)
        elif isinstance(value, bool):
            raise SchemaError(f"to() takes a dtype, a device or a tensor first, not {value!r}; pass one of these")
        else:
            dtypes.append(value)
    wanted = _only(dtypes, "dtype")
    home = _only(devices, "device")
    dtype, device = None if wanted is None else as_dtype(wanted), None if home is None else resolve(home)
    return Conversion(dtype, device, tuple(flags))


def _only(values: Sequence[Any], what: str) -> Any:
    given = [value for value in values if value is not None]
    if len(given) > 1:
        raise SchemaError(f"to() is given a {what} twice, {given[0]!r} and {given[1]!r}; leave one out")
    return given[0] if given else None
