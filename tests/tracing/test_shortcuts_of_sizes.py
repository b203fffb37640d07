"""One shortcut serves all sizes of a recording for many, and nothing that changes goes unnoticed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jit
from jit.runtime.plans import entry
from tests.threads import in_threads

pytestmark = [pytest.mark.llvm, pytest.mark.skipif(not entry.available(), reason="native calls are not available")]


def rows(n: int, seed: int = 0) -> jit.Tensor:
    return jit.from_numpy(np.random.default_rng(seed).standard_normal((n, 4), np.float32))


def network() -> Any:
    jit.manual_seed(0)
    return jit.nn.Sequential(jit.nn.Linear(4, 8), jit.nn.Tanh(), jit.nn.Linear(8, 3))


def warmed(function: Any, sizes: Sequence[int] = (), make: Callable[[int], Any] = rows) -> Any:
    """The function, traced, with a shortcut for tensors of many sizes, which one recording serves."""
    traced = jit.trace(function)
    for n in (9, 10, 11, *sizes):
        traced(make(n))
    assert traced.misses == 2 and [r for _, r in traced._shortcuts.kept if r.general]
    return traced


def long_ways(traced: Any, *calls: Any) -> int:
    """How many of some calls do not take a shortcut."""
    before = traced._answers.looked_up
    for args in calls:
        traced(*args)
    return int(traced._answers.looked_up - before)


def test_sizes_that_never_came_take_it() -> None:
    def f(x: jit.Tensor) -> Any:
        return (x * 2).relu().sum(-1), x @ x.t()

    traced = warmed(f)
    before = traced._answers.looked_up
    for n in (3, 4, 5, 60, 7, 5, 3, 2, 33, 33, 70, 2):
        for found, expected in zip(traced(rows(n, n)), f(rows(n, n)), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert traced.misses == 2 and traced._answers.looked_up == before


def test_each_magnitude_of_sizes_has_one() -> None:
    traced = jit.trace(lambda x: x * 2)
    for n in (2, 3, 5, 300, 301, 20_000, 4, 20_001, 302, 5):
        assert traced(rows(n)).tolist() == (rows(n) * 2).tolist()
    assert traced.misses == 2 and len([r for _, r in traced._shortcuts.kept if r.general]) == 3
    assert long_ways(traced, (rows(6),), (rows(400),), (rows(20_002),), (rows(9),)) == 0


def test_many_sizes_at_once() -> None:
    """Sizes of several tensors, in lists and dicts, some equal in each call; results in containers."""

    def f(pairs: Any, more: Any) -> Any:
        (a, b), (c, d) = pairs
        return {"first": jit.cat([a, b]) @ more["w"].t(), "rest": [c * 2, (d.sum(0), c.shape[0] * 1.0 + 0 * d.sum())]}

    def arguments(n: int, m: int, k: int) -> Any:
        return [(rows(n), rows(m)), (rows(k), rows(k, 1))], {"w": rows(m, 2)}

    def flat(result: Any) -> list[Any]:
        return [result["first"], result["rest"][0], *result["rest"][1]]

    traced = jit.trace(f)
    for sizes in ((4, 5, 6), (7, 8, 9), (5, 4, 6), (8, 8, 8), (20, 3, 2), (3, 20, 40), (9, 9, 2), (2, 2, 2)):
        for found, expected in zip(flat(traced(*arguments(*sizes))), flat(f(*arguments(*sizes))), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    assert traced.misses <= 3


def test_large_results() -> None:
    """Memory for large results is handed on; a plan serves small ones as well."""
    traced = jit.trace(lambda x: (x * 2, x.sum(-1)))
    for n in (50_000, 60_000, 70_000, 90_000, 20_000, 70_000, 65_536, 65_537):
        for found, expected in zip(traced(rows(n)), (rows(n) * 2, rows(n).sum(-1)), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    assert traced.misses == 2 and long_ways(traced, (rows(80_000),)) == 0


def test_threads_that_come_at_once() -> None:
    weight = rows(64)
    traced = warmed(lambda x: (x @ weight.t()).softmax(-1) @ weight)
    expected = {n: traced(rows(n)).numpy().copy() for n in range(2, 60)}

    def work(index: int) -> None:
        for turn in range(60):
            n = 2 + (7 * index + 11 * turn) % 58
            assert np.array_equal(traced(rows(n)).numpy(), expected[n])

    in_threads(work)
    assert traced.misses == 2


def test_a_call_within_a_call() -> None:
    """What is around the function is compared in the middle of a call; if that calls it, it goes the long way."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            seen.append(traced(rows(5 + len(seen) % 3)).shape)
            return True

        __hash__ = None  # type: ignore[assignment]

    seen: list[Any] = []
    scale = {"by": 2.0}
    traced = warmed(lambda x: x * scale["by"])
    for n in (3, 8, 4):
        assert Odd() == n and traced(rows(n)).tolist() == (rows(n) * 2).tolist()
    assert seen == [(5, 4), (6, 4), (7, 4)]


def test_the_gradients_are_those_of_the_call() -> None:
    model = network()
    traced = jit.trace(model)

    def gradients(function: Any, x: jit.Tensor) -> list[np.ndarray]:
        for weight in model.parameters():
            weight.grad = None
        x = x.clone().requires_grad_()
        (function(x) ** 2).sum().backward()
        return [x.grad.numpy(), *(weight.grad.numpy() for weight in model.parameters())]

    for n in (9, 10, 11, 12, 3, 5):
        gradients(traced, rows(n))
    misses = traced.misses
    for n in (3, 5, 4, 3, 5, 11):
        for found, expected in zip(gradients(traced, rows(n, n)), gradients(model, rows(n, n)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert traced.misses == misses == 2 and long_ways(traced, (rows(3).requires_grad_(),)) == 0


def test_a_stage_that_comes_later_is_run() -> None:
    weight = jit.ones(4).requires_grad_()
    traced = warmed(lambda x: (x * weight).tanh(), (3,))
    for n in (3, 3, 9, 10, 3, 4):
        weight.grad = None
        traced(rows(n)).sum().backward()
        found, weight.grad = weight.grad, None
        (rows(n) * weight).tanh().sum().backward()
        np.testing.assert_allclose(found.numpy(), weight.grad.numpy(), rtol=1e-5)  # type: ignore[attr-defined]


def test_weights_may_be_written_to_and_replaced() -> None:
    model = network()
    with jit.no_grad():
        traced = warmed(model, (3,))
        for change in (lambda w: w.mul_(2), lambda w: setattr(model[0], "weight", jit.nn.Parameter(w * 3))):
            change(model[0].weight)
            np.testing.assert_allclose(traced(rows(3)).numpy(), model(rows(3)).numpy(), rtol=1e-5, atol=1e-6)


def test_a_condition_holds_for_its_size_alone() -> None:
    def f(x: jit.Tensor) -> Any:
        return x * 3 if x.shape[0] > 20 else x.relu() * 2

    traced = warmed(f, (3, 4))
    for n in (3, 21, 4, 30, 3, 21, 2, 20):
        np.testing.assert_array_equal(traced(rows(n)).numpy(), f(rows(n)).numpy())


def test_what_lies_otherwise_goes_the_long_way() -> None:
    traced = warmed(lambda x: x + 1, (4,))
    for x in (rows(4).t(), rows(8)[::2], rows(4).double(), rows(4).expand(2, 4, 4)):
        assert traced(x).tolist() == (x + 1).tolist()
    assert long_ways(traced, (rows(4),)) == 0


@pytest.mark.parametrize("change", ["global", "grad mode", "inference mode", "cleared"])
def test_what_is_around_is_looked_at(change: str) -> None:
    space: dict[str, Any] = {"scale": 2.0}
    exec("def f(x):\n    return x * scale", space)
    traced = warmed(space["f"], (3,))
    x = rows(3).requires_grad_()
    if change == "global":
        space["scale"] = 3.0
        assert traced(x).tolist() == (x * 3).tolist()
    elif change == "grad mode":
        assert traced(x).requires_grad
        with jit.no_grad():
            assert not traced(x).requires_grad
    elif change == "inference mode":
        with jit.inference_mode():
            assert traced(x).is_inference()
        assert not traced(rows(3)).is_inference()
    else:
        traced.clear_cache()
        assert traced(x).tolist() == (x * 2).tolist() and traced.misses == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.new_zeros([2, 3]),
        lambda x: jit.zeros(2, 3) + 1,
        lambda x: (jit.arange(3), jit.eye(2)),
        lambda x: jit.full((2,), 1.5) * 2,
    ],
)
def test_results_that_know_nothing_of_sizes_that_vary(function: Any) -> None:
    traced = jit.trace(function)
    for n in (5, 6, 7, 9, 7, 9, 7, 30, 7):
        x = jit.rand(n, 3)
        found, wanted = traced(x), function(x)
        pairs = [(found, wanted)] if isinstance(wanted, jit.Tensor) else list(zip(found, wanted, strict=True))
        assert all(a.tolist() == b.tolist() for a, b in pairs)
