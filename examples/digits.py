"""A network learns to read handwritten digits, is traced, and becomes an ONNX model: all of `jit` on one page.

    python examples/digits.py                                          # train, trace, export, compare: half a minute
    python examples/digits.py --device cuda                            # the same on a GPU
    python examples/digits.py --quantize                               # and with weights of 8 bits
    jit export-onnx examples/digits.py:model -o digits.onnx            # the same export from the command line

The images come with scikit-learn: 1797 scans of digits, 8 by 8 pixels, brightness 0 to 16.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import jit
from jit import nn
from jit.nn import functional as F

# -- the network: PyTorch's way, `jit` for `torch` -------------------------------------------------------------------


class Net(nn.Module):
    """Two convolutions with batch norm, each halving the image, then one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Any) -> Any:
        """Args: images `[N, 1, 8, 8]`. Returns: logits `[N, 10]`."""
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(images))), 2)
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.head(self.dropout(x.flatten(1)))


# -- the images ------------------------------------------------------------------------------------------------------


def load_digits() -> tuple[jit.Tensor, jit.Tensor, jit.Tensor, jit.Tensor]:
    """(images to learn from, their digits, images to test with, their digits); every fourth image is for testing."""
    from sklearn.datasets import load_digits as bundled_digits

    digits = bundled_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    tested = np.arange(len(images)) % 4 == 3
    parts = images[~tested], digits.target[~tested], images[tested], digits.target[tested]
    first, second, third, fourth = (jit.tensor(part) for part in parts)
    return first, second, third, fourth


def batches(images: jit.Tensor, digits: jit.Tensor, size: int, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """All images once, in a random order."""
    order = rng.permutation(len(images))
    for start in range(0, len(order), size):
        chosen = jit.from_numpy(order[start : start + size])
        yield images[chosen], digits[chosen]


# -- learning --------------------------------------------------------------------------------------------------------


def train(net: Net, images: jit.Tensor, digits: jit.Tensor, epochs: int, show: bool = True) -> Net:
    """Let `net` learn; a progress bar on a terminal, a line per epoch elsewhere. It is returned in evaluation mode."""
    from rich.progress import Progress

    optimizer = jit.optim.Adam(net.parameters(), lr=0.01)
    schedule = jit.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    rng = np.random.default_rng(0)
    on_terminal = show and sys.stdout.isatty()
    with Progress(disable=not on_terminal) as bar:
        task = bar.add_task("training", total=epochs)
        for epoch in range(epochs):
            losses = [train_step(net, optimizer, *batch) for batch in batches(images, digits, 64, rng)]
            schedule.step()
            bar.update(task, advance=1, description=f"epoch {epoch + 1}, loss {np.mean(losses):.4f}")
            if show and not on_terminal:
                print(f"epoch {epoch + 1:2} of {epochs}: loss {np.mean(losses):.4f}", flush=True)
    return net.eval()


def train_step(net: Net, optimizer: jit.optim.Optimizer, images: Any, digits: Any) -> float:
    """One step down the gradient; returns the loss before it."""
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images), digits)
    loss.backward()
    optimizer.step()
    return float(loss)


def accuracy(logits: Any, digits: jit.Tensor) -> float:
    """The share of images whose largest logit is that of the right digit."""
    return float(np.mean(np.argmax(logits, axis=1) == digits.cpu().numpy()))


# -- what `jit export-onnx examples/digits.py:model` looks for -------------------------------------------------------


def model() -> Net:
    """A network that has learned for a few seconds."""
    jit.manual_seed(0)
    images, digits, _, _ = load_digits()
    return train(Net(), images, digits, epochs=3, show=False)


def example_inputs() -> tuple[jit.Tensor]:
    """Arguments for `model`, to trace it with."""
    return (load_digits()[2][:8],)


# -- all of it -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Train, trace, export; compare what onnxruntime makes of the exported model with what the network says."""
    options = arguments()
    jit.manual_seed(0)
    images, digits, test_images, test_digits = (part.to(options.device) for part in load_digits())
    net = train(Net().to(options.device), images, digits, options.epochs)
    with jit.no_grad():
        logits = net(test_images).cpu().numpy()
    print(f"\naccuracy on {len(test_digits)} images that were not learned from: {accuracy(logits, test_digits):.2%}\n")

    traced = jit.trace(net, example_inputs=(test_images[:8],))
    print(traced.graph)
    with jit.no_grad():
        difference = spread(traced(test_images).cpu().numpy(), logits)
    print(f"\nrun from its graph, logits differ by {difference:.1e} of the largest")

    report = jit.export_onnx(
        net, (test_images[:8],), options.output, input_names=["images"], output_names=["logits"],
        dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}},
    )  # fmt: skip
    print(f"\n{report}\n")

    from_onnx = run_onnx(options.output, test_images.cpu().numpy())
    difference = spread(from_onnx, logits)
    right = accuracy(from_onnx, test_digits)
    print(f"onnxruntime: accuracy {right:.2%}, logits differ by {difference:.1e} of the largest")
    if right < 0.97 or right != accuracy(logits, test_digits):
        sys.exit("the network reads fewer than 97 % of the digits, so train it longer; or onnxruntime reads other ones")
    if difference > 1e-5:
        sys.exit("onnxruntime disagrees with the network")
    if options.quantize:
        quantize(net.cpu(), images.cpu(), test_images.cpu(), test_digits, Path(options.output))


def quantize(net: Net, images: jit.Tensor, test_images: jit.Tensor, test_digits: jit.Tensor, output: Path) -> None:
    """Export the network once more, with weights of 8 bits and a scale for the input of each layer."""
    from jit.ao.quantization import quantize_static

    small = quantize_static(net, images[:512].split(64))
    path = output.with_name(f"{output.stem}-int8.onnx")
    jit.export_onnx(
        small, (test_images[:8],), path, input_names=["images"], output_names=["logits"],
        dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}},
    )  # fmt: skip
    logits = run_onnx(str(path), test_images.numpy())
    sizes = f"{path.stat().st_size // 1024} KB instead of {output.stat().st_size // 1024}"
    print(f"with 8 bits: accuracy {accuracy(logits, test_digits):.2%}, {sizes}")


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", default="digits.onnx", help="where the ONNX model goes [%(default)s]")
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--epochs", type=int, default=8, help="how often each image is learned [%(default)s]")
    parser.add_argument("--quantize", action="store_true", help="also write a model of 8 bits, beside the other")
    options = parser.parse_args()
    folder = Path(options.output).resolve().parent
    if not folder.is_dir():
        parser.error(f"there is no folder {str(folder)!r} for the model; make it first, or choose another -o")
    return options


def run_onnx(path: str, images: Any) -> Any:
    """The logits that onnxruntime computes."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"images": images})[0]


def spread(actual: Any, expected: Any) -> float:
    """The largest difference, as a share of the largest value."""
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


if __name__ == "__main__":
    main()
