"""Small rewrites of ONNX nodes after conversion: transposes composed, nodes without effect or users removed.

1. Transpose(Transpose(x, p), q)  ->  Transpose(x, p after q)
2. Transpose(x, identity)         ->  x
3. Identity(x)                    ->  x
4. Gemm(Transpose(a), b)          ->  Gemm[transA=1](a, b), and so for b
5. a node whose outputs are not used is removed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir

Values = list["onnx_ir.Value"]


def simplify(nodes: list[onnx_ir.Node], outputs: Values, inner: bool = False) -> list[onnx_ir.Node]:
    """The nodes that are left; `outputs` is changed where a removed node gave one of them.

    Args:
        nodes: All nodes, in order.
        outputs: What they give.
        inner: Whether they are a sub-graph, which has to make its outputs itself: nodes that do so stay.
    """
    for node in nodes:
        if node.domain:
            continue
        if node.op_type == "Transpose":
            _compose(node)
        if node.op_type == "Gemm":
            _absorb(node, 0, "transA")
            _absorb(node, 1, "transB")
        if _does_nothing(node) and not (inner and node.outputs[0] in outputs):
            _bypass(node, outputs)
    return _used(nodes, outputs)


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


def _used(nodes: list[onnx_ir.Node], outputs: Values) -> list[onnx_ir.Node]:
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


def _order(node: onnx_ir.Node) -> list[int] | None:
    """The `perm` of a Transpose; None where it is left to its default."""
    given = node.attributes.get("perm")
    return None if given is None else list(given.as_ints())
