"""Storages: the memory behind tensors, of every dtype, and what tensors make of it."""

import copy
from typing import Any

import numpy as np
import pytest

import jit


@pytest.mark.parametrize(
    "dtype", [jit.bool, jit.uint8, jit.int64, jit.float16, jit.bfloat16, jit.float64, jit.complex64]
)
def test_a_tensor_lies_in_a_storage_of_its_dtype(dtype):
    t = jit.tensor([[0, 1], [1, 0]]).to(dtype)
    storage = t.storage()
    assert storage.dtype is dtype and len(storage) == 4 and storage.element_size() == t.element_size()
    assert storage.tolist() == t.reshape(-1).tolist()
    assert t.t().storage() == storage and t[1:].storage().data_ptr() == t.data_ptr()
    back = jit.empty(0, dtype=dtype).set_(t.untyped_storage(), 0, (2, 2), (1, 2))
    assert back.tolist() == t.t().tolist() and back.data_ptr() == t.data_ptr()


def test_kinds():
    assert isinstance(jit.ones(1).storage(), jit.FloatStorage) and not isinstance(jit.ones(1).storage(), jit.IntStorage)
    assert jit.FloatStorage().tolist() == [] and len(jit.IntStorage(3)) == 3
    whole: Any = jit.IntStorage([1, -2])
    assert whole.double().type() == "torch.DoubleStorage" and whole.double().tolist() == [1.0, -2.0]
    assert whole.type("torch.LongStorage").dtype is jit.int64 and whole.int() is whole
    assert jit.ByteStorage.from_buffer(bytearray([1, 0, 0, 2])).tolist() == [1, 0, 0, 2]
    assert jit.ShortStorage.from_buffer(b"\x01\x00\x00\x02", "big").tolist() == [256, 2]
    assert jit.tensor(whole).tolist() == [1, -2] and jit.is_storage(whole)


def test_what_is_written_to_a_storage_is_seen_in_the_tensor():
    t = jit.arange(4.0)
    t.storage()[1] = 9
    assert t.tolist() == [0.0, 9.0, 2.0, 3.0]
    t.storage().fill_(5)
    assert t.tolist() == [5.0] * 4
    t.storage().copy_(jit.FloatStorage([1, 2, 3, 4]))
    assert t.tolist() == [1.0, 2.0, 3.0, 4.0]
    part = t.storage()[1:3]
    assert part.tolist() == [2.0, 3.0] and part.data_ptr() == t.data_ptr() + 4 and len(part.untyped()) == 8
    assert part[1:].fill_(8).tolist() == [8.0] and t.tolist() == [1.0, 2.0, 8.0, 4.0]
    with pytest.raises(jit.UsageError, match="no gaps"):
        t.storage()[::2]
    own = t.storage().clone().fill_(0)
    assert own.tolist() == [0.0] * 4 and t.tolist() == [1.0, 2.0, 8.0, 4.0]


def test_set_takes_the_memory_of_a_tensor_or_storage():
    t = jit.arange(6.0)
    seen = jit.zeros(0).set_(t.storage(), 1, (2, 2))
    assert seen.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    seen[0, 0] = 7
    assert t[1].item() == 7
    assert jit.zeros(3).set_().shape == (0,)
    same = jit.zeros(0).set_(t, 0, size=(6,), stride=(1,))
    assert same.is_set_to(t) and not seen.is_set_to(t)
    with pytest.raises(jit.UsageError, match="takes the memory of"):
        jit.zeros(0, dtype=jit.int64).set_(t)
    with pytest.raises(jit.UsageError, match="tensor or a storage"):
        jit.zeros(0).set_([1.0])


def test_sizes_in_memory_and_copies():
    empty, ten, hundred = (jit.ones(n).__sizeof__() for n in (0, 10, 100))
    assert hundred - empty == 10 * (ten - empty) > 0
    storage = jit.ones(2).storage()
    other = copy.deepcopy(storage).fill_(3)
    assert storage.tolist() == [1.0, 1.0] and other.tolist() == [3.0, 3.0]


def test_attributes_of_tensors_are_copied():
    t: Any = jit.ones(2)
    t.note = ["kept"]
    made = copy.deepcopy(t)
    assert made.note == ["kept"] and made.note is not t.note
    parameter: Any = jit.nn.Parameter(jit.ones(1))
    parameter.decays = False
    assert copy.deepcopy(jit.nn.ParameterList([parameter]))[0].decays is False


def test_map2_writes_what_a_function_makes_of_three():
    t = jit.zeros(2, 2)
    t.map2_(jit.tensor([1.0, 2.0]), jit.tensor([[10.0], [20.0]]), lambda own, x, y: own + x * y)
    assert t.tolist() == [[10.0, 20.0], [20.0, 40.0]]


def test_new_by_size_and_arrays_of_capsules():
    assert jit.ones(1, dtype=jit.float64).new(size=(2, 3)).shape == (2, 3)
    t = jit.arange(3.0)
    seen = jit.asarray(jit.utils.dlpack.to_dlpack(t), copy=False)
    seen[0] = 5
    assert t[0].item() == 5 and np.asarray(t)[0] == 5
    assert jit.utils.dlpack.from_dlpack(jit.utils.dlpack.to_dlpack(t)).data_ptr() == t.data_ptr()
