"""A vision transformer: an image is cut into patches, and attention relates each patch to all others.

    python examples/models/vit.py                            # learn digits, trace, export: ten seconds
    python examples/models/vit.py --device cuda              # the same on a GPU
    jit export-onnx examples/models/vit.py:model -o vit.onnx

The images come with scikit-learn: 1797 scans of digits, 8 by 8 pixels, cut into patches of 2 by 2. Besides the network
its gradients are exported: an ONNX model from images and the slope of the loss to what each weight should change.

Dosovitskiy et al., An Image is Worth 16x16 Words, 2020.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

# -- the network -----------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention between patches, then two linear layers; each is added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        inner, outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(inner, nn.GELU(), nn.Dropout(dropout), outer, nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        """Args: x `[N, T, width]`. Returns: the same shape."""
        y = self.ln_1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + self.dropout(y)
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    """Patches become tokens, one more token collects what the blocks find, and a linear layer reads it."""

    def __init__(
        self, size: int, patch: int, width: int, depth: int, heads: int, channels: int, classes: int, dropout: float
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(jit.zeros(1, 1, width))
        self.pos_embedding = nn.Parameter(jit.zeros(1, (size // patch) ** 2 + 1, width))
        nn.init.normal_(self.pos_embedding, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(*[Block(width, heads, dropout) for _ in range(depth)])
        self.ln, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Args: images `[N, channels, size, size]`. Returns: logits `[N, classes]`."""
        x = self.conv_proj(images).flatten(2).transpose(1, 2)
        x = jit.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.layers(self.dropout(x + self.pos_embedding))
        return self.head(self.ln(x)[:, 0])


def model() -> VisionTransformer:
    """A small network for digits."""
    return VisionTransformer(size=8, patch=2, width=32, depth=3, heads=4, channels=1, classes=10, dropout=0.1)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.rand(4, 1, 8, 8),)


# -- learning --------------------------------------------------------------------------------------------------------


def load_data(device: str) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(images and their digits to learn from, others to test with); every fourth image is for testing."""
    from sklearn.datasets import load_digits

    scans, digits = load_digits(return_X_y=True)
    whole = jit.tensor(scans / 16, dtype=jit.float32, device=device).view(-1, 1, 8, 8), jit.tensor(digits).to(device)
    tested = jit.arange(len(digits), device=device) % 4 == 3
    return (whole[0][~tested], whole[1][~tested]), (whole[0][tested], whole[1][tested])


def train(net: nn.Module, images: Tensor, digits: Tensor, steps: int) -> list[float]:
    """Let `net` learn, by one traced function; returns the losses."""
    optimizer = jit.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.05)
    schedule = jit.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    @jit.trace
    def step(x: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    for _ in track(range(steps), "training"):
        chosen = jit.randint(len(images), (64,), device=images.device)
        losses.append(step(images[chosen], digits[chosen]))
        schedule.step()
    return jit.stack(losses).tolist()


def main() -> None:
    """Learn, test, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--steps", type=int, default=300, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="vit.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    learned, (images, digits) = load_data(options.device)
    net = model().to(options.device)
    train(net, *learned, options.steps)
    traced = jit.trace(net.eval())
    with jit.no_grad():
        right = (traced(images).argmax(1) == digits).float().mean().item()
    print(f"accuracy on {len(images)} images that were not learned from: {right:.2%}")
    net, batch = net.cpu(), {"images": {0: ("batch", 2, 1024)}, "grad": {0: ("batch", 2, 1024)}}
    print(jit.export_onnx(net, example_inputs(), options.output, dynamic_axes={"images": {0: "batch"}}))
    gradients = Path(options.output).with_suffix(".gradients.onnx")
    report = jit.export_onnx(net, example_inputs(), gradients, stage=1, dynamic_axes=batch)
    print(f"the gradients of {len(report.outputs)} weights are in {gradients}, {report.verified}")
    if right < 0.9:
        sys.exit("the network reads fewer than 90 % of the digits, so it should learn longer")


if __name__ == "__main__":
    main()
