"""Powers and signs at zeros, infinities and NaN: eager, recorded and native, to numbers and to tensors."""

import warnings
from typing import Any

import numpy as np
import pytest

import jit

BASES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.25, -0.25, -2.5]
EXPONENTS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, 0.5, -0.5, 1.5, -1.5, 2.5, np.inf, -np.inf, np.nan]
DTYPES = [jit.float64, jit.float32, jit.float16]


def by_c(bases: Any, exponent: float) -> Any:
    """C's pow; numpy takes a root where one exponent serves several bases, so each base gets one of its own."""
    with np.errstate(all="ignore"):
        return np.power(np.array(bases), np.full(len(bases), exponent))


def by_number(bases: Any, exponent: float) -> Any:
    if abs(exponent) != 0.5:
        return by_c(bases, exponent)
    with np.errstate(all="ignore"):
        root = np.sqrt(np.array(bases))
        return root if exponent > 0 else 1 / root


def same(found: jit.Tensor, want: Any) -> None:
    numbers = np.array(found.double().tolist())
    np.testing.assert_allclose(numbers, want, rtol=2e-3)
    ordered = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(numbers[ordered]), np.signbit(want[ordered]))


def engines(function: Any, *args: Any) -> Any:
    """Results of eager mode, of recordings and of plans."""
    yield function(*args)
    for optimize in (False, True):
        traced = jit.trace(function, optimize=optimize)
        for _ in range(3):
            last = traced(*args)
        assert traced.hits
        yield last


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_to_numbers(exponent: float, dtype: Any) -> None:
    x = jit.tensor(BASES, dtype=dtype)
    for function in (lambda x: x**exponent, lambda x: jit.pow(x, exponent), lambda x: x.clone().pow_(exponent)):
        for found in engines(function, x):
            same(found, by_number(BASES, exponent))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_to_tensors(exponent: float, dtype: Any) -> None:
    x = jit.tensor(BASES, dtype=dtype)
    alone, each = jit.tensor(exponent, dtype=dtype), jit.full((len(BASES),), exponent, dtype=dtype)
    for power in (alone, alone.reshape(1), alone.expand(len(BASES)), each):
        for found in engines(lambda x, power: x**power, x, power):
            same(found, by_c(BASES, exponent))


@pytest.mark.parametrize("base", [b for b in BASES if b == b] + [np.nan])
def test_powers_of_numbers(base: float) -> None:
    exponents = jit.tensor(EXPONENTS, dtype=jit.float64)
    with np.errstate(all="ignore"):
        want = np.power(np.full(len(EXPONENTS), base), np.array(EXPONENTS))
    for found in engines(lambda e: base**e, exponents):
        same(found, want)


def test_large_arrays_take_the_same_roots() -> None:
    x = jit.tensor([-np.inf, -0.0, 4.0]).repeat(400_000)
    half = jit.tensor(0.5)
    for power, want in ((0.5, by_number), (half, by_c)):
        found = x**power
        same(found[:3], want([-np.inf, -0.0, 4.0], 0.5))
        same(found[-3:], want([-np.inf, -0.0, 4.0], 0.5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sign", "sgn"])
def test_nan_has_no_sign(name: str, dtype: Any) -> None:
    x = jit.tensor([np.nan, -np.nan, 0.0, -0.0, 3.0, -np.inf], dtype=dtype)
    for found in engines(getattr(jit, name), x):
        same(found, np.array([0.0, 0.0, 0.0, 0.0, 1.0, -1.0]))


def test_a_model_takes_the_same_roots_and_signs(tmp_path: Any) -> None:
    import onnxruntime

    def f(x: jit.Tensor) -> Any:
        return x**0.5, x**-0.5, jit.sign(x)

    x = jit.tensor(BASES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jit.export_onnx(f, x, tmp_path / "f.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "f.onnx", providers=["CPUExecutionProvider"])
    for found, want in zip(session.run(None, {"x": x.numpy()}), f(x), strict=True):
        same(jit.tensor(found), np.array(want.double().tolist()))
