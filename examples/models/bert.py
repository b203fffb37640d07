"""A BERT: every word of a sentence looks at all others, and the first one says where the sentence comes from.

    python examples/models/bert.py                             # read three manuals, trace, export: 15 seconds
    python examples/models/bert.py --device cuda               # the same on a GPU
    jit export-onnx examples/models/bert.py:model -o bert.onnx

The text comes with packages: the topics of Python's `help()`, and what NumPy and NetworkX say of their functions. Which
one of these a sentence is from has to be told by its words, without the packages' names. Sentences differ in length, so
they are filled up, and a mask tells which words count; the longest sentence of a batch is long or short, and one
recording serves all of these. The exported model, too, takes any number of sentences of any length.

Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding, 2018.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import networkx
import numpy
from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

VOCABULARY, LENGTH = 800, 32
"""The number of words that the network knows, and how long a sentence may be."""
PADDING, UNKNOWN = 0, 1
"""Numbers that stand for no word."""
SOURCES = ("Python", "NumPy", "NetworkX")
NAMES = {"python", "numpy", "np", "networkx", "nx"}

# -- the network -----------------------------------------------------------------------------------------------------


class SelfAttention(nn.Module):
    """Each word looks at all words that the mask lets it see."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        """Args: x `[N, T, width]`. Returns: `[N, heads, T, width / heads]`."""
        return x.view(*x.size()[:-1], self.heads, x.size(-1) // self.heads).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Args: x `[N, T, width]`, mask `[N, 1, 1, T]` to be added to scores. Returns: `[N, T, width]`."""
        q, k, v = (self.transpose_for_scores(part(x)) for part in (self.query, self.key, self.value))
        scores = jit.matmul(q, k.transpose(-1, -2)) / q.size(-1) ** 0.5
        weights = self.dropout(F.softmax(scores + mask, dim=-1))
        context = jit.matmul(weights, v).permute(0, 2, 1, 3).contiguous()
        return context.view(*x.size())


class Layer(nn.Module):
    """Attention, then two linear layers; each is added to its input and normalised."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.dense = SelfAttention(width, heads, dropout), nn.Linear(width, width)
        self.intermediate, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Args: x `[N, T, width]`, mask `[N, 1, 1, T]`. Returns: `[N, T, width]`."""
        x = self.norm1(self.dropout(self.dense(self.attention(x, mask))) + x)
        return self.norm2(self.dropout(self.output(F.gelu(self.intermediate(x)))) + x)


class Bert(nn.Module):
    """Words and their places become vectors, and each layer lets them learn from each other."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)
        self.layers = nn.ModuleList([Layer(width, heads, dropout) for _ in range(layers)])

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Args: ids `[N, T]`, attention_mask `[N, T]`, 1 where there is a word. Returns: `[N, T, width]`."""
        positions = jit.arange(ids.size(1), device=ids.device).unsqueeze(0)
        x = self.dropout(self.norm(self.words(ids) + self.positions(positions)))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Classifier(nn.Module):
    """A BERT that says of which class a sentence is, by its first word."""

    def __init__(self, bert: Bert, classes: int) -> None:
        super().__init__()
        width = bert.words.weight.shape[1]
        self.bert, self.dropout = bert, nn.Dropout(bert.dropout.p)
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Args: ids `[N, T]`, attention_mask `[N, T]`. Returns: logits `[N, classes]`."""
        x = self.bert(ids, attention_mask)
        return self.classifier(self.dropout(jit.tanh(self.pooler(x[:, 0]))))


def model() -> Classifier:
    """A small network for sentences of three sources."""
    return Classifier(Bert(VOCABULARY, LENGTH, width=32, layers=2, heads=4, dropout=0.1), len(SOURCES))


SIZES: Any = {name: {0: "batch", 1: ("length", 1, LENGTH)} for name in ("ids", "attention_mask")}
"""The sizes that the exported model leaves open."""


def example_inputs() -> tuple[Tensor, Tensor]:
    """Arguments for `model`."""
    return jit.randint(1, VOCABULARY, (2, 12)), (jit.arange(12) < jit.tensor([[12], [9]])).long()


# -- the text --------------------------------------------------------------------------------------------------------


def load_sentences() -> list[tuple[Tensor, int]]:
    """Sentences as numbers of words, each with the number of its source; of every source as many."""
    from pydoc_data.topics import topics

    texts = [list(topics.values())]
    for package in (numpy, networkx):
        functions = [getattr(package, name) for name in dir(package) if callable(getattr(package, name))]
        texts.append([function.__doc__ for function in functions if isinstance(function.__doc__, str)])
    found = [list(map(words_of, re.split(r"\.\s", "\n".join(text)))) for text in texts]
    found = [[sentence for sentence in sentences if len(sentence) > 8] for sentences in found]
    common = Counter(word for sentences in found for sentence in sentences for word in sentence)
    numbers = {word: number for number, (word, _) in enumerate(common.most_common(VOCABULARY - 2), 2)}
    count = min(map(len, found))
    return [
        (jit.tensor([numbers.get(word, UNKNOWN) for word in sentence[:LENGTH]]), source)
        for source, sentences in enumerate(found)
        for sentence in sentences[:: len(sentences) // count][:count]
    ]


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, but for the names of its source."""
    return [word for word in re.findall(r"[a-z]+", sentence.lower()) if word not in NAMES]


def batch_of(sentences: Sequence[tuple[Tensor, int]], device: str) -> tuple[Tensor, Tensor, Tensor]:
    """(the sentences `[N, T]`, filled up to the longest; 1 where there are words `[N, T]`; the sources `[N]`)."""
    ids = nn.utils.rnn.pad_sequence([ids for ids, _ in sentences], batch_first=True, padding_value=PADDING)
    return ids.to(device), (ids != PADDING).long().to(device), jit.tensor([n for _, n in sentences], device=device)


# -- learning --------------------------------------------------------------------------------------------------------


def train(net: nn.Module, sentences: Sequence[tuple[Tensor, int]], steps: int, device: str) -> list[float]:
    """Let `net` learn, by one traced function; returns the losses. The first steps are small."""
    optimizer = jit.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = jit.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / 20, 1 - n / steps))

    @jit.trace
    def step(ids: Tensor, mask: Tensor, source: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(ids, mask), source)
        loss.backward()
        optimizer.step()
        return loss.detach()

    net.train()
    losses = []
    for _ in track(range(steps), "training"):
        chosen = [sentences[number] for number in jit.randint(len(sentences), (32,)).tolist()]
        losses.append(step(*batch_of(chosen, device)))
        schedule.step()
    net.eval()
    return jit.stack(losses).tolist()


def accuracy(net: nn.Module, sentences: Sequence[tuple[Tensor, int]], device: str) -> float:
    """The share of sentences whose source is found."""
    ids, mask, source = batch_of(sentences, device)
    with jit.no_grad():
        return (net(ids, mask).argmax(-1) == source).float().mean().item()


def main() -> None:
    """Learn, test, trace, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--steps", type=int, default=250, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="bert.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    sentences = load_sentences()
    learned, tested = [each for n, each in enumerate(sentences) if n % 5], sentences[::5]
    net = model().to(options.device)
    train(net, learned, options.steps, options.device)
    right = accuracy(jit.trace(net), tested, options.device)
    print(f"sources found of {len(tested)} sentences that were not learned from: {right:.1%}")
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes=SIZES))
    if right < 0.65:
        sys.exit("the network tells the source of fewer than 65 % of the sentences, so it should learn longer")


if __name__ == "__main__":
    main()
