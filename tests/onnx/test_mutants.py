"""Damaged models are refused or run; `python -m tests.onnx.mutants 0 10000` tries many more."""

from __future__ import annotations

import sys

import pytest

from . import mutants


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_damaged_models_are_refused_or_run():
    assert not list(mutants.faults(0, 150, share=75))


def test_originals_run_and_damage_is_seen():
    whole = mutants.originals()
    assert [mutants.outcome(content) for content in whole] == ["runs"] * len(whole)
    found = [mutants.outcome(mutants.mutant(whole, number)) for number in range(40)]
    assert {"runs", "refused"} <= set(found)
