"""`jit.signal.windows`: SciPy's numbers for every window, length and symmetry, traced and exported too."""

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.signal

import jit
from jit.signal import windows

WINDOWS: list[tuple[str, dict[str, Any]]] = [
    ("bartlett", {}), ("blackman", {}), ("cosine", {}), ("exponential", {}), ("exponential", {"tau": 3.5}),
    ("gaussian", {"std": 1.0}), ("gaussian", {"std": 2.5}), ("general_cosine", {"a": (0.5, 0.25, 0.15, 0.1)}),
    ("general_hamming", {"alpha": 0.7}), ("hamming", {}), ("hann", {}), ("kaiser", {"beta": 0.0}),
    ("kaiser", {"beta": 12.0}), ("nuttall", {}),
]  # fmt: skip
every_window = pytest.mark.parametrize("name, options", WINDOWS, ids=lambda v: v if isinstance(v, str) else "")


def test_all_are_here():
    assert sorted({name for name, _ in WINDOWS}) == sorted(windows.__all__)
    assert jit.signal.windows is windows


@every_window
@pytest.mark.parametrize("sym", [True, False], ids=["symmetric", "periodic"])
def test_values(name, options, sym):
    for count in (0, 1, 2, 3, 4, 9, 64):
        found = getattr(windows, name)(count, sym=sym, dtype=jit.float64, **options).numpy()
        expected = getattr(scipy.signal.windows, name)(count, sym=sym, **options)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("center", [0, 3, 4.5, -2])
def test_the_center_of_a_periodic_exponential(center):
    found = windows.exponential(9, center=center, tau=2.0, sym=False, dtype=jit.float64).numpy()
    np.testing.assert_allclose(found, scipy.signal.windows.exponential(9, center, 2.0, sym=False), rtol=1e-12)


@every_window
def test_dtypes_and_gradients(name, options):
    make = getattr(windows, name)
    exact = make(7, dtype=jit.float64, **options)
    assert make(7, **options).tolist() == exact.float().tolist(), "rounded once"
    for dtype in (jit.float16, jit.bfloat16):
        assert make(7, dtype=dtype, **options).tolist() == exact.to(dtype).tolist()
    assert not exact.requires_grad and make(7, requires_grad=True, **options).requires_grad
    for count in (0, 1):
        assert make(count, **options).tolist() == [1.0] * count


@every_window
def test_traced(name, options):
    make = getattr(windows, name)
    f = jit.trace(lambda x: x * make(8, sym=False, **options))
    for _ in range(3):
        x = jit.rand(8)
        np.testing.assert_allclose(f(x).numpy(), (x * make(8, sym=False, **options)).numpy(), rtol=1e-6, atol=1e-9)
    assert (f.hits, f.misses) == (2, 1)


def test_exported(tmp_path):
    def faded(x: Any) -> Any:
        return x * windows.hann(8, sym=False) + windows.gaussian(8)

    jit.export_onnx(faded, (jit.rand(8),), str(tmp_path / "window.onnx"))  # compares with onnxruntime


@pytest.mark.parametrize("name", windows.__all__)
def test_wrong_calls(name):
    make = getattr(windows, name)
    options = {"a": [1.0]} if name == "general_cosine" else {}
    with pytest.raises(jit.UsageError, match="a window of -1 points"):
        make(-1, **options)
    with pytest.raises(jit.DTypeError, match="must be of floating point numbers"):
        make(3, dtype=jit.int64, **options)
    kinds = {p.name: p.kind for p in inspect.signature(make).parameters.values()}
    assert [n for n, kind in kinds.items() if kind is not inspect.Parameter.KEYWORD_ONLY] == ["M"]


@pytest.mark.parametrize(
    "name, options, said",
    [
        ("general_cosine", {"a": []}, "no weights; pass at least one"),
        ("exponential", {"tau": 0.0}, "tau must be positive, got 0"),
        ("exponential", {"center": 1}, "symmetric window has its center in the middle; say sym=False"),
        ("gaussian", {"std": -1.0}, "std must be positive, got -1"),
        ("kaiser", {"beta": -1.0}, "beta must not be negative, got -1"),
    ],
)
def test_wrong_numbers(name, options, said):
    with pytest.raises(jit.UsageError, match=said):
        getattr(windows, name)(5, **options)
