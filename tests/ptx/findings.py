"""What can be wrong with a kernel: exceptions that name the kernel, its line, a thread, its block and the address."""

from __future__ import annotations

Coordinates = tuple[int, int, int]


class Finding(Exception):
    """A fault of a kernel; `lane` is the number of the thread among those that run, until `locate` knows who it is."""

    def __init__(self, message: str, lane: int | None = None, address: int | None = None) -> None:
        super().__init__(message)
        self.message, self.lane, self.address = message, lane, address
        self.kernel, self.line, self.instruction = "", 0, ""
        self.thread: Coordinates | None = None
        self.block: Coordinates | None = None

    def __str__(self) -> str:
        place = f"{self.kernel}, line {self.line}: `{self.instruction}`: " if self.kernel else ""
        who = f", by thread {self.thread} of block {self.block}" if self.thread is not None else ""
        where = f" (address {self.address:#x})" if self.address is not None else ""
        return f"{place}{self.message}{who}{where}"


class MalformedText(Finding):
    """Text that is no PTX, or no PTX that the parser knows."""


class UnknownInstruction(Finding):
    """An instruction, or a form of one, that the interpreter does not know."""


class OutOfBounds(Finding):
    """An access to bytes that belong to no allocation or variable."""


class Misaligned(Finding):
    """An access at an address that is no multiple of its width."""


class NeverWritten(Finding):
    """A read of bytes that nobody has written."""


class NeverSet(Finding):
    """A read of a register that has no value on the way that the thread took."""


class ReadOnly(Finding):
    """A write to constants or parameters."""


class Conflict(Finding):
    """Accesses of two threads to one byte, without a barrier between them, of which one is a write and not atomic."""


class BarrierNotReached(Finding):
    """A barrier, or an exchange within a warp, at which threads wait for others that do not come."""


class EndlessLoop(Finding):
    """More steps than a launch may take."""


class Undefined(Finding):
    """A result that PTX leaves open, such as a division by zero."""
