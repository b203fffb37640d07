"""How far rounding can move a result: computations in float64 in which every operation's result is moved a little."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

STEPS = 2.0
"""The most eps by which a result is moved: a function that is right to 2 ulp is within 2 eps of the true value."""


class ToNearest:
    """In place of a generator: results are rounded to float32, so that numbers which are equal there are equal."""


Mover = np.random.Generator | ToNearest


def nudged(array: Any, rng: Mover, eps: float) -> Any:
    """Floats moved by up to STEPS * eps of themselves, at random, or rounded; anything else as it is."""
    if not isinstance(array, (np.ndarray, np.floating)) or array.dtype.kind != "f":
        return array
    if isinstance(rng, ToNearest):
        return array.astype(np.float32).astype(np.float64) if eps > 1e-10 else array
    return array * (1 + rng.uniform(-STEPS, STEPS, array.shape) * eps)


class Shaky(np.ndarray):
    """A float64 array; each result of a ufunc on it is nudged, so that the rounding of each operation shows."""

    rng: Mover
    eps: float

    @staticmethod
    def of(array: Array, rng: Mover, eps: float) -> Shaky:
        """A view of an array that starts the shaking."""
        found = np.asarray(array).view(Shaky)
        found.rng, found.eps = rng, eps
        return found

    def __array_finalize__(self, base: Any) -> None:
        self.rng, self.eps = getattr(base, "rng", None), getattr(base, "eps", 0.0)  # type: ignore[assignment]

    def _wrap(self, result: Any) -> Any:
        return (
            Shaky.of(np.asarray(result), self.rng, self.eps)
            if isinstance(result, (np.ndarray, np.floating))
            else result
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, Shaky) else x for x in inputs]
        result = getattr(ufunc, method)(*plain, **keywords)
        if ufunc in _MOVING:
            return self._wrap(result)
        return self._wrap(nudged(result, self.rng, self.eps))

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return self._wrap(super().__array_function__(function, types, args, keywords))


_MOVING = {np.negative, np.absolute, np.fabs, np.maximum, np.minimum, np.fmax, np.fmin, np.copysign, np.positive,
           np.sign, np.floor, np.ceil, np.trunc, np.rint}  # fmt: skip
"""Functions that do not round."""
