"""Products of matrices and vectors: which steps they are, and whether BLAS computes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jit.ir import Node, Value, kernel_of
from jit.ir.sizes import estimating, only_if
from jit.passes.support.spaces import sizes_of

from ..kernels import recipes, split
from ..kernels.nest import Access, Buffer, Local, Nest, NestStep, Reduce
from ..plans.builder import StretchBuilder
from ..plans.copies import arguments_of, consecutive, copy_to, follows
from ..plans.places import Step, ValuePlace
from . import blas, by_lines, few_rows, matvec, packed
from .transposing import Transposing


def families(nodes: Sequence[Node]) -> dict[Value, deque[Node]]:
    """Products of matrices by their right operand."""
    found: dict[Value, deque[Node]] = {}
    for node in nodes:
        if _is_of_matrices(node):
            found.setdefault(node.inputs[1], deque()).append(node)
    return found


def _is_of_matrices(node: Node) -> bool:
    """Whether a node is the product of two matrices: no batch, no vector, no addend."""
    return kernel_of(node.kind).step == "product" and all(len(sizes_of(value)) == 2 for value in node.inputs)


def is_product(node: Node) -> bool:
    """Whether there is code for a product: of one dtype that BLAS has, with numbers for alpha and beta."""
    found = {v.type.dtype for v in (*node.inputs, *node.outputs)}
    numbers = (a for name, a in arguments_of(node).items() if name in ("alpha", "beta"))
    return len(found) == 1 and found <= set(blas.LETTER) and all(type(n) in (int, float) for n in numbers)


def lower_product(lowering: StretchBuilder, node: Node) -> None:
    """Lower mm, bmm, mv and dot as products of batches of matrices."""
    a, b = (lowering.of(v) for v in node.inputs)
    family = _family(lowering, node, a)
    if len(family) > 1:
        rows = sum(place.geometry.sizes[0] for place in family.values())
        result = lowering.temporary(a.dtype, (rows, b.geometry.sizes[1]))
        whole = consecutive(list(family.values()))
        assert whole is not None
        a = whole
        lowering.together(list(family), result)
    else:
        result = lowering.make(node.output)
    _multiply(lowering, node, _batch(a, 0), _batch(b, 1), result, 1.0, 0.0)


def lower_dot(lowering: StretchBuilder, node: Node) -> None:
    """Lower a dot product; long vectors are multiplied by a nest, since BLAS would use one thread."""
    a, b = (lowering.of(v) for v in node.inputs)
    (length,) = a.geometry.sizes
    if length <= split.BLOCK_POINTS:
        lower_product(lowering, node)
        return
    result = lowering.make(node.output)
    ins, outs = (tuple(map(Buffer.like, (p.layout for p in places))) for places in ((a, b), (result,)))  # type: ignore[arg-type]
    reads = tuple(Access(number, buffer.strides) for number, buffer in enumerate(ins))
    steps = (
        NestStep(reads, (Reduce("sum", (0,), result.dtype),), recipes.named(lambda m, x, y: x * y, "dot")),
        NestStep((Local(0),), (Access(0, (0,)),), recipes.named(lambda m, total: total, "dot's sum"), inner=False),
    )
    lowering.several(node, split.split(Nest((length,), ins, outs, steps, 1, "dot")), [a, b, result])


def _family(lowering: StretchBuilder, node: Node, a: ValuePlace) -> dict[Node, ValuePlace]:
    """Products with the same right operand whose left ones are rows that follow those of `node`, which is the first.

    Note [Products that are one]
        A recurrent network multiplies each step of its input by the same matrix. Nothing but the loop keeps these
        products apart, so they become one, which reads the matrix once:

            %1 : Float(16, 1024) = aten::mm(%x0, %w)        x0, x1, ... being consecutive rows of one x:
            ...                                             a product of (1600, 256) by %w, in front of the loop
            %9 : Float(16, 1024) = aten::mm(%x1, %w)

        Products of many rows are left alone: reading the matrix counts little in them, and joining them would take the
        memory of their results early.
    """
    found = {node: a}
    if not _is_of_matrices(node):
        return found
    waiting = lowering.families[node.inputs[1]]
    waiting.popleft()
    rows, columns, last = a.geometry.sizes[0], node.output.type.sizes[1], a  # type: ignore[attr-defined]
    if not _is_short(rows) or not a.geometry.is_contiguous or not lowering.is_free_to_move(node.output):
        return found
    with estimating():
        most = int(max(_TOGETHER // (max(rows * columns, 1) * a.dtype.itemsize), 1))
    while waiting and len(found) < most:
        after = lowering.soon(waiting[0].inputs[0])
        if after is None or not after.geometry.is_contiguous or not follows(after, last):
            break
        if not lowering.is_free_to_move(waiting[0].output):
            break
        found[waiting.popleft()] = last = after
    return found


@estimating()
def _is_short(rows: int) -> bool:
    """Whether a product is better joined with others by the same matrix."""
    return rows <= _SHORT


_SHORT = 128
"""Rows up to which a product is joined with others by the same matrix."""
_TOGETHER = 1 << 21
"""The most bytes of results that are computed ahead of their turn."""


def _batch(place: ValuePlace, side: int) -> ValuePlace:
    """A matrix or vector as a batch of matrices: a vector is a row on the left and a column on the right."""
    geometry = place.geometry
    if geometry.ndim == 1:
        geometry = geometry.insert(side, 1, 0)
    if geometry.ndim == 2:
        geometry = geometry.insert(0, 1, 0)
    return ValuePlace(place.block, place.dtype, geometry)


def lower_addmm(lowering: StretchBuilder, node: Node) -> None:
    """Lower addmm and baddbmm: the addend is copied to the result, to which the product is added."""
    arguments = arguments_of(node)
    addend, a, b = (lowering.of(v) for v in node.inputs)
    result = lowering.make(node.output)
    alpha, beta = float(arguments["alpha"]), float(arguments["beta"])
    if beta != 0.0:
        copy_to(lowering, node, addend, result)
    _multiply(lowering, node, _batch(a, 0), _batch(b, 1), result, alpha, beta)


def _multiply(
    lowering: StretchBuilder, node: Node, a: ValuePlace, b: ValuePlace, result: ValuePlace, alpha: float, beta: float
) -> None:
    """result = alpha a b + beta result, over a batch."""
    if _multiply_vectors(lowering, node, a, b, result, alpha, beta):
        return
    if (alpha, beta) == (1.0, 0.0) and _multiply_packed(lowering, node, a, b, result):
        return
    _multiply_by_blas(lowering, node, a, b, result, alpha, beta)


def _multiply_vectors(
    lowering: StretchBuilder, node: Node, a: ValuePlace, b: ValuePlace, result: ValuePlace, alpha: float, beta: float
) -> bool:
    """Compute a product of which an operand has one row or column, or one matrix that of a few rows."""
    (batch, rows, inner), columns = a.geometry.sizes, b.geometry.sizes[2]
    one_column = type(columns) is int and columns == 1
    alone = rows == 1 or (batch == 1 and not one_column and _has_few_rows(lowering, node, rows, b))
    if inner == 0 or not (alone or columns == 1):
        return False
    (far, down, along), (beside, below, _) = a.geometry.strides, b.geometry.strides
    rest: dict[str, Any] = {"batch": batch}
    if alone and (along > 0 or inner == 1):
        b = _straight(lowering, node, b)
        right = blas.as_matrix(b.geometry.sizes[1:], b.geometry.strides[1:])
        assert right is not None
        rest |= {"rows": rows, "between": (down, columns), "steps": (b.geometry.strides[0], far, rows * columns)}
        product = by_lines.by_rows(result.dtype, right, (inner, columns), max(along, 1), **rest)
    elif columns == 1 and (below > 0 or inner == 1):
        a = _straight(lowering, node, a)
        left = blas.as_matrix(a.geometry.sizes[1:], a.geometry.strides[1:])
        assert left is not None
        rest["steps"] = (a.geometry.strides[0], beside, rows)
        product = by_lines.by_column(result.dtype, left, (rows, inner), max(below, 1), **rest)
    else:
        return False
    is_ours = (alpha, beta) == (1.0, 0.0) and by_lines.supports(product)
    if not is_ours and not only_if(lambda: product.rows <= by_lines.SINGLE_ROWS):
        return False
    work = product if is_ours else matvec.by_blas(product, alpha, beta)
    lowering.step(Step(work, [a, b, result], 1, node))
    return True


def _has_few_rows(lowering: StretchBuilder, node: Node, rows: int, b: ValuePlace) -> bool:
    """Whether a left operand has so few rows that the right one is better read as it lies than packed."""
    if only_if(lambda: rows <= by_lines.SINGLE_ROWS):
        return True
    if type(rows) is not int or rows > by_lines.most_rows():
        return False
    shared = (b.block, b.geometry) in lowering.packed or bool(_sharing(lowering, node))
    return not shared and blas.as_matrix(b.geometry.sizes[1:], b.geometry.strides[1:]) is not None


def _sharing(lowering: StretchBuilder, node: Node) -> Sequence[Node]:
    """The products that have the right operand of `node`, too, and are still to be lowered."""
    return lowering.families[node.inputs[1]] if _is_of_matrices(node) else ()


def _multiply_by_blas(
    lowering: StretchBuilder, node: Node, a: ValuePlace, b: ValuePlace, result: ValuePlace, alpha: float, beta: float
) -> None:
    a, b = _straight(lowering, node, a), _straight(lowering, node, b)
    (batch, rows, inner), columns = a.geometry.sizes, b.geometry.sizes[2]
    left, right = (blas.as_matrix(p.geometry.sizes[1:], p.geometry.strides[1:]) for p in (a, b))
    assert left is not None and right is not None
    steps = (a.geometry.strides[0], b.geometry.strides[0], rows * columns)
    product = blas.BlasProduct(result.dtype, (rows, columns, inner), left, right, alpha, beta, batch, steps)
    lowering.step(Step(product, [a, b, result], 1, node))


def _multiply_packed(lowering: StretchBuilder, node: Node, a: ValuePlace, b: ValuePlace, result: ValuePlace) -> bool:
    """Compute a product without BLAS if there is code for it; a right operand of many short products is packed once."""
    batch, rows, inner = a.geometry.sizes
    work = _packed(a, b, result)
    few = _few_rows(lowering, node, a, b, result)
    if few is not None and (few_rows.fills_vectors(few.dtype, rows) or not packed.supports(work)):
        lowering.step_of_product(Step(few, [a, b, result], 1, node))
        return True
    if not packed.supports(work) and packed.supports_copied(work):
        a = _transposed(lowering, node, a)
        work = _packed(a, b, result)
    if not packed.supports(work):
        if 0 in (batch, *work.sizes) or not packed.supports_tiles(work):
            return False
        step = Step(work, [a, b, result], 1, node)
        lowering.step_of_product(step, lambda: _multiply_by_blas(lowering, node, a, b, result, 1.0, 0.0))
        return True
    key = b.block, b.geometry
    if key not in lowering.packed and _sharing(lowering, node) and _is_short(rows):
        size = work.panels * packed.panel_columns(work.dtype) * inner
        lowering.packed[key] = lowering.temporary(work.dtype, (size,))
        lowering.step(Step(replace(work, multiplies=False), [b, lowering.packed[key]], 1, node))
    if key in lowering.packed:
        b, work = lowering.packed[key], replace(work, packed=True)
    lowering.step_of_product(Step(work, [a, b, result], 1, node))
    return True


def _few_rows(
    lowering: StretchBuilder, node: Node, a: ValuePlace, b: ValuePlace, result: ValuePlace
) -> few_rows.FewRowsProduct | None:
    """The product of a few rows by columns that lie together, unless other products share what is packed of these."""
    (batch, rows, inner), columns = a.geometry.sizes, b.geometry.sizes[2]
    (_, row, along), (_, below, column) = a.geometry.strides, b.geometry.strides
    shared = (b.block, b.geometry) in lowering.packed or (_is_of_matrices(node) and lowering.families[node.inputs[1]])
    sizes = rows, columns, inner
    if shared or (batch, along, below) != (1, 1, 1) or not few_rows.supports(result.dtype, sizes):
        return None
    return few_rows.FewRowsProduct(result.dtype, sizes, row, column)


def _transposed(lowering: StretchBuilder, node: Node, place: ValuePlace) -> ValuePlace:
    """A copy, row by row, of matrices whose columns lie together."""
    (batch, rows, columns), (after, _, step) = place.geometry.sizes, place.geometry.strides
    copy = lowering.temporary(place.dtype, place.geometry.sizes)
    lowering.step(Step(Transposing(place.dtype, (rows, columns), step, batch, after), [place, copy], 1, node))
    return copy


def _packed(a: ValuePlace, b: ValuePlace, result: ValuePlace) -> packed.PackedProduct:
    """The product of batches of matrices."""
    (batch, rows, inner), columns = a.geometry.sizes, b.geometry.sizes[2]
    (after, *left), (beside, *right) = a.geometry.strides, b.geometry.strides
    work = packed.PackedProduct(result.dtype, (rows, columns, inner), (left[0], left[1]), (right[0], right[1]))
    return replace(work, batch=batch, next=(after, beside))


def _straight(lowering: StretchBuilder, node: Node, place: ValuePlace) -> ValuePlace:
    """The operand, copied if BLAS cannot be told how it lies."""
    if blas.as_matrix(place.geometry.sizes[1:], place.geometry.strides[1:]) is not None:
        return place
    copy = lowering.temporary(place.dtype, place.geometry.sizes)
    copy_to(lowering, node, place, copy)
    return copy
