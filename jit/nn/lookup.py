"""Layers that look vectors up in a table: one for each index, or one for each bag of indices."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.devices import resolve
from jit.ir.errors import ExpectationError, UsageError

from . import functional, init
from .modules import Module
from .parameter import Parameter


class _Table(Module):
    """Base of layers that look vectors up in a table.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Size of each vector.
        padding_idx: A row that starts as zeros and gets no gradient; in bags it does not count.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: The p of the norm that measures rows.
        scale_grad_by_freq: Whether to divide gradients by how often a row was looked up.
        sparse: Accepted; gradients are dense all the same.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None,
        norm_type: float, scale_grad_by_freq: bool, sparse: bool, weight: Any, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        resolve(device)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ExpectationError(
                f"padding_idx is {padding_idx}, but the table has {num_embeddings} rows; pass one of these"
            )
        if weight is not None and tuple(weight.shape) != (num_embeddings, embedding_dim):
            wanted, given = [num_embeddings, embedding_dim], list(weight.shape)
            raise ExpectationError(
                f"a table of sizes {wanted} was asked for, and one of sizes {given} given; pass these"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None or padding_idx >= 0 else num_embeddings + padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        table = F.empty((num_embeddings, embedding_dim), device=device, dtype=dtype) if weight is None else weight
        self.weight = table if isinstance(table, Parameter) else Parameter(table)
        if weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with F.no_grad():
                F.select(self.weight, 0, self.padding_idx).zero_()

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, *options: Any, **named: Any) -> Any:
        """A layer with a given table, which is not learned further if `freeze`; options are those of the layer."""
        if embeddings.ndim != 2:
            raise ExpectationError(
                f"a table has 2 dims, and this one has sizes {list(embeddings.shape)}; pass a matrix"
            )
        rows, size = embeddings.shape
        make: Any = cls
        return make(rows, size, *options, _weight=Parameter(embeddings.detach(), not freeze), **named)

    def extra_repr(self) -> str:
        defaults = {
            "padding_idx": None,
            "max_norm": None,
            "norm_type": 2.0,
            "scale_grad_by_freq": False,
            "sparse": False,
        }
        said = [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join([str(self.num_embeddings), str(self.embedding_dim), *said])


class Embedding(_Table):
    """A table of vectors, looked up by integers.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Size of each vector.
        padding_idx: A row that starts as zeros and gets no gradient.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: The p of the norm that measures rows.
        scale_grad_by_freq: Whether to divide gradients by how often a row was looked up.
        sparse: Accepted; gradients are dense all the same.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Input of integers of any sizes `[...]`; output `[..., embedding_dim]`.

    >>> import jit
    >>> jit.nn.Embedding(10, 4)(jit.tensor([[1, 2], [3, 4]])).shape
    jit.Size([2, 2, 4])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Any = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        options = max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype
        super().__init__(num_embeddings, embedding_dim, padding_idx, *options)
        if not isinstance(_weight, Parameter):
            self.weight.requires_grad_(not _freeze)

    def forward(self, input: Any) -> Any:
        """Args: input, integers of any sizes. Returns: the same sizes and one more dim, `embedding_dim`."""
        options = self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        return functional.embedding(input, self.weight, *options)


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the vectors of a bag of integers.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Size of each vector.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: The p of the norm that measures rows.
        scale_grad_by_freq: Whether to divide gradients by how often a row was looked up.
        mode: "sum", "mean" or "max".
        sparse: Accepted; gradients are dense all the same.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: A row that does not count.
        device: The device of the parameters; the default one if left out.
        dtype: The element type of the parameters; float32 if left out.

    Shape:
        Input `[bags, size]`, or `[N]` with offsets `[bags]`; output `[bags, embedding_dim]`.

    >>> import jit
    >>> jit.nn.EmbeddingBag(10, 4, mode="sum")(jit.tensor([1, 2, 4]), jit.tensor([0, 2])).shape
    jit.Size([2, 4])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Any = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        options = max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype
        super().__init__(num_embeddings, embedding_dim, padding_idx, *options)
        if mode not in ("sum", "mean", "max"):
            raise UsageError(f"mode is {mode!r}; it must be 'sum', 'mean' or 'max'")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """Look bags up.

        Args:
            input: Bags `[bags, size]`, or all indices `[N]` one after the other.
            offsets: For indices `[N]`, where each bag begins.
            per_sample_weights: A factor for each index, for sums.

        Returns:
            `[bags, embedding_dim]`.
        """
        return functional.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, False,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
