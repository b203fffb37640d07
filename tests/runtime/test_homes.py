"""Parts of a `cat` are written where it wants them, whoever makes and whoever else reads them."""

from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F

pytestmark = pytest.mark.llvm


def normal(*shape: int, seed: int = 0) -> Any:
    return jit.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def compiled(function: Any, *given: Any) -> tuple[Any, Any]:
    """(the traced function, its results), compared with eager mode.

    A sum whose terms nearly cancel is as wrong as its terms are large, of which the largest result tells.
    """
    traced = jit.trace(function)
    for _ in range(2):
        found = traced(*given)
    wanted = function(*given)
    many = isinstance(wanted, tuple)
    for a, b in zip(found if many else (found,), wanted if many else (wanted,), strict=True):
        largest = float(np.abs(b._array).max(initial=1))
        np.testing.assert_allclose(a._array, b._array, rtol=2e-5, atol=max(2e-5, 1e-6 * largest))
    return traced, found


X, Y, W = normal(96, 40), normal(96, 24, seed=1), normal(40, 40, seed=2)
IMAGE, FILTERS = normal(2, 8, 12, 12), normal(8, 8, 3, 3, seed=3)

CASES: dict[str, tuple[Any, list[Any], int]] = {
    "kernels": (lambda x, y: jit.cat([jit.tanh(x), jit.exp(y)], 1), [X, Y], 0),
    "kernels, one after the other": (lambda x, y: jit.cat([jit.tanh(x), jit.exp(x[:9])], 0), [X, Y], 0),
    "a norm of rows": (lambda x, y: jit.cat([jit.softmax(x, 1), y * y], 1), [X, Y], 0),
    "a sum of columns": (lambda x, y: jit.cat([x.sum(0), jit.exp(y).sum(0)], 0), [X, Y], 0),
    "stacked in the middle": (
        lambda x, y: jit.stack([jit.tanh(y), jit.softmax(y, 1), jit.exp(x[:, :24]).cumsum(0)], 1), [X, Y], 0,
    ),
    "an input as it is": (lambda x, y: jit.cat([jit.tanh(x), y], 1), [X, Y], 1),
    "twice the same": (lambda x, y: (lambda a: jit.cat([a, y * 2, a], 1))(jit.tanh(x)), [X, Y], 1),
    "in two joins": (lambda x, y: (lambda a: (jit.cat([a, y * 2], 1), jit.cat([y * 3, a], 1)))(jit.tanh(x)), [X, Y], 1),
    "a result of its own": (lambda x, y: (lambda a: (jit.cat([a, y * 2], 1), a))(jit.tanh(x)), [X, Y], 1),
    "zeros beside it": (lambda x, y: jit.cat([jit.tanh(x), jit.zeros(96, 5), y * 2], 1), [X, Y], 0),
}  # fmt: skip
"""By name: a function, its arguments, and how many parts are copied."""


@pytest.mark.parametrize("name", CASES)
def test_only_what_cannot_be_written_there_is_copied(name):
    function, given, copies = CASES[name]
    traced, _ = compiled(function, *given)
    names = [kernel.name for kernel in traced.kernels for _ in range(kernel.calls)]
    assert names.count("copy") == copies, names


READERS: dict[str, tuple[Any, list[Any]]] = {
    "a product on its left": (lambda x, y, w: (lambda a: (jit.cat([a, y * 2], 1), a @ w))(jit.tanh(x)), [X, Y, W]),
    "a product on its right": (
        lambda x, y, w: (lambda a: (jit.cat([a, y * 2], 1), w[:, :5].t() @ a.t()))(jit.tanh(x)), [X, Y, W],
    ),
    "a batch of products": (
        lambda x, y, w: (lambda a: (jit.cat([a, y.reshape(4, 24, 24)], 2), a @ a.transpose(1, 2)))(
            jit.tanh(x).reshape(4, 24, 40)
        ), [X, Y, W],
    ),
    "a reshape": (lambda x, y, w: (lambda a: (jit.cat([a, y * 2], 1), a.reshape(-1) * 2))(jit.tanh(x)), [X, Y, W]),
    "a sum of everything": (lambda x, y, w: (lambda a: (jit.cat([y, a], 1), a.sum()))(jit.tanh(x)), [X, Y, W]),
    "a convolution": (
        lambda x, f: (lambda a: jit.cat([a, F.conv2d(a, f, padding=1)], 1))(jit.relu(x)), [IMAGE, FILTERS],
    ),
    "a pooling": (lambda x, f: (lambda a: (jit.cat([a, x], 1), F.max_pool2d(a, 2)))(jit.relu(x)), [IMAGE, FILTERS]),
    "an embedding": (
        lambda x, y, w: (lambda a: (jit.cat([a, y], 1), F.embedding(jit.tensor([3, 1]), a)))(jit.tanh(x)), [X, Y, W],
    ),
    "a norm of it": (lambda x, y, w: (lambda a: (jit.cat([y, a], 1), jit.softmax(a, 0)))(jit.tanh(x)), [X, Y, W]),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_whoever_reads_a_part_reads_the_slice(name):
    function, given = READERS[name]
    compiled(function, *given)


MAKERS: dict[str, tuple[Any, list[Any]]] = {
    "an epilogue": (
        lambda x, w, y: jit.cat([jit.relu(x @ w + 1), y * 2], 1), [normal(512, 384), normal(384, 640), normal(512, 8)],
    ),
    "epilogues": (
        lambda x, w, y: jit.cat([jit.relu(x @ w + 1), jit.tanh(x @ w[:, :320])], 1),
        [normal(512, 384), normal(384, 640), normal(512, 8)],
    ),
    "an activation of a convolution": (
        lambda x, f, y: jit.cat([jit.relu(F.conv2d(x, f, padding=1)), y * 2, F.conv2d(x, f, padding=1) + 1], 1),
        [IMAGE, FILTERS, IMAGE],
    ),
    "few long rows": (
        lambda x: jit.cat([jit.exp(x).sum(1, keepdim=True), x[:, :3] * 2, jit.exp(x).amax(1, keepdim=True)], 1),
        [normal(2, 200_000)],
    ),
    "a softmax of few long rows": (
        lambda x: jit.cat([jit.softmax(x, 1), x[:, :3] * 2], 1), [normal(2, 200_000)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_whoever_makes_a_part_writes_the_slice(name):
    function, given = MAKERS[name]
    compiled(function, *given)


def test_a_dense_block_has_the_results_and_gradients_of_eager_mode():
    def block(x, a, b):
        for filters in (a, b):
            x = jit.cat([x, F.conv2d(jit.relu(F.batch_norm(x, None, None, training=True)), filters, padding=1)], 1)
        return jit.relu(x * 2)

    filters = [normal(4, 8, 3, 3, seed=1) * 0.1, normal(4, 12, 3, 3, seed=2) * 0.1]

    def gradients(function):
        given = [jit.from_numpy(v._array.copy()).requires_grad_() for v in (IMAGE, *filters)]
        result = function(*given)
        return [result, *jit.autograd.grad((result * result).mean(), given)]

    traced, wanted = jit.trace(block), gradients(block)
    for _ in range(3):
        found = gradients(traced)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach()._array, b.detach()._array, rtol=1e-4, atol=1e-5)
