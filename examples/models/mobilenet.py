"""A MobileNet: convolutions of one channel each, with 1x1 convolutions around them that mix channels, are cheap.

    python examples/models/mobilenet.py                                  # learn digits, trace, export: ten seconds
    python examples/models/mobilenet.py --device cuda                    # the same on a GPU
    jit export-onnx examples/models/mobilenet.py:model -o mobilenet.onnx

The images come with scikit-learn: 1797 scans of digits, here 16 by 16 pixels. The network takes images of any size, and
so does the exported model: batch, height and width are all left open.

Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the network -----------------------------------------------------------------------------------------------------


class ConvBnRelu(nn.Sequential):
    """A convolution that keeps the size, or halves it with stride 2; batch norm; a relu that ends at 6."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Many channels between few: widen, convolve each channel for itself, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
        super().__init__()
        hidden = inputs * expand
        self.use_res_connect = stride == 1 and inputs == outputs
        layers: list[nn.Module] = [] if expand == 1 else [ConvBnRelu(inputs, hidden, kernel=1)]
        layers += [ConvBnRelu(hidden, hidden, stride=stride, groups=hidden)]
        layers += [nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Args: x `[N, inputs, H, W]`. Returns: `[N, outputs, H / stride, W / stride]`."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Of the network as published: how much a block widens, its channels, the number of blocks, the first one's stride."""
SMALL_STAGES = ((1, 16, 1, 1), (4, 24, 2, 2), (4, 32, 1, 2))


class MobileNetV2(nn.Module):
    """A stem, stages of blocks, a last 1x1 convolution, the mean over all places, and a linear layer."""

    def __init__(
        self, stages: Sequence[Sequence[int]], stem: int, last: int, channels: int, classes: int, dropout: float
    ) -> None:
        super().__init__()
        features: list[nn.Module] = [ConvBnRelu(channels, stem, stride=2)]
        inputs = stem
        for expand, outputs, blocks, stride in stages:
            for n in range(blocks):
                features.append(InvertedResidual(inputs, outputs, stride if n == 0 else 1, expand))
                inputs = outputs
        features.append(ConvBnRelu(inputs, last, kernel=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))

    def forward(self, images: Tensor) -> Tensor:
        """Args: images `[N, channels, H, W]`. Returns: logits `[N, classes]`."""
        return self.classifier(self.features(images).mean([2, 3]))


def model() -> MobileNetV2:
    """A small network for digits."""
    return MobileNetV2(SMALL_STAGES, stem=16, last=64, channels=1, classes=10, dropout=0.1)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.rand(4, 1, 16, 16),)


# -- learning --------------------------------------------------------------------------------------------------------


def load_data(device: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(images and their digits to learn from, others to test with); every fourth image is for testing."""
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    images = jit.tensor(scans / 16, dtype=jit.float32).view(-1, 1, 8, 8)
    whole = F.interpolate(images, scale_factor=2, mode="bilinear").to(device), jit.tensor(digits).to(device)
    tested = jit.arange(len(images), device=device) % 4 == 3
    return (whole[0][~tested], whole[1][~tested]), (whole[0][tested], whole[1][tested])


def train(net: nn.Module, images: Tensor, digits: Tensor, epochs: int) -> list[float]:
    """Let `net` learn; returns the loss of each epoch's last step."""
    optimizer = jit.optim.RMSprop(net.parameters(), lr=2e-3, momentum=0.9, weight_decay=1e-5)
    traced, losses = jit.trace(net.train()), []
    for _ in track(range(epochs), "training"):
        for chosen in jit.randperm(len(images), device=images.device).split(64):
            optimizer.zero_grad()
            loss = F.cross_entropy(traced(images[chosen]), digits[chosen], label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
        losses.append(loss.item())
    net.eval()
    return losses


def main() -> None:
    """Learn, test, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--epochs", type=int, default=6, help="how often each image is learned [%(default)s]")
    parser.add_argument("-o", "--output", default="mobilenet.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    learned, (images, digits) = load_data(options.device)
    net = model().to(options.device)
    train(net, *learned, options.epochs)
    traced = jit.trace(net)
    with jit.no_grad():
        right = (traced(images).argmax(1) == digits).float().mean().item()
    print(f"accuracy on {len(images)} images that were not learned from: {right:.2%}")
    sizes = {"images": {0: "batch", 2: "height", 3: "width"}}
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes=sizes))
    if right < 0.95:
        sys.exit("the network reads fewer than 95 % of the digits, so it should learn longer")


if __name__ == "__main__":
    main()
