"""Memory shared with other libraries: numpy's arrays, DLPack of both protocols, buffers; and seeds that repeat."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jit
from jit.ir import dtypes
from jit.runtime.arrays import dlpack

LAYOUTS = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "strided": lambda a: a[::2, 1::2],
    "reversed": lambda a: a[::-1, ::-1],
    "0-d": lambda a: a[1, 1, ...],
    "empty": lambda a: a[:0],
}


def numbers(dtype: Any) -> np.ndarray:
    return np.arange(24).reshape(4, 6).astype(dtype)


class Old:
    """A producer that knows nothing of versions."""

    def __init__(self, tensor: jit.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


# -- DLPack ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("wrap", [lambda t: t, Old], ids=["versioned", "old"])
def test_round_trip(dtype: jit.DType, layout: Any, wrap: Any) -> None:
    """What is lent and borrowed again is the same memory, with the same strides, of every dtype."""
    source = jit.from_numpy(layout(numbers(dtype.numpy)))
    again = jit.from_dlpack(wrap(source))
    assert (again.dtype, again.shape) == (source.dtype, source.shape)
    assert again.tolist() == source.tolist()
    if source.numel():
        assert again.stride() == source.stride()
        assert again.data_ptr() == source.data_ptr()
        again.fill_(1)
        assert source.float().sum().item() == source.numel()


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d is not dtypes.bfloat16], ids=lambda d: d.name)
def test_with_numpy(dtype: jit.DType) -> None:
    """numpy reads our capsules, and we read numpy's."""
    ours = jit.from_numpy(numbers(dtype.numpy))
    theirs = np.from_dlpack(ours)
    np.testing.assert_array_equal(theirs, numbers(dtype.numpy))
    assert np.shares_memory(theirs, ours.numpy())
    back = jit.from_dlpack(theirs)
    assert back.dtype is dtype
    assert back.data_ptr() == ours.data_ptr()


def test_memory_outlives_its_tensor() -> None:
    """The borrower keeps the lender's memory alive, and gives it back in the end."""
    array = np.ones(3)
    alive = weakref.ref(array)
    borrowed = jit.from_dlpack(jit.from_numpy(array))
    view = borrowed[1:]
    del array, borrowed
    gc.collect()
    assert view.tolist() == [1.0, 1.0]
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_unused_capsules_give_back_too() -> None:
    before = len(dlpack._lent)
    capsule = jit.ones(3).__dlpack__()
    assert len(dlpack._lent) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._lent) == before


def test_a_capsule_is_used_once() -> None:
    capsule = jit.ones(3).__dlpack__()
    assert jit.from_dlpack(capsule).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(jit.Error, match="it was used already"):
        jit.from_dlpack(capsule)


def read_only() -> np.ndarray:
    array = np.ones(3)
    array.flags.writeable = False
    return array


def test_read_only_memory_stays_so() -> None:
    """It is lent by the protocol that can say so, and refused by the other."""
    source = jit.from_numpy(read_only())
    borrowed = jit.from_dlpack(source)
    with pytest.raises(jit.Error, match="read-only"):
        borrowed.add_(1)
    with pytest.raises(BufferError, match="read-only"):
        source.__dlpack__()
    assert not np.from_dlpack(source).flags.writeable
    assert jit.from_dlpack(read_only()).tolist() == [1.0, 1.0, 1.0]


def test_copies_on_demand() -> None:
    source = jit.from_numpy(read_only())
    copy = jit.from_dlpack(source, copy=True)
    assert copy.add_(1).tolist() == [2.0, 2.0, 2.0]
    assert source.tolist() == [1.0, 1.0, 1.0]
    assert jit.from_dlpack(jit.ones(2), copy=False).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("options", [{"stream": 1}, {"dl_device": (2, 0)}], ids=str)
def test_other_devices_are_refused(options: Any) -> None:
    with pytest.raises(BufferError, match="on the CPU"):
        jit.ones(2).__dlpack__(**options)
    assert jit.ones(2).__dlpack_device__() == (1, 0)


def test_gradients_are_not_lent() -> None:
    with pytest.raises(BufferError, match="detach"):
        jit.ones(2, requires_grad=True).__dlpack__()


def test_what_lends_nothing() -> None:
    with pytest.raises(jit.Error, match="lends no memory"):
        jit.from_dlpack(object())


# -- numpy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_from_numpy_copies_nothing(layout: Any) -> None:
    array = layout(numbers(np.float32))
    tensor = jit.from_numpy(array)
    assert tensor.numpy() is array
    assert tensor.stride() == tuple(s // 4 for s in array.strides)
    np.testing.assert_array_equal((tensor * 2).numpy(), array * 2)


def test_array_protocol() -> None:
    tensor = jit.ones(3)
    assert np.asarray(tensor) is tensor.numpy()
    assert np.shares_memory(np.array(tensor, copy=False), tensor.numpy())
    assert not np.shares_memory(np.array(tensor, copy=True), tensor.numpy())
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(tensor, dtype=np.float64, copy=False)
    assert np.asarray(jit.ones(2, dtype=jit.bfloat16)).dtype == ml_dtypes.bfloat16
    with pytest.raises(jit.UsageError, match="detach"):
        np.asarray(jit.ones(2, requires_grad=True))


# -- whatever has memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lend", [lambda a: a, jit.from_numpy, memoryview, lambda a: Old(jit.from_numpy(a))],
    ids=["array", "tensor", "buffer", "dlpack"],
)  # fmt: skip
def test_asarray_shares(lend: Any) -> None:
    array = np.zeros(3)
    jit.asarray(lend(array)).fill_(2)
    jit.as_tensor(lend(array)).add_(1)
    assert array.tolist() == [3.0, 3.0, 3.0]
    jit.asarray(lend(array), copy=True).fill_(0)
    assert jit.asarray(lend(array), dtype=jit.float32).tolist() == [3.0, 3.0, 3.0]
    with pytest.raises(ValueError, match="needs a copy"):
        jit.asarray(lend(array), dtype=jit.float32, copy=False)


def test_asarray_of_python_data() -> None:
    assert jit.asarray([1, 2]).dtype is jit.int64
    assert jit.asarray(np.float64(2)).dtype is jit.float64
    assert jit.asarray([1.0], requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="needs a copy"):
        jit.asarray([1], copy=False)


def test_frombuffer() -> None:
    buffer = bytearray(8)
    tensor = jit.frombuffer(buffer, dtype=jit.int16, count=2, offset=2)
    tensor.copy_(jit.tensor([1, 2]))
    assert buffer == b"\0\0\1\0\2\0\0\0"
    with pytest.raises(jit.UsageError, match="frombuffer"):
        jit.frombuffer(buffer, dtype=jit.int16, offset=9)


# -- seeds -------------------------------------------------------------------------------------------------------


def test_seeds_repeat() -> None:
    jit.manual_seed(3)
    state = jit.get_rng_state()
    first = jit.rand(3)
    jit.set_rng_state(state)
    assert jit.rand(3).tolist() == first.tolist()
    assert jit.manual_seed(3).initial_seed() == 3
    assert jit.rand(3).tolist() == first.tolist()


def test_negative_seeds_are_those_of_64_bits() -> None:
    assert jit.Generator().manual_seed(-1).initial_seed() == 2**64 - 1


def test_new_seeds_differ() -> None:
    generator = jit.Generator()
    seeds = {generator.seed() for _ in range(4)}
    assert len(seeds) == 4
    assert generator.initial_seed() in seeds
