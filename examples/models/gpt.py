"""A small GPT learns to write like the Python manual: a training step and a decoder that keeps keys and values, traced.

    python examples/models/gpt.py                 # train, write, export, compare: 20 seconds
    python examples/models/gpt.py --device cuda   # the same on a GPU
    python examples/models/gpt.py --steps 2000    # until it spells most words

The text comes with Python: the topics of `help()`, letter by letter. The whole step of training is one traced function
- forward, backward, AdamW -, and the decoder is another: its cache grows with each letter, and one recording serves all
lengths. The decoder becomes an ONNX model whose cache may have any length, too, and onnxruntime has to write the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jit
from jit import nn
from jit.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT = 2, 4, 96, 256

# -- the network -----------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention to what came before, then two linear layers; each is added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any, past: Any = None) -> tuple[Any, Any, Any]:
        """Args: x `[N, T, WIDTH]`, keys and values of the letters before. Returns: the same, the last two longer."""
        n, t, _ = x.shape
        parts = self.query_key_value(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        if past is not None:
            key, value = jit.cat([past[0], key], dim=2), jit.cat([past[1], value], dim=2)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        x = x + self.out(seen.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)))), key, value


class GPT(nn.Module):
    """Letters in, logits of the next letter out."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)

    def forward(self, text: Any) -> tuple[Any, ...]:
        """Args: text `[N, T]`. Returns: logits `[N, T, letters]`, then keys and values of each layer."""
        x, cache = self.letters(text) + self.places.weight[: text.shape[1]], []
        for block in self.blocks:
            x, *found = block(x)
            cache += found
        return self.head(self.norm(x)), *cache


class Decoder(nn.Module):
    """One more letter: what `GPT` is, with the keys and values of the letters before as arguments."""

    def __init__(self, gpt: GPT) -> None:
        super().__init__()
        self.gpt = gpt

    def forward(self, letter: Any, *cache: Any) -> tuple[Any, ...]:
        """Args: letter `[N, 1]`, keys and values. Returns: the likeliest next letter `[N, 1]`, keys and values."""
        gpt, longer = self.gpt, []
        place = cache[0].shape[2]
        x = gpt.letters(letter) + gpt.places.weight[place : place + 1]
        for number, block in enumerate(gpt.blocks):
            x, *found = block(x, cache[2 * number : 2 * number + 2])
            longer += found
        return gpt.head(gpt.norm(x)).argmax(-1), *longer


# -- the text --------------------------------------------------------------------------------------------------------


def load_text() -> tuple[str, np.ndarray[Any, Any]]:
    """(the letters that occur, the text as numbers of letters)."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
    letters = "".join(sorted({letter for letter in text if letter.isascii()}))
    numbers = {letter: number for number, letter in enumerate(letters)}
    return letters, np.array([numbers[letter] for letter in text if letter in numbers])


def batch(text: np.ndarray[Any, Any], count: int, length: int, rng: np.random.Generator, device: str) -> Any:
    """Pieces of the text `[count, length + 1]` from anywhere in it."""
    starts = rng.integers(0, len(text) - length - 1, (count, 1))
    return jit.from_numpy(text[starts + np.arange(length + 1)]).to(device)


# -- learning --------------------------------------------------------------------------------------------------------


def train(net: GPT, text: np.ndarray[Any, Any], steps: int, device: str) -> float:
    """Let `net` learn, by one traced function; returns the mean loss of the last tenth of the steps."""
    from rich.progress import Progress

    optimizer = jit.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    rng = np.random.default_rng(0)

    @jit.trace
    def step(pieces: Any) -> Any:
        optimizer.zero_grad()
        logits = net(pieces[:, :-1])[0]
        loss = F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    on_terminal = sys.stdout.isatty()
    with Progress(disable=not on_terminal) as bar:
        task = bar.add_task("training", total=steps)
        for number in range(1, steps + 1):
            losses.append(step(batch(text, 16, 64, rng, device)))
            if number % max(steps // 10, 1) == 0:
                shown = f"step {number} of {steps}: loss {float(losses[-1]):.3f}"
                bar.update(task, completed=number, description=shown)
                if not on_terminal:
                    print(shown, flush=True)
    last = [float(loss) for loss in losses[-max(steps // 10, 1) :]]
    return sum(last) / len(last)


# -- writing ---------------------------------------------------------------------------------------------------------


def write(net: GPT, decode: Any, prompt: Sequence[int], count: int, device: str) -> tuple[list[int], float]:
    """(the prompt and `count` letters behind it, seconds a letter); nothing waits for a GPU before the end."""
    with jit.no_grad():
        logits, *cache = net(jit.tensor([list(prompt)], device=device))
        found = [logits[:, -1:].argmax(-1)]
        start = time.perf_counter()
        for _ in range(count - 1):
            letter, *cache = decode(found[-1], *cache)
            found.append(letter)
        written = jit.cat(found, dim=1)[0].tolist()
    return [*prompt, *written], (time.perf_counter() - start) / max(count - 1, 1)


def write_by_onnx(path: str, net: GPT, prompt: Sequence[int], count: int, device: str) -> list[int]:
    """What onnxruntime makes of the exported decoder."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    with jit.no_grad():
        logits, *cache = (each.cpu().numpy() for each in net(jit.tensor([list(prompt)], device=device)))
    written = [logits[:, -1:].argmax(-1)]
    for _ in range(count - 1):
        letter, *cache = session.run(None, dict(zip(names, [written[-1], *cache], strict=True)))
        written.append(letter)
    return [*prompt, *np.concatenate(written, 1)[0].tolist()]


def export(decoder: Decoder, path: str, device: str) -> Any:
    """Export the decoder, with a cache of any length."""
    kept = [f"{what}{layer}" for layer in range(LAYERS) for what in ("key", "value")]
    longer = [f"longer_{name}" for name in kept]
    return jit.export_onnx(
        decoder, tuple(each.to(device) for each in example_inputs()), path,
        input_names=["letter", *kept], output_names=["next", *longer],
        dynamic_axes={name: {2: ("n", 1, CONTEXT - 1)} for name in kept},
    )  # fmt: skip


# -- what `jit export-onnx examples/models/gpt.py:model` looks for -----------------------------------------------------


def model() -> Decoder:
    """A decoder that has not learned yet."""
    return Decoder(GPT(len(load_text()[0])))


def example_inputs() -> tuple[Any, ...]:
    """Arguments for `model`: a letter, and keys and values of some letters before it."""
    shape = (1, HEADS, 8, WIDTH // HEADS)
    return jit.zeros(1, 1, dtype=jit.int64), *(jit.randn(*shape) for _ in range(2 * LAYERS))


# -- all of it -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Train, write, export, and compare three writers of the same text."""
    options = arguments()
    jit.manual_seed(0)
    letters, text = load_text()
    net = GPT(len(letters)).to(options.device)
    loss = train(net, text, options.steps, options.device)
    print(f"\nloss {loss:.3f} for each letter in the end; to guess costs {np.log(len(letters)):.3f}\n")

    decoder, prompt = Decoder(net), [letters.index(letter) for letter in "The "]
    traced = jit.trace(decoder)
    plain, slow = write(net, decoder, prompt, options.letters, options.device)
    write(net, traced, prompt, options.letters, options.device)
    found, fast = write(net, traced, prompt, options.letters, options.device)
    print("".join(letters[number] for number in found))
    print(f"\n{1e6 * slow:.0f} us a letter untraced, {1e6 * fast:.0f} us traced")
    print(f"recordings that serve all lengths of the cache: {traced.misses}\n")

    print(f"{export(decoder, options.output, options.device)}\n")
    by_onnx = write_by_onnx(options.output, net, prompt, options.letters, options.device)
    alike = sum(a == b == c for a, b, c in zip(plain, found, by_onnx, strict=True))
    print(f"{alike} of {len(plain)} letters are the same untraced, traced and by onnxruntime")
    if alike < len(plain):
        sys.exit("the three writers differ")


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", default="gpt.onnx", help="where the ONNX model goes [%(default)s]")
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--steps", type=int, default=200, help="steps of training [%(default)s]")
    parser.add_argument("--letters", type=int, default=200, help=f"letters to write, below {CONTEXT - 4} [%(default)s]")
    options = parser.parse_args()
    if not Path(options.output).resolve().parent.is_dir():
        parser.error(f"there is no folder for {options.output!r}; make it first, or choose another -o")
    if not 0 < options.letters < CONTEXT - 4 or options.steps < 1:
        parser.error(f"--letters should be from 1 to {CONTEXT - 5}, and --steps at least 1")
    return options


if __name__ == "__main__":
    main()
