"""Words of which some follow from sizes: one compiled function evaluates all of these for each tuple of sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from jit.ir.errors import ParseError
from jit.ir.sizes import SizeExpr


@dataclass(frozen=True, eq=False)
class SizedWords:
    """A list of numbers, those that are expressions among them to be filled in.

    >>> from jit.ir.sizes import SizeSymbol
    >>> n = SizeSymbol("n").size
    >>> SizedWords.of([7, n, 2 * n, n], ["n"]).at((3,)).tolist()
    [7, 3, 6, 3]
    """

    plain: Any
    """The words, with 0 for what is to be filled in: an array of int64."""
    places: Any
    """The places of these."""
    kinds: Any
    """The number of the expression for each of the places."""
    texts: Sequence[str]
    """The expressions."""
    names: Sequence[str]
    """The names of the symbols in them, in the order in which their values are given."""

    @staticmethod
    def of(words: Sequence[int], names: Sequence[str]) -> SizedWords:
        """The words of a list in which there are sizes."""
        open_ = [(at, word) for at, word in enumerate(words) if type(word) is SizeExpr]
        kinds = {size: number for number, size in enumerate(dict.fromkeys(size for _, size in open_))}
        plain = np.array([0 if type(word) is SizeExpr else word for word in words], np.int64)
        places = np.array([at for at, _ in open_], np.intp)
        return SizedWords(plain, places, np.array([kinds[size] for _, size in open_], np.intp), texts(kinds), names)

    @cached_property
    def _evaluate(self) -> Callable[..., tuple[int, ...]]:
        return compiled_sizes(self.texts, self.names)

    def at(self, sizes: Sequence[int]) -> Any:
        """The words as an array of int64 of its own."""
        words = self.plain.copy()
        if len(self.places):
            words[self.places] = np.array(self._evaluate(*sizes), np.int64)[self.kinds]
        return words


def texts(sizes: Any) -> list[str]:
    """The texts of sizes."""
    return [str(size) for size in sizes]


def names_in(texts: Iterable[str]) -> set[str]:
    """The names in the texts of sizes, those of symbols and of functions.

    >>> sorted(names_in(["2*n+1", "max(n, m)"]))
    ['m', 'max', 'n']
    """
    return {name for text in texts for name in _NAME.findall(text)}


def compiled_sizes(sizes: Sequence[str], names: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """A function of the symbols' values that gives all of some sizes."""
    text = f"lambda {', '.join(names)}: ({''.join(f'{size}, ' for size in sizes)})"
    return cast("Callable[..., tuple[int, ...]]", eval(text))


_ARITHMETIC = re.compile(r"(?>[a-z]\w{0,9}|\d+|//|[-+*%(),]| )+")
_NAME = re.compile(r"[a-z]\w*")


def checked(sizes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Texts from elsewhere that are to be compiled: nothing but arithmetic on these names.

    Raises:
        ParseError: One of them is something else.
    """
    known = {*names, "min", "max"}
    for size in sizes:
        if not _ARITHMETIC.fullmatch(size) or "**" in size or not known.issuperset(names_in([size])):
            raise ParseError(f"{size!r} is no size of {', '.join(names)}")
    return [*sizes]
