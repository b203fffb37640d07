"""Transformers (Vaswani et al., 2017): layers of attention and feed-forward networks, and stacks of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import UsageError

from . import functional, init
from .attention.multihead import MultiheadAttention
from .containers import ModuleList
from .linear import Linear
from .modules import Module
from .normalisation import LayerNorm
from .shaping import Dropout


class _TransformerLayer(Module):
    """Base of the layers of encoders and decoders: self-attention, and a feed-forward network for each place.

    Args:
        d_model: Size of the vectors, E.
        nhead: How many heads the attention has.
        dim_feedforward: Size of the hidden layer of the feed-forward network.
        dropout: The probability of dropping, while training.
        activation: That of the feed-forward network: "relu", "gelu", or a function.
        layer_norm_eps: Added to the variance in norms.
        batch_first: Whether sequences are `[N, L, E]` instead of `[L, N, E]`.
        norm_first: Whether norms come before attention and network, instead of after the sum.
        bias: Whether linear layers and norms have biases.
    """

    norms = 2
    """The number of norms, and of sums with a dropout, that a layer has."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu",
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = {"bias": bias, "batch_first": batch_first, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, **options)
        if self.norms == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, **options)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        for number in range(1, self.norms + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype))
        for number in range(1, self.norms + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _summed(self, number: int, x: Any, part: Callable[[Any], Any]) -> Any:
        """The sum of x and `part(x)`, with a norm before `part` or after the sum."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(part(norm(x)))
        return norm(x + dropout(part(x)))

    def _look(self, x: Any, mask: Any, padding: Any, is_causal: bool) -> Any:
        """The result of self-attention on x."""
        options = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": is_causal and mask is not None}
        return self.self_attn(x, x, x, need_weights=False, **options)[0]

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _activation(given: Any) -> Callable[[Any], Any]:
    known = {"relu": functional.relu, "gelu": functional.gelu}
    if callable(given):
        return given
    if given not in known:
        raise UsageError(f"activation is {given!r}; it must be 'relu', 'gelu' or a function")
    return known[given]


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then a feed-forward network for each place, each with a sum and a norm.

    Args:
        d_model: Size of the vectors, E.
        nhead: How many heads the attention has.
        dim_feedforward: Size of the hidden layer of the feed-forward network.
        dropout: The probability of dropping, while training.
        activation: That of the feed-forward network: "relu", "gelu", or a function.
        layer_norm_eps: Added to the variance in norms.
        batch_first: Whether sequences are `[N, L, E]` instead of `[L, N, E]`.
        norm_first: Whether norms come before attention and network, instead of after the sum.
        bias: Whether linear layers and norms have biases.

    Shape:
        Sequences `[L, N, d_model]`, `[N, L, d_model]` if `batch_first`, or `[L, d_model]`; output of the same sizes.

    >>> import jit
    >>> jit.nn.TransformerEncoderLayer(8, 2, 16)(jit.randn(5, 3, 8)).shape
    jit.Size([5, 3, 8])
    """

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        """Run the layer.

        Args:
            src: `[L, N, E]`, `[N, L, E]` if `batch_first`, or `[L, E]`.
            src_mask: `[L, L]` or `[N * nhead, L, L]`: True for hidden places, or numbers added to scores.
            src_key_padding_mask: `[N, L]` or `[L]`, likewise.
            is_causal: Whether `src_mask` is the causal one.

        Returns:
            A tensor of the sizes of `src`.
        """
        x = self._summed(1, src, lambda x: self._look(x, src_mask, src_key_padding_mask, is_causal))
        return self._summed(2, x, self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to an encoder's output (the memory), then a feed-forward network for each place.

    Args:
        d_model: Size of the vectors, E.
        nhead: How many heads the attention has.
        dim_feedforward: Size of the hidden layer of the feed-forward network.
        dropout: The probability of dropping, while training.
        activation: That of the feed-forward network: "relu", "gelu", or a function.
        layer_norm_eps: Added to the variance in norms.
        batch_first: Whether sequences are `[N, L, E]` instead of `[L, N, E]`.
        norm_first: Whether norms come before attention and network, instead of after the sum.
        bias: Whether linear layers and norms have biases.

    Shape:
        Target `[L, N, E]` and memory `[S, N, E]`, N first if `batch_first`; output of the target's sizes.

    >>> import jit
    >>> jit.nn.TransformerDecoderLayer(8, 2, 16)(jit.randn(4, 3, 8), jit.randn(5, 3, 8)).shape
    jit.Size([4, 3, 8])
    """

    norms = 3

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None, tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Run the layer.

        Args:
            tgt: `[L, N, E]`, `[N, L, E]` if `batch_first`, or `[L, E]`.
            memory: The output of the encoder, `[S, N, E]`, `[N, S, E]` or `[S, E]`.
            tgt_mask: `[L, L]` or `[N * nhead, L, L]`: True for hidden places, or numbers added to scores.
            memory_mask: `[L, S]` or `[N * nhead, L, S]`, likewise.
            tgt_key_padding_mask: `[N, L]` or `[L]`, likewise.
            memory_key_padding_mask: `[N, S]` or `[S]`, likewise.
            tgt_is_causal: Whether `tgt_mask` is the causal one.
            memory_is_causal: Whether `memory_mask` is the causal one.

        Returns:
            A tensor of the sizes of `tgt`.
        """

        def look_back(x: Any) -> Any:
            options = {"attn_mask": memory_mask, "key_padding_mask": memory_key_padding_mask}
            causal = memory_is_causal and memory_mask is not None
            return self.multihead_attn(x, memory, memory, need_weights=False, is_causal=causal, **options)[0]

        x = self._summed(1, tgt, lambda x: self._look(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        return self._summed(3, self._summed(2, x, look_back), self._feed_forward)


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: A layer; each of the stack starts as a copy of it.
        num_layers: How many.
        norm: A module for the output, or None.
        enable_nested_tensor: Accepted; makes no difference.
        mask_check: Accepted; makes no difference.

    >>> import jit
    >>> layer = jit.nn.TransformerEncoderLayer(8, 2, 16)
    >>> jit.nn.TransformerEncoder(layer, 2)(jit.randn(5, 3, 8)).shape
    jit.Size([5, 3, 8])
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        """Run the layers one after the other.

        Args:
            src: `[L, N, E]`, `[N, L, E]` if `batch_first`, or `[L, E]`.
            mask: `[L, L]` or `[N * nhead, L, L]`: True for hidden places, or numbers added to scores.
            src_key_padding_mask: `[N, L]` or `[L]`, likewise.
            is_causal: Whether `mask` is the causal one.

        Returns:
            A tensor of the sizes of `src`.
        """
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Args:
        decoder_layer: A layer; each of the stack starts as a copy of it.
        num_layers: How many.
        norm: A module for the output, or None.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Run the layers one after the other.

        Args:
            tgt: `[L, N, E]`, `[N, L, E]` if `batch_first`, or `[L, E]`.
            memory: The output of the encoder, `[S, N, E]`, `[N, S, E]` or `[S, E]`.
            tgt_mask: `[L, L]` or `[N * nhead, L, L]`: True for hidden places, or numbers added to scores.
            memory_mask: `[L, S]` or `[N * nhead, L, S]`, likewise.
            tgt_key_padding_mask: `[N, L]` or `[L]`, likewise.
            memory_key_padding_mask: `[N, S]` or `[S]`, likewise.
            tgt_is_causal: Whether `tgt_mask` is the causal one.
            memory_is_causal: Whether `memory_mask` is the causal one.

        Returns:
            A tensor of the sizes of `tgt`.
        """
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: Size of the vectors, E.
        nhead: How many heads attention has.
        num_encoder_layers: How many layers the encoder has.
        num_decoder_layers: How many layers the decoder has.
        dim_feedforward: Size of the hidden layer of the feed-forward networks.
        dropout: The probability of dropping, while training.
        activation: That of the feed-forward networks: "relu", "gelu", or a function.
        custom_encoder: A module to be the encoder, or None.
        custom_decoder: A module to be the decoder, or None.
        layer_norm_eps: Added to the variance in norms.
        batch_first: Whether sequences are `[N, L, E]` instead of `[L, N, E]`.
        norm_first: Whether norms come before attention and network, instead of after the sum.
        bias: Whether linear layers and norms have biases.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Source `[S, N, E]` and target `[L, N, E]`, N first if `batch_first`; output of the target's sizes.

    >>> import jit
    >>> model = jit.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(jit.randn(5, 3, 8), jit.randn(4, 3, 8)).shape
    jit.Size([4, 3, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Any = "relu", custom_encoder: Any = None,
        custom_decoder: Any = None, layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        ends = layer_norm_eps, batch_first, norm_first, bias, device, dtype
        options = d_model, nhead, dim_feedforward, dropout, activation, *ends

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None,
        src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Any:  # fmt: skip
        """Run the encoder on `src`, and the decoder on `tgt` and what comes out.

        Args:
            src: `[S, N, E]`, `[N, S, E]` if `batch_first`, or `[S, E]`.
            tgt: `[L, N, E]`, `[N, L, E]` if `batch_first`, or `[L, E]`.
            src_mask: `[S, S]` or `[N * nhead, S, S]`: True for hidden places, or numbers added to scores.
            tgt_mask: `[L, L]` or `[N * nhead, L, L]`, likewise.
            memory_mask: `[L, S]` or `[N * nhead, L, S]`, likewise.
            src_key_padding_mask: `[N, S]` or `[S]`, likewise.
            tgt_key_padding_mask: `[N, L]` or `[L]`, likewise.
            memory_key_padding_mask: `[N, S]` or `[S]`, likewise, for the decoder's looks at the encoder's output.
            src_is_causal: Whether `src_mask` is the causal one.
            tgt_is_causal: Whether `tgt_mask` is the causal one.
            memory_is_causal: Whether `memory_mask` is the causal one.

        Returns:
            A tensor of the sizes of `tgt`.
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask, is_causal=src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The causal mask: -inf above the diagonal, zeros elsewhere.

        Args:
            sz: The length of the sequence.
            device: The device; the default one if left out.
            dtype: The element type; float32 if left out.

        Returns:
            `[sz, sz]`.
        """
        return F.triu(F.full((sz, sz), -math.inf, device=device, dtype=dtype), 1)
