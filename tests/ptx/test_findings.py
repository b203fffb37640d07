"""Faults: a kernel that has one is reported with its line, thread, block and address; its sound sibling is not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from .findings import (
    BarrierNotReached,
    Conflict,
    EndlessLoop,
    Finding,
    Misaligned,
    NeverSet,
    NeverWritten,
    OutOfBounds,
    ReadOnly,
    Undefined,
    UnknownInstruction,
)
from .launch import launch
from .lines import kernel, run
from .memory import FIRST, Memory

U32 = np.uint32

OWN = """ld.param.u64 %rd0, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd0, %rd1;"""
"""The address of the thread's own element of 4 bytes in %rd1, its number in %r1, that of its block in %r2."""


def numbers(count: int) -> Any:
    return np.arange(count, dtype=U32)


def fault(kind: type[Finding], body: str, *arrays: Any, **options: Any) -> Finding:
    with pytest.raises(kind) as caught:
        run(body, *arrays, **options)
    assert type(caught.value) is kind
    return caught.value


# -- memory --------------------------------------------------------------------------------------------------------


def test_an_access_beyond_an_array_is_found():
    body = OWN + "ld.global.u32 %r5, [%rd1+OFFSET]; ret;"
    run(body.replace("OFFSET", "0"), numbers(64), grid=2)
    found = fault(OutOfBounds, body.replace("OFFSET", "8"), numbers(64), grid=2)
    assert (found.kernel, found.thread, found.block) == ("k", (30, 0, 0), (1, 0, 0))
    assert found.address == FIRST + 64 * 4
    assert found.instruction == "ld.global.u32 %r5, [%rd1+8]"
    assert re.fullmatch(
        r"k, line \d+: `ld.global.u32 %r5, \[%rd1\+8\]`: an access of 4 bytes that ends 4 bytes behind an allocation, "
        r"by thread \(30, 0, 0\) of block \(1, 0, 0\) \(address 0x7f0000000100\)",
        str(found),
    )
    before = fault(OutOfBounds, body.replace("OFFSET", "-4"), numbers(64), grid=2)
    assert before.thread == (0, 0, 0) and before.message == "an access of 4 bytes before all allocations"


def test_an_access_that_leaves_an_array_in_its_middle_is_found():
    body = "ld.param.u64 %rd0, [p0]; ld.global.u64 %rd1, [%rd0+OFFSET]; ret;"
    run(body.replace("OFFSET", "8"), numbers(5))
    assert fault(OutOfBounds, body.replace("OFFSET", "16"), numbers(5)).address == FIRST + 16


def test_lanes_may_go_to_several_arrays():
    body = (
        OWN
        + """ld.param.u64 %rd2, [p1]; setp.gt.u32 %p1, %r1, 15; selp.b64 %rd3, %rd2, %rd0, %p1;
        and.b32 %r6, %r1, 15; mul.wide.u32 %rd4, %r6, 4; add.u64 %rd3, %rd3, %rd4; ld.global.u32 %r5, [%rd3];
        add.u32 %r5, %r5, 1; st.global.u32 [%rd3], %r5; ret;"""
    )
    first, second = run(body, numbers(16), 100 + numbers(16))
    assert first.tolist() == list(range(1, 17)) and second.tolist() == list(range(101, 117))
    found = fault(OutOfBounds, body, numbers(16), numbers(9))
    assert found.thread == (25, 0, 0)


def test_freed_memory_is_out_of_bounds():
    memory = Memory()
    kept, freed = memory.allocate(numbers(4)), memory.allocate(numbers(4))
    text = kernel("ld.param.u64 %rd0, [p0]; ld.global.u32 %r1, [%rd0]; ret;")
    memory.free(freed)
    assert memory.allocate(numbers(4)) != freed
    with pytest.raises(KeyError):
        memory.free(freed)
    launch(text, "k", 1, 1, [kept], memory)
    with pytest.raises(OutOfBounds, match="behind an allocation"):
        launch(text, "k", 1, 1, [freed], memory)


@pytest.mark.parametrize(
    ("line", "offset"),
    [("ld.global.u32 %r5, [%rd0+OFFSET]", 4), ("ld.global.v2.u32 {%r5, %r6}, [%rd0+OFFSET]", 8),
     ("ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd0+OFFSET]", 16), ("st.global.b64 [%rd0+OFFSET], %rd0", 8),
     ("atom.global.add.u32 %r5, [%rd0+OFFSET], 1", 4)],
)  # fmt: skip
def test_addresses_are_multiples_of_the_width(line, offset):
    body = f"ld.param.u64 %rd0, [p0]; {line}; ret;"
    run(body.replace("OFFSET", str(offset)), numbers(16), block=1)
    assert fault(Misaligned, body.replace("OFFSET", str(offset // 2)), numbers(16)).address == FIRST + offset // 2


def test_reading_what_nobody_wrote_is_found():
    memory = Memory()
    address = memory.reserve(32, U32)
    read = kernel(OWN + "ld.global.u32 %r5, [%rd1]; ret;")
    with pytest.raises(NeverWritten, match=r"thread \(0, 0, 0\)"):
        launch(read, "k", 1, 32, [address], memory)
    launch(kernel(OWN + "setp.ne.u32 %p1, %r1, 7; @%p1 st.global.u32 [%rd1], %r1; ret;"), "k", 1, 32, [address], memory)
    with pytest.raises(NeverWritten, match=r"thread \(7, 0, 0\)"):
        launch(read, "k", 1, 32, [address], memory)
    memory.write(address + 28, numbers(1))
    launch(read, "k", 1, 32, [address], memory)


SHARED = ".shared .align 16 .b8 s[128];"
STAGED = (
    OWN
    + """mov.u64 %rd2, s; cvt.u64.u32 %rd3, %r1; shl.b64 %rd3, %rd3, 2; add.u64 %rd2, %rd2, %rd3;
    st.shared.u32 [%rd2], %r4; BARRIER xor.b64 %rd4, %rd2, 4; ld.shared.u32 %r5, [%rd4]; st.global.u32 [%rd1], %r5;
    ret;"""
)


def test_shared_memory_needs_a_barrier():
    (found,) = run(STAGED.replace("BARRIER", "bar.sync 0;"), numbers(64), grid=2, declarations=SHARED)
    np.testing.assert_array_equal(found, numbers(64) ^ 1)
    error = fault(Conflict, STAGED.replace("BARRIER", ""), numbers(64), grid=2, declarations=SHARED)
    assert "this read and a write by thread 1 of block 0" in error.message and error.thread == (0, 0, 0)


def test_shared_memory_of_many_blocks():
    """More than run at once: what earlier blocks did to theirs says nothing of later ones."""
    (found,) = run(STAGED.replace("BARRIER", "bar.sync 0;"), numbers(32 * 800), grid=800, declarations=SHARED)
    np.testing.assert_array_equal(found, numbers(32 * 800) ^ 1)


def test_a_read_and_a_later_write_need_a_barrier():
    body = STAGED.replace("BARRIER", "bar.sync 0;").replace("ret;", "BARRIER st.shared.u32 [%rd2], %r5; ret;")
    run(body.replace("BARRIER", "barrier.cta.sync.aligned 0;"), numbers(32), declarations=SHARED)
    error = fault(Conflict, body.replace("BARRIER", ""), numbers(32), declarations=SHARED)
    assert "this write and a read by thread 1" in error.message


def test_shared_memory_is_a_blocks_own_and_never_written_at_first():
    body = STAGED.replace("BARRIER", "bar.sync 0;").replace("st.shared.u32 [%rd2], %r4;", "")
    assert fault(NeverWritten, body, numbers(64), grid=2, declarations=SHARED).block == (0, 0, 0)
    first = "setp.eq.u32 %p1, %r2, 0; @%p1 st.shared.u32 [%rd2], %r4;"
    body = STAGED.replace("BARRIER", "bar.sync 0;").replace("st.shared.u32 [%rd2], %r4;", first)
    assert fault(NeverWritten, body, numbers(64), grid=2, declarations=SHARED).block == (1, 0, 0)


def test_shared_memory_has_an_end():
    assert fault(OutOfBounds, STAGED.replace("BARRIER", "bar.sync 0;"), numbers(64), block=64, declarations=SHARED)


@pytest.mark.parametrize("line", ["st.global.u32 [%rd0], 1;", "st.global.u32 [%rd0], %r1;"])
def test_two_threads_must_not_write_one_place(line):
    run(OWN + "st.global.u32 [%rd1], 1; ret;", numbers(64), grid=2)
    error = fault(Conflict, OWN + line + " ret;", numbers(64), grid=2)
    assert "this write and a write by" in error.message and error.address == FIRST


def test_blocks_are_never_ordered():
    body = (
        OWN
        + """mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd0, %rd2; setp.eq.u32 %p1, %r2, 0;
        @%p1 st.global.u32 [%rd2], %r1; bar.sync 0; setp.eq.u32 %p2, %r2, READER; @%p2 ld.global.u32 %r5, [%rd2];
        ret;"""
    )
    run(body.replace("READER", "0"), numbers(32), grid=2)
    for order in ("forward", "backward", 3):
        error = fault(Conflict, body.replace("READER", "1"), numbers(32), grid=2, order=order)
        assert error.block == (1, 0, 0)


def test_blocks_that_run_after_one_another_are_not_ordered_either():
    body = OWN + "and.b32 %r5, %r4, 1023; mul.wide.u32 %rd2, %r5, 4; add.u64 %rd2, %rd0, %rd2; ACCESS ret;"
    for first, second in (("st", "ld"), ("ld", "st")):
        access = f"""setp.lt.u32 %p1, %r2, 5; @%p1 bra $first; {line(second)} ret; $first: {line(first)}"""
        with pytest.raises(Conflict):
            run(body.replace("ACCESS", access), numbers(1024), grid=6, block=1024)


def line(name: str) -> str:
    return "ld.global.u32 %r6, [%rd2];" if name == "ld" else "st.global.u32 [%rd2], %r4;"


def test_atomic_accesses_conflict_with_others_only():
    body = OWN + "red.global.add.u32 [%rd0], 1; OTHER ret;"
    (found,) = run(body.replace("OTHER", ""), numbers(4), grid=3)
    assert found[0] == 96
    run(body.replace("OTHER", "ld.relaxed.gpu.global.u32 %r5, [%rd0];"), numbers(4), grid=3)
    fault(Conflict, body.replace("OTHER", "ld.global.u32 %r5, [%rd0];"), numbers(4), grid=3)
    error = fault(Conflict, body.replace("red.global.add.u32 [%rd0], 1;", "ld.global.u32 %r5, [%rd0];").replace(
        "OTHER", "red.global.add.u32 [%rd0], 1;"), numbers(4), grid=3)  # fmt: skip
    assert "this atomic access and a read" in error.message


@pytest.mark.parametrize("order", ["WRITE READ", "READ WRITE"])
def test_what_is_read_as_constant_is_not_written(order):
    body = OWN + order + " ret;"
    write = "st.global.u32 [%rd1], %r1;"
    run(body.replace("WRITE", write).replace("READ", "ld.global.u32 %r5, [%rd1];"), numbers(32))
    run(body.replace("WRITE", "").replace("READ", "ld.global.nc.u32 %r5, [%rd1];"), numbers(32))
    fault(Conflict, body.replace("WRITE", write).replace("READ", "ld.global.nc.u32 %r5, [%rd1];"), numbers(32))


def test_parts_of_a_word_are_bytes_of_their_own():
    body = OWN + "cvt.u64.u32 %rd2, %r1; add.u64 %rd2, %rd0, %rd2; st.global.u8 [%rd2], %r1; OTHER ret;"
    (found,) = run(body.replace("OTHER", ""), numbers(8))
    assert found.view(np.uint8).tolist() == list(range(32))
    fault(Conflict, body.replace("OTHER", "and.b64 %rd3, %rd2, -4; ld.global.u32 %r5, [%rd3];"), numbers(8))


def test_parameters_and_constants_are_not_written():
    fault(ReadOnly, "mov.u64 %rd0, p0; st.param.u64 [%rd0], %rd0; ret;", numbers(1))
    memory = Memory()
    text = kernel("st.const.u32 [c], 1; ret;", functions=".const .u32 c = 5;")
    with pytest.raises(ReadOnly, match=r"a write to \.const"):
        launch(text, "k", 1, 1, [0], memory)


def test_local_memory_is_a_threads_own_and_never_written_at_first():
    body = (
        OWN
        + """mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2; WRITE ld.u32 %r5, [%rd2+4]; st.global.u32 [%rd1], %r5;
        ret;"""
    )
    declarations = ".local .align 4 .b8 l[8];"
    (found,) = run(body.replace("WRITE", "st.u32 [%rd2+4], %r1;"), 7 + numbers(32), declarations=declarations)
    np.testing.assert_array_equal(found, numbers(32))
    fault(NeverWritten, body.replace("WRITE", ""), numbers(32), declarations=declarations)
    fault(OutOfBounds, body.replace("WRITE", "st.u32 [%rd2+8], %r1;"), numbers(32), declarations=declarations)


# -- registers -----------------------------------------------------------------------------------------------------


def test_reading_a_register_that_was_never_set_is_found():
    error = fault(NeverSet, "add.u32 %r1, %r2, 1; ret;", numbers(1))
    assert "%r2 has no value here" in error.message and error.thread == (0, 0, 0)


def test_a_register_that_some_ways_do_not_set_is_found_on_those():
    body = (
        OWN
        + """setp.lt.u32 %p1, %r1, LIMIT; @%p1 bra $small; bra.uni $end; $small: mov.u32 %r5, 1;
        $end: add.u32 %r5, %r5, 1; ret;"""
    )
    run(body.replace("LIMIT", "32"), numbers(1))
    assert fault(NeverSet, body.replace("LIMIT", "20"), numbers(1)).thread == (20, 0, 0)


def test_a_guard_decides_what_is_set_and_what_is_read():
    body = OWN + "setp.lt.u32 %p1, %r1, 9; @%p1 mov.u32 %r5, 1; GUARD add.u32 %r6, %r5, 1; ret;"
    run(body.replace("GUARD", "@%p1"), numbers(1))
    assert fault(NeverSet, body.replace("GUARD", ""), numbers(1)).thread == (9, 0, 0)
    assert fault(NeverSet, "@%p1 mov.u32 %r1, 1; ret;", numbers(1)).message == "%p1 has no value here"


# -- barriers ------------------------------------------------------------------------------------------------------


def test_a_barrier_in_divergent_code_is_found():
    body = OWN + "setp.lt.u32 %p1, %r1, LIMIT; @!%p1 bra $over; bar.sync 0; $over: ret;"
    run(body.replace("LIMIT", "64"), numbers(1), block=64)
    error = fault(BarrierNotReached, body.replace("LIMIT", "40"), numbers(1), block=64)
    assert error.message == "40 of 64 threads of the block wait here for others, which do not come"
    assert error.instruction == "bar.sync 0" and error.block == (0, 0, 0)


def test_an_early_return_before_a_barrier_is_found():
    body = OWN + "setp.ge.u32 %p1, %r1, LIMIT; @%p1 ret; bar.sync 0; ret;"
    run(body.replace("LIMIT", "64"), numbers(1), block=64)
    fault(BarrierNotReached, body.replace("LIMIT", "63"), numbers(1), block=64)


def test_a_warp_meets_at_one_barrier():
    """Warps may wait at different barriers of one number; the threads of a warp may not."""
    body = OWN + "setp.lt.u32 %p1, %r1, LIMIT; @%p1 bra $small; bar.sync 0; ret; $small: bar.sync NUMBER; ret;"
    run(body.replace("LIMIT", "32").replace("NUMBER", "0"), numbers(1), block=64)
    fault(BarrierNotReached, body.replace("LIMIT", "16").replace("NUMBER", "0"), numbers(1), block=64)
    fault(BarrierNotReached, body.replace("LIMIT", "32").replace("NUMBER", "1"), numbers(1), block=64)


def test_a_shuffle_waits_for_the_lanes_of_its_mask():
    body = (
        OWN
        + """setp.lt.u32 %p1, %r1, 16; @%p1 bra $small; bra.uni $end;
        $small: shfl.sync.down.b32 %r5, %r1, 1, 31, MASK; $end: bar.warp.sync -1; ret;"""
    )
    run(body.replace("MASK", "0xFFFF"), numbers(1))
    fault(BarrierNotReached, body.replace("MASK", "-1"), numbers(1))
    error = fault(Undefined, body.replace("MASK", "0x00FF"), numbers(1))
    assert error.thread == (8, 0, 0) and "mask" in error.message


def test_what_a_shuffle_brings_from_nowhere_is_no_number_to_use():
    body = OWN + "shfl.sync.down.b32 %r5, 0f3F800000, 8, 31, -1; st.global.b32 [%rd1], %r5; ret;"
    (found,) = run(body, np.zeros(12, np.float32), block=12)
    assert (found[:4] == 1).all() and np.isnan(found[4:]).all()


# -- the rest ------------------------------------------------------------------------------------------------------


def test_an_endless_loop_is_found():
    body = "mov.u32 %r1, 0; $loop: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, END; @%p1 bra $loop; ret;"
    run(body.replace("END", "100"), numbers(1), steps=1000)
    assert fault(EndlessLoop, body.replace("END", "0"), numbers(1), steps=1000).thread == (0, 0, 0)


@pytest.mark.parametrize(
    "line",
    ["frobnicate.u32 %r1, 1", "add.rn.wild.f32 %r1, %r1, %r1", "ld.global.strange.u32 %r1, [%rd0]", "add.u32 %r1, 1",
     "bar.red.popc.u32 %r1, 0, %p1", "mov.u32 %r1, %no_such.x", "add.u64 %r1, %r1, 1",
     "cvt.rn.e4m3x2.f32 %h1, %r1, %r1"],
)  # fmt: skip
def test_an_unknown_instruction_is_found(line):
    error = fault(UnknownInstruction, f"{line}; ret;", numbers(1))
    assert error.kernel == "k" and error.instruction == line and error.line == 7


def test_a_trap_is_found_where_it_is_reached():
    body = OWN + "setp.eq.u32 %p1, %r1, NUMBER; @%p1 trap; ret;"
    run(body.replace("NUMBER", "32"), numbers(1))
    assert fault(Finding, body.replace("NUMBER", "5"), numbers(1)).thread == (5, 0, 0)
