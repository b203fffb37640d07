"""Causal masks as arguments of attention, which need not be made: `causal_upper_left`, `causal_lower_right`."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from jit.eager import context
from jit.eager.composed import Composed
from jit.eager.namespace import F
from jit.eager.tensors import Size
from jit.ir import dtypes
from jit.ir.errors import KindError, ShapeError, UsageError


class CausalVariant(IntEnum):
    """The corner from which the diagonal of a causal mask starts, where it is no square."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Composed):
    """A causal mask: attention knows what it means, and all other functions get the tensor of bools.

    Args:
        variant: The corner that the diagonal meets.
        seq_len_q: The number of queries.
        seq_len_kv: The number of keys.

    >>> import jit
    >>> from jit.nn.attention.bias import causal_lower_right
    >>> q, k = jit.ones(1, 1, 2, 4), jit.ones(1, 1, 3, 4)
    >>> jit.nn.functional.scaled_dot_product_attention(q, k, k, causal_lower_right(2, 3)).shape
    jit.Size([1, 1, 2, 4])
    """

    requires_grad = False
    dtype = dtypes.bool_
    ndim = 2

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise KindError(f"the variant of a causal mask is a CausalVariant, not a {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            context.warn(
                "a causal mask from the lower right hides all keys from the first queries if there are more queries "
                "than keys; their results are 0"
            )

    @property
    def shape(self) -> Size:
        """The number of queries, and that of keys."""
        return Size((self.seq_len_q, self.seq_len_kv))

    def size(self, dim: int | None = None) -> Any:
        """Both numbers, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def _materialize(self, device: Any = None) -> Any:
        """The mask as a tensor of bools."""
        away = self.seq_len_kv - self.seq_len_q if self.variant is CausalVariant.LOWER_RIGHT else 0
        return F.tril(F.ones((self.seq_len_q, self.seq_len_kv), dtype=dtypes.bool_, device=device), away)

    def answer(self, name: str, args: Any, kwargs: Any) -> Any:
        """The result of the operator of this name, for which the mask is made unless attention can do without.

        Args:
            name: The name of the operator.
            args: Its arguments by position.
            kwargs: Its arguments by name.
        """
        if name == "scaled_dot_product_attention":
            return self._attention(*args, **kwargs)
        device = next((each.device for each in args if hasattr(each, "device")), None)
        made = [each._materialize(device) if isinstance(each, CausalBias) else each for each in args]
        return getattr(F, name)(*made, **kwargs)

    def _attention(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
        scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        if attn_mask is not self:
            raise KindError("a causal mask is the attn_mask of attention alone; pass tensors for the others")
        if is_causal:
            raise UsageError("CausalBias should not be used with causal=True; leave is_causal out")
        if (query.shape[-2], key.shape[-2]) != (self.seq_len_q, self.seq_len_kv):
            raise ShapeError(
                f"a causal mask for {self.seq_len_q} queries and {self.seq_len_kv} keys does not fit "
                f"{query.shape[-2]} and {key.shape[-2]}; make one of these sizes"
            )
        plain = self.variant is CausalVariant.UPPER_LEFT or self.seq_len_q == self.seq_len_kv
        mask = None if plain else self._materialize(query.device)
        return F.scaled_dot_product_attention(
            query, key, value, mask, dropout_p, plain, scale=scale, enable_gqa=enable_gqa
        )

    def __repr__(self) -> str:
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """The causal mask whose diagonal starts in the upper left corner.

    Args:
        size: The number of queries, and that of keys.
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size))


def causal_lower_right(*size: int) -> CausalBias:
    """The causal mask whose diagonal ends in the lower right corner: the last query sees all keys.

    Args:
        size: The number of queries, and that of keys.
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size))


def _two(size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise ShapeError(f"a causal mask has a number of queries and one of keys, and got {len(size)} sizes")
    return size[0], size[1]


__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
