"""Normalising layers: inputs without a batch, layers without shifts, and weights of normed directions."""

from typing import Any

import numpy as np
import pytest

import jit
from jit import nn


def random(*sizes: int, seed: int = 0) -> Any:
    return jit.from_numpy(np.random.default_rng(seed).standard_normal(sizes))


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [(nn.InstanceNorm1d, (3, 5)), (nn.InstanceNorm2d, (3, 4, 5)), (nn.InstanceNorm3d, (3, 2, 4, 5))],
)
def test_instance_norm_of_one_sample(layer: Any, sizes: tuple[int, ...]) -> None:
    x = random(*sizes).float()
    norm = layer(3, affine=True)
    assert norm(x).tolist() == norm(x.unsqueeze(0)).squeeze(0).tolist()
    np.testing.assert_allclose(norm(x).detach().numpy().reshape(3, -1).mean(1), 0, atol=1e-6)
    with pytest.raises(jit.ShapeError, match="takes"):
        norm(x.unsqueeze(0).unsqueeze(0))


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(4, bias=False), nn.InstanceNorm1d(4, affine=True, bias=False), nn.GroupNorm(2, 4, bias=False)],
)
def test_without_shift(layer: Any) -> None:
    assert layer.bias is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    layer.weight.data.fill_(0.0)
    assert layer(random(2, 4, 3).float()).abs().max().item() == 0


def test_group_norm_goes_by_groups() -> None:
    x = random(2, 4, 3)
    rows = nn.functional.group_norm(x, 2).numpy().reshape(4, 6)
    np.testing.assert_allclose(rows.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose((rows**2).mean(1), 1, rtol=1e-4)
    with pytest.raises(jit.ShapeError, match="3 groups do not divide"):
        nn.functional.group_norm(x, 3)
    with pytest.raises(jit.DTypeError, match="only floating tensors"):
        nn.functional.group_norm(x.long(), 2)


class TestWeightNorm:
    def test_starts_as_the_weight_it_was(self) -> None:
        layer = nn.Linear(3, 4)
        before = layer.weight.detach().numpy().copy()
        assert nn.utils.weight_norm(layer) is layer
        np.testing.assert_allclose(layer.weight.detach().numpy(), before, rtol=1e-6)

    @pytest.mark.parametrize(("dim", "sizes"), [(0, (4, 1)), (1, (1, 3)), (None, ())])
    def test_lengths_and_direction_are_learned(self, dim: int | None, sizes: tuple[int, ...]) -> None:
        layer = nn.utils.weight_norm(nn.Linear(3, 4), dim=dim)
        assert layer.weight_g.shape == sizes
        layer(random(2, 3).float()).sum().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters())
        with jit.no_grad():
            layer.weight_g.mul_(2.0)
        norms = jit.norm_except_dim(layer.weight, 2, -1 if dim is None else dim)
        np.testing.assert_allclose(norms.detach().numpy(), layer.weight_g.detach().numpy(), rtol=1e-5)

    def test_traced_calls_see_new_lengths(self) -> None:
        layer, x = nn.utils.weight_norm(nn.Linear(3, 4, bias=False)), random(2, 3).float()
        traced = jit.trace(layer)
        first = traced(x).detach().numpy()
        with jit.no_grad():
            layer.weight_g.mul_(2.0)
        np.testing.assert_allclose(traced(x).detach().numpy(), 2 * first, rtol=1e-6)
        assert (traced.misses, traced.hits) == (1, 1)

    def test_taken_away_again(self) -> None:
        layer = nn.utils.weight_norm(nn.Conv1d(2, 3, 2))
        weight = layer.weight.detach().numpy().copy()
        nn.utils.remove_weight_norm(layer)
        assert [name for name, _ in layer.named_parameters()] == ["bias", "weight"]
        np.testing.assert_array_equal(layer.weight.detach().numpy(), weight)

    def test_wrong_calls(self) -> None:
        layer = nn.utils.weight_norm(nn.Linear(3, 4))
        with pytest.raises(jit.UsageError, match="normed weight already"):
            nn.utils.weight_norm(layer)
        with pytest.raises(jit.UsageError, match="no parameter 'kernel'"):
            nn.utils.weight_norm(layer, "kernel")
        with pytest.raises(jit.UsageError, match="no normed weight"):
            nn.utils.remove_weight_norm(layer, "bias")


# -- running statistics ----------------------------------------------------------------------------------------------


def measured(**options: Any) -> nn.BatchNorm1d:
    """A layer that has seen one batch."""
    layer = nn.BatchNorm1d(2, **options)
    layer(random(6, 2).float() * 3 + 1)
    return layer


def statistics(layer: Any) -> list[Any]:
    return [buffer.tolist() for buffer in layer.buffers()]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_that_are_not_tracked_any_more_stay(momentum: float | None, traced: bool) -> None:
    layer = measured(momentum=momentum)
    layer.track_running_stats = False
    before, x = statistics(layer), random(5, 2, seed=1).float()
    call = jit.trace(layer) if traced else layer
    by_batch = call(x)
    np.testing.assert_allclose(by_batch.detach().numpy().mean(0), 0, atol=1e-6)
    layer.eval()
    by_statistics = call(x)
    mean, variance = layer.running_mean, layer.running_var
    expected = (x - mean) / (variance + layer.eps).sqrt()
    np.testing.assert_allclose(by_statistics.detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert statistics(layer) == before


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    ("layer", "sizes"),
    [(nn.BatchNorm1d, (0, 3)), (nn.BatchNorm1d, (0, 3, 4)), (nn.BatchNorm2d, (0, 3, 2, 2)),
     (nn.BatchNorm3d, (0, 3, 2, 2, 2))],
)  # fmt: skip
def test_an_empty_batch_says_nothing(layer: Any, sizes: tuple[int, ...], traced: bool, recwarn: Any) -> None:
    norm = layer(3)
    x = jit.zeros(sizes, requires_grad=True)
    y = (jit.trace(norm) if traced else norm)(x)
    y.sum().backward()
    assert y.shape == x.grad.shape == sizes
    assert statistics(norm) == [[0, 0, 0], [1, 1, 1], 1]
    assert norm.weight.grad.tolist() == norm.bias.grad.tolist() == [0, 0, 0]
    assert not recwarn.list


@pytest.mark.parametrize("momentum", [0.1, None])
def test_without_a_counter_nothing_is_counted(momentum: float | None) -> None:
    layer = nn.BatchNorm1d(2, momentum=momentum)
    layer.num_batches_tracked = None
    x = random(6, 2).float() + 1
    layer(x)
    share = 0.1 if momentum else 0.0
    np.testing.assert_allclose(layer.running_mean.numpy(), share * x.numpy().mean(0), rtol=1e-5)


def test_without_statistics_each_batch_has_its_own() -> None:
    layer = measured()
    layer.running_mean = layer.running_var = None
    x = random(6, 2, seed=3).float()
    trained = layer(x)
    assert layer.eval()(x).tolist() == trained.tolist()


def test_instance_norm_without_weights_takes_any_channels_with_a_warning() -> None:
    x = random(2, 3, 4, 4).float()
    with pytest.warns(UserWarning, match="made for 2 channels, and this input has 3"):
        nn.InstanceNorm2d(2)(x)
    with pytest.raises(jit.ShapeError, match="made for 2 channels"):
        nn.InstanceNorm2d(2, affine=True)(x)


def test_group_norm_needs_two_values_in_a_group() -> None:
    for sizes, groups in (((1, 2), 2), ((1, 3, 1), 3), ((1, 1, 1, 1), 1)):
        with pytest.raises(jit.ShapeError, match="more than one value per group"):
            nn.GroupNorm(groups, sizes[1])(jit.ones(sizes))
    assert nn.GroupNorm(2, 2)(jit.ones(2, 2)).shape == nn.GroupNorm(1, 2)(jit.ones(1, 2)).repeat(2, 1).shape


@pytest.mark.parametrize("half", [jit.float16, jit.bfloat16])
@pytest.mark.parametrize("norm", [lambda: nn.GroupNorm(2, 8), lambda: nn.LayerNorm([8, 4, 3])])
def test_gradients_of_wider_weights_are_not_rounded_to_halves(half, norm):
    mixed, wide = norm(), norm()
    x = jit.randn(2, 8, 4, 3).to(half)
    g = jit.randn(2, 8, 4, 3).to(half)
    out = mixed(x)
    assert out.dtype is half
    out.backward(g)
    wide(x.float()).backward(g.float())
    for rounded, exact in zip(mixed.parameters(), wide.parameters(), strict=True):
        assert rounded.grad.dtype is jit.float32
        assert jit.allclose(rounded.grad, exact.grad, atol=1e-6)


def test_similarity_of_whole_and_other_numbers():
    whole, other = jit.tensor([[1, 2]], dtype=jit.int8), jit.tensor([[2.0, 1.0]])
    for a, b in ((whole, other), (other, whole)):
        assert round(nn.functional.cosine_similarity(a, b).item(), 5) == 0.8
