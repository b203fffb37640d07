"""Ways that part and meet again: every thread computes what it would compute alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .lines import computed, run

U32 = np.uint32
INPUT = np.random.default_rng(3).integers(0, 200, 300, dtype=U32)


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def nested(n: int) -> int:
    if n < 100:
        return 1 if n % 2 else (2 if n % 3 else 3)
    return 4 if n % 5 else 5


def with_breaks(n: int) -> int:
    total = 0
    for i in range(n):
        if i % 7 == 3:
            continue
        if i * i > 3 * n:
            break
        for j in range(i % 4):
            total += i ^ j
            if total > 5000:
                return total + 1
    return total


def jumping(n: int) -> int:
    """Two loops that are entered in each other's middle."""
    total, place = 0, "middle" if n % 2 else "start"
    while True:
        if place == "start":
            total, place = total + 1, "middle"
        elif place == "middle":
            n = n - 1 if n > 0 else 0
            total += 10
            place = "start" if n % 3 else "end"
        else:
            total += 100
            if n == 0:
                return total
            place = "middle"


def switched(n: int) -> int:
    """A way on falls through to the next."""
    total, case = 0, n % 4
    for step in range(case, 4):
        total = total * 5 + step + 1
    return total


PROGRAMS: dict[str, tuple[Callable[[int], int], str]] = {
    "a loop of many lengths": (collatz, """
        mov.b32 %d, 0;
        $test: setp.le.u32 %p1, %a, 1; @%p1 bra $end;
        and.b32 %r1, %a, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra $even;
        mad.lo.u32 %a, %a, 3, 1; bra.uni $next;
        $even: shr.u32 %a, %a, 1;
        $next: add.u32 %d, %d, 1; bra.uni $test;
        $end: mov.u32 %r1, 0;"""),
    "nested ifs": (nested, """
        setp.ge.u32 %p1, %a, 100; @%p1 bra $large;
        and.b32 %r1, %a, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra $even;
        mov.u32 %d, 1; bra.uni $end;
        $large: rem.u32 %r1, %a, 5; setp.eq.u32 %p2, %r1, 0; mov.u32 %d, 5; @%p2 bra $end;
        mov.u32 %d, 4; bra $end;
        $even: rem.u32 %r1, %a, 3; setp.ne.u32 %p2, %r1, 0; mov.u32 %d, 3; @!%p2 bra $end; mov.u32 %d, 2;
        $end: mov.u32 %r1, 0;"""),
    "breaks, continues and a return": (with_breaks, """
        mov.u32 %d, 0; mov.u32 %r1, 0;
        $outer: setp.ge.u32 %p1, %r1, %a; @%p1 bra $end;
        rem.u32 %r2, %r1, 7; setp.eq.u32 %p2, %r2, 3; @%p2 bra $next;
        mul.lo.u32 %r3, %r1, %r1; mul.lo.u32 %r4, %a, 3; setp.gt.u32 %p3, %r3, %r4; @%p3 bra $end;
        and.b32 %r5, %r1, 3; mov.u32 %r6, 0;
        $inner: setp.ge.u32 %p4, %r6, %r5; @%p4 bra $next;
        xor.b32 %r7, %r1, %r6; add.u32 %d, %d, %r7; add.u32 %r6, %r6, 1;
        setp.gt.u32 %p5, %d, 5000; @!%p5 bra $inner;
        add.u32 %d, %d, 1; st.global.b32 [%at_d], %d; ret;
        $next: add.u32 %r1, %r1, 1; bra.uni $outer;
        $end: mov.u32 %r1, 0;"""),
    "loops that are entered in their middle": (jumping, """
        mov.u32 %d, 0; and.b32 %r1, %a, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra $middle;
        $start: add.u32 %d, %d, 1;
        $middle: add.u32 %d, %d, 10; max.u32 %r2, %a, 1; sub.u32 %a, %r2, 1;
        rem.u32 %r3, %a, 3; setp.ne.u32 %p2, %r3, 0; @%p2 bra $start;
        add.u32 %d, %d, 100; setp.ne.u32 %p3, %a, 0; @%p3 bra $middle;"""),
    "ways that fall through, laid out backwards": (switched, """
        mov.u32 %d, 0; and.b32 %r1, %a, 3; bra.uni $choose;
        $three: mad.lo.u32 %d, %d, 5, 4; bra.uni $end;
        $two: mad.lo.u32 %d, %d, 5, 3; bra.uni $three;
        $one: mad.lo.u32 %d, %d, 5, 2; bra.uni $two;
        $zero: mad.lo.u32 %d, %d, 5, 1; bra.uni $one;
        $choose: setp.eq.u32 %p0, %r1, 0; @%p0 bra $zero; setp.eq.u32 %p1, %r1, 1; @%p1 bra $one;
        setp.eq.u32 %p2, %r1, 2; @%p2 bra $two; bra.uni $three;
        $end: mov.u32 %r1, 0;"""),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_compute_what_they_would_compute_alone(name):
    reference, lines = PROGRAMS[name]
    np.testing.assert_array_equal(computed(lines, U32, INPUT), [reference(n) for n in INPUT.tolist()])


OWN = """ld.param.u64 %rd0, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd0, %rd1;"""


def test_predicated_instructions_leave_the_others_alone():
    body = (
        OWN
        + """ld.global.u32 %r5, [%rd1]; setp.gt.u32 %p1, %r1, 9; @%p1 add.u32 %r5, %r5, 100;
        @!%p1 add.u32 %r5, %r5, 200; @%p1 st.global.u32 [%rd1], %r5; ret;"""
    )
    (found,) = run(body, np.zeros(32, U32))
    np.testing.assert_array_equal(found, np.where(np.arange(32) > 9, 100, 0))


def test_barriers_in_a_loop_of_one_length():
    """A tree of sums in shared memory, in which fewer and fewer threads take part."""
    body = (
        OWN
        + """ld.global.u32 %r5, [%rd1]; mov.u32 %r6, s; mad.lo.u32 %r6, %r1, 4, %r6; st.shared.u32 [%r6], %r5;
        shr.u32 %r7, %r3, 1;
        $loop: bar.sync 0; setp.ge.u32 %p1, %r1, %r7; @%p1 bra $over;
        mad.lo.u32 %r8, %r7, 4, %r6; ld.shared.u32 %r9, [%r8]; ld.shared.u32 %r10, [%r6]; add.u32 %r9, %r9, %r10;
        st.shared.u32 [%r6], %r9;
        $over: shr.u32 %r7, %r7, 1; setp.ne.u32 %p2, %r7, 0; @%p2 bra $loop;
        setp.ne.u32 %p3, %r1, 0; @%p3 bra $end; ld.shared.u32 %r5, [%r6]; st.global.u32 [%rd1], %r5; $end: ret;"""
    )
    given = np.random.default_rng(0).integers(0, 100, 1280, dtype=U32)
    (found,) = run(body, given, grid=10, block=128, declarations=".shared .align 4 .b8 s[512];")
    np.testing.assert_array_equal(found[::128], given.reshape(10, 128).sum(1))


def test_some_threads_leave_before_a_shuffle():
    body = (
        OWN
        + """setp.gt.u32 %p1, %r1, 15; @%p1 ret; shfl.sync.bfly.b32 %r5|%p2, %r1, 3, 31, -1;
        st.global.u32 [%rd1], %r5; ret;"""
    )
    (found,) = run(body, np.full(32, 99, U32))
    np.testing.assert_array_equal(found, np.where(np.arange(32) < 16, np.arange(32) ^ 3, 99))


def test_a_shuffle_is_waited_for_on_different_ways():
    """Lanes come to the shuffle one group after the other."""
    body = (
        OWN
        + """mov.u32 %r5, %r1; setp.lt.u32 %p1, %r1, 8; @%p1 bra $slow;
        $meet: shfl.sync.idx.b32 %r6, %r5, 2, 31, -1; st.global.u32 [%rd1], %r6; ret;
        $slow: add.u32 %r5, %r5, 40; bra.uni $meet;"""
    )
    (found,) = run(body, np.zeros(64, U32), block=64)
    np.testing.assert_array_equal(found, np.repeat([42, 34], 32))


FUNCTION = """
.func (.param .b32 result) power(.param .b32 base, .param .b32 exponent)
{
    .reg .b32 %r<5>; .reg .pred %p<3>; .local .align 4 .b8 kept[4];
    ld.param.b32 %r1, [base]; ld.param.b32 %r2, [exponent]; mov.u32 %r3, 1;
$loop:
    setp.eq.u32 %p1, %r2, 0; @%p1 bra $end;
    mul.lo.u32 %r3, %r3, %r1; sub.u32 %r2, %r2, 1; bra.uni $loop;
$end:
    st.local.b32 [kept], %r3; ld.local.b32 %r4, [kept]; st.param.b32 [result], %r4; ret;
}
"""


@pytest.mark.parametrize("skip", ["", "@!%p1 bra $over;"])
def test_functions_are_called_by_some_lanes(skip):
    body = (
        OWN
        + f"""ld.global.u32 %r5, [%rd1]; setp.gt.u32 %p1, %r5, 3; mov.u32 %r6, 7;
        {{ .param .b32 x; .param .b32 y; .param .b32 z; st.param.b32 [x], 3; st.param.b32 [y], %r5;
        {skip} call.uni (z), power, (x, y); ld.param.b32 %r6, [z]; }}
        $over: st.global.u32 [%rd1], %r6; ret;"""
    )
    given: Any = np.random.default_rng(0).integers(0, 9, 70, dtype=U32)
    (found,) = run(body, given, block=70, functions=FUNCTION)
    expected = 3**given
    np.testing.assert_array_equal(found, np.where(given > 3, expected, 7) if skip else expected)
