"""Causal masks as arguments: attention gives what it gives with the tensor of bools."""

from typing import Any

import numpy as np
import pytest

import jit
from jit.eager.namespace import F
from jit.ir.errors import KindError
from jit.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left
from tests.tolerances import assert_close

attention: Any = jit.nn.functional.scaled_dot_product_attention


def sequences(queries, keys):
    jit.manual_seed(0)
    return [jit.randn(2, 3, count, 4, requires_grad=True) for count in (queries, keys, keys)]


def reference(q, k, v, mask):
    """Attention in numpy, row by row."""
    q, k, v = (each.detach().numpy().astype(np.float64) for each in (q, k, v))
    scores = np.where(mask, q @ k.swapaxes(-1, -2) / 2, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


CORNERS = {
    "upper left": (causal_upper_left, lambda queries, keys: np.tri(queries, keys, dtype=bool)),
    "lower right": (causal_lower_right, lambda queries, keys: np.tri(queries, keys, keys - queries, dtype=bool)),
}


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (1, 6)])
@pytest.mark.parametrize("corner", CORNERS)
def test_attention_knows_the_mask(corner, sizes):
    make, mask = CORNERS[corner]
    q, k, v = sequences(*sizes)
    bias = make(*sizes)
    assert bias.shape == sizes and repr(bias) == repr(jit.from_numpy(mask(*sizes)))
    found = attention(q, k, v, bias)
    assert_close(found, reference(q, k, v, mask(*sizes)), check_dtype=False)
    assert_close(attention(q, k, v, attn_mask=bias, scale=0.5), found)
    plain = attention(q, k, v, jit.from_numpy(mask(*sizes)))
    for have, want in zip(jit.grad(found.exp().sum(), (q, k, v)), jit.grad(plain.exp().sum(), (q, k, v)), strict=True):
        assert_close(have, want)


@pytest.mark.parametrize("corner", CORNERS)
def test_traces_make_and_keep_masks(corner):
    make, mask = CORNERS[corner]
    kept = make(3, 5)
    made = jit.trace(lambda q, k, v: attention(q, k, v, make(q.shape[-2], k.shape[-2])))
    held = jit.trace(lambda q, k, v: attention(q, k, v, kept))
    for _ in range(3):
        q, k, v = sequences(3, 5)
        for f in (made, held):
            assert_close(f(q, k, v), reference(q, k, v, mask(3, 5)), check_dtype=False)
    assert made.hits == held.hits == 2


def test_other_functions_get_the_tensor():
    assert F.add(causal_upper_left(2, 3), jit.ones(2, 3)).tolist() == [[2, 1, 1], [2, 2, 1]]
    assert jit.is_tensor(causal_upper_left(2, 2)) and causal_upper_left(2, 3).size(1) == 3


def test_refusals():
    q, k, v = sequences(3, 5)
    with pytest.raises(jit.ShapeError, match="3 queries and 4 keys does not fit 3 and 5"):
        attention(q, k, v, causal_upper_left(3, 4))
    with pytest.raises(jit.UsageError, match="leave is_causal out"):
        attention(q, k, v, causal_upper_left(3, 5), is_causal=True)
    with pytest.raises(KindError, match="is a CausalVariant, not a int"):
        CausalBias(1, 2, 3)  # type: ignore[arg-type]
    with pytest.raises(jit.ShapeError, match="got 1 sizes"):
        causal_upper_left(3)
    with pytest.warns(UserWarning, match="hides all keys from the first queries"):
        CausalBias(CausalVariant.LOWER_RIGHT, 3, 2)
