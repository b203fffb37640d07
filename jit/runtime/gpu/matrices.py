"""Nests of matrix products, as `gpu.contraction` wants them: one step that sums up products, and what follows it.

Note [Where 16-bit products are rounded]
    16-bit factors are widened, sums are float32, and the result is rounded once, where the operator ends: before the
    operators behind it compute with it. So a kernel of a product and what follows it has the roundings of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jit.ir.dtypes import float32

from ..kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce


@dataclass(frozen=True)
class ProductMaps:
    """The loops of a product, and the maps of its factors, its result and what else its elements are made of."""

    extents: tuple[int, ...]
    reduced: int
    left: Access
    right: Access
    result: Access
    others: tuple[Access, ...] = ()


def product_nest(
    name: str, maps: ProductMaps, inputs: Sequence[Buffer], out: Buffer, finish: Callable[..., Any] | None = None
) -> Nest:
    """The nest of a product.

    Args:
        name: The kernel's name.
        maps: Its loops and maps.
        inputs: The buffers of the factors, then others.
        out: The buffer of the result.
        finish: `finish(m, total, *others)` is what is stored, but for the last rounding; the sum unless given.
    """
    dtype = inputs[maps.left.buffer].dtype
    total = float32 if dtype.is_half else dtype
    is_matrix = _moves_alone(maps.left, maps.right, maps) and _moves_alone(maps.right, maps.left, maps)

    def factors(m: Any, a: Any, b: Any) -> Any:
        return m.cast(a, total), m.cast(b, total)

    def terms(m: Any, a: Any, b: Any) -> Any:
        return m.cast(a, total) * m.cast(b, total)

    def finished(m: Any, total: Any, *others: Any) -> Any:
        return m.cast(total if finish is None else finish(m, total, *others), out.dtype)

    summed = Reduce("dot" if is_matrix else "sum", (0,), total)
    first = NestStep((maps.left, maps.right), (summed,), factors if is_matrix else terms)
    second = NestStep((Local(0), *maps.others), (maps.result,), finished, inner=False)
    return Nest(maps.extents, tuple(inputs), (out,), (first, second), maps.reduced, name)


def _moves_alone(access: Access, other: Access, maps: ProductMaps) -> bool:
    """Whether a factor moves along some loop of results along which the other stands still."""
    parallel = range(len(maps.extents) - maps.reduced)
    return any(maps.extents[n] > 1 and access.strides[n] and not other.strides[n] for n in parallel)


def of_matrices(a: Buffer, b: Buffer, out: Buffer) -> Nest:
    """out = a @ b, of two matrices or two batches of them."""
    return product_nest("product", _matrix_maps(a, b, out), (a, b), out)


def with_addend(addend: Buffer, a: Buffer, b: Buffer, out: Buffer, alpha: float, beta: float) -> Nest:
    """out = beta * addend + alpha * (a @ b); the addend is broadcast, and not read if beta is 0."""
    missing = len(out.sizes) - len(addend.sizes)
    sizes = (*(1,) * missing, *addend.sizes)
    strides = tuple(0 if n == 1 else s for n, s in zip(sizes, (*(0,) * missing, *addend.strides), strict=True))
    maps = _matrix_maps(a, b, out, first=1)
    if beta != 0:
        maps = replace(maps, others=(Access(0, (*strides, 0)),))

    def finish(m: Any, total: Any, *addend: Any) -> Any:
        total = total if alpha == 1 else total * alpha
        for value in addend:
            value = m.cast(value, total.dtype)
            total = total + (value if beta == 1 else value * beta)
        return total

    return product_nest("product_and_sum", maps, (addend, a, b), out, finish)


def _matrix_maps(a: Buffer, b: Buffer, out: Buffer, first: int = 0) -> ProductMaps:
    """The loops: the batch, rows, columns, terms; the factors are buffers `first` and that behind it."""
    (*batch_a, row, down), (*batch_b, up, column) = a.strides, b.strides
    extents = (*out.sizes, a.sizes[-1])
    left, right = Access(first, (*batch_a, row, 0, down)), Access(first + 1, (*batch_b, 0, column, up))
    return ProductMaps(extents, 1, left, right, Access(0, (*out.strides, 0)))
