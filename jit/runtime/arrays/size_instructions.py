"""Instructions that compute sizes: from the shapes of inputs, or in later stages from sizes that stage 0 has kept."""

from __future__ import annotations

from typing import NamedTuple

from jit.ir.sizes import SizeExpr, SizeSymbol

from .programs import Instruction, Registers


class SizeFacts(NamedTuple):
    """All that there is to say of such an instruction."""

    result: int
    """The register of the size."""
    size: SizeExpr | None
    """The size; None for the tuple of the values of all symbols."""
    symbols: tuple[SizeSymbol, ...]
    """The symbols, in the order of `places`."""
    places: tuple[tuple[int, int], ...]
    """The register of an input and a dim of it for each symbol; the register of a number, and -1."""


def size_instruction(facts: SizeFacts) -> Instruction:
    """The instruction, which has the `facts` as an attribute."""
    result, places = facts.result, facts.places
    registers = [register for register, _ in places]
    function = None if facts.size is None else facts.size.function(facts.symbols)

    def read_all(r: Registers) -> None:
        r[result] = tuple([r[register].shape[dim] for register, dim in places])

    def read(r: Registers) -> None:
        assert function is not None
        r[result] = function(*[r[register].shape[dim] for register, dim in places])

    def compute(r: Registers) -> None:
        assert function is not None
        r[result] = function(*[r[register] for register in registers])

    is_later = any(dim < 0 for _, dim in places)
    run: Instruction = read_all if function is None else compute if is_later else read
    run.touched = (result, *registers)  # type: ignore[attr-defined]
    run.facts = facts  # type: ignore[attr-defined]
    return run
