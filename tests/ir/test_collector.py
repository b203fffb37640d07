"""The garbage collector rests within a block, and is as before afterwards, in forked children, too."""

import gc
import os
import threading

import pytest

from jit.ir.collector import collector_resting


def test_it_rests_and_is_as_before():
    assert gc.isenabled()
    with pytest.raises(ValueError, match="inner"), collector_resting():
        assert not gc.isenabled()
        with collector_resting():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("inner")
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_so():
    gc.disable()
    try:
        with collector_resting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_meanwhile_has_its_collector():
    inside, leave = threading.Event(), threading.Event()

    def rest() -> None:
        with collector_resting():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=rest)
    thread.start()
    inside.wait(60)
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0 and gc.isenabled()
