"""Entries for many sizes: the words of their tables that follow from sizes are written anew when others come.

Note [An entry for many sizes]
    An entry compares arrays with the shapes in its tables, makes outputs of the shapes in its tables, and runs the
    program of its tables. All of these are words in memory, so an entry is for other sizes as soon as these are:

        inputs     dims [(n, 64), (64, 1)]  high 256*n        n = 3:  3 ... 768      n = 5:  5 ... 1280
        outputs    sizes [n, 10]                                      3, 10                  5, 10
        program    its address, the bytes of the arena

    No call may be under way meanwhile, so whoever resizes an entry lets one call through at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import blocks
from ..sized_words import compiled_sizes
from .cpython import array_allocator
from .layout import INPUT, OUTPUT, header_of
from .records import address_of
from .tables import Tables

Shape = Sequence[Any]
"""Sizes or strides, expressions or texts of such among them."""


@dataclass(frozen=True)
class OpenShapes:
    """The shapes of an entry in which sizes are expressions."""

    inputs: Mapping[int, tuple[Shape, Shape, int]]
    """Sizes, strides in bytes, none of them negative, and the bytes of an element, by the numbers of inputs."""
    outputs: Sequence[tuple[Shape, Any]]
    """The sizes and the dtype of each output."""
    names: Sequence[str]
    """The names of the symbols, in the order in which their values are given."""


class Resizer:
    """Lets an entry be for other sizes.

    Args:
        entry: As `make_entry` returns it.
        shapes: What follows from sizes.
    """

    def __init__(self, entry: Callable[..., Any], shapes: OpenShapes) -> None:
        self._header, self._spare, memory, _ = entry.__self__  # type: ignore[attr-defined]
        self._words = _Words(memory.kept)
        self._outputs = self._words.rows(self._header, "outputs", header_of(Tables).places, OUTPUT.places)
        inputs = self._words.rows(self._header, "inputs", header_of(Tables).places, INPUT.places)
        found = [item for number, layout in shapes.inputs.items() for item in self._of_input(inputs[number], *layout)]
        found += [
            item for row, (sizes, _) in zip(self._outputs, shapes.outputs) for item in self._of_output(row, sizes)
        ]
        arrays = {id(words): words for words, _, _ in found}
        self._places = [
            (words, np.array([at for where, at, _ in found if where is words], np.intp)) for words in arrays.values()
        ]
        numbers = [size for words in arrays.values() for where, _, size in found if where is words]
        self._count = len(numbers)
        made = [size for sizes, _ in shapes.outputs for size in sizes]
        self._evaluate = compiled_sizes([*map(str, (*numbers, *made))], shapes.names)
        self._made = [(len(sizes), dtype) for sizes, dtype in shapes.outputs]
        self._kept: Any = ()

    def resize(self, sizes: Sequence[int], program: Any, arena: int, release: bool) -> None:
        """Let the entry be for these values of the symbols, and run this program in an arena of as many bytes."""
        numbers = self._evaluate(*sizes)
        words, start = np.array(numbers[: self._count], np.int64), 0
        for array, places in self._places:
            array[places] = words[start : (start := start + len(places))]
        header, at = self._header, header_of(Tables).places
        self._kept = program, self._let_make(header, at, [*self._shapes(numbers[self._count :])])
        if arena > header[at["arena"]]:
            self._spare.free()
            header[at["arena"]] = arena
        header[at["program"]], header[at["release"]] = address_of(program), release

    def _let_make(self, header: Any, at: Mapping[str, int], outputs: Sequence[tuple[tuple[int, ...], Any]]) -> Any:
        """Choose what makes outputs: for large ones a function that hands memory on; the arguments that it gets."""
        is_large = any(math.prod(shape) * dtype.itemsize >= blocks.LARGE for shape, dtype in outputs)
        header[at["allocate"]] = 0 if is_large else array_allocator()
        if not is_large and array_allocator():
            return ()
        header[at["empty"]] = id(blocks.empty if is_large else np.empty)
        for (words, row), arguments in zip(self._outputs, outputs, strict=True):
            words[row + OUTPUT.places["arguments"]] = id(arguments)
        return outputs

    def _shapes(self, sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Any]]:
        start = 0
        for rank, dtype in self._made:
            yield tuple(sizes[start : (start := start + rank)]), dtype

    def _of_input(self, row: tuple[Any, int], sizes: Shape, strides: Shape, itemsize: int) -> Iterator[Any]:
        """The words of an input, their places, and what stands there; strides of dims of one element do not matter."""
        words, first = row
        dims = [*zip(sizes, strides, strict=True)]
        yield words, first + INPUT.places["high"], " + ".join([*(f"({n} - 1)*({s})" for n, s in dims), str(itemsize)])
        table, at = self._words.table(words, first + INPUT.places["dims_at"])
        for place, (size, stride) in enumerate(dims):
            if type(size) is not int or size != 1:
                yield table, at + 2 * place, size
                yield table, at + 2 * place + 1, stride

    def _of_output(self, row: tuple[Any, int], sizes: Shape) -> Iterator[Any]:
        words, first = row
        if sizes:
            table, at = self._words.table(words, first + OUTPUT.places["sizes_at"])
            yield from ((table, at + place, size) for place, size in enumerate(sizes))


class _Words:
    """The arrays in which the tables of an entry lie."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self._arrays = [(address_of(each), each) for each in kept if isinstance(each, np.ndarray)]

    def table(self, record: Any, at: int) -> tuple[Any, int]:
        """The array in which a table lies that a word points to, and the place of its first word."""
        address = int(record[at])
        start, words = next(each for each in self._arrays if each[0] <= address < each[0] + each[1].nbytes)
        return words, (address - start) // 8

    def rows(self, header: Any, name: str, places: Mapping[str, int], row: Mapping[str, int]) -> list[tuple[Any, int]]:
        """The arrays and places of the rows of a table of the header."""
        count = int(header[places[name]])
        if not count:
            return []
        words, first = self.table(header, places[f"{name}_at"])
        return [(words, first + number * len(row)) for number in range(count)]
