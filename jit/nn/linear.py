"""Layers that are matrix products or look-ups in a matrix."""

from __future__ import annotations

import math
from typing import Any

from jit.ir.errors import UsageError

from ..functions import F
from . import functional, init
from .modules import Module
from .parameter import Parameter


def fill_like_linear(weight: Any, bias: Any) -> None:
    """PyTorch's start for linear and convolution layers: both uniform within 1 / sqrt(inputs of an output)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.fans(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """``x @ weight.T + bias`` over the last dim.

    Args:
        in_features: Size of the last dim of the input.
        out_features: Size of the last dim of the output.
        bias: Whether to add a bias.

    >>> import jit
    >>> jit.nn.Linear(3, 2)(jit.zeros(5, 4, 3)).shape
    jit.Size([5, 4, 2])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(F.empty((out_features, in_features), dtype=dtype))
        self.register_parameter("bias", Parameter(F.empty((out_features,), dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        fill_like_linear(self.weight, self.bias)

    def forward(self, input: Any) -> Any:
        """Args: input `[..., in_features]`. Returns: `[..., out_features]`."""
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for every output feature k."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(F.empty((out_features, in1_features, in2_features), dtype=dtype))
        self.register_parameter("bias", Parameter(F.empty((out_features,), dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Args: input1 `[..., in1_features]`, input2 `[..., in2_features]`. Returns: `[..., out_features]`."""
        return functional.bilinear(input1, input2, self.weight, self.bias)


class Embedding(Module):
    """A table of vectors, looked up by integers.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Size of each vector.
        padding_idx: A row that starts as zeros and gets no gradient.

    >>> import jit
    >>> jit.nn.Embedding(10, 4)(jit.tensor([[1, 2], [3, 4]])).shape
    jit.Size([2, 2, 4])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if max_norm is not None or sparse:
            raise UsageError("Embedding takes neither max_norm nor sparse=True; leave them out")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise UsageError(f"padding_idx is {padding_idx}, but the table has {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else num_embeddings + padding_idx
        self.scale_grad_by_freq = scale_grad_by_freq
        self.weight = Parameter(F.empty((num_embeddings, embedding_dim), dtype=dtype) if _weight is None else _weight)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with F.no_grad():
                F.select(self.weight, 0, self.padding_idx).zero_()

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Embedding:
        """A layer around a table that exists, not learned further if `freeze`."""
        rows, size = embeddings.shape
        layer = cls(rows, size, padding_idx, _weight=embeddings, **options)
        layer.weight.requires_grad_(not freeze)
        return layer

    def forward(self, input: Any) -> Any:
        """Args: input, integers of any sizes. Returns: the same sizes and one more dim, `embedding_dim`."""
        return functional.embedding(input, self.weight, self.padding_idx, scale_grad_by_freq=self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
