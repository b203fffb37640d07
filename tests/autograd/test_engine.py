"""The engine: deep graphs, order, re-entrance, exceptions, freed graphs."""

import sys
import threading
import weakref
from typing import Any

import pytest

import jit
from tests.threads import in_threads


def leaf(*numbers: float) -> Any:
    """A float32 leaf that requires grad."""
    return jit.tensor(list(numbers), requires_grad=True)


def chain(x: jit.Tensor, length: int) -> jit.Tensor:
    for _ in range(length):
        x = x + 1
    return x


def test_a_chain_of_100_000_nodes():
    limit = sys.getrecursionlimit()
    x = leaf(1.0)
    y = chain(x, 100_000)
    y.backward()
    assert x.grad.item() == 1 and sys.getrecursionlimit() == limit
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_second_derivatives_of_a_long_chain():
    x = leaf(1.0)
    y = x
    for _ in range(25_000):
        y = y * 1.0
    y = y * y  # both orders run through the whole chain, as a graph of about 100,000 nodes
    (g,) = jit.grad(y, x, create_graph=True)
    assert jit.grad(g, x)[0].item() == 2
    nodes = weakref.ref(y.grad_fn), weakref.ref(g.grad_fn)
    del y, g
    assert [node() for node in nodes] == [None, None]


def test_a_chain_in_a_thread_with_a_small_stack():
    small = 1024 if sys.version_info[:2] == (3, 13) else 256  # 3.13 needs as much to free as deep a list of lists
    result = []
    previous = threading.stack_size(small * 1024)
    try:
        thread = threading.Thread(target=lambda: result.append(run_chain()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(previous)
    assert result == [1]


def run_chain() -> float:
    x = leaf(1.0)
    chain(x, 20_000).backward()
    return x.grad.item()


def test_a_wide_graph_and_a_diamond():
    x = leaf(1.0)
    parts = [x * i for i in range(500)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    y = total
    for _ in range(50):
        y = y * 0.5 + y * 0.5
    y.backward()
    assert x.grad.item() == pytest.approx(sum(range(500)))


def test_later_operations_run_their_derivatives_first():
    order = []
    x = leaf(1.0)
    tensors = [x * i for i in range(1, 5)]
    for i, t in enumerate(tensors):
        t.register_hook(lambda g, i=i: order.append(i))
    (tensors[2] + tensors[0] + tensors[3] + tensors[1]).backward()
    assert order == [3, 2, 1, 0]


def test_backward_inside_a_hook_and_inside_a_function():
    inner = leaf(3.0)

    class Nested(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with jit.enable_grad():
                (inner * inner).sum().backward()
            return g * 2

    x = leaf(1.0)
    y = Nested.apply(x)
    y.register_hook(lambda g: (inner * 1).sum().backward() if jit.is_grad_enabled() else None)
    y.sum().backward()
    assert x.grad.item() == 2 and inner.grad.item() == 6


def test_exceptions_leave_the_engine_usable():
    x = leaf(1.0)
    y = x * 2

    def fail(gradient):
        raise KeyError("in a hook")

    handle = y.register_hook(fail)
    with pytest.raises(KeyError, match="in a hook"):
        y.sum().backward(retain_graph=True)
    assert jit.is_grad_enabled() and not x.grad
    handle.remove()
    y.sum().backward()
    assert x.grad.item() == 2


def test_what_ends_a_program_passes_through_the_threads_of_nested_backwards():
    def nested(depth: int) -> None:
        with jit.enable_grad():
            y = leaf(1.0) * 2
        y.register_hook(lambda g: sys.exit("stop") if depth == 0 else nested(depth - 1))
        y.backward()

    with pytest.raises(SystemExit, match="stop"):
        nested(40)


def test_undefined_gradients_stop():
    x, y = leaf(1.0), leaf(2.0)
    pair = jit.stack([x, y]).unbind(0)
    pair[0].sum().backward()
    assert x.grad.item() == 1 and (y.grad is None or y.grad.item() == 0)


def test_threads_differentiate_at_once():
    shared = leaf(1.0, 2.0)

    def work(_):
        for _ in range(50):
            x = leaf(2.0, 3.0)
            (x * shared.detach()).exp().sum().backward()
            assert len(x.grad.tolist()) == 2

    in_threads(work)


@pytest.mark.parametrize("way", ["function", "hook", "checkpoint"])
def test_a_backward_that_calls_itself_without_end_is_an_error(way, monkeypatch):
    monkeypatch.setattr(jit.autograd.engine, "DEEPEST", 100)
    x, threads = leaf(1.0), threading.active_count()

    class Again(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            again()
            return g

    def hooked():
        y = x * 2
        y.register_hook(lambda g: again())
        return y.sum()

    def again():
        with jit.enable_grad():
            made[way]().backward()

    made: Any = {
        "function": lambda: Again.apply(x).sum(),
        "hook": hooked,
        "checkpoint": lambda: jit.utils.checkpoint.checkpoint(Again.apply, x, use_reentrant=True).sum(),
    }
    with pytest.raises(jit.AutogradError, match="100 backwards run inside of each other"):
        again()
    assert threading.active_count() == threads
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.item() == 3
