"""Windows that move over an image: the number of places, the entries met there, and the divisors of means."""

from __future__ import annotations

from typing import Any, NamedTuple

from .errors import ShapeError, UsageError


class PoolGeometry(NamedTuple):
    """A window that moves over an image; lists have an entry for each spatial dim."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil: bool

    @property
    def reach(self) -> list[int]:
        """The number of entries that the window spans."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation)]

    def places(self, sizes: Any) -> list[int]:
        """The number of places of the window in each dim; with `ceil`, the last may reach beyond the image."""
        found = []
        for n, p, reach, s in zip(sizes, self.padding, self.reach, self.stride):
            room = n + 2 * p - reach
            count = (-(-room // s) if self.ceil else room // s) + 1
            found.append(count - 1 if self.ceil and (count - 1) * s >= n + p else count)
        if any(size < 1 for size in found):
            raise ShapeError(f"pooling: a window of {list(self.kernel)} does not fit the sizes {list(sizes)}")
        return found

    def padded(self, m: Any, x: Any, value: Any) -> Any:
        """`x` with `value` around it, wide enough for windows that hang over the end."""
        sizes = x.shape[x.ndim - len(self.kernel) :]
        spans = zip(sizes, self.places(sizes), self.stride, self.reach, self.padding)
        wide = [max((count - 1) * s + reach, n + p) for n, count, s, reach, p in spans]
        if tuple(wide) == sizes:
            return x
        out = m.full((*x.shape[: x.ndim - len(sizes)], *wide), value, x.dtype)
        out[(..., *(slice(p, p + n) for p, n in zip(self.padding, sizes)))] = x
        return out

    def taps(self, places: Any) -> Any:
        """Each entry of the window: its offsets, and the slices of a padded image that it meets."""
        offsets: list[tuple[int, ...]] = [()]
        for k, d in zip(self.kernel, self.dilation):
            offsets = [(*o, i * d) for o in offsets for i in range(k)]
        for offset in offsets:
            steps = zip(offset, places, self.stride)
            yield offset, (..., *(slice(o, o + (n - 1) * s + 1, s) for o, n, s in steps))


def divisors(m: Any, sizes: Any, pool: PoolGeometry, include_pad: bool, override: int | None, dtype: Any) -> Any:
    """The number by which the sum of each window is divided."""
    if override is not None:
        if override == 0:
            raise UsageError("avg_pool: divisor_override must not be zero")
        return m.asarray(override, dtype)
    total = m.ones((1,) * len(sizes), dtype)
    for dim, (n, count, k, s, p) in enumerate(zip(sizes, pool.places(sizes), pool.kernel, pool.stride, pool.padding)):
        first = m.arange(count) * s - p
        last = m.minimum(first + k, n + p)
        lengths = last - first if include_pad else m.minimum(last, n) - m.maximum(first, 0)
        total = total * lengths.astype(dtype).reshape([-1 if d == dim else 1 for d in range(len(sizes))])
    return total
