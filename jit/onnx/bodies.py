"""Operators that are made of others: a model's own functions, and ONNX's function bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jit.eager.tensors import Tensor
from jit.export.opsets import ELEMENT_TYPES

from .model_context import ModelContext
from .values import Known

if TYPE_CHECKING:
    import onnx

Body = tuple[Any, "onnx.FunctionProto | None", Mapping[str, int]]


def body_of(node: onnx.NodeProto, operands: Sequence[Any], context: ModelContext) -> Body:
    """A key of the body, the body of a node (None if it has none), and the opsets that it is written in."""
    own = context.functions.get((node.domain, node.op_type))
    if own is not None:
        return None, own, {imported.domain: imported.version for imported in own.opset_import}
    return _from_schema(node, operands, context)


def _from_schema(node: onnx.NodeProto, operands: Sequence[Any], context: ModelContext) -> Body:
    import onnx

    version = context.opsets.get(node.domain, context.opsets.get("", 1))
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None, None, {}
    if schema.has_function:
        return None, *_parsed(schema.function_body.SerializeToString())
    if not schema.has_context_dependent_function:
        return None, None, {}
    if any(isinstance(operand, list) for operand in operands):
        return None, None, {}
    types = [_type(operand) for operand in operands]
    key = tuple(t.SerializeToString() for t in types)
    fitting = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not fitting:
        return key, None, {}
    text = schema.get_context_dependent_function_with_opset_version(fitting[-1], node.SerializeToString(), list(key))
    return key, *_parsed(text)


def _parsed(text: bytes) -> tuple[onnx.FunctionProto, Mapping[str, int]]:
    import onnx

    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body, {imported.domain: imported.version for imported in body.opset_import}


def _type(value: Any) -> onnx.TypeProto:
    import onnx

    if isinstance(value, Tensor):
        return onnx.helper.make_tensor_type_proto(ELEMENT_TYPES[value.dtype], [None] * value.ndim)
    if isinstance(value, Known):
        return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.array.shape)
    return onnx.TypeProto()
