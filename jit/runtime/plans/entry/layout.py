"""The layout of all that native code reads: the header of an entry, and the tables of its inputs and outputs."""

from __future__ import annotations

from functools import cache

from .checks import checks_of
from .records import Record, number, optional, rows, several

ANY = -(2**63)
"""A stride that does not matter, because its dim has one element."""

INPUT = Record(
    number("argument"), "object", "type", number("slot"), rows("marks", number("offset"), "value"), optional("dtype"),
    rows("dims", number("size"), number("stride")), number("flags"), number("mask"), number("low"), number("high"),
    number("base"),
)  # fmt: skip
"""The words of `tables.EntryInput`: `low` and `high` are the bounds of its memory, from where its data begins."""

OUTPUT = Record("arguments", number("base"), number("place"), several("sizes", number("size")), "dtype")
"""An array to make: the arguments of `empty`, the number of its base, and its place among the results."""

_HEADER = (
    number("api"), "none", "true", "array_type",
    # arguments
    number("arguments"), rows("statics", number("argument"), "value"), rows("inputs", *INPUT.columns),
    number("apart"), number("bundle"),
    # what else must hold
    optional("residue"),
    # outputs
    rows("outputs", *OUTPUT.columns), number("returned"), "empty", number("allocate"),
    # the run
    several("bases", number("base")), number("program"), number("operands"), number("cell"), number("arena"),
    number("spare"), number("release"), "failed",
    # results
    number("wrap"), optional("tensor_type"), rows("tensor_slots", number("offset"), "value"),
    number("array_slot"), number("storage_slot"), optional("storage_type"),
    rows("storage_slots", number("offset"), "value"), number("hits"),
)  # fmt: skip
"""`spare` and `hits` are written by native code: memory for the next call, and how many calls came through."""


@cache
def header_of(kind: type) -> Record:
    """The header of an entry that checks the tables of a class; those stand last, so the rest is at the same places."""
    return Record(*_HEADER, *(check.table for check in checks_of(kind)))
