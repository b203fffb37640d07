"""An ONNX backend (`onnx.backend.base.Backend`): models and nodes run on this package's operators.

>>> import numpy as np, onnx
>>> node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
>>> run_node(node, [np.float32(1), np.float32(2)])[0]
array(3., dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jit.eager.context import no_grad
from jit.eager.tensors import Tensor
from jit.ir.errors import UsageError
from jit.tracing.decorator import trace

from .files import read_model
from .importing import ImportedModel

if TYPE_CHECKING:
    import onnx


class Prepared:
    """A model that is ready to run.

    Args:
        model: The model.
        traced: Whether it runs from recordings.
    """

    def __init__(self, model: onnx.ModelProto | bytes, traced: bool) -> None:
        self._module = ImportedModel(read_model(model)).eval()
        self._run = trace(self._module) if traced and self._module.is_traceable else self._module

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs as arrays of numpy.

        Args:
            inputs: Arrays in the order of the model's inputs, a dictionary of them, or a single one.
            kwargs: Accepted and ignored.
        """
        with no_grad():
            if isinstance(inputs, dict):
                outputs = self._run(**inputs)
            else:
                outputs = self._run(*(inputs if isinstance(inputs, (list, tuple)) else (inputs,)))
        return tuple(_as_array(output) for output in (outputs if isinstance(outputs, tuple) else (outputs,)))


def _as_array(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_array(part) for part in value]
    return value.numpy() if isinstance(value, Tensor) else value


def prepare(model: onnx.ModelProto | bytes, device: str = "CPU", *, traced: bool = True, **kwargs: Any) -> Prepared:
    """Make a model ready to run.

    Args:
        model: The model.
        device: `CPU`.
        traced: Whether it runs from recordings.
        kwargs: Accepted and ignored.

    Raises:
        UsageError: The device is another one.
        ModelError: The model is not valid, or has operators that are not known.
    """
    if not supports_device(device):
        raise UsageError(f"the backend runs on the CPU, not on {device!r}")
    return Prepared(model, traced)


def run_model(model: onnx.ModelProto | bytes, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
    """Run a model once, untraced.

    Args:
        model: The model.
        inputs: As `Prepared.run` takes them.
        device: `CPU`.
        kwargs: Accepted and ignored.
    """
    return prepare(model, device, traced=False).run(inputs)


def run_node(
    node: onnx.NodeProto, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, *,
    opset_version: int | None = None, **kwargs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Run a single node.

    Args:
        node: The node.
        inputs: An array for each operand that it has.
        device: `CPU`.
        outputs_info: Accepted and ignored.
        opset_version: The operator set; the newest that onnx knows by default.
        kwargs: Accepted and ignored.
    """
    import onnx

    names = [name for name in node.input if name]
    arrays = [np.asarray(value) for value in inputs]
    types = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    given = [onnx.helper.make_tensor_value_info(n, t, a.shape) for n, t, a in zip(names, types, arrays, strict=True)]
    made = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "node", given, made)
    version = opset_version or onnx.defs.onnx_opset_version()
    opsets = [onnx.helper.make_opsetid("", version)]
    if node.domain:
        opsets.append(onnx.helper.make_opsetid(node.domain, 1))
    module = ImportedModel(onnx.helper.make_model(graph, opset_imports=opsets)).eval()
    with no_grad():
        outputs = module(*arrays)
    return tuple(_as_array(output) for output in (outputs if isinstance(outputs, tuple) else (outputs,)))


def supports_device(device: str) -> bool:
    """Whether the backend runs there.

    Args:
        device: Such as `CPU` or `CUDA:0`.
    """
    return device.partition(":")[0].upper() == "CPU"


def is_compatible(model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
    """Whether the model can be read.

    Args:
        model: The model.
        device: `CPU`.
        kwargs: Accepted and ignored.
    """
    return supports_device(device)
