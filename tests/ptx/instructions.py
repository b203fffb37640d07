"""What instructions compute that touch nothing but their operands: one entry of a table for each opcode.

A rule reads the suffixes of an instruction (its `Form`) and says the types of results and operands, and the function
from arrays to arrays, one element for each thread. A suffix that no rule asks for is an UnknownInstruction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import arithmetic
from .arithmetic import BFLOAT16, Array
from .findings import Undefined, UnknownInstruction
from .memory import WINDOWS
from .parser import WIDTHS

Compute = Callable[..., Any]

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(f"{'i' if name[0] == 's' else 'u'}{width}") for name, width in WIDTHS.items()
} | {"f16": np.dtype(np.float16), "bf16": BFLOAT16, "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
     "pred": np.dtype(bool)}  # fmt: skip
"""What a register is read as; packed pairs and tf32 are read as their bits."""
PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}


class Rule(NamedTuple):
    """The types of an instruction's results and operands, and what it computes."""

    results: tuple[str, ...]
    operands: tuple[str, ...]
    compute: Compute
    takes_carry: bool = False
    gives_carry: bool = False
    """Whether the carry flag is one more operand, or one more result."""


class Form:
    """The suffixes of an instruction: types, and modifiers that a rule asks for."""

    def __init__(self, opcode: str) -> None:
        self.opcode = opcode
        suffixes = opcode.split(".")[1:]
        self.types = [s for s in suffixes if s in DTYPES]
        self.modifiers = [s for s in suffixes if s not in DTYPES]
        self.asked: set[str] = set()

    @property
    def type(self) -> str:
        if not self.types:
            raise UnknownInstruction(f"{self.opcode} says no type")
        return self.types[-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self.type]

    @property
    def is_float(self) -> bool:
        return self.type in PAIRS or self.type in ("f16", "bf16", "f32", "f64")

    @property
    def mode(self) -> str:
        """The rounding."""
        return self.one_of("rn", "rz", "rm", "rp") or "rn"

    def has(self, modifier: str) -> bool:
        self.asked.add(modifier)
        return modifier in self.modifiers

    def one_of(self, *modifiers: str) -> str:
        """The first of these modifiers that is there, or ""."""
        return next((m for m in modifiers if self.has(m)), "")

    def check(self) -> None:
        """UnknownInstruction if a modifier means nothing to the rule."""
        for modifier in self.modifiers:
            if modifier not in self.asked:
                raise UnknownInstruction(f"{self.opcode}: '.{modifier}' is not known here")


RULES: dict[str, Callable[[Form], Rule]] = {}


def rule(*names: str) -> Callable[[Callable[[Form], Rule]], Callable[[Form], Rule]]:
    """Enter a rule into the table."""

    def enter(function: Callable[[Form], Rule]) -> Callable[[Form], Rule]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def rule_of(opcode: str) -> Rule | None:
    """The rule of an opcode with its suffixes, or None if it does more than compute."""
    form = Form(opcode)
    found = RULES.get(opcode.partition(".")[0])
    if found is None:
        return None
    made = found(form)
    form.check()
    return made


def same(form: Form, count: int, compute: Compute, **carries: bool) -> Rule:
    """A rule whose operands and result have one type."""
    return Rule((form.type,), (form.type,) * count, compute, **carries)


# -- floats --------------------------------------------------------------------------------------------------------


def floats(form: Form, count: int, compute: Compute) -> Rule:
    """A rule of floats, with `.ftz`, `.sat`, `.relu` and canonical NaN around what it computes."""
    flush, saturate, positive = form.has("ftz"), form.has("sat"), form.has("relu")

    def around(*operands: Array) -> Array:
        if flush:
            operands = tuple(map(arithmetic.flushed, operands))
        found = arithmetic.with_nan(compute(*operands))
        found = arithmetic.flushed(found) if flush else found
        if positive:
            found = np.where(found < 0, found.dtype.type(0), found)
        return arithmetic.saturated(found) if saturate else found

    return same(form, count, in_pairs(around, form.type) if form.type in PAIRS else around)


def in_pairs(compute: Compute, type_: str) -> Compute:
    """The computation on both halves of 32 bits."""
    half = DTYPES[PAIRS[type_]]

    def on_halves(*operands: Array) -> Array:
        halves = [np.atleast_1d(o).view(half).reshape(-1, 2) for o in operands]
        return np.ascontiguousarray(compute(*halves)).view(np.uint32).reshape(-1)

    return on_halves


def through_double(function: Callable[[Array], Array]) -> Compute:
    """An approximation: computed in float64 and rounded."""
    return lambda *operands: arithmetic.narrow(
        function(*(o.astype(np.float64) for o in operands)), operands[0].dtype
    )  # fmt: skip


def sign_only(form: Form, integers: Compute, mask: Compute) -> Rule:
    """abs and neg: on floats they change the sign's bit alone."""
    if not form.is_float:
        return same(form, 1, integers)

    def compute(values: Array) -> Array:
        word = arithmetic.bits(values)
        return mask(word, word.dtype.type(1 << (8 * word.dtype.itemsize - 1))).view(values.dtype)

    flush = form.has("ftz")
    on_sign = (lambda values: compute(arithmetic.flushed(values))) if flush else compute
    return same(form, 1, in_pairs(on_sign, form.type) if form.type in PAIRS else on_sign)


@rule("abs")
def _abs(form: Form) -> Rule:
    return sign_only(form, np.abs, lambda word, sign: word & ~sign)


@rule("neg")
def _neg(form: Form) -> Rule:
    return sign_only(form, np.negative, lambda word, sign: word ^ sign)


@rule("fma")
def _fma(form: Form) -> Rule:
    mode = form.mode
    return floats(form, 3, lambda a, b, c: arithmetic.fma(a, b, c, mode))


@rule("div")
def _div(form: Form) -> Rule:
    if not form.is_float:
        return same(form, 2, lambda a, b: quotient(a, b)[0])
    form.one_of("approx", "full")
    mode = form.mode
    return floats(form, 2, lambda a, b: arithmetic.binary("div", a, b, mode))


@rule("rcp")
def _rcp(form: Form) -> Rule:
    form.one_of("approx")
    mode = form.mode
    return floats(form, 1, lambda a: arithmetic.binary("div", a.dtype.type(1), a, mode))


@rule("sqrt")
def _sqrt(form: Form) -> Rule:
    form.one_of("approx")
    mode = form.mode
    return floats(form, 1, lambda a: arithmetic.root(a, mode))


APPROXIMATIONS: dict[str, Callable[[Array], Array]] = {
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@rule(*APPROXIMATIONS)
def _approximation(form: Form) -> Rule:
    form.one_of("approx")
    return floats(form, 1, through_double(APPROXIMATIONS[form.opcode.partition(".")[0]]))


@rule("copysign")
def _copysign(form: Form) -> Rule:
    return same(form, 2, lambda sign, value: np.copysign(value, sign))


TESTS: dict[str, Compute] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).smallest_normal),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal),
}


@rule("testp")
def _testp(form: Form) -> Rule:
    return Rule(("pred",), (form.type,), TESTS[form.one_of(*TESTS)])


# -- arithmetic of both kinds --------------------------------------------------------------------------------------


@rule("add", "sub")
def _add(form: Form) -> Rule:
    name = form.opcode.partition(".")[0]
    if form.is_float:
        mode = form.mode
        return floats(form, 2, lambda a, b: arithmetic.binary(name, a, b, mode))
    if form.has("cc"):
        return with_carry(form, name, takes=False)
    wrapping = operator.add if name == "add" else operator.sub
    return same(form, 2, clamped(wrapping, form.dtype) if form.has("sat") else wrapping)


def clamped(operation: Compute, dtype: np.dtype[Any]) -> Compute:
    """A sum or difference of 32 bits that stops at the ends of its range."""
    ends = np.iinfo(dtype)
    return lambda a, b: np.clip(operation(a.astype(np.int64), b.astype(np.int64)), ends.min, ends.max).astype(dtype)


@rule("addc", "subc")
def _addc(form: Form) -> Rule:
    return with_carry(form, form.opcode[:3], takes=True)


def with_carry(form: Form, name: str, takes: bool) -> Rule:
    """Sums and differences in several words."""
    gives = form.has("cc")
    word = np.dtype(f"u{form.dtype.itemsize}")

    def compute(a: Array, b: Array, carry: Array | None = None) -> Any:
        a, b = a.view(word), b.view(word)
        extra = word.type(0) if carry is None else carry.astype(word)
        if name == "add":
            found = a + b + extra
            carried = (found < a) | (found == a) & (b != 0) & (extra != 0)
        else:
            found, carried = a - b - extra, (a < b) | (a == b) & (extra != 0)
        return (found.view(form.dtype), carried) if gives else found.view(form.dtype)

    return same(form, 2, compute, takes_carry=takes, gives_carry=gives)


@rule("mul")
def _mul(form: Form) -> Rule:
    if form.is_float:
        mode = form.mode
        return floats(form, 2, lambda a, b: arithmetic.binary("mul", a, b, mode))
    part = form.one_of("lo", "hi", "wide")
    return Rule((product_type(form, part),), (form.type,) * 2, PRODUCTS[part])


@rule("mad")
def _mad(form: Form) -> Rule:
    if form.is_float:
        return _fma(form)
    part = form.one_of("lo", "hi", "wide")
    type_ = product_type(form, part)
    return Rule((type_,), (form.type, form.type, type_), lambda a, b, c: PRODUCTS[part](a, b) + c)


def product_type(form: Form, part: str) -> str:
    """The type of a product's half, or of all of it."""
    return f"{form.type[0]}{16 * form.dtype.itemsize}" if part == "wide" else form.type


def wide_product(a: Array, b: Array) -> Array:
    """The product in twice as many bits."""
    wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
    return a.astype(wide) * b.astype(wide)


def high_product(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    if a.dtype.itemsize < 8:
        return (wide_product(a, b) >> (8 * a.dtype.itemsize)).astype(a.dtype)
    x, y, low, half = a.view(np.uint64), b.view(np.uint64), np.uint64(0xFFFFFFFF), np.uint64(32)
    cross = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (cross & low)
    high = (x >> half) * (y >> half) + (cross >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


PRODUCTS: dict[str, Compute] = {"lo": operator.mul, "hi": high_product, "wide": wide_product}


def quotient(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient to zero and remainder; Undefined where the divisor is zero."""
    if not b.all():
        raise Undefined("division by zero", int(np.argmin(b != 0)))
    if a.dtype.kind == "u":
        return a // b, a % b
    word = np.dtype(f"u{a.dtype.itemsize}")
    size_a, size_b = np.abs(a).view(word), np.abs(b).view(word)
    found, left = (size_a // size_b).view(a.dtype), (size_a % size_b).view(a.dtype)
    return np.where((a < 0) != (b < 0), -found, found), np.where(a < 0, -left, left)


@rule("rem")
def _rem(form: Form) -> Rule:
    return same(form, 2, lambda a, b: quotient(a, b)[1])


@rule("min", "max")
def _extreme(form: Form) -> Rule:
    larger = form.opcode.startswith("max")
    if not form.is_float:
        return same(form, 2, np.maximum if larger else np.minimum)
    propagate = form.has("NaN")
    return floats(form, 2, lambda a, b: arithmetic.extreme(a, b, larger, propagate))


@rule("sad")
def _sad(form: Form) -> Rule:
    return same(form, 3, lambda a, b, c: c + np.where(a < b, b - a, a - b))


# -- bits ----------------------------------------------------------------------------------------------------------


@rule("and", "or", "xor")
def _logical(form: Form) -> Rule:
    return same(form, 2, {"a": operator.and_, "o": operator.or_, "x": operator.xor}[form.opcode[0]])


@rule("not")
def _not(form: Form) -> Rule:
    return same(form, 1, np.invert)


@rule("cnot")
def _cnot(form: Form) -> Rule:
    return same(form, 1, lambda a: (a == 0).astype(a.dtype))


@rule("shl", "shr")
def _shift(form: Form) -> Rule:
    move = operator.lshift if form.opcode.startswith("shl") else operator.rshift
    return Rule((form.type,), (form.type, "u32"), lambda a, n: shifted(move, a, n))


def shifted(move: Compute, a: Array, amounts: Array) -> Array:
    """A shift; one by all bits or more leaves zeros, or the sign."""
    width = 8 * a.dtype.itemsize
    most = move(a, np.minimum(amounts, width - 1).astype(a.dtype))
    beyond = a.dtype.type(-1) * (a < 0) if a.dtype.kind == "i" else a.dtype.type(0)
    return np.where(amounts < width, most, beyond).astype(a.dtype)


@rule("shf")
def _shf(form: Form) -> Rule:
    left, clamp = form.one_of("l", "r") == "l", form.one_of("clamp", "wrap") == "clamp"

    def compute(low: Array, high: Array, amounts: Array) -> Array:
        amounts = (np.minimum(amounts, 32) if clamp else amounts & 31).astype(np.uint64)
        both = (high.astype(np.uint64) << np.uint64(32)) | low
        return ((both << amounts) >> np.uint64(32) if left else both >> amounts).astype(np.uint32)

    return same(form, 3, compute)


def low_bits(count: Array, dtype: np.dtype[Any]) -> Array:
    """Words whose lowest bits are set."""
    width = 8 * dtype.itemsize
    ones = dtype.type(2**width - 1)
    kept = np.minimum(count, width)
    return np.where(kept == 0, dtype.type(0), ones >> np.minimum(width - kept, width - 1).astype(dtype))


@rule("bfe")
def _bfe(form: Form) -> Rule:
    """Bits `length` from `start` on; of signed numbers, the last of them goes on to the left."""
    width, word = 8 * form.dtype.itemsize, np.dtype(f"u{form.dtype.itemsize}")

    def compute(a: Array, start: Array, length: Array) -> Array:
        start, length = start & 255, length & 255
        mask = low_bits(length, word)
        found = shifted(operator.rshift, a, start).view(word) & mask
        if a.dtype.kind == "i":
            last = np.minimum(start + length - np.minimum(length, 1), width - 1)
            negative = (a.view(word) >> last.astype(word) & word.type(1) != 0) & (length > 0)
            found = np.where(negative, found | ~mask, found)
        return found.view(form.dtype)

    return Rule((form.type,), (form.type, "u32", "u32"), compute)


@rule("bfi")
def _bfi(form: Form) -> Rule:
    def compute(a: Array, b: Array, start: Array, length: Array) -> Array:
        start = start & 255
        mask = shifted(operator.lshift, low_bits(length & 255, form.dtype), start)
        return b & ~mask | shifted(operator.lshift, a, start) & mask

    return Rule((form.type,), (form.type, form.type, "u32", "u32"), compute)


@rule("prmt")
def _prmt(form: Form) -> Rule:
    """Each nibble of the third operand chooses a byte of the first two, or that byte's sign."""

    def compute(a: Array, b: Array, chosen: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        found = np.zeros_like(a)
        for place in range(4):
            nibble = chosen >> np.uint32(4 * place)
            byte = (both >> ((nibble & 7) * 8).astype(np.uint64)).astype(np.uint32) & np.uint32(255)
            byte = np.where(nibble & 8, np.where(byte & 128, np.uint32(255), np.uint32(0)), byte)
            found = found | byte << np.uint32(8 * place)
        return found

    return same(form, 3, compute)


@rule("lop3")
def _lop3(form: Form) -> Rule:
    """Any function of three bits: bit `4a + 2b + c` of the table is its value."""

    def compute(a: Array, b: Array, c: Array, table: Array) -> Array:
        found = np.zeros_like(a)
        for case in range(8):
            holds = [word if case & bit else ~word for word, bit in ((a, 4), (b, 2), (c, 1))]
            found = found | np.where(table >> np.uint32(case) & 1, holds[0] & holds[1] & holds[2], np.uint32(0))
        return found

    return same(form, 4, compute)


def smeared(a: Array) -> Array:
    """Words in which everything below the first set bit is set, too."""
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < 8 * a.dtype.itemsize:
            a = a | a >> a.dtype.type(shift)
    return a


@rule("popc", "clz")
def _count(form: Form) -> Rule:
    width = 8 * form.dtype.itemsize
    if form.opcode.startswith("popc"):
        return Rule(("u32",), (form.type,), lambda a: np.bitwise_count(a).astype(np.uint32))
    return Rule(("u32",), (form.type,), lambda a: (width - np.bitwise_count(smeared(a))).astype(np.uint32))


@rule("bfind")
def _bfind(form: Form) -> Rule:
    """The place of the first set bit, of negative numbers of the first that is not; all ones if there is none."""
    width, word, amount = 8 * form.dtype.itemsize, np.dtype(f"u{form.dtype.itemsize}"), form.has("shiftamt")

    def compute(a: Array) -> Array:
        significant = np.where(a < 0, ~a, a).view(word)
        place = np.bitwise_count(smeared(significant)).astype(np.int64) - 1
        return np.where(place < 0, -1, width - 1 - place if amount else place).astype(np.uint32)

    return Rule(("u32",), (form.type,), compute)


@rule("brev")
def _brev(form: Form) -> Rule:
    def compute(a: Array) -> Array:
        octets = np.atleast_1d(a).view(np.uint8).reshape(-1, a.dtype.itemsize)
        return np.packbits(np.unpackbits(octets, axis=1, bitorder="little"), axis=1).view(a.dtype.newbyteorder(">"))[
            :, 0
        ].astype(a.dtype)  # fmt: skip

    return same(form, 1, compute)


# -- comparing and choosing ----------------------------------------------------------------------------------------

COMPARISONS: dict[str, Compute] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
JOINS: dict[str, Compute] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def comparison(form: Form) -> Compute:
    """The comparison that a form asks for; of floats, those with u hold for NaN and the others do not."""
    flush = form.has("ftz")
    name = form.one_of(*COMPARISONS, *(f"{c}u" for c in COMPARISONS), "num", "nan")
    if not form.is_float:
        return COMPARISONS[name]

    def compare(a: Array, b: Array) -> Array:
        if flush:
            a, b = arithmetic.flushed(a), arithmetic.flushed(b)
        unordered = np.isnan(a) | np.isnan(b)
        if name in ("num", "nan"):
            return unordered if name == "nan" else ~unordered
        if name not in COMPARISONS:
            return unordered | COMPARISONS[name[:-1]](a, b)
        return ~unordered & COMPARISONS[name](a, b)

    return compare


@rule("setp")
def _setp(form: Form) -> Rule:
    """One or two predicates: the comparison and its opposite, each joined with a third operand if there is one."""
    compare, join = comparison(form), form.one_of(*JOINS)
    if not join:
        return Rule(("pred", "pred"), (form.type,) * 2, lambda a, b: both_ways(compare(a, b)))
    joined = JOINS[join]

    def compute(a: Array, b: Array, other: Array) -> tuple[Array, Array]:
        first, second = both_ways(compare(a, b))
        return joined(first, other), joined(second, other)

    return Rule(("pred", "pred"), (form.type, form.type, "pred"), compute)


def both_ways(holds: Array) -> tuple[Array, Array]:
    return holds, ~holds


@rule("set")
def _set(form: Form) -> Rule:
    """All ones, or 1.0, where a comparison holds."""
    compare, join = comparison(form), form.one_of(*JOINS)
    result = DTYPES[form.types[0]]
    true = np.invert(result.type(0)) if result.kind in "iu" else result.type(1)

    def compute(a: Array, b: Array, *other: Array) -> Array:
        holds = JOINS[join](compare(a, b), other[0]) if join else compare(a, b)
        return np.where(holds, true, result.type(0))

    return Rule((form.types[0],), (form.type,) * 2 + ("pred",) * bool(join), compute)


@rule("selp")
def _selp(form: Form) -> Rule:
    return Rule((form.type,), (form.type, form.type, "pred"), lambda a, b, holds: np.where(holds, a, b))


@rule("slct")
def _slct(form: Form) -> Rule:
    flush, (type_, sign) = form.has("ftz"), form.types

    def compute(a: Array, b: Array, c: Array) -> Array:
        return np.where((arithmetic.flushed(c) if flush else c) >= 0, a, b)

    return Rule((type_,), (type_, type_, sign), compute)


@rule("mov")
def _mov(form: Form) -> Rule:
    return same(form, 1, np.copy)


@rule("cvta")
def _cvta(form: Form) -> Rule:
    """An address of a space as a generic one, or back."""
    back = form.has("to")
    window = form.dtype.type(WINDOWS[form.one_of(*WINDOWS)])
    return same(form, 1, (lambda a: a - window) if back else (lambda a: a + window))


# -- converting ----------------------------------------------------------------------------------------------------


@rule("cvt")
def _cvt(form: Form) -> Rule:
    to, source = form.types
    if to in PAIRS:
        return pack_rule(form, to, source)
    if to == "tf32" and form.has("rna"):
        return Rule((to,), (source,), to_tf32)
    return Rule((to,), (source,), converter(form, DTYPES[to], DTYPES[source]))


def converter(form: Form, to: np.dtype[Any], source: np.dtype[Any]) -> Compute:
    """The conversion between two types, by their kinds."""
    flush, saturate, positive = form.has("ftz"), form.has("sat"), form.has("relu")
    integral, mode = form.one_of("rni", "rzi", "rmi", "rpi"), form.mode
    is_float, was_float = to.kind not in "iub", source.kind not in "iub"
    if not is_float and not was_float:
        return (lambda a: clipped(a, to)) if saturate else (lambda a: a.astype(to))
    if not is_float:
        return lambda a: to_integers(arithmetic.flushed(a) if flush and a.dtype == np.float32 else a, to, integral)

    def convert(a: Array) -> Array:
        a = arithmetic.flushed(a) if flush and a.dtype == np.float32 else a
        if integral:
            a = arithmetic.TO_INTEGRAL[integral[:2]](a.astype(np.float64))
        if not was_float and to == np.float64 and mode != "rn":
            found = arithmetic.double_of_integers(a, mode)
        elif was_float or mode != "rn" or to.itemsize < 4:
            found = arithmetic.narrow(arithmetic.widened(a), to, mode)
        else:
            found = a.astype(to)
        found = arithmetic.with_nan(found)
        found = arithmetic.flushed(found) if flush and to == np.float32 else found
        found = np.where(found < 0, to.type(0), found) if positive else found
        return arithmetic.saturated(found) if saturate else found

    return convert


def clipped(a: Array, to: np.dtype[Any]) -> Array:
    """Integers that stop at the ends of another type's range."""
    ends, own = np.iinfo(to), np.iinfo(a.dtype)
    return np.clip(a, a.dtype.type(max(ends.min, own.min)), a.dtype.type(min(ends.max, own.max))).astype(to)


def to_integers(a: Array, to: np.dtype[Any], integral: str) -> Array:
    """Floats as integers: beyond the range its end, and for NaN zero, or with 64 bits only the first bit set."""
    wide = arithmetic.TO_INTEGRAL[integral[:2]](a.astype(np.float64))
    ends = np.iinfo(to)
    low, high = wide <= float(ends.min), wide >= float(ends.max)
    found = np.where(low | high | np.isnan(wide), 0.0, wide).astype(to)
    found = np.where(low, to.type(ends.min), np.where(high, to.type(ends.max), found))
    if to.itemsize == 8 or a.dtype.itemsize == 8:
        nan = np.array(1 << (8 * to.itemsize - 1), f"u{to.itemsize}").view(to)
        return np.where(np.isnan(wide), nan, found)
    return found


def pack_rule(form: Form, to: str, source: str) -> Rule:
    """Two floats in one register, the first operand in its upper half."""
    convert = converter(form, DTYPES[PAIRS[to]], DTYPES[source])

    def compute(high: Array, low: Array) -> Array:
        upper, lower = (arithmetic.bits(convert(half)).astype(np.uint32) for half in (high, low))
        return upper << np.uint32(16) | lower

    return Rule((to,), (source, source), compute)


def to_tf32(a: Array) -> Array:
    """A float32 with ten bits after the first: rounded to nearest, ties away from zero."""
    word = arithmetic.bits(a)
    return np.where(np.isfinite(a), word + np.uint32(0x1000) & ~np.uint32(0x1FFF), word)
