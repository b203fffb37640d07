"""The math namespace over CuPy's arrays: by other means what CuPy lacks, refuses, or answers otherwise than numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays.array_math import ArrayMath

SUMMED = "iIlLqQefd"
"""The codes of the dtypes in which a GPU adds to one place from many threads."""


class CudaMath(ArrayMath):
    """The namespace over CuPy, or what stands for it.

    Note [Runs on a GPU]
        CuPy has no `multiply.at`, its `maximum.at` drops NaN and rounds float64 to float32, and its `add.reduceat`
        takes differences of running sums, which infinities spoil. So what goes to one place is brought together by a
        sort, and the elements of a run are combined in pairs, all runs at a time: in the same order every time, and in
        as many steps as the length of the longest run has binary digits.
    """

    def __init__(self, library: Any, special: Any, lapack: Any, philox: Any) -> None:
        super().__init__(library, CudaSpecial(library, special), lapack, philox)

    def subtract(self, a: Any, b: Any, out: Any = None, order: str = "C") -> Any:
        """a - b; new arrays of CuPy's are row-major, and there is no other order to ask for."""
        return self.library.subtract(a, b, out=out)

    def multiply(self, a: Any, b: Any, out: Any = None, order: str = "C") -> Any:
        """a * b, likewise."""
        return self.library.multiply(a, b, out=out)

    def running(self, name: str, x: Any, axis: int) -> Any:
        """The running results of a ufunc along a dim, in steps that double what each of them is made of."""
        combine = getattr(self.library, name)
        if name in ("add", "multiply"):
            return combine.accumulate(x, axis=axis)
        out = x.copy()
        rows, step = self.library.moveaxis(out, axis, 0), 1
        while step < len(rows):
            rows[step:] = combine(rows[:-step], rows[step:])
            step *= 2
        return out

    def sums_of_runs(self, x: Any, starts: Any, axis: int, dtype: Any) -> Any:
        """The sums of the runs along a dim that begin at `starts`, none of them empty: see Note [Runs on a GPU]."""
        rows = self.library.moveaxis(x.astype(dtype), axis, 0)
        return self.library.moveaxis(self._folded(self.library.add, rows, starts), 0, axis)

    def combine_at(self, name: str, flat: Any, places: Any, values: Any) -> None:
        """`flat[place] = ufunc(flat[place], value)` one after the other: see Note [Runs on a GPU]."""
        combine = getattr(self.library, name)
        if name == "add" and flat.dtype.char in SUMMED:
            combine.at(flat, places, values)
        elif places.size:
            order = self.library.argsort(places, kind="stable")
            places = places[order]
            starts = self.starts_of_runs(places)
            values = self.library.broadcast_to(self.library.asarray(values, flat.dtype), order.shape)[order]
            met = places[starts]
            flat[met] = combine(flat[met], self._folded(combine, values, starts))

    def _folded(self, combine: Callable[..., Any], rows: Any, starts: Any) -> Any:
        """The rows of each run combined to one; `rows` is used up."""
        library = self.library
        counts = library.append(starts[1:], len(rows)) - starts
        place = library.arange(len(rows)) - library.repeat(starts, counts)
        while len(rows) > len(starts):
            odd = library.flatnonzero(place % 2)
            rows[odd - 1] = combine(rows[odd - 1], rows[odd])
            even = library.flatnonzero(place % 2 == 0)
            rows, place = rows[even], place[even] // 2
        return rows

    def matrix_exp(self, matrices: Any) -> Any:
        """The exponentials of square matrices, one by one: CuPy takes a single one."""
        if matrices.ndim == 2:
            return self.lapack.expm(matrices)
        each = matrices.reshape(-1, *matrices.shape[-2:])
        return self.library.stack([self.lapack.expm(matrix) for matrix in each]).reshape(matrices.shape)

    def floor_divide(self, a: Any, b: Any) -> Any:
        """a / b rounded down, as Python's `//`, with numpy's answers to infinities, where CuPy rounds the quotient."""
        if not self._are_floats(a, b):
            return super().floor_divide(a, b)
        library = self.library
        rest, turned = self._rest(a, b)
        exact = (a - rest) / b - turned
        whole = library.floor(exact)
        whole += exact - whole > 0.5
        return library.where(b == 0, a / b, library.where(exact == 0, library.copysign(exact * 0, a / b), whole))

    def remainder(self, a: Any, b: Any) -> Any:
        """a - b * floor(a / b), with the sign of b, as Python's `%`, likewise."""
        if not self._are_floats(a, b):
            return super().remainder(a, b)
        library = self.library
        rest, turned = self._rest(a, b)
        return library.where(turned, rest + b, library.where(rest == 0, library.copysign(rest, b), rest))

    def _rest(self, a: Any, b: Any) -> tuple[Any, Any]:
        """(the remainder with the sign of a, whether that of b is another one)."""
        rest = self.library.fmod(a, b)
        return rest, (rest != 0) & ((rest < 0) != (b < 0))

    def _are_floats(self, a: Any, b: Any) -> bool:
        return bool(self.library.result_type(a, b).kind == "f")


class CudaSpecial:
    """The functions of `cupyx.scipy.special`, one of them mended.

    Args:
        library: CuPy.
        special: Its special functions.
    """

    def __init__(self, library: Any, special: Any) -> None:
        self._library, self._special = library, special

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._special, name)
        setattr(self, name, found)
        return found

    def erfcx(self, x: Any) -> Any:
        """exp(x ** 2) * erfc(x), infinite for large negative numbers, where CuPy's is NaN."""
        found = self._special.erfcx(x)
        return self._library.where((found != found) & (x < 0), self._library.inf, found)
