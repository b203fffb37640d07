"""Loads, stores and atomic operations in all spaces, and memory as the host sees it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .findings import Finding, MalformedText, NeverWritten, OutOfBounds
from .launch import Loaded, launch
from .lines import HEADER, kernel, run
from .memory import Memory

U32 = np.uint32
OWN = """ld.param.u64 %rd0, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd0, %rd1;"""


def numbers(count: int) -> Any:
    return np.arange(count, dtype=U32)


# -- widths and spaces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
def test_vectors_of_words(space, count, rng):
    given = rng.integers(0, 1 << 32, (32, count), dtype=U32)
    registers = ", ".join(f"%r{5 + i}" for i in range(count))
    at = {"global": "%rd1", "shared": "%rd2", "local": "l", "generic": "%rd3"}[space]
    suffix = "" if space == "generic" else f".{space}"
    body = f"""ld.param.u64 %rd0, [p0]; mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, {4 * count}, %rd0;
        mov.u64 %rd2, s; mad.wide.u32 %rd2, %r1, {4 * count}, %rd2; cvta.shared.u64 %rd3, %rd2;
        ld.global.v{count}.b32 {{{registers}}}, [%rd1]; st{suffix}.v{count}.b32 [{at}], {{{registers}}};
        mov.u32 %r5, 0; mov.u32 %r6, 0; ld{suffix}.v{count}.b32 {{{registers}}}, [{at}]; xor.b32 %r6, %r6, 1;
        st.global.v{count}.b32 [%rd1], {{{registers}}}; ret;"""
    (found,) = run(body, given, declarations=".shared .align 16 .b8 s[512]; .local .align 16 .b8 l[16];")
    expected = given.copy()
    expected[:, 1] ^= 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("type_", "dtype"), [("u8", np.uint8), ("s8", np.int8), ("u16", np.uint16), ("s16", np.int16)])
def test_narrow_numbers_fill_their_registers(type_, dtype):
    given = np.array([0, 1, 127, -1, -128], np.int64).astype(dtype)
    width = given.itemsize
    body = f"""ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r1, %tid.x;
        mad.wide.u32 %rd0, %r1, {width}, %rd0; mad.wide.u32 %rd1, %r1, 4, %rd1;
        ld.global.{type_} %r2, [%rd0]; st.global.u32 [%rd1], %r2; add.u32 %r2, %r2, 1; st.global.{type_} [%rd0], %r2;
        ret;"""
    narrow, wide = run(body, given, np.zeros(5, np.int32), block=5)
    np.testing.assert_array_equal(wide, given.astype(np.int32))
    np.testing.assert_array_equal(narrow, given + dtype(1))


def test_generic_addresses_say_their_space():
    body = (
        OWN
        + """mov.u64 %rd2, s; cvta.shared.u64 %rd3, %rd2; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd3, %rd3, %rd4;
        mov.u64 %rd5, l; cvta.local.u64 %rd5, %rd5; cvta.global.u64 %rd6, %rd1; st.u32 [%rd3], %r1;
        add.u32 %r5, %r1, 100; st.u32 [%rd5], %r5; ld.u32 %r7, [%rd3]; ld.local.u32 %r8, [l];
        cvta.to.shared.u64 %rd7, %rd3; ld.shared.u32 %r9, [%rd7]; setp.lt.u32 %p1, %r1, 16;
        selp.b64 %rd8, %rd3, %rd5, %p1; ld.u32 %r10, [%rd8]; add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9;
        add.u32 %r7, %r7, %r10; st.u32 [%rd6], %r7;
        ret;"""
    )
    (found,) = run(body, numbers(32), declarations=".shared .align 4 .b8 s[128]; .local .align 4 .b8 l[4];")
    n = numbers(32)
    np.testing.assert_array_equal(found, 3 * n + 100 + np.where(n < 16, n, n + 100))


def test_shared_memory_may_be_as_large_as_the_launch_says():
    text = kernel(
        OWN + """mov.u32 %r5, d; mad.lo.u32 %r5, %r1, 4, %r5; st.shared.u32 [%r5], %r4; ld.shared.u32 %r6, [%r5];
        mov.u32 %r7, f; sub.u32 %r7, %r5, %r7; mul.lo.u32 %r8, %r1, 4; sub.u32 %r7, %r7, %r8; add.u32 %r6, %r6, %r7;
        fence.acq_rel.cta; membar.gl; st.global.u32 [%rd1], %r6; ret;""",
        ".shared .align 4 .b8 f[12];",
        functions=".extern .shared .align 16 .b8 d[];",
    )  # fmt: skip
    memory = Memory()
    address = memory.allocate(numbers(64))
    launch(text, "k", 2, 32, [address], memory, shared_bytes=128)
    np.testing.assert_array_equal(memory.view(address), numbers(64) + 16)  # the dynamic part begins behind the other
    with pytest.raises(OutOfBounds):
        launch(text, "k", 2, 32, [address], memory, shared_bytes=124)


# -- atomic operations ---------------------------------------------------------------------------------------------

ATOMICS: dict[str, tuple[Any, Any]] = {
    "add.u32": (U32, np.add), "add.u64": (np.uint64, np.add), "add.f32": (np.float32, np.add),
    "add.f64": (np.float64, np.add), "min.s32": (np.int32, np.minimum), "max.s64": (np.int64, np.maximum),
    "min.u64": (np.uint64, np.minimum), "max.u32": (U32, np.maximum), "and.b32": (U32, np.bitwise_and),
    "or.b64": (np.uint64, np.bitwise_or), "xor.b32": (U32, np.bitwise_xor),
    "exch.b32": (U32, lambda old, given: given),
    "inc.u32": (U32, lambda old, most: U32(0) if old >= most else old + U32(1)),
    "dec.u32": (U32, lambda old, most: most if old == 0 or old > most else old - U32(1)),
}  # fmt: skip


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("name", ATOMICS)
def test_atomic_operations_take_turns(name, space, rng):
    """Forty threads on three places: each finds what the one before it has left."""
    dtype, function = ATOMICS[name]
    width, word = np.dtype(dtype).itemsize, 8 * np.dtype(dtype).itemsize
    given = rng.integers(0, 100, 40).astype(dtype)
    r, move = ("%rd", "b64") if width == 8 else ("%r", "b32")
    body = f"""ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2]; mov.u32 %r1, %tid.x;
        mad.wide.u32 %rd1, %r1, {width}, %rd1; mad.wide.u32 %rd2, %r1, {width}, %rd2; rem.u32 %r2, %r1, 3;
        mul.wide.u32 %rd3, %r2, {width}; add.u64 %rd4, %rd0, %rd3; mov.u64 %rd5, s; add.u64 %rd5, %rd5, %rd3;
        setp.lt.u32 %p1, %r1, 3; @!%p1 bra $over; ld.global.b{word} {r}8, [%rd4]; st.shared.b{word} [%rd5], {r}8;
        $over: bar.sync 0; ld.global.b{word} {r}9, [%rd1];
        atom.{space}.{name} {r}10, [{"%rd4" if space == "global" else "%rd5"}], {r}9; st.global.{move} [%rd2], {r}10;
        bar.sync 0; @!%p1 bra $end; ld.shared.b{word} {r}8, [%rd5];
        {"" if space == "global" else f"st.global.b{word} [%rd4], {r}8;"} $end: ret;"""
    start = np.array([50, 3, 7], dtype)
    left, _, old = run(body, start, given, np.zeros(40, dtype), block=40, declarations=".shared .align 8 .b8 s[24];")
    expected, found = start.copy(), []
    for number, value in enumerate(given):
        found.append(expected[number % 3])
        expected[number % 3] = function(expected[number % 3], value)
    np.testing.assert_array_equal(old, np.array(found, dtype))
    np.testing.assert_array_equal(left, expected)


def test_compare_and_swap():
    body = OWN + "add.u32 %r5, %r1, 1; atom.global.cas.b32 %r6, [%rd0], %r1, %r5; ret;"
    assert run(body, np.zeros(1, U32), block=20)[0].tolist() == [20]
    assert run(body, np.full(1, 5, U32), block=20)[0].tolist() == [20]
    assert run(body, np.full(1, 50, U32), block=20)[0].tolist() == [50]


def test_blocks_add_up_in_any_order():
    body = OWN + "red.relaxed.gpu.global.add.u32 [%rd0], %r4; ret;"
    for order in ("forward", "backward", 1):
        assert run(body, np.zeros(1, U32), grid=70, block=100, order=order)[0][0] == 7000 * 6999 // 2


def test_blocks_run_in_the_order_that_is_asked_for():
    body = OWN + "setp.eq.u32 %p1, %r1, 0; @%p1 atom.global.exch.b32 %r5, [%rd0], %r2; ret;"
    for order, last in {"forward": 299, "backward": 0, 7: np.random.default_rng(7).permutation(300)[-1]}.items():
        assert run(body, np.zeros(1, U32), grid=300, order=order)[0][0] == last


# -- modules and launches ------------------------------------------------------------------------------------------


def test_variables_of_a_module_have_values():
    variables = """.global .align 8 .b8 bytes[8] = {1, 2, 3}; .const .f32 half = 0f3F000000; .global .s32 low = -5;
        .visible .global .align 8 .f64 pair[2] = {1.5, 0d4000000000000000};"""
    body = (
        OWN
        + """ld.global.b8 %h1, [bytes+1]; cvt.u32.u16 %r5, %h1; st.global.u32 [%rd0], %r5;
        ld.const.f32 %r6, [half]; st.global.b32 [%rd0+4], %r6; ld.global.s32 %r7, [low]; st.global.u32 [%rd0+8], %r7;
        ld.global.f64 %rd3, [pair+8]; mov.u64 %rd4, pair; ld.global.f64 %rd5, [%rd4]; add.rn.f64 %rd3, %rd3, %rd5;
        st.global.b64 [%rd0+16], %rd3; ret;"""
    )
    (found,) = run(body, np.zeros(6, U32), block=1, functions=variables)
    assert (found[0], found[1:2].view(np.float32)[0], found[2:3].view(np.int32)[0]) == (2, 0.5, -5)
    assert found[4:].view(np.float64)[0] == 3.5


def test_a_loaded_module_keeps_its_variables():
    text = kernel("ld.global.u32 %r1, [calls]; add.u32 %r1, %r1, 1; st.global.u32 [calls], %r1; ret;", parameters=0,
                  functions=".global .u32 calls = 0;")  # fmt: skip
    memory = Memory()
    loaded = Loaded(text, memory)
    for _ in range(3):
        loaded.launch("k", 1, 1, [])
    address = loaded.symbols["calls"]
    assert memory.view(address).tolist() == [3]
    loaded.unload()
    assert memory.allocation(address) is None


PARAMETERS = """.visible .entry k(.param .u64 at, .param .u32 i, .param .f32 x, .param .align 8 .b8 s[16],
    .param .f64 y, .param .u8 b)
{ .reg .b32 %r<9>; .reg .b64 %rd<9>;
  ld.param.u64 %rd0, [at]; ld.param.u32 %r1, [i]; st.global.u32 [%rd0], %r1; ld.param.f32 %r2, [x];
  st.global.b32 [%rd0+4], %r2; mov.u64 %rd1, s; ld.param.u64 %rd2, [%rd1+8]; st.global.b64 [%rd0+8], %rd2;
  ld.param.f64 %rd3, [y]; st.global.b64 [%rd0+16], %rd3; ld.param.u8 %r3, [b]; st.global.u32 [%rd0+24], %r3; ret; }"""


def test_parameters_are_values_or_bytes():
    memory = Memory()
    first, second = memory.reserve(28), memory.reserve(28)
    values: list[int | float | bytes] = [7, 1.5, np.array([1, 2], np.uint64).tobytes(), 2.5, 255]
    launch(HEADER + PARAMETERS, "k", 1, 1, [first, *values], memory)
    raw = memory.read(first, 28, written=True)
    assert raw == (np.array([7], U32).tobytes() + np.float32(1.5).tobytes() + np.uint64(2).tobytes()
                   + np.float64(2.5).tobytes() + np.array([255], U32).tobytes())  # fmt: skip
    whole = np.zeros(49, np.uint8)
    parts: list[tuple[int, Any]] = [(0, np.uint64(second)), (8, U32(7)), (12, np.float32(1.5)), (24, np.uint64(2)),
                                    (32, np.float64(2.5)), (40, np.uint8(255))]  # fmt: skip
    for start, part in parts:
        whole[start : start + part.nbytes] = np.frombuffer(part.tobytes(), np.uint8)
    launch(HEADER + PARAMETERS, "k", 1, 1, whole[:41].tobytes(), memory)
    assert memory.read(second, 28) == raw


@pytest.mark.parametrize(
    ("params", "block", "message"),
    [([], 1, "takes 1 parameters, not 0"), ([b"123"], 1, "p0 has 8 bytes, not 3"), ([0], 2048, "1024 threads"),
     ([0], 0, "1024 threads"), (b"123456789", 1, "8 bytes, not 9")],
)  # fmt: skip
def test_a_launch_that_does_not_fit_is_refused(params, block, message):
    with pytest.raises(Finding, match=message):
        launch(kernel("ret;"), "k", 1, block, params, Memory())


def test_only_entries_are_launched():
    loaded = Loaded(HEADER + ".func f() { ret; }", Memory())
    with pytest.raises(Finding, match="f is no entry"):
        loaded.launch("f", 1, 1, [])
    with pytest.raises(Finding, match="there is no entry g"):
        loaded.launch("g", 1, 1, [])
    with pytest.raises(MalformedText):
        Loaded("nothing of the kind", Memory())


# -- the host's side -----------------------------------------------------------------------------------------------


def test_the_host_reads_and_writes():
    memory = Memory()
    given = np.arange(6, dtype=np.float64).reshape(2, 3)
    address, other = memory.allocate(given), memory.reserve((4,), np.int16)
    np.testing.assert_array_equal(memory.view(address), given)
    memory.write(address + 8, np.array([9.5]))
    assert memory.view(address)[0, 1] == 9.5 and given[0, 1] == 1
    assert memory.read(address + 8, 8) == np.float64(9.5).tobytes()
    memory.write(other, b"\1\0\2\0")
    assert memory.view(other).tolist() == [1, 2, 0, 0]
    assert memory.read(other, 4, written=True) == b"\1\0\2\0"
    with pytest.raises(NeverWritten, match="byte 4 of 8"):
        memory.read(other, 8, written=True)
    with pytest.raises(OutOfBounds):
        memory.read(address + 44, 8)
    with pytest.raises(KeyError):
        memory.view(address + 8)


def test_an_empty_array_has_an_address_of_its_own():
    memory = Memory()
    addresses = {memory.allocate(np.zeros(0)), memory.allocate(np.zeros(0)), memory.reserve(0)}
    assert len(addresses) == 3 and all(address % 256 == 0 for address in addresses)


def test_the_interpreter_knows_nothing_of_what_it_tests():
    """Only tests, and `nests`, which is made of them, may import the package."""
    for path in Path(__file__).parent.glob("*.py"):
        if path.stem.startswith("test_") or path.stem == "nests":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "jit"], path
            assert not (isinstance(node, ast.ImportFrom) and node.level > 1), path
