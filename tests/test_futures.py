"""Futures: results that another thread sets, what is called when they come, and errors in place of them."""

import threading

import pytest

import jit
from jit.futures import Future, collect_all, wait_all


def test_a_result_comes_from_another_thread():
    future: Future[int] = Future()
    assert not future.done()
    with pytest.raises(jit.UsageError, match="has no result yet"):
        future.value()
    threading.Timer(0.01, future.set_result, [3]).start()
    assert future.wait() == 3 and future.done() and future.value() == 3
    with pytest.raises(jit.UsageError, match="only be set once"):
        future.set_result(4)
    with pytest.raises(jit.UsageError, match="only be set once"):
        future.set_exception(ValueError())


@pytest.mark.parametrize("before", [True, False])
def test_functions_are_called_when_the_result_comes_or_at_once(before):
    future: Future[int] = Future()
    seen: list[int] = []
    if before:
        future.set_result(3)
    future.add_done_callback(lambda done: seen.append(done.value()))
    chained = future.then(lambda done: done.value() * 2).then(lambda done: done.value() + 1)
    if not before:
        assert seen == [] and not chained.done()
        future.set_result(3)
    assert seen == [3] and chained.wait() == 7


def test_errors_are_raised_by_who_asks():
    future: Future[int] = Future()
    chained = future.then(lambda done: done.value() + 1)
    future.set_exception(KeyError("x"))
    for each in (future, chained):
        with pytest.raises(KeyError):
            each.wait()
        with pytest.raises(KeyError):
            each.value()


def test_several_are_waited_for():
    futures: list[Future[int]] = [Future() for _ in range(3)]
    together = collect_all(futures)
    for number in (2, 0):
        futures[number].set_result(number)
    assert not together.done()
    futures[1].set_result(1)
    assert together.wait() is futures and wait_all(futures) == [0, 1, 2]
    assert collect_all([]).wait() == [] and wait_all([]) == []
    failing: Future[int] = Future()
    failing.set_exception(KeyError())
    with pytest.raises(KeyError):
        wait_all([*futures, failing])
