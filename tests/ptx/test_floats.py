"""Instructions on floats: every rounding against exact fractions, NaN and zeros against the manual's words."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jit.runtime.gpu.ptxas import assemble

from ..runtime.test_ptxas import needs_ptxas
from .arithmetic import BFLOAT16
from .lines import computed, computing, pairs_of, some_floats, some_integers

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers overflow, which is what is tested

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
TYPES = {"f16": F16, "bf16": BFLOAT16, "f32": F32, "f64": F64}
MODES = ("rn", "rz", "rm", "rp")


def neighbours(value: Fraction, dtype: Any) -> tuple[Any, Any]:
    """The largest number of a format that is not above a value, and the smallest that is not below; both may be one."""
    try:
        near = np.array(float(value)).astype(dtype)[()]
    except OverflowError:
        near = dtype.type(math.inf if value > 0 else -math.inf)
    # Python compares floats, infinities too, with fractions exactly.
    while float(near) > value:
        near = stepped(near, -math.inf)
    while float(above := stepped(near, math.inf)) <= value:
        near = above
    return near, near if float(near) == value else above


def stepped(number: Any, toward: float) -> Any:
    """The next number of a format."""
    one = np.array([number])
    return np.nextafter(one, np.array([toward]).astype(one.dtype))[0]


def size_of(number: Any) -> Fraction:
    """A number's value, where what would come behind the largest takes the place of infinity."""
    if math.isfinite(number):
        return Fraction(float(number))
    largest = stepped(number, 0.0)
    return 2 * Fraction(float(largest)) - Fraction(float(stepped(largest, 0.0)))


def rounded(value: Fraction, dtype: Any, mode: str) -> Any:
    """What a format makes of an exact number that is not zero: found among its neighbours."""
    below, above = neighbours(value, dtype)
    if below == above:
        return below
    if mode in ("rm", "rp"):
        return below if mode == "rm" else above
    if mode == "rz":
        return below if value > 0 else above
    down, up = value - size_of(below), size_of(above) - value
    if down != up:
        return below if down < up else above
    return below if bits_of(below) % 2 == 0 else above


def bits_of(number: Any) -> int:
    return int(np.array(number).view(f"u{np.array(number).dtype.itemsize}"))


def assert_rounds(found: Any, exact: list[Fraction | None], dtype: Any, mode: str) -> None:
    """Compare where the exact result is a number, not zero, and all operands are finite."""
    compared = 0
    for number, value in zip(found, exact, strict=True):
        if value:
            expected = rounded(value, dtype, mode)
            assert bits_of(number) == bits_of(expected) or number == expected == 0, (number, expected, float(number))
            compared += 1
    assert compared > 20


def exactly(function: Callable[..., Fraction], *operands: Any) -> list[Fraction | None]:
    found: list[Fraction | None] = []
    for row in zip(*(o.astype(np.float64).tolist() for o in operands)):
        finite = all(map(math.isfinite, row)) and not (function is quotient and row[-1] == 0)
        found.append(function(*map(Fraction, row)) if finite else None)
    return found


def quotient(a: Fraction, b: Fraction) -> Fraction:
    return a / b


OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": quotient,
    "fma": lambda a, b, c: a * b + c,
}
FORMS = [
    f"{name}.{mode}.{type_}"
    for name in OPERATIONS
    for type_ in TYPES
    for mode in MODES
    if type_ in ("f32", "f64") or (mode == "rn" and name != "div")
]


def close_to_ties(dtype: Any, rng: np.random.Generator) -> list[Any]:
    """Factors and addends of which many sums lie on or just beside the midpoint of two numbers."""
    a, b = (rng.normal(size=60).astype(dtype) for _ in range(2))
    c = (-(a.astype(np.float64) * b.astype(np.float64))).astype(dtype)
    tiny = rng.choice([0.0, 1.0, -1.0, 2.0**-30, -(2.0**-60)], 60).astype(dtype)
    half = (rng.integers(1, 100, 60) * 2 + 1).astype(dtype) * dtype.type(2.0 ** -np.finfo(F32).nmant)
    return [np.concatenate([a, np.ones(60, dtype)]), np.concatenate([b, tiny]), np.concatenate([c, half])]


@pytest.mark.parametrize("instruction", FORMS)
def test_rounding(instruction, rng):
    name, mode, type_ = instruction.split(".")
    dtype, count = TYPES[type_], 3 if name == "fma" else 2
    pool = some_floats(dtype, rng, 10)
    given = pairs_of(pool, 2) if count == 2 else [rng.choice(pool, 400) for _ in range(3)]
    given = [np.concatenate(both) for both in zip(given, close_to_ties(dtype, rng))]
    names = ", ".join(f"%{letter}" for letter in "dabc"[: count + 1])
    found = computed(f"{instruction} {names};", dtype, *given)
    assert_rounds(found, exactly(OPERATIONS[name], *given), dtype, mode)


def test_subnormal_results_are_rounded_once():
    """The product lies 2**-196 below the midpoint of two numbers, which float64 does not see."""
    a, b = np.float32((1 + 2.0**-23) * 2.0**-75), np.float32((1 - 2.0**-23) * 2.0**-75)
    c = np.array([2.0**-127 + 2.0**-149], np.float32)
    found = computed("fma.rn.f32 %d, %a, %b, %c;", F32, np.full(1, a), np.full(1, b), c)
    np.testing.assert_array_equal(found, c)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_roots_and_reciprocals(type_, mode, rng):
    dtype = TYPES[type_]
    given = np.abs(some_floats(dtype, rng, 60))
    given = given[np.isfinite(given) & (given > 0)]
    found = computed(f"rcp.{mode}.{type_} %d, %a;", dtype, given)
    assert_rounds(found, [1 / Fraction(float(n)) for n in given], dtype, mode)
    for root, number in zip(computed(f"sqrt.{mode}.{type_} %d, %a;", dtype, given), given):
        below, above = (Fraction(float(step)) for step in (np.nextafter(root, dtype.type(s)) for s in (0, np.inf)))
        here, square = Fraction(float(root)), Fraction(float(number))
        assert mode not in ("rm", "rz") or here**2 <= square < above**2
        assert mode != "rp" or below**2 < square <= here**2
        assert mode != "rn" or ((below + here) / 2) ** 2 <= square <= ((here + above) / 2) ** 2


@pytest.mark.parametrize("mode", MODES)
def test_zeros_have_signs(mode):
    a, b = pairs_of(np.array([0.0, -0.0, 1.0, -1.0], np.float32), 2)
    down = mode == "rm"
    found = computed(f"add.{mode}.f32 %d, %a, %b;", F32, a, b)
    zero = found == 0
    expected = np.where(np.signbit(a) == np.signbit(b), np.signbit(a), down)
    np.testing.assert_array_equal(np.signbit(found)[zero], expected[zero])
    fused = computed(f"fma.{mode}.f32 %d, %a, %a, %b;", F32, a, b)
    zero = fused == 0
    np.testing.assert_array_equal(np.signbit(fused)[zero], (np.signbit(b) & (a == 0) * down | down & (a != 0))[zero])


SPECIAL = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "fma"])
def test_infinities_and_nan(name, type_):
    dtype = TYPES[type_]
    a, b, c = pairs_of(SPECIAL.astype(dtype), 3)
    operands = {"fma": "%a, %b, %c"}.get(name, "%a, %b")
    found = computed(f"{name}.rn.{type_} %d, {operands};", dtype, a, b, c).astype(np.float64)
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    with np.errstate(invalid="ignore"):
        expected = {"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}[name]
    np.testing.assert_array_equal(found, expected)


def test_what_makes_nan_makes_the_canonical_one():
    a = np.array([np.inf, 0.0, np.nan], np.float32)
    found = computed("sub.rn.f32 %d, %a, %b;", np.uint32, a, np.array([np.inf, np.nan, 1], np.float32))
    np.testing.assert_array_equal(found, [0x7FFFFFFF] * 3)


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_minima_and_maxima(name, type_, rng):
    dtype = TYPES[type_]
    a, b = pairs_of(np.concatenate([some_floats(dtype, rng), SPECIAL.astype(dtype)]), 2)
    found = computed(f"{name}.{type_} %d, %a, %b;", dtype, a, b)
    choose = min if name == "min" else max
    for x, y, result in zip(a, b, found):
        if math.isnan(x) or math.isnan(y):
            assert result == (x if math.isnan(y) else y) or math.isnan(x) and math.isnan(y) and math.isnan(result)
        else:
            # The sign decides between zeros: -0 is less than +0.
            expected = choose((float(x), math.copysign(1, x)), (float(y), math.copysign(1, y)))
            assert (float(result), math.copysign(1, result)) == expected
    if type_ != "f64":
        found = computed(f"{name}.NaN.{type_} %d, %a, %b;", dtype, a, b)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(a) | np.isnan(b))


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", [*COMPARISONS, *(f"{c}u" for c in COMPARISONS), "num", "nan"])
def test_comparisons(name, type_, rng):
    dtype = TYPES[type_]
    a, b = pairs_of(np.concatenate([some_floats(dtype, rng), SPECIAL.astype(dtype)]), 2)
    both = "%p1" if type_ == "f16" else "%p1|%p2"
    other = "not.pred %p2, %p1;" if type_ == "f16" else ""
    lines = f"setp.{name}.{type_} {both}, %a, %b; {other} selp.b32 %r1, 1, 0, %p1; selp.b32 %d, 2, %r1, %p2;"
    found = computed(lines, np.uint32, a, b)
    expected = []
    for x, y in zip(a.astype(float).tolist(), b.astype(float).tolist()):
        unordered = math.isnan(x) or math.isnan(y)
        if name in ("num", "nan"):
            holds = unordered == (name == "nan")
        elif unordered:
            holds = len(name) == 3
        else:
            holds = getattr(x, f"__{name[:2]}__")(y)
        expected.append(1 if holds else 2)
    np.testing.assert_array_equal(found, expected)


def test_signs_and_classes(rng):
    for type_ in ("f32", "f64"):
        dtype = TYPES[type_]
        word = f"u{dtype.itemsize}"
        a, b = pairs_of(np.concatenate([some_floats(dtype, rng), SPECIAL.astype(dtype)]), 2)
        sign = np.array(1 << (8 * dtype.itemsize - 1), word)
        for line, expected in {
            f"abs.{type_} %d, %a;": a.view(word) & ~sign,
            f"neg.{type_} %d, %a;": a.view(word) ^ sign,
            f"copysign.{type_} %d, %a, %b;": b.view(word) & ~sign | a.view(word) & sign,
        }.items():
            np.testing.assert_array_equal(computed(line, dtype, a, b).view(word), expected)
        tiny, size = np.finfo(dtype).smallest_normal, np.abs(a)
        for name, expected in {
            "finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a),
            "normal": np.isfinite(a) & (size >= tiny), "subnormal": (size > 0) & (size < tiny),
        }.items():  # fmt: skip
            found = computed(f"testp.{name}.{type_} %p1, %a; selp.b32 %d, 1, 0, %p1;", np.uint32, a)
            np.testing.assert_array_equal(found, expected)


def test_flushing_and_saturating():
    tiny = np.float32(1e-40)
    a = np.array([tiny, -tiny, 2, -2, np.nan, 0.5], np.float32)
    one, zero = np.ones(6, np.float32), np.zeros(6, np.float32)
    assert computed("mul.rn.ftz.f32 %d, %a, %b;", F32, a, one).tolist()[:4] == [0, 0, 2, -2]
    assert np.signbit(computed("mul.rn.ftz.f32 %d, %a, %b;", F32, a, one)[:2]).tolist() == [False, True]
    assert computed("mul.rn.f32 %d, %a, %b;", F32, a, one)[0] == tiny
    assert computed("add.rn.sat.f32 %d, %a, %b;", F32, a, zero).tolist() == [float(tiny), 0, 1, 0, 0, 0.5]
    assert computed("fma.rn.ftz.sat.f32 %d, %a, %b, %c;", F32, a, one, zero).tolist() == [0, 0, 1, 0, 0, 0.5]
    found = computed("setp.gt.ftz.f32 %p1, %a, 0f00000000; selp.b32 %d, 1, 0, %p1;", np.uint32, a)
    assert found.tolist() == [0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("type_", ["f16x2", "bf16x2"])
def test_packed_pairs_are_two_numbers(type_, rng):
    dtype = TYPES[type_[:-2]]
    a, b, c = (rng.normal(size=64).astype(dtype) for _ in range(3))
    halves = [v.view(np.uint32) for v in (a, b, c)]
    found = computed(f"fma.rn.{type_} %d, %a, %b, %c;", np.uint32, *halves).view(dtype)
    assert_rounds(found, exactly(OPERATIONS["fma"], a, b, c), dtype, "rn")
    np.testing.assert_array_equal(computed(f"neg.{type_} %d, %a;", np.uint32, halves[0]).view(dtype), -a)
    single = [rng.normal(size=32).astype(np.float32) for _ in range(2)]
    packed = computed(f"cvt.rn.{type_}.f32 %d, %a, %b;", np.uint32, *single).view(dtype)
    np.testing.assert_array_equal(packed[1::2], single[0].astype(dtype))
    np.testing.assert_array_equal(packed[::2], single[1].astype(dtype))


APPROXIMATIONS: dict[str, Callable[[float], float]] = {
    "ex2.approx.f32": lambda a: 2.0**a,
    "lg2.approx.f32": lambda a: math.log2(abs(a)),
    "sin.approx.f32": math.sin,
    "cos.approx.f32": math.cos,
    "tanh.approx.f32": math.tanh,
    "rsqrt.approx.f32": lambda a: 1 / math.sqrt(abs(a)),
    "rcp.approx.ftz.f32": lambda a: 1 / a,
    "sqrt.approx.f32": lambda a: math.sqrt(abs(a)),
}


@pytest.mark.parametrize("instruction", APPROXIMATIONS)
def test_approximations_are_rounded_results(instruction, rng):
    a = rng.normal(size=50).astype(np.float32)
    if instruction.startswith(("lg2", "rsqrt", "sqrt")):
        a = np.abs(a)
    found = computed(f"{instruction} %d, %a;", F32, a)
    expected = np.array([APPROXIMATIONS[instruction](n) for n in a.tolist()], np.float32)
    np.testing.assert_array_max_ulp(found, expected, 1)


# -- conversions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("source", "target"),
    [("f64", "f32"), ("f32", "f16"), ("f64", "f16"), ("f32", "bf16")],
)
def test_narrowing(source, target, mode, rng):
    if target == "bf16" and mode in ("rm", "rp"):
        pytest.skip("PTX has no such conversion")
    given, dtype = some_floats(TYPES[source], rng, 100), TYPES[target]
    wide = given.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        ties = wide.astype(dtype).astype(np.float64) * (1 + 2.0 ** -ml_dtypes.finfo(dtype).nmant / 2)
        given = np.concatenate([given, ties.astype(given.dtype)])
    found = computed(f"cvt.{mode}.{target}.{source} %d, %a;", dtype, given)
    assert_rounds(found, exactly(lambda a: a, given), dtype, mode)
    strange = ~np.isfinite(given)
    np.testing.assert_array_equal(found[strange].astype(np.float64), given[strange].astype(np.float64))


@pytest.mark.parametrize(("source", "target"), [("f16", "f32"), ("f16", "f64"), ("f32", "f64"), ("bf16", "f32")])
def test_widening(source, target, rng):
    given = some_floats(TYPES[source], rng, 100)
    found = computed(f"cvt.{target}.{source} %d, %a;", TYPES[target], given)
    np.testing.assert_array_equal(found.astype(np.float64), given.astype(np.float64))


INTEGERS: dict[str, Any] = {f"{kind}{8 * width}": np.dtype(f"{'i' if kind == 's' else 'u'}{width}").type
                            for kind in "us" for width in (1, 2, 4, 8)}  # fmt: skip
WHOLE: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", ["f16", "f32", "f64"])
@pytest.mark.parametrize("source", INTEGERS)
def test_floats_of_integers(source, target, mode, rng):
    given, dtype = some_integers(INTEGERS[source], rng, 60), TYPES[target]
    if source.endswith("64"):
        near = np.array([n + k for n in (1 << 53, 1 << 54, 1 << 62) for k in (-3, -2, -1, 0, 1, 2, 3, 255, 257, 513)])
        given = np.concatenate([given, near.astype(given.dtype)])
    found = computed(f"cvt.{mode}.{target}.{source} %d, %a;", dtype, given)
    assert_rounds(found, [Fraction(n) for n in given.tolist()], dtype, mode)


@pytest.mark.parametrize("mode", WHOLE)
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_integers_of_floats_stop_at_the_ends(target, source, mode, rng):
    given, ends = some_floats(TYPES[source], rng, 60), np.iinfo(INTEGERS[target])
    limits = np.array([ends.min, ends.max, ends.min - 1, ends.max + 1, ends.max / 2, 2.5, 3.5, -2.5, -0.5], np.float64)
    with np.errstate(over="ignore"):
        given = np.concatenate([given, limits.astype(given.dtype)])
    found = computed(f"cvt.{mode}.{target}.{source} %d, %a;", INTEGERS[target], given)
    nan = 0
    if "64" in target or source == "f64":
        nan = ends.min if ends.min else (ends.max + 1) // 2
    for number, result in zip(given.astype(float).tolist(), found.tolist(), strict=True):
        if math.isnan(number):
            assert result == nan
        elif math.isinf(number):
            assert result == (ends.max if number > 0 else ends.min)
        else:
            assert result == min(max(WHOLE[mode](number), ends.min), ends.max)


@pytest.mark.parametrize("mode", WHOLE)
@pytest.mark.parametrize("type_", ["f16", "f32", "f64"])
def test_whole_floats(type_, mode, rng):
    dtype = TYPES[type_]
    given = np.concatenate([some_floats(dtype, rng, 60), np.array([0.5, 1.5, 2.5, -0.5, -0.25], dtype)])
    found = computed(f"cvt.{mode}.{type_}.{type_} %d, %a;", dtype, given)
    for number, result in zip(given.tolist(), found.tolist(), strict=True):
        if math.isfinite(number):
            assert result == WHOLE[mode](number) and math.copysign(1, result) == math.copysign(1, number)
        else:
            assert result == number or math.isnan(number) and math.isnan(result)


def test_tf32_has_ten_bits_after_the_first(rng):
    a = some_floats(F32, rng, 200)
    a = a[np.isfinite(a) & (np.abs(a) < 1e38)]
    found = computed("cvt.rna.tf32.f32 %d, %a;", np.uint32, a)
    assert not (found & 0x1FFF).any()
    away = (a.view(np.uint32).astype(np.uint64) + 0x1000) >> 13 << 13
    np.testing.assert_array_equal(found, away)


@needs_ptxas
def test_ptxas_takes_these_instructions():
    for instruction in FORMS:
        name, _, type_ = instruction.split(".")
        operands = "%a, %b, %c" if name == "fma" else "%a, %b"
        dtypes = [TYPES[type_]] * (3 if name == "fma" else 2)
        assert assemble(computing(f"{instruction} %d, {operands};", TYPES[type_], dtypes), "sm_90")
