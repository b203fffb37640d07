"""A U-Net: an image becomes small and rich, then large again, with a bridge from each size to the same size.

    python examples/models/unet.py                             # find digits in noise, trace, export: 15 seconds
    python examples/models/unet.py --device cuda               # the same on a GPU
    jit export-onnx examples/models/unet.py:model -o unet.onnx

The images are made of scans that come with scikit-learn: four digits in a scene of 32 by 32 pixels, under noise. The
network says of each pixel whether it is ink. What is traced is the module alone, so that its calls can be mixed with
whatever a program does around them.

Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation, 2015.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the network -----------------------------------------------------------------------------------------------------


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions that keep the size, each with batch norm and relu."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Up(nn.Module):
    """Twice the size, then two convolutions that see the bridge, too."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, kernel_size=2, stride=2)
        self.conv = double_conv(inputs, outputs)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Args: x `[N, inputs, H, W]`, skip `[N, outputs, 2 H, 2 W]`. Returns: the shape of `skip`."""
        return self.conv(jit.cat([skip, self.up(x)], dim=1))


class UNet(nn.Module):
    """Down and up again; height and width should be multiples of `2 ** levels`."""

    def __init__(self, width: int, levels: int, channels: int, classes: int) -> None:
        super().__init__()
        pairs = list(pairwise(width << n for n in range(levels + 1)))
        self.inc = double_conv(channels, width)
        self.downs = nn.ModuleList([nn.Sequential(nn.MaxPool2d(2), double_conv(a, b)) for a, b in pairs])
        self.ups = nn.ModuleList([Up(b, a) for a, b in reversed(pairs)])
        self.outc = nn.Conv2d(width, classes, kernel_size=1)

    def forward(self, images: Tensor) -> Tensor:
        """Args: images `[N, channels, H, W]`. Returns: logits for each pixel, `[N, classes, H, W]`."""
        found = [self.inc(images)]
        for down in self.downs:
            found.append(down(found[-1]))
        x = found.pop()
        for up in self.ups:
            x = up(x, found.pop())
        return self.outc(x)


def model() -> UNet:
    """A small network for scenes of digits: paper and ink."""
    return UNet(width=8, levels=2, channels=1, classes=2)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.rand(2, 1, 32, 32),)


# -- learning --------------------------------------------------------------------------------------------------------


def load_scans(device: str) -> Tensor:
    """Scans of digits, `[1797, 8, 8]`, between 0 and 1."""
    from sklearn.datasets import load_digits

    return jit.tensor(load_digits().images / 16, dtype=jit.float32, device=device)


def scenes(scans: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(noisy images `[count, 1, 32, 32]`, the class of each pixel `[count, 32, 32]`): a scan in each quarter."""
    clean = jit.zeros(count, 32, 32, device=scans.device)
    for top in (0, 16):
        for left in (0, 16):
            down, right = (top + int(jit.randint(9, ())), left + int(jit.randint(9, ())))
            clean[:, down : down + 8, right : right + 8] = scans[jit.randint(len(scans), (count,), device=scans.device)]
    noisy = clean + 0.4 * jit.randn_like(clean)
    return noisy.unsqueeze(1), (clean > 0.5).long()


def train(net: nn.Module, scans: Tensor, steps: int) -> list[float]:
    """Let `net` learn; returns the losses. Ink is rare, so it weighs more."""
    optimizer = jit.optim.Adam(net.parameters(), lr=3e-3)
    weights = jit.tensor([1.0, 4.0], device=scans.device)
    traced, losses = jit.trace(net.train()), []
    for _ in track(range(steps), "training"):
        images, classes = scenes(scans, 16)
        loss = F.cross_entropy(traced(images), classes, weight=weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    return losses


def overlap(found: Tensor, classes: Tensor) -> float:
    """The share of pixels that are found to be ink and are ink, in those that are either."""
    ink, right = found.argmax(1) == 1, classes == 1
    return ((ink & right).sum() / (ink | right).sum()).item()


def main() -> None:
    """Learn, test, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--steps", type=int, default=120, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="unet.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    scans = load_scans(options.device)
    net = model().to(options.device)
    train(net, scans[::2], options.steps)
    images, classes = scenes(scans[1::2], 64)
    traced = jit.trace(net)
    with jit.no_grad():
        found = overlap(traced(images), classes)
    print(f"ink that is found, over scans that were not learned from: {found:.2%} of intersection over union")
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes={"images": {0: "batch"}}))
    if found < 0.6:
        sys.exit("the network finds too little of the ink, so it should learn longer")


if __name__ == "__main__":
    main()
