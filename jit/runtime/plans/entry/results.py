"""The part of an entry's code that makes the outputs, and what Python gets for them."""

from __future__ import annotations

from ...llvm.words import Word
from .cpython import DATA
from .records import Record
from .writer import EntryWriter


def make_outputs(r: EntryWriter, bases: Word, outputs: Word) -> Word:
    """New arrays, in the order in which they are returned; the address of a word that says if that failed."""
    problem = r.variable()
    r.put(problem, 0, 0)
    with r.loop(r.header["outputs"]) as i:
        r.put(outputs, i, 0)
    allocate, made = r.header["allocate"], r.variable()
    with r.header.each("outputs") as row, r.when(r.same(r.word(problem), 0)):
        with r.when(r.same(allocate, 0)):
            r.put(made, 0, r.api("PyObject_Call", r.header["empty"], row["arguments"], 0))
        with r.unless(r.same(allocate, 0)):
            dtype = row["dtype"]
            r.api("Py_IncRef", dtype, returns="void")  # `allocate` takes over one reference
            r.put(made, 0, r.call(allocate, row["sizes"], row["sizes_at"], dtype, 0))
        array = r.word(made)
        r.put(outputs, row["place"], array)
        with r.when(r.same(array, 0)):
            r.put(problem, 0, 1)
        with r.unless(r.same(array, 0)):
            r.put(bases, row["base"], r.word(array, DATA // 8))
    return problem


def fail(r: EntryWriter, outputs: Word, status: Word) -> None:
    """Let go of the outputs, and raise: by a Python function that takes the status."""
    with r.loop(r.header["outputs"]) as i:
        array = r.word(outputs, i)
        with r.unless(r.same(array, 0)):
            r.api("Py_DecRef", array, returns="void")
    with r.when(r.same(status, -1)):
        r.leave(0)  # numpy has raised already
    number = r.api("PyLong_FromLongLong", status)
    answer = r.api("PyObject_CallOneArg", r.header["failed"], number)
    r.api("Py_DecRef", number, returns="void")
    r.leave(answer)


def returned(header: Record) -> str:
    """`results(header, outputs)`: what Python gets for the output arrays, whose references it takes."""
    r = EntryWriter(header, "results", ["header", "outputs"])
    wrap, count = r.header["wrap"], r.header["returned"]
    with r.loop(r.header["outputs"], count) as i:
        r.api("Py_DecRef", r.word("%outputs", i), returns="void")
    with r.when(r.same(wrap, 1)):
        r.leave(r.invoke("tensor", "%header", r.word("%outputs")))
    made = r.api("PyTuple_New", count)
    with r.when(r.same(made, 0)):
        r.leave(0)
    item = r.variable()
    with r.loop(count) as i:
        r.put(item, 0, r.word("%outputs", i))
        with r.when(r.same(wrap, 2)):
            r.put(item, 0, r.invoke("tensor", "%header", r.word(item)))
            with r.when(r.same(r.word(item), 0)):
                r.leave(0)
        r.api("PyTuple_SetItem", made, i, r.word(item), returns="i32")
    r.leave(made)
    return r.text()


def tensor(header: Record) -> str:
    """`tensor(header, array)`: a new Tensor that owns the reference to `array`, or 0."""
    r = EntryWriter(header, "tensor", ["header", "array"])

    def filled(kind: str) -> Word:
        made = r.api("PyType_GenericAlloc", r.header[f"{kind}_type"], 0)
        with r.when(r.same(made, 0)):
            r.leave(0)
        with r.header.each(f"{kind}_slots") as slot:
            r.api("Py_IncRef", slot["value"], returns="void")
            r.put(r.add(made, slot["offset"]), 0, slot["value"])
        return made

    storage = filled("storage")
    made = filled("tensor")
    r.put(r.add(made, r.header["storage_slot"]), 0, storage)
    r.put(r.add(made, r.header["array_slot"]), 0, "%array")
    r.leave(made)
    return r.text()
