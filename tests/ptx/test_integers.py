"""Instructions on integers and bits, on numbers at the ends of their ranges, against Python's own integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jit.runtime.gpu.ptxas import assemble

from ..runtime.test_ptxas import needs_ptxas
from .findings import Undefined
from .lines import computed, computing, pairs_of, some_integers, wrapped

Reference = Callable[..., int]


def bits(value: int, width: int) -> int:
    """A number's bits as a natural number."""
    return value % (1 << width)


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shifted_left(width: int) -> Reference:
    return lambda a, n: a << n if n < width else 0


def extracted(width: int, signed: bool) -> Reference:
    """bfe as the manual has it: bit by bit, the last one of the field filling up signed results."""

    def reference(a: int, start: int, length: int) -> int:
        start, length = start & 255, length & 255
        word, top = bits(a, width), width - 1
        last = word >> min(start + length - 1, top) & 1 if signed and length else 0
        found = sum((word >> (i + start) & 1 if i < length and i + start <= top else last) << i for i in range(width))
        return found

    return reference


def inserted(a: int, b: int, start: int, length: int) -> int:
    start, length, found = start & 255, length & 255, bits(b, 32)
    for i in range(length):
        if start + i < 32:
            found = found & ~(1 << (start + i)) | (a >> i & 1) << (start + i)
    return found


def permuted(a: int, b: int, chosen: int) -> int:
    octets, found = (b << 32 | a).to_bytes(8, "little"), 0
    for place in range(4):
        nibble = chosen >> 4 * place & 15
        octet = octets[nibble & 7]
        found |= (255 * (octet >> 7) if nibble & 8 else octet) << 8 * place
    return found


def funnel(left: bool, clamp: bool) -> Reference:
    def reference(low: int, high: int, amount: int) -> int:
        amount, both = min(amount, 32) if clamp else amount & 31, high << 32 | low
        return both << amount >> 32 if left else both >> amount

    return reference


def first_bit(a: int) -> int:
    return (~a if a < 0 else a).bit_length() - 1


U32, S32, U64, S64, U16, S16 = np.uint32, np.int32, np.uint64, np.int64, np.uint16, np.int16
TYPES = {"u16": U16, "s16": S16, "u32": U32, "s32": S32, "u64": U64, "s64": S64}

CASES: dict[str, tuple[Any, tuple[Any, ...], Reference]] = {
    "abs.s32": (S32, (S32,), abs),
    "abs.s64": (S64, (S64,), abs),
    "neg.s16": (S16, (S16,), lambda a: -a),
    "neg.s32": (S32, (S32,), lambda a: -a),
    "not.b64": (U64, (U64,), lambda a: ~a),
    "cnot.b32": (U32, (U32,), lambda a: int(a == 0)),
    "popc.b32": (U32, (U32,), int.bit_count),
    "popc.b64": (U32, (U64,), int.bit_count),
    "clz.b32": (U32, (U32,), lambda a: 32 - a.bit_length()),
    "clz.b64": (U32, (U64,), lambda a: 64 - a.bit_length()),
    "brev.b32": (U32, (U32,), lambda a: int(f"{a:032b}"[::-1], 2)),
    "brev.b64": (U64, (U64,), lambda a: int(f"{a:064b}"[::-1], 2)),
    "bfind.u32": (U32, (U32,), first_bit),
    "bfind.s64": (U32, (S64,), first_bit),
    "bfind.shiftamt.s32": (U32, (S32,), lambda a: 31 - first_bit(a) if first_bit(a) >= 0 else -1),
    "add.sat.s32": (S32, (S32, S32), lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1)),
    "sub.sat.s32": (S32, (S32, S32), lambda a, b: min(max(a - b, -(2**31)), 2**31 - 1)),
    "sad.s32": (S32, (S32, S32, S32), lambda a, b, c: c + abs(a - b)),
    "bfe.u32": (U32, (U32, U32, U32), extracted(32, False)),
    "bfe.s32": (S32, (S32, U32, U32), extracted(32, True)),
    "bfe.u64": (U64, (U64, U32, U32), extracted(64, False)),
    "bfe.s64": (S64, (S64, U32, U32), extracted(64, True)),
    "bfi.b32": (U32, (U32, U32, U32, U32), inserted),
    "prmt.b32": (U32, (U32, U32, U32), permuted),
    "shf.l.clamp.b32": (U32, (U32, U32, U32), funnel(True, True)),
    "shf.l.wrap.b32": (U32, (U32, U32, U32), funnel(True, False)),
    "shf.r.clamp.b32": (U32, (U32, U32, U32), funnel(False, True)),
    "shf.r.wrap.b32": (U32, (U32, U32, U32), funnel(False, False)),
    "mul.wide.u16": (U32, (U16, U16), lambda a, b: a * b),
    "mul.wide.s32": (S64, (S32, S32), lambda a, b: a * b),
    "mul.wide.u32": (U64, (U32, U32), lambda a, b: a * b),
    "mad.wide.s32": (S64, (S32, S32, S64), lambda a, b, c: a * b + c),
    "slct.s32.s32": (S32, (S32, S32, S32), lambda a, b, c: a if c >= 0 else b),
}  # fmt: skip
for name, type_ in TYPES.items():
    width = 8 * np.dtype(type_).itemsize
    CASES |= {
        f"add.{name}": (type_, (type_, type_), lambda a, b: a + b),
        f"sub.{name}": (type_, (type_, type_), lambda a, b: a - b),
        f"mul.lo.{name}": (type_, (type_, type_), lambda a, b: a * b),
        f"mul.hi.{name}": (type_, (type_, type_), lambda a, b, width=width: a * b >> width),
        f"mad.lo.{name}": (type_, (type_, type_, type_), lambda a, b, c: a * b + c),
        f"mad.hi.{name}": (type_, (type_, type_, type_), lambda a, b, c, width=width: (a * b >> width) + c),
        f"min.{name}": (type_, (type_, type_), min),
        f"max.{name}": (type_, (type_, type_), max),
        f"div.{name}": (type_, (type_, type_), lambda a, b: toward_zero(a, b) if b else 0),
        f"rem.{name}": (type_, (type_, type_), lambda a, b: a - b * toward_zero(a, b) if b else 0),
        f"shl.b{width}": (type_, (type_, U32), shifted_left(width)),
        f"shr.{name}": (type_, (type_, U32), lambda a, n: a >> n),
        f"and.b{width}": (type_, (type_, type_), int.__and__),
        f"or.b{width}": (type_, (type_, type_), int.__or__),
        f"xor.b{width}": (type_, (type_, type_), int.__xor__),
    }


def operands(instruction: str, dtypes: tuple[Any, ...], rng: np.random.Generator) -> list[Any]:
    """All pairs of some numbers, or rows of numbers drawn from them."""
    pools = [some_integers(dtype, rng) for dtype in dtypes]
    if instruction.startswith(("bfe", "bfi.", "shf")):  # their last operands are small
        pools[1 + instruction.startswith(("bfi.", "shf")) :] = [
            np.array([0, 1, 2, 5, 8, 30, 31, 32, 33, 63, 64, 65, 200, 255, 256, 259], U32)
        ] * (1 + instruction.startswith(("bfe", "bfi.")))
    if len(pools) <= 2:
        places = pairs_of(np.arange(min(map(len, pools))), len(pools))
    else:
        places = [rng.integers(0, len(pool), 1000) for pool in pools]
    found = [pool[place] for pool, place in zip(pools, places)]
    if instruction.startswith(("div", "rem")):
        found[1] = np.where(found[1] == 0, found[1].dtype.type(3), found[1])
    return found


@pytest.mark.parametrize("instruction", CASES)
def test_integers(instruction, rng):
    result, dtypes, reference = CASES[instruction]
    given = operands(instruction, dtypes, rng)
    names = ", ".join(f"%{name}" for name in "dabce"[: len(given) + 1])
    found = computed(f"{instruction} {names};", result, *given)
    expected = [wrapped(reference(*row), result) for row in zip(*(g.tolist() for g in given))]
    np.testing.assert_array_equal(found, np.array(expected, result))


@pytest.mark.parametrize("table", [0x00, 0x80, 0xE8, 0x96, 0xCA, 0xFF, 0x1B])
def test_lop3_is_the_function_of_its_table(table, rng):
    a, b, c = (rng.integers(0, 1 << 32, 200, dtype=U32) for _ in range(3))
    expected = np.zeros(200, U32)
    for bit in range(32):
        case = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        expected |= (table >> case & 1).astype(U32) << bit
    np.testing.assert_array_equal(computed(f"lop3.b32 %d, %a, %b, %c, {table};", U32, a, b, c), expected)


@pytest.mark.parametrize(("name", "sign"), [("add", 1), ("sub", -1)])
def test_sums_of_several_words_carry(name, sign, rng):
    lows = some_integers(U32, rng, 6)
    a, b = pairs_of(lows, 2)
    high_a, high_b = rng.permutation(a), rng.permutation(b)
    carry = "addc" if name == "add" else "subc"
    lines = f"""{{ .reg .b32 %la, %ha, %lb, %hb, %ld, %hd; mov.b64 {{%la, %ha}}, %a; mov.b64 {{%lb, %hb}}, %b;
        {name}.cc.u32 %ld, %la, %lb; {carry}.u32 %hd, %ha, %hb; mov.b64 %d, {{%ld, %hd}}; }}"""
    wide = [high.astype(U64) << np.uint64(32) | low for high, low in ((high_a, a), (high_b, b))]
    expected = wide[0] + wide[1] if sign > 0 else wide[0] - wide[1]
    np.testing.assert_array_equal(computed(lines, U64, *wide), expected)


@pytest.mark.parametrize("type_", ["s32", "u64", "s16"])
@pytest.mark.parametrize("name", ["div", "rem"])
def test_division_by_zero_is_found(name, type_):
    numbers = np.array([4, 5, 6], TYPES[type_])
    with pytest.raises(Undefined, match=r"division by zero, by thread \(1, 0, 0\)"):
        computed(f"{name}.{type_} %d, %a, %b;", TYPES[type_], numbers, np.array([1, 0, 1], TYPES[type_]))


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@pytest.mark.parametrize("type_", ["s32", "u32", "s64", "u16"])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_comparisons_of_integers(comparison, type_, rng):
    a, b = pairs_of(some_integers(TYPES[type_], rng), 2)
    holds = np.array([COMPARISONS[comparison](*row) for row in zip(a.tolist(), b.tolist())])
    lines = f"setp.{comparison}.{type_} %p1|%p2, %a, %b; selp.b32 %r1, 1, 0, %p1; selp.b32 %d, 2, %r1, %p2;"
    np.testing.assert_array_equal(computed(lines, U32, a, b), np.where(holds, 1, 2))
    lines = f"set.{comparison}.u32.{type_} %d, %a, %b;"
    np.testing.assert_array_equal(computed(lines, U32, a, b), np.where(holds, 0xFFFFFFFF, 0))


@pytest.mark.parametrize("comparison", UNSIGNED)
def test_comparisons_that_say_unsigned(comparison, rng):
    a, b = pairs_of(some_integers(U32, rng), 2)
    found = computed(f"setp.{comparison}.u32 %p1, %a, %b; selp.b32 %d, 1, 0, %p1;", U32, a, b)
    same = computed(f"setp.{UNSIGNED[comparison]}.u32 %p1, %a, %b; selp.b32 %d, 1, 0, %p1;", U32, a, b)
    np.testing.assert_array_equal(found, same)


@pytest.mark.parametrize("join", ["and", "or", "xor"])
def test_comparisons_join_another_predicate(join, rng):
    function = getattr(np, f"logical_{join}")
    a, b = pairs_of(some_integers(S32, rng), 2)
    lines = f"""setp.gt.s32 %p3, %a, 0; setp.lt.{join}.s32 %p1|%p2, %a, %b, !%p3;
        selp.b32 %r1, 1, 0, %p1; selp.b32 %r2, 2, 0, %p2; or.b32 %d, %r1, %r2;"""
    expected = function(a < b, a <= 0) * 1 + function(a >= b, a <= 0) * 2
    np.testing.assert_array_equal(computed(lines, U32, a, b), expected)


@pytest.mark.parametrize("target", ["u8", "s8", *TYPES])
@pytest.mark.parametrize("source", ["u8", "s8", *TYPES])
@pytest.mark.parametrize("saturate", [False, True])
def test_conversions_of_integers(source, target, saturate, rng):
    types: dict[str, Any] = {**TYPES, "u8": np.uint8, "s8": np.int8}
    given = some_integers(types[source], rng)
    ends, own = np.iinfo(types[target]), np.iinfo(types[source])
    if saturate and ends.min <= own.min and own.max <= ends.max:
        pytest.skip("PTX has no such conversion, since nothing is out of range")
    found = computed(f"cvt{'.sat' * saturate}.{target}.{source} %d, %a;", types[target], given)
    clipped = [min(max(n, ends.min), ends.max) if saturate else n for n in given.tolist()]
    np.testing.assert_array_equal(found, np.array([wrapped(n, types[target]) for n in clipped]))


def test_predicates_have_logic_of_their_own():
    a = np.arange(4, dtype=U32)
    lines = """and.b32 %r1, %a, 1; setp.ne.b32 %p1, %r1, 0; setp.gt.u32 %p2, %a, 1;
        and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2; xor.pred %p5, %p1, %p2; not.pred %p6, %p1; mov.pred %p7, %p2;
        selp.b32 %r2, 1, 0, %p3; selp.b32 %r3, 2, 0, %p4; selp.b32 %r4, 4, 0, %p5; selp.b32 %r5, 8, 0, %p6;
        selp.b32 %r6, 16, 0, %p7; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; add.u32 %r2, %r2, %r5;
        add.u32 %d, %r2, %r6;"""
    np.testing.assert_array_equal(computed(lines, U32, a), [8, 2 + 4, 8 + 2 + 4 + 16, 1 + 2 + 16])


def test_registers_come_apart_and_together():
    a = np.array([0x1122334455667788, math.factorial(20)], U64)
    lines = """mov.b64 {%r1, %r2}, %a; mov.b32 {%h1, _}, %r1; mov.b32 %r3, {%h1, %h1}; mov.b64 %d, {%r2, %r3};"""
    high, low = a >> np.uint64(32), a & np.uint64(0xFFFF)
    np.testing.assert_array_equal(computed(lines, U64, a), high | low << np.uint64(32) | low << np.uint64(48))


@needs_ptxas
def test_ptxas_takes_these_instructions():
    for instruction, (result, dtypes, _) in CASES.items():
        names = ", ".join(f"%{name}" for name in "dabce"[: len(dtypes) + 1])
        assert assemble(computing(f"{instruction} {names};", result, dtypes), "sm_90")
