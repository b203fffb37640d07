"""The models of examples/models: each learns a little, is the same traced and eager, and is exported for other sizes.

Their programs run whole in tests/test_examples.py.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import jit
from jit.command.cli import cli
from jit.eager.pytree import flatten
from jit.utils.data import TensorDataset

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "models"


class Example(NamedTuple):
    """What is tested of an example."""

    losses: Callable[[Any], Sequence[float]]
    """The losses of a short training."""
    dynamic: Sequence[str]
    """The sizes that the exported model leaves open, as on the command line."""


def of_gpt(m: Any) -> list[float]:
    letters, text = m.load_text()
    net = m.GPT(len(letters))
    return [m.train(net, text, 10, "cpu"), m.train(net, text, 20, "cpu")]


def of_dcgan(m: Any) -> list[float]:
    drawing, images = m.model().apply(m.weights_init), m.load_images("cpu")
    judging, noise = m.critic(width=8, levels=2, channels=1).apply(m.weights_init), jit.randn(500, m.LATENT, 1, 1)

    def distance() -> float:
        with jit.no_grad():
            return m.distance(images[:500], drawing(noise))

    before = distance()
    m.train(drawing, judging, images, 15)
    return [before, distance()]


def of_wgan(m: Any) -> list[float]:
    images = m.load_images()
    game = m.Game(images, traced=True, batch=32)

    def distance() -> float:
        with jit.no_grad():
            return m.spread_of_features(images[:500], game.draw(500))

    before = distance()
    for _ in range(20):
        game.play()
    return [before, distance()]


def of_gcn(m: Any) -> list[float]:
    return m.train(m.model(), *m.load_club("cpu"), 30)


def first(parts: Sequence[Any], count: int) -> TensorDataset:
    return TensorDataset(*(part[:count] for part in parts))


EXAMPLES = {
    "bert": Example(
        lambda m: m.train(m.model(), m.load_sentences(), 40, "cpu"),
        [f"{name}:{axis}" for name in ("ids", "attention_mask") for axis in ("0=batch", "1=length:1:32")],
    ),
    "dcgan": Example(of_dcgan, ["input:0=batch"]),
    "diffusion": Example(lambda m: m.train(m.model(), m.load_images("cpu"), 15), ["images:0=batch", "times:0=batch"]),
    "gcn": Example(of_gcn, ["x:0=members", "edges:1=meetings", "norm:0=meetings"]),
    "gpt": Example(of_gpt, [f"cache.{n}:2=n:1:255" for n in range(4)]),
    "lstm": Example(
        lambda m: m.train(m.model(), m.load_text("cpu")[1], 12, batch=8, length=20), ["words:0=batch", "words:1=length"]
    ),
    "mobilenet": Example(
        lambda m: m.train(m.model(), *(part[:256] for part in m.load_data("cpu")[0]), 3),
        ["images:0=batch", "images:2=height", "images:3=width"],
    ),
    "resnet": Example(lambda m: m.train(m.model(), first(m.load_data("cpu")[0].tensors, 150), 3), ["images:0=batch"]),
    "unet": Example(lambda m: m.train(m.model(), m.load_scans("cpu"), 12), ["images:0=batch"]),
    "vae": Example(lambda m: m.train(m.model(), m.load_images("cpu")[0], 3), ["images:0=batch"]),
    "vit": Example(lambda m: m.train(m.model(), *m.load_data("cpu")[0], 30), ["images:0=batch"]),
    "wgan_gp": Example(of_wgan, ["latent:0=batch"]),
}


@pytest.fixture
def module(name: str) -> Any:
    jit.manual_seed(0)
    return importlib.import_module(f"examples.models.{name}")


def number(result: Any) -> Any:
    """A number that all floats of a result go into."""
    return sum((leaf.square().mean() for leaf in flatten(result)[0] if leaf.dtype.is_floating_point), jit.zeros(()))


def test_every_model_is_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_learns(name, module):
    losses = EXAMPLES[name].losses(module)
    third = max(len(losses) // 3, 1)
    assert sum(losses[-third:]) < 0.97 * sum(losses[:third])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_traced_it_is_what_it_is_untraced(name, module, training):
    """Values, gradients, buffers and random state of calls of which the first one records, and others are hits."""
    jit.verify(module.model().train(training), module.example_inputs(), loss_fn=number, calls=3, orders=1)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_command_line_exports_it_for_other_sizes(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = [option for axis in EXAMPLES[name].dynamic for option in ("--dynamic", axis)]
    target, path = f"{FOLDER / name}.py:model", tmp_path / f"{name}.onnx"
    cli.main(["export-onnx", target, "-o", str(path), *options], standalone_mode=False)
    assert path.exists() and "on 2 inputs" in capsys.readouterr().out
