"""A generator learns to draw digits from a critic whose gradients are held near length one: a WGAN-GP.

    python examples/models/wgan_gp.py                                # train, show some digits, export: 20 seconds
    python examples/models/wgan_gp.py --traced                       # the critic's loss traced, penalty and all
    python examples/models/wgan_gp.py --device cuda                  # the same on a GPU
    jit export-onnx examples/models/wgan_gp.py:model -o wgan_gp.onnx

The penalty is the point: it is made of a gradient, so its own gradient needs derivatives of derivatives, here through
convolutions and batch norm. The images come with scikit-learn: 1797 scans of digits, 8 by 8 pixels.

Gulrajani et al., Improved Training of Wasserstein GANs, 2017.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import jit
from jit import nn
from jit.nn import functional as F

LATENT = 16
"""The number of random numbers from which an image is made."""
PENALTY = 10.0
"""The weight of the penalty in the critic's loss."""
CRITIC_STEPS = 3
"""The number of steps that the critic learns for each step of the generator."""

# -- the networks ----------------------------------------------------------------------------------------------------


class Generator(nn.Module):
    """Random numbers `[N, LATENT]` to images `[N, 1, 8, 8]`."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(LATENT, 64 * 2 * 2)
        self.norm1 = nn.BatchNorm1d(64 * 2 * 2)
        self.grow1 = nn.ConvTranspose2d(64, 32, kernel_size=4, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.grow2 = nn.ConvTranspose2d(32, 1, kernel_size=4, stride=2, padding=1)

    def forward(self, latent: Any) -> Any:
        """Args: latent `[N, LATENT]`. Returns: images `[N, 1, 8, 8]` between 0 and 1."""
        x = F.relu(self.norm1(self.start(latent))).view(-1, 64, 2, 2)
        x = F.relu(self.norm2(self.grow1(x)))
        return self.grow2(x).sigmoid()


class Critic(nn.Module):
    """Images `[N, 1, 8, 8]` to how real they look, `[N]`."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, kernel_size=3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(64)
        self.head = nn.Linear(64 * 2 * 2, 1)

    def forward(self, images: Any) -> Any:
        """Args: images `[N, 1, 8, 8]`. Returns: a score for each, `[N]`."""
        x = F.leaky_relu(self.conv1(images), 0.2)
        x = F.leaky_relu(self.norm2(self.conv2(x)), 0.2)
        return self.head(x.flatten(1)).squeeze(1)


# -- the loss --------------------------------------------------------------------------------------------------------


def gradient_penalty(critic: Any, real: Any, fake: Any, mix: Any) -> Any:
    """The mean square of how far the critic's gradients are from length one, between real and drawn images.

    Args: real, fake `[N, 1, 8, 8]`; mix `[N, 1, 1, 1]` between 0 and 1. Returns: a number.
    """
    between = (real * mix + fake * (1 - mix)).detach().requires_grad_()
    (slope,) = jit.grad(critic(between).sum(), between, create_graph=True)
    length = (slope.flatten(1).square().sum(1) + 1e-12).sqrt()
    return (length - 1).square().mean()


def critic_loss(critic: Any, real: Any, fake: Any, mix: Any) -> tuple[Any, Any]:
    """(the loss that the critic minimises, its estimate of the distance between real and drawn images)."""
    distance = critic(real).mean() - critic(fake).mean()
    return PENALTY * gradient_penalty(critic, real, fake, mix) - distance, distance


# -- learning --------------------------------------------------------------------------------------------------------


class Game:
    """A generator and a critic that learn from each other."""

    def __init__(self, images: jit.Tensor, traced: bool = False, batch: int = 64) -> None:
        self.images, self.batch, self.device = images, batch, images.device
        self.generator, self.critic = Generator().to(self.device), Critic().to(self.device)
        self.drawing = jit.optim.Adam(self.generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.judging = jit.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
        self.rng = np.random.default_rng(0)
        loss = functools.partial(critic_loss, self.critic)
        self.loss: Callable[..., Any] = jit.trace(loss) if traced else loss

    def play(self) -> float:
        """The critic learns a few times, the generator once; returns the last estimate of the distance."""
        for _ in range(CRITIC_STEPS):
            chosen = self.rng.integers(len(self.images), size=self.batch)
            real = self.images[jit.from_numpy(chosen).to(self.device)]
            with jit.no_grad():
                fake = self.draw(self.batch)
            self.judging.zero_grad()
            loss, distance = self.loss(real, fake, jit.rand(self.batch, 1, 1, 1, device=self.device))
            loss.backward()
            self.judging.step()
        self.drawing.zero_grad()
        (-self.critic(self.draw(self.batch)).mean()).backward()
        self.drawing.step()
        return float(distance)

    def draw(self, count: int) -> Any:
        """Images from random numbers."""
        return self.generator(jit.randn(count, LATENT, device=self.device))


def train(game: Game, rounds: int) -> None:
    """Play `rounds` times; a progress bar on a terminal, a line now and then elsewhere."""
    from rich.progress import Progress

    on_terminal = sys.stdout.isatty()
    with Progress(disable=not on_terminal) as bar:
        task = bar.add_task("training", total=rounds)
        for number in range(1, rounds + 1):
            distance = game.play()
            bar.update(task, advance=1, description=f"distance {distance:6.3f}")
            if not on_terminal and number % (rounds // 8 or 1) == 0:
                print(f"round {number:4} of {rounds}: distance {distance:6.3f}", flush=True)


# -- what `jit export-onnx examples/models/wgan_gp.py:model` looks for -------------------------------------------------


def model() -> Generator:
    """A generator that has not learned yet."""
    return Generator()


def example_inputs() -> tuple[jit.Tensor]:
    """Arguments for `model`."""
    return (jit.randn(4, LATENT),)


# -- looking ---------------------------------------------------------------------------------------------------------


def load_images() -> jit.Tensor:
    """All scans, `[1797, 1, 8, 8]`, between 0 and 1."""
    from sklearn.datasets import load_digits

    return jit.tensor((load_digits().images[:, None] / 16).astype(np.float32))


def spread_of_features(real: Any, drawn: Any) -> float:
    """How far apart two sets of images are: the distance of means and covariances of their pixels (Frechet)."""
    a, b = (images.cpu().numpy().reshape(len(images), -1).astype(np.float64) for images in (real, drawn))
    between = np.linalg.eigvals(np.cov(a.T) @ np.cov(b.T)).real.clip(0)
    spread = np.trace(np.cov(a.T)) + np.trace(np.cov(b.T)) - 2 * np.sqrt(between).sum()
    return float(((a.mean(0) - b.mean(0)) ** 2).sum() + spread)


def show(images: Any) -> str:
    """Images side by side as text."""
    rows = np.concatenate(list(images.cpu().numpy()[:, 0]), axis=1)
    return "\n".join("".join(" .:-=+*#%@"[int(v * 9.999)] for v in row) for row in rows)


def main() -> None:
    """Train, measure, show, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=160, help="how often the generator learns [%(default)s]")
    parser.add_argument("--traced", action="store_true", help="trace the critic's loss")
    parser.add_argument("--device", default="cpu", help="where both learn [%(default)s]")
    parser.add_argument("-o", "--output", default="wgan_gp.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    images = load_images().to(options.device)
    game = Game(images, options.traced)
    with jit.no_grad():
        before = spread_of_features(images, game.draw(1000))
    train(game, options.rounds)
    with jit.no_grad():
        drawn = game.draw(1000)
    after = spread_of_features(images, drawn)
    print(f"\n{show(drawn[:9])}\n\ndistance to the scans: {before:.2f} before, {after:.2f} after")
    generator = game.generator.eval().cpu()
    print(jit.export_onnx(generator, example_inputs(), options.output, dynamic_axes={"latent": {0: "batch"}}))
    if options.rounds >= 100 and after > before / 2:
        sys.exit("the generator has not learned")


if __name__ == "__main__":
    main()
