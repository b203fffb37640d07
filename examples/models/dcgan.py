"""A DCGAN: a network draws digits, another one tells drawn ones from scans, and each learns from the other.

    python examples/models/dcgan.py                              # learn to draw, trace, export: 15 seconds
    python examples/models/dcgan.py --device cuda                # the same on a GPU
    jit export-onnx examples/models/dcgan.py:model -o dcgan.onnx

The images come with scikit-learn: 1797 scans of digits, here 16 by 16 pixels. Each side's step is one traced function,
with an optimizer of its own; the model that is exported is the generator.

Radford et al., Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks, 2015.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the networks ----------------------------------------------------------------------------------------------------


def generator(latent: int, width: int, levels: int, channels: int) -> nn.Sequential:
    """Random numbers `[N, latent, 1, 1]` to images `[N, channels, 4 << levels, 4 << levels]` between -1 and 1."""
    layers: list[nn.Module] = []
    inputs = latent
    for n in reversed(range(levels)):
        first = n == levels - 1
        layers += [nn.ConvTranspose2d(inputs, width << n, 4, 1 if first else 2, 0 if first else 1, bias=False)]
        layers += [nn.BatchNorm2d(width << n), nn.ReLU(True)]
        inputs = width << n
    return nn.Sequential(*layers, nn.ConvTranspose2d(inputs, channels, 4, 2, 1, bias=False), nn.Tanh())


def critic(width: int, levels: int, channels: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Sequential:
    """Images `[N, channels, 4 << levels, 4 << levels]` to logits of being real, `[N]`."""
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for n in range(1, levels):
        layers += [nn.Conv2d(width << (n - 1), width << n, 4, 2, 1, bias=False), norm(width << n)]
        layers += [nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(width << (levels - 1), 1, 4, 1, 0, bias=False), nn.Flatten(0))


def weights_init(module: nn.Module) -> None:
    """The weights that the paper begins with."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.05)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


LATENT = 16


def model() -> nn.Sequential:
    """A small generator of digits."""
    return generator(LATENT, width=16, levels=2, channels=1)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.randn(4, LATENT, 1, 1),)


# -- learning --------------------------------------------------------------------------------------------------------


def load_images(device: str) -> Tensor:
    """Scans of digits `[1797, 1, 16, 16]`, between -1 and 1."""
    from sklearn.datasets import load_digits

    images = jit.tensor(load_digits().images[:, None] / 8 - 1, dtype=jit.float32, device=device)
    return F.interpolate(images, scale_factor=2, mode="bilinear")


def train(drawing: nn.Module, judging: nn.Module, images: Tensor, steps: int) -> list[tuple[float, float]]:
    """Let both learn; returns the losses of the judge and of the one who draws."""
    of_judge = jit.optim.Adam(judging.parameters(), lr=5e-4, betas=(0.5, 0.999))
    of_drawing = jit.optim.Adam(drawing.parameters(), lr=1e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()

    @jit.trace
    def judge(real: Tensor, noise: Tensor) -> Tensor:
        of_judge.zero_grad()
        loss_on_real = criterion(judging(real), jit.ones(real.size(0), device=real.device))
        loss_on_real.backward()
        fake = drawing(noise).detach()
        loss_on_fake = criterion(judging(fake), jit.zeros(real.size(0), device=real.device))
        loss_on_fake.backward()
        of_judge.step()
        return (loss_on_real + loss_on_fake).detach()

    @jit.trace
    def draw(noise: Tensor) -> Tensor:
        of_drawing.zero_grad()
        loss = criterion(judging(drawing(noise)), jit.ones(noise.size(0), device=noise.device))
        loss.backward()
        of_drawing.step()
        return loss.detach()

    losses = []
    for _ in track(range(steps), "training"):
        real = images[jit.randint(len(images), (64,), device=images.device)]
        noise = jit.randn(64, LATENT, 1, 1, device=images.device)
        losses.append((judge(real, noise).item(), draw(noise).item()))
    drawing.eval()
    return losses


def distance(images: Tensor, drawn: Tensor) -> float:
    """How far apart two sets of images are: the distance of means and covariances of their pixels (Frechet)."""
    a, b = images.flatten(1).double(), drawn.flatten(1).double()
    both = jit.linalg.eigvals(a.T.cov() @ b.T.cov()).real.clamp(min=0)
    spread = a.T.cov().trace() + b.T.cov().trace() - 2 * both.sqrt().sum()
    return ((a.mean(0) - b.mean(0)).square().sum() + spread).item()


def show(images: Tensor) -> str:
    """Images side by side as text."""
    rows = jit.cat(list(images[:, 0]), dim=1).tolist()
    return "\n".join("".join(" .:-=+*#%@"[int((value + 1) * 4.999)] for value in row) for row in rows)


def main() -> None:
    """Learn, draw, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the networks learn [%(default)s]")
    parser.add_argument("--steps", type=int, default=300, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="dcgan.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    images = load_images(options.device)
    drawing = model().apply(weights_init).to(options.device)
    judging = critic(width=16, levels=2, channels=1).apply(weights_init).to(options.device)
    noise, traced = jit.randn(1000, LATENT, 1, 1, device=options.device), jit.trace(drawing)
    with jit.no_grad():
        before = distance(images, traced(noise))
    train(drawing, judging, images, options.steps)
    with jit.no_grad():
        drawn = traced(noise)
    after = distance(images, drawn)
    print(f"{show(drawn[:8])}\ndistance to the scans: {before:.1f} before, {after:.1f} after")
    print(jit.export_onnx(drawing.cpu(), example_inputs(), options.output, dynamic_axes={"input": {0: "batch"}}))
    if after > before / 2:
        sys.exit("the generator has not learned to draw, so it should learn longer")


if __name__ == "__main__":
    main()
