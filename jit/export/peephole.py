"""Small rewrites of ONNX nodes after conversion: pairs of nodes become one, those without effect or users are removed.

1. Transpose(Transpose(x, p), q)  ->  Transpose(x, p after q)
2. Transpose(x, identity)         ->  x
3. Identity(x)                    ->  x
4. Gemm(Transpose(a), b)          ->  Gemm[transA=1](a, b), and so for b
5. a node whose outputs are not used is removed
6. Reshape[sizes without the dims](Reduce[keepdims=1](x))  ->  Reduce[keepdims=0](x), and so for Squeeze; and
   Unsqueeze[the dims](Reduce[keepdims=0](x))  ->  Reduce[keepdims=1](x)
7. Reshape(Reshape(x))            ->  Reshape(x), and so behind Unsqueeze, Squeeze and Flatten
8. Unsqueeze(Unsqueeze(x))        ->  Unsqueeze(x)
9. Conv(Pad(x))                   ->  Conv[pads](x), where the padding is zeros
10. LSTM(x, ..., zeros)           ->  LSTM(x, ...), and so for GRU and RNN, which begin with zeros
11. ReduceSum(Mul(x, x))          ->  ReduceSumSquare(x), where nobody else needs the squares
12. Mul(x, Reciprocal(y))         ->  Div(x, y), where nobody else needs the reciprocal
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir

Values = list["onnx_ir.Value"]
Constant = Callable[[Any], "onnx_ir.Value"]
"""A maker of constants of an array."""


def simplify(
    nodes: list[onnx_ir.Node], outputs: Values, constant: Constant | None = None, opset: int = 0
) -> list[onnx_ir.Node]:
    """The nodes that are left; `outputs` is changed where a removed node gave one of them.

    Args:
        nodes: All nodes, in order.
        outputs: What they give.
        constant: The maker of constants; None for a sub-graph, which has to make its outputs itself: nodes that do so
            stay.
        opset: The version of the operators.
    """
    for node in nodes:
        if node.domain:
            continue
        if node.op_type == "Transpose":
            _compose(node)
        if node.op_type == "Gemm":
            _absorb(node, 0, "transA")
            _absorb(node, 1, "transB")
        if constant is not None:
            _join(node, outputs, constant, opset)
        if _does_nothing(node) and not (constant is None and node.outputs[0] in outputs):
            _bypass(node, outputs)
    return used_nodes(nodes, outputs)


def _join(node: onnx_ir.Node, outputs: Values, constant: Constant, opset: int) -> None:
    """Let one node do what several do."""
    if node.op_type in ("Reshape", "Squeeze", "Unsqueeze"):
        _reduce_at_once(node)
    if node.op_type == "Reshape":
        _reshape_at_once(node)
    if node.op_type == "Unsqueeze":
        _unsqueeze_at_once(node, constant)
    if node.op_type == "Conv":
        _pad_within(node, outputs)
    if node.op_type in ("LSTM", "GRU", "RNN"):
        _begin_with_zeros(node)
    if node.op_type == "ReduceSum":
        _sum_squares(node, outputs, opset)
    if node.op_type == "Mul":
        _divide(node, outputs)


def _compose(node: onnx_ir.Node) -> None:
    """Case 1. The order of the dims of Transpose(Transpose(x, p), q) is p[q[0]], p[q[1]], ..."""
    import onnx_ir

    before = _producer(node)
    if before is None or before.op_type != "Transpose" or before.domain:
        return
    first, second = _order(before), _order(node)
    if first is None or second is None:
        return
    node.attributes["perm"] = onnx_ir.AttrInt64s("perm", [first[dim] for dim in second])
    node.replace_input_with(0, before.inputs[0])


def _absorb(node: onnx_ir.Node, index: int, flag: str) -> None:
    """Case 4: Gemm transposes its matrices itself."""
    import onnx_ir

    before = _producer(node, index)
    if before is None or before.op_type != "Transpose" or before.domain or _order(before) not in (None, [1, 0]):
        return
    given = node.attributes.get(flag)
    node.attributes[flag] = onnx_ir.AttrInt64(flag, 0 if given is not None and given.as_int() else 1)
    node.replace_input_with(index, before.inputs[0])


# -- pairs that are one node -------------------------------------------------------------------------------------


def _reduce_at_once(node: onnx_ir.Node) -> None:
    """Case 6: the node becomes the reduction, without the dims that it would have dropped, or with those it made."""
    import onnx_ir

    before = _producer(node)
    if before is None or before.domain or not before.op_type.startswith("Reduce"):
        return
    given, axes = before.attributes.get("keepdims"), _axes(before)
    keeps = given is None or given.as_int() == 1
    if axes is None or keeps == (node.op_type == "Unsqueeze"):
        return
    if keeps and _drops(node, before.outputs[0], axes) or not keeps and _makes(node, axes):
        _become(node, before)
        node.attributes["keepdims"] = onnx_ir.AttrInt64("keepdims", int(not keeps))


def _makes(node: onnx_ir.Node, axes: list[int]) -> bool:
    """Whether an Unsqueeze makes the dims that a reduction has dropped."""
    dims, made = dims_of(node.outputs[0]), _axes(node)
    if dims is None or made is None:
        return False
    return {axis % len(dims) for axis in made} == {axis % len(dims) for axis in axes}


def _drops(node: onnx_ir.Node, x: onnx_ir.Value, axes: list[int]) -> bool:
    """Whether a Reshape or Squeeze of x drops some dims, of size 1, and does nothing else."""
    dims = dims_of(x)
    if dims is None:
        return False
    dropped = {axis % len(dims) for axis in axes}
    if node.op_type == "Squeeze":
        return (_axes(node) or []) != [] and {axis % len(dims) for axis in _axes(node) or ()} == dropped
    rest = [size for dim, size in enumerate(dims) if dim not in dropped]
    sizes = numbers_of(node, 1)
    if sizes is None or len(sizes) != len(rest) or "allowzero" in node.attributes or sizes.count(-1) > 1:
        return False
    wanted = [dims[at] if size == 0 and at < len(dims) else size for at, size in enumerate(sizes)]
    return all(size == -1 or size == other for size, other in zip(wanted, rest))


def _reshape_at_once(node: onnx_ir.Node) -> None:
    """Case 7: what the sizes of a tensor were before it is reshaped does not matter, if no size is taken from there."""
    before = _producer(node)
    if before is None or before.domain or before.op_type not in ("Reshape", "Unsqueeze", "Squeeze", "Flatten"):
        return
    sizes, source = numbers_of(node, 1), before.inputs[0]
    assert source is not None
    if sizes is None or "allowzero" in node.attributes:
        return
    old, new = dims_of(source), dims_of(before.outputs[0])
    taken = [at for at, size in enumerate(sizes) if size == 0]
    if not taken or (old is not None and new is not None and all(old[at : at + 1] == new[at : at + 1] for at in taken)):
        node.replace_input_with(0, source)


def _unsqueeze_at_once(node: onnx_ir.Node, constant: Constant) -> None:
    """Case 8: the inner dims of size 1 stand where the outer ones leave room."""
    before = _producer(node)
    if before is None or before.op_type != "Unsqueeze" or before.domain or "axes" in node.attributes:
        return
    inner, outer, dims = _axes(before), _axes(node), dims_of(node.outputs[0])
    if inner is None or outer is None or dims is None:
        return
    outer = [axis % len(dims) for axis in outer]
    free = [dim for dim in range(len(dims)) if dim not in outer]
    axes = sorted([*outer, *(free[axis % len(free)] for axis in inner)])
    node.replace_input_with(0, before.inputs[0])
    node.replace_input_with(1, constant(np.array(axes)))


def _pad_within(node: onnx_ir.Node, outputs: Values) -> None:
    """Case 9: a convolution pads with zeros itself."""
    import onnx_ir

    before = _producer(node)
    if before is None or before.op_type != "Pad" or before.domain or not _is_alone(before, outputs):
        return
    pads, dims = _zeros_beside(before), dims_of(before.outputs[0])
    if pads is None or dims is None or "auto_pad" in node.attributes:
        return
    given, rank = node.attributes.get("pads"), len(dims)
    own = list(given.as_ints()) if given is not None else [0] * (2 * (rank - 2))
    first, last = pads[:rank], pads[rank:]
    if any([*first[:2], *last[:2]]) or min(pads) < 0:
        return
    sums = [a + b for a, b in zip([*first[2:], *last[2:]], own)]
    node.attributes["pads"] = onnx_ir.AttrInt64s("pads", sums)
    node.replace_input_with(0, before.inputs[0])


def _zeros_beside(pad: onnx_ir.Node) -> list[int] | None:
    """The number of zeros that a Pad puts before and behind each dim; None if it does something else."""
    mode = pad.attributes.get("mode")
    if (mode is not None and mode.as_string() != "constant") or len(pad.inputs) > 3:
        return None
    if "pads" in pad.attributes:
        given = pad.attributes.get("value")
        return list(pad.attributes["pads"].as_ints()) if given is None or given.as_float() == 0 else None
    value = pad.inputs[2] if len(pad.inputs) > 2 else None
    is_zero = value is None or (value.const_value is not None and not np.any(value.const_value.numpy()))
    return numbers_of(pad, 1) if is_zero else None


def _begin_with_zeros(node: onnx_ir.Node) -> None:
    """Case 10."""
    states = node.inputs[5:7]
    if states and all(value is None or _is_zeros(value) for value in states) and len(node.inputs) < 8:
        node.resize_inputs(5)


_SAME_ELEMENTS = frozenset({
    "Concat", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators whose results have no other elements than their operands."""


def _is_zeros(value: onnx_ir.Value) -> bool:
    """Whether a tensor holds zeros alone, of whatever sizes."""
    if value.const_value is not None:
        return not np.any(value.const_value.numpy())
    node = value.producer()
    if node is None or node.domain or node.op_type not in _SAME_ELEMENTS:
        return False
    given = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return all(each is not None and _is_zeros(each) for each in given)


def _sum_squares(node: onnx_ir.Node, outputs: Values, opset: int) -> None:
    """Case 11, for the element types for which onnxruntime has a kernel."""
    before = _producer(node)
    if before is None or before.op_type != "Mul" or before.domain or before.inputs[0] is not before.inputs[1]:
        return
    dtype = None if before.outputs[0].dtype is None else before.outputs[0].dtype.name
    in_one_form = opset >= 18 or len(node.inputs) == 1  # in between, ReduceSum alone took its axes as an operand
    if in_one_form and _is_alone(before, outputs) and dtype in ("FLOAT", "DOUBLE"):
        node.op_type = "ReduceSumSquare"
        node.replace_input_with(0, before.inputs[0])


def _divide(node: onnx_ir.Node, outputs: Values) -> None:
    """Case 12."""
    for index in (1, 0):
        before = _producer(node, index)
        if before is not None and before.op_type == "Reciprocal" and not before.domain and _is_alone(before, outputs):
            dividend, divisor = node.inputs[1 - index], before.inputs[0]
            node.op_type = "Div"
            node.replace_input_with(0, dividend)
            node.replace_input_with(1, divisor)
            return


def _become(node: onnx_ir.Node, other: onnx_ir.Node) -> None:
    """Let a node compute what another one does."""
    node.op_type = other.op_type
    node.attributes.clear()
    node.attributes.update(other.attributes)
    node.resize_inputs(len(other.inputs))
    for index, value in enumerate(other.inputs):
        node.replace_input_with(index, value)


# -- what does nothing -------------------------------------------------------------------------------------------


def _does_nothing(node: onnx_ir.Node) -> bool:
    """Cases 2 and 3."""
    if node.op_type == "Transpose":
        order = _order(node)
        return order is not None and order == sorted(order)
    return node.op_type == "Identity"


def _bypass(node: onnx_ir.Node, outputs: Values) -> None:
    """Let the users of the node's output use its input."""
    source, output = node.inputs[0], node.outputs[0]
    assert source is not None
    for user, index in list(output.uses()):
        user.replace_input_with(index, source)
    outputs[:] = [source if value is output else value for value in outputs]


def used_nodes(nodes: list[onnx_ir.Node], outputs: Values) -> list[onnx_ir.Node]:
    """Case 5: without the nodes that lead nowhere."""
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if any(value in wanted or value.uses() for value in node.outputs):
            kept.append(node)
        else:
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
    return kept[::-1]


def _producer(node: onnx_ir.Node, index: int = 0) -> onnx_ir.Node | None:
    source = node.inputs[index]
    return None if source is None else source.producer()


def _is_alone(node: onnx_ir.Node, outputs: Values) -> bool:
    """Whether one other node alone uses what a node gives."""
    (output,) = node.outputs
    return len(output.uses()) == 1 and output not in outputs


def dims_of(value: onnx_ir.Value) -> list[Any] | None:
    """The sizes of a tensor: numbers and texts; unknown ones are like no other."""
    if value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value or object() for dim in value.shape]


def numbers_of(node: onnx_ir.Node, index: int) -> list[int] | None:
    """The numbers in a constant operand."""
    value = node.inputs[index] if index < len(node.inputs) else None
    known = None if value is None else value.const_value
    return None if known is None else [int(number) for number in known.numpy().reshape(-1)]


def _axes(node: onnx_ir.Node) -> list[int] | None:
    """The `axes` of a node, an attribute once and an operand now; None where they are left out, or not known."""
    given = node.attributes.get("axes")
    return numbers_of(node, 1) if given is None else list(given.as_ints())


def _order(node: onnx_ir.Node) -> list[int] | None:
    """The `perm` of a Transpose; None where it is left to its default."""
    given = node.attributes.get("perm")
    return None if given is None else list(given.as_ints())


__all__ = ["Constant", "Values", "dims_of", "numbers_of", "simplify", "used_nodes"]
