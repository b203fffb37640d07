"""Numbers that become elements of integers: taken where the dtype holds them, refused where it does not."""

import numpy as np
import pytest

import jit
from jit.nn import functional as F

BECOMING = {
    "full": lambda dtype, n: jit.full((2,), n, dtype=dtype),
    "full_like": lambda dtype, n: jit.full_like(jit.zeros(2, dtype=dtype), n),
    "new_full": lambda dtype, n: jit.zeros(1, dtype=dtype).new_full((2,), n),
    "fill_": lambda dtype, n: jit.zeros(2, dtype=dtype).fill_(n),
    "scalar_tensor": lambda dtype, n: jit.scalar_tensor(n, dtype=dtype),
    "tensor": lambda dtype, n: jit.tensor(n, dtype=dtype),
    "tensor of a list": lambda dtype, n: jit.tensor([[0, n]], dtype=dtype),
    "as_tensor": lambda dtype, n: jit.as_tensor([n], dtype=dtype),
    "masked_fill": lambda dtype, n: jit.zeros(2, dtype=dtype).masked_fill(jit.tensor([True, False]), n),
    "index_fill": lambda dtype, n: jit.zeros(2, dtype=dtype).index_fill(0, jit.tensor([0]), n),
    "scatter": lambda dtype, n: jit.zeros(2, dtype=dtype).scatter(0, jit.tensor([0]), n),
    "where": lambda dtype, n: jit.where(jit.tensor([True, False]), n, jit.zeros(2, dtype=dtype)),
    "clamp": lambda dtype, n: jit.zeros(2, dtype=dtype).clamp(min=n),
    "pad": lambda dtype, n: F.pad(jit.zeros(2, dtype=dtype), (1, 1), value=n),
}


def assigned(dtype, n):
    made = jit.zeros(2, dtype=dtype)
    made[0] = n
    return made


BECOMING["assignment"] = assigned

UNFIT = [
    (jit.uint8, 256), (jit.uint8, -256), (jit.int8, 128), (jit.int8, -129), (jit.int16, 2**15),
    (jit.int32, -(2**31) - 1), (jit.int64, 2**63),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number"), UNFIT)
@pytest.mark.parametrize("way", BECOMING)
def test_what_no_integer_holds_is_refused(way, dtype, number):
    with pytest.raises(jit.Error):
        BECOMING[way](dtype, number)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("way", ["full", "fill_", "tensor", "tensor of a list", "full_like", "assignment"])
def test_floats_without_a_whole_number_are_refused(way, number):
    with pytest.raises(jit.Error):
        BECOMING[way](jit.int32, number)


@pytest.mark.parametrize("dtype", [jit.uint8, jit.int8, jit.int16, jit.int32, jit.int64])
@pytest.mark.parametrize("way", sorted(set(BECOMING) - {"pad"}))
def test_the_ends_of_the_range_are_taken(way, dtype):
    limits = jit.iinfo(dtype)
    for number in (limits.min, limits.max):
        held = BECOMING[way](dtype, number)
        assert held.dtype is dtype and number in held.flatten().tolist() or (way == "clamp" and number < 0)


@pytest.mark.parametrize("way", sorted(set(BECOMING) - {"pad"}))
def test_negative_numbers_count_from_the_end_of_bytes(way):
    assert 255 in BECOMING[way](jit.uint8, -1).flatten().tolist()


@pytest.mark.parametrize("way", ["full", "fill_", "index_fill", "masked_fill"])
@pytest.mark.parametrize("dtype", [jit.bool, jit.uint8, jit.float32])
def test_complex_numbers_are_no_elements_of_real_tensors(way, dtype):
    with pytest.raises(jit.Error):
        BECOMING[way](dtype, 1 + 1j)


@pytest.mark.parametrize("way", ["full", "fill_", "masked_fill", "where", "clamp"])
def test_recordings_refuse_and_take_as_the_call_itself(way):
    traced = jit.trace(lambda x, n: BECOMING[way](jit.int8, n) + x)
    zero = jit.zeros(2, dtype=jit.int8)
    for number in (1, 2, 127, 300, 3, -128, -129, 4, 300):
        try:
            wanted = BECOMING[way](jit.int8, number).tolist()
        except jit.Error:
            with pytest.raises(jit.Error):
                traced(zero, number)
        else:
            assert traced(zero, number).tolist() == wanted


MEMBERS = [
    ([jit.tensor(1.0, dtype=jit.float64), jit.tensor(2.0, dtype=jit.float64)], jit.float64),
    ([jit.tensor(1.0, dtype=jit.bfloat16)], jit.bfloat16),
    ([[jit.tensor(1, dtype=jit.int16)], [jit.tensor(2, dtype=jit.int8)]], jit.int16),
    ([jit.tensor(1, dtype=jit.int8), 2], jit.int64),
    ([jit.tensor(1, dtype=jit.int8), 2.5], jit.float32),
    ([jit.tensor(1.0, dtype=jit.float16), 2.5], jit.float32),
    ([jit.tensor(1.0, dtype=jit.float16), True], jit.float16),
    ([jit.tensor(1j, dtype=jit.complex128), 1.0], jit.complex128),
    ([np.float64(1), 2.5], jit.float64),
    ([np.int8(1), np.int8(2)], jit.int8),
    ((np.float16(1), jit.tensor(1, dtype=jit.int64)), jit.float16),
    ([True, 2], jit.int64),
    ([1, 2.0], jit.float32),
    ([], jit.float32),
]


@pytest.mark.parametrize(("data", "dtype"), MEMBERS)
def test_members_with_dtypes_say_what_a_list_becomes(data, dtype):
    assert jit.tensor(data).dtype is dtype
    assert jit.as_tensor(data).dtype is dtype
    assert jit.trace(lambda: jit.tensor(data) * 1)().dtype is dtype


@pytest.mark.parametrize("sizes", [[1.0], jit.ones(3), ["a"], [None], [[1]]])
def test_sizes_are_whole_numbers(sizes):
    with pytest.raises(TypeError):
        jit.Size(sizes)


def test_sizes_of_arrays_and_tensors_are_plain_numbers():
    made = jit.Size([jit.tensor(2), np.int32(3), 4])
    assert made.numel() == 24 and all(type(s) is int for s in made)
    assert made == (2, 3, 4)
    assert jit.Size() == ()


def test_a_histogram_counts_in_the_range_that_was_given():
    x = jit.tensor([-1.0, -0.5, 0.25, 3.0])
    counts, edges = jit.histogram(x, 1, range=(0.0, 0.0))
    assert edges.tolist() == [-0.5, 0.5] and counts.tolist() == [2.0]
    counts, edges = jit.histogram(x, 2, range=(3.0, 3.0))
    assert edges.tolist() == [2.5, 3.0, 3.5] and counts.tolist() == [0.0, 1.0]
    assert jit.histogram(x, 2)[1].tolist() == [-1.0, 1.0, 3.0]


def test_sizes_joined_and_repeated_are_sizes():
    sizes = jit.zeros(2, 3).shape
    for made in (sizes + (4,), (4,) + sizes, sizes * 2, 2 * sizes, sizes + sizes):
        assert isinstance(made, jit.Size)
    assert (sizes + (4,)).numel() == 24 and ((4,) + sizes)[0] == 4
    with pytest.raises(TypeError):
        sizes + [4]
