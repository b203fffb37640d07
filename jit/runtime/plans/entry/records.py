"""Records: words in memory that have names. Both sides of an entry follow from their columns.

Python writes a record by its columns (`Record.words`), native code finds a word by its name (`Record.places`).

    rows("orders", "dict", several("keys", thing("key")))      orders  orders_at
                                                                  2        .
                                                                           v   dict  keys  keys_at
                                                                                .     3       .  ->  key key key
                                                                                .     1       .  ->  key
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np


class RecordMemory:
    """Tables in memory, and the objects that they refer to."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def addresses(self, things: Sequence[Any]) -> list[int]:
        """The addresses of objects, which live on with the tables."""
        self.kept.append(things)
        return list(map(id, things))

    def table(self, words: Sequence[int]) -> int:
        """The address of words."""
        if not words:
            return _NOWHERE
        held = np.array(words, np.int64)
        self.kept.append(held)
        return address_of(held)


def address_of(array: Any) -> int:
    """The address of an array's data."""
    return int(array.__array_interface__["data"][0])


_NO_WORDS = np.zeros(1, np.int64)
_NOWHERE = address_of(_NO_WORDS)
"""The memory of tables without rows."""


@dataclass(frozen=True)
class Column:
    """A value that every record of a kind has."""

    names: tuple[str, ...]
    """The words that it takes."""
    encode: Callable[[Sequence[Any], RecordMemory], Sequence[Sequence[int]]]
    """The words of many records' values: for each word a sequence as long as that of the values."""
    inner: Record | None = None
    """A row of it, if it is a table."""

    @property
    def name(self) -> str:
        """The name of the column is that of its first word."""
        return self.names[0]


def number(name: str) -> Column:
    """A column of whole numbers."""
    return Column((name,), lambda values, memory: (values,))


def thing(name: str) -> Column:
    """A column of Python objects, by address."""
    return Column((name,), lambda values, memory: (memory.addresses(values),))


def optional(name: str, absent: Any = None) -> Column:
    """A column of Python objects some of which may be `absent`, which is 0."""

    def encode(values: Sequence[Any], memory: RecordMemory) -> Sequence[Sequence[int]]:
        pairs = zip(values, memory.addresses(values))
        return ([0 if value is absent else address for value, address in pairs],)

    return Column((name,), encode)


def rows(name: str, *columns: Column | str) -> Column:
    """A column of tables: how many rows, and under `<name>_at` their address."""
    row = Record(*columns)
    return Column((name, f"{name}_at"), lambda values, memory: _tables(values, row, memory), row)


def several(name: str, column: Column) -> Column:
    """A column of tables like those of `rows`, of one column whose values are given bare."""
    row = Record(column)
    return Column(
        (name, f"{name}_at"),
        lambda values, memory: _tables([[(v,) for v in table] for table in values], row, memory),
        row,
    )


def _tables(tables: Sequence[Sequence[Sequence[Any]]], row: Record, memory: RecordMemory) -> Sequence[Sequence[int]]:
    """Sizes and addresses of tables, which lie side by side."""
    sizes = list(map(len, tables))
    first = memory.table(row.words([record for table in tables for record in table], memory))
    return sizes, [first + 8 * len(row.places) * before for before in accumulate(sizes[:-1], initial=0)]


class Record:
    """A sequence of columns; a bare string is a column of objects.

    >>> row = Record(number("low"), rows("steps", number("size"), number("stride")), number("high"))
    >>> row.places
    {'low': 0, 'steps': 1, 'steps_at': 2, 'high': 3}
    >>> low, steps, _, high = row.words([(-8, [(2, 4), (3, 8)], 24)], RecordMemory())
    >>> low, steps, high
    (-8, 2, 24)
    """

    def __init__(self, *columns: Column | str) -> None:
        self.columns = tuple(thing(column) if isinstance(column, str) else column for column in columns)
        self._names = [column.name for column in self.columns]
        words = [name for column in self.columns for name in column.names]
        self.places = {name: place for place, name in enumerate(words)}
        """The index of every word."""
        self.tables = {column.name: column.inner for column in self.columns if column.inner is not None}
        """The record of a row, for each column that is a table."""
        if len(self.places) != len(words):
            raise ValueError(f"two words of a record have the same name: {words}")

    def words(self, records: Sequence[Sequence[Any]], memory: RecordMemory) -> list[int]:
        """The words of records side by side, each of which is given by a value per column."""
        if not records:
            return []
        values = zip(self.columns, zip(*records, strict=True), strict=True)
        found = [words for column, given in values for words in column.encode(given, memory)]
        return [word for record in zip(*found, strict=True) for word in record]

    def ordered(self, values: Mapping[str, Any]) -> list[Any]:
        """The values of columns that are given by name, in the order of the columns."""
        return [values[name] for name in self._names]
