"""Matrix products of a warp, and what feeds them: mma, ldmatrix, and copies that run beside the threads.

The order in which a product's terms are added is the machine's own; here the sum is exact and rounded once, as far as
float64 is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .accesses import checked_suffixes, load, store
from .arithmetic import Array
from .findings import Undefined, UnknownInstruction
from .instructions import DTYPES
from .memory import check_alignment
from .parser import Immediate, Instruction, Operand, Vector, integer
from .warps import meeting

if TYPE_CHECKING:
    from .machine import Run
    from .program import Act, Control, Program

LANE = np.arange(32)
GROUP, MEMBER = LANE // 4, LANE % 4
"""A warp in eight groups of four lanes: a group has a row of a fragment, and its members what stands in it."""


class Fragment(NamedTuple):
    """Where the elements of a matrix lie: for each element of a lane's registers its row and column."""

    rows: Array
    columns: Array

    def gather(self, elements: Array, shape: tuple[int, int]) -> Array:
        """The matrices of which warps hold the elements, (warps, 32, elements of a lane)."""
        found = np.empty((len(elements), *shape))
        found[:, self.rows, self.columns] = elements
        return found

    def scatter(self, matrices: Array) -> Array:
        """The elements that each lane holds."""
        return matrices[:, self.rows, self.columns]


def fragment(per_register: int, row_steps: list[tuple[int, int]], transposed: bool = False) -> Fragment:
    """A fragment whose registers begin at (row, column) steps from a lane's place.

    A lane's place is its group's row and `per_register` elements for each member before it.
    """
    rows = np.stack([GROUP + row for row, _ in row_steps for _ in range(per_register)], axis=1)
    columns = np.stack(
        [MEMBER * per_register + column + k for _, column in row_steps for k in range(per_register)], axis=1
    )
    return Fragment(columns, rows) if transposed else Fragment(rows, columns)


SHAPES: dict[tuple[str, int], tuple[Fragment, Fragment]] = {
    ("m16n8k16", 2): (fragment(2, [(0, 0), (8, 0), (0, 8), (8, 8)]), fragment(2, [(0, 0), (0, 8)], transposed=True)),
    ("m16n8k8", 2): (fragment(2, [(0, 0), (8, 0)]), fragment(2, [(0, 0)], transposed=True)),
    ("m16n8k8", 4): (fragment(1, [(0, 0), (8, 0), (0, 4), (8, 4)]), fragment(1, [(0, 0), (0, 4)], transposed=True)),
    ("m16n8k4", 4): (fragment(1, [(0, 0), (8, 0)]), fragment(1, [(0, 0)], transposed=True)),
}
"""The fragments of the factors, by shape and the bytes of an element."""
RESULT = fragment(2, [(0, 0), (8, 0)])


def _product(program: Program, instruction: Instruction) -> Control:
    """mma.sync.aligned.shape.row.col.result.a.b.c {d}, {a}, {b}, {c}: d = a @ b + c."""
    sync, aligned, shape, row, col, *types = instruction.suffixes
    if (sync, aligned, row, col) != ("sync", "aligned", "row", "col") or len(types) != 4 or types[1] != types[2]:
        raise UnknownInstruction(f"{instruction.opcode}: only products of rows with columns are known")
    width = 4 if types[1] == "tf32" else 2
    if types[1] not in ("f16", "bf16", "tf32") or (shape, width) not in SHAPES:
        raise UnknownInstruction(f"{instruction.opcode}: its shape is not known for .{types[1]}")
    left, right = SHAPES[shape, width]
    depth = int(shape.rpartition("k")[2])
    targets = [program.writer(item, "b32") for item in _items(instruction.operands[0])]
    readers = [[program.reader(i, "b32") for i in _items(o)] for o in instruction.operands[1:]]

    def exchange(run: Run, lanes: Array) -> None:
        _check_whole_warps(run, lanes)
        a, b, c = (elements(run, lanes, read, type_) for read, type_ in zip(readers, types[1:]))
        product = left.gather(a, (16, depth)) @ right.gather(b, (depth, 8)) + RESULT.gather(c, (16, 8))
        found = RESULT.scatter(product).astype(DTYPES[types[0]]).reshape(len(lanes), -1).view(np.uint32)
        for place, write in enumerate(targets):
            write(run, lanes, found[:, place].copy())

    return meeting(lambda run, lanes: np.uint32(0xFFFFFFFF), exchange)


def _items(operand: Operand) -> tuple[Operand, ...]:
    assert isinstance(operand, Vector)
    return operand.items


def _check_whole_warps(run: Run, lanes: Array) -> None:
    if len(lanes) % 32 or not (run.threads.slots[lanes].reshape(-1, 32) % 32 == LANE).all():
        raise Undefined("a product of matrices needs all lanes of the warp", 0)


def elements(run: Run, lanes: Array, readers: list[Any], type_: str) -> Array:
    """The numbers in registers, (warps, 32, elements of a lane); of tf32 the last 13 bits are ignored."""
    words = np.stack([np.broadcast_to(read(run, lanes), len(lanes)) for read in readers], axis=1)
    values = (words & np.uint32(0xFFFFE000)).view(np.float32) if type_ == "tf32" else words.view(DTYPES[type_])
    return values.astype(np.float64).reshape(len(lanes) // 32, 32, -1)


def _load_matrices(program: Program, instruction: Instruction) -> Control:
    """ldmatrix: matrices of 8 x 8 elements of 16 bits, whose rows lie where eight lanes each say."""
    sync, aligned, shape, count, *rest = instruction.suffixes
    if (sync, aligned, shape, rest[-1]) != ("sync", "aligned", "m8n8", "b16"):
        raise UnknownInstruction(f"{instruction.opcode} is not known")
    transposed, space = "trans" in rest, program.space_of(instruction)
    targets = [program.writer(item, "b32") for item in _items(instruction.operands[0])]
    if len(targets) != int(count[1:]):
        raise UnknownInstruction(f"{instruction.opcode}: {len(targets)} registers for {count}")
    address = program.address(instruction.operands[1])

    def exchange(run: Run, lanes: Array) -> None:
        _check_whole_warps(run, lanes)
        addresses = address(run, lanes).astype(np.uint64).reshape(-1, 32)
        found = []
        for matrix in range(len(targets)):
            starts = addresses[:, 8 * matrix : 8 * matrix + 8]
            check_alignment(starts.reshape(-1), 16)
            halves = [_half(run, lanes, space, starts, half, transposed) for half in (0, 1)]
            found.append(halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << np.uint32(16))
        for write, words in zip(targets, found):
            write(run, lanes, words)

    return meeting(lambda run, lanes: np.uint32(0xFFFFFFFF), exchange)


def _half(run: Run, lanes: Array, space: str, starts: Array, half: int, transposed: bool) -> Array:
    """One of the two elements that each lane gets of a matrix."""
    row, column = (2 * MEMBER + half, GROUP) if transposed else (GROUP, 2 * MEMBER + half)
    return load(run, lanes, space, (starts[:, row] + (2 * column).astype(np.uint64)).reshape(-1), 2)


# -- copies that run beside the threads ----------------------------------------------------------------------------


class Copy(NamedTuple):
    """Copies of some lanes that may not have happened yet; `groups` are the numbers of their groups."""

    lanes: Array
    groups: Array
    targets: Array
    sources: Array
    size: int
    taken: Array
    """The bytes that are read; the others become zero."""


def _copy(program: Program, instruction: Instruction) -> Act:
    """cp.async: what is copied may be read behind a wait, and is never written until then."""
    if "commit_group" in instruction.suffixes:
        return _commit
    if "wait_all" in instruction.suffixes or "wait_group" in instruction.suffixes:
        return _waiting(instruction)
    checked_suffixes(instruction, {"async", "ca", "cg"})
    target, source = (program.address(o) for o in instruction.operands[:2])
    given = instruction.operands[2]
    if not isinstance(given, Immediate) or integer(given.text) not in (4, 8, 16):
        raise UnknownInstruction(f"a copy of {given} bytes")
    size = integer(given.text)
    read = program.reader(instruction.operands[-1], "u32")

    def act(run: Run, lanes: Array) -> None:
        targets, sources = target(run, lanes), source(run, lanes)
        check_alignment(targets, size)
        check_alignment(sources, size)
        taken = np.broadcast_to(read(run, lanes), len(lanes))
        run.copies.append(Copy(lanes, run.groups[lanes], targets, sources, size, taken))
        run.forget(lanes, targets, size)

    return act


def _commit(run: Run, lanes: Array) -> None:
    run.groups[lanes] += 1


def _waiting(instruction: Instruction) -> Act:
    """Copies of all groups but the last ones are there."""
    everything = "wait_all" in instruction.suffixes
    kept = 0 if everything else integer(str(instruction.operands[0]))

    def act(run: Run, lanes: Array) -> None:
        waits = np.isin(run.all, lanes)
        copies, run.copies = run.copies, []
        for copy in copies:
            done = waits[copy.lanes] & (everything | (copy.groups < run.groups[copy.lanes] - kept))
            _happen(run, chosen(copy, done))
            if not done.all():
                run.copies.append(chosen(copy, ~done))

    return act


def chosen(copy: Copy, which: Array) -> Copy:
    """Some of the copies."""
    return copy._replace(**{name: getattr(copy, name)[which] for name in copy._fields if name != "size"})


def _happen(run: Run, copy: Copy) -> None:
    """Byte by byte, since not all of them need be read."""
    for offset in range(copy.size):
        values = np.zeros(len(copy.lanes), np.uint8)
        read = copy.taken > offset
        if read.any():
            sources = copy.sources[read] + copy.sources.dtype.type(offset)
            values[read] = load(run, copy.lanes[read], "global", sources, 1)
        if len(values):
            store(run, copy.lanes, "shared", copy.targets + copy.targets.dtype.type(offset), values)


MATRICES: dict[str, Callable[[Any, Instruction], Any]] = {"mma": _product, "ldmatrix": _load_matrices}
COPIES: dict[str, Callable[[Any, Instruction], Any]] = {"cp": _copy}
