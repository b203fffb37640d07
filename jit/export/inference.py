"""The sizes of one node's output by onnx's shape inference, for symbolics that ask for the rank of their results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jit.ir.sizes import SizeExpr

from .dims import Dim
from .opsets import ELEMENT_TYPES, IR_VERSIONS

if TYPE_CHECKING:
    import onnx_ir

    from .builder import OnnxBuilder


def infer_dims(g: OnnxBuilder, node: onnx_ir.Node, output: onnx_ir.Value) -> tuple[Dim, ...] | None:
    """The dims of `output`, one of `node`'s; None where even the rank is not known.

    Args:
        g: The builder of the model.
        node: The node.
        output: The output.
    """
    import onnx
    from onnx.shape_inference import InferenceError, infer_node_outputs

    if node.domain:
        return None
    if node.op_type in ("Expand", "Reshape", "ConstantOfShape"):
        return _shaped(g, node)
    types, data = _known(g, node)
    proto = _as_proto(node)
    opsets = [onnx.helper.make_opsetid("", g.opset)]
    try:
        schema = onnx.defs.get_schema(node.op_type, g.opset, "")
        found = infer_node_outputs(schema, proto, types, data, opset_imports=opsets, ir_version=IR_VERSIONS[g.opset])
    except (InferenceError, KeyError):
        return None
    return _dims(found.get(f"output{output.index()}"), _named_sizes(g, node))


def _shaped(g: OnnxBuilder, node: onnx_ir.Node) -> tuple[Dim, ...] | None:
    """The dims of a node that is told them by its last input."""
    told = node.inputs[-1]
    dims = None if told is None else _numbers(g, told)
    if dims is None or node.op_type == "ConstantOfShape":
        return dims
    given = g.proxies[node.inputs[0]].known_dims if node.inputs[0] is not None else None
    if node.op_type == "Reshape":
        return _reshaped(dims, given)
    return None if given is None else _broadcast(dims, given)


def _numbers(g: OnnxBuilder, value: onnx_ir.Value) -> tuple[Dim, ...] | None:
    """Known numbers in a 1-D tensor that holds sizes."""
    proxy, node = g.proxies[value], value.producer()
    if proxy.constant is not None:
        return tuple(int(size) for size in proxy.constant)
    if value in g.sizes.values:
        return (g.sizes.values[value],)
    if node is not None and node.op_type == "Shape" and not node.attributes and node.inputs[0] is not None:
        return g.proxies[node.inputs[0]].known_dims
    if node is not None and node.op_type == "Concat":
        parts = [_numbers(g, part) for part in node.inputs if part is not None]
        return None if None in parts else tuple(dim for part in parts for dim in part or ())
    length = proxy.known_dims[0] if proxy.known_dims else None
    return (None,) * length if isinstance(length, int) else None


def _reshaped(sizes: tuple[Dim, ...], given: tuple[Dim, ...] | None) -> tuple[Dim, ...]:
    """`sizes` with a -1 filled in, if that can be computed."""
    rest = [size for size in sizes if not _is(size, -1)]
    if len(rest) == len(sizes):
        return sizes
    known = given is not None and None not in given and None not in rest
    whole, part = (math.prod(given), math.prod(rest)) if known else (0, 0)  # type: ignore[arg-type]
    filled = None if _is(part, 0) else whole // part
    return tuple(filled if _is(size, -1) else size for size in sizes)


def _broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b)
    return tuple(_wider(x, y) for x, y in pairs)


def _wider(a: Dim, b: Dim) -> Dim:
    """The size of two that broadcast: a fixed one beside a dynamic one is that of the result, unless it is 1."""
    if _is(a, 1) or str(a) == str(b):
        return b
    if _is(b, 1):
        return a
    return next((size for size in (a, b) if type(size) is int), None)


def _is(size: Dim, number: int) -> bool:
    """Whether a size is this number in every run."""
    return type(size) is int and size == number


def _as_proto(node: onnx_ir.Node) -> Any:
    """The node with names for its inputs and outputs, which have none before the model is complete."""
    import onnx
    import onnx_ir

    proto = onnx.NodeProto(op_type=node.op_type)
    proto.input.extend("" if value is None else f"input{index}" for index, value in enumerate(node.inputs))
    proto.output.extend(f"output{index}" for index in range(len(node.outputs)))
    proto.attribute.extend(onnx_ir.to_proto(attribute) for attribute in node.attributes.values())
    return proto


def _known(g: OnnxBuilder, node: onnx_ir.Node) -> tuple[dict[str, Any], dict[str, Any]]:
    """Known types of the inputs, and the numbers in those that are constant."""
    import onnx

    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        proxy = g.proxies[value]
        element = ELEMENT_TYPES[proxy.dtype] if proxy.dtype else onnx.TensorProto.FLOAT
        dims = proxy.known_dims
        named = None if dims is None else [str(size) if type(size) is SizeExpr else size for size in dims]
        types[f"input{index}"] = onnx.helper.make_tensor_type_proto(element, named)
        if proxy.constant is not None and proxy.constant.size < 100:
            data[f"input{index}"] = onnx.numpy_helper.from_array(proxy.constant)
    return types, data


def _named_sizes(g: OnnxBuilder, node: onnx_ir.Node) -> dict[str, SizeExpr]:
    """The expressions among the sizes of a node's inputs, by the names that onnx knows them by."""
    dims = [g.proxies[value].known_dims or () for value in node.inputs if value is not None]
    return {str(size): size for sizes in dims for size in sizes if type(size) is SizeExpr}


def _dims(proto: Any, named: dict[str, SizeExpr]) -> tuple[Dim, ...] | None:
    if proto is None or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(_dim(dim, named) for dim in proto.tensor_type.shape.dim)


def _dim(proto: Any, named: dict[str, SizeExpr]) -> Dim:
    if proto.HasField("dim_value"):
        return int(proto.dim_value)
    return named.get(proto.dim_param)
