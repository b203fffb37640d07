"""Random numbers from Philox4x32-10, a generator that computes any part of its sequence without the parts before.

Note [Where a random number lies]
    A `RandomState` has a seed and an offset. Block `b` of its sequence is the Philox of the counter
    (low and high word of offset + b, 0, 0) under the key (low and high word of seed): four 32-bit words.
    A draw of n elements takes its elements' words in order, so every element depends on nothing but seed, offset and
    its own linear index i (in row-major order), and a kernel computes any of them alone:

        words each   element i is made of                     blocks that n elements spend
        1            word i % 4 of block i // 4                ceil(n / 4)
        2            words 2 (i % 2) and the next, the low     ceil(n / 2)
                     one first, of block i // 2

    A normal number is made together with its neighbour: elements i and i ^ 1 come from the words of both, which always
    lie in one block. A draw begins at a block of its own: the state after it is `state.advance(blocks_used(...))`.
    Two words go into a float64, a `randint` and a place of a `permutation`, one into everything else.
"""

import math
from functools import lru_cache
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from jit.ir.errors import DTypeError, UsageError
from jit.ir.random_state import RandomState

__all__ = ["NUMPY", "Philox", "blocks_used", "words_per_element"]

Kind = Literal["bits", "uniform", "normal", "exponential", "randint", "permutation"]
Shape = tuple[int, ...]
Words = NDArray[np.uint32]
Floats = NDArray[Any]

WORDS_PER_BLOCK: Final = 4
ROUNDS: Final = 10
MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
KEY_STEPS: Final = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
LOW_WORD: Final = np.uint64(0xFFFFFFFF)
WORD_BITS: Final = np.uint64(32)

BLOCKS_AT_ONCE: Final = 8192
"""The most blocks that keep the working set of `_philox_rounds` in a core's own cache."""

SIGNIFICANT_BITS: Final = {
    np.dtype(np.float64): 53,
    np.dtype(np.float32): 24,
    np.dtype(np.float16): 11,
    np.dtype(ml_dtypes.bfloat16): 8,
}
"""The bits of a uniform number; with so many, every multiple of 2**-bits below 1 is exact."""


def words_per_element(kind: Kind, dtype: DTypeLike = np.float32) -> int:
    """The number of 32-bit words that go into one element; `dtype` matters to the kinds that draw floats."""
    if kind in ("randint", "permutation"):
        return 2
    return 2 if kind != "bits" and _float_dtype(dtype) == np.float64 else 1


def blocks_used(kind: Kind, numel: int, dtype: DTypeLike = np.float32) -> int:
    """The advance of the state's offset by a draw of `numel` elements, in 128-bit blocks.

    >>> blocks_used("uniform", 10), blocks_used("uniform", 10, np.float64), blocks_used("randint", 1)
    (3, 5, 1)
    """
    return -(-numel * words_per_element(kind, dtype) // WORDS_PER_BLOCK)


class Philox:
    """The draws, as arrays of one library.

    Args:
        library: numpy, or a library with its names.
        at_once: The most blocks that are computed at once.
    """

    def __init__(self, library: Any, at_once: int) -> None:
        self._m, self._at_once = library, at_once
        self.blocks_used = blocks_used

    def philox4x32(self, counters: Words, key: tuple[int, int]) -> Words:
        """The ten-round Philox function itself.

        Args:
            counters: uint32[n, 4], a counter in each row, its lowest word first.
            key: The low and the high word of the key.

        Returns:
            uint32[n, 4]: a block of random words for each counter.

        >>> [hex(word) for word in NUMPY.philox4x32(np.zeros((1, 4), np.uint32), (0, 0))[0]]
        ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
        """
        words = counters.T.astype(np.uint64)
        even, odd = self._philox_rounds(words[0::2].copy(), words[1::2].copy(), key)
        return self._m.stack([even[0], odd[0], even[1], odd[1]], axis=1).astype(np.uint32)

    def random_bits(self, state: RandomState, n: int) -> Words:
        """Draws `n` words.

        Returns:
            uint32[n]; it spends `blocks_used("bits", n)` blocks of `state`.

        >>> bool((NUMPY.random_bits(RandomState(1), 8)[4:] == NUMPY.random_bits(RandomState(1, offset=1), 4)).all())
        True
        """
        blocks = blocks_used("bits", n)
        words = self._m.empty((blocks, WORDS_PER_BLOCK), np.uint32)
        key = state.seed & 0xFFFFFFFF, state.seed >> 32
        for start in range(0, blocks, self._at_once):
            part = words[start : start + self._at_once]
            even, odd = self._philox_rounds(*self._counters(state.offset + start, len(part)), key)
            part[:, 0::2] = even.T
            part[:, 1::2] = odd.T
        return words.reshape(-1)[:n]

    def uniform(self, state: RandomState, shape: Shape, dtype: DTypeLike = np.float32) -> Floats:
        """Draws numbers from [0, 1), multiples of 2**-53 (float64), 2**-24 (float32), 2**-11 or 2**-8 (16-bit types).

        Args:
            state: Where the sequence is read; spends `blocks_used("uniform", numel, dtype)` blocks.
            shape: The shape of the result.
            dtype: float64, float32, float16 or bfloat16.

        Returns:
            An array of that shape and dtype.

        Raises:
            DTypeError: The dtype is another one.

        >>> NUMPY.uniform(RandomState(seed=0), (2, 3)).shape
        (2, 3)
        """
        dtype = _float_dtype(dtype)
        bits = SIGNIFICANT_BITS[dtype]
        words = self._element_words(state, "uniform", shape, dtype)
        self._m.right_shift(words, words.dtype.type(words.itemsize * 8 - bits), out=words)
        values = words.view(f"int{words.itemsize * 8}").astype(dtype)  # signed integers convert faster
        values *= dtype.type(2.0**-bits)
        return values.reshape(shape)

    def normal(self, state: RandomState, shape: Shape, dtype: DTypeLike = np.float32) -> Floats:
        """Draws numbers of mean 0 and variance 1 by the method of Box and Muller, in float64, rounded once to `dtype`.

        Args:
            state: Where the sequence is read; spends `blocks_used("normal", numel, dtype)` blocks.
            shape: The shape of the result.
            dtype: float64, float32, float16 or bfloat16.

        Returns:
            An array of that shape and dtype; no number is beyond 6.8 (in float64: 8.6).

        Raises:
            DTypeError: The dtype is another one.

        >>> NUMPY.normal(RandomState(seed=0), (2, 3), np.float64).dtype
        dtype('float64')
        """
        dtype = _float_dtype(dtype)
        numel = _numel(shape)
        pairs = _inside_unit_interval(self._element_words(state, "normal", (numel + numel % 2,), dtype)).reshape(-1, 2)
        radius = self._m.sqrt(-2.0 * self._m.log(pairs[:, 0]))
        angle = 2.0 * np.pi * pairs[:, 1]
        pairs[:, 0] = radius * self._m.cos(angle)
        pairs[:, 1] = radius * self._m.sin(angle)
        return pairs.reshape(-1)[:numel].astype(dtype, copy=False).reshape(shape)

    def exponential(self, state: RandomState, shape: Shape, dtype: DTypeLike = np.float32) -> Floats:
        """Draws numbers of mean 1 from the exponential distribution, in float64, rounded once to `dtype`; none is zero.

        Args:
            state: Where the sequence is read; spends `blocks_used("exponential", numel, dtype)` blocks.
            shape: The shape of the result.
            dtype: float64, float32, float16 or bfloat16.

        Returns:
            An array of that shape and dtype, positive throughout, so that one may divide by it.

        Raises:
            DTypeError: The dtype is another one.

        >>> bool((NUMPY.exponential(RandomState(seed=0), (4,)) > 0).all())
        True
        """
        dtype = _float_dtype(dtype)
        values = -self._m.log(_inside_unit_interval(self._element_words(state, "exponential", shape, dtype)))
        if dtype == np.float16:
            self._m.maximum(
                values, 2.0**-24, out=values
            )  # the smallest number of float16, which would round lesser ones to 0
        return values.astype(dtype, copy=False).reshape(shape)

    def randint(self, state: RandomState, low: int, high: int, shape: Shape) -> NDArray[np.int64]:
        """Draws whole numbers from `low` to `high - 1`.

        Of a range of r numbers none is likelier than another by more than a factor of 1 + r / 2**64.

        Args:
            state: Where the sequence is read; spends `blocks_used("randint", numel)` blocks.
            low: The smallest number, -2**63 or more.
            high: One more than the largest number, 2**63 or less.
            shape: The shape of the result.

        Returns:
            int64 array of that shape.

        Raises:
            UsageError: The range is empty or reaches beyond int64.

        >>> sorted(set(NUMPY.randint(RandomState(seed=0), 1, 7, (100,)).tolist()))
        [1, 2, 3, 4, 5, 6]
        """
        if not -(2**63) <= low < high <= 2**63:
            raise UsageError(f"randint from {low} to {high} has no int64 to draw; take low < high within int64.")
        values = self._element_words(state, "randint", shape)
        if high - low < 2**64:
            values = _high_product(values, high - low)
        values += np.uint64(low % 2**64)  # wraps around, as two's complement wants
        return values.view(np.int64).reshape(shape)

    def permutation(self, state: RandomState, n: int) -> NDArray[np.int64]:
        """Draws an order of the numbers from 0 to `n - 1`, by sorting them by random 64-bit keys.

        Returns:
            int64[n]; it spends `blocks_used("permutation", n)` blocks of `state`.

        >>> sorted(NUMPY.permutation(RandomState(seed=0), 5).tolist())
        [0, 1, 2, 3, 4]
        """
        return self._m.argsort(self._element_words(state, "permutation", (n,)), kind="stable").astype(
            np.int64, copy=False
        )

    def _philox_rounds(
        self, even: NDArray[np.uint64], odd: NDArray[np.uint64], key: tuple[int, int]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Turns words 0 and 2 (`even`, uint64[2, n]) and 1 and 3 (`odd`) of n counters into random words, in place.

        A round multiplies words 0 and 2 by a constant each. The other one's product gives the new words: its upper
        half, mixed with the old odd word and the key, the even word; its lower half the odd word.
        """
        keys, multipliers = self._m.asarray(_round_keys(*key)), self._m.asarray(MULTIPLIERS)
        product = self._m.empty_like(even)
        other = product[::-1]
        for round_key in keys:
            self._m.multiply(even, multipliers, out=product)
            self._m.right_shift(other, WORD_BITS, out=even)
            even ^= odd
            even ^= round_key
            self._m.bitwise_and(other, LOW_WORD, out=odd)
        return even, odd

    def _counters(self, first: int, count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Words 0 and 2, and words 1 and 3, of the counters from block `first` (modulo 2**64) on: uint64[2, count]."""
        block = self._m.arange(count, dtype=np.uint64)
        block += np.uint64(first % 2**64)
        even = self._m.zeros((2, count), np.uint64)
        odd = self._m.zeros((2, count), np.uint64)
        self._m.bitwise_and(block, LOW_WORD, out=even[0])
        self._m.right_shift(block, WORD_BITS, out=odd[0])
        return even, odd

    def _element_words(
        self, state: RandomState, kind: Kind, shape: Shape, dtype: DTypeLike = np.float32
    ) -> NDArray[Any]:
        """The flat bits of the elements of a draw: uint32, or uint64 where two words go into one."""
        words_each = words_per_element(kind, dtype)
        words = self.random_bits(state, _numel(shape) * words_each)
        return words if words_each == 1 else words.astype("<u4", copy=False).view("<u8").astype(np.uint64, copy=False)


@lru_cache(maxsize=16)
def _round_keys(low: int, high: int) -> NDArray[np.uint64]:
    """uint64[ROUNDS, 2, 1]: the key, and for each further round one step more, each word modulo 2**32."""
    steps = np.arange(ROUNDS, dtype=np.uint64).reshape(ROUNDS, 1, 1) * KEY_STEPS
    return (np.array([[low], [high]], np.uint64) + steps) & LOW_WORD


def _inside_unit_interval(bits: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers of (0, 1), whose logarithm is finite and negative: odd multiples of 2**-33, of 2**-53 from 64 bits.

    A 64-bit element gives 52 bits, for one more would let the largest number round to 1.
    """
    kept, shift = (32, 0) if bits.itemsize == 4 else (52, 12)
    values: NDArray[np.float64] = (bits >> bits.dtype.type(shift)).astype(np.float64)
    values += 0.5
    values *= 2.0**-kept
    return values


def _high_product(bits: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """The upper 64 bits of the 128-bit products `bits * factor`, by halves of 32 bits."""
    bits_high, bits_low = bits >> WORD_BITS, bits & LOW_WORD
    factor_high, factor_low = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    lower = bits_high * factor_low + (bits_low * factor_low >> WORD_BITS)
    middle = bits_low * factor_high + (lower & LOW_WORD)
    high: NDArray[np.uint64] = bits_high * factor_high + (lower >> WORD_BITS) + (middle >> WORD_BITS)
    return high


def _numel(shape: Shape) -> int:
    return math.prod(shape)


def _float_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype not in SIGNIFICANT_BITS:
        raise DTypeError(f"Random numbers of dtype {dtype} are not drawn; take float64, float32, float16 or bfloat16.")
    return dtype


NUMPY = Philox(np, BLOCKS_AT_ONCE)
"""The draws as numpy arrays."""
