"""Layers on nothing: empty batches, images without channels, no windows, tables without rows or columns."""

from __future__ import annotations

from typing import Any

import pytest

import jit
from jit import nn

F = nn.functional
POOLS = [("adaptive_max_pool", 2), ("adaptive_avg_pool", 2), ("max_pool", 2), ("avg_pool", 2)]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(("name", "size"), POOLS)
def test_an_empty_batch_is_pooled(name: str, size: int, rank: int, traced: bool) -> None:
    pool = getattr(F, f"{name}{rank}d")
    x = jit.zeros((0, 3, *(5, 4, 4)[:rank]), requires_grad=True)
    call: Any = jit.trace(lambda t: pool(t, size)) if traced else lambda t: pool(t, size)
    y = call(x)
    y.sum().backward()
    assert y.shape == (0, 3, *[2] * rank) and x.grad.shape == x.shape


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_empty_batch_is_unpooled(rank: int) -> None:
    x = jit.zeros((0, 3, *[4] * rank))
    y, places = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)
    assert getattr(F, f"max_unpool{rank}d")(y, places, 2).shape == x.shape
    with pytest.raises(ValueError, match="output_size has"):
        getattr(F, f"max_unpool{rank}d")(y, places, 2, output_size=[4] * (rank + 1))


@pytest.mark.parametrize("rank", [2, 3])
def test_windows_of_random_steps_may_be_none(rank: int) -> None:
    pool = getattr(F, f"fractional_max_pool{rank}d")
    x = jit.ones((2, 3, *[7] * rank))
    assert pool(x, 3, output_size=0).shape == (2, 3, *[0] * rank)
    assert pool(x, 3, output_size=(0, *[2] * (rank - 1))).shape == (2, 3, 0, *[2] * (rank - 1))
    assert pool(x[:0], 3, output_size=2).shape == (0, 3, *[2] * rank)
    assert pool(x, 3, output_size=2, output_ratio=0.9).shape == (2, 3, *[2] * rank)
    with pytest.raises(jit.Error, match="only the batch may be empty"):
        pool(x[:, :0], 3, output_size=2)
    with pytest.raises(jit.Error, match="dtype of the input"):
        pool(x, 3, output_size=2, _random_samples=jit.zeros(2, 3, rank, dtype=jit.float64))


@pytest.mark.parametrize(("layer", "sizes"), [(nn.Conv1d, (9,)), (nn.Conv2d, (9, 8)), (nn.Conv3d, (5, 6, 7))])
def test_a_convolution_of_no_channels_is_its_bias(layer: Any, sizes: tuple[int, ...]) -> None:
    conv = layer(0, 4, 2)
    x = jit.zeros((2, 0, *sizes), requires_grad=True)
    y = conv(x)
    assert y.shape == (2, 4, *[n - 1 for n in sizes])
    assert jit.equal(y, conv.bias.reshape(1, 4, *[1] * len(sizes)).expand(y.shape))
    y.sum().backward()
    assert x.grad.shape == x.shape and conv.weight.grad.shape == conv.weight.shape
    assert conv.bias.grad.tolist() == [y.numel() / 4] * 4


@pytest.mark.parametrize(("rows", "columns", "indices"), [(0, 0, []), (3, 0, [1, 2]), (3, 2, [])])
def test_tables_without_entries_have_gradients(rows: int, columns: int, indices: list[int]) -> None:
    table = nn.Embedding(rows, columns)
    table(jit.tensor(indices, dtype=jit.int64)).sum().backward()
    assert table.weight.grad.shape == (rows, columns)
    assert not table.weight.grad.any()


def test_filling_nothing_is_told() -> None:
    for fill in (nn.init.kaiming_uniform_, nn.init.kaiming_normal_):
        with pytest.warns(UserWarning, match="nothing to fill"):
            fill(jit.empty(0, 2))
