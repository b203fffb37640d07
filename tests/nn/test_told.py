"""What functions and layers warn of, and further things that they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jit
from jit import nn

F = nn.functional
loose: Any = nn
"""The package for calls that no type checker would let pass."""


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss])
def test_losses_tell_of_sizes_that_differ(loss: Callable[..., Any], recwarn: Any) -> None:
    loss(jit.ones(3), jit.zeros(3))
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"\[3, 1\] and \[3\]") as told:
        assert loss(jit.ones(3, 1), jit.zeros(3)).item() > 0
    assert told[0].filename == __file__


def test_a_mean_of_divergences_is_told() -> None:
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(jit.zeros(2, 2), jit.ones(2, 2))


def test_a_mean_far_outside_is_told() -> None:
    with pytest.warns(UserWarning, match="more than 2 deviations"):
        nn.init.trunc_normal_(jit.empty(3), 10.0)


TABLE = jit.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(("act", "builtin"), [
    (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError),
    (lambda: nn.Embedding(3, 2, padding_idx=-4), AssertionError),
    (lambda: nn.Embedding.from_pretrained(jit.ones(2)), AssertionError),
    (lambda: nn.MultiheadAttention(5, 2), AssertionError),
    (lambda: F.embedding_bag(jit.tensor([0]), TABLE, jit.tensor([0]), padding_idx=3), RuntimeError),
    (lambda: F.embedding_bag(jit.tensor([0]), TABLE, jit.tensor([0]), mode="max", scale_grad_by_freq=True), ValueError),
    (lambda: F.embedding_bag(jit.tensor([0]), TABLE, jit.tensor([0]), mode="sum",
                             per_sample_weights=jit.ones(1, dtype=jit.float64)), RuntimeError),
    (lambda: nn.Conv1d(2, 2, 3, padding="foo"), ValueError),
    (lambda: nn.Conv2d(2, 2, 3, padding="same", stride=2), ValueError),
    (lambda: nn.Conv3d(2, 2, 3, padding="same", stride=(1, 1, 2)), ValueError),
    (lambda: F.triplet_margin_loss(jit.ones(3, 2), jit.ones(3, 2), jit.ones(2)), RuntimeError),
    (lambda: loose.utils.rnn.pad_sequence(5), TypeError),
    (lambda: F.adaptive_max_pool2d(jit.ones(2, 0, 4, 4), 2), RuntimeError),
])  # fmt: skip
def test_refusals_are_the_fitting_builtin(act: Callable[[], Any], builtin: type[Exception]) -> None:
    with pytest.raises(builtin) as caught:
        act()
    assert isinstance(caught.value, jit.Error)


def test_a_table_of_integers_is_looked_up() -> None:
    table = nn.Embedding.from_pretrained(jit.tensor([[1, 2], [3, 4]]))
    assert table(jit.tensor([1])).tolist() == [[3, 4]] and not table.weight.requires_grad
    assert nn.Embedding.from_pretrained(jit.ones(2, 2), freeze=False).weight.requires_grad
    assert not nn.EmbeddingBag.from_pretrained(jit.ones(2, 2)).weight.requires_grad
    with pytest.raises(jit.Error, match="require gradients"):
        nn.Embedding.from_pretrained(jit.ones(2, 2).long(), freeze=False)


def test_a_state_that_is_not_expected_may_be_anything() -> None:
    layer = nn.Linear(1, 1)
    state = {**layer.state_dict(), "nonsense": "text"}
    assert layer.load_state_dict(state, strict=False).unexpected_keys == ["nonsense"]


def test_gradients_of_arguments_that_have_none_are_refused() -> None:
    layer = nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda m, by_input, by_output: (jit.ones(1, 1),))
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="returned gradients of arguments"):
        layer(jit.ones(1, 1)).sum().backward()


@pytest.mark.parametrize("norm", ["inf", "2", float("inf"), 2])
def test_a_norm_may_be_given_as_text(norm: Any) -> None:
    x = jit.tensor([3.0, 4.0], requires_grad=True)
    (x * x / 2).sum().backward()
    found = nn.utils.clip_grad_norm_([x], 1.0, norm_type=norm).item()
    assert found == pytest.approx(5.0 if str(norm) == "2" else 4.0)


# -- parametrized tensors --------------------------------------------------------------------------------------------

P = nn.utils.parametrize


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class Backwards(nn.Module):
    """Its `right_inverse` gives what a function makes of the weight."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Any) -> Any:
        return x

    def right_inverse(self, x: Any) -> Any:
        return self.make(x)


@pytest.mark.parametrize("leave", [False, True])
def test_the_parameter_that_was_there_comes_back(leave: bool) -> None:
    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer.weight.tolist()
    optimizer = jit.optim.SGD(layer.parameters(), lr=0.1)
    P.register_parametrization(layer, "weight", Doubled())
    layer(jit.ones(1, 2)).sum().backward()
    optimizer.step()
    assert layer.parametrizations.weight.original is weight and weight.tolist() != before
    shown = layer.weight.tolist()
    P.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert layer.weight is weight
    assert weight.tolist() == (shown if leave else [[v / 2 for v in row] for row in shown])


def test_parametrizations_take_the_mode_of_the_module() -> None:
    layer = nn.Linear(2, 2).eval()
    P.register_parametrization(layer, "weight", Doubled())
    P.register_parametrization(layer, "weight", Doubled())
    assert [m.training for m in layer.parametrizations.weight] == [False, False]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("make", [lambda x: x.bool(), lambda x: x[:-1], lambda x: 3])
def test_what_a_weight_starts_from_is_checked(make: Callable[[Any], Any], second: bool) -> None:
    layer = nn.Linear(2, 2)
    if second:
        P.register_parametrization(layer, "weight", nn.Identity())
    before, names = layer.weight.tolist(), sorted(layer.state_dict())
    with pytest.raises(ValueError):
        P.register_parametrization(layer, "weight", Backwards(make))
    assert layer.weight.tolist() == before and sorted(layer.state_dict()) == names


def test_an_orthogonal_matrix_without_a_base_cannot_be_assigned() -> None:
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), use_trivialization=False)
    with pytest.raises(NotImplementedError) as caught:
        layer.weight = jit.eye(3)
    assert isinstance(caught.value, jit.Error)
    with pytest.raises(ValueError, match="of sizes"):
        layer.weight = jit.eye(5)
