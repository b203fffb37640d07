"""Tensors and storages of the memory of files, and kinds of tensors made of storages."""

import sys
from typing import Any

import numpy as np
import pytest

import jit


@pytest.mark.parametrize("dtype", [jit.uint8, jit.int64, jit.float16, jit.bfloat16, jit.float32, jit.complex64])
def test_a_shared_file_is_made_and_written_to(dtype, tmp_path):
    path = tmp_path / "numbers"
    first = jit.from_file(path, True, 5, dtype=dtype)
    assert first.dtype is dtype and first.shape == (5,) and first.tolist() == [0] * 5
    second = jit.from_file(str(path), shared=True, size=3, dtype=dtype)
    first[1] = 7
    assert second.tolist() == [0, 7, 0]
    second[0] = 1
    assert first.tolist() == [1, 7, 0, 0, 0]
    assert path.stat().st_size == 5 * dtype.itemsize


def test_a_file_that_is_not_shared_stays_as_it_is(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    own = jit.from_file(path, size=4)
    own.fill_(9)
    assert jit.from_file(path, False, 4).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert jit.from_file(path, size=2, requires_grad=True).requires_grad
    assert jit.from_file(path).shape == (0,)
    with pytest.raises(jit.UsageError, match="has 16 bytes"):
        jit.from_file(path, size=5)


def test_storages_of_files(tmp_path):
    kind: Any = jit.IntStorage
    one, other = (kind.from_file(tmp_path / "numbers", True, 3) for _ in range(2))
    one[2] = 4
    assert other.tolist() == [0, 0, 4] and other.dtype is jit.int32


def test_tensors_of_storages():
    t = jit.arange(4.0)
    seen = t.new(t.storage())
    assert seen.data_ptr() == t.data_ptr()
    assert jit.tensor(t.untyped_storage(), dtype=jit.float32).tolist() == t.tolist()
    assert jit.tensor(t.untyped_storage()).shape == (16,)
    copied = jit.tensor(t.storage())
    copied.fill_(0)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    for call in (lambda: jit.tensor(t.storage(), dtype=jit.int64), lambda: jit.ones(1).long().new(t.storage())):
        with pytest.raises(jit.DTypeError, match=r"holds jit\.float32"):
            call()


@pytest.mark.parametrize("dtype", [jit.uint8, jit.float32, jit.float64])
def test_sizes_of_storages_grow_with_their_elements(dtype):
    empty, ten, hundred = (sys.getsizeof(jit.zeros(n, dtype=dtype).storage()) for n in (0, 10, 100))
    assert hundred - empty == 10 * (ten - empty) == 100 * dtype.itemsize


def test_modes_of_determinism_as_numbers():
    try:
        for mode, name in enumerate(["default", "warn", "error"]):
            for spelled in (mode, name):
                jit.set_deterministic_debug_mode(spelled)
                assert jit.get_deterministic_debug_mode() == mode
                assert jit.are_deterministic_algorithms_enabled() == (mode > 0)
        with pytest.raises(ValueError, match="no mode 3"):
            jit.set_deterministic_debug_mode(3)
        wrong: Any
        for wrong in ({"mode": 1}, {"mode": False, "warn_only": 1}):
            with pytest.raises(TypeError, match="True or False"):
                jit.use_deterministic_algorithms(**wrong)
        jit.use_deterministic_algorithms(False, warn_only=True)
        assert jit.is_deterministic_algorithms_warn_only_enabled() and jit.get_deterministic_debug_mode() == 0
    finally:
        jit.use_deterministic_algorithms(False)


def test_functions_of_numbers_element_by_element():
    x = jit.arange(3)
    with pytest.raises(TypeError, match="has returned str"):
        x.apply_(lambda n: "one")
    y = jit.ones(3, requires_grad=True)
    for call in (lambda: jit.zeros(3).map_(y, max), lambda: jit.zeros(3).map2_(y, y, max)):
        with pytest.raises(jit.AutogradError, match="has no derivative"):
            call()
    with jit.no_grad():
        assert jit.zeros(3).map_(y, max).tolist() == [1.0] * 3
    assert x.tolist() == [0, 1, 2]


def test_kinds_are_no_bases():
    kind: Any = vars(jit)["FloatTensor"]
    with pytest.raises(TypeError, match="cannot be derived from FloatTensor"):
        type("Mine", (kind,), {})


@pytest.mark.parametrize(
    "make",
    [
        vars(jit)["FloatTensor"],
        lambda given: jit.ones(1).new(given),
        lambda given: jit.ones(1).new(given.storage()),
    ],
)
def test_kinds_take_tensors_of_their_dtype_alone(make):
    for given in (jit.tensor([1, 2]), jit.tensor([1.0], dtype=jit.float64), jit.tensor([True])):
        with pytest.raises(jit.DTypeError, match="float32"):
            make(given)
    same = jit.tensor([1.0, 2.0])
    assert make(same).data_ptr() == same.data_ptr()
