"""Layers that pad the last dims: with a constant, with the mirror image, with the border, or periodically."""

from __future__ import annotations

from typing import Any

from jit.ir.errors import ShapeError

from . import functional
from .modules import Module


class _Pad(Module):
    """Base of paddings of the last `rank` dims by one number, or by two for each dim, those of the last dim first."""

    rank = 0
    """The number of dims that are lengthened."""
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        wanted = 2 * self.rank
        given = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * wanted
        if len(given) != wanted:
            raise ShapeError(f"{type(self).__name__} got {len(given)} numbers; pass one, or {wanted}, two for each dim")
        self.padding = given

    def forward(self, input: Any) -> Any:
        """Args: input, `[N, C, ...]` or `[C, ...]`. Returns: the same with longer last dims."""
        if self.mode != "constant":
            self._check(input)
        return functional.pad(input, self.padding, self.mode, self.value)

    def _check(self, input: Any) -> None:
        """Refuse inputs that are empty but for their batch: there is nothing in them to pad with."""
        rank = self.rank
        bare = 0 in input.shape[-rank - 1 :] and self.mode != "circular"
        if input.ndim not in (rank + 1, rank + 2) or bare:
            wanted = f"{rank + 1} or {rank + 2} dims, of which only a batch may be empty"
            raise ShapeError(f"{type(self).__name__} takes {wanted}, got the sizes {list(input.shape)}")

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Lengthens the last dim by a constant.

    Args:
        padding: How much is added on each side: one number, or two: left, right.
        value: The constant.

    Shape:
        Input of at least 1 dim; output the same with the last size longer.

    >>> import jit
    >>> jit.nn.ConstantPad1d((1, 2), 7.0)(jit.zeros(1, 1, 2)).tolist()
    [[[7.0, 0.0, 0.0, 7.0, 7.0]]]
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Lengthens the last two dims by a constant.

    Args:
        padding: How much is added on each side: one number, or four: left, right, top, bottom.
        value: The constant.

    Shape:
        Input of at least 2 dims; output the same with the last two sizes longer.
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Lengthens the last three dims by a constant.

    Args:
        padding: How much is added on each side: one number, or six: left, right, top, bottom, front, back.
        value: The constant.

    Shape:
        Input of at least 3 dims; output the same with the last three sizes longer.
    """

    rank = 3


class _ZeroPad(_Pad):
    value = 0.0


class ZeroPad1d(_ZeroPad):
    """Lengthens the last dim by zeros.

    Args:
        padding: How much is added on each side: one number, or two: left, right.

    Shape:
        Input of at least 1 dim; output the same with the last size longer.
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Lengthens the last two dims by zeros.

    Args:
        padding: How much is added on each side: one number, or four: left, right, top, bottom.

    Shape:
        Input of at least 2 dims; output the same with the last two sizes longer.
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Lengthens the last three dims by zeros.

    Args:
        padding: How much is added on each side: one number, or six: left, right, top, bottom, front, back.

    Shape:
        Input of at least 3 dims; output the same with the last three sizes longer.
    """

    rank = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Lengthens the last dim by its mirror image.

    Args:
        padding: How much is added on each side: one number, or two: left, right.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output the same with a longer last size.

    >>> import jit
    >>> jit.nn.ReflectionPad1d(1)(jit.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[2.0, 1.0, 2.0, 3.0, 2.0]]]
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Lengthens the last two dims by their mirror image.

    Args:
        padding: How much is added on each side: one number, or four: left, right, top, bottom.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with the last two sizes longer.
    """

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Lengthens the last three dims by their mirror image.

    Args:
        padding: How much is added on each side: one number, or six: left, right, top, bottom, front, back.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with the last three sizes longer.
    """

    rank = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Lengthens the last dim by its ends.

    Args:
        padding: How much is added on each side: one number, or two: left, right.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output the same with a longer last size.
    """

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Lengthens the last two dims by their ends.

    Args:
        padding: How much is added on each side: one number, or four: left, right, top, bottom.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with the last two sizes longer.
    """

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Lengthens the last three dims by their ends.

    Args:
        padding: How much is added on each side: one number, or six: left, right, top, bottom, front, back.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with the last three sizes longer.
    """

    rank = 3


class _CircularPad(_Pad):
    mode = "circular"


class CircularPad1d(_CircularPad):
    """Lengthens the last dim periodically, as if its ends were joined.

    Args:
        padding: How much is added on each side: one number, or two: left, right.

    Shape:
        Input `[N, C, L]` or `[C, L]`; output the same with a longer last size.
    """

    rank = 1


class CircularPad2d(_CircularPad):
    """Lengthens the last two dims periodically, as if their ends were joined.

    Args:
        padding: How much is added on each side: one number, or four: left, right, top, bottom.

    Shape:
        Input `[N, C, H, W]` or `[C, H, W]`; output the same with the last two sizes longer.
    """

    rank = 2


class CircularPad3d(_CircularPad):
    """Lengthens the last three dims periodically, as if their ends were joined.

    Args:
        padding: How much is added on each side: one number, or six: left, right, top, bottom, front, back.

    Shape:
        Input `[N, C, D, H, W]` or without N; output the same with the last three sizes longer.
    """

    rank = 3
