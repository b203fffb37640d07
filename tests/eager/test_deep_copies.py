"""Deep copies of tensors, storages and networks: what shares memory shares it in the copy."""

import copy
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn

DTYPES = [jit.bool, jit.uint8, jit.int64, jit.float16, jit.bfloat16, jit.float64, jit.complex64]

VIEWS = {
    "whole": lambda t: t.view(12),
    "part": lambda t: t[1:, 1:],
    "steps": lambda t: t[:, ::2],
    "transposed": lambda t: t.t(),
    "expanded": lambda t: t[:1].expand(5, 4),
    "one": lambda t: t[2, 3],
    "none": lambda t: t[3:],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_stay_views(view, dtype):
    t = jit.arange(12).reshape(3, 4).to(dtype)
    first, second = copy.deepcopy([t, view(t)])
    assert first.equal(t) and second.equal(view(t)) and second.stride() == view(t).stride()
    before = t.clone()
    first.fill_(1)
    assert second.equal(view(first)) and t.equal(before)


def test_the_view_may_come_first_and_alone():
    t = jit.arange(6.0)
    part, whole = copy.deepcopy((t[2:4], t))
    part.fill_(9)
    assert whole.tolist() == [0.0, 1.0, 9.0, 9.0, 4.0, 5.0] and t.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    alone = copy.deepcopy(t[2:4])
    assert alone.tolist() == [2.0, 3.0] and alone.storage_offset() == 2 and len(alone.storage()) == 6


def test_storages_share_with_tensors():
    t = jit.arange(4.0)
    owner, storage, raw, part = copy.deepcopy([t, t.storage(), t.untyped_storage(), t.storage()[1:]])
    owner.add_(1)
    assert storage.tolist() == [1.0, 2.0, 3.0, 4.0] and part.tolist() == [2.0, 3.0, 4.0]
    assert raw.data_ptr() == owner.data_ptr() != t.data_ptr()
    assert copy.deepcopy(t.storage()) != t.storage()


def test_writes_to_one_count_for_the_other():
    t = jit.ones(3, requires_grad=True)
    saved, other = copy.deepcopy((t.detach(), t.detach()[:2]))
    w = jit.ones(3, requires_grad=True)
    product = (w * saved).sum()
    other.fill_(5)
    with pytest.raises(jit.AutogradError, match="changed by an in-place"):
        product.backward()


def test_copies_of_two_calls_are_two():
    t = jit.zeros(3)
    first, second = copy.deepcopy(t), copy.deepcopy(t)
    first.fill_(1)
    assert second.tolist() == [0.0] * 3


def test_layouts_without_gaps_stay():
    t = jit.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=jit.channels_last)
    assert copy.deepcopy(t).stride() == t.stride() and copy.deepcopy(t).equal(t)


def test_memory_with_gaps_is_copied_without_them():
    window: Any = np.lib.stride_tricks.as_strided(np.arange(8.0), (3,), (16,))
    t = jit.from_numpy(np.asarray(window))
    assert copy.deepcopy(t).tolist() == [0.0, 2.0, 4.0]
    assert copy.deepcopy(jit.zeros(0, 3)).shape == (0, 3)


def test_networks_whose_parameters_lie_in_one_tensor():
    flat = jit.arange(6.0)
    net = nn.Linear(2, 2)
    net.weight.data, net.bias.data = flat[:4].view(2, 2), flat[4:]
    net.flat = flat
    net.weight.grad = jit.ones(2, 2)
    twin = copy.deepcopy(net)
    twin.flat.mul_(2)
    assert twin.weight.tolist() == [[0.0, 2.0], [4.0, 6.0]] and twin.bias.tolist() == [8.0, 10.0]
    assert net.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert isinstance(twin.weight, nn.Parameter) and twin.weight.requires_grad
    assert twin.weight.grad.equal(net.weight.grad) and twin.weight.grad is not net.weight.grad


def test_what_is_no_leaf():
    with pytest.raises(jit.AutogradError, match="only leaves"):
        copy.deepcopy(jit.ones(1, requires_grad=True) * 2)
