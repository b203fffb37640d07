"""Rewrites nodes whose form is awkward for kernels and for BLAS into forms that suit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jit.ir import Graph, Node, TensorType, Value, find
from jit.ir.dtypes import bool_, float32, float64, int32
from jit.ir.sizes import any_symbolic

from .support.analysis import fixed_shapes, with_subgraphs
from .support.builder import GraphBuilder
from .support.made_up import made_up_for_each
from .support.spaces import argument, arguments

_TURNED = {"aten::t": [(1, 0)], "aten::permute": [(1, 0)], "aten::transpose.int": [(1, 0), (0, 1)]}
"""The operators that may transpose a matrix, each with the dims, or the permutation, by which it does."""
_POOLS = {"aten::adaptive_avg_pool2d": 2, "aten::adaptive_avg_pool3d": 3}
_WAYS_BACK = {"aten::_adaptive_avg_pool2d_backward": 2, "aten::_adaptive_avg_pool3d_backward": 3}
"""The backwards of those pools. Like theirs, their numbers are the numbers of spatial dims."""
_TRIANGLES = {"aten::tril": "le", "aten::triu": "ge"}
"""The comparison of column with row that holds for the elements that stay."""
_NORM = "aten::native_batch_norm"
_NORMS = {_NORM: "training", f"{_NORM}_backward": "train"}
"""Batch norms and their gradients, with the argument that says whether statistics are the batch's."""
_FARTHEST = 2**62
"""Diagonals so far away are left to the operator: int64 might not hold the sum of one and a size."""


def straighten(graph: Graph) -> bool:
    """Rewrite nodes in six cases; says whether there were any.

    1.  The transpose of a product that nobody else uses is the product of the transposes, for those who only read it.
        BLAS takes transposed operands as they are, while whoever reads a transposed result goes through memory in
        steps. The gradient of a weight that was transposed before its product is of that form:

            %1 : Float(784, 512) = aten::mm(%x, %g)           %1 : Float(512, 64, ...) = aten::t(%g)
            %2 : Float(512, 784, ...) = aten::t(%1)           %2 : Float(784, 64) = aten::t(%x)
                                                              %3 : Float(512, 784) = aten::mm(%1, %2)

        What is transposed and back again is what it was, however the two are spelled.

    2.  `sum_to_size`, with which gradients undo broadcasting, is written as a sum over named dims, which fuses.

    3.  A pool that averages whole images is a mean, and its gradient a product with each element's share; both fuse:

            %1 : Float(8, 16, 1, 1) = aten::adaptive_avg_pool2d[output_size=[1, 1]](%x)
            %1 : Float(8, 16, 1, 1) = aten::mean[dim=[-2, -1], keepdim=True](%x)

    4.  A triangle of a matrix is chosen by the positions of its elements, as the mask of attention is:

            %1 : Float(8, 8) = aten::tril(%x)                 %1 : Bool(8, 8) = aten::le(%columns, %rows)
                                                              %2 : Float(8, 8) = aten::where.self(%1, %x, 0)

    5.  A batch norm by fixed statistics hands no statistics of the batch, which are empty, to its gradient: neither
        could be a kernel with them.

    6.  What follows from positions alone is made up for each kernel that reads it, see Note [Made up again].
    """
    changes = [_straighten(inner) for inner in with_subgraphs(graph)]
    return any(changes)


def _straighten(graph: Graph) -> bool:
    sums = [node for node in graph.nodes if node.kind == "aten::sum_to_size"]
    pools = [node for node in graph.nodes if node.kind in _POOLS]
    triangles = [node for node in graph.nodes if node.kind in _TRIANGLES]
    ways_back = [node for node in graph.nodes if node.kind in _WAYS_BACK]
    norms = [node for node in graph.nodes if _has_fixed_statistics(node)]
    fixed = fixed_shapes(graph) if sums or ways_back or triangles else set()
    changes = [_rewritten(node, _name_dims) for node in sums if node.inputs[0] in fixed]
    changes += [_rewritten(node, _average_images) for node in pools]
    changes += [_rewritten(node, _spread_averages) for node in ways_back if {*node.inputs} <= fixed]
    changes += [_rewritten(node, _choose_by_position) for node in triangles if node.inputs[0] in fixed]
    changes += [_rewritten(node, _leave_out_statistics) for node in reversed(norms)]
    changes += [_rewritten(node, _turn_operands) for node in list(graph.nodes) if is_turn(node)]
    return any([*changes, made_up_for_each(graph)])


def _rewritten(node: Node, rule: Callable[[Node, GraphBuilder], bool]) -> bool:
    assert node.graph is not None
    with node.graph.inserting_before(node):
        return rule(node, GraphBuilder(node.graph, node.stage))


def is_turn(node: Node) -> bool:
    """Whether the node transposes a matrix of known sizes."""
    if node.kind not in ("aten::t", "aten::permute", "aten::transpose.int") or not _is_matrix(node.inputs[0]):
        return False
    dims = node.attribute("dims") or (node.attribute("dim1", 1), node.attribute("dim0", 0))
    return all(type(dim) is int for dim in dims) and (dims[0] % 2, dims[1] % 2) in _TURNED[node.kind]


# -- case 1 ------------------------------------------------------------------------------------------------------


def _turn_operands(node: Node, F: GraphBuilder) -> bool:
    product = node.inputs[0].node
    if is_turn(product) and product.inputs[0].type == node.output.type:
        node.replace_with([product.inputs[0]])
        return True
    if product.kind != "aten::mm" or product.stage != node.stage or len(product.output.uses) != 1:
        return False
    if not all(map(_is_matrix, product.inputs)) or not _is_matrix(node.output) or not _is_only_read(node.output):
        return False
    left, right = product.inputs
    _replace(node, F.mm(_turned(right, F), _turned(left, F)))
    product.erase()
    return True


def _is_only_read(value: Value) -> bool:
    """Whether nobody minds how a value lies: no view of it is taken, and it is not handed out."""
    ops = (find(use.node.kind) for use in value.uses)
    return all(op is not None and (op.kind == "pointwise" or op.name == "aten::mm") for op in ops)


def _turned(value: Value, F: GraphBuilder) -> Any:
    return F.wrap(value.node.inputs[0]) if is_turn(value.node) else F.t(F.wrap(value))


def _is_matrix(value: Value) -> bool:
    type = value.type
    return isinstance(type, TensorType) and type.sizes is not None and type.dtype is not None and len(type.sizes) == 2


def _replace(node: Node, proxy: Any) -> None:
    made = proxy.value.node
    made.source, made.scope = node.source, node.scope
    node.replace_with([proxy.value])


# -- case 2 ------------------------------------------------------------------------------------------------------


def _name_dims(node: Node, F: GraphBuilder) -> bool:
    source, size = node.inputs[0], node.attribute("size")
    assert isinstance(source.type, TensorType) and source.type.sizes is not None
    shape, dtype = source.type.sizes, source.type.dtype
    known = isinstance(size, tuple) and all(isinstance(n, int) for n in size)
    if not known or dtype not in (float32, float64) or node.output.type != TensorType(dtype, size):
        return False
    lead = len(shape) - len(size)
    inner = [lead + i for i, n in enumerate(size) if n == 1 and shape[lead + i] != 1]
    if not lead and not inner:
        return False
    total = F.sum(F.wrap(source), [*range(lead), *inner], not lead)
    _replace(node, F.view(total, list(size)) if lead and inner else total)
    return True


# -- case 3 ------------------------------------------------------------------------------------------------------


def _average_images(node: Node, F: GraphBuilder) -> bool:
    rank = _POOLS[node.kind]
    if tuple(node.attribute("output_size")) != (1,) * rank or not _is_float(node.inputs[0]):
        return False
    return _taken_over(node, F.mean(F.wrap(node.inputs[0]), [*range(-rank, 0)], True))


def _spread_averages(node: Node, F: GraphBuilder) -> bool:
    """Spread gradients of averages over the image; divided dim by dim, because the operator rounds like that."""
    rank, (grad, image) = _WAYS_BACK[node.kind], node.inputs
    assert isinstance(grad.type, TensorType) and isinstance(image.type, TensorType)
    shape = image.type.sizes
    if not _is_float(grad) or not grad.type.sizes or shape is None or grad.type.sizes[-rank:] != (1,) * rank:
        return False
    share = F.wrap(grad)
    for size in shape[-rank:-1]:
        share = F.mul(share, 1 / size)
    return _taken_over(node, F.mul(F.expand(share, list(shape)), 1 / shape[-1]))


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype in (float32, float64)


def _taken_over(node: Node, proxy: Any) -> bool:
    """Replace the node's result by another of the same type; False, with nothing done, if the types differ."""
    if proxy.value.type != node.output.type:
        return False
    _replace(node, proxy)
    return True


# -- case 4 ------------------------------------------------------------------------------------------------------


def _choose_by_position(node: Node, F: GraphBuilder) -> bool:
    source, diagonal = node.inputs[0], argument(node, "diagonal")
    assert isinstance(source.type, TensorType) and source.type.sizes is not None
    if type(diagonal) is not int or len(source.type.sizes) < 2 or source.type.device != "cpu":
        return False  # positions are constants, which lie on the CPU
    rows, columns = source.type.sizes[-2:]
    if any_symbolic((rows, columns)):
        return abs(diagonal) < _FARTHEST and _chosen(node, F.arange(0, columns), F.arange(diagonal, rows + diagonal), F)
    last = np.arange(rows, dtype=np.int32)[:, None] + min(max(diagonal, -rows), columns)
    return _chosen(node, _constant(np.arange(columns, dtype=np.int32), F), _constant(last, F), F)


def _chosen(node: Node, column: Any, last: Any, F: GraphBuilder) -> bool:
    """Choose elements by their columns and the last, or first, column of each row that stays."""
    source = node.inputs[0]
    assert isinstance(source.type, TensorType)
    mask = getattr(F, _TRIANGLES[node.kind])(column, last if last.ndim == 2 else F.unsqueeze(last, 1))
    if source.type.dtype is bool_:
        return _taken_over(node, F.logical_and(mask, F.wrap(source)))
    return _taken_over(node, F.where(mask, F.wrap(source), 0))


# -- case 5 ------------------------------------------------------------------------------------------------------


def _has_fixed_statistics(node: Node) -> bool:
    training = _NORMS.get(node.kind)
    return training is not None and argument(node, training) is False


def _leave_out_statistics(node: Node, F: GraphBuilder) -> bool:
    op, values = arguments(node)
    empty = [value for value in node.outputs[1:] if value.uses] if op.name == _NORM else []
    for value in empty:
        if not isinstance(value.type, TensorType) or value.type.dtype is None:
            return False
        value.replace_all_uses_with(F.zeros((0,), dtype=value.type.dtype, device=value.type.device).value)
    if op.name == _NORM or values[5] is values[6] is None:
        return bool(empty)
    values[5] = values[6] = None
    node.rewrite(*op.split(values))
    return True


def _constant(array: Any, F: GraphBuilder) -> Any:
    node = F.graph.add("prim::Constant", (), {"value": array}, [TensorType(int32, array.shape)])
    return F.wrap(node.output)
