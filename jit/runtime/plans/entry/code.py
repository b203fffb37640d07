"""The native function behind every entry, as LLVM text: check, run, return."""

from __future__ import annotations

from ...llvm.words import Word
from . import arguments, program, results
from .checks import checks_of
from .cpython import DATA, FIRST_ITEM
from .layout import header_of
from .records import Record
from .writer import EntryWriter


def code_of(kind: type) -> tuple[tuple[str, ...], str]:
    """The routines that an entry calls, and its own: for tables of this kind."""
    header = header_of(kind)
    called = (
        *program.executing(), surroundings(kind), residue(header), arguments.array_in(header), arguments.apart(header),
        results.tensor(header), results.returned(header),
    )  # fmt: skip
    return called, entry(header)


def surroundings(kind: type) -> str:
    """`surroundings(header)`: 1 if everything that the function reads besides its arguments is as it was."""
    r = EntryWriter(header_of(kind), "surroundings", ["header"])
    for check in checks_of(kind):
        with r.header.each(check.table.name) as row:
            check.write(r, row)
    r.leave(1)
    return r.text()


def residue(header: Record) -> str:
    """`residue(header)`: 1 if the Python function that looks at the rest says so."""
    r = EntryWriter(header, "residue", ["header"])
    function = r.header["residue"]
    with r.when(r.same(function, 0)):
        r.leave(1)
    answer = r.api("PyObject_CallNoArgs", function)
    with r.when(r.same(answer, 0)):
        r.api("PyErr_Clear", returns="void")
        r.leave(0)
    r.api("Py_DecRef", answer, returns="void")
    r.require(r.same(answer, r.header["true"]))
    r.leave(1)
    return r.text()


def entry(header: Record) -> str:
    """The function that Python calls, with METH_FASTCALL; `self` is a tuple whose first item is the header's array."""
    r = EntryWriter(header, "kernel", ["self", "arguments", "count"])
    r.find_header(r.word(r.word("%self", FIRST_ITEM // 8), DATA // 8))
    arguments.check_objects(r)
    arrays, bases, outputs = (r.space(r.header[table]) for table in ("inputs", "bases", "outputs"))
    templates = r.header.rows("bases")
    with r.loop(r.header["bases"]) as i:
        r.put(bases, i, templates[i]["base"])
    arguments.collect_arrays(r, arrays, bases)
    for check, operands in (("apart", [arrays]), ("surroundings", [])):
        with r.when(r.same(r.invoke(check, "%header", *operands), 0)):
            r.miss()
    with r.loop(r.header["inputs"]) as i:  # Python may run from here on: hold what is read
        r.api("Py_IncRef", r.word(arrays, i), returns="void")
    with r.when(r.same(r.invoke("residue", "%header"), 0)):
        _release(r, arrays)
        r.miss()
    problem = results.make_outputs(r, bases, outputs)
    status = _run(r, bases, problem)
    _release(r, arrays)
    with r.unless(r.same(status, 0)):
        results.fail(r, outputs, status)
    r.header["hits"] = r.add(r.header["hits"], 1)
    r.leave(r.invoke("results", "%header", outputs))
    return r.text()


def _release(r: EntryWriter, arrays: Word) -> None:
    with r.loop(r.header["inputs"]) as i:
        r.api("Py_DecRef", r.word(arrays, i), returns="void")


def _run(r: EntryWriter, bases: Word, problem: Word) -> Word:
    """Execute the program in an arena of its own; negative if there are no outputs (-1) or no arena (-2)."""
    status, memory, thread = r.variable(), r.variable(), r.variable()
    r.put(status, 0, -1)
    with r.when(r.same(r.word(problem), 0)):
        r.put(status, 0, -2)
        r.put(memory, 0, r.header["spare"])
        r.header["spare"] = 0
        with r.when(r.same(r.word(memory), 0)):
            r.put(memory, 0, r.api("PyMem_RawMalloc", r.add(r.header["arena"], 64)))
        with r.unless(r.same(r.word(memory), 0)):
            r.put(bases, 0, r.both(r.add(r.word(memory), 63), -64))
            release = r.header["release"]
            with r.unless(r.same(release, 0)):
                r.put(thread, 0, r.api("PyEval_SaveThread"))
            words = [r.header["program"], bases, r.header["operands"], r.header["cell"]]
            r.put(status, 0, r.invoke("execute", *words))
            with r.unless(r.same(release, 0)):
                r.api("PyEval_RestoreThread", r.word(thread), returns="void")
            _keep_arena(r, r.word(memory))
    return r.word(status)


def _keep_arena(r: EntryWriter, memory: Word) -> None:
    """Keep the arena for the next call, unless another one has left its own meanwhile."""
    spare = r.header["spare"]
    with r.when(r.same(spare, 0)):
        r.header["spare"] = memory
    with r.unless(r.same(spare, 0)):
        r.api("PyMem_RawFree", memory, returns="void")
