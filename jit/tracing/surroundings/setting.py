"""Names of attributes that code sets before it can have read them, found in its instructions."""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence
from itertools import pairwise


def set_only(code: types.CodeType) -> set[str]:
    """The names of attributes that code sets before it can have read them, code inside of it apart."""
    steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG", "NOP", "RESUME")]
    found = {step.argval for step in steps if step.opname == "STORE_ATTR"}
    if not found:
        return found
    owners = {} if code.co_exceptiontable else _set_at_first(steps)
    for before, step in pairwise(steps):
        if step.opcode in _NAMING and step.opname != "STORE_ATTR" and step.argval in found:
            owner = owners.get(step.argval)
            if owner is None or not step.opname.startswith("LOAD_") or _local(before) != owner:
                found.discard(step.argval)
    return found


def _set_at_first(steps: Sequence[dis.Instruction]) -> dict[str, str]:
    """Attributes of local variables that code sets, come what may, before it names them otherwise: name, variable."""
    owners: dict[str, str] = {}
    named: set[str] = set()
    for before, step in pairwise(steps):
        if "JUMP" in step.opname or step.opname in ("FOR_ITER", "SEND", "YIELD_VALUE"):
            break
        if step.opcode in _NAMING and step.argval not in named:
            named.add(step.argval)
            if step.opname == "STORE_ATTR" and (owner := _local(before)) is not None:
                owners[step.argval] = owner
    changed = {
        name for step in steps for name in _names_of(step) if step.opname.startswith(("STORE_FAST", "DELETE_FAST"))
    }
    return {name: owner for name, owner in owners.items() if owner not in changed}


def _local(step: dis.Instruction) -> str | None:
    """The local variable that an instruction puts on the stack, last if it puts two."""
    return _names_of(step)[-1] if "LOAD_FAST" in step.opname and _names_of(step) else None


def _names_of(step: dis.Instruction) -> tuple[str, ...]:
    return step.argval if isinstance(step.argval, tuple) else (step.argval,) if isinstance(step.argval, str) else ()


_NAMING = frozenset(dis.hasname)


__all__ = ["set_only"]
