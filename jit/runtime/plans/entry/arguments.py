"""The part of an entry's code that looks at the arguments, and finds arrays in them."""

from __future__ import annotations

from ...llvm.words import Word
from .cpython import DATA, DIMS, DTYPE, FLAGS, NDIM, STRIDES, TYPE
from .layout import ANY, INPUT
from .records import Record
from .writer import EntryWriter, TableRow, TableRows


def check_objects(r: EntryWriter) -> None:
    """Compare the number of arguments, and the ones that are not tensors by identity."""
    with r.unless(r.same("%count", r.header["arguments"])):
        r.miss()
    with r.header.each("statics") as row:
        given = r.word("%arguments", row["argument"])
        with r.unless(r.same(given, row["value"])):
            r.miss()


def collect_arrays(r: EntryWriter, arrays: Word, bases: Word) -> None:
    """Find and check the arrays, and note where the data of those that are read lies."""
    rows, source = r.header.rows("inputs"), r.variable()
    with r.loop(r.header["inputs"]) as i:
        row = rows[i]
        argument = row["argument"]
        r.put(source, 0, row["object"])
        with r.unless(r.less(argument, 0)):
            r.put(source, 0, r.word("%arguments", argument))
        array = r.invoke("input", "%header", row.address, r.word(source))
        with r.when(r.same(array, 0)):
            r.miss()
        r.put(arrays, i, array)
        base = row["base"]
        with r.unless(r.less(base, 0)):
            r.put(bases, base, r.word(array, DATA // 8))


def array_in(header: Record) -> str:
    """`input(header, row, object)`: the array in `object` if it is as the row says, else 0."""
    r = EntryWriter(header, "input", ["header", "row", "object"])
    row, array = TableRow(r, "%row", INPUT), r.variable()
    r.put(array, 0, "%object")
    with r.unless(r.same(row["slot"], 0)):
        r.require(r.same(r.word("%object", TYPE // 8), row["type"]))
        with row.each("marks") as mark:
            r.require(r.same(r.word(r.add("%object", mark["offset"])), mark["value"]))
        _check_bare(r, "%object")
        r.put(array, 0, r.word(r.add("%object", row["slot"])))
    found = r.word(array)
    with r.when(r.same(row["dtype"], 0)):
        r.leave(found)
    for here, wanted in (
        (r.word(found, TYPE // 8), r.header["array_type"]),
        (r.word(found, DTYPE // 8), row["dtype"]),
        (r.half_word(r.add(found, NDIM)), row["dims"]),
        (r.both(r.half_word(r.add(found, FLAGS)), row["mask"]), row["flags"]),
    ):
        r.require(r.same(here, wanted))
    _check_dims(r, row, found)
    r.leave(found)
    return r.text()


def _check_dims(r: EntryWriter, row: TableRow, array: Word) -> None:
    sizes, strides, dims = r.word(array, DIMS // 8), r.word(array, STRIDES // 8), row.rows("dims")
    with r.loop(row["dims"]) as i:
        dim = dims[i]
        r.require(r.same(r.word(sizes, i), dim["size"]))
        stride = dim["stride"]
        with r.unless(r.same(stride, ANY)):
            r.require(r.same(r.word(strides, i), stride))


def _check_bare(r: EntryWriter, thing: Word) -> None:
    """An object must have no attributes beside its slots."""
    attributes = r.api("PyObject_GenericGetDict", thing, 0)
    with r.when(r.same(attributes, 0)):
        r.api("PyErr_Clear", returns="void")
        r.leave(0)
    size = r.api("PyDict_Size", attributes)
    r.api("Py_DecRef", attributes, returns="void")
    r.require(r.same(size, 0))


def apart(header: Record) -> str:
    """`apart(header, arrays)`: 1 if the first arrays, those of the arguments, share no memory within their bundles."""
    r = EntryWriter(header, "apart", ["header", "arrays"])
    rows, end = r.header.rows("inputs"), r.variable()
    r.put(end, 0, r.header["bundle"])
    with r.loop(r.header["apart"]) as i:
        with r.when(r.same(i, r.word(end))):
            r.put(end, 0, r.add(i, r.header["bundle"]))
        low, high = _extent(r, rows, i)
        with r.loop(r.word(end), r.add(i, 1)) as j:
            other_low, other_high = _extent(r, rows, j)
            with r.when(r.less(low, other_high)), r.when(r.less(other_low, high)):
                r.leave(0)
    r.leave(1)
    return r.text()


def _extent(r: EntryWriter, rows: TableRows, index: Word) -> tuple[Word, Word]:
    row = rows[index]
    data = r.word(r.word("%arrays", index), DATA // 8)
    return r.add(data, row["low"]), r.add(data, row["high"])
