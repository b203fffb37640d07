"""Lists, masks and truth values as indices: what is read and what is written, eagerly and traced, against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jit

TUPLES: dict[str, tuple[Any, ...]] = {
    "lists": ([1, 2], [0, 1]), "broadcast": ([1, 2], [0]), "one": ([0, 1],), "slice first": (slice(None), [2, 3]),
    "slices": (slice(0, 2), slice(1, 3)), "new dim": ([1, 2], None), "ellipsis": (Ellipsis, [0, 3]),
    "tuples": ((1, 2), (3, 0)),
    "mask": ([True, False, True, True], [0, 1, 2]), "deep": ([[0, 1], [1, 2]], [[0, 0], [3, 3]]),
    "ranges": (range(2), range(2, 4)), "arrays": (np.array([0, 3]), [1, 1]), "slice and int": (slice(1, None), 2),
}  # fmt: skip


def table() -> Any:
    return np.arange(16, dtype=np.float32).reshape(4, 4)


def as_arrays(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.asarray(i) if isinstance(i, (list, tuple, range)) else i for i in key)


@pytest.mark.parametrize("name", TUPLES)
def test_a_list_of_indices_reads_and_writes_as_their_tuple(name: str):
    key, array = TUPLES[name], table()
    tensor = jit.from_numpy(table())
    with pytest.warns(UserWarning, match="tuple"):
        assert tensor[list(key)].tolist() == array[as_arrays(key)].tolist()
    assert tensor[key].tolist() == array[as_arrays(key)].tolist()
    array[as_arrays(key)] = -1
    for value in (-1, jit.tensor(-1.0)):
        tensor = jit.from_numpy(table())
        with pytest.warns(UserWarning, match="tuple"):
            tensor[list(key)] = value
        assert tensor.tolist() == array.tolist()


@pytest.mark.parametrize("name", TUPLES)
def test_traced_lists_of_indices(name: str):
    key = TUPLES[name]

    @jit.trace
    def both(x: Any) -> Any:
        y = x + 0
        y[list(key)] = -1
        return x[list(key)] * 2, y

    with pytest.warns(UserWarning, match="tuple"):
        results = [both(jit.from_numpy(table())) for _ in range(2)]
    array = table()
    read = array[as_arrays(key)] * 2
    array[as_arrays(key)] = -1
    assert all(a.tolist() == read.tolist() and b.tolist() == array.tolist() for a, b in results)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("key", [[0, 2], [True, False, True, True], [-1], [], [np.int64(1), 2], [1] * 40, range(3)])
def test_a_list_of_numbers_is_one_index(key: Any):
    expected = table()[np.asarray(key, dtype=None if len(key) else np.int64)]
    assert jit.from_numpy(table())[key].tolist() == expected.tolist()


def test_a_list_too_long_for_dims_is_one_index():
    assert jit.zeros(4, 4)[[[0]] * 40].shape == (40, 1, 4)


@pytest.mark.parametrize("rest", list(itertools.product([1, slice(1, 3)], repeat=2)))
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("truth", [True, False, jit.tensor(True), jit.tensor(False), np.bool_(True)])
def test_a_truth_value_is_a_dim_of_its_own(truth: Any, place: int, rest: tuple[Any, ...]):
    key = (*rest[:place], truth, *rest[place:])
    array, tensor = table(), jit.from_numpy(table())
    expected = array[rest].ravel().tolist() if truth else []
    assert sorted(tensor[key].reshape(-1).tolist()) == expected
    assert tensor[key].ndim == array[rest].ndim + 1
    if truth:
        array[rest] = -1
    tensor[key] = -1
    assert tensor.tolist() == array.tolist()


def test_masks_of_one_element_of_a_number():
    number = jit.tensor(5.0)
    assert number[True].tolist() == [5] and number[False].tolist() == [] and number[jit.tensor(True)].tolist() == [5]
    with pytest.warns(UserWarning, match="uint8"):
        assert number[jit.tensor(1, dtype=jit.uint8)].tolist() == [5]


@pytest.mark.parametrize(
    "key", [[0.5], 0.5, "a", 1j, [[0, 1], [2]] * 20, jit.tensor([0.5]), jit.tensor([1], dtype=jit.int8), [object()]]
)
def test_what_is_no_index(key: Any):
    with pytest.raises(IndexError) as caught:
        jit.zeros(4, 4)[key]
    assert isinstance(caught.value, jit.Error)
