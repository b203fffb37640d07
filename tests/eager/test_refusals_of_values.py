"""What operators refuse because it would give a wrong number in silence; what they warn of, and how results print."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import numpy as np
import pytest

import jit

INF, NAN = math.inf, math.nan
PYTHON_TYPES = [(float, jit.float64), (int, jit.int64), (bool, jit.bool), (complex, jit.complex128)]


# -- Python's types as dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("python", "expected"), PYTHON_TYPES)
def test_python_types_are_the_widest_dtypes_of_their_kind(python: type, expected: Any):
    made = [
        jit.ones(2, dtype=python), jit.tensor([1], dtype=python), jit.full((2,), 1, dtype=python),
        jit.ones(1).to(python), jit.ones(1).to(dtype=python), jit.asarray([1], dtype=python),
        jit.zeros_like(jit.ones(1), dtype=python),
        jit.ones(1).new_zeros(2, dtype=python), jit.ones(1).type(python),
    ]  # fmt: skip
    assert [t.dtype for t in made] == [expected] * len(made)
    assert jit.promote_types(python, jit.bool) is expected


def test_sums_and_modules_take_pythons_types():
    assert jit.ones(2).sum(dtype=float).dtype is jit.float64
    assert jit.softmax(jit.ones(2), 0, dtype=float).dtype is jit.float64
    traced = jit.trace(lambda x: x.sum(dtype=float) + jit.zeros(1, dtype=float))
    assert [traced(jit.ones(2)).dtype for _ in range(2)] == [jit.float64] * 2


# -- numbers that do not fit -----------------------------------------------------------------------------------------

LIMITS = {jit.int8: (-128, 127), jit.uint8: (0, 255), jit.int16: (-32768, 32767), jit.bool: (0, 1)}


@pytest.mark.parametrize("dtype", list(LIMITS))
def test_random_whole_numbers_must_fit_the_dtype(dtype: Any):
    least, most = LIMITS[dtype]
    tensor = jit.zeros(50, dtype=dtype)
    for low, high in ((least, most + 1), (most, most + 1), (least, least + 1)):
        drawn = tensor.random_(low, high).to(jit.int64)
        assert low <= int(drawn.min()) and int(drawn.max()) < high
        assert jit.randint(low, high, (5,), dtype=dtype).dtype is dtype
    for low, high in ((least - 1, most), (least, most + 2), (0, 100000)):
        with pytest.raises(jit.UsageError, match="holds numbers from"):
            tensor.random_(low, high)
        with pytest.raises(jit.UsageError, match="holds numbers from"):
            jit.randint(low, high, (5,), dtype=dtype)
    with pytest.raises(jit.UsageError, match="holds numbers from"):
        tensor.random_(most + 2)


@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_"])
def test_weights_of_sums_are_numbers_of_the_tensors_kind(name: str):
    for dtype, refused in ((jit.int64, (True, 1.5, 1.0, 2j)), (jit.float32, (True, False, 2j)), (jit.bool, (1.0, 2j))):
        for alpha in refused:
            tensor = jit.ones(2, dtype=dtype)
            with pytest.raises(jit.DTypeError):
                getattr(tensor, name)(tensor.clone(), alpha=alpha)
    for dtype, taken in ((jit.float32, (2, 2.0, np.float64(2))), (jit.complex64, (2, 2.0, 2 + 0j))):
        for alpha in taken:
            found = getattr(jit.ones(2, dtype=dtype) * 3, name)(jit.ones(2, dtype=dtype), alpha=alpha)
            assert found.tolist() == [{"add": 5, "sub": 1}[name.rstrip("_")]] * 2


def test_other_factors_of_real_tensors_are_real():
    ones = jit.ones(2, 2)
    for call in (
        lambda: jit.addcmul(ones, ones, ones, value=2j),
        lambda: jit.index_add(ones, 0, jit.tensor([0]), ones[:1], alpha=2j),
    ):  # fmt: skip
        with pytest.raises(jit.DTypeError, match="real tensor"):
            call()


@pytest.mark.parametrize("q", [[0.5, 1.5], [-0.25], [NAN], 1.5, -0.5])
def test_shares_lie_between_0_and_1(q: Any):
    for name in ("quantile", "nanquantile"):
        with pytest.raises(jit.UsageError, match="between 0 and 1"):
            getattr(jit, name)(jit.ones(3), jit.tensor(q) if isinstance(q, list) else q)


def test_standard_deviations_are_not_negative():
    bad = jit.tensor([1.0, -1.0])
    for draw in (
        lambda: jit.normal(jit.zeros(2), bad), lambda: jit.normal(0.0, bad), lambda: jit.normal(0.0, -1.0, (2,)),
        lambda: jit.normal(jit.zeros(2), -1.0), lambda: jit.zeros(2).normal_(0, -1),
    ):  # fmt: skip
        with pytest.raises(jit.UsageError, match="must not be negative"):
            draw()
    assert jit.normal(jit.ones(2), jit.zeros(2)).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows_are_floating(name: str):
    window = getattr(jit, f"{name}_window")
    for dtype in (jit.int64, jit.bool, jit.complex64, int):
        for length in (0, 1, 3):
            with pytest.raises(jit.DTypeError, match="floating"):
                window(length, dtype=dtype)
    assert window(3, dtype=float).dtype is jit.float64


@pytest.mark.parametrize("value", [None, 1j])
def test_what_is_no_number_of_the_tensor_is_not_written(value: Any):
    for key in (0, slice(None), [0, 1], jit.tensor([True, False, True])):
        tensor = jit.ones(3)
        with pytest.raises(jit.DTypeError, match="cannot be written"):
            tensor[key] = value
        assert tensor.tolist() == [1, 1, 1]
    tensor = jit.ones(3, dtype=jit.complex64)
    tensor[0] = 1j
    assert tensor[0].item() == 1j


# -- rows and masks --------------------------------------------------------------------------------------------------


def test_index_copy_of_scalars():
    zero, three = jit.tensor(0), jit.tensor(3.0)
    assert jit.zeros(1).index_copy_(0, zero, three).tolist() == [3]
    assert jit.zeros(3).index_copy_(0, jit.tensor([1]), three).tolist() == [0, 3, 0]
    assert jit.zeros(2, 2).index_copy_(1, zero, jit.ones(2, 1)).tolist() == [[1, 0], [1, 0]]
    assert jit.zeros(()).index_copy_(0, zero, three).item() == 3
    source = jit.tensor(3.0, requires_grad=True)
    jit.zeros(3).index_copy(0, jit.tensor([1]), source).sum().backward()
    assert source.grad.item() == 1


def test_rows_that_do_not_fit_are_refused():
    for method in ("index_copy", "index_add"):
        call = getattr(jit.zeros(3, 2), method)
        with pytest.raises(jit.DTypeError, match="source should be float32"):
            call(0, jit.tensor([1]), jit.ones(1, 2, dtype=jit.float64))
        for sizes in ((1, 2), (3, 2), (2, 1), (2,)):
            with pytest.raises(jit.Error, match="expects a source of sizes"):
                call(0, jit.tensor([1, 2]), jit.ones(*sizes))


@pytest.mark.parametrize("dtype", [jit.uint8, jit.int64, jit.float32])
def test_masks_are_bools(dtype: Any):
    mask = jit.zeros(2, dtype=dtype)
    for call in (
        lambda: jit.ones(2).masked_fill(mask, 1), lambda: jit.ones(2).masked_fill_(mask, 1),
        lambda: jit.ones(2).masked_select(mask), lambda: jit.ones(2).masked_scatter(mask, jit.ones(2)),
    ):  # fmt: skip
        with pytest.raises(jit.DTypeError, match="bools"):
            call()


@pytest.mark.parametrize("dtype", [jit.int32, jit.uint8, jit.float32])
def test_places_along_a_dim_are_int64(dtype: Any):
    with pytest.raises(jit.DTypeError, match="int64"):
        jit.take_along_dim(jit.ones(2, 3), jit.zeros(2, 3, dtype=dtype), dim=0)
    with pytest.raises(jit.ShapeError, match="dims"):
        jit.take_along_dim(jit.ones(2, 3), jit.zeros(2, dtype=jit.int64), dim=0)


# -- infinities on a grid ----------------------------------------------------------------------------------------------

GRIDS = [
    ([INF, -INF, 2, INF], 1, 1, [-INF, -INF, INF, INF]),
    ([1, INF, 3, 4], 1, 1, [INF, 1, -INF, 1]),
    ([1, NAN, 3, 5], 2, 1, [NAN, 0.5, NAN, 1]),
    ([INF, 4, 9, 16], 1, 2, [-INF, -INF, 6, 8]),
    ([1, 4, 9, 16], -2, 1, [-1.5, -2, -3, -3.5]),
]


@pytest.mark.parametrize(("values", "spacing", "edge_order", "expected"), GRIDS)
def test_slopes_do_not_look_at_their_own_place(values: Any, spacing: Any, edge_order: int, expected: Any):
    found = jit.gradient(jit.tensor(values, dtype=jit.float64), spacing=spacing, edge_order=edge_order)
    assert isinstance(found, tuple) and np.array_equal(found[0].numpy(), expected, equal_nan=True)


def test_slopes_between_places_of_any_distance():
    places = jit.tensor([0.0, 1.0, 3.0, 4.0, 4.5], dtype=jit.float64)
    parabola = places * places * 2 - 3 * places + 1
    slope = (4 * places - 3).tolist()
    assert jit.gradient(parabola, spacing=(places,), edge_order=2)[0].tolist() == pytest.approx(slope)
    assert jit.gradient(parabola, spacing=(places,))[0].tolist()[1:-1] == pytest.approx(slope[1:-1])


# -- parts of complex numbers ------------------------------------------------------------------------------------------


def test_parts_can_be_set():
    z = jit.tensor([1 + 2j, 3 + 4j])
    z.real = jit.tensor([5.0, 6.0])
    z.imag = 7
    assert z.tolist() == [5 + 7j, 6 + 7j]
    x = jit.tensor([1.0, 2.0])
    x.real = 3.0
    assert x.tolist() == [3, 3]
    with pytest.raises(jit.Error):
        x.imag = 1.0
    w = jit.tensor([2.0], requires_grad=True)
    y = jit.zeros(1, dtype=jit.complex64)
    y.imag = w
    (y * y).real.sum().backward(inputs=[w])
    assert w.grad.tolist() == [-4]


# -- warnings and texts ------------------------------------------------------------------------------------------------


def test_read_only_arrays_are_warned_of():
    array = np.ones(2, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit.from_numpy(array)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="read-only"):
        tensor = jit.from_numpy(array)
    with pytest.raises(jit.AutogradError, match="read-only"):
        tensor.add_(1)
    assert array.tolist() == [1, 1]


def test_warnings_name_the_users_line():
    mask = jit.tensor([1, 0], dtype=jit.uint8)
    for use in (
        lambda: jit.ones(2)[mask], lambda: jit.ones(2)[None, mask], lambda: jit.ones(2).__setitem__(mask, 1),
        lambda: jit.where(mask, 1, 2), lambda: jit.ones(2, 2)[[[0], [1]]],
        lambda: jit.from_numpy(np.broadcast_to(np.ones(1), 3)), lambda: jit.ones(2, requires_grad=True).exp().grad,
    ):  # fmt: skip
        with pytest.warns(UserWarning) as caught:
            use()
        assert [w.filename for w in caught] == [__file__]


def test_masks_of_bytes_are_warned_of():
    mask = jit.tensor([1, 0], dtype=jit.uint8)
    with pytest.warns(UserWarning, match="uint8"):
        assert jit.ones(2)[mask].tolist() == [1]
    with pytest.warns(UserWarning, match="uint8"):
        assert jit.where(mask, 1, 2).tolist() == [1, 2]


def test_named_results_print_as_such():
    found = jit.tensor([[1.0, 3.0]]).max(1)
    assert repr(found) == "jit.return_types.max(\nvalues=tensor([3.]),\nindices=tensor([1]))"
    values, places = found
    assert values is found.values and places is found.indices and copy.copy(found) == found
