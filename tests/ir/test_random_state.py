"""Random states are values: they advance into new ones, compare and hash by content, and wrap at 64 bits."""

import doctest
from dataclasses import FrozenInstanceError

import pytest

import jit.ir.random_state
from jit.ir.errors import UsageError
from jit.ir.random_state import RandomState


def test_advance_leaves_the_old_state_alone() -> None:
    old = RandomState(seed=5, offset=2)
    assert old.advance(3) == RandomState(seed=5, offset=5)
    assert old == RandomState(5, 2)
    assert hash(old) == hash(RandomState(5, 2))
    with pytest.raises(FrozenInstanceError):
        old.offset = 3  # type: ignore[misc]


def test_seed_and_offset_are_words_of_64_bits() -> None:
    assert RandomState(-1) == RandomState(2**64 - 1)
    assert RandomState(-(2**63)) == RandomState(2**63)
    assert RandomState(0, 2**64 - 1).advance(2) == RandomState(0, 1)


@pytest.mark.parametrize("wide", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused(wide: int) -> None:
    with pytest.raises(UsageError, match="does not fit into 64 bits; pass one from"):
        RandomState(wide)


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(jit.ir.random_state) == (0, 1)
