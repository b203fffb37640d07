"""A family of processors: the facts by which the lowering of kernels differs among machines.

Lowering asks these facts, and no name of a processor stands outside this folder. Sizes and abilities may depend on
features of the single processor, such as "avx512f"; a table lists (feature, answer), and the first feature that is
present decides. The feature "" is present everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..llvm.build import LLVMBuilder, Register

T = TypeVar("T")
Table = tuple[tuple[str, T], ...]
"""Answers by feature."""
YES: Table[bool] = (("", True),)
NO: Table[bool] = (("", False),)


def by_feature(table: Table[T], features: Collection[str]) -> T:
    """The answer of the first feature that is present.

    >>> by_feature((("avx", 32), ("", 16)), ["sse2"])
    16
    """
    return next(answer for feature, answer in table if not feature or feature in features)


def brought_by(feature: str) -> Table[bool]:
    """The table of an ability that comes with a feature."""
    return ((feature, True), ("", False))


class TileInstructions(Protocol):
    """Instructions that bring tiles of matrices to shared memory beside the threads, and multiply them by warps."""

    def copy(self, builder: LLVMBuilder, target: Register, source: Register, count: Register, size: int) -> None:
        """Begin to copy `count` bytes (i32) to `size` bytes of shared memory, 4, 8 or 16; the rest become zeros."""

    def commit(self, builder: LLVMBuilder) -> None:
        """Copies begun so far are one group."""

    def wait(self, builder: LLVMBuilder, later: int) -> None:
        """Wait for all groups of copies but the last `later` ones."""

    def anew(self, builder: LLVMBuilder, register: Register) -> Register:
        """A number or an address of which the compiler does not know that it is the same in each turn of a loop."""

    def matrices(self, builder: LLVMBuilder, address: Register, transposed: bool) -> list[Register]:
        """Four matrices of 8 x 8 elements of 16 bits, an i32 of each for every lane."""

    def product(
        self, builder: LLVMBuilder, a: Sequence[Register], b: Sequence[Register], sums: Sequence[Register],
        is_float16: bool,
    ) -> list[Register]:  # fmt: skip
        """The sums (float32) with the product of 16 x 16 elements of float16, or bfloat16, by 16 x 8."""


@dataclass(frozen=True)
class Dialect:
    """The parts of a kernel's LLVM IR that only GPUs have, as one family of them spells them."""

    convention: str
    """The calling convention of the kernel, as LLVM names it."""
    parameter: str
    """A parameter that is passed by value: `{type}` and `{name}` are filled in."""
    prologue: tuple[str, ...]
    """Code that makes the pointers %data, %geometry and %status of the parameters and of the thread's own memory."""
    thread: str
    """The intrinsic that gives the thread's number in its block."""
    block: str
    """The intrinsic that gives the block's number."""
    comment: str
    """The beginning of a comment in its assembly."""
    warp: int
    """The number of threads that exchange values without memory."""
    multiprocessors: int
    """The number of them that is assumed where the launch does not know it."""
    shared_bytes: int
    """The bytes of shared memory that every GPU of the family gives to a block."""
    held_bytes: int
    """The bytes of shared memory that a block may take while enough other blocks still find room beside it."""
    barrier: tuple[str, ...]
    """Instructions at which all threads of a block meet."""
    barrier_declaration: str
    shuffle: Callable[[LLVMBuilder, str, Register, int, int, Register], Register]
    """(builder, way, word, lanes, group, thread): the i32 of another thread of the same group, of which a warp has one
    or several. The way is "up" or "down", by `lanes`, or "idx", which takes that of the group's thread `lanes`. Threads
    beyond the ends of the group give anything."""
    bound: str = ""
    """An attribute that allows a thread no more than `{registers}`; empty if compilers expect large blocks anyway."""
    tiles: Callable[[str], TileInstructions | None] = lambda processor: None
    """The instructions for tiles of matrices that a processor has, None if it lacks them."""


@dataclass(frozen=True)
class ProcessorFamily:
    """Facts that processors of one kind have in common."""

    name: str
    triples: tuple[str, ...]
    """The beginnings of the LLVM triples that the family answers for."""
    vector_bytes: Table[int]
    """The width of the vectors that kernels are written in; 4 means scalars."""
    vector_registers: Table[int]
    """The number of vector registers."""
    fma: Table[bool]
    """Whether a fused multiply-add is one instruction."""
    half: Table[bool]
    """Whether float16 is converted by an instruction; elsewhere LLVM calls helpers that may not exist."""
    rounding: Table[bool]
    """Whether floor, ceil, trunc and round-to-even are instructions; elsewhere LLVM calls the C library."""
    overflow: str = "nearest"
    """The integer that a float becomes if it does not fit: the "nearest" bound, or the "least" integer."""
    instruction: Callable[[str, Register, Register], list[Any]] | None = None
    """("max" | "min" | "scalef", a, b): LLVM's name of the instruction for one vector register, and its operands; None
    if LLVM's generic code is as good."""
    scalef: Table[bool] = NO
    """Whether an instruction multiplies vectors by 2**n even where 2**n itself is beyond their dtype."""
    convolutions: bool = False
    """Whether tiles of convolutions and pooling were written and measured for its vectors of 32 bytes and more."""
    pause: tuple[str, str] = ("", "")
    """The declaration and the call of an intrinsic that makes a loop which waits for another thread pause a little."""
    dialect: Dialect | None = None
    """The dialect of a GPU, whose kernels are scalar code in many threads without a C library; None for a processor."""


GENERIC = ProcessorFamily(
    "generic",
    (),
    vector_bytes=(("", 16),),
    vector_registers=(("", 16),),
    fma=brought_by("fma"),
    half=brought_by("f16c"),
    rounding=NO,
)
"""The family of every processor that no file describes: LLVM cuts its vectors as it has to."""
