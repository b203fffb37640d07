"""Signatures of ONNX's operators at each opset: inputs, outputs, attributes, element types, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from jit.ir.dtypes import DType

from .opsets import ELEMENT_TYPES, TYPE_STRINGS

_BY_NUMBER = {number: dtype for dtype, number in ELEMENT_TYPES.items()}
_BY_STRING = {text: dtype for dtype, text in TYPE_STRINGS.items()}


@dataclass(frozen=True)
class Formal:
    """A declared input or output."""

    name: str
    letter: str
    """The type variable, such as `T`; inputs and outputs with the same one have the same element type."""
    allowed: frozenset[str]
    """Element types that may stand there: `tensor(float)`, ..."""
    variadic: bool
    homogeneous: bool
    """Whether the members of a variadic one share their element type."""
    required: bool
    """Whether it may not be left out."""


@dataclass(frozen=True)
class OnnxAttribute:
    """A declared attribute: its kind (`INT`, `FLOATS`, ...) and its default (None: there is none)."""

    kind: str
    default: Any


@dataclass(frozen=True)
class Signature:
    """One operator as one opset knows it."""

    name: str
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, OnnxAttribute]

    def formal(self, index: int) -> Formal | None:
        """The declaration of input number `index`; None beyond the last."""
        if index < len(self.inputs):
            return self.inputs[index]
        return self.inputs[-1] if self.inputs and self.inputs[-1].variadic else None

    def result_dtype(
        self, index: int, inputs: list[tuple[int, DType | None]], attributes: dict[str, Any]
    ) -> DType | None:
        """The element type of output `index`, given (input number, dtype) pairs; None where it cannot be told.

        Args:
            index: The number of the output.
            inputs: Pairs of an input's number and its element type.
            attributes: The node's attributes.
        """
        formal = self.outputs[min(index, len(self.outputs) - 1)]
        for name in ("to", "dtype", "output_datatype", "output_dtype"):
            if attributes.get(name) in _BY_NUMBER and name in self.attributes:
                return _BY_NUMBER[attributes[name]]
        for number, dtype in inputs:
            declared = self.formal(number)
            if declared is not None and declared.letter == formal.letter and dtype is not None:
                return dtype
        if len(formal.allowed) == 1:
            return _BY_STRING.get(next(iter(formal.allowed)))
        return inputs[0][1] if self.name.endswith("Like") and inputs else None


@cache
def signature(name: str, opset: int) -> Signature | None:
    """The operator `name` of the standard domain as `opset` knows it, or None if it does not."""
    import onnx.defs

    try:
        schema = onnx.defs.get_schema(name, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    attributes = {key: OnnxAttribute(_kind(item), _default(item)) for key, item in schema.attributes.items()}
    return Signature(name, tuple(map(_formal, schema.inputs)), tuple(map(_formal, schema.outputs)), attributes)


@cache
def first_opset(name: str) -> int | None:
    """The first opset of the standard domain that has the operator, or None if there is no such operator."""
    import onnx.defs

    versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == name and not s.domain]
    return min(versions, default=None)


def _formal(declared: Any) -> Formal:
    variadic = declared.option.name == "Variadic"
    required = declared.option.name == "Single"
    return Formal(
        declared.name, declared.type_str, frozenset(declared.types), variadic, declared.is_homogeneous, required
    )


def _kind(declared: Any) -> str:
    return str(declared.type).rpartition(".")[2]


def _default(declared: Any) -> Any:
    import onnx

    proto = declared.default_value
    return onnx.helper.get_attribute_value(proto) if proto is not None and proto.name else None
