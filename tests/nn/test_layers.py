"""Layers that pad, pool, fold, resize, look up and normalise, place by place in numpy; and all of them traced."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional as F
from tests.tolerances import assert_close


def draw(rng: Any, *sizes: int, dtype: Any = np.float64) -> Any:
    return rng.standard_normal(sizes).astype(dtype)


# -- activations -------------------------------------------------------------------------------------------------------

ACTIVATIONS = [
    (nn.CELU(0.7), lambda x: np.maximum(x, 0) + np.minimum(0.7 * np.expm1(x / 0.7), 0)),
    (nn.Hardshrink(0.6), lambda x: np.where(np.abs(x) > 0.6, x, 0)),
    (nn.Softshrink(0.6), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.6, 0)),
    (nn.Threshold(0.2, 9.0), lambda x: np.where(x > 0.2, x, 9)),
    (nn.RReLU(0.1, 0.3).eval(), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.Softmax2d(), lambda x: np.exp(x) / np.exp(x).sum(-3, keepdims=True)),
]


@pytest.mark.parametrize(("layer", "formula"), ACTIVATIONS, ids=[repr(layer) for layer, _ in ACTIVATIONS])
def test_activations_follow_their_formula(layer, formula, rng):
    x = draw(rng, 2, 3, 4)
    assert_close(layer(jit.tensor(x)), formula(x), rtol=1e-13, atol=1e-14)


def test_rrelu_draws_slopes_while_training(rng):
    x = -np.abs(draw(rng, 1000))
    slopes = nn.RReLU(0.1, 0.3)(jit.tensor(x)).numpy() / x
    assert 0.1 <= slopes.min() < 0.12 and 0.28 < slopes.max() <= 0.3


# -- padding -----------------------------------------------------------------------------------------------------------

MODES: dict[str, Any] = {
    "ReflectionPad": "reflect",
    "ReplicationPad": "edge",
    "CircularPad": "wrap",
    "ZeroPad": "constant",
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", MODES)
def test_padding_is_that_of_numpy(kind, rank, rng):
    x = draw(rng, 2, 3, *(4,) * rank)
    amounts = [1, 2, 3, 0, 2, 1][: 2 * rank]
    pairs = [(amounts[2 * i], amounts[2 * i + 1]) for i in range(rank)][::-1]
    got = getattr(nn, f"{kind}{rank}d")(tuple(amounts))(jit.tensor(x))
    assert_close(got, np.pad(x, [(0, 0), (0, 0), *pairs], mode=MODES[kind]))
    assert getattr(nn, f"{kind}{rank}d")(1).padding == (1,) * (2 * rank)


def test_padding_by_a_constant(rng):
    x = draw(rng, 3, 4)
    assert_close(nn.ConstantPad2d((1, 0, 0, 2), 7.0)(jit.tensor(x)), np.pad(x, [(0, 2), (1, 0)], constant_values=7))
    with pytest.raises(jit.Error, match="got 3 numbers; pass one, or 4"):
        nn.ConstantPad2d((1, 2, 3), 0.0)


# -- pooling -----------------------------------------------------------------------------------------------------------


def windows(x, rank, size, step):
    """Every window over the last dims, in the order of the result."""
    counts = [(n - size) // step + 1 for n in x.shape[-rank:]]
    for place in itertools.product(*map(range, counts)):
        at = tuple(slice(p * step, p * step + size) for p in place)
        yield x[(..., *at)].reshape(*x.shape[:-rank], -1), counts


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_lp_pooling_takes_norms(rank, rng):
    x = np.abs(draw(rng, 2, 3, *(5,) * rank))
    parts = list(windows(x, rank, 2, 2))
    want = np.stack([(part**3).sum(-1) ** (1 / 3) for part, _ in parts], -1).reshape(2, 3, *parts[0][1])
    assert_close(getattr(nn, f"LPPool{rank}d")(3, 2)(jit.tensor(x)), want, rtol=1e-13)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_undoes_pooling(rank, rng):
    x = jit.tensor(draw(rng, 2, 3, *(4,) * rank))
    pooled, places = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{rank}d")(2)(pooled, places)
    assert back.shape == x.shape
    assert_close(getattr(nn, f"MaxPool{rank}d")(2)(back), F.relu(pooled))
    assert int((back != 0).sum()) == pooled.numel()


def test_unpooling_to_a_size_that_was_asked_for(rng):
    x = jit.tensor(draw(rng, 1, 1, 5))
    pooled, places = F.max_pool1d(x, 2, return_indices=True)
    assert F.max_unpool1d(pooled, places, 2).shape == (1, 1, 4)
    assert F.max_unpool1d(pooled, places, 2, output_size=x.shape).shape == (1, 1, 5)
    with pytest.raises(jit.Error, match="an output of sizes \\[9\\] is not pooled to"):
        F.max_unpool1d(pooled, places, 2, output_size=[9])
    with pytest.raises(jit.Error, match="a place lies outside"):
        F.max_unpool1d(pooled, places + 10, 2)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_pooling_gives_places_too(rank, rng):
    x = draw(rng, 2, *(4,) * rank)
    values, places = getattr(nn, f"AdaptiveMaxPool{rank}d")(2, return_indices=True)(jit.tensor(x))
    assert_close(values, getattr(nn, f"MaxPool{rank}d")(2)(jit.tensor(x)))
    flat = x.reshape(2, -1)
    assert_close(values, np.take_along_axis(flat, places.numpy().reshape(2, -1), 1).reshape(values.shape))


# -- the same elements elsewhere ---------------------------------------------------------------------------------------


def test_pixels_and_channels_are_moved(rng):
    x = draw(rng, 2, 8, 3, 2)
    shuffled = nn.PixelShuffle(2)(jit.tensor(x))
    assert_close(nn.PixelUnshuffle(2)(shuffled), x)
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    assert_close(nn.ChannelShuffle(2)(jit.tensor(x)), x[:, order])
    with pytest.raises(jit.Error, match="3 groups do not fit"):
        nn.ChannelShuffle(3)(jit.tensor(x))


def test_folding_counts_how_often_a_place_was_unfolded(rng):
    x = draw(rng, 2, 3, 4, 5)
    columns = nn.Unfold(2)(jit.tensor(x))
    assert columns.shape == (2, 12, 12)
    times = np.outer([1, 2, 2, 1], [1, 2, 2, 2, 1])
    assert_close(nn.Fold((4, 5), 2)(columns), x * times)


def test_upsampling(rng):
    x = draw(rng, 1, 2, 3, 4)
    assert_close(nn.Upsample(scale_factor=2)(jit.tensor(x)), x.repeat(2, 2).repeat(2, 3))
    assert_close(nn.UpsamplingNearest2d((6, 8))(jit.tensor(x)), x.repeat(2, 2).repeat(2, 3))
    bilinear = nn.UpsamplingBilinear2d((5, 7))(jit.tensor(x))
    assert_close(bilinear[:, :, ::2, ::2], x, rtol=1e-13)
    assert_close(bilinear[:, :, 1::2, ::2], (x[:, :, 1:] + x[:, :, :-1]) / 2, rtol=1e-13, atol=1e-14)


# -- norms and distances -----------------------------------------------------------------------------------------------


def test_rms_norm_divides_by_the_root_mean_square(rng):
    x, layer = draw(rng, 2, 3, 4), nn.RMSNorm((3, 4), eps=0.1).double()
    with jit.no_grad():
        layer.weight.copy_(jit.tensor(draw(rng, 3, 4)))
    want = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 0.1) * layer.weight.detach().numpy()
    assert_close(layer(jit.tensor(x)), want, rtol=1e-13)
    assert list(layer.state_dict()) == ["weight"] and not nn.RMSNorm(4, elementwise_affine=False).state_dict()


def test_local_response_norm_looks_at_neighbours(rng):
    x = draw(rng, 2, 5, 3)
    padded = np.pad(x * x, [(0, 0), (1, 1), (0, 0)])
    means = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    assert_close(nn.LocalResponseNorm(3, 0.5, 0.75, 2.0)(jit.tensor(x)), x / (2 + 0.5 * means) ** 0.75, rtol=1e-13)


def test_distances(rng):
    x, y = draw(rng, 3, 4), draw(rng, 3, 4)
    cosine = (x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    assert_close(nn.CosineSimilarity()(jit.tensor(x), jit.tensor(y)), cosine, rtol=1e-13, atol=1e-14)
    distance = (np.abs(x - y + 1e-6) ** 3).sum(1) ** (1 / 3)
    assert_close(nn.PairwiseDistance(3.0)(jit.tensor(x), jit.tensor(y)), distance, rtol=1e-13)


# -- look-up -----------------------------------------------------------------------------------------------------------


def test_long_rows_are_scaled_where_they_are_looked_up():
    layer = nn.Embedding(4, 2, max_norm=1.0, _weight=jit.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0], [1.0, 1.0]]))
    out = layer(jit.tensor([0, 1]))
    assert_close(out, np.array([[0.6, 0.8], [0.3, 0.4]], np.float32), rtol=1e-6)
    assert_close(layer.weight[2:], np.array([[6, 8], [1, 1]], np.float32))


def test_gradients_of_rows(rng):
    indices = jit.tensor([1, 2, 2, 0])
    for options, scale in (({}, [1, 1, 2, 0]), ({"scale_grad_by_freq": True}, [1, 1, 1, 0])):
        layer = nn.Embedding(4, 2, padding_idx=-4, **options)
        assert layer.weight[0].tolist() == [0.0, 0.0] and layer.padding_idx == 0
        layer(indices).sum().backward()
        expected = np.repeat([[0], [scale[1]], [scale[2]], [0]], 2, 1)
        assert_close(layer.weight.grad, expected.astype(np.float32))


@pytest.mark.parametrize(("mode", "reduce"), [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
def test_bags_reduce_rows(mode, reduce, rng):
    table = draw(rng, 6, 3)
    layer = nn.EmbeddingBag.from_pretrained(jit.tensor(table), mode=mode, padding_idx=5)
    assert not layer.weight.requires_grad
    indices, offsets = [1, 2, 5, 0, 3], [0, 3]
    want = np.stack([reduce(table[[1, 2]], axis=0), reduce(table[[0, 3]], axis=0)])
    assert_close(layer(jit.tensor(indices), jit.tensor(offsets)), want, rtol=1e-14)
    square = [[1, 2, 5], [0, 3, 5]]
    assert_close(layer(jit.tensor(square)), want, rtol=1e-14)


def test_bags_weigh_their_rows(rng):
    table, weights = draw(rng, 6, 3), draw(rng, 2, 2)
    layer = nn.EmbeddingBag(6, 3, mode="sum", _weight=jit.tensor(table))
    want = np.einsum("bi,bid->bd", weights, table[[[1, 2], [0, 3]]])
    assert_close(layer(jit.tensor([[1, 2], [0, 3]]), per_sample_weights=jit.tensor(weights)), want, rtol=1e-13)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Embedding(4, 2, padding_idx=4), "padding_idx is 4, but the table has 4 rows"),
        (
            lambda: nn.Embedding(4, 2, _weight=jit.zeros(3, 2)),
            r"sizes \[4, 2\] was asked for, and one of sizes \[3, 2\]",
        ),
        (lambda: nn.EmbeddingBag(4, 2, mode="prod"), "mode is 'prod'"),
        (lambda: nn.Embedding.from_pretrained(jit.zeros(3)), "a table has 2 dims"),
        (lambda: nn.EmbeddingBag(4, 2)(jit.tensor([1, 2])), "need offsets"),
        (lambda: nn.MaxUnpool2d(2)(jit.zeros(2, 2), jit.zeros(2, 2, dtype=jit.int64)), "takes 3 or 4 dims"),
        (lambda: nn.Softmax2d()(jit.zeros(2, 2)), "Softmax2d takes inputs of 3 or 4 dims"),
    ],
)
def test_misuse_is_named(make, message):
    with pytest.raises(jit.Error, match=message):
        make()


# -- dropout -----------------------------------------------------------------------------------------------------------


def test_alpha_dropout_keeps_mean_and_variance():
    x = jit.randn(200, 100, dtype=jit.float64)
    for layer in (nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)):
        dropped = layer(x).numpy()
        assert abs(dropped.mean()) < 0.05 and abs(dropped.var() - 1) < 0.1
        assert layer.eval()(x).tolist() == x.tolist()
    rows = nn.FeatureAlphaDropout(0.5)(jit.randn(4, 8, 5)).numpy()
    constant = (rows == rows[..., :1]).all(-1)
    assert 0 < constant.sum() < 32


# -- parameters in containers ------------------------------------------------------------------------------------------


def test_a_list_of_parameters():
    listed = nn.ParameterList([jit.zeros(2), nn.Parameter(jit.ones(1))])
    listed += [jit.ones(3)]
    assert [tuple(p.shape) for p in listed] == [(2,), (1,), (3,)] and len(listed[1:]) == 2
    listed[-1] = jit.zeros(5)
    assert list(listed.state_dict()) == ["0", "1", "2"] and listed[2].shape == (5,)
    assert listed.pop(0).shape == (2,) and len(list(listed.parameters())) == 2
    with pytest.raises(IndexError, match="holds 2 parameters"):
        listed[2]


def test_a_dictionary_of_parameters():
    held = nn.ParameterDict({"a": jit.zeros(2), "b": jit.ones(1)})
    held["note"] = "kept, not learned"
    assert list(held) == ["a", "b", "note"] and [n for n, _ in held.named_parameters()] == ["a", "b"]
    assert held.pop("a").shape == (2,) and "a" not in held and held.get("a") is None
    assert held.copy()["b"] is held["b"] and held.setdefault("c", jit.zeros(1)).requires_grad
    del held["b"]
    assert list(held.state_dict()) == ["c"]
    with pytest.raises(jit.Error, match="cannot name a parameter"):
        held["x.y"] = jit.zeros(1)


# -- traced ------------------------------------------------------------------------------------------------------------

IMAGE = (2, 4, 6, 6)
TRACED = [
    (nn.CELU(), IMAGE), (nn.Softshrink(), IMAGE), (nn.Softmax2d(), IMAGE), (nn.ReflectionPad2d(2), IMAGE),
    (nn.CircularPad2d((1, 2, 0, 1)), IMAGE), (nn.ZeroPad2d(1), IMAGE), (nn.LPPool2d(2, 2), IMAGE),
    (nn.AdaptiveMaxPool2d(3), IMAGE), (nn.PixelUnshuffle(2), IMAGE), (nn.ChannelShuffle(2), IMAGE),
    (nn.Unfold(3, padding=1), IMAGE), (nn.Fold((4, 5), 2), (2, 8, 12)), (nn.Upsample(scale_factor=2), IMAGE),
    (nn.UpsamplingBilinear2d(scale_factor=2), IMAGE), (nn.RMSNorm(6), IMAGE), (nn.LocalResponseNorm(3), IMAGE),
    (nn.RReLU(), IMAGE), (nn.AlphaDropout(), IMAGE), (nn.FeatureAlphaDropout(), IMAGE),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "sizes"), TRACED, ids=[type(layer).__name__ for layer, _ in TRACED])
def test_traced_layers_are_eager_ones_through_a_backward(layer, sizes, rng):
    x = jit.tensor(draw(rng, *sizes, dtype=np.float32), requires_grad=True)
    jit.verify(layer, (x,), loss_fn=lambda y: (y * y).sum())


def test_a_traced_unpooling(rng):
    def through(x):
        pooled, places = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(pooled, places, 2)

    jit.verify(through, (jit.tensor(draw(rng, 1, 2, 4, 4), requires_grad=True),), loss_fn=lambda y: (y * y).sum())


def test_traced_bags(rng):
    layer = nn.EmbeddingBag(6, 3)
    jit.verify(layer, (jit.tensor([[1, 2], [0, 3]]),), loss_fn=lambda y: (y * y).sum())


EXPORTED = [case for case in TRACED if "Dropout" not in type(case[0]).__name__ and not isinstance(case[0], nn.RReLU)]


@pytest.mark.parametrize(("layer", "sizes"), EXPORTED, ids=[type(layer).__name__ for layer, _ in EXPORTED])
def test_layers_export(layer, sizes, rng, tmp_path):
    pytest.importorskip("onnxruntime")
    x = jit.tensor(draw(rng, *sizes, dtype=np.float32))
    jit.export_onnx(layer, (x,), tmp_path / "model.onnx")


def test_the_bound_of_selu_is_what_it_says():
    assert math.isclose(-1.7580993408473766, jit.nn.functional.selu(jit.tensor(-50.0, dtype=jit.float64)).item())
