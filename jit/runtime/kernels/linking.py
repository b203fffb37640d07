"""Links object files of kernels into this process on x86-64 Linux, without LLVM, which takes long to load.

Used by `code_store`, which leaves object files to LLVM's linker on other machines, and where this one meets something
that it does not know.

Note [What an object file of ours holds]
    One ELF file with functions, the constants that they read, and relocations of few kinds, since the code is
    position independent: distances within the file, and calls of C functions. All sections go into one mapping, so
    distances always fit. A C function is reached through a stub behind the sections, with its address next to it:

        text | constants | stubs: jmp *[rip + 2], pad, address
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

PLAIN, DISTANCES, THROUGH_TABLE = (1,), (2, 4), (9, 41, 42)
"""Relocations: R_X86_64_64; PC32 and PLT32; GOTPCREL and its relaxable kinds."""
STUB = b"\xff\x25\x02\x00\x00\x00\x90\x90"
"""`jmp *[rip + 2]`, which leaves the address aligned behind it."""
_ALLOCATED = 2
_RELOCATIONS = 4
_NO_BITS = 8
_EXECUTABLE = mmap.PROT_READ | mmap.PROT_EXEC


class Unlinkable(Exception):
    """An object file that holds something that this linker does not know, or that the system does not let run."""


class SectionHeader(NamedTuple):
    """A row of the table of sections."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class Symbol(NamedTuple):
    """A row of the table of symbols."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


def available() -> bool:
    """Whether object files of this machine are those that this linker knows."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and struct.calcsize("P") == 8


def link(image: bytes, imports: Mapping[str, int]) -> tuple[dict[str, int], Any]:
    """Put an object file into memory.

    Args:
        image: The file, which must be trusted: it is about to be run.
        imports: The addresses of the functions that it may call.

    Returns:
        The addresses of its functions, and what keeps them in memory.

    Raises:
        Unlinkable: It holds something unknown, calls another function, or the system refuses executable memory.
    """
    sections, symbols, names = _tables(image)
    places, end = _placed(sections)
    called = [name for name, s in zip(names, symbols) if s.section == 0 and name]
    if missing := [name for name in called if name not in imports]:
        raise Unlinkable(f"{missing[0]} is not there")
    stubs = {name: end + 16 * number for number, name in enumerate(called)}
    memory = mmap.mmap(-1, end + 16 * len(called) or 1, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, place in places.items():
        section = sections[number]
        if section.type != _NO_BITS:
            memory[place : place + section.size] = image[section.offset : section.offset + section.size]
    for name, place in stubs.items():
        memory[place : place + 16] = STUB + struct.pack("<Q", imports[name])

    def place_of(number: int) -> int:
        symbol = symbols[number]
        return stubs[names[number]] if symbol.section == 0 else places[symbol.section] + symbol.value

    for number, place in places.items():
        _relocate(image, sections, number, place, memory, base, place_of, lambda n: stubs.get(names[n]))
    _make_executable(base, len(memory))
    return {
        name: base + places[s.section] + s.value for name, s in zip(names, symbols) if s.section in places and name
    }, memory


def _tables(image: bytes) -> tuple[list[SectionHeader], list[Symbol], list[str]]:
    """The sections, the symbols, and the names of these."""
    if image[:6] != b"\x7fELF\x02\x01" or len(image) < 64:
        raise Unlinkable("no ELF file")
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [SectionHeader(*struct.unpack_from("<IIQQQQIIQQ", image, start + size * i)) for i in range(count)]
    table = next((s for s in sections if s.type == 2), None)
    if table is None:
        raise Unlinkable("no symbols")
    symbols = [Symbol(*row) for row in struct.iter_unpack("<IBBHQQ", image[table.offset : table.offset + table.size])]
    texts = sections[table.link]
    heap = image[texts.offset : texts.offset + texts.size]
    return sections, symbols, [heap[s.name : heap.index(0, s.name)].decode() for s in symbols]


def _placed(sections: list[SectionHeader]) -> tuple[dict[int, int], int]:
    """The place of each section that is needed to run, and the end of the last one."""
    places, end = {}, 0
    for number, section in enumerate(sections):
        if section.flags & _ALLOCATED and section.type != 0x70000001:  # tables for unwinding are not needed
            end = -(-end // max(section.alignment, 1)) * max(section.alignment, 1)
            places[number] = end
            end += section.size
    return places, -(-end // 16) * 16


def _relocate(
    image: bytes, sections: list[SectionHeader], number: int, place: int, memory: Any, base: int,
    place_of: Callable[[int], int], stub_of: Callable[[int], int | None],
) -> None:  # fmt: skip
    """Fill in what a section says of places elsewhere."""
    for offset, symbol, kind, addend in _relocations(image, sections, number):
        at = place + offset
        if kind in PLAIN:
            struct.pack_into("<Q", memory, at, base + place_of(symbol) + addend)
        elif kind in DISTANCES:
            struct.pack_into("<i", memory, at, place_of(symbol) + addend - at)
        elif kind in THROUGH_TABLE and (stub := stub_of(symbol)) is not None:
            struct.pack_into("<i", memory, at, stub + len(STUB) + addend - at)
        else:
            raise Unlinkable(f"relocation of kind {kind}")


def _relocations(image: bytes, sections: list[SectionHeader], number: int) -> Iterator[tuple[int, int, int, int]]:
    """Offset, symbol, kind and addend."""
    for section in sections:
        if section.type == _RELOCATIONS and section.info == number:
            data = image[section.offset : section.offset + section.size]
            for offset, info, addend in struct.iter_unpack("<QQq", data):
                yield offset, info >> 32, info & 0xFFFFFFFF, addend


def _make_executable(address: int, size: int) -> None:
    if _libc().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), _EXECUTABLE) != 0:
        raise Unlinkable("the system refuses executable memory")


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
