"""Derivatives where there is none in the strict sense: at kinks, ties, bounds and infinities, PyTorch's choice."""

import math
from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import grad
from jit.eager.namespace import F

INF = math.inf
NAN = math.nan

CASES: list[tuple[str, Any, list[Any], list[float]]] = [
    ("abs", F.abs, [-1.0, 0.0, 2.0], [-1, 0, 1]),
    ("relu", F.relu, [-1.0, 0.0, 2.0, NAN], [0, 0, 1, 1]),
    ("leaky_relu", lambda x: F.leaky_relu(x, 0.1), [-1.0, 0.0, 2.0], [0.1, 0.1, 1]),
    ("elu", F.elu, [0.0, 1000.0], [1, 1]),
    ("hardtanh", F.hardtanh, [-1.0, 0.0, 1.0], [0, 1, 0]),
    ("clamp", lambda x: F.clamp(x, -1, 1), [-1.0, 0.0, 1.0, 1.5], [1, 1, 1, 0]),
    ("clamp_min", lambda x: F.clamp_min(x, 0), [-1.0, 0.0, 1.0], [0, 1, 1]),
    ("clamp_max", lambda x: F.clamp_max(x, 0), [-1.0, 0.0, 1.0], [1, 1, 0]),
    ("threshold", lambda x: F.threshold(x, 1, 5), [0.0, 1.0, 2.0], [0, 0, 1]),
    ("hardsigmoid", F.hardsigmoid, [-3.0, 0.0, 3.0], [0, 1 / 6, 0]),
    ("hardswish", F.hardswish, [-3.0, 0.0, 3.0], [0, 0.5, 1]),
    ("softplus", F.softplus, [0.0, 100.0], [0.5, 1]),
    ("sqrt", F.sqrt, [0.0, 4.0], [INF, 0.25]),
    ("log", F.log, [0.0], [INF]),
    ("pow 0", lambda x: x**0, [0.0, 2.0], [0, 0]),
    ("pow 2", lambda x: x**2, [0.0, 3.0], [0, 6]),
    ("0 ** x", lambda x: 0.0**x, [0.0, 2.0], [0, 0]),
    ("floor", F.floor, [0.5, 1.0], [0, 0]),
    ("remainder", lambda x: x % 2, [-1.0, 2.0], [1, 1]),
    ("maximum", lambda x: F.maximum(x, jit.tensor([1.0, 1.0, 1.0], dtype=jit.float64)), [0.0, 1.0, 2.0], [0, 0.5, 1]),
    ("minimum", lambda x: F.minimum(x, jit.tensor([1.0, 1.0, 1.0], dtype=jit.float64)), [0.0, 1.0, 2.0], [1, 0.5, 0]),
    ("max of all", F.max, [1.0, 3.0, 3.0], [0, 0.5, 0.5]),
    ("amax", lambda x: F.amax(x, 0), [3.0, 3.0, 1.0], [0.5, 0.5, 0]),
    ("max over a dim", lambda x: F.max(x, 0).values, [1.0, 3.0, 3.0], [0, 1, 0]),
    ("prod, one zero", F.prod, [2.0, 0.0, 3.0], [0, 6, 0]),
    ("prod, two zeros", F.prod, [2.0, 0.0, 0.0], [0, 0, 0]),
    ("norm of zeros", F.norm, [0.0, 0.0], [0, 0]),
    ("1-norm", lambda x: F.norm(x, 1), [0.0, -2.0], [0, -1]),
    ("inf-norm", lambda x: F.norm(x, INF), [2.0, -2.0], [0.5, -0.5]),
    ("std of equals", F.std, [2.0, 2.0], [0, 0]),
    ("where", lambda x: F.where(F.gt(x, 0), F.log(x), 0), [1.0, -1.0], [1, 0]),
    ("masked_fill", lambda x: F.masked_fill(x, F.lt(x, 0), 0), [1.0, -1.0], [1, 0]),
    ("logsumexp of -inf", lambda x: F.logsumexp(x, 0), [-INF, -INF], [0, 0]),
    ("softmax of -inf", lambda x: F.softmax(x, 0)[0], [0.0, -INF], [0, 0]),
    ("xlogy", lambda x: F.xlogy(x, 0.0), [0.0], [0]),
    ("logit", lambda x: F.logit(x, 0.25), [0.25, 0.5, 0.9], [16 / 3, 4, 0]),
    ("nan_to_num", F.nan_to_num, [NAN, INF, 1.0], [0, 0, 1]),
]


def slope_of(y: Any, x: Any, **options: Any) -> Any:
    return grad([y], [x], **options)[0]


@pytest.mark.parametrize(("function", "point", "slope"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_derivative_at(function: Any, point: list[float], slope: list[float]) -> None:
    x = jit.tensor(point, dtype=jit.float64, requires_grad=True)
    np.testing.assert_allclose(slope_of(F.sum(function(x)), x).numpy(), np.array(slope))


def test_second_derivative_of_a_product_with_zeros() -> None:
    """d2(abc)/dadb = c, also where a is 0 and a gradient by division would say 0 or NaN."""
    x = jit.tensor([0.0, 2.0, 5.0], dtype=jit.float64, requires_grad=True)
    first = slope_of(F.prod(x), x, create_graph=True)
    second = slope_of(first[1], x)
    assert first.tolist() == [10, 0, 0]
    assert second.tolist() == [5, 0, 0]


@pytest.mark.parametrize("function", [F.elu, F.softplus, F.silu, F.mish, F.gelu, F.sigmoid, F.log_sigmoid])
def test_far_out_nothing_becomes_nan(function: Any) -> None:
    x = jit.tensor([-800.0, -30.0, 30.0, 800.0], dtype=jit.float64, requires_grad=True)
    first = slope_of(F.sum(function(x)), x, create_graph=True)
    second = slope_of(F.sum(first), x)
    assert np.isfinite(first.detach().numpy()).all()
    assert np.isfinite(second.numpy()).all()


@pytest.mark.parametrize("dtype", [jit.float16, jit.float32, jit.float64])
def test_infinities_become_the_largest_number_of_their_dtype(dtype: jit.DType) -> None:
    limits = np.finfo(dtype.numpy)
    assert F.nan_to_num(jit.tensor([INF, -INF], dtype=dtype)).tolist() == [limits.max, limits.min]


def test_a_scattered_product_with_zeros() -> None:
    """One zero in a place: it alone gets a gradient, the product of the others; two zeros: nothing gets any."""
    source = jit.tensor([0.0, 3.0, 0.0, 0.0], dtype=jit.float64, requires_grad=True)
    base = jit.tensor([2.0, 5.0], dtype=jit.float64)
    product = F.scatter_reduce(base, 0, jit.tensor([0, 0, 1, 1]), source, "prod")
    assert product.tolist() == [0, 0]
    assert slope_of(F.sum(product), source).tolist() == [6, 0, 0, 0]
