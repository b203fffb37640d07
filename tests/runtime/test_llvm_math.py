"""Arithmetic, comparisons, selections, casts and divisions of kernels are numpy's bit for bit, on every target."""

from dataclasses import replace

import numpy as np
import pytest

from jit.ir.dtypes import as_dtype, bfloat16, bool_, float16, float32, float64, int32
from jit.ir.errors import CompileError, DivisionError
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import pointwise_nest

from .kernels_under_test import (
    FLOATS,
    INTEGERS,
    REAL,
    SIGNED,
    SINGLE_AND_DOUBLE,
    TARGETS,
    expect,
    numbers,
    pairs,
    run,
    same_bits,
)

pytestmark = pytest.mark.llvm


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def names(dtypes):
    return pytest.mark.parametrize("dtype", dtypes, ids=[d.name for d in dtypes])


ARITHMETIC = {
    "add": lambda m, a, b: a + b,
    "subtract": lambda m, a, b: a - b,
    "multiply": lambda m, a, b: a * b,
    "maximum": lambda m, a, b: m.maximum(a, b),
    "minimum": lambda m, a, b: m.minimum(a, b),
    "where": lambda m, a, b: m.where(a < b, a, b),
    "scalars": lambda m, a, b: 3 - (2 * a + b) * 3,
}
COMPARISONS = {
    "less": lambda m, a, b: a < b,
    "less_equal": lambda m, a, b: a <= b,
    "greater": lambda m, a, b: a > b,
    "greater_equal": lambda m, a, b: a >= b,
    "equal": lambda m, a, b: a == b,
    "not_equal": lambda m, a, b: a != b,
    "logical_and": lambda m, a, b: m.logical_and(a, b),
    "logical_or": lambda m, a, b: m.logical_or(a, b),
    "logical_xor": lambda m, a, b: m.logical_xor(a, b),
}
UNARY = {
    "negative": lambda m, a: -a,
    "abs": lambda m, a: m.abs(a),
    "sign": lambda m, a: m.sign(a),
    "square": lambda m, a: m.square(a),
    "clip": lambda m, a: m.clip(a, 1, 3),
    "floor": lambda m, a: m.floor(a),
    "ceil": lambda m, a: m.ceil(a),
    "trunc": lambda m, a: m.trunc(a),
    "round": lambda m, a: m.round(a),
    "logical_not": lambda m, a: m.logical_not(a),
}
OF_FLOATS = {
    "divide": lambda m, a, b: a / b,
    "half": lambda m, a, b: a / 2 + 1 / b,
    "copysign": lambda m, a, b: m.copysign(a, b),
    "sqrt": lambda m, a, b: m.sqrt(a),
    "rsqrt": lambda m, a, b: m.rsqrt(a),
    "reciprocal": lambda m, a, b: m.reciprocal(b),
    "floor_divide": lambda m, a, b: m.floor_divide(a, b),
    "remainder": lambda m, a, b: m.remainder(a, b),
    "fmod": lambda m, a, b: m.fmod(a, b),
    "isnan": lambda m, a, b: m.isnan(a),
    "isinf": lambda m, a, b: m.isinf(a),
    "isfinite": lambda m, a, b: m.isfinite(a),
    "signbit": lambda m, a, b: m.signbit(a),
}
OF_INTEGERS = {
    "and": lambda m, a, b: a & b,
    "or": lambda m, a, b: a | b,
    "xor": lambda m, a, b: a ^ b,
    "invert": lambda m, a, b: ~a,
    "shift_left": lambda m, a, b: a << 3,
    "shift_right": lambda m, a, b: a >> 3,
    "shift_left_by": lambda m, a, b: m.left_shift(a, m.minimum(m.abs(b), 70)),
    "shift_right_by": lambda m, a, b: m.right_shift(a, m.minimum(m.abs(b), 70)),
}


class TestAgainstNumpy:
    @names([float32, float64, *INTEGERS])
    @pytest.mark.parametrize("name", ARITHMETIC)
    def test_arithmetic(self, name, dtype, target, rng):
        expect(ARITHMETIC[name], *pairs(dtype, rng), target=target)

    @names([float32, float64, bool_, *INTEGERS])
    @pytest.mark.parametrize("name", COMPARISONS)
    def test_comparisons(self, name, dtype, target, rng):
        expect(COMPARISONS[name], *pairs(dtype, rng), target=target)

    @names([float32, float64, *SIGNED])
    @pytest.mark.parametrize("name", UNARY)
    def test_one_operand(self, name, dtype, target, rng):
        expect(UNARY[name], numbers(dtype, rng, 2000), target=target)

    @names(SINGLE_AND_DOUBLE)
    @pytest.mark.parametrize("name", OF_FLOATS)
    def test_of_floats(self, name, dtype, target, rng):
        expect(OF_FLOATS[name], *pairs(dtype, rng), target=target)

    @names(INTEGERS)
    @pytest.mark.parametrize("name", OF_INTEGERS)
    def test_of_integers(self, name, dtype, target, rng):
        shift_by = name.endswith("by") and dtype.itemsize == 1 and not dtype.is_signed
        expect(OF_INTEGERS[name], *pairs(dtype, rng, 20 if shift_by else 60), target=target)

    @pytest.mark.parametrize("name", ["and", "or", "xor", "invert"])
    def test_of_booleans(self, name, target, rng):
        expect(OF_INTEGERS[name], *pairs(bool_, rng), target=target)

    def test_booleans_add_as_or_and_multiply_as_and(self, target, rng):
        expect(ARITHMETIC["add"], *pairs(bool_, rng), target=target)
        expect(ARITHMETIC["multiply"], *pairs(bool_, rng), target=target)

    def test_products_and_sums_are_not_contracted(self, target, rng):
        a, b = rng.normal(size=(2, 5000)).astype(np.float32)
        exact = (a.astype(np.float64) * b + b).astype(np.float32)
        assert not np.array_equal(a * b + b, exact), "these inputs do not tell a fused multiply-add from two roundings"
        expect(lambda m, x, y: x * y + y, a, b, target=target)

    def test_numbers_become_the_dtype_of_the_value(self, target):
        expect(lambda m, a: a * 0.1 + 1e40, np.array([1, -3, np.nan], np.float32), target=target)
        expect(lambda m, a: np.float32(2) * a - True, np.array([1, -3, np.nan], np.float32), target=target)


class TestCasts:
    @pytest.mark.parametrize("to", REAL, ids=[d.name for d in REAL])
    @names(REAL)
    def test_every_pair(self, dtype, to, target, rng):
        expect(lambda m, a: m.cast(a, to), numbers(dtype, rng, 3000), target=target)

    def test_float64_to_float16_rounds_once(self, target):
        just_above_a_tie = np.array(
            [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40, 65519.999999, 65520.0, 2.0**-25 * (1 + 2.0**-30)]
        )
        expect(lambda m, a: m.cast(a, float16), just_above_a_tie, target=target)

    @names([float16, bfloat16])
    def test_every_16_bit_number_survives(self, dtype, target):
        every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
        same_bits(run(lambda m, a: a, every, out=dtype, target=target), every)
        expect(lambda m, a: m.cast(a, float32), every, target=target)

    @names([float16, bfloat16])
    def test_16_bit_results_round_after_every_operation(self, dtype, target, rng):
        a, b = (x.astype(dtype.numpy) for x in rng.normal(size=(2, 3000)))

        def body(m, x, y):
            single = m.cast(x, float32) * m.cast(y, float32)
            return m.cast(m.cast(m.cast(single, dtype), float32) + 1, dtype)

        expect(body, a, b, target=target)
        same_bits(run(lambda m, x, y: x * y + 1, a, b, out=dtype, target=target), a * b + dtype.numpy.type(1))


class TestIntegerDivision:
    @names(INTEGERS)
    @pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
    def test_signs_and_wrapping_are_numpys(self, name, dtype, target, rng):
        a, b = pairs(dtype, rng)
        expect(lambda m, x, y: getattr(m, name)(x, y), a, b[b != 0][None, :], target=target)

    @names(INTEGERS)
    def test_operators(self, dtype, target, rng):
        expect(lambda m, x: (x // 3) * 5 + x % 7, numbers(dtype, rng), target=target)

    @names(INTEGERS)
    @pytest.mark.parametrize("size", [1, 15, 16, 17, 64])
    def test_zero_is_reported_wherever_it_stands(self, size, dtype, target):
        a, out = np.ones(size, dtype.numpy), np.empty(size, dtype.numpy)
        for position in range(size):
            b = np.ones(size, dtype.numpy)
            b[position] = 0
            with pytest.raises(DivisionError):
                compile_nest(pointwise_nest(lambda m, x, y: x // y, [a, b], [out]), target)([a, b], [out])

    @pytest.mark.parametrize("size", [1, 15, 16, 17, 64])
    def test_lanes_beyond_the_end_do_not_count(self, size, target):
        a = np.ones(size, np.int32)
        assert run(lambda m, x: 5 // x, a, out=int32, target=target).tolist() == [5] * size

    def test_a_broadcast_zero_is_reported(self, target):
        a, b, out = np.ones((3, 40), np.int64), np.array([[1], [0], [1]]), np.empty((3, 40), np.int64)
        with pytest.raises(DivisionError):
            compile_nest(pointwise_nest(lambda m, x, y: x % y, [a, b], [out]), target)([a, b], [out])

    @names(INTEGERS)
    def test_powers(self, dtype, target, rng):
        base = numbers(dtype, rng)[:, None]
        expect(lambda m, x, y: m.power(x, y), base, np.arange(11).astype(dtype.numpy)[None, :], target=target)

    @names(SIGNED)
    def test_negative_powers_of_integers_are_what_is_left_of_a_fraction(self, dtype, target):
        base, exponent = np.arange(-3, 4).astype(dtype.numpy)[:, None], np.array([-1, -2, -100], dtype.numpy)
        inverse = {-1: [-1, 1, 1], 1: [1, 1, 1]}
        got = run(lambda m, x, y: x**y, base, exponent, out=dtype, target=target)
        assert got.tolist() == [inverse.get(x, [0, 0, 0]) for x in range(-3, 4)]


@pytest.mark.parametrize("cost", [1, 20])
@names(FLOATS)
def test_the_larger_and_the_smaller_are_as_the_comparison_says(dtype, cost, target, rng):
    a, b = numbers(dtype, rng), rng.permutation(numbers(dtype, rng))
    with np.errstate(all="ignore"):
        wanted = {"larger": np.where(a > b, a, b), "smaller": np.where(a < b, a, b)}
    for name, choice in wanted.items():
        out = np.empty_like(a)
        nest = pointwise_nest(lambda m, x, y, name=name: getattr(m, name)(x, y), [a, b], [out])
        compile_nest(replace(nest, cost=cost), target)([a, b], [out])
        same_bits(out, choice)


class TestBadBodies:
    def check(self, message, body, *inputs, out=float32):
        with pytest.raises(CompileError, match=message):
            run(body, *inputs, out=out)

    def test_mixed_dtypes(self):
        self.check("combines float32 and int64", lambda m, a, b: a + b, np.ones(2, np.float32), np.ones(2, np.int64))

    def test_a_float_meets_an_integer(self):
        self.check("0.5 meets a value of int32", lambda m, a: a + 0.5, np.ones(2, np.int32), out=int32)

    def test_a_number_that_does_not_fit(self):
        self.check("300 does not fit uint8", lambda m, a: a + 300, np.ones(2, np.uint8), out=as_dtype("uint8"))

    def test_a_branch_on_a_value(self):
        self.check("cannot branch", lambda m, a: a if a > 0 else -a, np.ones(2, np.float32))

    def test_an_unknown_function(self):
        self.check("kernels have no m.sum", lambda m, a: m.sum(a), np.ones(2, np.float32))

    def test_an_elementary_function_of_integers(self):
        self.check("m.exp takes floats, not int32", lambda m, a: m.exp(a), np.ones(2, np.int32), out=int32)

    def test_a_result_of_another_dtype(self):
        self.check("result 0 is bool, its buffer is float32", lambda m, a: a > 0, np.ones(2, np.float32))

    def test_too_few_results(self):
        self.check("returns 0 results for 1 writes", lambda m, a: (), np.ones(2, np.float32))

    def test_complex_numbers(self):
        self.check("do not compute in complex64", lambda m, a: a, np.ones(2, np.complex64), out=np.complex64)

    def test_a_body_may_ask_what_there_is(self):
        run(lambda m, a: m.exp(a) if hasattr(m, "exp") and not hasattr(m, "matmul") else 1 / 0, np.ones(2), out=float64)
