"""Programs whose sizes vary: one model is right for all of them, with every axis dynamic and with each alone."""

import math
from typing import Any

import numpy as np
import onnxruntime
import pytest

import jit
from jit import nn
from jit.nn import functional as F

IMAGES = [(2, 12, 16), (1, 12, 16), (3, 13, 17), (2, 24, 9), (1, 9, 31), (4, 16, 16)]
SEQUENCES = [(2, 5), (1, 5), (3, 7), (2, 12), (4, 2), (5, 9)]
EVEN = [(2, 12, 16), (1, 12, 16), (3, 14, 18), (2, 24, 8), (1, 4, 30)]


class Block(nn.Module):
    """Attention over heads that are made by views with computed sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (y.view(b, t, 4, width // 4).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(4)
        places = jit.arange(t)
        scores = scores.masked_fill(places[None, :] > places[:, None], float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, width))


class Net(nn.Module):
    """A small U-net: pooling, upsampling to the size of another tensor, and concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner, self.up = (
            nn.Conv2d(3, 4, 3, padding=1),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.Conv2d(8, 2, 1),
        )

    def forward(self, x):
        outer = self.down(x).relu()
        inner = F.interpolate(self.inner(F.max_pool2d(outer, 2)), size=outer.shape[2:], mode="bilinear")
        return self.up(jit.cat([inner, outer], 1))


class Positions(nn.Module):
    """Embeddings of tokens and of their places."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(10, 8), nn.Embedding(32, 8)

    def forward(self, x):
        return self.tokens(x) + self.places(jit.arange(x.shape[1]))


class Decoder(nn.Module):
    """A decoder that attends to what it is given as well as to twice that."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x):
        return self.layer(x, 2 * x)


class Tagger(nn.Module):
    """A recurrent network whose outputs are reshaped for a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.head = nn.LSTM(16, 4, 2, bidirectional=True, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        out, (h, c) = self.net(x)
        return self.head(out.reshape(-1, 8)).view(x.shape[0], x.shape[1], 3), h, c


def convolutional() -> nn.Module:
    layers = [
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2),
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))


OF_IMAGES: dict[str, Any] = {
    "convolutional net": convolutional(),
    "u-net": Net(),
    "max pooling": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max pooling with ceil": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "mean pooling": lambda x: F.avg_pool2d(x, 2),
    "mean pooling with ceil": lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "adaptive mean of one dim": lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    "largest of all": lambda x: F.adaptive_max_pool2d(x, 1),
    "twice the size": lambda x: F.interpolate(x, scale_factor=2),
    "twice the size, linear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "twice the size, cubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "twice the size, area": lambda x: F.interpolate(x, scale_factor=2, mode="area"),
    "half the size": lambda x: F.interpolate(x, scale_factor=0.5),
    "half the size, linear": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "half the size, area": lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
    "by 1.5": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "by 1.7, recomputed": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
    "corners aligned": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
    "to a fixed size": lambda x: F.interpolate(x, size=(20, 24), mode="nearest-exact"),
    "upsample": nn.Upsample(scale_factor=2),
    "transposed convolution": nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
    "group norm": nn.GroupNorm(1, 3),
    "instance norm": nn.InstanceNorm2d(3),
    "patches": lambda x: F.unfold(x, 3),
    "windows": lambda x: x.unfold(2, 3, 2),
    "padding": lambda x: (F.pad(x, (1, 2, 3, 0)), F.pad(x, (1, 2, 3, 0), mode="circular")),
    "reflection": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
    "halves": lambda x: jit.cat(x.chunk(2, 2)[::-1], 2),
    "three and the rest": lambda x: [part.sum((2, 3)) for part in x.split([3, x.shape[2] - 3], 2)],
    "stack and cat": lambda x: jit.stack([jit.cat([x, x], 2), jit.cat([x, -x], 2)], 1),
    "roll": lambda x: (x.roll((1, -2), (2, 3)), x.roll(3)),
    "half of the rows": lambda x: (x[:, :, : x.shape[2] // 2], x[:, :, -1], x[:, :, ::2, 1::3]),
    "the last but one": lambda x: x[:, :, x.shape[2] - 2],
    "tokens of patches": lambda x: F.avg_pool2d(x, 4).flatten(2).transpose(1, 2),
    "joined dims": lambda x: (x.view(x.shape[0], 3, -1), x.reshape(x.shape[0] * x.shape[2], -1)),
    "grid": lambda x: x + jit.arange(x.shape[2])[:, None] + jit.linspace(0, 1, x.shape[3]),
    "diagonal": lambda x: jit.diagonal(x @ x.transpose(2, 3), 0, 2, 3),
    "triangle": lambda x: (x @ x.transpose(2, 3)).tril(),
    "by the size": lambda x: x / x.shape[2] / max(x.shape[3], 1) + x.numel(),
    "rounded up": lambda x: x[:, :, : math.ceil(x.shape[2] / 2), : math.floor(x.shape[3] * 0.75)],
}  # fmt: skip
OF_SEQUENCES: dict[str, Any] = {
    "attention": Block(),
    "multi-head attention": nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
    "decoder": Decoder(),
    "scaled dot product": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "tagger": Tagger(),
    "gated": nn.GRU(16, 4, batch_first=True),
    "recurrent": nn.RNN(16, 4, batch_first=True),
    "pooling": lambda x: F.max_pool1d(x.transpose(1, 2), 2),
    "adaptive maximum": lambda x: F.adaptive_max_pool1d(x.transpose(1, 2), 2),
    "class token": lambda x: jit.cat([jit.zeros(1, 1, 16).expand(x.shape[0], -1, -1), x], 1),
    "shifted": lambda x: jit.cat([x[:, 1:], x[:, :1]], 1),
    "pairs": lambda x: (x[:, :, None] - x[:, None]).pow(2).sum(-1),
    "loss": lambda x: F.cross_entropy(x.reshape(-1, 16), jit.zeros(x.shape[0] * x.shape[1], dtype=jit.int64)),
    "repeated": lambda x: (x.repeat_interleave(2, 1), x.repeat(1, 2, 1), x.flip(1), x[:, ::2]),
}


def flat(results: Any) -> list[np.ndarray]:
    return [r.detach().numpy() for r in jit.eager.pytree.flatten(results)[0]]


def check(function, make, names, sizes, path, axes) -> Any:
    """Export for the first sizes, and compare at the others: those of the axes vary, and the rest stays."""
    report = jit.export_onnx(function, make(*sizes[0]), path, dynamic_axes={"x": axes}, input_names=["x"])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for each in sizes[1:]:
        x = make(*(size if name in axes.values() else now for name, size, now in zip(names, each, sizes[0])))
        for found, expected in zip(session.run(None, {"x": x.numpy()}), flat(function(x)), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return report


def check_all(function, make, names, dims, sizes, path) -> Any:
    if isinstance(function, nn.Module):
        function.eval()
    axes = dict(zip(dims, names, strict=True))
    for dim, name in axes.items():
        check(function, make, names, sizes, path, {dim: name})
    return check(function, make, names, sizes, path, axes)


def image(n, h, w):
    return jit.randn(n, 3, h, w)


def sequence(b, t):
    return jit.randn(b, t, 16)


@pytest.mark.parametrize("name", OF_IMAGES)
def test_images(name, tmp_path):
    jit.manual_seed(0)
    report = check_all(OF_IMAGES[name], image, ("n", "h", "w"), (0, 2, 3), IMAGES, tmp_path / "m.onnx")
    assert not report.warnings


@pytest.mark.parametrize("name", OF_SEQUENCES)
def test_sequences(name, tmp_path):
    jit.manual_seed(0)
    report = check_all(OF_SEQUENCES[name], sequence, ("b", "t"), (0, 1), SEQUENCES, tmp_path / "m.onnx")
    assert "?" not in "".join(report.outputs.values())


def test_time_first(tmp_path):
    net = nn.LSTM(16, 4)
    report = check_all(net, sequence, ("t", "b"), (0, 1), SEQUENCES, tmp_path / "m.onnx")
    assert list(report.outputs.values()) == ["float32 (t, b, 4)", "float32 (1, b, 4)", "float32 (1, b, 4)"]


def test_places(tmp_path):
    def make(b, t):
        return jit.randint(0, 10, (b, t))

    report = check_all(Positions(), make, ("b", "t"), (0, 1), SEQUENCES, tmp_path / "m.onnx")
    assert report.outputs == {"output": "float32 (b, t, 8)"}


def test_even_sizes(tmp_path):
    report = check_all(lambda x: F.pixel_unshuffle(x, 2), image, ("n", "h", "w"), (0, 2, 3), EVEN, tmp_path / "m.onnx")
    assert report.outputs == {"output": "float32 (n, 12, h//2, w//2)"}
    assert [text.partition(" (")[0] for text in report.conditions] == ["h % 2 == 0", "w % 2 == 0"]


def windows(x):
    n, c, h, w = x.shape
    return x.view(n, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)


def merged(x):
    return jit.cat([x[:, :, i::2, j::2] for i in range(2) for j in range(2)], 1)


@pytest.mark.parametrize(("function", "step"), [(windows, 4), (merged, 2)])
def test_sizes_that_are_multiples(function, step, tmp_path):
    sizes = [(2, 8, 12), (1, 4, 4), (3, 12, 4), (1, 16, 20), (5, 4, 8)]
    report = check_all(function, image, ("n", "h", "w"), (0, 2, 3), sizes, tmp_path / "m.onnx")
    assert len(report.conditions) >= 1 and not report.warnings
    assert all(size % step == 0 for run in report.verified.sizes for size in run["x"][2:])


@pytest.mark.parametrize("traced", [(1, 12, 16), (2, 1, 16), (1, 1, 1)])
def test_arguments_with_sizes_of_one(traced, tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    report = check_all(net, image, ("n", "h", "w"), (0, 2, 3), [traced, *IMAGES], tmp_path / "m.onnx")
    assert report.outputs == {"output": "float32 (n, 4)"} and not report.conditions


def test_an_attention_is_no_larger_than_its_arithmetic():
    block = Block().eval()
    fixed = jit.export_onnx(block, sequence(2, 5))
    report = jit.export_onnx(block, sequence(2, 5), dynamic_axes={"x": {0: "b", 1: "t"}})
    assert report.outputs == {"output": "float32 (b, t, 16)"}
    assert report.op_histogram["Shape"] <= 2  # each size is read once
    assert report.node_count - fixed.node_count <= 7
