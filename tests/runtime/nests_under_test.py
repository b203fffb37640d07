"""Five nests that show what a nest can say: softmax, an LSTM cell, an embedding, a running sum, a matrix product."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jit.ir.dtypes import float32, from_numpy
from jit.ir.geometry import Geometry
from jit.runtime.kernels.nest import (
    Access,
    Buffer,
    Index,
    Keep,
    Local,
    Nest,
    NestScan,
    NestStep,
    Position,
    Reduce,
    Result,
    one_step,
)

Array = np.ndarray[Any, Any]


def rows(array: Array, dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Extents and strides of an array whose dims `dims` are moved to the end, and how many those are."""
    order = [d for d in range(array.ndim) if d not in dims] + sorted(dims)
    strides = Buffer.like(array).strides
    return tuple(array.shape[d] for d in order), tuple(strides[d] for d in order), len(dims)


def softmax(x: Array, out: Array, dim: int) -> Nest:
    """Three steps over a row: its maximum, exp and their sum, the quotients."""
    extents, strides, reduced = rows(x, (dim,))
    _, written, _ = rows(out, (dim,))
    dtype = from_numpy(x.dtype)
    read, write = Access(0, strides), Access(0, written)

    def powers(m: Any, x: Any, top: Any) -> Any:
        e = m.exp(x - top)
        return e, e

    steps = (
        NestStep((read,), (Reduce("max", (0,), dtype),), lambda m, x: x),
        NestStep((read, Local(0)), (Keep(1, dtype), Reduce("sum", (2,), dtype)), powers),
        NestStep((Local(1), Local(2)), (write,), lambda m, e, total: e / total),
    )
    return Nest(extents, (Buffer.like(x),), (Buffer.like(out),), steps, reduced, "softmax", cost=20)


def reduction(
    monoid: str, x: Array, out: Array, dims: tuple[int, ...], body: Callable[..., Any] | None = None, cost: int = 1
) -> Nest:
    """One step that reduces and one that stores, once for each row; `argmax` stores the position in the row."""
    extents, strides, reduced = rows(x, dims)
    dtype, result = from_numpy(x.dtype), from_numpy(out.dtype)
    kept = Access(0, (*Buffer.like(out).strides, *(0,) * reduced))
    arg = monoid.startswith("arg")
    position = Position((*(0,) * (len(extents) - reduced), *Geometry.contiguous(extents[-reduced:]).strides))
    locals = (0, 1) if arg else (0,)
    steps = (
        NestStep(
            (Access(0, strides), position) if arg else (Access(0, strides),),
            (Reduce(monoid, locals, dtype if arg or body is None else result),),
            body or ((lambda m, a, i: (a, i)) if arg else (lambda m, a: a)),
        ),
        NestStep((Local(locals[-1]),), (kept,), lambda m, a: m.cast(a, result), inner=False),
    )
    return Nest(extents, (Buffer.like(x),), (Buffer.like(out),), steps, reduced, monoid, cost=cost)


def running(x: Array, out: Array, dim: int, monoid: str = "sum") -> Nest:
    """cumsum: a scan along one dim."""
    extents, strides, reduced = rows(x, (dim,))
    _, written, _ = rows(out, (dim,))
    reads = (Access(0, strides), NestScan(monoid, from_numpy(x.dtype)))
    steps = (NestStep(reads, (Access(0, written),), lambda m, x, running: running(x)),)
    return Nest(extents, (Buffer.like(x),), (Buffer.like(out),), steps, reduced, "cumsum")


def lstm_cell(gates: Array, cell: Array, new_hidden: Array, new_cell: Array) -> Nest:
    """The pointwise part: four chunks of one buffer, two results."""
    batch, hidden = cell.shape
    wide = Buffer.like(gates).strides

    def body(m: Any, *operands: Any) -> Any:
        i, f, g, o, c = operands
        c = m.sigmoid(f) * c + m.sigmoid(i) * m.tanh(g)
        return m.sigmoid(o) * m.tanh(c), c

    chunks = tuple(Access(0, wide, k * hidden * wide[1]) for k in range(4))
    reads = (*chunks, Access(1, Buffer.like(cell).strides))
    outs = (new_hidden, new_cell)
    writes = tuple(Access(i, Buffer.like(a).strides) for i, a in enumerate(outs))
    inputs = (Buffer.like(gates), Buffer.like(cell))
    step = NestStep(reads, writes, body)
    return Nest((batch, hidden), inputs, tuple(map(Buffer.like, outs)), (step,), name="lstm_cell", cost=130)


def embedding(weight: Array, indices: Array, out: Array) -> Nest:
    """A gather: the row of the weight is read from memory."""
    extents = (*indices.shape, weight.shape[1])
    row, column = Buffer.like(weight).strides
    index = Index(Access(1, (*Buffer.like(indices).strides, 0)), row, weight.shape[0])
    read = Access(0, (*(0,) * indices.ndim, column), gather=(index,))
    inputs = (Buffer.like(weight), Buffer.like(indices))
    write = Access(0, Buffer.like(out).strides)
    return one_step(extents, inputs, (Buffer.like(out),), (read,), (write,), lambda m, w: w, "embedding")


def product(a: Array, b: Array, bias: Array | None, out: Array, activation: Callable[..., Any]) -> Nest:
    """activation(a @ b + bias), batched over the dims in front: a contraction and its epilogue."""
    batch, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-1]
    (*outer_a, a_m, a_k), (*outer_b, b_k, b_n) = Buffer.like(a).strides, Buffer.like(b).strides
    dtype = from_numpy(out.dtype)
    reads = (Access(0, (*outer_a, a_m, 0, a_k)), Access(1, (*outer_b, 0, b_n, b_k)))
    inputs = [Buffer.like(a), Buffer.like(b)]
    write: Result = Access(0, (*Buffer.like(out).strides, 0))
    first = NestStep(reads, (Reduce("dot", (0,), dtype),), lambda m, x, y: (x, y))
    operands: tuple[Any, ...] = (Local(0),)
    if bias is not None:
        inputs.append(Buffer.like(bias))
        operands += (Access(2, (*(0,) * len(batch), 0, Buffer.like(bias).strides[0], 0)),)
    second = NestStep(operands, (write,), activation, inner=False)
    return Nest((*batch, m, n, k), tuple(inputs), (Buffer.like(out),), (first, second), 1, "product")


def error_bound(x: Array, dims: tuple[int, ...]) -> Array:
    """The largest error of a sum of float32 terms: see Note [The tree of a sum]; 260 + n / 4096 eps of sum |x|."""
    terms = math.prod(x.shape[d] for d in dims)
    wide = np.abs(x.astype(np.float64)).sum(axis=dims)
    return np.asarray(wide * float(np.finfo(float32.numpy).eps) * min(terms, 260 + terms / 4096))
