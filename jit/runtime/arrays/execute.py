"""Runs one primitive operator on arrays: the single place where eager mode and the interpreter compute.

Operands are cast before the body runs, by ATen's rules rather than numpy's; 16-bit floats compute in float32 and
round once, at the end of the op.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import Error, ShapeError
from jit.ir.fitting import fitted
from jit.ir.geometry import Geometry, broadcast_shapes
from jit.ir.op import Op
from jit.ir.random_state import RandomState
from jit.ir.refusals import FOREIGN, refusal

from . import arrays, blocks, large, libraries
from .libraries import HOST, ArrayLibrary
from .placing import library_for, placed, shared_library, stays_on_host

_NARROW = frozenset(dtype.numpy for dtype in dtypes.KNOWN if dtype.is_narrow)
_SINGLE = dtypes.float32.numpy
TRANSFERS: list[Callable[[Op], None]] = []
"""Functions that are told of each operator that goes to the CPU and back."""


class _Warnings:
    """The setting of `np.errstate`, for versions of numpy that do not keep it where the import below looks."""

    def set(self, ignored: Any) -> dict[str, Any]:
        return np.seterr(**ignored)  # type: ignore[return-value]

    def reset(self, before: dict[str, Any]) -> None:
        np.seterr(**before)


_warnings: Any = _Warnings()
_SILENCE: Any = dict.fromkeys(("divide", "over", "under", "invalid"), "ignore")
with contextlib.suppress(ImportError):  # `with np.errstate(...)` takes as long as adding two short arrays
    from numpy._core.umath import _extobj_contextvar, _make_extobj  # type: ignore[attr-defined,unused-ignore]

    _warnings, _SILENCE = _extobj_contextvar, _make_extobj(all="ignore")


def execute(op: Op, values: Sequence[Any], state: RandomState | None = None) -> list[Any]:
    """Run `op` on schema-ordered `values` in which tensors are arrays; the results are arrays.

    A random op takes the generator's `state` and appends the successor to its results.

    Raises:
        Error: The operands do not fit the operator or each other, or lie on different devices.
    """
    try:
        if not libraries.FINDERS or stays_on_host(op, values):
            return _RUNNERS[op.kind](op, values, state, HOST)
        shared = shared_library(op, values)
        if shared is not None:
            return _execute_on(shared, op, values, state)
        library = library_for(op, values)
        here = values if _goes_to_host(library, op) else placed(op, values, library)
        return _execute_on(library, op, here, state)
    except Error:
        raise
    except FOREIGN as error:
        raise refusal(op, values, error) from error


def execute_whole(op: Op, values: Sequence[Any]) -> Any:
    """The result of a composite by its body for numpy, the same bits as by its parts; None where these have to do it.

    Such a body takes arrays of one dtype, none of 16 bits, whose parts round by themselves.
    """
    if op.numpy_body is None or not _are_alike([values[index] for index in op.tensors]):
        return None
    result = _attempted(op.numpy_body, values)
    return None if result is None else _as_array(result, None, HOST)


def execute_gradients(op: Op, values: Sequence[Any], tensors: Sequence[Any]) -> Sequence[Any] | None:
    """The gradients of an operator's tensors by its derivative for numpy; None where formulas have to do it.

    Args:
        op: The operator, which has such a derivative.
        values: What the derivative asks for, in its order, but for the namespace.
        tensors: The arrays among them.
    """
    assert op.numpy_gradients is not None
    return _attempted(op.numpy_gradients.function, values) if _are_alike(tensors) else None


def _are_alike(arrays: Sequence[Any]) -> bool:
    """Whether these are arrays of numpy's, of one floating dtype of 32 bits or more; some may be None."""
    dtype = None
    for array in arrays:
        if array is None:
            continue
        if type(array) is not np.ndarray or (dtype is not None and array.dtype is not dtype):
            return False
        dtype = array.dtype
    return dtype is not None and dtype.kind == "f" and dtype.itemsize > 2


def _attempted(body: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The result of a body for numpy; None if its operands do not fit, which the parts then say."""
    token = _warnings.set(_SILENCE)
    try:
        return body(HOST.math, *values)
    except FOREIGN:
        return None
    finally:
        _warnings.reset(token)


def _execute_on(library: ArrayLibrary, op: Op, values: Sequence[Any], state: Any) -> list[Any]:
    """Run `op` on a device; the device's errors become errors of this package."""
    if not library.is_current():
        with library.current():
            return _execute_on(library, op, values, state)
    try:
        return _run_on(library, op, values, state)
    except Exception as error:
        libraries.raise_explained(library, error, op.schema.name)
        raise


def _goes_to_host(library: ArrayLibrary, op: Op) -> bool:
    """Whether an operator is run on the CPU, as its body needs that, and its results are brought back."""
    return op.runs_on_host and library.has_elements and library is not HOST


def _run_on(library: ArrayLibrary, op: Op, values: Sequence[Any], state: Any) -> list[Any]:
    """Run `op` on a device; on the CPU and back again, if its body needs that."""
    if not _goes_to_host(library, op):
        found = library.computed(op, values)
        if found is None:
            return _RUNNERS[op.kind](op, values, state, library)
        return [*found, state] if op.kind == "random" else found
    for tell in TRANSFERS:
        tell(op)
    results = _RUNNERS[op.kind](op, placed(op, values, HOST), state, HOST)
    return [library.taken(result) if libraries.is_array(result) else result for result in results]


def _run_view(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    source = values[0]
    dtype = source.dtype if op.result is None else op.result_dtype(dtypes.from_numpy(source.dtype), values).numpy
    if op.is_absolute:
        return [arrays.window(source, _absolute(op, values), dtype)]
    facts = op, source.shape, source.strides, source.itemsize, dtype.itemsize, *values[1:]
    try:
        layouts = _known_layouts(*facts)
    except TypeError:  # an argument that cannot be looked up, or one of a wrong type
        layouts = _layouts(*facts)
    if isinstance(op.result, str):
        _check_bytes(source, layouts[0], dtype)
    return [arrays.laid_out(source, layout, dtype) for layout in layouts]


def _check_bytes(source: Any, layout: arrays.ViewLayout, dtype: Any) -> None:
    """ShapeError unless elements of another dtype take the very bytes of `source`, and may begin where these do."""
    if math.prod(layout.sizes) * dtype.itemsize != source.size * source.itemsize:
        raise ShapeError(f"view: elements of {dtype} do not take the {source.size * source.itemsize} bytes there are")
    if arrays.address_of(source) % min(dtype.itemsize, dtype.alignment):
        raise ShapeError(f"view: the memory does not begin where an element of {dtype} may; call clone()")


def _layouts(
    op: Op, shape: tuple[int, ...], strides: tuple[int, ...], source_size: int, size: int, *arguments: Any
) -> list[arrays.ViewLayout]:
    """The results of a view in the memory of its source; elements have `source_size` bytes there, here `size`."""
    found = op.body(Geometry(shape, tuple([s // source_size for s in strides])), *arguments)
    return [arrays.in_bytes(geometry, size) for geometry in ([found] if isinstance(found, Geometry) else found)]


_known_layouts = functools.lru_cache(maxsize=1 << 12)(_layouts)
"""`_layouts`, which takes longer than to look it up: a program takes the same few views all the time."""


def _absolute(op: Op, values: Sequence[Any]) -> Geometry:
    """as_strided counts its offset from the start of the storage, not from the tensor's first element."""
    source = values[0]
    start = arrays.offset_of(source)
    sizes, strides, offset = op.body(Geometry(*arrays.geometry_of(source)[:2], start), *values[1:])
    geometry = Geometry(sizes, strides, offset - start)
    arrays.check_inside(source, geometry)
    return geometry


def _run_pointwise(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    array, most, dtype, alike = library.array, 1, None, True
    for index in op.promoted:
        value = values[index]
        if type(value) is not array:
            alike = False
            continue
        most *= value.size
        if dtype is None:
            dtype = value.dtype
        elif value.dtype is not dtype:
            alike = False
    final, wide = _dtypes_of(op, values, dtype if alike else None, array)
    is_large = most >= SMALL and library is HOST and large.is_large(op, values, final.itemsize)
    args = values if alike and dtype is wide else _promoted(op, values, wide, library, is_large)
    token = _warnings.set(_SILENCE)
    try:
        if is_large:
            return [large.pointwise(op, args, final, wide)]
        result = (op.numpy_body or op.body)(library.math, *args)
        if type(result) is array and result.dtype is final and result.flags.c_contiguous:
            return [result]  # nearly always, so it shall cost no call
        return [_as_array(result, final, library)]
    except ValueError:
        broadcast_shapes(*(args[i].shape for i in op.tensors if isinstance(args[i], array)))  # says what is wrong
        raise
    finally:
        _warnings.reset(token)


SMALL = blocks.LARGE // 16
"""The product of the sizes of operands up to which no result is large, whatever its dtype."""


def _promoted(op: Op, values: Sequence[Any], wide: Any, library: ArrayLibrary, is_large: bool) -> list[Any]:
    """The arguments with the promoted ones as arrays of dtype `wide`; large arrays keep theirs."""
    args = list(values)
    for index in op.promoted:
        value = args[index]
        if isinstance(value, library.array):
            if value.dtype != wide and not is_large:
                args[index] = value.astype(wide)
            continue
        if op.keeps_numbers:
            value = fitted(value, wide)
        if value is not None:
            is_usual = library is HOST and type(value) in (int, float) and wide.kind == "f"
            home = HOST if op.tells_numbers else library
            number = np.array(value, wide) if is_usual else home.taken(value).astype(wide)
            args[index] = number[()] if op.tells_numbers else number
    return args


def _dtypes_of(op: Op, values: Sequence[Any], dtype: Any, array: Any) -> tuple[Any, Any]:
    """(the dtype of the result, the dtype that the body computes in), kept by what the rule looks at.

    Where all promoted operands are arrays of the same `dtype`, that alone decides; their dims do not.
    """
    kept, key = op.decisions, dtype
    if dtype is None:
        facts: list[Any] = []
        for index in op.promoted:
            value = values[index]
            facts += (value.dtype, value.ndim > 0) if type(value) is array else _signature(value)
        key = tuple(facts)
    found: tuple[Any, Any] | None = kept.get(key)
    if found is None:
        computed = op.compute_dtype(values)
        wide = _SINGLE if computed.is_narrow else computed.numpy
        found = kept[key] = (op.result_dtype(computed).numpy, wide)
    return found


def _signature(value: Any) -> Any:
    """The facts of an operand that rules of dtypes look at; an operator may refuse negative numbers, see `pow`."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim > 0
    return type(value), type(value) is int and value < 0


def _run_array(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    args, half = (values, None) if _is_plain(op, values, library.array) else _widened(op, values, library)
    token = _warnings.set(_SILENCE)
    try:
        return _results((op.numpy_body or op.body)(library.math, *args), half, library, op.lays_out)
    finally:
        _warnings.reset(token)


def _run_random(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    args = [v for a, v in zip(op.arguments, values, strict=True) if a.type.base != "Generator"]
    with np.errstate(all="ignore"):
        result, words = op.body(library.math, state, *args)
        return [*_results(result, None, library), state.advance(words)]


def _is_plain(op: Op, values: Sequence[Any], array: Any) -> bool:
    """Whether an operator takes its operands as they are: none are narrow floats, none are cast to a common dtype."""
    dtype, several = None, False
    for index in op.tensors:
        value = values[index]
        for item in value if type(value) in (tuple, list) else (value,):
            if type(item) is not array:
                several = several or item is not None
                continue
            if item.itemsize <= 2 and item.dtype.kind not in "iub":
                return False
            several = several or item.dtype is not (dtype or item.dtype)
            dtype = item.dtype
    if not op.promoted:
        return True
    return not several and dtype is not None and _dtypes_of(op, values, dtype, array)[1] is dtype


def _widened(op: Op, values: Sequence[Any], library: ArrayLibrary) -> tuple[Sequence[Any], Any]:
    """Arguments promoted as the op asks, narrow floats as float32; and the narrow dtype that results round to."""
    args = values
    if op.promoted:
        args, dtype = list(values), op.compute_dtype(values).numpy
        for index in op.promoted:
            args[index] = _map(args[index], lambda a: library.taken(a).astype(dtype, copy=False))
    half = _half_among([args[index] for index in op.tensors])
    if half is None:
        return args, None
    args = list(args)
    for index in op.tensors:
        args[index] = _map(args[index], lambda a: a.astype(_SINGLE) if _half_among((a,)) is not None else a)
    explicit = any(isinstance(v, dtypes.DType) for v in values)
    return args, None if explicit else half


def _half_among(values: Sequence[Any]) -> Any:
    """The narrow floating dtype of the first array that has one; None if there is none."""
    for value in values:
        if type(value) in (tuple, list):
            dtype = _half_among(value)
        else:
            dtype = getattr(value, "dtype", None)
        if dtype in _NARROW:
            return dtype
    return None


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return [None if v is None else function(v) for v in value]
    return function(value)


def _results(result: Any, half: Any, library: ArrayLibrary, laid_out: bool = False) -> list[Any]:
    if half is None and type(result) is library.array and result.flags.c_contiguous:
        return [result]
    many = result if isinstance(result, (tuple, list)) else (result,)
    return [
        _as_array(r, half if half is not None and library.taken(r).dtype == _SINGLE else None, library, laid_out)
        for r in many
    ]


def _as_array(result: Any, dtype: Any, library: ArrayLibrary, laid_out: bool = False) -> Any:
    """An array of `dtype`, if that is given; row-major, as type rules say, unless the op has `laid_out` its result."""
    if type(result) is library.array:
        array = result
    elif result is None:  # an undefined result, such as a gradient that was masked out
        return None
    else:
        array = library.taken(result)
    if dtype is not None and array.dtype is not dtype and array.dtype != dtype:
        return array.astype(dtype, order="K" if laid_out else "C")
    return array if laid_out or array.flags.c_contiguous else library.row_major(array)


_RUNNERS: dict[str, Callable[[Op, Sequence[Any], Any, ArrayLibrary], list[Any]]] = {
    "view": _run_view,
    "pointwise": _run_pointwise,
    "array": _run_array,
    "random": _run_random,
}
