"""A variational autoencoder: digits become a few numbers with some noise, and the numbers become digits again.

    python examples/models/vae.py                            # learn digits, draw some, trace, export: five seconds
    python examples/models/vae.py --device cuda              # the same on a GPU
    jit export-onnx examples/models/vae.py:model -o vae.onnx

The images come with scikit-learn: 1797 scans of digits, 8 by 8 pixels. The noise is drawn inside of the traced step,
and it is the noise that the same program draws untraced.

Kingma and Welling, Auto-Encoding Variational Bayes, 2013.
"""

from __future__ import annotations

import argparse
import sys

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the network -----------------------------------------------------------------------------------------------------


class VAE(nn.Module):
    """An encoder to the mean and the logarithm of the variance of `latent` numbers, and a decoder from numbers."""

    def __init__(self, pixels: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.pixels = pixels
        self.fc1 = nn.Linear(pixels, hidden)
        self.fc21, self.fc22 = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, pixels)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Args: x `[N, pixels]`. Returns: mean and logarithm of the variance, `[N, latent]` each."""
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        """Numbers around the mean, `[N, latent]`; the mean itself unless in training."""
        if not self.training:
            return mu
        std = jit.exp(0.5 * logvar)
        return mu + jit.randn_like(std) * std

    def decode(self, z: Tensor) -> Tensor:
        """Args: z `[N, latent]`. Returns: brightnesses `[N, pixels]` between 0 and 1."""
        return jit.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Args: images `[N, 1, H, W]`. Returns: brightnesses `[N, pixels]`, mean and logarithm of the variance."""
        mu, logvar = self.encode(images.view(-1, self.pixels))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(found: Tensor, images: Tensor, mu: Tensor, logvar: Tensor) -> Tensor:
    """The number of nats that it takes to tell the images, at most: how unlikely they are, and what the numbers say."""
    unlikely = F.binary_cross_entropy(found, images.view(len(images), -1), reduction="sum")
    said = -0.5 * jit.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return unlikely + said


def model() -> VAE:
    """A small network for digits."""
    return VAE(pixels=64, hidden=128, latent=8)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.rand(4, 1, 8, 8),)


# -- learning --------------------------------------------------------------------------------------------------------


def load_images(device: str) -> tuple[Tensor, Tensor]:
    """(scans to learn from, others to test with), `[N, 1, 8, 8]`, between 0 and 1."""
    from sklearn.datasets import load_digits

    images = jit.tensor(load_digits().images[:, None] / 16, dtype=jit.float32, device=device)
    tested = jit.arange(len(images), device=device) % 4 == 3
    return images[~tested], images[tested]


def train(net: VAE, images: Tensor, epochs: int) -> list[float]:
    """Let `net` learn, by one traced function; returns the mean loss of an image in each epoch."""
    optimizer = jit.optim.Adam(net.parameters(), lr=2e-3)

    @jit.trace
    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        found, mu, logvar = net(batch)
        loss = loss_function(found, batch, mu, logvar)
        (loss / len(batch)).backward()
        optimizer.step()
        return loss.detach()

    net.train()
    losses = []
    for _ in track(range(epochs), "training"):
        shuffled = images[jit.randperm(len(images), device=images.device)]
        total = sum(step(batch) for batch in shuffled.split(64))
        losses.append(float(total) / len(images))
    net.eval()
    return losses


def loss_on(net: VAE, images: Tensor) -> float:
    """The mean loss of an image, without noise."""
    with jit.no_grad():
        found, mu, logvar = net(images)
    return loss_function(found, images, mu, logvar).item() / len(images)


def show(images: Tensor) -> str:
    """Images side by side as text."""
    rows = jit.cat(list(images.view(-1, 8, 8)), dim=1).tolist()
    return "\n".join("".join(" .:-=+*#%@"[int(brightness * 9.999)] for brightness in row) for row in rows)


def main() -> None:
    """Learn, test, draw, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--epochs", type=int, default=40, help="how often each image is learned [%(default)s]")
    parser.add_argument("-o", "--output", default="vae.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    learned, tested = load_images(options.device)
    net = model().to(options.device).eval()
    before = loss_on(net, tested)
    train(net, learned, options.epochs)
    after = loss_on(net, tested)
    print(f"nats for an image that was not learned from: {before:.2f} before, {after:.2f} after")
    draw = jit.trace(net.decode)
    with jit.no_grad():
        print(show(draw(jit.randn(9, 8, device=options.device))))
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes={"images": {0: "batch"}}))
    if after > 28:
        sys.exit("it takes more than 28 nats to tell an image, so the network should learn longer")


if __name__ == "__main__":
    main()
