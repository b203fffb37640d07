"""What the further elementary functions should compute, in float64 numpy and Python integers."""

import math
from typing import Any

import numpy as np

from tests.ops.references.basic import whole


def next_single(self: Any, other: Any) -> Any:
    """In the type that it steps through; what has no dims gives way."""
    a, b = np.asarray(self), np.asarray(other)
    return np.nextafter(a.astype(np.float32), b.astype(np.float32))


def shifted(self: Any, other: Any, left: bool) -> Any:
    """On Python's integers: a count that is negative or too large moves everything out."""
    a, b = np.broadcast_arrays(self, other)
    bits = 8 * np.asarray(self).dtype.itemsize

    def one(x: int, count: int) -> int:
        out = not 0 <= count < bits
        if left:
            moved = 0 if out else x << count
            signed = np.asarray(self).dtype.kind == "i"
            return (moved + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) if signed else moved % 2**bits
        return (-1 if x < 0 else 0) if out else x >> count

    return np.array([one(int(x), int(n)) for x, n in zip(a.flat, b.flat, strict=True)]).reshape(a.shape)


def copysign(self: Any, other: Any) -> Any:
    return np.where(np.signbit(other), -np.abs(self), np.abs(self))


def float_power(self: Any, exponent: Any) -> Any:
    return np.asarray(self, np.float64) ** np.asarray(exponent, np.float64)


def larger(ufunc: Any) -> Any:
    return lambda self, other: ufunc(np.asarray(self), np.asarray(other))


REFERENCES: dict[str, Any] = {
    "aten::copysign": copysign,
    "aten::signbit": lambda self: np.signbit(self) if self.dtype.kind == "f" else self < 0,
    "aten::positive": np.array,
    "aten::nextafter": next_single,
    "aten::fmax": larger(np.fmax),
    "aten::fmin": larger(np.fmin),
    "aten::isposinf": lambda self: self == math.inf,
    "aten::isneginf": lambda self: self == -math.inf,
    "aten::isreal": lambda self: np.ones(self.shape, bool),
    "aten::hypot": np.vectorize(math.hypot, otypes=[float]),
    "aten::logaddexp2": larger(np.logaddexp2),
    "aten::float_power": float_power,
    "aten::ldexp": lambda self, other: np.asarray(self) * np.exp2(other),
    "aten::deg2rad": np.deg2rad,
    "aten::rad2deg": np.rad2deg,
    "aten::gcd": whole(math.gcd),
    "aten::lcm": whole(math.lcm),
    "aten::bitwise_left_shift": lambda self, other: shifted(self, other, True),
    "aten::bitwise_right_shift": lambda self, other: shifted(self, other, False),
    "aten::frexp.Tensor": lambda self: (np.frexp(self)[0], np.where(np.isfinite(self), np.frexp(self)[1], 0)),
}
