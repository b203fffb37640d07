"""Networks for words: transformers and recurrent ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models.model import Model, classification, supervised, with_classes, words

# -- BERT --------------------------------------------------------------------------------------------------------


def _bert(lib: Any, noisy: bool, vocabulary: int, length: int, width: int, layers: int, heads: int) -> Any:
    nn, F = lib.nn, lib.nn.functional
    drop = 0.1 * noisy

    class SelfAttention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
            self.dropout = nn.Dropout(drop)

        def transpose_for_scores(self, x: Any) -> Any:
            return x.view(*x.size()[:-1], heads, width // heads).permute(0, 2, 1, 3)

        def forward(self, x: Any, mask: Any) -> Any:
            q, k, v = (self.transpose_for_scores(part(x)) for part in (self.query, self.key, self.value))
            scores = lib.matmul(q, k.transpose(-1, -2)) / (width // heads) ** 0.5
            weights = self.dropout(F.softmax(scores + mask, dim=-1))
            context = lib.matmul(weights, v).permute(0, 2, 1, 3).contiguous()
            return context.view(*x.size())

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.dense = SelfAttention(), nn.Linear(width, width)
            self.intermediate, self.output = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
            self.dropout = nn.Dropout(drop)

        def forward(self, x: Any, mask: Any) -> Any:
            x = self.norm1(self.dropout(self.dense(self.attention(x, mask))) + x)
            return self.norm2(self.dropout(self.output(F.gelu(self.intermediate(x)))) + x)

    class Bert(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(drop)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 2)

        def forward(self, ids: Any, attention_mask: Any) -> Any:
            positions = lib.arange(ids.size(1), device=ids.device).unsqueeze(0)
            x = self.dropout(self.norm(self.words(ids) + self.positions(positions)))
            mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
            for layer in self.layers:
                x = layer(x, mask)
            return self.classifier(self.dropout(lib.tanh(self.pooler(x[:, 0]))))

    return Bert()


def bert(
    name: str, vocabulary: int = 5000, length: int = 64, width: int = 512, layers: int = 4, heads: int = 8
) -> Model:
    """BERT of Devlin et al. (2018), of the size called small, with a class for each sentence; attention spelled out."""

    def inputs(rng: np.random.Generator, batch: int) -> list[Any]:
        lengths = rng.integers(length // 2, length + 1, (batch, 1))
        return [rng.integers(0, vocabulary, (batch, length)), (np.arange(length) < lengths).astype(np.int64)]

    def loss(lib: Any, run: Any, ids: Any, mask: Any, target: Any) -> Any:
        return lib.nn.functional.cross_entropy(run(ids, mask), target)

    return Model(
        name,
        lambda lib, noisy: _bert(lib, noisy, vocabulary, length, width, layers, heads),
        inputs,
        with_classes(inputs, 2),
        supervised(loss, "AdamW", lr=2e-5, weight_decay=0.01),
        training_batch=4,
        noisy=True,
    )


# -- GPT ---------------------------------------------------------------------------------------------------------


def _gpt(lib: Any, noisy: bool, vocabulary: int, length: int, width: int, layers: int, heads: int) -> Any:
    nn, F = lib.nn, lib.nn.functional
    drop = 0.1 * noisy

    class CausalSelfAttention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.resid_dropout = nn.Dropout(drop)

        def forward(self, x: Any, past: Any) -> Any:
            B, T, C = x.size()
            q, k, v = self.c_attn(x).split(width, dim=2)
            q, k, v = (part.view(B, T, heads, C // heads).transpose(1, 2) for part in (q, k, v))
            if past is not None:
                k, v = lib.cat([past[0], k], dim=2), lib.cat([past[1], v], dim=2)
            dropout_p = drop if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=past is None)
            y = y.transpose(1, 2).contiguous().view(B, T, C)
            return self.resid_dropout(self.c_proj(y)), (k, v)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), CausalSelfAttention()
            self.c_fc, self.c_proj, self.gelu = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.GELU()
            self.dropout = nn.Dropout(drop)

        def forward(self, x: Any, past: Any = None) -> Any:
            y, kept = self.attn(self.ln_1(x), past)
            x = x + y
            return x + self.dropout(self.c_proj(self.gelu(self.c_fc(self.ln_2(x))))), kept

    class GPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe, self.drop = (
                nn.Embedding(vocabulary, width),
                nn.Embedding(length, width),
                nn.Dropout(drop),
            )
            self.h = nn.ModuleList([Block() for _ in range(layers)])
            self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.wte.weight = self.lm_head.weight  # tied

        def forward(self, idx: Any, past: Any = None) -> Any:
            start = 0 if past is None else past[0][0].size(2)
            pos = lib.arange(start, start + idx.size(1), device=idx.device)
            x = self.drop(self.wte(idx) + self.wpe(pos))
            grown = []
            for n, block in enumerate(self.h):
                x, kept = block(x, None if past is None else past[n])
                grown.append(kept)
            logits = self.lm_head(self.ln_f(x))
            return logits if past is None else (logits[:, -1], tuple(grown))

    return GPT()


def gpt(
    name: str, vocabulary: int = 5000, length: int = 128, width: int = 256, layers: int = 4, heads: int = 4
) -> Model:
    """A small GPT-2 of Radford et al. (2019) on whole texts."""
    return Model(
        name,
        lambda lib, noisy: _gpt(lib, noisy, vocabulary, length, width, layers, heads),
        words(vocabulary, length),
        with_classes(words(vocabulary, length), vocabulary, length),
        supervised(classification, "AdamW", lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1),
        training_batch=2,
        noisy=True,
    )


def gpt_decoding(
    name: str, vocabulary: int = 5000, length: int = 128, width: int = 256, layers: int = 4, heads: int = 4
) -> Model:
    """The same network: the next word, by the keys and values of those before."""

    def inputs(rng: np.random.Generator, batch: int) -> list[Any]:
        def past() -> Any:
            return rng.standard_normal((batch, heads, length - 1, width // heads), np.float32)

        return [rng.integers(0, vocabulary, (batch, 1)), [(past(), past()) for _ in range(layers)]]

    return Model(name, lambda lib, noisy: _gpt(lib, noisy, vocabulary, length, width, layers, heads), inputs)


# -- recurrent ---------------------------------------------------------------------------------------------------


def _language_model(lib: Any, noisy: bool, kind: str, vocabulary: int, width: int) -> Any:
    nn = lib.nn

    class RNNModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.encoder = nn.Dropout(0.2 * noisy), nn.Embedding(vocabulary, width)
            self.rnn = getattr(nn, kind)(width, width, num_layers=2, dropout=0.2 * noisy)
            self.decoder = nn.Linear(width, vocabulary)

        def forward(self, ids: Any) -> Any:
            output, _ = self.rnn(self.drop(self.encoder(ids.t())))
            return self.decoder(self.drop(output)).transpose(0, 1)

    return RNNModel()


def language_model(name: str, kind: str, vocabulary: int = 2000, length: int = 35, width: int = 200) -> Model:
    """Two layers of `nn.LSTM` or `nn.GRU` between an embedding and logits, as in PyTorch's examples."""
    return Model(
        name,
        lambda lib, noisy: _language_model(lib, noisy, kind, vocabulary, width),
        words(vocabulary, length),
        with_classes(words(vocabulary, length), vocabulary, length),
        supervised(classification, "SGD" if kind == "LSTM" else "Adam", lr=1e-3),
        training_batch=20,
        noisy=True,
    )
