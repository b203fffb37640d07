"""What means the same has the same kernels, however it is written, and gives what eager mode gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import jit
from jit.ir import find
from tests.tolerances import assert_close

from .spellings import ALIKE, MEANINGS, Meaning

pytestmark = pytest.mark.llvm

LIBRARY = ("(packed)", "(direct)", "(BLAS)", "(no kernel)", "by tiles")
"""What marks the steps that are no kernels of loops."""
SUMS = 2e-5
"""Sums of some hundred terms, whose order a plan may change, and functions of them."""
Steps = Counter[str]


def steps_of(traced: Any, operands: tuple[Any, ...]) -> Steps:
    """The steps of a plan by name, but for views that Python makes of results, which cost nothing."""
    rows = traced.profile(*operands).kernels
    return Counter({row.name: row.calls for row in rows if not _is_view(row.name)})


def _is_view(name: str) -> bool:
    op = find(name.removesuffix(" (no kernel)"))
    return name.endswith("(no kernel)") and op is not None and op.kind == "view"


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Results as a tuple, also a single one."""
    return results if isinstance(results, tuple) else (results,)


def in_common(steps: Steps, alike: str) -> Any:
    """What of a plan's steps must be the same for all spellings."""
    products = {name: calls for name, calls in steps.items() if any(mark in name for mark in LIBRARY)}
    if alike == "names":
        return steps
    return (products, steps.total()) if alike == "numbers" else products


@pytest.mark.parametrize("meaning", [m for m in MEANINGS if m.alike != "time"], ids=lambda meaning: meaning.name)
def test_same_kernels(meaning: Meaning) -> None:
    """Every spelling has the kernels of the first one, nothing is left to Python, and results are those of eager."""
    operands, found = meaning.operands(), {}
    for name, program in meaning.programs().items():
        traced = jit.trace(program)
        for _ in range(3):
            results = traced(*operands)
        for result, expected in zip(as_tuple(results), as_tuple(program(*operands)), strict=True):
            assert_close(result, expected, rtol=SUMS, atol=SUMS, message=name)
        found[name] = steps_of(traced, operands)
    first = next(iter(found.values()))
    for name, steps in found.items():
        assert not [step for step in steps if "(no kernel)" in step], f"{name}: {steps}"
        assert in_common(steps, meaning.alike) == in_common(first, meaning.alike), f"{name}: {ALIKE[meaning.alike]}"


def test_there_are_many() -> None:
    """Forty meanings at least, a good half of them with gradients too, and each in more than one way."""
    compared = [m for m in MEANINGS if m.alike != "time"]
    assert len({m.name for m in compared}) == len(compared)
    assert sum(not m.gradients for m in compared) >= 40
    assert sum(m.gradients for m in compared) >= 20
    assert all(len(m.spellings) > 1 for m in MEANINGS)
