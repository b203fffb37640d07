"""What the threads of a warp exchange, lane by lane from the manual's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .lines import run

U32 = np.uint32
OWN = """ld.param.u64 %rd0, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r9, %laneid; mul.wide.u32 %rd1, %r1, 4;
    add.u64 %rd1, %rd0, %rd1; ld.global.u32 %r2, [%rd1];"""


def exchanged(lines: str, given: Any) -> Any:
    """%r3 of all threads, of which each has an element as %r2."""
    return run(f"{OWN} {lines} st.global.u32 [%rd1], %r3; ret;", given, block=len(given))[0]


def shuffled(mode: str, lane: int, distance: int, clamp: int) -> tuple[int, bool]:
    """The lane that a value comes from, and the predicate, as the manual's program has it."""
    segment, last = clamp >> 8 & 31, clamp & 31
    highest, lowest = lane & segment | last & ~segment & 31, lane & segment
    if mode == "up":
        source, inside = lane - distance, lane - distance >= highest
    elif mode == "down":
        source, inside = lane + distance, lane + distance <= highest
    elif mode == "bfly":
        source, inside = lane ^ distance, lane ^ distance <= highest
    else:
        source = lowest | distance & ~segment & 31
        inside = source <= highest
    return (source if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("distance", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("width", [32, 16, 4])
def test_shuffles(mode, distance, width, rng):
    given = rng.integers(0, 1 << 32, 96, dtype=U32)
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    sources = [shuffled(mode, lane, distance, clamp) for lane in range(32)]
    expected = np.concatenate([warp[[source for source, _ in sources]] for warp in given.reshape(3, 32)])
    shuffle = f"shfl.sync.{mode}.b32 %r3|%p1, %r2, {distance}, {clamp}, -1;"
    np.testing.assert_array_equal(exchanged(shuffle, given), expected)
    predicates = exchanged(shuffle + "selp.b32 %r3, 1, 0, %p1;", given)
    np.testing.assert_array_equal(predicates, [inside for _, inside in sources] * 3)


def test_votes(rng):
    given = rng.integers(0, 2, 96, dtype=U32)
    given[32:64] = 1
    ballots = np.array([np.packbits(w.astype(bool), bitorder="little").view(U32)[0] for w in given.reshape(3, 32)])
    setp = "setp.ne.u32 %p1, %r2, 0;"
    np.testing.assert_array_equal(
        exchanged(setp + "vote.sync.ballot.b32 %r3, %p1, -1;", given), np.repeat(ballots, 32)
    )  # fmt: skip
    for mode, expected in {"all": [0, 1, 0], "any": [1, 1, 1], "uni": [0, 1, 0]}.items():
        found = exchanged(setp + f"vote.sync.{mode}.pred %p2, %p1, -1; selp.b32 %r3, 1, 0, %p2;", given)
        np.testing.assert_array_equal(found, np.repeat(expected, 32))
    negated = exchanged(setp + "vote.sync.any.pred %p2, !%p1, -1; selp.b32 %r3, 1, 0, %p2;", given)
    np.testing.assert_array_equal(negated, np.repeat([1, 0, 1], 32))


def test_a_vote_of_a_part_of_the_warp():
    body = """setp.lt.u32 %p1, %r9, 8; mov.u32 %r3, 77; @!%p1 bra $end; setp.gt.u32 %p2, %r9, 3;
        vote.sync.ballot.b32 %r3, %p2, 255; activemask.b32 %r4; add.u32 %r3, %r3, %r4; $end: mov.u32 %r5, 0;"""
    found = exchanged(body, np.zeros(40, U32))
    assert found[:8].tolist() == [0xF0 + 0xFF] * 8 and found[8:32].tolist() == [77] * 24
    assert found[32:].tolist() == [0xF0 + 0xFF] * 8


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
def test_reductions(name, rng):
    given = rng.integers(0, 1 << 32, 64, dtype=U32)
    type_ = "b32" if name in ("and", "or", "xor") else "u32"
    functions: dict[str, Any] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add,
                                 "min": np.minimum, "max": np.maximum}  # fmt: skip
    expected = [functions[name].reduce(warp, dtype=U32) for warp in given.reshape(2, 32)]
    found = exchanged(f"redux.sync.{name}.{type_} %r3, %r2, -1;", given)
    np.testing.assert_array_equal(found, np.repeat(expected, 32))


def test_matches(rng):
    given = rng.integers(0, 4, 64, dtype=U32)
    given[32:] = 5
    expected = [sum(1 << i for i in range(32) if warp[i] == n) for warp in given.reshape(2, 32) for n in warp]
    np.testing.assert_array_equal(exchanged("match.any.sync.b32 %r3, %r2, -1;", given), expected)
    found = exchanged("match.all.sync.b32 %r3|%p1, %r2, -1;", given)
    np.testing.assert_array_equal(found, np.repeat([0, 0xFFFFFFFF], 32))


def test_numbers_of_threads():
    body = """ld.param.u64 %rd0, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
        mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
        mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %nctaid.x; mad.lo.u32 %r10, %r8, %r9, %r7;
        mov.u32 %r11, %ntid.z; mul.lo.u32 %r12, %r4, %r5; mul.lo.u32 %r12, %r12, %r11; mad.lo.u32 %r13, %r10, %r12, %r6;
        mul.wide.u32 %rd1, %r13, 4; add.u64 %rd1, %rd0, %rd1; mov.u32 %r14, %warpid; mov.u32 %r15, %laneid;
        mad.lo.u32 %r14, %r14, 32, %r15; mov.u32 %r16, %lanemask_lt; popc.b32 %r16, %r16; sub.u32 %r16, %r16, %r15;
        add.u32 %r14, %r14, %r16; st.global.u32 [%rd1], %r14; ret;"""
    (found,) = run(body, np.zeros(6 * 60, U32), grid=(3, 2), block=(5, 4, 3))
    np.testing.assert_array_equal(found, np.tile(np.arange(60), 6))
