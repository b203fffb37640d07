"""Blocks of an arena never overlap while they live, and its size stays near what lives at once."""

import itertools
import random

import pytest

from jit.runtime.plans.arena import ALIGNMENT, Arena


@pytest.mark.parametrize("seed", range(20))
def test_live_blocks_are_apart(seed):
    rng = random.Random(seed)
    arena, peak = Arena(gap=seed % 3 * 16), 0
    live: dict[int, int] = {}
    for _ in range(400):
        if live and rng.random() < 0.5:
            start = rng.choice(list(live))
            arena.give(start)
            del live[start]
        else:
            size = rng.choice([0, 1, 63, 64, 65, 1000, 5000])
            start = arena.take(size)
            assert start % ALIGNMENT == 0 and start + size <= arena.size
            live[start] = size
        spans = sorted((start, start + size) for start, size in live.items())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        peak = max(peak, sum(size + 128 for size in live.values()))
    assert arena.size <= 2 * peak


def test_everything_given_back_is_one_range():
    arena = Arena()
    blocks = [arena.take(100) for _ in range(50)]
    for start in blocks[::2] + blocks[1::2]:
        arena.give(start)
    assert arena.take(50 * 128) == 0 and arena.size == 50 * 128


def test_a_chain_of_equal_blocks_needs_two():
    arena = Arena()
    last = arena.take(640)
    for _ in range(1000):
        following = arena.take(640)
        arena.give(last)
        last = following
    assert arena.size == 2 * 640
