"""What the other processes learn when one ends: at once, and which one it was. None is left waiting."""

import time

import pytest

from .launching import fails, run, succeeds

WITHIN = 10.0
"""The seconds within which all processes have ended, their start included."""


def quickly(way, what, **options):
    """What is said when the last of three processes ends in some way while the others do something."""
    began = time.monotonic()
    said = fails("ending", 3, way, what, **options)
    assert time.monotonic() - began < WITHIN
    return said


@pytest.mark.parametrize("what", ["reduces", "receives", "computes"])
def test_an_exception_ends_all_and_says_whose_it_was(what):
    said = quickly("raises", what)
    assert "ValueError: oh no" in said
    assert "rank 2 of 3 has died of ValueError" in said


@pytest.mark.parametrize("way", ["exits", "returns"])
def test_who_waits_for_a_process_that_has_ended_learns_of_it(way):
    said = quickly(way, "reduces")
    assert "ranks 0, 1: all_reduce(float32[3], sum); rank 2: the end of its program" in said


@pytest.mark.parametrize("what", ["reduces", "computes"])
def test_a_killed_process_ends_all_and_the_launcher_names_it(what):
    assert "rank 2 of 3 ended with signal 9 (SIGKILL)" in quickly("is killed", what, launcher=True)


def test_a_process_that_leaves_without_a_word_ends_all():
    assert "rank 2 of 3 ended with exit code 5" in quickly("leaves", "reduces", launcher=True)


def test_mpiexec_alone_ends_all_when_one_is_killed():
    quickly("is killed", "reduces")


@pytest.mark.parametrize(("way", "code"), [("is killed", 137), ("leaves", 5), ("raises", 1)])
def test_the_launcher_ends_with_the_code_of_the_process_that_has_failed(way, code):
    assert run("ending", 2, way, "reduces", launcher=True).returncode == code


def test_the_launcher_succeeds_where_all_processes_do(tmp_path):
    assert "rank 0: 20 collectives" in succeeds("random_collectives", 2, "1", "20", launcher=True)
