"""What the tests of export share: a model as text, a model checked and run, and types of arrays."""

from typing import Any

import numpy as np
import onnx

import jit.ops  # noqa: F401  (declares the operators)
from jit.export import Exported, export_graph
from jit.export.verification import open_engine
from jit.ir import TensorType, dtypes, parse
from jit.ir.types import contiguous_strides


def type_of(array: np.ndarray) -> TensorType:
    """The type of an array, its strides included."""
    strides = tuple(step // array.itemsize for step in array.strides)
    return TensorType(
        dtypes.from_numpy(array.dtype), array.shape, None if strides == contiguous_strides(array.shape) else strides
    )


def export(text: str, **options: Any) -> Exported:
    """The checked model of a graph that is given as text."""
    return checked(export_graph(parse(text), **options))


def checked(exported: Exported) -> Exported:
    """`exported`, after onnx's checker has found nothing against it."""
    onnx.checker.check_model(exported.to_bytes(), full_check=True)
    return exported


def run(exported: Exported, **inputs: Any) -> list[np.ndarray]:
    """The outputs of a model in onnxruntime."""
    engine, function = open_engine(exported.model)
    assert engine.startswith("onnxruntime")
    return list(function(inputs).values())


def listing(exported: Exported) -> str:
    """One line per node: `y = Add(x, 2.0)`; small constants stand as their numbers."""
    return "\n".join(_line(node, exported.model.graph.initializers) for node in exported.model.graph)


def _line(node: Any, initializers: Any) -> str:
    outputs = ", ".join(value.name for value in node.outputs)
    inputs = ", ".join(_operand(value, initializers) for value in node.inputs)
    attributes = ", ".join(f"{name}={_shown(item.value)}" for name, item in sorted(node.attributes.items()))
    domain = f"{node.domain}::" if node.domain else ""
    return f"{outputs} = {domain}{node.op_type}{f'[{attributes}]' if attributes else ''}({inputs})"


def _operand(value: Any, initializers: Any) -> str:
    if value is None:
        return "-"
    if value.name in initializers and value.name.startswith("constant"):
        return str(value.const_value.numpy().tolist()).replace(" ", "")
    return str(value.name)


def _shown(item: Any) -> str:
    return str(list(item)).replace(" ", "") if isinstance(item, tuple) else str(item)
