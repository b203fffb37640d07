"""Common architectures in small sizes, each with the axes along which it may vary: for exports of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import jit
from benchmarks.models import SMALL
from jit import nn
from jit.nn import functional as F

Sizes = Mapping[str, int]


class Architecture(NamedTuple):
    """A network, its inputs, and which of their axes vary."""

    network: Callable[[], Any]
    draw: Callable[[np.random.Generator, Sizes], list[Any]]
    """Makes inputs of some sizes of the axes."""
    axes: tuple[Mapping[int, str], ...]
    """For each input, dim -> axis."""
    sizes: tuple[Sizes, ...]
    """The sizes at the export, then others."""


# -- inputs --------------------------------------------------------------------------------------------------------


def floats(rng: np.random.Generator, *sizes: int) -> Any:
    """A tensor of normal numbers."""
    return jit.from_numpy(rng.standard_normal(sizes, np.float32))


def words(rng: np.random.Generator, *sizes: int) -> Any:
    """A tensor of numbers of words."""
    return jit.from_numpy(rng.integers(0, WORDS, sizes))


WORDS, WIDTH = 23, 16
IMAGES = (dict(n=2, h=32, w=48), dict(n=1, h=47, w=33), dict(n=3, h=64, w=65), dict(n=5, h=81, w=96))
EVEN = (dict(n=2, h=32, w=48), dict(n=1, h=48, w=32), dict(n=3, h=64, w=64), dict(n=5, h=80, w=96))
"""Sizes for networks that halve images and join what they have found at each size."""
SHORT = (dict(n=2, t=5), dict(n=1, t=6), dict(n=3, t=2), dict(n=5, t=4))
"""Sizes for networks that know six places."""
TEXTS = (dict(n=2, t=6), dict(n=1, t=9), dict(n=3, t=2), dict(n=5, t=12))
BATCHES = (dict(n=2), dict(n=1), dict(n=3), dict(n=7))


def of_images(network: Callable[[], Any], channels: int = 3, sizes: tuple[Sizes, ...] = IMAGES) -> Architecture:
    """A network for images of any size."""
    draw = lambda rng, s: [floats(rng, s["n"], channels, s["h"], s["w"])]  # noqa: E731
    return Architecture(network, draw, (PIXELS,), sizes)


def of_texts(network: Callable[[], Any]) -> Architecture:
    """A network for sentences of any length."""
    return Architecture(network, lambda rng, s: [words(rng, s["n"], s["t"])], ({0: "n", 1: "t"},), TEXTS)


def of_sequences(network: Callable[[], Any], channels: int = WIDTH, first: bool = False) -> Architecture:
    """A network for signals of any length, with their channels first or last."""
    axes = {0: "n", 2: "t"} if first else {0: "n", 1: "t"}

    def draw(rng: np.random.Generator, s: Sizes) -> list[Any]:
        return [floats(rng, s["n"], *((channels, s["t"]) if first else (s["t"], channels)))]

    return Architecture(network, draw, (axes,), TEXTS)


def of_benchmark(name: str) -> Architecture:
    """A model of the benchmark in its small size, whose batch alone varies."""
    draw = lambda rng, s: [jit.from_numpy(each) for each in SMALL[name].inputs(rng, s["n"])]  # noqa: E731
    count = len(SMALL[name].inputs(np.random.default_rng(0), 1))
    return Architecture(small(name), draw, ({0: "n"},) * count, BATCHES)


def small(name: str) -> Callable[[], Any]:
    """The maker of a model of the benchmark in its small size."""
    return lambda: SMALL[name].part(SMALL[name].network(jit, False))


# -- images --------------------------------------------------------------------------------------------------------


def conv(inner: int, outer: int, kernel: int = 3, **options: Any) -> nn.Sequential:
    """A convolution with its norm and activation."""
    return nn.Sequential(
        nn.Conv2d(inner, outer, kernel, padding=kernel // 2, bias=False, **options), nn.BatchNorm2d(outer), nn.ReLU()
    )


def classified(*layers: Any, width: int) -> nn.Sequential:
    """Layers, and the class of what they have found."""
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5))


class Applied(nn.Module):
    """Layers with a function of them and the input."""

    def __init__(self, function: Callable[..., Any], *layers: Any) -> None:
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, *xs: Any) -> Any:
        """The result of the function."""
        return self.function(*self.layers, *xs)


def alexnet() -> Any:
    """Large windows first, and a head of its own size."""
    features = (nn.Conv2d(3, 8, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(8, 12, 5, padding=2), nn.ReLU())
    head = (nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Dropout(), nn.Linear(72, 16), nn.ReLU(), nn.Linear(16, 5))
    return nn.Sequential(*features, *head)


def vgg() -> Any:
    """Pairs of convolutions between pools."""
    return classified(conv(3, 4), conv(4, 4), nn.MaxPool2d(2), conv(4, 8), conv(8, 8), nn.MaxPool2d(2), width=8)


def densenet() -> Any:
    """Layers that get what all before them have found."""
    join = lambda layer, x: jit.cat([x, layer(x)], 1)  # noqa: E731
    block = [Applied(join, conv(4 + 4 * number, 4)) for number in range(3)]
    return classified(conv(3, 4), *block, nn.Conv2d(16, 8, 1), nn.AvgPool2d(2, ceil_mode=True), width=8)


def squeezenet() -> Any:
    """Layers that squeeze channels, and expand them in two ways."""

    def fire(squeeze: Any, one: Any, three: Any, x: Any) -> Any:
        y = squeeze(x).relu()
        return jit.cat([one(y).relu(), three(y).relu()], 1)

    parts = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 6, 1), nn.Conv2d(4, 6, 3, padding=1)
    return classified(conv(3, 8), nn.MaxPool2d(3, 2, ceil_mode=True), Applied(fire, *parts), width=12)


def shufflenet() -> Any:
    """Grouped convolutions whose channels are exchanged."""

    def block(layer: Any, x: Any) -> Any:
        a, b = x.chunk(2, 1)
        y = jit.cat([a, layer(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    return classified(conv(3, 8), *(Applied(block, conv(4, 4, groups=4)) for _ in range(2)), width=8)


def inception() -> Any:
    """Branches with windows of several sizes."""

    def block(one: Any, three: Any, five: Any, pooled: Any, x: Any) -> Any:
        return jit.cat([one(x), three(x), five(x), pooled(F.max_pool2d(x, 3, 1, 1))], 1)

    return classified(conv(3, 8), Applied(block, conv(8, 4, 1), conv(8, 4), conv(8, 2, 5), conv(8, 2, 1)), width=12)


def squeeze_and_excite() -> Any:
    """Channels that are weighed by what they hold on the whole."""

    def block(layer: Any, gate: Any, x: Any) -> Any:
        y = layer(x)
        return x + y * gate(y.mean((2, 3))).sigmoid()[:, :, None, None]

    return classified(conv(3, 8), Applied(block, conv(8, 8), nn.Linear(8, 8)), width=8)


def deeplab() -> Any:
    """Dilated convolutions, a mean of all, and classes for each pixel."""

    def head(down: Any, near: Any, far: Any, whole: Any, last: Any, x: Any) -> Any:
        y = down(x)
        mean = F.interpolate(whole(F.adaptive_avg_pool2d(y, 1)), size=y.shape[2:], mode="bilinear")
        return F.interpolate(last(jit.cat([near(y), far(y), mean], 1)), size=x.shape[2:], mode="bilinear")

    far = nn.Conv2d(8, 4, 3, padding=4, dilation=4)
    return Applied(head, conv(3, 8, stride=2), conv(8, 4, 1), far, nn.Conv2d(8, 4, 1), nn.Conv2d(12, 5, 1))


def pyramid() -> Any:
    """A detector's head on levels of a pyramid: scores and boxes of all places."""

    def detect(first: Any, second: Any, side: Any, head: Any, x: Any) -> Any:
        a = first(x)
        b = second(a)
        levels = [side(a) + F.interpolate(b, scale_factor=2.0), b]
        found = [head(level).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 6) for level in levels]
        both = jit.cat(found, 1)
        return both[..., :2].sigmoid(), both[..., 2:].exp()

    return Applied(
        detect, conv(3, 8, stride=2), conv(8, 8, stride=2), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 6, 3, padding=1)
    )


def yolo() -> Any:
    """Boxes that are given by the cells of a grid, and the best of them."""

    def detect(body: Any, head: Any, x: Any) -> Any:
        y = head(body(x))
        n, _, h, w = y.shape
        y = y.view(n, 2, 5, h, w).permute(0, 1, 3, 4, 2)
        rows, columns = jit.meshgrid(jit.arange(h), jit.arange(w), indexing="ij")
        centres = (y[..., :2].sigmoid() + jit.stack([columns, rows], -1)) * 4
        boxes = jit.cat([centres, y[..., 2:4].exp() * 8], -1).reshape(n, -1, 4)
        scores, places = y[..., 4].reshape(n, -1).sigmoid().topk(5, 1)
        return boxes.gather(1, places[..., None].expand(-1, -1, 4)), scores

    body = nn.Sequential(conv(3, 8, stride=2), conv(8, 8, stride=2), nn.LeakyReLU(0.1))
    return Applied(detect, body, nn.Conv2d(8, 10, 1))


def super_resolution() -> Any:
    """Twice the size, of pixels that are channels before."""
    return nn.Sequential(nn.Conv2d(3, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2))


def style_transfer() -> Any:
    """Reflected borders and norms of each image."""
    down = nn.ReflectionPad2d(2), nn.Conv2d(3, 8, 5), nn.InstanceNorm2d(8, affine=True), nn.ReLU()
    up = nn.Upsample(scale_factor=2, mode="nearest"), nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3), nn.Tanh()
    return nn.Sequential(*down, nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.InstanceNorm2d(8, affine=True), *up)


def windows() -> Any:
    """Attention within windows of 4 x 4 pixels."""

    def attend(body: Any, layer: Any, x: Any) -> Any:
        y = body(x)
        n, c, h, w = y.shape
        y = y.view(n, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
        y = layer(y).view(n, h // 4, w // 4, 4, 4, c).permute(0, 5, 1, 3, 2, 4)
        return y.reshape(n, c, h, w)

    return Applied(attend, conv(3, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))


def recogniser() -> Any:
    """A reader of lines of text: columns of an image are steps of a recurrent network."""

    def read(body: Any, steps: Any, head: Any, x: Any) -> Any:
        columns = body(x).mean(2).transpose(1, 2)
        return head(steps(columns)[0]).log_softmax(-1)

    body = nn.Sequential(conv(1, 8), nn.MaxPool2d(2), conv(8, 8), nn.MaxPool2d((2, 1)))
    return Applied(read, body, nn.LSTM(8, 6, bidirectional=True, batch_first=True), nn.Linear(12, 7))


def detection_transformer() -> Any:
    """Questions that attend to all places of an image."""

    def detect(body: Any, layer: Any, questions: Any, head: Any, x: Any) -> Any:
        memory = body(x).flatten(2).transpose(1, 2)
        asked = questions.weight[None].expand(x.shape[0], -1, -1)
        return head(layer(asked, memory))

    body = nn.Sequential(conv(3, 8, stride=4), nn.Conv2d(8, WIDTH, 1))
    layer = nn.TransformerDecoderLayer(WIDTH, 2, 32, batch_first=True)
    return Applied(detect, body, layer, nn.Embedding(4, WIDTH), nn.Linear(WIDTH, 6))


# -- text and signals ----------------------------------------------------------------------------------------------


class Llama(nn.Module):
    """A decoder with norms of the root mean square, rotated places, grouped keys and gated layers."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.first, self.second = nn.Embedding(WORDS, WIDTH), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, width, bias=False) for width in (16, 8, 8))
        self.out, self.head = nn.Linear(16, WIDTH, bias=False), nn.Linear(WIDTH, WORDS, bias=False)
        self.gate, self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def rotated(self, x: Any) -> Any:
        """The heads, turned by their places."""
        half = x.shape[-1] // 2
        angles = jit.outer(jit.arange(x.shape[2]).float(), 10000.0 ** (-jit.arange(half) / half))
        angles = jit.cat([angles, angles], -1)
        return x * angles.cos() + jit.cat([-x[..., half:], x[..., :half]], -1) * angles.sin()

    def forward(self, words: Any) -> Any:
        """Scores of the words that may follow."""
        x = self.words(words)
        n, t, _ = x.shape
        y = self.first(x)
        q, k, v = (layer(y).view(n, t, -1, 4).transpose(1, 2) for layer in (self.q, self.k, self.v))
        k, v = self.rotated(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(self.rotated(q), k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, -1))
        y = self.second(x)
        return self.head(x + self.down(F.silu(self.gate(y)) * self.up(y)))


class Relative(nn.Module):
    """Attention with a bias for each distance, as encoders of T5 have."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.bias, self.qkv = nn.Embedding(WORDS, WIDTH), nn.Embedding(9, 2), nn.Linear(WIDTH, 48)

    def forward(self, words: Any) -> Any:
        """What was found for each word."""
        x = self.words(words)
        n, t, _ = x.shape
        q, k, v = (y.view(n, t, 2, 8).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        places = jit.arange(t)
        bias = self.bias((places[None] - places[:, None]).clamp(-4, 4) + 4).permute(2, 0, 1)
        return ((q @ k.transpose(-1, -2) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Translator(nn.Module):
    """An encoder and a decoder that attends to what it has found."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.net = nn.Transformer(WIDTH, 2, 1, 1, 32, batch_first=True)

    def forward(self, source: Any, target: Any) -> Any:
        """Scores of the words that may follow those of the target."""
        causal = jit.full((target.shape[1], target.shape[1]), float("-inf")).triu(1)
        return self.head(self.net(self.words(source), self.words(target), tgt_mask=causal))


class Speech(nn.Module):
    """Convolutions along time, places made of sines, and an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True, norm_first=True)

    def forward(self, x: Any) -> Any:
        """What was found for each other step."""
        y = F.gelu(self.second(F.gelu(self.first(x)))).transpose(1, 2)
        angles = jit.arange(y.shape[1])[:, None] * jit.exp(-jit.arange(WIDTH // 2) / 4.0)
        return self.layer(y + jit.cat([angles.sin(), angles.cos()], 1))


class Conformer(nn.Module):
    """Attention and a gated convolution along time."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Conv1d(WIDTH, WIDTH, 1)
        self.wide, self.along = nn.Conv1d(WIDTH, 32, 1), nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=WIDTH)

    def forward(self, x: Any) -> Any:
        """What was found for each step."""
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        y = F.glu(self.wide(x.transpose(1, 2)), 1)
        return x + self.out(F.silu(self.along(y))).transpose(1, 2)


class Causal(nn.Module):
    """Dilated convolutions that see the past alone, as WaveNet's do."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**n) for n in range(3))
        self.gates = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**n) for n in range(3))

    def forward(self, x: Any) -> Any:
        """What was found for each step."""
        for number, (layer, gate) in enumerate(zip(self.filters, self.gates, strict=True)):
            y = F.pad(x, (2**number, 0))
            x = x + layer(y).tanh() * gate(y).sigmoid()
        return x


class Tagger(nn.Module):
    """A recurrent network in both directions, and a tag for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 8), nn.Linear(12, 5)
        self.net = nn.LSTM(8, 6, 2, bidirectional=True, batch_first=True)

    def forward(self, words: Any) -> Any:
        """Scores of the tags."""
        return self.head(self.net(self.words(words))[0])


class Pointing(nn.Module):
    """A recurrent decoder that weighs what a recurrent encoder has found."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 8), nn.Linear(16, WORDS)
        self.encoder, self.decoder = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)

    def forward(self, source: Any, target: Any) -> Any:
        """Scores of the words that may follow those of the target."""
        memory, state = self.encoder(self.words(source))
        found, _ = self.decoder(self.words(target), state)
        seen = (found @ memory.transpose(1, 2)).softmax(-1) @ memory
        return self.head(jit.cat([found, seen], -1))


class Cached(nn.Module):
    """A decoder's step with the keys and values of the words before."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.qkv, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, 24), nn.Linear(8, WORDS)

    def forward(self, word: Any, keys: Any, values: Any) -> Any:
        """Scores of the words that may follow, and the keys and values with those of this word."""
        n, t = word.shape
        q, k, v = (y.view(n, t, 2, 4).transpose(1, 2) for y in self.qkv(self.words(word)).chunk(3, -1))
        keys, values = jit.cat([keys, k], 2), jit.cat([values, v], 2)
        y = F.scaled_dot_product_attention(q, keys, values)
        return self.head(y.transpose(1, 2).reshape(n, t, 8)), keys, values


# -- others --------------------------------------------------------------------------------------------------------


class Points(nn.Module):
    """What is common to the points of a cloud, whatever their order."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.all = nn.Conv1d(3, 8, 1), nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        """Scores of the classes of clouds."""
        return self.all(self.each(x.transpose(1, 2)).relu().amax(2))


class GraphAttention(nn.Module):
    """Nodes that weigh their neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.score = nn.Linear(6, 8, bias=False), nn.Linear(16, 1)

    def forward(self, x: Any, links: Any) -> Any:
        """What was found for each node."""
        y = self.lift(x)
        source, target = links[0], links[1]
        weights = F.leaky_relu(self.score(jit.cat([y[source], y[target]], 1)), 0.2).exp()
        total = jit.zeros(x.shape[0], 1).index_add(0, target, weights)
        return jit.zeros_like(y).index_add(0, target, weights * y[source]) / (total + 1e-6)


class Ranking(nn.Module):
    """Numbers and kinds, and products of all pairs of what was found for them."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom, self.top, self.kinds = nn.Linear(5, 8), nn.Linear(14, 1), nn.EmbeddingBag(WORDS, 8, mode="sum")

    def forward(self, numbers: Any, kinds: Any) -> Any:
        """How likely a click is."""
        dense = self.bottom(numbers).relu()
        rows = jit.stack([dense, self.kinds(kinds), self.kinds(kinds[:, :1]), self.kinds(kinds[:, 1:])], 1)
        pairs = rows @ rows.transpose(1, 2)
        i, j = jit.triu_indices(4, 4, 1)
        return self.top(jit.cat([dense, pairs[:, i, j]], 1)).sigmoid()


def autoencoder() -> Any:
    """Convolutions with strides, and transposed ones back."""
    down = nn.Conv2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 4, 2, 1), nn.ReLU()
    return nn.Sequential(*down, nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))


def _graph(rng: np.random.Generator, s: Sizes) -> list[Any]:
    return [floats(rng, s["nodes"], 6), jit.from_numpy(rng.integers(0, s["nodes"], (2, s["links"])))]


def _weighed_graph(rng: np.random.Generator, s: Sizes) -> list[Any]:
    links = jit.from_numpy(rng.integers(0, s["nodes"], (2, s["links"])))
    return [floats(rng, s["nodes"], 12), links, floats(rng, s["links"])]


def _step(rng: np.random.Generator, s: Sizes) -> list[Any]:
    return [words(rng, s["n"], 1), *(floats(rng, s["n"], 2, s["past"], 4) for _ in range(2))]


def _translation(rng: np.random.Generator, s: Sizes) -> list[Any]:
    return [words(rng, s["n"], s["source"]), words(rng, s["n"], s["target"])]


def _masked_text(rng: np.random.Generator, s: Sizes) -> list[Any]:
    return [words(rng, s["n"], s["t"]), jit.from_numpy((np.arange(s["t"]) < 1 + np.arange(s["n"])[:, None]) * 1)]


def _noisy_image(rng: np.random.Generator, s: Sizes) -> list[Any]:
    return [floats(rng, s["n"], 3, s["h"], s["w"]), jit.from_numpy(rng.integers(0, 1000, (s["n"],)))]


PIXELS, WORD = {0: "n", 2: "h", 3: "w"}, {0: "n", 1: "t"}
PAIRS = ({0: "n", 1: "source"}, {0: "n", 1: "target"})
GRAPHS = tuple(dict(nodes=a, links=b) for a, b in ((9, 20), (4, 5), (12, 50), (30, 31)))
STEPS = tuple(dict(n=a, past=b) for a, b in ((2, 5), (1, 9), (3, 1), (4, 20)))
TRANSLATIONS = tuple(dict(n=a, source=b, target=c) for a, b, c in ((2, 6, 5), (1, 9, 3), (3, 2, 8), (5, 4, 4)))

OF_IMAGES = (
    *(alexnet, vgg, densenet, squeezenet, shufflenet, inception, squeeze_and_excite, deeplab, yolo),
    *(super_resolution, style_transfer, detection_transformer, autoencoder),
)

ARCHITECTURES: dict[str, Architecture] = {
    **{name: of_benchmark(name) for name in ("mlp", "vit", "mixer", "vae", "dcgan", "wgan_gp")},
    **{
        name: of_images(small(name)) for name in ("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "convnext")
    },
    **{function.__name__: of_images(function) for function in OF_IMAGES},
    "unet": of_images(small("unet"), sizes=EVEN),
    "pyramid": of_images(pyramid, sizes=EVEN),
    "windows": of_images(windows, sizes=EVEN),
    "diffusion": Architecture(small("diffusion"), _noisy_image, (PIXELS, {0: "n"}), EVEN),
    "recogniser": of_images(recogniser, 1),
    "bert": Architecture(small("bert"), _masked_text, (WORD, WORD), SHORT),
    "gpt": Architecture(small("gpt"), lambda rng, s: [words(rng, s["n"], s["t"])], (WORD,), SHORT),
    **{name: of_texts(small(name)) for name in ("lstm_lm", "gru_lm")},
    **{kind.__name__.lower(): of_texts(kind) for kind in (Llama, Relative, Tagger)},
    "cached": Architecture(Cached, _step, ({0: "n"}, {0: "n", 2: "past"}, {0: "n", 2: "past"}), STEPS),
    "translator": Architecture(Translator, _translation, PAIRS, TRANSLATIONS),
    "pointing": Architecture(Pointing, _translation, PAIRS, TRANSLATIONS),
    "speech": of_sequences(Speech, 8, first=True),
    "causal": of_sequences(Causal, 8, first=True),
    "conformer": of_sequences(Conformer),
    "points": of_sequences(Points, 3),
    "gcn": Architecture(small("gcn"), _weighed_graph, ({0: "nodes"}, {1: "links"}, {0: "links"}), GRAPHS),
    "graph_attention": Architecture(GraphAttention, _graph, ({0: "nodes"}, {1: "links"}), GRAPHS),
    "ranking": Architecture(
        Ranking, lambda rng, s: [floats(rng, s["n"], 5), words(rng, s["n"], 3)], ({0: "n"}, {0: "n"}), BATCHES
    ),
}
