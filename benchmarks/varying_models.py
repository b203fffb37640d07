"""Models for calls whose sizes vary: each is written once with nn modules, for torch and jit, and once for jax.

`lib` is torch or jit. The functions for jax take the same weights, as a dict by the names of the state dict.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

WORDS, CLASSES = 1000, 10
CONTEXT = 256
"""The longest text that a language model takes."""
CHANNELS = (32, 64, 128)


def attention_block(lib: Any, width: int, heads: int) -> Any:
    """A block of a transformer: `block(x)`, or `block(x, past)` with the keys and values of the words before."""
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, past: Any = None, causal: bool = False) -> Any:
            batch, length, _ = x.shape
            parts = self.attend(self.first(x)).split(width, -1)
            q, k, v = (p.view(batch, length, heads, width // heads).transpose(1, 2) for p in parts)
            if past is not None:
                k, v = lib.cat([past[0], k], 2), lib.cat([past[1], v], 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.second(x)))), (k, v)

    return Block()


def gpt(lib: Any, layers: int, width: int, heads: int) -> Any:
    """A decoder: `model(words, past)` gives the likeliest next word, and the keys and values for the call after."""
    nn = lib.nn

    class GPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(CONTEXT, width)
            self.blocks = nn.ModuleList([attention_block(lib, width, heads) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

        def forward(self, words: Any, past: Any = None) -> Any:
            start = 0 if past is None else past[0][0].shape[2]
            x = self.words(words) + self.places(lib.arange(start, start + words.shape[1]))
            grown = []
            for number, block in enumerate(self.blocks):
                x, kept = block(x, None if past is None else past[number], causal=past is None)
                grown.append(kept)
            return self.head(self.norm(x))[:, -1].argmax(-1, keepdim=True), grown

    return GPT()


def bert(lib: Any, layers: int, width: int, heads: int) -> Any:
    """An encoder: `model(words)` gives logits for each word."""
    nn = lib.nn

    class BERT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(CONTEXT, width)
            self.blocks = nn.ModuleList([attention_block(lib, width, heads) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

        def forward(self, words: Any) -> Any:
            x = self.words(words) + self.places(lib.arange(words.shape[1]))
            for block in self.blocks:
                x, _ = block(x)
            return self.head(self.norm(x))

    return BERT()


def cnn(lib: Any) -> Any:
    """Convolutions with batch norms, pooled, and a linear layer over the mean of the image."""
    nn, F = lib.nn, lib.nn.functional

    class CNN(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            pairs = zip((3, *CHANNELS), CHANNELS)
            self.convolutions = nn.ModuleList([nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairs])
            self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for channels in CHANNELS])
            self.head = nn.Linear(CHANNELS[-1], CLASSES)

        def forward(self, x: Any) -> Any:
            for convolution, norm in zip(self.convolutions, self.norms):
                x = F.max_pool2d(F.relu(norm(convolution(x))), 2)
            return self.head(x.mean((2, 3)))

    return CNN()


def lstm(lib: Any, inputs: int, hidden: int) -> Any:
    """Two layers of `nn.LSTM`, and logits for each step."""
    nn = lib.nn

    class LSTM(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.LSTM(inputs, hidden, num_layers=2, batch_first=True)
            self.head = nn.Linear(hidden, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(x)[0])

    return LSTM()


def filled(lib: Any, model: Any) -> Any:
    """The model with weights that are the same in every library."""
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(lib.from_numpy(_values(rng, name, tuple(weight.shape))))
    return model


def _values(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Any:
    if len(shape) > 1:
        return (rng.standard_normal(shape) * np.prod(shape[1:]) ** -0.5).astype(np.float32)
    scales = any(part in name for part in ("norm", "first", "second")) and name.endswith("weight")
    return (np.ones if scales else np.zeros)(shape, np.float32)


def cross_entropy(lib: Any, logits: Any, target: Any) -> Any:
    """The loss of a training step, over all words, steps or images."""
    return lib.nn.functional.cross_entropy(logits.reshape(-1, CLASSES), target.reshape(-1))


# -- the same for jax --------------------------------------------------------------------------------------------

Weights = dict[str, Any]


class Jax:
    """The models over jax.numpy; each gives its result and the running statistics that it has changed."""

    def __init__(self) -> None:
        self.jax = importlib.import_module("jax")

    def gpt(self, w: Weights, words: Any, past: Any, *, layers: int, heads: int) -> Any:
        """As `gpt` above."""
        start = 0 if past is None else past[0][0].shape[2]
        x = w["words.weight"][words] + w["places.weight"][start : start + words.shape[1]]
        grown = []
        for n in range(layers):
            x, kept = self._block(w, f"blocks.{n}.", x, None if past is None else past[n], heads, past is None)
            grown.append(kept)
        logits = self._norm(w, "norm", x) @ w["head.weight"].T
        return logits[:, -1].argmax(-1, keepdims=True), grown

    def bert(self, w: Weights, words: Any, *, layers: int, heads: int) -> Any:
        """As `bert` above."""
        x = w["words.weight"][words] + w["places.weight"][: words.shape[1]]
        for n in range(layers):
            x, _ = self._block(w, f"blocks.{n}.", x, None, heads, False)
        return self._linear(w, "head", self._norm(w, "norm", x)), {}

    def cnn(self, w: Weights, x: Any, *, training: bool) -> Any:
        """As `cnn` above."""
        lax, changed = self.jax.lax, {}
        for n in range(len(CHANNELS)):
            x = lax.conv_general_dilated(x, w[f"convolutions.{n}.weight"], (1, 1), "SAME")
            x, statistics = self._batch_norm(w, f"norms.{n}", x, training)
            changed |= statistics
            x = lax.reduce_window(self.jax.nn.relu(x), -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return self._linear(w, "head", x.mean((2, 3))), changed

    def lstm(self, w: Weights, x: Any) -> Any:
        """As `lstm` above."""
        for layer in range(2):
            x = self._recurrent_layer(w, layer, x)
        return self._linear(w, "head", x), {}

    def cross_entropy(self, logits: Any, target: Any) -> Any:
        """As `cross_entropy` above."""
        likelihoods = self.jax.nn.log_softmax(logits.reshape(-1, CLASSES))
        return -self.jax.numpy.take_along_axis(likelihoods, target.reshape(-1, 1), 1).mean()

    def _linear(self, w: Weights, name: str, x: Any) -> Any:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def _norm(self, w: Weights, name: str, x: Any) -> Any:
        x = self.jax.nn.standardize(x, epsilon=1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def _block(self, w: Weights, prefix: str, x: Any, past: Any, heads: int, causal: bool) -> Any:
        n, width = self.jax.numpy, x.shape[-1]
        parts = n.split(self._linear(w, prefix + "attend", self._norm(w, prefix + "first", x)), 3, -1)
        q, k, v = (p.reshape(*x.shape[:2], heads, width // heads).swapaxes(1, 2) for p in parts)
        if past is not None:
            k, v = n.concatenate([past[0], k], 2), n.concatenate([past[1], v], 2)
        scores = q @ k.swapaxes(-1, -2) * (width // heads) ** -0.5
        if causal:
            scores = n.where(n.tril(n.ones(scores.shape[-2:], bool)), scores, -n.inf)
        y = self.jax.nn.softmax(scores) @ v
        x = x + self._linear(w, prefix + "out", y.swapaxes(1, 2).reshape(x.shape))
        inner = self.jax.nn.gelu(self._linear(w, prefix + "up", self._norm(w, prefix + "second", x)), False)
        return x + self._linear(w, prefix + "down", inner), (k, v)

    def _batch_norm(self, w: Weights, name: str, x: Any, training: bool) -> Any:
        mean, variance = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        changed = {}
        if training:
            count = x.size // x.shape[1]
            found = x.mean((0, 2, 3)), x.var((0, 2, 3))
            changed[f"{name}.running_mean"] = 0.9 * mean + 0.1 * found[0]
            changed[f"{name}.running_var"] = 0.9 * variance + 0.1 * found[1] * count / (count - 1)
            mean, variance = found
        scale = w[f"{name}.weight"] / self.jax.numpy.sqrt(variance + 1e-5)
        shift = w[f"{name}.bias"] - mean * scale
        return x * scale[:, None, None] + shift[:, None, None], changed

    def _recurrent_layer(self, w: Weights, layer: int, x: Any) -> Any:
        n, nn = self.jax.numpy, self.jax.nn
        own, other, *biases = (
            w[f"layers.{part}_l{layer}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        zeros = n.zeros((x.shape[0], other.shape[1]), np.float32)

        def step(state: Any, total: Any) -> Any:
            h, c = state
            i, f, g, o = n.split(total + h @ other.T, 4, 1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * n.tanh(g)
            h = nn.sigmoid(o) * n.tanh(c)
            return (h, c), h

        totals = (x @ own.T + biases[0] + biases[1]).swapaxes(0, 1)
        return self.jax.lax.scan(step, (zeros, zeros), totals)[1].swapaxes(0, 1)
