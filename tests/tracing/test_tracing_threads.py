"""Calls from many threads, and interrupts at any place: one recording per key, and never a half one."""

import dis
import os
import sys
import threading
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from tests.threads import in_threads
from tests.tolerances import assert_close

OURS = os.path.dirname(jit.__file__) + os.sep
rate = 0.5


def test_eight_threads_share_recordings_of_branches_and_sizes():
    def f(x):
        y = x * 2 if x.sum() > 0 else x.exp()
        return (y * y).sum() * x.shape[0]

    traced = jit.trace(f)

    def work(index: int) -> None:
        for repeat in range(24):
            size, sign = 2 + (index + repeat) % 5, (-1) ** (index * repeat)
            x, y = (jit.full((size,), sign * (1.0 + index), requires_grad=True) for _ in range(2))
            traced(x).backward()
            f(y).backward()
            assert_close(x.grad, y.grad, rtol=1e-5)

    in_threads(work)
    assert traced.hits + traced.misses == 8 * 24 and traced.misses <= 2 * 5


def test_one_recording_per_key_under_contention():
    entered: list[int] = []

    class Slow(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            entered.append(1)
            threading.Event().wait(0.02)
            return x * 2

    traced = jit.trace(lambda x: Slow.apply(x) + 1)
    in_threads(lambda index: assert_close(traced(jit.ones(2)), jit.full((2,), 3.0)))
    assert (traced.misses, traced.hits, len(entered)) == (1, 7, 8)


def test_threads_with_their_own_networks_share_a_function_of_the_users():
    def work(index: int) -> None:
        net = nn.Linear(3, 1)
        optimizer = jit.optim.SGD(net.parameters(), lr=0.1)

        @jit.trace
        def step(x):
            optimizer.zero_grad()
            loss = (net(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        losses = [step(jit.ones(2, 3)).item() for _ in range(8)]
        assert losses[-1] < losses[0] + 1e-6 and step.hits == 6

    in_threads(work)


def test_grad_modes_of_threads_are_their_own():
    traced = jit.trace(lambda x: x * 2)

    def work(index: int) -> None:
        for _ in range(20):
            with jit.set_grad_enabled(index % 2 == 0):
                assert traced(jit.ones(2, requires_grad=True)).requires_grad == (index % 2 == 0)

    in_threads(work)
    assert traced.misses == 2


# -- interrupts --------------------------------------------------------------------------------------------------


class Interrupting:
    """Within a block, KeyboardInterrupt at the line number `at` of this package's own code."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self.enter)

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self.before)

    def enter(self, frame: Any, event: str, arg: Any) -> Any:
        return self.line if frame.f_code.co_filename.startswith(OURS) else None

    def line(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left <= 0 and not ends_with_block(frame):
                raise KeyboardInterrupt
        return self.line


def ends_with_block(frame: Any) -> bool:
    """Whether `__exit__` of a `with` is called next: no signal comes in between, but what traces lines does."""
    following = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 6 : 2]
    return following == bytes([dis.opmap["LOAD_CONST"]]) * 3  # three times None, for the three arguments


def everything(traced: Any, state: Any, number: float) -> Any:
    """A call with a buffer, a guard, a draw and a backward; returns all that came of it."""
    x = jit.tensor([number, 2.0], requires_grad=True)
    y = traced(x)
    y.sum().backward()
    return [y.detach()._array.copy(), x.grad._array.copy(), state._array.copy()]


def program() -> tuple[Any, Any]:
    state = jit.zeros(2)

    def f(x):
        state.add_(1)
        z = nn.functional.dropout(x, 0.0, True) * rate
        if z.sum() > 0:
            z = z.sin() + jit.tensor([1.0, 2.0])
        return z * state

    return f, state


@pytest.mark.parametrize("part", range(6))
def test_an_interrupt_anywhere_leaves_no_half_recording(part):
    """Wherever it comes, the next calls are right, and nothing is left switched on or locked."""
    for _ in range(2):  # what is looked up once and for all is not counted
        counted = Interrupting(10**9)
        f, state = program()
        traced = jit.trace(f, optimize=False)
        with counted:
            everything(traced, state, 1.0)
    lines = 10**9 - counted.left
    for at in np.linspace(1, lines, 90).astype(int)[part::6]:
        f, state = program()
        plain, other = program()
        traced = jit.trace(f, optimize=False)
        traced.promote("rate")
        jit.manual_seed(0)
        with pytest.raises(KeyboardInterrupt), Interrupting(int(at)):
            everything(traced, state, 1.0)
        assert jit.eager.context.TRACE.get() is None and sys.getprofile() is None and rate == 0.5
        other.copy_(state)
        found: list[Any] = []
        in_threads(lambda _: found.append([everything(traced, state, a) for a in (1.0, -1.0, 3.0)]), 1)  # noqa: B023
        expected = [everything(plain, other, a) for a in (1.0, -1.0, 3.0)]
        for a, b in zip(found[0], expected, strict=True):
            for mine, theirs in zip(a, b, strict=True):
                assert mine.tobytes() == theirs.tobytes(), f"after an interrupt at line {at} of {lines}"
