"""Runs one primitive operator on arrays: the single place where eager mode and the interpreter compute.

Operands are cast before the body runs, by ATen's rules rather than numpy's; 16-bit floats compute in float32 and
round once, at the end of the op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jit.ir import dtypes
from jit.ir.errors import Error
from jit.ir.fitting import fitted
from jit.ir.geometry import Geometry, broadcast_shapes
from jit.ir.op import Op
from jit.ir.random_state import RandomState
from jit.ir.refusals import FOREIGN, refusal

from . import arrays, large, libraries
from .libraries import HOST, ArrayLibrary
from .placing import library_for, placed

_HALVES = (dtypes.float16.numpy, dtypes.bfloat16.numpy)
_SINGLE = dtypes.float32.numpy
_compute_dtypes: dict[Any, Any] = {}
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
        if not libraries.FINDERS:
            return _RUNNERS[op.kind](op, values, state, HOST)
        return _execute_on(library_for(op, values), op, values, state)
    except Error:
        raise
    except FOREIGN as error:
        raise refusal(op, values, error) from error


def _execute_on(library: ArrayLibrary, op: Op, values: Sequence[Any], state: Any) -> list[Any]:
    """Run `op` on a device; the device's errors become errors of this package."""
    with library.current():
        try:
            return _run_on(library, op, values, state)
        except Exception as error:
            libraries.raise_explained(library, error, op.schema.name)
            raise


def _run_on(library: ArrayLibrary, op: Op, values: Sequence[Any], state: Any) -> list[Any]:
    """Run `op` on a device; on the CPU and back again, if its body needs that."""
    if not op.runs_on_host or library is HOST:
        here = placed(op, values, library)
        found = library.computed(op, here)
        return _RUNNERS[op.kind](op, here, state, library) if found is None else found
    for tell in TRANSFERS:
        tell(op)
    results = _RUNNERS[op.kind](op, placed(op, values, HOST), state, HOST)
    return [library.taken(result) if libraries.is_array(result) else result for result in results]


def _run_view(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    source = values[0]
    if op.is_absolute:
        geometries: Any = _absolute(op, values)
    else:
        geometries = op.body(arrays.geometry_of(source), *values[1:])
    dtype = None if op.result is None else op.result_dtype(dtypes.from_numpy(source.dtype)).numpy
    if isinstance(geometries, Geometry):
        return [arrays.window(source, geometries, dtype)]
    return [arrays.window(source, geometry, dtype) for geometry in geometries]


def _absolute(op: Op, values: Sequence[Any]) -> Geometry:
    """as_strided counts its offset from the start of the storage, not from the tensor's first element."""
    source = values[0]
    start = arrays.offset_of(source)
    sizes, strides, offset = op.body(Geometry(*arrays.geometry_of(source)[:2], start), *values[1:])
    geometry = Geometry(sizes, strides, offset - start)
    arrays.check_inside(source, geometry)
    return geometry


def _run_pointwise(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    array = library.array
    final, wide = _dtypes_of(op, values, array)
    is_large = library is HOST and large.is_large(op, values, final.itemsize)
    args = list(values)
    for index in op.promoted:
        value = args[index]
        if op.keeps_numbers and not isinstance(value, array):
            value = fitted(value, wide)
        if value is not None and (not isinstance(value, array) or (value.dtype != wide and not is_large)):
            args[index] = library.taken(value).astype(wide)
            if op.tells_numbers and not isinstance(value, array):
                args[index] = args[index][()]
    token = _warnings.set(_SILENCE)
    try:
        if is_large:
            return [large.pointwise(op, args, final, wide)]
        return [_as_array((op.numpy_body or op.body)(library.math, *args), final, library)]
    except ValueError:
        broadcast_shapes(*(args[i].shape for i in op.tensors if isinstance(args[i], array)))  # says what is wrong
        raise
    finally:
        _warnings.reset(token)


def _dtypes_of(op: Op, values: Sequence[Any], array: Any) -> tuple[Any, Any]:
    """(the dtype of the result, the dtype that the body computes in), cached by what the rule looks at."""
    key: list[Any] = [op.name]
    for index in op.promoted:
        value = values[index]
        key += (value.dtype, value.ndim > 0) if type(value) is array else _signature(value)
    found = _compute_dtypes.get(tuple(key))
    if found is None:
        computed = op.compute_dtype(values)
        wide = _SINGLE if computed.is_half else computed.numpy
        found = _compute_dtypes[tuple(key)] = (op.result_dtype(computed).numpy, wide)
    return found


def _signature(value: Any) -> Any:
    """The facts of an operand that rules of dtypes look at; an operator may refuse negative numbers, see `pow`."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim > 0
    return type(value), type(value) is int and value < 0


def _run_array(op: Op, values: Sequence[Any], state: Any, library: ArrayLibrary) -> list[Any]:
    args, half = _widened(op, values, library)
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


def _widened(op: Op, values: Sequence[Any], library: ArrayLibrary) -> tuple[list[Any], Any]:
    """Arguments promoted as the op asks, 16-bit floats as float32; and the 16-bit dtype that results round to."""
    args = list(values)
    if op.promoted:
        dtype = op.compute_dtype(values).numpy
        for index in op.promoted:
            args[index] = _map(args[index], lambda a: library.taken(a).astype(dtype, copy=False))
    found: list[Any] = []

    def widen(array: Any) -> Any:
        if getattr(array, "dtype", None) not in _HALVES:
            return array
        found.append(array.dtype)
        return array.astype(_SINGLE)

    for index in op.tensors:
        args[index] = _map(args[index], widen)
    explicit = any(isinstance(v, dtypes.DType) for v in values)
    return args, found[0] if found and not explicit else None


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return [None if v is None else function(v) for v in value]
    return function(value)


def _results(result: Any, half: Any, library: ArrayLibrary, laid_out: bool = False) -> list[Any]:
    many = result if isinstance(result, (tuple, list)) else [result]
    return [
        _as_array(r, half if half is not None and library.taken(r).dtype == _SINGLE else None, library, laid_out)
        for r in many
    ]


def _as_array(result: Any, dtype: Any, library: ArrayLibrary, laid_out: bool = False) -> Any:
    """An array of `dtype`, if that is given; row-major, as type rules say, unless the op has `laid_out` its result."""
    if result is None:  # an undefined result, such as a gradient that was masked out
        return None
    array = result if isinstance(result, library.array) else library.taken(result)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype, order="K" if laid_out else "C")
    return array if laid_out or array.flags.c_contiguous else library.row_major(array)


_RUNNERS: dict[str, Callable[[Op, Sequence[Any], Any, ArrayLibrary], list[Any]]] = {
    "view": _run_view,
    "pointwise": _run_pointwise,
    "array": _run_array,
    "random": _run_random,
}
