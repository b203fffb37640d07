"""A step of examples/models/wgan_gp.py: gradients of a loss that is itself made of a gradient, through convolutions and
batch norm, against finite differences, and traced against eager."""

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jit
from tests.tolerances import assert_close

PATH = Path(__file__).resolve().parents[2] / "examples" / "models" / "wgan_gp.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("wgan_gp_example", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs(dtype: Any = np.float64, seed: int = 0) -> list[Any]:
    """Real and drawn images, and how to mix them."""
    rng = np.random.default_rng(seed)
    shapes = ((5, 1, 8, 8), (5, 1, 8, 8), (5, 1, 1, 1))
    return [jit.from_numpy(rng.uniform(size=shape).astype(dtype)) for shape in shapes]


def step(function: Any, critic: Any, arguments: list[Any]) -> list[Any]:
    """Loss, distance, gradients and buffers of one step."""
    critic.zero_grad()
    loss, distance = function(*arguments)
    loss.backward()
    tensors = [loss, distance, *(p.grad for p in critic.parameters()), *critic.buffers()]
    return [np.array(t.detach().numpy()) for t in tensors]


def test_the_gradients_of_a_step_are_those_of_finite_differences(example):
    jit.manual_seed(1)
    critic, arguments = example.Critic().double(), inputs()
    step(lambda *a: example.critic_loss(critic, *a), critic, arguments)
    rng = np.random.default_rng(2)
    for name, parameter in critic.named_parameters():
        direction = rng.standard_normal(parameter.shape)
        direction /= np.linalg.norm(direction)
        sides = []
        for way in (1e-6, -1e-6):
            with jit.no_grad():
                parameter.add_(jit.from_numpy(way * direction))
            sides.append(float(example.critic_loss(critic, *arguments)[0]))
            with jit.no_grad():
                parameter.sub_(jit.from_numpy(way * direction))
        expected = (sides[0] - sides[1]) / 2e-6
        found = float((parameter.grad.numpy() * direction).sum())
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-7), name
        if "bias" not in name:
            assert abs(found) > 1e-4, f"{name} has no gradient to speak of"


def test_the_penalty_alone_has_all_second_derivatives(example):
    """Without the distance: only what goes through the derivative of the convolutions and of batch norm."""
    jit.manual_seed(1)
    critic = example.Critic().double()
    real, fake, mix = inputs(seed=3)
    names = ("conv1.weight", "conv2.weight", "norm2.weight", "head.weight")
    weights = [dict(critic.named_parameters())[name] for name in names]

    @jit.enable_grad()  # finite differences are taken without
    def penalty(*_: Any) -> Any:
        return example.gradient_penalty(critic, real, fake, mix)

    assert jit.autograd.gradcheck(penalty, weights, fast_mode=True)


@pytest.mark.parametrize("optimize", [False, True])
def test_a_traced_step_equals_an_eager_one(example, optimize):
    jit.manual_seed(1)
    critic = example.Critic()
    saved = {name: t.detach().clone() for name, t in critic.state_dict().items()}

    def loss(*arguments: Any) -> Any:
        return example.critic_loss(critic, *arguments)

    traced = jit.trace(loss, optimize=optimize)
    found = [step(traced, critic, inputs(np.float32, seed)) for seed in range(3)]
    critic.load_state_dict(saved)
    expected = [step(loss, critic, inputs(np.float32, seed)) for seed in range(3)]
    assert (traced.misses, traced.hits) == (1, 2)
    for a, b in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5)  # sums of gradients of gradients, in another order


def test_a_checkpointed_critic_takes_the_same_step(example):
    jit.manual_seed(1)
    critic = example.Critic().double()
    saved = {name: t.detach().clone() for name, t in critic.state_dict().items()}

    def recomputed(*arguments: Any) -> Any:
        return example.critic_loss(lambda images: jit.checkpoint(critic, images), *arguments)

    found = step(recomputed, critic, inputs())
    critic.load_state_dict(saved)
    expected = step(lambda *a: example.critic_loss(critic, *a), critic, inputs())
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, rtol=1e-9)
