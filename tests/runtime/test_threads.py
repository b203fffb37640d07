"""`set_num_threads` and its like: they count at once, and change no result."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jit
from jit.eager import hot
from jit.runtime.plans import pool, threads
from jit.runtime.products import blas_alone, blas_threads
from tests.threads import in_threads


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = threads.thread_count()
    yield
    jit.set_num_threads(before)
    for what in ("kernels", "nodes"):
        threads.choose(what, None)
    pool._stop()


def test_what_was_set() -> None:
    for number in (1, 3, np.int64(2), 7):
        jit.set_num_threads(number)  # type: ignore[arg-type]
        assert jit.get_num_threads() == number and type(jit.get_num_threads()) is int
        assert jit.get_num_interop_threads() == number
    jit.set_num_interop_threads(4)
    assert (jit.get_num_interop_threads(), jit.get_num_threads()) == (4, 7)


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.choose("kernels", None)
    monkeypatch.setenv("JIT_NUM_THREADS", "5")
    assert jit.get_num_threads() == jit.get_num_interop_threads() == 5
    jit.set_num_threads(2)
    assert jit.get_num_threads() == 2


@pytest.mark.parametrize("set_number", [jit.set_num_threads, jit.set_num_interop_threads])
@pytest.mark.parametrize("wrong", [0, -1, 10**6, 2**70, True, 1.5, "2", None, [2]])
def test_wrong_numbers(set_number: Any, wrong: Any) -> None:
    before = jit.get_num_threads()
    with pytest.raises(jit.Error, match="threads") as raised:
        set_number(wrong)
    assert isinstance(raised.value, (ValueError, TypeError)) and jit.get_num_threads() == before


def programs() -> list[Any]:
    return [
        lambda x, y: jit.tanh(x * y) + jit.exp(-x) * y, lambda x, y: jit.softmax(x * y, 0),
        lambda x, y: jit.exp(x).argmax(1) * 2,
        lambda x, y: (x.sum(), (x * y).var(1), x.norm()), lambda x, y: (x > y).sum(0), lambda x, y: x.cumsum(1) * y,
    ]  # fmt: skip


@pytest.mark.llvm
def test_results_do_not_depend_on_it() -> None:
    """One recording, and recordings that were made with another number, give the same bits with any number."""
    rng = np.random.default_rng(0)
    x, y = (jit.from_numpy(rng.standard_normal((501, 703)).astype(np.float32)) for _ in range(2))
    for number, program in enumerate(programs()):
        found = set()
        for made_with in (1, 3):
            jit.set_num_threads(made_with)
            traced = jit.trace(program)
            traced(x, y)  # the first call computes with numpy
            for count in (made_with, 1, 2, 3, 5, 8, 1):
                jit.set_num_threads(count)
                results = traced(x, y)
                several = results if isinstance(results, tuple) else (results,)
                found.add(b"".join(t.numpy().tobytes() for t in several))
        assert len(found) == 1, number


@pytest.mark.llvm
def test_products() -> None:
    """OpenBLAS adds in another order for another number of threads."""
    rng = np.random.default_rng(0)
    x, y = (jit.from_numpy(rng.standard_normal((501, 703))) for _ in range(2))
    f = jit.trace(lambda x, y: x @ y.t())
    for count in (1, 2, 3, 5, 1):
        jit.set_num_threads(count)
        for product in (f(x, y), x @ y.t()):
            np.testing.assert_allclose(product.numpy(), x.numpy() @ y.numpy().T, rtol=0, atol=1e-11)


@pytest.mark.llvm
@pytest.mark.parametrize("calls", [1, hot.LEAST_CALLS + 1], ids=["by numpy", "by kernels once they are hot"])
def test_gradients_do_not_depend_on_it(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "MOST", 0 if calls == 1 else hot.MOST)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((300, 300)) for _ in range(4)]
    found = set()
    for kernels, nodes in ((1, 1), (2, 1), (1, 3), (4, 4)):
        jit.set_num_threads(kernels)
        jit.set_num_interop_threads(nodes)
        x = jit.ones(300, 300, dtype=jit.float64)
        for _ in range(calls):
            leaves = [jit.tensor(w, requires_grad=True) for w in weights]
            jit.cat([jit.tanh(x * leaf).exp() for leaf in leaves]).sum().backward()
        found.add(b"".join(leaf.grad.numpy().tobytes() for leaf in leaves))
    assert len(found) == 1


@pytest.mark.llvm
def test_it_counts_at_once() -> None:
    jit.set_num_threads(4)
    f = jit.trace(lambda x, y: jit.tanh(x * y) + jit.sigmoid(x) * y)
    x = jit.ones(1001, 333)
    with jit.no_grad():
        for _ in range(3):
            f(x, x)
        field = pool._AT["threads"]
        assert pool.cell[0] and len(pool._threads) == 3 and pool._memory[-1][field] == 3
        for count in (2, 1, 6, 3):
            jit.set_num_threads(count)
            assert pool._memory[-1][field] == count - 1
            generation = int(pool._memory[-1][pool._AT["ticket"]])
            f(x, x)
            shared = int(pool._memory[-1][pool._AT["ticket"]]) - generation
            assert (shared > 0) == (count > 1) and len(pool._threads) == count - 1


@pytest.mark.llvm
def test_changes_while_others_compute() -> None:
    rng = np.random.default_rng(0)
    x, y = (jit.from_numpy(rng.standard_normal((501, 703)).astype(np.float32)) for _ in range(2))
    f = jit.trace(lambda x, y: jit.tanh(x * y) + jit.exp(-x) * y)
    jit.set_num_threads(4)
    with jit.no_grad():
        expected = [f(x, y).numpy().tobytes() for _ in range(3)][-1]

        def work(index: int) -> None:
            with jit.no_grad():
                for turn in range(20):
                    if index == 0:
                        jit.set_num_threads(1 + turn % 5)
                    assert f(x, y).numpy().tobytes() == expected

        in_threads(work)


@pytest.mark.parametrize("package", ["numpy", "scipy"])
def test_products_of_other_libraries(package: str) -> None:
    """Of OpenBLAS, which the wheels of both bring; it can be asked, too."""
    if blas_threads.functions_of_threads(package) is None:
        pytest.skip(f"{package} has no OpenBLAS of its own")
    x = jit.from_numpy(np.random.default_rng(0).standard_normal((200, 200)))
    found = []
    for count in (1, 2, 4):
        jit.set_num_threads(count)
        assert blas_threads.set_blas_threads(package, count)
        found.append((x @ x).numpy().copy())
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=0, atol=1e-11)


def test_a_library_without_a_setter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_threads, "functions_of_threads", lambda package: None)
    assert not blas_threads.set_blas_threads("numpy", 2)
    jit.set_num_threads(2)


def test_in_a_traced_function() -> None:
    """A recording would neither set it again, nor notice that it has changed."""
    f = jit.trace(lambda x: x * jit.get_num_threads())
    for count in (2, 3, 2):
        jit.set_num_threads(count)
        assert f(jit.ones(1)).item() == count

    def sets(x: Any) -> Any:
        jit.set_num_threads(3)
        return x * 2

    g = jit.trace(sets)
    for _ in range(3):
        jit.set_num_threads(1)
        g(jit.ones(1))
        assert jit.get_num_threads() == 3


def products_by_blas(count: int) -> tuple[list[Any], int]:
    """Products that plans leave to BLAS: of few columns, of one row, of batches; and how many steps threads shared."""
    pool._stop()
    jit.set_num_threads(count)
    rng = np.random.default_rng(0)
    found = []
    with jit.no_grad():
        for a, b in (((9001, 130), (130, 3)), ((1, 700), (700, 903)), ((7, 300, 301), (7, 301, 2))):
            x, y = (jit.from_numpy(rng.standard_normal(sizes)) for sizes in (a, b))
            f = jit.trace(lambda x, y: x @ y)
            found.append([f(x, y).numpy() for _ in range(3)][-1])
    shared = int(pool._memory[-1][pool._AT["ticket"]]) // pool.WAKES if pool.cell[0] else 0
    return found, shared


@pytest.mark.llvm
def test_products_by_blas_are_shared_by_the_threads_of_plans() -> None:
    if not blas_alone.can_be_shared():
        pytest.skip("SciPy has no OpenBLAS of its own")
    found = {count: products_by_blas(count) for count in (4, 2, 1)}
    assert [shared for _, shared in found.values()] == [6, 6, 0]
    for count in (2, 4):
        for one, other in zip(found[1][0], found[count][0], strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)


@pytest.mark.llvm
def test_blas_has_its_threads_again_afterwards() -> None:
    functions = blas_threads.functions_of_threads("scipy")
    if functions is None:
        pytest.skip("SciPy has no OpenBLAS of its own")
    threads_of_blas = ctypes.CFUNCTYPE(ctypes.c_int)(functions[0])
    for count in (3, 1, 2):
        blas_threads.set_blas_threads("scipy", count)
        in_threads(products_of_few_columns)
        assert threads_of_blas() == count and not blas_alone._state[: blas_alone._AT["before"]].any()


def products_of_few_columns(_: int) -> None:
    with jit.no_grad():
        for rows in range(301, 321):
            f = jit.trace(lambda a, b: a @ b)
            for _ in range(3):
                f(jit.ones(rows, 130), jit.ones(130, 3))


@pytest.mark.llvm
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux lets threads be moved")
def test_threads_may_use_all_cores_when_they_work() -> None:
    """A thread that sleeps keeps off the core of the caller, but no longer than that."""
    jit.set_num_threads(3)
    f = jit.trace(lambda x: jit.tanh(x) * x)
    x = jit.ones(2001, 333)
    allowed = os.sched_getaffinity(0)
    with jit.no_grad():
        for _ in range(20):
            f(x)
    before = set(threading.enumerate())
    time.sleep(20 * pool.WATCH)
    of_pool = [int(name) for name in os.listdir("/proc/self/task")]
    found = [os.sched_getaffinity(thread) for thread in of_pool]
    assert before == set(threading.enumerate()) and all(cores <= allowed and cores for cores in found)
    if len(allowed) > 1:
        assert sum(len(cores) == len(allowed) - 1 for cores in found) == 2
