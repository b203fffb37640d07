"""Precision: what an operator computes in where `autocast` is on, and what `autocast` is set to.

An operator says it on the line above its declaration:

    @LOWER
    @array("aten::mm(Tensor self, Tensor mat2) -> Tensor", ...)

The choices are PyTorch's. What says nothing computes in whatever it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from . import dtypes
from .dtypes import DType

if TYPE_CHECKING:
    from .op import Op


@dataclass(frozen=True)
class Precision:
    """The precision of an operator in a region of `autocast`, for each kind of device; None leaves its operands alone.

    "lower" is the dtype of the region, "float32" is what it says, "widest" is float32 if one operand is, "given" is
    what the operands are, in which the parts of a composite compute, too, and "refused" is an error. Used as a
    decorator it says so of the operator beneath: `@Precision(cuda="float32")`.
    """

    cpu: str | None = None
    cuda: str | None = None

    def __call__(self, op: Op) -> Op:
        op.precision = self
        return op

    def on(self, kind: str) -> str | None:
        """The choice for a kind of device; None if there is none."""
        return {"cpu": self.cpu, "cuda": self.cuda}.get(kind)


LOWER = Precision("lower", "lower")
FLOAT32 = Precision("float32", "float32")
WIDEST = Precision("widest", "widest")

DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
"""The kinds of devices that have regions, with the lower dtype where none is given."""


@dataclass(frozen=True)
class Regime:
    """A setting of `autocast`: the lower dtype of each kind of device where it is enabled, None elsewhere.

    `regime` makes them, one object for each, so that they can be compared by identity.
    """

    cpu: DType | None
    cuda: DType | None
    caches: bool
    """Whether casts of parameters are kept until the outermost region ends."""

    def on(self, kind: str) -> DType | None:
        """The lower dtype on a kind of device; None where `autocast` is not enabled."""
        return {"cpu": self.cpu, "cuda": self.cuda}.get(kind)

    def __str__(self) -> str:
        found = [f"{kind} {lower.name}" for kind in DEFAULTS if (lower := self.on(kind)) is not None]
        return ", ".join(found)


@cache
def regime(cpu: DType | None, cuda: DType | None, caches: bool = True) -> Regime | None:
    """The Regime of these dtypes; None if `autocast` is enabled nowhere."""
    return None if cpu is cuda is None else Regime(cpu, cuda, caches)


def widest(found: Sequence[DType]) -> DType:
    """The dtype of operands of which some have half the precision: theirs if they agree, else float32."""
    return found[0] if len(set(found)) == 1 else dtypes.float32


def is_cast(dtype: DType) -> bool:
    """Whether `autocast` casts tensors of this dtype: real floating ones, float64 excepted."""
    return dtype.is_floating_point and dtype is not dtypes.float64
