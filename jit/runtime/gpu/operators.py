"""Operators as nests of products: what a GPU's kernels of products can compute, and which of it pays.

Comes after `gpu.matrices` and `gpu.convolutions`, before `cuda.products`, which runs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jit.ir.dtypes import float32, float64
from jit.ir.op import Op
from jit.ir.types import TensorType, contiguous_strides

from ..kernels.nest import Buffer, Nest
from ..products.blas import as_matrix
from . import convolutions, matrices

FEW_TERMS = 256
"""Terms of float32 and float64 up to which a kernel with what follows is chosen over the library's product: of so few,
passing over the result once less is worth more than what the library multiplies faster. Unmeasured."""


def pays(op: Op, nest: Nest, followed: bool, has_cublas: bool) -> bool:
    """Whether a kernel of ours is chosen over the library's functions.

    1. A convolution: CuPy has none, and numpy's algorithms would lay out patches in memory.
    2. 16-bit floats where cuBLAS cannot be called by its address: CuPy's product of them would be one of float32
       copies, without tensor cores. cuBLAS itself is faster than our tiles, also if what follows takes a pass of its
       own. On an H200, float16: of 4096x1024x4096 48.7 us, ours 223 with a bias and relu; of 8192x64x1024, with few
       terms, 7.0 and a pass of about 7, ours 34.8.
    3. Something follows each element of float32 or float64, and the sums are short: a pass over the result is saved.
    4. A factor would have to be copied first, as neither its rows nor its columns lie side by side.

    Else it is cuBLAS's.

    Args:
        op: The operator.
        nest: What it computes.
        followed: Whether a group reads its result, and nobody else.
        has_cublas: Whether cuBLAS is called by its address, and not by CuPy.
    """
    is_half = nest.inputs[0].dtype.is_half
    if op.kernel.step.startswith("convolution") or (is_half and not has_cublas):
        return True
    if followed and not is_half and nest.row <= FEW_TERMS:
        return True
    return any(_is_copied(nest.inputs[read.buffer]) for read in nest.reads[:2])


def _is_copied(factor: Buffer) -> bool:
    """Whether cuBLAS cannot be told how matrices lie."""
    return as_matrix(factor.sizes[-2:], factor.strides[-2:]) is None


def nest_of(op: Op, values: Mapping[str, Any]) -> Nest | None:
    """The nest of an operator that is one product, its arrays given as buffers; None if it is none, or does not fit."""
    arrays = [value for value in values.values() if isinstance(value, Buffer)]
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) != 1 or any(0 in array.sizes for array in arrays) or not _has_products(*dtypes):
        return None
    if op.kernel.step == "product":
        return _product(*arrays)
    if op.kernel.step == "product and sum":
        return _product_and_sum(arrays, values["alpha"], values["beta"])
    return _convolution(values) if op.kernel.step == "convolution" and not values["transposed"] else None


def _has_products(dtype: Any) -> bool:
    return dtype.is_half or dtype in (float32, float64)


def is_factor(type: TensorType) -> bool:
    """Whether values of a type are matrices, or batches of them, of which there are products; none is empty."""
    sizes, dtype = type.sizes, type.dtype
    if sizes is None or dtype is None or not _has_products(dtype):
        return False
    return 2 <= len(sizes) <= 3 and not any(size.__class__ is int and size == 0 for size in sizes)


def row_major(like: Buffer, sizes: tuple[int, ...]) -> Buffer:
    """A fresh array."""
    return Buffer(like.dtype, sizes, contiguous_strides(sizes))


def _product(a: Buffer, b: Buffer) -> Nest | None:
    if len(a.sizes) != len(b.sizes) or not 2 <= len(a.sizes) <= 3:
        return None
    if a.sizes[-1] != b.sizes[-2] or a.sizes[:-2] != b.sizes[:-2]:
        return None
    return matrices.of_matrices(a, b, row_major(a, (*a.sizes[:-1], b.sizes[-1])))


def _product_and_sum(arrays: list[Buffer], alpha: Any, beta: Any) -> Nest | None:
    addend, a, b = arrays
    product = _product(a, b)
    if product is None or not {type(alpha), type(beta)} <= {int, float}:
        return None
    (out,) = product.outputs
    missing = len(out.sizes) - len(addend.sizes)
    if missing < 0 or any(n not in (1, size) for n, size in zip(addend.sizes, out.sizes[missing:], strict=True)):
        return None
    return matrices.with_addend(addend, a, b, out, alpha, beta)


def window_in(values: Mapping[str, Any], spatial: int) -> convolutions.SlidingWindow:
    """The window of a convolution's arguments; CompileError if there is none."""
    names = ("stride", "padding", "dilation", "groups")
    return convolutions.window_of(spatial, *(values[name] for name in names))


def _convolution(values: Mapping[str, Any]) -> Nest | None:
    x, weight, bias = values["input"], values["weight"], values["bias"]
    window = convolutions.window_of(
        len(x.sizes) - 2, values["stride"], values["padding"], values["dilation"], values["groups"]
    )
    if len(x.sizes) != len(weight.sizes) or x.sizes[1] != weight.sizes[1] * window.groups:
        return None
    if weight.sizes[0] % window.groups or (bias is not None and bias.sizes != weight.sizes[:1]):
        return None
    places = window.places(x.sizes[2:], weight.sizes[2:])
    if min(places) < 1:
        return None
    out = row_major(x, (x.sizes[0], weight.sizes[0], *places))
    return convolutions.forward(x, weight, bias, out, window)


def tiles_of(out: Buffer) -> int:
    """About the number of blocks that compute an array of the sizes of a weight."""
    return -(-out.sizes[0] // 64) * -(-math.prod(out.sizes[1:]) // 64)
