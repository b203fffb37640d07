"""Tensors of modules that are computed from others, see Note [Parametrized tensors]."""

import copy
from typing import Any

import numpy as np
import pytest

import jit
from jit import nn
from jit.nn.utils import parametrizations, parametrize
from tests.tolerances import assert_close


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


def test_the_weight_is_computed_and_its_origin_learned():
    layer = nn.Linear(3, 3)
    origin = layer.weight.detach().clone()
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert_close(layer.weight, origin.triu() + origin.triu(1).t())
    x = jit.randn(2, 3)
    layer(x).sum().backward()
    by_weight = jit.ones(3, 1) * x.sum(0)
    expected = by_weight.triu() + by_weight.tril(-1).t()
    assert_close(layer.parametrizations.weight.original.grad, expected)


def test_assigning_goes_back_through_all_modules():
    layer: Any = nn.Linear(2, 2)
    for module in (Symmetric(), Doubled()):
        parametrize.register_parametrization(layer, "weight", module)
    layer.weight = jit.tensor([[2.0, 4.0], [4.0, 6.0]])
    assert layer.weight.tolist() == [[2.0, 4.0], [4.0, 6.0]]
    assert layer.parametrizations.weight.original.tolist() == [[1.0, 2.0], [0.0, 3.0]]


def test_a_second_module_is_applied_to_what_the_weight_was():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    before = layer.weight.detach()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert_close(layer.weight, 2 * before)
    layer.weight = before  # type: ignore[assignment]
    assert_close(layer.weight, before)


def test_cached_computes_once():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    assert layer.weight is not layer.weight
    with parametrize.cached():
        assert layer.weight is layer.weight


def test_traced_and_copied():
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    traced, x = jit.trace(layer), jit.randn(2, 3)
    for _ in range(2):
        assert_close(traced(x), layer(x))
    twin = copy.deepcopy(layer)
    layer.parametrizations.weight.original.data.zero_()
    assert layer.weight.abs().sum().item() == 0 != twin.weight.abs().sum().item()


@pytest.mark.parametrize("leave", [True, False])
def test_removing_makes_it_plain(leave):
    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    expected = (layer.weight if leave else layer.parametrizations.weight.original).detach()
    assert parametrize.is_parametrized(layer, "weight")
    parametrize.remove_parametrizations(layer, "weight", leave)
    assert not parametrize.is_parametrized(layer)
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight"]
    assert_close(layer.weight, expected)


def test_refusals():
    layer = nn.Linear(3, 2)
    with pytest.raises(jit.UsageError, match="no parameter or buffer 'wait'"):
        parametrize.register_parametrization(layer, "wait", Doubled())
    with pytest.raises(jit.UsageError, match="pass unsafe=True"):
        parametrize.register_parametrization(layer, "weight", nn.Flatten(0))
    with pytest.raises(jit.UsageError, match="is not parametrized"):
        parametrize.remove_parametrizations(layer, "weight")
    normed = nn.utils.weight_norm(nn.Linear(3, 2))
    with pytest.raises(jit.UsageError, match="computed from other parameters"):
        normed.weight = jit.ones(2, 3)


def test_weight_norm_starts_from_the_weight():
    layer = nn.Conv2d(2, 3, 2)
    weight = layer.weight.detach().clone()
    parametrizations.weight_norm(layer)
    assert list(layer.state_dict())[1:] == [f"parametrizations.weight.original{i}" for i in (0, 1)]
    assert_close(layer.weight, weight)
    assert layer.parametrizations.weight.original0.shape == (3, 1, 1, 1)


@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(5, 4), lambda: nn.Conv1d(3, 4, 2), lambda: nn.ConvTranspose2d(3, 4, 2)]
)
def test_spectral_norm_comes_to_one(make):
    layer = parametrizations.spectral_norm(make())
    for _ in range(100):
        _ = layer.weight
    rows = 1 if "Transpose" in type(layer).__name__ else 0
    largest = jit.linalg.matrix_norm(layer.weight.movedim(rows, 0).flatten(1), 2)
    assert_close(largest, jit.tensor(1.0), rtol=1e-3)
    layer.eval()
    assert jit.equal(layer.weight, layer.weight)
    layer.weight.sum().backward()
    assert jit.isfinite(layer.parametrizations.weight.original.grad).all()


OLDER = [lambda: nn.Linear(5, 4), lambda: nn.Conv1d(3, 4, 2), lambda: nn.ConvTranspose2d(3, 4, 2)]


@pytest.mark.parametrize("make", OLDER)
def test_spectral_norm_of_older_name(make):
    layer = make()
    learned = layer.weight
    nn.utils.spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight_orig"]
    assert layer.weight_orig is learned
    rows = 1 if "Transpose" in type(layer).__name__ else 0
    assert layer.weight_u.shape == (layer.weight_orig.shape[rows],)
    for _ in range(100):
        _ = layer.weight
    matrix = layer.weight_orig.detach().movedim(rows, 0).flatten(1)
    assert_close(jit.linalg.matrix_norm(layer.weight.movedim(rows, 0).flatten(1), 2), jit.tensor(1.0), rtol=1e-3)
    layer.eval()
    u, v = layer.weight_u.clone(), layer.weight_v.clone()
    assert_close(layer.weight, layer.weight_orig / (u @ matrix @ v))
    assert layer.weight_u.equal(u) and layer.weight_v.equal(v)
    layer.weight.sum().backward()
    assert jit.isfinite(layer.weight_orig.grad).all()


@pytest.mark.parametrize("steps", [1, 3])
def test_each_reading_in_training_mode_is_some_steps(steps):
    layer = nn.utils.spectral_norm(nn.Linear(5, 7), n_power_iterations=steps)
    matrix, u = layer.weight_orig.detach(), layer.weight_u.clone()
    for _ in range(steps):
        v = nn.functional.normalize(matrix.t() @ u, dim=0)
        u = nn.functional.normalize(matrix @ v, dim=0)
    assert_close(layer.weight, matrix / (u @ matrix @ v))
    assert_close(layer.weight_u, u)


def test_state_dicts_of_the_older_spectral_norm_are_loaded():
    first, second = (nn.utils.spectral_norm(nn.Linear(3, 2)) for _ in range(2))
    x = jit.ones(1, 3)
    first(x)
    second.load_state_dict(first.state_dict())
    assert second.eval()(x).equal(first.eval()(x))


@pytest.mark.parametrize("make", OLDER)
@pytest.mark.parametrize("training", [True, False])
def test_the_older_spectral_norm_is_removed(make, training):
    layer = nn.utils.spectral_norm(make()).train(training)
    _ = layer.weight
    expected = layer.eval().weight.detach()
    nn.utils.remove_spectral_norm(layer.train(training))
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight"]
    assert not list(layer.buffers()) and layer.weight.requires_grad
    assert_close(layer.weight, expected)
    nn.utils.spectral_norm(layer)


def test_traced_steps_with_the_older_spectral_norm():
    layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    twin = copy.deepcopy(layer)
    x = jit.ones(4, 3)

    @jit.trace
    def step(x):
        loss = layer(x).square().sum()
        loss.backward()
        return loss

    for _ in range(4):
        expected = twin(x).square().sum()
        expected.backward()
        assert_close(step(x), expected)
    assert_close(layer.weight_u, twin.weight_u)
    assert_close(layer.weight_orig.grad, twin.weight_orig.grad)


def test_misuse_of_the_older_spectral_norm():
    layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    for call, message in (
        (lambda: nn.utils.spectral_norm(layer), "normed weight already"),
        (lambda: nn.utils.spectral_norm(nn.Linear(3, 2), "weights"), "no parameter 'weights'"),
        (lambda: nn.utils.spectral_norm(nn.Linear(3, 2), n_power_iterations=0), "at least 1"),
        (lambda: nn.utils.spectral_norm(nn.Linear(3, 2), dim=2), "dim 2 does not fit"),
        (lambda: nn.utils.remove_spectral_norm(nn.Linear(3, 2)), "no normed weight"),
    ):
        with pytest.raises(jit.Error, match=message):
            call()


ORTHOGONAL = [
    (map, dtype, trivialized)
    for map in ("matrix_exp", "cayley", "householder")
    for dtype in (jit.float64, jit.complex128)
    for trivialized in (True, False)
    if map != "householder" or not dtype.is_complex
]


def orthogonal_of(weight):
    """The orthogonal factor of a matrix, or of its transpose, whose triangle has a positive diagonal."""
    tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
    q, r = np.linalg.qr(tall.detach().numpy())
    diagonal = np.diagonal(r, 0, -2, -1)
    found = jit.tensor(q * (diagonal / np.abs(diagonal))[..., None, :])
    return found if tall is weight else found.mT


@pytest.mark.parametrize("sizes", [(4, 4), (6, 3), (3, 6), (5, 1), (1, 1), (2, 4, 3), (2, 3, 3)])
@pytest.mark.parametrize(("map", "dtype", "trivialized"), ORTHOGONAL)
def test_orthogonal(sizes, map, dtype, trivialized):
    layer = nn.Module()
    layer.weight = nn.Parameter(jit.randn(sizes, dtype=dtype))
    first, second = layer.weight.detach().clone(), jit.randn(sizes, dtype=dtype)
    parametrizations.orthogonal(layer, orthogonal_map=map, use_trivialization=trivialized)
    identity = jit.eye(min(sizes[-2:]), dtype=dtype).expand(*sizes[:-2], -1, -1)
    takes_assignments = trivialized or map == "householder"
    if takes_assignments:
        assert_close(layer.weight, orthogonal_of(first), atol=1e-10)
        layer.weight = second
        assert_close(layer.weight, orthogonal_of(second), atol=1e-10)
        layer.weight = given = orthogonal_of(first)
        assert_close(layer.weight, given, atol=1e-10)
    for _ in range(2):
        original = layer.parametrizations.weight.original
        original.grad = None
        (layer.weight * second).abs().sum().backward()
        tall = original.grad if sizes[-2] >= sizes[-1] else original.grad.mT
        assert not tall.triu(1).any() and not tall.diagonal(0, -2, -1).real.any()
        with jit.no_grad():
            original.sub_(original.grad * 0.1)
        assert_close(squared(layer.weight), identity, atol=1e-10)


def test_products_of_reflections_have_their_gradient():
    layer = parametrizations.orthogonal(
        nn.Linear(3, 5).double(), orthogonal_map="householder", use_trivialization=False
    )
    module, original = layer.parametrizations.weight[0], layer.parametrizations.weight.original
    below = original.detach().tril(-1).requires_grad_()
    assert jit.autograd.gradcheck(lambda x: module(x.tril(-1) + original.detach().triu()), [below], fast_mode=True)


def test_the_map_is_chosen_by_the_matrix():
    for sizes, dtype, map in (
        ((3, 3), jit.float32, "matrix_exp"),
        ((3, 4), jit.float32, "householder"),
        ((3, 4), jit.complex64, "matrix_exp"),
    ):
        layer = parametrizations.orthogonal(nn.Linear(*sizes, dtype=dtype))
        assert layer.parametrizations.weight[0].map == map
    with pytest.raises(jit.UsageError, match="for real matrices"):
        parametrizations.orthogonal(nn.Linear(3, 3, dtype=jit.complex64), orthogonal_map="householder")


def squared(weight):
    """The products of the columns, or of the rows where these are fewer."""
    tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
    return tall.mH @ tall


def test_orthogonal_takes_an_assignment():
    layer = parametrizations.orthogonal(nn.Linear(3, 3))
    layer.weight = jit.eye(3) * -1
    assert_close(layer.weight, -jit.eye(3), atol=1e-6)


def test_name_in_text():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    assert repr(layer).startswith("ParametrizedLinear(")
    parametrize.remove_parametrizations(layer, "weight")
    assert repr(layer) == "Linear(in_features=2, out_features=2, bias=True)"
