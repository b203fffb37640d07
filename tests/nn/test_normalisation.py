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
