"""Masks as functions of places: the tensors and the blocks that they make."""

from typing import Any, cast

import numpy as np
import pytest

import jit
from jit.func.flexible_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
)  # fmt: skip

DOCUMENTS = jit.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2, 2])


def causal(b, h, q, k):
    return q >= k


def same_document(b, h, q, k):
    return DOCUMENTS[q] == DOCUMENTS[k]


def near(b, h, q, k):
    return (q - k).abs() <= h + b


def by_hand(mask, sizes):
    """The mask, place by place."""
    numbers = DOCUMENTS.numpy()
    says = {
        causal: lambda b, h, q, k: q >= k,
        same_document: lambda b, h, q, k: numbers[q] == numbers[k],
        near: lambda b, h, q, k: abs(q - k) <= h + b,
    }[mask]
    return np.array([says(*place) for place in np.ndindex(*sizes)]).reshape(sizes)


@pytest.mark.parametrize("mask", [causal, same_document, near])
def test_masks_of_all_places(mask):
    found = create_mask(mask, 2, 3, 7, 10)
    assert found.dtype is jit.bool and found.tolist() == by_hand(mask, (2, 3, 7, 10)).tolist()


def test_masks_are_combined():
    a, b = by_hand(causal, (1, 1, 10, 10)), by_hand(same_document, (1, 1, 10, 10))
    assert create_mask(and_masks(causal, same_document), None, None, 10, 10).tolist() == (a & b).tolist()
    assert create_mask(or_masks(causal, same_document), None, None, 10, 10).tolist() == (a | b).tolist()
    assert create_mask(and_masks(), None, None, 2, 2).all() and not create_mask(or_masks(), None, None, 2, 2).any()
    assert create_mask(noop_mask, 1, 1, 2, 3).shape == (1, 1, 2, 3)


def test_masks_of_functions_of_scores():
    found = create_mask(lambda score, b, h, q, k: jit.where(q >= k, score, -float("inf")), 1, 2, 3, 3)
    assert found.tolist() == by_hand(causal, (1, 2, 3, 3)).tolist()


@pytest.mark.parametrize("size", [4, (2, 5), 128])
@pytest.mark.parametrize("mask", [causal, same_document, near])
def test_blocks(mask, size):
    made = create_block_mask(mask, 2, 3, 8, 10, BLOCK_SIZE=size)
    rows, columns = (size, size) if isinstance(size, int) else size
    whole = by_hand(mask, (2, 3, 8, 10))
    starts = [(i, j) for i in range(0, 8, rows) for j in range(0, 10, columns)]
    blocks = [whole[..., i : i + rows, j : j + columns] for i, j in starts]
    shape = (2, 3, len({i for i, _ in starts}), len({j for _, j in starts}))
    some = np.stack([b.any((-1, -2)) for b in blocks], -1).reshape(shape)
    full = np.stack([b.all((-1, -2)) & (b[0, 0].size == rows * columns) for b in blocks], -1).reshape(shape)
    assert made.to_dense().tolist() == some.astype(int).tolist() and made.shape == (2, 3, 8, 10)
    assert made.full_kv_num_blocks.tolist() == full.sum(-1).tolist()
    assert made.kv_num_blocks.tolist() == (some & ~full).sum(-1).tolist()
    assert made.q_num_blocks.tolist() == (some & ~full).sum(-2).tolist()
    for b, h, row in np.ndindex(shape[:3]):
        count = int(made.kv_num_blocks[b, h, row])
        assert made.kv_indices[b, h, row, :count].tolist() == np.flatnonzero((some & ~full)[b, h, row]).tolist()
    assert made.numel() == 480
    assert made.sparsity() == pytest.approx(100 * (1 - some.sum() * rows * columns / 480))
    assert made.visible(2, 3).tolist() == whole.tolist()


def test_blocks_by_their_numbers():
    counts, numbers = jit.tensor([[[1, 2]]]), jit.tensor([[[[1, 1], [1, 0]]]])
    made = BlockMask.from_kv_blocks(counts, numbers, BLOCK_SIZE=2)
    assert made.to_dense().tolist() == [[[[0, 1], [1, 1]]]] and made.shape == (1, 1, 4, 4)
    assert made.visible(1, 1)[0, 0].int().tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    full = BlockMask.from_kv_blocks(counts * 0, numbers, counts, numbers, 2, causal, (3, 4))
    assert full.visible(1, 1)[0, 0].int().tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]
    again = BlockMask.from_kv_blocks(made.kv_num_blocks, made.kv_indices, BLOCK_SIZE=2)
    assert again.to_dense().tolist() == made.to_dense().tolist()


def test_parts_of_masks_need_a_function_of_their_own():
    whole = create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=2)
    last = whole[:, :, 3]
    assert last.to_dense().tolist() == [[[[1, 1, 1, 1]]]] and last.shape == (1, 1, 2, 8)
    assert whole[:, :, -1].to_dense().tolist() == last.to_dense().tolist()
    with pytest.raises(jit.UsageError, match="assign its mask_mod"):
        last.visible(1, 1)
    last.mask_mod = lambda b, h, q, k: q + 6 >= k
    assert last.visible(1, 1).tolist() == whole.visible(1, 1)[:, :, 6:].tolist()


def test_they_have_pytorchs_path():
    from jit.nn import attention

    assert attention.flex_attention.create_block_mask is create_block_mask


def test_print():
    assert repr(create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=4)) == (
        "BlockMask(shape=(1, 1, 8, 8), sparsity=25.00%)"
    )


def test_refusals():
    with pytest.raises(jit.UsageError, match="this one takes 3 arguments"):
        create_mask(lambda b, h, q: q, None, None, 2, 2)
    with pytest.raises(jit.UsageError, match="should be callable"):
        and_masks(causal, cast(Any, jit.ones(1)))
    with pytest.raises(jit.ShapeError, match="at least 2 dims"):
        BlockMask.from_kv_blocks(jit.ones(1), jit.ones(1))


def test_places_may_index_in_every_way():
    table = jit.arange(24).reshape(2, 3, 4)
    ways = {
        "at once": lambda i, j: table[i, j],
        "one by one": lambda i, j: table[i][j],
        "behind a slice": lambda i, j: table[:, j, i],
        "with an ellipsis": lambda i, j: table[i, ..., j],
        "with a list": lambda i, j: table[i, [0, 2], j],
        "with None": lambda i, j: table[i, None, j],
        "negative": lambda i, j: table[i - 1, j - 2],
    }
    for name, way in ways.items():
        i, j = jit.arange(2), jit.tensor([2, 1])
        expected = jit.stack([way(int(i[n]), int(j[n])) for n in range(2)])
        assert jit.vmap(way)(i, j).tolist() == expected.tolist(), name
    with pytest.raises(jit.UsageError, match="another outcome for each sample"):
        jit.vmap(lambda i, row: row.__setitem__(i, 1) or row)(jit.arange(2), jit.zeros(2, 3))
