"""Random generators in forked processes."""

import os
import signal
import threading

import pytest

import jit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("generator", [jit.eager.generators.default_generator(), jit.Generator()])
def test_a_child_draws_although_another_thread_was_drawing(generator):
    drawing, leave = threading.Event(), threading.Event()

    def draw() -> None:
        with generator.lock:
            drawing.set()
            leave.wait(60)

    thread = threading.Thread(target=draw)
    thread.start()
    drawing.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(20)  # it waited for ever
        os._exit(0 if jit.rand(3, generator=generator).shape == (3,) else 1)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
