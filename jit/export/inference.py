"""The sizes of one node's output by onnx's shape inference, for symbolics that ask for the rank of what they wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jit.ir.types import Dim

from .opsets import ELEMENT_TYPES, IR_VERSIONS

if TYPE_CHECKING:
    import onnx_ir

    from .builder import Builder


def infer_dims(g: Builder, node: onnx_ir.Node, output: onnx_ir.Value) -> tuple[Dim, ...] | None:
    """The dims of `output`, one of `node`'s; None where even the rank is not known."""
    import onnx
    from onnx.shape_inference import InferenceError, infer_node_outputs

    if node.domain:
        return None
    types, data = _known(g, node)
    proto = _as_proto(node)
    opsets = [onnx.helper.make_opsetid("", g.opset)]
    try:
        schema = onnx.defs.get_schema(node.op_type, g.opset, "")
        found = infer_node_outputs(schema, proto, types, data, opset_imports=opsets, ir_version=IR_VERSIONS[g.opset])
    except (InferenceError, KeyError):
        return None
    return _dims(found.get(f"output{output.index()}"), set(g.axes))


def _as_proto(node: onnx_ir.Node) -> Any:
    """The node with names for its inputs and outputs, which have none before the model is complete."""
    import onnx
    import onnx_ir

    proto = onnx.NodeProto(op_type=node.op_type)
    proto.input.extend("" if value is None else f"input{index}" for index, value in enumerate(node.inputs))
    proto.output.extend(f"output{index}" for index in range(len(node.outputs)))
    proto.attribute.extend(onnx_ir.to_proto(attribute) for attribute in node.attributes.values())
    return proto


def _known(g: Builder, node: onnx_ir.Node) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known of the inputs: their types, and the numbers in those that are constant."""
    import onnx

    types: dict[str, Any] = {}
    data: dict[str, Any] = {}
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        proxy = g.proxies[value]
        element = ELEMENT_TYPES[proxy.dtype] if proxy.dtype else onnx.TensorProto.FLOAT
        types[f"input{index}"] = onnx.helper.make_tensor_type_proto(element, proxy.known_dims)
        if proxy.constant is not None and proxy.constant.size < 100:
            data[f"input{index}"] = onnx.numpy_helper.from_array(proxy.constant)
    return types, data


def _dims(proto: Any, names: set[str]) -> tuple[Dim, ...] | None:
    if proto is None or not proto.tensor_type.HasField("shape"):
        return None
    return tuple(_dim(dim, names) for dim in proto.tensor_type.shape.dim)


def _dim(proto: Any, names: set[str]) -> Dim:
    if proto.HasField("dim_value"):
        return int(proto.dim_value)
    return proto.dim_param if proto.dim_param in names else None
