"""Python values as plain data and back: what an artifact says of arguments, keys and results, without pickle.

None, bool, int and str stand for themselves, an array for a tuple; everything else is an object of one entry that names
its kind: `{"list": [1, 2]}`, `{"float": "0x1.8p+0"}`, `{"type": "int"}`. Reading makes values of these kinds and
nothing else; it imports nothing, and calls nothing that a file names.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jit.eager.dispatch import return_type
from jit.eager.pytree import Static, Structure
from jit.eager.tensors import Size, Tensor, Variable
from jit.eager.view_paths import ViewStep
from jit.ir import REGISTRY, RandomState, Source, dtypes
from jit.ir.devices import device
from jit.ir.dtypes import DType
from jit.ir.errors import Error, UsageError
from jit.ir.graph import leaves, map_template
from jit.ir.parser import parse_size
from jit.ir.scalars import bits, scalar_function
from jit.ir.sizes import SizeExpr
from jit.ops.scatters import as_strided_of
from jit.tracing.recorder.records import Constant
from jit.tracing.recordings.results import OutputSpec
from jit.tracing.recordings.size_formulas import DEEPEST as DEEPEST_FORMULA
from jit.tracing.recordings.size_formulas import SizeFormula

from ..nn import Parameter
from ..tracing.surroundings.number_arguments import Promoted

DEEPEST = 200
"""The greatest depth of nested data."""

_NAN = "nan:"

_TYPES: dict[str, type] = {
    t.__name__: t
    for t in (bool, int, float, complex, str, bytes, type(None), list, tuple, dict, OrderedDict, Size, Tensor, Variable)
} | {"Parameter": Parameter, "Promoted": Promoted}
_RECORDS: dict[str, Any] = {t.__name__: t for t in (OutputSpec, Source, Constant)}
"""Dataclasses of this package that are written field by field."""


class PlainError(Error):
    """Data that is not what this module writes."""


# -- writing -----------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """`value` as JSON.

    Raises:
        UsageError: It holds something else than numbers, strings, dtypes, containers and descriptions of tensors.

    >>> encode((1, 2.0, None))
    [1, {'float': '0x1.0000000000000p+1'}, None]
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is tuple:
        return _all(value)
    for kind, (fits, write, _) in _KINDS.items():
        if fits(value):
            return {kind: write(value)}
    raise UsageError(
        f"{value!r} of type {type(value).__name__} cannot be saved as plain data; pass numbers, strings, dtypes and "
        "containers of them instead"
    )


def _all(values: Any) -> list[Any]:
    return [encode(value) for value in values]


def _write_float(value: float) -> str:
    """The exact digits of a number; the bits of a NaN."""
    return value.hex() if value == value else f"{_NAN}{bits(value).hex()}"


def _write_type(kind: Any) -> Any:
    for name, known in _TYPES.items():
        if kind is known:
            return name
    if _is_record(kind):
        return [kind.__module__, kind.__qualname__]
    raise UsageError(f"the class {kind.__qualname__} cannot be saved as plain data; use a dataclass or a named tuple")


def _write_view(step: ViewStep) -> Any:
    """The operator, the arguments, the number of the output; then the arguments that are sizes, by their places."""
    sizes = [[place, _write_size(n)] for place, n in enumerate(leaves(step.arguments)) if _is_size(n)]
    plain = map_template(lambda number: 0 if _is_size(number) else number, step.arguments)
    return [step.op.name, encode(plain), step.index, *([sizes] if sizes else [])]


def _write_size(size: Any) -> Any:
    """The text of a size; of a formula, the name of its function and the operands, in which numbers are encoded."""
    if type(size) is SizeFormula:
        return {size.kind: [_write_size(o) if _is_size(o) else [encode(o)] for o in size.operands]}
    return str(size)


def _is_size(number: Any) -> bool:
    return type(number) in (SizeExpr, SizeFormula)


def _returned_by(kind: Any) -> str | None:
    """The operator whose results are of this named tuple."""
    if not isinstance(kind, type) or kind.__module__ != return_type.__module__:
        return None
    alike = (op for op in REGISTRY.values() if op.schema.name.lstrip("_") == kind.__name__)
    return next((op.name for op in alike if return_type(op) is kind), None)


def _is_record(kind: Any) -> bool:
    """Whether instances of a class are made of their fields alone."""
    if not isinstance(kind, type):
        return False
    return dataclasses.is_dataclass(kind) or (
        issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", 0), tuple)
    )


def _write_array(array: Any) -> Any:
    array = np.asarray(array)
    return [dtypes.from_numpy(array.dtype).name, list(array.shape), array.tobytes().hex()]


def _write_record(record: Any) -> Any:
    return [type(record).__name__, _all(getattr(record, f.name) for f in dataclasses.fields(record))]


# -- reading -----------------------------------------------------------------------------------------------------


def decode(data: Any, depth: int = 0) -> Any:
    """The value that `encode` has written.

    Raises:
        PlainError: `encode` has written nothing like this.

    >>> decode(encode({"a": (1, float("inf"))}))
    {'a': (1, inf)}
    """
    if data is None or type(data) in (bool, int, str):
        return data
    if type(data) is list and depth < DEEPEST:
        return tuple(decode(item, depth + 1) for item in data)
    if type(data) is not dict or len(data) != 1 or depth >= DEEPEST:
        raise PlainError(f"expected a plain value, found {str(data)[:60]}")
    ((kind, content),) = data.items()
    if kind not in _KINDS:
        raise PlainError(f"there is no kind of value called {kind!r:.60}")
    try:
        return _KINDS[kind][2](content, depth + 1)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise PlainError(f"this is no {kind}: {str(content)[:60]}") from error


def _items(content: Any, depth: int) -> list[Any]:
    if type(content) is not list:
        raise PlainError(f"expected a list, found {str(content)[:60]}")
    return [decode(item, depth) for item in content]


def _read_type(content: Any, depth: int) -> Any:
    if isinstance(content, str):
        return _TYPES[content]
    module, name = content
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = None if found is None else vars(found).get(part)
    if not _is_record(found):
        raise UsageError(
            f"{module}.{name}, a class of the arguments or results, is not there; import its module before loading"
        )
    return found


def _read_dtype(content: Any, depth: int) -> DType:
    return next(d for d in dtypes.KNOWN if d.name == content)


def _read_array(content: Any, depth: int) -> Any:
    name, shape, data = content
    dtype = dtypes.by_name(name).numpy
    return np.frombuffer(bytes.fromhex(data), dtype).reshape([_size(n) for n in shape]).copy()


def _read_float(content: Any) -> float:
    if not content.startswith(_NAN):
        return float.fromhex(content)
    return float(np.frombuffer(bytes.fromhex(content.removeprefix(_NAN)), "<f8").item())


def _size(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError("no size")
    return number


def _read_structure(content: Any, depth: int) -> Structure:
    kind, keys, children = (decode(part, depth) for part in content)
    if kind == "tensor":
        fits = keys == () == children
    elif kind == "static":
        fits = len(keys) == 1 and type(keys[0]) is Static and children == ()
    elif isinstance(kind, type) and issubclass(kind, dict):
        fits = len(keys) == len(children)
    else:
        names = tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
        sizes = getattr(kind, "_fields", children)
        fits = isinstance(kind, type) and keys == names and len(children) == len(names or sizes)
        fits = fits and (issubclass(kind, (list, tuple)) or dataclasses.is_dataclass(kind))
    if not fits or any(type(child) is not Structure for child in children):
        raise PlainError("this is no structure of arguments or results")
    return Structure(kind, keys, children)


_FIELDS: dict[str, tuple[Any, ...]] = {
    "OutputSpec": (str, int, tuple, bool),
    "Source": (str, int, str),
    "Constant": (str, int, (Source, type(None)), str, object),
}


def _read_record(content: Any, depth: int) -> Any:
    name, values = content[0], _items(content[1], depth)
    if len(values) != len(_FIELDS[name]) or not all(map(isinstance, values, _FIELDS[name])):
        raise PlainError(f"this is no {name}")
    return _RECORDS[name](*values)


def _read_view(content: Any, depth: int) -> ViewStep:
    name, arguments, index = content[0], decode(content[1], depth), _size(content[2])
    op = REGISTRY[name]
    if (op.kind != "view" and op is not as_strided_of) or type(arguments) is not tuple:
        raise PlainError(f"{name} is no view")
    sizes = {_size(place): _read_size(size, 0) for place, size in content[3]} if len(content) > 3 else {}
    places = itertools.count()
    return ViewStep(op, map_template(lambda number: sizes.get(next(places), number), arguments), index)


def _read_size(content: Any, depth: int) -> Any:
    if type(content) is str:
        return parse_size(content)
    ((kind, operands),) = content.items()
    if scalar_function(kind) is None or depth > DEEPEST_FORMULA:
        raise PlainError(f"{kind!r:.60} is no function of numbers, or one inside too many others")
    found = [_read_number(*o) if type(o) is list else _read_size(o, depth + 1) for o in operands]
    return SizeFormula(kind, tuple(found))


def _read_number(content: Any) -> Any:
    number = decode(content)
    if type(number) not in (int, float):
        raise PlainError(f"expected a number, found {str(content)[:60]}")
    return number


def _read_dict(content: Any, depth: int) -> dict[Any, Any]:
    return dict(zip(_items(content[0], depth), _items(content[1], depth), strict=True))


def _read_state(content: Any, depth: int) -> RandomState:
    return RandomState(_size(content[0]), _size(content[1]))


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


_Write = Callable[[Any], Any]
_Read = Callable[[Any, int], Any]
_KINDS: Mapping[str, tuple[Callable[[Any], bool], _Write, _Read]] = {
    "float": (_is(float), _write_float, lambda c, d: _read_float(c)),
    "complex": (
        _is(complex),
        lambda v: [_write_float(v.real), _write_float(v.imag)],
        lambda c, d: complex(*map(_read_float, c)),
    ),
    "bytes": (_is(bytes), bytes.hex, lambda c, d: bytes.fromhex(c)),
    "list": (_is(list), _all, _items),
    "Size": (_is(Size), list, lambda c, d: Size(map(_size, c))),
    "dict": (_is(dict), lambda v: [_all(v), _all(v.values())], _read_dict),
    "frozenset": (_is(frozenset), _all, lambda c, d: frozenset(_items(c, d))),
    "slice": (_is(slice), lambda v: _all((v.start, v.stop, v.step)), lambda c, d: slice(*_items(c, d))),
    "range": (_is(range), lambda v: [v.start, v.stop, v.step], lambda c, d: range(*_items(c, d))),
    "ellipsis": (_is(type(...)), lambda v: None, lambda c, d: ...),
    "device": (_is(device), str, lambda c, d: device(c)),
    "dtype": (lambda v: isinstance(v, DType), lambda v: v.name, _read_dtype),
    "numpy": (
        lambda v: isinstance(v, np.dtype),
        lambda v: dtypes.from_numpy(v).name,
        lambda c, d: dtypes.by_name(c).numpy,
    ),
    "scalar": (lambda v: isinstance(v, np.generic), _write_array, lambda c, d: _read_array(c, d)[()]),
    "array": (lambda v: isinstance(v, np.ndarray), _write_array, _read_array),
    "returns": (
        lambda v: _returned_by(v) is not None,
        _returned_by,
        lambda c, d: return_type(REGISTRY[c]),
    ),
    "type": (lambda v: isinstance(v, type), _write_type, _read_type),
    "state": (_is(RandomState), lambda v: [v.seed % 2**64, v.offset], _read_state),
    "static": (_is(Static), lambda v: encode(v.value), lambda c, d: Static(decode(c, d))),
    "structure": (_is(Structure), _all, _read_structure),
    "record": (
        lambda v: type(v).__name__ in _RECORDS and type(v) is _RECORDS[type(v).__name__],
        _write_record,
        _read_record,
    ),
    "view": (_is(ViewStep), _write_view, _read_view),
}
"""Kinds by name: whether a value is of it, how it is written, how it is read."""
