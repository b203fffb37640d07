"""Writes vector code on machine words: loads, masks, transpositions, and the tile at the heart of every product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from jit.ir.dtypes import DType, float32, float64

from ..targets.target import Target
from .words import Routine, Word

ELEMENT = {float32: "float", float64: "double"}
"""The dtypes that tiles are written for."""
CACHE_LINE = 64
"""The bytes that a processor reads from memory at once."""
Vector = str
"""A register that holds a vector."""


@cache
def tile_sizes() -> tuple[int, int]:
    """The number of rows and vectors of a product that are kept in registers."""
    return (8, 2) if Target.host().vector_registers >= 32 else (6, 2)


def lanes_of(dtype: DType) -> int:
    """The number of elements in a vector of this machine."""
    return Target.host().vector_bytes // dtype.itemsize


class TileWriter(Routine):
    """A routine `i32 kernel(ptr data, ptr geometry)` that works on vectors of one dtype."""

    def __init__(self, dtype: DType, target: Target, vector_bytes: int = 0) -> None:
        super().__init__("kernel", ["data", "geometry"])
        self.size = dtype.itemsize
        self.bytes = vector_bytes or target.vector_bytes
        self.lanes = self.bytes // self.size
        self.element = ELEMENT[dtype]
        self.vector = f"<{self.lanes} x {self.element}>"
        self.fused = target.has_fma
        self._declared: dict[str, str] = {}

    @property
    def declarations(self) -> tuple[str, ...]:
        """The functions that the routine calls."""
        return tuple(self._declared.values())

    def declare(self, name: str, text: str) -> None:
        """One more function that the routine calls."""
        self._declared[name] = text

    # -- the tile ------------------------------------------------------------------------------------------------

    @contextmanager
    def turns(self, count: Word | int, **starts: Word | int) -> Iterator[dict[str, Word]]:
        """A loop in registers: `count` turns, at least one. What `starts` names moves on by `advance` each turn.

        Yields the names' registers, and "turn", which counts from 0.
        """
        with self.gathering(count, (), None, **starts) as (at, _, _):
            yield at

    @contextmanager
    def gathering(
        self, count: Word | int, places: Sequence[tuple[int, int]], starts: dict[tuple[int, int], Vector] | None = None,
        **words: Word | int,
    ) -> Iterator[tuple[dict[str, Word], dict[tuple[int, int], Vector], dict[tuple[int, int], Vector]]]:  # fmt: skip
        """`turns` that carry vectors as well.

        Yields the registers of the words, those of the vectors, and a dict to fill with the vectors after the turn.
        """
        before, body, after = (self._label(stem) for stem in ("before", "along", "after"))
        self._write(f"br label %{before}")
        self._block(before)
        self._write(f"br label %{body}")
        self._block(body)
        at = {name: f"%{body}.{name}" for name in ("turn", *words)}
        latch = f"{body}.latch"
        for name, start in (("turn", 0), *words.items()):
            self._write(f"{at[name]} = phi i64 [ {start}, %{before} ], [ {at[name]}.next, %{latch} ]")
        names = {place: f"%{body}.{place[0]}.{place[1]}" for place in places}
        first = len(self._lines)
        self._lines += [""] * len(places)  # what the vectors will be is known after the body
        changed: dict[tuple[int, int], Vector] = {}
        yield at, names, changed
        for line, (place, name) in enumerate(names.items(), first):
            start = starts[place] if starts else "zeroinitializer"
            self._lines[line] = f"{name} = phi {self.vector} [ {start}, %{before} ], [ {changed[place]}, %{latch} ]"
        self._write(f"br label %{latch}")
        self._block(latch)
        self.advance(at["turn"], 1)
        self._write(f"br i1 {self.less(at['turn'] + '.next', count)}, label %{body}, label %{after}")
        self._block(after)

    def advance(self, register: Word, step: Word | int) -> None:
        """The value of a register of `turns` in the next turn."""
        self._write(f"{register}.next = add i64 {register}, {step}")

    def follow(self, register: Word, value: Word) -> None:
        """A register of `turns` has some value in the next turn."""
        self._write(f"{register}.next = add i64 {value}, 0")

    def sums(
        self, rows: Sequence[Word], row_step: Word | int, panel: Word, vectors: int, count: Word,
        starts: dict[tuple[int, int], Vector] | None = None, halved: bool = False,
        ahead: tuple[Word, Word] = ("", ""),
    ) -> dict[tuple[int, int], Vector]:  # fmt: skip
        """tile[r, v] += row_r[k] * panel[k, v] for k below `count`; the panel has whole rows of `tile_sizes`.

        With `halved`, the upper half of the last vector is not computed: all others are taken as two halves, since
        registers of half the length take half the time only where the numbers they meet are as long. Memory from
        `ahead` on is asked for meanwhile: each turn as much as a row of the panel, then so many bytes on.
        """
        lanes, number = (self.lanes // 2, 2 * vectors - 1) if halved else (self.lanes, vectors)
        type = f"<{lanes} x {self.element}>"
        places = [(r, v) for r in range(len(rows)) for v in range(number)]
        begun = self._in_halves(starts, number) if starts and halved else starts or {}
        before, body, after = (self._label(stem) for stem in ("before", "along", "after"))
        self._write(f"br label %{before}")
        self._block(before)
        self._write(f"br label %{body}")
        self._block(body)
        names = {place: f"%{body}.{place[0]}.{place[1]}" for place in places}
        words = [("k", "0"), ("a", "0"), ("b", panel), *[("ahead", ahead[0])] * bool(ahead[0])]
        at = {name: f"%{body}.{name}" for name, _ in words}
        for name, start in words:
            self._write(f"{at[name]} = phi i64 [ {start}, %{before} ], [ {at[name]}.next, %{body} ]")
        for place, name in names.items():
            start = begun.get(place, "zeroinitializer")
            self._write(f"{name} = phi {type} [ {start}, %{before} ], [ {name}.next, %{body} ]")
        right = [self.load(self.add(at["b"], v * lanes * self.size), lanes) for v in range(number)]
        for r, row in enumerate(rows):
            left = self.broadcast(self.add(row, at["a"]), lanes)
            for v in range(number):
                self.multiply_add(left, right[v], names[r, v], f"{names[r, v]}.next", lanes)
        if ahead[0]:
            for offset in range(0, tile_sizes()[1] * self.bytes, CACHE_LINE):
                self.prefetch(self.add(at["ahead"], offset))
            self.advance(at["ahead"], ahead[1])
        self.advance(at["a"], row_step)
        self.advance(at["b"], tile_sizes()[1] * self.bytes)
        self.advance(at["k"], 1)
        self._write(f"br i1 {self.less(at['k'] + '.next', count)}, label %{body}, label %{after}")
        self._block(after)
        found = {place: f"{name}.next" for place, name in names.items()}
        return self._joined(found, len(rows), vectors) if halved else found

    def _in_halves(self, tile: dict[tuple[int, int], Vector], number: int) -> dict[tuple[int, int], Vector]:
        """The halves of the vectors of a tile: so many of each row."""
        half = self.lanes // 2
        return {
            (r, 2 * v + part): self.shuffle(vector, vector, range(part * half, (part + 1) * half))
            for (r, v), vector in tile.items()
            for part in range(2)
            if 2 * v + part < number
        }

    def _joined(self, halves: dict[tuple[int, int], Vector], rows: int, vectors: int) -> dict[tuple[int, int], Vector]:
        """The vectors of a tile; that of a half alone has it twice."""
        half = self.lanes // 2
        return {
            (r, v): self.shuffle(halves[r, 2 * v], halves.get((r, 2 * v + 1), halves[r, 2 * v]), range(2 * half), half)
            for r in range(rows)
            for v in range(vectors)
        }

    # -- words ---------------------------------------------------------------------------------------------------

    def quotient(self, a: Word, b: Word | int) -> Word:
        """a / b, of numbers that are not negative."""
        return self._emit(f"udiv i64 {a}, {b}")

    def remainder(self, a: Word, b: Word | int) -> Word:
        """a % b, of numbers that are not negative."""
        return self._emit(f"urem i64 {a}, {b}")

    def choose(self, condition: Word, a: Word | int, b: Word | int) -> Word:
        """One word or the other."""
        return self._emit(f"select i1 {condition}, i64 {a}, i64 {b}")

    def lesser(self, a: Word, b: Word | int) -> Word:
        """The smaller one."""
        return self.choose(self.less(a, b), a, b)

    def within(self, a: Word, bound: Word) -> Word:
        """Whether 0 <= a < bound."""
        return self._emit(f"icmp ult i64 {a}, {bound}")

    # -- vectors -------------------------------------------------------------------------------------------------

    def load(self, address: Word, lanes: int = 0) -> Vector:
        """A vector from memory."""
        vector = f"<{lanes or self.lanes} x {self.element}>"
        return self._emit(f"load {vector}, ptr {self._pointer(address, 0)}, align {self.size}")

    def store(self, value: Vector, address: Word) -> None:
        """A vector to memory."""
        self._write(f"store {self.vector} {value}, ptr {self._pointer(address, 0)}, align {self.size}")

    def store_first(self, value: Vector, address: Word, count: int) -> None:
        """The first lanes of a vector to memory."""
        first = self.shuffle(value, value, range(count))
        self._write(f"store <{count} x {self.element}> {first}, ptr {self._pointer(address, 0)}, align {self.size}")

    def prefetch(self, address: Word) -> None:
        """Ask for a line of the cache that will be read soon; it need not exist."""
        self._declared["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self._write(f"call void @llvm.prefetch.p0(ptr {self._pointer(address, 0)}, i32 0, i32 3, i32 1)")

    def sum_of(self, a: Vector, b: Vector) -> Vector:
        """a + b."""
        return self._emit(f"fadd {self.vector} {a}, {b}")

    def mask(self, bits: Word, lanes: int = 0) -> Word:
        """The low bits of a word as a mask of that many lanes."""
        lanes = lanes or self.lanes
        narrow = self._emit(f"trunc i64 {bits} to i{lanes}") if lanes < 64 else bits
        return self._emit(f"bitcast i{lanes} {narrow} to <{lanes} x i1>")

    def masked_load(self, address: Word, mask: Word, otherwise: Vector, lanes: int = 0) -> Vector:
        """Lanes from memory where the mask holds; no other memory is touched."""
        lanes = lanes or self.lanes
        vector = f"<{lanes} x {self.element}>"
        name = f"llvm.masked.load.v{lanes}f{8 * self.size}.p0"
        self._declared[name] = f"declare {vector} @{name}(ptr, <{lanes} x i1>, {vector})"
        where = f"ptr align {self.size} {self._pointer(address, 0)}"
        return self._emit(f"call {vector} @{name}({where}, <{lanes} x i1> {mask}, {vector} {otherwise})")

    def masked_store(self, value: Vector, address: Word, mask: Word, lanes: int = 0) -> None:
        """Lanes to memory where the mask holds."""
        lanes = lanes or self.lanes
        vector = f"<{lanes} x {self.element}>"
        name = f"llvm.masked.store.v{lanes}f{8 * self.size}.p0"
        self._declared[name] = f"declare void @{name}({vector}, ptr, <{lanes} x i1>)"
        where = f"ptr align {self.size} {self._pointer(address, 0)}"
        self._write(f"call void @{name}({vector} {value}, {where}, <{lanes} x i1> {mask})")

    def scatter(self, value: Vector, address: Word, step: int, mask: Word) -> None:
        """Lanes to memory where the mask holds, a step of so many bytes apart."""
        name = f"llvm.masked.scatter.v{self.lanes}f{8 * self.size}.v{self.lanes}p0"
        pointers, lanes = f"<{self.lanes} x ptr>", f"<{self.lanes} x i1>"
        self._declared[name] = f"declare void @{name}({self.vector}, {pointers}, i32, {lanes})"
        away = ", ".join(f"i64 {lane * step}" for lane in range(self.lanes))
        where = self._emit(f"getelementptr i8, ptr {self._pointer(address, 0)}, <{self.lanes} x i64> <{away}>")
        self._write(f"call void @{name}({self.vector} {value}, {pointers} {where}, i32 {self.size}, {lanes} {mask})")

    def broadcast(self, address: Word, lanes: int = 0) -> Vector:
        """A number from memory in all lanes."""
        lanes = lanes or self.lanes
        number = self._emit(f"load {self.element}, ptr {self._pointer(address, 0)}")
        one = self._emit(f"insertelement <{lanes} x {self.element}> poison, {self.element} {number}, i64 0")
        return self.shuffle(one, one, [0] * lanes, lanes)

    def shuffle(self, first: Vector, second: Vector, chosen: Sequence[int], lanes: int = 0) -> Vector:
        """Lanes of two vectors."""
        vector, count = f"<{lanes or self.lanes} x {self.element}>", len(chosen)
        mask = ", ".join(f"i32 {n}" for n in chosen)
        return self._emit(f"shufflevector {vector} {first}, {vector} {second}, <{count} x i32> <{mask}>")

    def multiply_add(self, a: Vector, b: Vector, c: Vector, name: str = "", lanes: int = 0) -> Vector:
        """a * b + c."""
        lanes = lanes or self.lanes
        vector = f"<{lanes} x {self.element}>"
        if self.fused:
            fma = f"llvm.fma.v{lanes}f{8 * self.size}"
            self._declared[fma] = f"declare {vector} @{fma}({', '.join([vector] * 3)})"
            text = f"call {vector} @{fma}({', '.join(f'{vector} {x}' for x in (a, b, c))})"
        else:
            text = f"fadd {vector} {c}, {self._emit(f'fmul {vector} {a}, {b}')}"
        if not name:
            return self._emit(text)
        self._write(f"{name} = {text}")
        return name

    def transposed(self, lines: list[Vector]) -> list[Vector]:
        """A square of as many vectors as they have lanes: swapped in blocks of 1, 2, 4, ... lanes."""
        bit = 1
        while bit < self.lanes:
            for i in range(self.lanes):
                if not i & bit:
                    first, second = lines[i], lines[i | bit]
                    low = [n if not n & bit else self.lanes + (n ^ bit) for n in range(self.lanes)]
                    high = [n ^ bit if not n & bit else self.lanes + n for n in range(self.lanes)]
                    lines[i], lines[i | bit] = self.shuffle(first, second, low), self.shuffle(first, second, high)
            bit *= 2
        return lines
