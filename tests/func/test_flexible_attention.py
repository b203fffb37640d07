"""Attention by functions of one score, against numpy on all of them; gradients; traces."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.autograd import gradcheck
from jit.func.flexible_attention import AuxRequest, BlockMask, create_block_mask, flex_attention
from tests.tolerances import assert_close

B, H, L, S = 2, 3, 5, 7
TABLE = np.random.default_rng(1).standard_normal((H, L + S))


def tensors(dtype="float64", heads=H):
    rng = np.random.default_rng(0)
    sizes = [(B, H, L, 4), (B, heads, S, 4), (B, heads, S, 6)]
    return [jit.tensor(rng.standard_normal(size).astype(dtype), requires_grad=True) for size in sizes]


def relative(score, b, h, q, k):
    return score + jit.tensor(TABLE)[h, q - k + S]


SCORES = {
    "none": (None, lambda score, b, h, q, k: score),
    "distance": (
        lambda score, b, h, q, k: score - (q - k).abs().double() * 0.3 * (h + 1),
        lambda s, b, h, q, k: s - abs(q - k) * 0.3 * (h + 1),
    ),
    "table": (relative, lambda score, b, h, q, k: score + TABLE[h, q - k + S]),
    "capped": (lambda score, b, h, q, k: jit.tanh(score / 2) * 2, lambda score, b, h, q, k: np.tanh(score / 2) * 2),
    "cut": (
        lambda score, b, h, q, k: jit.where(q >= k, score, -float("inf")),
        lambda s, b, h, q, k: s if q >= k else -np.inf,
    ),
}
MASKS: dict[str, tuple[Any, Any]] = {
    "none": (None, lambda b, h, q, k: True),
    "causal": (lambda b, h, q, k: q >= k, lambda b, h, q, k: q >= k),
    "window": (lambda b, h, q, k: (q - k).abs() < 2 + h, lambda b, h, q, k: abs(q - k) < 2 + h),
    "empty rows": (lambda b, h, q, k: (q != 1) | (b == 0), lambda b, h, q, k: q != 1 or b == 0),
}


def scores_of(query, key, change, mask, scale):
    found = np.einsum("bhqe,bhke->bhqk", query, key) * scale
    for place in np.ndindex(*found.shape):
        found[place] = change(found[place], *place) if mask(*place) else -np.inf
    return found


def reference(arrays, change, mask, scale=0.5):
    """The results and the logarithms of the sums of exponentials, place by place."""
    query, key, value = arrays
    with np.errstate(divide="ignore"):
        powers = np.exp(scores_of(query, key, change, mask, scale))
        total = powers.sum(-1, keepdims=True)
        return powers / np.where(total, total, 1) @ value, np.log(total[..., 0])


def block_mask(name, size=2):
    mask = MASKS[name][0]
    return None if mask is None else create_block_mask(mask, B, H, L, S, BLOCK_SIZE=size)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_all_scores_are_changed_and_masked(score, mask):
    query, key, value = tensors()
    arrays = [each.detach().numpy() for each in (query, key, value)]
    expected, logs = reference(arrays, SCORES[score][1], MASKS[mask][1])
    given = {"score_mod": SCORES[score][0], "block_mask": block_mask(mask)}
    found, sums = flex_attention(query, key, value, return_lse=True, **given)
    assert_close(found, expected)
    assert_close(sums, logs)
    assert not any(g.isnan().any() for g in jit.grad(found.sum() + sums[~sums.isinf()].sum(), (query, key, value)))


@pytest.mark.parametrize("score", SCORES)
def test_gradients(score):
    query, key, value = (each[:1, :2, :3, :2].detach().requires_grad_() for each in tensors())
    mask = create_block_mask(MASKS["window"][0], 1, 2, 3, 3, BLOCK_SIZE=2)
    assert gradcheck(lambda q, k, v: flex_attention(q, k, v, SCORES[score][0], mask), (query, key, value))


@pytest.mark.parametrize("size", [1, 3, (2, 4), 128])
def test_the_size_of_blocks_makes_no_difference(size):
    query, key, value = tensors()
    given = (query, key, value, SCORES["distance"][0])
    assert jit.equal(flex_attention(*given, block_mask("window", size)), flex_attention(*given, block_mask("window")))


def test_blocks_that_are_left_out_are_hidden():
    query, key, value = tensors()
    counts, numbers = jit.tensor([[[1, 1]]]), jit.tensor([[[[1, 0], [0, 1]]]])
    mask = BlockMask.from_kv_blocks(counts, numbers, BLOCK_SIZE=4, seq_lengths=(L, S))
    expected, _ = reference(
        [each.detach().numpy() for each in (query, key, value)],
        SCORES["none"][1],
        lambda b, h, q, k: (k >= 4) == (q < 4),
    )
    assert_close(flex_attention(query, key, value, block_mask=mask), expected)


def test_gradients_reach_what_the_functions_capture():
    query, key, value = (each[:1].detach() for each in tensors())
    table = jit.tensor(TABLE, requires_grad=True)
    assert gradcheck(lambda t: flex_attention(query, key, value, lambda s, b, h, q, k: s + t[h, q - k + S]), (table,))


def test_heads_may_be_shared():
    query, key, value = tensors(heads=1)
    whole = [query, key.expand(B, H, S, 4), value.expand(B, H, S, 6)]
    assert_close(flex_attention(query, key, value, enable_gqa=True), flex_attention(*whole))
    with pytest.raises(jit.ShapeError, match="3 heads of queries and 1 of keys"):
        flex_attention(query, key, value)


def test_other_results():
    query, key, value = tensors()
    out, others = flex_attention(query, key, value, scale=1.0, return_aux=AuxRequest(lse=True, max_scores=True))
    scores = query @ key.transpose(-1, -2)
    assert_close(out, scores.softmax(-1) @ value)
    assert_close(others.lse, scores.logsumexp(-1))
    assert_close(others.max_scores, scores.amax(-1))
    assert flex_attention(query, key, value, return_aux=AuxRequest())[1] == (None, None)


def test_narrow_dtypes_are_computed_in_float32():
    query, key, value = (each.half() for each in tensors("float32"))
    found = flex_attention(query, key, value, relative, block_mask("causal"))
    wide = [each.detach().float().numpy().astype(np.float64) for each in (query, key, value)]
    expected, _ = reference(wide, SCORES["table"][1], MASKS["causal"][1])
    assert found.dtype is jit.float16
    assert_close(found, expected, atol=1e-3, check_dtype=False)  # the weights are rounded to float16, too


def test_traces():
    mask = block_mask("window")
    f = jit.trace(lambda q, k, v: flex_attention(q, k, v, relative, mask))
    for _ in range(3):
        query, key, value = tensors()
        plain = flex_attention(query, key, value, relative, mask)
        assert_close(f(query, key, value), plain)
        for have, want in zip(
            jit.grad(f(query, key, value).sum(), (query, key)), jit.grad(plain.sum(), (query, key)), strict=True
        ):
            assert_close(have, want)
    assert f.hits >= 4


def test_refusals():
    query, key, value = tensors()
    with pytest.raises(jit.ShapeError, match="4 dims, not of 3, 4 and 4"):
        flex_attention(query[0], key, value)
    with pytest.raises(jit.ShapeError, match="do not fit"):
        flex_attention(query, key[..., :3], value)
    with pytest.raises(
        jit.ShapeError, match=r"block_mask was created for block_mask.shape=\(2, 3, 5, 7\) but got q_len=5 and kv_len=6"
    ):
        flex_attention(query, key[:, :, :6], value[:, :, :6], block_mask=block_mask("causal"))
    with pytest.raises(jit.UsageError, match="give one of them"):
        flex_attention(query, key, value, return_lse=True, return_aux=AuxRequest(lse=True))
