"""An LSTM language model: word by word, a network keeps in mind what it has read, and says what comes next.

    python examples/models/lstm.py                             # read the Python manual, trace, export: 20 seconds
    python examples/models/lstm.py --device cuda               # the same on a GPU
    jit export-onnx examples/models/lstm.py:model -o lstm.onnx

The text comes with Python: the topics of `help()`. What the network keeps in mind goes from one piece of the text to
the next, cut off from its history. The exported model takes sentences of any length, any number of them at once.

Hochreiter and Schmidhuber, Long Short-Term Memory, 1997; Zaremba et al., Recurrent Neural Network Regularization, 2014.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter

from rich.progress import track

import jit
from jit import Tensor, nn
from jit.nn import functional as F

State = tuple[Tensor, Tensor]
"""What the network keeps in mind: hidden state and cell, `[layers, N, width]` each."""
VOCABULARY = 800
"""The number of words that the network knows; number 0 stands for all others."""

# -- the network -----------------------------------------------------------------------------------------------------


class LanguageModel(nn.Module):
    """Layers of `nn.LSTM`, or of `nn.GRU`, between an embedding and logits."""

    def __init__(self, kind: str, vocabulary: int, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.drop, self.encoder = nn.Dropout(dropout), nn.Embedding(vocabulary, width)
        self.rnn = getattr(nn, kind)(width, width, num_layers=layers, dropout=dropout)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, words: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Args: words `[N, T]`, a state. Returns: logits of the next word `[N, T, vocabulary]`, the state after."""
        output, state = self.rnn(self.drop(self.encoder(words.t())), state)
        return self.decoder(self.drop(output)).transpose(0, 1), state


def model() -> LanguageModel:
    """A small network for the Python manual."""
    return LanguageModel("LSTM", VOCABULARY, width=96, layers=2, dropout=0.2)


def example_inputs() -> tuple[Tensor]:
    """Arguments for `model`."""
    return (jit.randint(VOCABULARY, (2, 12)),)


# -- the text --------------------------------------------------------------------------------------------------------


def load_text(device: str) -> tuple[list[str], Tensor, Tensor]:
    """(the words, the numbers of the words in a text to learn from, and in one to test with)."""
    from pydoc_data.topics import topics

    found = re.findall(r"\w+|[^\w\s]", " ".join(topics[name] for name in sorted(topics)))
    words = ["?", *(word for word, _ in Counter(found).most_common(VOCABULARY - 1))]
    numbers = {word: number for number, word in enumerate(words)}
    text = jit.tensor([numbers.get(word, 0) for word in found], device=device)
    return words, text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]


# -- learning --------------------------------------------------------------------------------------------------------


def train(net: LanguageModel, text: Tensor, steps: int, batch: int = 20, length: int = 35) -> list[float]:
    """Let `net` learn; returns the losses. The text is cut into `batch` parts, which are read side by side."""
    optimizer = jit.optim.Adam(net.parameters(), lr=4e-3)
    columns = text[: len(text) // batch * batch].view(batch, -1)

    @jit.trace
    def step(words: Tensor, following: Tensor, state: State) -> tuple[Tensor, State]:
        optimizer.zero_grad()
        logits, (hidden, cell) = net(words, state)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach(), (hidden.detach(), cell.detach())

    net.train()
    state = beginning(net, batch, text.device)
    losses, start = [], 0
    for _ in track(range(steps), "training"):
        if start + length >= columns.shape[1]:
            state, start = beginning(net, batch, text.device), 0
        piece = columns[:, start : start + length + 1]
        loss, state = step(piece[:, :-1], piece[:, 1:], state)
        losses.append(loss.item())
        start += length
    net.eval()
    return losses


def beginning(net: LanguageModel, batch: int, device: str | jit.device) -> State:
    """The state of somebody who has not read anything."""
    sizes = net.rnn.num_layers, batch, net.rnn.hidden_size
    return jit.zeros(sizes, device=device), jit.zeros(sizes, device=device)


def perplexity(net: LanguageModel, text: Tensor, length: int = 100) -> float:
    """The number of words among which the network would have to guess to be right as often."""
    pieces = text[: (len(text) - 1) // length * length + 1]
    with jit.no_grad():
        logits, _ = net(pieces[:-1].view(-1, length))
    return math.exp(F.cross_entropy(logits.flatten(0, 1), pieces[1:]).item())


def write(net: LanguageModel, words: list[str], count: int, device: str) -> str:
    """A text that begins with "The": each word is drawn with its probability, and becomes the next input."""
    traced, state = jit.trace(net), beginning(net, 1, device)
    written = [words.index("The")]
    with jit.no_grad():
        for _ in range(count):
            logits, state = traced(jit.tensor([[written[-1]]], device=device), state)
            chances = logits[0, -1].softmax(-1)
            chances[0] = 0  # a word that the network does not know
            written.append(int(jit.multinomial(chances, 1)))
    return " ".join(words[number] for number in written)


def main() -> None:
    """Learn, test, write, export."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="where the network learns [%(default)s]")
    parser.add_argument("--steps", type=int, default=300, help="steps of training [%(default)s]")
    parser.add_argument("-o", "--output", default="lstm.onnx", help="where the ONNX model goes [%(default)s]")
    options = parser.parse_args()
    jit.manual_seed(0)
    words, learned, tested = load_text(options.device)
    net = model().to(options.device)
    train(net, learned, options.steps)
    found = perplexity(net, tested)
    print(f"perplexity of a text that was not learned from: {found:.1f} of {VOCABULARY}")
    print(write(net, words, 40, options.device))
    sizes = {"words": {0: "batch", 1: "length"}}
    print(jit.export_onnx(net.cpu(), example_inputs(), options.output, dynamic_axes=sizes))
    if found > 30:
        sys.exit("the network guesses among more than 30 words, so it should learn longer")


if __name__ == "__main__":
    main()
