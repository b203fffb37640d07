"""Results of calls, kept and compared: equal but for rounding, which is measured by rounding arguments otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from jit.eager.pytree import flatten, unflatten
from jit.eager.tensors import Tensor, tensor_of
from jit.ir import dtypes
from jit.ir.errors import VerificationError
from jit.runtime.arrays.libraries import HOST, is_writable

TOLERANCES = {dtypes.float16: 1e-2, dtypes.bfloat16: 5e-2, dtypes.float32: 1e-5, dtypes.float64: 1e-10,
              dtypes.complex64: 1e-5, dtypes.complex128: 1e-10}  # fmt: skip
"""Relative to the largest element of a tensor; other dtypes agree exactly."""
NOISE = 8.0
"""The factor by which a traced result may differ more than rounding the arguments otherwise changes it."""


def seen(result: Any, inputs: Any) -> Any:
    """Copies of what a call returned and of what it has left in its arguments, to be compared later."""
    leaves, structure = flatten((result, inputs))
    copies = [tensor_of(t._array.copy()) if isinstance(t, Tensor) and t.defined else t for t in leaves]
    return unflatten(structure, copies)


def compare_results(expected: Any, found: Any, what: str, noisy: Callable[[], Any]) -> None:
    """VerificationError unless two results have the same structure and agree within the tolerances.

    Args:
        expected: What is right.
        found: What is asked about.
        what: What differs, for the message.
        noisy: Gives what `expected` would be with arguments that are rounded otherwise.
    """
    (a_leaves, a_structure), (b_leaves, b_structure) = flatten(expected), flatten(found)
    if a_structure != b_structure:
        raise VerificationError(f"{what}: the structures differ")
    others = functools.cache(lambda: _arrays_of(noisy, len(a_leaves)))
    together = {str(i): leaf._array for i, leaf in enumerate(a_leaves) if leaf.defined}
    for index, (a, b) in enumerate(zip(a_leaves, b_leaves, strict=True)):
        name = f"{what}, output {index}"
        try:
            compare(a._array, b._array, name)
        except VerificationError:
            compare(a._array, b._array, name, 1, noise_floor(a._array, others()[index], together))


def _arrays_of(make: Callable[[], Any], count: int) -> list[Any]:
    """The arrays in a result; None for each where there is none, or not as many as there should be."""
    try:
        leaves = flatten(make())[0]
    except Exception:  # the function does not take what is rounded otherwise, so there is nothing to be learned
        return [None] * count
    return [leaf._array for leaf in leaves] if len(leaves) == count else [None] * count


def shaken_in_place(values: Any) -> None:
    """Round the floating elements of the tensors among `values` up or down."""
    for array in {id(t): t._array for t in flatten(values)[0] if t.defined and is_writable(t._array)}.values():
        array[...] = shaken(array)


def compare(expected: Any, found: Any, what: str, slack: float = 1, floor: float = 0.0) -> None:
    if expected is None or found is None:
        if expected is not found:
            raise VerificationError(
                f"{what} is missing, but it should be there" if found is None else f"{what} is there, but should not"
            )
        return
    if expected.dtype != found.dtype or expected.shape != found.shape:
        raise VerificationError(
            f"{what} is {found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
        )
    limit = slack * TOLERANCES.get(dtypes.from_numpy(expected.dtype), 0.0)
    a, b = expected.astype(_wide(expected)), found.astype(_wide(found))
    largest = _largest(expected)
    with np.errstate(all="ignore"):
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= limit * largest + floor))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise VerificationError(
            f"{what} differs in {int(wrong.sum())} of {wrong.size} elements, first at {list(at)}: "
            f"{b[at]} instead of {a[at]}"
        )


def shaken(array: Any, seed: int = 0) -> Any:
    """An array whose floating elements have been rounded up or down, as the seed says."""
    dtype = dtypes.from_numpy(array.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return array.copy()
    parts = array.real if dtype.is_complex else array
    finest: Any = ml_dtypes.finfo
    step = float(finest(parts.dtype).eps) * np.random.default_rng(seed).choice([-1.0, 1.0], array.shape)
    with np.errstate(all="ignore"):
        return (array * (1 + step)).astype(array.dtype)


def noise_floor(expected: Any, noisy: Any, together: dict[str, Any]) -> float:
    """The distance of elements that is nothing but rounding, such as of a sum that is 0 but for it."""
    if expected is None or noisy is None or noisy.shape != expected.shape or noisy.dtype != expected.dtype:
        return 0.0
    with np.errstate(all="ignore"):
        apart = _largest(noisy.astype(_wide(noisy)) - expected.astype(_wide(expected)))
    others = (a for a in together.values() if a is not None and a.dtype == expected.dtype)
    bound = TOLERANCES.get(dtypes.from_numpy(expected.dtype), 0.0) * max(map(_largest, others), default=0.0)
    return min(NOISE * apart, bound)


def _largest(array: Any) -> float:
    """The largest finite magnitude of the elements."""
    wide = HOST.taken(array).astype(_wide(array))
    return float(np.max(np.abs(wide), where=np.isfinite(wide), initial=0.0))


def _wide(array: Any) -> Any:
    return np.complex128 if array.dtype.kind == "c" else np.float64
