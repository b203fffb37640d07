"""Writes LLVM functions that work on machine words: for the code around kernels, which calls functions by address.

Every value is an i64, pointers too, so that nothing needs a cast. Variables live on the stack; loops and conditions
are context managers.

    with r.loop(count) as i:                          for (i = 0; i < count; i++)
        with r.unless(r.same(r.word(table, i), x)):       if (table[i] != x)
            r.leave(0)                                        return 0;
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

Word = str
"""A register or a number."""


class Counted(Protocol):
    """A writer that numbers its registers."""

    count: int


class Routine:
    """One function under construction: `i64 name(i64, ...)`.

    >>> r = Routine("twice", ["x"])
    >>> r.leave(r.add("%x", "%x"))
    >>> print(r.text())
    define i64 @twice(i64 %x) {
    %v1 = add i64 %x, %x
    ret i64 %v1
    }
    <BLANKLINE>
    """

    def __init__(self, name: str, parameters: Sequence[str]) -> None:
        self._head = f"define i64 @{name}({', '.join(f'i64 %{p}' for p in parameters)}) {{"
        self._variables: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._ended = False
        self._exits: list[str] = []

    def text(self) -> str:
        """The definition."""
        return "\n".join([self._head, *self._variables, *self._lines, "}\n"])

    # -- values --------------------------------------------------------------------------------------------------

    def _emit(self, text: str) -> Word:
        self._count += 1
        name = f"%v{self._count}"
        self._write(f"{name} = {text}")
        return name

    def _write(self, line: str) -> None:
        if not self._ended:
            self._lines.append(line)

    def add(self, a: Word, b: Word | int) -> Word:
        """a + b."""
        return self._emit(f"add i64 {a}, {b}")

    def sub(self, a: Word, b: Word | int) -> Word:
        """a - b."""
        return self._emit(f"sub i64 {a}, {b}")

    def scale(self, a: Word, b: Word | int) -> Word:
        """a * b."""
        return self._emit(f"mul i64 {a}, {b}")

    def shifted(self, a: Word | int, b: Word) -> Word:
        """a << b."""
        return self._emit(f"shl i64 {a}, {b}")

    def halved(self, a: Word, times: int) -> Word:
        """a // 2**times, rounded down."""
        return self._emit(f"ashr i64 {a}, {times}")

    def both(self, a: Word, b: Word | int) -> Word:
        """a & b."""
        return self._emit(f"and i64 {a}, {b}")

    def either(self, a: Word, b: Word | int) -> Word:
        """a | b."""
        return self._emit(f"or i64 {a}, {b}")

    def word(self, address: Word, index: Word | int = 0) -> Word:
        """The word number `index` at an address."""
        return self._emit(f"load i64, ptr {self._pointer(address, index)}")

    def half_word(self, address: Word) -> Word:
        """The i32 at an address, as a word."""
        return self._emit(f"sext i32 {self._emit(f'load i32, ptr {self._pointer(address, 0)}')} to i64")

    def put(self, address: Word, index: Word | int, value: Word | int) -> None:
        """Store a word."""
        self._write(f"store i64 {value}, ptr {self._pointer(address, index)}")

    # -- words that several threads read and write ---------------------------------------------------------------

    def atomic_word(self, address: Word, index: int = 0) -> Word:
        """The word number `index` at an address, which other threads may be writing."""
        return self._emit(f"load atomic i64, ptr {self._pointer(address, index)} seq_cst, align 8")

    def put_atomic(self, address: Word, index: int, value: Word | int) -> None:
        """Store a word that other threads may be reading; who sees it sees what was stored before."""
        self._write(f"store atomic i64 {value}, ptr {self._pointer(address, index)} seq_cst, align 8")

    def update(self, address: Word, index: int, how: str, by: Word | int) -> Word:
        """Replace a word by itself "add" or "or" another one, without a thread in between; what it was."""
        return self._emit(f"atomicrmw {how} ptr {self._pointer(address, index)}, i64 {by} seq_cst, align 8")

    def exchanges(self, address: Word, index: int, old: Word, new: Word) -> Word:
        """Replace a word if it is still `old`; whether it was."""
        pair = self._emit(f"cmpxchg ptr {self._pointer(address, index)}, i64 {old}, i64 {new} seq_cst seq_cst, align 8")
        return self._emit(f"extractvalue {{ i64, i1 }} {pair}, 1")

    def pause(self, call: str) -> None:
        """Let a loop that waits for another thread pause a little, by a call as `ProcessorFamily.pause` has it."""
        self._write(call)

    def _pointer(self, address: Word, index: Word | int) -> Word:
        if index != 0:
            offset = 8 * index if isinstance(index, int) else self.scale(index, 8)
            address = self.add(address, offset)
        return self._emit(f"inttoptr i64 {address} to ptr")

    def space(self, words: Word) -> Word:
        """The address of that many words on the stack; not in a loop."""
        return self._emit(f"ptrtoint ptr {self._emit(f'alloca i64, i64 {words}, align 64')} to i64")

    def variable(self) -> Word:
        """The address of a word on the stack."""
        name = f"%stack{len(self._variables) // 2}"
        self._variables += [f"{name}p = alloca i64", f"{name} = ptrtoint ptr {name}p to i64"]
        return name

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, address: Word, *arguments: Word | int, returns: str = "i64") -> Word:
        """Call the function at an address; an i32 result is widened."""
        target = self._emit(f"inttoptr i64 {address} to ptr")
        operands = ", ".join(f"i64 {a}" for a in arguments)
        if returns == "void":
            self._write(f"call void {target}({operands})")
            return "0"
        result = self._emit(f"call {returns} {target}({operands})")
        return result if returns == "i64" else self._emit(f"sext {returns} {result} to i64")

    def invoke(self, name: str, *arguments: Word | int) -> Word:
        """Call another routine of the module."""
        return self._emit(f"call i64 @{name}({', '.join(f'i64 {a}' for a in arguments)})")

    # -- conditions ----------------------------------------------------------------------------------------------

    def same(self, a: Word, b: Word | int) -> Word:
        """a == b."""
        return self._emit(f"icmp eq i64 {a}, {b}")

    def less(self, a: Word | int, b: Word | int) -> Word:
        """a < b, as signed numbers."""
        return self._emit(f"icmp slt i64 {a}, {b}")

    @contextmanager
    def when(self, condition: Word) -> Iterator[None]:
        """A block whose instructions run if `condition` holds."""
        inside, after = self._label("then"), self._label("after")
        self._write(f"br i1 {condition}, label %{inside}, label %{after}")
        self._block(inside)
        yield
        self._write(f"br label %{after}")
        self._block(after)

    @contextmanager
    def unless(self, condition: Word) -> Iterator[None]:
        """A block whose instructions run if `condition` does not hold."""
        with self.when(self._emit(f"xor i1 {condition}, true")):
            yield

    @contextmanager
    def loop(self, count: Word | int, start: Word | int = 0) -> Iterator[Word]:
        """A loop that counts from `start` to below `count`; yields the counter's value."""
        counter = self.variable()
        self.put(counter, 0, start)
        head, body, after = (self._label(stem) for stem in ("head", "body", "after"))
        self._write(f"br label %{head}")
        self._block(head)
        index = self.word(counter)
        self._write(f"br i1 {self.less(index, count)}, label %{body}, label %{after}")
        self._block(body)
        self._exits.append(after)
        yield index
        self._exits.pop()
        self.put(counter, 0, self.add(index, 1))
        self._write(f"br label %{head}")
        self._block(after)

    def end_loop(self) -> None:
        """Leave the innermost loop."""
        self._write(f"br label %{self._exits[-1]}")
        self._ended = True

    def leave(self, value: Word | int) -> None:
        """Return a value from the routine."""
        self._write(f"ret i64 {value}")
        self._ended = True

    # -- instructions that others write --------------------------------------------------------------------------

    def open_block(self, stem: str) -> str:
        """Begin a basic block; its label."""
        label = self._label(stem)
        self._write(f"br label %{label}")
        self._block(label)
        return label

    def place(self) -> int:
        """The place behind all that is written so far."""
        return len(self._lines)

    def extend(self, lines: Sequence[str], place: int | None = None) -> None:
        """Add instructions, at the end or at an earlier place."""
        place = len(self._lines) if place is None else place
        self._lines[place:place] = lines

    @contextmanager
    def counting(self, other: Counted) -> Iterator[None]:
        """While another writer names registers of this routine, it goes on from the last number."""
        other.count = self._count
        yield
        self._count = other.count

    def _label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def _block(self, label: str) -> None:
        self._ended = False
        self._lines.append(f"{label}:")
