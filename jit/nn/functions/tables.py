"""Look-up of vectors in a table as functions: one for each index, or one for each bag of indices."""

from __future__ import annotations

from typing import Any

from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

__all__ = ["embedding", "embedding_bag"]


def embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """Rows of `weight`, by the integers in `input`.

    Args:
        input: Integers of any sizes.
        weight: `[rows, size]`.
        padding_idx: A row that gets no gradient.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: The p of the norm that `max_norm` bounds.
        scale_grad_by_freq: Whether to divide the gradient of a row by how often the row was looked up.
        sparse: Accepted; gradients are dense all the same.

    Returns:
        `[*input.shape, size]`.

    Raises:
        ShapeError: The weight is no matrix.
        UsageError: `padding_idx` is not a row of the table.

    >>> import jit
    >>> jit.nn.functional.embedding(jit.tensor([1, 1]), jit.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [3.0, 4.0]]
    """
    if max_norm is not None and weight.ndim == 2:
        _renormalise_rows(weight, input, max_norm, norm_type)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the weight should have 2 dims, got sizes {list(weight.shape)}; pass a matrix")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise UsageError(f"padding_idx is {padding_idx}, but the table has {rows} rows; pass one of these")
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else rows + padding_idx
    return F.embedding(weight, input, padding, scale_grad_by_freq)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """The sum, mean or maximum of the rows of `weight` that the indices of each bag name.

    Args:
        input: Bags `[bags, size]`, or all indices `[N]` one after the other.
        weight: `[rows, size]`.
        offsets: For indices `[N]`, where each bag begins.
        max_norm: If given, rows that are looked up and longer than this are scaled to it, in place.
        norm_type: The p of the norm that `max_norm` bounds.
        scale_grad_by_freq: Whether to divide gradients by how often a row was looked up; not for "max".
        mode: "sum", "mean" or "max".
        sparse: Accepted; gradients are dense all the same.
        per_sample_weights: A factor for each index, for sums.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: A row that does not count.

    Returns:
        `[bags, size of a row]`.

    Raises:
        UsageError: Offsets are missing or superfluous, the mode is unknown, or options do not go together.
        ShapeError: Indices have more than two dims, or the weights of samples other sizes.

    >>> import jit
    >>> jit.nn.functional.embedding_bag(jit.tensor([[0, 1]]), jit.ones(2, 3), mode="sum").tolist()
    [[2.0, 2.0, 2.0]]
    """
    if mode not in _BAG_MODES:
        raise UsageError(f"embedding_bag: mode is {mode!r}; it must be 'sum', 'mean' or 'max'")
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        sizes = f"{list(per_sample_weights.shape)} and {list(input.shape)}"
        raise ShapeError(f"embedding_bag: per_sample_weights and indices have different sizes, {sizes}; pass the same")
    input, offsets, per_sample_weights = _bags(input, offsets, per_sample_weights)
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    code = _BAG_MODES[mode]
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise UsageError(f"padding_idx is {padding_idx}, but the table has {weight.shape[0]} rows; pass one of these")
    if mode == "max" and scale_grad_by_freq:
        raise UsageError("embedding_bag: scale_grad_by_freq is not for the mode 'max'; leave it out")
    rest = code, False, per_sample_weights, include_last_offset, padding_idx
    return F.embedding_bag(weight, input, offsets, scale_grad_by_freq, *rest)[0]


def _bags(input: Any, offsets: Any, weights: Any) -> tuple[Any, Any, Any]:
    """All indices in one row, the places where the bags begin, and the weights of the indices in one row."""
    if input.ndim == 1:
        if offsets is None:
            raise UsageError("embedding_bag: indices of one dim need offsets, at which the bags begin; pass offsets=")
        return input, offsets, weights
    if input.ndim != 2:
        raise ShapeError(f"embedding_bag: expects indices of 1 or 2 dims, got the sizes {list(input.shape)}")
    if offsets is not None:
        raise UsageError("embedding_bag: rows of indices are bags already; leave offsets out")
    bags, size = input.shape
    home = input.device
    starts = F.arange(0, bags * size, size, device=home) if size else F.zeros([bags], dtype=input.dtype, device=home)
    return F.reshape(input, [-1]), starts, None if weights is None else F.reshape(weights, [-1])


def _renormalise_rows(weight: Any, rows: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up, in place, to a norm of at most `max_norm`."""
    with F.no_grad():
        used = F.reshape(rows, [-1])
        picked = F.index_select(weight, 0, used)
        norms = F.norm(picked, norm_type, [1], True)
        scale = F.where(F.gt(norms, max_norm), max_norm / (norms + 1e-7), 1.0)
        F.index_copy_(weight, 0, used, picked * scale)
