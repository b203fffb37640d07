"""Matrix products of a warp against numpy, and copies that run beside the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jit.runtime.gpu.ptxas import assemble

from ..runtime.test_ptxas import needs_ptxas
from .arithmetic import BFLOAT16
from .findings import Conflict, Misaligned, NeverWritten, Undefined, UnknownInstruction
from .lines import kernel, run

F16, F32 = np.dtype(np.float16), np.dtype(np.float32)
TYPES = {"f16": F16, "bf16": BFLOAT16, "tf32": F32}

# Where the manual's formulas put element i of a lane: (row, column) of A and of B, by shape and bytes of an element.
Place = tuple[int, int]


def place_of_a(shape: str, width: int, lane: int, i: int) -> Place:
    group, member = lane >> 2, lane % 4
    if width == 4:
        return group + 8 * (i % 2), member + 4 * (i // 2)
    return group + 8 * (i // 2 % 2), member * 2 + i % 2 + 8 * (i // 4)


def place_of_b(shape: str, width: int, lane: int, i: int) -> Place:
    group, member = lane >> 2, lane % 4
    if width == 4:
        return member + 4 * i, group
    return member * 2 + i % 2 + 8 * (i // 2), group


def place_of_c(shape: str, width: int, lane: int, i: int) -> Place:
    return (lane >> 2) + 8 * (i // 2), lane % 4 * 2 + i % 2


def registers(matrix: Any, place: Any, shape: str, width: int, count: int) -> Any:
    """The words that the lanes hold of a matrix, a row for each."""
    lanes = [[matrix[place(shape, width, lane, i)] for i in range(count)] for lane in range(32)]
    return np.array(lanes, matrix.dtype).view(np.uint32)


FORMS = [("m16n8k16", "f16"), ("m16n8k16", "bf16"), ("m16n8k8", "f16"), ("m16n8k8", "bf16"), ("m16n8k8", "tf32"),
         ("m16n8k4", "tf32")]  # fmt: skip


def program(shape: str, type_: str, counts: tuple[int, int], result: str = "f32") -> str:
    """Loads the lane's words of a, b and c, and stores those of d."""
    c = 4 if result == "f32" else 2
    names = [f"%r{number}" for number in range(1, 1 + sum(counts) + c)]
    parts = names[: counts[0]], names[counts[0] : sum(counts)], names[sum(counts) :]
    lines = ["mov.u32 %r0, %tid.x;"]
    for number, part in enumerate(parts):
        lines.append(f"ld.param.u64 %rd1, [p{number}]; mad.wide.u32 %rd1, %r0, {4 * len(part)}, %rd1;")
        lines += [f"ld.global.b32 {name}, [%rd1+{4 * place}];" for place, name in enumerate(part)]
    a, b, d = (f"{{{', '.join(part)}}}" for part in parts)
    lines.append(f"mma.sync.aligned.{shape}.row.col.{result}.{type_}.{type_}.{result} {d}, {a}, {b}, {d};")
    lines += [f"st.global.b32 [%rd1+{4 * place}], {name};" for place, name in enumerate(parts[2])]
    return "\n".join([*lines, "ret;"])


def factors(shape: str, type_: str, rng: np.random.Generator) -> tuple[Any, Any, int, tuple[int, int]]:
    dtype, depth = TYPES[type_], int(shape.rpartition("k")[2])
    a, b = (rng.normal(size=size).astype(dtype) for size in ((16, depth), (depth, 8)))
    if type_ == "tf32":  # the hardware ignores the last bits
        a, b = ((m.view(np.uint32) & np.uint32(0xFFFFE000)).view(F32) for m in (a, b))
    per_lane = 16 * depth // 32, depth * 8 // 32
    return a, b, dtype.itemsize, (per_lane[0] * dtype.itemsize // 4, per_lane[1] * dtype.itemsize // 4)


@pytest.mark.parametrize(("shape", "type_"), FORMS)
def test_products_of_matrices(shape, type_, rng):
    a, b, width, counts = factors(shape, type_, rng)
    c = rng.normal(size=(16, 8)).astype(F32)
    elements = [count * 4 // width for count in counts]
    given = [registers(m, place, shape, width, count)
             for m, place, count in zip((a, b, c), (place_of_a, place_of_b, place_of_c), (*elements, 4))]  # fmt: skip
    expected = (a.astype(float) @ b.astype(float) + c).astype(F32)
    found = run(program(shape, type_, counts), *given)[2]
    np.testing.assert_allclose(
        found.view(F32), registers(expected, place_of_c, shape, 4, 4).view(F32), rtol=1e-6, atol=1e-6
    )


def test_products_with_results_of_16_bits(rng):
    a, b, _, counts = factors("m16n8k16", "f16", rng)
    c = rng.normal(size=(16, 8)).astype(F16)
    given = [registers(m, place, "", 2, count)
             for m, place, count in zip((a, b, c), (place_of_a, place_of_b, place_of_c), (8, 4, 4))]  # fmt: skip
    expected = (a.astype(float) @ b.astype(float) + c.astype(float)).astype(F16)
    found = run(program("m16n8k16", "f16", counts, "f16"), *given)[2]
    np.testing.assert_array_equal(found, registers(expected, place_of_c, "", 2, 4))


def test_a_product_needs_the_whole_warp():
    given = [np.zeros((32, count), np.uint32) for count in (4, 2, 4)]
    text = program("m16n8k16", "f16", (4, 2))
    with pytest.raises(Undefined, match="all lanes of the warp"):
        run(text, *given, block=16)
    with pytest.raises(UnknownInstruction):
        run(text.replace("row.col", "row.row"), *given)


ROWS = """mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd1, %r0, 16, %rd0; mov.u32 %r1, s;
    mad.lo.u32 %r1, %r0, 16, %r1; ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd1];
    st.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5}; bar.sync 0;"""
SHARED = ".shared .align 16 .b8 s[528];"


@pytest.mark.parametrize("transposed", [False, True])
def test_loading_matrices(transposed, rng):
    given = rng.integers(0, 1 << 16, (4, 8, 8), dtype=np.uint16)
    body = (
        ROWS
        + f"""ldmatrix.sync.aligned.m8n8.x4{".trans" * transposed}.shared.b16 {{%r2, %r3, %r4, %r5}}, [%r1];
        bar.sync 0; st.global.v4.b32 [%rd1], {{%r2, %r3, %r4, %r5}}; ret;"""
    )
    # Thread 8 m + r says where row r of matrix m lies, so the matrices are those that the threads have brought.
    (found,) = run(body, given, declarations=SHARED)
    words = found.reshape(-1).view(np.uint32).reshape(32, 4)
    matrices = given.swapaxes(1, 2) if transposed else given
    expected = np.ascontiguousarray(matrices).reshape(4, -1).view(np.uint32).T
    np.testing.assert_array_equal(words, expected)
    with pytest.raises(Misaligned):
        run(body.replace("[%r1];\n        bar", "[%r1+8];\n        bar"), given, declarations=SHARED)


COPY = """mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd2, [p1]; mad.wide.u32 %rd1, %r0, 16, %rd0;
    mad.wide.u32 %rd2, %r0, 16, %rd2; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 16, %r1; xor.b32 %r6, %r1, 16;
    cp.async.ca.shared.global [%r1], [%rd1], 16SIZE; cp.async.commit_group; MORE
    WAIT BARRIER ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%r6]; st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5}; ret;"""
COMPLETE = {"SIZE": "", "MORE": "", "WAIT": "cp.async.wait_group 0;", "BARRIER": "bar.sync 0;"}


def copied(given: Any, **changes: str) -> Any:
    body = COPY
    for name, text in {**COMPLETE, **changes}.items():
        body = body.replace(name, text)
    return run(body, given, np.zeros_like(given), declarations=SHARED)[1]


def test_copies_are_there_behind_a_wait_and_a_barrier(rng):
    given = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    swapped = given[np.arange(32) ^ 1]
    np.testing.assert_array_equal(copied(given), swapped)
    np.testing.assert_array_equal(copied(given, WAIT="cp.async.wait_all;"), swapped)
    with pytest.raises(NeverWritten):
        copied(given, WAIT="")
    with pytest.raises(NeverWritten):
        copied(given, WAIT="cp.async.wait_group 1;")
    with pytest.raises(Conflict):
        copied(given, BARRIER="")


def test_what_was_there_before_a_copy_is_gone(rng):
    """Shared memory that has a value has none while it is copied to."""
    given = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    before = COPY.replace("cp.async.ca", "st.shared.v4.b32 [%r1], {%r0, %r0, %r0, %r0}; cp.async.ca")
    for name, text in {**COMPLETE, "WAIT": ""}.items():
        before = before.replace(name, text)
    with pytest.raises(NeverWritten):
        run(before, given, np.zeros_like(given), declarations=SHARED)


def test_a_wait_leaves_the_last_groups(rng):
    given = rng.integers(0, 1 << 32, (32, 4), dtype=np.uint32)
    later = {"MORE": "cp.async.commit_group;"}
    found = copied(given, WAIT="cp.async.wait_group 1;", **later)
    np.testing.assert_array_equal(found, given[np.arange(32) ^ 1])
    with pytest.raises(NeverWritten):
        copied(given, WAIT="cp.async.wait_group 2;", **later)


def test_a_copy_may_fill_up_with_zeros(rng):
    given = rng.integers(1, 1 << 32, (32, 4), dtype=np.uint32)
    expected = given[np.arange(32) ^ 1]
    expected[:, 2:] = 0
    np.testing.assert_array_equal(copied(given, SIZE=", 8"), expected)


@needs_ptxas
def test_ptxas_takes_these_kernels():
    for shape, type_ in FORMS:
        _, _, _, counts = factors(shape, type_, np.random.default_rng(0))
        assert assemble(kernel(program(shape, type_, counts), parameters=3), "sm_90")
    body = COPY
    for name, text in COMPLETE.items():
        body = body.replace(name, text)
    assert assemble(kernel(body, SHARED, 2), "sm_90")
    matrices = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r2, %r3, %r4, %r5}, [%r1]; ret;"
    assert assemble(kernel(ROWS + matrices, SHARED), "sm_90")
