"""Attention in which a query sees no key at all: zeros, as in PyTorch, and no NaN in any gradient.

With `need_weights=True` PyTorch gives NaN there, and so does this package.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
import jit.eager.namespace
import jit.nn.functional as F
from jit import nn
from tests.tolerances import assert_close

SEEN = np.array([[True, False, True], [False, False, False], [False, True, False]])
INF = math.inf


def inputs(dtype: Any = jit.float32, *batch: int) -> list[Any]:
    rng = np.random.default_rng(0)
    made = [jit.tensor(rng.standard_normal((*batch, 3, 4)).astype(np.float32)) for _ in range(3)]
    return [x.to(dtype).requires_grad_() for x in made]


def masks(dtype: Any) -> dict[str, Any]:
    boolean = jit.tensor(SEEN)
    added = jit.where(boolean, 0.0, -INF).to(dtype)
    far = jit.where(boolean, jit.tensor([1.0, 2.0, 3.0]).to(dtype), added)
    return {"bool": boolean, "-inf": added, "numbers": far, "wide": jit.tensor(np.stack([SEEN, ~SEEN]))}


def reference(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Row by row, over the keys that are seen."""
    q, k, v = (x.detach().double().numpy() for x in (q, k, v))
    bias = mask.numpy() if mask.dtype is jit.bool else mask.double().numpy()
    bias = np.where(bias, 0.0, -INF) if bias.dtype == bool else bias
    scores = np.einsum("...qd,...kd->...qk", q, k) / math.sqrt(q.shape[-1]) + bias
    found = np.zeros((*scores.shape[:-1], v.shape[-1]))
    for place in np.ndindex(scores.shape[:-1]):
        keys = np.isfinite(scores[place])
        if keys.any():
            powers = np.exp(scores[place][keys])
            found[place] = (powers / powers.sum()) @ np.broadcast_to(v, (*scores.shape[:-2], 3, 4))[place[:-1]][keys]
    return found


WAYS = {
    "eager": lambda f: f, "traced": jit.trace, "plain": jit.trace(optimize=False),
    "sizes": lambda f: jit.trace(f, dynamic=True),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [jit.float32, jit.float64, jit.float16, jit.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["bool", "-inf", "numbers", "wide"])
def test_product_attention(name: str, dtype: Any, way: str) -> None:
    f = WAYS[way](lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m))
    for _ in range(3):
        q, k, v = inputs(dtype, 2)
        mask = masks(dtype)[name]
        found = f(q, k, v, mask)
        tolerance = 1e-12 if dtype is jit.float64 else 1e-5 if dtype is jit.float32 else 3e-2
        assert np.allclose(found.detach().double().numpy(), reference(q, k, v, mask), atol=tolerance)
        found.sum().backward()
        assert all(bool(jit.isfinite(x.grad).all()) for x in (q, k, v))
        if name != "wide":
            assert (q.grad[:, 1] == 0).all() and (found[:, 1] == 0).all()


@pytest.mark.parametrize("way", WAYS)
def test_gradient_of_the_mask(way: str) -> None:
    f = WAYS[way](lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m))
    for _ in range(3):
        q, k, v = inputs(jit.float64)
        mask = masks(jit.float64)["numbers"].requires_grad_()
        (f(q, k, v, mask) * jit.arange(4)).sum().backward()
        assert bool(jit.isfinite(mask.grad).all()) and (mask.grad[1] == 0).all() and (mask.grad[0] != 0).any()


def test_gradients_are_those_of_the_rows_that_see() -> None:
    q, k, v = inputs(jit.float64)
    mask = masks(jit.float64)["bool"]
    F.scaled_dot_product_attention(q, k, v, mask).square().sum().backward()
    q2, k2, v2 = inputs(jit.float64)
    rows = jit.tensor([0, 2])
    F.scaled_dot_product_attention(q2[rows], k2, v2, mask[rows]).square().sum().backward()
    for one, other in ((q, q2), (k, k2), (v, v2)):
        assert_close(one.grad, other.grad)


def test_second_derivatives() -> None:
    mask = masks(jit.float64)["bool"]
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask)  # noqa: E731
    assert jit.autograd.gradcheck(attend, inputs(jit.float64)) and jit.autograd.gradgradcheck(
        attend, inputs(jit.float64)
    )


def test_infinite_scores_without_a_mask() -> None:
    """All scores of the first query are -inf; those of a NaN stay NaN."""
    q = jit.tensor([[-INF, 0.0], [1.0, 0.0], [math.nan, 0.0]])
    k, v = jit.ones(3, 2), jit.arange(6).reshape(3, 2).float()
    for way in WAYS.values():
        found = way(F.scaled_dot_product_attention)(q, k, v)
        assert found[:2].tolist() == [[0, 0], [2, 3]] and bool(jit.isnan(found[2]).all())


@pytest.mark.parametrize(("queries", "keys"), [(3, 2), (2, 3), (3, 0), (0, 3), (1, 1)])
def test_causal(queries: int, keys: int) -> None:
    """Every query sees the first key, if there is one."""
    rng = np.random.default_rng(1)
    q, k, v = (jit.tensor(rng.standard_normal((2, n, 4))) for n in (queries, keys, keys))
    for way in ("eager", "traced", "plain"):
        found = WAYS[way](lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))(q, k, v)
        assert bool(jit.isfinite(found).all())
        if keys and queries:
            assert_close(found[:, 0], v[:, 0])


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
def test_safe_softmax(dim: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    x[:, 1, :] = -INF
    x[0] = -INF
    x[..., 2] = -INF
    for way in ("eager", "traced", "plain"):
        found = WAYS[way](lambda x: jit.eager.namespace.F._safe_softmax(x, dim))(jit.tensor(x))
        plain = jit.softmax(jit.tensor(x), dim)
        assert_close(found, jit.where(jit.isnan(plain), 0.0, plain))
        assert bool(jit.isnan(plain).any())


# -- layers ------------------------------------------------------------------------------------------------------


def layer(need_weights: bool, **masks: Any) -> Any:
    jit.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2)
    return attention, lambda x: attention(x, x, x, need_weights=need_weights, **masks)


MASKS = {
    "padding": lambda: {"key_padding_mask": jit.ones(1, 3).bool()},
    "padding by -inf": lambda: {"key_padding_mask": jit.full((1, 3), -INF)},
    "mask": lambda: {"attn_mask": jit.tensor(~SEEN)},
    "mask by -inf": lambda: {"attn_mask": jit.where(jit.tensor(SEEN), 0.0, -INF)},
    "both": lambda: {"attn_mask": jit.tensor(~SEEN), "key_padding_mask": jit.tensor([[False, True, False]])},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", MASKS)
def test_layer_without_weights(kind: str, way: str) -> None:
    attention, f = layer(False, **MASKS[kind]())
    g = WAYS[way](f)
    for _ in range(3):
        x = inputs()[0].detach().unsqueeze(1).requires_grad_()
        out, weights = g(x)
        assert weights is None
        assert_close(out[1, 0].detach(), attention.out_proj.bias.detach())
        attention.zero_grad()
        out.sum().backward()
        assert all(bool(jit.isfinite(t.grad).all()) for t in (x, *attention.parameters()))


@pytest.mark.parametrize("kind", MASKS)
def test_layer_with_weights(kind: str) -> None:
    _, f = layer(True, **MASKS[kind]())
    for way in ("eager", "traced"):
        out, weights = WAYS[way](f)(inputs()[0].unsqueeze(1))
        assert bool(jit.isnan(out[1]).all()) and bool(jit.isnan(weights[0, 1]).all())


@pytest.mark.parametrize("training", [True, False])
def test_encoder(training: bool) -> None:
    jit.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2).train(training)
    padding = jit.tensor([[False, False, True], [True, True, True]])
    x = inputs(jit.float32, 2)[0]
    found, traced = (f(x, src_key_padding_mask=padding) for f in (encoder, jit.trace(encoder)))
    assert bool(jit.isfinite(found).all())
    assert_close(traced, found)


def test_export(tmp_path: Path) -> None:
    """The model says the same; it is compared with what was traced when it is written."""
    onnxruntime = pytest.importorskip("onnxruntime")
    q, k, v = (x.detach() for x in inputs(jit.float32, 2))
    for number, mask in enumerate(masks(jit.float32).values()):
        path = tmp_path / f"{number}.onnx"
        jit.export_onnx(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (q, k, v, mask), path)
        session = onnxruntime.InferenceSession(str(path))
        names = [i.name for i in session.get_inputs()]
        (found,) = session.run(None, dict(zip(names, [t.numpy() for t in (q, k, v, mask)], strict=True)))
        assert np.allclose(found, reference(q, k, v, mask), atol=1e-5)
