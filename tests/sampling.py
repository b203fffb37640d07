"""Samples of walks that take too long for every run of the suite: the other cases are marked slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest


def one_of(step: int, cases: Iterable[Any], several: bool = False) -> Iterator[Any]:
    """One of `step` cases as it is, and the others marked slow; `-m "slow or not slow"` runs all.

    Args:
        step: The number of cases of which one is run always.
        cases: The cases, as `pytest.mark.parametrize` takes them.
        several: Whether each is a tuple of several arguments.

    >>> [len(case.marks) for case in one_of(3, "abcde")]
    [0, 1, 1, 0, 1]
    """
    for place, case in enumerate(cases):
        yield pytest.param(*(case if several else (case,)), marks=pytest.mark.slow if place % step else ())
