"""A diffusion model: a network finds the noise in an image, so noise alone becomes an image, step by step.

    python examples/models/diffusion.py                                  # learn to draw, trace, export: 15 seconds
    python examples/models/diffusion.py --device cuda                    # the same on a GPU
    jit export-onnx examples/models/diffusion.py:model -o diffusion.onnx

The images come with scikit-learn: 1797 scans of digits, 8 by 8 pixels. Drawing calls the traced network once for each
step of the way back; training and drawing have batches of other sizes, and nobody has to care.

Ho et al., Denoising Diffusion Probabilistic Models, 2020; Song et al., Denoising Diffusion Implicit Models, 2020.
"""

from __future__ import annotations

import argparse
import math
import sys
from itertools import pairwise

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the network -----------------------------------------------------------------------------------------------------


class ResBlock(nn.Module):
    """Two convolutions, between which the block learns what time it is; added to the input."""

    def __init__(self, inputs: int, outputs: int, times: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.dropout = nn.Linear(times, outputs), nn.Dropout(dropout)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Args: x `[N, inputs, H, W]`, t `[N, times]`. Returns: `[N, outputs, H, W]`."""
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        h = self.conv2(self.dropout(F.silu(self.norm2(h))))
        return self.skip(x) + h


class AttentionBlock(nn.Module):
    """Each place looks at all others; added to the input."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv, self.proj = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Args: x `[N, C, H, W]`. Returns: the same shape."""
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(B, 3, C, H * W).unbind(1)
        weights = F.softmax(jit.bmm(q.transpose(1, 2), k) * C**-0.5, dim=-1)
        h = jit.bmm(v, weights.transpose(1, 2)).reshape(B, C, H, W)
        return x + self.proj(h)


class Denoiser(nn.Module):
    """A U-Net that knows how much noise there is, with group norms, and attention at the smallest size."""

    def __init__(self, width: int, levels: int, groups: int, channels: int, dropout: float) -> None:
        super().__init__()
        half, times = width // 2, 4 * width
        self.register_buffer("frequencies", jit.exp(jit.arange(half) * (-math.log(10000.0) / half)))
        self.time_mlp = nn.Sequential(nn.Linear(width, times), nn.SiLU(), nn.Linear(times, times))
        self.conv_in, widths = nn.Conv2d(channels, width, 3, padding=1), [width << n for n in range(levels)]
        pairs, last = list(pairwise(widths)), widths[-1]

        def block(inputs: int, outputs: int) -> ResBlock:
            return ResBlock(inputs, outputs, times, groups, dropout)

        self.downs = nn.ModuleList([block(a, b) for a, b in pairs])
        self.shrinks = nn.ModuleList([nn.Conv2d(b, b, 3, stride=2, padding=1) for _, b in pairs])
        self.mid1, self.mid, self.mid2 = block(last, last), AttentionBlock(last, groups), block(last, last)
        self.grows = nn.ModuleList([nn.Conv2d(b, b, 3, padding=1) for _, b in reversed(pairs)])
        self.ups = nn.ModuleList([block(2 * b, a) for a, b in reversed(pairs)])
        self.norm_out, self.conv_out = nn.GroupNorm(groups, width), nn.Conv2d(width, channels, 3, padding=1)

    def embedded(self, t: Tensor) -> Tensor:
        """Args: t `[N]`, whole numbers. Returns: waves of all lengths at these times, `[N, 4 * width]`."""
        angles = t[:, None] * self.frequencies[None]
        return self.time_mlp(jit.cat([angles.sin(), angles.cos()], dim=-1))

    def forward(self, images: Tensor, times: Tensor) -> Tensor:
        """Args: images `[N, C, H, W]`, times `[N]`. Returns: the noise in the images, `[N, C, H, W]`."""
        t, h, skips = self.embedded(times), self.conv_in(images), []
        for down, shrink in zip(self.downs, self.shrinks):
            h = down(h, t)
            skips.append(h)
            h = shrink(h)
        h = self.mid2(self.mid(self.mid1(h, t)), t)
        for grow, up in zip(self.grows, self.ups):
            h = grow(F.interpolate(h, scale_factor=2, mode="nearest"))
            h = up(jit.cat([h, skips.pop()], dim=1), t)
        return self.conv_out(F.silu(self.norm_out(h)))


def model() -> Denoiser:
    """A small network for digits."""
    return Denoiser(width=16, levels=2, groups=4, channels=1, dropout=0.0)


def example_inputs() -> tuple[Tensor, Tensor]:
    """Arguments for `model`."""
    return jit.randn(4, 1, 8, 8), jit.randint(TIMES, (4,))


# -- noise -----------------------------------------------------------------------------------------------------------

TIMES = 100
"""The number of steps from an image to noise."""


def kept(device: str | jit.device) -> Tensor:
    """The share of the image's variance that is left at each time, `[TIMES]`."""
    return (1 - jit.linspace(1e-4, 0.1, TIMES, device=device)).cumprod(0)


def draw(net: nn.Module, count: int, device: str, steps: int = 20) -> Tensor:
    """Images made of noise, `[count, 1, 8, 8]`: the noise that is found is taken away, then a little less put back."""
    share, x = kept(device), jit.randn(count, 1, 8, 8, device=device)
    times = jit.linspace(TIMES - 1, 0, steps).long().tolist()
    with jit.no_grad():
        for now, then in zip(times, [*times[1:], None]):
            noise = net(x, jit.full((count,), now, device=device))
            clean = (x - (1 - share[now]).sqrt() * noise) / share[now].sqrt()
            clean = clean.clamp(-1, 1)
            x = clean if then is None else share[then].sqrt() * clean + (1 - share[then]).sqrt() * noise
    return x


# -- learning --------------------------------------------------------------------------------------------------------


def load_images(device: str) -> Tensor:
    """Scans of digits `[1797, 1, 8, 8]`, between -1 and 1."""
    from sklearn.datasets import load_digits

    return jit.tensor(load_digits().images[:, None] / 8 - 1, dtype=jit.float32, device=device)


def train(net: nn.Module, images: Tensor, steps: int) -> list[float]:
    """Let `net` learn, by one traced function; returns the losses."""
    optimizer = jit.optim.Adam(net.parameters(), lr=2e-3)
    share = kept(images.device)

    @jit.trace
    def step(clean: Tensor) -> Tensor:
        times = jit.randint(TIMES, (clean.shape[0],), device=clean.device)
        noise, left = jit.randn_like(clean), share[times][:, None, None, None]
        optimizer.zero_grad()
        loss = F.mse_loss(net(left.sqrt() * clean + (1 - left).sqrt() * noise, times), noise)
        loss.backward()
        optimizer.step()
        return loss.detach()

    net.train()
    losses = []
    for _ in track(range(steps), "training"):
        losses.append(step(images[jit.randint(len(images), (64,), device=images.device)]).item())
    net.eval()
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
    """Learn, draw, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--steps", type=int, default=200, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="diffusion.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    images = load_images(options.device)
    net = model().to(options.device)
    traced = jit.trace(net)
    before = distance(images, draw(traced, 500, options.device))
    train(net, images, options.steps)
    drawn = draw(traced, 500, options.device)
    after = distance(images, drawn)
    print(f"{show(drawn[:9])}\ndistance to the scans: {before:.1f} before, {after:.1f} after")
    batch = {"images": {0: "batch"}, "times": {0: "batch"}}
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes=batch))
    if after > before / 4:
        sys.exit("the network has not learned to draw, so it should learn longer")


if __name__ == "__main__":
    main()
