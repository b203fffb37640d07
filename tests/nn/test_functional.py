"""`jit.nn.functional` and the layers over it, against numpy and against each other."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional as F
from tests.tolerances import assert_close


def gradient(tensor: Any) -> Any:
    """The gradient that has arrived at a leaf."""
    assert tensor.grad is not None
    return tensor.grad


def draw(rng, *sizes, dtype=np.float64):
    return rng.standard_normal(sizes).astype(dtype)


def as_float64(module):
    return module.double()


def array(tensor):
    return tensor.detach().numpy()


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# -- activations -----------------------------------------------------------------------------------------------------

FORMULAS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.Tanh(), np.tanh),
    (nn.Sigmoid(), sigmoid),
    (nn.LogSigmoid(), lambda x: np.log(sigmoid(x))),
    (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.GELU(), lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
    (nn.GELU("tanh"), lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    (nn.SiLU(), lambda x: x * sigmoid(x)),
    (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.Hardswish(), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.Hardsigmoid(), lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.ELU(0.7), lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    (nn.SELU(), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    (nn.Softplus(2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (nn.Hardtanh(-0.5, 1.5), lambda x: np.clip(x, -0.5, 1.5)),
    (nn.GLU(), lambda x: x[..., :2] * sigmoid(x[..., 2:])),
    (nn.Softmax(0), lambda x: softmax(x, 0)),
    (nn.LogSoftmax(-1), lambda x: np.log(softmax(x, -1))),
    (nn.Softmin(1), lambda x: softmax(-x, 1)),
]


@pytest.mark.parametrize(("layer", "formula"), FORMULAS, ids=[repr(layer) for layer, _ in FORMULAS])
def test_activations_follow_their_formula(layer, formula, rng):
    x = draw(rng, 3, 4) * 3
    assert_close(layer(jit.tensor(x)), formula(x), rtol=1e-12, atol=1e-12)  # the formulas cancel, e.g. in x - tanh(x)


def test_prelu_scales_each_channel(rng):
    x, layer = draw(rng, 2, 3, 4), nn.PReLU(3).double()
    with jit.no_grad():
        layer.weight.copy_(jit.tensor([0.1, 0.2, 0.3]))
    slopes = array(layer.weight).reshape(1, 3, 1)
    assert_close(layer(jit.tensor(x)), np.where(x > 0, x, slopes * x))


@pytest.mark.parametrize(
    ("function", "options"),
    [
        *((F.relu, ()), (F.silu, ()), (F.leaky_relu, (0.1,)), (F.elu, (1.0,))),
        *((F.hardtanh, (-1.0, 1.0)), (F.threshold, (0.5, 0.0))),
    ],
)
def test_inplace_overwrites_and_has_the_same_gradient(function, options, rng):
    x = draw(rng, 4)
    plain, written = jit.tensor(x, requires_grad=True), jit.tensor(x, requires_grad=True)
    expected = function(plain, *options)
    target = written * 1
    assert function(target, *options, True) is target
    assert function(written * 1, *options, inplace=True).tolist() == target.tolist() == expected.tolist()
    weights = jit.tensor(draw(rng, 4))
    (expected * weights).sum().backward()
    (target * weights).sum().backward()
    assert_close(gradient(written), plain.grad)


@pytest.mark.parametrize(("sizes", "dim"), [((), 0), ((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)])
def test_softmax_without_dim_warns_and_takes_that_of_the_first_releases(sizes, dim, rng):
    x = jit.tensor(draw(rng, *sizes))
    with pytest.warns(UserWarning, match=f"softmax without dim takes dim {dim} of this {len(sizes)}-d tensor"):
        implied = F.softmax(x)
    assert implied.tolist() == F.softmax(x, dim).tolist()


def test_normalize_divides_by_the_norm(rng):
    x = draw(rng, 3, 4)
    assert_close(F.normalize(jit.tensor(x)), x / np.linalg.norm(x, axis=1, keepdims=True))
    assert F.normalize(jit.zeros(1, 2)).tolist() == [[0, 0]]


def test_gumbel_softmax_draws_distributions(rng):
    logits = jit.tensor(draw(rng, 5, 3), requires_grad=True)
    assert_close(F.gumbel_softmax(logits).sum(1), np.ones(5))
    hard = F.gumbel_softmax(logits, hard=True)
    assert sorted(set(np.round(array(hard), 12).ravel().tolist())) == [0, 1]
    hard.pow(2).sum().backward()
    assert gradient(logits).abs().sum().item() > 0


# -- dropout ---------------------------------------------------------------------------------------------------------


def test_dropout_zeroes_a_share_and_scales_the_rest():
    x = jit.ones(100, 100)
    y = array(F.dropout(x, 0.2))
    assert set(np.unique(y).tolist()) == {0.0, np.float32(1.25)}
    assert (y == 0).mean() == pytest.approx(0.2, abs=0.02)
    assert F.dropout(x, 0.2, training=False).tolist() == x.tolist()
    assert F.dropout(x, 1.0).sum().item() == 0
    assert nn.Dropout(0.2).eval()(x).tolist() == x.tolist()


def test_dropout_passes_the_gradient_of_what_it_kept():
    x = jit.ones(50, requires_grad=True)
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert gradient(x).tolist() == y.tolist()


def test_dropout_repeats_with_the_seed():
    first, again = (F.dropout(jit.ones(20)).tolist() for _ in range(2) if jit.manual_seed(5))
    assert first == again != F.dropout(jit.ones(20)).tolist()


def test_dropout_in_place():
    x = jit.ones(20)
    assert F.dropout(x, 0.5, inplace=True) is x
    assert set(x.tolist()) == {0, 2}


def test_channel_dropout_keeps_or_drops_whole_channels():
    y = array(nn.Dropout2d(0.5)(jit.ones(8, 8, 3, 3))).reshape(64, 9)
    assert (y == y[:, :1]).all() and set(np.unique(y).tolist()) == {0, 2}
    with pytest.raises(jit.Error, match="dropout2d takes 3-d or 4-d inputs"):
        F.dropout2d(jit.ones(3))


@pytest.mark.parametrize(
    ("drop", "sizes"), [(F.dropout2d, (32, 4, 9)), (F.dropout3d, (16, 8, 9)), (F.dropout2d, (8, 16))]
)
def test_channel_dropout_of_other_inputs_takes_them_for_a_batch_with_channels(drop, sizes):
    with pytest.warns(UserWarning, match="for one of a batch and channels"):
        y = array(drop(jit.ones(sizes), 0.5)).reshape(128, -1)
    assert (y == y[:, :1]).all() and set(np.unique(y[:, 0]).tolist()) == {0, 2}


@pytest.mark.parametrize("act", [lambda: F.dropout(jit.ones(1), 1.5), lambda: nn.Dropout(-0.1)])
def test_a_probability_is_one(act):
    with pytest.raises(jit.Error, match="between 0 and 1"):
        act()


# -- linear layers and look-up ---------------------------------------------------------------------------------------


def test_linear_and_bilinear(rng):
    x, y = draw(rng, 5, 3), draw(rng, 5, 4)
    layer, both = as_float64(nn.Linear(3, 2)), as_float64(nn.Bilinear(3, 4, 2))
    assert_close(layer(jit.tensor(x)), x @ array(layer.weight).T + array(layer.bias))
    expected = np.einsum("ni,oij,nj->no", x, array(both.weight), y) + array(both.bias)
    assert_close(both(jit.tensor(x), jit.tensor(y)), expected)


def test_embedding_looks_rows_up_and_spares_the_padding():
    layer = nn.Embedding(5, 2, padding_idx=1)
    assert layer.weight[1].tolist() == [0, 0]
    index = jit.tensor([[0, 1], [4, 4]])
    result = layer(index)
    assert result.tolist() == array(layer.weight)[index.numpy()].tolist()
    result.sum().backward()
    assert gradient(layer.weight).tolist() == [[1, 1], [0, 0], [0, 0], [0, 0], [2, 2]]
    frozen = nn.Embedding.from_pretrained(jit.eye(3))
    assert frozen(jit.tensor([2])).tolist() == [[0, 0, 1]] and not frozen.weight.requires_grad
    with pytest.raises(jit.Error, match="padding_idx is 7, but the table has 5 rows"):
        nn.Embedding(5, 2, padding_idx=7)


# -- convolution and pooling -----------------------------------------------------------------------------------------


def windows(x, kernel, stride):
    """x[..., H, W] as [..., H', W', k, k]."""
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (-2, -1))[..., ::stride, ::stride, :, :]


def test_conv2d(rng):
    x, layer = draw(rng, 2, 3, 7, 6), as_float64(nn.Conv2d(3, 4, 3, stride=2, padding=1))
    patches = windows(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), 3, 2)
    expected = np.einsum("nchwij,ocij->nohw", patches, array(layer.weight)) + array(layer.bias)[:, None, None]
    assert_close(layer(jit.tensor(x)), expected, rtol=1e-12, atol=1e-12)  # sums of 27 products


@pytest.mark.parametrize(("mode", "numpy_mode"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_convolution_pads_in_other_ways(mode, numpy_mode, rng):
    x, layer = draw(rng, 1, 2, 5, 5), as_float64(nn.Conv2d(2, 3, 3, padding=1, padding_mode=mode))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), numpy_mode)
    expected = F.conv2d(jit.tensor(padded), layer.weight, layer.bias)
    assert_close(layer(jit.tensor(x)), expected)


def test_convolution_keeps_sizes_when_asked(rng):
    x = jit.tensor(draw(rng, 1, 2, 8, dtype=np.float32))
    assert nn.Conv1d(2, 3, 4, padding="same", dilation=2)(x).shape == (1, 3, 8)
    assert nn.Conv1d(2, 3, 4, padding="same", padding_mode="circular")(x).shape == (1, 3, 8)


def test_a_transposed_convolution_is_the_gradient_of_the_convolution(rng):
    weight, y = draw(rng, 4, 3, 3, 3), draw(rng, 2, 4, 3, 3)
    layer = as_float64(nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, bias=False))
    with jit.no_grad():
        layer.weight.copy_(jit.tensor(weight))
    x = jit.zeros(2, 3, 6, 6, dtype=jit.float64, requires_grad=True)
    (F.conv2d(x, jit.tensor(weight), stride=2, padding=1) * jit.tensor(y)).sum().backward()
    assert_close(layer(jit.tensor(y), output_size=(6, 6)), gradient(x), rtol=1e-12, atol=1e-12)  # another order of sums
    with pytest.raises(jit.Error, match=r"output_size \[9, 9\] cannot be reached: .* between \[5, 5\] and \[6, 6\]"):
        layer(jit.tensor(y), output_size=(9, 9))


def test_convolutions_refuse_channels_that_do_not_divide():
    with pytest.raises(jit.Error, match="3 and 4 channels do not divide into 2 groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(jit.Error, match="padding_mode is 'mirror'"):
        nn.Conv2d(2, 2, 3, padding_mode="mirror")


def test_pooling(rng):
    x = draw(rng, 2, 3, 6, 6)
    tensor, patches = jit.tensor(x), windows(x, 2, 2)
    assert_close(nn.MaxPool2d(2)(tensor), patches.max((-2, -1)))
    assert_close(nn.AvgPool2d(2)(tensor), patches.mean((-2, -1)))
    assert_close(nn.AdaptiveAvgPool2d(3)(tensor), patches.mean((-2, -1)))
    assert_close(nn.AdaptiveAvgPool2d((None, 1))(tensor), x.mean(-1, keepdims=True))
    assert_close(F.max_pool2d(tensor, 3, stride=1), windows(x, 3, 1).max((-2, -1)))
    assert_close(nn.MaxPool1d(2)(tensor[0]), x[0].reshape(3, 6, 3, 2).max(-1))


def test_max_pooling_tells_where(rng):
    x = draw(rng, 1, 2, 4, 4)
    largest, where = F.max_pool2d(jit.tensor(x), 2, return_indices=True)
    assert where.dtype is jit.int64
    found = np.take_along_axis(x.reshape(2, 16), where.numpy().reshape(2, 4), 1)
    assert found.ravel().tolist() == array(largest).ravel().tolist()
    largest, where = F.adaptive_max_pool2d(jit.tensor(x), 1, return_indices=True)
    assert where.numpy().ravel().tolist() == x.reshape(2, 16).argmax(1).tolist()
    assert F.adaptive_max_pool2d(jit.tensor(x), 1).tolist() == largest.tolist()


# -- norms -----------------------------------------------------------------------------------------------------------


def normalised(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize(
    ("kind", "sizes"), [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm1d, (4, 3, 2)), (nn.BatchNorm2d, (4, 3, 2, 2))]
)
def test_batch_norm_learns_statistics_and_uses_them(kind, sizes, rng):
    x, layer = draw(rng, *sizes), as_float64(kind(3))
    axes = (0, *range(2, len(sizes)))
    assert_close(layer(jit.tensor(x)), normalised(x, axes), rtol=1e-12, atol=1e-12)  # sums in another order
    assert_close(layer.running_mean, 0.1 * x.mean(axes))
    assert_close(layer.running_var, 0.9 + 0.1 * x.var(axes, ddof=1), rtol=1e-12)  # from 1 / sqrt(var + eps)
    assert layer.num_batches_tracked.item() == 1
    column = (1, 3, *(1,) * (len(sizes) - 2))
    mean, var = array(layer.running_mean).reshape(column), array(layer.running_var).reshape(column)
    assert_close(layer.eval()(jit.tensor(x)), (x - mean) / np.sqrt(var + 1e-5), rtol=1e-12, atol=1e-12)
    assert layer.num_batches_tracked.item() == 1


def test_batch_norm_without_momentum_averages_over_all_batches(rng):
    layer, batches = as_float64(nn.BatchNorm1d(2, momentum=None)), draw(rng, 4, 5, 2)
    for batch in batches:
        layer(jit.tensor(batch))
    assert_close(layer.running_mean, batches.mean((0, 1)))
    traced = jit.trace(as_float64(nn.BatchNorm1d(2, momentum=None)))
    for batch in batches:
        traced(jit.tensor(batch))
    assert_close(traced.running_mean, batches.mean((0, 1)))
    assert (traced.misses, traced.hits) == (1, 3)


def test_batch_norm_without_statistics_uses_each_batch(rng):
    x, layer = draw(rng, 5, 2), as_float64(nn.BatchNorm1d(2, track_running_stats=False, affine=False).eval())
    assert_close(layer(jit.tensor(x)), normalised(x, 0), rtol=1e-12, atol=1e-12)
    assert not layer.state_dict()


def test_batch_norm_backward_may_follow_a_later_forward(rng):
    layer, x = nn.BatchNorm1d(2), jit.tensor(draw(rng, 5, 2, dtype=np.float32), requires_grad=True)
    loss = (layer(x) ** 3).sum()
    layer(x)
    loss.backward()
    assert gradient(x).shape == (5, 2)


def test_norms_of_samples(rng):
    x = draw(rng, 3, 4, 5)
    assert_close(as_float64(nn.LayerNorm(5))(jit.tensor(x)), normalised(x, 2), rtol=1e-12, atol=1e-12)
    layer = as_float64(nn.LayerNorm((4, 5), bias=False))
    assert_close(layer(jit.tensor(x)), normalised(x, (1, 2)), rtol=1e-12, atol=1e-12)
    grouped = normalised(x.reshape(3, 2, 10), 2).reshape(3, 4, 5)
    assert_close(as_float64(nn.GroupNorm(2, 4))(jit.tensor(x)), grouped, rtol=1e-12, atol=1e-12)
    assert_close(nn.InstanceNorm1d(4)(jit.tensor(x)), normalised(x, 2), rtol=1e-12, atol=1e-12)


def test_norms_refuse_what_does_not_fit():
    with pytest.raises(jit.Error, match=r"BatchNorm2d takes 4-d inputs, and this one has sizes \[2, 3\]"):
        nn.BatchNorm2d(3)(jit.zeros(2, 3))
    with pytest.raises(jit.Error, match="5 channels do not divide into 2 groups"):
        nn.GroupNorm(2, 5)
    with pytest.raises(jit.Error, match="needs running_mean and running_var"):
        F.batch_norm(jit.zeros(2, 3), None, None)


# -- recurrent cells -------------------------------------------------------------------------------------------------


def maps(cell, x, h):
    """The two linear maps of a cell, in numpy."""
    weights = (array(p) for p in (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh))
    w_ih, w_hh, b_ih, b_hh = weights
    return x @ w_ih.T + b_ih, h @ w_hh.T + b_hh


def test_recurrent_cells_follow_their_formulas(rng):
    x, h, c = draw(rng, 2, 3), draw(rng, 2, 4), draw(rng, 2, 4)
    tensors = [jit.tensor(value) for value in (x, h, c)]
    plain = as_float64(nn.RNNCell(3, 4))
    assert_close(plain(*tensors[:2]), np.tanh(sum(maps(plain, x, h))), rtol=1e-13)
    lstm = as_float64(nn.LSTMCell(3, 4))
    i, f, g, o = np.split(sum(maps(lstm, x, h)), 4, 1)
    cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    hidden, carried = lstm(tensors[0], (tensors[1], tensors[2]))
    assert_close(carried, cell, rtol=1e-13)
    assert_close(hidden, sigmoid(o) * np.tanh(cell), rtol=1e-13)
    gru = as_float64(nn.GRUCell(3, 4))
    (r_x, z_x, n_x), (r_h, z_h, n_h) = (np.split(part, 3, 1) for part in maps(gru, x, h))
    z = sigmoid(z_x + z_h)
    expected = (1 - z) * np.tanh(n_x + sigmoid(r_x + r_h) * n_h) + z * h
    assert_close(gru(*tensors[:2]), expected, rtol=1e-13, atol=1e-13)


def test_recurrent_cells_start_from_zeros(rng):
    x = jit.tensor(draw(rng, 2, 3, dtype=np.float32))
    lstm, gru, relu = nn.LSTMCell(3, 4, bias=False), nn.GRUCell(3, 4), nn.RNNCell(3, 4, nonlinearity="relu")
    zeros = jit.zeros(2, 4)
    assert lstm(x)[0].tolist() == lstm(x, (zeros, zeros))[0].tolist()
    assert gru(x).tolist() == gru(x, zeros).tolist()
    assert relu(x).min().item() >= 0
    assert len(list(lstm.parameters())) == 2
    with pytest.raises(jit.Error, match="nonlinearity is 'gelu'"):
        nn.RNNCell(3, 4, nonlinearity="gelu")


# -- losses ----------------------------------------------------------------------------------------------------------


def reduced(values, reduction):
    return {"none": values, "mean": values.mean(), "sum": values.sum()}[reduction]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_two_tensors(reduction, rng):
    x, y = draw(rng, 4, 3), draw(rng, 4, 3)
    p, q = sigmoid(x), sigmoid(y)
    far = np.abs(x - y)
    cases = [
        (nn.L1Loss(reduction=reduction), x, y, far),
        (nn.MSELoss(reduction=reduction), x, y, far**2),
        (nn.SmoothL1Loss(reduction=reduction, beta=0.5), x, y, np.where(far < 0.5, far**2, far - 0.25)),
        (nn.HuberLoss(reduction=reduction, delta=0.5), x, y, np.where(far < 0.5, far**2 / 2, 0.5 * (far - 0.25))),
        (nn.BCELoss(reduction=reduction), p, q, -(q * np.log(p) + (1 - q) * np.log(1 - p))),
        (nn.BCEWithLogitsLoss(reduction=reduction), x, q, -(q * np.log(p) + (1 - q) * np.log(1 - p))),
        (nn.KLDivLoss(reduction=reduction), np.log(p), q, q * (np.log(q) - np.log(p))),
    ]
    for loss, a, b, expected in cases:
        actual = loss(jit.tensor(a), jit.tensor(b))
        assert_close(actual, np.asarray(reduced(expected, reduction)), rtol=1e-12, atol=1e-12, message=repr(loss))


def cross_entropy(x, target, weight, ignore, smoothing=0.0):
    """(loss per sample, weight per sample) as documented."""
    logs = np.log(softmax(x, 1))
    kept = target != ignore
    safe = np.where(kept, target, 0)
    chosen = -logs[np.arange(len(x)), safe] * weight[safe]
    even = -(logs * weight).sum(1) / x.shape[1]
    return np.where(kept, (1 - smoothing) * chosen + smoothing * even, 0), np.where(kept, weight[safe], 0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy(reduction, smoothing, rng):
    x, target, weight = draw(rng, 5, 3), np.array([0, 2, 1, -1, 2]), np.array([0.5, 1.0, 2.0])
    losses, weights = cross_entropy(x, target, weight, -1, smoothing)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / weights.sum()}[reduction]
    loss = nn.CrossEntropyLoss(jit.tensor(weight), ignore_index=-1, reduction=reduction, label_smoothing=smoothing)
    assert_close(loss(jit.tensor(x), jit.tensor(target)), np.asarray(expected), rtol=1e-12, atol=1e-12)
    if not smoothing:
        likelihood = nn.NLLLoss(jit.tensor(weight), ignore_index=-1, reduction=reduction)
        logs = jit.tensor(np.log(softmax(x, 1)))
        assert_close(likelihood(logs, jit.tensor(target)), np.asarray(expected), rtol=1e-12, atol=1e-12)


def test_cross_entropy_of_images_and_of_probabilities(rng):
    x, target = draw(rng, 2, 3, 4), rng.integers(0, 3, (2, 4))
    flat, _ = cross_entropy(x.transpose(0, 2, 1).reshape(8, 3), target.reshape(8), np.ones(3), -100)
    assert_close(F.cross_entropy(jit.tensor(x), jit.tensor(target)), np.asarray(flat.mean()), rtol=1e-12)
    shares = softmax(draw(rng, 2, 3), 1)
    expected = -(shares * np.log(softmax(x[:, :, 0], 1))).sum(1).mean()
    assert_close(F.cross_entropy(jit.tensor(x[:, :, 0]), jit.tensor(shares)), np.asarray(expected), rtol=1e-12)


def test_cross_entropy_gradient_is_probability_minus_truth(rng):
    x, target = draw(rng, 4, 3), np.array([0, 2, 1, 2])
    logits = jit.tensor(x, requires_grad=True)
    F.cross_entropy(logits, jit.tensor(target)).backward()
    assert_close(gradient(logits), (softmax(x, 1) - np.eye(3)[target]) / 4, rtol=1e-12, atol=1e-12)


def test_the_flags_of_the_first_releases_still_mean_what_they_did(rng):
    x, y = jit.tensor(draw(rng, 4)), jit.tensor(draw(rng, 4))
    assert nn.MSELoss(size_average=False)(x, y).item() == F.mse_loss(x, y, reduction="sum").item()
    assert nn.MSELoss(reduce=False)(x, y).tolist() == F.mse_loss(x, y, reduction="none").tolist()
    assert F.mse_loss(x, y, True).item() == F.mse_loss(x, y).item()
    for act in (lambda: F.mse_loss(x, y, reduction="median"), lambda: nn.MSELoss(reduction="median")):
        with pytest.raises(jit.Error, match="reduction is 'median'; it must be 'none', 'mean' or 'sum'"):
            act()


def test_batchmean_divides_by_the_batch(rng):
    x, y = jit.tensor(draw(rng, 4, 3)), jit.tensor(softmax(draw(rng, 4, 3), 1))
    expected = F.kl_div(x, y, reduction="sum").item() / 4
    assert F.kl_div(x, y, reduction="batchmean").item() == pytest.approx(expected)


def test_positive_targets_may_weigh_more(rng):
    x, y = draw(rng, 4), np.array([0.0, 1.0, 1.0, 0.0])
    p = sigmoid(x)
    expected = -(3 * y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    loss = nn.BCEWithLogitsLoss(pos_weight=jit.tensor(3.0, dtype=jit.float64))
    assert_close(loss(jit.tensor(x), jit.tensor(y)), np.asarray(expected), rtol=1e-12)
    assert list(loss.state_dict()) == ["pos_weight"]


# -- shapes ----------------------------------------------------------------------------------------------------------


def test_layers_that_reshape(rng):
    x = jit.tensor(draw(rng, 2, 12, 2, 2))
    assert nn.Flatten()(x).shape == (2, 48)
    assert nn.Unflatten(1, (3, 4))(x).shape == (2, 3, 4, 2, 2)
    assert nn.PixelShuffle(2)(x).shape == (2, 3, 4, 4)
    assert nn.Identity("ignored", also=1)(x) is x


def test_what_does_not_exist_is_named():
    with pytest.raises(AttributeError, match=r"jit\.nn\.functional' has no attribute 'convolve'"):
        _ = F.convolve


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.softmax(jit.zeros(2, 2), 1)
        F.log_softmax(jit.full((2, 2), -1e30), 1)
