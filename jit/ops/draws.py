"""Random numbers as arithmetic on places, which loops compute: what the pass `place_draws` makes of draws.

See Note [Where a random number lies] in jit/runtime/arrays/philox.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from jit.ir import dtypes
from jit.ir.dtypes import DType
from jit.ir.op import absent, pointwise, random
from jit.ir.samples import Sample, sample
from jit.ir.types import TensorType

if TYPE_CHECKING:
    from jit.ir.random_state import RandomState

    from .protocols import Array, Draw, Elements, Generator, Ints, Math, Numpy, Ops, Tensor

LOW_WORD = 0xFFFFFFFF
ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_NO_ONNX = absent("ONNX draws random numbers in its own ways")


@random("aten::_begin_draw(int blocks, *, Device? device=None, Generator? generator=None) -> Tensor", namespaces=(),
        onnx=_NO_ONNX, grad=absent("creates a tensor from nothing"))  # fmt: skip
def begin_draw(m: Numpy, state: RandomState, blocks: int, device: str | None) -> tuple[Array, int]:
    """The seed and the offset of a random state, as 64 bits each, of which so many blocks are spent."""
    return m.array(np.array([state.seed, state.offset], np.uint64).view(np.int64)), blocks


@begin_draw.type
def _(blocks: int, device: str | None, generator: Generator | None) -> TensorType:
    return TensorType(dtypes.int64, (2,), None, device or "cpu")


@begin_draw.samples
def _() -> Iterator[Sample]:
    yield sample(3)


@pointwise("aten::_random_word(Tensor index, Tensor seed, Tensor offset) -> Tensor", namespaces=(), cost=90,
           result=dtypes.int32, onnx=_NO_ONNX, grad=absent("its operands are integers"))  # fmt: skip
def random_word(m: Math, index: Elements, seed: Elements, offset: Elements) -> Elements:
    """The 32-bit words at these places of a random sequence, from block `offset` on."""
    block = offset + (index >> 2)
    even, odd = [block & LOW_WORD, block & 0], [(block >> 32) & LOW_WORD, block & 0]
    keys = [seed & LOW_WORD, (seed >> 32) & LOW_WORD]
    for _ in range(ROUNDS):
        first, second = even[0] * MULTIPLIERS[0], even[1] * MULTIPLIERS[1]
        even = [((second >> 32) & LOW_WORD) ^ odd[0] ^ keys[0], ((first >> 32) & LOW_WORD) ^ odd[1] ^ keys[1]]
        odd = [second & LOW_WORD, first & LOW_WORD]
        keys = [(key + step) & LOW_WORD for key, step in zip(keys, KEY_STEPS, strict=True)]
    place = index & 3
    return m.where(place < 2, m.where(place < 1, even[0], odd[0]), m.where(place < 3, even[1], odd[1]))


@random_word.samples
def _() -> Iterator[Sample]:
    seed, offset = np.array(-(2**61) - 7), np.array(2**62 + 2**33 - 1)
    yield sample(np.arange(-5, 19).reshape(4, 6), seed, offset)
    yield sample(np.arange(3), np.array([1, 2, 3]), np.array(-1), note="broadcast")
    yield sample(np.zeros((0, 2), np.int64), seed, offset, note="empty")


# -- numbers of words ----------------------------------------------------------------------------------------------

SIGNIFICANT_BITS = {dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8}
"""The bits of a uniform number."""


def placed_uniform(F: Ops, draw: Draw, sizes: Ints, dtype: DType) -> Tensor:
    """The numbers that `Philox.uniform` draws."""
    bits = SIGNIFICANT_BITS[dtype]
    if dtype is dtypes.float64:
        low, high = (_positive(F, word) for word in draw.words(sizes, 2))
        whole = F.bitwise_or(F.bitwise_left_shift(high, bits - 32), F.bitwise_right_shift(low, 64 - bits))
        return F._to_copy(whole, dtype=dtype) * 2.0**-bits
    (word,) = draw.words(sizes)
    whole = F.bitwise_and(F.bitwise_right_shift(word, 32 - bits), 2**bits - 1)
    wide = F._to_copy(whole, dtype=dtypes.float32) * 2.0**-bits
    return wide if dtype is dtypes.float32 else F._to_copy(wide, dtype=dtype)


def placed_normal(F: Ops, draw: Draw, sizes: Ints, dtype: DType) -> Tensor | None:
    """The numbers that `Philox.normal` draws, but for those of float64.

    They are computed in float64 and rounded, so that they have the same bits wherever logarithms and cosines of two
    libraries, which differ in the last places of float64, do not lie on two sides of a number of the dtype.
    """
    if dtype is dtypes.float64 or not dtype.is_floating_point:
        return None
    index, (first, second) = draw.pairs(sizes)
    radius = F.sqrt(F.log(_inside_unit_interval(F, first)) * -2.0)
    angle = _inside_unit_interval(F, second) * (2.0 * math.pi)
    is_first = F.eq(F.bitwise_and(index, 1), 0)
    return F._to_copy(radius * F.where(is_first, F.cos(angle), F.sin(angle)), dtype=dtype)


def placed_exponential(F: Ops, draw: Draw, sizes: Ints) -> Tensor:
    """The numbers of float32 that `Philox.exponential` draws."""
    (word,) = draw.words(sizes)
    return F._to_copy(F.neg(F.log(_inside_unit_interval(F, word))), dtype=dtypes.float32)


def placed_integers(F: Ops, draw: Draw, low: int, high: int, sizes: Ints) -> Tensor | None:
    """The numbers that `Philox.randint` draws, of ranges of less than 2**31."""
    if not 0 < high - low < 2**31 or not -(2**63) <= low < high <= 2**63:
        return None
    lower, upper = (_positive(F, word) * (high - low) for word in draw.words(sizes, 2))
    return F.bitwise_right_shift(upper + F.bitwise_right_shift(lower, 32), 32) + low


def _positive(F: Ops, word: Tensor) -> Tensor:
    """A word as an int64 that is not negative."""
    return F.bitwise_and(F._to_copy(word, dtype=dtypes.int64), LOW_WORD)


def _inside_unit_interval(F: Ops, word: Tensor) -> Tensor:
    """Odd multiples of 2**-33, in float64."""
    return (F._to_copy(_positive(F, word), dtype=dtypes.float64) + 0.5) * 2.0**-32
