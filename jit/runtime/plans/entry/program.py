"""The native function that runs the steps of a plan.

Note [A program]
    i64 words. Per step: the kernel's address, that of a table of geometries, the number of operands, the number of
    parts (with `pool.WAKES`, if sleeping threads are to be woken for it), the bytes of scratch memory per part (its
    last operand), and a pair (base, byte offset) per operand; a zero ends it. Geometry 0 is that of the whole step, the
    others those of the parts, if there is more than one. Bases are addresses: the arena, inputs, outputs, constants. A
    step that returns an error ends the run with `step * 256 + error`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...llvm.words import Routine, Word
from .. import pool
from .records import address_of

STEP = 5
"""Words of a step before its operands."""


def execute() -> str:
    """`execute(program, bases, most, cell)`: run the steps; 0 or the error. `most` operands has no step more than."""
    r = Routine("execute", ["program", "bases", "most", "cell"])
    operands = r.space("%most")
    at, step, status = r.variable(), r.variable(), r.variable()
    r.put(at, 0, "%program")
    r.put(step, 0, 0)
    with r.loop(2**62):
        here = r.word(at)
        kernel, count = r.word(here), r.word(here, 2)
        with r.when(r.same(kernel, 0)):
            r.leave(0)
        pairs = r.add(here, 8 * STEP)
        with r.loop(count) as i:
            pair = r.add(pairs, r.scale(i, 16))
            r.put(operands, i, r.add(r.word("%bases", r.word(pair)), r.word(pair, 1)))
        r.put(status, 0, -1)
        with r.when(r.less("1", r.word(here, 3))):
            _share(r, here, operands, status)
        with r.when(r.same(r.word(status), -1)):
            r.put(status, 0, r.call(kernel, operands, r.word(r.word(here, 1)), returns="i32"))
        with r.unless(r.same(r.word(status), 0)):
            r.leave(r.add(r.scale(r.word(step), 256), r.word(status)))
        r.put(at, 0, r.add(pairs, r.scale(count, 16)))
        r.put(step, 0, r.add(r.word(step), 1))
    r.leave(0)
    return r.text()


def _share(r: Routine, step: Word, operands: Word, status: Word) -> None:
    """Let the pool do a step that has parts; it is started if there is none yet."""
    with r.when(r.same(r.word("%cell"), 0)):
        r.call(r.word("%cell", 1), returns="void")
    with r.unless(r.same(r.word("%cell"), 0)):
        r.put(status, 0, r.invoke("share", r.word("%cell"), step, operands))


def executing() -> tuple[str, ...]:
    """The routines `share` and `execute`, for a module that calls the latter."""
    return *pool.share(), execute()


@cache
def executor() -> Any:
    """`execute(program, bases, most)` for ctypes, which releases the GIL; for where entries are not available."""
    from ...kernels.codegen import compile_routine  # when a first call is compiled, not when jit is imported

    address = compile_routine("execute", lambda: (pool.share(), execute().replace("@execute(", "@kernel(")))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(address)
    return lambda program, bases, most: function(program, bases, most, address_of(pool.cell))
