"""Control flow outside of traces: it does what it says in Python, and is differentiated as such."""

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit.autograd import gradcheck, gradgradcheck


def test_cond_takes_one_branch() -> None:
    ran = []

    def add(x: Any, y: Any) -> Any:
        ran.append("add")
        return {"a": x + y}

    def subtract(x: Any, y: Any) -> Any:
        ran.append("subtract")
        return {"a": x - y}

    x = jit.ones(2)
    assert jit.cond(x.sum() > 1, add, subtract, (x, x))["a"].tolist() == [2, 2]
    assert jit.cond(False, add, subtract, [x, x])["a"].tolist() == [0, 0]
    assert ran == ["add", "subtract"]


def test_while_loop_and_its_trips() -> None:
    def halved(x: float) -> Any:
        found = jit.while_loop(lambda t: t["x"] > 1, lambda t: ({"x": t["x"] / 2, "n": t["n"] + 1},), (
            {"x": jit.tensor(x), "n": jit.tensor(0)},
        ))[0]  # fmt: skip
        return found["x"].item(), found["n"].item()

    assert halved(8.0) == (1.0, 3)
    assert halved(0.5) == (0.5, 0)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_sums(dim: int, reverse: bool) -> None:
    x = jit.rand(3, 4)
    zero = jit.zeros(4 if dim == 0 else 3)
    last, sums = jit.scan(lambda c, row: (c + row, c + row), zero, x, dim=dim, reverse=reverse)
    wanted = x.flip(dim).cumsum(dim).flip(dim) if reverse else x.cumsum(dim)
    assert jit.allclose(sums, wanted) and jit.allclose(last, x.sum(dim))


def test_map_and_nests() -> None:
    found = jit.map(lambda x, w: (x["a"] * w, [x["b"]]), {"a": jit.arange(3), "b": jit.ones(3, 2)}, jit.tensor(2))
    assert found[0].tolist() == [0, 2, 4]
    assert found[1][0].shape == (3, 2)


def test_no_rows() -> None:
    last, rows = jit.scan(lambda c, x: (c + x.sum(), x[:, None]), jit.tensor(1.0), jit.zeros(0, 3))
    assert last.item() == 1 and rows.shape == (0, 3, 1)


def test_results_have_memory_of_their_own() -> None:
    x = jit.ones(2)
    for y in (
        jit.cond(True, lambda x: x, lambda x: x, (x,)),
        jit.while_loop(lambda x: x.sum() > 9, lambda x: (x,), (x,))[0],
        jit.scan(lambda c, r: (c, r), x, jit.ones(3))[0],
    ):
        y.add_(1)
    assert x.tolist() == [1, 1]


def test_gradients() -> None:
    x = jit.rand(3, 2, dtype=jit.float64, requires_grad=True)

    def f(x: jit.Tensor) -> Any:
        y = jit.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x, (x,))
        last, rows = jit.scan(lambda c, r: (c * r, c + r), y[0], y)
        return rows, jit.while_loop(lambda z, n: n < 3, lambda z, n: (z * z, n + 1), (last, jit.tensor(0)))[0]

    assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))


X: Any = jit.ones(2)
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jit.cond(X, lambda: X, lambda: X), jit.Error, "predicate of cond is a tensor of float32; compare it"),
    (lambda: jit.cond(X > 0, lambda: X, lambda: X), jit.ShapeError, "predicate of cond has 2 elements"),
    (lambda: jit.cond(1, lambda: X, lambda: X), jit.Error, "predicate of cond is a int"),
    (lambda: jit.cond(True, lambda: 3, lambda: X), jit.Error, "a branch of cond returns tensors, and here is 3"),
    (lambda: jit.cond(True, lambda x: x, lambda x: x, X), jit.Error, "a tuple or a list of arguments, not a Tensor"),
    (lambda: jit.while_loop(lambda x: x, lambda x: (x,), (jit.tensor(1.0),)), jit.Error, "compare it"),
    (lambda: jit.while_loop(lambda x: True, lambda x: x, (X,)), jit.UsageError, r"tuple\(a tensor\) and a tensor"),
    (
        lambda: jit.while_loop(lambda x: True, lambda x: (x[:1],), (X,)),
        jit.ShapeError,
        r"float32\[2\], then float32\[1",
    ),
    (lambda: jit.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,)), jit.Error, "carries tensors, and here is 0"),
    (lambda: jit.scan(lambda c, x: c, X, X), jit.Error, "returns a pair"),
    (lambda: jit.scan(lambda c, x: (c.double(), x), X, X), jit.Error, "changes what it carries"),
    (lambda: jit.scan(lambda c, x: (c, x[0]), X, (X, X[:1])), jit.ShapeError, "of one size, and these have 2, 1"),
    (lambda: jit.scan(lambda c, x: (c, x), X, ()), jit.Error, "and there are none"),
    (lambda: jit.map(lambda x: x, jit.tensor(1)), jit.ShapeError, "one of them has none"),
]


@pytest.mark.parametrize("call, kind, words", WRONG)
def test_errors(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
    with pytest.raises(kind, match=words):
        jit.trace(call)()
