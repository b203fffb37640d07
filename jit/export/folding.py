"""Folding of an exported model: functions of constants, batch norms behind convolutions, the same computed twice.

1. a node all of whose operands are constants  ->  a constant
2. BatchNormalization(Conv(x, w, b))           ->  Conv(x, w', b'), and so for ConvTranspose and Gemm
3. Mul(Add(MatMul(x, w), b), s)                ->  Add(MatMul(x, w * s), b * s), and so for Div, and without b
4. two nodes that compute the same             ->  one

A weight that other nodes use, too, stays as it is (a model would hold it twice), and so does a node whose result is
larger than its operands. What a node computes says onnx's own reference implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir

SMALL = 1 << 14
"""Bytes of a result that is folded whatever its operands take."""
_KEPT = frozenset({
    "Bernoulli", "Constant", "Dropout", "If", "Loop", "Multinomial", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "Scan", "Optional", "SequenceConstruct", "SequenceEmpty",
})  # fmt: skip
"""Operators that draw, decide or hold something."""
_ON_INTEGERS = frozenset({"DequantizeLinear"})
"""Operators whose constants are wanted as they are: a quantised weight takes a quarter of what it stands for."""


_PASSES_FACTORS = frozenset({"MatMul", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators of which a factor of an operand is a factor of the result."""


class ModelFolding:
    """The folding of one model.

    Args:
        outputs: The model's outputs; where a batch norm gave one of them, it is exchanged.
        opset: The version of ONNX's operators.
        constant: The maker of constants, `(array, name)`; the name gets a number if it is taken.
        tensor: The maker of tensors for values that there are, `(array, name)`.
        element_of: The number of a value's element type.
    """

    def __init__(
        self, outputs: list[onnx_ir.Value], opset: int, constant: Callable[[Any, str], onnx_ir.Value],
        tensor: Callable[[Any, str], Any], element_of: Callable[[onnx_ir.Value], int],
    ) -> None:  # fmt: skip
        self.outputs, self.opset, self.element_of = outputs, opset, element_of
        self.constant, self.tensor = constant, tensor
        self._instead: dict[onnx_ir.Value, onnx_ir.Value] = {}
        """The values that stand for results of nodes that are gone."""
        self.changed: list[onnx_ir.Value] = []
        """Results of convolutions, which are now those of the batch norms behind them."""

    def fold(self, nodes: Sequence[onnx_ir.Node]) -> list[onnx_ir.Node]:
        """The nodes that are left of these, which stand in an order in which they can run."""
        left: list[onnx_ir.Node] = []
        known: dict[Any, onnx_ir.Node] = {}
        for node in nodes:
            if self._shared(node, known) or self._folded(node) or self._joined(node):
                _drop(node)
            else:
                left.append(node)
        scaled = [node for node in left if self._scaled_before(node)]  # when it is known what else uses a product
        for node in scaled:
            _drop(node)
        return [node for node in left if node not in scaled]

    # -- what depends on constants alone -------------------------------------------------------------------------

    def _folded(self, node: onnx_ir.Node) -> bool:
        """Whether the node's users have got its results as constants."""
        operands = [value for value in node.inputs if value is not None]
        if node.domain or node.op_type in _KEPT | _ON_INTEGERS or not operands or not all(map(_is_constant, operands)):
            return False
        if any(value in self.outputs for value in node.outputs):
            return False
        if any(len(value.uses()) > 1 for value in operands if _bytes(value) > SMALL):
            return False
        found = _computed(node, self.opset)
        if found is None or sum(array.nbytes for array in found) > max(sum(map(_bytes, operands)), SMALL):
            return False
        if any(_element(array) != self.element_of(v) for array, v in zip(found, node.outputs, strict=True)):
            return False
        source = max(operands, key=_bytes)
        for value, array in zip(node.outputs, found, strict=True):
            name = f"{(source.name or 'constant').removesuffix('_folded')}_folded"
            self._instead[value] = self.constant(array, name)
            _replace(value, self._instead[value])
        return True

    # -- batch norms ---------------------------------------------------------------------------------------------

    def _joined(self, node: onnx_ir.Node) -> bool:
        """Whether the node has become part of the layer before it, whose result nobody else uses."""
        conv = node.inputs[0].producer() if node.op_type == "BatchNormalization" and node.inputs[0] else None
        if conv is None or conv.op_type not in ("Conv", "ConvTranspose", "Gemm") or not self._are_joinable(conv, node):
            return False
        weight, bias = _joined_numbers(conv, node)
        result = conv.outputs[0]
        conv.resize_inputs(3)
        self._hold(conv, 1, weight, "")
        self._hold(conv, 2, bias, (conv.inputs[1].name or "").removesuffix("weight") + "bias")  # type: ignore[union-attr]
        self.outputs[:] = [result if value is node.outputs[0] else value for value in self.outputs]
        self._instead[node.outputs[0]] = result
        _replace(node.outputs[0], result)
        self.changed.append(result)
        return True

    def _hold(self, node: onnx_ir.Node, index: int, array: Any, name: str) -> None:
        """Let an operand be these numbers; a constant of the node alone keeps its name, as it keeps its meaning."""
        held = node.inputs[index]
        if held is not None and len(held.uses()) == 1 and held not in self.outputs:
            held.const_value = self.tensor(array, held.name or "")
        else:
            node.replace_input_with(index, self.constant(array, (held.name if held is not None else None) or name))

    def _are_joinable(self, conv: onnx_ir.Node, norm: onnx_ir.Node) -> bool:
        mode = norm.attributes.get("training_mode")
        if conv.domain or norm.domain or (mode is not None and mode.as_int()) or len(norm.outputs) > 1:
            return False
        if any(_number(conv, name, 1.0) != 1 for name in ("alpha", "beta")):
            return False
        constant = all(map(_is_constant, [*conv.inputs[1:], *norm.inputs[1:]]))
        alone = len(conv.outputs[0].uses()) == 1 and conv.outputs[0] not in self.outputs
        return constant and alone and len(conv.inputs[1].uses()) == 1  # type: ignore[union-attr]

    # -- factors -------------------------------------------------------------------------------------------------

    def _scaled_before(self, node: onnx_ir.Node) -> bool:
        """Whether weights have been multiplied by the factor that their product was multiplied, or divided, by."""
        if node.op_type not in ("Mul", "Div") or node.domain:
            return False
        at = 1 if _is_constant(node.inputs[1]) else 0
        product, factor = node.inputs[1 - at], node.inputs[at]
        is_factor = _is_constant(factor) and (at == 1 or node.op_type == "Mul")
        scale = _scale(node.op_type, factor) if is_factor else None
        if scale is None or not self._take_up(product, scale):
            return False
        assert product is not None
        self.outputs[:] = [product if value is node.outputs[0] else value for value in self.outputs]
        _replace(node.outputs[0], product)
        return True

    def _take_up(self, value: onnx_ir.Value | None, scale: Any) -> bool:
        """Multiply the weights that a value comes from, so that it is as many times itself; whether there are any.

        A number, other than a row, passes through what moves elements, and through either operand of a product.
        """
        weights = self._weights_behind(value)
        if weights and all(scale.size in (1, _numbers(weight).shape[-1]) for _, _, weight in weights):
            for user, index, weight in weights:
                numbers = _numbers(weight)
                self._hold(user, index, (numbers.astype(np.float64) * scale).astype(numbers.dtype), weight.name or "")
                self.changed.extend(user.outputs)
            return True
        node = self._made_for_one(value)
        if weights or scale.size > 1 or node is None or node.op_type not in _PASSES_FACTORS:
            return False
        operands = node.inputs if node.op_type == "MatMul" else node.inputs[:1]
        if not any(self._take_up(operand, scale) for operand in operands):
            return False
        self.changed.extend(node.outputs)
        return True

    def _made_for_one(self, value: onnx_ir.Value | None) -> onnx_ir.Node | None:
        """The node that makes a value for one other node alone."""
        node = None if value is None or len(value.uses()) > 1 or value in self.outputs else value.producer()
        return None if node is None or node.domain else node

    def _weights_behind(self, value: onnx_ir.Value | None) -> list[tuple[onnx_ir.Node, int, onnx_ir.Value]]:
        """The weight, and the bias, of the product of matrices that a value comes from: (user, operand, value)."""
        node = self._made_for_one(value)
        if node is None or node.op_type not in ("Add", "MatMul"):
            return []
        constant = 1 if _is_constant(node.inputs[1]) else 0
        weight = node.inputs[constant]
        if weight is None or not _is_own_weight(weight):
            return []
        if node.op_type == "MatMul":
            return [(node, 1, weight)] if constant == 1 and _numbers(weight).ndim == 2 else []
        found = self._weights_behind(node.inputs[1 - constant]) if _numbers(weight).ndim == 1 else []
        is_bias = len(found) == 1 and _numbers(found[0][2]).shape[1:] == _numbers(weight).shape
        return [*found, (node, constant, weight)] if is_bias else []

    # -- nodes that compute the same -----------------------------------------------------------------------------

    def _shared(self, node: onnx_ir.Node, known: dict[Any, onnx_ir.Node]) -> bool:
        """Whether the node's users have got the results of an equal one."""
        if any(value in self.outputs for value in node.outputs):
            return False
        twin = known.setdefault(_key(node), node)
        if twin is node:
            return False
        for own, other in zip(node.outputs, twin.outputs, strict=True):
            _replace(own, self._instead.get(other, other))
        return True


def _is_constant(value: onnx_ir.Value | None) -> bool:
    return value is not None and value.const_value is not None


def _is_own_weight(value: onnx_ir.Value) -> bool:
    """Whether it is a constant of one node alone, in which there is room for other numbers."""
    return _is_constant(value) and len(value.uses()) == 1 and _numbers(value).dtype in (np.float32, np.float64)


def _scale(name: str, value: onnx_ir.Value | None) -> Any:
    """A factor, or the reciprocal of a divisor, as a number or a row, in float64; None if it is more, or not finite."""
    numbers = _numbers(value).astype(np.float64)
    with np.errstate(all="ignore"):
        scale = 1 / numbers if name == "Div" else numbers
    return scale if numbers.ndim < 2 and numbers.size and np.all(np.isfinite(scale)) else None


def _numbers(value: onnx_ir.Value | None) -> Any:
    assert value is not None and value.const_value is not None
    return np.asarray(value.const_value.numpy())


def _bytes(value: onnx_ir.Value) -> int:
    return value.const_value.nbytes if value.const_value is not None else 0


def _replace(value: onnx_ir.Value, other: onnx_ir.Value) -> None:
    for user, index in list(value.uses()):
        user.replace_input_with(index, other)


def _drop(node: onnx_ir.Node) -> None:
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)


def _computed(node: onnx_ir.Node, opset: int) -> list[Any] | None:
    """The results of a node of constants; None if the reference has none."""
    import onnx
    import onnx_ir
    from onnx.reference import ReferenceEvaluator

    proto = onnx.NodeProto(op_type=node.op_type)
    proto.attribute.extend(onnx_ir.to_proto(given) for given in node.attributes.values())
    feed = {f"operand_{i}": _numbers(value) for i, value in enumerate(node.inputs) if value is not None}
    proto.input.extend("" if value is None else f"operand_{i}" for i, value in enumerate(node.inputs))
    proto.output.extend(f"result_{i}" for i in range(len(node.outputs)))
    taken = [onnx.helper.make_tensor_value_info(n, _element(a), a.shape) for n, a in feed.items()]
    made = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in proto.output]
    graph = onnx.helper.make_graph([proto], "node", taken, made)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="ignore"):
            found = list(ReferenceEvaluator(model).run(None, feed))
    except Exception:  # whatever it is that the reference cannot do, the node stays
        return None
    return found if all(isinstance(array, np.ndarray) for array in found) else None


def _element(array: Any) -> int:
    import onnx

    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def _joined_numbers(conv: onnx_ir.Node, norm: onnx_ir.Node) -> tuple[Any, Any]:
    """The weight and the bias of both together, computed in float64."""
    weight, *biases = map(_numbers, conv.inputs[1:])
    scale, shift, mean, var = (_numbers(value).astype(np.float64) for value in norm.inputs[1:])
    given = norm.attributes.get("epsilon")
    factor = scale / np.sqrt(var + (given.as_float() if given is not None else 1e-5))
    wide = _scaled(conv, weight.astype(np.float64), factor)
    bias = ((biases[0].astype(np.float64) if biases else 0.0) - mean) * factor + shift
    return wide.astype(weight.dtype), bias.astype(weight.dtype)


def _scaled(conv: onnx_ir.Node, weight: Any, factor: Any) -> Any:
    """A weight with the share of each output channel multiplied by its factor."""
    if conv.op_type == "Gemm":
        return weight * (factor[:, None] if _number(conv, "transB", 0) else factor)
    places = [1] * (weight.ndim - 2)
    if conv.op_type == "Conv":
        return weight * factor.reshape(-1, 1, *places)
    groups = int(_number(conv, "group", 1))  # channels of inputs come first, those of outputs once for each group
    parts = weight.reshape(groups, -1, *weight.shape[1:]) * factor.reshape(groups, 1, -1, *places)
    return parts.reshape(weight.shape)


def _number(node: onnx_ir.Node, name: str, default: float) -> float:
    """An attribute that is a number."""
    given = node.attributes.get(name)
    return default if given is None else given.value


def _key(node: onnx_ir.Node) -> Any:
    """Equal for nodes that compute the same; nodes that draw or have subgraphs are like no other."""
    if node.op_type in _KEPT or node.domain:
        return node
    attributes = tuple(sorted((name, exactly(given.value)) for name, given in node.attributes.items()))
    return node.op_type, attributes, tuple(node.inputs), len(node.outputs)


def exactly(value: Any) -> str:
    """All of an attribute; the text of a tensor would round its numbers."""
    held = getattr(value, "tobytes", None)
    return f"{value.dtype} {value.shape} {held().hex()}" if held is not None else repr(value)
