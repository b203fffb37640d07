"""Threads share kernels: with the same results whoever computes what, and in children too."""

import os
import subprocess
import sys

import numpy as np
import pytest

import jit
from jit.runtime.plans import pool
from tests.threads import in_threads

pytestmark = pytest.mark.llvm

CODE = """
import hashlib
import numpy as np
import jit
from jit.runtime.plans import pool

def f(x, y):
    z = jit.tanh(x * y) + jit.exp(-x) * y
    long = z.sum(), (x * y).var(), y.argmax(), x.flatten().dot(y.flatten()), x.reshape(3, -1).softmax(1), x.norm()
    return z, z.sum(1), jit.softmax(z, 0), (z > 0), z @ y.t(), *long

rng = np.random.default_rng(0)
x, y = (jit.from_numpy(rng.standard_normal((501, 1003)).astype(np.float32)) for _ in range(2))
f = jit.trace(f)
with jit.no_grad():
    for _ in range(3):
        found = f(x, y)
print(pool.cell[0] != 0, [hashlib.sha256(t.numpy().tobytes()).hexdigest() for t in found])
"""


def run(threads):
    environment = os.environ | {"JIT_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(" ", 1)


def test_results_do_not_depend_on_the_number_of_threads():
    alone = run(1)
    assert alone[0] == "False"
    for threads in (2, 3, 7):
        shared = run(threads)
        assert shared[0] == "True" and shared[1] == alone[1]


@pytest.fixture
def shared(monkeypatch):
    """A function of which a call is shared by four threads."""
    pool._stop()
    monkeypatch.setenv("JIT_NUM_THREADS", "4")
    f = jit.trace(lambda x, y: jit.tanh(x * y) + jit.sigmoid(x) * y)
    yield f
    pool._stop()


def data(seed, rows=1001):
    rng = np.random.default_rng(seed)
    return [jit.from_numpy(rng.standard_normal((rows, 333)).astype(np.float32)) for _ in range(2)]


def test_many_callers(shared):
    inputs = [data(seed) for seed in range(4)]
    with jit.no_grad():
        expected = [jit.tanh(x * y) + jit.sigmoid(x) * y for x, y in inputs]
        reference = [[shared(*pair).numpy().copy() for _ in range(3)][-1] for pair in inputs]

        def work(index):
            with jit.no_grad():
                for turn in range(30):
                    at = (index + turn) % 4
                    assert np.array_equal(shared(*inputs[at]).numpy(), reference[at])

        in_threads(work)
    assert pool.cell[0] and len(pool._threads) == 3
    for a, b in zip(reference, expected):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-5)


def test_errors_of_any_part():
    f = jit.trace(lambda x, y: (x // y) * 2 + x)
    x = jit.from_numpy(np.full(1_000_000, 7))
    pool._stop()
    for at in (0, 499_999, 999_999):
        y = np.full(1_000_000, 2)
        assert f(x, jit.from_numpy(y.copy()))[at].item() == 13
        assert f(x, jit.from_numpy(y.copy()))[at].item() == 13
        y[at] = 0
        with pytest.raises(jit.Error, match="divided by zero"):
            f(x, jit.from_numpy(y))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_have_threads_of_their_own(shared):
    x, y = data(0)
    with jit.no_grad():
        expected = [shared(x, y).numpy().copy() for _ in range(3)][-1]
        assert pool.cell[0]
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                fine = pool.cell[0] == 0
                for _ in range(5):
                    fine = fine and np.array_equal(shared(x, y).numpy(), expected)
                os._exit(0 if fine and pool.cell[0] != 0 else 1)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children] == [0, 0, 0]
        assert np.array_equal(shared(x, y).numpy(), expected)
