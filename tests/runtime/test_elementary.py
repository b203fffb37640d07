"""Elementary functions of kernels stay within their bounds, and are exact on NaN, infinities, zeros and denormals."""

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy import special

from benchmarks import check_ulp
from jit.ir.dtypes import as_dtype, float32, float64
from jit.runtime.llvm import elementary

from .kernels_under_test import TARGETS, numbers, run, same_bits

pytestmark = pytest.mark.llvm

DOUBLE_BOUND = 2.0
"""In ulp, for the float64 functions written here; `erf` is the C library's."""
EXACT = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": mpmath.log1p, "tanh": mpmath.tanh,
    "sigmoid": lambda v: 1 / (1 + mpmath.exp(-v)), "sin": mpmath.sin, "cos": mpmath.cos, "erf": mpmath.erf,
    "exp2": lambda v: mpmath.mpf(2) ** v, "log2": lambda v: mpmath.log(v, 2), "log10": mpmath.log10,
}  # fmt: skip
POSITIVE = {"log", "log2", "log10"}
INF, NAN = np.inf, np.nan
SPECIAL = [0.0, -0.0, INF, -INF, NAN]
AT_SPECIAL = {
    "exp": [1, 1, INF, 0, NAN], "expm1": [0.0, -0.0, INF, -1, NAN], "exp2": [1, 1, INF, 0, NAN],
    "log": [-INF, -INF, INF, NAN, NAN], "log1p": [0.0, -0.0, INF, NAN, NAN], "log2": [-INF, -INF, INF, NAN, NAN],
    "log10": [-INF, -INF, INF, NAN, NAN], "tanh": [0.0, -0.0, 1, -1, NAN], "sigmoid": [0.5, 0.5, 1, 0, NAN],
    "erf": [0.0, -0.0, 1, -1, NAN], "sin": [0.0, -0.0, NAN, NAN, NAN], "cos": [1, 1, NAN, NAN, NAN],
}  # fmt: skip


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def unary(name, x, target=None):
    return run(lambda m, v: getattr(m, name)(v), x, out=as_dtype(x.dtype), target=target)


class TestSingle:
    @pytest.mark.parametrize("name", check_ulp.REFERENCES)
    def test_every_1021st_float32(self, name, target):
        worst = check_ulp.measure(name, 1021, target)
        assert worst.wrong_special is None
        assert worst.ulp <= check_ulp.BOUND, f"{worst.ulp} ulp at {worst.at!r}"

    @pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos"])
    def test_where_they_are_used(self, name, target):
        x = np.linspace(0 if name in POSITIVE else -12, 12, 200_001, dtype=np.float32)
        x = x[x > -1] if name == "log1p" else x
        exact = (
            check_ulp.REFERENCES[name](x.astype(np.float64))
            if name != "log"
            else np.log(np.maximum(x, 1e-45).astype(float))
        )
        got = unary(name, np.maximum(x, np.float32(1e-45)) if name == "log" else x, target)
        error = np.abs(got - exact) / np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
        assert error.max() <= check_ulp.BOUND


class TestDouble:
    def inputs(self, name, rng):
        spread = 10 ** rng.uniform(-300, 300, 150)
        near_one = 1 + 10 ** rng.uniform(-16, 0, 100)
        if name in POSITIVE:
            return np.concatenate([spread, near_one, rng.uniform(0.3, 3, 300), 2 / near_one])
        x = np.concatenate([rng.uniform(-3, 3, 300), rng.uniform(-700, 700, 150), spread, -1 / spread])
        if name in ("sin", "cos"):
            return np.concatenate([x, rng.uniform(-2e6, 2e6, 300), np.arange(1, 300) * np.pi / 2])
        return x[x > -1] if name == "log1p" else x

    @pytest.mark.parametrize("name", EXACT)
    def test_against_exact_arithmetic(self, name, target, rng):
        x = self.inputs(name, rng)
        got = unary(name, x, target)
        with mpmath.workprec(160):
            for value, result in zip(x, got):
                exact = EXACT[name](mpmath.mpf(float(value)))
                unit = np.spacing(abs(float(exact)))
                if np.isfinite(unit):
                    assert abs(mpmath.mpf(float(result)) - exact) <= DOUBLE_BOUND * mpmath.mpf(float(unit)), value
                else:
                    assert abs(result) == INF, value


class TestSpecialValues:
    @pytest.mark.parametrize("dtype", [float32, float64], ids=["float32", "float64"])
    @pytest.mark.parametrize("name", AT_SPECIAL)
    def test_exact(self, name, dtype, target):
        x = np.array(SPECIAL, dtype.numpy)
        same_bits(unary(name, x, target), np.array(AT_SPECIAL[name], dtype.numpy))

    @pytest.mark.parametrize("dtype", [float32, float64], ids=["float32", "float64"])
    @pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "sin"])
    def test_denormals_are_kept(self, name, dtype, target):
        tiny = np.finfo(dtype.numpy).smallest_subnormal * np.array([1, -1, 3, 1000], dtype.numpy)
        same_bits(unary(name, tiny, target), tiny)

    @pytest.mark.parametrize("name", ["sin", "cos"])
    def test_a_result_does_not_depend_on_its_neighbours(self, name, target, rng):
        """One huge argument sends the vector through the C library; the others keep their own results."""
        x = rng.normal(size=64).astype(np.float32)
        alone = unary(name, x, target)
        x[::7] = 1e30
        mixed = unary(name, x, target)
        keep = x < 1e29
        same_bits(mixed[keep], alone[keep])

    def test_what_the_rare_case_computed_is_computed_again_outside_of_it(self, target, rng):
        x = rng.normal(size=20)
        twice = run(lambda m, a: m.sin(a) + m.libm("sin", a), x, out=float64, target=target)
        np.testing.assert_allclose(twice, 2 * np.sin(x), rtol=1e-15)


class TestPower:
    @pytest.mark.parametrize("dtype", [float32, float64], ids=["float32", "float64"])
    def test_special_cases_are_those_of_c(self, dtype, target):
        x = np.array([0.0, -0.0, 1, -1, 0.25, -0.25, 4, -4, 1024, -1024, INF, -INF, NAN], dtype.numpy)[:, None]
        y = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, INF, -INF, NAN], dtype.numpy)[None, :]
        with np.errstate(all="ignore"):
            wanted = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype.numpy)
        same_bits(run(lambda m, a, b: m.power(a, b), x, y, out=dtype, target=target), wanted, (x, y))

    @pytest.mark.parametrize("dtype", [float32, float64], ids=["float32", "float64"])
    @pytest.mark.parametrize("exponent", elementary.SHORT_POWERS)
    def test_known_exponents(self, exponent, dtype, target, rng):
        exact = np.array([0.0, -0.0, 1, -1, 0.25, -0.25, 1024, -1024, INF, -INF, NAN])
        edges = np.sqrt(np.linspace(1, 4, 5000)) * 2.0 ** rng.integers(-20, 20, 5000)
        x = np.concatenate([exact, [1e-310, 3e-39, -3e-39, 2e19], rng.normal(size=5000), edges]).astype(dtype.numpy)
        with np.errstate(all="ignore"):
            wide = x.astype(np.longdouble)
            root = np.sqrt(wide) if exponent > 0 else 1 / np.sqrt(wide)  # which pow to a number is in ATen
            wanted = root if abs(exponent) == 0.5 else np.power(wide, exponent)
            rounded = wanted.astype(dtype.numpy)
        got = run(lambda m, a: m.power(a, exponent), x, out=dtype, target=target)
        same_bits(got[: len(exact)], rounded[: len(exact)], (x[: len(exact)],))
        finite = np.isfinite(rounded)
        assert np.array_equal(np.isnan(got), np.isnan(rounded)) and np.array_equal(np.isinf(got), np.isinf(rounded))
        off = np.abs(got[finite] - wanted[finite]) / np.spacing(np.abs(rounded[finite]))
        assert off.max() <= 1.91

    def test_float32_is_right_to_the_last_bit_or_nearly(self, target, rng):
        x, y = 10 ** rng.uniform(-4, 4, (2, 20_000))
        x, y = x.astype(np.float32), np.log10(y).astype(np.float32)
        exact = x.astype(np.float64) ** y.astype(np.float64)
        got = run(lambda m, a, b: a**b, x, y, out=float32, target=target)
        assert np.max(np.abs(got - exact) / np.spacing(exact.astype(np.float32))) <= 0.501

    def test_a_square_is_a_product(self, target, rng):
        x = numbers(float32, rng)
        with np.errstate(all="ignore"):
            same_bits(run(lambda m, a: a**2, x, out=float32, target=target), x * x)


class TestLibrary:
    @pytest.mark.parametrize(
        "name", ["tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "cbrt", "erfc"]
    )
    @pytest.mark.parametrize("dtype", [float32, float64], ids=["float32", "float64"])
    def test_of_one_number(self, name, dtype, target, rng):
        x = rng.uniform(1, 3, 50) if name == "arccosh" else rng.uniform(-1, 1, 50)
        wanted = (special.erfc if name == "erfc" else getattr(np, name))(x.astype(dtype.numpy).astype(np.float64))
        bound = 1e-7 if dtype is float32 else 1e-15
        np.testing.assert_allclose(unary(name, x.astype(dtype.numpy), target), wanted, rtol=bound)

    @pytest.mark.parametrize("name", ["arctan2", "hypot"])
    def test_of_two_numbers(self, name, target, rng):
        x, y = rng.normal(size=(2, 50))
        wanted = getattr(np, name)(x, y)
        np.testing.assert_allclose(
            run(lambda m, a, b: getattr(m, name)(a, b), x, y, out=float64, target=target), wanted, rtol=1e-15
        )

    def test_of_python_numbers_alone(self):
        assert run(lambda m, a: a * m.exp(0.0) + m.arctan2(0.0, 1.0), np.array([2.5]), out=float64).tolist() == [2.5]


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "log", "sqrt"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_compute_in_float32_and_round_once(dtype, name, target):
    dtype = as_dtype(dtype)
    every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    single = unary(name, every.astype(np.float32), target)
    with np.errstate(all="ignore"):
        same_bits(unary(name, every, target), single.astype(dtype.numpy), (every,))
