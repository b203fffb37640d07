"""The native side of a call: from Python objects to kernels and back, without a line of Python in between.

One function, compiled once per process, serves every plan; what it checks, runs and returns is read from tables of
words that belong to the plan. An entry is a Python callable around such tables. It returns None, having done nothing,
if anything differs from what the tables say; the caller then goes the long way round.

    entry(a, b)  ->  arguments as recorded?  surroundings as recorded?  arrays of the planned layout, not overlapping?
                     outputs made, GIL released, the steps of the program run, GIL taken, outputs wrapped

`checks` lists the comparisons, `tables` describes a plan, and `layout` says how that lies in memory, as `records`.
`code` is the function that reads it, written by `writer` from `arguments`, `program` (which runs the steps) and
`results`; `cpython` is all that depends on CPython, and `making` and `availability` make entries and try them out.
"""

from .availability import available
from .checks import MISSING
from .cpython import slot_offset
from .making import hits_of, make_entry, uncount
from .program import STEP, executing, executor
from .resizing import OpenShapes, Resizer
from .tables import EntryInput, Tables, Wrapping

__all__ = [
    "MISSING", "STEP", "EntryInput", "OpenShapes", "Resizer", "Tables", "Wrapping", "available", "executing",
    "executor", "hits_of", "make_entry", "slot_offset", "uncount",
]  # fmt: skip
