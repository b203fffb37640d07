"""Backward on several threads: the same bits as on one, user code in order, failures carried, no deadlock, forks."""

import contextvars
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import nodes, sharing
from jit.runtime.plans.threads import thread_count


def leaf(*sizes: int, seed: int = 0) -> Any:
    """Normal numbers that require grad."""
    array = np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)
    return jit.tensor(array, requires_grad=True)


@pytest.fixture(params=["1", "4"])
def threads(request, monkeypatch):
    """On one thread and on four; everything is worth sharing."""
    monkeypatch.setenv("JIT_NUM_THREADS", request.param)
    monkeypatch.setattr(sharing, "ENOUGH", 1)
    return int(request.param)


@pytest.fixture
def helpers(monkeypatch):
    """Four threads, everything is worth sharing; the names of the threads that ran a node."""
    monkeypatch.setenv("JIT_NUM_THREADS", "4")
    monkeypatch.setattr(sharing, "ENOUGH", 1)
    seen: list[str] = []
    step = sharing.Sharing._step

    def noted(self, node):
        seen.append(threading.current_thread().name)
        time.sleep(0.0005)  # as if the GIL were released for a while
        step(self, node)

    monkeypatch.setattr(sharing.Sharing, "_step", noted)
    return seen


def branches(x: Any, w: Any, count: int = 6, depth: int = 5) -> Any:
    """Branches that share their weights and meet in a sum whose rounding depends on the order."""
    ends = []
    for number in range(count):
        h = x * (number + 0.1)
        for _ in range(depth):
            h = jit.tanh(h @ w) + h
        ends.append(h)
    total = ends[0]
    for end in ends[1:]:
        total = total + end * 1.7
    return total.sum()


def gradients() -> list[bytes]:
    x, w = leaf(8, 8), leaf(8, 8, seed=1)
    branches(x, w).backward()
    return [x.grad.numpy().tobytes(), w.grad.numpy().tobytes()]


def test_helpers_take_part(helpers):
    gradients()
    assert any(name.startswith("jit-backward") for name in helpers)
    assert threading.current_thread().name in helpers


def test_the_bits_do_not_depend_on_threads(helpers, monkeypatch):
    shared = [gradients() for _ in range(5)]
    monkeypatch.setenv("JIT_NUM_THREADS", "1")
    count = len(helpers)
    alone = gradients()
    assert len(helpers) == count, "one thread shares nothing"
    assert all(found == alone for found in shared)


def test_small_nodes_are_not_shared(monkeypatch):
    monkeypatch.setenv("JIT_NUM_THREADS", "4")
    monkeypatch.setattr(sharing.Sharing, "run", lambda self: pytest.fail("shared"))
    gradients()


def test_large_products_are_shared(monkeypatch):
    monkeypatch.setenv("JIT_NUM_THREADS", "2")
    started: list[object] = []
    run = sharing.Sharing.run

    def noted(self: sharing.Sharing) -> None:
        started.append(self)
        run(self)

    monkeypatch.setattr(sharing.Sharing, "run", noted)
    x, w = leaf(160, 160), leaf(160, 160, seed=1)
    ((x @ w).tanh() @ w + (x @ w).sigmoid() @ w).sum().backward()
    assert started


def test_second_derivatives_and_chosen_inputs(threads):
    x, w = leaf(4, 4), leaf(4, 4, seed=1)
    (g,) = jit.grad(branches(x, w), x, create_graph=True)
    (h,) = jit.grad((g * g).sum(), w)
    os.environ["JIT_NUM_THREADS"] = "1"
    (g,) = jit.grad(branches(x, w), x, create_graph=True)
    assert jit.grad((g * g).sum(), w)[0].tolist() == h.tolist()


def derivatives_of_derivatives() -> list[bytes]:
    """A third derivative, and one taken in a hook while the second is recorded."""
    x, w = leaf(4, 4), leaf(4, 4, seed=1)
    inner: list[Any] = []

    def differentiate(g: Any) -> None:
        if g.requires_grad:
            inner.extend(jit.grad((branches(x, w, 3, 2) ** 2).sum(), w, create_graph=True))

    h = x * 1.5
    h.register_hook(differentiate)
    (g,) = jit.grad(branches(h, w, 4, 3), x, create_graph=True)
    (gg,) = jit.grad((g * g).sum() + (inner[0] ** 2).sum(), w, create_graph=True)
    (ggg,) = jit.grad((gg**2).sum(), x)
    return [found.detach().numpy().tobytes() for found in (g, inner[0], gg, ggg)]


def test_derivatives_of_derivatives_add_up_in_the_same_order(helpers, monkeypatch):
    shared = [derivatives_of_derivatives() for _ in range(3)]
    assert len(set(helpers)) > 1, "helpers recorded some of it"
    monkeypatch.setenv("JIT_NUM_THREADS", "1")
    alone = derivatives_of_derivatives()
    assert all(found == alone for found in shared)


def test_user_code_runs_in_order_on_the_callers_thread(helpers):
    seen: list[Any] = []

    class Noted(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x, number):
            ctx.number = number
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append((ctx.number, threading.current_thread() is threading.main_thread()))
            return g * 2 * jit.rand(()), None

    def once() -> tuple[Any, bytes]:
        seen.clear()
        jit.manual_seed(0)
        x, w = leaf(8, 8), leaf(8, 8, seed=1)
        ends = []
        for number in range(5):
            h = Noted.apply(jit.tanh(x @ w), number)
            h.register_hook(
                lambda g, number=number: seen.append(
                    (f"hook {number}", threading.current_thread() is threading.main_thread())
                )
            )
            ends.append(jit.tanh(h @ w))
        (ends[0] + ends[1] + ends[2] + ends[3] + ends[4]).sum().backward()
        return list(seen), x.grad.numpy().tobytes()

    first, bits = once()
    assert [name for name, _ in first] == [n for i in (4, 3, 2, 1, 0) for n in (f"hook {i}", i)]
    assert all(here for _, here in first)
    assert once() == (first, bits)


PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")


def test_hooks_of_every_kind_run_on_the_callers_thread_and_in_his_context(helpers):
    seen: dict[str, set[Any]] = {}

    def noted(kind: str) -> Any:
        return lambda *given: seen.setdefault(kind, set()).add((threading.current_thread(), PLACE.get()))

    x, w = leaf(8, 8), leaf(8, 8, seed=1)
    x.register_hook(noted("leaf"))
    x.register_post_accumulate_grad_hook(noted("accumulated"))
    ends = []
    for _ in range(6):
        a, b, c = x @ w, w @ x, (x + w) @ w
        a.register_hook(noted("tensor"))
        b.grad_fn.register_hook(noted("node"))
        c.grad_fn.register_prehook(noted("before"))
        ends.append((a + b + c).tanh())
    loss = sum(ends[1:], ends[0]).sum()
    token = PLACE.set("here")
    loss.backward()
    PLACE.reset(token)
    assert any(name.startswith("jit-backward") for name in helpers), "helpers took part"
    assert all(where == {(threading.current_thread(), "here")} for where in seen.values())
    assert set(seen) == {"leaf", "accumulated", "tensor", "node", "before"}


def test_one_thread_at_a_time_adds_to_a_leaf(monkeypatch):
    w = jit.zeros(3, requires_grad=True)
    adding: list[int] = []
    crowds: list[int] = []
    accumulate = nodes.accumulate

    def slowly(*given: Any) -> None:
        adding.append(1)
        crowds.append(len(adding))
        time.sleep(0.002)
        accumulate(*given)
        adding.pop()

    monkeypatch.setattr(nodes, "accumulate", slowly)
    crowd = [threading.Thread(target=lambda: (w * 2).sum().backward()) for _ in range(8)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert crowds == [1] * 8 and w.grad.tolist() == [16.0] * 3


def test_a_failure_reaches_the_caller(helpers):
    x, w = leaf(8, 8), leaf(8, 8, seed=1)
    inner = w * 1
    loss = branches(x, inner)
    with jit.no_grad():
        inner.add_(1)
    with pytest.raises(jit.AutogradError, match=r"changed by an in-place operation at test_sharing\.py"):
        loss.backward()

    def fail(g):
        raise KeyError("mine")

    y = x @ w
    y.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        branches(y, w).backward()
    assert jit.is_grad_enabled()
    gradients()


def test_backward_inside_of_backward(helpers):
    inner = leaf(8, 8, seed=2)

    class Nested(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with jit.enable_grad():
                branches(inner, inner, 3, 2).backward()
            return g

    x, w = leaf(8, 8), leaf(8, 8, seed=1)
    sum((Nested.apply(x @ w) @ w for _ in range(4)), leaf(8, 8)).sum().backward()
    once = leaf(8, 8, seed=2)
    branches(once, once, 3, 2).backward()
    np.testing.assert_allclose(inner.grad.numpy(), 4 * once.grad.numpy(), rtol=1e-5)


def test_eight_threads_at_once(threads):
    """Each has a graph of its own, and all add to one leaf."""
    shared, expected = leaf(8, 8, seed=1), leaf(8, 8, seed=1)
    x = leaf(8, 8)
    branches(x, expected).backward()
    bits, errors = x.grad.numpy().tobytes(), []

    def work() -> None:
        try:
            for _ in range(5):
                x = leaf(8, 8)
                branches(x, shared).backward()
                assert x.grad.numpy().tobytes() == bits
        except BaseException as error:
            errors.append(error)

    crowd = [threading.Thread(target=work) for _ in range(8)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert not errors
    np.testing.assert_allclose(shared.grad.numpy(), 40 * expected.grad.numpy(), rtol=1e-4)


def test_no_addition_to_one_leaf_is_lost(threads):
    w = jit.zeros(1000, requires_grad=True)

    def work() -> None:
        for _ in range(100):
            (w * 1).sum().backward()

    crowd = [threading.Thread(target=work) for _ in range(8)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert w.grad.tolist() == [800.0] * 1000


def test_one_graph_differentiated_by_many(threads):
    x, w = leaf(8, 8), leaf(8, 8, seed=1)
    loss = branches(x, w)
    found: list[bytes] = []
    crowd = [
        threading.Thread(target=lambda: found.append(jit.grad(loss, w, retain_graph=True)[0].numpy().tobytes()))
        for _ in range(8)
    ]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


@pytest.mark.parametrize("said", ["0", "-1", "many", "1.5"])
def test_a_wrong_number_of_threads(said, monkeypatch):
    monkeypatch.setenv("JIT_NUM_THREADS", said)
    with pytest.raises(jit.UsageError, match=r"JIT_NUM_THREADS is .*positive whole number"):
        thread_count()


def test_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("JIT_NUM_THREADS", " 3 ")
    assert thread_count() == 3
    monkeypatch.delenv("JIT_NUM_THREADS")
    assert 1 <= thread_count() <= (os.cpu_count() or 1)


PROGRAM = """
import os, signal, sys, threading, time
import jit
from jit.autograd import sharing
sys.path.insert(0, {here!r})
sharing.ENOUGH = 1
from test_sharing import branches, leaf, gradients
"""


def program(body: str, tmp_path: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that shares everything among four threads."""
    here = os.path.dirname(os.path.abspath(__file__))
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(here=here) + body)
    root = os.path.dirname(os.path.dirname(here))
    environment = {**os.environ, "JIT_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": root}
    command = [sys.executable, str(script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork(tmp_path):
    body = """
before = gradients()
assert sharing._helpers
child = os.fork()
if child == 0:
    signal.alarm(60)
    assert not sharing._helpers
    os._exit(0 if gradients() == before and sharing._helpers else 1)
assert os.waitpid(child, 0)[1] == 0 and gradients() == before
print("fine")
"""
    done = program(body, tmp_path)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork_in_the_middle_of_an_addition(tmp_path):
    """The child has the locks that other threads of its parent held, and nobody who would release them."""
    body = """
from jit.autograd import nodes
leaf = jit.ones(2, requires_grad=True)
held, done = threading.Event(), threading.Event()

def hold():
    with nodes.lock_of(leaf):
        held.set()
        done.wait()

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    (leaf * 2).sum().backward()
    os._exit(0 if leaf.grad.tolist() == [2, 2] else 1)
done.set()
assert os.waitpid(child, 0)[1] == 0
print("fine")
"""
    done = program(body, tmp_path)
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr


def test_at_the_end_of_a_program(tmp_path):
    """The pool does not keep the program from ending, and backward works while it ends."""
    done = program("import atexit\natexit.register(lambda: print(len(gradients())))\ngradients()\n", tmp_path)
    assert done.returncode == 0 and done.stdout == "2\n" and not done.stderr


def test_interrupts_leave_everything_usable(tmp_path):
    """Ctrl-C at many moments of a backward; the next one is right, and nothing stays switched on or running."""
    body = """
import random
expected = gradients()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told background jobs to ignore it
main = threading.main_thread().ident
random.seed(0)
interrupted = 0
for number in range(60):
    timer = threading.Timer(random.uniform(0.0, 0.03), lambda: signal.raise_signal(signal.SIGINT))
    try:
        timer.start()
        for _ in range(4):
            gradients()
        timer.join()
    except KeyboardInterrupt:
        interrupted += 1
    timer.cancel()
    timer.join()
    assert jit.is_grad_enabled()
    assert gradients() == expected
print(interrupted > 10)
"""
    done = program(body, tmp_path)
    assert done.returncode == 0 and done.stdout == "True\n", done.stderr
