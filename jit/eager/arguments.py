"""The arguments of operators as users give them, brought to what declarations say: numbers, tensors, lists, dtypes.

coerce(op, values)                 values in the order of the schema
fitter(op)(*args, **kwargs)        the same for arguments as they are passed: a function of the schema's signature
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jit.ir import Op, dtypes
from jit.ir.devices import CPU, device, get_default_device, name_of
from jit.ir.errors import DTypeError
from jit.ir.memory_formats import as_memory_format
from jit.ir.schema import REQUIRED, Argument

from . import context
from .proxies import TracedScalar
from .tensors import Tensor, tensor_of


class Mismatch(Exception):
    """The sign of a value that an argument does not take; callers raise a SchemaError with all declarations instead."""


def coerce(op: Op, values: Sequence[Any]) -> list[Any]:
    """`values` as the op wants them: int lists as tuples, dtypes as DTypes; Mismatch where that is impossible."""
    return [coercer(value) for coercer, value in zip(_coercers(op), values, strict=True)]


@cache
def fitter(op: Op) -> Callable[..., tuple[Any, ...]]:
    """A function with the schema's signature that gives the arguments as `coerce` does.

    It is generated from the declaration, so that what fits as it is, a tensor or a default, costs no call. Its
    TypeErrors say that arguments do not go with the signature; a Mismatch, that one is of another type.
    """
    space: dict[str, Any] = {"Tensor": Tensor}
    parts, lines = [], []
    for argument, coercer in zip(op.arguments, _coercers(op), strict=True):
        name = argument.name
        if argument.kwarg_only and "*" not in parts:
            parts.append("*")
        parts.append(name if argument.default is REQUIRED else f"{name}=default_{name}")
        space |= {f"default_{name}": argument.default, f"coerced_{name}": coercer}
        if coercer is not _same:
            lines.append(f" if {_may_misfit(argument, coercer)}: {name} = coerced_{name}({name})\n")
    values = "".join(f"{argument.name}, " for argument in op.arguments)
    text = f"def fit({', '.join(parts)}):\n{''.join(lines)} return ({values})\n"
    exec(compile(text, "<jit binder>", "exec"), space)
    return space["fit"]


def _may_misfit(argument: Argument, coercer: Callable[[Any], Any]) -> str:
    """The condition under which an argument is looked at: it is no tensor where there should be one, and no default."""
    name, default = argument.name, argument.default
    conditions = []
    if default is not REQUIRED and argument.type.base != "Device":  # the default device may change
        found = coercer(default)
        if found == default and type(found) is type(default):
            conditions.append(f"{name} is not default_{name}")
    if argument.type.base == "Tensor" and not argument.type.is_list:
        conditions.append(f"(not isinstance({name}, Tensor) or {name}._array is None)")
    return " and ".join(conditions) or "True"


@cache
def _coercers(op: Op) -> tuple[Callable[[Any], Any], ...]:
    return tuple(_coercer(op, i, a) for i, a in enumerate(op.arguments))


def _coercer(op: Op, position: int, argument: Argument) -> Callable[[Any], Any]:
    kind = argument.type
    if kind.base == "Tensor":
        base: Callable[[Any], Any] = _number_or_tensor if position in op.promoted else _tensor
        if kind.optional_elements:
            base = _or_none(base)
    else:
        coercers: dict[str, Callable[[Any], Any]] = {
            "int": _int, "float": _float, "bool": _bool, "Scalar": _scalar, "str": _str, "ScalarType": _dtype,
            "Device": _device, "Generator": _same, "MemoryFormat": as_memory_format,
        }  # fmt: skip
        base = coercers.get(kind.base, _same)
        if kind.base == "Device" and not op.tensors:
            return _device_or_default
    if kind.is_list:
        base = _list_of(base, kind.list_size, kind.base != "Tensor")
        if argument.default == () and not kind.optional:
            return _or_empty(base)
    return _or_none(base) if kind.optional else base


def _same(value: Any) -> Any:
    return value


def _or_none(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None or (isinstance(value, Tensor) and not value.defined) else inner(value)


def _or_empty(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: () if value is None else inner(value)


def _list_of(inner: Callable[[Any], Any], size: int | None, single: bool) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            if inner is _int and _WHOLE.issuperset(map(type, value)):  # mostly sizes
                return tuple(value)
            return tuple([inner(item) for item in value])
        if single and size is not None:
            return (inner(value),) * size
        raise Mismatch

    return check


def _tensor(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value if value._array is not None else value._defined()
    if isinstance(value, np.ndarray):
        return wrap_array(value)
    raise Mismatch


def wrap_array(array: Any) -> Tensor:
    """A numpy array among the operands as a tensor; in a trace it is a constant."""
    made = tensor_of(array)
    trace = context.TRACE.get()
    if trace is not None:
        trace.constant(made, "a numpy array among the operands", foreign=True)
    return made


_WHOLE = frozenset((int,))
_NUMBERS = frozenset((int, float, bool, complex, TracedScalar))


def _number_or_tensor(value: Any) -> Any:
    if type(value) in _NUMBERS:
        return value
    if isinstance(value, Tensor):
        return value if value._array is not None else value._defined()
    return value.item() if isinstance(value, np.generic) else _tensor(value)


def _int(value: Any) -> Any:
    if type(value) is int or isinstance(value, TracedScalar):
        return value
    if isinstance(value, bool):  # most likely a keepdim=True passed where a dim is expected
        raise Mismatch
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, Tensor) and value.ndim == 0 and value.dtype.category == dtypes.INTEGRAL:
        return value.item()  # which a trace follows
    if _is_number_of_numpy(value) and value.dtype.kind in "iu":
        return value.item()
    raise Mismatch


def _float(value: Any) -> Any:
    if type(value) is float or isinstance(value, TracedScalar):
        return value
    if isinstance(value, (int, float, np.number)) or _stands_for_number(value):
        return float(value)
    if _is_number_of_numpy(value) and value.dtype.kind in "iuf":
        return value.item()
    raise Mismatch


def _bool(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise Mismatch


def _scalar(value: Any) -> Any:
    if isinstance(value, (int, float, complex, TracedScalar)):
        return value
    if isinstance(value, np.generic) or _stands_for_number(value) or _is_number_of_numpy(value):
        return value.item()
    raise Mismatch


def _stands_for_number(value: Any) -> bool:
    """Whether this is a 0-d tensor that may be read as a plain number; one that requires grad would get no gradient."""
    return isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad


def _is_number_of_numpy(value: Any) -> bool:
    """Whether this is one of numpy's arrays without dims."""
    return isinstance(value, np.ndarray) and value.ndim == 0


def _str(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise Mismatch


def _device(value: Any) -> Any:
    """The name of a device as graphs write it; whether there is such a device, `resolve` checks later."""
    if isinstance(value, (str, device)) or type(value) is int:
        return name_of(value)
    raise Mismatch


def _device_or_default(value: Any) -> Any:
    """The name of a device, of the default one where none is given; None for the CPU."""
    if value is None:
        default = get_default_device()
        return None if default is CPU else str(default)
    name = _device(value)
    return None if name == "cpu" else name


def _dtype(value: Any) -> Any:
    try:
        return dtypes.as_dtype(value)
    except (DTypeError, TypeError) as error:
        raise Mismatch from error
