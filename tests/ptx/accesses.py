"""Loads, stores and atomic operations: the instructions that touch memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .arithmetic import Array
from .findings import Finding, ReadOnly, UnknownInstruction
from .instructions import DTYPES
from .memory import PRIVATE, WINDOWS, Piece, check_alignment, private_piece
from .parser import WIDTHS, Instruction, Operand, Vector
from .traffic import ATOMIC, READ, UNCHANGING, WRITE

if TYPE_CHECKING:
    from .machine import Run
    from .program import Act, Program

STRONG = ("relaxed", "acquire", "release", "volatile", "mmio")
"""Accesses that may meet others of their kind without being a conflict."""


# -- finding the bytes ---------------------------------------------------------------------------------------------


def pieces(run: Run, lanes: Array, space: str, addresses: Array, width: int) -> Iterator[Piece]:
    """The storages that the lanes of an access go to."""
    if space in ("global", "const"):
        yield from run.launch.memory.pieces(addresses, width)
    elif space == "shared":
        yield private_piece(run.launch.shared, run.own(run.threads.blocks, lanes), addresses, width)
    elif space == "local":
        yield private_piece(run.local, lanes, addresses, width)
    elif space == "param":
        yield _parameter(run, lanes, addresses, width)
    else:
        yield from _generic(run, lanes, addresses, width)


def _parameter(run: Run, lanes: Array, addresses: Array, width: int) -> Piece:
    """The parameters of an entry, which all threads share, or those of a call, which are a thread's own."""
    if not run.program.function.is_entry:
        return private_piece(run.private, lanes, addresses, width)
    if (addresses >= PRIVATE).all():
        return private_piece(run.private, lanes, addresses - addresses.dtype.type(PRIVATE), width)
    return private_piece(run.launch.parameters, np.zeros_like(lanes), addresses, width)


def _generic(run: Run, lanes: Array, addresses: Array, width: int) -> Iterator[Piece]:
    """Generic addresses say by their size which space they are of."""
    bounds = sorted((start, space) for space, start in WINDOWS.items() if space != "const")
    found = np.searchsorted([start for start, _ in bounds], addresses, side="right") - 1
    for number in np.unique(found).tolist():
        start, space = bounds[number]
        chosen = np.flatnonzero(found == number)
        for piece in pieces(run, lanes[chosen], space, addresses[chosen] - np.uint64(start), width):
            yield piece._replace(lanes=chosen if piece.lanes is None else chosen[piece.lanes])


Touch = Callable[[Piece, Array], None]


def touch(run: Run, lanes: Array, space: str, addresses: Array, width: int, kind: str, action: Touch) -> None:
    """Do something to each piece of an access, which is noted, with the positions of its lanes."""
    everyone = None
    for piece in pieces(run, lanes, space, addresses, width):
        if piece.lanes is None and everyone is None:
            everyone = np.arange(len(lanes))
        chosen = everyone if piece.lanes is None else piece.lanes
        try:
            run.launch.note(kind, piece, width, run.stamps(lanes if piece.lanes is None else lanes[piece.lanes]))
            action(piece, chosen)  # type: ignore[arg-type]
        except Finding as finding:
            position = int(chosen[finding.lane or 0])  # type: ignore[index]
            finding.lane, finding.address = position, int(addresses[position])
            raise


def load(run: Run, lanes: Array, space: str, addresses: Array, width: int, kind: str = READ) -> Array:
    """The words at addresses."""
    found = np.empty(len(lanes), f"u{width}")

    def action(piece: Piece, chosen: Array) -> None:
        found[chosen] = piece.storage.load(piece.places, width)

    touch(run, lanes, space, addresses, width, kind, action)
    return found


def store(run: Run, lanes: Array, space: str, addresses: Array, words: Array, kind: str = WRITE) -> None:
    """Write words to addresses."""
    if space == "const" or space == "param" and run.program.function.is_entry and (addresses < PRIVATE).any():
        raise ReadOnly(f"a write to .{space}", 0, int(addresses[0]))

    def action(piece: Piece, chosen: Array) -> None:
        piece.storage.store(piece.places, words[chosen])

    touch(run, lanes, space, addresses, words.dtype.itemsize, kind, action)


# -- ld and st -----------------------------------------------------------------------------------------------------

PLAIN = {"weak", "nc", "ca", "cg", "cs", "cv", "lu", "wb", "wt", "cta", "gpu", "sys", "cluster", "v2", "v4", "v8"}
"""Suffixes of accesses that change nothing here, besides those that begin with L1:: or L2::."""


def checked_suffixes(instruction: Instruction, known: set[str]) -> None:
    """UnknownInstruction for a suffix that means something else."""
    for suffix in instruction.suffixes:
        head = suffix.partition("::")[0]
        if not (suffix in known or suffix in WIDTHS or head in WINDOWS or head in ("L1", "L2")):
            raise UnknownInstruction(f"{instruction.opcode}: '.{suffix}' is not known here")


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _load(program: Program, instruction: Instruction) -> Act:
    checked_suffixes(instruction, PLAIN | set(STRONG))
    target, source = instruction.operands
    type_, space = instruction.suffixes[-1], program.space_of(instruction)
    width, items = WIDTHS[type_], _items(target)
    writers, address = [program.writer(item, type_) for item in items], program.address(source)
    kind = ATOMIC if set(STRONG) & set(instruction.suffixes) else READ
    kind = UNCHANGING if "nc" in instruction.suffixes else kind
    dtype = DTYPES[type_]

    def act(run: Run, lanes: Array) -> None:
        addresses = address(run, lanes)
        check_alignment(addresses, width * len(items))
        for place, write in enumerate(writers):
            words = load(run, lanes, space, addresses + addresses.dtype.type(place * width), width, kind)
            write(run, lanes, words.view(dtype))

    return act


def _store(program: Program, instruction: Instruction) -> Act:
    checked_suffixes(instruction, PLAIN | set(STRONG))
    target, source = instruction.operands
    type_, space = instruction.suffixes[-1], program.space_of(instruction)
    width, items = WIDTHS[type_], _items(source)
    readers, address = [program.reader(item, type_) for item in items], program.address(target)
    kind = ATOMIC if set(STRONG) & set(instruction.suffixes) else WRITE
    word = np.dtype(f"u{width}")

    def act(run: Run, lanes: Array) -> None:
        addresses = address(run, lanes)
        check_alignment(addresses, width * len(items))
        for place, read in enumerate(readers):
            words = np.broadcast_to(read(run, lanes), len(lanes)).view(word)
            store(run, lanes, space, addresses + addresses.dtype.type(place * width), words, kind)

    return act


# -- atomic operations ---------------------------------------------------------------------------------------------

Update = Callable[..., Any]
UPDATES: dict[str, Update] = {
    "add": operator.add,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "min": lambda old, given: np.fmin(old, given),
    "max": lambda old, given: np.fmax(old, given),
    "exch": lambda old, given: given,
    "cas": lambda old, expected, given: np.where(old == expected, given, old),
    "inc": lambda old, most: np.where(old >= most, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - old.dtype.type(1)),
}
SCOPES = {"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster", "noftz"}


def _atomic(program: Program, instruction: Instruction) -> Act:
    """atom, which gives the old value, and red, which does not."""
    checked_suffixes(instruction, SCOPES | set(UPDATES))
    operands = instruction.operands
    writer = None
    type_, space = instruction.suffixes[-1], program.space_of(instruction)
    if instruction.name == "atom":
        writer, operands = program.writer(operands[0], type_), operands[1:]
    address, readers = program.address(operands[0]), [program.reader(o, type_) for o in operands[1:]]
    update, dtype = UPDATES[next(s for s in instruction.suffixes if s in UPDATES)], DTYPES[type_]

    def act(run: Run, lanes: Array) -> None:
        addresses = address(run, lanes)
        check_alignment(addresses, dtype.itemsize)
        given = [np.broadcast_to(read(run, lanes), len(lanes)) for read in readers]
        old = np.empty(len(lanes), dtype)

        def action(piece: Piece, chosen: Array) -> None:
            old[chosen] = updated(piece, update, [g[chosen] for g in given], dtype)

        touch(run, lanes, space, addresses, dtype.itemsize, ATOMIC, action)
        if writer:
            writer(run, lanes, old)

    return act


def updated(piece: Piece, update: Update, given: list[Array], dtype: Any) -> Array:
    """Apply an atomic operation lane by lane, and return what each lane has found: those of one place take turns."""
    old = np.empty(len(piece.places), dtype)
    for turn in turns(piece.places):
        words = piece.storage.load(piece.places[turn], dtype.itemsize).view(dtype)
        old[turn] = words
        found = np.asarray(update(words, *(g[turn] for g in given))).astype(dtype)
        piece.storage.store(piece.places[turn], found.view(f"u{dtype.itemsize}"))
    return old


def turns(places: Array) -> Iterator[Array]:
    """Lanes in groups in which no place comes twice, those of one place in their order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(places)) - np.repeat(first, np.diff(np.r_[first, len(places)]))
    for turn in range(int(rank.max()) + 1):
        yield order[rank == turn]


ACCESSES: dict[str, Callable[[Program, Instruction], Act]] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
}
