"""Max pooling with windows at random places, and the softmax of clusters."""

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn import functional
from tests.tolerances import assert_close


def starts(u, entries, kernel, windows):
    """Where the windows begin, as Note [Windows of random steps] says."""
    if windows == 1:
        return [entries - kernel]
    step = (entries - kernel) / (windows - 1)
    return [int((i + u) * step) - int(u * step) for i in range(windows - 1)] + [entries - kernel]


@pytest.mark.parametrize("batched", [True, False])
def test_two_dims(batched):
    x, drawn = jit.randn(2, 3, 9, 7, dtype=jit.float64), jit.rand(2, 3, 2, dtype=jit.float64)
    x, drawn = (x, drawn) if batched else (x[0], drawn[:1])
    found, places = functional.fractional_max_pool2d(x, (3, 2), (4, 3), return_indices=True, _random_samples=drawn)
    image = x.numpy().reshape(-1, 9, 7)
    for plane, (u, v), values, where in zip(
        image,
        drawn.numpy().reshape(-1, 2),
        found.numpy().reshape(-1, 4, 3),
        places.numpy().reshape(-1, 4, 3),
        strict=True,
    ):
        rows, columns = starts(v, 9, 3, 4), starts(u, 7, 2, 3)
        expected = [[plane[r : r + 3, c : c + 2].max() for c in columns] for r in rows]
        assert np.array_equal(values, expected)
        assert np.array_equal(plane.ravel()[where], expected)


def test_three_dims_and_their_gradient():
    x = jit.randn(2, 2, 5, 4, 6, dtype=jit.float64, requires_grad=True)
    drawn = jit.rand(2, 2, 3, dtype=jit.float64)

    def pooled(x):
        return functional.fractional_max_pool3d(x, 2, (3, 2, 4), _random_samples=drawn)

    assert pooled(x).shape == (2, 2, 3, 2, 4)
    assert jit.autograd.gradcheck(pooled, [x], fast_mode=True)


def test_layers_draw_anew():
    jit.manual_seed(1)
    layer, x = nn.FractionalMaxPool2d(2, output_ratio=0.6), jit.randn(1, 1, 40, 40)
    assert layer(x).shape == (1, 1, 24, 24)
    assert not jit.equal(layer(x), layer(x))
    assert nn.FractionalMaxPool3d(2, output_size=2, return_indices=True)(jit.randn(1, 4, 4, 4))[1].dtype is jit.int64


def test_refusals():
    x = jit.ones(1, 1, 4, 4)
    with pytest.raises(jit.UsageError, match="output_size nor output_ratio"):
        functional.fractional_max_pool2d(x, 2)
    with pytest.raises(jit.UsageError, match="between 0 and 1"):
        functional.fractional_max_pool2d(x, 2, output_ratio=1.5)
    with pytest.raises(jit.ShapeError, match="4 windows of 2 do not fit 4 entries"):
        functional.fractional_max_pool2d(x, 2, 4)
    with pytest.raises(jit.ShapeError, match="3-d or 4-d inputs"):
        functional.fractional_max_pool2d(jit.ones(4), 2, 2)


@pytest.mark.parametrize("sizes", [(), (2,), (2, 2), [2], (2, 2, 2, 2)], ids=repr)
@pytest.mark.parametrize("named", ["kernel_size", "output_size"])
def test_sizes_are_one_or_one_for_each_dim(named, sizes):
    x = jit.ones(1, 1, 5, 5, 5)
    with pytest.raises(jit.ShapeError, match=f"{named} .* one for each of 3 dims"):
        functional.fractional_max_pool3d(x, **{"kernel_size": 2, "output_size": 2, named: sizes})
    with pytest.raises(jit.ShapeError, match=named):
        nn.FractionalMaxPool3d(**{"kernel_size": 2, "output_size": 2, named: sizes})(x)


def test_clusters_are_a_distribution():
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 30, [5, 12, 20], div_value=2.0, head_bias=True)
    x, target = jit.randn(9, 16), jit.tensor([0, 4, 5, 11, 12, 19, 20, 29, 7])
    every = layer.log_prob(x)
    assert_close(every.exp().sum(1), jit.ones(9), rtol=1e-5)
    output, loss = layer(x, target)
    assert_close(output, every.gather(1, target.unsqueeze(1)).squeeze(1), rtol=1e-5)
    assert_close(loss, -output.mean())
    assert layer.predict(x).tolist() == every.argmax(1).tolist()
    alone = layer(x[3], target[3])
    assert_close(alone.output, output[3], rtol=1e-5)


def test_clusters_learn():
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 12, [4, 8], div_value=2.0)
    x, target = jit.randn(6, 16), jit.tensor([0, 3, 5, 7, 9, 11])
    optimizer = jit.optim.SGD(layer.parameters(), lr=0.5)
    before = layer(x, target).loss.item()
    for _ in range(20):
        optimizer.zero_grad()
        layer(x, target).loss.backward()
        optimizer.step()
    assert layer(x, target).loss.item() < before / 2


def test_clusters_refuse():
    with pytest.raises(jit.UsageError, match="rising order"):
        nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 3])
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5])
    with pytest.raises(jit.UsageError, match="classes from 0 to 9"):
        layer(jit.ones(1, 4), jit.tensor([10]))
    with pytest.raises(jit.ShapeError, match="take a class for each"):
        layer(jit.ones(2, 4), jit.tensor([1]))
