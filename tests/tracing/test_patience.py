"""The search for garbage: rare while a function is recorded, and afterwards as it was, whatever happens."""

import gc
import os
import threading

import pytest

import jit
from jit.tracing.patience import YOUNG, patience


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(600, 9, 8)
    yield
    gc.set_threshold(*before)


def test_recording_is_patient():
    seen = []

    @jit.trace
    def f(x):
        seen.append(gc.get_threshold())
        return x * 2

    f(jit.ones(2))
    assert seen == [(YOUNG, 9, 8)]
    assert gc.get_threshold() == (600, 9, 8)


def test_an_error_ends_patience():
    @jit.trace
    def f(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        f(jit.ones(2))
    assert gc.get_threshold() == (600, 9, 8)


def test_a_backward_is_recorded_patiently():
    seen = []

    class Double(jit.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(gc.get_threshold()[0])
            return g * 2

    f = jit.trace(lambda x: Double.apply(x) * 1)

    x = jit.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert seen == [YOUNG]
    assert gc.get_threshold() == (600, 9, 8)


def test_the_last_of_several_ends_it():
    inside, leave = threading.Event(), threading.Event()

    def wait():
        with patience():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=wait)
    with patience():
        thread.start()
        assert inside.wait(10)
    assert gc.get_threshold()[0] == YOUNG
    leave.set()
    thread.join()
    assert gc.get_threshold() == (600, 9, 8)


def test_what_somebody_sets_meanwhile_stays():
    with patience():
        gc.set_threshold(123)
    assert gc.get_threshold()[0] == 123


@pytest.mark.parametrize("young", [0, 2 * YOUNG])
def test_thresholds_are_not_lowered(young):
    gc.set_threshold(young)
    with patience():
        assert gc.get_threshold()[0] == young
    assert gc.get_threshold()[0] == young


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_forked_within_a_block_of_another_thread_has_its_thresholds_back():
    before = gc.get_threshold()
    inside, leave = threading.Event(), threading.Event()

    def record() -> None:
        with patience():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=record)
    thread.start()
    inside.wait()
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.get_threshold() == before else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        leave.set()
        thread.join()
