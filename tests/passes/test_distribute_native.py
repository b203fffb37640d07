"""What is joined and cut, compiled: how many kernels it takes, and that they give what eager mode gives."""

from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit.runtime.kernels.codegen import compile_nest
from jit.runtime.kernels.nest import Buffer
from tests.runtime.grid_emulation import emulated

pytestmark = pytest.mark.llvm


def cell(gates, c):
    i, f, g, o = gates.chunk(4, 1)
    c2 = jit.sigmoid(f) * c + jit.sigmoid(i) * jit.tanh(g)
    return jit.sigmoid(o) * jit.tanh(c2), c2


def whole_cell(x, h, c, w, u, b):
    return cell(x @ w + h @ u + b, c)


def rotary(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + jit.cat([-b, a], -1) * sin


def rotary_halves(x, cos, sin):
    n = x.shape[-1] // 2
    a, b = x[..., :n], x[..., n:]
    return jit.cat([a * cos - b * sin, b * cos + a * sin], -1)


def swiglu(x):
    n = x.shape[1] // 3
    a, b = x.split([n, x.shape[1] - n], 1)
    return jit.cat([F.silu(a) * 2, F.silu(b) * b + 1], 1)


def halves_of_tanh(x):
    a, b = jit.tanh(x).chunk(2, 1)
    return a * b


def joined_then_scaled(a, b, s):
    return jit.cat([jit.tanh(a), jit.sigmoid(b)], 1) * s


def inputs_joined(a, b, s):
    return jit.relu(jit.cat([a, b], 1) * s)


def dense(x, y, mean, variance, weight, bias):
    return jit.relu(F.batch_norm(jit.cat([x, y], 1), mean, variance, weight, bias, training=False))


def normal(*shape: int, seed: int = 0) -> Any:
    return jit.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


TABLE = [normal(6, 8, seed=1), normal(6, 8, seed=2)]
WORKLOADS: dict[str, tuple[Any, list[Any], int, int]] = {
    "lstm cell": (cell, [normal(5, 28), normal(5, 7)], 1, 1),
    "glu": (lambda x: F.glu(x, 1), [normal(5, 14)], 1, 1),
    "rotary": (rotary, [normal(2, 3, 6, 8), *TABLE], 1, 1),
    "rotary by halves": (rotary_halves, [normal(2, 3, 6, 16), *TABLE], 1, 1),
    "swiglu": (swiglu, [normal(5, 21)], 2, 2),
    "halves of tanh": (halves_of_tanh, [normal(5, 14)], 1, 1),
    "joined, then scaled": (joined_then_scaled, [normal(4, 3), normal(4, 5), normal(4, 8)], 2, 2),
    "dense": (dense, [normal(2, 3, 4), normal(2, 5, 4), *(normal(8).abs() for _ in range(4))], 2, 2),
    "inputs joined": (inputs_joined, [normal(4, 3), normal(4, 5), normal(8)], 2, 2),
}
"""By name: a function, its arguments, and how many kernels it takes, and its gradients by the first argument."""


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_are_as_few_kernels_as_they_have_boxes(name):
    function, given, count, _ = WORKLOADS[name]
    traced = jit.trace(function)
    for _ in range(2):
        found = traced(*given)
    wanted = function(*given)
    many = isinstance(found, tuple)
    for a, b in zip(found if many else (found,), wanted if many else (wanted,), strict=True):
        np.testing.assert_allclose(a._array, b._array, rtol=2e-6, atol=1e-7)
    assert len(traced.kernels) == count, [k.name for k in traced.kernels]


@pytest.mark.parametrize("name", WORKLOADS)
def test_their_gradients_are_as_few(name):
    function, given, _, count = WORKLOADS[name]

    def of_first(x, *others):
        result = traced(x, *others) if others is not None else None
        result = result[0] if isinstance(result, tuple) else result
        return jit.autograd.grad((result * result).sum(), [x])[0]

    def leaf() -> Any:
        return jit.from_numpy(given[0]._array.copy()).requires_grad_()

    traced = function
    wanted = of_first(leaf(), *given[1:])
    traced = jit.trace(function)
    for _ in range(3):
        found = of_first(leaf(), *given[1:])
    np.testing.assert_allclose(found._array, wanted._array, rtol=1e-5, atol=1e-6)
    assert sum(k.stage == 1 for k in traced.kernels) <= count, [(k.stage, k.name) for k in traced.kernels]


def arrays(buffer: Buffer, rng: np.random.Generator) -> np.ndarray:
    """Memory that lies as a nest wants it."""
    size = sum((n - 1) * s for n, s in zip(buffer.sizes, buffer.strides)) + 1
    numbers = rng.uniform(-1, 1, size).astype(buffer.dtype.numpy)
    steps = [s * buffer.dtype.itemsize for s in buffer.strides]
    return np.lib.stride_tricks.as_strided(numbers, buffer.sizes, steps)


@pytest.mark.parametrize("name", WORKLOADS)
def test_gpu_kernels_write_slices_too(name, rng):
    function, given, *_ = WORKLOADS[name]
    traced = jit.trace(function)
    for _ in range(2):
        traced(*given)
    for kernel in traced.kernels:
        nest = kernel.kernel.nest
        inputs, outputs = [arrays(b, rng) for b in nest.inputs], [arrays(b, rng) for b in nest.outputs]
        wanted = [arrays(b, rng) for b in nest.outputs]
        compile_nest(nest)(inputs, wanted)
        emulated(nest, inputs, outputs)
        for a, b in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=3e-6, atol=1e-6)


# -- arithmetic, bit for bit -------------------------------------------------------------------------------------


def _lengths(n: int) -> list[int]:
    return [n // 3, n - n // 3] if n > 1 else [n]


ARITHMETIC: dict[str, Any] = {
    "unequal parts at the end": lambda x, y, d: jit.cat([x * 3 + y, (x + y).narrow(d, 0, 1), x], d),
    "parts in the middle": lambda x, y, d: jit.cat([x + 1, y.narrow(d, 0, 1), x * y], d) * 2 + 1,
    "an input as it is": lambda x, y, d: jit.cat([x, x * y], d) * jit.cat([y, x], d),
    "a sum of joins of other parts": lambda x, y, d: (
        jit.cat([x.narrow(d, 0, 1), x], d) * 2 + jit.cat([y, y.narrow(d, 0, 1)], d)
    ),
    "a join of joins": lambda x, y, d: jit.cat([jit.cat([x, y.narrow(d, 0, 1)], d) * 2, y], d) * 3,
    "stacked": lambda x, y, d: jit.stack([x + y, x, y * 2], d) * 3 + 1,
    "split": lambda x, y, d: jit.cat([p * 2 + 1 for p in (x * y).split(_lengths(x.shape[d]), d)][::-1], d),
    "overlapping": lambda x, y, d: (x * 2).narrow(d, 0, max(x.shape[d] - 1, 1)) + 1,
    "unbound": lambda x, y, d: sum((p + i for i, p in enumerate((x + y).unbind(d))), start=0),
    "selected": lambda x, y, d: (x * y + x).select(d, -1) * 2 + (x * y).select(d, 0),
    "every second": lambda x, y, d: (x + x)[..., ::2] * 3,
    "a row": lambda x, y, d: (x * y.select(0, 0) + 1).narrow(d, 0, 1) * 2,
    "turned": lambda x, y, d: (x * y).transpose(0, -1).chunk(2, -1 - d if x.ndim == 2 else d)[0] * 2,
    "neighbours": lambda x, y, d: (x + y).narrow(d, 0, 1) * (x + y).narrow(d, x.shape[d] - 1, 1),
    "two results": lambda x, y, d: (jit.cat([x * 2, y.narrow(d, 0, 1)], d), x * 2 + y),
    "joined twice": lambda x, y, d: (jit.cat([x * 2, y], d), jit.cat([y + 1, x * 2, x], d)),
}  # fmt: skip
SHAPES = [(4, 6), (1, 5), (3, 2, 5), (7, 1)]


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "float32" or dtype == "float64" or dtype == "float16":
        special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], shape)
        return np.where(rng.random(shape) < 0.1, special, rng.normal(size=shape)).astype(dtype)
    return rng.integers(-9, 9, shape).astype(dtype)


def same(found: Any, wanted: Any) -> None:
    """Bit for bit, any NaN as good as another."""
    a, b = np.ascontiguousarray(found._array), np.ascontiguousarray(wanted._array)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    assert ((a.view(unsigned) == b.view(unsigned)) | ((a != a) & (b != b))).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_has_the_bits_of_eager_mode(name, dtype):
    function = ARITHMETIC[name]
    for number, shape in enumerate(SHAPES):
        x, y = (jit.from_numpy(numbers(shape, dtype, 10 * number + i)) for i in range(2))
        for dim in range(len(shape)):
            traced = jit.trace(lambda x, y, dim=dim: function(x, y, dim))
            with np.errstate(all="ignore"):
                wanted = function(x, y, dim)
                for _ in range(2):
                    found = traced(x, y)
            for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, wanted)), strict=True):
                same(a, b)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_gradients_of_arithmetic_have_the_bits_of_eager_mode(name):
    """Signed zeros among them: a sum of a slice's gradient and zeros makes 0.0 of -0.0."""
    function = ARITHMETIC[name]
    for number, shape in enumerate(SHAPES[::2]):
        given = [numbers(shape, "float32", 10 * number + i) for i in range(2)]
        for dim in range(len(shape)):
            traced = jit.trace(lambda x, y, dim=dim: function(x, y, dim))
            wanted = gradients(lambda x, y, dim=dim: function(x, y, dim), given)
            for _ in range(3):
                found = gradients(traced, given)
            for a, b in zip(found, wanted, strict=True):
                same(a, b)


def gradients(function: Any, given: list[np.ndarray]) -> Any:
    x, y = (jit.from_numpy(a.copy()).requires_grad_() for a in given)
    with np.errstate(all="ignore"):
        result = function(x, y)
        results = result if isinstance(result, tuple) else (result,)
        seeds = [jit.from_numpy(numbers(tuple(r.shape), "float32", 7)) for r in results]
        used = [g for g in jit.autograd.grad(results, [x, y], seeds, allow_unused=True) if g is not None]
    return used
