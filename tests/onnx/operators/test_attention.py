"""Attention and its kin, beside what onnx's own cases have: combinations of operands, gradients, sizes that vary."""

import numpy as np
import onnx
import pytest
from onnx import helper

import jit
from jit.ir.errors import ModelError
from jit.onnx.backend import prepare
from jit.onnx.importing import ImportedModel

from .checking import by_reference, check, check_gradients, model_of, random

NAMES = ["q", "k", "v", "mask", "past_key", "past_value", "lengths"]
ALL = ["y", "present_key", "present_value", "qk"]


def case(
    outputs=1, opset=24, heads=(4, 4), q=3, k=5, flat=False, past=0, mask=None, lengths=None, v_size=8, **attributes
):  # fmt: skip
    """A model of one Attention, and its operands."""
    q_heads, kv_heads = heads
    given = {"q": random(2, q_heads, q, 6, seed=1), "k": random(2, kv_heads, k, 6, seed=2)}
    given["v"] = random(2, kv_heads, k, v_size, seed=3)
    if flat:
        given = {name: x.swapaxes(1, 2).reshape(2, x.shape[2], -1) for name, x in given.items()}
        attributes |= {"q_num_heads": q_heads, "kv_num_heads": kv_heads}
    if mask is not None:
        given["mask"] = mask
    if past:
        given["past_key"] = random(2, kv_heads, past, 6, seed=4)
        given["past_value"] = random(2, kv_heads, past, v_size, seed=5)
    if lengths is not None:
        given["lengths"] = np.array(lengths, np.int64)
    names = [name if name in given else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    node = helper.make_node("Attention", names, ALL[:outputs], **attributes)
    return model_of(node, given, ALL[:outputs], opset), given


CHOICES = np.random.default_rng(0).random((2, 4, 3, 5)) > 0.3


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (6, 1)])
@pytest.mark.parametrize("attributes", [
    {}, {"is_causal": 1}, {"scale": 0.3}, {"softcap": 2.0}, {"is_causal": 1, "softcap": 2.0, "scale": 0.5},
    {"softmax_precision": 11}, {"softmax_precision": 1, "is_causal": 1},
])  # fmt: skip
def test_heads_and_attributes(flat, heads, attributes):
    check(*case(flat=flat, heads=heads, **attributes), traced=not flat)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", [
    CHOICES, CHOICES[0], CHOICES[0, 0], CHOICES[:, :1], random(2, 4, 3, 5), random(3, 5), random(4, 1, 5),
    CHOICES[..., :4], random(2, 1, 3, 2), random(5),
])  # fmt: skip
def test_masks(mask, causal):
    """The reference reads the number of queries off the mask, so it is given one with all rows."""
    rows = np.broadcast_to(mask, (*mask.shape[:-2], 3, mask.shape[-1]))
    expected = by_reference(*case(mask=rows, is_causal=causal))
    check(*case(mask=mask, is_causal=causal), expected)


@pytest.mark.parametrize("attributes", [
    {}, {"is_causal": 1}, {"softcap": 1.5, "heads": (4, 2)}, {"flat": True, "is_causal": 1},
])  # fmt: skip
def test_past_and_present(attributes):
    check(*case(outputs=3, past=4, **attributes))


@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize("attributes", [{"softcap": 2.0}, {"is_causal": 1}, {"mask": CHOICES, "heads": (4, 2)}])
def test_stages_of_the_product(mode, attributes):
    check(*case(outputs=4, qk_matmul_output_mode=mode, **attributes))


def test_the_product_is_given_as_it_is_before_the_soft_cap():
    """What the text says; the reference gives the capped product here."""
    model, given = case(outputs=4, softcap=0.5)
    expected = by_reference(model, given)
    expected[3] = given["q"] @ given["k"].swapaxes(2, 3) / np.sqrt(np.float32(6))
    check(model, given, expected)


def test_the_product_alone_is_an_output():
    model, given = case(outputs=4, qk_matmul_output_mode=3)
    expected = by_reference(model, given)
    model.graph.node[0].output[1:3] = ["", ""]
    del model.graph.output[1:3]
    check(model, given, [expected[0], expected[3]])


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("lengths", [[5, 5], [3, 5], [1, 2], [0, 4]])
def test_numbers_of_keys(lengths, causal):
    check(*case(lengths=lengths, is_causal=causal))


@pytest.mark.parametrize("left", [-1, 0, 2])
@pytest.mark.parametrize("right", [-1, 0, 1])
@pytest.mark.parametrize("further", [{}, {"is_causal": 1}, {"past": 2, "outputs": 3}, {"lengths": [4, 5]}])
def test_windows(left, right, further):
    model, given = case(opset=25, left_window_size=left, right_window_size=right, **further)
    check(model, given, traced=left == 2)


def test_queries_that_see_nothing_give_zeros():
    mask = np.ones((3, 5), bool)
    mask[1] = False
    (y,) = check(*case(mask=mask))
    assert np.all(y[:, :, 1] == 0) and np.abs(y[:, :, 0]).min() > 0


def test_a_cache_grows_in_one_recording():
    model, given = case(outputs=3, past=4, q=1, k=1, is_causal=1)
    prepared, (keys, values) = prepare(model), (given["past_key"], given["past_value"])
    for step in range(4):
        fed = {**{n: random(*given[n].shape, seed=step) for n in "qkv"}, "past_key": keys, "past_value": values}
        found = prepared.run(fed)
        for one, other in zip(found, by_reference(model, fed), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)
        keys, values = found[1:]


@pytest.mark.parametrize("attributes", [{"is_causal": 1}, {"softcap": 2.0, "heads": (4, 2)}, {"past": 2, "flat": True}])
def test_gradients(attributes):
    model, given = case(**attributes, outputs=3 if "past" in attributes else 1, v_size=2)
    wide = {name: x.astype(np.float64) for name, x in given.items()}
    check_gradients(_of_doubles(model), wide, ["q", "k", "v"])


def _of_doubles(model):
    for value in model.graph.input:
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return model


def test_flat_tensors_need_numbers_of_heads():
    model, given = case(flat=True)
    del model.graph.node[0].attribute[:]
    with pytest.raises(ModelError, match="q_num_heads"):
        ImportedModel(model)(*map(jit.tensor, given.values()))


# -- positions and caches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("part", [0, 4])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("by_position", [False, True])
def test_rotations(interleaved, part, flat, by_position):
    size = (part or 8) // 2
    x = random(2, 5, 24) if flat else random(2, 3, 5, 8)
    cache = (16, size) if by_position else (2, 5, size)
    given = {"x": x, "cos": random(*cache, seed=1), "sin": random(*cache, seed=2)}
    if by_position:
        given["positions"] = np.array([[0, 3, 4, 15, 7], [1, 2, 2, 9, 8]])
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": part} | ({"num_heads": 3} if flat else {})
    node = helper.make_node("RotaryEmbedding", list(given), ["y"], **attributes)
    check(model_of(node, given, ["y"], 23), given)


@pytest.mark.parametrize(("axis", "mode", "places"), [
    (-2, "linear", None), (-2, "linear", [1, 3]), (2, "circular", [5, 4]), (1, "linear", [0, 1]),
    (-1, "circular", [2, 3]),
])  # fmt: skip
def test_writing_into_a_cache(axis, mode, places):
    cache = random(2, 6, 6, 6)
    shape = [2, 6, 6, 6]
    shape[axis] = 3
    given = {"cache": cache, "update": random(*shape, seed=1)}
    if places is not None:
        given["places"] = np.array(places, np.int64)
    node = helper.make_node("TensorScatter", list(given), ["y"], axis=axis, mode=mode)
    check(model_of(node, given, ["y"], 24), given)


@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize(
    ("bias", "state", "steps", "size"), [(True, True, 5, 3), (False, True, 1, 4), (True, False, 4, 1)]
)
def test_causal_convolutions(activation, bias, state, steps, size):
    given = {"x": random(2, 4, steps), "w": random(4, 1, size, seed=1)}
    given |= {"b": random(4, seed=2)} if bias else {}
    given |= {"past": random(2, 4, size - 1, seed=3)} if state else {}
    names = [name if name in given else "" for name in ("x", "w", "b", "past")]
    node = helper.make_node("CausalConvWithState", names, ["y", "state"], activation=activation)
    whole = np.concatenate([given.get("past", np.zeros((2, 4, size - 1), np.float32)), given["x"]], 2)
    y = sum(whole[:, :, tap : tap + steps] * given["w"][:, 0, tap, None] for tap in range(size))
    y = y + given["b"][:, None] if bias else y
    expected = y if activation == "none" else y / (1 + np.exp(-y))
    check(model_of(node, given, ["y", "state"], 27), given, [expected, whole[:, :, steps:]])


# -- linear attention ----------------------------------------------------------------------------------------------


def _linear_attention(given, heads, rule, scale):
    """Equations of the operator's text, a step at a time."""
    (batch, steps, _), (q_heads, kv_heads) = given["q"].shape, heads
    q, k, v = (given[n].reshape(batch, steps, h, -1) for n, h in (("q", q_heads), ("k", kv_heads), ("v", kv_heads)))
    state, found = given["state"].astype(np.float64), []
    for t in range(steps):
        if "gated" in rule:
            state = state * np.exp(given["decay"][:, t].reshape(batch, kv_heads, -1, 1))
        new = v[:, t]
        if "delta" in rule:
            new = given["beta"][:, t].reshape(batch, -1, 1) * (new - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + np.einsum("bhk,bhv->bhkv", k[:, t], new)
        shared = np.repeat(state, q_heads // kv_heads, 1)
        found.append(scale * np.einsum("bhk,bhkv->bhv", q[:, t], shared).reshape(batch, -1))
    return [np.stack(found, 1).astype(np.float32), state.astype(np.float32)]


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize(("heads", "decay", "beta"), [((2, 2), 2, 2), ((4, 2), 6, 1), ((3, 1), 3, 1)])
def test_linear_attention(rule, heads, decay, beta):
    q_heads, kv_heads = heads
    given = {"q": random(2, 4, 3 * q_heads), "k": random(2, 4, 3 * kv_heads, seed=1) / 2}
    given["v"] = random(2, 4, 5 * kv_heads, seed=2)
    given |= {"state": random(2, kv_heads, 3, 5, seed=3), "decay": -np.abs(random(2, 4, decay, seed=4))}
    given["beta"] = np.abs(random(2, 4, beta, seed=5)) / 2
    attributes = {"q_num_heads": q_heads, "kv_num_heads": kv_heads, "update_rule": rule, "scale": 0.7}
    unused = {"decay"} if "gated" not in rule else set()
    unused |= {"beta"} if "delta" not in rule else set()
    names = ["" if name in unused else name for name in given]
    node = helper.make_node("LinearAttention", names, ["y", "present"], **attributes)
    fed = {name: x for name, x in given.items() if name not in unused}
    expected = _linear_attention(given, heads, rule, 0.7)
    check(model_of(node, fed, ["y", "present"], 27), fed, expected, rtol=1e-4, atol=1e-5)
