"""Traced functions that call functions with a cache: `functools.lru_cache`, bounded or not, also of methods."""

import functools
from typing import Any

import pytest

import jit

X = jit.tensor([1.0, 2.0, 3.0])
made: list[int] = []


@functools.cache
def unbounded(n):
    return jit.arange(n).float()


@functools.lru_cache
def bounded(n):
    return jit.arange(n).float()


@functools.lru_cache(maxsize=8, typed=True)
def typed(n, *, times=1):
    return jit.arange(n).float() * times


@functools.cache
def drawn(n):
    return jit.randn(n)


@functools.lru_cache(4)
def counted(n):
    made.append(int(n))
    return jit.arange(n).float(), {"n": n}


@functools.cache
def of_shape(shape):
    return jit.arange(shape[0]).float()


@functools.cache
def wanting(n):
    return jit.ones(n, requires_grad=True)


@functools.cache
def half(n):
    return n // 2


class Network(jit.nn.Module):
    @functools.lru_cache  # noqa: B019
    def table(self, n):
        return jit.arange(n).float()

    def forward(self, x):
        return x * self.table(x.shape[0])


NETWORK = Network()
CACHED: Any = (unbounded, bounded, typed, drawn, counted, of_shape, wanting, half, Network.table)
FUNCTIONS = {
    "unbounded": lambda x: x + unbounded(x.shape[0]),
    "bounded": lambda x: x + bounded(x.shape[0]),
    "typed, by name": lambda x: x + typed(n=x.shape[0], times=2),
    "random": lambda x: x + drawn(x.shape[0]),
    "counted": lambda x: x + counted(x.shape[0])[0] * counted(len(x))[1]["n"],
    "by a shape": lambda x: x + of_shape(x.shape),
    "with gradients": lambda x: x * wanting(x.shape[0]),
    "of numbers": lambda x: x[: half(x.shape[0])] * 2,
    "method": NETWORK.forward,
    "constant": lambda x: x + bounded(1),
}


@pytest.fixture(autouse=True)
def nothing_is_kept():
    for each in CACHED:
        each.cache_clear()
    made.clear()


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager_mode(name, filled):
    function = FUNCTIONS[name]
    if filled:
        function(X)
    f = jit.trace(function)
    for x in (X, X, X, X, jit.ones(5), jit.ones(5), jit.ones(5), X, jit.ones(5)):
        found = f(x)
        assert jit.equal(found, function(x))
    assert f.hits >= 3, f.explain()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_keep_results_keep_what_they_keep_in_eager_mode(name):
    function = FUNCTIONS[name]
    infos = []
    for call in (function, jit.trace(function)):
        for each in CACHED:
            each.cache_clear()
        for _ in range(3):
            call(X)
        infos.append([each.cache_info().currsize for each in CACHED])
    assert infos[0] == infos[1]


def test_functions_run_once_for_each_size():
    f = jit.trace(FUNCTIONS["counted"])
    for _ in range(4):
        f(X)
        f(jit.ones(4))
    assert sorted(made) == [3, 4]


@pytest.mark.parametrize("cached", [unbounded, bounded])
def test_kept_tensors_are_read_afresh(cached):
    f: Any = jit.trace(lambda x: x + cached(3))
    assert [f(X).tolist() for _ in range(3)] == [[1, 3, 5]] * 3
    cached(3).add_(1)
    assert f(X).tolist() == [2, 4, 6]
    cached.cache_clear()
    assert [f(X).tolist() for _ in range(3)] == [[1, 3, 5]] * 3


def test_gradients_reach_kept_leaves():
    f = jit.trace(FUNCTIONS["with gradients"])
    for times in range(1, 4):
        f(X).sum().backward()
        assert wanting(3).grad.tolist() == [times * each for each in X.tolist()]


def test_what_was_done_before_is_not_done_twice():
    def function(x, seen):
        seen.add_(1)
        return x + drawn(x.shape[0]) + jit.rand(3)

    f = jit.trace(function)
    jit.manual_seed(0)
    seen = jit.zeros(())
    found = [f(X, seen).tolist() for _ in range(2)]
    drawn.cache_clear()
    jit.manual_seed(0)
    assert seen.item() == 2
    assert found == [function(X, seen).tolist() for _ in range(2)]
