"""Programs whose sizes vary, as people write them: right at every size, and recorded twice where sizes do not matter.

Sizes 0 and 1 broadcast, so each of them is recorded by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional as F
from tests.tolerances import assert_close

PLAIN = (3, 4, 5, 37, 36, 8, 2, 16, 37, 5)
ALL = (3, 4, 5, 37, 1, 8, 2, 0, 16, 0, 1, 5)


def normal(*sizes: int) -> Any:
    """Normal numbers, the same ones for the same sizes."""
    draw = np.random.default_rng(sum((i + 1) * n for i, n in enumerate(sizes)))
    return jit.tensor(draw.standard_normal(sizes).astype(np.float32))


def causal(x: Any) -> Any:
    length = x.shape[1]
    mask = jit.tril(jit.ones(length, length))
    scores = (x @ x.transpose(1, 2)).masked_fill(mask == 0, float("-inf"))
    return F.softmax(scores, -1) @ x


def encoder() -> Any:
    jit.manual_seed(0)
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()


Program = tuple[str, Callable[..., Any], Callable[[int], Sequence[Any]], Sequence[int], int]

PROGRAMS: list[Program] = [
    ("attention", lambda q, k, v: F.softmax(q @ k.transpose(-1, -2), -1) @ v,
     lambda n: [normal(2, n, 8)] * 3, PLAIN, 2),
    ("attention over others", lambda q, k, v: F.softmax(q @ k.transpose(-1, -2), -1) @ v,
     lambda n: [normal(2, n, 8), normal(2, n + 1, 8), normal(2, n + 1, 8)], PLAIN, 2),
    ("scaled dot product", F.scaled_dot_product_attention, lambda n: [normal(2, 4, n, 8)] * 3, PLAIN, 2),
    ("causal", causal, lambda n: [normal(2, n, 8)], PLAIN, 3),
    ("encoder", encoder(), lambda n: [normal(2, n, 16)], (3, 4, 5, 6, 7, 9), 2),
    ("heads", lambda x: x.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2) * 2,
     lambda n: [normal(2, n, 32)], PLAIN, 2),
    ("outer", lambda x: x[:, None] * x[None, :], lambda n: [normal(n)], ALL, 4),
    ("concatenated", lambda x, y: jit.cat([x, y, x]), lambda n: [normal(n, 2), normal(n + 1, 2)], PLAIN, 2),
    ("padded to 8", lambda x: F.pad(x, (0, 8 - x.shape[1] % 8)), lambda n: [normal(2, n)], PLAIN, 2),
    ("strided convolution", nn.Conv2d(2, 3, 3, stride=2, padding=1),
     lambda n: [normal(1, 2, n, n + 1)], (5, 6, 7, 8, 37), 2),
    ("pools", lambda x: F.adaptive_avg_pool2d(F.avg_pool2d(x, 2), 1),
     lambda n: [normal(1, 2, n, n + 1)], (5, 6, 7, 8, 37), 2),
    ("lower triangle", lambda x: jit.tril(x @ x.t()), lambda n: [normal(n, 3)], PLAIN, 3),
    ("largest two", lambda x: x.topk(2, 0)[0], lambda n: [normal(n, 4)], PLAIN, 2),
    ("neighbours", lambda x: x[1:-1] * 2 + x[2:] - x[:-2], lambda n: [normal(n, 4)], PLAIN, 3),
    ("one half", lambda x: x[: x.shape[0] // 2] * 2, lambda n: [normal(n, 4)], PLAIN, 4),
    ("centred", lambda x: x - x.mean(0, keepdim=True).expand(x.shape[0], -1), lambda n: [normal(n, 4)], ALL, 4),
    ("repeated", lambda x: x.repeat(x.shape[0], 1), lambda n: [normal(n, 4)], ALL, 4),
    ("first three", lambda x: jit.where(jit.arange(x.shape[0])[:, None] < 3, x, -x), lambda n: [normal(n, 4)], ALL, 4),
    ("einsum", lambda x: jit.einsum("ij,kj->ik", x, x), lambda n: [normal(n, 4)], ALL, 4),
    ("group norm", nn.GroupNorm(2, 4), lambda n: [normal(2, 4, n, n)], (3, 4, 5, 6), 2),
    ("cross entropy", lambda x: F.cross_entropy(x, x.argmax(1)), lambda n: [normal(n, 4)], PLAIN, 2),
    ("pieces in heads", lambda x: x.chunk(3, -1)[0].reshape(x.shape[0], x.shape[1], 2, 4) * 2,
     lambda n: [normal(n, n + 2, 24)], PLAIN, 2),
    ("twice as large", lambda x: F.interpolate(x, scale_factor=2),
     lambda n: [normal(1, 2, n, n + 1)], (5, 6, 7, 8, 37), 2),
    ("one and a half times", lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
     lambda n: [normal(1, 2, n, n + 1)], (5, 6, 7, 8, 37), 2),
    ("batch and length", encoder(), lambda n: [normal(n, n + 1, 16)], (3, 4, 5, 6, 7), 2),
    ("by a square root", lambda x: x / x.shape[-1] ** 0.5, lambda n: [normal(3, n)], PLAIN, 2),
    ("layer norm", nn.LayerNorm(8), lambda n: [normal(n, n + 1, 8)], PLAIN, 2),
    ("upper triangle", lambda s: s.masked_fill(jit.ones(s.shape[-1], s.shape[-1]).triu(1).bool(), -9.0).softmax(-1),
     lambda n: [normal(2, n, n)], PLAIN, 2),
    ("all but the last dim", lambda x: x.reshape(-1, x.shape[-1]).sum(0) / (x.numel() / x.shape[-1]),
     lambda n: [normal(n, n + 1, 4)], PLAIN, 2),
    ("a cache that grows", lambda x, k: F.scaled_dot_product_attention(x, jit.cat([k, x], 1), jit.cat([k, x], 1)),
     lambda n: [normal(2, 1, 8), normal(2, n, 8)], tuple(range(3, 15)), 2),
    ("half of a size", lambda x: x * (x.shape[0] / 2) + 1 / x.shape[0], lambda n: [normal(n, 4)], PLAIN, 2),
    ("by an inverse square root", lambda x: x * x.shape[-1] ** -0.5 + 1 / jit.sym_sqrt(x.shape[-1]),
     lambda n: [normal(3, n)], PLAIN, 2),
    ("whole numbers of floats", lambda x: x * (math.floor(x.shape[0] * 0.7) + round(x.shape[0] / 3))
     + jit.sym_int(x.shape[0] * 1.5) + jit.sym_float(x.shape[0]) ** 0.5, lambda n: [normal(n, 4)], PLAIN, 2),
    ("a size by a float", lambda x: x[: math.ceil(x.shape[0] * 0.7)] @ x.t(), lambda n: [normal(n, 4)], PLAIN, 2),
    ("a new tensor by a float", lambda x: jit.ones(jit.sym_int(x.shape[0] * 1.5), 3).sum() * x,
     lambda n: [normal(n, 4)], PLAIN, 2),
    ("resized by floats", lambda x: F.interpolate(x, size=(round(x.shape[2] * 1.5), jit.sym_int(x.shape[3] / 2))),
     lambda n: [normal(1, 2, n, n + 1)], (5, 6, 7, 8, 37), 2),
    ("a size and its double", lambda x: (x * 2, x.shape[0] * 2), lambda n: [normal(n, 2)], ALL, 4),
]  # fmt: skip

DECIDING: list[Program] = [
    ("only 37 matters", lambda x: x * 2 if x.shape[0] == 37 else x + 1, lambda n: [normal(n, 2)], ALL, 5),
    ("equal by chance", lambda x, y: x + y.sum() if x.shape[0] == y.shape[0] else x - 1,
     lambda n: [normal(n, 2), normal(4 if n % 2 else n, 2)], ALL, 7),
    ("even", lambda x: x.view(x.shape[0] // 2, 2, -1).sum(1) if x.shape[0] % 2 == 0 and x.shape[0] else x * 3,
     lambda n: [normal(n, 2)], ALL, 6),
    ("broadcast or not", lambda x, y: x * y, lambda n: [normal(n, 4), normal(1 if n % 3 == 0 else n, 4)], ALL, 6),
    ("len", lambda x: x * len(x), lambda n: [normal(n, 2)], ALL, 12),
    ("range", lambda x: sum((x[i] for i in range(x.shape[0])), x.sum(0) * 0), lambda n: [normal(n, 2)], ALL, 12),
    ("text", lambda x: x * int(f"{x.shape[0]}"), lambda n: [normal(n, 2)], ALL, 12),
    ("numpy", lambda x: x * float(np.sqrt(x.shape[0])), lambda n: [normal(n, 2)], ALL, 12),
    ("table", lambda x: x * {3: 5, 4: 7}.get(x.shape[0], 1), lambda n: [normal(n, 2)], ALL, 12),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS + DECIDING, ids=lambda program: program[0])
def test_right_at_every_size(program: Program) -> None:
    _, function, arguments, sizes, most = program
    traced = jit.trace(function)
    for size in sizes:
        found, wanted = (
            (r if isinstance(r, tuple) else (r,)) for r in (f(*arguments(size)) for f in (traced, function))
        )
        for a, b in zip(found, wanted, strict=True):
            if isinstance(b, jit.Tensor):
                assert_close(a.detach(), b.detach(), rtol=1e-4, atol=1e-5)
            else:
                assert a == b and type(a) is type(b)
    assert traced.misses <= most


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p[0] != "a size and its double"], ids=lambda p: p[0])
def test_gradients_at_every_size(program: Program) -> None:
    _, function, arguments, sizes, _ = program
    traced = jit.trace(function)
    for size in [n for n in sizes if n > 1][:5]:
        gradients = []
        for call in (traced, function):
            given = [x.clone().requires_grad_() for x in arguments(size)]
            (call(*given) ** 2).sum().backward()
            gradients.append([x.grad for x in given])
        for a, b in zip(*gradients, strict=True):
            assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_int_decides_on_the_whole_number_alone() -> None:
    f = jit.trace(lambda x: x * int(x.shape[0] * 0.1))
    for n in (20, 21, 22, 23, 29, 30, 25):
        assert f(normal(n)).tolist() == (normal(n) * int(n * 0.1)).tolist()
    assert (f.misses, f.hits) == (3, 4)


def test_a_condition_that_fails_says_so() -> None:
    f = jit.trace(lambda x: x * 2 if x.shape[0] % 4 == 0 else x + 1)
    for n in (4, 8, 12, 6):
        f(normal(n))
    assert f.misses == 3
    assert "does not serve it: x.shape[0] % 4 == 0 does not hold (decided at" in f.explain()


def test_the_graph_speaks_of_sizes() -> None:
    f = jit.trace(lambda x: x.reshape(x.shape[0], -1).mean(0) * x.shape[0])
    for n in (3, 4, 5):
        f(normal(n, 2, 2))
    text = str(f.graph)
    assert "%x : Float(n, 2, 2)" in text and "aten::mul(%1, n)" in text and "prim::" not in text


FACTOR = 2.0


def _scaled(x: Any) -> Any:
    return x * FACTOR + len(range(3))


def test_sizes_of_recordings_whose_keys_have_become_longer() -> None:
    def f(x: Any, y: Any, further: bool) -> Any:
        return (_scaled(x) if further else x * 2) + y

    traced = jit.trace(f)
    for n, further in ((3, False), (3, True), (4, False), (5, False), (4, True), (6, True), (7, False)):
        for x in (normal(n, 2), normal(2, n).t()):
            assert traced(x, normal(n, 2), further).tolist() == f(x, normal(n, 2), further).tolist()
    assert traced.misses <= 8
