"""The structured loop nest: the form in which a fused region goes to code generation.

A nest is an iteration space, affine maps that say which element each operand of the body reads or writes at a point
of the space, and a body that computes one point. It knows nothing of the IR, of LLVM, or of the target.

    for i0 in range(extents[0]):                        # an LSTM cell's gate, read through chunk(4, 1):
      for i1 in range(extents[1]):                      #   extents (64, 512)
        operands = [buffer[map(i0, i1)] for reads]      #   Access(0, (2048, 1), offset=512)
        results = body(m, *operands)
        for each write: buffer[map(i0, i1)] = result

Note [What the nest will grow into]
    Nothing below is built before something uses it; this says why it will fit.
    * Reductions: a second tuple of extents behind these; a read maps both, a write the parallel ones alone, and each
      result names the monoid (sum, max, ...) that combines what the body yields along the reduced extents.
    * Row and tile buffers: a Buffer that belongs to the group instead of the caller. A softmax is a list of three
      nests that share their outer extents and hand a row to one another.
    * Contractions: a reduction whose body is a product; the schedule, not the nest, decides on packing and tiles.
    * Padding: a predicate beside an Access, under which the operand is a constant.
    * Gather: an Access whose offset adds an operand of integer type, checked against the buffer's bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jit.ir.dtypes import DType, from_numpy
from jit.ir.errors import CompileError
from jit.ir.geometry import Geometry, broadcast_shapes


@dataclass(frozen=True)
class Buffer:
    """An array that the caller passes: the kernel takes arrays of exactly this layout."""

    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, as everywhere here; they may be zero or negative."""

    @staticmethod
    def like(array: np.ndarray[Any, Any]) -> Buffer:
        """The layout of `array`; CompileError if its strides are no multiple of its itemsize (a record's field)."""
        strides = array.strides
        if any(s % array.itemsize for s in strides):
            raise CompileError(f"byte strides {strides} are no multiples of {array.itemsize}: pass a copy of the array")
        return Buffer(from_numpy(array.dtype), array.shape, tuple(s // array.itemsize for s in strides))


@dataclass(frozen=True)
class Access:
    """The affine map of one operand: at point (i0, i1, ...) element `offset + sum(i * stride)` of a buffer.

    Stride 0 is a broadcast; chunk, narrow, select, transpose and expand are nothing but other strides and offsets.
    """

    buffer: int
    """Index into the nest's inputs for a read, into its outputs for a write."""
    strides: tuple[int, ...]
    """One per extent."""
    offset: int = 0
    """From the first element of the buffer, index (0, 0, ...)."""


@dataclass(frozen=True)
class Nest:
    """One loop nest over `extents`, in which all points are independent.

    `body(m, *operands)` is called with a math namespace and one operand per read, and returns one result per write
    (a lone result needs no tuple), each of the written buffer's dtype. Every access is checked to stay inside its
    buffer, so that no nest can touch memory that it was not given.

    An output may share memory with an input only if they are read and written through the same map.
    """

    extents: tuple[int, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    body: Callable[..., Any]
    name: str = "kernel"
    """A readable name for the function; letters, digits and underscores."""
    comments: tuple[str, ...] = ()
    """The user's lines that this kernel computes; they open its LLVM IR."""

    def __post_init__(self) -> None:
        for access in self.reads:
            self._check(access, self.inputs, "read")
        for access in self.writes:
            self._check(access, self.outputs, "write")
            repeated = any(s == 0 and n > 1 for s, n in zip(access.strides, self.extents, strict=True))
            if repeated and 0 not in self.extents:
                raise CompileError(f"{self.name}: a write with stride 0 would store several results in one element")

    def _check(self, access: Access, buffers: tuple[Buffer, ...], verb: str) -> None:
        if len(access.strides) != len(self.extents):
            raise CompileError(f"{self.name}: {len(access.strides)} strides in a {verb} for {len(self.extents)} loops")
        if not 0 <= access.buffer < len(buffers):
            raise CompileError(f"{self.name}: a {verb} names buffer {access.buffer} of {len(buffers)}")
        touched = Geometry(self.extents, access.strides, access.offset)
        if touched.numel == 0:
            return
        buffer = buffers[access.buffer]
        whole = Geometry(buffer.sizes, buffer.strides)
        low, high = whole.extent() if whole.numel else (0, -1)
        first, last = touched.extent()
        if first < low or last > high:
            raise CompileError(f"{self.name}: a {verb} touches elements {first}..{last} of a buffer of {low}..{high}")


def pointwise_nest(
    body: Callable[..., Any],
    inputs: Sequence[np.ndarray[Any, Any]],
    outputs: Sequence[np.ndarray[Any, Any]],
    name: str = "kernel",
) -> Nest:
    """The nest that applies `body` to `inputs`, broadcast against one another as numpy does, and fills `outputs`.

    >>> x = np.arange(3.0)
    >>> pointwise_nest(lambda m, a, b: a + b, [x, x[:1]], [x]).reads[1]
    Access(buffer=1, strides=(0,), offset=0)
    """
    extents = broadcast_shapes(*(a.shape for a in inputs), outputs[0].shape)
    ins, outs = tuple(map(Buffer.like, inputs)), tuple(map(Buffer.like, outputs))
    reads = tuple(_broadcast(i, buffer, extents) for i, buffer in enumerate(ins))
    writes = tuple(Access(i, buffer.strides) for i, buffer in enumerate(outs))
    return Nest(extents, ins, outs, reads, writes, body, name)


def _broadcast(index: int, buffer: Buffer, extents: tuple[int, ...]) -> Access:
    return Access(index, Geometry(buffer.sizes, buffer.strides).expand(extents).strides)
