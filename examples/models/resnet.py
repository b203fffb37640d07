"""A ResNet: each block adds something to what it was given, so gradients reach the first layers of a deep network.

    python examples/models/resnet.py                               # learn digits, trace, export: ten seconds
    python examples/models/resnet.py --device cuda                 # the same on a GPU
    jit export-onnx examples/models/resnet.py:model -o resnet.onnx

The images come with scikit-learn: 1797 scans of digits, here 32 by 32 pixels. A step of training is one traced
function: forward, backward and the optimizer. Its learning rate falls from epoch to epoch, and the last batch of an
epoch is smaller than others; neither asks for another recording in the end.

He et al., Deep Residual Learning for Image Recognition, 2015.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F
from jit.utils.data import DataLoader, TensorDataset

# -- the network -----------------------------------------------------------------------------------------------------


class BasicBlock(nn.Module):
    """Two convolutions, added to their input."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """Args: x `[N, inputs, H, W]`. Returns: `[N, width, H / stride, W / stride]`."""
        identity = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + identity)


class Bottleneck(nn.Module):
    """Three convolutions, of which the middle one sees few channels, added to their input."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, kernel_size=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, kernel_size=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        """Args: x `[N, inputs, H, W]`. Returns: `[N, 4 * width, H / stride, W / stride]`."""
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """A stem that makes images small, stages of blocks that halve them and double the channels, and a linear layer.

    `layers` counts the blocks of each stage: ResNet-18 is `ResNet(BasicBlock, (2, 2, 2, 2), 64, 3, 1000)`, ResNet-50 is
    `ResNet(Bottleneck, (3, 4, 6, 3), 64, 3, 1000)`.
    """

    def __init__(
        self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], width: int, channels: int, classes: int
    ) -> None:
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(channels, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        stages = [self.make_layer(block, width << n, blocks, 1 if n == 0 else 2) for n, blocks in enumerate(layers)]
        self.layers = nn.Sequential(*stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.inplanes, classes)

    def make_layer(self, block: type[BasicBlock | Bottleneck], width: int, blocks: int, stride: int) -> nn.Sequential:
        """A stage: the first block changes the size, so that what it is added to has to change, too."""
        downsample, out = None, width * block.expansion
        if stride != 1 or self.inplanes != out:
            convolution = nn.Conv2d(self.inplanes, out, kernel_size=1, stride=stride, bias=False)
            downsample = nn.Sequential(convolution, nn.BatchNorm2d(out))
        first = block(self.inplanes, width, stride, downsample)
        self.inplanes = out
        return nn.Sequential(first, *[block(out, width, 1, None) for _ in range(1, blocks)])

    def forward(self, images: Tensor) -> Tensor:
        """Args: images `[N, channels, H, W]`. Returns: logits `[N, classes]`."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.avgpool(self.layers(x))
        return self.fc(x.flatten(1))


def model() -> ResNet:
    """A small network for digits."""
    return ResNet(BasicBlock, (1, 1, 1, 1), width=16, channels=1, classes=10)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.rand(4, 1, 32, 32),)


# -- learning --------------------------------------------------------------------------------------------------------


def load_data(device: str) -> tuple[TensorDataset, TensorDataset]:
    """(images with their digits to learn from, others to test with)."""
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    images = F.interpolate(jit.tensor(scans / 16, dtype=jit.float32).view(-1, 1, 8, 8), scale_factor=4)
    whole = images.to(device), jit.tensor(digits).to(device)
    tested = jit.arange(len(images), device=device) % 4 == 3
    return TensorDataset(*(part[~tested] for part in whole)), TensorDataset(*(part[tested] for part in whole))


def train(net: nn.Module, data: TensorDataset, epochs: int) -> list[float]:
    """Let `net` learn; returns the loss of each epoch's last step."""
    optimizer = jit.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = jit.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)

    @jit.trace
    def step(images: Tensor, digits: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), digits)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    for _ in track(range(epochs), "training"):
        for images, digits in DataLoader(data, batch_size=64, shuffle=True):
            loss = step(images, digits)
        schedule.step()
        losses.append(float(loss))
    return losses


def accuracy(net: nn.Module, data: TensorDataset) -> float:
    """The share of images whose largest logit is that of the right digit."""
    images, digits = data.tensors
    with jit.no_grad():
        return float((net(images).argmax(1) == digits).float().mean())


def main() -> None:
    """Learn, test, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--epochs", type=int, default=4, help="how often each image is learned [%(default)s]")
    parser.add_argument("-o", "--output", default="resnet.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    learned, tested = load_data(options.device)
    net = model().to(options.device)
    train(net, learned, options.epochs)
    traced = jit.trace(net.eval())
    right = accuracy(traced, tested)
    print(f"accuracy on {len(tested)} images that were not learned from: {right:.2%}")
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes={"images": {0: "batch"}}))
    if right < 0.95:
        sys.exit("the network reads fewer than 95 % of the digits, so it should learn longer")


if __name__ == "__main__":
    main()
