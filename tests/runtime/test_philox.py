"""Philox: the published vectors, every element computable alone, and the distributions that the names promise."""

import doctest
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import stats

import jit.runtime.arrays.philox
from jit.ir.errors import DTypeError, UsageError
from jit.ir.random_state import RandomState
from jit.runtime.arrays.philox import (
    BLOCKS_AT_ONCE,
    NUMPY,
    SIGNIFICANT_BITS,
    Kind,
    blocks_used,
    words_per_element,
)

FLOATS = list(SIGNIFICANT_BITS)
STATE = RandomState(seed=0x1234_5678_9ABC_DEF0, offset=11)

Draw = Callable[[RandomState, int], np.ndarray[Any, Any]]
DRAWS: list[tuple[Kind, Any, Draw]] = [
    ("bits", np.uint32, NUMPY.random_bits),
    ("randint", np.int64, lambda state, n: NUMPY.randint(state, -5, 1000, (n,))),
    ("uniform", np.float32, lambda state, n: NUMPY.uniform(state, (n,))),
    ("uniform", np.float64, lambda state, n: NUMPY.uniform(state, (n,), np.float64)),
    ("uniform", np.float16, lambda state, n: NUMPY.uniform(state, (n,), np.float16)),
    ("uniform", ml_dtypes.bfloat16, lambda state, n: NUMPY.uniform(state, (n,), ml_dtypes.bfloat16)),
    ("normal", np.float32, lambda state, n: NUMPY.normal(state, (n,))),
    ("normal", np.float64, lambda state, n: NUMPY.normal(state, (n,), np.float64)),
    ("exponential", np.float32, lambda state, n: NUMPY.exponential(state, (n,))),
    ("exponential", np.float64, lambda state, n: NUMPY.exponential(state, (n,), np.float64)),
]
each_draw = pytest.mark.parametrize(
    ("kind", "dtype", "draw"), DRAWS, ids=[f"{kind}-{np.dtype(dtype)}" for kind, dtype, _ in DRAWS]
)


# The generator


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_published_vectors(counter: str, key: str, words: str) -> None:
    def read(text: str) -> list[int]:
        return [int(word, 16) for word in text.split()]

    low, high = read(key)
    drawn = NUMPY.philox4x32(np.array([read(counter)], np.uint32), (low, high))
    assert drawn.dtype == np.uint32
    assert drawn.tolist() == [read(words)]


def philox_in_integers(counter: list[int], key: list[int]) -> list[int]:
    """The same function once more, in Python's own integers, round by round."""
    a, b, c, d = counter
    low, high = key
    for _ in range(10):
        product0, product1 = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = product1 >> 32 ^ b ^ low, product1 % 2**32, product0 >> 32 ^ d ^ high, product0 % 2**32
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return [a, b, c, d]


@pytest.mark.parametrize("offset", [0, 3, 2**32 - 2, 2**64 - 2])
def test_blocks_are_counted_from_the_offset_and_carry(offset: int) -> None:
    seed = 0xFEDC_BA98_7654_3210
    expected = []
    for block in range(offset, offset + 4):
        expected += philox_in_integers([block % 2**32, block % 2**64 >> 32, 0, 0], [seed % 2**32, seed >> 32])
    assert NUMPY.random_bits(RandomState(seed, offset), 15).tolist() == expected[:15]


def test_long_draws_continue_across_chunks() -> None:
    blocks = 2 * BLOCKS_AT_ONCE + 3
    counters = np.zeros((blocks, 4), np.uint32)
    counters[:, 0] = np.arange(blocks) + STATE.offset
    expected = NUMPY.philox4x32(counters, (STATE.seed & 0xFFFFFFFF, STATE.seed >> 32)).reshape(-1)
    np.testing.assert_array_equal(NUMPY.random_bits(STATE, 4 * blocks), expected)


# What a draw spends, and what its elements depend on


def test_words_and_blocks_by_kind_and_dtype() -> None:
    assert words_per_element("bits") == 1
    assert words_per_element("randint") == words_per_element("permutation") == 2
    for kind in ("uniform", "normal", "exponential"):
        assert [words_per_element(kind, dtype) for dtype in FLOATS] == [2, 1, 1, 1]
    assert [blocks_used("uniform", n) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [blocks_used("uniform", n, np.float64) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]


@each_draw
def test_an_element_depends_on_its_linear_index_alone(kind: Kind, dtype: Any, draw: Draw) -> None:
    whole = draw(STATE, 101)
    per_block = 4 // words_per_element(kind, np.float32 if np.dtype(dtype).kind in "ui" else dtype)
    for index in (0, 1, 2, 3, 50, 99, 100):
        block, place = divmod(index, per_block)
        alone = draw(STATE.advance(block), place + 1)[place]
        assert whole[index] == alone, index


@each_draw
def test_a_shorter_draw_is_the_beginning_of_a_longer_one(kind: Kind, dtype: Any, draw: Draw) -> None:
    whole = draw(STATE, 40)
    for n in (0, 1, 2, 7):
        np.testing.assert_array_equal(draw(STATE, n), whole[:n])


@each_draw
def test_draws_after_each_other_share_no_block(kind: Kind, dtype: Any, draw: Draw) -> None:
    width = np.float32 if np.dtype(dtype).kind in "ui" else dtype
    blocks = blocks_used(kind, 6, width)
    per_block = 4 // words_per_element(kind, width)
    following = draw(STATE.advance(blocks), 6)
    np.testing.assert_array_equal(draw(STATE, blocks * per_block + 6)[blocks * per_block :], following)
    assert blocks * per_block >= 6 > (blocks - 1) * per_block


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("draw", [NUMPY.uniform, NUMPY.normal, NUMPY.exponential])
def test_shapes_and_dtypes(draw: Callable[..., Any], dtype: np.dtype[Any]) -> None:
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 3, 5)]:
        drawn = draw(STATE, shape, dtype)
        assert drawn.shape == shape
        assert drawn.dtype == dtype
        assert drawn.flags.c_contiguous
        np.testing.assert_array_equal(drawn.reshape(-1), draw(STATE, (math.prod(shape),), dtype))


def test_seeds_differ_in_either_half() -> None:
    seeds = [0, 1, 2**32, 2**63]
    draws = {tuple(NUMPY.random_bits(RandomState(seed), 8).tolist()) for seed in seeds}
    assert len(draws) == len(seeds)


@pytest.mark.parametrize("draw", [NUMPY.uniform, NUMPY.normal, NUMPY.exponential])
def test_other_dtypes_are_refused(draw: Callable[..., Any]) -> None:
    with pytest.raises(DTypeError, match="dtype int32 are not drawn; take float64, float32, float16 or bfloat16"):
        draw(STATE, (2,), np.int32)


# The formulas, from the words


def test_uniform_takes_the_upper_bits() -> None:
    words = NUMPY.random_bits(STATE, 64).tolist()
    assert NUMPY.uniform(STATE, (64,)).tolist() == [(word >> 8) / 2**24 for word in words]
    assert NUMPY.uniform(STATE, (64,), np.float16).tolist() == [(word >> 21) / 2**11 for word in words]
    bfloats = NUMPY.uniform(STATE, (64,), ml_dtypes.bfloat16).astype(np.float64)
    assert bfloats.tolist() == [(word >> 24) / 2**8 for word in words]
    doubles = [low + (high << 32) for low, high in zip(words[0::2], words[1::2], strict=True)]
    assert NUMPY.uniform(STATE, (32,), np.float64).tolist() == [(word >> 11) / 2**53 for word in doubles]


def test_normal_makes_pairs() -> None:
    u = (NUMPY.random_bits(STATE, 64) + 0.5) / 2**32
    radius, angle = np.sqrt(-2 * np.log(u[0::2])), 2 * np.pi * u[1::2]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    np.testing.assert_array_equal(NUMPY.normal(STATE, (64,)), expected.astype(np.float32))


def extreme_words(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    monkeypatch.setattr(NUMPY, "random_bits", lambda state, n: np.full(n, word, np.uint32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_ends_of_the_intervals(monkeypatch: pytest.MonkeyPatch, dtype: np.dtype[Any]) -> None:
    extreme_words(monkeypatch, 0)
    assert NUMPY.uniform(STATE, (1,), dtype)[0] == 0
    assert 6 < NUMPY.normal(STATE, (1,), dtype)[0] < 8.6
    assert 22 < NUMPY.exponential(STATE, (1,), dtype)[0] < 37
    extreme_words(monkeypatch, 0xFFFFFFFF)
    assert NUMPY.uniform(STATE, (1,), dtype)[0] == dtype.type(1 - 2.0 ** -SIGNIFICANT_BITS[dtype])
    assert NUMPY.uniform(STATE, (1,), dtype)[0] < 1
    assert 0 < NUMPY.normal(STATE, (1,), dtype)[0] < 1e-4
    assert 0 < NUMPY.exponential(STATE, (1,), dtype)[0] < 1e-6


# Whole numbers


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 1),
        (0, 10),
        (-7, 6),
        (0, 2**31),
        (-(2**40), 3**30),
        (-(2**62), 2**62 + 5),
        (-(2**63), 2**63),
        (2**63 - 3, 2**63),
    ],
)
def test_randint_is_the_multiply_shift_of_64_bits(low: int, high: int) -> None:
    words = NUMPY.random_bits(STATE, 200).tolist()
    bits = [a + (b << 32) for a, b in zip(words[0::2], words[1::2], strict=True)]
    drawn = NUMPY.randint(STATE, low, high, (10, 10))
    assert drawn.dtype == np.int64
    assert drawn.shape == (10, 10)
    expected = [low + (word * (high - low) >> 64) for word in bits]
    if high - low == 2**64:
        expected = [(word + low + 2**63) % 2**64 - 2**63 for word in bits]
    assert drawn.reshape(-1).tolist() == expected


@pytest.mark.parametrize("word", [0, 0xFFFFFFFF])
def test_randint_reaches_both_ends_of_int64(monkeypatch: pytest.MonkeyPatch, word: int) -> None:
    extreme_words(monkeypatch, word)
    for low, high in [(-(2**63), 2**63), (-(2**63), 2**63 - 1), (-5, 5)]:
        assert NUMPY.randint(STATE, low, high, (1,))[0] == (low if word == 0 else high - 1)


@pytest.mark.parametrize(("low", "high"), [(3, 3), (4, 3), (-(2**63) - 1, 0), (0, 2**63 + 1)])
def test_randint_refuses_what_has_no_int64(low: int, high: int) -> None:
    with pytest.raises(UsageError, match="has no int64 to draw; take low < high within int64"):
        NUMPY.randint(STATE, low, high, (2,))


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutation_has_every_number_once(n: int) -> None:
    order = NUMPY.permutation(STATE, n)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


# The distributions; the seeds are fixed, so a p-value that passes once passes always


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("draw", "distribution", "mean", "variance"),
    [(NUMPY.uniform, "uniform", 0.5, 1 / 12), (NUMPY.normal, "norm", 0, 1), (NUMPY.exponential, "expon", 1, 1)],
)
def test_distributions(draw: Callable[..., Any], distribution: str, mean: float, variance: float, dtype: Any) -> None:
    sample = draw(RandomState(seed=42), (200_000,), dtype).astype(np.float64)
    assert abs(sample.mean() - mean) < 5 * math.sqrt(variance / sample.size)
    assert sample.var() == pytest.approx(variance, rel=0.02)
    assert stats.kstest(sample, distribution).pvalue > 0.01
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 5 / math.sqrt(sample.size)
    assert abs(np.corrcoef(sample[0::2], sample[1::2])[0, 1]) < 5 / math.sqrt(sample.size / 2)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_distributions_of_16_bits(dtype: Any) -> None:
    state = RandomState(seed=43)
    samples = [
        draw(state, (100_000,), dtype).astype(np.float64) for draw in (NUMPY.uniform, NUMPY.normal, NUMPY.exponential)
    ]
    step = 2.0 ** -SIGNIFICANT_BITS[np.dtype(dtype)]
    assert samples[0].mean() == pytest.approx(0.5 - step / 2, abs=0.005)  # [0, 1) lacks its upper end
    assert samples[1].mean() == pytest.approx(0, abs=0.015)
    assert samples[1].var() == pytest.approx(1, rel=0.02)
    assert samples[2].mean() == pytest.approx(1, rel=0.02)


def test_every_bit_is_fair() -> None:
    words = NUMPY.random_bits(RandomState(seed=44), 100_000)
    ones = np.array([np.count_nonzero(words >> np.uint32(bit) & np.uint32(1)) for bit in range(32)])
    p_values = [stats.binomtest(int(count), words.size).pvalue for count in ones]
    assert min(p_values) > 0.01 / 32


def test_randint_and_permutation_are_even() -> None:
    state = RandomState(seed=45)
    faces = np.bincount(NUMPY.randint(state, 0, 6, (60_000,)), minlength=6)
    assert stats.chisquare(faces).pvalue > 0.01
    orders = [tuple(NUMPY.permutation(state.advance(2 * i), 3).tolist()) for i in range(3000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 0.01


def test_examples_in_docstrings() -> None:
    failed, attempted = doctest.testmod(jit.runtime.arrays.philox)
    assert attempted > 0
    assert failed == 0
