"""Sums of products of two tensors, as the matrix products, or products of elements, that they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jit.ir import dtypes
from jit.ir.sizes import only_if

if TYPE_CHECKING:
    from .protocols import Ops, Tensor

Labels = Sequence[str]


def contracted(F: Ops, equation: str, tensors: Sequence[Tensor]) -> Tensor | None:
    """An einsum of one or two operands by products and sums that kernels know; None for others.

    Labels that both operands and the result have are a batch, and those that the result lacks are summed up:

        ni,oi->no          a product of matrices               i,j->ij        a product of elements
        nij,oij->no        a product of longer matrices        nd,nd->n       a sum along rows
        bhid,bhjd->bhij    a product of batches of matrices    bij,bj->bi     the same, and no product of vectors
        ij,j->i            a product by one column             nij->nji       a copy in another order
    """
    terms, _, output = equation.partition("->")
    operands = list(zip(terms.split(","), tensors))
    if len(operands) == 1:
        return F.clone(_arranged(F, *operands[0], [*output]), memory_format="contiguous_format")
    if len(operands) > 2 or tensors[0].dtype not in (dtypes.float32, dtypes.float64) or not _fit(*operands):
        return None
    left, right = (labels for labels, _ in operands)
    inner = [label for label in left if label in right and label not in output]
    rows = [label for label in output if label not in right]
    columns = [label for label in output if label not in left]
    batch = [label for label in output if label in left and label in right]
    if not inner or not (rows or columns) or (batch and not (rows and columns)):
        return _by_elements(F, operands, output, inner)
    if rows and columns and output.index(columns[0]) < output.index(rows[0]):
        return _by_matrices(F, operands[::-1], output, (batch, columns, inner, rows))
    return _by_matrices(F, operands, output, (batch, rows, inner, columns))


def _fit(first: tuple[str, Tensor], second: tuple[str, Tensor]) -> bool:
    """Whether two operands have one dtype and, along each label that they share, one size: none is broadcast."""
    (left, a), (right, b) = first, second
    shared = [label for label in left if label in right]
    return a.dtype is b.dtype and only_if(
        lambda: all(a.shape[left.index(x)] == b.shape[right.index(x)] for x in shared)
    )


def _by_elements(F: Ops, operands: Sequence[tuple[str, Tensor]], output: str, inner: Labels) -> Tensor:
    """Products of elements, of which those along the last labels are summed up."""
    space = [*output, *inner]
    first, second = (_spread(F, labels, x, space) for labels, x in operands)
    product = first * second
    return F.sum(product, list(range(len(output), len(space)))) if inner else product


def _spread(F: Ops, labels: str, x: Tensor, space: Labels) -> Tensor:
    """`x` with a dim for each label of the space, of size 1 where it has none."""
    x = _arranged(F, labels, x, [label for label in space if label in labels])
    for dim, label in enumerate(space):
        x = x if label in labels else F.unsqueeze(x, dim)
    return x


def _by_matrices(
    F: Ops, operands: Sequence[tuple[str, Tensor]], output: str, groups: tuple[Labels, Labels, Labels, Labels]
) -> Tensor:
    """A product of matrices, or of batches of them: (batch, rows, inner) by (batch, inner, columns)."""
    batch, rows, inner, columns = groups
    (left, a), (right, b) = operands
    sizes = {label: size for labels, x in operands for label, size in zip(labels, x.shape)}
    lead = [batch] if batch else []
    first = _folded(F, _arranged(F, left, a, [*batch, *rows, *inner]), [*lead, rows, inner], sizes)
    second = _folded(F, _arranged(F, right, b, [*batch, *inner, *columns]), [*lead, inner, columns], sizes)
    made = F.bmm(first, second) if batch else F.mm(first, second)
    labels = [*batch, *rows, *columns]
    made = _folded(F, made, labels, sizes)
    return made if labels == [*output] else F.contiguous(_arranged(F, "".join(labels), made, [*output]))


def _arranged(F: Ops, labels: str, x: Tensor, order: Labels) -> Tensor:
    """`x` with its dims in another order."""
    dims = [labels.index(label) for label in order]
    return x if dims == sorted(dims) else F.permute(x, dims)


def _folded(F: Ops, x: Tensor, groups: Sequence[Labels], sizes: dict[str, int]) -> Tensor:
    """`x` with one dim for each group of labels."""
    return x if _is_single(groups) and len(groups) == x.ndim else F.reshape(x, [_size(g, sizes) for g in groups])


def _is_single(groups: Sequence[Labels]) -> bool:
    return all(len(group) == 1 for group in groups)


def _size(group: Labels, sizes: dict[str, int]) -> int:
    return math.prod(sizes[label] for label in group)
