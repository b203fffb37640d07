"""Writes the native functions of an entry: routines that read records by name and call CPython."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...llvm.words import Routine, Word
from .cpython import FUNCTIONS
from .records import Record


class EntryWriter(Routine):
    """A routine that knows the header, whose address is its parameter or variable `%header`."""

    def __init__(self, header: Record, name: str, parameters: Sequence[str]) -> None:
        super().__init__(name, parameters)
        self.header = TableRow(self, "%header", header)

    def find_header(self, address: Word) -> None:
        """Define `%header`, in a routine that does not get it."""
        self._write(f"%header = add i64 {address}, 0")

    def api(self, name: str, *arguments: Word | int, returns: str = "i64") -> Word:
        """Call a function of CPython."""
        return self.call(self.word(self.header["api"], FUNCTIONS.index(name)), *arguments, returns=returns)

    def require(self, condition: Word, may_raise: bool = False) -> None:
        """Return 0 unless `condition` holds; without the error that Python has raised, if it may have."""
        with self.unless(condition):
            if may_raise:
                self.api("PyErr_Clear", returns="void")
            self.leave(0)

    def miss(self) -> None:
        """Return None to Python: the call is another one."""
        self.api("Py_IncRef", self.header["none"], returns="void")
        self.leave(self.header["none"])


class TableRow:
    """A record in memory that native code reads: `row[name]` loads a word, each time that it is written."""

    def __init__(self, writer: EntryWriter, address: Word, record: Record) -> None:
        self._writer = writer
        self.address = address
        self._record = record

    def __getitem__(self, name: str) -> Word:
        return self._writer.word(self.address, self._record.places[name])

    def __setitem__(self, name: str, value: Word | int) -> None:
        self._writer.put(self.address, self._record.places[name], value)

    def rows(self, table: str) -> TableRows:
        """The rows of one of its tables."""
        return TableRows(self._writer, self[f"{table}_at"], self._record.tables[table])

    @contextmanager
    def each(self, table: str) -> Iterator[TableRow]:
        """Loop over the rows of one of its tables."""
        rows = self.rows(table)
        with self._writer.loop(self[table]) as i:
            yield rows[i]


class TableRows:
    """Records of one kind, side by side."""

    def __init__(self, writer: EntryWriter, address: Word, record: Record) -> None:
        self._writer = writer
        self._address = address
        self._record = record

    def __getitem__(self, index: Word) -> TableRow:
        offset = self._writer.scale(index, 8 * len(self._record.places))
        return TableRow(self._writer, self._writer.add(self._address, offset), self._record)
