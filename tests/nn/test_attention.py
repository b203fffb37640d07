"""Attention and transformers, head by head in numpy; traced, and exported."""

from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from tests.tolerances import assert_close

E, HEADS, L, S, N = 6, 2, 3, 4, 2
SIZE = E // HEADS


def draw(rng, *sizes, dtype=np.float64):
    return rng.standard_normal(sizes).astype(dtype)


def weights_of(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(module: Any, inputs: Any, mask: Any = 0.0) -> Any:
    """One sample [L, E], head by head; (result, weights of each head)."""
    w = weights_of(module)
    matrices = np.split(w["in_proj_weight"], 3) if "in_proj_weight" in w else [w[f"{c}_proj_weight"] for c in "qkv"]
    q, k, v = (x @ m.T + b for x, m, b in zip(inputs, matrices, np.split(w["in_proj_bias"], 3)))
    if "bias_k" in w:
        k, v = np.concatenate([k, w["bias_k"][0]]), np.concatenate([v, w["bias_v"][0]])
    if module.add_zero_attn:
        k, v = (np.concatenate([x, np.zeros((1, E))]) for x in (k, v))
    mask = np.broadcast_to(mask, (HEADS, len(q), len(inputs[1])))
    mask = np.pad(mask, [(0, 0), (0, 0), (0, len(k) - len(inputs[1]))])
    heads = [slice(h * SIZE, (h + 1) * SIZE) for h in range(HEADS)]
    weights = np.stack([softmax(q[:, h] @ k[:, h].T / np.sqrt(SIZE) + mask[i]) for i, h in enumerate(heads)])
    joined = np.concatenate([weights[i] @ v[:, h] for i, h in enumerate(heads)], -1)
    return joined @ w["out_proj.weight"].T + w["out_proj.bias"], weights


OPTIONS = [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 5, "vdim": 3, "batch_first": True}]


def made(rng, **options):
    """A layer in float64 whose biases are not zero, and inputs for it, batch first."""
    module = nn.MultiheadAttention(E, HEADS, **options).double()
    with jit.no_grad():
        for parameter in module.parameters():
            parameter.copy_(jit.tensor(draw(rng, *parameter.shape)))
    return module, [draw(rng, N, L, E), draw(rng, N, S, module.kdim), draw(rng, N, S, module.vdim)]


def called(module, arrays, **options):
    """(result, weights), batch first."""
    given = [jit.tensor(a if module.batch_first else a.swapaxes(0, 1)) for a in arrays]
    out, weights = module(*given, **options)
    return (out if module.batch_first else out.transpose(0, 1)), weights


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_goes_head_by_head(options, need_weights, rng):
    module, arrays = made(rng, **options)
    out, weights = called(module, arrays, need_weights=need_weights, average_attn_weights=False)
    for n in range(N):
        want, looked = attention(module, [a[n] for a in arrays])
        assert_close(out[n], want, rtol=1e-11, atol=1e-12)
        if need_weights:
            assert_close(weights[n], looked, rtol=1e-11, atol=1e-12)
    assert (weights is None) is not need_weights


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("need_weights", [False, True])
def test_masks_keep_from_looking(options, need_weights, rng):
    module, arrays = made(rng, **options)
    hidden, added = np.triu(np.ones((L, S), bool), 2), draw(rng, N * HEADS, L, S)
    padded = np.array([[False] * S, [False] * (S - 1) + [True]])
    both = np.where(hidden, -np.inf, 0) + np.where(padded, -np.inf, 0)[:, None, None]
    cases = [({"attn_mask": hidden}, np.broadcast_to(np.where(hidden, -np.inf, 0), (N, HEADS, L, S))),
             ({"attn_mask": added}, added.reshape(N, HEADS, L, S)),
             ({"attn_mask": hidden, "key_padding_mask": padded}, np.broadcast_to(both, (N, HEADS, L, S)))]  # fmt: skip
    for masks, mask in cases:
        tensors = {name: jit.tensor(given) for name, given in masks.items()}
        out, weights = called(module, arrays, need_weights=need_weights, **tensors)
        for n in range(N):
            want, looked = attention(module, [a[n] for a in arrays], mask=mask[n])
            assert_close(out[n], want, rtol=1e-11, atol=1e-12)
            if need_weights:
                assert_close(weights[n], looked.mean(0), rtol=1e-11, atol=1e-12)


def test_a_sequence_without_a_batch(rng):
    module, arrays = made(rng)
    out, weights = module(*(jit.tensor(a[0]) for a in arrays), key_padding_mask=jit.tensor([False] * 3 + [True]))
    want, looked = attention(module, [a[0] for a in arrays], mask=np.array([0, 0, 0, -np.inf]))
    assert_close(out, want, rtol=1e-11, atol=1e-12)
    assert_close(weights, looked.mean(0), rtol=1e-11, atol=1e-12)


def test_a_causal_hint_is_the_causal_mask(rng):
    module, (x, _, _) = made(rng, batch_first=True)
    given = jit.tensor(x)
    mask = nn.Transformer.generate_square_subsequent_mask(L, dtype=jit.float64)
    for need_weights in (False, True):
        hinted, _ = module(given, given, given, attn_mask=mask, is_causal=True, need_weights=need_weights)
        masked, _ = module(given, given, given, attn_mask=mask, need_weights=need_weights)
        assert_close(hinted, masked.detach(), rtol=1e-12, atol=1e-13)


def test_names_are_those_of_pytorch():
    assert list(nn.MultiheadAttention(4, 2, add_bias_kv=True).state_dict()) == [
        "in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias",
    ]  # fmt: skip
    assert list(nn.MultiheadAttention(4, 2, kdim=3, bias=False).state_dict()) == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight",
    ]  # fmt: skip
    names = [name for name, _ in nn.TransformerDecoderLayer(4, 2, 8).named_children()]
    assert names == ["self_attn", "multihead_attn", "linear1", "dropout", "linear2", "norm1", "norm2", "norm3",
                     "dropout1", "dropout2", "dropout3"]  # fmt: skip


# -- transformers ------------------------------------------------------------------------------------------------------


def normed(x, layer):
    spread = np.sqrt(x.var(-1, keepdims=True) + layer.eps)
    return (x - x.mean(-1, keepdims=True)) / spread * layer.weight.detach().numpy() + layer.bias.detach().numpy()


def fed(x, layer):
    w = weights_of(layer)
    hidden = np.maximum(0, x @ w["linear1.weight"].T + w["linear1.bias"])
    return hidden @ w["linear2.weight"].T + w["linear2.bias"]


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_add_and_norm(norm_first, rng):
    encoder = nn.TransformerEncoderLayer(E, HEADS, 8, norm_first=norm_first, batch_first=True).double().eval()
    decoder = nn.TransformerDecoderLayer(E, HEADS, 8, norm_first=norm_first, batch_first=True).double().eval()
    x, memory = draw(rng, L, E), draw(rng, S, E)

    def summed(x, norm, part):
        return x + part(normed(x, norm)) if norm_first else normed(x + part(x), norm)

    def looking(layer):
        return lambda x: attention(layer, [x, x, x])[0]

    want = summed(x, encoder.norm1, looking(encoder.self_attn))
    want = summed(want, encoder.norm2, lambda x: fed(x, encoder))
    assert_close(encoder(jit.tensor(x[None]))[0], want, rtol=1e-11, atol=1e-12)
    want = summed(x, decoder.norm1, looking(decoder.self_attn))
    want = summed(want, decoder.norm2, lambda x: attention(decoder.multihead_attn, [x, memory, memory])[0])
    want = summed(want, decoder.norm3, lambda x: fed(x, decoder))
    assert_close(decoder(jit.tensor(x[None]), jit.tensor(memory[None]))[0], want, rtol=1e-11, atol=1e-12)


def test_stacks_are_layers_in_a_row(rng):
    model: Any = nn.Transformer(E, HEADS, 2, 2, 8, activation="gelu").double().eval()
    source, target = jit.tensor(draw(rng, S, N, E)), jit.tensor(draw(rng, L, N, E))
    memory = source
    for layer in model.encoder.layers:
        memory = layer(memory)
    memory = model.encoder.norm(memory)
    out = target
    for layer in model.decoder.layers:
        out = layer(out, memory)
    assert_close(model(source, target), model.decoder.norm(out).detach())
    first, second = model.encoder.layers
    assert first.linear1.weight is not second.linear1.weight


def test_the_future_does_not_matter_behind_a_causal_mask(rng):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, HEADS, 8, batch_first=True), 2).eval()
    x = draw(rng, 1, L, E, dtype=np.float32)
    mask = model.layers[0].self_attn, nn.Transformer.generate_square_subsequent_mask(L)
    before = model(jit.tensor(x), mask[1], is_causal=True)
    x[:, -1] = 0
    after = model(jit.tensor(x), mask[1], is_causal=True)
    assert_close(before[:, :-1], after[:, :-1].detach())


def test_dropout_is_for_training():
    layer, x = nn.TransformerEncoderLayer(E, HEADS, 8), jit.ones(L, N, E)
    assert layer(x).tolist() != layer(x).tolist()
    layer.eval()
    assert layer(x).tolist() == layer(x).tolist()


# -- traced and exported -----------------------------------------------------------------------------------------------


def weighted(result):
    """A number that depends on every element differently: norms keep the sum and the squares as they are."""
    return (result * jit.arange(result.numel(), dtype=result.dtype).view(result.shape)).sum()


def test_traced_transformers_are_eager_ones_through_a_backward(rng):
    model = nn.Transformer(E, HEADS, 1, 1, 8, dropout=0.0)
    arguments = jit.tensor(draw(rng, S, N, E, dtype=np.float32)), jit.tensor(draw(rng, L, N, E, dtype=np.float32))
    jit.verify(model, arguments, loss_fn=weighted)


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_traced_attention_is_the_eager_one(options, rng):
    module = nn.MultiheadAttention(E, HEADS, **options)
    sizes = (N, L, E), (N, S, module.kdim), (N, S, module.vdim)
    tensors = [jit.tensor(draw(rng, *size, dtype=np.float32)) for size in sizes]
    if not module.batch_first:
        tensors = [t.transpose(0, 1).contiguous() for t in tensors]
    padded = jit.tensor([[False] * S, [False] * (S - 1) + [True]])

    def through(q, k, v):
        return module(q, k, v, key_padding_mask=padded)[0]

    jit.verify(through, tuple(tensors), loss_fn=weighted)


def test_encoders_export_with_dynamic_axes(rng, tmp_path):
    pytest.importorskip("onnxruntime")
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, HEADS, 8, batch_first=True), 2).eval()
    x = jit.tensor(draw(rng, N, L, E, dtype=np.float32))
    jit.export_onnx(model, (x,), tmp_path / "model.onnx", dynamic_axes={"src": {0: "batch", 1: "time"}})


# -- misuse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: nn.MultiheadAttention(5, 2), "size 5 cannot be cut into 2 heads"),
        (lambda m: m(jit.ones(3), jit.ones(3), jit.ones(3)), "of 2 or of 3 dims each"),
        (lambda m: m(*[jit.ones(L, N, 4)] * 3), r"for vectors of size 6, got the sizes \[3, 2, 4\]"),
        (lambda m: m(jit.ones(L, E), jit.ones(S, E), jit.ones(L, E)), "as many keys as values"),
        (lambda m: m(*[jit.ones(L, E)] * 3, is_causal=True), "give that mask too"),
        (lambda m: m(*[jit.ones(L, E)] * 3, attn_mask=jit.ones(L, L).long()), "bool or floating point, not int64"),
        (
            lambda m: m(*[jit.ones(L, E)] * 3, attn_mask=jit.ones(L)),
            r"attn_mask has sizes \[3\]; for 3 queries, 3 keys, 1 sequences and 2 heads pass one of \[3, 3\] or \[2, 3",
        ),
        (lambda m: m(*[jit.ones(L, E)] * 3, attn_mask=jit.ones(1, L)), r"attn_mask has sizes \[1, 3\]"),
        (lambda m: m(*[jit.ones(L, N, E)] * 3, attn_mask=jit.ones(N, L, L)), r"or \[4, 3, 3\]"),
        (
            lambda m: m(*[jit.ones(L, N, E)] * 3, key_padding_mask=jit.ones(L, N)),
            r"3 keys of 2 sequences, \[2, 3\] .* not the sizes \[3, 2\]",
        ),
        (lambda m: m(*[jit.ones(L, N, E)] * 3, key_padding_mask=jit.ones(L)), r"not the sizes \[3\]"),
        (lambda m: m(*[jit.ones(L, E)] * 3, key_padding_mask=jit.ones(1, L)), r"\(without the first dim"),
        (lambda m: nn.TransformerEncoderLayer(E, HEADS, activation="swish"), "activation is 'swish'"),
    ],
)
def test_misuse_is_named(make, message):
    with pytest.raises(jit.Error, match=message):
        make(nn.MultiheadAttention(E, HEADS))


def test_there_is_one_implementation_whichever_is_chosen() -> None:
    from jit.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (jit.randn(1, 2, 3, 4) for _ in range(3))
    wanted = nn.functional.scaled_dot_product_attention(q, k, v).tolist()
    for block in (
        sdpa_kernel(SDPBackend.MATH), sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True),
        jit.backends.cuda.sdp_kernel(enable_flash=False, enable_math=True),
    ):  # fmt: skip
        with block:
            assert nn.functional.scaled_dot_product_attention(q, k, v).tolist() == wanted
    with pytest.raises(jit.Error, match="takes SDPBackend, not str"), sdpa_kernel("math"):
        pass
