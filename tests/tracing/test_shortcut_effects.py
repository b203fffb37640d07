"""Calls that write to tensors, or leave gradients, go the short way and do all that eager mode does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from jit import nn
from jit.runtime.plans import entry

pytestmark = [pytest.mark.llvm, pytest.mark.skipif(not entry.available(), reason="native calls are not available")]

CALLS = 8


def hits(f: Any) -> int:
    return int(f._shortcuts.hits)


def compare(program: Callable[[Callable[[Any], Any]], Any], least: int = 3) -> None:
    """Compare what a program observes, which gets a way to trace functions, with what it observes in eager mode.

    Args:
        program: Given a decorator, it returns numbers and arrays.
        least: How many calls have to take a shortcut.
    """
    traced: list[Any] = []

    def trace(function: Any) -> Any:
        traced.append(jit.trace(function))
        return traced[-1]

    expected, found = program(lambda function: function), program(trace)
    assert len(expected) == len(found)
    for a, b in zip(expected, found):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=1e-5, atol=1e-6)
    assert sum(map(hits, traced)) >= least


def test_an_argument_is_written_to() -> None:
    def program(trace: Any) -> Any:
        @trace
        def f(x: Any, y: Any) -> Any:
            x.mul_(0.5).add_(y)

        x, seen = jit.ones(3), []
        for number in range(CALLS):
            assert f(x, jit.full((3,), float(number))) is None
            seen.append(x.numpy().copy())
        return seen

    compare(program)


def test_a_result_besides_what_is_written() -> None:
    def program(trace: Any) -> Any:
        total, count = jit.zeros(2, 3), jit.zeros((), dtype=jit.int64)

        @trace
        def f(x: Any) -> Any:
            before = total.clone()
            total.add_(x)
            count.add_(1)
            return before * 2, total + 1

        seen = [each for n in range(CALLS) for each in f(jit.full((2, 3), float(n)))]
        return [*(each.numpy() for each in seen), total.numpy(), count.numpy()]

    compare(program)


@pytest.mark.parametrize(
    "structure", [list, tuple, lambda xs: {"a": xs[0], "b": [xs[1], None]}], ids=["list", "tuple", "dict"]
)
def test_results_of_any_structure(structure: Any) -> None:
    def program(trace: Any) -> Any:
        @trace
        def f(x: Any) -> Any:
            x.add_(1)
            return structure([x * 2, x * 3])

        x = jit.zeros(3)
        for _ in range(CALLS):
            result = f(x)
        assert type(result) is type(structure([1, 2]))
        return [x.numpy()]

    compare(program)


def test_training_of_a_batch_norm() -> None:
    def program(trace: Any) -> Any:
        jit.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.BatchNorm1d(6))
        f, seen = trace(model), []
        for number in range(CALLS):
            x = jit.randn(5, 4, generator=jit.Generator().manual_seed(number)).requires_grad_()
            f(x).square().sum().backward()
            seen += [x.grad.numpy(), *(buffer.numpy().copy() for buffer in model.buffers())]
        return [*seen, *(p.grad.numpy() for p in model.parameters())]

    compare(program)


def test_a_derivative_needs_what_was_there_before_the_write() -> None:
    def program(trace: Any) -> Any:
        state = jit.full((3,), 2.0)

        @trace
        def f(x: Any) -> Any:
            y = x * state.clone()
            state.add_(1)
            return y * x

        seen = []
        for _ in range(CALLS):
            x = jit.tensor([1.0, 2.0, 3.0], requires_grad=True)
            f(x).sum().backward()
            seen.append(x.grad.numpy())
        return [*seen, state.numpy()]

    compare(program)


def test_a_first_backward_behind_shortcuts_sees_what_was_there_before_the_write() -> None:
    """It is recorded from the inputs that the forward has kept."""

    def program(trace: Any) -> Any:
        state = jit.full((3,), 2.0)

        @trace
        def f(x: Any) -> Any:
            y = x * state.clone()
            state.add_(1)
            return y * x

        made = []
        for _ in range(CALLS):
            x = jit.tensor([1.0, 2.0, 3.0], requires_grad=True)
            made.append((x, f(x)))
        for _, y in made:
            y.sum().backward()
        return [*(x.grad.numpy() for x, _ in made), state.numpy()]

    compare(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: jit.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: jit.optim.Adam(p, lr=0.1),
        lambda p: jit.optim.RMSprop(p, lr=0.01),
    ],
    ids=["sgd", "adam", "rmsprop"],
)  # fmt: skip
@pytest.mark.parametrize("set_to_none", [True, False])
def test_whole_steps_of_training(make: Any, set_to_none: bool) -> None:
    def program(trace: Any) -> Any:
        jit.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 2))
        optimizer = make(model.parameters())

        @trace
        def step(x: Any, y: Any) -> Any:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad(set_to_none)
            loss.backward()
            optimizer.step()
            return loss

        x, y = jit.randn(8, 4), jit.randn(8, 2)
        losses = [step(x, y + 0.1 * n).item() for n in range(CALLS)]
        kept = [each.detach().numpy() for each in (*model.parameters(), *model.buffers())]
        return [losses, *kept, *(p.grad.numpy() for p in model.parameters())]

    compare(program, least=3 if set_to_none else 0)


def test_gradients_that_python_clears_or_keeps() -> None:
    """A recording begins with or without a `.grad`; a call that brings the other is not answered by it."""

    def program(trace: Any) -> Any:
        weight = jit.ones(3, requires_grad=True)

        @trace
        def f(x: Any) -> Any:
            (weight * x).sum().backward()

        seen = []
        for number in range(2 * CALLS):
            if number % 3 == 0:
                weight.grad = None
            f(jit.full((3,), float(number)))
            seen.append(weight.grad.numpy().copy())
        return seen

    compare(program, least=0)


def test_the_second_backward_of_a_spent_graph_is_refused() -> None:
    weight = jit.ones(3, requires_grad=True)

    @jit.trace
    def f(x: Any) -> Any:
        loss = (weight * weight * x).sum()
        weight.grad = None
        loss.backward()
        return loss

    for _ in range(CALLS):
        loss = f(jit.ones(3))
    assert hits(f) > 0 and loss.requires_grad
    with pytest.raises(jit.AutogradError):
        loss.backward()


def test_memory_that_arguments_share_is_noticed() -> None:
    f = jit.trace(lambda x, y: (x.add_(1), y * 2)[1])
    for _ in range(CALLS):
        f(jit.zeros(3), jit.ones(3))
    base, before = jit.zeros(6), hits(f)
    assert f(base[:3], base[3:]).tolist() == [0, 0, 0] and base.tolist() == [1, 1, 1, 0, 0, 0]
    assert f(base[:3], base[:3]).tolist() == [4, 4, 4]
    for other in (base[2:5], base[:5:2]):
        with pytest.raises(jit.TraceError, match="share"):
            f(base[:3], other)
    assert hits(f) == before


def test_memory_that_an_argument_shares_with_what_the_function_reads_is_noticed() -> None:
    memory = np.ones(3, np.float32)
    state = jit.from_numpy(memory)
    f = jit.trace(lambda x: (x.add_(1), state * 2)[1])
    for _ in range(CALLS):
        f(jit.zeros(3))
    assert hits(f) > 0
    before = hits(f)
    with pytest.raises(jit.TraceError, match="share"):
        f(jit.from_numpy(memory))
    assert hits(f) == before


def test_memory_that_is_replaced() -> None:
    def program(trace: Any) -> Any:
        state, other = jit.zeros(3), jit.ones(3)

        @trace
        def f(x: Any) -> Any:
            state.add_(x)
            return other * 2

        seen = [f(jit.ones(3)).numpy() for _ in range(CALLS)]
        other.data = jit.full((3,), 3.0)
        seen += [f(jit.ones(3)).numpy() for _ in range(CALLS)]
        state.data = jit.full((3,), 7.0)
        seen += [f(jit.ones(3)).numpy() for _ in range(CALLS)]
        return [*seen, state.numpy(), other.numpy()]

    compare(program)


def test_captured_memory_that_comes_to_be_shared_is_noticed() -> None:
    state, other = jit.zeros(3), jit.ones(3)
    f = jit.trace(lambda x: (state.add_(x), other * 2)[1])
    for _ in range(CALLS):
        f(jit.ones(3))
    assert hits(f) > 0
    other.data = state.data
    with pytest.raises(jit.TraceError, match="share"):
        f(jit.ones(3))


def test_a_saved_tensor_that_is_written_to_is_noticed() -> None:
    state = jit.ones(3)
    f = jit.trace(lambda x: (state.add_(x), None)[1])
    for _ in range(CALLS):
        f(jit.ones(3))
    x = jit.ones(3, requires_grad=True)
    y = (x * state).sum()
    before = hits(f)
    f(jit.ones(3))
    assert hits(f) == before + 1
    with pytest.raises(jit.AutogradError, match=r"test_shortcut_effects.py:\d+"):
        y.backward()


def test_read_only_memory_is_refused() -> None:
    f = jit.trace(lambda x: (x.add_(1), None)[1])
    x = jit.zeros(3)
    for _ in range(CALLS):
        f(x)
    memory = np.zeros(3, np.float32)
    memory.flags.writeable = False
    with pytest.warns(UserWarning, match="read-only"):
        fixed = jit.from_numpy(memory)
    with pytest.raises(jit.Error):
        f(fixed)
    assert not memory.any()


def test_sizes_that_vary() -> None:
    def program(trace: Any) -> Any:
        total = jit.zeros(4)

        @trace
        def f(x: Any) -> Any:
            total.mul_(0.9).add_(x.sum(0))
            return x + total

        seen = [f(jit.full((2 + n % 5, 4), float(n))).numpy().sum(0) for n in range(3 * CALLS)]
        return [*seen, total.numpy()]

    compare(program)


def test_an_anomaly_in_a_backward_inside_is_still_found() -> None:
    weight = jit.ones(3, requires_grad=True)

    @jit.trace
    def f(x: Any) -> Any:
        weight.grad = None
        (weight * x).sqrt().sum().backward()

    for _ in range(CALLS):
        f(jit.ones(3))
    assert hits(f) > 0
    with pytest.warns(UserWarning), jit.autograd.detect_anomaly(), pytest.raises(jit.AutogradError, match="sqrt"):
        f(-jit.ones(3))


def test_a_traced_function_inside_of_one_that_runs_twice() -> None:
    """The first run of the outer function may be undone and repeated: what the inner one writes is part of that."""

    def program(trace: Any) -> Any:
        state = jit.zeros(3)
        inner = trace(lambda x: (state.add_(x), None)[1])
        for _ in range(CALLS):
            inner(jit.ones(3))

        @trace
        def outer(x: Any, n: int) -> Any:
            inner(x)
            return state * n if int(str(n)) > 0 else x

        return [*(outer(jit.ones(3), n).numpy() for n in (1, 2, 3, 4, 5)), state.numpy()]

    compare(program)


def test_hooks_that_come_later_are_noticed() -> None:
    weight = jit.ones(3, requires_grad=True)

    @jit.trace
    def f(x: Any) -> Any:
        weight.grad = None
        (weight * x).sum().backward()

    for _ in range(CALLS):
        f(jit.ones(3))
    assert hits(f) > 0
    weight.register_hook(lambda g: None)
    with pytest.raises(jit.TraceError, match="hook"):
        f(jit.ones(3))


def test_a_checkpoint_runs_a_traced_function_twice_and_its_writes_count_once() -> None:
    def program(trace: Any) -> Any:
        state = jit.zeros(3)

        @trace
        def f(x: Any) -> Any:
            state.add_(1)
            return x * state.clone()

        for _ in range(CALLS):
            f(jit.ones(3, requires_grad=True))
        x = jit.ones(3, requires_grad=True)
        y = jit.autograd.checkpoint(f, x)
        before = state.numpy().copy()
        y.sum().backward()
        return [before, state.numpy(), x.grad.numpy()]

    compare(program)
