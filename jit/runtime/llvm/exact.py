"""The parts of C's functions that are exact integer computations, written in LLVM IR: `fmod`, and large angles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from jit.ir.dtypes import float64, int64


def fmod(m: Any, x: Any, y: Any) -> Any:
    """The remainder of x / y with the sign of x, exact."""
    _define(m, "fmod_exact", FMOD, "umax")
    return m.value(float64, m.builder.each_lane("fmod_exact", "double", x.register, y.register))


def quarter_turns(m: Any, x: Any) -> tuple[Any, Any, Any]:
    """x * 2 / pi for |x| >= 2**20: a whole number, modulo 4, and a fraction as a pair."""
    _define(m, "quarter_turns", QUARTER_TURNS, "umin", "umax", "fshr")
    parts = m.builder.call("{ i64, double, double }", "quarter_turns", x.register)
    turns, high, low = (
        m.value(dtype, m.builder.emit(name, f"extractvalue {parts}, {i}", parts))
        for i, (dtype, name) in enumerate([(int64, "i64"), (float64, "double"), (float64, "double")])
    )
    return turns, high, low


def _define(m: Any, name: str, text: str, *intrinsics: str) -> None:
    """Let the kernel contain a function and LLVM's functions of i64 that it calls."""
    m.builder.helpers.setdefault(name, text)
    for called in intrinsics:
        operands = "i64, i64, i64" if called == "fshr" else "i64, i64"
        m.builder.declarations.setdefault(f"llvm.{called}.i64", f"declare i64 @llvm.{called}.i64({operands})")


FMOD = """define internal double @fmod_exact(double %x, double %y) {
entry:
  %xbits = bitcast double %x to i64
  %ybits = bitcast double %y to i64
  %a = and i64 %xbits, 9223372036854775807
  %b = and i64 %ybits, 9223372036854775807
  %none = icmp eq i64 %b, 0
  %endless = icmp uge i64 %a, 9218868437227405312
  %nan = icmp ugt i64 %b, 9218868437227405312
  %either = or i1 %none, %endless
  %invalid = or i1 %either, %nan
  br i1 %invalid, label %undefined, label %valid
undefined:
  ret double 0x7FF8000000000000
valid:
  %below = icmp ult i64 %a, %b
  br i1 %below, label %itself, label %divide
itself:
  ret double %x
divide:                                     ; a = am * 2**(ae - 1075), the same for b
  %afield = lshr i64 %a, 52
  %bfield = lshr i64 %b, 52
  %ae = call i64 @llvm.umax.i64(i64 %afield, i64 1)
  %be = call i64 @llvm.umax.i64(i64 %bfield, i64 1)
  %afraction = and i64 %a, 4503599627370495
  %bfraction = and i64 %b, 4503599627370495
  %anormal = icmp ne i64 %afield, 0
  %bnormal = icmp ne i64 %bfield, 0
  %aone = select i1 %anormal, i64 4503599627370496, i64 0
  %bone = select i1 %bnormal, i64 4503599627370496, i64 0
  %am = or i64 %afraction, %aone
  %bm = or i64 %bfraction, %bone
  %start = urem i64 %am, %bm
  br label %test
test:                                       ; what is left, times 2**ae
  %left = phi i64 [ %start, %divide ], [ %rest, %double ]
  %e = phi i64 [ %ae, %divide ], [ %lower, %double ]
  %more = icmp sgt i64 %e, %be
  br i1 %more, label %double, label %done
double:
  %twice = shl i64 %left, 1
  %over = icmp uge i64 %twice, %bm
  %part = select i1 %over, i64 %bm, i64 0
  %rest = sub i64 %twice, %part
  %lower = sub i64 %e, 1
  br label %test
done:                                       ; times 2**(be - 1075), in two steps that are both exact
  %whole = uitofp i64 %left to double
  %unit = sub i64 %be, 1075
  %half = ashr i64 %unit, 1
  %other = sub i64 %unit, %half
  %h = add i64 %half, 1023
  %o = add i64 %other, 1023
  %hbits = shl i64 %h, 52
  %obits = shl i64 %o, 52
  %hpower = bitcast i64 %hbits to double
  %opower = bitcast i64 %obits to double
  %once = fmul double %whole, %hpower
  %size = fmul double %once, %opower
  %sizebits = bitcast double %size to i64
  %sign = and i64 %xbits, -9223372036854775808
  %bits = or i64 %sizebits, %sign
  %result = bitcast i64 %bits to double
  ret double %result
}
"""

DIGITS = 1216
"""The number of bits of 2 / pi in the table: as many as the largest float64 needs, and some more."""


def two_over_pi() -> list[int]:
    """2 / pi * 2**DIGITS in words of 64 bits, the lowest first; pi by Machin's formula."""
    unit = 1 << (DIGITS + 64)

    def arctangent(inverse: int) -> int:
        term, total, n = unit // inverse, 0, 1
        while term:
            total += term // n if n % 4 == 1 else -(term // n)
            term //= inverse * inverse
            n += 2
        return total

    pi = Fraction(4 * (4 * arctangent(5) - arctangent(239)), unit)
    number = int(2 / pi * (1 << DIGITS))
    return [number >> (64 * i) & (2**64 - 1) for i in range(DIGITS // 64)] + [0, 0, 0]


_QUARTER_TURNS = """; x * 2 / pi as a whole number, modulo 4, and a fraction in two parts, for |x| >= 2**20.
; x = M * 2**E. Of 2 / pi, bits of more than 2**(2 - E) add multiples of 4; of the others the first 192 are enough.
@two_over_pi = internal constant [COUNT x i64] [WORDS]
define internal { i64, double, double } @quarter_turns(double %x) {
  %xbits = bitcast double %x to i64
  %field = lshr i64 %xbits, 52
  %exponent = and i64 %field, 2047
  %finite = call i64 @llvm.umin.i64(i64 %exponent, i64 2046)
  %large = call i64 @llvm.umax.i64(i64 %finite, i64 1043)
  %fraction = and i64 %xbits, 4503599627370495
  %M = or i64 %fraction, 4503599627370496
  %shift = sub i64 SHIFT, %large
  %word = lshr i64 %shift, 6
  %bit = and i64 %shift, 63
  %p0 = getelementptr i64, ptr @two_over_pi, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %w0 = load i64, ptr %p0
  %w1 = load i64, ptr %p1
  %w2 = load i64, ptr %p2
  %w3 = load i64, ptr %p3
  %low = call i64 @llvm.fshr.i64(i64 %w1, i64 %w0, i64 %bit)
  %middle = call i64 @llvm.fshr.i64(i64 %w2, i64 %w1, i64 %bit)
  %high = call i64 @llvm.fshr.i64(i64 %w3, i64 %w2, i64 %bit)
  %wideM = zext i64 %M to i128
  %widelow = zext i64 %low to i128
  %widemiddle = zext i64 %middle to i128
  %lowproduct = mul i128 %wideM, %widelow
  %middleproduct = mul i128 %wideM, %widemiddle
  %highproduct = mul i64 %M, %high
  %carry = lshr i128 %lowproduct, 64
  %upper = add i128 %middleproduct, %carry
  %placed = zext i64 %highproduct to i128
  %shifted = shl i128 %placed, 64
  %turns = add i128 %upper, %shifted          ; the upper 128 bits of M * 2 / pi, the first two before the point
  %wholeturns = lshr i128 %turns, 126
  %whole = trunc i128 %wholeturns to i64
  %after = shl i128 %turns, 2
  %tophalf = lshr i128 %after, 64
  %top = trunc i128 %tophalf to i64
  %bottom = trunc i128 %after to i64
  %up = lshr i64 %top, 63                     ; a fraction of a half or more is one less, of the next whole number
  %nearest = add i64 %whole, %up
  %coarse = and i64 %top, -2048
  %fine = and i64 %top, 2047
  %coarsenumber = sitofp i64 %coarse to double
  %finenumber = uitofp i64 %fine to double
  %bottomnumber = uitofp i64 %bottom to double
  %a = fmul double %coarsenumber, 0x3BF0000000000000
  %b = fmul double %finenumber, 0x3BF0000000000000
  %c = fmul double %bottomnumber, 0x37F0000000000000
  %bc = fadd double %b, %c
  %sum = fadd double %a, %bc
  %back = fsub double %sum, %a
  %lost = fsub double %bc, %back
  %negative = icmp slt i64 %xbits, 0
  %minussum = fneg double %sum
  %minuslost = fneg double %lost
  %minuswhole = sub i64 0, %nearest
  %n = select i1 %negative, i64 %minuswhole, i64 %nearest
  %s = select i1 %negative, double %minussum, double %sum
  %l = select i1 %negative, double %minuslost, double %lost
  %r0 = insertvalue { i64, double, double } poison, i64 %n, 0
  %r1 = insertvalue { i64, double, double } %r0, double %s, 1
  %r2 = insertvalue { i64, double, double } %r1, double %l, 2
  ret { i64, double, double } %r2
}
"""
_WORDS = two_over_pi()
QUARTER_TURNS = (
    _QUARTER_TURNS.replace("COUNT", str(len(_WORDS)))
    .replace("WORDS", ", ".join(f"i64 {word}" for word in _WORDS))
    .replace("SHIFT", str(DIGITS - 190 + 1075))
)
