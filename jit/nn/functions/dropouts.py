"""Dropout as functions: of elements, of whole channels, and for SELU networks."""

from __future__ import annotations

import warnings
from typing import Any

from jit.eager.expecting import expect
from jit.eager.namespace import F
from jit.ir.errors import ShapeError, UsageError

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """While training, zero elements with probability `p` and scale the others by ``1 / (1 - p)``.

    Args:
        input: A floating point tensor.
        p: The probability.
        training: Whether to drop; otherwise the input is returned.
        inplace: Whether the result overwrites the input.

    Raises:
        UsageError: p lies outside of 0 to 1.

    >>> import jit
    >>> jit.nn.functional.dropout(jit.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    _check_probability(p)
    result = F.dropout(input, p, training)
    return F.copy_(input, result) if inplace and training else result


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of `[N, C, L]` or `[C, L]`.

    Args:
        input: `[N, C, L]` or `[C, L]`.
        p: The probability that a channel is zeroed.
        training: Whether to drop; otherwise the input is returned.
        inplace: Whether to write into the input.
    """
    return _channel_dropout(input, p, training, inplace, 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of `[N, C, H, W]` or `[C, H, W]`.

    Args:
        input: `[N, C, H, W]`; of three dims, it is taken for `[N, C, L]`, with a warning.
        p: The probability that a channel is zeroed.
        training: Whether to drop; otherwise the input is returned.
        inplace: Whether to write into the input.
    """
    return _channel_dropout(input, p, training, inplace, 2)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """`dropout` of whole channels of `[N, C, D, H, W]` or `[C, D, H, W]`.

    Args:
        input: `[N, C, D, H, W]` or `[C, D, H, W]`.
        p: The probability that a channel is zeroed.
        training: Whether to drop; otherwise the input is returned.
        inplace: Whether to write into the input.
    """
    return _channel_dropout(input, p, training, inplace, 3)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`dropout` for SELU networks: what is dropped is its lower bound, and mean and variance stay as they are.

    Args:
        input: A tensor.
        p: The probability.
        training: Whether to drop; otherwise the input is returned.
        inplace: Whether to write into the input.
    """
    _check_probability(p)
    return (F.alpha_dropout_ if inplace else F.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`alpha_dropout` of whole channels of `[N, C, ...]`.

    Args:
        input: `[N, C, ...]`.
        p: The probability that a channel is dropped.
        training: Whether to drop; otherwise the input is returned.
        inplace: Whether to write into the input.
    """
    _check_probability(p)
    if not training or p == 0:
        return input
    bound = -1.7580993408473766  # the limit of selu for very negative numbers
    with F.no_grad():
        kept = F.bernoulli(input.new_zeros((*input.shape[:2], *(1,) * (input.ndim - 2))), 1 - p)
    scale = 0.0 if p == 1 else 1 / ((bound * bound * p + 1) * (1 - p)) ** 0.5
    result = input * kept * scale + ((1 - kept) * bound - bound * p) * scale
    return F.copy_(input, result) if inplace else result


def _channel_dropout(input: Any, p: float, training: bool, inplace: bool, dims: int) -> Any:
    _check_probability(p)
    leading = _leading_dims(input, dims)
    if not training or p == 0:
        return input
    kept = F.dropout(input.new_ones((*input.shape[:leading], *(1,) * (input.ndim - leading))), p, True)
    return input.mul_(kept) if inplace else input * kept


def _leading_dims(input: Any, dims: int) -> int:
    """The number of leading dims that tell channels apart; a 3-d image is a batch of lines, as in PyTorch."""
    expect(f"dropout{dims}d", input)
    if input.ndim in ((4,) if dims == 2 else (dims + 1, dims + 2)):
        return int(input.ndim) - dims
    if dims == 1 or input.ndim < 2:
        wanted = f"{dims + 1}-d or {dims + 2}-d"
        raise ShapeError(
            f"dropout{dims}d takes {wanted} inputs, and this one has sizes {list(input.shape)}; use dropout()"
        )
    told = f"dropout{dims}d takes this {input.ndim}-d input for one of a batch and channels"
    warnings.warn(f"{told}; use the dropout of its number of dims", stacklevel=4)
    return 2


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise UsageError(f"the dropout probability is {p}; pass a number between 0 and 1")
