"""Attention that is written out is one kernel on a GPU, however it is spelled; what only looks like it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jit
import jit.nn.functional as F
from tests.tolerances import assert_close

from .test_cuda_kernels import driver as driver
from .test_cuda_products import BACKWARD, kernels_of_attention, normal

pytestmark = [pytest.mark.llvm, pytest.mark.usefixtures("gpu")]

B, H, L, S, D = 2, 2, 9, 9, 8
ROOT = math.sqrt(D)
Tensors = tuple[Any, ...]


def operands() -> Tensors:
    """Queries, keys, values, and what is seen: each key up to the query's own."""
    causal = jit.from_numpy(np.tri(L, S, dtype=bool))
    return *(normal(B, H, n, D, seed=seed) for seed, n in enumerate((L, S, S))), causal


# -- spellings -----------------------------------------------------------------------------------------------------


def of_nano_gpt(q: Any, k: Any, v: Any, seen: Any) -> Any:
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = att.masked_fill(seen.view(1, 1, L, S)[:, :, :L, :S] == 0, float("-inf"))
    att = F.dropout(F.softmax(att, dim=-1), 0.1, training=False)
    return (att @ v).transpose(1, 2).contiguous().view(B, L, H * D)


def of_bert(q: Any, k: Any, v: Any, seen: Any) -> Any:
    bias = (1.0 - seen.float()[4].view(1, 1, 1, S)) * -10000.0
    scores = jit.matmul(q, k.transpose(-1, -2)) / math.sqrt(D) + bias
    return jit.matmul(F.softmax(scores, dim=-1), v).permute(0, 2, 1, 3)


def of_timm(q: Any, k: Any, v: Any, seen: Any) -> Any:
    attn = (q * D**-0.5) @ k.transpose(-2, -1)
    return (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, L, H * D)


def of_lucidrains(q: Any, k: Any, v: Any, seen: Any) -> Any:
    return jit.matmul(jit.softmax(jit.matmul(q, k.transpose(-1, -2)) * D**-0.5, -1), v)


def of_t5(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = jit.matmul(q, k.transpose(3, 2)) + seen.float() * 0.5
    return jit.matmul(F.softmax(scores.float(), dim=-1).type_as(scores), v)


def of_bart(q: Any, k: Any, v: Any, seen: Any) -> Any:
    q, k, v = (x.reshape(B * H, -1, D) for x in (q * D**-0.5, k, v))
    weights = jit.bmm(q, k.transpose(1, 2)).view(B, H, L, S) + jit.where(seen, 0.0, -math.inf)
    return jit.bmm(F.softmax(weights.view(B * H, L, S), dim=-1), v).view(B, H, L, D)


def of_llama(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = jit.matmul(q, k.transpose(2, 3)) / ROOT + jit.where(seen, 0.0, -math.inf).to(q.dtype)
    return jit.matmul(F.softmax(scores, dim=-1, dtype=jit.float32).to(q.dtype), v)


def of_shared_keys(q: Any, k: Any, v: Any, seen: Any) -> Any:
    k, v = (x[:, :1, None].expand(B, 1, H, S, D).reshape(B, H, S, D) for x in (k, v))
    return (q @ k.mT / ROOT).softmax(-1) @ v


def of_packed_heads(q: Any, k: Any, v: Any, seen: Any) -> Any:
    packed = jit.cat([x.transpose(1, 2).reshape(B, L, H * D) for x in (q, k, v)], -1)
    q, k, v = (x.view(B, L, H, D).transpose(1, 2) for x in packed.split(H * D, dim=2))
    return (F.softmax(q @ k.transpose(-2, -1) * 0.25, -1) @ v).transpose(1, 2).reshape(B, L, H * D)


def with_biases_and_masks(q: Any, k: Any, v: Any, seen: Any) -> Any:
    slopes = -jit.abs(jit.arange(L, device=q.device)[:, None] - jit.arange(S, device=q.device)).float()
    scores = (slopes * 0.1 + q @ k.transpose(-2, -1) / ROOT).masked_fill(~seen, -math.inf)
    return F.softmax(scores, -1) @ v


def masked_before_scaled(q: Any, k: Any, v: Any, seen: Any) -> Any:
    return F.softmax((q @ k.transpose(-2, -1)).masked_fill(~seen, -math.inf) / ROOT, -1) @ v


def with_a_row_unseen(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = (q @ k.transpose(-2, -1)).masked_fill(~seen.flip(0)[:, :7].any(1)[:, None] | ~seen.roll(1, 0), -math.inf)
    return F.softmax(scores, -1) @ v


SPELLINGS: dict[str, Callable[..., Any]] = {
    "nanoGPT": of_nano_gpt,
    "BERT": of_bert,
    "ViT, timm": of_timm,
    "ViT, lucidrains": of_lucidrains,
    "T5": of_t5,
    "BART": of_bart,
    "Llama": of_llama,
    "keys of several heads": of_shared_keys,
    "packed heads": of_packed_heads,
    "bias and mask": with_biases_and_masks,
    "mask, then scale": masked_before_scaled,
    "nothing between": lambda q, k, v, seen: jit.softmax(q @ k.transpose(-2, -1), 3) @ v,
    "where": lambda q, k, v, seen: jit.softmax(jit.where(seen, q @ k.transpose(-2, -1), -math.inf), -1) @ v,
    "where, turned": lambda q, k, v, seen: jit.softmax(jit.where(~seen, -math.inf, q @ k.mT), -1) @ v,
    "permute": lambda q, k, v, seen: jit.softmax(q @ k.permute(0, 1, 3, 2) * 0.5, -1) @ v,
    "two scales": lambda q, k, v, seen: jit.softmax(q @ k.mT * 2.0 / ROOT, -1) @ v,
    "one batch dim": lambda q, k, v, seen: jit.bmm(jit.softmax(jit.bmm(q[0], k[0].mT), -1), v[0]),
    "no batch": lambda q, k, v, seen: jit.softmax(q[0, 0] @ k[0, 0].t() / ROOT + seen.float(), -1) @ v[0, 1],
    "other lengths": lambda q, k, v, seen: jit.softmax(q[:, :, :5] @ k.mT / ROOT + seen[:5].float(), -1) @ v[..., :4],
    "a mask of queries alone": lambda q, k, v, seen: jit.softmax(q @ k.mT + seen[:, 3:4].float(), -1) @ v,
}


def launched(driver: Any, function: Any, tensors: Tensors) -> Any:
    """The result of a traced function on the GPU at its third call, whose launches the driver knows."""
    there, traced = [t.cuda() for t in tensors], jit.trace(function)
    for _ in range(3):
        driver.launches.clear()
        result = traced(*there)
    return result


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(name: str, driver: Any) -> None:
    found = launched(driver, SPELLINGS[name], operands())
    assert_close(found.cpu(), SPELLINGS[name](*operands()), rtol=1e-5, atol=1e-5)
    assert kernels_of_attention(driver) == ["attention"]


def test_a_query_that_sees_nothing_gives_nan_as_before(driver: Any) -> None:
    q, k, v, seen = operands()
    seen[3] = False
    found = launched(driver, SPELLINGS["where"], (q, k, v, seen)).cpu()
    assert_close(found, SPELLINGS["where"](q, k, v, seen), rtol=1e-5, atol=1e-5)
    assert np.isnan(found.numpy()).any(-1).sum() == B * H
    assert kernels_of_attention(driver) == ["attention"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["nanoGPT", "Llama"])
def test_16_bits(name: str, dtype: str, driver: Any) -> None:
    q, k, v, seen = operands()
    found = launched(driver, SPELLINGS[name], (*(t.to(getattr(jit, dtype)) for t in (q, k, v)), seen))
    assert found.dtype is getattr(jit, dtype)
    bound = 5e-3 if dtype == "float16" else 4e-2
    assert_close(found.cpu().float(), SPELLINGS[name](q, k, v, seen), rtol=bound, atol=bound)
    assert kernels_of_attention(driver) == ["attention"]


# -- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["nanoGPT", "BERT", "BART", "Llama", "keys of several heads", "bias and mask", "mask, then scale", "where, turned",
     "one batch dim", "no batch", "other lengths"],
)  # fmt: skip
def test_gradients_of_spellings(name: str, driver: Any) -> None:
    """A step of training in one trace: the backward is two kernels where the three gradients are of the usual form."""

    def step(q: Any, k: Any, v: Any, seen: Any) -> Any:
        return jit.grad((SPELLINGS[name](q, k, v, seen) ** 2).sum(), [q, k, v])

    q, k, v, seen = operands()
    expected = step(q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), seen)
    there, traced = [t.detach().cuda().requires_grad_() for t in (q, k, v)], jit.trace(step)
    for _ in range(3):
        driver.launches.clear()
        found = traced(*there, seen.cuda())
    for one, two in zip(found, expected, strict=True):
        assert_close(one.cpu(), two, rtol=1e-4, atol=1e-4)
    apart = ["attention_by_query", "attention_by_key", "attention_by_value"]
    assert kernels_of_attention(driver) == ["attention", *(apart if name == "other lengths" else BACKWARD)]


@pytest.mark.parametrize("name", ["nanoGPT", "T5"])
def test_a_backward_that_is_called_later(name: str, driver: Any) -> None:
    """The forward is one graph, and the backward its second stage."""
    q, k, v, seen = operands()
    (SPELLINGS[name](*(t.requires_grad_() for t in (q, k, v)), seen) ** 2).sum().backward()
    there, traced = [t.detach().cuda().requires_grad_() for t in (q, k, v)], jit.trace(SPELLINGS[name])
    for _ in range(3):
        driver.launches.clear()
        for t in there:
            t.grad = None
        (traced(*there, seen.cuda()) ** 2).sum().backward()
    for one, two in zip(there, (q, k, v), strict=True):
        assert_close(one.grad.cpu(), two.grad, rtol=1e-4, atol=1e-4)
    assert kernels_of_attention(driver) == ["attention", *BACKWARD]


def test_second_derivatives_are_right_and_left_alone(driver: Any) -> None:
    """They use what is between the products once more, so nothing is rewritten."""

    def penalty(q: Any, k: Any, v: Any) -> Any:
        out = F.softmax(scores_of(q, k), -1) @ v
        gradients = jit.grad((out**2).sum(), [q, k, v], create_graph=True)
        return jit.grad(sum((g**2).sum() for g in gradients), [q, k, v])

    tensors = [(t * 0.5).requires_grad_() for t in operands()[:3]]
    expected, traced = penalty(*tensors), jit.trace(penalty)
    for _ in range(3):
        found = traced(*(t.detach().cuda().requires_grad_() for t in tensors))
    for one, two in zip(found, expected, strict=True):
        assert_close(one.cpu(), two, rtol=1e-3, atol=1e-3)
    assert not kernels_of_attention(driver)


def test_sizes_that_vary(driver: Any) -> None:
    """From the third length on there is one recording for all of them."""

    def step(q: Any, k: Any, v: Any) -> Any:
        return jit.grad(((F.softmax(scores_of(q, k), -1) @ v) ** 2).sum(), [q, k, v])

    traced = jit.trace(step)
    for length in (9, 7, 12, 5):
        tensors = [normal(B, H, length, D, seed=seed).requires_grad_() for seed in range(3)]
        driver.launches.clear()
        found = traced(*(t.detach().cuda().requires_grad_() for t in tensors))
        for one, two in zip(found, step(*tensors), strict=True):
            assert_close(one.cpu(), two, rtol=1e-4, atol=1e-4)
    assert kernels_of_attention(driver) == ["attention", *BACKWARD]


def test_a_gradient_by_some_operands(driver: Any) -> None:
    q, k, v, _ = operands()

    def step(q: Any, k: Any, v: Any) -> Any:
        return jit.grad(((F.softmax(scores_of(q, k), -1) @ v) ** 2).sum(), [k])

    (expected,) = step(q.requires_grad_(), k.requires_grad_(), v.requires_grad_())
    there, traced = (q.detach().cuda(), k.detach().cuda().requires_grad_(), v.detach().cuda()), jit.trace(step)
    for _ in range(3):
        driver.launches.clear()
        (found,) = traced(*there)
    assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert kernels_of_attention(driver) == ["attention", "attention_by_key"]


def test_what_is_recognised_is_exported_as_it_is_written(tmp_path: Any) -> None:
    report = jit.export_onnx(SPELLINGS["nanoGPT"], tuple(t.cuda() for t in operands()), tmp_path / "attention.onnx")
    assert "verified" in str(report)
    import onnx

    kinds = [node.op_type for node in onnx.load(tmp_path / "attention.onnx").graph.node]
    assert kinds.count("Softmax") == 1 and kinds.count("MatMul") == 2


# -- near misses ---------------------------------------------------------------------------------------------------


def scores_of(q: Any, k: Any) -> Any:
    return q @ k.transpose(-2, -1) / ROOT


def with_weights_returned(q: Any, k: Any, v: Any, seen: Any) -> Any:
    weights = F.softmax(scores_of(q, k), -1)
    return jit.cat([weights @ v, weights], -1)


def with_scores_returned(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = scores_of(q, k)
    return jit.cat([F.softmax(scores, -1) @ v, scores], -1)


def with_a_new_batch(q: Any, k: Any, v: Any, seen: Any) -> Any:
    scores = scores_of(q[:1], k[:1]) + normal(B, 1, L, S, seed=5).to(q.device)
    return F.softmax(scores, -1) @ v


NEAR_MISSES: dict[str, Callable[..., Any]] = {
    "weights are returned": with_weights_returned,
    "scores are returned": with_scores_returned,
    "a mask makes the batch larger": with_a_new_batch,
    "another dim": lambda q, k, v, seen: F.softmax(scores_of(q, k), -2) @ v,
    "weights are transposed": lambda q, k, v, seen: F.softmax(scores_of(q, k), -1).mT @ v,
    "the batch is transposed": lambda q, k, v, seen: F.softmax(scores_of(q, k).transpose(0, 1), -1) @ v,
    "filled with a number": lambda q, k, v, seen: F.softmax(scores_of(q, k).masked_fill(~seen, -1e4), -1) @ v,
    "filled with inf": lambda q, k, v, seen: F.softmax(scores_of(q, k).masked_fill(~seen & False, math.inf), -1) @ v,
    "a bias is scaled": lambda q, k, v, seen: F.softmax((q @ k.mT + seen.float()) * 0.5, -1) @ v,
    "a bias is doubled": lambda q, k, v, seen: F.softmax(jit.add(q @ k.mT, seen.float(), alpha=2), -1) @ v,
    "a mask is turned": lambda q, k, v, seen: F.softmax(jit.where(seen, q @ k.mT, -math.inf) * -1.0, -1) @ v,
    "bools are added": lambda q, k, v, seen: F.softmax(q @ k.mT + seen, -1) @ v,
    "weights of float64": lambda q, k, v, seen: F.softmax(q @ k.mT, -1, dtype=jit.float64).float() @ v,
    "a temperature is a tensor": lambda q, k, v, seen: F.softmax(scores_of(q, k) * v[0, 0, 0, 0], -1) @ v,
    "scores are capped": lambda q, k, v, seen: F.softmax(jit.tanh(scores_of(q, k)), -1) @ v,
    "weights are scaled": lambda q, k, v, seen: F.softmax(scores_of(q, k), -1) * 2 @ v,
    "weights are masked": lambda q, k, v, seen: F.softmax(scores_of(q, k), -1).masked_fill(~seen, 0) @ v,
    "a logarithm": lambda q, k, v, seen: F.log_softmax(scores_of(q, k), -1) @ v,
    "a sigmoid": lambda q, k, v, seen: jit.sigmoid(scores_of(q, k)) @ v,
    "float64": lambda q, k, v, seen: F.softmax(scores_of(q.double(), k.double()), -1) @ v.double(),
    "scores are no product": lambda q, k, v, seen: F.softmax(q[..., :1] + k[..., 0][:, :, None], -1) @ v,
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str, driver: Any) -> None:
    found = launched(driver, NEAR_MISSES[name], operands())
    assert_close(found.cpu(), NEAR_MISSES[name](*operands()), rtol=1e-5, atol=1e-5)
    assert not kernels_of_attention(driver)


def test_weights_that_are_dropped_are_not_recognised(driver: Any) -> None:
    traced = jit.trace(lambda q, k, v: F.dropout(F.softmax(scores_of(q, k), -1), 0.5, training=True) @ v)
    for _ in range(3):
        traced(*(t.cuda() for t in operands()[:3]))
    assert not kernels_of_attention(driver)
